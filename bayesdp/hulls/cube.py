"""Exact draws by rejection from a cube, as the third paper prints it: for comparison, in few dimensions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp.hulls.base import Hull

type Floats = npt.NDArray[np.float64]

_BATCH = 1024


def draw_cube(hull: Hull, epsilon: float, rng: np.random.Generator, size: int) -> npt.NDArray[np.float64]:
    """Draw points with density proportional to ``exp(-epsilon ||v||_K)`` by Algorithm 3 of Cho and Awan.

    Uniform points of the smallest box around K with sides along the coordinates, until one is in K; times a gamma variable
    of shape n + 1 and rate epsilon. With both margins and 2 x 2 moves, a point is in K with probability 0.17 for 3 x 3
    tables, 3.7e-4 for 4 x 4 tables and about 2e-9 for 5 x 5 tables. Whether it is, is asked here of bounds in compiled code
    (`Hull.below`), and would take a linear program each otherwise.

    Parameters
    ----------
    hull : Hull
    epsilon : float
        Rate.
    rng : numpy.random.Generator
    size : int

    Returns
    -------
    float array, shape (size, n)

    Examples
    --------
    >>> from bayesdp.hulls import SymmetricHull
    >>> draw_cube(SymmetricHull([[1, 1], [1, -1]]), 0.5, np.random.default_rng(1), 3).shape
    (3, 2)
    """
    n = hull.dimension
    half = np.array([hull.generators.support(unit) for unit in np.eye(n)])
    kept = np.empty((size, n))
    found = 0
    while found < size:
        points = rng.uniform(-half, half, size=(_BATCH, n))
        chosen = points[hull.below(points, np.ones(_BATCH))][: size - found]
        kept[found : found + len(chosen)] = chosen
        found += len(chosen)
    return np.asarray(kept * rng.gamma(n + 1.0, 1.0 / epsilon, size)[:, None])
