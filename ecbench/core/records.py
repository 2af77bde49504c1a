"""Results as they are kept: frozen records that become JSON and come back from it.

Units are part of the names (``_s``, ``_bytes``). Figures that follow from samples (`LegResult.median_s` and its
neighbours) are filled in by `ecbench.stats.summary`, also after loading, so a stored figure is never trusted.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

SCHEMA_VERSION = 1

Param = str | int | float | bool | None | list[str | int]
"""A value in `CaseResult.params` or `RunResult.settings`."""


class LegStatus(StrEnum):
    """How one direction of a case ended."""

    PASSED = "passed"
    """Measured, and every byte was right."""
    FAILED = "failed"
    """Measured, and a byte was wrong; `Verify.fault` names how."""
    SKIPPED = "skipped"
    """Not run; the reason says why."""
    ERROR = "error"
    """Refused or broke; the reason holds the exception and the mend."""


class Fault(StrEnum):
    """What is wrong with the final memory; the first rule that fits names a descriptor's fault, in this order."""

    SOURCE_CHANGED = "source_changed"
    """A source byte differs from what was put there."""
    OVERRUN = "overrun"
    """A byte outside every destination changed."""
    MISSING = "missing"
    """The destination is all poison."""
    STALE = "stale"
    """The destination holds an earlier round's content."""
    SWAPPED = "swapped"
    """The destination holds all of another descriptor's content of this round."""
    SHIFTED = "shifted"
    """The destination holds this source's content at a constant other offset."""
    TRUNCATED = "truncated"
    """The destination holds a right prefix, then poison."""
    TORN = "torn"
    """The destination holds any other mix of right, poison and stale words."""
    CORRUPT = "corrupt"
    """None of the other rules fits."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all records. Unknown fields are ignored on reading, so results of a later minor version load."""


class Sample(Record, frozen=True, kw_only=True):
    """One measured round."""

    process: int
    """Number of the process that ran the round, from 0."""
    round: int
    """Number of the round within its process, from 0."""
    total_s: float
    """Wall time from the first save or load call until the copy was complete."""
    fill_s: float
    """Writing descriptors."""
    submit_s: float
    """Handing the batch to the engine, without the copy where the copy runs inside the call."""
    copy_s: float
    """Moving bytes: device events, or the wall clock on the CPU."""
    ceiling_s: float
    """One contiguous copy of as many bytes between the same two kinds of memory, in the same round."""


class Mismatch(Record, frozen=True, kw_only=True):
    """The wrong byte with the lowest destination offset."""

    descriptor: int | None
    """Index of the block-wise copy it belongs to; null where no copy writes there."""
    offset_bytes: int
    """Offset in the destination buffer, guard included; in the source buffer for ``source_changed``."""
    expected: int
    """Byte value that was expected, 0 to 255."""
    found: int
    """Byte value that was found, 0 to 255."""


class Verify(Record, frozen=True, kw_only=True):
    """What verification saw over all rounds of a leg; a leg ends with its first failing round."""

    ok: bool
    """No byte was wrong."""
    checked_bytes: int
    """Bytes compared: source, destination and everything around it."""
    mismatched_bytes: int
    """Wrong bytes inside destinations."""
    source_changed: bool
    """A source byte was altered."""
    stray_bytes: int
    """Bytes altered outside every destination."""
    fault: Fault | None
    """The class seen in the failing round that comes first in the order of `Fault`."""
    first_mismatch: Mismatch | None
    """Where it went wrong first."""
    fault_counts: dict[str, int] = {}
    """Descriptors per fault class in the failing round."""


class LegResult(Record, frozen=True, kw_only=True):
    """One direction of a case."""

    direction: str
    """``save`` or ``load`` (EC), ``store`` or ``load`` (KV)."""
    status: LegStatus
    reason: str | None = None
    """Why the status is not ``passed``."""
    notes: list[str] = []
    """What a reader must know about the path taken: emulation, cache-sized working set, fallbacks."""
    engine: str | None = None
    """Copy engine that ran."""
    writer: str | None = None
    """Descriptor writer that ran."""
    samples: list[Sample] = []
    blocks: int = 0
    """Blocks moved in each round."""
    descriptors: int = 0
    """Descriptors submitted in each round."""
    copied_bytes: int = 0
    """Bytes moved in each round."""
    median_s: float | None = None
    """Median of `Sample.total_s`."""
    ci_low_s: float | None = None
    ci_high_s: float | None = None
    bandwidth_bytes_per_s: float | None = None
    ceiling_bytes_per_s: float | None = None
    ceiling_ratio: float | None = None
    """Median over rounds of ceiling time / total time: 1.0 is a plain contiguous copy."""
    verify: Verify | None = None


class CaseResult(Record, frozen=True, kw_only=True):
    """A round trip: one workload with one set of parameters."""

    case_id: str
    workload: str
    params: dict[str, Param]
    legs: list[LegResult]


class Environment(Record, frozen=True, kw_only=True):
    """Where a result comes from; decides what it may be compared with."""

    device: str
    """Device as asked for and resolved, with its index: ``cpu``, ``cuda:1``, ``xpu-sim``."""
    device_name: str
    """The product's name."""
    torch: str
    numpy: str
    python: str
    ecbench: str
    driver: str | None
    host_cpu: str
    host_cpus: int
    """Cores this process may run on."""
    host_memory_bytes: int
    last_level_cache_bytes: int | None
    kernel: str
    pinning: str
    """How host memory was made visible to the device."""
    emulation: str | None
    """What stands in for hardware; null where nothing does."""
    stand_ins: list[str] = []
    """Replaced parts of the target, by name."""
    vllm: str | None = None
    """Version of the vLLM whose connectors or scheduler took part; null where none did."""


CaseT = TypeVar("CaseT")


class RunResult(Record, Generic[CaseT], frozen=True, kw_only=True):
    """All that one command found."""

    schema_version: int
    kind: str
    """The command's name."""
    started_at: str
    """UTC, ISO 8601."""
    environment: Environment
    settings: dict[str, Param]
    cases: list[CaseT]
    complete: bool = True
    """False where the run was interrupted; the cases that were finished are here."""
    ended_by: str | None = None
    """The error that ended an incomplete run, such as a lost device; null where the user did."""
    stages_s: dict[str, float] = {}
    """Wall time of the command by named stage; ``other`` is the rest."""


RoundTripResult = RunResult[CaseResult]


def to_json(record: Record) -> bytes:
    """Encodes a record as indented JSON that ends with a newline."""
    return msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"
