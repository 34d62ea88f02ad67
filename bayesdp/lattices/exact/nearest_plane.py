"""Noise with mass ``exp(-epsilon ||z||_2)`` on any lattice: real noise, nearest planes, rejection.

A vector v with density proportional to ``exp(-epsilon ||v||)`` on the space that the lattice spans (a Gamma
radius, a uniform direction) is rounded to the lattice point z of its nearest planes (Babai) and kept with
probability ``exp(-epsilon (||z|| - ||v|| + rho))``. The points that are rounded to z are a half-open box around
it, the same for every z, with no point further off than ``rho = sqrt(sum ||b*_i||**2) / 2``. Hence the
probability is at most one, and z is drawn and kept in proportion to the integral over its box of ``exp(-epsilon
||v||) exp(-epsilon (||z|| - ||v|| + rho))``, which is ``exp(-epsilon ||z||)`` times a constant.

The sum over the lattice times the volume of the box is at least the integral (by Poisson's formula: the Fourier
transform of the density is positive), so at least ``exp(-epsilon rho)`` of the proposals are kept.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb
from bayesdp._random import exponential, seed_state, uniform
from bayesdp.lattices.exact.centred import normal
from bayesdp.lattices.exact.gram_schmidt import GramSchmidt

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Words = npt.NDArray[np.uint64]


def nearest_plane_acceptance(lattice: GramSchmidt, epsilon: float) -> float:
    """A lower bound on the acceptance rate."""
    return math.exp(-epsilon * lattice.reach)


def draw_nearest_plane(
    lattice: GramSchmidt, epsilon: float, rng: np.random.Generator, size: int
) -> tuple[npt.NDArray[np.int64], int]:
    """Draw vectors z of the lattice with mass proportional to ``exp(-epsilon ||z||_2)``."""
    # Returns shape (size, cells); how many proposals were made.
    steps = np.zeros((size, len(lattice.lengths)), dtype=np.int64)
    mu = lattice.triangle
    starts, columns = mu.indptr.astype(np.int64), mu.indices.astype(np.int64)
    tries = _fill(seed_state(rng), epsilon, lattice.reach, lattice.lengths, starts, columns, mu.data, steps)
    return np.asarray((lattice.basis.T @ steps.T).T, dtype=np.int64), int(tries)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _fill(
    state: Words, epsilon: float, reach: float, lengths: Floats, starts: Ints, columns: Ints, mu: Floats, out: Ints
) -> int:
    n = len(lengths)
    point, moved = np.zeros(n), np.zeros(n)
    tries = 0
    for draw in range(out.shape[0]):
        row = out[draw]
        while True:
            tries += 1
            square = 0.0
            for i in range(n):
                point[i] = normal(state)
                square += point[i] * point[i]
            radius = _gamma(state, n) / epsilon
            stretch = radius / math.sqrt(square)
            moved[:] = 0.0  # along each b*_i, how far the planes chosen so far have moved the origin
            size = 0.0
            for i in range(n - 1, -1, -1):
                k = math.floor(point[i] * stretch / lengths[i] - moved[i] + 0.5)
                row[i] = int(k)
                along = (k + moved[i]) * lengths[i]
                size += along * along
                if k != 0.0:
                    for at in range(starts[i], starts[i + 1]):
                        moved[columns[at]] += k * mu[at]
            if exponential(state) > epsilon * (math.sqrt(size) - radius + reach):
                break
    return tries


@nb.njit(cache=True, error_model="numpy")
def _gamma(state: Words, shape: int) -> float:
    """A Gamma draw of rate one and integer shape (Marsaglia and Tsang, 2000)."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(state)
        v = (1.0 + c * x) ** 3
        if v > 0.0 and math.log1p(-uniform(state)) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
            return d * v
