"""Noise on any lattice by a Gibbs sampler: approximate, and nobody certifies its convergence."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._random import seed_state
from bayesdp.fibers.kernel.state import (
    FLAT,
    GROUP,
    GROUP_RATE,
    NOISY,
    State,
    add_gaussian,
    clear_noise,
    new_state,
    set_counts,
    set_laplace,
)
from bayesdp.fibers.kernel.sweep import sweep
from bayesdp.invariants import Invariants
from bayesdp.moves.choosing import moves_for
from bayesdp.moves.moves import Moves


def noise_state(cells: int, moves: Moves, law: str) -> State:
    """Noise as the kernel sees it: a table with a flat prior and no bounds, whose cells have been measured."""
    if law != "l2":
        return new_state(cells, moves, None, 0)
    # One group: the length of all cells together.
    state = new_state(cells, moves, sp.csr_array(sp.eye_array(cells, dtype=np.int64, format="csr")), 1)
    state.rows[:, GROUP] = 0
    return state


def set_law(state: State, law: str, scale: float, location: npt.ArrayLike) -> None:
    """Write the law of the noise, see `draw_gibbs`, around a location of shape () or (cells,)."""
    if law == "l2":
        state.rows[:, NOISY] = location
        state.groups[:, GROUP_RATE] = scale
    elif law == "l1":
        set_laplace(state, scale, location)
    else:
        clear_noise(state)
        add_gaussian(state, 1.0 / scale**2, location)


def draw_gibbs(
    invariants: Invariants, law: str, scale: float, rng: np.random.Generator, size: int, sweeps: int
) -> npt.NDArray[np.int64]:
    """Draw noise that changes no invariant, each draw the end of a chain of its own that starts at zero."""
    # A step draws a direction of the lattice at random and then the multiple of it from its exact conditional law, so that the law
    # of the noise is the one stationary law. Any lattice is connected by steps of its moves: there are no bounds here that could
    # block one. How close the end of a chain is to that law is not known. `law`: mass proportional to `exp(-scale ||z||_1)`,
    # `exp(-scale ||z||_2)` or `exp(-||z||_2**2 / (2 scale**2))`. `sweeps`: length of each chain; a sweep has as many steps as the
    # lattice has dimensions. Returns shape (size, cells).
    moves = moves_for(invariants, compute=False)
    state = noise_state(invariants.frame.size, moves, law)
    set_law(state, law, scale, 0.0)
    state.generator[:] = seed_state(rng)
    draws = np.empty((size, invariants.frame.size), dtype=np.int64)
    for i in range(size):
        set_counts(state, 0)
        sweep(draws[i : i + 1], sweeps * invariants.dimension, FLAT, True, state)
    return draws
