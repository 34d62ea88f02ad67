"""The largest distance between two of many points, exactly."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.spatial.distance import cdist

__all__ = ["MOST_POINTS", "distinct_columns", "largest_distance", "norms", "widest_pair"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

MOST_POINTS = 3000
"""All pairs of at most this many points are compared: 4.5 million distances."""

_MOST_NUMBERS = 30_000_000
"""Points times coordinates held in memory: 240 megabytes."""

_MOST_SIGNED = 4_000_000_000
"""Points times vectors of signs."""

_CHUNK = 4_000_000
"""Numbers of one block of distances."""


def distinct_columns(matrix: sp.csc_array, copies: int = 1) -> Ints:
    """Positions of the different columns of a sparse matrix, of each the first `copies`."""
    columns = sp.csc_array(matrix)
    columns.sum_duplicates()
    columns.eliminate_zeros()
    seen: dict[bytes, int] = {}
    kept: list[int] = []
    indices, data, ends = columns.indices, columns.data, columns.indptr.tolist()
    for column in range(columns.shape[1]):
        own = slice(ends[column], ends[column + 1])
        key = indices[own].tobytes() + data[own].tobytes()  # the halves have fixed item sizes: no two keys collide
        times = seen.get(key, 0)
        if times < copies:
            seen[key] = times + 1
            kept.append(column)
    return np.array(kept, dtype=np.int64)


def norms(points: Floats, norm: str) -> Floats:
    """The length of each point, shape ``(n, dimensions)`` to ``(n,)``."""
    return np.abs(points).sum(axis=1) if norm == "l1" else np.sqrt(np.square(points).sum(axis=1))


def check_size(count: int, dimensions: int, what: str) -> None:
    """Refuse what all pairs would take too long for."""
    if count > MOST_POINTS or count * dimensions > _MOST_NUMBERS:
        raise NotImplementedError(
            f"the exact sensitivity is found by comparing all pairs of {what}; {count} of them with {dimensions} numbers "
            f"each are more than {MOST_POINTS}, or than {_MOST_NUMBERS} numbers in all. Identity, a single margin or "
            "total under margins or totals has a closed form of any size"
        )


def largest_distance(points: Floats, norm: str, what: str) -> float:
    """The largest l1 or l2 distance between two of the points, of shape ``(n, dimensions)``.

    In the l1 norm it is the largest of ``s.p - s.q`` over vectors ``s`` of signs, which takes no pairs where there are few
    coordinates. NotImplementedError, which calls the points `what`, if there are too many pairs.
    """
    count, dimensions = points.shape
    if count < 2 or not dimensions:
        return 0.0
    if dimensions == 1 or (norm == "l1" and 2**dimensions <= max(count, 64) and 2**dimensions * count <= _MOST_SIGNED):
        return _by_signs(points)
    check_size(count, dimensions, what)
    # Taking the mean away keeps the squares below from cancelling where all points are far from zero.
    centred = points - points.mean(axis=0)
    squares = np.square(centred).sum(axis=1)
    best = 0.0
    step = max(_CHUNK // count, 1)
    for start in range(0, count, step):
        rows = centred[start : start + step]
        if norm == "l1":
            own = float(cdist(rows, centred[start:], "cityblock").max())
        else:
            own = float((squares[start : start + step, None] + squares[start:] - 2.0 * rows @ centred[start:].T).max())
        best = max(best, own)
    return best if norm == "l1" else float(np.sqrt(best))


def _by_signs(points: Floats) -> float:
    """The largest l1 distance as the largest range of ``s @ p`` over vectors s of signs, of each pair s, -s one."""
    best = 0.0
    for pattern in range(2 ** (points.shape[1] - 1)):
        signs = np.array([-1.0 if pattern >> bit & 1 else 1.0 for bit in range(points.shape[1])])
        along = points @ signs
        best = max(best, float(along.max() - along.min()))
    return best


def widest_pair(gram: Floats) -> float:
    """The largest ``|p - q|_2`` from the inner products of the points."""
    squares = np.diagonal(gram)
    return float(np.sqrt(max(float((squares[:, None] + squares - 2.0 * gram).max()), 0.0)))
