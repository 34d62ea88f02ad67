"""A cell's log shape in all nodes of a level, moved together with what these scatter around.

In turn they move little: the nodes' log shapes hold their centre, which is a spread between nodes wide, and it holds them,
also where the counts leave both free by much more.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp.hierarchies.priors.gamma_terms import GammaTerms, gamma_terms
from bayesdp.hierarchies.priors.slices import slice_draws

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]


def move_cells(
    eta: Floats,
    misses: Floats,
    centre: tuple[Floats, float, float],
    terms: GammaTerms,
    rng: np.random.Generator,
) -> Floats:
    """Draw a shift of each cell: of its centre, and of its log shapes in all nodes."""
    # `eta`, shape (nodes, C): log shapes. `misses`, shape (nodes, C): sums of `log(1 - u)` over the leaves of a node in which the
    # cell is free. `centre`: of each cell what its log shapes scatter around, shape (C,), and mean and variance of its normal
    # prior. `terms`: of the counts; the shape of node n and cell c is number `n C + c`. Returns shape (C,).
    nodes, cells = eta.shape
    (own, mean, variance), first = centre, np.arange(nodes)[:, None] * cells

    def log_density(shift: Floats, which: Ints) -> Floats:
        moved = eta[:, which] + shift
        gammas = gamma_terms(moved.reshape(-1), (first + which).reshape(-1), terms).reshape(nodes, -1)
        prior = -0.5 * np.square(own[which] + shift - mean) / variance
        return np.asarray(prior + (gammas + np.exp(moved) * misses[:, which]).sum(axis=0))

    above = terms.above[:, 0].reshape(nodes, cells).sum(axis=0)
    return slice_draws(log_density, np.zeros(cells), 2.5 / np.sqrt(1.0 / variance + 0.5 * above), rng)
