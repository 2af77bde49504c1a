"""``ecbench ab``."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ecbench.cli.common import (
    DEFAULT_OUT,
    JsonOption,
    OutOption,
    QuietOption,
    SeedOption,
    publish_result,
    refuse_unwritable_targets,
    reports_errors,
    round_progress,
)
from ecbench.core.errors import ExitCode
from ecbench.core.host_memory import HostMemoryKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ecbench.workflows.ab import Ab


@reports_errors
def ab(
    scenarios: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SCENARIO...]", help="Shipped names or TOML paths; none runs the default set."),
    ] = None,
    *,
    base: Annotated[
        str, typer.Option(metavar="CMD", help="The old installation: an interpreter, a venv, or a command line.")
    ],
    new: Annotated[str, typer.Option(metavar="CMD", help="The new one.")],
    budget: Annotated[int, typer.Option(metavar="PAIRS", min=6, max=1000, help="Most pairs of process rounds.")] = 16,
    threshold: Annotated[
        str | None, typer.Option(metavar="SHARE", help="Slowdown that is accepted; 5% without --config.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="gate.toml: which times are gated, and how.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 5 where something is inconclusive.")] = False,
    device: Annotated[str, typer.Option(help="As for roundtrip.")] = "auto",
    workload: Annotated[str, typer.Option(help="Which scenarios to run: ec, dsv4 or all.")] = "all",
    model: Annotated[str | None, typer.Option(help="Replace the scenarios' model.")] = None,
    target: Annotated[str, typer.Option(help="As for roundtrip.")] = "reference",
    engine: Annotated[str, typer.Option(help="As for roundtrip.")] = "auto",
    writer: Annotated[str, typer.Option(help="As for roundtrip.")] = "numpy-batch",
    pinned: Annotated[bool, typer.Option("--pinned/--pageable", help="As for roundtrip.")] = True,
    coalesce: Annotated[bool | None, typer.Option("--coalesce/--no-coalesce", help="As for roundtrip.")] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Rounds that count, per case and process.")
    ] = None,
    seed: SeedOption = 0,
    json_path: JsonOption = None,
    out: OutOption = DEFAULT_OUT,
    quiet: QuietOption = False,
) -> ExitCode:
    """Compare two installations: pairs of fresh processes in turn, until every time is decided or the budget is used.

    CMD is an interpreter (/venvs/old/bin/python), the folder of a venv, or a whole command line ("env PYTHONPATH=/src
    python"). What their versions differ in is under test; another device or driver is refused. Byte faults and exact
    figures count as regressed. The results of both sides are written beside the report.

    Exit codes: 0 ok, 1 a regression or wrong bytes, 2 bad input, 3 a side cannot run, 4 sides that cannot be compared,
    5 inconclusive with --strict, 130 interrupted (finished pairs are judged).
    """
    from ecbench.workflows.ab import AbOptions, prepare_ab  # noqa: PLC0415 - imports scipy
    from ecbench.workflows.round_trip import RoundTripOptions  # noqa: PLC0415 - imports torch

    options = AbOptions(
        base=base,
        new=new,
        round_trip=RoundTripOptions(
            scenarios=tuple(scenarios or ()),
            device=device,
            workload=workload,
            model=model,
            target=target,
            engine=engine,
            writer=writer,
            coalesce=coalesce,
            rounds=rounds,
            seed=seed,
            host_memory=HostMemoryKind.PINNED if pinned else HostMemoryKind.PAGEABLE,
        ),
        budget=budget,
        threshold=threshold,
        config=config,
        strict=strict,
    )
    return _run(prepare_ab(options), json_path, out, quiet=quiet)


def _run(prepared: Ab, json_path: Path | None, out: Path, *, quiet: bool) -> ExitCode:
    from ecbench.core.records import to_json  # noqa: PLC0415 - with the next
    from ecbench.workflows.ab import exit_code_of, run_ab  # noqa: PLC0415 - imports scipy

    refuse_unwritable_targets(out, json_path)
    with _process_progress(quiet=quiet) as report:
        outcome = run_ab(prepared, report)
    result = outcome.comparison
    code = exit_code_of(prepared, result)
    publish_result(
        result,
        json_path,
        out,
        silent=quiet and code is ExitCode.OK,
        quiet=quiet,
        beside={"-base.json": to_json(outcome.base), "-new.json": to_json(outcome.new)},
    )
    if not result.complete:
        typer.echo(f"ecbench: {result.ended_by or 'interrupted'}; pairs judged: {result.settings['pairs']}", err=True)
    return code


@contextmanager
def _process_progress(*, quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Shows progress on stderr: a bar of processes in a terminal, a line per process elsewhere, nothing when quiet."""
    if quiet or sys.stderr.isatty():
        with round_progress(quiet=quiet) as report:
            yield report
    else:
        yield lambda words, *_: typer.echo(words, err=True)
