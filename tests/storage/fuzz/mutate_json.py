"""Fields of JSON: gone, repeated, of another type, swapped, huge, deep, not numbers, unknown."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tests.storage.fuzz.chance import one, size

type Place = tuple[Any, Any]
"""A dictionary or a list, and a key or an index of it."""

_RAW = "\ue000raw\ue000"
"""Stands for text that the JSON library would not write."""

_NUMBERS = (0, 1, -1, 2, 3, -0.0, 0.5, 1e-300, 1e300, 1e-18, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 10**30)
_PLAIN: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 0.5, "", "x", "no", [], {}, [[]], [1, "1", None], {"a": 1}, [{}],
)  # fmt: skip
_TEXTS = (
    "\x00", "\x1b[2J", "\u202e", "\u2028", "\u200b", "\ud800", "é\u0301", "\ufeff", "\U0010ffff", "a\nb", " x ", "=1+1",
    "GCOL\x01", "../../x", "os.system",
)  # fmt: skip
_CHANGES = (
    "remove", "retype", "retype", "renumber", "renumber", "raw", "raw", "text", "unknown", "repeat", "swap", "swap", "frame",
    "widen",
)  # fmt: skip


def _raw_text(rng: np.random.Generator) -> str:
    """What JSON does not know, or what is too much: 401 digits, NaN, deep nesting."""
    depth = size(rng, 3, 17)
    return str(one(rng, [
        "9" * 401, "-" + "7" * 401, "9" * 5000, "1e400", "-1e400", "1" + "0" * 308, "NaN", "Infinity", "-Infinity", "0" * 20 + "1",
        "[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth, "[" * depth, '"\\ud800"', '"\\u0000"', "'x'", "", "0x10",
        "1_000", "true false", "/* */1", '"' + "x" * depth + '"', "[" + "0," * depth + "0]", "٣",
    ]))  # fmt: skip


def _places(value: Any) -> list[Place]:
    found: list[Place] = []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, own in items:
        found += [(value, key), *_places(own)]
    return found


def _unknown(rng: np.random.Generator, holder: Any, key: Any) -> None:
    """A key, or an item, that nobody asked for."""
    if isinstance(holder, dict):
        holder[one(rng, ["extra", "__class__", "", "law", "number", "epsilon", "value"])] = one(rng, _PLAIN)
    else:
        holder.insert(key, one(rng, _PLAIN))


def _text(rng: np.random.Generator, holder: Any, key: Any) -> None:
    """Odd characters in a text or in a key."""
    odd = one(rng, _TEXTS)
    if isinstance(holder, dict) and rng.random() < 0.3:
        holder[f"{key}{odd}"] = holder.pop(key)
    else:
        holder[key] = f"{holder[key]}{odd}" if isinstance(holder[key], str) and rng.random() < 0.7 else odd


def _repeat(rng: np.random.Generator, holder: Any, key: Any) -> None:
    """A key is there twice; an item is there again and again."""
    if isinstance(holder, dict):
        value = json.dumps(holder[key])
        holder[key] = f"{_RAW}{value}, {json.dumps(key)}: {value if rng.random() < 0.5 else 1}{_RAW}"
    else:
        holder[key:key] = [holder[key]] * size(rng, 0, 10)


def _swap(rng: np.random.Generator, holder: Any, key: Any, places: list[Place]) -> None:
    """Two values change places, or one is copied over the other."""
    other, there = one(rng, places)
    mine, its = (json.loads(json.dumps(own)) for own in (holder[key], other[there]))
    holder[key] = its
    if rng.random() < 0.5 and (isinstance(other, dict) or there < len(other)):
        other[there] = mine


def _frame(rng: np.random.Generator, holder: Any, key: Any, top: Any) -> None:
    """A few labels along several dimensions, or two along many: far more cells than the file has bytes."""
    dims, labels = one(rng, [(rng.integers(2, 9), rng.integers(2, 200)), (rng.integers(10, 26), 2)])
    names, texts = [f"d{i}" for i in range(dims)], [str(i) for i in range(labels)]
    frame = {"dims": names, "labels": [texts] * int(dims), "groups": []}
    if isinstance(top, dict) and "table" in top:
        top["table"] = {"dimensions": [{"name": name, "labels": texts} for name in names]}
        for part in [*top.get("measured", []), *top.get("exact", [])]:
            part["query"] = {"kind": "total"}
    elif isinstance(top, dict) and "frame" in top:
        top["frame"] = frame
        for part in [*top.get("measurements", []), *top.get("exact", [])]:
            part["query"] = {"parts": [{"sum": names[: int(rng.integers(0, dims + 1))]}]}
    elif isinstance(top, dict) and "labels" in top:
        top.update(frame)
    else:
        holder[key] = frame


def _widen(rng: np.random.Generator, holder: Any, key: Any) -> None:
    """Very many items of a list, or keys of an object, all different; or a very long text."""
    count, value = size(rng, 4, 15), holder[key]
    if isinstance(value, list) and value:
        first = value[0]
        more = (f"{first}{i}" if isinstance(first, str) else json.loads(json.dumps(first)) for i in range(count))
        holder[key] = [*value, *more]
    elif isinstance(value, dict) and value:
        holder[key] = value | {f"{next(iter(value))}{i}": 1 for i in range(count)}
    else:
        holder[key] = "x" * (8 * count)


def mutate_json(rng: np.random.Generator, source: str) -> tuple[str, str]:
    """Change a field of a JSON text."""
    value = json.loads(source)
    places = _places(value)
    if not places:
        return _raw_text(rng), "JSON: raw"
    how, (holder, key) = one(rng, _CHANGES), one(rng, places)
    if how == "remove":
        del holder[key]
    elif how == "retype":
        holder[key] = one(rng, _PLAIN)
    elif how == "renumber":
        numbers = [own for own in places if isinstance(own[0][own[1]], (int, float))]
        holder, key = one(rng, numbers or [(holder, key)])
        holder[key] = one(rng, _NUMBERS)
    elif how == "raw":
        holder[key] = _RAW + _raw_text(rng) + _RAW
    elif how == "swap":
        _swap(rng, holder, key, places)
    elif how == "frame":
        _frame(rng, holder, key, value)
    else:
        {"text": _text, "unknown": _unknown, "repeat": _repeat, "widen": _widen}[how](rng, holder, key)
    return _written(value), f"JSON: {how} {key!r:.40}"


def _written(value: Any) -> str:
    """JSON text, with raw pieces put in."""
    out, *pieces = json.dumps(value, ensure_ascii=False).split(f'"{_RAW}')
    for piece in pieces:
        inside, _, rest = piece.partition(f'{_RAW}"')
        out += str(json.loads(f'"{inside}"', strict=False)) + rest
    return out
