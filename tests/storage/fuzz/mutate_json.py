"""Fields of JSON: gone, repeated, of another type, swapped, huge, deep, not numbers, unknown."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

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


def _raw_texts(rng: np.random.Generator) -> str:
    depth = int(2 ** rng.uniform(3, 17))
    choices = (
        "9" * 401, "-" + "7" * 401, "9" * 5000, "1e400", "-1e400", "1" + "0" * 308, "NaN", "Infinity", "-Infinity", "0" * 20 + "1",
        "[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth, "[" * depth, '"\\ud800"', '"\\u0000"', "'x'", "", "0x10",
        "1_000", "true false", "/* */1", '"' + "x" * depth + '"', "[" + "0," * depth + "0]", "٣",
    )  # fmt: skip
    return choices[int(rng.integers(0, len(choices)))]


def _places(value: Any) -> list[Place]:
    found: list[Place] = []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, own in items:
        found.append((value, key))
        found += _places(own)
    return found


def remove(rng: np.random.Generator, holder: Any, key: Any, places: list[Place]) -> None:
    """A field goes."""
    del holder[key]


def retype(rng: np.random.Generator, holder: Any, key: Any, places: list[Place]) -> None:
    """A field becomes something of another type."""
    holder[key] = _PLAIN[int(rng.integers(0, len(_PLAIN)))]


def renumber(rng: np.random.Generator, holder: Any, key: Any, places: list[Place]) -> None:
    """A number becomes another one, a field becomes a number."""
    numbers = [own for own in places if isinstance(own[0][own[1]], (int, float))]
    if numbers:
        holder, key = numbers[int(rng.integers(0, len(numbers)))]
    holder[key] = _NUMBERS[int(rng.integers(0, len(_NUMBERS)))]


def raw(rng: np.random.Generator, holder: Any, key: Any, places: list[Place]) -> None:
    """A field becomes what JSON does not know, or what is too much: 401 digits, NaN, deep nesting."""
    holder[key] = _RAW + _raw_texts(rng) + _RAW


def text(rng: np.random.Generator, holder: Any, key: Any, places: list[Place]) -> None:
    """Odd characters in a text or in a key."""
    odd = _TEXTS[int(rng.integers(0, len(_TEXTS)))]
    if isinstance(holder, dict) and rng.random() < 0.3:
        holder[f"{key}{odd}"] = holder.pop(key)
    else:
        holder[key] = f"{holder[key]}{odd}" if isinstance(holder[key], str) and rng.random() < 0.7 else odd


def unknown(rng: np.random.Generator, holder: Any, key: Any, places: list[Place]) -> None:
    """A key, or an item, that nobody asked for."""
    new = _PLAIN[int(rng.integers(0, len(_PLAIN)))]
    if isinstance(holder, dict):
        holder[str(rng.choice(["extra", "__class__", "", "law", "number", "epsilon", "value"]))] = new
    else:
        holder.insert(key, new)


def repeat(rng: np.random.Generator, holder: Any, key: Any, places: list[Place]) -> None:
    """A key is there twice; an item is there again and again."""
    if isinstance(holder, dict):
        value = json.dumps(holder[key])
        holder[key] = f"{_RAW}{value}, {json.dumps(key)}: {value if rng.random() < 0.5 else 1}{_RAW}"
    else:
        holder[key:key] = [holder[key]] * int(2 ** rng.uniform(0, 10))


def swap(rng: np.random.Generator, holder: Any, key: Any, places: list[Place]) -> None:
    """Two values change places, or one is copied over the other."""
    other, there = places[int(rng.integers(0, len(places)))]
    mine, its = (json.loads(json.dumps(own)) for own in (holder[key], other[there]))
    holder[key] = its
    if rng.random() < 0.5 and (isinstance(other, dict) or there < len(other)):
        other[there] = mine


def large_frame(rng: np.random.Generator, holder: Any, key: Any, places: list[Place]) -> None:
    """A few labels along each of several dimensions: far more cells than the file has bytes."""
    top = places[0][0]
    dims, labels = int(rng.integers(2, 9)), int(rng.integers(2, 200))
    names = [f"d{i}" for i in range(dims)]
    frame = {"dims": names, "labels": [[str(j) for j in range(labels)]] * dims, "groups": []}
    if isinstance(top, dict) and "frame" in top:
        top["frame"] = frame
        for part in [*top.get("measurements", []), *top.get("exact", [])]:
            part["query"] = {"parts": [{"sum": names[: int(rng.integers(0, dims + 1))]}]}
    elif isinstance(top, dict) and "labels" in top:
        top.update(frame)
    else:
        holder[key] = frame


def widen(rng: np.random.Generator, holder: Any, key: Any, places: list[Place]) -> None:
    """Very many items of a list, or keys of an object, all different; or a very long text."""
    count, value = int(2 ** rng.uniform(4, 15)), holder[key]
    if isinstance(value, list) and value:
        sample = json.dumps(value[0])
        holder[key] = [
            *value,
            *(f"{value[0]}{i}" if isinstance(value[0], str) else json.loads(sample) for i in range(count)),
        ]
    elif isinstance(value, dict) and value:
        holder[key] = value | {f"{next(iter(value))}{i}": 1 for i in range(count)}
    else:
        holder[key] = "x" * (8 * count)


def binary_frame(rng: np.random.Generator, holder: Any, key: Any, places: list[Place]) -> None:
    """Two labels along each of up to 25 dimensions."""
    names = [f"d{i}" for i in range(int(rng.integers(10, 26)))]
    top = places[0][0]
    if isinstance(top, dict) and "table" in top:
        top["table"] = {"dimensions": [{"name": name, "labels": ["a", "b"]} for name in names]}
        for part in [*top.get("measured", []), *top.get("exact", [])]:
            part["query"] = {"kind": "total"}
    else:
        holder[key] = {"dims": names, "labels": [["a", "b"]] * len(names), "groups": []}


_CHANGES: tuple[Callable[[np.random.Generator, Any, Any, list[Place]], None], ...] = (
    remove, retype, retype, renumber, renumber, raw, raw, text, unknown, repeat, swap, swap, large_frame, widen,
    binary_frame,
)  # fmt: skip


def mutate_json(rng: np.random.Generator, source: str) -> tuple[str, str]:
    """Change a field of a JSON text."""
    value = json.loads(source)
    places = _places(value)
    if not places:
        return _raw_texts(rng), "JSON: raw"
    change = _CHANGES[int(rng.integers(0, len(_CHANGES)))]
    holder, key = places[int(rng.integers(0, len(places)))]
    change(rng, holder, key, places)
    return _written(value), f"JSON: {change.__name__} {key!r:.40}"


def _written(value: Any) -> str:
    """JSON text, with raw pieces put in."""
    pieces = json.dumps(value, ensure_ascii=False).split(f'"{_RAW}')
    if len(pieces) == 1:
        return pieces[0]
    out = pieces[0]
    for piece in pieces[1:]:
        inside, _, rest = piece.partition(f'{_RAW}"')
        out += str(json.loads(f'"{inside}"', strict=False)) + rest
    return out
