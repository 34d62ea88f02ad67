"""Columns of counts in files that publishers write."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from bayesdp.storage.csv_file import CsvFile

POST_PROCESSED = "made whole, nonnegative and consistent by the TopDown algorithm"
"""The attribute ``postprocessing`` of tables from demonstration files; `bayesdp.Measured` refuses numbers that have it."""

_MAX_DIGITS = 15  # below 2**53, so that a count is exact as float64 too


def counts(file: CsvFile, columns: Sequence[str]) -> npt.NDArray[np.int64]:
    """Columns of counts as an array, shape (rows, columns); ValueError where something is no whole number of at least 0."""
    places = [file.column(name) for name in columns]
    out = np.empty((len(file.rows), len(places)), dtype=np.int64)
    for i, (line, fields) in enumerate(file.rows):
        for j, place in enumerate(places):
            text = fields[place]
            if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
                raise ValueError(
                    f"{file.at(line, columns[j])}: a count must be a whole number of at least 0, written in at most "
                    f"{_MAX_DIGITS} digits and no other sign, got {text!r}"
                )
            out[i, j] = int(text)
    return out


def codes(file: CsvFile, columns: Sequence[str], lengths: Sequence[int] | None = None) -> list[str]:
    """Codes that name the rows, put together from columns; ValueError where one is empty, no code, or there twice."""
    places = [file.column(name) for name in columns]
    first: dict[str, int] = {}
    for line, fields in file.rows:
        for i, place in enumerate(places):
            text = fields[place]
            wrong = not text if lengths is None else len(text) != lengths[i] or not (text.isascii() and text.isdigit())
            if wrong:
                valid = "not be empty" if lengths is None else f"have {lengths[i]} digits (leading zeros count)"
                raise ValueError(f"{file.at(line)}: {columns[i]} must {valid}, got {text!r}")
        code = "".join(fields[place] for place in places)
        if first.setdefault(code, line) != line:
            raise ValueError(f"{file.at(line)}: {code!r} is there already, in line {first[code]}")
    if not first:
        raise ValueError(f"{file.path}: there is no row below the header")
    return list(first)
