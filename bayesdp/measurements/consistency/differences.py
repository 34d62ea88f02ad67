"""Whether published numbers are compatible with the laws stated of them, without a model of the counts.

Looked at are differences of published sums that are equal in every table, by the exact law of each: the convolution of all noise
in it.

Two sets of published sums are compared at the finest labels that both add up to (`meet`). Each number enters one difference of a
group, so that these are independent, and each is the sum of the noise of the numbers in it, whatever the true table is. Three
statistics of a group have p-values that are valid for every true table and for any noise, normal or not:

* ``single``: the smallest probability of a difference as large, times the number of differences;
* ``large``: Fisher's chi-square of the probabilities of differences as large. Those of discrete laws are stochastically larger than
  uniform numbers, so that it rejects no more often than stated;
* ``shape``: how many differences there are of each size. That number is a sum of independent indicators, whose tails are below
  those of the binomial law with their mean probability (Hoeffding, 1956); the least likely, times their number and two sides.

Perturbed counts have one law where true counts are at least some L (the last ``period`` rows of the table). A number is taken for
one of these if every true count that may be behind it is. Which numbers these are is up to chance near L: so all that may be of
such counts are counted in n, and the others have the probability 1, which keeps it stochastically larger than uniform. The same
holds for answers under a threshold. Where rows repeat by remainder (rounding), the remainders are unknown: probabilities of large
differences are bounded by those under the deviations that are stochastically largest over the rows, and ``shape`` is not used.
Differences that small counts enter are compared with what is possible only. Under cell keys a sum has the number of its only part
that is not empty: differences count where two parts or more surely have records.

Besides, the chi-square of all linear contradictions at once: the residual of generalised least squares of additive noise.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy import stats
from scipy.sparse.linalg import lsqr

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._nested import NestedSums
from bayesdp._text import printable
from bayesdp._wiring import connected
from bayesdp.measurements import Exact, Measured, described
from bayesdp.measurements.consistency.exact import FALSE_ALARMS, PostProcessedWarning, equalities, meet, row_map
from bayesdp.noise import UnknownPerturbation
from bayesdp.queries import SumPart

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


_DECIMALS = 9
"""Decimals of real numbers that are looked for."""


def grid_of(values: Floats) -> float:
    """The coarsest power of ten, of 1 at most, that all values are multiples of; else the rounding of binary numbers."""
    # If numbers were published to a fixed number of decimals then this is no finer than that: bounds that grow with the grid hold
    # for the true one.
    rounding = 1e-15 * float(np.max(np.abs(values), initial=1.0))
    for decimals in range(_DECIMALS + 1):
        steps = values * 10.0**decimals
        if rounding * 10.0**decimals > 1e-4:
            break
        if np.all(np.abs(steps - np.rint(steps)) <= 1e-3):
            return 10.0**-decimals
    return 4.0 * rounding


_SMALLEST = 1e-12
"""Probabilities of noise below this are not told apart."""

_NAMED = 3

_SCALES, _SORTS, _POINTS = 20, 100, 2**14
"""Different scales that are told apart, sorts of sums whose law is worked out, and points of the grid on either side."""

_GROUPS, _MOST_ANSWERS = 300, 15_000_000
"""Groups that are compared, those with the most sums first, and answers in them."""


@dataclass(frozen=True)
class Term:
    """Noise of one answer, `law`: additive of one scale, or the table of a perturbed count."""

    key: tuple[str, float]
    law: Any = field(compare=False)
    bounded: bool

    @cached_property
    def masses(self) -> tuple[Floats, Floats]:
        """The stochastically largest and smallest deviations of the rows that repeat: one law where it is one row."""
        rows = self.law.mass[-self.law.period :]
        over = rows[:, ::-1].cumsum(axis=1)[:, ::-1].max(axis=0)
        return -np.diff(over, append=0.0), np.diff(rows.cumsum(axis=1).max(axis=0), prepend=0.0)

    @property
    def exact(self) -> bool:
        """Whether there is one law."""
        return not self.bounded or self.law.period == 1

    @cached_property
    def moments(self) -> tuple[float, float]:
        """Variance, and the distance of the mean from zero; the larger ones of the two laws."""
        if not self.bounded:
            return float(np.max(self.law.variance(()))), 0.0
        at = np.arange(self.law.lowest, self.law.highest + 1.0)
        moments = [(mass @ at**2 - (mass @ at) ** 2, abs(mass @ at)) for mass in self.masses]
        return float(max(moments)[0]), float(max(mean for _, mean in moments))

    def on_grid(self, largest: bool, step: float, points: int) -> Floats:
        """The masses of the larger or the smaller law on this number of points around 0."""
        if not self.bounded:
            edges = (np.arange(points + 1) - points // 2 - 0.5) * step
            below = self.law.cdf(edges)
            if self.law.integer and step > 1.0:  # steps end on whole numbers, half of whose mass is on either side
                below = 0.5 * (below + self.law.cdf(edges - 1.0))
            return np.asarray(np.diff(below))
        found = np.zeros(points)
        at = np.arange(self.law.lowest, self.law.highest + 1)
        np.add.at(found, points // 2 + np.rint(at / step).astype(np.int64), self.masses[0 if largest else 1])
        return found


@lru_cache(maxsize=128)
def _wave(term: Term, largest: bool, step: float, points: int) -> npt.NDArray[np.complex128]:
    return np.fft.rfft(np.fft.ifftshift(term.on_grid(largest, step, points)))


@lru_cache(maxsize=64)
def _law(terms: tuple[Term, ...], counts: tuple[int, ...], step: float, points: int) -> tuple[Floats, Floats, Floats]:
    """The largest law of a sum (negative counts are taken away) on a grid, and P(it is >= k steps away), P(<= k)."""
    masses = []
    for largest in (True, False):
        wave = np.ones(points // 2 + 1, dtype=np.complex128)
        for term, count in zip(terms, counts, strict=True):
            transform = _wave(term, largest == (count > 0), step, points)
            wave *= (transform if count > 0 else transform.conj()) ** abs(count)
        masses.append(np.maximum(np.fft.fftshift(np.fft.irfft(wave, points)), 0.0))
    half = points // 2
    both = masses[0][half:] + masses[1][half:0:-1]
    far = np.append(np.cumsum(both[::-1])[::-1], 0.0)
    far[0] = 1.0
    near = np.cumsum(masses[0][half:] + np.append(0.0, masses[0][half - 1 : 0 : -1]))
    return masses[0], np.clip(far, _SMALLEST, 1.0), np.clip(near, _SMALLEST, 1.0)


@dataclass(frozen=True, eq=False)
class Answers:
    """Published numbers of one part of a query; `source` is the place of its measurement, negative for exact parts."""

    source: int
    called: str
    part: Any
    values: Floats  # shape (answers,), as those that follow
    low: Floats  # what the true answer may be
    high: Floats
    sure: Mask  # of the law of `terms`, and published
    counted: Mask  # may be of that law, and may have been published
    terms: tuple[Term, ...] = ()
    which: Ints | None = None  # the term of each answer
    variance: Floats | None = None  # of additive noise
    grid: float = 0.0  # of real numbers as they were published; 0 of whole ones
    finely: bool = True  # whether terms are those of the answers, or somewhat larger
    keyed: str = ""  # the law, where it gives the same records the same number


def answers_of(measurements: Iterable[Measured], exact: Iterable[Exact]) -> tuple[list[Answers], list[str]]:
    """The numbers that are compared, part by part; and which measurements are not, in words."""
    found, left_out = list[Answers](), list[str]()
    for source, measured in enumerate(measurements):
        law: Any = measured.law.uncensored
        values, count = np.asarray(measured.values, dtype=np.float64).reshape(-1), measured.values.size
        named = "" if measured.name is None else f"{measured.name}, "
        alone = len(measured.query.parts) == 1
        asked, hidden = ~measured.unmeasured.reshape(-1), measured.withheld.reshape(-1)
        low, high, which = np.full(count, -np.inf), np.full(count, np.inf), np.zeros(count, dtype=np.int64)
        sure, counted, finely, variance = asked & ~hidden, asked, True, None
        if hasattr(law, "transitions") and not isinstance(law, UnknownPerturbation):
            table = law.transitions
            low = np.where(sure, np.maximum(values - table.highest, 0.0), 0.0)
            high = np.where(sure, np.minimum(values - table.lowest, table.largest_count), np.inf)
            first = len(table.mass) - table.period if table.period else np.inf
            sure, counted = sure & (low >= first), asked & (hidden | (high >= first))
            terms = [Term((repr(law.describe()), 0.0), table, bounded=True)]
        elif law.at_scales(1.0) is not None:
            scale = np.broadcast_to(law.scale, measured.query.shape).reshape(-1)
            variance = np.asarray(law.variance(measured.query.shape)).reshape(-1)
            finely = len(np.unique(scale)) <= _SCALES
            if not finely:  # a larger scale makes noise larger
                scale = np.exp(np.ceil(np.log(scale) / 0.05) * 0.05)
            scales, which = np.unique(scale, return_inverse=True)
            terms = [Term((law.name, float(s)), law.at_scales(np.array(s)), bounded=False) for s in scales]
        else:
            left_out.append(
                f"{named}{described(measured.query)}: nothing is worked out for sums of noise of the law {law.name}"
            )
            continue
        grid = 0.0 if law.integer else grid_of(values[sure])
        keyed = repr(law.describe()) if law.same_cell_same_value else ""
        for part, rows in measured.query.placed_parts:
            called = named + (described(measured.query) if alone else f"sums by {' × '.join(part.keep) or 'nothing'}")
            found.append(
                Answers(
                    source, called, part, values[rows], low[rows], high[rows], sure[rows], counted[rows], tuple(terms), which[rows],
                    None if variance is None else variance[rows], grid, finely, keyed,
                )
            )  # fmt: skip
    for place, item in enumerate(exact):
        for part, exactly in equalities([item]):
            numbers, every = exactly.astype(np.float64), np.ones(part.rows, dtype=np.bool_)
            words = f"exact sums by {' × '.join(part.keep)}" if part.keep else "the exact grand total"
            found.append(Answers(-1 - place, words, part, numbers, numbers, numbers, every, every))
    return found, left_out


@dataclass(frozen=True, eq=False)
class Differences:
    """One group of differences: what was found, and three p-values, NaN where a statistic is not used."""

    words: str
    sources: tuple[int, int]
    number: int
    impossible: int
    worst: tuple[tuple[str, float, float, float], ...]  # name, both sums, probability
    single: float
    large: float
    shape: float
    spread: float  # mean square over the variance by the law
    unit: float  # of the bins, in counts; NaN where they are halves of the standard deviation of each difference
    observed: Ints  # in bins around 0; what is farther out is in the last ones
    expected: Floats
    agreeing: float  # the chance that sums of additive noise agree, where all do; NaN where they do not

    @property
    def too_far(self) -> float:
        """The p-value of differences that are too large."""
        return 0.0 if self.impossible else min(1.0, 2.0 * min(self.single, self.large))

    @property
    def pvalue(self) -> float:
        """The p-value on both sides."""
        return self.too_far if np.isnan(self.shape) else min(1.0, 1.5 * self.too_far, 3.0 * self.shape)

    @property
    def told(self) -> str:
        """The worst ones in words."""
        listed = "; ".join(f"{name} {one:.10g} and {other:.10g}" for name, one, other, _ in self.worst)
        least = "impossible" if self.impossible else f"probability below {max(self.too_far, _SMALLEST):.0e}"
        return f"of {self.number} answers that both give, these differ most: {listed} ({least})"


def differences_of(answers: list[Answers]) -> tuple[list[Differences], list[str]]:
    """All groups of differences, and what is left out, in words."""
    pairs = []
    for left, right in combinations(answers, 2):
        if left.source < 0 and right.source < 0:
            continue
        sums = isinstance(left.part, SumPart) and isinstance(right.part, SumPart)
        common: Any = meet(left.part, right.part) if sums else left.part if left.part == right.part else None
        if common is not None:
            pairs.append((common, left, right))
    pairs.sort(key=lambda pair: -pair[0].rows)
    sizes = np.cumsum([left.part.rows + right.part.rows for _, left, right in pairs])
    most = min(_GROUPS, int(np.searchsorted(sizes, _MOST_ANSWERS, side="right")))
    few = len(pairs) - most
    return [_compared(*pair) for pair in pairs[:most]], [f"{few} of {len(pairs)} groups of sums"] * (few > 0)


def agreeing(groups: Iterable[Differences], fewest: int = 1) -> list[tuple[float, str]]:
    """Groups in which at least `fewest` sums of independent noise all agree exactly: the chance of that, and words."""
    return [
        (group.agreeing, f"{group.words} agree exactly on all {group.number} sums that both determine")
        for group in groups
        if group.number >= fewest and not np.isnan(group.agreeing)
    ]


def _compared(common: Any, left: Answers, right: Answers) -> Differences:
    many, sides = common.rows, (left, right)
    sums, filled, ends = np.zeros((2, many)), np.zeros((2, many)), np.zeros((2, 2, many))
    sure, counted = np.ones(many, dtype=np.bool_), np.ones(many, dtype=np.bool_)
    terms, counts = list[Term](), list[Ints]()
    for i, side in enumerate(sides):
        rows = row_map(side.part, common) if isinstance(common, SumPart) else np.arange(many)
        sums[i], filled[i] = (np.bincount(rows, numbers, many) for numbers in (side.values, side.low > 0.0))
        ends[i] = [np.bincount(rows, numbers, many) for numbers in (side.low, side.high)]
        np.logical_and.at(sure, rows, side.sure)
        np.logical_and.at(counted, rows, side.counted)
        if side.which is not None:
            terms += side.terms
            used = np.bincount(side.which * many + rows, minlength=len(side.terms) * many)
            counts += list((1 - 2 * i) * used.reshape(-1, many))
    if left.keyed and left.keyed == right.keyed:
        sure &= (filled.max(axis=0) >= 2) & (many in (left.part.rows, right.part.rows))
    gap = sums[0] - sums[1]
    gap = np.where(np.abs(gap) > 1e-9 * np.abs(sums).max(initial=1.0), gap, 0.0)
    far, bounded = np.zeros(many, dtype=np.bool_), bool(np.isfinite(ends[:, 0]).all())
    if bounded:
        far = np.maximum(ends[0, 0] - ends[1, 1], ends[1, 0] - ends[0, 1]) > 0.0
    variance = np.array([term.moments[0] for term in terms]) @ np.abs(counts)
    grid = min((side.grid for side in sides if side.grid), default=0.0)
    chances, bins, unit, expected = _chances(terms, np.array(counts), variance, gap, np.array([sure, counted]), grid)
    finely = all(side.finely for side in sides)
    exactly = finely and all(t.exact for t in terms) and not np.isnan(expected).any()
    n, some = max(int(counted.sum()), 1), bool(sure.any())
    large = float(stats.chi2.sf(-2.0 * np.log(chances[0, sure]).sum(), 2 * n))
    alone = np.where(far, 0.0, np.where(sure, chances[0], 1.0))
    worst = [int(row) for row in np.lexsort((-np.abs(gap), alone)) if gap[row] and alone[row] < 1.0][:_NAMED]
    agree = some and not (gap[sure].any() or (sure != counted).any() or any(term.bounded for term in terms))
    observed = np.bincount(bins[sure] + len(expected[0]) // 2, minlength=len(expected[0]))
    return Differences(
        printable(f"{left.called} and {right.called}"), (left.source, right.source), n if some else many * bounded, int(far.sum()),
        tuple((printable(common.name(row)), sums[0, row], sums[1, row], float(alone[row])) for row in worst),
        min(1.0, float(alone[sure].min(initial=1.0)) * n), large,
        _unusual(observed, expected, int(sure.sum()), n) if exactly else np.nan,
        float(np.mean(gap[sure] ** 2 / variance[sure])) if exactly and some else np.nan, unit, observed, expected[0],
        # Where scales were made up to 5 % larger, differences of 0 are at most that much likelier.
        float(np.exp(np.log(np.minimum((1.06 - 0.06 * finely) * chances[1], 1.0))[sure].sum())) if agree else np.nan,
    )  # fmt: skip


def _unusual(observed: Ints, expected: Floats, fewest: int, most: int) -> float:
    """The p-value of numbers in bins: at least those of the `fewest`, or at most those and all that may be of the law."""
    low, share = observed + most - fewest, np.minimum(expected.T / [max(fewest, 1), most], 1.0).T
    many = np.where(observed >= expected[1] + 1, stats.binom.sf(observed - 1, most, share[1]), 1.0)
    few = np.where(low <= expected[0] - 1, stats.binom.cdf(low, fewest, share[0]), 1.0)
    return min(1.0, 2 * len(observed) * float(np.minimum(many, few).min()))


def _chances(
    terms: list[Term], counts: Ints, variance: Floats, gap: Floats, masks: Mask, grid: float
) -> tuple[Floats, Ints, float, Floats]:
    """P(as large) and P(as small) of each difference, its bin, the unit of bins, and the numbers expected of both masks.

    NaN are expected where the law of some difference is not worked out.
    """
    chances, sure, numbers = np.ones((2, len(gap))), masks[0], np.abs(counts)
    sd, scale = np.sqrt(variance), max(term.moments[0] for term in terms) ** 0.5
    widest = max((float(term.law.mass.shape[1]) for term in terms if term.bounded), default=0.0)
    means = np.array([term.moments[1] for term in terms]) @ numbers
    reach = 45.0 * scale + 12.0 * float(sd.max()) + float(means.max()) + widest
    whole = not grid and reach < _POINTS
    step = 1.0 if whole else 2.0 ** np.ceil(np.log2(max(scale / 64.0, reach / _POINTS)))
    points = int(2.0 ** np.ceil(np.log2(2.0 * (reach / step + 2.0))))
    end = points // 2
    code = np.zeros(len(gap), dtype=np.int64)
    for column in numbers:  # a number for each sort of column: much faster than to sort columns
        code = np.unique(code * (int(column.max()) + 1) + column, return_inverse=True)[1].reshape(-1)
    first, sort_of = np.unique(code, return_index=True, return_inverse=True)[1:]
    unit, half, width = np.nan, 8, np.maximum(sd, 1e-300) / 2.0
    if whole and sd.max() <= 10.0:
        unit, half, width = 1.0, max(int(np.ceil(4.0 * sd.max())), 1), np.ones(len(gap))
    bins = np.clip(np.rint(gap / width), -half, half).astype(np.int64)
    expected = np.zeros((2, 2 * half + 1))
    if not sure.any() or (step > 1.0 and widest):
        return chances, bins, unit, np.full_like(expected, np.nan)
    sizes = np.array([np.bincount(sort_of, mask, len(first)) for mask in masks])
    looked = np.flatnonzero(sizes[1])
    if len(looked) > _SORTS:  # the others count as nothing, which makes no contradiction more likely
        away = np.zeros(len(first))
        np.maximum.at(away, sort_of, np.where(sure, np.abs(gap) / np.maximum(sd, 1e-300), 0.0))
        looked, expected = np.argsort(-away)[:_SORTS], np.full_like(expected, np.nan)
    for sort in looked:
        column, alike = counts[:, first[sort]], sort_of == sort
        used = np.flatnonzero(column)
        mass, far, near = _law(tuple(terms[k] for k in used), tuple(int(column[k]) for k in used), step, points)
        # Noise that is rounded may be one step off, and half the grid in each of the numbers that were published.
        steps, slack = np.abs(gap[alike]) / step, 2.0 + 0.5 * grid * np.abs(column).sum() / step
        chances[0, alike] = far[np.clip(np.ceil(steps - (1e-6 if whole else 1.0)), 0, end).astype(np.int64)]
        chances[1, alike] = near[np.minimum(np.floor(steps + (1e-6 if whole else slack)), end - 1).astype(np.int64)]
        if not whole:  # differences are multiples of the grid, or any number
            ends, below = (np.arange(points) - end + 0.5) * step, np.cumsum(mass)
            edges = (np.arange(-half, half) + 0.5) * width[first[sort]]
            if grid >= step:  # each bin begins between two multiples
                edges = (np.ceil(edges / grid - 1e-9) - 0.5) * grid
            share = np.diff(np.interp(edges, ends, below), prepend=0.0, append=below[-1])
        else:
            at = (np.arange(points) - end) / width[first[sort]]
            share = np.bincount(np.clip(np.rint(at), -half, half).astype(np.int64) + half, mass, 2 * half + 1)
        expected += sizes[:, sort, None] * share
    return chances, bins, unit, expected


_MOST_ENTRIES, _DENSE = 3_000_000, 500
"""Cells in answers, and answers whose rank is worked out from a matrix where labels cross or some answers are missing."""

_EXACTLY = 1e-3
"""Standard deviation of exact sums beside the smallest of the noise: changes the chi-square by one in a million at most."""

_SKEWEST = 0.5


class LeastSquares(NamedTuple):
    """``r' V^-1 r`` of the residuals r, its degrees of freedom, and its p-value on both sides; NaN where it is not known."""

    statistic: float
    df: int
    pvalue: float

    def __str__(self) -> str:
        return f"chi-square {self.statistic:.4g} on {self.df} degrees of freedom"


