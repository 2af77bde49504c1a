"""Targets of ``conformance``: by name, or as ``module:Class``."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, cast

from ecbench.core.errors import EcbenchError, UnavailableError, unknown_name

if TYPE_CHECKING:
    from ecbench.core.conformance_protocols import ConformanceTarget

CONFORMANCE_TARGETS: dict[str, str] = {
    "reference": "ecbench.targets.reference_conformance:ReferenceConformance",
    "vllm": "ecbench.targets.vllm.conformance:VllmConformance",
}


def locate_target(name: str) -> str:
    """Where a target's class is, without importing it.

    Args:
        name: A registered name, or ``module:Class``.

    Returns:
        ``module:Class``.

    Raises:
        EcbenchError: Neither of the two.
    """
    if name in CONFORMANCE_TARGETS:
        return CONFORMANCE_TARGETS[name]
    module, colon, attribute = name.partition(":")
    if colon and attribute.isidentifier() and all(part.isidentifier() for part in module.split(".")):
        return name
    raise unknown_name("target", name, (*CONFORMANCE_TARGETS, "module:Class"))


def open_target(name: str) -> ConformanceTarget:
    """Imports a target's class and makes the target. Runs code of the target.

    Args:
        name: As for `locate_target`.

    Raises:
        UnavailableError: It cannot be imported, or cannot be made.
        EcbenchError: The module has no such class.
    """
    module, attribute = locate_target(name).split(":")
    found = _import(name, module)
    if not isinstance(getattr(found, attribute, None), type):
        raise EcbenchError(f"target {name}: {module} has no class {attribute!r}: give module:Class")
    try:
        return cast("ConformanceTarget", getattr(found, attribute)())
    except EcbenchError:
        raise
    except (Exception, SystemExit) as error:
        raise UnavailableError(f"target {name}: {attribute}() raises {_one_line(error)}: mend it first") from error


def _import(name: str, module: str) -> Any:
    try:
        return importlib.import_module(module)
    except EcbenchError:
        raise
    except (Exception, SystemExit) as error:
        raise UnavailableError(
            f"target {name}: the import of {module} fails with {_one_line(error)}: "
            "install it, or start ecbench where it can be imported"
        ) from error


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
