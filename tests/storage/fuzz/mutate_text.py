"""Bytes, text in lines, and journals; and what the mutations draw."""

import numpy as np

_INTEGERS = (0, 1, 2, 7, 8, 16, *(2**i for i in (7, 31, 48, 62, 63)), *(2**i - 1 for i in (8, 16, 31, 32, 63, 64)))
_FIELDS = (
    "", " ", "*", '"', '""', '"a', 'a"b', "\x00", "nan", "inf", "-inf", "1e999", "-1", "1.5", "0x10", "1_000", "1,5", "٣", "1e5", "-0",
    "9" * 401, "9" * 5000, "1e-400", "9223372036854775807", "9223372036854775808", "99999999999999999", "=1+1", "+1", "@x", "\u202e",
    "\x1b[31m", "a\nb", "a\r\nb", '"a\nb"', "\u2028", "é", "e\u0301", "x" * 200_000, "True", "None", "017", "17.0",
)  # fmt: skip
_RECORDS = (
    b"", b"[]", b"[1]", b"1", b"null", b'"x"', b"{}", b'{"number": null}', b'{"number": "1"}', b'{"number": 1.5}', b'{"number": true}',
    b'{"number": -1}', b'{"number": 1e400}', b'{"number": ' + b"9" * 401 + b"}", b'{"number": ' + b"9" * 5000 + b"}", b"\x00" * 64,
    b"\xff\xfe", b"{", b'{"number": 0, "ra', b"[" * 100_000, b'{"number": 10000000000}', b'{"number": 0, "again": "x"}',
    b'{"number": 0, "error": 3}', b'{"number": 0, "error": null}', b'{"again": true}', b"NaN", b" ", b"\r",
)  # fmt: skip


def one(rng, items):
    return items[int(rng.integers(0, len(items)))]


def place(rng, items):
    return int(rng.integers(0, max(1, len(items))))


def size(rng, low, high):
    """Between two powers of 2, small more often than large."""
    return int(2 ** rng.uniform(low, high))


def mutate_bytes(rng, data, other):
    """Change the bytes of a file: bits, an integer that HDF5 may have there, blocks, or the end of another file."""
    how = one(rng, ["flip", "flip", "integer", "integer", "insert", "delete", "truncate", "repeat", "zero", "splice"])
    at, count = place(rng, data), size(rng, 0, np.log2(max(2, len(data))))
    begin, end = data[:at], data[at + count :]
    if how == "flip":
        new = bytearray(data)
        for _ in range(int(rng.integers(1, 9)) if data else 0):
            new[place(rng, data)] ^= 1 << int(rng.integers(0, 8))
        return bytes(new), "bytes: flip"
    if how == "integer":
        width = one(rng, [1, 2, 4, 8])
        value = (one(rng, _INTEGERS) + int(rng.integers(-1, 2))) % 2 ** (8 * width)
        at = at // width * width
        return data[:at] + value.to_bytes(width, "little") + data[at + width :], "bytes: integer"
    block, zeros = data[at : at + min(count, 4096)], bytes(len(data) - len(begin) - len(end))
    new_ends = {
        "insert": rng.bytes(min(count, 4096)) + data[at:],
        "delete": end,
        "truncate": b"",
        "repeat": block * size(rng, 0, 6) + data[at:],
        "zero": zeros + end,
        "splice": other[one(rng, [at, place(rng, other)]) :],
    }
    return begin + new_ends[how], f"bytes: {how}"


def mutate_csv(rng, data):
    """Change a CSV file: a field, a column, a line, quotes, separators, or its size; or its encoding."""
    lines = data.decode().splitlines()
    at, room, end = place(rng, lines), size(rng, 8, 19.5), "\n"
    own = lines[at]
    *labels, last = own.split(",")
    how = one(rng, ["field", "field", "field", "column", "line", "line", "quotes", "separator", "long", "long", "wide"])
    if how == "field":
        fields = [*labels, last]
        fields[place(rng, fields)] = one(rng, _FIELDS)
        lines[at] = ",".join(fields)
    elif how == "column":  # it goes, is there twice, or exchanges its place
        columns = [*range(len(lines[0].split(",")))]
        chosen, to = place(rng, columns), place(rng, columns)
        columns[to : to + one(rng, [0, 1])] = one(rng, [[], [chosen]])
        lines = [",".join((line.split(",") * 2)[i] for i in columns) for line in lines]
    elif how == "line":  # it goes, is there again, blank, longer, shorter, or elsewhere
        lines[at : at + 1] = one(rng, [[], [own, own], ["", own], [own + ","], [",".join(labels)], [one(rng, lines)]])
    elif how == "quotes":
        middle = place(rng, own)
        lines[at] = one(rng, [own[:middle] + '"' + own[middle:], ",".join(f'"{field}"' for field in [*labels, last])])
    elif how == "separator":
        end = one(rng, ["\r\n", "\r", "\n\n", "\u2028", "\x0b", "\x00\n", "\n\ufeff"])
        separator = one(rng, [",", ";", "\t", "|", ", "])
        lines = [line.replace(",", separator) for line in lines]
    elif how == "long":  # very many lines or fields, other labels in each line, or a very long label; below a megabyte
        many = [",".join([*(f"{label}{i}" for label in labels), last]) for i in range(room // (len(own) + 6))]
        lines[at : at + 1] = one(rng, [[own + "," * room], [own + "x" * room], many, [own] * (room // (len(own) + 1))])
    else:  # the columns again and again, under other names
        count = room // (sum(map(len, lines)) + 8 * len(lines)) + 2
        names = [f"{i}{name}" if i else name for i in range(count) for name in lines[0].split(",")]
        lines = [",".join(names), *(",".join([line] * count) for line in lines[1:])]
    text = end.join(lines) + one(rng, [end, end, end, ""])
    encoding = one(rng, ["utf-16", "latin-1", "utf-32", "cp037", "utf-7"]) if rng.random() < 0.05 else "utf-8"
    return text.encode(encoding, "surrogatepass" if encoding == "utf-8" else "replace"), f"CSV: {how}, {encoding}"


def mutate_journal(rng, data):
    """Change a journal: torn lines, runs of zeros, lines that are no records, lines again and again."""
    lines = data.split(b"\n")[:-1]
    at, how = place(rng, lines), one(rng, ["torn", "zeros at the end", "zeros", "line", "line", "again"])
    if how == "torn":
        return b"\n".join([*lines[:at], lines[at][: place(rng, lines[at])]]), "journal: torn"
    if how == "zeros at the end":
        return data[: place(rng, data)] + bytes(size(rng, 0, 13)) + one(rng, [b"", b"\n"]), f"journal: {how}"
    if how == "zeros":
        lines.insert(at, bytes(size(rng, 0, 13)))
    elif how == "line":
        lines[at : at + one(rng, [0, 1])] = [one(rng, _RECORDS)]
    else:
        lines[at : at + 1] = [lines[at]] * size(rng, 0, 9)
    return b"\n".join(lines) + b"\n", f"journal: {how} at line {at + 1}"
