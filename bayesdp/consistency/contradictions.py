"""Releases that cannot well be about one table: what both of them answer differs by more than their laws explain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from bayesdp._text import printable
from bayesdp.consistency._general import equalities
from bayesdp.consistency._sums import Ints, meet, row_map
from bayesdp.consistency.post_processed import FALSE_ALARMS
from bayesdp.measurements import Exact, Measured, described
from bayesdp.queries import SumPart

__all__ = ["contradiction", "contradiction_within"]

type Floats = npt.NDArray[np.float64]
type Parts = tuple[Iterable[Measured], Iterable[Exact]]

_SMALLEST = 1e-12
"""Probabilities of noise below this are not told apart."""

_NAMED = 3

_SCALES, _SORTS, _POINTS = 20, 20, 2**14
"""Different scales that are told apart, sorts of sums whose law is worked out, and points of the grid on either side."""


@dataclass(frozen=True, eq=False)
class _Answers:
    """Answers whose true values are from `low` to `high`, but for noise that `law` gives for scales, if it is not None."""

    part: Any
    low: Floats
    high: Floats
    known: npt.NDArray[np.bool_]
    law: Callable[[Floats], Any] | None = None
    scale: Floats | None = None


def contradiction(one: Parts, other: Parts, pairs: int = 1) -> str | None:
    """Which answers of two releases differ by more than chance explains if both are about one table; None where none do.

    Compared are all sums that follow from answers of both, at the finest labels, and linear combinations that both have: under
    independent noise of a law with a scale, under laws of perturbed counts, and exact. Perturbed counts leave an interval of true
    ones, and intervals that do not meet are impossible. For noise, the probability of a difference as large is worked out from the
    law of the sum of all noise in it, convolved on a grid. Fisher's chi-square of these probabilities, and the smallest of them,
    are compared with `FALSE_ALARMS`, divided by 2, by the number of comparisons and by `pairs`. Nothing is said under other laws.

    Parameters
    ----------
    one, other : (iterable of Measured, iterable of Exact)
    pairs : int
        How many pairs of releases are compared.

    Examples
    --------
    >>> from bayesdp.noise import DiscreteGaussian
    >>> from bayesdp.queries import Identity
    >>> county = Identity({"county": ["Alpha", "Beta"]})
    >>> a, b = (Measured(county, values, DiscreteGaussian(sigma=5.0)) for values in ([219, 40], [283, 44]))
    >>> contradiction(([a], []), ([b], []))
    'of 2 answers that both give, these differ most: county=Alpha 219 and 283; county=Beta 40 and 44 (probability below 4e-12)'
    """
    told = []
    for left, right in product(list(_answers(*one)), list(_answers(*other))):
        sums = isinstance(left.part, SumPart) and isinstance(right.part, SumPart)
        common: Any = meet(left.part, right.part) if sums else left.part if left.part == right.part else None
        if common is not None:
            told.append(_compared(common, left, right))
    least, words = min(told, key=lambda own: own[0], default=(1.0, ""))
    return words if least < FALSE_ALARMS / (pairs * len(told) or 1) else None


def contradiction_within(measurements: Iterable[Measured]) -> str | None:
    """The same between two measurements of one release, with advice: tables of two years would be averaged without a word."""
    pairs = list(combinations(measurements, 2))
    for one, other in pairs:
        told = contradiction(([one], []), ([other], []), len(pairs))
        if told is not None:
            return (
                f"{_called(one)} and {_called(other)} contradict each other by their laws: {told}. They are taken as one table at one "
                "time; fit tables of different times or populations each by itself, or correct a law. If they are of one table, "
                "adding_up='warn' (--adding-up warn) takes them as they are"
            )
    return None


def _called(measured: Measured) -> str:
    name = "" if measured.name is None else f"{printable(measured.name)}, "
    return f"{name}{described(measured.query)}"


def _answers(measurements: Iterable[Measured], exact: Iterable[Exact]) -> Iterator[_Answers]:
    for measured in measurements:
        law: Any = measured.law
        values = np.asarray(measured.values, dtype=np.float64).reshape(-1)
        known, scale, low, high = ~measured.unmeasured.reshape(-1), None, values, values
        if hasattr(law, "transitions"):
            low = np.maximum(values - law.transitions.highest, 0.0)
            high = np.minimum(values - law.transitions.lowest, law.transitions.largest_count)
        elif law.at_scales(1.0) is not None:
            scale = np.broadcast_to(law.scale, measured.query.shape).reshape(-1)
        else:
            continue
        start = 0
        for part in measured.query.parts:
            own = slice(start, start + part.rows)
            start += part.rows
            noise = (None, None) if scale is None else (law.at_scales, scale[own])
            yield _Answers(part, low[own], high[own], known[own], *noise)
    for part, exactly in equalities(exact):
        numbers = exactly.astype(np.float64)
        yield _Answers(part, numbers, numbers, np.ones(part.rows, dtype=np.bool_))


def _compared(common: Any, left: _Answers, right: _Answers) -> tuple[float, str]:
    """A bound on the probability of differences as large as those of two sides, and the largest of them in words."""
    known, noise = np.ones(common.rows, dtype=np.bool_), list[tuple[Callable[[Floats], Any], Floats, Ints]]()
    sums = np.zeros((2, 2, common.rows))
    for i, side in enumerate((left, right)):
        rows = row_map(side.part, common) if isinstance(common, SumPart) else np.arange(common.rows)
        sums[i] = [np.bincount(rows, weights=own, minlength=common.rows) for own in (side.low, side.high)]
        np.logical_and.at(known, rows, side.known)
        if side.law is not None and side.scale is not None:
            noise.append((side.law, side.scale, rows))
    gap = np.maximum(np.maximum(sums[0, 0] - sums[1, 1], sums[1, 0] - sums[0, 1]), 0.0)
    gap = np.where(gap > 1e-9 * np.abs(sums).max(initial=1.0), gap, 0.0)
    chance = np.where(known, _chances(gap, noise), 1.0)
    answers = max(int(known.sum()), 1)
    fisher = float(stats.chi2.sf(-2 * np.log(np.maximum(chance, 1e-300)).sum(), 2 * answers))
    bound = min(1.0, 2 * min(fisher, float(chance.min()) * answers))
    worst = [int(row) for row in np.lexsort((-gap, chance)) if known[row] and gap[row]][:_NAMED]
    words = "; ".join(
        f"{printable(common.name(row))} {_shown(sums[0, :, row])} and {_shown(sums[1, :, row])}" for row in worst
    )
    least = "impossible" if bound == 0 else f"probability below {max(bound, _SMALLEST):.0e}"
    return bound, f"of {answers} answers that both give, these differ most: {words} ({least})"


def _shown(ends: Floats) -> str:
    low, high = (f"{own:.10g}" for own in ends)
    return low if low == high else f"from {low} to {high}"


def _chances(gap: Floats, noise: list[tuple[Callable[[Floats], Any], Floats, Ints]]) -> Floats:
    """For each row, the probability that the absolute sum of its noise, of given laws, scales and rows, is at least the gap."""
    if not noise:
        return np.where(gap > 0.0, 0.0, 1.0)
    terms = []
    for law, scale, rows in noise:
        few = len(np.unique(scale)) <= _SCALES
        rounded = scale if few else np.exp(np.ceil(np.log(scale) / 0.05) * 0.05)  # a larger scale makes noise larger
        terms += [(law(np.array(s)), np.bincount(rows[rounded == s], minlength=len(gap))) for s in np.unique(rounded)]
    variances = np.array([float(np.max(law.variance(()))) for law, _ in terms])
    counts = np.stack([count for _, count in terms])
    sd = np.sqrt(variances @ counts)
    reach = 45.0 * np.sqrt(variances.max()) + 12.0 * sd.max()
    whole = all(law.integer for law, _ in terms) and reach < _POINTS
    step = 1.0 if whole else max(np.sqrt(variances.max()) / 64.0, reach / _POINTS)
    n = int(reach / step) + 1
    edges = (np.arange(-n, n + 2) - 0.5) * step
    waves = np.stack([np.fft.rfft(np.fft.ifftshift(np.diff(law.cdf(edges)))) for law, _ in terms])
    code = np.zeros(len(gap), dtype=np.int64)
    for count in counts:  # a number for each sort of column: much faster than to sort columns
        code = np.unique(code * (int(counts.max()) + 1) + count, return_inverse=True)[1].reshape(-1)
    first, own = np.unique(code, return_index=True, return_inverse=True)[1:]
    sorts = counts[:, first]
    chance = np.ones(len(gap))
    # The others count as nothing, which makes no contradiction more likely.
    for sort in sorted(range(sorts.shape[1]), key=lambda k: -(gap / sd)[own == k].max())[:_SORTS]:
        mass = np.fft.fftshift(np.fft.irfft(np.prod(waves ** sorts[:, sort, None], axis=0), 2 * n + 1))
        both = mass[n:] + mass[n::-1]
        both[0] = mass[n]
        tails = np.append(np.cumsum(both[::-1])[::-1], 0.0)
        place = np.clip(np.ceil(gap[own == sort] / step - (1e-6 if whole else 1.0)), 0, n + 1).astype(np.int64)
        chance[own == sort] = np.clip(tails[place], _SMALLEST, 1.0)
    return chance
