"""Trade-off functions: type II error of the best test as a function of its type I error.

The convention is that of Dong, Roth and Su (2022), "Gaussian differential privacy"; see `TradeOff`, whose
method `increasing` is the convention of paper 003.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp.privacy._levels import Floats, levels
from bayesdp.privacy._tradeoff import TradeOff
from bayesdp.privacy._tradeoff_frozen import binned_tradeoff, frozen_tradeoff
from bayesdp.privacy._tradeoff_laws import ApproximateDP, DiscretePair, GaussianDP

__all__ = ["TradeOff", "approximate_dp", "gaussian_dp", "tradeoff"]

_SUM_TOLERANCE = 1e-9


def approximate_dp(epsilon: float, delta: float = 0.0) -> ApproximateDP:
    """Give ``max(0, 1 - delta - exp(epsilon) alpha, exp(-epsilon) (1 - delta - alpha))``.

    Source: Wasserman and Zhou (2010); Dong, Roth and Su (2022, Proposition 2.5).

    Parameters
    ----------
    epsilon : float
        Zero or greater.
    delta : float, default 0
        At least 0 and less than 1.

    Returns
    -------
    ApproximateDP
        A `TradeOff`.

    Raises
    ------
    TypeError, ValueError
        If epsilon is negative, delta outside [0, 1), or one is not a finite number.

    Examples
    --------
    >>> f = approximate_dp(1.0)
    >>> print(f"{f(0.05):.6f} {f.group(2)(0.05):.6f}")
    0.864086 0.630547
    """
    budget = _validate.nonnegative_real(epsilon, "epsilon")
    slack = _validate.nonnegative_real(delta, "delta")
    if slack >= 1.0:
        raise ValueError(f"delta must be at least 0 and less than 1, got {delta!r}")
    return ApproximateDP(budget, slack)


def gaussian_dp(mu: float) -> GaussianDP:
    """Give ``G_mu(alpha) = Phi(Phi^-1(1 - alpha) - mu)``, the trade-off of N(0, 1) and N(mu, 1).

    Source: Dong, Roth and Su (2022, Definition 2.6).

    Parameters
    ----------
    mu : float
        Greater than zero.

    Returns
    -------
    GaussianDP
        A `TradeOff`.

    Raises
    ------
    TypeError, ValueError
        If mu is not a positive finite number.

    Examples
    --------
    >>> print(f"{gaussian_dp(0.5).group(2)(0.05):.6f}")
    0.740489
    """
    return GaussianDP(_validate.positive_real(mu, "mu"))


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
