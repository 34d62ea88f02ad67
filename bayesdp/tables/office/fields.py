"""What stands in a field of an office's file: a number, a symbol, and marks of footnotes; only what was declared is understood."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bayesdp._validate import shown
from bayesdp.tables.office.table import PUBLISHED, STATUSES, ZERO

type Field = tuple[float, int, tuple[str, ...], bool]
"""The number (NaN if there is none), the place of the status, marks of footnotes, and whether it is written as a whole number."""

_NAMES = tuple(STATUSES)
_MAX_DIGITS = 15  # below 2**53, so that a count is exact as float64 too
_LONGEST = 100
"""Longer texts are no numbers, with marks or without."""
_SEPARATORS = ",.' \u2019\u00a0\u202f\u2009"
_DECIMALS = (",", ".")
_GROUPED = re.compile(rf"[+-]?\d{{1,3}}(?:([{_SEPARATORS}])\d{{3}})(?:\1\d{{3}})*([.,]\d+)?", re.ASCII)
_FRACTION = re.compile(r"[+-]?\d+([.,])\d+", re.ASCII)
_MARKED = re.compile(rf"[+-]?\d[\d{_SEPARATORS}]*?\s*([^\s\d{_SEPARATORS}].*)", re.ASCII)


@dataclass(frozen=True)
class Notation:
    """How a file writes what it publishes.

    Parameters
    ----------
    symbols : mapping
        Symbol -> name of a status, or 0 for a symbol that stands for the published number 0.
    footnotes : tuple of str
        Marks that may follow a number or a symbol.
    thousands : tuple of str
        Separators of thousands.
    decimal : str or None
        The decimal sign; None if all numbers are whole.

    Examples
    --------
    >>> Notation.of({"..": "suppressed"}, ("r",), ",", None).read("1,234 r")
    (1234.0, 0, ('r',), True)
    """

    symbols: Mapping[str, str | int]
    footnotes: tuple[str, ...]
    thousands: tuple[str, ...]
    decimal: str | None
    number: re.Pattern[str]

    @classmethod
    def of(cls, symbols: Any, footnotes: Any, thousands: Any, decimal: Any) -> Notation:
        """Check what was declared."""
        own = _symbols(symbols)
        separators = _thousands(thousands)
        if decimal is not None and decimal not in _DECIMALS:
            raise ValueError(f"decimal must be ',' or '.', or None where all numbers are whole, got {decimal!r}")
        if decimal in separators:
            raise ValueError(f"thousands and decimal are both {decimal!r}; one sign cannot mean both")
        marks = _footnotes(footnotes, separators, decimal)
        grouped = "".join(rf"|\d{{1,3}}(?:{re.escape(sign)}\d{{3}})+" for sign in separators)
        fraction = "" if decimal is None else rf"(?:{re.escape(decimal)}\d+)?"
        return cls(own, marks, separators, decimal, re.compile(rf"[+-]?(?:\d+{grouped}){fraction}", re.ASCII))

    def read(self, text: str) -> Field | None:
        """What a field says; None if that was not declared."""
        found = self._plain(text)
        if found is not None or not self.footnotes or len(text) > _LONGEST:
            return found
        marks: list[str] = []
        rest = text
        while True:
            mark = next((own for own in self.footnotes if rest.endswith(own) and len(rest) > len(own)), None)
            if mark is None:
                return None
            rest = rest[: -len(mark)].rstrip()
            marks.insert(0, mark)
            found = self._plain(rest) if rest else None
            if found is not None:
                return (*found[:2], tuple(marks), found[3])

    def _plain(self, text: str) -> Field | None:
        """What a field without marks of footnotes says."""
        meaning = self.symbols.get(text)
        if meaning is not None:
            if meaning == 0:
                return 0.0, PUBLISHED, (), True
            place = _NAMES.index(str(meaning))
            return (0.0 if place == ZERO else float("nan")), place, (), True
        if text.isascii() and text.isdigit():
            return (float(text), PUBLISHED, (), True) if len(text) <= _MAX_DIGITS else None
        if len(text) > _LONGEST or not self.number.fullmatch(text):
            return None
        plain = text
        for sign in self.thousands:
            plain = plain.replace(sign, "")
        if self.decimal is not None:
            plain = plain.replace(self.decimal, ".")
        if len(plain.lstrip("+-").replace(".", "")) > _MAX_DIGITS:
            return None
        return float(plain), PUBLISHED, (), "." not in plain

    def remedy(self, text: str) -> str:
        """How to declare what a field holds."""
        if not text:
            return (
                "is empty; say what an empty field means: symbols={'': 'not_published'} if nothing is known there, or one of "
                f"{shown(_NAMES[1:], 9)}"
            )
        if len(text) > _LONGEST:
            return "is too long for a number or a symbol; if the column holds no numbers, leave it out: ignore=[...]"
        if self.number.fullmatch(text):
            return f"has more than {_MAX_DIGITS} digits, and counts are read with at most so many"
        grouped, fraction = _GROUPED.fullmatch(text), _FRACTION.fullmatch(text)
        if grouped and not grouped[2] and grouped[1] in _DECIMALS and self.decimal is None and not self.thousands:
            return (
                f"is no whole number as declared; say what {grouped[1]!r} is: thousands={grouped[1]!r} if it means "
                f"{text.replace(grouped[1], '')}, or decimal={grouped[1]!r} if it begins a fraction"
            )
        if grouped and not self.thousands and self.decimal in (None, grouped[2] and grouped[2][0]):
            more = f" and decimal={grouped[2][0]!r}" if grouped[2] else ""
            return f"is no whole number as declared; declare its separators: thousands={grouped[1]!r}{more}"
        if fraction and fraction[1] not in self.thousands and self.decimal is None:
            return f"is a fraction; if that is right declare decimal={fraction[1]!r}"
        if re.fullmatch(rf"[+-]?\d[\d{_SEPARATORS}]*", text, re.ASCII):
            return (
                "is no number: separators of thousands stand before three digits each, and thousands= and decimal= must "
                "declare them"
            )
        if text[0] in "\u2212\u2013" and self.number.fullmatch(text[1:]):
            return "begins with a sign that is no hyphen; write negative numbers with '-' in the file"
        if text.endswith("%"):
            return (
                "is a percentage, which is no count: choose the column of counts, and leave this one out (ignore=[...])"
            )
        if text[0] in "<\u2264":
            declared = f"symbols={{{text!r}: 'below_threshold'}}"
            return f"is a limit; say what hides behind it: {declared}, or another of {shown(_NAMES[1:], 9)}"
        marked = _MARKED.fullmatch(text)
        if marked:
            return (
                f"is no number; if {marked[1]!r} is the mark of a footnote declare it: "
                f"footnotes={[*self.footnotes, marked[1]]!r}; or, if the whole field is a symbol: "
                f"symbols={{{text!r}: 'suppressed'}}, or another of {shown(_NAMES[1:], 9)}"
            )
        return (
            f"is no number, and no symbol that was declared; say what it means: symbols={{{text!r}: 'suppressed'}}, or another "
            f"of {shown(_NAMES[1:], 9)}; a symbol for the published number 0 is {{{text!r}: 0}}"
        )


def _symbols(symbols: Any) -> dict[str, str | int]:
    if not isinstance(symbols, Mapping):
        raise TypeError(f"symbols must be a mapping, such as {{'..': 'suppressed'}}, got {symbols!r}")
    for symbol, meaning in symbols.items():
        if not isinstance(symbol, str):
            raise TypeError(f"symbols must be texts, got {symbol!r}")
        if symbol != symbol.strip():
            raise ValueError(f"symbols: {symbol!r} has blanks around it, and fields are compared without")
        number = isinstance(meaning, int) and not isinstance(meaning, bool) and meaning == 0
        if not number and (not isinstance(meaning, str) or meaning not in _NAMES[1:]):
            known = "; ".join(f"{name!r} ({what})" for name, what in list(STATUSES.items())[1:])
            raise ValueError(
                f"symbols: {symbol!r} must mean one of {known}; or 0 if it stands for the published number 0, got {meaning!r}"
            )
    return dict(symbols)


def _thousands(thousands: Any) -> tuple[str, ...]:
    if thousands is not None and not isinstance(thousands, Iterable):
        raise TypeError(f"thousands must be a separator, or a list of them, got {thousands!r}")
    signs = () if thousands is None else (thousands,) if isinstance(thousands, str) else tuple(thousands)
    for sign in signs:
        if not isinstance(sign, str) or len(sign) != 1 or sign not in _SEPARATORS:
            raise ValueError(
                f"thousands must be one of {shown(_SEPARATORS, len(_SEPARATORS))} or several of them, got {sign!r}"
            )
    return signs


def _footnotes(footnotes: Any, separators: Sequence[str], decimal: str | None) -> tuple[str, ...]:
    if isinstance(footnotes, str) or not isinstance(footnotes, Sequence):
        raise TypeError(f"footnotes must be a list of marks, got {footnotes!r}")
    for mark in footnotes:
        if not isinstance(mark, str) or not mark or mark != mark.strip():
            raise ValueError(f"footnotes must be marks without blanks around them, such as '*' or '(1)', got {mark!r}")
        if mark[0] in "0123456789" or mark[0] in separators or mark[0] == decimal:
            raise ValueError(
                f"footnotes: {mark!r} cannot be told from the end of a number; remove such marks from the file, or write "
                f"'({mark})' there"
            )
    return tuple(sorted(footnotes, key=len, reverse=True))
