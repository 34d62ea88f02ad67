"""Noise on a lattice by Gibbs steps along the vectors of a basis, in a fixed order.

Each step draws one coordinate from its exact law given the others (`bayesdp.lattices.coupling.conditional`): nothing is
proposed, rejected or tuned. The order is fixed so that two chains can be coupled (`bayesdp.lattices.coupling.coupling`);
`bayesdp.lattices.gibbs` moves along more directions, in random order, and mixes a little faster, but two such
chains hardly meet.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb
from bayesdp._random import seed_state
from bayesdp._validate import nonnegative_integer, positive_integer
from bayesdp.lattices.coupling.basis_law import BasisLaw, shift
from bayesdp.lattices.coupling.conditional import describe, draw, new_pieces

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Words = npt.NDArray[np.uint64]

_UPDATES = 2_000_000
"""Steps in one call of the kernel, about a second, which cannot be interrupted."""


@nb.njit(cache=True, error_model="numpy")
def gibbs_update(j: int, law: int, scale: float, pointers: Ints, cells: Ints, entries: Ints, squares: Ints, z: Ints,
                 norm: int, pieces: Floats, generator: Words) -> tuple[int, int]:  # fmt: skip
    """Draw coordinate j given the others: the step taken, and the new squared norm of z, which is changed in place."""
    start, stop, square = pointers[j], pointers[j + 1], squares[j]
    describe(law, scale, z, norm, cells, entries, start, stop, square, pieces)
    k = draw(law, scale, square, pieces, generator)
    return k, shift(k, z, norm, cells, entries, start, stop, square)


@nb.njit(cache=True, error_model="numpy")
def _run(out: Ints, z: Ints, skip: int, thin: int, law: int, scale: float, pointers: Ints, cells: Ints, entries: Ints,
         squares: Ints, pieces: Floats, generator: Words) -> None:  # fmt: skip
    norm = 0
    for value in z:
        norm += value * value
    for sweep in range(skip + thin * len(out)):
        for j in range(len(squares)):
            _, norm = gibbs_update(j, law, scale, pointers, cells, entries, squares, z, norm, pieces, generator)
        done = sweep + 1 - skip
        if done > 0 and done % thin == 0:
            out[done // thin - 1] = z


def draw_basis_gibbs(
    target: BasisLaw, rng: np.random.Generator, chains: int = 1, draws: int = 1, *, burn_in: int = 0, thin: int = 1
) -> Ints:
    """Run chains that start at zero.

    Independent noise is the end of many chains: ``chains=size, draws=1, thin=sweeps``.

    Parameters
    ----------
    target : BasisLaw
    rng : numpy.random.Generator
        Seeds the generator of the kernel.
    chains, draws : int
    burn_in : int
        Sweeps before the first draw.
    thin : int
        Sweeps for each draw.

    Returns
    -------
    int64 array, shape (chains, draws, cells)

    Examples
    --------
    >>> from bayesdp.invariants import Invariants
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> target = BasisLaw.of(Invariants(Margins(table, ["county"], ["education"])), "l1", 1.0)
    >>> noise = draw_basis_gibbs(target, np.random.default_rng(1), chains=20_000, thin=12)
    >>> round(float((noise[:, 0, 0] ** 2).mean()), 1)  # enumeration: 0.156
    0.2
    """
    out = np.empty((positive_integer(chains, "chains"), positive_integer(draws, "draws"), target.cells), dtype=np.int64)
    skip, thin = nonnegative_integer(burn_in, "burn_in"), positive_integer(thin, "thin")
    pieces, generator = new_pieces(target.widest), seed_state(rng)
    # Short calls, between which the work can be interrupted.
    sweeps = max(1, _UPDATES // target.dimension)
    for chain in out:
        z = np.zeros(target.cells, dtype=np.int64)
        nothing = chain[:0]
        for done in range(0, skip, sweeps):
            _run(nothing, z, min(sweeps, skip - done), 1, *target.arrays, pieces, generator)
        at_once = max(1, sweeps // thin)
        for done in range(0, len(chain), at_once):
            _run(chain[done : done + at_once], z, 0, thin, *target.arrays, pieces, generator)
    return out