def least_squares(answers: Sequence[Answers]) -> LeastSquares | None:
    """The counts are free parameters, exact sums have no variance; None without contradictions, or where it is too large.

    Under (discrete) normal noise z of unit variance the statistic is ``z' M z`` with a projection M of rank df: chi-square.
    Otherwise it has mean df, variance ``2 df + k4 sum M_ii^2`` and third cumulant ``8 df + 12 k4 sum M_ii^2 + k6 sum M_ii^3``
    with the cumulants k4 and k6 of z. As M_ii is from 0 to 1, these sums are at most df. A gamma law with these largest moments
    stands for the upper tail and a normal one for the lower where they are nearly normal (skewness up to 0.5); else there is no
    p-value, and the exact laws of differences decide alone.
    """
    used = [each for each in answers if each.source < 0 or each.variance is not None]
    noisy = [each for each in used if each.variance is not None]
    if (
        not noisy
        or len(used) * used[0].part.frame.size > _MOST_ENTRIES
        or any((each.sure != each.counted).any() for each in used)
    ):
        return None
    rank, known = _rank(used), _rank([each for each in used if each.variance is None])
    df = sum(int(each.sure.sum()) for each in noisy) - (rank or 0) + (known or 0)
    if rank is None or known is None or df <= 0:
        return None
    least = _EXACTLY**2 * min(float(each.variance.min()) for each in noisy if each.variance is not None)
    sure = np.concatenate([each.sure for each in used])
    variance = [np.full(each.part.rows, least) if each.variance is None else each.variance for each in used]
    weight = 1.0 / np.sqrt(np.concatenate(variance)[sure])
    values = np.concatenate([each.values for each in used])[sure]
    rows = _rows(used)
    scaled = sp.diags_array(weight) @ rows
    # A residual below 1e-12 of matrix times solution (`lsqr` gives their norms) ends the search before it is the least one. It is not
    # that small once counts near by are taken away: whole ones, which leaves no rounding errors, and then what is left.
    for last in (False, False, False, True, True):
        found = lsqr(scaled, weight * values, atol=1e-12, btol=1e-12, conlim=0.0, iter_lim=4000)
        reached = 1e-12 * (float(np.linalg.norm(weight * values)) + found[5] * found[8]) < 1e-3 * found[3]
        if reached:
            break
        values = values - rows @ (found[0] if last else np.rint(found[0]))
    k4, k6 = np.max([_cumulants(term) for part in noisy for term in part.terms], axis=0)
    statistic, sd = float(found[3] ** 2), np.sqrt(df * (2.0 + k4))
    skew, z = df * (8.0 + 12.0 * k4 + k6) / sd**3, (statistic - df) / sd
    solved = found[1] in (0, 1, 2) and (reached or statistic < 1e-6 * df)
    if not solved or (k4 + k6 > 0.0 and skew > _SKEWEST):
        return LeastSquares(statistic if solved else np.nan, df, np.nan)
    # Numbers on a grid may come out closer than the law of real ones says: by a random vector of variance 1 / 12, here 1.
    coarse = max((each.grid or 1.0) / float(each.variance.min()) ** 0.5 for each in noisy if each.variance is not None)
    above = (statistic**0.5 + df**0.5 * coarse) ** 2
    low = stats.norm.cdf((above - df) / sd) if k4 + k6 > 0.0 else stats.chi2.cdf(above, df)
    return LeastSquares(statistic, df, min(1.0, 2.0 * float(min(low, stats.pearson3.sf(z, skew)))))


