r"""Exact draws for the hull of all substitutions: l1 noise on the cells, with rejection on the part that is not seen.

Let p_i be the coordinates of cell i, and K the hull of all ``p_i - p_j``. Then ``||v||_K`` is half the least l1 norm of a
table w with sum zero and coordinates v: half the sum of absolute residuals R(v) of a fit to v by what the invariants see,
least in that sense (for both margins, a fit by row and column effects: Tukey's median polish, to the end).

So draw w with sum zero and density proportional to ``exp(-epsilon ||w||_1 / 2)``, let v be its coordinates, and accept v with
probability ``exp(-epsilon (||R(v)||_1 + ||w - R(v)||_1 - ||w||_1) / 2)``. This is a probability by the triangle inequality;
and since ``u = w - R(v)`` runs through one and the same space whatever v is, the accepted pairs (v, u) have density
proportional to ``exp(-epsilon ||v||_K) exp(-epsilon ||u||_1 / 2)``. So v has the density that is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

from bayesdp._numba import nb
from bayesdp.hulls.base import Hull
from bayesdp.hulls.generators import Generators, differences
from bayesdp.hulls.proposals import Proposal
from bayesdp.hulls.simplex import SOLVED, solve
from bayesdp.invariants import Invariants

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

LEAST_LIFTED = 3e-5
"""Share of proposals that must be accepted; a proposal takes some tens of microseconds."""

_PILOT = 2000
_WORK = 3e6  # work of one call of compiled code, in cubes of the dimension: under a second
_SAME = 1e-9
_CELLS = 200  # of which there are 19,900 pairs


@dataclass(frozen=True, eq=False)
class Lift:
    """Rejection from l1 noise on the cells, for the hull of all differences of their coordinates."""

    invariants: Invariants
    generators: Generators  # the differences
    acceptance: float  # estimated share of proposals that are accepted. It depends on neither the rate nor any data

    def draw(self, epsilon: float, rng: np.random.Generator, size: int) -> Floats:
        """Draw points in coordinates, with density proportional to ``exp(-epsilon ||v||_K)``, shape (size, n)."""
        n = self.generators.dimension
        kept = np.empty((size, n))
        found = 0
        batch = max(1, int(_WORK / n**3))
        while found < size:
            points, excess, _ = _propose(self.invariants, self.generators, 0.5 * epsilon, rng, batch)
            chosen = points[rng.standard_exponential(batch) >= 0.5 * epsilon * excess][: size - found]
            kept[found : found + len(chosen)] = chosen
            found += len(chosen)
        return kept


@lru_cache(maxsize=8)
def lift_of(hull: Hull, invariants: Invariants) -> Lift | None:
    """Set up the sampler; None for other hulls, and where too few proposals would be accepted.

    Acceptance is estimated from 2000 proposals of a generator with a fixed seed, so that the answer is always the same. The
    l1 norm of a proposal is independent of its direction, and is integrated over.
    """
    generators = substitutions_of(hull, invariants)
    if generators is None:
        return None
    cells = invariants.frame.size
    _, excess, sizes = _propose(invariants, generators, 1.0, np.random.default_rng(0), _PILOT)
    share = float(np.mean((1.0 + excess / sizes) ** (1.0 - cells)))
    return Lift(invariants, generators, share) if share >= LEAST_LIFTED else None


@lru_cache(maxsize=8)
def substitutions_of(hull: Hull, invariants: Invariants) -> Generators | None:
    """The vertices as differences of the coordinates of two cells, which linear programs search faster; None if they are not."""
    cells = invariants.frame.size
    if cells > _CELLS or hull.dimension != invariants.dimension:
        return None
    units = invariants.coordinates(np.eye(cells).reshape(cells, *invariants.frame.shape))
    first, second = np.triu_indices(cells, 1)
    expected, vertices = units[first] - units[second], hull.vertices
    near = _SAME * float(np.max(np.abs(vertices)))
    for these, those in ((vertices, expected), (expected, vertices)):
        distance, _ = cKDTree(np.concatenate([those, -those])).query(these[np.max(np.abs(these), axis=1) > near])
        if np.any(distance > near):
            return None
    return differences(units)


def _propose(
    invariants: Invariants, generators: Generators, rate: float, rng: np.random.Generator, size: int
) -> tuple[Floats, Floats, Floats]:
    """Coordinates of tables w of l1 noise, their ``||R(v)||_1 + ||w - R(v)||_1 - ||w||_1``, and their ``||w||_1``."""
    cells = invariants.frame.size
    tables = Proposal(np.zeros(cells, dtype=np.int64), None, "").draw(rate, rng, size)
    points = invariants.coordinates(tables.reshape(-1, *invariants.frame.shape))
    excess = np.empty(size)
    solved = _excess(
        generators.kind,
        generators.vectors,
        generators.shape,
        *generators.start,
        points / generators.scale,
        tables,
        excess,
    )
    if not solved:
        raise ArithmeticError("a least absolute fit was not found: rounding errors took over (not seen so far)")
    return points, excess, np.sum(np.abs(tables), axis=1)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _excess(
    kind: int, vectors: Floats, shape: Ints, corners: Floats, inverse: Floats, ends: Ints, points: Floats,
    tables: Floats, excess: Floats,
) -> bool:  # fmt: skip
    """Fill `excess`: the l1 norms of residual and fit, less that of the table."""
    n = points.shape[1]
    weights, form, residual = np.empty(n), np.empty(n), np.empty(tables.shape[1])
    for i in range(len(points)):
        pairs = ends.copy()
        state, _, _, _ = solve(
            kind, vectors, shape, corners.copy(), inverse.copy(), pairs, points[i], np.nan, weights, form
        )
        if state != SOLVED:
            return False
        residual[:] = 0.0
        for k in range(n):
            residual[pairs[k, 0]] += weights[k]
            residual[pairs[k, 1]] -= weights[k]
        total = 0.0
        for j in range(len(residual)):
            total += abs(residual[j]) + abs(tables[i, j] - residual[j]) - abs(tables[i, j])
        excess[i] = total
    return True
