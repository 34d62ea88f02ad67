"""Laws of published counts by their probabilities: rounding to a base, and any table, such as the perturbation tables of offices."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp._arrays import Floats, Mask
from bayesdp._text import printable
from bayesdp.noise.perturbed.base import PerturbedLaw, Transitions, whole

_LARGEST_BASE = 1000


@dataclass(frozen=True, eq=False)
class RandomRounding(PerturbedLaw):
    """Counts rounded at random to one of the two nearest multiples of a base; multiples stay as they are.

    With r the remainder of x by the base, ``p(y = x - r + base | x) = u_r`` and ``p(y = x - r | x) = 1 - u_r``, independently for each
    answer. Unbiased rounding, the default, has ``u_r = r / base``.

    ========  ==========================================================
    Support   multiples of the base, at a distance below it from x
    Mean      x; for other probabilities x - r + base * u_r
    Variance  base**2 * u_r * (1 - u_r); unbiased ``r * (base - r)``
    ========  ==========================================================

    Not differentially private: a published 0 says for sure that x is below the base.

    Parameters
    ----------
    base : int
        At least 2, and at most 1000.
    probabilities : sequence of float or {"unbiased", "nearest"}, optional
        Of rounding up, ``u_r`` for the remainders 1 to base - 1, where it is not the unbiased rounding. "nearest", for odd bases:
        to the nearest multiple with probability 2/3.

    See Also
    --------
    bayesdp.distributions.RandomRounding : the same law as a PyMC distribution.
    bayesdp.noise.ConventionalRounding : rounding to the nearest multiple.

    References
    ----------
    Stats NZ rounds counts to base 3: to the nearest multiple with probability 2/3, to the other with 1/3. Statistics Canada
    rounds census counts at random to base 5, or 10.

    Examples
    --------
    >>> law = RandomRounding(base=3)
    >>> np.exp(law.log_each([9, 12], [10, 10])).round(4).tolist()
    [0.6667, 0.3333]
    >>> law.mean([10, 11]).tolist(), law.variance((2,), location=[10, 12]).tolist()
    ([10.0, 11.0], [2.0, 0.0])
    >>> print(RandomRounding(5, [0.1, 0.3, 0.7, 0.9]))
    random-rounding base=5 probabilities=0.1:0.3:0.7:0.9
    """

    base: int
    probabilities: Any = None

    name = "random-rounding"
    relation = "base=B, and probabilities=U1:U2:... of rounding up by remainder (or unbiased, or nearest)"

    def __post_init__(self) -> None:
        base = _base(self.base)
        given = self.probabilities
        if isinstance(given, str):
            _validate.choice(given, ("unbiased", "nearest"), "probabilities")
            if given == "nearest" and base % 2 == 0:
                raise ValueError(f"probabilities must not be 'nearest' for a base with a middle, got base {base}")
            given = None if given == "unbiased" else [(1 + (2 * r > base)) / 3 for r in range(1, base)]
        self._set(base=base, probabilities=None if given is None else _probabilities(given, base))

    @property
    def upwards(self) -> Floats:
        """Probability of rounding up for each remainder, that of 0 first."""
        return np.arange(self.base) / self.base if self.probabilities is None else np.array([0.0, *self.probabilities])

    @cached_property
    def transitions(self) -> Transitions:
        """The table of probabilities: a row for each remainder."""
        up, rest = self.upwards, np.arange(self.base)
        mass = np.zeros((self.base, 2 * self.base - 1))
        mass[rest, self.base - 1 - rest] = 1.0 - up
        mass[rest[1:], 2 * self.base - 1 - rest[1:]] = up[1:]
        return Transitions(1 - self.base, mass, self.base)


@dataclass(frozen=True, eq=False)
class ConventionalRounding(PerturbedLaw):
    """Counts rounded to the nearest multiple of a base: no probability is involved, and the true count is only known to be near.

    ``p(y | x) = 1`` for y the nearest multiple of the base; in the middle between two (even bases only) that which `ties` says.

    ========  =============================================================
    Support   the multiple of the base that is nearest to x
    Mean      that multiple
    Variance  0
    ========  =============================================================

    Not differentially private.

    Parameters
    ----------
    base : int
        At least 2, and at most 1000.
    ties : {"up", "down", "even"}, default "up"
        Where to a count goes in the middle between two multiples of an even base; "even": to the multiple by an even number, as many
        computer languages round.

    See Also
    --------
    bayesdp.distributions.ConventionalRounding : the same law as a PyMC distribution.
    bayesdp.noise.RandomRounding : rounding at random.

    Examples
    --------
    >>> law = ConventionalRounding(base=10)
    >>> law.draw(1, (4,), location=[4, 5, 15, 16]).tolist()
    [0, 10, 20, 20]
    >>> ConventionalRounding(base=10, ties="even").draw(1, (4,), location=[4, 5, 15, 16]).tolist()
    [0, 0, 20, 20]
    """

    base: int
    ties: str = "up"

    name = "conventional-rounding"
    relation = "base=B, and ties=up, down or even for even bases"

    def __post_init__(self) -> None:
        self._set(base=_base(self.base))
        _validate.choice(self.ties, ("up", "down", "even"), "ties")

    @cached_property
    def transitions(self) -> Transitions:
        """The table of probabilities: a row for each remainder, by twice the base where ties go to even multiples."""
        base, half = self.base, self.base // 2
        tied = self.ties == "even" and base % 2 == 0
        rows = np.arange(2 * base if tied else base)
        rest = rows % base
        up = 2 * rest > base
        middle = 2 * rest == base
        if self.ties == "up":
            up |= middle
        elif tied:
            up |= middle & (rows > base)  # from 1.5 bases to 2
        mass = np.zeros((len(rows), base + 1))
        mass[rows, np.where(up, base - rest, -rest) + half] = 1.0
        return Transitions(-half, mass, len(rows))


def _base(given: Any) -> int:
    base = _validate.positive_integer(whole(given), "base")
    if not 2 <= base <= _LARGEST_BASE:
        raise ValueError(f"base must be a whole number from 2 to {_LARGEST_BASE}, got {given!r}")
    return base


def _no_booleans(given: Any, argument: str) -> Any:
    """Accept what holds no True or False, which NumPy takes for numbers among others."""
    if isinstance(given, Sequence) and any(isinstance(value, bool | np.bool_) for value in given):
        raise TypeError(f"{argument} must hold numbers, not True or False, got {given!r}")
    return given


def _probabilities(given: Any, base: int) -> tuple[float, ...]:
    array = np.atleast_1d(_validate.finite_array(_no_booleans(given, "probabilities"), "probabilities"))
    if array.shape != (base - 1,):
        raise ValueError(
            f"probabilities must have one number for each remainder from 1 to {base - 1} by the base {base}, got {array.size}"
        )
    bad = np.flatnonzero((array < 0.0) | (array > 1.0))
    if bad.size:
        raise ValueError(
            f"probabilities must be from 0 to 1, but that of the remainder {bad[0] + 1} is {array[bad[0]].item()!r}"
        )
    return tuple(array.astype(np.float64).tolist())


SUM_TOLERANCE = 1e-8
"""How far the sum of a row may be from 1."""

_MOST_ENTRIES = 20_000_000


def random_rounding(base: int, probabilities: Sequence[float] | None = None) -> RandomRounding:
    """Counts rounded at random to a base; see `RandomRounding`.

    Parameters
    ----------
    base, probabilities
        As of `RandomRounding`; the base is 3 at Stats NZ, 5 at Statistics Canada.

    Examples
    --------
    >>> print(random_rounding(3))
    random-rounding base=3
    """
    return RandomRounding(base, probabilities)


def conventional_rounding(base: int, ties: str = "up") -> ConventionalRounding:
    """Counts rounded to the nearest multiple of a base; see `ConventionalRounding`.

    Parameters
    ----------
    base, ties
        As of `ConventionalRounding`.

    Examples
    --------
    >>> print(conventional_rounding(10))
    conventional-rounding base=10 ties=up
    """
    return ConventionalRounding(base, ties)


@dataclass(frozen=True, eq=False)
class TransitionTable(PerturbedLaw):
    """Published counts y with probabilities p(y | x) that are given for each true count x, by the deviation ``y - x``.

    ========  =============================================================
    Support   whole numbers x + d for the deviations d of the row of x
    Mean      x plus the mean deviation of its row; see `mean`
    Variance  that of the deviation, depends on x; see `variance`
    ========  =============================================================

    No differential privacy is claimed for such a law.

    Parameters
    ----------
    deviations : sequence of int
        Increasing.
    rows : array_like, shape (rows, deviations)
        Row x holds the probabilities of the deviations for the true count x, from 0 on.
    period : int, default 1
        The last `period` rows repeat for larger counts: with 1 all of them have the last row (a cap), with a base as many rows
        as residues are rounding. 0: larger counts do not occur.
    below : int, default 0
        Numbers under it are not published, and stand as ``below - 1``, which the table has to have in their place:
        `bayesdp.noise.censored_counts` makes such a table of another. 0: there is no threshold.

    See Also
    --------
    bayesdp.distributions.TransitionTable : the same law as a PyMC distribution.
    bayesdp.noise.RandomRounding : random rounding to a base.
    bayesdp.noise.CellKey : perturbation tables of cell keys.

    References
    ----------
    Marley and Leaver (2011), A method for confidentialising user-defined tables: statistical properties and a risk-utility analysis,
    for tables of perturbations by cell keys.

    Examples
    --------
    Counts stay as they are, but 1 becomes 0 or 2:

    >>> law = TransitionTable([-1, 0, 1], [[0, 1, 0], [0.5, 0, 0.5], [0, 1, 0]])
    >>> law.log_each([0, 2, 7], [1, 1, 7]).round(4).tolist()
    [-0.6931, -0.6931, 0.0]
    >>> law.mean([1, 2]).tolist(), law.variance((2,), location=[1, 2]).tolist()
    ([1.0, 2.0], [1.0, 0.0])
    """

    deviations: tuple[int, ...]
    rows: tuple[tuple[float, ...], ...]
    period: int = 1
    below: int = 0

    name = "transition-table"
    relation = "deviations, rows of their probabilities by true count, and a period: give them in Python or in a file"

    def __post_init__(self) -> None:
        deviations = _deviations(self.deviations)
        rows = _rows(self.rows, len(deviations))
        period = _validate.nonnegative_integer(whole(self.period), "period")
        if period > len(rows):
            raise ValueError(
                f"period must be at most the number of rows, {len(rows)}, because the last rows repeat, got {period}"
            )
        _check_entries(len(rows), deviations)
        sums = rows.sum(axis=1)
        bad = np.flatnonzero(np.abs(sums - 1.0) > SUM_TOLERANCE)
        if bad.size:
            raise ValueError(
                f"the probabilities of every row must sum to 1, but those of row x = {bad[0]} sum to {sums[bad[0]].item():.10g}"
            )
        below = _validate.nonnegative_integer(whole(self.below), "below")
        self._set(deviations=deviations, rows=tuple(map(tuple, rows.tolist())), period=period, below=below)
        self._check_below()

    def _check_below(self) -> None:
        """No number under the threshold is published, but for the one that stands for them."""
        if not self.below:
            return
        first = max(self.below - self.deviations[0], 0)
        counts = np.arange(min(first, self.transitions.largest_count + 1), dtype=np.int64)
        y = counts[:, None] + np.array(self.deviations)
        mass = np.asarray(self.rows)[self.transitions.row_of(counts)]
        bad = np.argwhere((mass > 0.0) & (y < self.below - 1))
        if bad.size:
            x, j = (int(i) for i in bad[0])
            raise ValueError(
                f"below says that numbers under {self.below} stand as {self.below - 1}, but row x = {counts[x]} gives {y[x, j]} a "
                "probability; censored_counts makes the table of one without a threshold"
            )

    @classmethod
    def by_count(cls, rows: Mapping[int, Mapping[int, float]], period: int = 1) -> TransitionTable:
        """The law whose probabilities are given by count and deviation; the last `period` rows repeat.

        Parameters
        ----------
        rows : mapping
            From each true count, 0 to the last without gaps, to a mapping from deviations to their probabilities.
        period : int, default 1
            1 for a cap, the base for rounding, 0 if there are no larger counts, as where a matrix p(y | x) is given in full.

        Examples
        --------
        >>> law = TransitionTable.by_count({0: {0: 1.0}, 1: {-1: 0.5, 1: 0.5}}, period=2)
        >>> np.exp(law.log_each([6, 8, 8], [7, 7, 8])).tolist()
        [0.5, 0.5, 1.0]
        """
        _validate.instance(rows, Mapping, "rows must be a mapping from counts to mappings")
        counts = sorted(_validate.nonnegative_integer(whole(x), "rows") for x in rows)
        missing = sorted(set(range(max(counts, default=0) + 1)) - set(counts))
        if missing:
            raise ValueError(f"rows must have every count from 0 on, but the row of x = {missing[0]} is missing")
        # Before equal ones are put together: True is 1.
        deviations = sorted(set(_no_booleans([d for row in rows.values() for d in row], "rows")))
        _check_entries(len(counts), deviations or [0])
        table = [[rows[x].get(d, 0.0) for d in deviations] for x in counts]
        return cls(tuple(deviations), table, period)  # type: ignore[arg-type]  # arrays are accepted

    @cached_property
    def transitions(self) -> Transitions:
        """The table of probabilities."""
        columns = np.array(self.deviations) - self.deviations[0]
        mass = np.zeros((len(self.rows), int(columns[-1]) + 1))
        mass[:, columns] = self.rows
        return Transitions(self.deviations[0], mass, self.period)

    def describe(self) -> dict[str, Any]:
        """Describe the law by plain data. See `NoiseLaw.describe`."""
        told = super().describe()
        return told if self.below else {key: value for key, value in told.items() if key != "below"}

    def withheld(self, values: npt.ArrayLike) -> dict[str, Mask]:
        """Which values stand for answers under the threshold, if there is one. See `NoiseLaw.withheld`."""
        which = np.asarray(values) < self.below
        return {f"under {self.below}": which} if which.any() and self.below else {}

    def __str__(self) -> str:
        under = f"; not published under {self.below}" if self.below else ""
        end = {0: "no larger counts", 1: "then the last one"}.get(self.period, f"the last {self.period} repeating")
        return f"{self.name} <{len(self.rows)} rows, {end}; deviations {self.deviations[0]} to {self.deviations[-1]}{under}>"

    def __repr__(self) -> str:
        return f"<TransitionTable: {str(self).removeprefix(self.name + ' <')}"


def _check_entries(rows: int, deviations: Sequence[int], most: int = _MOST_ENTRIES) -> None:
    """Refuse increasing deviations with which the table would be too large."""
    width = deviations[-1] - deviations[0] + 1
    if width * rows > most:
        raise ValueError(
            f"the table must have at most {most:,} entries, rows times the range of the deviations, "
            f"got {rows:,} times {width:,}"
        )


def _deviations(given: Any) -> tuple[int, ...]:
    array = _validate.integer_array(_no_booleans(given, "deviations"), "deviations")
    if array.ndim != 1 or not array.size:
        raise ValueError(f"deviations must be a list of at least one whole number, got an array of shape {array.shape}")
    back = np.flatnonzero(np.diff(array) <= 0)
    if back.size:
        raise ValueError(f"deviations must be increasing, but {array[back[0] + 1]} comes after {array[back[0]]}")
    if np.max(np.abs(array)) >= 2**31:
        raise ValueError(f"deviations must be smaller than 2**31 in size, got {array[0]} to {array[-1]}")
    return tuple(array.tolist())


def _rows(given: Any, width: int) -> Floats:
    """Probabilities as an array, each of them checked."""
    needed = f"rows must have {width} probabilities each, one for each deviation"
    try:
        array = np.asarray(given)
    except ValueError:
        raise ValueError(needed) from None
    if array.ndim != 2 or array.shape[1] != width or not len(array):
        raise ValueError(f"{needed}, got an array of shape {array.shape}")
    found = np.asarray(_validate.finite_array(array, "rows", lambda i: f"row x = {i // width}"), dtype=np.float64)
    bad = np.argwhere((found < 0.0) | (found > 1.0 + SUM_TOLERANCE))
    if bad.size:
        x, j = bad[0]
        raise ValueError(f"rows must hold probabilities, but row x = {x} has {found[x, j].item()!r}")
    return found


_NEEDED = ("i", "j", "p")
_OTHERS = ("v", "p_int_lb", "p_int_ub", "type")
"""Columns that exports of perturbation tables have beside them; v must be j - i, the others say nothing more."""

_MOST_BYTES = 20_000_000
_LARGEST = 1_000_000


def read_ptable(path: str | Path) -> TransitionTable:
    r"""Read a perturbation table: for each true count i the published counts j with their probabilities p.

    Parameters
    ----------
    path : str or Path
        A CSV file in UTF-8 with a line of names and the columns ``i``, ``j`` and ``p``, separated by commas or semicolons; numbers
        have decimal points. A column ``v`` must be ``j - i``; columns ``p_int_lb``, ``p_int_ub`` and ``type``, which some exports
        have, are not used. Pairs that do not stand in the file have probability 0. All counts above the largest i have its
        deviations.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If a column is missing or not known, a number is none, a pair stands in it twice, a count i is missing between 0 and the
        largest, or the probabilities of one do not sum to 1 (within 1e-8: write all digits). The message names the file, and the line
        or the row.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "ptable.csv"
    ...     _ = path.write_text("i,j,p\n0,0,1\n1,0,0.5\n1,2,0.5\n")
    ...     print(read_ptable(path))
    transition-table <2 rows, then the last one; deviations -1 to 1>
    """
    where, shown = Path(path), printable(str(path))
    if not where.is_file():
        raise FileNotFoundError(f"there is no perturbation table {shown}: no such file")
    if where.stat().st_size > _MOST_BYTES:
        raise ValueError(f"{shown} has more than {_MOST_BYTES:,} bytes, which is no perturbation table")
    try:
        text = where.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{shown} is not text in UTF-8") from None
    rows: dict[int, dict[int, float]] = {}
    lines = text.splitlines()
    delimiter = ";" if lines and ";" in lines[0] else ","
    try:
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        columns = _columns(next(reader, []), shown)
        for fields in reader:
            if fields:
                _add(rows, columns, fields, f"{shown}, line {reader.line_num}")
    except csv.Error as error:
        raise ValueError(f"{shown} is no CSV file: {error}") from None
    if not rows:
        raise ValueError(f"{shown} has no rows")
    given = sorted(deviation for row in rows.values() for deviation in row)
    try:
        _check_entries(len(rows), given, max(1_000_000, 10 * len(given)))  # what a file of its size may take
        return TransitionTable.by_count(rows)
    except ValueError as error:
        raise ValueError(f"{shown}: {error}") from None


def _columns(header: list[str], shown: str) -> dict[str, int]:
    names = [name.strip() for name in header]
    missing = [name for name in _NEEDED if name not in names]
    unknown = [name for name in names if name not in (*_NEEDED, *_OTHERS)]
    if missing:
        raise ValueError(
            f"{shown} lacks the column {', '.join(missing)}; a perturbation table has i (the true count), j (the published one) and p"
        )
    if unknown:
        raise ValueError(
            f"{shown} has the column {printable(unknown[0])!r}, which is not known; known are i, j, p, {', '.join(_OTHERS)}"
        )
    if len(set(names)) < len(names):
        raise ValueError(f"{shown} has a column twice")
    return {name: k for k, name in enumerate(names)}


def _add(rows: dict[int, dict[int, float]], columns: dict[str, int], fields: list[str], where: str) -> None:
    """Put the probability of one line where it belongs."""
    if len(fields) != len(columns):
        raise ValueError(f"{where}: {len(fields)} fields, but there are {len(columns)} columns")
    i, j, p = (
        _number(fields[columns[name]], name, where, kind) for name, kind in (("i", int), ("j", int), ("p", float))
    )
    for name, value in (("i", i), ("j", j)):
        if not 0 <= value <= _LARGEST:
            raise ValueError(f"{where}: {name} must be a count from 0 to {_LARGEST}, got {value}")
    if "v" in columns and _number(fields[columns["v"]], "v", where, int) != j - i:
        raise ValueError(f"{where}: v must be j - i, which is {j - i}, got {printable(fields[columns['v']])!r}")
    if not (math.isfinite(p) and 0.0 <= p <= 1.0):
        raise ValueError(f"{where}: p must be a probability from 0 to 1, got {printable(fields[columns['p']])!r}")
    row = rows.setdefault(i, {})
    if j - i in row:
        raise ValueError(f"{where}: i = {i} with j = {j} stands in the file twice")
    row[j - i] = p


def _number(text: str, name: str, where: str, kind: type) -> Any:
    try:
        return kind(text.strip())
    except ValueError:
        what = "a whole number" if kind is int else "a number with a decimal point"
        raise ValueError(f"{where}: {name} must be {what}, got {printable(text)!r}") from None
