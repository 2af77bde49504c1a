"""What ``report`` does, and what other commands do to their results at the end: render, write, summarise."""

from __future__ import annotations

import functools
import io
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ecbench.core.errors import EcbenchError
from ecbench.core.records import to_json
from ecbench.report.descriptions.side_by_side import describe_side_by_side
from ecbench.report.figures import REPORTS_STAGE
from ecbench.report.files import refuse_unwritable, write_atomically, write_result_files
from ecbench.report.formats.annotations import workflow_commands
from ecbench.report.formats.names import DEFAULT_FILES, ENDINGS, ReportFormat
from ecbench.report.formats.step_summary import append_step_summary
from ecbench.report.kinds import describe, kind_of
from ecbench.report.loading import load_result
from ecbench.report.plain_text import printable, printable_record
from ecbench.report.side_by_side import NamedResult, set_side_by_side

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import Console

    from ecbench.report.documents import Document
    from ecbench.report.kinds import AnyResult
    from ecbench.report.plots.style import Drawing
    from ecbench.report.side_by_side import SideBySide

_FILE_COLUMNS = 120
"""Width of tables in a text file."""
WORKSPACE = "GITHUB_WORKSPACE"
_NAME_CHARACTERS = 80
_UNSAFE_IN_NAMES = re.compile(r"[^A-Za-z0-9.+_-]+")


@dataclass(frozen=True)
class Report:
    """Results to be shown together, and what follows from them.

    Args:
        stored: As they were loaded.
        labels: Short names, one each.
    """

    stored: tuple[AnyResult, ...]
    labels: tuple[str, ...]

    @functools.cached_property
    def named(self) -> tuple[NamedResult, ...]:
        """The results with every text in them fit for showing."""
        shown = [printable_record(result, kind_of(result).result_type) for result in self.stored]
        return tuple(NamedResult(label, result) for label, result in zip(self.labels, shown, strict=True))

    @functools.cached_property
    def comparison(self) -> SideBySide | None:
        """The results side by side, where there are several with legs."""
        comparable = len(self.stored) > 1 and all(kind_of(result).has_legs for result in self.stored)
        return set_side_by_side(self.named) if comparable else None

    @functools.cached_property
    def drawings(self) -> tuple[tuple[Drawing, ...], ...]:
        """The plots of the comparison, where there is one, and those of each result."""
        from ecbench.report.plots.catalogue import draw, draw_side_by_side  # noqa: PLC0415 - imports matplotlib

        results = [entry.result for entry in self.named]
        each = tuple(tuple(draw(result)) for result in results)
        return (tuple(draw_side_by_side(self.comparison, results)), *each) if self.comparison else each

    @functools.cached_property
    def documents(self) -> tuple[Document, ...]:
        """The documents that `drawings` belong to."""
        each = tuple(describe(entry.result) for entry in self.named)
        return (describe_side_by_side(self.comparison, self.named), *each) if self.comparison else each

    @property
    def stem(self) -> str:
        """What files are called, without ending."""
        if len(self.stored) == 1:
            return result_stem(self.stored[0])
        name = "comparison" if self.comparison else "results"
        return _safe_name("-".join([name, *self.labels]))


def result_stem(result: AnyResult) -> str:
    """What the files of a result are called, without ending: the command, the scenario where it has one, the time."""
    scenario = result.settings.get("scenario")
    time = result.started_at.replace(":", "").replace("+0000", "Z")
    return _safe_name("-".join([result.kind, *([str(scenario)] if scenario else []), time]))


def _safe_name(text: str) -> str:
    return _UNSAFE_IN_NAMES.sub("_", text)[:_NAME_CHARACTERS].lstrip(".") or "result"


def load_report(paths: Sequence[Path]) -> Report:
    """Loads results to be shown together.

    Raises:
        DataError: One of them cannot be used.
    """
    return Report(tuple(map(load_result, paths)), tuple(_labels(paths)))


def _labels(paths: Sequence[Path]) -> list[str]:
    """The shortest names that tell files apart: their own, else with their folder, else numbered."""
    for names in ([path.stem for path in paths], [f"{path.parent.name}/{path.stem}" for path in paths]):
        if len(set(names)) == len(names):
            return [printable(name) for name in names]
    return [printable(f"{path.stem} #{number}") for number, path in enumerate(paths, start=1)]


def report_on(result: AnyResult) -> Report:
    """The report on a result that a command has just found."""
    return Report((result,), (result.kind,))


def print_report(report: Report, console: Console) -> None:
    """Prints the comparison, or each result."""
    from ecbench.report.formats.document_console import print_document  # noqa: PLC0415 - imports rich
    from ecbench.report.showing import print_result  # noqa: PLC0415 - as above

    if report.comparison:
        print_document(report.documents[0], console)
        return
    for entry in report.named:
        print_result(entry.result, console)


def render_text(report: Report, wanted: ReportFormat) -> str:
    """Renders a report in a format that is one text.

    Args:
        report: Results of any kind.
        wanted: A format in `ENDINGS`.
    """
    match wanted:
        case ReportFormat.CONSOLE:
            return _plain_text(report)
        case ReportFormat.MARKDOWN:
            return report_markdown(report)
        case ReportFormat.HTML:
            return _html(report)
        case ReportFormat.CSV:
            return _csv(report)
        case ReportFormat.JUNIT:
            from ecbench.report.formats.junit import render_junit  # noqa: PLC0415 - only where it is asked for

            return render_junit([entry.result for entry in report.named])
        case _:
            return _json(report)


def _plain_text(report: Report) -> str:
    from rich.console import Console  # noqa: PLC0415 - costs 30 ms

    stream = io.StringIO()
    print_report(report, Console(file=stream, width=_FILE_COLUMNS, highlight=False))
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())


