"""An office's file as rows with line numbers: its encoding, and the lines around the table that were declared."""

from __future__ import annotations

import codecs
import csv
import io
import os
from collections import Counter
from pathlib import Path
from typing import Any

from bayesdp._text import printable
from bayesdp._validate import boolean, choice, nonnegative_integer, shown
from bayesdp.storage.csv_file import CsvFile

_ENCODINGS = {
    "utf-8": "utf-8", "utf-8-sig": "utf-8", "utf-16": "utf-16", "utf-16-le": "utf-16-le", "utf-16-be": "utf-16-be",
    "cp1252": "Windows, Western Europe", "cp1250": "Windows, Central Europe", "cp1251": "Windows, Cyrillic",
    "cp850": "DOS, Western Europe", "mac-roman": "older Apple computers",
    "iso8859-1": "Latin-1", "iso8859-2": "Latin-2", "iso8859-15": "Latin-9", "ascii": "no letters but English ones",
    "shift_jis": "Japanese", "cp932": "Japanese", "euc_kr": "Korean", "cp949": "Korean", "gb18030": "Chinese", "big5": "Chinese",
}  # fmt: skip
_DELIMITERS = (",", ";", "\t", "|")

type Row = tuple[int, tuple[str, ...]]


def office_file(
    path: str | os.PathLike[str], *, delimiter: str, encoding: str, skip_rows: int, footer: int, strip: bool
) -> CsvFile:
    """The table of an office's file: a header, and rows with as many fields; see `read_office_csv` for what is declared."""
    # Lines and columns without any text are left out.
    target = Path(path)
    choice(delimiter, _DELIMITERS, "delimiter")
    skipped, below = nonnegative_integer(skip_rows, "skip_rows"), nonnegative_integer(footer, "footer")
    boolean(strip, "strip")
    codec = _codec(encoding)
    if not target.is_file():
        raise FileNotFoundError(f"there is no file {str(target)!r}")
    lines = list(io.StringIO(_decoded(target, codec, encoding), newline=""))
    if skipped >= len(lines):
        raise ValueError(
            f"{printable(target)}: skip_rows={skipped} leaves nothing of the {len(lines)} lines of the file"
        )
    rows = _rows(target, _without_footer(lines[skipped:], delimiter, below), delimiter, skipped)
    if not rows:
        raise ValueError(
            f"{printable(target)}: the file has no line with text"
            + (" besides those left out" if skipped or below else "")
        )
    if strip:
        rows = [(line, tuple(own.strip() for own in fields)) for line, fields in rows]
    file = CsvFile(target, rows[0][1], tuple(rows[1:]))
    _check_delimiter(file, delimiter)
    for line, fields in file.rows:
        if len(fields) != len(file.header):
            raise ValueError(_wrong_length(file, rows[0][0], line, fields, delimiter))
    file = _without_empty_columns(file)
    _check_header(file, rows[0][0])
    if not strip:
        _check_blanks(file, rows[0][0])
    if not file.rows:
        raise ValueError(f"{printable(target)}: there is no line below the header")
    return file


def _codec(encoding: Any) -> str:
    """Python's name of an encoding that is known here."""
    if not isinstance(encoding, str):
        raise TypeError(f"encoding must be a name such as 'utf-8' or 'cp1252', got {encoding!r}")
    try:
        name = codecs.lookup(encoding).name
    except (LookupError, ValueError):  # ValueError: a name with a null character
        name = ""
    if name not in _ENCODINGS:
        raise ValueError(f"encoding must be one of {shown(_ENCODINGS, len(_ENCODINGS))}, got {encoding!r}")
    return "utf-8-sig" if name == "utf-8" else name


def _decoded(target: Path, codec: str, encoding: str) -> str:
    """The text of a file."""
    raw = target.read_bytes()
    wide = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    wrong = ""
    text = ""
    try:
        text = raw.decode(codec)
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        what = " (or there is less of it than a sign takes)" if error.start >= len(raw) - 3 else ""
        wrong = f"line {line}, byte {error.start}: {raw[error.start]:#04x} is no text in {encoding!r}{what}"
        proposed = (
            "encoding='utf-16', with which such files begin"
            if wide
            else (
                "encoding='utf-8'"
                if codec not in ("utf-8-sig", "ascii")
                else "encoding='cp1252' (Windows, Western Europe) or 'cp1250' (Central Europe)"
            )
        )
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


