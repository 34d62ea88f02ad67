"""Integrals of ``exp(-sum_i |u_i + r_i w| / b)`` over a line, with gradient, and draws from such a density.

The exponent is piecewise linear in w: its knots are ``-u_i / r_i``, and at each knot the slope grows by
``2 |r_i| / b``. So the integral is a sum of closed-form pieces after one sort. The exponent is measured from
its lowest knot, the weighted median, and grows outwards from there: only numbers of one sign are added, nothing
overflows, ties need no care. Gao, Gong and Yu (2022), Section 3.4, leave this density open.

With B pieces of mass ``M_j`` and F the share of the mass to the left of a knot, the derivative with respect to
``u_i`` is ``-sign(r_i) (1 - 2 F(-u_i / r_i)) / b``; it is continuous, so ties and kinks need no choice.

The row space of invariants: a sparse basis of it, and how it falls apart into components.

The projected Laplace law: independent Laplace noise, projected onto the subspace that the invariants leave free.

Integrals of ``exp(-sum_i |u_i + (R^T w)_i| / b)`` over a plane or a space, for small components of rank 2 and 3.

The innermost integral is in closed form (`bayesdp.noise.subspace.projected_laplace`). As a function of the other coordinates what
remains is log-concave, and analytic between kinks: the coordinates of the corners of the arrangement of the planes
``u_i + (R^T w)_i = 0``. So Gauss and Legendre's rule is used between all kinks, on pieces over which the logarithm
changes little, where it is accurate to rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from flint import fmpz_mat
from scipy.sparse.csgraph import connected_components

from bayesdp._nested import NestedAxis, NestedSums
from bayesdp._numba import nb
from bayesdp._random import exponential, uniform
from bayesdp.invariants import Invariants
from bayesdp.noise.arrays import positive_number
from bayesdp.noise.base import KernelForm, LossByLength, exponential_loss
from bayesdp.noise.subspace.base import SubspaceLaw, share_of_projection
from bayesdp.queries import Query

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

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
        own = u[cells[i]]
        value -= abs(own) / b
        along -= abs(own)
        gradient[cells[i]] = -np.sign(own) / b
    # The law at b is that at 1 stretched b times, so the derivative in b is -(n + u . gradient) / b.
    return value, -(len(cells) - blocks + along / b) / b


@nb.njit(cache=True, error_model="numpy")
def line_integrals(offsets: Floats, entries: Floats, b: float) -> Floats:
    """Logarithms of the integrals of ``exp(-sum_i |u_i + r_i w| / b)`` over w, for many u."""
    # `offsets`, shape (many, cells): the u. `entries`, shape (cells,): the r; zeros are allowed, but not everywhere.
    used = np.flatnonzero(entries)
    weights = np.abs(entries[used])
    knots, masses = np.empty(len(used)), np.empty(len(used) + 1)
    out = np.empty(len(offsets))
    for k in range(len(offsets)):
        depth = 0.0
        for i in range(len(entries)):
            if entries[i] == 0.0:
                depth += abs(offsets[k, i])
        for i in range(len(used)):
            knots[i] = -offsets[k, used[i]] / entries[used[i]]
        centre, total, _, _ = _pieces(knots, weights, order_of(knots), b, masses)
        for i in range(len(used)):
            depth += weights[i] * abs(knots[i] - centre)
        out[k] = math.log(total) - depth / b
    return out


@nb.njit(cache=True, error_model="numpy")
def draw_on_line(knots: Floats, weights: Floats, b: float, masses: Floats, generator: npt.NDArray[np.uint64]) -> float:
    """Draw w with density proportional to ``exp(-sum_i weight_i |w - knot_i| / b)``, exactly."""
    # `knots`, `weights`, shape (cells,). `masses`, shape (cells + 1 at least,): scratch. `generator`, shape (4,): state of the
    # random generator, see `bayesdp._random`.
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


@dataclass(frozen=True, eq=False)
class Component:
    """A connected set of m cells (`cells`) with the invariants that meet it (`rows`, independent, shape (rank, m))."""

    cells: Ints
    rows: sp.csr_array


@dataclass(frozen=True, eq=False)
class Components:
    """The row space of invariants as a direct sum over disjoint sets of cells.

    Parameters
    ----------
    starts : int array, shape (blocks + 1,)
        Where the components of rank 1 start in `cells`; from ``starts[-1]`` on there are cells in no invariant.
    cells, entries : arrays
        The cells, and their entries in the row of their block.
    log_volume : float
        Sum of the logarithms of the lengths of these rows.
    wide : tuple of Component
        The components of higher rank.
    """

    starts: Ints
    cells: Ints
    entries: Floats
    log_volume: float
    wide: tuple[Component, ...]


@lru_cache(maxsize=16)
def components_of(invariants: Invariants) -> Components:
    """Split the row space of invariants into components: sets of cells that no basis row joins.

    For disjoint totals and for general matrices no finer splitting exists: two rows of the reduced echelon form share cells
    only within one indecomposable summand of the row space.
    """
    size = invariants.frame.size
    if invariants.blocks is not None:
        order = np.argsort(invariants.blocks, kind="stable").astype(np.int64)
        order = np.roll(order, -int(np.sum(invariants.blocks < 0)))  # cells in no block last
        used = order[: int(np.sum(invariants.blocks >= 0))]
        starts = np.flatnonzero(np.diff(invariants.blocks[used], prepend=-1, append=size)).astype(np.int64)
        sizes = np.diff(starts)
        return Components(starts, order, np.ones(size), 0.5 * float(np.sum(np.log(sizes))), ())
    rows = row_basis(invariants) if invariants.nested is not None else _echelon_rows(invariants)
    count = rows.shape[0]
    _, label = connected_components(sp.bmat([[None, rows], [rows.T, None]]), directed=False)
    rank = np.bincount(label[:count], minlength=label.max() + 1)
    label_of_cell = label[count:]
    narrow = np.flatnonzero(rank == 1)
    lists = [np.flatnonzero(label_of_cell == k).astype(np.int64) for k in narrow]
    row_of = {int(label[i]): i for i in range(count)}
    found = [rows[[row_of[int(k)]]].toarray()[0, cells] for k, cells in zip(narrow, lists, strict=True)]
    free = np.flatnonzero(rank[label_of_cell] == 0).astype(np.int64)
    wide = []
    for k in np.flatnonzero(rank > 1):
        cells = np.flatnonzero(label_of_cell == k).astype(np.int64)
        wide.append(Component(cells, sp.csr_array(rows[np.flatnonzero(label[:count] == k)][:, cells])))
    return Components(
        np.cumsum([0, *map(len, lists)], dtype=np.int64),
        np.concatenate([*lists, free]).astype(np.int64),
        np.concatenate([*found, np.ones(len(free))]),
        sum(math.log(float(np.linalg.norm(row))) for row in found),
        tuple(wide),
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

    For margins and totals they are chosen by structure. Along each dimension every class has a *birth level*: its own
    level, or if it is the first class within its parent, the birth level of the parent. For a total (level 0) and three
    labels (level 1) the labels have birth levels 0, 1, 1: given the total, the sums of the second and the third label
    determine that of the first. With several dimensions the sum over a product of classes is left out if an earlier query
    has, in every dimension, at least the birth level of its class: it follows from that query and the sums that are in
    the basis. As many sums are left as the rank.
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
    """The rows of `row_basis` that meet each cell, and their entries; shape (cells, most rows that meet a cell).

    Cells that fewer rows meet have entries 0 at the end.
    """
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
def log_gram(invariants: Invariants) -> float:
    """Logarithm of ``det(R R^T)`` for the rows R of `row_basis`."""
    if invariants.nested is not None:
        return _nested_log_gram(invariants.nested)
    rows = row_basis(invariants)
    if not rows.shape[0]:
        return 0.0
    return float(np.sum(np.log(np.abs(spl.splu(sp.csc_matrix(rows @ rows.T)).U.diagonal()))))


def _nested_log_gram(nested: NestedSums) -> float:
    """Logarithm of ``det(R R^T)`` in closed form, for margins and totals.

    The rows R are an integer basis of the lattice that the sums span. Another one is, for each component of the row space (a
    level in each dimension), the indicators of the products of classes with these birth levels; two integer bases of one
    lattice have the same determinant. Against orthonormal contrasts the second basis is triangular in the components, with
    Kronecker products on the diagonal. One dimension and level, with classes of sizes n_k and their parents of sizes N_p,
    contribute the factor ``prod n_k / prod N_p``.
    """
    ratios = []
    for axis in nested.axes:
        logs = [float(np.sum(np.log(np.bincount(code)))) for code in axis.codes]
        ratios.append(np.diff(logs, prepend=0.0))
    total = 0.0
    for component in nested.components:
        size = nested.component_size(component)
        for axis, ratio, level in zip(nested.axes, ratios, component, strict=True):
            if size:
                total += size / (axis.classes[level] - (axis.classes[level - 1] if level else 0)) * float(ratio[level])
    return total


MAX_RANK = 3
"""Highest rank of a component for which integrals are nested."""

_CORNERS = 3000  # most corners of an arrangement; each is an end of a piece

_DROP = 3.0
"""Largest change of the logarithm over a piece: Gauss and Legendre's rule then errs by less than 1e-18 on exponentials."""

