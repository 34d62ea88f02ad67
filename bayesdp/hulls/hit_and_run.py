"""Approximate draws by hit-and-run: for hulls that nothing else can handle."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp.hulls.hull import SymmetricHull
from bayesdp.hulls.programs import chord_end

__all__ = ["draw_hit_and_run"]

type Floats = npt.NDArray[np.float64]


def draw_hit_and_run(
    hull: SymmetricHull, epsilon: float, rng: np.random.Generator, size: int, sweeps: int
) -> npt.NDArray[np.float64]:
    """Draw points with density about proportional to ``exp(-epsilon ||v||_K)``.

    A uniform point of K times a gamma variable of shape n + 1 and rate epsilon has this density. Each uniform
    point is the end of a chain of its own that starts at the centre: a step goes to a uniform point of the
    chord of K in a uniform direction, so that the uniform law is the one stationary law (Smith, 1984). How
    close the end of a chain is to it is not known.

    Parameters
    ----------
    hull : SymmetricHull
    epsilon : float
        Rate.
    rng : numpy.random.Generator
    size : int
        Number of draws.
    sweeps : int
        Length of each chain; a sweep has as many steps as there are dimensions. Without facets, a step takes
        two linear programs.

    Returns
    -------
    float array, shape (size, n)
    """
    n = hull.dimension
    points = np.zeros((size, n))
    # Directions of unit vectors in the coordinates in which the vertices have equal spread in all directions:
    # a linear map changes nothing about the stationary law, and a round hull is crossed in fewer steps.
    spread = np.linalg.cholesky(hull.vertices.T @ hull.vertices).T
    for _ in range(sweeps * n):
        directions = rng.standard_normal((size, n)) @ spread
        low, high = _chords(hull, points, directions)
        points += (low + (high - low) * rng.random(size))[:, None] * directions
    return np.asarray(points * rng.gamma(n + 1.0, 1.0 / epsilon, size)[:, None])


def _chords(hull: SymmetricHull, points: Floats, directions: Floats) -> tuple[Floats, Floats]:
    """The interval of t with ``points + t directions`` in K, row by row."""
    if hull.boundary is None:
        pairs = list(zip(points, directions, strict=True))
        high = np.array([chord_end(hull.vertices, point, direction) for point, direction in pairs])
        low = np.array([-chord_end(hull.vertices, point, -direction) for point, direction in pairs])
        return low, high
    heights, slopes = points @ hull.boundary.forms.T, directions @ hull.boundary.forms.T
    # |height + t slope| <= 1 for all forms; a form that does not change along the line bounds nothing.
    with np.errstate(divide="ignore"):
        inverse = 1.0 / np.abs(slopes)
    ahead = heights * np.sign(slopes)
    return np.max((-1.0 - ahead) * inverse, axis=1), np.min((1.0 - ahead) * inverse, axis=1)
