"""The projected Laplace law, and the row space of invariants: a sparse basis, its components, and Laplace noise along its lines.

Projected noise ``u = P e`` and ``R^T w``, the part of e in the row space (R a basis of it, see `row_basis`), have the joint density
``prod_i Lap((u + R^T w)_i) sqrt(det R R^T)``. Along any direction of the row space it is the exponential of a piecewise linear
function, which is integrated, and from which a step is drawn, exactly.

Integrals of ``exp(-sum_i |u_i + r_i w| / b)`` over a line: the knots of the exponent are ``-u_i / r_i``, and at each knot the slope
grows by ``2 |r_i| / b``. So the integral is a sum of closed-form pieces after one sort. The exponent is measured from
its lowest knot, the weighted median, and grows outwards from there: only numbers of one sign are added, nothing
overflows, ties need no care. Gao, Gong and Yu (2022), Section 3.4, leave this density open.

With B pieces of mass ``M_j`` and F the share of the mass to the left of a knot, the derivative with respect to
``u_i`` is ``-sign(r_i) (1 - 2 F(-u_i / r_i)) / b``; it is continuous, so ties and kinks need no choice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from flint import fmpz_mat
from scipy.sparse.csgraph import connected_components

from bayesdp._arrays import Floats, Ints, Words
from bayesdp._nested import NestedAxis
from bayesdp._numba import exponential, nb, uniform
from bayesdp.invariants import Invariants
from bayesdp.noise.base import KernelForm, LossByLength, exponential_loss
from bayesdp.noise.subspace.laws import SubspaceLaw
from bayesdp.queries import Query

_NEGLIGIBLE = 50.0
"""Pieces beyond a knot that lies this much below the peak are left out.

