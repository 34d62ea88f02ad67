"""The linear estimate of a small table as a whole: any weighted sums, with one dense matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp.frames import Frame
from bayesdp.queries import Query

__all__ = ["MOST_CELLS", "WholeForm", "whole_estimate"]

type Floats = npt.NDArray[np.float64]

MOST_CELLS = 2000
"""Tables of more cells are not estimated as a whole: the time grows with the third power."""

_OPEN = 1e-11
"""Eigenvalues below this share of the largest are looked upon as 0."""


@dataclass(frozen=True, eq=False)
class WholeForm:
    """Estimates of the cells, shape (cells,), and their covariance."""

    frame: Frame
    mean: Floats
    covariance_of_cells: Floats

    def answers(self, query: Query) -> tuple[Floats, Floats]:
        """Estimates of the answers, and their variances."""
        rows = query.matrix.astype(np.float64)
        spread = np.asarray(rows @ self.covariance_of_cells)
        return np.asarray(rows @ self.mean), np.asarray(rows.multiply(spread).sum(axis=1)).reshape(-1)

    def covariance(self, query: Query, node: object = None) -> Floats:
        """Covariances of all answers of a query."""
        if node is not None:
            raise ValueError(f"node must be None where a table is estimated as a whole, got {node!r}")
        rows = query.matrix.astype(np.float64)
        return np.asarray(rows @ (rows @ self.covariance_of_cells).T)

    @property
    def words(self) -> str:
        """The size, in words."""
        return f"{self.frame.size} cells as a whole"


def whole_estimate(
    frame: Frame, noisy: Sequence[tuple[Query, Floats, Floats]], exact: Sequence[tuple[Query, Floats]]
) -> WholeForm:
    """Generalised least squares on all cells.

    Parameters
    ----------
    frame : Frame
    noisy : sequence of (Query, values, precision)
        Answers and inverse variances of their noise, shape (rows,) each; precision 0 where an answer is missing.
    exact : sequence of (Query, values)

    Raises
    ------
    ValueError
        If a cell does not follow from what is published, or exact values contradict one another.
    """
    information, right = np.zeros((frame.size, frame.size)), np.zeros(frame.size)
    for query, values, precision in noisy:
        rows = query.matrix.astype(np.float64)
        weighted = sp.csr_array(rows.multiply(precision[:, None]))
        information += (rows.T @ weighted).toarray()
        right += weighted.T @ values
    start, left = np.zeros(frame.size), np.eye(frame.size)
    if exact:
        stacked = sp.vstack([query.matrix for query, _ in exact]).toarray().astype(np.float64)
        known = np.concatenate([values for _, values in exact])
        _, sizes, rows_of = np.linalg.svd(stacked)
        rank = int((sizes > _OPEN * sizes.max(initial=0.0)).sum())
        start, left = np.linalg.lstsq(stacked, known, rcond=_OPEN)[0], rows_of[rank:].T
        if np.any(np.abs(stacked @ start - known) > 1e-6 * np.maximum(np.abs(known), 1.0)):
            raise ValueError("the exact values contradict one another")
    inner = left.T @ information @ left
    values, vectors = np.linalg.eigh(inner)
    if len(values) and values[0] <= _OPEN * values[-1]:
        cell = int(np.abs(left @ vectors[:, 0]).argmax())
        raise ValueError(
            f"the cell {frame.cell_name(cell)} does not follow from what is published, so it has no linear estimate"
        )
    root = left @ (vectors / np.sqrt(values))
    covariance = root @ root.T
    return WholeForm(frame, start + covariance @ (right - information @ start), covariance)
