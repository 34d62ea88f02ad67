"""Tables as offices publish them, with symbols and footnotes: what stands in a field, and what is known of each cell."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._text import printable
from bayesdp._validate import choice, instance, set_fields, shown
from bayesdp.measurements import Exact, Measured, described
from bayesdp.noise.base import NoiseLaw
from bayesdp.queries import LinearQuery, Query
from bayesdp.storage.csv_file import INTEGER, NUMBER, remedy

STATUSES: Mapping[str, str] = MappingProxyType({
    "published": "a number was published",
    "suppressed": "the number was hidden, and why is not known: primary or complementary suppression",
    "not_published": "there is no number, and nothing is known of the count",
    "zero": "the true count is zero",
    "below_threshold": "the number was hidden because it is under a threshold",
    "not_applicable": "the cell cannot have a count: a structural zero",
})  # fmt: skip
"""What can be known of a cell of an office's table, by name."""

_NAMES = tuple(STATUSES)
PUBLISHED = _NAMES.index("published")
ZERO = _NAMES.index("zero")

_LEFT_OUT = ("suppressed", "not_published", "zero", "not_applicable")
_ZEROS = ("zero", "not_applicable")


@dataclass(frozen=True, eq=False)
class OfficeTable:
    """A table that an office has published, with a status for each cell; made by `read_office_csv`.

    Parameters
    ----------
    query : Query
        What the numbers are of: the cells of the table, a margin, or the grand total.
    values : numpy.ndarray, shape `query.shape`
        The published numbers, int64 if there is a whole one for each answer, else float64 with NaN where there is none. A true
        zero that the office marks by a symbol is 0.
    codes : numpy.ndarray of int8, shape `query.shape`
        For each answer, the place of its status in `STATUSES`; `status` has the names.
    notes : mapping
        Footnote marks that stood at answers: name of the answer -> marks.

    Examples
    --------
    >>> from bayesdp.noise import DiscreteLaplace
    >>> from bayesdp.queries import Identity
    >>> county = Identity({"county": ["Alpha", "Beta", "Gamma"]})
    >>> table = OfficeTable(county, np.array([12, np.nan, 0]), np.array([0, 1, 3], dtype=np.int8))
    >>> table
    <OfficeTable: 3 answers by county: 1 published, 1 suppressed, 1 zero>
    >>> table.mask("suppressed").values
    array([False,  True, False])
    >>> table.measured(DiscreteLaplace(b=1.0)), table.exact_zeros()
    (<Measured: 3 answers by county, 2 of them unmeasured, law discrete-laplace b=1>, <Exact: county=Gamma = 0>)
    """

    query: Query
    values: Ints | Floats
    codes: npt.NDArray[np.int8]
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        instance(self.query, Query, "query must be a query, such as Identity(frame)")
        values, codes = np.array(self.values, order="C"), np.array(self.codes, order="C")
        for name, array in (("values", values), ("codes", codes)):
            if array.shape != self.query.shape:
                raise ValueError(f"{name} must have the shape of the query, {self.query.shape}, got {array.shape}")
        if values.dtype not in (np.int64, np.float64):
            raise TypeError(f"values must be int64 or float64, got {values.dtype}")
        if codes.dtype != np.int8:
            raise TypeError(f"codes must be int8, got {codes.dtype}")
        flat = codes.reshape(-1)
        numbers = values.reshape(-1)
        misplaced = np.isfinite(numbers) != np.isin(flat, (PUBLISHED, ZERO))
        wrongs = {
            f"codes must be from 0 to {len(_NAMES) - 1}": (flat < 0) | (flat >= len(_NAMES)),
            "values must be numbers where codes are published or zero, and NaN elsewhere": misplaced,
            "values must be 0 where codes are zero": (flat == ZERO) & (numbers != 0),
        }
        for why, wrong in wrongs.items():
            for row in np.flatnonzero(wrong)[:1].tolist():
                raise ValueError(f"{why}; at {self.query.answer_name(row)} that does not hold")
        for array in (values, codes):
            array.flags.writeable = False
        set_fields(self, values=values, codes=codes, notes=MappingProxyType(dict(self.notes)))

    @property
    def labelled(self) -> xr.DataArray:
        """The published numbers as a labelled DataArray, NaN where there is none."""
        return self._labelled(self.values, "published")

    @property
    def status(self) -> xr.DataArray:
        """The name of the status of each answer, labelled."""
        return self._labelled(np.array(_NAMES)[self.codes], "status")

    def mask(self, *statuses: str) -> xr.DataArray:
        """Which answers have one of these statuses, names from `STATUSES`, labelled."""
        return self._labelled(self._has(statuses), "mask")

    def measured(self, law: NoiseLaw, *, name: str | None = None, unmeasured: Sequence[str] = _LEFT_OUT) -> Measured:
        """The published numbers as a measurement with the law of their perturbation.

        Parameters
        ----------
        law : NoiseLaw
            Law of a published number given the true one.
        name : str, optional
            Name of the measurement.
        unmeasured : sequence of str
            Statuses of answers that are left out, as if nothing were known of them. That is right only if whether an answer was
            published did not depend on its number; where it did, say how by a law or a bound for these answers. So a table with
            answers under a threshold is refused unless ``"below_threshold"`` is among them. True zeros are no draws of
            the law: `exact_zeros` has them.

        Raises
        ------
        ValueError
            If no number was published, there is an answer with another status, or the law refuses a number; the message names
            the answer.
        """
        if isinstance(unmeasured, str):
            raise TypeError(f"unmeasured must be a list of statuses, got {unmeasured!r}")
        hidden = self.codes != PUBLISHED
        unsaid = np.flatnonzero(hidden & ~self._has(unmeasured))
        if unsaid.size:
            first = int(unsaid[0])
            status = _NAMES[int(self.codes.reshape(-1)[first])]
            raise ValueError(
                f"{self.query.answer_name(first)} has no number under the law ({status}: {STATUSES[status]}). Say what the status "
                f"means with a law or bounds for such answers, or, if it tells nothing of the count, "
                f"unmeasured={(*unmeasured, status)!r}"
            )
        if hidden.all():
            raise ValueError(f"no answer of the table has a published number: {self!r}")
        values = np.where(hidden, np.nan, self.values) if hidden.any() else self.values
        return Measured(self.query, values, law, name=name, unmeasured=hidden if hidden.any() else None)

    def exact_zeros(self) -> Exact | None:
        """True zeros and cells that cannot have a count, as exact answers; None if there are none."""
        rows = np.flatnonzero(self._has(_ZEROS))
        if not rows.size:
            return None
        if rows.size == self.query.rows:
            return Exact(self.query, np.zeros(self.query.shape, dtype=np.int64))
        names = [self.query.parts[0].name(int(row)) for row in rows]
        query = LinearQuery(self.query.frame, self.query.matrix[rows], names)
        return Exact(query, np.zeros(rows.size, dtype=np.int64))

    def _has(self, statuses: Sequence[str]) -> Mask:
        for status in statuses:
            choice(status, _NAMES, "status")
        return np.isin(self.codes, [_NAMES.index(status) for status in statuses])

    def _labelled(self, array: npt.NDArray[np.generic], name: str) -> xr.DataArray:
        if self.query.is_identity:
            return self.query.frame.data_array(array, name)
        return xr.DataArray(array, dims=self.query.dims, coords=self.query.coords, name=name)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, OfficeTable)
            and (self.query, self.values.dtype, dict(self.notes))
            == (other.query, other.values.dtype, dict(other.notes))
            and np.array_equal(self.values, other.values, equal_nan=True)
            and np.array_equal(self.codes, other.codes)
        )

    def __hash__(self) -> int:
        return hash((self.query, self.codes.tobytes()))

    def __repr__(self) -> str:
        counts = np.bincount(self.codes.reshape(-1), minlength=len(_NAMES))
        known = ", ".join(f"{times} {name}" for name, times in zip(_NAMES, counts, strict=True) if times)
        marks = dict.fromkeys(mark for marks in self.notes.values() for mark in marks)
        noted = f"; footnotes {printable(shown(marks))}" if marks else ""
        return f"<OfficeTable: {described(self.query)}: {known}{noted}>"


