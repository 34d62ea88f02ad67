r"""The law of a whole-number combination ``<z, v>`` of lattice Gaussian noise: a cell, or what a difference of tables reveals.

Let g be the greatest common divisor of ``<z, v>`` over the lattice L, so that ``<z, v> = g k``, and split z into its
component along the projection of v onto the span of L, of length ``l``, and the rest:

``P(<z, v> = g k)`` is in proportion to ``exp(-k**2 / (2 scale**2)) T_k``, ``scale = sigma l / g``,

where ``T_k`` is the Gaussian sum over a shifted copy of ``L_v = {z in L : <z, v> = 0}``. By Poisson's formula, with V the
volume of a cell of L_v, n its dimension and w its dual vectors, ``T_k V / (sigma sqrt(2 pi))**n`` is the sum of
``exp(-2 pi**2 sigma**2 ||w||**2)`` times a cosine, which for k = 0 is 1. So ``T_k <= T_0``, and ``T_k >= T_0 (1 - eta) / (1 +
eta)`` with eta the sum of the exponentials without w = 0. With b*_i the vectors of Gram and Schmidt of a basis of L_v, whose
lengths are the inverses of those of the dual basis in opposite order, ``1 + eta <= prod_i sum_j exp(-2 pi**2 sigma**2 j**2 /
||b*_i||**2)`` (`bayesdp.lattices.sums.theta_series` has the argument and the bound on the one-dimensional sums).

Hence every probability of the combination is that of a discrete Gaussian of this scale up to a factor between
``spread = (1 - eta) / (1 + eta)`` and ``1 / spread``, which is 1 to many digits from about the length of a basis vector on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesdp.invariants import Invariants
from bayesdp.lattices.parts import General, Line, Part, Table, lattice_parts
from bayesdp.moves.basis import integer_kernel
from bayesdp.noise import theta
from bayesdp.noise.base import Floats, Ints

_DIMENSIONS = 300
"""Larger parts that are no tables have no basis here; of tables a corner is enough."""

_CORNER = 5
"""Labels of each way of the corner of a large table in which the combination must lie."""


@dataclass(frozen=True)
class LinearLaw:
    """The law of ``<z, v>``, between bounds.

    Parameters
    ----------
    step : int
        g: the values are its multiples. 0 if the combination is always 0.
    scale : float
        Of k, the value in steps.
    spread : float
        Between 0 and 1: every probability is that of the discrete Gaussian of this scale up to a factor between `spread` and
        ``1 / spread``. 0 where nothing is known.
    """

    step: int
    scale: float
    spread: float

    def tail(self, value: float) -> tuple[float, float]:
        """A lower and an upper bound of the probability that ``|<z, v>|`` is at least `value`."""
        if value <= 0.0:
            return 1.0, 1.0
        if not self.step:
            return 0.0, 0.0
        start, scale = np.array([math.ceil(value / self.step)], dtype=np.float64), np.array([self.scale])
        zero = np.zeros(1)
        log_tail = theta.log_upper_tail(start, zero, scale) - theta.log_sum(zero, scale)
        each = 2.0 * float(np.exp(log_tail[0]))
        return each * self.spread, min(1.0, each / self.spread) if self.spread else 1.0


def linear_law(invariants: Invariants, vector: npt.ArrayLike, sigma: float) -> LinearLaw | None:
    """Find the law of ``<z, v>`` for lattice Gaussian noise z of scale sigma.

    Parameters
    ----------
    invariants : Invariants
    vector : int array, of the shape of the table
        v.
    sigma : float

    Returns
    -------
    LinearLaw or None
        None where v reaches into several parts of the lattice (`bayesdp.lattices.parts`), or a part is too large.

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> law = linear_law(Invariants(Totals({"county": ["Alpha", "Beta", "Gamma"]})), [1, -1, 0], sigma=3.0)
    >>> print(law.step, f"{law.scale**2:.10g} {1 - law.spread:.1e}")
    1 18 5.5e-13
    """
    flat = np.asarray(vector, dtype=np.int64).ravel()
    touched = [part for part in lattice_parts(invariants) if _reaches(part, flat)]
    if not touched:
        return LinearLaw(0, 0.0, 1.0)
    if len(touched) > 1:
        return None
    [part] = touched
    if isinstance(part, Line):
        own, step = part.entries.astype(np.float64), abs(int(flat[part.cells] @ part.entries))
        return LinearLaw(step, sigma / float(np.linalg.norm(own)), 1.0)
    found = _basis(part, flat)
    if found is None:
        return None
    basis, values, others, longest, copies = found
    scale = sigma / math.sqrt(copies)
    inner = basis @ values
    step = int(np.gcd.reduce(inner))
    if not step:
        return LinearLaw(0, 0.0, 1.0)
    reached = np.flatnonzero(inner)
    turned = integer_kernel(inner[None, reached] // step) @ basis[reached]
    left = np.concatenate([np.delete(basis, reached, axis=0), turned]).astype(np.float64)
    # The lengths of Gram and Schmidt, and for the basis vectors outside of the corner their own lengths, which are no smaller.
    lengths = np.abs(np.diag(np.linalg.qr(left.T, mode="r"))) if not others else np.linalg.norm(left, axis=1)
    log_sum = float(_log_excess(scale, lengths).sum()) + others * float(_log_excess(scale, np.array([longest]))[0])
    eta = math.expm1(log_sum) if log_sum < 1.0 else 1.0
    along = math.sqrt(_projected_square(part, basis, inner, flat))
    return LinearLaw(step, scale * along / step, max(0.0, 1.0 - eta) / (1.0 + eta))


def _reaches(part: Part, flat: Ints) -> bool:
    """Whether the combination is other than 0 for some vector of the part."""
    if isinstance(part, Line):
        return bool(flat[part.cells] @ part.entries)
    if isinstance(part, Table):
        values = (part.signs * flat[part.cells]).sum(axis=0)
        for way in range(values.ndim):
            values = np.diff(values, axis=way)  # a combination of sums over the ways has no such differences
        return bool(np.any(values))
    return bool(np.any(flat[part.cells]))


def _basis(part: Table | General, flat: Ints) -> tuple[Ints, Ints, int, float, int] | None:
    """A basis, the combination in its cells, further basis vectors that it does not meet with their length, and copies."""
    if isinstance(part, General):
        if part.cells.size > _DIMENSIONS:
            return None
        return integer_kernel(part.matrix.toarray().astype(np.int64)), flat[part.cells], 0, 1.0, 1
    values = (part.signs * flat[part.cells]).sum(axis=0)
    shape, dimension = part.shape, math.prod(size - 1 for size in part.shape)
    if dimension > _DIMENSIONS:
        # Basis vectors are differences of neighbouring labels: only those near the labels of v meet it. Labels can be
        # reordered, so that v, if it is small, lies in a corner.
        for way in range(len(shape)):
            used = np.flatnonzero(np.any(values != 0, axis=tuple(a for a in range(len(shape)) if a != way)))
            rest = np.setdiff1d(np.arange(shape[way]), used)
            values = np.take(values, np.concatenate([used, rest]), axis=way)
            if used.size >= min(shape[way], _CORNER):
                return None
            values = np.take(values, np.arange(min(shape[way], _CORNER)), axis=way)
    basis: Ints = np.ones((1, 1), dtype=np.int64)
    for size in values.shape:
        steps = np.eye(size - 1, size, dtype=np.int64) - np.eye(size - 1, size, 1, dtype=np.int64)
        basis = np.asarray(np.kron(basis, steps), dtype=np.int64)
    return basis, values.ravel(), dimension - len(basis), math.sqrt(2.0) ** len(shape), part.copies


def _projected_square(part: Table | General, basis: Ints, inner: Ints, flat: Ints) -> float:
    """Squared length of the projection of v onto the span of the lattice, in the cells of the basis."""
    if isinstance(part, Table):
        # Centring along each way is that projection; the table is larger than the corner.
        centred = (part.signs * flat[part.cells]).sum(axis=0).astype(np.float64)
        for way in range(centred.ndim):
            centred = centred - centred.mean(axis=way, keepdims=True)
        return float(np.sum(centred**2))
    gram = (basis @ basis.T).astype(np.float64)
    return float(inner @ np.linalg.solve(gram, inner.astype(np.float64)))


def _log_excess(scale: float, lengths: Floats) -> Floats:
    """Logarithm of a bound on ``sum_j exp(-2 pi**2 scale**2 j**2 / length**2)``."""
    c = 2.0 * (math.pi * scale / lengths) ** 2
    return np.asarray(np.log1p(np.minimum(np.sqrt(math.pi / c), -2.0 * np.exp(-c) / np.expm1(-3.0 * c))))
