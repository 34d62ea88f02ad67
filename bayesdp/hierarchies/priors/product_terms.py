"""Sums of ``log(r + a b)`` over the free cells of a line, as functions of the effect a of the line and the effects b across."""

from __future__ import annotations

import math
from typing import NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

__all__ = ["Lines", "lines_of", "product_terms"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Mask = npt.NDArray[np.bool_]


class Lines(NamedTuple):
    """The counts of n lines (leaves, or cells) across m others.

    Parameters
    ----------
    free : bool array, shape (n, m)
    start : int64 array, shape (n + 1,)
    place, value : int64 arrays
        Free counts that are not zero, and where they are across: ``start[i] .. start[i + 1] - 1`` for line i.
    """

    free: Mask
    start: Ints
    place: Ints
    value: Ints


def lines_of(counts: Ints, free: Mask) -> Lines:
    """The rows of a table as lines."""
    line, place = np.nonzero(counts * free)
    start = np.concatenate([[0], np.cumsum(np.bincount(line, minlength=len(counts)))]).astype(np.int64)
    return Lines(np.ascontiguousarray(free), start, place.astype(np.int64), counts[line, place])


@nb.njit(cache=True, error_model="numpy")
def product_terms(log_effect: Floats, which: Ints, across: Floats, lines: Lines, shape: float) -> Floats:
    """``sum over free cells of (x + r) log(1 + a b / r)`` for the lines numbered `which`.

    Parameters
    ----------
    log_effect : float64 array
        Logarithms of a, one for each of `which`.
    across : float64 array, shape (m,)
        The effects b.
    """
    free, start, place, value = lines
    out = np.empty(len(which))
    for j in range(len(which)):
        i = which[j]
        a = math.exp(log_effect[j]) / shape
        logs, product = 0.0, 1.0
        for c in range(len(across)):
            # Logarithms of products: a logarithm costs as much as a dozen products.
            product *= 1.0 + a * across[c] if free[i, c] else 1.0
            if product > 1e150:
                logs += math.log(product)
                product = 1.0
        total = shape * (logs + math.log(product))
        for e in range(start[i], start[i + 1]):
            total += value[e] * math.log(1.0 + a * across[place[e]])
        out[j] = total
    return out
