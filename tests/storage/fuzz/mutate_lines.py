"""Text in lines: CSV files and journals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.storage.fuzz.chance import one, place, size
from tests.storage.fuzz.mutate_json import mutate_json

_FIELDS = (
    "", " ", "*", '"', '""', '"a', 'a"b', "\x00", "nan", "inf", "-inf", "1e999", "-1", "1.5", "0x10", "1_000", "1,5", "٣", "1e5", "-0",
    "9" * 401, "9" * 5000, "1e-400", "9223372036854775807", "9223372036854775808", "99999999999999999", "=1+1", "+1", "@x", "\u202e",
    "\x1b[31m", "a\nb", "a\r\nb", '"a\nb"', "\u2028", "é", "e\u0301", "x" * 200_000, "True", "None", "017", "17.0",
)  # fmt: skip


def _joined(lines: list[str], end: str = "\n") -> str:
    return end.join(lines) + end


def field(rng: np.random.Generator, lines: list[str]) -> str:
    """A field becomes something odd."""
    at = place(rng, lines)
    fields = lines[at].split(",")
    fields[place(rng, fields)] = one(rng, _FIELDS)
    lines[at] = ",".join(fields)
    return _joined(lines)


def column(rng: np.random.Generator, lines: list[str]) -> str:
    """A column goes, is there twice, or changes places with another one."""
    order = [*range(len(lines[0].split(",")))]
    first, other, how = place(rng, order), place(rng, order), one(rng, ["gone", "twice", "exchanged"])
    if how == "gone":
        del order[first]
    elif how == "twice":
        order.insert(other, first)
    else:
        order[first], order[other] = order[other], order[first]
    return _joined([",".join((line.split(",") * 2)[i] for i in order) for line in lines])


def line(rng: np.random.Generator, lines: list[str]) -> str:
    """A line goes, is there again, blank, longer, shorter, or elsewhere."""
    at = place(rng, lines)
    own = lines[at]
    lines[at : at + 1] = one(rng, [[], [own, own], ["", own], [own + ","], [own.rpartition(",")[0]], [one(rng, lines)]])
    return _joined(lines)


def quoting(rng: np.random.Generator, lines: list[str]) -> str:
    """A quotation mark somewhere, or around every field."""
    if rng.random() < 0.5:
        at = place(rng, lines)
        lines[at] = ",".join(f'"{own}"' for own in lines[at].split(","))
        return _joined(lines)
    text = _joined(lines)
    at = place(rng, text)
    return text[:at] + '"' + text[at:]


def separators(rng: np.random.Generator, lines: list[str]) -> str:
    """Other ends of lines, other separators, a mark of the byte order, no last end of line."""
    return str(one(rng, [
        _joined(lines).replace(",", one(rng, [";", "\t", "|", ", "])), "\ufeff" * one(rng, [1, 2]) + _joined(lines), "\n".join(lines),
        *[_joined(lines, one(rng, ["\r\n", "\r", "\n\n", "\u2028", "\x0b", "\x00\n"]))] * 3,
    ]))  # fmt: skip


def long(rng: np.random.Generator, lines: list[str]) -> str:
    """Very many lines or fields, other labels in each line, or a very long label; below a megabyte."""
    at, room = place(rng, lines), size(rng, 8, 19.5)
    own = lines[at]
    *labels, last = own.split(",")
    more = [",".join([*(f"{label}{i}" for label in labels), last]) for i in range(room // (len(own) + 6))]
    lines[at : at + 1] = one(rng, [[own + "," * room], [own + "x" * room], more, [own] * (room // (len(own) + 1))])
    return _joined(lines)


def wide(rng: np.random.Generator, lines: list[str]) -> str:
    """The columns again and again, under other names; up to a megabyte."""
    count = size(rng, 1, 19.5) // (sum(map(len, lines)) + 8 * len(lines)) + 2
    names = [f"{i}{own}" if i else own for i in range(count) for own in lines[0].split(",")]
    return _joined([",".join(names), *(",".join([line] * count) for line in lines[1:])])


_CHANGES: tuple[Callable[[np.random.Generator, list[str]], str], ...] = (
    *[field] * 3, column, *[line] * 2, quoting, separators, *[long] * 2, wide,
)  # fmt: skip


def mutate_csv(rng: np.random.Generator, data: bytes) -> tuple[bytes, str]:
    """Change a CSV file; the result may be in another encoding than UTF-8."""
    change = one(rng, _CHANGES)
    text = change(rng, data.decode().splitlines())
    encoding = one(rng, ["utf-16", "latin-1", "utf-32", "cp037", "utf-7"]) if rng.random() < 0.05 else "utf-8"
    how = "surrogatepass" if encoding == "utf-8" else "replace"
    return text.encode(encoding, how), f"CSV: {change.__name__}, {encoding}"


_LINES = (
    b"", b"[]", b"[1]", b"1", b"null", b'"x"', b"{}", b'{"number": null}', b'{"number": "1"}', b'{"number": 1.5}', b'{"number": true}',
    b'{"number": -1}', b'{"number": 1e400}', b'{"number": ' + b"9" * 401 + b"}", b'{"number": ' + b"9" * 5000 + b"}", b"\x00" * 64,
    b"\xff\xfe", b"{", b'{"number": 0, "ra', b"[" * 100_000, b'{"number": 10000000000}', b'{"number": 0, "again": "x"}',
    b'{"number": 0, "error": 3}', b'{"number": 0, "error": null}', b'{"again": true}', b"NaN", b" ", b"\r",
)  # fmt: skip


def mutate_journal(rng: np.random.Generator, data: bytes) -> tuple[bytes, str]:
    """Change a journal: torn lines, runs of zeros, lines that are no records, fields of records."""
    lines = data.split(b"\n")[:-1]
    at, how = (
        place(rng, lines),
        one(rng, ["torn", "zeros at the end", "zeros", "line", "line", "again", "field", "field"]),
    )
    if how == "torn":
        keep = int(rng.integers(0, len(lines[at]) + 1))
        return b"\n".join([*lines[:at], lines[at][:keep]]), "journal: torn"
    if how == "zeros at the end":
        whole = b"\n".join(lines) + b"\n"
        return whole[: place(rng, whole)] + bytes(size(rng, 0, 13)) + one(rng, [b"", b"\n"]), f"journal: {how}"
    if how == "zeros":
        lines.insert(at, bytes(size(rng, 0, 13)))
    elif how == "line":
        lines[at : at + int(rng.integers(0, 2))] = [one(rng, _LINES)]
    elif how == "again":
        lines[at : at + 1] = [lines[at]] * size(rng, 0, 9)
    else:
        text, how = mutate_json(rng, lines[at].decode())
        lines[at] = text.encode("utf-8", "surrogatepass")
    return b"\n".join(lines) + b"\n", f"journal, line {at + 1}, {how}"
