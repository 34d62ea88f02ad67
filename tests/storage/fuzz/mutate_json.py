"""Fields of JSON: gone, repeated, of another type, swapped, huge, deep, not numbers, unknown."""

import json

from tests.storage.fuzz.mutate_text import one, size

_RAW = "\ue000raw\ue000"  # stands for text that the JSON library would not write

_VALUES = (
    None, True, False, "", "x", "no", [], {}, [[]], [1, "1", None], {"a": 1}, [{}], 0, 1, -1, 2, 3, -0.0, 0.5, 1e-300, 1e300, 1e-18,
    2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 10**30,
)  # fmt: skip
_TEXTS = (
    "\x00", "\x1b[2J", "\u202e", "\u2028", "\u200b", "\ud800", "é\u0301", "\ufeff", "\U0010ffff", "a\nb", " x ", "=1+1",
    "GCOL\x01", "../../x", "os.system",
)  # fmt: skip
_CHANGES = ("gone", "value", "value", "raw", "text", "unknown", "again", "swap", "wide", "frame")
_KEYS = ("extra", "__class__", "", "law", "number", "epsilon", "value")


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
        odd = one(rng, _TEXTS)
        if is_keyed and rng.random() < 0.3:
            holder[f"{key}{odd}"] = holder.pop(key)
        else:
            holder[key] = f"{own}{odd}" if isinstance(own, str) else odd
    elif how == "unknown" and is_keyed:
        holder[one(rng, _KEYS)] = one(rng, _VALUES)
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
    return _written(value), f"JSON: {how} {key!r:.40}"


def _written(value):
    out, *pieces = json.dumps(value, ensure_ascii=False).split(f'"{_RAW}')
    for piece in pieces:
        inside, _, rest = piece.partition(f'{_RAW}"')
        out += str(json.loads(f'"{inside}"', strict=False)) + rest
    return out
