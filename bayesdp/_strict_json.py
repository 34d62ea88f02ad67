"""JSON as the standard has it: no NaN, no repeated keys, and errors that say where."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Never

from bayesdp._text import json_escaped
from bayesdp._validate import both_lists


def dumps(value: Any, what: str, indent: int | None = None) -> str:
    """Write plain data as JSON, with escapes for what a terminal obeys or turns around; `what` it is, for messages."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, indent=indent)
        if _LONG.search(text):
            loads(text, what)  # nothing is written that could not be read again
        text.encode()  # half of a character, a lone surrogate, is no text: `loads` would refuse it
        return json_escaped(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{what} cannot be written as JSON: {error}") from None


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is not a number that JSON knows")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {_number_text(text)} is too large")
    return number


def _integer(text: str) -> int:
    # Whatever stands here is used as a float sooner or later: a scale, a loss, a bound. Longer integers than float64 has room
    # for are refused here once, and not by an OverflowError wherever they turn up (nor by Python's limit of 4,300 digits).
    if len(text) > _DIGITS and math.isinf(float(text)):
        raise ValueError(f"the number {_number_text(text)} is too large")
    return int(text)


def _number_text(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... of {len(text)} characters"


_DIGITS = 308
"""Integers of at most this many characters are below the largest float64."""

_LONG = re.compile(rf"\d{{{_DIGITS + 1}}}")

_SHOWN = 40
"""Most characters of a number that a message shows."""


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {repeated!r} occurs twice")
    return found


def loads(text: Any, what: str, *, constants: bool = False) -> Any:
    """Read JSON strictly: no key twice, no number beyond floats, and NaN and Infinity, which Python writes, only with `constants`."""
    if not isinstance(text, str):
        raise ValueError(f"{what} must be JSON text, got {type(text).__name__}")
    try:
        value = json.loads(
            text,
            parse_constant=float if constants else _refuse_constant,
            parse_float=_finite,
            parse_int=_integer,
            object_pairs_hook=_distinct,
        )
        # Half a surrogate pair, raw or escaped, is no character: nothing could write such a label again.
        json.dumps(value, ensure_ascii=False).encode("utf-8")
        return value
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what} is not valid JSON: {error}") from None


def expect(value: Any, kind: type, what: str, keys: set[str] | None = None) -> Any:
    """Check the type of a piece of read data, and for objects that the keys are exactly those expected; messages name the others."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{what} must be of type {kind.__name__}, got {type(value).__name__}")
    if keys is not None and isinstance(value, dict):
        unknown, missing = sorted(set(value) - keys), sorted(keys - set(value))
        if unknown or missing:
            raise ValueError(f"{what} has the wrong keys ({both_lists(unknown=unknown, missing=missing)})")
    return value
