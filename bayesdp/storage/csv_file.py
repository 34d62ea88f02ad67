"""CSV files as rows with line numbers, read strictly: what is not as declared is refused, by line and column.

What to do about a text that stands where a number should: a remedy that works when it is followed to the letter.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bayesdp._arrays import Floats, Ints
from bayesdp._text import printable
from bayesdp._validate import boolean, choice, instance, nearest, nonnegative_integer, shown
from bayesdp.storage.guarded import read_plain

type Row = tuple[int, tuple[str, ...]]
"""The number of a line and its fields."""

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)

HIDDEN = "(not shown)"
"""Stands for a text of a confidential file."""

PLAIN_NUMBERS = "write whole numbers with digits only, without separators of thousands or other signs"

HOW_TO_LEAVE_OUT = (
    "leave the field empty and state that the cell was not published: --unmeasured blank (unmeasured= in Python)"
)
"""For noisy values; exact values have no such cells."""

_THOUSANDS = re.compile(r"([+-]?\d{1,3})((?:[,' \u2019\u00a0\u202f]\d{3})+)(\.\d+)?", re.ASCII)
_LIMIT = re.compile(r"(<=?|>=?|\u2264|\u2265)\s*\d+|\d+\s*(-|\u2013|to)\s*\d+", re.ASCII)
_PERCENT = re.compile(r"[+-]?[\d.]+\s*%", re.ASCII)
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+", re.ASCII)

_ENCODINGS = (
    "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252", "cp1250", "cp1251", "cp850", "mac-roman",
    "iso8859-1", "iso8859-2", "iso8859-15", "ascii", "shift_jis", "cp932", "euc_kr", "cp949", "gb18030", "big5",
)  # fmt: skip
_DELIMITERS = (",", ";", "\t", "|")


def remedy(text: str) -> str:
    """A remedy for a text that is no number."""
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


@dataclass(frozen=True)
class CsvFile:
    """A CSV file that has been read."""

    path: Path  # where it is from, for messages
    header: tuple[str, ...]  # names of the columns, distinct
    rows: tuple[Row, ...]  # each with as many fields as the header has
    confidential: bool = False  # whether messages must not show what the file holds; see `label_text`
    left_out: tuple[str, ...] = ()  # names of further columns

    def column(self, name: str) -> int:
        """Position of a column; ValueError if there is none of that name."""
        if name not in self._places:
            raise ValueError(
                f"{printable(self.path)}: there is no column {name!r}; columns are {nearest(name, self.header, self.listed)}"
            )
        return self._places[name]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.header)}

    def label_text(self, text: str) -> str:
        """A label or the name of a column, for messages."""
        # Of a confidential file nothing with a digit is shown: a file without a header, or with a column of counts that was
        # taken for labels, has counts in these places.
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
    path: str | os.PathLike[str],
    ignore: Sequence[str] = (),
    *,
    confidential: bool = False,
    sums: bool = False,
    several: bool = False,
    strip: bool = False,
    delimiter: str = ",",
    **form: Any,
) -> CsvFile:
    """Read a CSV file: a header, and as many fields in each line; by default comma-separated and in UTF-8."""
    # Columns in `ignore` are left out, whatever they hold; of one of `several` files, they may be another one's. `strip`, `delimiter`
    # and `form` are those of `bayesdp.tables.read_office_csv`. With `sums` a line without any text is kept: it is the grand total.
    target = Path(path)
    boolean(strip, "strip")
    rows = _rows(target, delimiter, confidential=confidential, **form)
    if strip:
        rows = [(line, tuple(field.strip() for field in fields)) for line, fields in rows]
    if not sums:
        rows = [(line, fields) for line, fields in rows if any(field.strip() for field in fields)]
    top, header = rows[0]
    file = CsvFile(target, header, tuple(rows[1:]), confidential)
    _check_delimiter(file, delimiter)
    for line, fields in file.rows:
        if len(fields) != len(header):
            raise ValueError(_wrong_length(file, top, line, fields, delimiter))
    empty = {i for i, name in enumerate(header) if not name and not any(fields[i] for _, fields in file.rows)}
    left_out = empty | {i for i, name in enumerate(header) if name in ignore}
    for name in () if several else ignore:
        file.column(name)
    times = Counter(name for i, name in enumerate(header) if i not in empty)
    repeated = [name for name in times if times[name] > 1]
    if repeated:
        places = [i + 1 for i, name in enumerate(header) if name == repeated[0]]
        raise ValueError(
            f"{file.at(top)}: the header names {file.listed(repeated[:1])} {len(places)} times, in columns {shown(places)}; "
            "if titles stand above the header, say how many lines: skip_rows=..."
        )
    kept = [i for i in range(len(header)) if i not in left_out]
    blank = [(line, header[i], fields[i]) for line, fields in rows for i in kept if fields[i] != fields[i].strip()]
    if blank:
        line, name, text = blank[0]
        more = f" (and around {len(blank) - 1} more fields of the file)" if len(blank) > 1 else ""
        held = "the field" if confidential else shown([text])
        raise ValueError(
            f"{file.at(line, name)}: {held} has blanks around it; remove them{more}, or, in a table, declare strip=True"
        )
    if not left_out:
        return file
    chosen = tuple((line, tuple(fields[i] for i in kept)) for line, fields in file.rows)
    names = tuple(header[i] for i in sorted(left_out - empty))
    return CsvFile(target, tuple(header[i] for i in kept), chosen, confidential, names)


def csv_header(
    path: str | os.PathLike[str], *, delimiter: str = ",", encoding: str = "utf-8", skip_rows: int = 0, footer: int = 0
) -> tuple[str, ...]:
    """The names of the columns of a CSV file; empty where that cannot be read, which `read_csv` explains."""
    target = Path(path)
    with suppress(OSError, ValueError, TypeError, csv.Error):
        if target.suffix.lower() == ".csv" and target.is_file():
            with target.open(encoding=_codec(encoding), newline="") as text:
                rows = csv.reader(islice(text, skip_rows, None), strict=True, delimiter=delimiter)
                return next((tuple(fields) for fields in rows if any(field.strip() for field in fields)), ())
    return ()


def _rows(
    target: Path,
    delimiter: str,
    *,
    encoding: str = "utf-8",
    skip_rows: int = 0,
    footer: int = 0,
    confidential: bool = False,
) -> list[Row]:
    """The lines of a file from the header on, which is the first with text; lines without any field are left out."""
    choice(delimiter, _DELIMITERS, "delimiter")
    skipped, below = nonnegative_integer(skip_rows, "skip_rows"), nonnegative_integer(footer, "footer")
    codec = _codec(encoding)
    if not target.is_file():
        raise FileNotFoundError(f"there is no file {str(target)!r}")

    def parsed() -> list[Row]:
        lines = list(io.StringIO(_decoded(target, codec, encoding, confidential=confidential), newline=""))
        if skipped and skipped >= len(lines):
            raise ValueError(
                f"{printable(target)}: skip_rows={skipped} leaves nothing of the {len(lines)} lines of the file"
            )
        reader = csv.reader(_without_footer(lines[skipped:], delimiter, below), strict=True, delimiter=delimiter)
        rows: list[Row] = []
        wrong = ""
        try:
            for fields in reader:
                if fields and (rows or any(field.strip() for field in fields)):
                    rows.append((reader.line_num + skipped, tuple(fields)))
        except csv.Error as error:
            wrong = f"{printable(target)}, line {reader.line_num + skipped}: it is not a CSV file there ({error})"
        if wrong:  # out here, where no error with the text of the file in it becomes the context of this one
            raise ValueError(wrong)
        if not rows:
            left_out = " besides those left out" if skipped or below else ""
            raise ValueError(f"{printable(target)}: the file has no line with text{left_out}")
        return rows

    return read_plain(parsed, target)


def _codec(encoding: Any) -> str:
    """Python's name of an encoding that is known here."""
    instance(encoding, str, "encoding must be a name such as 'utf-8' or 'cp1252'", quoted=True)
    try:
        name = codecs.lookup(encoding).name
    except (LookupError, ValueError):  # ValueError: a name with a null character
        name = ""
    if name not in _ENCODINGS:
        raise ValueError(f"encoding must be one of {shown(_ENCODINGS, len(_ENCODINGS))}, got {encoding!r}")
    return "utf-8-sig" if name == "utf-8" else name


