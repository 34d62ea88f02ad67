"""What the kernel works on: a table, its prior and its noise, packed into a few arrays whose columns are named here.

Handing an array to numba costs about half a microsecond, so everything that belongs to a cell stands in one row of one array.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._arrays import Floats, Ints, Words
from bayesdp.fibers.moves.moves import MOST_FACTORS, Moves

FLAT, POISSON, NEGBIN, BINOMIAL = 0, 1, 2, 3
FAMILIES = {"flat": FLAT, "poisson": POISSON, "negbin": NEGBIN, "binomial": BINOMIAL}
"""Prior families of a cell, up to a constant in x: theta x (flat); theta x - log x! (Poisson, multinomial);
theta x + log Gamma(x + shape) - log x! (negative binomial, Dirichlet-multinomial); theta x - log x! -
log (n - x)!"""

# Columns of `cells_int`.
X, LOWER, UPPER = 0, 1, 2
# Columns of `cells_float`: exp(theta), theta, shape or n;
EXP_THETA, THETA, SHAPE = 0, 1, 2
# rate, exp(rate), exp(-rate) and location of Laplace noise;
RATE, EXP_RATE, EXP_MINUS_RATE, LOCATION = 3, 4, 5, 6
# precision q and linear term b of Gaussian noise, -q x^2 / 2 + b x;
PRECISION, LINEAR = 7, 8
# exp(-theta); 1 where the Laplace location is not an integer.
EXP_MINUS_THETA, FRACTIONAL = 9, 10
CELL_FLOATS = 11
# Columns of `rows`: current value, noisy value, Laplace rate, Gaussian precision, limits, group of an l2 law or -1.
VALUE, NOISY, ROW_RATE, ROW_PRECISION, ROW_LOWER, ROW_UPPER, GROUP = 0, 1, 2, 3, 4, 5, 6
# A tabulated log-mass: its weight (0: there is none), the first value of its window, how many there are, where they stand in
# `State.windows`, the slopes beyond, and whether it is not log-concave.
WINDOW_WEIGHT, WINDOW_LOW, WINDOW_LENGTH, WINDOW_START = 7, 8, 9, 10
WINDOW_BELOW, WINDOW_ABOVE, WINDOW_BENT = 11, 12, 13
ROW_FLOATS = 14
# Columns of `groups` (l2 laws): rate, squared length of the residual, then scratch for one direction.
GROUP_RATE, SQUARED, ALONG, ACROSS = 0, 1, 2, 3
GROUP_FLOATS = 4

UNBOUNDED = 2**53
"""Stands for no bound on a cell; also the largest count."""

WINDOW = 4096
"""Steps of a direction that are tabulated; wider laws are drawn by rejection or slices."""

ZERO: Any = np.int64(0)
ONE: Any = np.int64(1)
UPWARDS: Any = np.int64(WINDOW)
FAR: Any = np.int64(UNBOUNDED)
"""Arguments of compiled functions: for a 1 that it can read, Numba compiles a function once more. `UPWARDS` is where weights of upward
steps begin."""

NO_WINDOWS, NO_LAWS = np.zeros(0), np.zeros(0, dtype=np.int64)
"""What `State.windows` is where no row has a tabulated log-mass, and `State.laws` where no rows share a perturbation."""

IMPOSSIBLE = -1e9
"""Log-mass of an answer that cannot be, or of answers about the same records with different numbers: no double holds its exponential,
and no other term makes up for it (noise of scale .01 would have to be off by 450). Infinities would turn differences into NaN."""

UNIT_CELLS = 16
"""Directions with at most this many cells, all entries +1 or -1, take the short way in `line`."""


class State(NamedTuple):
    """The argument of the kernel functions in `sweep`: one chain. The tuple is fixed; the kernel writes to its arrays."""

    meta: Ints  # with `cumulative`, `pool`: the directions, see `Moves`; only read, and shared by all chains
    cumulative: Floats
    pool: Ints
    cells_int: Ints  # count and bounds of each cell. The kernel writes the counts, shape (cells, 3)
    cells_float: Floats  # prior parameters and noise of each cell; only read, shape (cells, CELL_FLOATS)
    # `indptr`, `indices`, `entries`: the general noisy or limited rows that see each cell, cell by cell; only read.
    indptr: Ints
    indices: Ints
    entries: Floats
    # Noisy answers that are not single cells, members of l2 laws, limits; the kernel writes their values, shape (rows, ROW_FLOATS).
    rows: Floats
    groups: Floats  # the kernel writes everything but the rates, shape (l2 laws, GROUP_FLOATS)
    windows: Floats  # tabulated log-masses of rows, one after the other; only read
    generator: Words  # state of the random generator; written by every draw, shape (4,)
    # Rows that count once where they are about the same records (`kernel.classes`): codes of cells and laws of rows, only read;
    # classes of the rows, their hash table, work space; the log-mass of one that has another number than its class. Else empty.
    codes: Ints
    laws: Ints
    classes: Ints
    slots: Ints
    met_rows: Ints
    differing: Floats
    scratch_int: Ints  # with `scratch_float`: work space, cut into a `Line`
    scratch_float: Floats
    dense: Ints  # work space that is zero between moves, shape (cells,)
    support: int  # the most cells that a direction can have

    @property
    def counts(self) -> Ints:
        """The table, one count a cell."""
        return self.cells_int[:, X]


class Line(NamedTuple):
    """One direction and the law along it: the work space of a state, cut up."""

    cells: Ints  # with `steps`: the cells of the direction, and its entries there, shape (support,)
    steps: Ints
    # `touched`, `moving`: cells of a sum of directions while it is added up; counts while weights are tabulated, shape (support,).
    touched: Ints
    moving: Ints
    met: Ints  # with `met_steps`: the rows that the direction changes, and by how much a step, shape (most,)
    met_steps: Floats
    mark: Ints  # where a row stands in `met`, plus one; zero between moves, shape (rows,)
    residuals: Floats  # residuals of these rows while weights are tabulated, shape (most,)
    weights: Floats  # tabulated weights of the downward steps, then of the upward steps, shape (2 * WINDOW,)
    # Numbers of the cells of a short direction side by side, see `weights.tabulate_units`, shape (5 * UNIT_CELLS,).
    near: Floats


def new_state(
    cells: int,
    moves: Moves,
    matrix: sp.csr_array | None,
    groups: int,
    windows: Floats = NO_WINDOWS,
    laws: Ints = NO_LAWS,
) -> State:
    """An empty state: counts zero, no bounds, flat prior, no noise."""
    # `moves` fixes the size of the work space. `matrix`, shape (rows, cells): general rows; integers, or real coordinates. `groups`:
    # number of l2 laws. `laws`, shape (rows,): by which law a row shares its perturbation with rows about the same records, or 0.
    cells_int = np.zeros((cells, 3), dtype=np.int64)
    cells_int[:, LOWER], cells_int[:, UPPER] = -UNBOUNDED, UNBOUNDED
    cells_float = np.zeros((cells, CELL_FLOATS))
    cells_float[:, [EXP_THETA, EXP_MINUS_THETA, EXP_RATE, EXP_MINUS_RATE]] = 1.0
    seen = sp.csc_array(matrix) if matrix is not None else sp.csc_array((0, cells), dtype=np.int64)
    rows = np.zeros((seen.shape[0], ROW_FLOATS))
    rows[:, ROW_LOWER], rows[:, ROW_UPPER], rows[:, GROUP] = -np.inf, np.inf, -1
    support = max(64 * moves.longest, 256)
    # Rows that a direction of this support can meet: all of them at most.
    met = min(seen.shape[0], support * int(np.diff(seen.indptr).max(initial=0)))
    return State(
        meta=moves.meta,
        cumulative=moves.cumulative,
        pool=moves.pool,
        cells_int=cells_int,
        cells_float=cells_float,
        indptr=seen.indptr.astype(np.int64),
        indices=seen.indices.astype(np.int64),
        entries=seen.data.astype(np.float64),
        rows=rows,
        groups=np.zeros((groups, GROUP_FLOATS)),
        windows=windows,
        generator=np.ones(4, dtype=np.uint64),
        codes=cell_codes(cells if len(laws) else 0),
        laws=laws,
        classes=np.zeros_like(laws),
        slots=np.zeros((2 ** (2 * len(laws)).bit_length(), 3), dtype=np.int64),
        met_rows=np.zeros((6, met if len(laws) else 0), dtype=np.int64),
        differing=np.full(min(len(laws), 1), IMPOSSIBLE),
        # cells, entries, touched cells and moving counts of a direction; rows met; a mark for each row
        scratch_int=np.zeros(4 * support + met + seen.shape[0], dtype=np.int64),
        # tabulated weights; the cells of one direction side by side; moving values of the rows met, their entries
        scratch_float=np.zeros(2 * WINDOW + 5 * UNIT_CELLS + 2 * met),
        dense=np.zeros(cells, dtype=np.int64),
        support=support,
    )


def cell_codes(cells: int) -> Ints:
    """Random numbers of 64 bits, the same for all tables of this size; sums of them tell sets of cells apart."""
    return np.random.default_rng(20_110_607).integers(-(2**63), 2**63, size=cells, dtype=np.int64)


def set_counts(state: State, counts: npt.ArrayLike) -> None:
    """Put a table into the state, one count a cell, and bring the rows and the l2 residuals up to date."""
    state.cells_int[:, X] = counts
    seen = np.repeat(state.counts, np.diff(state.indptr)) * state.entries
    state.rows[:, VALUE] = np.bincount(state.indices, weights=seen, minlength=len(state.rows))
    member = state.rows[:, GROUP] >= 0
    squares = np.square(state.rows[member, NOISY] - state.rows[member, VALUE])
    owner = state.rows[member, GROUP].astype(np.int64)
    state.groups[:, SQUARED] = np.bincount(owner, weights=squares, minlength=len(state.groups))


def set_prior(state: State, family: str, theta: npt.ArrayLike, shape: npt.ArrayLike = 0.0) -> bool:
    """Write the prior of every cell (see `FAMILIES`)."""
    # `theta`: finite log weights; a cell of weight zero is one with upper bound 0. `shape`: shapes of negative binomial cells, numbers
    # of trials of binomial ones, which bounds are to say besides. Returns whether the prior is log-concave in every cell.
    cells = state.cells_float
    cells[:, THETA] = theta
    with np.errstate(over="ignore"):  # the kernel takes another way where a weight overflows
        cells[:, EXP_THETA], cells[:, EXP_MINUS_THETA] = np.exp(cells[:, THETA]), np.exp(-cells[:, THETA])
    cells[:, SHAPE] = shape
    return family != "negbin" or bool(np.min(cells[:, SHAPE], initial=np.inf) >= 1.0)


def clear_noise(state: State) -> None:
    """Take all noise away from the single cells."""
    set_laplace(state, 0.0, 0.0)
    state.cells_float[:, [PRECISION, LINEAR]] = 0.0


def set_laplace(state: State, rate: npt.ArrayLike, location: npt.ArrayLike) -> None:
    """Write Laplace noise of the single cells, ``-rate |location - x|``."""
    # There is room for one such term a cell. `rate`: per count; 0 where there is no noise. `location`: any finite real numbers.
    cells = state.cells_float
    cells[:, RATE] = rate
    with np.errstate(over="ignore"):  # the kernel takes another way where a factor overflows
        cells[:, EXP_RATE], cells[:, EXP_MINUS_RATE] = np.exp(cells[:, RATE]), np.exp(-cells[:, RATE])
    cells[:, LOCATION] = location
    cells[:, FRACTIONAL] = cells[:, LOCATION] != np.rint(cells[:, LOCATION])


def add_gaussian(state: State, precision: npt.ArrayLike, centre: npt.ArrayLike) -> None:
    """Add Gaussian noise of the single cells, ``-precision (centre - x)**2 / 2``; several terms add up."""
    state.cells_float[:, PRECISION] += np.asarray(precision)
    state.cells_float[:, LINEAR] += np.multiply(precision, centre)


LONGEST = 6
"""A walk has at most this many labels of each of its two factors: 4 cells for each."""


class OccupiedMoves(NamedTuple):
    """The families of directions that are drawn by looking at which cells are not 0, and the list of these cells."""

    factors: Ints  # 1 (pairs), 2 (squares) or 3 (cubes), shape (families,)
    place: Ints  # of each cell its label of each factor, -1 where it does not move, shape (families, 3, cells)
    start: Ints  # where the labels of a factor begin in the next three, shape (families, 3)
    # `offset`, `first`, `last`: of each label: what it adds to the number of a cell, and where the labels begin and end that it may
    # be exchanged with.
    offset: Ints
    first: Ints
    last: Ints
    occupied: Ints  # work space: the cells above their lower bounds come first, shape (cells,)
    where: Ints  # work space: where each of them stands there; -1 for others, shape (cells,)
    whole: Ints  # how many of the families, those that come first, keep all answers of a set, shape (1,)
    nodes: Ints  # work space: the labels of a walk


def occupied_moves_of(moves: Moves, cells: int) -> OccupiedMoves:
    """The families of up to three factors among the directions that keep precise noisy answers."""
    rows = moves.looking
    place = np.full((len(rows), MOST_FACTORS, cells), -1, dtype=np.int64)
    start = np.zeros((len(rows), MOST_FACTORS), dtype=np.int64)
    offsets, firsts, lasts = ([np.zeros(0, dtype=np.int64)] for _ in range(3))
    used = 0
    for family, row in enumerate(rows):
        grid = np.zeros((), dtype=np.int64)
        for factor in range(row[1]):
            size, at, members, bounds = row[2 + 4 * factor : 6 + 4 * factor]
            added = moves.pool[at : at + size]
            classes = moves.pool[members : members + size]
            offsets.append(added)
            firsts.append(moves.pool[bounds + classes])
            lasts.append(moves.pool[bounds + classes + 1])
            start[family, factor] = used
            used += int(size)
            grid = grid[..., None] + added
        for factor in range(row[1]):
            labels = np.arange(grid.shape[factor])
            place[family, factor, grid] = labels.reshape([-1 if axis == factor else 1 for axis in range(grid.ndim)])
    return OccupiedMoves(
        factors=np.array([row[1] for row in rows], dtype=np.int64),
        place=place,
        start=start,
        offset=np.concatenate(offsets),
        first=np.concatenate(firsts),
        last=np.concatenate(lasts),
        occupied=np.zeros(cells, dtype=np.int64),
        where=np.full(cells, -1, dtype=np.int64),
        whole=np.array([moves.whole], dtype=np.int64),
        nodes=np.zeros(2 * LONGEST + 2, dtype=np.int64),
    )
