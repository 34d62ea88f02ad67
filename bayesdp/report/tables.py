"""Numbers as the page writes them, and its tables: scrolling sideways, folded when long, with all rows as CSV inside the page."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._text import csv_text
from bayesdp.queries import Query, SumPart
from bayesdp.report.html import Html, element, joined, label

ABSENT = "–"
"""What stands where there is no number."""


def count(value: float) -> str:
    """A count or a published value.

    Examples
    --------
    >>> count(5105067.0), count(2.5), count(float("nan"))
    ('5,105,067', '2.50', '–')
    """
    if math.isnan(value):
        return ABSENT
    return f"{value:,.0f}" if value == round(value) else f"{value:,.2f}"


def decimal(value: float) -> str:
    """A mean: one decimal below a thousand, none beyond."""
    if math.isnan(value):
        return ABSENT
    return f"{value:,.1f}" if abs(value) < 1000 else f"{value:,.0f}"


def spread(value: float) -> str:
    """A standard deviation or a ratio, to three digits or so."""
    if math.isnan(value):
        return ABSENT
    if math.isinf(value):
        return "∞"
    return f"{value:,.2f}" if abs(value) < 100 else f"{value:,.0f}"


def plural(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun.

    Examples
    --------
    >>> plural(1, "cell"), plural(2, "cell")
    ('1 cell', '2 cells')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def significant(value: float) -> str:
    """A parameter, which may be of any size: to three digits.

    Examples
    --------
    >>> significant(0.012345), significant(-1.5), significant(23716.6)
    ('0.0123', '-1.5', '23,717')
    """
    if math.isnan(value):
        return ABSENT
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.3g}"


SHOWN = 30
"""Rows that are always shown."""
FOLDED = 1000
"""Rows that are in the page at all; the rest is in the CSV."""

MOST_ROWS = 200_000
"""Rows of a table that a page can hold, as its CSV file takes some 60 bytes a row."""


@dataclass(frozen=True)
class Column:
    """A column: its heading, and for each row a value, which `show` formats for the page; of a kind "number", "label" or "text".

    `raw` are columns of the CSV in place of this one, by heading; None for heading and values as they are.
    """

    heading: str
    values: Sequence[Any]
    show: Callable[[Any], str] = str
    kind: str = "number"
    raw: Mapping[str, Sequence[Any]] | None = None


def labels(query: Query) -> list[Column]:
    """Columns that name the answers of a query: one for each of its dimensions, or one of names where it has none."""
    part = query.parts[0]
    if len(query.parts) > 1 or not isinstance(part, SumPart) or not part.keep:
        names = ["grand total"] if is_grand_total(query) else query.names
        return [Column("Total", names, kind="label")]
    places = np.unravel_index(np.arange(query.rows), query.shape)
    return [
        Column(dim, [dim_labels[i] for i in place], kind="label")
        for (dim, dim_labels), place in zip(query.coords.items(), places, strict=True)
    ]


def is_grand_total(query: Query) -> bool:
    """Whether a query asks for the sum of all cells; a linear combination may be called "total" too."""
    part = query.parts[0]
    return len(query.parts) == 1 and isinstance(part, SumPart) and not part.keep


def numeric(heading: str, values: npt.ArrayLike, show: Callable[[float], str], csv_heading: str) -> Column:
    """A column of numbers, which the CSV has in full precision."""
    numbers = np.asarray(values, dtype=np.float64).tolist()
    return Column(heading, numbers, show, raw={csv_heading: numbers})


@dataclass(frozen=True)
class Table:
    """A table, with a caption that has units and the kind of intervals, and the name under which its CSV is saved.

    Rows that are `fixed` are greyed, because nothing in them is estimated.
    """

    caption: str
    columns: Sequence[Column]
    file_name: str
    fixed: Sequence[bool] = field(default=())

    def to_html(self) -> Html:
        """The table, with its link."""
        rows = [self._row(i) for i in range(min(len(self), FOLDED))]
        parts = [element("p", self.caption, class_="note caption"), self._frame(rows[:SHOWN])]
        if len(self) > SHOWN:
            beyond = f"; rows beyond {FOLDED:,} are in the CSV file only" if len(self) > FOLDED else ""
            note = f"The first {SHOWN} of {len(self):,} rows; the others are folded below and in the CSV file{beyond}."
            parts.append(element("p", note, class_="note"))
            heading = f"Rows {SHOWN + 1} to {len(rows):,}"
            parts.append(element("details", element("summary", heading), self._frame(rows[SHOWN:])))
        data = "data:text/csv;charset=utf-8;base64," + base64.b64encode(self.to_csv().encode()).decode("ascii")
        link = element("a", f"{plural(len(self), 'row')} as CSV", href=data, download=self.file_name, class_="screen")
        return joined([*parts, element("p", link, class_="note screen")])

    def __len__(self) -> int:
        return len(self.columns[0].values)

    def _frame(self, rows: Sequence[Html]) -> Html:
        head = [
            element("th", column.heading, scope="col", class_="label" if column.kind != "number" else None)
            for column in self.columns
        ]
        table = element("table", element("thead", element("tr", *head)), element("tbody", *rows))
        return element("div", table, class_="scroll", tabindex="0", role="region", aria_label=self.caption)

    def _row(self, i: int) -> Html:
        cells = []
        for column in self.columns:
            shown = column.show(column.values[i])
            if column.kind == "label":
                cells.append(element("th", label(shown), scope="row", class_="label", data_label=column.heading))
            else:
                kind = "text" if column.kind == "text" else None
                cells.append(element("td", shown, class_=kind, data_label=column.heading))
        return element("tr", *cells, class_="fixed" if len(self.fixed) and self.fixed[i] else None)

    def to_csv(self) -> str:
        """All rows, raw but for labels, which are those of `csv_label`; nothing where a number is missing."""
        pairs = [pair for column in self.columns for pair in (column.raw or {column.heading: column.values}).items()]
        headings, columns = zip(*pairs, strict=True)
        return csv_text(headings, zip(*columns, strict=True), "\r\n")


def facts(rows: Sequence[tuple[str, Any]]) -> Html:
    """A table of two columns: names and values."""
    body = [element("tr", element("th", name, scope="row"), element("td", value)) for name, value in rows]
    return element("div", element("table", element("tbody", *body), class_="facts"), class_="scroll")
