"""Bytes, text in lines, journals, and fields of JSON; and what the mutations draw."""

import json

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


# Fields of JSON: gone, repeated, of another type, swapped, huge, deep, not numbers, unknown.
_RAW = "\ue000raw\ue000"  # stands for text that the JSON library would not write
_VALUES = (
    None, True, False, "", "x", "no", [], {}, [[]], [1, "1", None], {"a": 1}, [{}], 0, 1, -1, 2, 3, -0.0, 0.5, 1e-300, 1e300, 1e-18,
    2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 10**30,
)  # fmt: skip
_ODD = (
    "\x00", "\x1b[2J", "\u202e", "\u2028", "\u200b", "\ud800", "é\u0301", "\ufeff", "\U0010ffff", "a\nb", " x ", "=1+1",
    "GCOL\x01", "../../x", "os.system",
)  # fmt: skip
_CHANGES = ("gone", "value", "value", "raw", "text", "unknown", "again", "swap", "wide", "frame")
_UNKNOWN = ("extra", "__class__", "", "law", "number", "epsilon", "value")


def _raw_text(rng):
    """What JSON does not know, or what is too much: 401 digits, NaN, deep nesting."""
    depth = size(rng, 3, 17)
    return str(one(rng, [
        "9" * 401, "-" + "7" * 401, "9" * 5000, "1e400", "-1e400", "1" + "0" * 308, "NaN", "Infinity", "-Infinity", "0" * 20 + "1",
        "[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth, "[" * depth, '"\\ud800"', '"\\u0000"', "'x'", "", "0x10",
        "1_000", "true false", "/* */1", '"' + "x" * depth + '"', "[" + "0," * depth + "0]", "٣",
    ]))  # fmt: skip


def _places(value):
    found = []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, own in items:
        found += [(value, key), *_places(own)]
    return found


def _frame(rng, top):
    """A few labels along several dimensions, or two along many: far more cells than the file has bytes."""
    dims, labels = one(rng, [(rng.integers(2, 9), rng.integers(2, 200)), (rng.integers(10, 26), 2)])
    names, texts = [f"d{i}" for i in range(dims)], [str(i) for i in range(labels)]
    if "table" in top:
        top["table"] = {"dimensions": [{"name": name, "labels": texts} for name in names]}
        for part in [*top.get("measured", []), *top.get("exact", [])]:
            part["query"] = {"kind": "total"}
    else:
        top.update({"dims": names, "labels": [texts] * int(dims), "groups": []})


def mutate_json(rng, source):
    value = json.loads(source)
    places = _places(value)
    if not places:
        return _raw_text(rng), "JSON: raw"
    how, (holder, key) = one(rng, _CHANGES), one(rng, places)
    own, count, is_keyed = holder[key], size(rng, 4, 15), isinstance(holder, dict)
    if how == "gone":
        del holder[key]
    elif how == "value":
        holder[key] = one(rng, _VALUES)
    elif how == "raw":
        holder[key] = _RAW + _raw_text(rng) + _RAW
    elif how == "text":  # odd characters in a key, or in or instead of a text
        odd = one(rng, _ODD)
        if is_keyed and rng.random() < 0.3:
            holder[f"{key}{odd}"] = holder.pop(key)
        else:
            holder[key] = f"{own}{odd}" if isinstance(own, str) else odd
    elif how == "unknown" and is_keyed:
        holder[one(rng, _UNKNOWN)] = one(rng, _VALUES)
    elif how == "unknown":
        holder.insert(key, one(rng, _VALUES))
    elif how == "again" and is_keyed:
        holder[key] = f"{_RAW}{json.dumps(own)}, {json.dumps(key)}: {one(rng, [json.dumps(own), 1])}{_RAW}"
    elif how == "again":
        holder[key:key] = [own] * size(rng, 0, 10)
    elif how == "swap":
        other, there = one(rng, places)
        mine, its = (json.dumps(each) for each in (own, other[there]))
        other[there] = json.loads(one(rng, [mine, its]))  # exchanged, or copied
        holder[key] = json.loads(its)
    elif how == "wide" and isinstance(own, list) and own:
        holder[key] = [*own, *(f"{own[0]}{i}" if isinstance(own[0], str) else own[0] for i in range(count))]
    elif how == "wide" and isinstance(own, dict) and own:
        holder[key] = own | {f"{next(iter(own))}{i}": 1 for i in range(count)}
    elif how == "frame" and isinstance(value, dict) and ("table" in value or "labels" in value):
        _frame(rng, value)
    else:
        holder[key] = "x" * (8 * count)
    out, *pieces = json.dumps(value, ensure_ascii=False).split(f'"{_RAW}')
    for piece in pieces:
        inside, _, rest = piece.partition(f'{_RAW}"')
        out += str(json.loads(f'"{inside}"', strict=False)) + rest
    return out, f"JSON: {how} {key!r:.40}"