def _decoded(target: Path, codec: str, encoding: str, *, confidential: bool) -> str:
    """The text of a file."""
    raw = target.read_bytes()
    wrong = text = ""
    try:
        text = raw.decode(codec)
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        what = " (or there is less of it than a sign takes)" if error.start >= len(raw) - 3 else ""
        byte = "it" if confidential else f"{raw[error.start]:#04x}"
        wrong = f"line {line}, byte {error.start}: {byte} is no text in {encoding!r}{what}"
        if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            proposed = "encoding='utf-16', with which such files begin"
        elif codec not in ("utf-8-sig", "ascii"):
            proposed = "encoding='utf-8'"
        else:
            proposed = "encoding='cp1252' (Windows, Western Europe) or 'cp1250' (Central Europe)"
    except UnicodeError:
        wrong, proposed = f"it is no text in {encoding!r}", "encoding='utf-16-le' or 'utf-16-be'"
    if not wrong and "\0" in text:
        wrong = f"line {text[: text.index(chr(0))].count(chr(10)) + 1}: there is a null character"
        proposed = "encoding='utf-16-le' or 'utf-16-be' if every second byte is one"
    if not wrong and codec != "utf-8-sig" and raw.startswith(codecs.BOM_UTF8):
        wrong, proposed = f"it begins with the mark of UTF-8, and is said to be in {encoding!r}", "encoding='utf-8'"
    if wrong:  # out here, where no error with the bytes of the file in it becomes the context of this one
        raise ValueError(f"{printable(target)}, {wrong}; declare how it is written, for example {proposed}")
    return text.removeprefix("\ufeff")


