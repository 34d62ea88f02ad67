"""Gaussian noise on any lattice: randomised nearest planes (Klein), with the rejection that makes it exact.

The coordinates in a basis are drawn from the last to the first, each a discrete Gaussian around the centre that
the later ones leave, with scale ``sigma / ||b*_i||``. The mass of what is drawn is the Gaussian mass of the
vector, divided by the sum of each one-dimensional mass around its centre; keeping it with the product of these
sums over their largest values, those at centre zero, leaves the Gaussian mass alone (Brakerski, Langlois,
Peikert, Regev and Stehle, 2013, Lemma 2.3; without the rejection: Gentry, Peikert and Vaikuntanathan, 2008, used
in Theorem 16 of Dharangutte et al.). Each factor is known before its coordinate is drawn, so a vector is given
up as soon as it can be. Orthogonal pieces of the lattice are drawn apart.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb
from bayesdp._random import seed_state, uniform
from bayesdp.lattices.exact.centred import centred_gaussian, mass_ratio
from bayesdp.lattices.exact.gram_schmidt import GramSchmidt

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Words = npt.NDArray[np.uint64]


def klein_acceptance(lattice: GramSchmidt, sigma: float) -> float:
    """A lower bound on the acceptance rate of the worst orthogonal piece of the lattice.

    The share is the Gaussian sum over the piece, divided by the product of the one-dimensional sums at centre
    zero. That sum is at least the integral (Poisson), and at least one, the mass of the zero vector.
    """
    scales = sigma / lattice.lengths
    sums = np.log([_sum_at_zero(float(s)) for s in np.unique(scales)])[np.unique(scales, return_inverse=True)[1]]
    # A single direction is never rejected: its centre is zero.
    integral = np.log(scales * math.sqrt(2.0 * math.pi))
    starts = lattice.pieces[:-1]
    bound = np.maximum(np.add.reduceat(integral, starts), 0.0) - np.add.reduceat(sums, starts)
    bound[np.diff(lattice.pieces) == 1] = 0.0
    return float(np.exp(min(bound.min(), 0.0)))


def _sum_at_zero(sigma: float) -> float:
    if sigma >= 1.0:
        j = np.arange(1, 4)
        return sigma * math.sqrt(2.0 * math.pi) * (1.0 + 2.0 * float(np.exp(-2.0 * (math.pi * sigma * j) ** 2).sum()))
    return 1.0 + 2.0 * float(np.exp(-0.5 * (np.arange(1, 10) / sigma) ** 2).sum())


def draw_klein(
    lattice: GramSchmidt, sigma: float, rng: np.random.Generator, size: int
) -> tuple[npt.NDArray[np.int64], int]:
    """Draw vectors z of the lattice with mass proportional to ``exp(-||z||_2**2 / (2 sigma**2))``."""
    # Returns shape (size, cells); number of proposals, over all pieces.
    steps = np.zeros((size, len(lattice.lengths)), dtype=np.int64)
    scales = sigma / lattice.lengths
    waves = np.exp(-2.0 * (math.pi * scales) ** 2)
    mu = lattice.triangle
    starts, columns = mu.indptr.astype(np.int64), mu.indices.astype(np.int64)
    tries = _fill(seed_state(rng), scales, waves, starts, columns, mu.data, lattice.pieces, steps)
    return np.asarray((lattice.basis.T @ steps.T).T, dtype=np.int64), int(tries)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _fill(
    state: Words, scales: Floats, waves: Floats, starts: Ints, columns: Ints, mu: Floats, pieces: Ints, out: Ints
) -> int:
    centres = np.zeros(len(scales))
    tries = 0
    for draw in range(out.shape[0]):
        row = out[draw]
        for piece in range(len(pieces) - 1):
            low, high = pieces[piece], pieces[piece + 1]
            kept = False
            while not kept:
                tries += 1
                kept = True
                centres[low:high] = 0.0
                for i in range(high - 1, low - 1, -1):
                    ratio = mass_ratio(centres[i], scales[i], waves[i])
                    if ratio < 1.0 and uniform(state) >= ratio:
                        kept = False
                        break
                    k = centred_gaussian(state, centres[i], scales[i])
                    row[i] = k
                    if k != 0:
                        for at in range(starts[i], starts[i + 1]):
                            centres[columns[at]] -= k * mu[at]
    return tries
