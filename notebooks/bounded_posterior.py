"""Exact posterior of multinomial proportions from noisy proportions within bounds, for many data sets at once.

Counts x of n records are multinomial with a Dirichlet prior for the proportions p, and functions of single counts or of
the partial sums ``x_1 + ... + x_k`` are published with independent noise. The partial sums are then a Markov chain that
ends at n: sums forwards and backwards over the integers give the law of each count given the release, with nothing
drawn. Given x, p is Dirichlet(alpha + x), so that each proportion is a mixture of beta laws.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt
from scipy import special

from bayesdp._validate import choice, positive_integer, positive_real

__all__ = ["Proportions", "log_likelihoods", "posterior"]

type Floats = npt.NDArray[np.float64]

_NEGLIGIBLE = 1e-150
"""Smaller weights, relative to the largest of the same count, are left out: products of them would be denormal."""
_LEAST = 1e-100
"""A total below that is refused, relative to what the counts could reach apart: so the first rule costs nothing."""


def log_likelihoods(values: npt.ArrayLike, n: int, scale: float, rule: str) -> Floats:
    """Log-densities of noisy proportions in [0, 1] for every count that may be behind them.

    Parameters
    ----------
    values : array_like, shape (...)
        From 0 to 1.
    n : int
        Number of records.
    scale : float
        Scale of the Laplace noise of a proportion.
    rule : {"truncated", "inflated"}
        Noise given that the result is within the bounds, or moved to the nearer bound. The density of the second has an
        atom at each bound.

    Returns
    -------
    numpy.ndarray, shape (..., n + 1)
        For the counts 0 to n.

    Raises
    ------
    ValueError
        If a value is outside [0, 1].

    References
    ----------
    Liu (2019), Equations 4 and 5; the upper atom of (5) is ``exp(-(c1 - s)/lambda) / 2``.

    Examples
    --------
    >>> log_likelihoods(1.0, 2, 0.5, "inflated").round(4).tolist()
    [-2.6931, -1.6931, -0.6931]
    """
    array = np.asarray(values, dtype=np.float64)[..., None]
    b = positive_real(scale, "scale")
    choice(rule, ("truncated", "inflated"), "rule")
    if not np.all((array >= 0.0) & (array <= 1.0)):
        raise ValueError(f"values must lie between 0 and 1, got {array[~((array >= 0.0) & (array <= 1.0))][0]}")
    share = np.arange(positive_integer(n, "n") + 1) / n
    distance = np.abs(array - share) / b
    if rule == "truncated":
        normaliser = -np.expm1(-share / b) - np.expm1(-(1.0 - share) / b)
        return np.asarray(-distance - np.log(b * normaliser))
    return np.asarray(-distance - np.where((array == 0.0) | (array == 1.0), np.log(2.0), np.log(2.0 * b)))


@numba.njit(error_model="numpy", fastmath={"reassoc", "contract", "nsz"})  # type: ignore[misc, unused-ignore]
def _marginals(weights, sums, out):  # type: ignore[no-untyped-def]
    """Laws of the counts of each data set; ``out[i, k]`` is left zero where nothing but negligible weights is left."""
    sets, r, size = weights.shape
    forward = np.zeros((r, size))  # weight of all ways to the first k partial sums
    backward = np.zeros((r + 1, size))  # weight of all ways from the k-th partial sum on, with its own term
    backward[r, size - 1] = 1.0
    for i in range(sets):
        w, h = weights[i], sums[i]
        forward[:] = 0.0
        forward[0, 0] = 1.0
        for k in range(1, r):
            for x in range(size):
                if w[k - 1, x] > 0.0:
                    for s in range(size - x if k > 1 else 1):
                        forward[k, s + x] += w[k - 1, x] * forward[k - 1, s]
            forward[k] *= h[k - 1]
            forward[k] /= forward[k].max()
        for k in range(r - 1, 0, -1):
            backward[k] = 0.0
            for x in range(size):
                if w[k, x] > 0.0:
                    for s in range(0 if k < r - 1 else size - 1 - x, size - x):
                        backward[k, s] += w[k, x] * backward[k + 1, s + x]
            backward[k] *= h[k - 1]
            backward[k] /= backward[k].max()
        for k in range(r):
            for x in range(size):
                total = 0.0
                for s in range(size - x if k > 0 else 1):
                    total += forward[k, s] * backward[k + 1, s + x]
                out[i, k, x] = w[k, x] * total


@dataclass(frozen=True)
class Proportions:
    """Posterior of each proportion, for many data sets: mixtures of beta laws.

    Attributes
    ----------
    counts : numpy.ndarray, shape (data sets, categories, n + 1)
        Probability of each confidential count.
    alpha : numpy.ndarray, shape (categories,)
        Parameters of the Dirichlet prior.
    """

    counts: Floats
    alpha: Floats

    @property
    def n(self) -> int:
        """Number of records."""
        return int(self.counts.shape[-1]) - 1

    @property
    def mean(self) -> Floats:
        """Posterior means, shape (data sets, categories)."""
        expected = self.counts @ np.arange(self.n + 1.0)
        return np.asarray((self.alpha + expected) / (self.alpha.sum() + self.n))

    def cdf(self, p: npt.ArrayLike) -> Floats:
        """Posterior probabilities of at most p, shape (data sets, categories).

        Parameters
        ----------
        p : array_like, shape (categories,) or (data sets, categories)
        """
        points = np.broadcast_to(np.asarray(p, dtype=np.float64), np.broadcast_shapes(np.shape(p), self.alpha.shape))
        return np.asarray(np.sum(self.counts * self._components(points[..., None]), axis=-1))

    def interval(self, level: float = 0.95, points: int = 1000) -> tuple[Floats, Floats]:
        """Equal-tailed intervals, from the exact cdf at so many points between 0 and 1 and straight lines between them.

        Ends are within ``1 / points`` of the exact ones, and far closer where the posterior density is smooth.

        Returns
        -------
        tuple of numpy.ndarray, shape (data sets, categories)
            Lower and upper ends.
        """
        grid = np.linspace(0.0, 1.0, points + 1)
        ends = np.empty((2, *self.counts.shape[:2]))
        for j, alpha in enumerate(self.alpha):
            table = special.betainc(
                alpha + np.arange(self.n + 1), self.alpha.sum() - alpha + np.arange(self.n, -1.0, -1), grid[:, None]
            )
            below = self.counts[:, j] @ table.T
            for end, share in enumerate((0.5 - level / 2, 0.5 + level / 2)):
                right = np.maximum((below < share).sum(axis=1), 1)
                rows = np.arange(len(below))
                low, high = below[rows, right - 1], below[rows, right]
                ends[end, :, j] = grid[right - 1] + (share - low) / (high - low) / points
        return ends[0], ends[1]

    def _components(self, p: Floats) -> Floats:
        counts = np.arange(self.n + 1.0)
        own = self.alpha[:, None]
        return np.asarray(special.betainc(own + counts, self.alpha.sum() - own + self.n - counts, p))


def posterior(
    terms: npt.ArrayLike, sums: npt.ArrayLike | None = None, alpha: npt.ArrayLike | None = None
) -> Proportions:
    """Posterior of multinomial proportions, exactly, for each of many data sets.

    Parameters
    ----------
    terms : array_like, shape (data sets, categories, n + 1)
        Log-likelihood of each count, for example by `log_likelihoods`; zeros where nothing was published.
    sums : array_like, shape (data sets, categories - 1, n + 1), optional
        Log-likelihood of each partial sum ``x_1 + ... + x_k``.
    alpha : array_like, shape (categories,), optional
        Parameters of the Dirichlet prior; 1 for each by default.

    Returns
    -------
    Proportions

    Raises
    ------
    ValueError
        If shapes do not fit, a parameter is not positive, or what was published contradicts the number of records by so
        much that double precision cannot hold the probabilities.

    Notes
    -----
    The time grows with the number of categories and the square of n. Weights below 1e-150, relative to the largest, are
    left out and change a probability by less than 1e-40.

    Examples
    --------
    >>> terms = log_likelihoods([[0.5, 0.2, 0.4]], 10, 0.1, "truncated")
    >>> posterior(terms).mean.round(3).tolist()
    [[0.439, 0.2, 0.361]]
    """
    logs = np.asarray(terms, dtype=np.float64)
    if logs.ndim != 3 or logs.shape[1] < 2:
        raise ValueError(f"terms must have shape (data sets, two categories or more, n + 1), got {logs.shape}")
    count, r, size = logs.shape
    prior = np.ones(r) if alpha is None else np.asarray(alpha, dtype=np.float64)
    if prior.shape != (r,) or not np.all((prior > 0.0) & np.isfinite(prior)):
        raise ValueError(f"alpha must be {r} positive numbers, got {alpha!r}")
    chain = np.zeros((1, r - 1, size)) if sums is None else np.asarray(sums, dtype=np.float64)
    if chain.shape[1:] != (r - 1, size) or chain.shape[0] not in (1, count):
        raise ValueError(f"sums must have shape {(count, r - 1, size)}, got {chain.shape}")
    x = np.arange(size)
    logs = logs + special.gammaln(prior[:, None] + x) - special.gammaln(x + 1)
    out = np.empty(logs.shape)
    _marginals(_relative(logs), np.broadcast_to(_relative(chain), (count, r - 1, size)), out)
    total = out.sum(axis=-1, keepdims=True)
    weak = np.flatnonzero(~np.all(total > _LEAST, axis=(1, 2)))
    if weak.size:
        raise ValueError(
            f"what was published of data set {weak[0]} contradicts n={size - 1}: all its tables are too improbable"
        )
    return Proportions(out / total, prior)


def _relative(logs: Floats) -> Floats:
    """Weights relative to the largest of each row, without the negligible ones."""
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.where(weights < _NEGLIGIBLE, 0.0, weights)
