r"""The sum of ``x**||z||_1`` over a lattice as a rational function, from finitely many shells.

On the vectors of one sign pattern the l1 norm is linear; these cones cover the span of the lattice, and their extreme
rays are circuits (kernel vectors of minimal support). Triangulate them without new rays. A simplicial cone on circuits
``u_1, ..., u_n`` without some of its facets has the sum ``b(x) / prod_i (1 - x**l_i)``, ``l_i = ||u_i||_1``, where b
counts the lattice points of a half-open box by size: it has nonnegative coefficients and degree at most ``sum l_i``.
Added up over the cones (they can be taken disjoint) this gives three facts on ``F(x) = sum_z x**||z||_1``:

1. ``F q`` is a polynomial h of at most the degree M of q, with ``q = prod_k Phi_k(x)**n`` over all k that divide the
   length of a circuit (Phi_k the cyclotomic polynomials, Phi_1 taken as 1 - x): q is a multiple of every denominator.
2. ``F(1/x) = (-1)**n F(x)``: by Stanley's reciprocity the sum over the inside of a cone at 1/x is plus or minus the
   sum over the closed cone at x, and the cones that contain a point have alternating sum (-1)**n. As ``q(1/x) =
   (-1)**n x**-M q(x)``, h reads the same backwards: the shells up to M/2 determine it.
3. With D the least common multiple of the lengths, ``g = F (1 - x**D)**n`` is a polynomial with nonnegative
   coefficients: nothing cancels when it is evaluated, for any x between 0 and 1.

So the normaliser of lattice Laplace noise is known for all epsilon from a few exact counts. For 3 x 3 tables, with
circuits of 4 and 6 cells and n = 4: M = 32, so that vectors of size 16 and less are counted.

References: Ehrhart's theorem and Stanley's reciprocity, in Beck and Robins (2015), Computing the Continuous
Discretely, Chapters 3 and 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from flint import fmpz_mat, fmpz_poly
from scipy.special import logsumexp

from bayesdp.lattices.parts import General, Table
from bayesdp.lattices.sums.circuits import circuit_lengths
from bayesdp.lattices.sums.four_rows import four_row_shells
from bayesdp.lattices.sums.shell_counts import l1_shells

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_CELLS = 40
"""Lattices on more cells are not tried."""

_SIZE = 80
"""Shells beyond this size are not counted."""

_DEGREE = 20_000
"""Largest degree of g."""


@dataclass(frozen=True, eq=False)
class L1Series:
    """``F(x) = sum_m exp(log_coefficients[m]) x**exponents[m] / (1 - x**period)**power``, all terms positive."""

    exponents: Floats
    log_coefficients: Floats
    period: int
    power: int

    def log_sum(self, rate: float) -> float:
        """Logarithm of F at ``exp(-rate)``, for a positive rate; relative error of F about 1e-14."""
        terms = self.log_coefficients - rate * self.exponents
        return float(logsumexp(terms)) - self.power * math.log(-math.expm1(-rate * self.period))


def part_matrix(part: Table | General) -> Ints:
    """Rows that are zero on the part: on one copy of a table, its sums over each one way; dense."""
    if isinstance(part, General):
        return np.asarray(part.matrix.toarray(), dtype=np.int64)
    size = math.prod(part.shape)
    each = np.eye(size, dtype=np.int64).reshape(size, *part.shape)
    return np.concatenate([each.sum(axis=1 + way).reshape(size, -1) for way in range(len(part.shape))], axis=1).T


def l1_series(part: Table | General) -> L1Series | None:
    """Find the rational function of a part (of one copy, for a table that is written several times).

    Returns
    -------
    L1Series or None
        None where it would take too long: too many circuits, or too many vectors to count.

    Examples
    --------
    >>> from bayesdp.invariants import Invariants
    >>> from bayesdp.lattices.parts import lattice_parts
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> [part] = lattice_parts(Invariants(Margins(table, ["county"], ["education"])))
    >>> print(f"{math.exp(-l1_series(part).log_sum(1.0)):.9f}")  # the probability of no noise at epsilon = 1
    0.716986548
    """
    cells = math.prod(part.shape) if isinstance(part, Table) else part.cells.size
    if cells > _CELLS:
        return None
    return _of_rows(tuple(map(tuple, part_matrix(part).tolist())), part.shape if isinstance(part, Table) else ())


@lru_cache(maxsize=256)
def _of_rows(rows: tuple[tuple[int, ...], ...], shape: tuple[int, ...]) -> L1Series | None:
    matrix = np.array(rows, dtype=np.int64)
    if len(shape) == 2:  # circuits are the cycles of the complete bipartite graph
        lengths: frozenset[int] | None = frozenset(range(4, 2 * min(shape) + 1, 2))
    else:
        lengths = circuit_lengths(matrix)
    if lengths is None:
        return None
    dimension = matrix.shape[1] - int(fmpz_mat(matrix.astype(int).tolist()).rank())
    divisors = {k for length in lengths for k in range(1, length + 1) if length % k == 0}
    q = fmpz_poly([1])
    for k in sorted(divisors):
        q *= (fmpz_poly([1, -1]) if k == 1 else fmpz_poly.cyclotomic(k)) ** dimension
    period = math.lcm(*lengths)
    if q.degree() // 2 > _SIZE or period * dimension > _DEGREE:
        return None
    half = q.degree() // 2
    shells = four_row_shells(max(shape), half) if len(shape) == 2 and min(shape) == 4 else l1_shells(matrix, half)
    return None if shells is None else _from_half(shells, q, period, dimension)


def _from_half(shells: Ints, q: fmpz_poly, period: int, dimension: int) -> L1Series:
    """Put the series together: h from its first half, then g (the names are those of the module)."""
    degree = q.degree()
    product = fmpz_poly([int(count) for count in shells]) * q
    half = [product[m] for m in range(degree // 2 + 1)]
    h = fmpz_poly(half + half[: degree - degree // 2][::-1])
    whole = (1 - fmpz_poly([0] * period + [1])) ** dimension
    g = h * (whole // q)  # q divides it: every k divides the period
    exponents = [m for m in range(g.degree() + 1) if g[m] != 0]
    logs = [math.log(int(g[m])) for m in exponents]
    return L1Series(np.array(exponents, dtype=np.float64), np.array(logs), period, dimension)
