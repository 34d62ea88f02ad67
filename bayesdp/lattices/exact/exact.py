"""Exact samplers of noise on a lattice, each with its acceptance rate.

Exact noise on lattices that are orthogonal sums of lines: free cells, or one free number.

Exact samplers of l1 noise for the parts of a lattice, each with its acceptance rate.

l1 noise on three-way tables with all two-way margins fixed: exact slices, and rejection on the last one.

Every slice along one way is a two-way table with both margins zero, and the slices add up to zero. All but the
last are drawn exactly (`bayesdp.lattices.exact.two_way`) and kept with probability ``exp(-epsilon ||S||_1)``, S their
sum; the last is -S.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb
from bayesdp._random import exponential, seed_state
from bayesdp.invariants import Invariants
from bayesdp.lattices.exact.fixed_sum import draw_fixed_sums
from bayesdp.lattices.exact.gram_schmidt import (
    draw_klein,
    draw_nearest_plane,
    gram_schmidt,
    klein_acceptance,
    nearest_plane_acceptance,
)
from bayesdp.lattices.exact.groups import draw_groups, exchangeable_groups, groups_acceptance
from bayesdp.lattices.exact.two_way import TwoWay, add_two_way, draw_two_way, two_way, two_way_acceptance
from bayesdp.lattices.integers import discrete_gaussian, discrete_laplace
from bayesdp.lattices.parts import General, Line, Part, Table, lattice_parts
from bayesdp.moves.basis import kernel_basis

__all__ = ["Exact", "exact_sampler"]

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

    Parameters and result are those of `bayesdp.lattices.samplers.draw_gibbs`, without its sweeps.
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


type Floats = npt.NDArray[np.float64]
type Words = npt.NDArray[np.uint64]


def three_way_acceptance(plan: TwoWay, slices: int, rng: np.random.Generator, tries: int) -> float:
    """An estimate of the acceptance rate: the mean acceptance probability of simulated proposals."""
    table = np.zeros((slices, plan.rows, plan.columns), dtype=np.int64)
    return float(_trial(seed_state(rng), *plan.arguments, table, tries))


def draw_three_way(plan: TwoWay, slices: int, rng: np.random.Generator, size: int) -> tuple[npt.NDArray[np.int64], int]:
    """Draw noise that changes no two-way margin, with mass proportional to ``exp(-epsilon ||z||_1)``."""
    # `plan`: for one slice. Returns shape (size, slices, rows, columns); how many tries were made.
    out = np.zeros((size, slices, plan.rows, plan.columns), dtype=np.int64)
    return out, int(_fill(seed_state(rng), *plan.arguments, out))


@nb.njit(cache=True, error_model="numpy")
def _slices(
    state: Words, epsilon: float, cumulative: Floats, sines: Floats, cosines: Floats, log_zero: float,
    bounds: Floats, columns: Ints, table: Ints, sums: Ints, products: Floats, bits: Words,
) -> tuple[int, Words]:  # fmt: skip
    """Draw all slices but the last, set the last; the size of the last."""
    last = table[len(table) - 1]
    last[:] = 0
    for i in range(len(table) - 1):
        _, bits = add_two_way(
            state, epsilon, cumulative, sines, cosines, log_zero, bounds, columns, table[i], sums, products, bits
        )
        last -= table[i]
    size = 0
    for value in last.flat:
        size += abs(value)
    return size, bits


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _fill(
    state: Words, epsilon: float, cumulative: Floats, sines: Floats, cosines: Floats, log_zero: float,
    bounds: Floats, out: Ints,
) -> int:  # fmt: skip
    columns = np.arange(out.shape[3])
    sums, products = np.zeros(len(columns), dtype=np.int64), np.zeros(len(sines) // 2 + 1)
    bits = np.zeros(8, dtype=np.uint64)
    tries = 0
    for draw in range(len(out)):
        kept = False
        while not kept:
            tries += 1
            size, bits = _slices(
                state, epsilon, cumulative, sines, cosines, log_zero, bounds, columns, out[draw], sums, products, bits
            )
            kept = exponential(state) > epsilon * size
    return tries


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _trial(
    state: Words, epsilon: float, cumulative: Floats, sines: Floats, cosines: Floats, log_zero: float,
    bounds: Floats, table: Ints, tries: int,
) -> float:  # fmt: skip
    columns = np.arange(table.shape[2])
    sums, products = np.zeros(len(columns), dtype=np.int64), np.zeros(len(sines) // 2 + 1)
    bits = np.zeros(8, dtype=np.uint64)
    total = 0.0
    for _ in range(tries):
        size, bits = _slices(
            state, epsilon, cumulative, sines, cosines, log_zero, bounds, columns, table, sums, products, bits
        )
        total += math.exp(-epsilon * size)
    return total / tries


_TRIAL_CELLS = 400_000
"""Cells drawn to estimate an acceptance rate."""

_TRIALS = (64, 4000)
"""Fewest and most proposals that an acceptance rate is estimated from."""

_SEED = 20231
"""Estimates always see the same random numbers, so that the choice of a sampler is the same every time."""

_WIDEST = 2.0**62
"""Sums of noise times entries of the invariants must be integers of 64 bits."""


@dataclass(frozen=True, eq=False)
class LaplacePiece:
    """A sampler of noise on some cells."""

    name: str
    # Acceptance rate: 1 without rejection, 0 where no proposal of the trial had a positive probability of acceptance.
    acceptance: float
    cells: Ints  # flat cells of the table, shape (n,)
    # `sources`, `factors`: which number of a draw is written into each cell, and what it is multiplied by, shape (n,).
    sources: Ints
    factors: Ints
    # From a generator and a number of draws, an int64 array, shape (draws, numbers).
    draw: Callable[[np.random.Generator, int], Ints]


def laplace_pieces(parts: Sequence[Part], epsilon: float) -> list[LaplacePiece]:
    """Samplers of noise with mass proportional to ``exp(-epsilon ||z||_1)`` that together cover the parts."""
    found = list(_lines([part for part in parts if isinstance(part, Line)], epsilon))
    tables = [part for part in parts if isinstance(part, Table)]
    found += _totals([part for part in tables if len(part.shape) == 1], epsilon)
    for part in parts:
        if isinstance(part, Table) and len(part.shape) == 2:
            found.append(_two_way(part, epsilon))
        elif isinstance(part, Table) and len(part.shape) == 3:
            found.append(_three_way(part, epsilon))
        elif isinstance(part, General):
            found.append(_groups(part, epsilon))
    return found


def _blocks(blocks: Ints, rate: float) -> Callable[[np.random.Generator, int], Ints]:
    return lambda rng, size: draw_fixed_sums(blocks, rate, rng, size)


def _lines(parts: Sequence[Line], epsilon: float) -> Iterator[LaplacePiece]:
    """Multiples of vectors: one piece for each l1 length."""
    lengths = np.array([int(np.abs(part.entries).sum()) for part in parts])
    for length in np.unique(lengths):
        same = [part for part, other in zip(parts, lengths, strict=True) if other == length]
        yield LaplacePiece(
            "lines",
            1.0,
            np.concatenate([part.cells for part in same]),
            np.repeat(np.arange(len(same)), [part.cells.size for part in same]),
            np.concatenate([part.entries for part in same]),
            _blocks(np.full(len(same), -1), epsilon * length),
        )


def _totals(parts: Sequence[Table], epsilon: float) -> Iterator[LaplacePiece]:
    """Fixed totals: one piece for each number of copies."""
    for copies in sorted({part.copies for part in parts}):
        same = [part for part in parts if part.copies == copies]
        blocks = np.repeat(np.arange(len(same)), [part.shape[0] for part in same])
        yield LaplacePiece(
            "fixed-sum",
            1.0,
            np.concatenate([part.cells for part in same], axis=1).ravel(),
            np.tile(np.arange(len(blocks)), copies),
            np.concatenate([part.signs for part in same], axis=1).ravel(),
            _blocks(blocks, epsilon * copies),
        )


def _trials(cells: float) -> int:
    """Number of proposals that an acceptance rate is estimated from, if each has so many cells."""
    return int(np.clip(_TRIAL_CELLS / cells, *_TRIALS))


@lru_cache(maxsize=256)
def _two_way_share(rows: int, columns: int, epsilon: float) -> float:
    trials = _trials(rows * columns)
    return two_way_acceptance(two_way(rows, columns, epsilon), np.random.default_rng(_SEED), trials)


def _two_way(part: Table, epsilon: float) -> LaplacePiece:
    rate = epsilon * part.copies
    axes = (0, 1, 2) if part.shape[0] >= part.shape[1] else (0, 2, 1)
    rows, columns = (part.shape[axis - 1] for axis in axes[1:])
    plan = two_way(rows, columns, rate)
    return LaplacePiece(
        "two-way",
        _two_way_share(rows, columns, rate),
        *_written(part, axes),
        lambda rng, size: draw_two_way(plan, rng, size)[0].reshape(size, rows * columns),
    )


def _written(part: Table, axes: Sequence[int]) -> tuple[Ints, Ints, Ints]:
    """Cells, sources and factors of a table that is drawn with its axes in another order."""
    cells, signs = np.transpose(part.cells, axes).ravel(), np.transpose(part.signs, axes).ravel()
    return cells, np.tile(np.arange(cells.size // part.copies), part.copies), signs


@lru_cache(maxsize=256)
def _three_way_share(slices: int, rows: int, columns: int, epsilon: float) -> float:
    """Acceptance rate of one slice times that of the last slice."""
    inner = _two_way_share(rows, columns, epsilon)
    cells = slices * rows * columns / max(inner, 1e-9)
    if cells > _TRIAL_CELLS:
        return 0.0  # the slices alone take too long
    trials = _trials(cells)
    plan = two_way(rows, columns, epsilon)
    return inner * three_way_acceptance(plan, slices, np.random.default_rng(_SEED), trials)


def _three_way(part: Table, epsilon: float) -> LaplacePiece:
    """Draw slices along the way that gives the highest acceptance rate."""
    rate = epsilon * part.copies
    share, order = -1.0, [0, 1, 2]
    for along in range(3):
        others = sorted((axis for axis in range(3) if axis != along), key=lambda axis: -part.shape[axis])
        kept = _three_way_share(part.shape[along], part.shape[others[0]], part.shape[others[1]], rate)
        if kept > share:
            share, order = kept, [along, *others]
    slices, rows, columns = (part.shape[axis] for axis in order)
    plan = two_way(rows, columns, rate)
    return LaplacePiece(
        "three-way",
        share,
        *_written(part, (0, *(axis + 1 for axis in order))),
        lambda rng, size: draw_three_way(plan, slices, rng, size)[0].reshape(size, slices * rows * columns),
    )


def _groups(part: General, epsilon: float) -> LaplacePiece:
    cells, ones = part.cells, np.ones_like(part.cells)
    groups = exchangeable_groups(part)
    widest = 40.0 * (cells.size + 1) / epsilon
    if groups is None or widest * float(np.abs(groups.relation).sum(axis=1).max(initial=1)) > _WIDEST:
        return LaplacePiece("groups", 0.0, cells, np.arange(cells.size), ones, _never)
    rng = np.random.default_rng(_SEED)
    return LaplacePiece(
        "groups",
        groups_acceptance(groups, epsilon, rng, _trials(cells.size)),
        cells,
        np.arange(cells.size),
        ones,
        lambda rng, size: draw_groups(groups, epsilon, rng, size)[0],
    )


def _never(rng: np.random.Generator, size: int) -> Ints:
    raise NotImplementedError("the invariants have entries that are too large for this sampler")


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
