"""Progress of a sweep on stderr: a bar with the time left in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ecbench.workflows.sweep_rounds import SweepProgress

LINES = 10
"""Lines that a whole sweep writes where stderr is no terminal."""


@contextmanager
def sweep_progress(*, quiet: bool) -> Iterator[Callable[[SweepProgress], None]]:
    """Gives what a sweep reports its rounds to.

    Args:
        quiet: Shows nothing.
    """
    if quiet:
        yield lambda _: None
    elif sys.stderr.isatty():
        with _bar() as report:
            yield report
    else:
        yield _lines()


def _lines() -> Callable[[SweepProgress], None]:
    shown = -1

    def report(progress: SweepProgress) -> None:
        nonlocal shown
        tenth = int(progress.share * LINES)
        if tenth > shown:
            shown = tenth
            typer.echo(
                f"sweep: {progress.share:.0%}, {progress.rounds_done} cell-rounds on disk, "
                f"about {progress.seconds_left:.0f} s left",
                err=True,
            )

    return report


@contextmanager
def _bar() -> Iterator[Callable[[SweepProgress], None]]:
    from rich.console import Console  # noqa: PLC0415 - costs 30 ms that --help need not pay
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn  # noqa: PLC0415 - as above

    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[left]}"), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0, left="")

        def report(progress: SweepProgress) -> None:
            left = f"about {progress.seconds_left:.0f} s left"
            bar.update(task, completed=progress.share, left=left, description=progress.case_id)

        yield report
