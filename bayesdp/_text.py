r"""Text that others wrote, as it may be shown: labels, names and paths hold whatever somebody put into a file.

A terminal obeys control characters; characters of direction turn around what stands beside them, and invisible ones make two labels
look alike. Wherever bayesdp shows a label, such characters are written as Python writes them in a string, ``\x1b`` or ``\u202e``;
values are never changed. Nothing slow to import is imported here: ``bayesdp --help`` uses it.

And JSON as the standard has it: no NaN, no repeated keys, and errors that say where.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from itertools import islice
from typing import Any, Never

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})
"""Unicode's categories of control, format (direction, zero width, tags), surrogate, unassigned, line and paragraph separator."""

_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0")
"""Letters and marks by their category, which are drawn as nothing."""

_FORMULA = frozenset("=+-@\uff1d\uff0b\uff0d\uff20'")
"""How a cell begins that a spreadsheet may take for a formula (some take wide signs too), and what says that it is none."""

_ESCAPES = re.compile(r"\\(?:[\\tnr]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")

_DIGITS = 308
"""Integers of at most this many characters are below the largest float64."""

_LONG = re.compile(rf"\d{{{_DIGITS + 1}}}")

_SHOWN = 40
"""Most characters of a number that a message shows."""


def _unsafe(character: str) -> bool:
    return character in _BLANK or unicodedata.category(character) in _HIDDEN


def printable(value: Any) -> str:
    """A label, or another value (as `str` has it), as it may be shown on one line."""
    text = str(value)
    if text.isascii() and text.isprintable():
        return text
    return "".join(c.encode("unicode_escape").decode() if _unsafe(c) else c for c in text)


def printable_lines(text: str) -> str:
    """Several lines as they may be shown: ends of lines and tabs stay, whatever else is unsafe does not."""
    return "".join(piece if piece in "\n\t" else printable(piece) for piece in re.split(r"([\n\t])", text))


def json_escaped(text: str) -> str:
    """A JSON text that says the same, with escapes in its strings for what `printable` would not show."""

    def escaped(found: re.Match[str]) -> str:
        return json.dumps(found.group())[1:-1] if _unsafe(found.group()) else found.group()

    # Below, JSON has escapes itself; ends of lines are between its strings.
    return re.sub(r"[^\x00-\x7e]", escaped, text)


def width(text: str) -> int:
    """Columns of a terminal that a line takes: wide letters two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.category(c) in ("Mn", "Me") else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def aligned(text: str, columns: int, *, right: bool = False) -> str:
    """A text with blanks that fill it up to a number of columns of a terminal."""
    blanks = " " * max(columns - width(text), 0)
    return blanks + text if right else text + blanks


def csv_label(value: Any) -> str:
    r"""A label as bayesdp writes it into a CSV file: nothing that a spreadsheet computes or a terminal obeys.

    Numbers are written as they are, and so are most labels. A text that begins with ``=``, ``+``, ``-``, ``@`` or an apostrophe
    (after blanks, too), or that holds a character that `printable` would not show, gets an apostrophe in front; in what
    follows, backslashes are doubled and such characters are escaped. Different labels stay different.

    See Also
    --------
    label_of_csv : the label again.

    Examples
    --------
    >>> print(*map(csv_label, ["Alpha", "=1+1", "'quoted'", "-5", -5, "two\nlines", "a\\b"]))
    Alpha '=1+1 ''quoted' '-5 -5 'two\nlines a\b
    """
    if not isinstance(value, str):
        return str(value)
    if value.lstrip()[:1] not in _FORMULA and printable(value) == value:
        return value
    return "'" + printable(value.replace("\\", "\\\\"))


def csv_text(headings: Iterable[str], rows: Iterable[Iterable[Any]], end: str = "\n") -> str:
    """A CSV file; texts are labels as `csv_label` writes them, and None and NaN are empty fields."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=end)
    writer.writerow(map(csv_label, headings))
    for row in rows:
        # NaN differs from itself.
        fields = ("" if value is None or value != value else value for value in row)
        writer.writerow(csv_label(value) if isinstance(value, str) else value for value in fields)
    return text.getvalue()


def label_of_csv(text: str) -> str:
    r"""The label that `csv_label` has written.

    Raises
    ------
    ValueError
        If a backslash after an apostrophe begins no escape.

    Examples
    --------
    >>> label_of_csv("'=1+1"), label_of_csv("Alpha"), label_of_csv(r"'two\nlines")
    ('=1+1', 'Alpha', 'two\nlines')
    """
    if not text.startswith("'"):
        return text
    if "\\" in _ESCAPES.sub("", text):
        raise ValueError(f"a cell holds a backslash that begins no escape: {text!r}")

    return _ESCAPES.sub(lambda escape: escape.group().encode().decode("unicode_escape"), text[1:])


def shown(items: Iterable[Any], limit: int = 5, between: str = ", ", write: Callable[[Any], str] = repr) -> str:
    """Write a few items for an error message, and say how many were left out."""
    listed = list(items)
    texts = [printable(write(item)) for item in listed[:limit]]
    more = [f"... ({len(listed) - limit} more)"] if len(listed) > limit else []
    return between.join(
        [text if len(text) <= _LONGEST or write is not repr else f"{text[:_LONGEST]}..." for text in texts] + more
    )


_LONGEST = 300
"""Most characters of an item that a message shows, and of a name that near ones are looked for."""

_COMPARED = 10_000
"""Most names that one is compared with."""


def meant(name: Any, known: Iterable[Any], show: Callable[[Iterable[Any]], str] = shown) -> str:
    """The end of an error message about an unknown name: the known ones that are near to it, if any are."""
    if len(str(name)) > _LONGEST:  # comparing goes with the square of the length
        return ""
    plain = {str(each).casefold().replace("_", "-"): each for each in islice(known, _COMPARED)}
    found = get_close_matches(str(name).casefold().replace("_", "-"), plain, cutoff=0.7)
    return f"; did you mean {' or '.join(show([plain[key]]) for key in found)}?" if found else ""


def nearest(name: Any, known: Iterable[Any], show: Callable[[Iterable[Any]], str] = shown) -> str:
    """Some of the known names for an error message, and those that are near to an unknown one."""
    listed = list(known)
    return show(listed) + meant(name, listed, show)


def both_lists(**items: Iterable[Any]) -> str:
    """Named lists of items for an error message, without the empty ones."""
    return "; ".join(f"{name}: {shown(listed)}" for name, listed in items.items() if listed)


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
