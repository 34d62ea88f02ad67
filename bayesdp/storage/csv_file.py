"""CSV files as rows with line numbers, read strictly.

What to do about a text that stands where a number should: a remedy that works when it is followed to the letter.
"""

from __future__ import annotations

import csv
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bayesdp._text import printable
from bayesdp._validate import nearest, shown

__all__ = ["NUMBER", "CsvFile", "csv_header", "numbers", "read_csv", "write_csv"]

HOW_TO_LEAVE_OUT = (
    "leave the field empty and state that the cell was not published: --unmeasured blank (unmeasured= in Python)"
)
"""For noisy values; exact values have no such cells."""

_THOUSANDS = re.compile(r"([+-]?\d{1,3})((?:[,' \u2019\u00a0\u202f]\d{3})+)(\.\d+)?", re.ASCII)
_LIMIT = re.compile(r"(<=?|>=?|\u2264|\u2265)\s*\d+|\d+\s*(-|\u2013|to)\s*\d+", re.ASCII)
_PERCENT = re.compile(r"[+-]?[\d.]+\s*%", re.ASCII)
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+", re.ASCII)


def remedy(text: str) -> str:
    """A remedy for a text that is no number.

    Examples
    --------
    >>> remedy("1,215")
    'write it without separators of thousands, 1215'
    """
    thousands = _THOUSANDS.fullmatch(text)
    if thousands:
        whole = thousands[1] + re.sub(r"\D", "", thousands[2]) + (thousands[3] or "")
        return f"write it without separators of thousands, {whole}"
    if _PERCENT.fullmatch(text):
        return (
            "a percentage is no count and its noise is not that of a count: put the published counts into this column, or "
            "choose the column that holds them (--value NAME) and leave this one out (--ignore NAME)"
        )
    if _LIMIT.fullmatch(text):
        return (
            f"a limit is no noisy number: {HOW_TO_LEAVE_OUT}; that is right only if the choice of what to hide did not depend on "
            "the hidden number (a limit that is known exactly is an Exact part with sign='<=' or '>=' in Python)"
        )
    if _DECIMAL_COMMA.fullmatch(text):
        return f"write it with a decimal point, {text.replace(',', '.')}"
    return f"if no noisy number was published there, {HOW_TO_LEAVE_OUT}"


def split_thousands(fields: tuple[str, ...]) -> str | None:
    """Two neighbouring fields that look like one number with a separator of thousands, put together without it.

    Examples
    --------
    >>> split_thousands(("Alpha", "Low", "1", "215")), split_thousands(("Alpha", "Low", "14"))
    ('1215', None)
    """
    for i, field in enumerate(fields):
        if re.fullmatch(r"[+-]?\d{1,3}", field, re.ASCII) and i + 1 < len(fields):
            rest = []
            for following in fields[i + 1 :]:
                if not re.fullmatch(r"\d{3}", following, re.ASCII):
                    break
                rest.append(following)
            if rest:
                return field + "".join(rest)
    return None


NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
HIDDEN = "(not shown)"
"""Stands for a text of a confidential file."""

PLAIN_NUMBERS = "write whole numbers with digits only, without separators of thousands or other signs"

_INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)


@dataclass(frozen=True)
class CsvFile:
    """A CSV file that has been read."""

    path: Path  # where it is from, for messages
    header: tuple[str, ...]  # names of the columns, distinct
    rows: tuple[tuple[int, tuple[str, ...]], ...]  # line number in the file and the fields, as many as the header has
    confidential: bool = False  # whether messages must not show what the file holds

    def column(self, name: str) -> int:
        """Position of a column; ValueError if there is none of that name."""
        if name not in self.header:
            raise ValueError(
                f"{self.path}: there is no column {name!r}; columns are {nearest(name, self.header, self.listed)}"
            )
        return self.header.index(name)

    def label_text(self, text: str) -> str:
        """A label or the name of a column, for messages.

        Of a confidential file nothing with a digit is shown: a file without a header, or with a column of counts that was
        taken for labels, has counts in these places.
        """
        return HIDDEN if self.confidential and any(character.isnumeric() for character in text) else printable(text)

    def listed(self, texts: Iterable[str], limit: int = 5) -> str:
        """Several labels or names of columns, for messages; see `label_text`."""
        return shown((_Bare(HIDDEN) if self.label_text(text) == HIDDEN else text for text in texts), limit)

    def at(self, line: int, column: str | None = None) -> str:
        """The file, a line and a column, for messages."""
        return f"{printable(self.path)}, line {line}" + ("" if column is None else f", column {self.listed([column])}")