def _rows(used: Sequence[Answers]) -> sp.csr_array:
    """The published sums as rows of a matrix."""
    stacked = sp.csr_array(sp.vstack([each.part.matrix for each in used], format="csr"))
    return stacked[np.flatnonzero(np.concatenate([each.sure for each in used]))].astype(np.float64)


def _rank(used: Sequence[Answers]) -> int | None:
    """The number of independent sums among those published; None where it is not worked out."""
    sums = [each.part for each in used if isinstance(each.part, SumPart) and each.sure.all()]
    if used and len(sums) == len(used) and (nested := NestedSums.of(sums)) is not None:
        return nested.rank
    if sum(each.part.rows for each in used) > _DENSE:
        return None
    return int(np.linalg.matrix_rank((_rows(used) @ _rows(used).T).toarray(), hermitian=True)) if used else 0


@lru_cache(maxsize=128)
def _cumulants(term: Term) -> tuple[float, float]:
    """The fourth and sixth cumulants of noise of unit variance; 0 where they are below those of the normal law, or all but."""
    scale = term.moments[0] ** 0.5
    step = 1.0 if term.law.integer and scale < 64.0 else 2.0 ** np.floor(np.log2(scale / 64.0))
    mass, z = term.on_grid(True, step, 2**14), (np.arange(2**14) - 2**13) * step / scale
    second, fourth, sixth = (float(mass @ z**k) for k in (2, 4, 6))
    k4, k6 = fourth / second**2 - 3.0, sixth / second**3 - 15.0 * fourth / second**2 + 30.0
    return (max(k4, 0.0), max(k6, 0.0)) if abs(k4) + abs(k6) > 1e-3 else (0.0, 0.0)


