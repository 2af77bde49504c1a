"""Which chunks stay: every group of a prompt over its tokens, the whole and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from ecbench.report.plots.style import GRID, INK, MUTED, SERIES, Drawing, in_words, new_figure, plot_style, shortened
from ecbench.report.savings_figures import retention_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from ecbench.core.savings_records import SavedGroup, SavingsCase, SavingsResult, StoredRuns

NAME = "stored-chunks"
TITLE = "Which chunks stay, by group"
MAX_CASES = 6
"""Cases that one figure can hold legibly."""
MAX_LANES = 12
"""Groups of a case, likewise."""
SEGMENTS_SHOWN = 4
"""Alignment segments at the end of the prompt that are drawn chunk by chunk."""
_SPANS = 200
"""Most steps in which the whole prompt is drawn: about one for every two pixels of a phone."""
_LEAST_SHARE = 0.08
"""Height at which the smallest share that is not zero can still be seen."""
_LANE_IN = 0.19
_FRAME_IN = 0.66
_ROOM = (0.0, 0.0, 0.96, 1.0)
"""Part of the figure that is laid out: a page's letters may be wider than those that were measured."""
_BAR = 0.72
"""Height of a full lane; the rest keeps lanes apart."""


def draw_stored_chunks(result: SavingsResult) -> Drawing:
    """Two panels per case: the whole prompt as the share that is stored, and its last segments chunk by chunk."""
    cases = [case for case in result.cases if case.totals.all_full_chunks][:MAX_CASES]
    if not cases:
        return in_words(NAME, TITLE, "no prompt holds a whole chunk.")
    lanes = sum(min(len(case.groups), MAX_LANES) for case in cases)
    with plot_style():
        figure, panels = new_figure(TITLE, 0.6 + 2 * (_LANE_IN * lanes + _FRAME_IN * len(cases)), 2 * len(cases))
        figure.set_layout_engine("constrained", rect=_ROOM)
        for case, whole, end in zip(cases, panels[::2], panels[1::2], strict=True):
            _draw_whole(whole, case)
            _draw_end(end, case)
    return Drawing(NAME, TITLE, _caption(result, len(cases)), figure)


def _caption(result: SavingsResult, drawn: int) -> str:
    upper = "Upper panels: the whole prompt; the height of a lane is the share of its chunks that are stored."
    lower = (
        f"Lower panels: its last {SEGMENTS_SHOWN} alignment segments and the rest; strong is stored, faint is skipped, "
        "dashes are alignment boundaries, the triangle is where the replay's hit ends."
    )
    parts = [upper, lower]
    if drawn < len(result.cases):
        parts.append(f"The first {drawn} of {len(result.cases)} cases are drawn.")
    if any(len(case.groups) > MAX_LANES for case in result.cases):
        parts.append(f"Of a case, {MAX_LANES} groups at most are drawn.")
    return " ".join(parts)


def case_title(case: SavingsCase) -> str:
    """Model, policy and retention of a case, short enough for a plot."""
    words = [shortened(str(case.params.get("model")), 24), f"policy {case.params.get('policy')}"]
    return ", ".join([*words, *([] if case.params.get("policy") == "pr" else [f"retention {retention_words(case)}"])])


def _tokens(case: SavingsCase) -> int:
    return int(str(case.params["tokens"]))


def _lanes(case: SavingsCase) -> list[SavedGroup]:
    return case.groups[:MAX_LANES]


def _draw_whole(axes: Axes, case: SavingsCase) -> None:
    edges = _edges(case)
    for lane, group in enumerate(_lanes(case)):
        shares = _shares(group, edges)
        heights = np.where(shares > 0, np.maximum(shares, _LEAST_SHARE), 0.0)
        floor = lane + _BAR / 2
        axes.broken_barh([(0, group.full_chunks * group.tokens_per_chunk)], (lane - _BAR / 2, _BAR), facecolor=GRID)
        axes.stairs(floor - _BAR * heights, edges, baseline=floor, fill=True, color=SERIES[0].colour, linewidth=0)
        _annotate(axes, lane, f"{group.stored_chunks:,} of {group.full_chunks:,}")
    _dress(axes, case, (0, _tokens(case)))
    axes.set_title(case_title(case))
    axes.set_xlabel("the whole prompt (tokens)")


def _edges(case: SavingsCase) -> NDArray[np.int64]:
    """Spans of whole alignment segments, so that none holds more tails than another; shape ``(spans + 1,)``."""
    tokens = _tokens(case)
    segment = min(_segment(case), tokens)
    step = segment * -(-tokens // (segment * _SPANS))
    return np.append(np.arange(0, tokens, step), tokens)


def _segment(case: SavingsCase) -> int:
    return case.alignment_tokens or case.scheduler_block_size


def _shares(group: SavedGroup, edges: NDArray[np.int64]) -> NDArray[np.float64]:
    """Share of each span's tokens that lie in stored chunks; shape ``(spans,)``."""
    runs = expand_runs(group.stored_runs) * group.tokens_per_chunk
    if not len(runs):
        return np.zeros(len(edges) - 1)
    lengths = np.cumsum(runs[:, 1] - runs[:, 0])
    upto = np.stack([lengths - (runs[:, 1] - runs[:, 0]), lengths], axis=1).reshape(-1)
    shares: NDArray[np.float64] = np.diff(np.interp(edges, runs.reshape(-1), upto)) / np.diff(edges)
    return shares


def expand_runs(runs: Sequence[StoredRuns]) -> NDArray[np.int64]:
    """First chunk and end of every run of stored chunks.

    Args:
        runs: As a group keeps them.

    Returns:
        int64, shape ``(runs, 2)``, ascending.
    """
    parts = [
        run.first_chunk + np.arange(run.runs, dtype=np.int64)[:, None] * run.step_chunks + np.array([0, run.chunks])
        for run in runs
    ]
    return np.concatenate(parts) if parts else np.empty((0, 2), dtype=np.int64)


def _draw_end(axes: Axes, case: SavingsCase) -> None:
    tokens = _tokens(case)
    segment = _segment(case)
    start = max(0, (tokens // segment - SEGMENTS_SHOWN) * segment)
    for lane, group in enumerate(_lanes(case)):
        end = group.full_chunks * group.tokens_per_chunk
        place = (lane - _BAR / 2, _BAR)
        axes.broken_barh([(start, max(end - start, 0))], place, facecolor=GRID)
        runs = expand_runs(group.stored_runs) * group.tokens_per_chunk
        seen = runs[runs[:, 1] > start]
        bars = [(float(first), float(last - first)) for first, last in seen]
        axes.broken_barh(bars, place, facecolor=SERIES[0].colour, linewidth=0)
    for boundary in range(start, tokens + 1, segment):
        axes.axvline(boundary, color=MUTED, lw=0.7, ls=(0, (3, 2)))
    _dress(axes, case, (start, tokens))
    if case.replay_hit_tokens >= start:
        axes.plot([case.replay_hit_tokens], [-0.8], ls="", marker="v", ms=5, color=SERIES[1].colour, clip_on=False)
    axes.set_xlabel("its end (tokens)")


def _dress(axes: Axes, case: SavingsCase, limits: tuple[int, int]) -> None:
    lanes = _lanes(case)
    axes.set_xlim(*limits)
    axes.set_ylim(len(lanes) - 0.4, -0.8)
    axes.set_yticks(range(len(lanes)), [shortened(group.name, 18) for group in lanes])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def _annotate(axes: Axes, lane: int, text: str) -> None:
    axes.annotate(
        text,
        (1, lane),
        xytext=(4, 0),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        va="center",
        fontsize=7.5,
        color=INK,
    )
