"""What the same policy saves with other block sizes of the full-attention groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.ticker import NullLocator

from ecbench.report.plots.stored_chunks import case_title
from ecbench.report.plots.style import MUTED, SERIES, Drawing, in_words, new_figure, plot_style

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from ecbench.core.savings_records import SavingsCase, SavingsResult

NAME = "saved-by-block-size"
TITLE = "Chunks saved over the full-attention block size"
_PERCENT = 100
_ROW_IN = 0.17


def draw_saved_by_block_size(result: SavingsResult) -> Drawing:
    """A line per case; a dotted line marks the block size that was asked for."""
    cases = [case for case in result.cases if len(case.by_block_size) > 1][: len(SERIES)]
    if not cases:
        return in_words(NAME, TITLE, "the model has one block size only.")
    with plot_style():
        figure, (axes,) = new_figure(TITLE, 3.0 + _ROW_IN * len(cases))
        _draw_lines(axes, cases)
        figure.legend(loc="outside lower center", ncols=1)
    caption = "All groups; larger blocks make segments longer, so that a smaller part of each is a tail."
    if len(cases) < len(result.cases):
        caption += f" The first {len(cases)} of {len(result.cases)} cases are drawn."
    return Drawing(NAME, TITLE, caption, figure)


def _draw_lines(axes: Axes, cases: Sequence[SavingsCase]) -> None:
    # Lines that coincide are drawn thinner one over the other, so that each can be seen.
    several = len({case.params.get("tokens") for case in cases}) > 1
    for number, (case, style) in enumerate(zip(cases, SERIES, strict=False)):
        thickness = 1.2 + 3 * (1 - (number + 1) / len(cases))
        sizes = [savings.block_size for savings in case.by_block_size]
        saved = [savings.all_saved_fraction * _PERCENT for savings in case.by_block_size]
        label = f"{case_title(case)}, {case.params['tokens']:,} tokens" if several else case_title(case)
        axes.plot(sizes, saved, color=style.colour, marker=style.marker, ms=4 + thickness, lw=thickness, label=label)
    for size in sorted({group.tokens_per_block for case in cases for group in case.groups if group.kind == "full"}):
        axes.axvline(size, color=MUTED, lw=0.9, ls=":")
    ticks = sorted({savings.block_size for case in cases for savings in case.by_block_size})
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [f"{size:,}" for size in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(-2, 102)
    axes.set_xlabel("block size of full attention (tokens)")
    axes.set_ylabel("chunks not stored (%)")
