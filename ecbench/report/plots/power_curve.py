"""What the gate finds and what it cannot tell, by the delay that was injected: a curve per threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.ticker import PercentFormatter

from ecbench.report.plots.style import MUTED, SERIES, Drawing, in_words, new_figure, plot_style
from ecbench.report.selftest_figures import delay_words, foundation_words, percent, rates_at, thresholds_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

    from ecbench.core.selftest_records import ErrorRate, GateRates, SelftestCase, SelftestResult

NAME = "power-curve"
_TITLE = "What the gate finds here"
_DODGE = 0.08
"""Distance between the marks of two thresholds, so that their intervals do not cover each other."""


def draw_power_curve(result: SelftestResult) -> Drawing:
    """Gates that failed, and below it those that could not tell, over the injected delay."""
    case = next((case for case in result.cases if case.rates), None)
    if case is None:
        return in_words(NAME, _TITLE, "too few turns were run.")
    with plot_style():
        figure, (failed, undecided) = new_figure(_TITLE, height_in=5.2, panels=2)
        _draw(failed, case, lambda entry: entry.failed)
        failed.set_title("gates that failed; without a delay these are false alarms")
        _draw(undecided, case, lambda entry: entry.inconclusive)
        undecided.set_title("inconclusive gates")
        undecided.set_xlabel("injected delay, as a share of a round's time")
        handles, labels = failed.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return Drawing(NAME, _TITLE, f"Bars are 95% intervals. Rests on {foundation_words(case)}.", figure)


def _draw(axes: Axes, case: SelftestCase, rate: Callable[[GateRates], ErrorRate]) -> None:
    thresholds = thresholds_of(case)
    for number, threshold in enumerate(thresholds):
        style = SERIES[number % len(SERIES)]
        rates = [rate(entry) for entry in rates_at(case, threshold).values()]
        places = [place + _DODGE * (number - (len(thresholds) - 1) / 2) for place in range(len(rates))]
        shares = [entry.share for entry in rates]
        below = [entry.share - entry.low for entry in rates]
        above = [entry.high - entry.share for entry in rates]
        label = f"threshold {percent(threshold)}"
        axes.plot(places, shares, marker=style.marker, ms=4.5, lw=1.4, color=style.colour, label=label)
        axes.errorbar(places, shares, yerr=(below, above), fmt="none", ecolor=style.colour, elinewidth=1.2)
    delays = list(rates_at(case, thresholds[0]))
    axes.set_xticks(range(len(delays)), [delay_words(delay) for delay in delays])
    axes.set_ylim(-0.03, 1.03)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.axhline(0, color=MUTED, lw=0.8)
