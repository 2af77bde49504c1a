"""The words and numbers of a self-test that its page, its plot and its checks share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecbench.report.documents import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecbench.core.selftest_records import ErrorRate, GateRates, InjectedFault, SelftestCase

UNCHANGED = "none"
"""What a delay of 0 is called."""


def percent(share: float) -> str:
    """A share with as many digits as it needs: ``5%``, ``2.5%``, ``0.3%``."""
    return f"{100 * share:.1f}".removesuffix(".0") + "%"


def delay_words(delay: float) -> str:
    """An injected delay."""
    return percent(delay) if delay else UNCHANGED


def interval_words(rate: ErrorRate) -> str:
    """The 95% interval of a rate."""
    return f"{percent(rate.low)} to {percent(rate.high)}"


def rates_at(case: SelftestCase, threshold: float) -> dict[float, GateRates]:
    """Rates at one threshold, by delay; empty where too few turns were run."""
    return {entry.delay: entry for entry in case.rates if entry.threshold == threshold}


def thresholds_of(case: SelftestCase) -> list[float]:
    """The ladder, rising."""
    return sorted({entry.threshold for entry in case.rates})


def foundation_words(case: SelftestCase) -> str:
    """What the rates rest on, without flattering them."""
    gates = case.turns // case.pairs
    apart = "1 gate shares none of them" if gates == 1 else f"{gates} gates share none of them"
    return (
        f"each rate: {case.repeats:,} re-paired gates of {case.pairs} pairs, drawn from {counted(case.turns, 'turn')}, "
        f"with {counted(len(case.process_rounds), 'process round')} in processes of their own; only {apart}, so an "
        "interval tells how well the re-pairing is known, not what another day will bring"
    )


def fault_name(entry: InjectedFault) -> str:
    """The class that was injected, as words."""
    return entry.fault.value.replace("_", " ")


def outcome_words(entry: InjectedFault) -> str:
    """What became of an injected fault."""
    if not entry.injected:
        return "no room for it in this scenario"
    if not entry.found:
        return "MISSED"
    if entry.named is entry.fault:
        return "found and named"
    return f"found, named {entry.named.value if entry.named else 'nothing'}"


def injected(faults: Sequence[InjectedFault]) -> list[InjectedFault]:
    """Those that changed a byte."""
    return [entry for entry in faults if entry.injected]
