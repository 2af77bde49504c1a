"""Results of ``probe-ptr-overflow`` as they are kept."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from ecbench.core.records import Param, Record, RunResult

if TYPE_CHECKING:
    from collections.abc import Sequence


class Ruling(StrEnum):
    """What a convention does to addresses at or above 2**63, best first."""

    SAFE = "safe"
    """Every address arrives, bit for bit."""
    WARN = "warn"
    """The bits are right, but something that reads them may not be: a warning, a negative value, signed order."""
    FAILS = "fails"
    """An exception."""
    CORRUPTS = "corrupts"
    """A wrong address without an exception."""


class Outcome(StrEnum):
    """What became of one value that went one way."""

    EXACT = "exact"
    NEGATIVE = "negative"
    """The right 64 bits, shown as the address - 2**64."""
    RAISES = "raises"
    CORRUPTS = "corrupts"
    UNAVAILABLE = "unavailable"
    """Could not be tried here; `ProbeFinding.exception` says why."""


class ProbeFinding(Record, frozen=True, kw_only=True, omit_defaults=True):
    """One method, tried with one table dtype, one encoding and one class of value."""

    group: str
    """``write``, ``construct``, ``read``, ``compute``, ``numpy``, ``python``, ``address``, ``operator``, ``exchange``,
    ``gloo``, ``compile`` or ``triton``."""
    method: str
    dtype: str
    """Of the table; ``none`` where there is no table."""
    encoding: str
    """``raw``: the address as an int; ``twos``: the address - 2**64."""
    value_class: str
    """``low``, ``high-aligned``, ``high-unaligned``, ``max`` (2**64-1), ``overflow`` (2**64) or ``device``."""
    read_back: str
    """How the outcome was looked at: ``bytes``, or a way to read a table."""
    outcome: Outcome
    damage: str | None = None
    """Of a corrupted value: ``rounded``, ``truncated``, ``wrapped``, ``saturated``, ``reordered``, ``different``."""
    exception: str | None = None
    """Type and first line; addresses are replaced."""
    warning: str | None = None
    result_dtype: str | None = None


class ProbeTiming(Record, frozen=True, kw_only=True):
    """What one way of writing or computing costs."""

    method: str
    dtype: str
    encoding: str
    ns_per_element: float | None
    """Best of a few batches of 4096; null where the way raises."""


class ConventionRuling(Record, frozen=True, kw_only=True):
    """The ruling on one convention under one torch and NumPy."""

    name: str
    ruling: Ruling | None
    """Null where it could not be tried; `exception` says why."""
    exception: str | None
    """The first exception or warning seen."""
    ns_per_element: float | None
    expected: Ruling
    """What this generation of torch and NumPy is known to do."""
    note: str | None = None
    """The kind of damage, or what to mind."""


class Unexpected(Record, frozen=True, kw_only=True):
    """A behaviour that differs from what this generation of torch and NumPy is known to do."""

    name: str
    """A convention, or ``method dtype encoding value-class`` of a finding."""
    expected: str
    found: str


class ProbeCase(Record, frozen=True, kw_only=True):
    """All that was found out about one torch with one NumPy."""

    case_id: str
    params: dict[str, Param]
    """``torch``, ``numpy``, ``python``."""
    conventions: list[ConventionRuling] = msgspec.field(default_factory=list)
    findings: list[ProbeFinding] = msgspec.field(default_factory=list)
    recommended: str | None = None
    """The convention to use; null where none is safe, or nothing could be tried."""
    unexpected: list[Unexpected] = msgspec.field(default_factory=list)
    advice: str = ""
    """What to use here, in one sentence."""
    expectation: str = ""
    """The generations of torch and NumPy that the expected rulings belong to."""
    timings: list[ProbeTiming] = msgspec.field(default_factory=list)
    device: str | None = None
    """The accelerator whose addresses were looked at too."""
    device_addresses: int = 0
    """Device addresses looked at."""
    device_addresses_high: int = 0
    """Of these, how many have bit 63 set."""
    probe_s: float = 0.0
    """Time of the probe beside the imports."""
    reason: str | None = None
    """Why this case could not be probed; null where it was."""


ProbeResult = RunResult[ProbeCase]


def rulings_by_name(case: ProbeCase) -> dict[str, ConventionRuling]:
    """The rulings of a case by convention."""
    return {convention.name: convention for convention in case.conventions}


def safe_everywhere(cases: Sequence[ProbeCase]) -> list[str]:
    """Names the conventions that are safe in every case that could be probed, in the order of the first."""
    probed = [rulings_by_name(case) for case in cases if case.reason is None]
    if not probed:
        return []
    return [name for name in probed[0] if all(name in case and case[name].ruling is Ruling.SAFE for case in probed)]