def _without_footer(lines: list[str], delimiter: str, below: int) -> list[str]:
    """All but the last lines that have text."""
    end = len(lines)
    while end and below:
        end -= 1
        below -= bool(lines[end].strip(delimiter + " \t\r\n"))
    return lines[:end]


def _check_delimiter(file: CsvFile, delimiter: str) -> None:
    """A header of one column that another delimiter would split, or with more columns below it."""
    if len(file.header) > 1:
        return
    times = {sign: file.header[0].count(sign) for sign in _DELIMITERS if sign != delimiter}
    likely = max(times, key=lambda sign: times[sign])
    first = f"{printable(file.path)}: with delimiter={delimiter!r} the header is one column, {file.listed(file.header)}"
    if times[likely]:
        raise ValueError(f"{first}; declare delimiter={likely!r}, or separate columns by commas")
    below = next((line for line, fields in file.rows if len(fields) > 1), None)
    if below is not None:
        raise ValueError(
            f"{first}, but lines below it have more; if titles stand above the header, say how many lines: "
            f"skip_rows={below - 1}"
        )


def _wrong_length(file: CsvFile, top: int, line: int, fields: tuple[str, ...], delimiter: str) -> str:
    """What to do about a line with too many fields, or too few; `top` is the line of the header."""
    message = f"{file.at(line)}: {len(fields)} fields, but the header has {len(file.header)}"
    comma = "comma" if delimiter == "," else repr(delimiter)
    if sum(map(bool, fields)) == 1:
        after = sum(other >= line for other, _ in file.rows)
        message += f"; if this is a note below the table, say how many lines such notes are: footer={after}"
    if len(fields) < len(file.header):
        return f"{message}; each line must have all fields, one without a value needs its {comma} nevertheless"
    if sum(map(bool, file.header)) < 2:
        return f"{message}; if titles stand above the header, say how many lines: skip_rows={top}"
    # Neighbouring fields that look like one number with a separator of thousands.
    split = re.search(r"(?:^|\0)([+-]?\d{1,3}(?:\0\d{3})+)(?:\0|$)", "\0".join(fields), re.ASCII)
    if split is not None:
        whole = "" if file.confidential else f", {split[1].replace('\0', '')}"
        return f"{message}; write numbers without separators of thousands{whole}"
    if not any(fields[len(file.header) :]):
        return f"{message}; remove the {comma} at the end"
    return f'{message}; a label that holds a {comma} is written in double quotes, "like, this"'


def numbers(file: CsvFile, cells: Sequence[tuple[int, str, str]], column: str | None = None) -> Ints | Floats:
    """The numbers of some cells: int64 if all are written as integers, else float64; NaN where one is empty."""
    # `cells`: line, name of the cell for messages, and text. `file`, `column`: where they are from, for messages.
    for line, name, text in cells:
        if text and not NUMBER.fullmatch(text):
            raise ValueError(f"{file.at(line, column)}: {shown([text])} at {name} is not a number; {remedy(text)}")
    if all(INTEGER.fullmatch(text) for _, _, text in cells):
        return np.array([int(text) for _, _, text in cells], dtype=np.int64)
    return np.array([float(text) if text else np.nan for _, _, text in cells], dtype=np.float64)
