"""Exact samplers of noise on a lattice, each with its acceptance rate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bayesdp.invariants import Invariants
from bayesdp.lattices.exact.fixed_sum import draw_fixed_sums
from bayesdp.lattices.exact.gram_schmidt import gram_schmidt
from bayesdp.lattices.exact.klein import draw_klein, klein_acceptance
from bayesdp.lattices.exact.lines import draw_lines, has_lines
from bayesdp.lattices.exact.nearest_plane import draw_nearest_plane, nearest_plane_acceptance
from bayesdp.lattices.exact.pieces import LaplacePiece, laplace_pieces
from bayesdp.lattices.parts import General, lattice_parts

__all__ = ["Exact", "exact_sampler"]

type Ints = npt.NDArray[np.int64]

_TRIES_A_CALL = 100_000
"""Expected proposals in one call of a kernel, which cannot be interrupted."""

_LARGEST_MATRIX = 4_000_000
"""General parts whose matrix has more entries are not tried."""

WORDS = {
    "lines": "independent discrete noise along orthogonal directions of the lattice",
    "fixed-sum": "difference of two uniform compositions of a random common mass in each block",
    "two-way": "exact rows of a table, rejection on their column sums, and the last two rows given these",
    "three-way": "exact slices of a table, and rejection on the last one",
    "groups": "independent cells, and rejection on the sums of exchangeable cells that they leave",
    "nearest-plane": "real noise rounded to nearest planes, with rejection",
    "klein": "randomised nearest planes, with rejection",
}
"""What each sampler does."""


@dataclass(frozen=True, eq=False)
class Exact:
    """An exact sampler.

    Parameters
    ----------
    name : str
        Of `WORDS`, or several of them joined by " + " where the lattice falls into parts of several kinds.
    acceptance : float
        Acceptance rate in the worst part of the lattice: computed (a lower bound) or estimated.
    words : str
        What is done, in a sentence.
    draw : callable
        From a generator and a number of draws, an int64 array, shape (draws, cells).
    """

    name: str
    acceptance: float
    words: str
    draw: Callable[[np.random.Generator, int], Ints]

    def in_pieces(self, rng: np.random.Generator, size: int) -> Ints:
        """Draw with many short calls of the kernel, between which the work can be interrupted."""
        most = max(1, math.ceil(_TRIES_A_CALL * self.acceptance))
        if size <= most:
            return self.draw(rng, size)
        return np.concatenate([self.draw(rng, min(most, size - done)) for done in range(0, size, most)])


@lru_cache(maxsize=256)
def exact_sampler(invariants: Invariants, law: str, scale: float) -> Exact | None:
    """The exact sampler for a law, however low its acceptance rate; None where there is none.

    Parameters
    ----------
    invariants : Invariants
    law : {"l1", "l2", "gaussian"}
    scale : float

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> sampler = exact_sampler(Invariants(Margins(table, ["county"], ["education"])), "l2", 0.25)
    >>> sampler.name, round(sampler.acceptance, 3)
    ('nearest-plane', 0.646)
    """
    if has_lines(invariants, law):
        return _named(["lines"], 1.0, lambda rng, size: draw_lines(invariants, law, scale, rng, size))
    if law == "l1":
        return _laplace(invariants, scale)
    lattice = gram_schmidt(invariants)
    if lattice is None:
        return None
    if law == "l2":
        share = nearest_plane_acceptance(lattice, scale)
        return _named(["nearest-plane"], share, lambda rng, size: draw_nearest_plane(lattice, scale, rng, size)[0])
    share = klein_acceptance(lattice, scale)
    return _named(["klein"], share, lambda rng, size: draw_klein(lattice, scale, rng, size)[0])


def _named(names: list[str], acceptance: float, draw: Callable[[np.random.Generator, int], Ints]) -> Exact:
    return Exact(" + ".join(names), acceptance, "; ".join(WORDS[name] for name in names), draw)


def _laplace(invariants: Invariants, epsilon: float) -> Exact | None:
    blocks = invariants.blocks
    if blocks is not None:
        return _named(["fixed-sum"], 1.0, lambda rng, size: draw_fixed_sums(blocks, epsilon, rng, size))
    parts = lattice_parts(invariants)
    if any(isinstance(part, General) and math.prod(part.matrix.shape) > _LARGEST_MATRIX for part in parts):
        return None
    pieces = laplace_pieces(parts, epsilon)
    # Lines are named only where there is nothing else.
    names = [name for name in WORDS if any(piece.name == name for piece in pieces)]
    names = [name for name in names if name != "lines"] or ["lines"]
    cells = invariants.frame.size
    share = min(piece.acceptance for piece in pieces)
    return _named(names, share, lambda rng, size: _together(pieces, cells, rng, size))


def _together(pieces: list[LaplacePiece], cells: int, rng: np.random.Generator, size: int) -> Ints:
    out = np.zeros((size, cells), dtype=np.int64)
    for piece in pieces:
        out[:, piece.cells] = piece.draw(rng, size)[:, piece.sources] * piece.factors
    return out
