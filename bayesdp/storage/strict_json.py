"""JSON as the standard has it: no NaN, no repeated keys, and errors that say where."""

from __future__ import annotations

import json
import math
from typing import Any, Never

from bayesdp._text import json_escaped
from bayesdp._validate import shown

__all__ = ["dumps", "expect", "loads"]


def dumps(value: Any, what: str, indent: int | None = None) -> str:
    """Write plain data as JSON, with escapes for what a terminal obeys or turns around.

    Parameters
    ----------
    value : Any
        Dictionaries, lists, strings, numbers, booleans, None.
    what : str
        What it is, for messages.
    indent : int, optional
        Spaces by which nested entries are indented; all on one line without it.

    Raises
    ------
    ValueError
        If a number is NaN or infinite, a string holds a lone surrogate, or something is not plain data.

    Examples
    --------
    >>> dumps({"sigma": 5.0}, "law")
    '{"sigma": 5.0}'
    """
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, indent=indent)
        text.encode()  # half of a character, a lone surrogate, is no text: `loads` would refuse it
        return json_escaped(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{what} cannot be written as JSON: {error}") from None


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is not a number that JSON knows")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text} is too large")
    return number


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {repeated!r} occurs twice")
    return found


def loads(text: Any, what: str) -> Any:
    """Read JSON strictly.

    Parameters
    ----------
    text : str
        JSON text.
    what : str
        What it is, for messages.

    Raises
    ------
    ValueError
        If it is not a string, not valid JSON, has NaN or Infinity, or repeats a key in one object.

    Examples
    --------
    >>> loads('{"sigma": NaN}', "law")
    Traceback (most recent call last):
        ...
    ValueError: law is not valid JSON: NaN is not a number that JSON knows
    """
    if not isinstance(text, str):
        raise ValueError(f"{what} must be JSON text, got {type(text).__name__}")
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_distinct)
        # Half a surrogate pair, raw or escaped, is no character: nothing could write such a label again.
        json.dumps(value, ensure_ascii=False).encode("utf-8")
        return value
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what} is not valid JSON: {error}") from None


def expect(value: Any, kind: type, what: str, keys: set[str] | None = None) -> Any:
    """Check the type of a piece of read data, and for objects that the keys are exactly those expected.

    Raises
    ------
    ValueError
        If it is something else; the message names unknown and missing keys.
    """
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{what} must be of type {kind.__name__}, got {type(value).__name__}")
    if keys is not None and isinstance(value, dict):
        unknown, missing = sorted(set(value) - keys), sorted(keys - set(value))
        if unknown or missing:
            told = [f"{word}: {shown(own)}" for word, own in (("unknown", unknown), ("missing", missing)) if own]
            raise ValueError(f"{what} has the wrong keys ({'; '.join(told)})")
    return value
