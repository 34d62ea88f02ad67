"""Coupled steps of two chains on one lattice: each moves as it would alone, and both go to the same place if they can.

A coordinate of the two chains is updated by a maximal coupling of its two conditional laws, in basis coordinates, by
rejection: draw v from the first law p and keep it for both chains with probability ``min(1, q(v) / p(v))``; else draw w
from the second law q until ``U q(w) > p(w)`` (Jacob, O'Leary and Atchadé, 2020, Algorithm 2). Chains that agree in all
coordinates stay together from then on.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb
from bayesdp._random import uniform
from bayesdp.lattices.coupling.basis_gibbs import gibbs_update
from bayesdp.lattices.coupling.basis_law import shift
from bayesdp.lattices.coupling.conditional import describe, draw, log_mass

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Words = npt.NDArray[np.uint64]

TRIES = 1_000_000
"""Laws that are the same but for rounding leave nothing that only the second one has. To get there takes an event of
probability 1e-16, and the search for a remainder that does not exist must then end: any draw of the second law will do."""


@nb.njit(cache=True, error_model="numpy")
def sweep_alone(law: int, scale: float, pointers: Ints, cells: Ints, entries: Ints, squares: Ints, z: Ints, c: Ints,
                norm: int, pieces: Floats, generator: Words) -> int:  # fmt: skip
    """Sweep one chain with cells z and coordinates c; returns its squared norm."""
    for j in range(len(squares)):
        k, norm = gibbs_update(j, law, scale, pointers, cells, entries, squares, z, norm, pieces, generator)
        c[j] += k
    return norm


@nb.njit(cache=True, error_model="numpy")
def _pair(j: int, law: int, scale: float, pointers: Ints, cells: Ints, entries: Ints, squares: Ints, z: Ints,
          gap: int, norms: Ints, pieces: Floats, generator: Words) -> tuple[int, int]:  # fmt: skip
    """Steps of both chains; `gap` is the coordinate of the first minus that of the second."""
    start, stop, square = pointers[j], pointers[j + 1], squares[j]
    describe(law, scale, z[0], norms[0], cells, entries, start, stop, square, pieces[0])
    describe(law, scale, z[1], norms[1], cells, entries, start, stop, square, pieces[1])
    first = draw(law, scale, square, pieces[0], generator)
    p = log_mass(first, law, scale, z[0], cells, entries, start, stop, square, pieces[0])
    q = log_mass(first + gap, law, scale, z[1], cells, entries, start, stop, square, pieces[1])
    if q >= p or uniform(generator) < math.exp(q - p):
        return first, first + gap
    second = 0
    for _ in range(TRIES):
        second = draw(law, scale, square, pieces[1], generator)
        q = log_mass(second, law, scale, z[1], cells, entries, start, stop, square, pieces[1])
        p = log_mass(second - gap, law, scale, z[0], cells, entries, start, stop, square, pieces[0])
        if p < q and uniform(generator) > math.exp(p - q):
            break
    return first, second


@nb.njit(cache=True, error_model="numpy")
def coupled_sweep(law: int, scale: float, pointers: Ints, cells: Ints, entries: Ints, squares: Ints, z: Ints, c: Ints,
                  norms: Ints, pieces: Floats, generator: Words) -> None:  # fmt: skip
    """Sweep both chains together."""
    # `law`, `scale`, `pointers`, `cells`, `entries`, `squares`: `BasisLaw.arrays`. `z`, shape (2, cells). `c`, shape (2, n).
    # `norms`, shape (2,). `pieces`, shape (2, ...): two of `bayesdp.lattices.coupling.conditional.new_pieces`. `generator`, shape
    # (4,).
    for j in range(len(squares)):
        gap = c[0, j] - c[1, j]
        first, second = _pair(j, law, scale, pointers, cells, entries, squares, z, gap, norms, pieces, generator)
        c[0, j] += first
        c[1, j] += second
        start, stop = pointers[j], pointers[j + 1]
        if first != 0:
            norms[0] = shift(first, z[0], norms[0], cells, entries, start, stop, squares[j])
        if second != 0:
            norms[1] = shift(second, z[1], norms[1], cells, entries, start, stop, squares[j])


@nb.njit(cache=True, error_model="numpy")
def count_apart(c: Ints) -> int:
    """Number of coordinates in which two chains differ; none if and only if they are at the same point."""
    apart = 0
    for j in range(c.shape[1]):
        if c[0, j] != c[1, j]:
            apart += 1
    return apart
