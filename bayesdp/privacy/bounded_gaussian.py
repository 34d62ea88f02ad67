"""What truncated discrete Gaussian noise on an integer within bounds costs, by enumeration of all confidential and noisy values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from bayesdp._validate import finite_array, nonnegative_real, positive_integer, positive_real

__all__ = ["truncated_gaussian_delta", "truncated_gaussian_epsilon"]

type Floats = npt.NDArray[np.float64]

_PAIRS = 50_000_000
"""Most pairs of values, times the sensitivity, that are enumerated."""


def truncated_gaussian_delta(epsilon: float, sigma: float, bounds: tuple[int, int], sensitivity: int = 1) -> float:
    """The exact delta of truncated discrete Gaussian noise on one integer, by enumeration of all pairs and values.

    Parameters
    ----------
    epsilon : float
    sigma : float
        Scale of the noise.
    bounds : pair of int
        Both finite.
    sensitivity : int
        Largest difference of the values of neighbours.

    Returns
    -------
    float
        ``max over s, s' of sum_y max(0, p(y | s) - exp(epsilon) p(y | s'))``; 0 from the pure epsilon on.

    Raises
    ------
    NotImplementedError
        If a bound is infinite, or there are too many pairs and values to enumerate.

    Examples
    --------
    >>> print(f"{truncated_gaussian_delta(1.0, 2.0, (0, 10)):.6f}")
    0.006159
    """
    nonnegative_real(epsilon, "epsilon")
    masses = _gaussian_masses(sigma, bounds, sensitivity)
    worst = 0.0
    for t in range(1, min(int(sensitivity), len(masses) - 1) + 1):
        for first, second in ((masses[:-t], masses[t:]), (masses[t:], masses[:-t])):
            worst = max(worst, float(np.max(np.sum(np.maximum(first - math.exp(epsilon) * second, 0.0), axis=1))))
    return worst


def truncated_gaussian_epsilon(delta: float, sigma: float, bounds: tuple[int, int], sensitivity: int = 1) -> float:
    """The smallest epsilon at which `truncated_gaussian_delta` is at most delta; delta = 0 gives the pure epsilon.

    Examples
    --------
    >>> print(f"{truncated_gaussian_epsilon(0.0, 2.0, (0, 10)):.4f}")
    2.1176
    """
    nonnegative_real(delta, "delta")
    masses = np.log(np.maximum(_gaussian_masses(sigma, bounds, sensitivity), 1e-320))
    if np.any(masses < -690.0) and delta == 0.0:
        raise NotImplementedError("sigma is so small that masses underflow: the pure epsilon is above 600 at least")
    pure = max(
        float(np.max(np.abs(masses[t:] - masses[:-t]))) for t in range(1, min(int(sensitivity), len(masses) - 1) + 1)
    )
    if delta == 0.0:
        return pure
    if truncated_gaussian_delta(0.0, sigma, bounds, sensitivity) <= delta:
        return 0.0

    def excess(epsilon: float) -> float:
        return truncated_gaussian_delta(epsilon, sigma, bounds, sensitivity) - delta

    high = min(pure, 700.0)
    root = float(brentq(excess, 0.0, high, xtol=1e-13))
    while excess(root) > 0.0:
        root += 1e-12
    return root


def _gaussian_masses(sigma: float, bounds: Any, sensitivity: int) -> Floats:
    """Masses of every value (columns) for every confidential value (rows)."""
    scale = positive_real(sigma, "sigma")
    positive_integer(sensitivity, "sensitivity")
    low, high = (float(side) for side in bounds)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise NotImplementedError(
            "the loss of truncated discrete Gaussian noise is found by enumeration, which needs two finite bounds; clip "
            "instead of truncating (BoundaryInflatedDiscreteGaussian): that costs what the noise costs"
        )
    finite_array([low, high], "bounds")
    n = int(high - low) + 1
    if n * n * sensitivity > _PAIRS:
        raise NotImplementedError(
            f"bounds {int(low)} and {int(high)} leave {n} values, too many to enumerate all pairs; clip instead of "
            "truncating (BoundaryInflatedDiscreteGaussian): that costs what the noise costs"
        )
    k = np.arange(n, dtype=np.float64)
    weights = np.exp(-0.5 * ((k[None, :] - k[:, None]) / scale) ** 2)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