def report_markdown(report: Report) -> str:
    """The comparison, or each result, as Markdown."""
    from ecbench.report.formats.document_markdown import render_document_markdown  # noqa: PLC0415 - with the next
    from ecbench.report.showing import result_markdown  # noqa: PLC0415 - imports rich

    if report.comparison:
        return render_document_markdown(report.documents[0])
    return "\n".join(result_markdown(entry.result) for entry in report.named)


def _html(report: Report) -> str:
    from ecbench.report.formats.html import Page, render_html  # noqa: PLC0415 - imports matplotlib

    return render_html([Page(*pair) for pair in zip(report.documents, report.drawings, strict=True)])


def _csv(report: Report) -> str:
    from ecbench.report.formats.csv_file import render_rows_csv, render_samples_csv  # noqa: PLC0415 - as the others

    with_samples = [entry for entry in report.named if kind_of(entry.result).has_legs]
    others = [render_rows_csv(entry.result) for entry in report.named if not kind_of(entry.result).has_legs]
    return "\r\n".join([*([render_samples_csv(with_samples)] if with_samples else []), *others])


def _json(report: Report) -> str:
    """One result as it is; several as an array of them."""
    if len(report.stored) == 1:
        return to_json(report.stored[0]).decode()
    encoded = msgspec.json.encode(list(report.stored))
    return msgspec.json.format(encoded, indent=2).decode() + "\n"


def render_files(report: Report, formats: Iterable[ReportFormat]) -> dict[str, bytes]:
    """Renders a report in several formats.

    Returns:
        File contents by ending: one per text format, one per plot for ``png`` and ``svg``.
    """
    contents: dict[str, bytes] = {}
    for wanted in dict.fromkeys(formats):
        if wanted in ENDINGS:
            contents[ENDINGS[wanted]] = _encoded(render_text(report, wanted), wanted)
        else:
            contents |= _plot_files(report, wanted)
    return contents


def _encoded(text: str, wanted: ReportFormat) -> bytes:
    from ecbench.report.formats.csv_file import FILE_ENCODING  # noqa: PLC0415 - as the others

    return text.encode(FILE_ENCODING if wanted is ReportFormat.CSV else "utf-8")


def _plot_files(report: Report, wanted: ReportFormat) -> dict[str, bytes]:
    from ecbench.report.plots.rendering import render_png, render_svg  # noqa: PLC0415 - imports matplotlib

    render = render_png if wanted is ReportFormat.PNG else render_svg
    groups = report.drawings
    many = len(groups) > 1
    return {
        f"-{f'{number}-' if many else ''}{drawing.name}.{wanted.value}": render(drawing)
        for number, drawings in enumerate(groups)
        for drawing in drawings
    }


def write_report(report: Report, out: Path, formats: Sequence[ReportFormat] = DEFAULT_FILES) -> list[Path]:
    """Renders everything first and writes then, each file whole or not at all.

    Args:
        report: Results of any kind.
        out: A folder; or a file, where one text format is asked for and the name ends like it.
        formats: What to write.

    Returns:
        The files.

    Raises:
        EcbenchError: The folder cannot be made or written to, or there is nothing to draw.
    """
    if len(formats) == 1 and out.suffix == ENDINGS.get(formats[0]) and not out.is_dir():
        refuse_unwritable(out.parent)
        write_atomically(out, render_files(report, formats)[out.suffix])
        return [out]
    contents = render_files(report, formats)
    if not contents:
        kinds = ", ".join(dict.fromkeys(result.kind for result in report.stored))
        raise EcbenchError(f"a result of {kinds} has no plot: use --format markdown, html, csv, json or junit")
    refuse_unwritable(out)
    return write_result_files(out, report.stem, contents)


@dataclass(frozen=True)
class Rendered:
    """A result and its files, ready to be written.

    Args:
        result: As it is kept: with the time that rendering took.
        stem: What the files are called, without ending.
        contents: File contents by ending, the JSON first.
    """

    result: AnyResult
    stem: str
    contents: dict[str, bytes]


def render_with_time(report: Report, formats: Sequence[ReportFormat]) -> Rendered:
    """Renders the report on one result, and adds what that took to the result's stages.

    Args:
        report: From `report_on`.
        formats: What to render; JSON among them is made last, so that it holds the time of the others.
    """
    (result,) = report.stored
    began = time.perf_counter()
    contents = render_files(report, [wanted for wanted in formats if wanted is not ReportFormat.JSON])
    if result.stages_s:
        stages_s = {**result.stages_s, REPORTS_STAGE: time.perf_counter() - began}
        result = msgspec.structs.replace(result, stages_s=stages_s)
    if ReportFormat.JSON in formats:
        contents = {ENDINGS[ReportFormat.JSON]: to_json(result), **contents}
    return Rendered(result, report.stem, contents)


def write_rendered(rendered: Rendered, out: Path, beside: Mapping[str, bytes]) -> list[Path]:
    """Writes the files, each whole or not at all.

    Args:
        rendered: What was rendered.
        out: A folder.
        beside: Contents of further files by ending, under the same name.

    Raises:
        EcbenchError: The folder cannot be made or written to.
    """
    refuse_unwritable(out)
    return write_result_files(out, rendered.stem, {**rendered.contents, **beside})


def summarise_step(report: Report) -> Path | None:
    """Appends the Markdown to the summary of a GitHub step, where this is one."""
    return append_step_summary(lambda: report_markdown(report))


def step_annotations(report: Report) -> list[str]:
    """What tells a GitHub step which checks did not pass, one line each."""
    workspace = os.environ.get(WORKSPACE)
    root = Path(workspace) if workspace else None
    return [line for entry in report.named for line in workflow_commands(entry.result, root)]
