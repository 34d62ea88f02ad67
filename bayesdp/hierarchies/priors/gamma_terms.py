"""Sums of ``log Gamma(x + a) - log Gamma(a)`` over the counts that share a shape a, as functions of a."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Mask = npt.NDArray[np.bool_]

_SMALL = 16
"""``Gamma(x + a) / Gamma(a)`` is ``a (a + 1) ... (a + x - 1)``: so many factors are counted, the others are one Stirling series,
whose argument is then at least this, which makes its error below 1e-11."""


class GammaTerms(NamedTuple):
    """Counts by the shape that they have, n shapes.

    Parameters
    ----------
    above : int64 array, shape (n, 16)
        How many counts are above 0, 1, ..., 15.
    start : int64 array, shape (n + 1,)
    large : float64 array
        Counts above 16 of shape i: ``large[start[i]:start[i + 1]]``.
    """

    above: Ints
    start: Ints
    large: Floats


@nb.njit(cache=True, error_model="numpy")
def gather(counts: Ints, free: Mask, row: Ints, column: Ints, n: int) -> GammaTerms:
    """Sort the free counts, shape (T, C), by shape: that of leaf t and cell c is number ``row[t] + column[c]`` of n."""
    above = np.zeros((n, _SMALL), dtype=np.int64)
    start = np.zeros(n + 1, dtype=np.int64)
    leaves, cells = counts.shape
    for t in range(leaves):
        for c in range(cells):
            x = counts[t, c]
            if x > 0 and free[t, c]:
                i = row[t] + column[c]
                above[i, min(x, _SMALL) - 1] += 1
                if x > _SMALL:
                    start[i + 1] += 1
    for i in range(n):
        for k in range(_SMALL - 2, -1, -1):
            above[i, k] += above[i, k + 1]
        start[i + 1] += start[i]
    large = np.empty(start[n])
    place = start[:-1].copy()
    for t in range(leaves):
        for c in range(cells):
            x = counts[t, c]
            if x > _SMALL and free[t, c]:
                i = row[t] + column[c]
                large[place[i]] = x
                place[i] += 1
    return GammaTerms(above, start, large)


@nb.njit(cache=True, error_model="numpy")
def _stirling(z: float) -> float:
    """``log Gamma(z)`` up to a constant, for z of 16 and more (Abramowitz and Stegun, 6.1.40)."""
    w = 1.0 / z
    w2 = w * w
    return (z - 0.5) * math.log(z) - z + w * (1.0 / 12.0 - w2 * (1.0 / 360.0 - w2 * (1.0 / 1260.0 - w2 / 1680.0)))


@nb.njit(cache=True, error_model="numpy")
def gamma_terms(log_shape: Floats, which: Ints, terms: GammaTerms) -> Floats:
    """The sums for the shapes numbered `which`, at the shapes ``exp(log_shape)``."""
    above, start, large = terms
    out = np.zeros(len(which))
    for j in range(len(which)):
        i = which[j]
        if above[i, 0] == 0:
            continue
        a = math.exp(log_shape[j])
        total = above[i, 0] * log_shape[j]  # log a, also where a is too small for a float
        for k in range(1, _SMALL):
            if above[i, k] == 0:
                break
            total += above[i, k] * math.log(a + k)
        many = start[i + 1] - start[i]
        if many:
            for e in range(start[i], start[i + 1]):
                total += _stirling(large[e] + a)
            total -= many * _stirling(_SMALL + a)
        out[j] = total
    return out
