"""The words and numbers that every format of a round trip shows."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from ecbench.core.records import LegStatus
from ecbench.core.units import format_bandwidth, format_bytes, format_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ecbench.core.records import CaseResult, LegResult, Param, RoundTripResult

ABSENT = "-"
REPORTS_STAGE = "reports"
"""Stage that a command adds to its result when it has drawn its pages."""
LEG_COLUMNS = ("leg", "descr.", "bandwidth", "95% interval", "of ceiling", "fill", "submit", "copy", "bytes")


MIN_INTERVAL_ROUNDS = 6
"""Fewer values have no pair that covers their median 95% of the time: 1 - 2 / 2**5 is 94%."""


def leg_row(leg: LegResult) -> tuple[str, ...]:
    """One leg as text, in the order of `LEG_COLUMNS`."""
    return (
        leg.direction,
        f"{leg.descriptors}" if leg.descriptors else ABSENT,
        *_bandwidth(leg),
        f"{leg.ceiling_ratio:.2f}" if leg.ceiling_ratio is not None else ABSENT,
        *(_median_time(leg, stage) for stage in ("fill_s", "submit_s", "copy_s")),
        verdict(leg),
    )


def _bandwidth(leg: LegResult) -> tuple[str, str]:
    if leg.bandwidth_bytes_per_s is None or leg.ci_low_s is None or leg.ci_high_s is None:
        return ABSENT, ABSENT
    shown = format_bandwidth(leg.bandwidth_bytes_per_s)
    unit = shown.split()[1]
    low, high = (_in_unit(leg.copied_bytes / seconds, unit) for seconds in (leg.ci_high_s, leg.ci_low_s))
    if len(leg.samples) == 1:
        return shown, "one round"
    return shown, f"{low} to {high}" if len(leg.samples) >= MIN_INTERVAL_ROUNDS else f"range {low} to {high}"


def _in_unit(bytes_per_s: float, unit: str) -> str:
    scale = {"B/s": 1.0, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12, "PB/s": 1e15}[unit]
    return f"{bytes_per_s / scale:.3g}"


def _median_time(leg: LegResult, stage: str) -> str:
    return format_seconds(median(getattr(sample, stage) for sample in leg.samples)) if leg.samples else ABSENT


def verdict(leg: LegResult) -> str:
    """What became of the bytes, in a word or two."""
    if leg.status is LegStatus.PASSED and leg.verify is not None:
        return "right"
    if leg.status is LegStatus.FAILED and leg.verify is not None and leg.verify.fault is not None:
        return f"WRONG: {leg.verify.fault.value}"
    return leg.status.value.upper()


def case_title(case: CaseResult) -> str:
    """What a case is, in one line."""
    params = case.params
    images = params.get("images")
    parts = [
        str(params.get("model", "")),
        ", ".join(map(str, images)) if isinstance(images, list) else "",
        str(params.get("placement", "")),
        *(_offload_parts(params) if "policy" in params else ()),
        _blocks(case),
        f"engine {_engines(case)}",
        f"writer {params.get('writer')}",
    ]
    return ", ".join(part for part in parts if part)


def _offload_parts(params: Mapping[str, Param]) -> tuple[str, ...]:
    """What sets one KV offload case apart from another."""
    retention = params.get("retention_interval")
    return (
        f"{params.get('tokens')} tokens",
        f"policy {params.get('policy')}",
        f"retention {'none' if retention is None else retention}",
        f"{params.get('layout')} caches",
        f"blocks_per_chunk {params.get('blocks_per_chunk')}",
        f"tp {params.get('tp')}",
    )


def _blocks(case: CaseResult) -> str:
    counts = " and ".join(dict.fromkeys(str(leg.blocks) for leg in case.legs))
    size = case.params.get("block_size_bytes")
    return f"{counts} blocks of {format_bytes(size)}" if isinstance(size, int) else f"{counts} blocks"


def _engines(case: CaseResult) -> str:
    ran = " and ".join(dict.fromkeys(leg.engine for leg in case.legs if leg.engine))
    asked = str(case.params.get("engine"))
    return f"{ran} (chosen by {asked})" if ran and asked == "auto" else ran or asked


def remarks(case: CaseResult, result: RoundTripResult) -> list[str]:
    """Reasons and notes of a case, each once and in order; without what `warnings` says for all cases."""
    lines = [f"{leg.direction}: {leg.reason}" for leg in case.legs if leg.reason]
    notes = [note for leg in case.legs for note in leg.notes if note != result.environment.emulation]
    return list(dict.fromkeys(lines + notes))


def environment_line(result: RoundTripResult) -> str:
    """Where a result comes from, in one line."""
    env = result.environment
    vllm = f", vLLM {env.vllm}" if env.vllm else ""
    return (
        f"device {env.device} ({env.device_name}), torch {env.torch}, NumPy {env.numpy}, Python {env.python}{vllm}, "
        f"{env.host_cpu} with {env.host_cpus} cores, pinning {env.pinning}"
    )


def warnings(result: RoundTripResult) -> list[str]:
    """What must be read before any number."""
    env = result.environment
    lines = [f"EMULATED: {env.emulation}. Times say nothing about real hardware."] if env.emulation else []
    if env.device == "cpu":
        lines.append("Host to host: this checks bytes and ecbench's own overhead; it is no accelerator's bandwidth.")
    if env.stand_ins:
        lines.append(f"STAND-INS took part: {', '.join(env.stand_ins)}.")
    if result.ended_by is not None:
        lines.append(f"ENDED EARLY: {result.ended_by}. Only the cases that were finished are here.")
    elif not result.complete:
        lines.append("INTERRUPTED: only the cases that were finished are here.")
    return lines


def summary(result: RoundTripResult) -> str:
    """How it ended, in one line."""
    legs = [leg for case in result.cases for leg in case.legs]
    bad = sum(leg.status in {LegStatus.FAILED, LegStatus.ERROR} for leg in legs)
    skipped = sum(leg.status is LegStatus.SKIPPED for leg in legs)
    checked = format_bytes(sum(leg.verify.checked_bytes for leg in legs if leg.verify))
    outcome = f"{bad} of {_count(len(legs), 'leg')} went wrong" if bad else "every byte is right"
    parts = [f"{outcome} ({checked} checked)", f"{skipped} skipped" if skipped else ""]
    return ", ".join(filter(None, parts)) + f"; {_count(len(result.cases), 'case')} in {_total_time(result)}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _total_time(result: RoundTripResult) -> str:
    return format_seconds(sum(_run_stages(result).values()))


def _run_stages(result: RoundTripResult) -> dict[str, float]:
    """Without the reports, which are written when the run is over and its table is on the screen."""
    return {name: seconds for name, seconds in result.stages_s.items() if name != REPORTS_STAGE}


def stage_line(result: RoundTripResult) -> str:
    """Where the command's time went, largest first."""
    stages = _run_stages(result)
    total_s = sum(stages.values()) or 1.0
    ordered = sorted(stages.items(), key=lambda item: -item[1])
    line = "time: " + ", ".join(f"{name} {seconds / total_s:.0%}" for name, seconds in ordered)
    reports_s = result.stages_s.get(REPORTS_STAGE)
    return line if reports_s is None else f"{line}; then {format_seconds(reports_s)} for reports"