class _Bare(str):
    """A text that messages show without quotes: it is not from the file."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def read_csv(
    path: str | os.PathLike[str], ignore: Sequence[str] = (), *, confidential: bool = False, delimiter: str = ","
) -> CsvFile:
    """Read a CSV file: comma-separated, UTF-8, a header in the first line, as many fields in each line."""
    # Blank lines are skipped. Nothing else is: blanks around a label or a name are an error, because they make two labels out of
    # one. `ignore`: columns that are left out, whatever they hold. `confidential`: whether messages, about this file and about its
    # numbers, must not show what it holds; see `CsvFile.told`. `delimiter`: what stands between fields, where a publisher does not
    # use commas.
    target = Path(path)
    if not target.is_file():
        raise FileNotFoundError(f"there is no file {str(target)!r}")
    rows: list[tuple[int, tuple[str, ...]]] = []
    wrong = ""
    try:
        with target.open(encoding="utf-8-sig", newline="") as text:
            rows = list(_rows(text, delimiter))
    except UnicodeDecodeError as error:
        wrong = f"it is not text in UTF-8 ({error.reason} at byte {error.start})"
    except csv.Error as error:
        wrong = f"it is not a CSV file ({error})"
    if wrong:  # out here, where no error with the bytes of the file in it becomes the context of this one
        raise ValueError(f"{target}: {wrong}")
    if not rows:
        raise ValueError(f"{target}: the file is empty")
    file = CsvFile(target, rows[0][1], tuple(rows[1:]), confidential)
    if delimiter == "," and len(file.header) == 1 and re.search(r"[;\t|]", file.header[0]):
        raise ValueError(f"{target}: columns must be separated by commas, the first line is {file.listed(file.header)}")
    repeated = [name for name, times in Counter(file.header).items() if times > 1]
    if repeated:
        raise ValueError(f"{target}: the header names a column twice: {file.listed(repeated)}")
    if any("\0" in name for name in file.header):
        raise ValueError(f"{target}: the name of a column holds the character NUL, which no file can have as a name")
    left_out = {file.column(name) for name in ignore}
    kept = [i for i in range(len(file.header)) if i not in left_out]
    for line, fields in rows:
        if len(fields) != len(file.header):
            raise ValueError(_wrong_length(file, line, fields))
        blank = [(line, i) for i in kept if fields[i] != fields[i].strip()]
        if blank:
            raise ValueError(_blanks(file, rows, kept, blank[0]))
    if left_out:
        chosen = tuple((line, tuple(fields[i] for i in kept)) for line, fields in file.rows)
        return CsvFile(target, tuple(file.header[i] for i in kept), chosen, confidential)
    return file


def csv_header(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """The names of the columns of a CSV file; empty where that cannot be read, which `read_csv` explains."""
    target = Path(path)
    if target.suffix.lower() != ".csv" or not target.is_file():
        return ()
    try:
        with target.open(encoding="utf-8-sig", newline="") as text:
            return next((fields for _, fields in _rows(text)), ())
    except (UnicodeDecodeError, csv.Error):
        return ()


def _wrong_length(file: CsvFile, line: int, fields: tuple[str, ...]) -> str:
    """What to do about a line with too many fields, or too few."""
    message = f"{file.at(line)}: {len(fields)} fields, but the header has {len(file.header)}"
    whole = split_thousands(fields)
    if len(fields) < len(file.header):
        return f"{message}; a field without a value needs its comma nevertheless"
    if whole is not None:
        return f"{message}; write numbers without separators of thousands" + ("" if file.confidential else f", {whole}")
    if not any(fields[len(file.header) :]):
        return f"{message}; remove the comma at the end"
    return f'{message}; a label that holds a comma is written in double quotes, "like, this"'


def _blanks(
    file: CsvFile, rows: Sequence[tuple[int, tuple[str, ...]]], kept: Sequence[int], first: tuple[int, int]
) -> str:
    """Blanks around a field; how many more there are, so that all are removed at once."""
    count = sum(fields[i] != fields[i].strip() for _, fields in rows if len(fields) == len(file.header) for i in kept)
    line, column = first
    text = next(fields for number, fields in rows if number == line)[column]
    more = f" (and around {count - 1} more fields of the file)" if count > 1 else ""
    held = "the field" if file.confidential else repr(text)
    return f"{file.at(line, file.header[column])}: {held} has blanks around it; remove them{more}"


def _rows(text: Iterator[str], delimiter: str = ",") -> Iterator[tuple[int, tuple[str, ...]]]:
    reader = csv.reader(text, strict=True, delimiter=delimiter)
    for fields in reader:
        if fields:
            yield reader.line_num, tuple(fields)


def numbers(
    file: CsvFile, cells: Sequence[tuple[int, str, str]], columns: str | Sequence[str] | None = None
) -> npt.NDArray[np.int64] | npt.NDArray[np.float64]:
    """The numbers of some cells: int64 if all are written as integers, else float64; NaN where one is empty."""
    # `file`: where they are from, for messages. `cells`: line, name of the cell for messages, and text. `columns`: the column that
    # they are in, one for all or one each, for messages.
    for i, (line, name, text) in enumerate(cells):
        if text and not NUMBER.fullmatch(text):
            column = columns if columns is None or isinstance(columns, str) else columns[i]
            if file.confidential:
                raise ValueError(f"{file.at(line, column)}: what stands at {name} is not a number; {PLAIN_NUMBERS}")
            raise ValueError(f"{file.at(line, column)}: {text!r} at {name} is not a number; {remedy(text)}")
    if all(_INTEGER.fullmatch(text) for _, _, text in cells):
        return np.array([int(text) for _, _, text in cells], dtype=np.int64)
    return np.array([float(text) if text else np.nan for _, _, text in cells], dtype=np.float64)


def write_csv(path: Path, header: Sequence[str], rows: Iterator[Sequence[object]]) -> None:
    """Write a CSV file in UTF-8 with Unix line ends; floats in full."""
    with path.open("w", encoding="utf-8", newline="") as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
