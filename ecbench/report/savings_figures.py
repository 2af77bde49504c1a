"""The words and numbers that every format of ``dsv4-swa-savings`` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ecbench.core.units import format_bandwidth, format_bytes, format_seconds
from ecbench.report.documents import counted
from ecbench.report.figures import ABSENT, verdict
from ecbench.stats.summary import with_figures

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ecbench.core.records import LegResult
    from ecbench.core.savings_records import Fit, LoadProof, SavedGroup, SavingsCase, SavingsResult

OVERVIEW_COLUMNS = (
    "model",
    "tokens",
    "policy",
    "retention",
    "windows: chunks",
    "all: chunks",
    "host bytes",
    "replay hit",
    "proof",
)
GROUP_COLUMNS = (
    "group",
    "kind",
    "layers",
    "tokens/block",
    "window",
    "chunks",
    "stored",
    "saved",
    "real",
    "padded",
    "host slots",
)
MEMORY_COLUMNS = ("case", "slots", "with the skip", "without", "with, by real bytes", "without, by real bytes")
COPY_COLUMNS = (
    "case",
    "leg",
    "measured",
    "bandwidth",
    "of ceiling",
    "bytes in all",
    "time in all",
    "95% interval",
    "bytes",
)
FULL = "full"
WITHOUT = "without the skip"


class WholeCopy(NamedTuple):
    """One direction of a whole prompt, from a measured part of it."""

    name: str
    leg: LegResult
    fraction: float
    """Of the bytes, how much was measured."""

    @property
    def seconds(self) -> float | None:
        """Median time, scaled from the part to the whole by bytes."""
        return None if self.leg.median_s is None else self.leg.median_s / self.fraction

    @property
    def interval_s(self) -> tuple[float, float] | None:
        """Likewise the interval."""
        if self.leg.ci_low_s is None or self.leg.ci_high_s is None:
            return None
        return self.leg.ci_low_s / self.fraction, self.leg.ci_high_s / self.fraction

    @property
    def copied_bytes(self) -> int:
        """Bytes of the whole."""
        return round(self.leg.copied_bytes / self.fraction)


def whole_copies(case: SavingsCase) -> list[WholeCopy]:
    """Everything that was measured of a case, or was to be."""
    sample = case.sample
    fractions = {"store": sample.store_fraction, "load": sample.load_fraction} if sample else {}
    copies = [WholeCopy(leg.direction, leg, fractions.get(leg.direction, 1.0)) for leg in case.legs]
    full = sample.store_fraction_without_skip if sample else 1.0
    return [*copies, *(WholeCopy(f"{leg.direction} {WITHOUT}", leg, full) for leg in case.legs_without_skip)]


def with_savings_figures(result: SavingsResult) -> SavingsResult:
    """Fills in the figures of every leg anew: what samples decide is never taken from a file."""
    return msgspec.structs.replace(result, cases=[_recomputed(case) for case in result.cases])


def _recomputed(case: SavingsCase) -> SavingsCase:
    return msgspec.structs.replace(
        case,
        legs=[with_figures(leg) for leg in case.legs],
        legs_without_skip=[with_figures(leg) for leg in case.legs_without_skip],
    )


def retention_words(case: SavingsCase) -> str:
    """The retention interval, or that the policy has none."""
    if case.params.get("policy") == "pr":
        return "has none"
    retention = case.params.get("retention_interval")
    return "none" if retention is None else str(retention)


def overview_row(case: SavingsCase) -> tuple[str, ...]:
    """One case as text, in the order of `OVERVIEW_COLUMNS`."""
    totals = case.totals
    return (
        str(case.params.get("model")),
        _count(case.params.get("tokens")),
        str(case.params.get("policy")),
        retention_words(case),
        _fewer(totals.sliding_full_chunks, totals.sliding_stored_chunks, totals.sliding_saved_fraction),
        _fewer(totals.all_full_chunks, totals.all_stored_chunks, totals.all_saved_fraction),
        f"{totals.stored_host_bytes:,}",
        f"{case.replay_hit_tokens:,}",
        proof_words(case.proof),
    )


def _fewer(full: int, stored: int, saved: float) -> str:
    return f"{full:,} -> {stored:,} ({percent(saved)})"


def _count(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def percent(fraction: float) -> str:
    """A share with the two digits that published figures have."""
    return f"{fraction:.2%}"


def proof_words(proof: LoadProof | None) -> str:
    """How the proof ended, in a few words."""
    if proof is None:
        return "not proved"
    if not proof.ok:
        return f"NOT LOADABLE: {len(proof.not_loadable):,} of {proof.boundaries_checked:,}"
    findings = [
        f"{counted(proof.lost_tokens, 'token')} lost" if proof.lost_tokens else "",
        f"{counted(proof.not_used_by_replays, 'chunk')} unused" if proof.not_used_by_replays else "",
    ]
    return ", ".join(["every hit loads", *filter(None, findings)])


def group_row(group: SavedGroup, case: SavingsCase) -> tuple[str, ...]:
    """One group as text, in the order of `GROUP_COLUMNS`."""
    return (
        group.name,
        f"{group.kind}, EAGLE" if group.eagle else group.kind,
        f"{group.layers:,}",
        f"{group.tokens_per_block:,}",
        ABSENT if group.window_tokens is None else f"{group.window_tokens:,}",
        f"{group.full_chunks:,}",
        f"{group.stored_chunks:,}",
        percent(group.saved_fraction),
        format_bytes(group.stored_blocks * group.real_page_size_bytes),
        format_bytes(group.stored_blocks * group.page_size_bytes),
        format_bytes(group.stored_chunks * case.host_slot_bytes),
    )


def total_rows(case: SavingsCase) -> list[tuple[str, ...]]:
    """All groups together, and those with a window, in the order of `GROUP_COLUMNS`."""
    windows = [group for group in case.groups if group.kind != FULL]
    return [_total_row("windows", windows, case), _total_row("all", case.groups, case)]


def _total_row(name: str, groups: Sequence[SavedGroup], case: SavingsCase) -> tuple[str, ...]:
    full, stored = (sum(getattr(group, field) for group in groups) for field in ("full_chunks", "stored_chunks"))
    return (
        name,
        *[""] * 4,
        f"{full:,}",
        f"{stored:,}",
        percent(1 - stored / full if full else 0.0),
        format_bytes(sum(group.stored_blocks * group.real_page_size_bytes for group in groups)),
        format_bytes(sum(group.stored_blocks * group.page_size_bytes for group in groups)),
        format_bytes(stored * case.host_slot_bytes),
    )


def layout_words(case: SavingsCase) -> str:
    """Alignment, block sizes, block stride and host slots of a case."""
    align = "no alignment" if case.alignment_tokens is None else f"alignment {case.alignment_tokens:,} tokens"
    copies = f"{case.copies} copy" if case.copies == 1 else f"{case.copies} copies"
    return (
        f"{align}, scheduler block {case.scheduler_block_size:,}, hash block {case.hash_block_size:,}, "
        f"block stride {case.block_stride_bytes:,} bytes, host slot {case.host_slot_bytes:,} bytes ({copies}, "
        f"blocks per chunk {case.params.get('blocks_per_chunk')})"
    )


def case_notes(case: SavingsCase) -> list[str]:
    """Host bytes, the replay's hit and what the proof found."""
    totals = case.totals
    tokens = case.params.get("tokens")
    stored = (
        f"host bytes {totals.stored_host_bytes:,} of {totals.full_host_bytes:,} without the skip; one rank's transfers "
        f"move {totals.stored_real_bytes:,} of {totals.full_real_bytes:,} bytes"
    )
    hit = f"replay (the same prompt and one token more) hits {case.replay_hit_tokens:,} of {_count(tokens)} tokens"
    notes = [stored, hit]
    if case.proof is None:
        return [*notes, "not proved: ask with --prove"]
    return [*notes, *_proof_notes(case.proof)]


