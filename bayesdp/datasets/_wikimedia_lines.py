"""Lines of Wikimedia's files: noisy views of a day between tabs, exact views of a day between blanks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from bayesdp._text import printable
from bayesdp._validate import shown

_MOST_DIGITS = 15
_LONGEST = 20_000
"""Characters of a line. A title has at most 255 bytes."""


class Row(NamedTuple):
    """One line of a daily file."""

    line: int
    country: str
    code: str
    project: str
    page_id: int | None
    title: str
    views: int


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines that are not empty; ValueError where they are no text or much too long."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    with path.open("rb") as file:
        number = 0
        while line := file.readline(_LONGEST):
            number += 1
            if len(line) == _LONGEST:
                raise ValueError(f"{printable(path)}, line {number}: it is longer than {_LONGEST} bytes")
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{printable(path)}, line {number}: it is not text in UTF-8; a compressed file has to be decompressed first"
                ) from error
            if text:
                yield number, text


def _count(text: str, where: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise ValueError(f"{where}: views must be a whole number of at least 0, got {text[:40]!r}")
    return int(text)


def rows_of_day(path: Path) -> Iterator[Row]:
    """The rows of a daily file, one after the other, so that a file of any size takes little memory."""
    fields_of_first, names = 0, dict[str, str]()
    for number, text in _lines(path):
        where = f"{printable(path)}, line {number}"
        fields = text.split("\t")
        if not fields_of_first:
            fields_of_first = len(fields)
            if fields_of_first not in (6, 7):
                raise ValueError(
                    f"{where}: a line must have seven fields between tabs (country, code, project, page id, title, item, views) or "
                    f"six (without item), got {len(fields)}"
                )
            if fields[0] == "country":
                continue
        if len(fields) != fields_of_first:
            raise ValueError(f"{where}: {len(fields)} fields, but the first line has {fields_of_first}")
        country, code, project, page_id, title = fields[:5]
        if names.setdefault(code, country) != country:
            raise ValueError(
                f"{where}: the code {code!r} is that of {printable(country)} here and of {printable(names[code])} before"
            )
        yield Row(
            number,
            country,
            code,
            project,
            _count(page_id, where) if page_id else None,
            title,
            _count(fields[-1], where),
        )
    if not fields_of_first:
        raise ValueError(f"{printable(path)}: the file is empty")


def page_totals(path: Path, project: str, pages: Sequence[Any]) -> xr.DataArray:
    """Exact views of some pages in all countries, summed over accesses; int64, dims `(page,)`."""
    # Lines without a page id have `null` there.
    by_title = isinstance(pages[0], str)
    place = {str(page): j for j, page in enumerate(pages)}
    totals, seen = np.zeros(len(pages), dtype=np.int64), set[tuple[str, ...]]()
    found = np.zeros(len(pages), dtype=np.bool_)
    for number, text in _lines(path):
        where = f"{printable(path)}, line {number}"
        fields = text.split(" ")
        if len(fields) != 6:
            raise ValueError(
                f"{where}: a line must have six fields between blanks (project, title, page id, access, views of the day, views by "
                f"hour), got {len(fields)}"
            )
        page = fields[1] if by_title else fields[2]
        if fields[0] != project or page not in place:
            continue
        key = (page, fields[2], fields[3])
        if key in seen:
            raise ValueError(f"{where}: {printable(page)} by {printable(fields[3])} is there twice")
        seen.add(key)
        totals[place[page]] += _count(fields[4], where)
        found[place[page]] = True
    if not found.all():
        missing = [page for page, there in zip(pages, found, strict=True) if not there]
        raise ValueError(
            f"{printable(path)}: no line is about {project!r} and the pages {shown(missing)}, so that they have no total"
        )
    return xr.DataArray(totals, coords={"page": list(pages)}, dims=("page",), name="totals")
