"""Sums of ``log(r + a b)`` over the free cells of a line, as functions of the effect a of the line and the effects b across."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb

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
def cell_terms(log_effect: Floats, log_shape: Floats, which: Ints, across: Floats, lines: Lines) -> Floats:
    """``sum over free cells of (x + r) log(1 + a b / r)`` for lines numbered `which` that have a shape r each."""
    # `log_effect`, `log_shape`: logarithms of a and r, one for each of `which`. `across`, shape (m,): the effects b.
    free, start, place, value = lines
    out = np.empty(len(which))
    for j in range(len(which)):
        i, shape = which[j], math.exp(log_shape[j])
        a = math.exp(log_effect[j] - log_shape[j])
        logs, product = 0.0, 1.0
        for c in range(len(across)):
            # Logarithms of products: a logarithm costs as much as a dozen products.
            product *= 1.0 + a * across[c] if free[i, c] else 1.0
            if product > 1e150:
                logs += math.log(product)
                product = 1.0
        total = shape * (logs + math.log(product))
        for e in range(start[i], start[i + 1]):
            total += value[e] * math.log1p(a * across[place[e]])
        out[j] = total
    return out


@nb.njit(cache=True, error_model="numpy")
def area_terms(log_effect: Floats, which: Ints, across: Floats, shapes: Floats, lines: Lines) -> Floats:
    """The same sums for lines across which the shapes differ."""
    # `log_effect`: logarithms of a, one for each of `which`. `across`, `shapes`, shape (m,): the effects b, and the shapes.
    free, start, place, value = lines
    ratio = across / shapes
    out = np.empty(len(which))
    for j in range(len(which)):
        i, a = which[j], math.exp(log_effect[j])
        total = 0.0
        for c in range(len(across)):
            if free[i, c]:
                total += shapes[c] * math.log1p(a * ratio[c])
        for e in range(start[i], start[i + 1]):
            total += value[e] * math.log1p(a * ratio[place[e]])
        out[j] = total
    return out