def _proof_notes(proof: LoadProof) -> Iterator[str]:
    for found in proof.not_loadable[:1]:
        yield (
            f"NOT LOADABLE: a request that shares {found.boundary_tokens:,} tokens hits {found.hit_tokens:,}; "
            f"{found.group} shortens it ({len(proof.not_loadable):,} such boundaries of {proof.boundaries_checked:,})"
        )
    if proof.ok:
        yield f"proof: advertised boundaries that load: {proof.boundaries_checked:,} of {proof.boundaries_checked:,}"
    if proof.lost_tokens:
        yield f"lost: the replay hits {proof.lost_tokens:,} tokens less than the longest boundary it could"
    if proof.not_used_by_replays:
        yield (
            f"not used by replays: {counted(proof.not_used_by_replays, 'stored chunk')}; a longer request that stores "
            "more later may still use them"
        )


def memory_row(case: SavingsCase) -> tuple[str, ...] | None:
    """What the host memory holds, in the order of `MEMORY_COLUMNS`."""
    memory = case.host_memory
    if memory is None:
        return None
    fits = (
        memory.with_skip_by_slot,
        memory.without_skip_by_slot,
        memory.with_skip_by_real_bytes,
        memory.without_skip_by_real_bytes,
    )
    return case.case_id, f"{memory.slots:,}", *map(_fit_words, fits)


def _fit_words(fit: Fit) -> str:
    if fit.tokens is None or fit.requests is None:
        return "nothing is stored"
    return f"{counted(fit.tokens, 'token')} ({counted(fit.requests, 'request')})"


def copy_row(case: SavingsCase, copy: WholeCopy) -> tuple[str, ...]:
    """One measured direction as text, in the order of `COPY_COLUMNS`."""
    leg, interval = copy.leg, copy.interval_s
    return (
        case.case_id,
        copy.name,
        percent(copy.fraction) if leg.samples else ABSENT,
        ABSENT if leg.bandwidth_bytes_per_s is None else format_bandwidth(leg.bandwidth_bytes_per_s),
        ABSENT if leg.ceiling_ratio is None else f"{leg.ceiling_ratio:.2f}",
        format_bytes(copy.copied_bytes),
        ABSENT if copy.seconds is None else format_seconds(copy.seconds),
        ABSENT if interval is None else " to ".join(map(format_seconds, interval)),
        verdict(leg),
    )


def seconds_saved(case: SavingsCase) -> tuple[float, float] | None:
    """Seconds to store a prompt without and with the skip; null where either was not measured."""
    seconds = {copy.name: copy.seconds for copy in whole_copies(case)}
    with_skip, without = seconds.get("store"), seconds.get(f"store {WITHOUT}")
    return None if with_skip is None or without is None else (without, with_skip)


def saved_words(case: SavingsCase) -> str | None:
    """The seconds that the skip saves, in one line."""
    times = seconds_saved(case)
    if times is None:
        return None
    without, with_skip = times
    return (
        f"{case.case_id}: storing takes {format_seconds(with_skip)} in place of {format_seconds(without)}: "
        f"{format_seconds(without - with_skip)} saved per prompt"
    )
