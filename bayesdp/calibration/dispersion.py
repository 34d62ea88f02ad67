"""Are posteriors as wide as they should be? The test of squared standardised errors, and what it can detect.

A band for a distribution function has its power in the middle; an error in scale moves the tails. The squared
standardised error ``((theta - mean) / sd)^2``, with the posterior's own mean and standard deviation, is a test quantity
of its own (Modrák et al., 2025, "Simulation-based calibration checking for Bayesian computation: the choice of test
quantities shapes sensitivity", Bayesian Analysis): the rank of the true one among those of the posterior's draws is
uniform too. Its rank u is turned into the quantile of a chi-squared law with one degree of freedom, and the sum of n of
them has n. For normal posteriors whose errors are s times as large as stated, the sum is s^2 times that: this is the
best test of scale there.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import stats

from bayesdp import _validate


def _quantiles(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    given = np.asarray(values, dtype=np.float64)
    if given.ndim != 1 or given.size == 0 or not np.all((given >= 0.0) & (given <= 1.0)):
        raise ValueError(f"values must be a vector of numbers between 0 and 1, got {values!r}")
    return np.asarray(stats.chi2.ppf(given, 1))


def dispersion_ratio(values: npt.ArrayLike) -> float:
    """Ratio of the errors to what the posteriors state, root mean square: above 1 if posteriors are too narrow.

    Parameters
    ----------
    values : array_like, shape (n,)
        Ranks of squared standardised errors, between 0 and 1.

    Returns
    -------
    float
        Exact for normal posteriors, a summary for others.

    Raises
    ------
    ValueError
        If there are no values, or some are not between 0 and 1.

    Examples
    --------
    >>> even = (np.arange(1000) + 0.5) / 1000
    >>> print(f"{dispersion_ratio(even):.3f}")
    1.000
    """
    return float(np.sqrt(np.mean(_quantiles(values))))


def dispersion_pvalue(values: npt.ArrayLike) -> float:
    """Two-sided p-value of the hypothesis that the posteriors are as wide as they should be.

    Parameters, errors as in `dispersion_ratio`.

    Examples
    --------
    >>> even = (np.arange(300) + 0.5) / 300
    >>> print(f"{dispersion_pvalue(even):.2f} {dispersion_pvalue(even**0.75):.4f}")
    1.00 0.0065
    """
    squares = _quantiles(values)
    total, n = float(squares.sum()), squares.size
    return float(min(1.0, 2.0 * min(stats.chi2.cdf(total, n), stats.chi2.sf(total, n))))


def dispersion_power(n: int, scale: float, false_alarm: float = 0.05) -> float:
    """Probability that the test notices errors which are `scale` times as large as the posteriors state.

    Parameters
    ----------
    n : int
        Number of simulations.
    scale : float
        For instance 1.2 for posteriors whose standard deviation is 20% too small in proportion (1 / 1.2).
    false_alarm : float
        Level of the test.

    Returns
    -------
    float
        For normal posteriors.

    Raises
    ------
    TypeError, ValueError
        If n is not a positive integer, or a number is not positive, or false_alarm not less than 1.

    Examples
    --------
    >>> print(f"{dispersion_power(300, 1.2):.4f} {dispersion_power(50, 1.2):.3f}")
    0.9932 0.490
    """
    count = _validate.positive_integer(n, "n")
    ratio, level = _validate.positive_real(scale, "scale"), _validate.positive_real(false_alarm, "false_alarm")
    if level >= 1.0:
        raise ValueError(f"false_alarm must be between 0 and 1, got {false_alarm!r}")
    low, high = stats.chi2.ppf(level / 2, count), stats.chi2.isf(level / 2, count)
    return float(stats.chi2.cdf(low / ratio**2, count) + stats.chi2.sf(high / ratio**2, count))