They hold less than ``exp(-50) = 2e-22`` of the whole: the exponent is convex, so with h its rise at a knot at
distance l from the peak, what is beyond is at most ``exp(-h) l / h`` and what is before at least
``(1 - exp(-h)) l / h``.
"""

_LARGE = 256  # knots from which NumPy's vectorised sort beats numba's, the call out of compiled code included


@nb.njit(cache=True, error_model="numpy")
def order_of(knots: Floats) -> Ints:
    """Indices that sort the knots."""
    if len(knots) < _LARGE:
        return np.argsort(knots)
    with nb.objmode(order="int64[::1]"):
        order = np.argsort(knots)
    return order


@nb.njit(cache=True, error_model="numpy")
def _pieces(knots: Floats, weights: Floats, order: Ints, b: float, masses: Floats) -> tuple[float, float, int, int]:
    """Integrate between sorted knots: piece j ends at knot `order[j]`, the last one is the right tail."""
    # Returns the knot where the density peaks; the sum of the masses, in units of the density there; and the first and last of the
    # knots, in order, between which all of the mass is, but for tails that begin at the outermost knots. Knots that are not between
    # them differ from both.
    count = len(order)
    whole = 0.0
    for i in range(count):
        whole += weights[i]
    masses[: count + 1] = 0.0
    below, middle = weights[order[0]], 0
    while middle < count - 1 and 2.0 * below < whole:
        middle += 1
        below += weights[order[middle]]
    centre = knots[order[middle]]
    total = 0.0
    first, last = middle, middle
    for side in (1, -1):
        # Slope of the exponent on the way out; multiples of 1 / b, so it is exact up to one rounding.
        turn = 2.0 * below - whole if side == 1 else whole - 2.0 * (below - weights[order[middle]])
        at, here, rise, density = middle, centre, 0.0, 1.0
        while rise <= _NEGLIGIBLE:
            slope = turn / b
            following = at + side
            piece = at + 1 if side == 1 else at
            if following < 0 or following == count:
                masses[piece] = density / slope
                total += masses[piece]
                break
            there = knots[order[following]]
            gap = side * (there - here)
            step = gap * slope
            if step > 1e-280:
                change = math.expm1(-step)
                masses[piece] = -density * change / slope
                density += density * change
                rise += step
            else:  # a flat piece, or a tie
                masses[piece] = density * gap
            total += masses[piece]
            at, here = following, there
            turn += 2.0 * weights[order[at]]
        first, last = min(first, at), max(last, at)
    while first > 0 and knots[order[first - 1]] == knots[order[first]]:
        first -= 1
    while last < count - 1 and knots[order[last + 1]] == knots[order[last]]:
        last += 1
    return centre, total, first, last


@nb.njit(cache=True, error_model="numpy")
def blocks_density(
    u: Floats, b: float, starts: Ints, cells: Ints, entries: Floats, gradient: Floats
) -> tuple[float, float]:
    """Log-density of projected Laplace noise whose constraints are single rows on disjoint cells."""
    # `u`, shape (cells,): noise; what it has off the subspace is ignored. `starts`, shape (blocks + 1,): where the blocks start in
    # `cells`; those from `starts[-1]` on are in none. `cells`, `entries`, shape (cells,): the cells of each block, and their
    # entries in its row (not zero). `gradient`, shape (cells,): filled with the derivative in u. Returns `value`, without the
    # constant `sum over blocks of log ||row||`; `derivative`, in b.
    blocks = len(starts) - 1
    longest = 0
    for block in range(blocks):
        longest = max(longest, starts[block + 1] - starts[block])
    knots, weights, masses = np.empty(longest), np.empty(longest), np.empty(longest + 1)
    value, along = -len(cells) * math.log(2.0 * b), 0.0
    for block in range(blocks):
        first = starts[block]
        count = starts[block + 1] - first
        for i in range(count):
            knots[i] = -u[cells[first + i]] / entries[first + i]
            weights[i] = abs(entries[first + i])
        order = order_of(knots[:count])
        centre, total, low, high = _pieces(knots, weights, order, b, masses)
        # Most knots of a long block have all of the mass on one side: a pass in the order of the cells for those, because
        # going through a long block in the order of its knots would miss the cache at every step.
        below, above = knots[order[low]], knots[order[high]]
        depth, left = 0.0, 0.0
        for i in range(count):
            distance = weights[i] * abs(knots[i] - centre)
            depth += distance
            if knots[i] < below or knots[i] > above:
                along -= distance
                gradient[cells[first + i]] = (
                    (-entries[first + i] if knots[i] < below else entries[first + i]) / weights[i] / b
                )
        for j in range(low, high + 1):
            i = order[j]
            left += masses[j]
            balance = 1.0 - 2.0 * (left / total)
            gradient[cells[first + i]] = (-balance if entries[first + i] > 0.0 else balance) / b
            along += weights[i] * (knots[i] - centre) * balance
        value += math.log(total) - depth / b
    for i in range(starts[blocks], len(cells)):
        free = u[cells[i]]
        value -= abs(free) / b
        along -= abs(free)
        gradient[cells[i]] = -np.sign(free) / b
    # The law at b is that at 1 stretched b times, so the derivative in b is -(n + u . gradient) / b.
    return value, -(len(cells) - blocks + along / b) / b


@nb.njit(cache=True, error_model="numpy")
def draw_on_line(knots: Floats, weights: Floats, b: float, masses: Floats, generator: Words) -> float:
    """Draw w with density proportional to ``exp(-sum_i weight_i |w - knot_i| / b)``, exactly."""
    # `knots`, `weights`, shape (cells,). `masses`, shape (cells + 1 at least,): scratch. `generator`, shape (4,): state of the
    # random generator, see `bayesdp._numba`.
    count = len(knots)
    order = order_of(knots)
    _, total, _, _ = _pieces(knots, weights, order, b, masses)
    left = uniform(generator) * total
    piece = 0
    while piece < count and left >= masses[piece]:
        left -= masses[piece]
        piece += 1
    slope = 0.0
    for j in range(count):
        slope += weights[order[j]] if j < piece else -weights[order[j]]
    slope /= b
    if piece == 0 or piece == count:
        end: float = knots[order[max(piece - 1, 0)]]
        return end + exponential(generator) / slope
    # Inside, a truncated exponential that falls away from one end.
    low: float = knots[order[piece - 1]]
    high: float = knots[order[piece]]
    gap = high - low
    step = gap * abs(slope)
    share = uniform(generator)
    if step > 1e-280:
        share = -math.log1p(share * math.expm1(-step)) / step
    return low + gap * share if slope >= 0.0 else high - gap * share


class Components(NamedTuple):
    """The row space of invariants as a direct sum over disjoint sets of cells, each with one row: components of rank 1."""

    starts: Ints  # where components start in `cells`; from the last one on there are cells in no invariant
    cells: Ints
    entries: Floats  # of each cell in the row of its component
    log_volume: float  # sum of the logarithms of the lengths of these rows
    # Rank and cells of a component of higher rank; where there is one, the rest says nothing.
    wide: tuple[int, int] | None

    def check(self) -> None:
        """Raise NotImplementedError where there is a component of higher rank: over it the density is an integral."""
        if self.wide is not None:
            rank, cells = self.wide
            raise NotImplementedError(
                f"projected Laplace noise has no closed-form density here: {cells} cells hang together by invariants of rank "
                f"{rank}. Use RowSpaceNoise and ProjectedLaplaceGivenRows from bayesdp.distributions, which have the same "
                "law with a latent variable"
            )


@lru_cache(maxsize=16)
def components_of(invariants: Invariants) -> Components:
    """Split the row space of invariants into components: sets of cells that no basis row joins.

    For disjoint totals and for general matrices no finer splitting exists: two rows of the reduced echelon form share cells
    only within one indecomposable summand of the row space.
    """
    wide, size = None, invariants.frame.size
    if invariants.blocks is not None:
        component, entries = invariants.blocks, np.ones(size)
    else:
        rows = row_basis(invariants) if invariants.nested is not None else _echelon_rows(invariants)
        _, label = connected_components(sp.bmat([[None, rows], [rows.T, None]]), directed=False)
        rank, cells = (np.bincount(part, minlength=label.max() + 1) for part in np.split(label, [rows.shape[0]]))
        largest = int(np.argmax(rank))
        if rank[largest] > 1:
            wide = int(rank[largest]), int(cells[largest])
        of_cell = label[rows.shape[0] :]
        component, entries = np.where(rank[of_cell] > 0, of_cell, -1), rows.sum(axis=0)
    order = np.argsort(component, kind="stable").astype(np.int64)
    order = np.roll(order, -int(np.sum(component < 0)))  # cells in no component last
    used = order[: int(np.sum(component >= 0))]
    starts = np.flatnonzero(np.diff(component[used], prepend=-1, append=size + invariants.rank)).astype(np.int64)
    squares = np.add.reduceat(entries[used] ** 2, starts[:-1])
    return Components(
        starts, order, np.where(component < 0, 1.0, entries)[order], 0.5 * float(np.sum(np.log(squares))), wide
    )


def _echelon_rows(invariants: Invariants) -> sp.csr_array:
    """The reduced echelon form of a general matrix, its rows scaled to coprime integers."""
    # Cells with equal columns have equal columns in the echelon form too: one of each is enough.
    columns, back = np.unique(invariants.matrix.toarray(), axis=1, return_inverse=True)
    reduced, _, rank = fmpz_mat(columns.astype(int).tolist()).rref()
    rows = [[int(v) for v in row] for row in reduced.tolist()[:rank]]
    coprime = np.array([[v // math.gcd(*row) for v in row] for row in rows], dtype=np.float64)
    return sp.csr_array(coprime.reshape(rank, columns.shape[1])[:, back.reshape(-1)])


@lru_cache(maxsize=16)
def row_basis(invariants: Invariants) -> sp.csr_array:
    """Linearly independent, sparse rows that span the row space; float64, shape (rank, cells).

    Along each dimension every class has a *birth level*: its own level, or that of its parent if it is the first class within it
    (the sums of the others determine its own). A sum over a product of classes is left out if an earlier query has, in every
    dimension, at least the birth level of its class: it follows from that query and the sums in the basis.
    """
    nested = invariants.nested
    if nested is None:
        return sp.csr_array(invariants.matrix[invariants.independent_rows]).astype(np.float64)
    births = [_births(axis) for axis in nested.axes]
    rows: list[sp.csr_array] = []
    earlier: list[tuple[int, ...]] = []
    for top in nested.generators:
        shape = tuple(axis.classes[level] for axis, level in zip(nested.axes, top, strict=True))
        birth = np.meshgrid(*(b[level] for b, level in zip(births, top, strict=True)), indexing="ij")
        chosen = np.ones(shape, dtype=np.bool_)
        for other in earlier:
            chosen &= ~np.all([b <= level for b, level in zip(birth, other, strict=True)], axis=0)
        codes = np.meshgrid(*(axis.codes[level] for axis, level in zip(nested.axes, top, strict=True)), indexing="ij")
        row_of_cell = np.ravel_multi_index(tuple(code.reshape(-1) for code in codes), shape)
        number = np.full(chosen.size, -1, dtype=np.int64)
        number[chosen.reshape(-1)] = np.arange(int(chosen.sum()))
        cells = np.flatnonzero(number[row_of_cell] >= 0)
        entries = (np.ones(len(cells)), (number[row_of_cell[cells]], cells))
        rows.append(sp.csr_array(entries, shape=(int(chosen.sum()), len(row_of_cell))))
        earlier.append(top)
    return sp.csr_array(sp.vstack(rows))


@lru_cache(maxsize=16)
def rows_of_cells(invariants: Invariants) -> tuple[Ints, Floats]:
    """The rows of `row_basis` that meet each cell, and their entries, 0 at the end; shape (cells, most rows that meet a cell)."""
    columns = row_basis(invariants).tocsc()
    counts = np.diff(columns.indptr)
    places = np.zeros((len(counts), int(counts.max(initial=0))), dtype=np.int64)
    entries = np.zeros(places.shape)
    cell = np.repeat(np.arange(len(counts)), counts)
    rank = np.arange(len(cell)) - columns.indptr[cell]
    places[cell, rank], entries[cell, rank] = columns.indices, columns.data
    return places, entries


def _births(axis: NestedAxis) -> list[Ints]:
    """For each level of a dimension, the birth level of each of its classes (see `row_basis`)."""
    births = [np.zeros(1, dtype=np.int64)]
    for level in range(1, len(axis.codes)):
        parent = np.empty(axis.classes[level], dtype=np.int64)
        parent[axis.codes[level]] = axis.codes[level - 1]
        first = np.zeros(len(parent), dtype=np.bool_)
        first[np.unique(parent, return_index=True)[1]] = True
        births.append(np.where(first, births[-1][parent], level))
    return births


@lru_cache(maxsize=16)
def _gram_factor(invariants: Invariants) -> spl.SuperLU:
    rows = row_basis(invariants)
    return spl.splu(sp.csc_matrix(rows @ rows.T))


def log_gram(invariants: Invariants) -> float:
    """Logarithm of ``det(R R^T)`` for the rows R of `row_basis`."""
    if invariants.nested is not None:
        return invariants.nested.log_gram
    return float(np.sum(np.log(np.abs(_gram_factor(invariants).U.diagonal())))) if invariants.rank else 0.0


_AT_ONCE = 256  # rows whose coordinates are held densely at a time


class RowDirections(NamedTuple):
    """Directions in the row space, as tables and as coordinates w; each a sparse matrix in parts (pointers, places, entries).

    All rows of the invariants, redundant ones too: without those, steps are short where rows and columns could rise and
    fall against each other.
    """

    cell_starts: Ints
    cells: Ints
    cell_entries: Floats
    w_starts: Ints
    places: Ints
    w_entries: Floats


def row_coordinates(invariants: Invariants, values: Floats | sp.csr_array) -> Floats:
    """Coordinates w, shape (n, rank), of what invariants of rank 1 at least see of tables, shape (n, cells): that is ``R^T w``."""
    rows = row_basis(invariants)
    seen = rows @ values.T
    return np.asarray(_gram_factor(invariants).solve(seen.toarray() if sp.issparse(seen) else seen).T)


@lru_cache(maxsize=16)
def directions_of(invariants: Invariants) -> RowDirections:
    """Directions for `sweep`."""
    tables = sp.csr_array(invariants.matrix[np.diff(invariants.matrix.indptr) > 0]).astype(np.float64)
    found = []
    for first in range(0, tables.shape[0], _AT_ONCE):
        w = row_coordinates(invariants, tables[first : first + _AT_ONCE])
        # In a basis of rows most coordinates of a row are zero, but for rounding.
        found.append(sp.csr_array(np.where(np.abs(w) > 1e-9 * np.max(np.abs(w), axis=1, keepdims=True), w, 0.0)))
    coordinates = sp.csr_array(sp.vstack(found))
    return RowDirections(
        tables.indptr.astype(np.int64),
        tables.indices.astype(np.int64),
        tables.data,
        coordinates.indptr.astype(np.int64),
        coordinates.indices.astype(np.int64),
        coordinates.data,
    )


@nb.njit(cache=True, error_model="numpy")
def sweep(noise: Floats, w: Floats, b: float, directions: RowDirections, sweeps: int, generator: Words) -> None:
    """Draw a step of noise ``u + R^T w``, shape (cells,), and of w, both changed, along every direction in turn, `sweeps` times."""
    cell_starts, cells, cell_entries, w_starts, places, w_entries = directions
    longest = 0
    for k in range(len(cell_starts) - 1):
        longest = max(longest, cell_starts[k + 1] - cell_starts[k])
    knots, weights, masses = np.empty(longest), np.empty(longest), np.empty(longest + 1)
    for _ in range(sweeps):
        for k in range(len(cell_starts) - 1):
            first = cell_starts[k]
            count = cell_starts[k + 1] - first
            for i in range(count):
                entry = cell_entries[first + i]
                knots[i] = -noise[cells[first + i]] / entry
                weights[i] = abs(entry)
            step = draw_on_line(knots[:count], weights[:count], b, masses, generator)
            for i in range(count):
                noise[cells[first + i]] += step * cell_entries[first + i]
            for i in range(w_starts[k], w_starts[k + 1]):
                w[places[i]] += step * w_entries[i]


@dataclass(frozen=True, eq=False)
class ProjectedLaplace(SubspaceLaw):
    r"""Independent Laplace noise of scale b, projected orthogonally onto ``{z : A z = 0}``.

    Unlike projected normal noise it is neither independent in any coordinates nor the unprojected noise given the
    invariants. Its density at u, in orthonormal coordinates of the subspace, is that of all noise that is projected to u:

    .. math:: f(u) = \sqrt{\det R R^T}\; (2b)^{-d} \int \exp\Bigl(-\sum_i |u_i + (R^T w)_i| / b\Bigr)\, dw

    with the rows of R a basis of the row space of A. The integral falls apart where no invariant connects cells. For
    disjoint totals (and any other invariants that meet each cell once) it is one-dimensional in each total and in closed
    form, at the cost of one sort. Elsewhere the density is not available; a model does without it by keeping w as a latent
    variable.

    Parameters
    ----------
    b : float
        Scale of the noise before it is projected, in counts, below 2**46.

    See Also
    --------
    bayesdp.distributions.ProjectedLaplace : the same law as a PyMC distribution.
    bayesdp.distributions.RowSpaceNoise : its latent form, for any invariants.
    bayesdp.ProjectedLaplace : the mechanism that adds this noise; it takes privacy parameters.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Corollary 3.8 and Section 4.

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> pair = Invariants(Totals({"county": ["Alpha", "Beta"]}))
    >>> noise = ProjectedLaplace(b=2.0).draw(np.random.default_rng(1), (2,), 1000, pair)
    >>> bool(np.all(np.abs(noise.sum(axis=1)) < 1e-12))
    True

    Half the difference of two Laplace variables; at zero its density in the coordinate ``sqrt(2) u`` is
    ``sqrt(2) / (4 b)``.

    >>> density = ProjectedLaplace(b=2.0).logp([7.0, 3.0], [7, 3], pair)
    >>> bool(np.isclose(np.exp(density), np.sqrt(2.0) / 8.0))
    True
    """

    b: float

    name = "projected-laplace"
    full_support = True
    kernel_form = KernelForm("l1", of_scale=True)
    scale_name = "b"
    relation = (
        "b, the scale before projection: length / epsilon for tables that far apart (l1), if epsilon is their loss"
    )
    _variance_words = "``2 b**2`` times the diagonal of the projection"

    def log_kernel(self, xp: Any, measured: Any, scale: Any, invariants: Invariants) -> float:
        """Log-density of one table of NumPy: the integral is compiled here, and PyTensor has an Op of its own for it.

        Raises
        ------
        NotImplementedError
            If invariants share cells, as both margins of a table do.
        """
        parts = components_of(invariants)
        parts.check()
        flat = measured.reshape(-1)
        density, _ = blocks_density(flat, scale, parts.starts, parts.cells, parts.entries, np.empty(flat.size))
        return float(density + parts.log_volume)

    def noise(self, rng: np.random.Generator, count: int, invariants: Invariants) -> Floats:
        """Draw Laplace noise, and project it."""
        return invariants.project(rng.laplace(scale=self.b, size=(count, *invariants.frame.shape)))

    def _covariance(self, invariants: Invariants) -> float:
        return 2.0 * self.b**2

    def pair_loss(self, query: Query, invariants: Invariants) -> LossByLength | None:
        """An upper bound at a length: what is projected away hides something too. See `NoiseLaw.pair_loss`."""
        return LossByLength(("pure",), "l1", exponential_loss(1.0 / self.b), tight=False)

    def kernel_of(self, invariants: Invariants | None) -> KernelForm | None:
        """A product where nothing is projected away. See `NoiseLaw.kernel_of`."""
        return self.kernel_form if invariants is None or not invariants.rank else None
