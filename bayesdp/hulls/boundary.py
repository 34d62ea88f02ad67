"""The boundary of a symmetric polytope by Qhull: its facets as linear forms, and a triangulation of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.spatial import ConvexHull, QhullError

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int32]

POINTS = {1: 100_000, 2: 20_000, 3: 20_000, 4: 5000, 5: 2000, 6: 500, 7: 150, 8: 110, 9: 130}
"""Most vertices (one of each pair) that are given to Qhull, by dimension: from milliseconds to about 20 s.

At the last two limits stand the 3 x 5 and 4 x 4 tables with both margins and all substitutions: 267,265 and
782,060 simplices. Generic points of these numbers would take several times as long.
"""

_QUICK = {6: 150, 7: 60, 8: 40, 9: 18}

_INCIDENT = 1e-7  # a vertex lies on a facet if its form is this close to 1; forms of rounded vertices err by 1e-13
_VALID = 1e-9
_DETERMINANTS = 1 << 21  # matrix entries a batch of determinants


@dataclass(frozen=True, eq=False)
class Boundary:
    """Facets and boundary simplices of ``conv(+-vertices)``."""

    # One of each pair of opposite facets, as the form that is 1 on it: the gauge of v is ``max |forms @ v|``, shape (facets / 2,
    # n).
    forms: Floats
    # Rows of the vertices followed by their negatives; the cones over the simplices fill the space, and overlap in sets of volume
    # zero only, shape (simplices, n).
    simplices: Ints
    determinants: Floats  # absolute determinants of the corners, greater than zero, shape (simplices,)


def is_small(count: int, dimension: int) -> bool:
    """Whether Qhull can be expected to finish in seconds.

    Examples
    --------
    >>> is_small(36, 9), is_small(200, 16)
    (True, False)
    """
    return count <= POINTS.get(dimension, 0)


def is_quick(count: int, dimension: int) -> bool:
    """Whether Qhull can be expected to finish in about a second.

    Examples
    --------
    >>> is_quick(18, 6), is_quick(36, 9)
    (True, False)
    """
    return is_small(count, dimension) and (dimension <= 5 or count <= _QUICK.get(dimension, 0))


def boundary_of(vertices: Floats) -> Boundary | None:
    """Find facets and a triangulated boundary; None if Qhull fails or its answer does not stand the checks.

    Facets are identified by the vertices on them, so that what Qhull leaves in pieces, or gives with slightly
    different normals, becomes one facet, and its form is computed anew from those vertices. Checked are: no
    vertex is beyond a facet, the vertices on a facet determine it, and the triangulation has the volume of
    the hull.

    Parameters
    ----------
    vertices : float array, shape (m, n)
        One of each pair; they must span the space.

    Examples
    --------
    >>> boundary = boundary_of(np.array([[1.0, 0.0], [0.0, 1.0]]))  # of a square that stands on a corner
    >>> boundary.forms.shape, boundary.simplices.shape
    ((2, 2), (4, 2))
    """
    scale = float(np.max(np.linalg.norm(vertices, axis=1)))
    unit = vertices / scale
    n = unit.shape[1]
    if n == 1:
        far = int(np.argmax(np.abs(unit[:, 0])))
        corners = np.array([[far], [far + len(unit)]], dtype=np.int32)
        length = abs(float(vertices[far, 0]))
        return Boundary(np.array([[1.0 / length]]), corners, np.full(2, length))
    points = np.concatenate([unit, -unit])
    try:
        hull = ConvexHull(points, qhull_options="Qt" if n <= 4 else "Qt Qx")
    except QhullError:
        return None
    forms = _merged(unit, hull.equations)
    if forms is None:
        return None
    determinants = _determinants(points, hull.simplices)
    # Triangulating a facet may leave flat simplices behind.
    solid = determinants > 1e-12 * determinants.max()
    total = float(np.sum(determinants[solid]))
    if abs(total - hull.volume * float(np.prod(np.arange(1.0, n + 1)))) > 1e-7 * total:
        return None
    simplices = np.ascontiguousarray(hull.simplices[solid], dtype=np.int32)
    return Boundary(forms / scale, simplices, determinants[solid] * scale**n)


def _merged(unit: Floats, equations: Floats) -> Floats | None:
    """One form of each pair of facets, from the vertices that lie on it."""
    if not np.all(equations[:, -1] < 0):
        return None
    forms = equations[:, :-1] / -equations[:, -1:]
    # Rounding only makes the list short: facets that it leaves apart have the same vertices, see below.
    _, first = np.unique(np.round(forms, 6), axis=0, return_index=True)
    patterns: dict[bytes, npt.NDArray[np.int8]] = {}
    for form in forms[first]:
        heights = unit @ form
        on = (np.abs(heights) > 1.0 - _INCIDENT) * np.sign(heights).astype(np.int8)
        lead = on[np.argmax(on != 0)]
        pattern = np.asarray(on * lead, dtype=np.int8)
        patterns.setdefault(pattern.tobytes(), pattern)
    merged = np.empty((len(patterns), unit.shape[1]))
    for row, (_, pattern) in enumerate(sorted(patterns.items())):
        on = np.flatnonzero(pattern)
        corners = unit[on] * pattern[on, None]
        form, _, rank, _ = np.linalg.lstsq(corners, np.ones(len(on)), rcond=_INCIDENT)
        if rank < unit.shape[1] or np.max(np.abs(corners @ form - 1.0)) > _VALID:
            return None
        if np.max(np.abs(unit @ form)) > 1.0 + _VALID:
            return None
        merged[row] = form
    return merged


def _determinants(points: Floats, simplices: npt.NDArray[np.int32]) -> Floats:
    batch = max(1, _DETERMINANTS // points.shape[1] ** 2)
    found = [
        np.abs(np.linalg.det(points[simplices[start : start + batch]])) for start in range(0, len(simplices), batch)
    ]
    return np.concatenate(found)
