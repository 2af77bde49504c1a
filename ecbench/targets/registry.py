"""Which targets there are. To add one: a class with the members of `Target`, and an entry in `TARGETS`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ecbench.core.errors import unknown_name
from ecbench.core.registry import load_registered
from ecbench.engine.registry import AUTO
from ecbench.transfer.writers import DEFAULT_WRITER

if TYPE_CHECKING:
    from ecbench.core.protocols import Device
    from ecbench.targets.protocol import Target


@dataclass(frozen=True)
class TargetEntry:
    """A target as the registry knows it.

    Args:
        loads: ``"module:function"`` that takes device, engine and writer.
        does: What it is, in one line.
        requirement: ``"module:function"`` that says what is missing here; None where nothing is needed.
        version: ``"module:function"`` that says which version is installed; None where it is ecbench's own.
    """

    loads: str
    does: str
    requirement: str | None = None
    version: str | None = None


REFERENCE = "reference"
TARGETS: dict[str, TargetEntry] = {
    REFERENCE: TargetEntry(
        "ecbench.targets.reference_target:open_reference", "ecbench's own connectors, with any engine and writer"
    ),
    "vllm": TargetEntry(
        "ecbench.targets.vllm.target:open_vllm",
        "the installed vLLM's encoder-cache connector and KV offloading worker",
        requirement="ecbench.targets.vllm.installation:why_unavailable",
        version="ecbench.targets.vllm.installation:installed_version",
    ),
}
BOTH = "both"
"""All targets side by side, their rounds interleaved."""
TARGET_CHOICES: tuple[str, ...] = (*TARGETS, BOTH)


def names_of(choice: str) -> tuple[str, ...]:
    """The targets that a choice stands for.

    Raises:
        EcbenchError: No such choice; the message lists them.
    """
    if choice not in TARGET_CHOICES:
        raise unknown_name("target", choice, TARGET_CHOICES)
    return tuple(TARGETS) if choice == BOTH else (choice,)


def why_unavailable(name: str) -> str | None:
    """Why a target cannot run here, found without importing it; None where it is worth trying.

    Args:
        name: Key of `TARGETS`.
    """
    return _ask(name, TARGETS[name].requirement)


def version_of(name: str) -> str | None:
    """Which version of a target is installed, found without importing it; None where there is none.

    Args:
        name: Key of `TARGETS`.
    """
    return _ask(name, TARGETS[name].version)


def _ask(name: str, function: str | None) -> str | None:
    if function is None:
        return None
    answer: str | None = load_registered("target", name, {name: function})()
    return answer


def import_notice(choice: str) -> str | None:
    """What a user should know before a target's import keeps them waiting; None where none does.

    Args:
        choice: One of `TARGET_CHOICES`.

    Raises:
        EcbenchError: No such choice.
    """
    slow = [
        f"{name} {version_of(name)}"
        for name in names_of(choice)
        if TARGETS[name].requirement is not None and why_unavailable(name) is None
    ]
    return f"importing {' and '.join(slow)}: this takes some seconds" if slow else None


def open_target(name: str, device: Device, *, engine: str = AUTO, writer: str = DEFAULT_WRITER) -> Target:
    """Opens one target for a device.

    Args:
        name: Registered name.
        device: What it is to run on.
        engine: Registered engine.
        writer: Registered writer.

    Raises:
        EcbenchError: An unknown name, or something that the target leaves to nobody.
        UnavailableError: The target cannot run here.
    """
    opened: Target = load_registered("target", name, {key: entry.loads for key, entry in TARGETS.items()})(
        device, engine, writer
    )
    return opened


def open_targets(choice: str, device: Device, *, engine: str = AUTO, writer: str = DEFAULT_WRITER) -> list[Target]:
    """Opens what a choice stands for; with several, engine and writer are the reference's.

    Args:
        choice: One of `TARGET_CHOICES`.
        device: What they are to run on.
        engine: Registered engine.
        writer: Registered writer.

    Raises:
        EcbenchError: As `open_target`.
    """
    names = names_of(choice)
    if len(names) == 1:
        return [open_target(choice, device, engine=engine, writer=writer)]
    chosen = {REFERENCE: {"engine": engine, "writer": writer}}
    return [open_target(name, device, **chosen.get(name, {})) for name in names]
