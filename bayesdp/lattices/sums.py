"""Sums over a lattice: in l1 part by part, from the parts' rational functions (`l1_series`), and Gaussian sums over its parts.

The sum of ``exp(-||z||**2 / (2 sigma**2))`` over a lattice, for every sigma.

By Poisson's summation formula, for a lattice of dimension n with Gram matrix G,

``sum_z exp(-||z||**2 / 2 sigma**2) = (sigma sqrt(2 pi))**n det(G)**(-1/2) sum_w exp(-2 pi**2 sigma**2 ||w||**2)``,

w in the dual lattice (Gram matrix the inverse of G). The left side needs few terms for small scales, the right side for
large ones; both are lists of squared lengths with their numbers of points.

What is left out is bounded: for ``b < a``, points beyond squared length R add at most ``exp(-(a - b) R) sum_z exp(-b
||z||**2)`` to the sum with rate a, and ``sum_z exp(-b ||z||**2) <= prod_i sum_k exp(-b ||b*_i||**2 k**2)``, b*_i the
orthogonal vectors of Gram and Schmidt: coordinate by coordinate, a Gaussian sum over the shifted integers is at most
that over the integers (Poisson's formula again). With ``k**2 >= 1 + 3 (|k| - 1)``, and by comparison with the integral,
``sum_k exp(-c k**2)`` is at most 1 plus the smaller one of ``2 exp(-c) / (1 - exp(-3 c))`` and ``sqrt(pi / c)``. R is
taken so large that what is left out is below 1e-16; the whole sum is at least 1.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import fmpq_mat, fmpz_mat

from bayesdp._numba import nb
from bayesdp.invariants import Invariants
from bayesdp.lattices.fixed_sum import both_sides, log_sum_exp
from bayesdp.lattices.l1_series import L1Series, l1_series, part_matrix
from bayesdp.lattices.parts import General, Table, lattice_parts
from bayesdp.moves.basis import integer_kernel

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]


def squared_lengths(gram: Floats, unit: float, bound: float, limit: int) -> tuple[Ints, Ints] | None:
    """Squared lengths, in units of ``1 / unit``, and numbers of the points up to `bound`, of a lattice with this Gram matrix.

    None where there are more than `limit`. Depth-first search (Fincke and Pohst 1985).
    """
    lower = np.linalg.cholesky(gram)
    diagonal = np.diag(lower).copy()
    # Half a unit more, so that rounding loses no point on the bound; lengths are rounded to whole units.
    found = _search(lower / diagonal, diagonal**2, unit, bound + 0.5 / unit, limit, math.floor(bound * unit + 1e-6))
    if found[0] == 0:
        return None
    lengths = np.flatnonzero(found)
    return lengths.astype(np.int64), found[lengths]


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _search(mu: Floats, squares: Floats, unit: float, bound: float, limit: int, last: int) -> Ints:
    """Points by squared length, all zero if there are more than `limit`; ``mu`` has ones on its diagonal.

    With ``z = sum c_i b_i``, ``||z||**2 = sum_i squares[i] (c_i + sum_{l > i} c_l mu[l, i])**2``: coordinates are
    chosen from the last one on.
    """
    n = len(squares)
    counts = np.zeros(last + 1, dtype=np.int64)
    c = np.zeros(n, dtype=np.int64)
    top = np.zeros(n, dtype=np.int64)
    centre = np.zeros(n)
    used = np.zeros(n + 1)  # squared length of the coordinates from here on
    i, seen, fresh = n - 1, 0, True
    while i < n:
        if fresh:
            centre[i] = 0.0
            for later in range(i + 1, n):
                centre[i] -= c[later] * mu[later, i]
            reach = math.sqrt(max(bound - used[i + 1], 0.0) / squares[i])
            c[i] = math.ceil(centre[i] - reach)
            top[i] = math.floor(centre[i] + reach)
        else:
            c[i] += 1
        if c[i] > top[i]:
            i, fresh = i + 1, False
            continue
        used[i] = used[i + 1] + squares[i] * (c[i] - centre[i]) ** 2
        if i > 0:
            i, fresh = i - 1, True
            continue
        fresh = False
        length = round(used[0] * unit)
        if length <= last:
            counts[length] += 1
            seen += 1
            if seen > limit:
                counts[:] = 0
                return counts
    return counts


_CELLS = 40  # lattices on more cells are not tried
_POINTS = 30_000_000  # points of each of the two lattices at most: about 0.6 s
_DISTINCT = 20_000  # different squared lengths at most
_LOG_TAIL = 37.0  # exp(-37) < 1e-16
_RATIOS = np.linspace(0.02, 0.98, 49)  # b / a in the bound on the tail


@dataclass(frozen=True, eq=False)
class ThetaSeries:
    """Squared lengths and numbers of points of a lattice and of its dual."""

    squares: Floats  # with `logs`: for ``sigma < switch``: squared lengths, and logarithms of their numbers of points
    logs: Floats
    dual_squares: Floats  # with `dual_logs`: the same for the dual lattice, for ``sigma >= switch``
    dual_logs: Floats
    switch: float
    dimension: int
    log_volume: float  # half the logarithm of det(G)

    def log_sum(self, sigma: Any, xp: Any = np) -> Any:
        """Logarithm of the Gaussian sum; relative error of the sum about 1e-15."""
        small, low, high = both_sides(xp, sigma, self.switch)
        direct = log_sum_exp(xp, self.logs - 0.5 * self.squares / xp.expand_dims(low, -1) ** 2)
        waves = log_sum_exp(xp, self.dual_logs - 2.0 * (math.pi * xp.expand_dims(high, -1)) ** 2 * self.dual_squares)
        dual = self.dimension * xp.log(high * math.sqrt(2.0 * math.pi)) - self.log_volume + waves
        return xp.where(small, direct, dual)


def theta_series(part: Table | General) -> ThetaSeries | None:
    """Enumerate a part of a lattice (one copy, for a table that is written several times) and its dual."""
    cells = math.prod(part.shape) if isinstance(part, Table) else part.cells.size
    if cells > _CELLS:
        return None
    return _of_rows(tuple(map(tuple, part_matrix(part).tolist())))


@lru_cache(maxsize=256)
def _of_rows(rows: tuple[tuple[int, ...], ...]) -> ThetaSeries | None:
    basis = integer_kernel(np.array(rows, dtype=np.int64))
    gram = fmpz_mat((basis @ basis.T).astype(int).tolist())
    inverse, unit = fmpq_mat(gram).inv().numer_denom()
    # The dual basis of a reduced basis is reduced in the opposite order.
    dual = np.array([[int(v) for v in row] for row in inverse.tolist()], dtype=np.float64)[::-1, ::-1] / int(unit)
    direct = (basis @ basis.T).astype(np.float64)
    log_volume = float(np.log(np.diag(np.linalg.cholesky(direct))).sum())
    # At this scale the two sums are alike, but for how far the lattice and its dual are from equal.
    switch = math.exp(log_volume / len(basis)) / math.sqrt(2.0 * math.pi)
    found = []
    for form, rate, denominator in (
        (direct, 0.5 / switch**2, 1.0),
        (dual, 2.0 * (math.pi * switch) ** 2, float(int(unit))),
    ):
        bound = _bound(np.diag(np.linalg.cholesky(form)), rate)
        if bound * denominator > 50.0 * _DISTINCT:
            return None
        listed = squared_lengths(form, denominator, bound, _POINTS)
        if listed is None or listed[0].size > _DISTINCT:
            return None
        found += [listed[0] / denominator, np.log(listed[1])]
    return ThetaSeries(found[0], found[1], found[2], found[3], switch, len(basis), log_volume)


def _bound(lengths: Floats, rate: float) -> float:
    """A squared length beyond which points add less than 1e-16 to the sum with this rate; from the lengths of Gram and Schmidt."""
    b = rate * _RATIOS
    c = b[:, None] * lengths**2
    return float(((log_gaussian_bound(c).sum(axis=1) + _LOG_TAIL) / (rate - b)).min())


def log_gaussian_bound(rate: Floats) -> Floats:
    """Logarithm of a bound on the sum of ``exp(-rate k**2)`` over the integers."""
    return np.asarray(np.log1p(np.minimum(np.sqrt(math.pi / rate), -2.0 * np.exp(-rate) / np.expm1(-3.0 * rate))))


@lru_cache(maxsize=64)
def _l1_parts(invariants: Invariants) -> Counter[tuple[L1Series, int]] | None:
    """How many parts there are of each kind, with the number of times that a table is written; None if one is not known."""
    found: Counter[tuple[L1Series, int]] = Counter()
    for part in lattice_parts(invariants):
        series = l1_series(part)
        if series is None:
            return None
        found[series, part.copies if isinstance(part, Table) else 1] += 1
    return found


def l1_log_sum(invariants: Invariants, rate: Any, xp: Any = np) -> Any | None:
    """Logarithm of the sum of ``exp(-rate ||z||_1)`` over the integer vectors z that change no invariant; None if not known."""
    parts = _l1_parts(invariants)
    if parts is None:
        return None
    return added(xp, [number * series.log_sum(rate * copies, xp) for (series, copies), number in parts.items()], rate)


def added(xp: Any, terms: list[Any], scale: Any) -> Any:
    """The sum of terms, of the shape of the scale; of numbers without rounding errors but the last."""
    return math.fsum(terms) if xp is np else sum(terms, xp.zeros_like(scale))