_INCOMPATIBLE = 1e-4
"""The p-value below which `observe`, fits, ``bayesdp import`` and reports say that numbers do not fit their law."""


@dataclass(frozen=True, eq=False)
class LawCheck:
    """What `bayesdp.check_law` found: the differences of published sums that are equal in every table, group by group.

    Attributes
    ----------
    groups : tuple
        Differences of two sets of sums each; see `table` for what is known of them.
    chi_square : tuple of (statistic, df, pvalue), or None
        Of the residual of generalised least squares over all additive noise at once, `df` the number of answers minus the rank. The
        p-value is NaN where the noise is far from normal for so few contradictions, or the search did not end, and all is None
        where nothing contradicts.
    left_out : tuple of str
        What was not compared, and why.
    """

    groups: tuple[Differences, ...]
    chi_square: LeastSquares | None
    left_out: tuple[str, ...]

    @property
    def pvalue(self) -> float:
        """The smallest p-value times the number of groups, a bound whatever their dependence; NaN where nothing is compared."""
        chi = [] if self.chi_square is None or np.isnan(self.chi_square.pvalue) else [self.chi_square.pvalue]
        pvalues = chi + [group.pvalue for group in self.groups]
        return min(1.0, min(pvalues) * len(pvalues)) if pvalues else np.nan

    @property
    def table(self) -> pd.DataFrame:
        """One row a group: the number of differences, how many are impossible, p-values and that of all of them together.

        ``single`` is that of the largest difference, ``large`` of all sizes, ``shape`` of how many there are of each size, too few
        or too many (NaN where that is not used). ``spread``: the mean square of the differences over what the law says.
        """
        import pandas as pd

        columns = ["number", "impossible", "single", "large", "shape", "spread", "pvalue"]
        rows = {group.words: [getattr(group, name) for name in columns] for group in self.groups}
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns)

    @property
    def worst(self) -> tuple[tuple[str, float, float, float], ...]:
        """The least likely differences of each group: the sum by name, what both sides say, and the probability of it alone."""
        return tuple(sorted((each for group in self.groups for each in group.worst), key=lambda each: each[3]))

    def plot(self, most: int = 4) -> Figure:
        """Draw how many differences there are of each size, of `most` groups, worst first, beside what the law says.

        In counts, or in standard deviations of each; the last bins hold all that is farther out. ValueError without differences.
        """
        figure: Figure = connected("draw a check of a law")(self, most)
        return figure

    def contradiction(self, apart: Callable[[int, int], bool]) -> Differences | None:
        """The worst of those groups whose two sources are apart, if it is too far for `FALSE_ALARMS`."""
        between = [group for group in self.groups if apart(*group.sources)]
        worst = min(between, key=lambda group: group.too_far, default=None)
        return worst if worst is not None and worst.too_far < FALSE_ALARMS / len(between) else None

    @property
    def found(self) -> tuple[str, str]:
        """What fits least, and what may be behind it."""
        chi, worst = self.chi_square, min(self.groups, key=lambda group: group.pvalue, default=None)
        named = worst is not None and worst.pvalue * len(self.groups) < _INCOMPATIBLE  # says more than a chi-square
        if (
            chi is not None
            and not np.isnan(chi.statistic)
            and (worst is None or (chi.pvalue < worst.pvalue and not named))
        ):
            words, ratio = f"{chi} of all contradictions", chi.statistic / chi.df
        elif worst is None:
            return "no published sums have to agree", ""
        elif not worst.shape < 0.5 * worst.too_far:
            words, ratio = f"{worst.words}: {worst.told}", np.inf
        else:
            words, ratio = f"{worst.words}: mean square {worst.spread:.2g} of the law's in {worst.number}", worst.spread
        if ratio > 1.1:
            why = "The noise is larger than stated, or numbers are of different times or populations, or one is wrong"
            return words, why
        if ratio > 0.9:
            return words, "Differences are spread otherwise than the law says"
        return words, (
            "They contradict one another less than noise of their own makes them: totals that are sums of published cells are no "
            "measurements of their own, leave them out; or the noise is smaller than stated"
        )

    @property
    def warning(self) -> str | None:
        """What does not fit, in words; None where the p-value is not below 1e-4."""
        if not self.pvalue < _INCOMPATIBLE:
            return None
        words, why = self.found
        return (
            f"the published numbers are not compatible with the stated law, whatever the true table (p = {self.pvalue:.2g}): "
            f"{words}. {why}. A posterior under this law would be wrong; look at bayesdp.check_law(release)"
        )

    def __repr__(self) -> str:
        words, why = self.found
        number = sum(group.number for group in self.groups)
        first = f"p = {self.pvalue:.2g}, {len(self.groups)} groups of sums that have to agree, {number:,} differences"
        lines = [f"<LawCheck: {words if np.isnan(self.pvalue) else first}"]
        lines += [f"fits least: {words}"] * bool(why) + [why] * (self.pvalue < _INCOMPATIBLE)
        lines += [] if self.chi_square is None else [str(self.chi_square)]
        return "\n  ".join([*lines, *(f"not compared: {measurement}" for measurement in self.left_out)]) + ">"


def law_check(measurements: Iterable[Measured], exact: Iterable[Exact]) -> LawCheck:
    """The check of measurements and exact parts of one table."""
    answers, left_out = answers_of(measurements, exact)
    groups, more = differences_of(answers)
    return LawCheck(tuple(groups), least_squares(answers) if answers else None, tuple(left_out + more))


def warn_of_law(check: LawCheck) -> None:
    """Warn where numbers are not compatible with their law, at the line that called the caller."""
    if check.warning is not None:
        warnings.warn(check.warning, PostProcessedWarning, stacklevel=3)
