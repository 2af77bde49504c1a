"""Results as CSV that a spreadsheet opens as it is: a line per sample, names with units, no cell a formula."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from ecbench.report.kinds import describe, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

    from ecbench.report.kinds import AnyResult
    from ecbench.report.side_by_side import NamedResult

FILE_ENCODING = "utf-8-sig"
"""With the mark by which spreadsheets know UTF-8."""
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What spreadsheets may take a cell for a formula by; the last four are the wide forms of the first."""


def render_samples_csv(named: Sequence[NamedResult]) -> str:
    """A line per sample; a leg without samples has one line with its status and reason and no times."""
    import pandas as pd  # noqa: PLC0415 - takes a second

    from ecbench.report.tables import samples_table, unmeasured_table  # noqa: PLC0415 - as above

    parts = [
        table.assign(result=entry.label)
        for entry in named
        for table in (samples_table(entry.result), unmeasured_table(entry.result))
    ]
    filled = [part for part in parts if len(part)] or parts[:1]
    table = pd.concat(filled, ignore_index=True)
    columns = ["result", *(name for name in table.columns if name != "result")]
    return _harmless(table[columns]).to_csv(index=False, lineterminator="\r\n")


def _harmless(table: pd.DataFrame) -> pd.DataFrame:
    changed = {
        str(name): column.astype(object).map(_defused_value)
        for name, column in table.items()
        if column.dtype.kind not in "iufb"
    }
    return table.assign(**changed).rename(columns=defused)


def _defused_value(value: object) -> object:
    return defused(value) if isinstance(value, str) else value


def defused(text: str) -> str:
    """Puts an apostrophe before what a spreadsheet would calculate or run."""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def render_rows_csv(result: AnyResult) -> str:
    """The tables of a result without samples, one after the other, each line with its section."""
    assert not kind_of(result).has_legs
    sections = [section for section in describe(result).sections if section.table is not None and section.table.rows]
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\r\n")
    for number, section in enumerate(sections):
        assert section.table is not None
        if number:
            writer.writerow([])
        writer.writerow(_defused_cells(("section", *section.table.columns)))
        writer.writerows(_defused_cells((section.heading, *row.cells)) for row in section.table.rows)
    return stream.getvalue()


def _defused_cells(cells: Iterable[str]) -> list[str]:
    return [defused(cell) for cell in cells]
