"""The intervals that Liu (2019) takes from noisy proportions, of one release and of several, on arrays of data sets."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy import stats

from bayesdp._validate import finite_array, positive_integer, probability

type Floats = npt.NDArray[np.float64]


def proportion_interval(shares: npt.ArrayLike, n: int, level: float = 0.95) -> tuple[Floats, Floats]:
    """The interval ``share -+ z sqrt(share (1 - share) / n)``, which takes noisy shares for those of the data.

    It leaves out the noise: this is why the intervals of Liu (2019) cover too little. A share outside 0 to 1 counts as the
    nearer of the two in the width.

    Parameters
    ----------
    shares : array_like
    n : int
        Number of records.
    level : float
        Nominal coverage.

    Returns
    -------
    tuple of numpy.ndarray
        Lower and upper ends; they can lie outside 0 to 1.

    Examples
    --------
    >>> low, high = proportion_interval(0.5, 100)
    >>> print(f"{low:.3f} {high:.3f}")
    0.402 0.598
    """
    centre = np.asarray(finite_array(shares, "shares"), dtype=np.float64)
    inner = np.clip(centre, 0.0, 1.0)
    half = stats.norm.isf(0.5 - 0.5 * probability(level, "level")) * np.sqrt(
        inner * (1 - inner) / positive_integer(n, "n")
    )
    return centre - half, centre + half


def combine_syntheses(
    estimates: npt.ArrayLike, variances: npt.ArrayLike, level: float = 0.95
) -> tuple[Floats, Floats, Floats]:
    """Combine m releases about the same records: mean, and a t interval of variance W + B/m.

    W is the mean of the variances that each release would have without noise, B the variance between the m estimates; the
    degrees of freedom are ``(m - 1)(1 + m W / B)^2``. B/m measures the noise, but no bias.

    Parameters
    ----------
    estimates, variances : array_like, shape (m, ...)
        One estimate and its variance for each release, m at least 2.
    level : float
        Nominal coverage.

    Returns
    -------
    tuple of numpy.ndarray, shape (...)
        Estimate, lower and upper ends.

    Raises
    ------
    ValueError
        If there are fewer than two releases, or a variance is negative.

    References
    ----------
    Liu (2016), Model-based differentially private data synthesis; Reiter (2003), for partially synthetic data.

    Examples
    --------
    >>> centre, low, high = combine_syntheses([0.2, 0.3, 0.25], [0.002, 0.002, 0.002])
    >>> print(f"{centre:.3f} {low:.3f} {high:.3f}")
    0.250 0.140 0.360
    """
    each = np.asarray(finite_array(estimates, "estimates"), dtype=np.float64)
    own = np.asarray(finite_array(variances, "variances"), dtype=np.float64)
    if each.ndim < 1 or each.shape[0] < 2:
        raise ValueError(f"estimates must hold two releases or more along the first axis, got shape {each.shape}")
    if own.shape != each.shape:
        raise ValueError(f"variances must have the shape of estimates, {each.shape}, got {own.shape}")
    if np.any(own < 0.0):
        raise ValueError(f"variances must be at least 0, got {own[own < 0.0][0]!r}")
    m = each.shape[0]
    between, within = each.var(axis=0, ddof=1), own.mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = np.where(between > 0.0, (m - 1) * (1.0 + m * within / between) ** 2, math.inf)
    size = stats.t.isf(0.5 - 0.5 * probability(level, "level"), freedom)
    half = size * np.sqrt(within + between / m)
    return each.mean(axis=0), each.mean(axis=0) - half, each.mean(axis=0) + half