type Field = tuple[float, int, tuple[str, ...]]
"""The number (an int if it is written as a whole one, NaN if there is none), the place of the status, marks of footnotes."""

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
    """How a file writes what it publishes, as declared: see `bayesdp.tables.read_office_csv`."""

    symbols: Mapping[str, str | int]
    footnotes: tuple[str, ...]
    thousands: tuple[str, ...]
    decimal: str | None  # None if all numbers are whole
    number: re.Pattern[str]

    @classmethod
    def of(cls, symbols: Any = None, footnotes: Any = (), thousands: Any = None, decimal: Any = None) -> Notation:
        """Check what was declared."""
        meanings = _symbols({} if symbols is None else symbols)
        separators = _thousands(thousands)
        if decimal is not None and decimal not in _DECIMALS:
            raise ValueError(f"decimal must be ',' or '.', or None where all numbers are whole, got {decimal!r}")
        if decimal in separators:
            raise ValueError(f"thousands and decimal are both {decimal!r}; one sign cannot mean both")
        marks = _footnotes(footnotes, separators, decimal)
        grouped = "".join(rf"|\d{{1,3}}(?:{re.escape(sign)}\d{{3}})+" for sign in separators)
        fraction = "" if decimal is None else rf"(?:{re.escape(decimal)}\d+)?"
        return cls(meanings, marks, separators, decimal, re.compile(rf"[+-]?(?:\d+{grouped}){fraction}", re.ASCII))

    def read(self, text: str) -> Field | None:
        """What a field says; None if that was not declared."""
        found = self._plain(text)
        if found is not None or not self.footnotes or len(text) > _LONGEST:
            return found
        marks: list[str] = []
        rest = text
        while True:
            mark = next((known for known in self.footnotes if rest.endswith(known) and len(rest) > len(known)), None)
            if mark is None:
                return None
            rest = rest[: -len(mark)].rstrip()
            marks.insert(0, mark)
            found = self._plain(rest) if rest else None
            if found is not None:
                return (*found[:2], tuple(marks))

    def _plain(self, text: str) -> Field | None:
        """What a field without marks of footnotes says."""
        meaning = self.symbols.get(text)
        if meaning is not None:
            place = PUBLISHED if meaning == 0 else _NAMES.index(str(meaning))
            return (0 if place in (PUBLISHED, ZERO) else math.nan), place, ()
        if len(text) > _LONGEST or not self.number.fullmatch(text):
            return None
        plain = text
        for sign in self.thousands:
            plain = plain.replace(sign, "")
        if self.decimal is not None:
            plain = plain.replace(self.decimal, ".")
        if len(plain.lstrip("+-").replace(".", "")) > _MAX_DIGITS:
            return None
        return (float(plain) if "." in plain else int(plain)), PUBLISHED, ()

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
    instance(symbols, Mapping, "symbols must be a mapping, such as {'..': 'suppressed'}", quoted=True)
    for symbol, meaning in symbols.items():
        instance(symbol, str, "symbols must be texts", quoted=True)
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
    instance(thousands, Iterable | None, "thousands must be a separator, or a list of them", quoted=True)
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


class PlainNumbers:
    """Numbers with a decimal point and no other sign, and empty fields where none was published: what needs no declaration."""

    def read(self, text: str) -> Field | None:
        """What a field says; None if it is no number."""
        if not text:
            return math.nan, _NAMES.index("not_published"), ()
        if INTEGER.fullmatch(text):
            return int(text), PUBLISHED, ()
        number = float(text) if NUMBER.fullmatch(text) else math.nan
        return (number, PUBLISHED, ()) if math.isfinite(number) else None

    def remedy(self, text: str) -> str:
        """How to write what a field holds."""
        return f"is not a number; {remedy(text)}"
