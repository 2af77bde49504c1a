"""Which files are scanned, and what becomes of files that cannot be."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ecbench.core.errors import EcbenchError, ExitCode
from ecbench.core.scan_records import Severity
from ecbench.pointers.scanner.sources import package_folder, python_files, scan_file, scan_files

UNSAFE = "import torch\n\n\ndef table(x):\n    return torch.tensor([x.data_ptr()])\n"


def write(folder, name, content=UNSAFE):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def relative_names(folder):
    return [file.relative for file in python_files(folder)]


def only_result(path):
    (file,) = python_files(path)
    return scan_file(file)


def test_python_files_are_found_at_any_depth_in_order(tmp_path):
    for name in ("b.py", "a/c.py", "a/a.py", "notes.txt", "a/data.pyc"):
        write(tmp_path, name)
    assert relative_names(tmp_path) == ["a/a.py", "a/c.py", "b.py"]


def test_hidden_folders_caches_and_virtual_environments_are_left_out(tmp_path):
    write(tmp_path, "kept.py")
    for name in (".git/hook.py", "__pycache__/cached.py", "env/lib/site.py", "env/pyvenv.cfg"):
        write(tmp_path, name)
    assert relative_names(tmp_path) == ["kept.py"]


def test_links_that_loop_or_name_a_file_twice_give_each_file_once(tmp_path):
    write(tmp_path, "package/module.py")
    (tmp_path / "package" / "again").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "copy.py").symlink_to(tmp_path / "package" / "module.py")
    (tmp_path / "broken.py").symlink_to(tmp_path / "nowhere.py")
    (tmp_path / "self.py").symlink_to(tmp_path / "self.py")
    assert len(relative_names(tmp_path)) == 1


def test_a_linked_folder_outside_is_followed(tmp_path):
    write(tmp_path, "elsewhere/module.py")
    root = tmp_path / "root"
    root.mkdir()
    (root / "linked").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    assert relative_names(root) == ["linked/module.py"]


def test_paths_count_from_the_outermost_package_however_the_scan_is_started(tmp_path, monkeypatch):
    for name in ("package/__init__.py", "package/nvidia/__init__.py", "package/nvidia/module.py"):
        write(tmp_path, name, "")
    monkeypatch.chdir(tmp_path / "package")
    names = {relative_names(root)[-1] for root in (tmp_path, tmp_path / "package", tmp_path / "package" / "nvidia")}
    names |= {
        python_files(path)[0].relative for path in (Path("nvidia/module.py"), tmp_path / "package/nvidia/module.py")
    }
    assert names == {"package/nvidia/module.py"}


def test_a_platforms_name_above_the_sources_says_nothing(tmp_path):
    write(tmp_path, "home/cuda/project/module.py")
    (finding,) = only_result(tmp_path / "home" / "cuda" / "project").findings
    assert finding.severity is Severity.CRASH


def test_a_file_is_scanned_whatever_its_ending(tmp_path):
    assert len(only_result(write(tmp_path, "script")).findings) == 1


def test_a_missing_path_is_a_usage_error(tmp_path):
    with pytest.raises(EcbenchError, match="does not exist") as caught:
        python_files(tmp_path / "missing")
    assert caught.value.exit_code is ExitCode.USAGE


def test_a_folder_without_python_is_a_usage_error(tmp_path):
    write(tmp_path, "README.md", "text")
    with pytest.raises(EcbenchError, match="no Python file"):
        python_files(tmp_path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("def broken(:\n", "invalid syntax"),
        (b"x = '\xff'\n", "utf-8"),
        (b"# -*- coding: no-such-encoding -*-\nx = 1\n", "encoding"),
        (b"x = 1\0\n", "null"),
        ("(" * 500 + ")" * 500, "nested"),
        ("x = " + "-" * 100_000 + "1\n", "nested"),
    ],
    ids=["syntax", "not-utf-8", "unknown-encoding", "null-byte", "parentheses", "operators"],
)
def test_a_file_that_is_no_python_is_reported_with_a_reason(tmp_path, content, reason):
    scanned = only_result(write(tmp_path, "bad.py", content))
    assert scanned.findings == ()
    assert scanned.unparsable is not None
    assert reason in scanned.unparsable.reason.lower()
    assert "\n" not in scanned.unparsable.reason


def test_a_syntax_error_names_its_line(tmp_path):
    scanned = only_result(write(tmp_path, "bad.py", "x = 1\n\ny = = 2\n"))
    assert scanned.unparsable.line == 3


def test_an_unreadable_file_is_reported(tmp_path):
    (file,) = python_files(write(tmp_path, "gone.py"))
    file.path.unlink()
    assert scan_file(file).unparsable.reason == "No such file or directory"


def test_a_deeply_nested_expression_is_reported_and_not_raised(tmp_path):
    text = "def f(x):\n    return x.data_ptr()" + " + 1" * 5000 + "\n"
    scanned = only_result(write(tmp_path, "deep.py", text))
    assert "nested too deeply" in scanned.unparsable.reason


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252"])
def test_declared_encodings_are_honoured(tmp_path, encoding):
    text = f"# -*- coding: {encoding.removesuffix('-sig')} -*-\nname = 'é'\n{UNSAFE}"
    assert len(only_result(write(tmp_path, "coded.py", text.encode(encoding))).findings) == 1


def test_a_comment_that_is_no_utf_8_does_not_stop_the_scan(tmp_path):
    content = b"# na\xefve\n" + UNSAFE.replace("()])", "()])  # ecbench: ignore[R1] checked").encode()
    assert only_result(write(tmp_path, "comment.py", content)).suppressed == 1


def test_windows_line_ends_do_not_move_lines(tmp_path):
    (finding,) = only_result(write(tmp_path, "dos.py", UNSAFE.replace("\n", "\r\n"))).findings
    assert finding.line == 5


def test_names_that_are_no_utf_8_are_shown_as_escapes(tmp_path):
    folder = tmp_path / b"odd\xff".decode("utf-8", "surrogateescape")
    try:
        write(folder, "module.py")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    (finding,) = only_result(folder).findings
    finding.path.encode("utf-8")


def test_many_processes_find_what_one_finds_in_the_same_order(tmp_path):
    for number in range(40):
        write(tmp_path, f"module_{number:02}.py", "# line\n" * number + UNSAFE)
    write(tmp_path, "module_99.py", "def broken(:\n")
    files = python_files(tmp_path)
    assert scan_files(files, processes=2) == scan_files(files, processes=1)


def test_a_package_is_found_without_importing_it(tmp_path, monkeypatch):
    write(tmp_path, "scanned_package/__init__.py", "raise RuntimeError('imported')\n")
    write(tmp_path, "scanned_package/inner/module.py")
    write(tmp_path, "scanned_module.py", "raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert package_folder("scanned_package") == tmp_path / "scanned_package"
    assert package_folder("scanned_package.inner") == tmp_path / "scanned_package" / "inner"
    assert package_folder("scanned_module") == tmp_path / "scanned_module.py"
    assert not {"scanned_package", "scanned_module"} & set(sys.modules)


@pytest.mark.parametrize("name", ["no_such_package_at_all", "email.no_such_part", "", "..", "email..message", "math"])
def test_a_package_without_sources_is_a_usage_error(name):
    with pytest.raises(EcbenchError, match="package"):
        package_folder(name)
