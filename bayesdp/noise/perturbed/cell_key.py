"""Counts perturbed by cell keys: the perturbation table is given, of maximum entropy, or not published and learnt."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp._arrays import Floats, Ints, Mask
from bayesdp.noise.perturbed.base import PerturbedLaw, Transitions, whole
from bayesdp.noise.perturbed.tables import TransitionTable, read_ptable
from bayesdp.queries import Query

_EDGE = 1e-9
"""A variance this near to an end of what is feasible, relative to it, is that end: there no entropy is left to choose."""
_STEPS = 500


def feasible_variances(deviations: Ints) -> tuple[float, float] | None:
    """The least and the largest variance of laws with mean zero on increasing deviations; None if no law has mean zero."""
    low, high = int(deviations[0]), int(deviations[-1])
    if low > 0 or high < 0:
        return None
    below, above = _nearest(deviations)
    return float(-below * above), float(-low * high)


def max_entropy_row(deviations: Ints, variance: float, *, at_most: bool = False) -> Floats:
    """The law of largest entropy with mean zero on such deviations, whose variance is the one given, or the nearest feasible one.

    The law is ``p_v`` proportional to ``exp(a v + b v**2)``. Its two multipliers are the minimum of
    ``log sum_v exp(a v + b (v**2 - V))``, a convex function, by Newton's method with steps that are halved until it falls. At an end
    of what is feasible, where b is infinite, the law is on the two deviations that are nearest to zero, or furthest away.
    With `at_most` smaller variances will do.
    """
    ends = feasible_variances(deviations)
    if ends is None:
        raise ValueError(f"no law on the deviations {deviations.tolist()} has mean zero")
    least, largest = ends
    if variance <= least * (1.0 + _EDGE):
        return _on_two(deviations, *_nearest(deviations))
    v = deviations.astype(np.float64)
    if at_most and least < largest:
        free = _tilted(v[None])
        if free @ v**2 <= variance:
            return free
    if variance >= largest * (1.0 - _EDGE):
        return _on_two(deviations, int(deviations[0]), int(deviations[-1]))
    return _tilted(np.stack([v, v**2 - variance]))


def max_entropy_zero_row(deviations: Ints, variance: float, *, at_most: bool = False) -> Floats:
    """The law of largest entropy on deviations from 0 up with a mean square, or the nearest feasible one: its mean is not zero."""
    squares = deviations.astype(np.float64) ** 2
    if at_most and np.mean(squares) <= variance:
        return np.full(len(deviations), 1.0 / len(deviations))
    if variance >= squares[-1] * (1.0 - _EDGE):
        return np.where(deviations == deviations[-1], 1.0, 0.0)
    return _tilted((squares - variance)[None])


def _nearest(deviations: Ints) -> tuple[int, int]:
    """The deviations nearest to zero on both sides, or zero twice."""
    if 0 in deviations:
        return 0, 0
    return int(deviations[deviations < 0].max()), int(deviations[deviations > 0].min())


def _on_two(deviations: Ints, low: int, high: int) -> Floats:
    """The law with mean zero on two deviations."""
    if low == 0 or high == 0:
        return np.where(deviations == 0, 1.0, 0.0)
    above = -low / (high - low)
    return np.asarray(np.where(deviations == low, 1.0 - above, np.where(deviations == high, above, 0.0)))


def _tilted(features: Floats) -> Floats:
    """The law ``p_v`` proportional to ``exp(sum_k t_k f_k(v))`` in which all features have mean zero."""
    scaled = features / np.maximum(np.abs(features).max(axis=1, keepdims=True), 1e-300)

    def log_sum(t: Floats) -> tuple[float, Floats]:
        """``log sum_v exp(t . f(v))``, and the law."""
        power = t @ scaled
        weight = np.exp(power - power.max())
        return float(power.max()) + float(np.log(weight.sum())), weight / weight.sum()

    t = np.zeros(len(scaled))
    value, p = log_sum(t)
    gradient = scaled @ p
    for _ in range(_STEPS):
        norm = float(np.abs(gradient).max())
        if norm < 1e-16:
            break
        centred = scaled - gradient[:, None]
        step = np.linalg.lstsq((centred * p) @ centred.T, -gradient, rcond=1e-15)[0]
        size, slope = 1.0, float(gradient @ step)
        while size > 1e-8:
            after, law = log_sum(t + size * step)
            # Near the minimum the function is flat to the last digit, but its gradient still falls.
            if after <= value + 1e-4 * size * slope or np.abs(scaled @ law).max() < 0.5 * norm:
                break
            size *= 0.5
        else:
            break
        t, value, p, gradient = t + size * step, after, law, scaled @ law
    return p


_LARGEST_DEVIATION = 1000
_NOT_THE_USERS = (f"{Path(__file__).parents[2]}{os.sep}",)  # a warning names the line of the user's that led here


@dataclass(frozen=True, eq=False, init=False)
class CellKey(PerturbedLaw):
    """Counts perturbed by cell keys: a deviation with probabilities p(v | x) from a perturbation table, the same for the same people.

    An office gives each record a key; those of the records in a cell determine its deviation. Who does not know the keys sees a
    random deviation with the probabilities of the table. Answers about the same people have the same deviation wherever they are
    published: one cell in two tables, and a total and a cell if all others are empty. Deviations of different people are
    independent, so that cells do not add up to totals. An answer about nobody has no keys: where zeros are perturbed, each such
    answer has a deviation of its own. `draw_answers` draws and `bayesdp.observe` reads tables so; `draw` and the distribution take
    every number for one about other people.

    The table is given (`ptable`), or that of maximum entropy: for each count x the probabilities of ``v = -D, ..., D`` that maximise
    ``-sum_v p_v log p_v`` with ``sum_v p_v = 1``, mean ``sum_v v p_v = 0`` and variance ``sum_v v**2 p_v = V``, where no x + v is
    below 0, or from 1 to below `not_smaller_than`. They are ``p_v`` proportional to ``exp(a v + b v**2)`` on the deviations that are
    allowed. From x = D (D + `not_smaller_than`, if that is 2 or more) on, all deviations are, and all counts have one row.

    ========  ================================================================================
    Support   counts from x - D to x + D; none below 0 and none below `not_smaller_than` but 0
    Mean      x (of a table that is given: see `mean`)
    Variance  V, at most V, or the feasible variance nearest to it for small counts; see `variance`
    ========  ================================================================================

    Not differentially private: deviations are bounded.

    Parameters
    ----------
    ptable : TransitionTable, optional
        The office's own table, as from `read_ptable`; the other parameters must then be left out.
    max_deviation : int, optional
        D, from 1 to 1000.
    variance : float or sequence of float, optional
        V, above 0 and at most ``D**2``. For small counts a variance of V may not be possible with mean zero: 1 becomes 0 or more, so
        that its variance is at most D, and where 1 and 2 may not be published it is at least 2. Such a count has the feasible variance
        that is nearest to V. Where that is the largest one, only the two deviations farthest away are left: a UserWarning says so.
        A sequence has one variance for each count from 0 on, the last one for all from there on. It is taken at its word: each must
        be feasible, and that of 0 is 0 where zeros are kept.
    variance_at_most : float, optional
        In the place of `variance`: the largest entropy among the rows with mean zero and a variance of V or less, or the least
        variance where that is above V. So offices relax the variance of small counts; large ones reach V unless all deviations are
        equally likely before, at ``D (D + 1) / 3``.
    not_smaller_than : int, default 0
        No smaller positive count is published; the tables of Giessing (2016) call this number less one js. 0 and 1: all counts are.
    zeros : {"kept", "perturbed"}, default "kept"
        Whether a true 0 is always published as 0. If not, it can only go up and has no mean of zero; the row here then has maximum
        entropy with the mean square V. Offices that perturb zeros have tables of their own for them: give `ptable`.

    Raises
    ------
    TypeError, ValueError
        If neither a table nor D and V are given, or both; or if a count has no deviations with mean zero and the variance stated for
        it, which the message names.

    See Also
    --------
    bayesdp.distributions.CellKey : the same law as a PyMC distribution.
    bayesdp.noise.read_ptable : a perturbation table from a file.

    References
    ----------
    Marley and Leaver (2011), A method for confidentialising user-defined tables: statistical properties and a risk-utility analysis;
    Giessing (2016), Computational issues in the design of transition probabilities and disclosure risk estimation for additive noise.

    Examples
    --------
    >>> law = CellKey(max_deviation=2, variance=1.0)
    >>> np.exp(law.log_each(np.arange(5), 1)).round(4).tolist()
    [0.3981, 0.3058, 0.1942, 0.1019, 0.0]
    >>> law.mean([0, 1, 50]).round(6).tolist(), law.variance((3,), location=[0, 1, 50]).round(6).tolist()
    ([0.0, 1.0, 50.0], [0.0, 1.0, 1.0])
    """

    ptable: TransitionTable | None
    max_deviation: int | None
    deviation_variance: float | tuple[float, ...] | None
    not_smaller_than: int
    zeros: str
    variance_at_most: float | None

    name = "cell-key"
    same_cell_same_value = True  # it follows from the keys of its records
    relation = (
        "max_deviation=D variance=V (or variance=V0:V1:V2 by count from 0 on, or variance_at_most=V), and not_smaller_than=N and "
        "zeros=kept or perturbed; or the path of a file with the perturbation table (columns i, j and p)"
    )

    def __init__(
        self,
        ptable: Any = None,
        max_deviation: Any = None,
        variance: Any = None,
        not_smaller_than: Any = 0,
        zeros: str = "kept",
        variance_at_most: Any = None,
    ) -> None:
        _validate.choice(zeros, ("kept", "perturbed"), "zeros")
        least = _validate.nonnegative_integer(whole(not_smaller_than), "not_smaller_than")
        if ptable is not None:
            _check_alone(max_deviation, variance, variance_at_most, least, zeros)
            ptable = _table_of(ptable)
        elif max_deviation is None or (variance is None) == (variance_at_most is None):
            raise ValueError(
                "a cell-key law needs max_deviation and either variance or variance_at_most, or ptable, the table of the office"
            )
        else:
            max_deviation, variance, variance_at_most = _checked(max_deviation, variance, variance_at_most)
        self._set(ptable=ptable, max_deviation=max_deviation, deviation_variance=variance)
        self._set(not_smaller_than=least, zeros=zeros, variance_at_most=variance_at_most)
        if ptable is None:
            self._warn_where_degenerate()

    def withheld(self, values: npt.ArrayLike) -> dict[str, Mask]:
        """Which values stand for answers under the threshold of the table, if it has one. See `NoiseLaw.withheld`."""
        return {} if self.ptable is None else self.ptable.withheld(values)

    @classmethod
    def stated_parameters(cls) -> dict[str, Any]:
        """The parameters of the constructor with their defaults: `variance` is a method of laws, and no field."""
        return {item.name: item.default for item in signature(cls).parameters.values()}

    def _parameters(self) -> dict[str, Any]:
        own = super()._parameters() | {"variance": self.deviation_variance}
        return {"ptable": self.ptable} if self.ptable else {name: own[name] for name in self.stated_parameters()}

    def _allowed(self, x: int) -> Ints:
        """The deviations of a count that the table may have."""
        return deviations_of(x, self.max_deviation or 0, self.not_smaller_than, self.zeros)

    def _row(self, x: int) -> Floats:
        """Probabilities of -D, ..., D for a count."""
        allowed, row = self._allowed(x), np.zeros(2 * (self.max_deviation or 0) + 1)
        relaxed = self.deviation_variance is None
        given: Any = self.variance_at_most if relaxed else self.deviation_variance
        stated = isinstance(given, tuple)
        v = given[min(x, len(given) - 1)] if stated else given
        feasible = feasible_variances(allowed) if allowed.size else None
        if feasible is None and x:
            raise ValueError(
                f"max_deviation {self.max_deviation} is too small for not_smaller_than {self.not_smaller_than}: the count {x} may "
                f"become {(x + allowed).tolist()}, and no law on these has the mean {x}; max_deviation must be at least "
                f"{self.not_smaller_than - 1}"
            )
        if stated and feasible and (x or self.zeros == "kept") and not feasible[0] <= v <= feasible[1]:
            raise ValueError(
                f"variance must be from {feasible[0]:g} to {feasible[1]:g} for the count {x}, which may become "
                f"{(x + allowed).tolist()}, got {v!r}"
            )
        how = max_entropy_row if x else max_entropy_zero_row
        row[allowed + (self.max_deviation or 0)] = how(allowed, v, at_most=relaxed) if allowed.size > 1 else 1.0
        return row

    def _warn_where_degenerate(self) -> None:
        """Say which small counts one number as variance leaves on their two farthest deviations."""
        v, mass = self.deviation_variance, self.transitions.mass
        allowed = [self._allowed(x) for x in range(len(mass) - 1)]
        left = [np.flatnonzero(row) - (self.max_deviation or 0) for row in mass]
        found = [
            x for x, all_of in enumerate(allowed) if x and len(all_of) > 2 and np.array_equal(left[x], all_of[[0, -1]])
        ]
        if found and isinstance(v, float):
            x = found[-1]
            ends = ", ".join(f"p({x + d} | {x}) = {np.exp(self.log_each(x + d, x)):.4g}" for d in left[x])
            warnings.warn(
                f"variance {v:g} is the largest that is possible, or more, for the count {' and '.join(map(str, found))}, which "
                f"leaves two deviations: {ends}, and p({x} | {x}) = 0. Offices relax the variance of small counts: give "
                f"variance_at_most={v:g}, a variance for each count, or the office's table as ptable",
                UserWarning,
                skip_file_prefixes=_NOT_THE_USERS,
            )

    @cached_property
    def transitions(self) -> Transitions:
        """The table of probabilities: rows for the counts from 0 to that from which on there is one row."""
        if self.ptable is not None:
            return self.ptable.transitions
        assert self.max_deviation is not None
        least, d = self.not_smaller_than, self.max_deviation
        stated = len(self.deviation_variance) if isinstance(self.deviation_variance, tuple) else 0
        counts = range(max(d + (least if least > 1 else 0) + 1, stated))
        return Transitions(-d, np.stack([self._row(x) for x in counts]), 1)

    def __str__(self) -> str:
        if self.ptable is None:
            return super().__str__()
        return f"{self.name} ptable={str(self.ptable).removeprefix(self.ptable.name).strip()}"

    def __repr__(self) -> str:
        given = (f"{name}={value!r}" for name, value in self._parameters().items() if value is not None)
        return f"CellKey({', '.join(given)})"


def cell_key(
    ptable: TransitionTable | str | Path | None = None,
    *,
    max_deviation: int | None = None,
    variance: float | Sequence[float] | None = None,
    not_smaller_than: int = 0,
    zeros: str = "kept",
    variance_at_most: float | None = None,
) -> CellKey:
    """Counts perturbed by cell keys, by a table or the path of its file, or by maximum entropy; see `CellKey`.

    Parameters
    ----------
    ptable : TransitionTable, str or Path, optional
        A path is read by `read_ptable`. This and the other parameters are those of `CellKey`.

    Examples
    --------
    >>> print(cell_key(max_deviation=5, variance=3.0, not_smaller_than=3))
    cell-key max_deviation=5 variance=3.0 not_smaller_than=3 zeros=kept
    """
    table = read_ptable(ptable) if isinstance(ptable, (str, Path)) else ptable
    return CellKey(table, max_deviation, variance, not_smaller_than, zeros, variance_at_most)


def censored_counts(law: PerturbedLaw, below: Any) -> PerturbedLaw:
    """The law of perturbed counts of which those under a threshold were not published: they stand as ``below - 1``.

    The probabilities of all published numbers under `below` are added up, for each true count; `bayesdp.thresholded` writes the
    code where an answer could have been published and was not. Laws of noise have `Censored` for that.

    Parameters
    ----------
    law : PerturbedLaw
        `RandomRounding`, `ConventionalRounding`, `CellKey` or `TransitionTable`.
    below : int
        The smallest number that is published, at least 1; one for all answers.

    Returns
    -------
    TransitionTable or CellKey
        A `CellKey` with that table where one cell has one value in all tables (`NoiseLaw.same_cell_same_value`).

    Notes
    -----
    There is no upper threshold: counts without end would have one code. For true counts that are published as "100 or
    more" there is `bayesdp.top_coded`.

    Examples
    --------
    Rounded to base 3, and nothing under 6 published:

    >>> from bayesdp.noise import RandomRounding
    >>> law = censored_counts(RandomRounding(base=3), below=6)
    >>> np.exp(law.log_each([5, 5, 5, 6], [0, 4, 5, 5])).round(4).tolist()
    [1.0, 0.6667, 0.3333, 0.6667]
    """
    if not isinstance(law, PerturbedLaw):
        raise TypeError(f"law must be one of perturbed counts such as RandomRounding(base=3), got {law!r}")
    if np.ndim(below):
        raise ValueError("below must be one whole number for all answers under a law of perturbed counts")
    number = below.item() if isinstance(below, np.generic | np.ndarray) else below
    least = _validate.positive_integer(whole(number), "below")
    coded = law.transitions.with_code(least)
    deviations = range(coded.lowest, coded.highest + 1)
    table = TransitionTable(tuple(deviations), coded.mass, coded.period, least)  # type: ignore[arg-type]  # arrays are accepted
    return CellKey(ptable=table) if law.same_cell_same_value else table


def deviations_of(x: int, max_deviation: int, not_smaller_than: int, zeros: str) -> Ints:
    """The deviations that a count may have, increasing: those that lead to 0, or to `not_smaller_than` or more."""
    found: Ints = np.arange(-max_deviation, max_deviation + 1, dtype=np.int64)
    if x == 0 and zeros == "kept":
        return np.zeros(1, dtype=np.int64)
    return np.asarray(found[(x + found == 0) | (x + found >= max(not_smaller_than, 1))])


def _check_alone(max_deviation: Any, variance: Any, at_most: Any, least: int, zeros: str) -> None:
    others = {"max_deviation": max_deviation, "variance": variance, "variance_at_most": at_most}
    others |= {"not_smaller_than": least or None, "zeros": None if zeros == "kept" else zeros}
    extra = [name for name, value in others.items() if value is not None]
    if extra:
        raise ValueError(f"ptable says all of the law, so {', '.join(extra)} must be left out")


def _table_of(ptable: Any) -> TransitionTable:
    if isinstance(ptable, Mapping):
        ptable = PerturbedLaw.from_description(ptable)
    if isinstance(ptable, TransitionTable):
        return ptable
    hint = " (read_ptable reads a file; on the command line write: cell-key FILE)"
    hint = hint if isinstance(ptable, (str, Path)) else ""
    raise TypeError(f"ptable must be a TransitionTable{hint}, got {type(ptable).__name__}")


def _checked(max_deviation: Any, variance: Any, at_most: Any) -> tuple[int, Any, Any]:
    d = _validate.positive_integer(whole(max_deviation), "max_deviation")
    if d > _LARGEST_DEVIATION:
        raise ValueError(f"max_deviation must be at most {_LARGEST_DEVIATION}, got {d}")
    if isinstance(variance, (Sequence, np.ndarray)) and not isinstance(variance, str):
        if not 0 < len(variance) <= 4 * _LARGEST_DEVIATION:
            raise ValueError(
                f"variance must hold 1 to {4 * _LARGEST_DEVIATION} numbers, from that of 0 on, got {len(variance)}"
            )
        return d, tuple(_validate.nonnegative_real(v, f"variance of {x}") for x, v in enumerate(variance)), None
    name = "variance_at_most" if variance is None else "variance"
    v = _validate.positive_real(at_most if variance is None else variance, name)
    if v > d * d:
        raise ValueError(f"{name} must be at most {d * d}, the square of max_deviation, got {v!r}")
    return (d, None, v) if variance is None else (d, v, None)


_VARIANCES = 400


@dataclass(frozen=True, eq=False)
class UnknownPerturbation(PerturbedLaw):
    """Counts perturbed by cell keys with a perturbation table that is not published: it is learnt with the counts.

    Unknown are the rows p(v | x) of the table: one for each true count x below `small`, and one for all counts from there on.
    Published numbers that contradict one another tell of them: males, females and persons, each perturbed on its own. Under
    `bayesdp.observe` the rows are a variable, ``<measurement>_law`` with dimensions ``count`` (the last one stands for all larger
    counts) and ``deviation``; all measurements with an equal law have the same. Answers about the same records have one deviation.

    The prior "dirichlet" has independent Dirichlet rows, with `concentration` for each deviation that is possible. "max-entropy" has
    the rows of ``CellKey(max_deviation=D, variance_at_most=V)``, V one of 400 equally likely values, evenly spaced (`variances`):
    from the least variances that rows can have to that which limits none. That is one number, learnt from fewer answers. Rows
    of small counts are told from the prior of small cells by little else than sums.

    Support, mass, mean, variance and `draw` are those of *one* number, its row integrated out: whole numbers x + v, with the prior
    means of the row of x. To simulate several, `draw_answers` draws a table and then all answers with it; `drawn` gives a table as a
    law. Not differentially private.

    Parameters
    ----------
    max_deviation : int
        D, from 1 to 100. Deviations that do not occur get a small posterior probability: it may be more than enough.
    small : int, optional
        The count from which on all have one row; at least that from which on all deviations are possible, its default: D, plus
        `not_smaller_than` if that is 2 or more.
    not_smaller_than : int, default 0
        No smaller positive count is published.
    zeros : {"kept", "perturbed"}, default "kept"
    prior : {"dirichlet", "max-entropy"}, default "dirichlet"
    concentration : float, default 0.5

    Examples
    --------
    >>> law = UnknownPerturbation(max_deviation=1, small=2)
    >>> np.exp(law.log_each([0, 1, 2, 3], 1)).round(4).tolist()
    [0.3333, 0.3333, 0.3333, 0.0]
    >>> law.drawn(1).draw(2, (4,), location=30).tolist()
    [31, 31, 31, 30]
    """

    max_deviation: int
    small: int | None = None
    not_smaller_than: int = 0
    zeros: str = "kept"
    prior: str = "dirichlet"
    concentration: float = 0.5

    name = "unknown-perturbation"
    same_cell_same_value = True
    relation = "max_deviation=D, small=X, not_smaller_than=N, zeros=kept or perturbed, prior=dirichlet or max-entropy, concentration=C"

    def __post_init__(self) -> None:
        _validate.choice(self.zeros, ("kept", "perturbed"), "zeros")
        _validate.choice(self.prior, ("dirichlet", "max-entropy"), "prior")
        d = _validate.positive_integer(whole(self.max_deviation), "max_deviation")
        least = _validate.nonnegative_integer(whole(self.not_smaller_than), "not_smaller_than")
        first = d + (least if least > 1 else 0)
        small = first if self.small is None else _validate.nonnegative_integer(whole(self.small), "small")
        if d > 100:
            raise ValueError(f"max_deviation must be at most 100 where the law is learnt, got {d}")
        if not first <= small <= 1000:
            raise ValueError(f"small must be from {first}, where all deviations are possible, to 1000, got {small}")
        concentration = _validate.positive_real(self.concentration, "concentration")
        self._set(max_deviation=d, small=small, not_smaller_than=least, concentration=concentration)
        if self.prior == "max-entropy":
            _ = self.variances  # raises where a count has no law with mean zero

    @property
    def counts(self) -> Ints:
        """The counts of the rows, from 0 to `small`."""
        assert self.small is not None
        return np.arange(self.small + 1, dtype=np.int64)

    @property
    def deviations(self) -> Ints:
        """The deviations of the columns, from -D to D."""
        return np.arange(-self.max_deviation, self.max_deviation + 1, dtype=np.int64)

    @cached_property
    def concentrations(self) -> Floats:
        """Parameters of the Dirichlet rows, shape (counts, deviations); 0 where a deviation is not possible."""
        possible = [
            deviations_of(x, self.max_deviation, self.not_smaller_than, self.zeros) for x in self.counts.tolist()
        ]
        return np.asarray(self.concentration * np.stack([np.isin(self.deviations, row) for row in possible]))

    @property
    def variances(self) -> Floats:
        """The values that V may have under the prior "max-entropy"; increasing."""
        return _by_variance(self.max_deviation, self.not_smaller_than, self.zeros)[0]

    @cached_property
    def tables(self) -> Floats:
        """The rows for each of `variances`, shape (variances, counts, deviations)."""
        rows = _by_variance(self.max_deviation, self.not_smaller_than, self.zeros)[1]
        return rows[:, np.minimum(self.counts, rows.shape[1] - 1)]

    @cached_property
    def transitions(self) -> Transitions:
        """The prior means of the rows."""
        means = self.concentrations if self.prior == "dirichlet" else self.tables.mean(axis=0)
        return Transitions(-self.max_deviation, means / means.sum(axis=1, keepdims=True), 1)

    def given(self, rows: npt.ArrayLike) -> CellKey:
        """The law with known rows, shape (counts, deviations): those of a draw from the posterior, say."""
        return CellKey(TransitionTable(tuple(self.deviations.tolist()), rows, 1))  # type: ignore[arg-type]  # arrays are accepted

    def drawn(self, rng: _validate.Seed) -> CellKey:
        """A law with rows drawn from the prior."""
        return self.given(self.drawn_rows(_validate.generator_of(rng)))

    def drawn_rows(self, rng: np.random.Generator, occurring: npt.ArrayLike = 0.0) -> Floats:
        """Rows from the prior, or from their law given how often each deviation of each row occurs, shape (counts, deviations)."""
        counts = np.broadcast_to(np.asarray(occurring, dtype=np.float64), self.concentrations.shape)
        if self.prior == "dirichlet":
            # A gamma variable of shape a is one of a + 1 times U**(1 / a): in logarithms, as those of small shapes underflow.
            shapes = np.where(self.concentrations > 0, self.concentrations + counts, 1.0)
            logs = np.log(rng.standard_gamma(shapes + 1.0)) + np.log1p(-rng.random(shapes.shape)) / shapes
            rows = np.exp(np.where(self.concentrations > 0, logs - logs.max(axis=1, keepdims=True), -np.inf))
            return np.asarray(rows / rows.sum(axis=1, keepdims=True))
        seen = np.nonzero(counts)
        masses = np.log(self.tables[:, seen[0], seen[1]]) @ counts[seen]
        return np.asarray(self.tables[np.argmax(masses + rng.gumbel(size=len(masses)))])

    def draw_answers(self, rng: _validate.Seed, queries: Sequence[Query], table: npt.ArrayLike) -> list[Floats | Ints]:
        """Draw rows from the prior, and then what is published with them. See `NoiseLaw.draw_answers`."""
        generator = _validate.generator_of(rng)
        return self.drawn(generator).draw_answers(generator, queries, table)


@lru_cache(maxsize=8)
def _by_variance(d: int, least: int, zeros: str) -> tuple[Floats, Floats]:
    """Variances, evenly spaced, under which all rows differ and none is on two deviations only, and the rows of each."""
    free = CellKey(max_deviation=d, variance_at_most=d * d, not_smaller_than=least, zeros=zeros)
    reached = free.transitions.moments[1]
    ends = [feasible_variances(deviations_of(x, d, least, zeros)) or (0, 0) for x in range(1, len(reached))]
    low, high = max((first for first, last in ends if first < last), default=0.0), float(reached.max())
    variances = low + (high - low) * np.arange(1, _VARIANCES + 1) / _VARIANCES
    laws = [CellKey(max_deviation=d, variance_at_most=v, not_smaller_than=least, zeros=zeros) for v in variances]
    return variances, np.stack([law.transitions.mass for law in laws])
