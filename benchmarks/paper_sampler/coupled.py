"""Coupled steps of two chains of paper 002: a maximal coupling of the proposals, one uniform number for both decisions."""

from __future__ import annotations

import math

import numba as nb
import numpy as np
import numpy.typing as npt

from bayesdp._numba import uniform
from bayesdp.lattices.integers import discrete_laplace
from bayesdp.papers.integer_subspace import TRIES, BasisLaw, Meet, count_apart, shift
from benchmarks.paper_sampler.double_geometric import jump_rates, log_ratio, metropolis_update

__all__ = ["coupled_sweep", "metropolis"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Words = npt.NDArray[np.uint64]


@nb.njit(cache=True, error_model="numpy")
def _pair(j: int, rate: float, law: int, scale: float, pointers: Ints, cells: Ints, entries: Ints,
          squares: Ints, z: Ints, gap: int, norms: Ints, generator: Words) -> tuple[int, int]:  # fmt: skip
    start, stop, square = pointers[j], pointers[j + 1], squares[j]
    first = discrete_laplace(generator, rate)
    second = first + gap
    if uniform(generator) >= math.exp(rate * (abs(first) - abs(second))):
        for _ in range(TRIES):
            second = discrete_laplace(generator, rate)
            if uniform(generator) > math.exp(rate * (abs(second) - abs(second - gap))):
                break
    common = math.log(uniform(generator))
    if common >= log_ratio(first, law, scale, z[0], norms[0], cells, entries, start, stop, square):
        first = 0
    if common >= log_ratio(second, law, scale, z[1], norms[1], cells, entries, start, stop, square):
        second = 0
    return first, second


@nb.njit(cache=True, error_model="numpy")
def coupled_sweep(rates: Floats, law: int, scale: float, pointers: Ints, cells: Ints, entries: Ints, squares: Ints, z: Ints,
                  c: Ints, norms: Ints, generator: Words) -> None:  # fmt: skip
    """Sweep both chains together; see `bayesdp.papers.integer_subspace.coupled_sweep`."""
    for j in range(len(squares)):
        gap = c[0, j] - c[1, j]
        first, second = _pair(j, rates[j], law, scale, pointers, cells, entries, squares, z, gap, norms, generator)
        c[0, j] += first
        c[1, j] += second
        start, stop = pointers[j], pointers[j + 1]
        if first != 0:
            norms[0] = shift(first, z[0], norms[0], cells, entries, start, stop, squares[j])
        if second != 0:
            norms[1] = shift(second, z[1], norms[1], cells, entries, start, stop, squares[j])


@nb.njit(cache=True, error_model="numpy")
def _meet(meetings: Ints, lag: int, horizon: int, rates: Floats, law: int, scale: float, pointers: Ints, own: Ints,
          entries: Ints, squares: Ints, cells: int, generator: Words) -> None:  # fmt: skip
    n = len(squares)
    z, c, norms = np.empty((2, cells), np.int64), np.empty((2, n), np.int64), np.empty(2, np.int64)
    for r in range(len(meetings)):
        z[:], c[:], norms[:] = 0, 0, 0
        for _ in range(lag):
            for j in range(n):
                k, norms[0], _ = metropolis_update(
                    j, rates[j], law, scale, pointers, own, entries, squares, z[0], norms[0], generator
                )
                c[0, j] += k
        t = lag
        while count_apart(c) > 0 and t < horizon:
            coupled_sweep(rates, law, scale, pointers, own, entries, squares, z, c, norms, generator)
            t += 1
        meetings[r] = t if count_apart(c) == 0 else 0


def metropolis(a: float | Floats) -> Meet:
    """Pairs of chains with jump parameter a, for `bayesdp.papers.integer_subspace.couple`."""

    def meet(meetings: Ints, lag: int, horizon: int, target: BasisLaw, generator: Words) -> None:
        _meet(meetings, lag, horizon, jump_rates(target, a), *target.arrays, target.cells, generator)

    return meet
