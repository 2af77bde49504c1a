"""What all commands share: options, output streams, and errors as one line with an exit code."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec

import typer

from ecbench.core.errors import EcbenchError, ExitCode
from ecbench.core.records import RunResult, to_json
from ecbench.report.formats.names import DEFAULT_FILES, ReportFormat

if TYPE_CHECKING:
    from rich.console import Console

    from ecbench.core.records import Record

P = ParamSpec("P")
STDOUT = Path("-")
GITHUB_STEP = "GITHUB_ACTIONS"
"""Variable that is ``true`` in a step of GitHub Actions."""
PIPE_COLUMNS = 200
"""Width of tables that no terminal limits."""

JsonOption = Annotated[
    Path | None,
    typer.Option("--json", metavar="PATH|-", help="Also write the result as JSON; '-' prints only the JSON."),
]
OutOption = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for reports.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of content and workloads.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress; print only what went wrong.")]
DEFAULT_OUT = Path("reports")
QUICK_FILES = (ReportFormat.JSON, ReportFormat.MARKDOWN)
"""Reports that need no drawing."""


def reports_errors(command: Callable[P, ExitCode]) -> Callable[P, None]:
    """Turns a command's return value, its errors and Ctrl-C into exit codes.

    Args:
        command: Returns its exit code; may raise `EcbenchError`.
    """

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            code = command(*args, **kwargs)
        except EcbenchError as error:
            code = error.exit_code
            typer.echo(f"ecbench: {error}", err=True)
        except KeyboardInterrupt:
            code = ExitCode.INTERRUPTED
            typer.echo("ecbench: interrupted", err=True)
        raise typer.Exit(int(code))

    return wrapped


@contextmanager
def printing() -> Iterator[Console]:
    """Gives a console on stdout. A reader that went away (``| head``) ends the printing, not the command.

    Raises:
        EcbenchError: stdout cannot be written for another reason, for example a full disk.
    """
    from rich.console import Console  # noqa: PLC0415 - costs 30 ms that --help need not pay

    class PipeConsole(Console):
        def on_broken_pipe(self) -> None:
            # rich would exit with 1, which says that a check failed.
            raise BrokenPipeError

    width = None if sys.stdout.isatty() else PIPE_COLUMNS
    try:
        yield PipeConsole(file=sys.stdout, width=width, highlight=False, soft_wrap=False)
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_stdout()
    except OSError as error:
        _discard_stdout()
        raise EcbenchError(
            f"standard output: cannot be written ({error.strerror}): free some room or use --out"
        ) from error


def _discard_stdout() -> None:
    """Sends what is still buffered nowhere: the interpreter flushes stdout once more at exit and would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_json(record: Record) -> None:
    """Prints a record as JSON."""
    with printing():
        sys.stdout.write(to_json(record).decode())


def write_json(path: Path, record: Record) -> None:
    """Writes a record where ``--json`` says: a file, or stdout for ``-``."""
    from ecbench.report.files import write_atomically  # noqa: PLC0415 - only when there is something to write

    if path == STDOUT:
        print_json(record)
    else:
        write_atomically(path, to_json(record))


def refuse_unwritable_targets(out: Path, json_path: Path | None) -> None:
    """Finds out before a long run whether its reports can be written.

    Raises:
        EcbenchError: A folder cannot be made or written to.
    """
    from ecbench.report.files import refuse_unwritable  # noqa: PLC0415 - keeps --help light

    refuse_unwritable(out)
    if json_path not in (None, STDOUT):
        refuse_unwritable(json_path.parent)


def publish_result(
    result: RunResult[Any],
    json_path: Path | None,
    out: Path | None,
    *,
    silent: bool,
    quiet: bool,
    formats: Sequence[ReportFormat] = DEFAULT_FILES,
    beside: Mapping[str, bytes] | None = None,
) -> None:
    """Prints a result, writes it where it is wanted, and tells a GitHub step about it.

    Printing comes first: a full disk must not cost the numbers on the screen. The time that pages and plots take is
    kept in the JSON as the stage ``reports``.

    Args:
        result: Of any kind.
        json_path: Where ``--json`` says; with ``-`` stdout has nothing else.
        out: Folder for reports; None writes none.
        silent: Print nothing.
        quiet: Do not say where the reports are.
        formats: Reports to write. An interrupted run gets no page: whoever pressed Ctrl-C wants to leave.
        beside: Contents of further files by ending, written under the reports' name.

    Raises:
        EcbenchError: Something cannot be written.
    """
    from ecbench.workflows.reporting import (  # noqa: PLC0415 - imports rich
        print_report,
        render_with_time,
        report_on,
        summarise_step,
        write_rendered,
    )

    report = report_on(result)
    if json_path != STDOUT and not silent:
        with printing() as console:
            print_report(report, console)
    rendered = render_with_time(report, formats if result.complete else QUICK_FILES) if out is not None else None
    if json_path is not None:
        write_json(json_path, rendered.result if rendered else result)
    summarise_step(report)
    annotate_result(result)
    if out is None or rendered is None:
        return
    paths = write_rendered(rendered, out, beside or {})
    if not quiet:
        typer.echo(f"reports: {', '.join(map(str, paths))}", err=True)


def announce_imports(target: str, *, quiet: bool) -> None:
    """Says on stderr what the command is about to wait for.

    Args:
        target: As ``--target`` has it.
        quiet: Say nothing.

    Raises:
        EcbenchError: No such target.
    """
    from ecbench.targets.registry import import_notice  # noqa: PLC0415 - imports torch

    notice = None if quiet else import_notice(target)
    if notice is not None:
        typer.echo(f"ecbench: {notice}", err=True)


def annotate_result(result: RunResult[Any]) -> None:
    """Tells a step of GitHub Actions, where this is one, which checks did not pass; on stderr, which it reads too."""
    if os.environ.get(GITHUB_STEP) != "true":
        return
    from ecbench.workflows.reporting import report_on, step_annotations  # noqa: PLC0415 - imports rich

    for line in step_annotations(report_on(result)):
        typer.echo(line, err=True)


@contextmanager
def round_progress(*, quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Shows progress on stderr: a bar in a terminal, a line per case elsewhere, nothing when quiet."""
    if quiet:
        yield lambda *_: None
    elif sys.stderr.isatty():
        with _progress_bar() as report:
            yield report
    else:
        yield _report_case_start


def _report_case_start(case_id: str, done: int, rounds: int) -> None:
    if done == 1:
        typer.echo(f"{case_id}: {rounds} rounds, warm-up included", err=True)


@contextmanager
def _progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    from rich.console import Console  # noqa: PLC0415 - as above
    from rich.progress import Progress  # noqa: PLC0415 - as above

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("")

        def report(case_id: str, done: int, rounds: int) -> None:
            progress.update(task, description=case_id, completed=done, total=rounds)

        yield report
