"""Finds Python files, reads them without importing anything, and scans them on all cores."""

from __future__ import annotations

import ast
import gc
import os
import re
import signal
import stat
import symtable
import tokenize
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.machinery import PathFinder
from io import BytesIO
from multiprocessing import get_context
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from ecbench.core.errors import EcbenchError
from ecbench.core.scan_records import Finding, UnparsableFile
from ecbench.pointers.scanner import naming
from ecbench.pointers.scanner.baseline import identified
from ecbench.pointers.scanner.findings import find_in
from ecbench.pointers.scanner.suppressions import Suppressions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MIN_FILES_PER_PROCESS = 64
"""Below this many files a further process costs more than it saves (starting one takes about 0.2 s)."""
_FILES_PER_TASK = 16
_COLLECT_GARBAGE_EVERY = 100_000
"""New objects between collections: syntax trees have no cycles, and looking for some costs a tenth of the time."""

_SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules"})
_MAY_MATTER = re.compile(
    rb"data_ptr|multicast_ptr|buffer_ptrs|signal_pad_ptrs|uint64|(?:ptr|addr|address|pointer)\s*:\s*[\"']?int\b"
)
"""Every address starts at one of these words, so other files need no analysis, only a check that they parse."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to scan."""

    path: Path
    shown: str
    """The path as findings show it."""
    relative: str
    """The path from the outermost package, or from the folder that is scanned: identities and platforms go by it."""


@dataclass(frozen=True, slots=True)
class ScannedFile:
    """What scanning one file gave."""

    findings: tuple[Finding, ...] = ()
    suppressed: int = 0
    suppressed_without_reason: int = 0
    unparsable: UnparsableFile | None = None


def package_folder(name: str) -> Path:
    """Where an installed package lies, found without importing it.

    Args:
        name: A package or module, also a dotted one.

    Raises:
        EcbenchError: There is no such package, or it has no Python source.
    """
    search: list[str] | None = None
    origin: str | None = None
    for part in name.split("."):
        spec = PathFinder.find_spec(part, search) if part else None
        if spec is None:
            raise EcbenchError(f"package {name!r} is not installed here: install it, or give the path of its sources")
        search = list(spec.submodule_search_locations or [])
        origin = spec.origin
    if search:
        return Path(search[0])
    if origin is None or not origin.endswith(".py"):
        raise EcbenchError(f"package {name!r} has no Python source: give the path of its sources")
    return Path(origin)


def python_files(root: Path) -> list[SourceFile]:
    """The Python files under a folder, or the one file given, each once; symbolic links that loop are no problem.

    Args:
        root: A folder or a file.

    Raises:
        EcbenchError: There is nothing there, or no Python file in it.
    """
    if not root.exists():
        raise EcbenchError(f"path {str(root)!r} does not exist: give a file, a folder, or --package NAME")
    if not root.is_dir():
        return [SourceFile(root, _printable(root), _printable(_packages(root.parent) / root.name))]
    within, found = _packages(root), sorted(_walk(root, set(), set()))
    files = [SourceFile(path, _printable(path), _printable(within / path.relative_to(root))) for path in found]
    if not files:
        raise EcbenchError(f"folder {str(root)!r} holds no Python file: give the folder of the sources")
    return files


def _walk(folder: Path, folders: set[tuple[int, int]], files: set[tuple[int, int]]) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: (entry.is_symlink(), entry.name))
    except OSError:
        return
    for entry in entries:
        try:
            status = entry.stat()
        except OSError:
            continue
        identity = (status.st_dev, status.st_ino)
        if stat.S_ISDIR(status.st_mode):
            if identity not in folders and not _is_skipped(entry):
                folders.add(identity)
                yield from _walk(Path(entry.path), folders, files)
        elif entry.name.endswith(".py") and stat.S_ISREG(status.st_mode) and identity not in files:
            files.add(identity)
            yield Path(entry.path)


