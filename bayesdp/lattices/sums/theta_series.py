r"""The sum of ``exp(-||z||**2 / (2 sigma**2))`` over a lattice, for every sigma.

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
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from flint import fmpq_mat, fmpz_mat
from scipy.special import gammaln, logsumexp

from bayesdp.lattices.parts import General, Table
from bayesdp.lattices.sums.l1_series import part_matrix
from bayesdp.lattices.sums.short_vectors import squared_lengths
from bayesdp.moves.basis import integer_kernel

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_CELLS = 40
"""Lattices on more cells are not tried."""

_POINTS = 30_000_000
"""Points of each of the two lattices at most: about 0.6 s."""

_DISTINCT = 20_000
"""Different squared lengths at most."""

_LOG_TAIL = 37.0  # exp(-37) < 1e-16

_RATIOS = np.linspace(0.02, 0.98, 49)
"""b / a in the bound on the tail."""


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

    def log_sum(self, sigma: float) -> float:
        """Logarithm of the Gaussian sum; relative error of the sum about 1e-15."""
        if sigma < self.switch:
            return float(logsumexp(self.logs - 0.5 * self.squares / sigma**2))
        dual = float(logsumexp(self.dual_logs - 2.0 * (math.pi * sigma) ** 2 * self.dual_squares))
        return self.dimension * math.log(sigma * math.sqrt(2.0 * math.pi)) - self.log_volume + dual


def theta_series(part: Table | General) -> ThetaSeries | None:
    """Enumerate a part of a lattice (one copy, for a table that is written several times) and its dual.

    Returns
    -------
    ThetaSeries or None
        None where there are too many points; the limit is reached at about 12 dimensions.

    Examples
    --------
    >>> from bayesdp.invariants import Invariants
    >>> from bayesdp.lattices.parts import lattice_parts
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> [part] = lattice_parts(Invariants(Margins(table, ["county"], ["education"])))
    >>> print(f"{math.exp(-theta_series(part).log_sum(1.0)):.9f}")  # the probability of no noise at sigma = 1
    0.227333711
    """
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
    switch, log_points = _switch(direct, dual, log_volume)
    if log_points > math.log(3.0 * _POINTS):  # the volume of a ball is near enough to the number of its points
        return None
    found = []
    for form, rate, denominator in (
        (direct, 0.5 / switch**2, 1.0),
        (dual, 2.0 * (math.pi * switch) ** 2, float(int(unit))),
    ):
        bound = _bound(_orthogonal(form), rate)
        if bound * denominator > 50.0 * _DISTINCT:
            return None
        listed = squared_lengths(form, denominator, bound, _POINTS)
        if listed is None or listed[0].size > _DISTINCT:
            return None
        found += [listed[0] / denominator, np.log(listed[1])]
    return ThetaSeries(found[0], found[1], found[2], found[3], switch, len(basis), log_volume)


def _orthogonal(gram: Floats) -> Floats:
    """Lengths of the vectors of Gram and Schmidt."""
    return np.asarray(np.diag(np.linalg.cholesky(gram)))


def _bound(lengths: Floats, rate: float) -> float:
    """A squared length beyond which points add less than 1e-16 to the sum with this rate."""
    b = rate * _RATIOS
    c = b[:, None] * lengths**2
    whole = np.log1p(np.minimum(np.sqrt(math.pi / c), -2.0 * np.exp(-c) / np.expm1(-3.0 * c))).sum(axis=1)
    return float(((whole + _LOG_TAIL) / (rate - b)).min())


def _switch(direct: Floats, dual: Floats, log_volume: float) -> tuple[float, float]:
    """A scale at which both lists are short, by the volumes of their balls, and the logarithm of the larger volume."""
    n = len(direct)
    log_ball = 0.5 * n * math.log(math.pi) - gammaln(0.5 * n + 1.0)
    lengths, dual_lengths = _orthogonal(direct), _orthogonal(dual)
    scales = math.exp(log_volume / n) / math.sqrt(2.0 * math.pi) * np.exp(np.linspace(-1.5, 1.5, 31))
    points = [
        max(
            0.5 * n * math.log(_bound(lengths, 0.5 / s**2)) - log_volume,
            0.5 * n * math.log(_bound(dual_lengths, 2.0 * (math.pi * s) ** 2)) + log_volume,
        )
        + log_ball
        for s in scales
    ]
    best = int(np.argmin(points))
    return float(scales[best]), float(points[best])
