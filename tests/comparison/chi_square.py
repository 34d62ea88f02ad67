"""Chi-square tests of draws against a mass, with rare bins pooled; one bin left is an error."""

from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.stats import binom, chi2

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Pool = Literal["rest", "neighbours"]

LEAST = 10.0
"""A bin that is expected fewer times than this is pooled."""

IMPOSSIBLE = 1e-12
"""Values of a smaller probability must not be drawn at all, where the list of values is complete."""


class TooFewBinsError(AssertionError):
    """A comparison with so few bins that it shows nothing."""


def chi_square_pvalue(
    observed: npt.ArrayLike, expected: npt.ArrayLike, *, least: float = LEAST, pool: Pool = "rest", fewest: int = 2
) -> float:
    """P-value of numbers of draws in bins, rare bins pooled into one or with neighbours; fewer bins than `fewest` are an error."""
    seen, meant = np.asarray(observed, np.float64).reshape(-1), np.asarray(expected, np.float64).reshape(-1)
    if seen.shape != meant.shape or not np.isclose(seen.sum(), meant.sum(), rtol=1e-4):
        raise ValueError(f"{seen.sum():.10g} draws in {len(seen)} bins, {meant.sum():.10g} expected in {len(meant)}")
    if np.any(seen[meant <= 0.0] > 0.0):
        return 0.0
    seen, meant = seen[meant > 0.0], meant[meant > 0.0]
    if least > 0.0:
        seen, meant = _pooled_rest(seen, meant, least) if pool == "rest" else _pooled_neighbours(seen, meant, least)
    if len(meant) < max(fewest, 2):
        raise TooFewBinsError(
            f"{len(meant)} bins of {np.size(expected)} are left after pooling those expected fewer than {least:g} times; "
            f"at least {max(fewest, 2)} are needed for {seen.sum():g} draws to show anything"
        )
    return float(chi2.sf(float(np.sum((seen - meant) ** 2 / meant)), len(meant) - 1))


def _pooled_rest(seen: Floats, meant: Floats, least: float) -> tuple[Floats, Floats]:
    common = meant >= least
    if common.all():
        return seen, meant
    seen = np.append(seen[common], seen[~common].sum())
    meant = np.append(meant[common], meant[~common].sum())
    if meant[-1] < least and len(meant) > 1:
        seen, meant = (np.append(own[:-2], own[-2:].sum()) for own in (seen, meant))
    return seen, meant


def _pooled_neighbours(seen: Floats, meant: Floats, least: float) -> tuple[Floats, Floats]:
    bins: list[list[float]] = [[0.0, 0.0]]
    for own in zip(seen.tolist(), meant.tolist(), strict=True):
        if bins[-1][1] >= least:
            bins.append([0.0, 0.0])
        bins[-1] = [bins[-1][0] + own[0], bins[-1][1] + own[1]]
    if bins[-1][1] < least and len(bins) > 1:
        few = bins.pop()
        bins[-1] = [bins[-1][0] + few[0], bins[-1][1] + few[1]]
    pooled = np.array(bins)
    return pooled[:, 0], pooled[:, 1]


def elsewhere_pvalue(draws: npt.ArrayLike, value: float, probability: float) -> float:
    """P-value, by a binomial test, of draws of a law that is nearly certain: how often they are not at its one common value."""
    elsewhere = np.asarray(draws) != value
    found, law = np.count_nonzero(elsewhere), binom(elsewhere.size, probability)
    return min(1.0, 2.0 * float(min(law.cdf(found), law.sf(found - 1))))


def draws_pvalue(
    draws: npt.ArrayLike,
    points: npt.ArrayLike,
    probability: npt.ArrayLike,
    *,
    complete: bool = False,
    least: float = LEAST,
    fewest: int = 2,
) -> float:
    """P-value of draws of numbers or vectors against a mass on points; with `complete` one elsewhere makes it 0, else it is rare."""
    drawn, mass = np.asarray(draws), np.asarray(probability, np.float64)
    rows = drawn.reshape(len(drawn), -1)
    listed = np.asarray(points).reshape(len(mass), -1)
    where = {tuple(point): i for i, point in enumerate(listed.tolist())}
    found = np.array([where.get(tuple(row), len(where)) for row in rows.tolist()])
    observed = np.bincount(found, minlength=len(where) + 1)
    if complete and (observed[-1] or np.any(observed[:-1][mass <= IMPOSSIBLE])):
        return 0.0
    elsewhere = max(1.0 - float(mass.sum()), 0.0)
    # What is elsewhere goes into the class of rare points, however often it is expected.
    expected = len(rows) * np.append(mass, elsewhere)
    rare = np.append(expected[:-1] < least, True)
    observed = np.append(observed[~rare], observed[rare].sum())
    expected = np.append(expected[~rare], len(rows) - expected[~rare].sum())
    if expected[-1] < least and len(expected) > 1:
        observed, expected = (np.append(own[:-2], own[-2:].sum()) for own in (observed, expected))
    return chi_square_pvalue(observed, expected, least=0.0, fewest=fewest)
