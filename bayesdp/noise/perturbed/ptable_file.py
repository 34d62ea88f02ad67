"""Perturbation tables of offices, read from CSV files."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

from bayesdp._text import printable
from bayesdp.noise.perturbed.transition_table import TransitionTable

_NEEDED = ("i", "j", "p")
_OTHERS = ("v", "p_int_lb", "p_int_ub", "type")
"""Columns that exports of perturbation tables have beside them; v must be j - i, the others say nothing more."""

_MOST_BYTES = 20_000_000
_LARGEST = 1_000_000


def read_ptable(path: str | Path) -> TransitionTable:
    r"""Read a perturbation table: for each true count i the published counts j with their probabilities p.

    Parameters
    ----------
    path : str or Path
        A CSV file in UTF-8 with a line of names and the columns ``i``, ``j`` and ``p``, separated by commas or semicolons; numbers
        have decimal points. A column ``v`` must be ``j - i``; columns ``p_int_lb``, ``p_int_ub`` and ``type``, which some exports
        have, are not used. Pairs that do not stand in the file have probability 0. All counts above the largest i have its
        deviations.

    Returns
    -------
    TransitionTable

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If a column is missing or not known, a number is none, a pair stands in it twice, a count i is missing between 0 and the
        largest, or the probabilities of one do not sum to 1 (within 1e-8: write all digits). The message names the file, and the line
        or the row.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "ptable.csv"
    ...     _ = path.write_text("i,j,p\n0,0,1\n1,0,0.5\n1,2,0.5\n")
    ...     print(read_ptable(path))
    transition-table <2 rows, then the last one; deviations -1 to 1>
    """
    where, shown = Path(path), printable(str(path))
    if not where.is_file():
        raise FileNotFoundError(f"there is no perturbation table {shown}: no such file")
    if where.stat().st_size > _MOST_BYTES:
        raise ValueError(f"{shown} has more than {_MOST_BYTES:,} bytes, which is no perturbation table")
    try:
        text = where.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{shown} is not text in UTF-8") from None
    rows: dict[int, dict[int, float]] = {}
    lines = text.splitlines()
    delimiter = ";" if lines and ";" in lines[0] else ","
    try:
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        columns = _columns(next(reader, []), shown)
        for fields in reader:
            if fields:
                _add(rows, columns, fields, f"{shown}, line {reader.line_num}")
    except csv.Error as error:
        raise ValueError(f"{shown} is no CSV file: {error}") from None
    if not rows:
        raise ValueError(f"{shown} has no rows")
    try:
        return TransitionTable.by_count(rows)
    except ValueError as error:
        raise ValueError(f"{shown}: {error}") from None


def _columns(header: list[str], shown: str) -> dict[str, int]:
    names = [name.strip() for name in header]
    missing = [name for name in _NEEDED if name not in names]
    if missing:
        raise ValueError(
            f"{shown} lacks the column {', '.join(missing)}; a perturbation table has i (the true count), j (the published one) and p"
        )
    unknown = [name for name in names if name not in (*_NEEDED, *_OTHERS)]
    if unknown:
        raise ValueError(
            f"{shown} has the column {printable(unknown[0])!r}, which is not known; known are i, j, p, {', '.join(_OTHERS)}"
        )
    if len(set(names)) < len(names):
        raise ValueError(f"{shown} has a column twice")
    return {name: k for k, name in enumerate(names)}


def _add(rows: dict[int, dict[int, float]], columns: dict[str, int], fields: list[str], where: str) -> None:
    """Put the probability of one line where it belongs."""
    if len(fields) != len(columns):
        raise ValueError(f"{where}: {len(fields)} fields, but there are {len(columns)} columns")
    i, j = (_number(fields[columns[name]], name, where, int) for name in ("i", "j"))
    for name, value in (("i", i), ("j", j)):
        if not 0 <= value <= _LARGEST:
            raise ValueError(f"{where}: {name} must be a count from 0 to {_LARGEST}, got {value}")
    if "v" in columns and _number(fields[columns["v"]], "v", where, int) != j - i:
        raise ValueError(f"{where}: v must be j - i, which is {j - i}, got {printable(fields[columns['v']])!r}")
    p = _number(fields[columns["p"]], "p", where, float)
    if not (math.isfinite(p) and 0.0 <= p <= 1.0):
        raise ValueError(f"{where}: p must be a probability from 0 to 1, got {printable(fields[columns['p']])!r}")
    row = rows.setdefault(i, {})
    if j - i in row:
        raise ValueError(f"{where}: i = {i} with j = {j} stands in the file twice")
    row[j - i] = p


def _number(text: str, name: str, where: str, kind: type) -> Any:
    try:
        return kind(text.strip())
    except ValueError:
        what = "a whole number" if kind is int else "a number with a decimal point"
        raise ValueError(f"{where}: {name} must be {what}, got {printable(text)!r}") from None
