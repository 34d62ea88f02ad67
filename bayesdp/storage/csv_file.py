"""CSV files as rows with line numbers, read strictly."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bayesdp._validate import shown

__all__ = ["CsvFile", "numbers", "read_csv", "write_csv"]

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)


@dataclass(frozen=True)
class CsvFile:
    """A CSV file that has been read.

    Attributes
    ----------
    path : Path
        Where it is from, for messages.
    header : tuple of str
        Names of the columns, distinct.
    rows : tuple of (int, tuple of str)
        Line number in the file and the fields, as many as the header has.
    """

    path: Path
    header: tuple[str, ...]
    rows: tuple[tuple[int, tuple[str, ...]], ...]

    def column(self, name: str) -> int:
        """Position of a column; ValueError if there is none of that name."""
        if name not in self.header:
            raise ValueError(f"{self.path}: there is no column {name!r}; columns are {shown(self.header)}")
        return self.header.index(name)

    def at(self, line: int) -> str:
        """The file and a line, for messages."""
        return f"{self.path}, line {line}"


def read_csv(path: str | os.PathLike[str]) -> CsvFile:
    """Read a CSV file: comma-separated, UTF-8, a header in the first line, as many fields in each line.

    Blank lines are skipped. Nothing else is: blanks around a label or a name are an error, because they make
    two labels out of one.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not such a file; the message names file and line.
    """
    target = Path(path)
    if not target.is_file():
        raise FileNotFoundError(f"there is no file {str(target)!r}")
    try:
        with target.open(encoding="utf-8-sig", newline="") as text:
            rows = list(_rows(text))
    except UnicodeDecodeError as error:
        raise ValueError(f"{target}: it is not text in UTF-8 ({error.reason} at byte {error.start})") from None
    except csv.Error as error:
        raise ValueError(f"{target}: it is not a CSV file ({error})") from None
    if not rows:
        raise ValueError(f"{target}: the file is empty")
    file = CsvFile(target, rows[0][1], tuple(rows[1:]))
    if len(file.header) == 1 and re.search(r"[;\t|]", file.header[0]):
        raise ValueError(f"{target}: columns must be separated by commas, the first line is {file.header[0]!r}")
    repeated = [name for i, name in enumerate(file.header) if name in file.header[:i]]
    if repeated:
        raise ValueError(f"{target}: the header names a column twice: {shown(repeated)}")
    for line, fields in rows:
        if len(fields) != len(file.header):
            raise ValueError(f"{file.at(line)}: {len(fields)} fields, but the header has {len(file.header)}")
        blank = next((field for field in fields if field != field.strip()), None)
        if blank is not None:
            raise ValueError(f"{file.at(line)}: {blank!r} has blanks around it; remove them")
    return file


def _rows(text: Iterator[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    reader = csv.reader(text, strict=True)
    for fields in reader:
        if fields:
            yield reader.line_num, tuple(fields)


def numbers(file: CsvFile, cells: Sequence[tuple[int, str, str]]) -> npt.NDArray[np.int64] | npt.NDArray[np.float64]:
    """The numbers of some cells: int64 if all are written as integers, else float64; NaN where one is empty.

    Parameters
    ----------
    file : CsvFile
        Where they are from, for messages.
    cells : sequence of (int, str, str)
        Line, name of the cell for messages, and text.

    Raises
    ------
    ValueError
        If a text is not a number; the message names file, line and cell.
    """
    for line, name, text in cells:
        if text and not _NUMBER.fullmatch(text):
            raise ValueError(
                f"{file.at(line)}: {text!r} at {name} is not a number; leave the cell empty if it was not published"
            )
    if all(_INTEGER.fullmatch(text) for _, _, text in cells):
        return np.array([int(text) for _, _, text in cells], dtype=np.int64)
    return np.array([float(text) if text else np.nan for _, _, text in cells], dtype=np.float64)


def write_csv(path: Path, header: Sequence[str], rows: Iterator[Sequence[object]]) -> None:
    """Write a CSV file in UTF-8 with Unix line ends; floats in full."""
    with path.open("w", encoding="utf-8", newline="") as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
