"""Whether a class offers what a target must, found before any check runs."""

from __future__ import annotations

import inspect
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecbench.core.conformance_protocols import (
    ConformanceAllocator,
    ConformanceRegion,
    ConformanceScheduler,
    ConformanceTarget,
    ConformanceWorker,
)
from ecbench.core.errors import EcbenchError
from ecbench.encoder_cache.conformance.bench import Bench
from ecbench.encoder_cache.conformance.outputs import BLOCK_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHM = Path("/dev/shm")  # noqa: S108 - where targets keep their regions


def refuse_incomplete(target: object) -> None:
    """Looks at a target without using it, but for the names of its files.

    Raises:
        EcbenchError: Something is missing or has another signature, or its files cannot be told from others.
    """
    _refuse(target, ConformanceTarget, "target")
    _refuse_unsafe_files(target)


def refuse_incomplete_parts(target: ConformanceTarget, names: Iterator[str]) -> None:
    """Makes one part of each kind and looks at it. A part that cannot be made is left to the checks.

    Args:
        target: A target that is complete itself.
        names: For its connectors and regions.

    Raises:
        EcbenchError: Something is missing or has another signature.
    """
    bench = Bench(target, names, 0)
    region_name = bench.new_name()
    makers: dict[Any, Callable[[], object]] = {
        ConformanceAllocator: lambda: bench.allocator(1),
        ConformanceRegion: lambda: target.create_region(region_name, 1, BLOCK_BYTES),
        ConformanceWorker: lambda: target.worker(bench.spec()),
        ConformanceScheduler: lambda: target.scheduler(bench.spec()),
    }
    for protocol, make in makers.items():
        part = None
        with suppress(Exception):
            part = make()
        if part is not None:
            _refuse(part, protocol, protocol.__name__.removeprefix("Conformance").lower())
            with suppress(Exception):
                getattr(part, "cleanup", getattr(part, "shutdown", lambda: None))()


def _refuse(found: object, protocol: type, what: str) -> None:
    name = type(found).__name__
    for member, wanted in _members(protocol):
        if not _has(found, member):
            raise EcbenchError(f"{what} {name} has no {member!r}: see {protocol.__module__}.{protocol.__name__}")
        if inspect.isfunction(wanted):
            _refuse_signature(getattr(found, member), wanted, f"{what} {name}")


def _members(protocol: type) -> Iterator[tuple[str, object]]:
    annotated = ((member, None) for member in inspect.get_annotations(protocol))
    defined = ((member, value) for member, value in vars(protocol).items() if not member.startswith("_"))
    return chain(annotated, defined)


def _has(found: object, member: str) -> bool:
    """Tells whether there is such a member, without running what a property computes."""
    return member in getattr(found, "__dict__", {}) or inspect.getattr_static(type(found), member, None) is not None


def _refuse_signature(method: object, wanted: Callable[..., object], owner: str) -> None:
    _, *parameters = inspect.signature(wanted).parameters
    shown = f"{wanted.__name__}({', '.join(parameters)})"
    if not callable(method):
        raise EcbenchError(f"{owner}: {wanted.__name__!r} cannot be called: make it a method {shown}")
    try:
        signature = inspect.signature(method)
        signature.bind(*parameters)
    except TypeError as error:
        raise EcbenchError(f"{owner}: {wanted.__name__}{signature} cannot be called as {shown} ({error})") from error
    except ValueError:
        return  # a compiled function without a signature


def _refuse_unsafe_files(target: Any) -> None:
    name = "ecbench-name"
    owner = f"target {type(target).__name__}"
    try:
        files = list(target.files(name))
    except Exception as error:
        raise EcbenchError(f"{owner}: files({name!r}) raises {type(error).__name__}: {error}") from error
    for path in files:
        if not isinstance(path, str) or Path(path).parent != SHM or name not in Path(path).name:
            raise EcbenchError(
                f"{owner}: files({name!r}) gives {path!r}: give paths in {SHM} whose file names hold the name, "
                "so that nobody else's file is removed"
            )