def _packages(folder: Path) -> PurePath:
    """The packages that a folder is, and is in, outermost first."""
    folder, names = folder.absolute(), list[str]()
    while (folder / "__init__.py").exists():
        names.insert(0, folder.name)
        folder = folder.parent
    return PurePath(*names)


def _printable(path: PurePath) -> str:
    """The path with forward slashes; bytes of a name that are no UTF-8 are shown as escapes."""
    return path.as_posix().encode("utf-8", "backslashreplace").decode()


def _is_skipped(entry: os.DirEntry[str]) -> bool:
    return entry.name in _SKIPPED_FOLDERS or entry.name.startswith(".") or Path(entry.path, "pyvenv.cfg").exists()


def scan_file(file: SourceFile) -> ScannedFile:
    """Reads and analyses one file; whatever is wrong with it becomes part of the result.

    Args:
        file: The file.
    """
    try:
        content = file.path.read_bytes()
    except OSError as error:
        return _unparsable(file, None, error.strerror or type(error).__name__)
    return scan_content(content, file)


def scan_content(content: bytes, file: SourceFile) -> ScannedFile:
    """Analyses the content of a file.

    Args:
        content: The bytes; their encoding is what the source declares, else UTF-8.
        file: Where it comes from.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a source's invalid escapes are not our reader's concern
            if _MAY_MATTER.search(content) is None:
                _check_syntax(content)
                return ScannedFile()
            tree = ast.parse(content)
        findings = identified(find_in(tree, file.shown, naming.platform_folder(file.relative)), file.relative)
    except SyntaxError as error:
        return _unparsable(file, error.lineno, error.msg)
    except (ValueError, UnicodeError) as error:
        return _unparsable(file, None, str(error))
    except (RecursionError, MemoryError):
        return _unparsable(file, None, "nested too deeply to analyse")
    suppressions = Suppressions(_decoded(content))
    kept = tuple(finding for finding in findings if not suppressions.accepts(finding))
    unexplained = sum(suppressions.lacks_reason(finding) for finding in findings)
    return ScannedFile(kept, len(findings) - len(kept), unexplained)


def _check_syntax(content: bytes) -> None:
    """Raises what parsing would raise; a symbol table takes two thirds of the time of a syntax tree."""
    try:
        symtable.symtable(content, "<source>", "exec")  # type: ignore[arg-type]  # it takes bytes as well
    except (SyntaxError, RecursionError):  # it also refuses what parses but does not compile
        ast.parse(content)


def _decoded(content: bytes) -> str:
    try:
        encoding, _ = tokenize.detect_encoding(BytesIO(content).readline)
        return content.decode(encoding, errors="replace")
    except (SyntaxError, LookupError, UnicodeError):  # stricter than the parser, which has read the file
        return content.decode("utf-8", errors="replace")


def _unparsable(file: SourceFile, line: int | None, reason: str) -> ScannedFile:
    return ScannedFile(unparsable=UnparsableFile(path=file.shown, line=line, reason=_one_line(reason)))


def _one_line(text: str) -> str:
    return " ".join(text.encode("utf-8", "backslashreplace").decode().split())


def scan_files(files: list[SourceFile], processes: int | None = None) -> list[ScannedFile]:
    """Scans files on all cores that this process may use.

    Args:
        files: The files.
        processes: Processes to use; None for as many as pay off.

    Returns:
        One result for each file, in the same order.
    """
    if processes is None:
        processes = min(len(os.sched_getaffinity(0)), -(-len(files) // MIN_FILES_PER_PROCESS))
    if processes <= 1:
        return [scan_file(file) for file in files]
    context = get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_prepare_process) as pool:
        return _in_order(pool.map(scan_file, files, chunksize=_FILES_PER_TASK), pool)


def _in_order(results: Iterable[ScannedFile], pool: ProcessPoolExecutor) -> list[ScannedFile]:
    try:
        return list(results)
    except KeyboardInterrupt:
        pool.shutdown(wait=False, cancel_futures=True)
        raise


def _prepare_process() -> None:
    gc.set_threshold(_COLLECT_GARBAGE_EVERY)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops the pool