def _rows(target: Path, lines: list[str], delimiter: str, skipped: int) -> list[Row]:
    reader = csv.reader(lines, strict=True, delimiter=delimiter)
    rows: list[Row] = []
    wrong = ""
    try:
        for fields in reader:
            if any(own.strip() for own in fields):
                rows.append((reader.line_num + skipped, tuple(fields)))
    except csv.Error as error:
        wrong = str(error)
    if wrong:
        raise ValueError(f"{printable(target)}, line {reader.line_num + skipped}: it is not a CSV file there ({wrong})")
    return rows


def _check_delimiter(file: CsvFile, delimiter: str) -> None:
    if len(file.header) > 1:
        return
    times = {own: file.header[0].count(own) for own in _DELIMITERS if own != delimiter}
    likely = max(times, key=lambda own: times[own])
    first = file.listed(file.header)
    if times[likely]:
        raise ValueError(
            f"{printable(file.path)}: with delimiter={delimiter!r} the header is one column, {first}; declare delimiter={likely!r}"
        )
    if any(len(fields) > 1 for _, fields in file.rows):
        below = next(line for line, fields in file.rows if len(fields) > 1)
        raise ValueError(
            f"{printable(file.path)}: the header is one column, {first}, but lines below it have more; if titles stand above the "
            f"header, say how many lines: skip_rows={below - 1}"
        )
    raise ValueError(f"{printable(file.path)}: the header is one column, {first}; a table needs labels and values")


def _wrong_length(file: CsvFile, header: int, line: int, fields: tuple[str, ...], delimiter: str) -> str:
    """What to do about a line with too many fields, or too few."""
    message = f"{file.at(line)}: number of fields: {len(fields)}; the header in line {header} has {len(file.header)}"
    if sum(bool(own) for own in fields) == 1 or len(fields) == 1:
        after = sum(other >= line for other, _ in file.rows)
        return f"{message}; if this is a note below the table, say how many lines such notes are: footer={after}"
    if len(fields) > len(file.header) and sum(bool(own) for own in file.header) < 2:
        return f"{message}; if titles stand above the header, say how many lines: skip_rows={header}"
    if len(fields) > len(file.header) and delimiter == ",":
        return f'{message}; a label that holds a comma, or a number with commas, is written in double quotes, "1,234"'
    return f"{message}; each line must have all fields, also those without text"


def _without_empty_columns(file: CsvFile) -> CsvFile:
    """The columns without those that have neither a name nor any text."""
    nameless = [i for i, name in enumerate(file.header) if not name]
    empty = {i for i in nameless if not any(fields[i] for _, fields in file.rows)}
    if not empty:
        return file
    kept = [i for i in range(len(file.header)) if i not in empty]
    rows = tuple((line, tuple(fields[i] for i in kept)) for line, fields in file.rows)
    return CsvFile(file.path, tuple(file.header[i] for i in kept), rows)


def _check_header(file: CsvFile, line: int) -> None:
    repeated = [name for name, times in Counter(file.header).items() if times > 1]
    if repeated:
        places = [i + 1 for i, name in enumerate(file.header) if name == repeated[0]]
        raise ValueError(
            f"{file.at(line)}: the header names {file.listed(repeated[:1])} {len(places)} times, in columns {shown(places)}; "
            "if titles stand above the header, say how many lines: skip_rows=..."
        )


def _check_blanks(file: CsvFile, header: int) -> None:
    for line, fields in ((header, file.header), *file.rows):
        for name, own in zip(file.header, fields, strict=True):
            if own != own.strip():
                raise ValueError(
                    f"{file.at(line, name)}: {own!r} has blanks around it; strip=True takes blanks away from all fields"
                )
