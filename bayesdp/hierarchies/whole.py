"""The linear estimate of a small table as a whole: any weighted sums, with one dense matrix.

The most precise answers that fix the table, exact ones first, are its coordinates. Every other answer is a combination of those that
are about as precise or more so: in units of the noise all weights are moderate, whatever the sizes of the noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.linalg as la

from bayesdp._text import printable
from bayesdp.frames import Frame
from bayesdp.queries import Query

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

MOST_CELLS = 2000
"""Tables of more cells are not estimated as a whole: the time grows with the third power."""

_DEPENDENT = 1e-12
"""Rows of length 1 depend on others where less than this is left of them: rounding leaves about 1e-15."""

_WHOLE = 1e-9
"""Weights that differ from whole numbers by less are such."""

_CONDITION = 1e9
"""How much larger rounding errors (1e-16) may become: standard errors, and estimates in their units, are good to about 1e-6."""


@dataclass(frozen=True, eq=False)
class WholeForm:
    """Coordinates, whose estimates are whole numbers and a rest; cells as combinations of them; the root of their covariance."""

    frame: Frame
    whole: Floats
    rest: Floats
    inverse: Floats
    root: Floats

    def answers(self, query: Query) -> tuple[Floats, Floats]:
        """Estimates of the answers, and their variances."""
        weights = _combined(query.matrix @ self.inverse)
        return weights @ self.whole + weights @ self.rest, np.square(weights @ self.root).sum(axis=1)

    def covariance(self, query: Query, node: object = None) -> Floats:
        """Covariances of all answers of a query."""
        if node is not None:
            raise ValueError(f"node must be None where a table is estimated as a whole, got {node!r}")
        spread = _combined(query.matrix @ self.inverse) @ self.root
        return np.asarray(spread @ spread.T)

    @property
    def words(self) -> str:
        """The size, in words."""
        return f"{self.frame.size} cells as a whole"


def whole_estimate(
    frame: Frame, noisy: Sequence[tuple[Query, Floats, Floats]], exact: Sequence[tuple[Query, Floats]]
) -> WholeForm:
    """Generalised least squares on all cells, from answers with inverse variances (0 where there is none) and exact answers.

    ValueError where a cell does not follow from these, exact ones contradict one another, or rounding errors are too large.
    """
    stated = [(query, values, np.full(query.rows, np.inf)) for query, values in exact] + list(noisy)
    used = [np.flatnonzero(precision) for _, _, precision in stated]
    named = [(query, int(row)) for (query, *_), own in zip(stated, used, strict=True) for row in own]
    rows = np.concatenate([query.matrix.toarray()[own] * 1.0 for (query, *_), own in zip(stated, used, strict=True)])
    values = np.concatenate([answers[own] for (_, answers, _), own in zip(stated, used, strict=True)])
    precision = np.concatenate([precision[own] for (_, _, precision), own in zip(stated, used, strict=True)])
    sd, size = 1.0 / np.sqrt(precision), np.maximum(np.abs(rows).max(axis=1), 1.0)
    with np.errstate(divide="ignore"):
        rank = np.floor(np.log10(sd / size))  # powers of ten; exact answers come first
    basis = _basis(rows, rank)
    if len(basis) < frame.size:
        cell = int(np.square(np.linalg.qr(rows[basis].T)[0]).sum(axis=1).argmin())
        raise ValueError(
            f"the cell {frame.cell_name(cell)} does not follow from what is published, so it has no linear estimate"
        )
    inverse = np.linalg.inv(rows[basis])
    growth = (np.abs(inverse) @ np.abs(rows[basis])).sum(axis=1)
    weights = _combined(rows @ inverse)
    weights[rank[:, None] < rank[basis]] = 0.0  # coordinates that are less precise would have come later
    whole = np.rint(values)
    off = (whole - weights @ whole[basis]) + ((values - whole) - weights @ (values - whole)[basis])
    if np.any(np.abs(off[sd == 0.0]) > 0.5):
        raise ValueError("the exact values contradict one another")
    free, more = np.flatnonzero(sd[basis] > 0.0), np.setdiff1d(np.flatnonzero(sd), basis)
    noise, scaled = sd[basis][free], weights[np.ix_(more, free)] * sd[basis][free] / sd[more, None]
    sizes = np.square(scaled).sum(axis=1)
    for grown, which in (
        (growth, basis[np.argsort(-np.abs(inverse[growth.argmax()]))]),
        (sizes, more[np.argsort(-sizes)]),
    ):
        if grown.max(initial=0.0) > _CONDITION:
            raise ValueError(
                f"gls cannot estimate this table in binary64 numbers: rounding errors grow by a factor of {grown.max():.0e}, as "
                "answers nearly say the same or have weights of very different sizes; leave out, or state as Exact, some of "
                + "; ".join(printable(named[i][0].answer_name(named[i][1])) for i in which[:3])
            )
    factor = np.linalg.cholesky(np.eye(len(free)) + scaled.T @ scaled)
    root = np.zeros((frame.size, len(free)))
    root[free] = noise[:, None] * la.solve_triangular(factor, np.eye(len(free)), lower=True).T
    rest = (values - whole)[basis] + root @ (root[free].T / noise @ (scaled.T @ (off[more] / sd[more])))
    return WholeForm(frame, whole[basis], rest, inverse, root)


def _basis(rows: Floats, rank: Floats) -> Ints:
    """Independent rows, those of a lower rank first."""
    unit = (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 0.5)).T
    span, found = np.zeros((rows.shape[1], 0)), [np.zeros(0, dtype=np.int64)]
    for own in np.unique(rank):
        new, left = np.flatnonzero(rank == own), unit[:, rank == own]
        for _ in range(2):  # the second time takes away what rounding left
            left = left - span @ (span.T @ left)
        columns, triangle, order = la.qr(left, mode="economic", pivoting=True)
        many = int((np.abs(np.diag(triangle)) > _DEPENDENT).sum())
        span = np.concatenate([span, columns[:, :many]], axis=1)
        found.append(new[order[:many]])
    return np.concatenate(found)


def _combined(weights: Floats) -> Floats:
    """Weights of coordinates in which whole numbers, zeros above all, have no rounding errors."""
    near = np.rint(weights)
    return np.where(np.abs(weights - near) < _WHOLE * np.maximum(np.abs(near), 1.0), near, weights)
