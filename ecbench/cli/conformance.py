"""``ecbench conformance``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

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


@reports_errors
def conformance(
    checks: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CHECK-GLOB...]", help="Names or patterns, e.g. 'allocator.*'; none runs all."),
    ] = None,
    target: Annotated[
        str, typer.Option(metavar="TARGET", help="reference, vllm, or module:Class of a connector of your own.")
    ] = "reference",
    limit: Annotated[float, typer.Option(metavar="SECONDS", help="A check that takes longer is killed.")] = 20.0,
    seed: SeedOption = 0,
    json_path: JsonOption = None,
    out: OutOption = DEFAULT_OUT,
    quiet: QuietOption = False,
) -> ExitCode:
    """Check an encoder-cache connector: 36 behaviours and the edge cases, each check in a process of its own.

    A crash or a hang of the target is a result of that check. What a check finds: passed, failed (with what was
    expected, what happened and the smallest input), a known difference, or not applicable (and why).

    Exit codes: 0 no check failed, 1 a check failed, 2 bad input or an incomplete target, 3 the target is not available,
    130 interrupted.
    """
    from ecbench.measure.stages import StageClock, seconds_since_process_start  # noqa: PLC0415 - keeps --help light
    from ecbench.workflows.conformance import (  # noqa: PLC0415 - imports torch
        ConformanceOptions,
        exit_code_of,
        prepare_conformance,
        run_conformance,
    )

    clock = StageClock(imports_s=seconds_since_process_start())
    options = ConformanceOptions(target=target, patterns=tuple(checks or ()), seed=seed, limit_s=limit)
    prepared = prepare_conformance(options)
    refuse_unwritable_targets(out, json_path)
    with _check_progress(target, quiet=quiet) as report_check:
        result = run_conformance(prepared, clock, report_check)
    code = exit_code_of(result)
    publish_result(result, json_path, out, silent=quiet and code is ExitCode.OK, quiet=quiet)
    if not result.complete:
        typer.echo(f"ecbench: {result.ended_by or 'interrupted'}; finished checks: {len(result.cases)}", err=True)
    return code


@contextmanager
def _check_progress(target: str, *, quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """A line before the import, which may take a minute; then a bar in a terminal."""
    if quiet:
        yield lambda *_: None
        return
    typer.echo(f"target {target}: importing", err=True)
    with round_progress(quiet=not sys.stderr.isatty()) as report:
        yield report
