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
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, bdtrc, chdtrc

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._text import printable
from bayesdp.measurements import Exact, Measured, described
from bayesdp.measurements.consistency.exact import equalities, meet, row_map
from bayesdp.noise import Rounded, UnknownPerturbation
from bayesdp.queries import SumPart

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


def _family(law: Any) -> tuple[str, Any, Callable[[Any], Any]] | None:
    """The name of a law of additive noise, its scale, and the law of another one; None of others."""
    if isinstance(law, Rounded) and law.additive:
        name = f"{law.noise.name} rounded to {law.base!r}"
        return name, law.noise.scale, lambda scale: Rounded(law.noise.at_scales(scale), law.base)
    return None if law.at_scales(1.0) is None else (law.name, law.scale, law.at_scales)


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
        elif (family := _family(law)) is not None:
            name, own, of_scale = family
            scale = np.broadcast_to(own, measured.query.shape).reshape(-1)
            variance = np.asarray(law.variance(measured.query.shape)).reshape(-1)
            finely = len(np.unique(scale)) <= _SCALES
            if not finely:  # a larger scale makes noise larger
                scale = np.exp(np.ceil(np.log(scale) / 0.05) * 0.05)
            scales, which = np.unique(scale, return_inverse=True)
            terms = [Term((name, float(s)), of_scale(np.array(s)), bounded=False) for s in scales]
        else:
            why = ""
            if isinstance(law, Rounded):
                why = f": whole numbers are no multiples of {law.base:g}, and how far they are rounded depends on the true ones"
            left_out.append(
                f"{named}{described(measured.query)}: nothing is worked out for sums of noise of the law {law.name}{why}"
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
    large = float(chdtrc(2 * n, -2.0 * np.log(chances[0, sure]).sum()))
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
    many = np.where(observed >= expected[1] + 1, bdtrc(observed - 1, most, share[1]), 1.0)
    few = np.where(low <= expected[0] - 1, bdtr(low, fewest, share[0]), 1.0)
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
