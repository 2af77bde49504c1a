"""``ecbench compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ecbench.cli.common import JsonOption, QuietOption, publish_result, reports_errors
from ecbench.core.comparison_records import FailOn
from ecbench.core.errors import ExitCode


@reports_errors
def compare(
    base: Annotated[Path, typer.Argument(metavar="BASE", help="JSON result to compare with.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="JSON result to judge.")],
    fail_on: Annotated[
        FailOn, typer.Option(help="Exit 1 for regressions, also 5 for what is inconclusive, or 1 for any change.")
    ] = FailOn.NEVER,
    threshold: Annotated[str, typer.Option(metavar="SHARE", help="Slowdown that is accepted, e.g. 5% or 0.05.")] = "5%",
    metric: Annotated[
        str, typer.Option(help="total_s, fill_s, submit_s, copy_s, or total_per_ceiling (free of unit).")
    ] = "total_s",
    under_test: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="What is meant to differ: torch, vllm, driver, ecbench, numpy, python or kernel."
        ),
    ] = None,
    json_path: JsonOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Also write JSON, Markdown and a page into this folder.")
    ] = None,
    quiet: QuietOption = False,
) -> ExitCode:
    """Compare two results: exact figures exactly, times with a verdict that knows its own error rate.

    Environment differences come first; some of them forbid to compare times. Verdicts are REGRESSED, PASSED, IMPROVED
    or INCONCLUSIVE, each with its reason.

    Exit codes: 0 ok, 2 bad input, 4 unreadable or incomparable results; with --fail-on 1 and 5 as it says.
    """
    from ecbench.workflows.compare import CompareOptions, exit_code_of, run_compare  # noqa: PLC0415 - imports scipy

    options = CompareOptions(base, new, metric, threshold, tuple(under_test or ()))
    result = run_compare(options)
    code = exit_code_of(result, fail_on)
    publish_result(result, json_path, out, silent=quiet and code is ExitCode.OK, quiet=quiet)
    return code
