"""Exact noise on lattices that are orthogonal sums of lines: free cells, or one free number."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb
from bayesdp._random import seed_state
from bayesdp.invariants import Invariants
from bayesdp.lattices.integers import discrete_gaussian, discrete_laplace
from bayesdp.moves.basis import kernel_basis

type Ints = npt.NDArray[np.int64]


def has_lines(invariants: Invariants, law: str) -> bool:
    """Whether the noise is a product of laws of single integers.

    So it is where at most one integer is free (a 2x2 table with its margins), and where no invariant sees any
    cell, unless the law ties the cells together (l2).
    """
    return invariants.dimension <= 1 or (invariants.rank == 0 and law != "l2")


def draw_lines(
    invariants: Invariants, law: str, scale: float, rng: np.random.Generator, size: int
) -> npt.NDArray[np.int64]:
    """Draw noise ``z = j u`` along every line u: j is discrete Laplace or discrete Gaussian noise.

    Parameters and result are those of `bayesdp.lattices.gibbs.draw_gibbs`, without its sweeps.
    """
    basis = kernel_basis(invariants)
    steps = np.empty((size, basis.shape[0]), dtype=np.int64)
    if steps.size:
        # All vectors have the same length: they are unit vectors, or there is only one.
        first = basis[[0]].data.astype(np.float64)
        length = float(np.abs(first).sum()) if law == "l1" else math.sqrt(float(np.square(first).sum()))
        if law == "gaussian":
            _fill_gaussian(seed_state(rng), scale / length, steps)
        else:
            _fill_laplace(seed_state(rng), scale * length, steps)
    return np.asarray((basis.T @ steps.T).T, dtype=np.int64)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _fill_laplace(state: npt.NDArray[np.uint64], rate: float, out: Ints) -> None:
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = discrete_laplace(state, rate)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _fill_gaussian(state: npt.NDArray[np.uint64], sigma: float, out: Ints) -> None:
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = discrete_gaussian(state, sigma)
