"""Independence of rows and columns of a table with exact margins, from noisy cells: exact size by exact simulation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import random_table

from bayesdp import _validate
from bayesdp._arrays import Floats, Ints
from bayesdp._text import printable
from bayesdp.release import Release
from bayesdp.significance.corners import check_margins, joined

_TIE = 1e-9
"""Statistics this close, relative to their size, count as equal: for the null hypothesis, so that rounding cannot help a rejection."""
_PILOT = 2000


@dataclass(frozen=True)
class IndependenceResult:
    """What noisy cells of a table with exact margins say about independence of rows and columns.

    Parameters
    ----------
    statistic : float
        ``d' (V + W)^-1 d``: d the distance of the noisy table from the expected one, V the covariance of tables with these
        margins under independence, W that of the noise.
    pvalue : float
        ``(1 + k) / (1 + draws)``, of whose draws k had a statistic as large as that of the release. At most alpha with probability at
        most alpha, for every alpha and any margins.
    draws, degrees : int
        Draws of tables and noise; free dimensions, (rows - 1) (columns - 1) less those of empty rows and columns.
    """

    statistic: float
    pvalue: float
    draws: int
    degrees: int

    @property
    def claim(self) -> str:
        """What the test is, in a sentence."""
        if self.degrees == 0:
            return "no test of independence: the margins determine the table"
        return (
            f"size at most alpha for every alpha given the margins, from {self.draws:,} exact draws; the p-value is random and at "
            f"least {1.0 / (1 + self.draws):.2g}: report the first"
        )


def independence_test_from_releases(
    releases: Release | Iterable[Release], *, draws: int = 9999, rng: _validate.Seed = None
) -> IndependenceResult:
    """Test independence of the rows and columns of a released table whose both margins are exact.

    Under independence the table has a known law given its margins (all permutations of one label are equally probable), and
    the noise has the published one. So whatever statistic is computed from the noisy cells, its law is known: tables and noise
    are drawn exactly, and the p-value counts draws with a statistic as large. It is valid without any approximation: release
    and draws are exchangeable under the null (Dwass, 1957; Besag and Clifford, 1989).

    The statistic is Pearson's chi-square with the covariance of the noise added to that of the table. Without noise it is
    Pearson's ``X**2 (n - 1) / n``. Where noise is large beside the counts, it still weighs directions by what is known of them.

    Parameters
    ----------
    releases : Release or iterable of Release
        Of one two-way table, each with noisy cells and both margins exact; of several the mean, weighted by precision.
    draws : int, default 9999
        At least 99. The standard error of the p-value is ``sqrt(p (1 - p) / draws)`` around the one of infinitely many.
    rng : int, numpy.random.Generator or None
        For the draws. The p-value depends on it: draw once, and report that.

    Raises
    ------
    NotImplementedError
        If noise depends on the cell (within bounds) or is drawn by a chain that only comes near its law.

    Examples
    --------
    >>> import bayesdp as bdp
    >>> table = bdp.datasets.berkeley_admissions().sum("sex")
    >>> release = bdp.LatticeLaplace(bdp.Margins(table, ["admission"], ["department"]), epsilon=0.25).release(table, rng=1)
    >>> independence_test_from_releases(release, draws=999, rng=2).pvalue
    0.001
    """
    many = _validate.positive_integer(draws, "draws")
    if many < 99:
        raise ValueError(f"draws must be at least 99, got {draws!r}")
    joint = joined(releases)
    _check(joint)
    generator = _validate.generator_of(rng)
    point = joint.fiber.find_point()
    rows, columns = point.sum(axis=1), point.sum(axis=0)
    expected, basis, spread = _null(rows, columns)
    degrees = basis.shape[1]
    if degrees == 0:
        return IndependenceResult(0.0, 1.0, many, 0)
    # From draws of their own: which weights the statistic has is a matter of power; its law is the simulated one for any.
    pilot = _noise(joint, _PILOT, generator)
    precision = 1.0 / np.maximum(np.var(pilot, axis=(1, 2, 3)), 1e-300)  # noise may be so small that none was drawn
    weights = precision / precision.sum()
    covariance: Any = np.cov((np.tensordot(weights, pilot, 1).reshape(_PILOT, -1) @ basis).T)
    inverse = np.linalg.pinv(spread + covariance.reshape(degrees, degrees), hermitian=True)
    tables = random_table(rows, columns).rvs(many, random_state=generator).astype(np.float64)
    drawn = tables + np.tensordot(weights, _noise(joint, many, generator), 1)
    noisy = np.tensordot(weights, [np.asarray(part.values, dtype=np.float64) for part in joint.measurements], 1)
    distances = (np.concatenate([noisy[None], drawn]) - expected).reshape(many + 1, -1) @ basis
    values = np.einsum("ti,ij,tj->t", distances, inverse, distances)
    exceeding = int(np.sum(values[1:] >= values[0] - _TIE * abs(values[0])))
    return IndependenceResult(float(values[0]), (1 + exceeding) / (1 + many), many, degrees)


def _check(release: Release) -> None:
    if len(release.frame.dims) != 2:
        raise ValueError(
            f"the test is about a two-way table, and this release has the dimensions {printable(', '.join(release.frame.dims))}"
        )
    by_row, by_column = (np.eye(n, dtype=np.int64)[0] - np.eye(n, dtype=np.int64)[1:] for n in release.frame.shape)
    check_margins(release, release.frame.dims, [np.outer(one, other) for one in by_row for other in by_column])
    if not release.measurements:
        raise ValueError("the test needs noisy measurements of the cells, and the releases have none")
    for part in release.measurements:
        if not part.query.is_identity or part.unmeasured.any():
            raise ValueError(
                f"the test needs noisy measurements of all cells, and one is {part!r}: fit a model instead"
            )
        sampler = part.law.sampler(part.invariants or release.invariants) if part.law.additive else None
        if not part.law.additive or (sampler is not None and not sampler.exact):
            why = (
                f"can be drawn here only by a chain ({sampler.name})"
                if sampler
                else "depends on the confidential cells"
            )
            raise NotImplementedError(
                f"the noise of the law {part.law.name!r} {why}: the size of the test would not be exact. Fit a model"
            )


def _null(rows: Ints, columns: Ints) -> tuple[Floats, Floats, Floats]:
    """Expected table under independence; directions in which tables vary, shape (cells, degrees); their covariance.

    ``cov(x_ij, x_kl) = r_i (n [i = k] - r_k) c_j (n [j = l] - c_l) / (n**2 (n - 1))``.
    """
    n = max(float(rows.sum()), 1.0)
    by_row, by_column = (np.diag(totals / n) - np.outer(totals, totals) / n**2 for totals in (rows, columns))
    directions = np.asarray(np.kron(_contrasts(rows), _contrasts(columns)), dtype=np.float64)
    covariance = np.kron(by_row, by_column) * (n * n / max(n - 1.0, 1.0))
    return np.outer(rows, columns) / n, directions, directions.T @ covariance @ directions


def _contrasts(totals: Ints) -> Floats:
    """An orthonormal basis of vectors that add up to 0 over the totals that are not empty, shape (labels, dimensions)."""
    filled = np.flatnonzero(totals)
    found = np.zeros((totals.size, max(filled.size - 1, 0)))
    if filled.size > 1:
        found[filled] = np.linalg.svd(np.ones((1, filled.size)))[2][1:].T
    return found


def _noise(release: Release, size: int, rng: np.random.Generator) -> Floats:
    """Draws of the noise of each measurement, shape (measurements, size, rows, columns)."""
    shape, kept = release.frame.shape, release.invariants
    drawn = [part.law.draw(rng, shape, size, part.invariants or kept) for part in release.measurements]
    return np.asarray(drawn, dtype=np.float64)