_DEPTH = 45.0
"""Pieces are left out where the integrand is below ``exp(-45) = 3e-20`` of its peak."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


def within_reach(rank: int, cells: int) -> bool:
    """Whether a component is small enough for nested integrals."""
    return rank <= MAX_RANK and comb(cells, rank) <= _CORNERS


def log_integral(u: Floats, rows: Floats, b: float) -> float:
    """Logarithm of the integral over w; accurate to about 1e-12 (1e-9 is promised). `rows`, R: linearly independent small integers."""
    if len(rows) == 1:
        return float(line_integrals(u[None, :], rows[0], b)[0])

    def height(at: Floats) -> Floats:
        shifted = u + at[:, None] * rows[-1]
        if len(rows) == 2:
            return line_integrals(shifted, rows[0], b)
        return np.array([log_integral(own, rows[:-1], b) for own in shifted])

    ends, heights = _flat_pieces(_kinks(u, rows), height, b / float(np.max(np.abs(rows[-1]))))
    half = 0.5 * np.diff(ends)
    centre = 0.5 * (ends[1:] + ends[:-1])
    top = float(np.max(heights))
    seen = np.flatnonzero(np.maximum(heights[1:], heights[:-1]) > top - _DEPTH)
    values = np.exp(height((centre[seen, None] + half[seen, None] * _NODES).reshape(-1)) - top)
    return top + float(np.log(np.sum(half[seen] * (values.reshape(-1, len(_NODES)) @ _WEIGHTS))))


def _kinks(u: Floats, rows: Floats) -> Floats:
    """Last coordinates of the corners of the arrangement: points w where as many terms ``u_i + (R^T w)_i`` as its rank are 0."""
    rank, cells = rows.shape
    chosen = np.array(list(combinations(range(cells), rank)))
    systems = rows.T[chosen]
    chosen, systems = _regular(chosen, systems)
    return np.unique(np.linalg.solve(systems, -u[chosen][..., None])[:, -1, 0])


def _regular(chosen: npt.NDArray[np.int64], systems: Floats) -> tuple[npt.NDArray[np.int64], Floats]:
    """Keep the systems with a unique solution; determinants of integers are integers."""
    regular = np.abs(np.linalg.det(systems)) > 0.5
    return chosen[regular], systems[regular]


def _flat_pieces(kinks: Floats, height, scale: float) -> tuple[Floats, Floats]:  # type: ignore[no-untyped-def]
    """Split the axis at the kinks and until the logarithm changes little on every piece that counts."""
    ends, heights = kinks, height(kinks)
    reach = scale
    # Concave: once the ends are low enough, what is outside of them is negligible.
    while min(heights[0], heights[-1]) > heights.max() - 2.0 * _DEPTH or heights.max() in (heights[0], heights[-1]):
        outer = np.array([ends[0] - reach, ends[-1] + reach])
        ends = np.concatenate([outer[:1], ends, outer[1:]])
        more = height(outer)
        heights = np.concatenate([more[:1], heights, more[1:]])
        reach *= 2.0
    open_ = np.ones(len(ends) - 1, dtype=np.bool_)
    while np.any(open_):
        which = np.flatnonzero(open_)
        middle = 0.5 * (ends[which] + ends[which + 1])
        found = height(middle)
        low, high = heights[which], heights[which + 1]
        top = max(float(np.max(heights)), float(np.max(found)))
        # A concave function on a piece exceeds its ends at most by how far its middle is above their mean.
        bulge = found - 0.5 * (low + high)
        flat = (np.abs(high - low) <= _DROP) & (bulge <= 0.25 * _DROP)
        buried = np.maximum(low, high) + 2.0 * bulge < top - _DEPTH
        buried |= middle == ends[which]  # no number between the ends
        split = ~(flat | buried)
        order = np.argsort(np.concatenate([np.arange(len(ends), dtype=np.float64), which[split] + 0.5]), kind="stable")
        ends = np.concatenate([ends, middle[split]])[order]
        heights = np.concatenate([heights, found[split]])[order]
        still = np.zeros(len(open_), dtype=np.bool_)
        still[which[split]] = True
        open_ = np.repeat(still, np.where(still, 2, 1))
    return ends, heights


@dataclass(frozen=True, eq=False)
class ProjectedLaplace(SubspaceLaw):
    r"""Independent Laplace noise of scale b, projected orthogonally onto ``{z : A z = 0}``.

    Unlike projected normal noise it is neither independent in any coordinates nor the unprojected noise given the
    invariants. Its density at u, in orthonormal coordinates of the subspace, is that of all noise that is projected to u:

    .. math:: f(u) = \sqrt{\det R R^T}\; (2b)^{-d} \int \exp\Bigl(-\sum_i |u_i + (R^T w)_i| / b\Bigr)\, dw

    with the rows of R a basis of the row space of A. The integral falls apart where no invariant connects cells. For
    disjoint totals (and any other invariants that meet each cell once) it is one-dimensional in each total and in closed
    form, at the cost of one sort. Components of rank 2 and 3 are integrated numerically, to a relative accuracy of 1e-9,
    while they are small: a 2 x 2 table with its margins has rank 3. Beyond that the density is not available; a model does
    without it by keeping w as a latent variable.

    ========  ==================================================
    Support   tables of real numbers that change no invariant
    Mean      0
    Variance  ``2 b**2`` times the diagonal of the projection
    ========  ==================================================

    Parameters
    ----------
    b : float
        Scale of the noise before it is projected, in counts.

    Raises
    ------
    TypeError, ValueError
        If b is not a positive finite number below 2**46.

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
    everywhere = True
    kernel_form = KernelForm("l1", of_scale=True)
    scale_name = "b"
    relation = (
        "b, the scale before projection: length / epsilon for tables that far apart (l1), if epsilon is their loss"
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", positive_number(self.b, "b"))

    def log_kernel(self, xp: Any, measured: Any, scale: Any, invariants: Invariants) -> float:
        """Log-density of one table of NumPy: the integral is compiled here, and PyTensor has an Op of its own for it.

        Raises
        ------
        NotImplementedError
            If a component of the invariants has a rank above 3, or is too large for numerical integration.
        """
        parts = components_of(invariants)
        flat = measured.reshape(-1)
        density, _ = blocks_density(flat, scale, parts.starts, parts.cells, parts.entries, np.empty(flat.size))
        density += parts.log_volume
        for part in parts.wide:
            rank, cells = part.rows.shape
            if not within_reach(rank, cells):
                raise NotImplementedError(
                    f"the density of projected Laplace noise is not available here: {cells} cells hang together by "
                    f"invariants of rank {rank}, and its integral over {rank} dimensions has no closed form. In a model, "
                    "use bayesdp.distributions.RowSpaceNoise with ProjectedLaplaceGivenRows, which need no integral"
                )
            rows = part.rows.toarray()
            density += 0.5 * float(np.linalg.slogdet(rows @ rows.T)[1])
            density += log_integral(flat[part.cells], rows, scale) - len(part.cells) * math.log(2.0 * scale)
        return float(density)

    def noise(self, rng: np.random.Generator, count: int, invariants: Invariants) -> Floats:
        """Draw Laplace noise, and project it."""
        return invariants.project(rng.laplace(scale=self.b, size=(count, *invariants.frame.shape)))

    def variance(self, shape: tuple[int, ...], invariants: Invariants | None = None) -> Floats | None:
        """Variance of each cell; None for more than 2048 cells, unless the invariants are disjoint totals."""
        kept = share_of_projection(self.needed(invariants, shape))
        return None if kept is None else 2.0 * self.b**2 * kept

    def pair_loss(self, query: Query, invariants: Invariants) -> LossByLength | None:
        """An upper bound at a length: what is projected away hides something too. See `NoiseLaw.pair_loss`."""
        return LossByLength(("pure",), "l1", exponential_loss(1.0 / self.b), tight=False)

    def kernel_of(self, invariants: Invariants | None) -> KernelForm | None:
        """A product where nothing is projected away. See `NoiseLaw.kernel_of`."""
        return self.kernel_form if invariants is None or not invariants.rank else None
