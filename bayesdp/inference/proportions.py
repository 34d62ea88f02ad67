"""Posterior of the proportions of a population from what was published about n records, by enumeration of the counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, gammaln, logsumexp

from bayesdp._validate import finite_array, positive_integer, probability

type Floats = npt.NDArray[np.float64]

_MOST = 2_000_000


@dataclass(frozen=True, eq=False)
class ProportionPosterior:
    """A mixture of Dirichlet laws of the proportions, one for each table of counts.

    Attributes
    ----------
    counts : numpy.ndarray of int, shape (tables, categories)
        All tables of n records.
    weights : numpy.ndarray, shape (tables,)
        Posterior probabilities of the tables.
    prior : numpy.ndarray, shape (categories,)
        Parameters of the Dirichlet prior.
    """

    counts: npt.NDArray[np.int64]
    weights: Floats
    prior: Floats

    @property
    def mean(self) -> Floats:
        """Posterior means of the proportions, shape (categories,)."""
        size = self.prior.sum() + self.counts[0].sum()
        return np.asarray((self.prior + self.weights @ self.counts) / size)

    def cdf(self, values: npt.ArrayLike, category: int | list[int]) -> Floats:
        """Probability that the proportion of a category, or the sum of several, is at most each value."""
        return self._of(self._marginal(category), np.asarray(values, dtype=np.float64))

    def interval(self, category: int | list[int], level: float = 0.95) -> tuple[float, float]:
        """Equal-tailed interval of the proportion of a category, or of the sum of several.

        Parameters
        ----------
        category : int or list of int
        level : float

        Returns
        -------
        tuple of float
        """
        tail = 0.5 - 0.5 * probability(level, "level")
        marginal, goal = self._marginal(category), np.array([tail, 1.0 - tail])
        low, high = np.zeros(2), np.ones(2)
        for _ in range(60):  # bisection to 1e-18
            middle = 0.5 * (low + high)
            below = self._of(marginal, middle) < goal
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return float(low[0]), float(high[1])

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """Draw proportions, shape (size, categories)."""
        which = rng.choice(len(self.weights), size=size, p=self.weights)
        gamma = rng.standard_gamma(self.prior + self.counts[which])
        return np.asarray(gamma / gamma.sum(axis=-1, keepdims=True))

    def _marginal(self, category: int | list[int]) -> tuple[Floats, Floats, Floats]:
        """Parameters of the Beta laws and their weights; tables with the same counts in the categories go together."""
        chosen = np.unique(np.atleast_1d(np.asarray(category, dtype=np.int64)))
        x = self.counts[:, chosen].sum(axis=-1)
        weights = np.bincount(x, weights=self.weights, minlength=int(self.counts[0].sum()) + 1)
        own, n = np.arange(len(weights), dtype=np.float64), float(self.counts[0].sum())
        inside = float(self.prior[chosen].sum())
        return inside + own, float(self.prior.sum()) - inside + n - own, weights

    @staticmethod
    def _of(marginal: tuple[Floats, Floats, Floats], values: Floats) -> Floats:
        a, b, weights = marginal
        return np.asarray(betainc(a, b, np.clip(values, 0.0, 1.0)[..., None]) @ weights)


def posterior_of_proportions(source: Any, release: Any, prior: npt.ArrayLike = 1.0) -> ProportionPosterior:
    """Condition a Dirichlet prior on what was published, exactly: all tables of n records are enumerated.

    The records are a sample from the population. For more tables than two million use a PyMC model.

    Parameters
    ----------
    source : RescaledProportions, AllButOne, UniversalHistogram or MultipleSynthesis
        The mechanism.
    release : Release or sequence of Release
        Of that mechanism, or of each of several.
    prior : float or array_like, shape (categories,)
        Parameters of the Dirichlet prior.

    Returns
    -------
    ProportionPosterior

    Raises
    ------
    NotImplementedError
        If there are too many tables.
    ValueError
        If the prior is not positive, or no table can have led to the release.

    Examples
    --------
    >>> from bayesdp.mechanisms import RescaledProportions
    >>> mechanism = RescaledProportions(0.5, 30, ["a", "b", "c"])
    >>> release = mechanism.release([3, 12, 15], rng=np.random.default_rng(2))
    >>> posterior = posterior_of_proportions(mechanism, release)
    >>> len(posterior.weights), round(float(posterior.mean.sum()), 12)
    (496, 1.0)
    """
    first = source.mechanisms[0] if hasattr(source, "mechanisms") else source
    n, categories = positive_integer(first.n, "n"), len(first.names)
    shape = finite_array(prior, "prior")
    if np.shape(shape) not in ((), (categories,)) or not np.all(np.asarray(shape) > 0.0):
        raise ValueError(
            f"prior must be greater than 0, one number or one for each of {categories} categories, got {prior!r}"
        )
    alpha = np.array(np.broadcast_to(np.asarray(shape, dtype=np.float64), (categories,)))
    tables = _tables(n, categories)
    log_prior = np.sum(gammaln(alpha + tables) - gammaln(tables + 1.0), axis=-1)
    step = 20_000
    known = np.concatenate([source.log_likelihood(release, tables[i : i + step]) for i in range(0, len(tables), step)])
    logs = log_prior + known
    total = logsumexp(logs)
    if not np.isfinite(total):
        raise ValueError("release must be possible for a table of the mechanism, but it has no density for any of them")
    weights = np.exp(logs - total)
    return ProportionPosterior(tables, weights / weights.sum(), alpha)


def _tables(n: int, categories: int) -> npt.NDArray[np.int64]:
    """All vectors of counts that add up to n, shape (tables, categories)."""
    count = math.comb(n + categories - 1, categories - 1)
    if count > _MOST:
        raise NotImplementedError(
            f"there are {count} tables of {n} records in {categories} categories, more than {_MOST} to enumerate: write a PyMC "
            "model with the distributions of bayesdp instead"
        )
    tables = np.arange(n + 1, dtype=np.int64)[:, None]  # counts so far; what is left goes to the last category
    for _ in range(categories - 2):
        left = n - tables.sum(axis=-1)
        repeated = np.repeat(tables, left + 1, axis=0)
        starts = np.repeat(np.cumsum(left + 1) - (left + 1), left + 1)
        tables = np.column_stack([repeated, np.arange(len(repeated)) - starts])
    return np.column_stack([tables, n - tables.sum(axis=-1)])
