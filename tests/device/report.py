"""A device run as Markdown, in the form that docs/measurements.md takes."""

from __future__ import annotations

from ecbench.core.records import LegStatus
from ecbench.core.units import format_bandwidth, format_bytes, format_seconds


def render(result, outcomes, kind):
    """Writes the section of one run.

    Args:
        result: The grid, as a RunResult.
        outcomes: Of the checks.
        kind: Kind of accelerator.
    """
    env = result.environment
    failed = [outcome for outcome in outcomes if outcome.problem]
    lines = [
        f"## {env.device_name}, {result.started_at[:10]}",
        "",
        _run_line(result, outcomes, kind),
        "",
        _machine_line(env),
        "",
        f"Checks: {len(outcomes) - len(failed)} of {len(outcomes)} passed.",
        *(f"- FAILED {outcome.name}: {outcome.problem}" for outcome in failed),
        "",
        "Median of three verified rounds after a warm-up, one descriptor per block, blocks scattered on the device and",
        "in order on the host; `of ceiling` is against one contiguous copy of as many bytes.",
        "",
        "| block | count | engine | direction | bandwidth | of ceiling | submit | copy | bytes |",
        "|---|---|---|---|---|---|---|---|---|",
        *(_row(case, leg) for case in result.cases for leg in case.legs),
    ]
    return "\n".join(lines) + "\n"


def proven_engines(result, outcomes):
    """Engines whose every check passed and whose every measured byte was right."""
    names = list(dict.fromkeys(case.params["engine"] for case in result.cases))
    wrong = {outcome.name.split(" / ")[1] for outcome in outcomes if outcome.problem}
    for case in result.cases:
        if any(leg.status in {LegStatus.FAILED, LegStatus.ERROR} for leg in case.legs):
            wrong.add(case.params["engine"])
    ran = {case.params["engine"] for case in result.cases for leg in case.legs if leg.status is LegStatus.PASSED}
    return [name for name in names if name in ran and name not in wrong]


def _machine_line(env):
    return (
        f"torch {env.torch}, NumPy {env.numpy}, Python {env.python}, ecbench {env.ecbench}, driver {env.driver}, "
        f"kernel {env.kernel}, {env.host_cpu} ({env.host_cpus} cores), host memory {env.pinning}."
    )


def _run_line(result, outcomes, kind):
    proven = ", ".join(f"`{name}`" for name in proven_engines(result, outcomes))
    if not proven:
        return "No engine passed everything; this run proves none."
    return f"Device run: `{kind}` ({result.environment.device_name}): {proven}"


def _row(case, leg):
    block, count, engine = (case.params[name] for name in ("block_size_bytes", "blocks", "engine"))
    start = f"| {format_bytes(block)} | {count} | {engine} | {leg.direction} |"
    if leg.status is not LegStatus.PASSED:
        return f"{start} {leg.status.value}: {leg.reason} | | | | |"
    submit, copy = (sorted(getattr(sample, name) for sample in leg.samples) for name in ("submit_s", "copy_s"))
    middle = len(leg.samples) // 2
    return (
        f"{start} {format_bandwidth(leg.bandwidth_bytes_per_s)} | {leg.ceiling_ratio:.2f} | "
        f"{format_seconds(submit[middle])} | {format_seconds(copy[middle])} | right |"
    )
