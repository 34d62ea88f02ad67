"""Trade-off functions of two laws: lists of probabilities, frozen SciPy laws, or laws in bins."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from bayesdp.privacy.tradeoffs.base import Bracketed, DiscretePair, TradeOff, from_points, ordered_pair
from bayesdp.privacy.tradeoffs.noise import Floats, levels

__all__ = ["tradeoff"]

_SUM_TOLERANCE = 1e-9


def tradeoff(p: Any, q: Any, *, edges: npt.ArrayLike | None = None) -> TradeOff:
    """Give the trade-off function of two laws, by the lemma of Neyman and Pearson.

    Vectors of probabilities give a piecewise linear function, exactly. Frozen laws of ``scipy.stats`` on the integers give one
    between bounds, which differ by the tails left out, about 1e-15. Continuous laws with a monotone likelihood ratio, such as two
    of a location family with log-concave density, give ``q.cdf(p.isf(alpha))``, exactly; that the ratio is monotone is checked at
    4000 quantiles and in the tails to 1e-12, not proved. Other continuous laws can be put into bins by `edges`, which loses what
    tells them apart within a bin: that is an upper bound of the trade-off function, on the unsafe side. It is ``.upper`` of the
    result, whose own values and ``.lower`` are zero (no protection is shown), and ``.error`` is the distance between the two.
    Vectors are taken for *all* that is seen: do not give the probabilities of bins of your own.

    Parameters
    ----------
    p, q : array_like, or objects with the methods of a frozen SciPy law
        The laws under the null hypothesis and under the alternative: probabilities of the same outcomes, one axis (each
        must add up to 1 within 1e-9, and is divided by its sum); or laws with cdf, sf, ppf, isf, and pmf or logpdf.
    edges : array_like, optional
        For continuous laws: where bins end, rising. Below the first and above the last are bins as well.

    Returns
    -------
    TradeOff
        Symmetric only if the pair is.

    Raises
    ------
    TypeError, ValueError
        If the shapes differ, or one is neither a vector of probabilities nor a law.
    NotImplementedError
        If the likelihood ratio of continuous laws is not monotone, and no edges are given.

    Examples
    --------
    >>> randomised_response = tradeoff([0.75, 0.25], [0.25, 0.75])
    >>> randomised_response([0.0, 0.25, 1.0])
    array([1.  , 0.25, 0.  ])
    >>> from scipy.stats import laplace
    >>> print(f"{tradeoff(laplace(0, 1), laplace(1, 1))(0.05):.6f}")
    0.864086
    >>> from scipy.stats import cauchy
    >>> binned = tradeoff(cauchy(0), cauchy(1), edges=np.linspace(-9.0, 9.0, 181))
    >>> print(f"at most {binned.upper(0.05):.2f}, at least {binned(0.05):.2f}, known within {binned.error:.2f}")
    at most 0.87, at least 0.00, known within 1.00
    """
    if edges is not None:
        return binned_tradeoff(p, q, edges)
    if hasattr(p, "cdf") or hasattr(q, "cdf"):
        return frozen_tradeoff(p, q)
    null, other = _law(p, "p"), _law(q, "q")
    if null.shape != other.shape:
        raise ValueError(f"p and q must list the same outcomes, but p has {null.size} and q has {other.size}")
    start = math.fsum(other[null == 0.0])
    kept = null > 0.0
    null, other = null[kept], other[kept]
    with np.errstate(over="ignore"):
        order = np.argsort(-(other / null), kind="stable")
    return DiscretePair(start, tuple(null[order].tolist()), tuple(other[order].tolist()))


def _law(values: npt.ArrayLike, argument: str) -> Floats:
    masses = levels(values, argument)
    if masses.ndim != 1 or masses.size == 0:
        raise ValueError(f"{argument} must be a vector of at least one probability, got shape {masses.shape}")
    total = math.fsum(masses)
    if abs(total - 1.0) > _SUM_TOLERANCE:
        raise ValueError(f"{argument} must add up to 1 within {_SUM_TOLERANCE}, but adds up to {total!r}")
    return masses / total


_TAIL = 1e-15
"""Probability that may be left out at either end of an integer law; it is in the error."""
_MOST = 4_000_000
_CHECKED = 2001
_SLACK = 1e-9
"""Roundings of log-densities that do not count against monotonicity."""
_METHODS = ("cdf", "sf", "ppf", "isf")


@dataclass(frozen=True, repr=False)
class ContinuousPair(TradeOff):
    """Trade-off function of two continuous laws whose likelihood ratio q / p is monotone; see `tradeoff`.

    Parameters
    ----------
    p, q : object
        The laws under the null hypothesis and under the alternative.
    rising : bool
        Whether q / p rises, so that large values speak for q.
    """

    p: Any
    q: Any
    rising: bool

    def __repr__(self) -> str:
        return f"ContinuousPair(likelihood ratio {'rises' if self.rising else 'falls'})"

    @property
    def symmetric(self) -> bool:
        """Whether f is its own inverse, up to 1e-12, on a grid of 2001 levels that is dense at both ends."""
        u = np.linspace(-7.0, 7.0, _CHECKED)
        a, s = ndtr(u), ndtr(-u)
        return bool(np.max(np.abs(self._errors(a, s)[0] - self.inverse()._errors(a, s)[0])) <= 1e-12)

    def inverse(self) -> ContinuousPair:
        """Give the trade-off of the same two laws with the hypotheses exchanged."""
        return ContinuousPair(self.q, self.p, not self.rising)

    def _threshold(self, a: Floats, s: Floats) -> Floats:
        small = a <= 0.5  # through the tail that has the digits
        upper, lower = np.where(small, a, 0.5), np.where(small, 0.5, s)
        if self.rising:
            return np.asarray(np.where(small, self.p.isf(upper), self.p.ppf(lower)), dtype=np.float64)
        return np.asarray(np.where(small, self.p.ppf(upper), self.p.isf(lower)), dtype=np.float64)

    def _errors(self, a: Floats, s: Floats) -> tuple[Floats, Floats]:
        x = self._threshold(a, s)
        below, above = np.asarray(self.q.cdf(x)), np.asarray(self.q.sf(x))
        return (below, above) if self.rising else (above, below)

    def _slope(self, a: Floats, s: Floats) -> Floats:
        x = self._threshold(a, s)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            ratio = np.exp(np.asarray(self.q.logpdf(x)) - np.asarray(self.p.logpdf(x)))
        return np.asarray(np.nan_to_num(ratio, nan=0.0, posinf=np.inf))  # both densities zero: outside of the supports


def frozen_tradeoff(p: Any, q: Any) -> TradeOff:
    """Give the trade-off function of two frozen laws; see `bayesdp.privacy.tradeoffs.tradeoff`."""
    # NotImplementedError if the likelihood ratio of continuous laws is not monotone.
    kinds = [_kind(law, argument) for law, argument in ((p, "p"), (q, "q"))]
    if kinds[0] != kinds[1]:
        raise TypeError(
            f"p and q must both be continuous or both on the integers, but p is {kinds[0]} and q {kinds[1]}"
        )
    return _integers(p, q) if kinds[0] == "on the integers" else _continuous(p, q)


def binned_tradeoff(p: Any, q: Any, edges: Any) -> Bracketed:
    """Give what is known of the trade-off function of two laws from the probabilities of bins; see `tradeoff`."""
    # A test that sees only the bin is a test: the trade-off function of the bins is an upper bound. Nothing is known from below, so
    # that the lower bound, which is what a `Bracketed` is evaluated at, is zero: the laws may be told apart entirely.
    for law, argument in ((p, "p"), (q, "q")):
        if _kind(law, argument) != "continuous":
            raise TypeError(f"edges are for continuous laws, but {argument} is one on the integers: leave them out")
    inner = np.asarray(edges, dtype=np.float64)
    if inner.ndim != 1 or not inner.size or not np.all(np.isfinite(inner)) or np.any(np.diff(inner) <= 0.0):
        raise ValueError(f"edges must be a vector of finite numbers that rise, got {edges!r}")
    null, other = (
        np.concatenate([[law.cdf(inner[0])], np.diff(law.cdf(inner)), [law.sf(inner[-1])]]) for law in (p, q)
    )
    kept = null > 0.0
    upper = ordered_pair(float(other[~kept].sum()), null[kept], other[kept])
    return Bracketed(DiscretePair(1.0, (1.0,), (0.0,)), upper)


def _kind(law: Any, argument: str) -> str:
    missing = [name for name in _METHODS if not callable(getattr(law, name, None))]
    whole, real = callable(getattr(law, "pmf", None)), callable(getattr(law, "logpdf", None))
    if missing or not (whole or real):
        raise TypeError(
            f"{argument} must be a vector of probabilities or a law with the methods {', '.join(_METHODS)} and pmf or logpdf, as "
            f"scipy.stats has them, got {type(law).__name__}"
        )
    return "on the integers" if whole else "continuous"


def _continuous(p: Any, q: Any) -> ContinuousPair:
    u = (np.arange(_CHECKED) + 0.5) / _CHECKED
    tails = np.array([1e-12, 1e-9, 1e-6, 1e-4])
    x = np.unique(
        np.concatenate([law.ppf(u) for law in (p, q)] + [m(tails) for law in (p, q) for m in (law.ppf, law.isf)])
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = [np.asarray(law.logpdf(x), dtype=np.float64) for law in (p, q)]
    either = np.isfinite(logs[0]) | np.isfinite(logs[1])
    ratio = np.clip((logs[1] - logs[0])[either], -1e300, 1e300)
    step = np.diff(ratio)
    slack = _SLACK * (1.0 + np.minimum(np.abs(ratio[:-1]), np.abs(ratio[1:])))
    if np.all(step >= -slack):
        return ContinuousPair(p, q, True)
    if np.all(step <= slack):
        return ContinuousPair(p, q, False)
    where = x[either][int(np.argmax(np.abs(np.diff(np.sign(np.where(np.abs(step) > slack, step, 0.0))))))]
    raise NotImplementedError(
        f"the likelihood ratio of p and q is not monotone (it turns near {float(where):.6g}), so that the best tests are not "
        "thresholds; tradeoff(p, q, edges=[...]) puts the laws into bins, and gives an upper bound of the trade-off function: the "
        "unsafe side, and no guarantee"
    )


def _integers(p: Any, q: Any) -> TradeOff:
    low = min(int(law.ppf(_TAIL / 2.0)) for law in (p, q)) - 1
    high = max(int(law.isf(_TAIL / 2.0)) for law in (p, q)) + 1
    if high - low > _MOST:
        raise NotImplementedError(f"p and q spread over {high - low} integers, more than {_MOST}")
    k = np.arange(low, high + 1)
    null, other = (np.asarray(law.pmf(k), dtype=np.float64) for law in (p, q))
    inside, reached = null > 0.0, np.minimum(1.0, np.array([null.sum(), other.sum()]))
    rest_p, rest_q = 1.0 - float(reached[0]), 1.0 - float(reached[1])
    start = float(other[~inside].sum())
    # What lies beyond tells the laws apart entirely (below), or not at all: it is given no power (above).
    worst = ordered_pair(start + rest_q, np.append(null[inside], max(rest_p, 1e-300)), np.append(other[inside], 0.0))
    best = ordered_pair(start, null[inside], other[inside])
    a = np.concatenate([[0.0], np.cumsum(best.p)])
    power = start + np.concatenate([[0.0], np.cumsum(best.q)])
    kept = a < 1.0
    upper = from_points(np.append(a[kept], 1.0), np.append(np.minimum(power[kept], 1.0), 1.0))
    return Bracketed(worst, upper)
