"""Text in lines: CSV files and journals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.storage.fuzz.mutate_json import mutate_json

_FIELDS = (
    "", " ", "*", '"', '""', '"a', 'a"b', "\x00", "nan", "inf", "-inf", "1e999", "-1", "1.5", "0x10", "1_000", "1,5", "٣", "1e5", "-0",
    "9" * 401, "9" * 5000, "1e-400", "9223372036854775807", "9223372036854775808", "99999999999999999", "=1+1", "+1", "@x", "\u202e",
    "\x1b[31m", "a\nb", "a\r\nb", '"a\nb"', "\u2028", "é", "e\u0301", "x" * 200_000, "True", "None", "017", "17.0",
)  # fmt: skip

type Change = Callable[[np.random.Generator, list[str]], str]


def _index(rng: np.random.Generator, items: list[str]) -> int:
    return int(rng.integers(0, max(1, len(items))))


def _joined(lines: list[str], end: str = "\n") -> str:
    return end.join(lines) + end


def field(rng: np.random.Generator, lines: list[str]) -> str:
    """A field becomes something odd."""
    at = _index(rng, lines)
    fields = lines[at].split(",")
    fields[_index(rng, fields)] = _FIELDS[int(rng.integers(0, len(_FIELDS)))]
    lines[at] = ",".join(fields)
    return _joined(lines)


def column(rng: np.random.Generator, lines: list[str]) -> str:
    """A column goes, is there twice, or changes places with another one."""
    count = len(lines[0].split(","))
    one, other, kind = (int(rng.integers(0, own)) for own in (count, count, 3))
    order = [*range(count)]
    if kind == 0:
        del order[one]
    elif kind == 1:
        order.insert(other, one)
    else:
        order[one], order[other] = order[other], order[one]
    return _joined([",".join((line.split(",") * 2)[i] for i in order) for line in lines])


def line(rng: np.random.Generator, lines: list[str]) -> str:
    """A line goes, is there again, blank, longer, shorter, or elsewhere."""
    at, kind = _index(rng, lines), int(rng.integers(0, 6))
    own = lines[at]
    new = ([], [own, own], ["", own], [own + ","], [own.rpartition(",")[0]], [lines[_index(rng, lines)]])[kind]
    lines[at : at + 1] = new
    return _joined(lines)


def quoting(rng: np.random.Generator, lines: list[str]) -> str:
    """A quotation mark somewhere, or around every field."""
    text = _joined(lines)
    if rng.random() < 0.5:
        at = _index(rng, lines)
        lines[at] = ",".join(f'"{own}"' for own in lines[at].split(","))
        return _joined(lines)
    at = int(rng.integers(0, len(text)))
    return text[:at] + '"' + text[at:]


def separators(rng: np.random.Generator, lines: list[str]) -> str:
    """Other ends of lines, other separators, a mark of the byte order, no last end of line."""
    kind = int(rng.integers(0, 6))
    if kind == 0:
        return _joined(lines).replace(",", str(rng.choice([";", "\t", "|", ", "])))
    if kind == 1:
        return "\ufeff" * int(rng.integers(1, 3)) + _joined(lines)
    if kind == 2:
        return "\n".join(lines)
    return _joined(lines, str(rng.choice(["\r\n", "\r", "\n\n", "\u2028", "\x0b", "\x00\n"])))


def long(rng: np.random.Generator, lines: list[str]) -> str:
    """Very many lines or fields, or a very long one; below a megabyte."""
    at, kind = _index(rng, lines), int(rng.integers(0, 4))
    room = int(2 ** rng.uniform(8, 19.5))
    if kind == 0:
        lines[at] += "," * room
    elif kind == 1:
        lines[at] += "x" * room
    elif kind == 2:
        fields = lines[at].split(",")
        ours = [
            ",".join([*(f"{own}{i}" for own in fields[:-1]), fields[-1]]) for i in range(room // (len(lines[at]) + 6))
        ]
        lines[at : at + 1] = ours
    else:
        lines[at : at + 1] = [lines[at]] * (room // (len(lines[at]) + 1))
    return _joined(lines)


def wide(rng: np.random.Generator, lines: list[str]) -> str:
    """The columns again and again, under other names; up to a megabyte."""
    count = int(2 ** rng.uniform(1, 19.5)) // (sum(map(len, lines)) + 8 * len(lines)) + 2
    names = [f"{i}{own}" if i else own for i in range(count) for own in lines[0].split(",")]
    return _joined([",".join(names), *(",".join([line] * count) for line in lines[1:])])


def long_labels(rng: np.random.Generator, lines: list[str]) -> str:
    """Other labels in many more lines, and one of them very long."""
    count, length = int(2 ** rng.uniform(4, 15)), int(2 ** rng.uniform(4, 17))
    own = lines[_index(rng, lines)]
    return _joined([*lines, *(f"{i}{own}" for i in range(count)), "x" * length + own])


_CHANGES: tuple[Change, ...] = (
    field, field, field, column, line, line, quoting, separators, long, wide, long_labels,
)  # fmt: skip


def mutate_csv(rng: np.random.Generator, data: bytes) -> tuple[bytes, str]:
    """Change a CSV file; the result may be in another encoding than UTF-8."""
    change = _CHANGES[int(rng.integers(0, len(_CHANGES)))]
    text = change(rng, data.decode().splitlines())
    if rng.random() < 0.05:
        encoding = str(rng.choice(["utf-16", "latin-1", "utf-32", "cp037", "utf-7"]))
        return text.encode(encoding, "replace"), f"CSV: {change.__name__}, {encoding}"
    return text.encode("utf-8", "surrogatepass"), f"CSV: {change.__name__}"


_LINES = (
    b"", b"[]", b"[1]", b"1", b"null", b'"x"', b"{}", b'{"number": null}', b'{"number": "1"}', b'{"number": 1.5}', b'{"number": true}',
    b'{"number": -1}', b'{"number": 1e400}', b'{"number": ' + b"9" * 401 + b"}", b'{"number": ' + b"9" * 5000 + b"}", b"\x00" * 64,
    b"\xff\xfe", b"{", b'{"number": 0, "ra', b"[" * 100_000, b'{"number": 10000000000}', b'{"number": 0, "again": "x"}',
    b'{"number": 0, "error": 3}', b'{"number": 0, "error": null}', b'{"again": true}', b"NaN", b" ", b"\r",
)  # fmt: skip


def mutate_journal(rng: np.random.Generator, data: bytes) -> tuple[bytes, str]:
    """Change a journal: torn lines, runs of zeros, lines that are no records, fields of records."""
    lines = data.split(b"\n")[:-1]
    at, kind = int(rng.integers(0, len(lines))), int(rng.integers(0, 8))
    if kind == 0:
        keep = int(rng.integers(0, len(lines[at]) + 1))
        return b"\n".join([*lines[:at], lines[at][:keep]]), "journal: torn"
    if kind == 1:
        whole = b"\n".join(lines) + b"\n"
        cut = int(rng.integers(0, len(whole)))
        end = b"" if rng.random() < 0.5 else b"\n"
        return whole[:cut] + bytes(int(2 ** rng.uniform(0, 13))) + end, "journal: zeros at the end"
    if kind == 2:
        lines.insert(at, bytes(int(2 ** rng.uniform(0, 13))))
        return b"\n".join(lines) + b"\n", "journal: a line of zeros"
    if kind in (3, 4):
        new = _LINES[int(rng.integers(0, len(_LINES)))]
        lines[at : at + int(rng.integers(0, 2))] = [new]
        return b"\n".join(lines) + b"\n", f"journal: the line {new[:30]!r}"
    if kind == 5:
        lines[at : at + 1] = [lines[at]] * int(2 ** rng.uniform(0, 9))
        return b"\n".join(lines) + b"\n", "journal: a line again and again"
    text, how = mutate_json(rng, lines[at].decode())
    lines[at] = text.encode("utf-8", "surrogatepass")
    return b"\n".join(lines) + b"\n", f"journal, line {at + 1}, {how}"
