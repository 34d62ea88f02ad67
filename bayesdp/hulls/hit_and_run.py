"""Approximate draws by hit-and-run: for hulls that nothing else can handle."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb
from bayesdp._random import seed_state, uniform
from bayesdp.hulls.base import Hull
from bayesdp.hulls.boundary import Boundary
from bayesdp.hulls.generators import Generators
from bayesdp.hulls.simplex import SOLVED, solve

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Words = npt.NDArray[np.uint64]

_STEPS = 20
"""Steps of a chain in one call of compiled code, which cannot be interrupted."""


def draw_hit_and_run(
    hull: Hull, epsilon: float, rng: np.random.Generator, size: int, sweeps: int, generators: Generators | None = None
) -> npt.NDArray[np.float64]:
    """Draw points with density about proportional to ``exp(-epsilon ||v||_K)``."""
    # A uniform point of K times a gamma variable of shape n + 1 and rate epsilon has this density. Each uniform point is the end of
    # a chain of its own that starts at the centre: a step goes to a uniform point of the chord of K in a uniform direction, so that
    # the uniform law is the one stationary law (Smith, 1984). How close the end of a chain is to it is not known. `sweeps`: length
    # of each chain; a sweep has as many steps as there are dimensions. Without facets, the ends of a chord are found by Newton's
    # method on the norm, with linear programs that begin where the last one ended. `generators`: the same vertices, as linear
    # programs search them faster. Returns shape (size, n). ArithmeticError if a linear program is not solved (not seen).
    n = hull.dimension
    # Directions of unit vectors in the coordinates in which the vertices have equal spread in all directions:
    # a linear map changes nothing about the stationary law, and a round hull is crossed in fewer steps.
    spread = np.linalg.cholesky(hull.vertices.T @ hull.vertices).T
    if hull.facets is None:
        vertices = hull.generators if generators is None else generators
        points = np.array([_chain(vertices, spread, rng, sweeps * n) for _ in range(size)]).reshape(size, n)
    else:
        points = np.zeros((size, n))
        for _ in range(sweeps * n):
            directions = rng.standard_normal((size, n)) @ spread
            low, high = _chords(hull.facets, points, directions)
            points += (low + (high - low) * rng.random(size))[:, None] * directions
    return np.asarray(points * rng.gamma(n + 1.0, 1.0 / epsilon, size)[:, None])


def _chords(boundary: Boundary, points: Floats, directions: Floats) -> tuple[Floats, Floats]:
    """The interval of t with ``points + t directions`` in K, row by row."""
    heights, slopes = points @ boundary.forms.T, directions @ boundary.forms.T
    # |height + t slope| <= 1 for all forms; a form that does not change along the line bounds nothing.
    with np.errstate(divide="ignore"):
        inverse = 1.0 / np.abs(slopes)
    ahead = heights * np.sign(slopes)
    return np.max((-1.0 - ahead) * inverse, axis=1), np.min((1.0 - ahead) * inverse, axis=1)


def _chain(generators: Generators, spread: Floats, rng: np.random.Generator, steps: int) -> Floats:
    """The last point of a chain from the centre."""
    basis, state, point = generators.start.copy(), seed_state(rng), np.zeros(generators.dimension)
    for done in range(0, steps, _STEPS):
        count = min(_STEPS, steps - done)
        if not _walk(
            state,
            generators.kind,
            generators.vectors,
            generators.shape,
            *basis,
            np.ascontiguousarray(spread),
            point,
            count,
        ):
            raise ArithmeticError("the end of a chord was not found: rounding errors took over (not seen so far)")
    return point * generators.scale


@nb.njit(cache=True, error_model="numpy")
def _normal(state: Words) -> float:
    """A standard normal variable, by Box and Muller's formula."""
    return math.sqrt(-2.0 * math.log1p(-uniform(state))) * math.cos(2.0 * math.pi * uniform(state))


@nb.njit(cache=True, error_model="numpy")
def _end(
    kind: int, vectors: Floats, shape: Ints, corners: Floats, inverse: Floats, ends: Ints, point: Floats,
    direction: Floats, weights: Floats, form: Floats,
) -> float:  # fmt: skip
    """How far one can go in a direction of norm 1: at most 2, and less by Newton's method, which never falls short."""
    far = 2.0
    for _ in range(1000):
        there = point + far * direction
        state, _, size, _ = solve(kind, vectors, shape, corners, inverse, ends, there, np.nan, weights, form)
        if state != SOLVED:
            return -1.0
        slope = np.sum(form * direction)
        if size <= 1.0 + 1e-9 or slope <= 0.0:
            return far
        far -= (size - 1.0) / slope
    return -1.0


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _walk(
    state: Words, kind: int, vectors: Floats, shape: Ints, corners: Floats, inverse: Floats, ends: Ints, spread: Floats,
    point: Floats, steps: int,
) -> bool:  # fmt: skip
    """Move a point so many steps; False if a linear program is not solved."""
    n = len(point)
    weights, form, direction = np.empty(n), np.empty(n), np.empty(n)
    for _ in range(steps):
        direction[:] = 0.0
        for i in range(n):
            normal = _normal(state)
            for t in range(n):
                direction[t] += normal * spread[i, t]
        solved, _, size, _ = solve(kind, vectors, shape, corners, inverse, ends, direction, np.nan, weights, form)
        if solved != SOLVED:
            return False
        direction /= size
        high = _end(kind, vectors, shape, corners, inverse, ends, point, direction, weights, form)
        low = _end(kind, vectors, shape, corners, inverse, ends, point, -direction, weights, form)
        if high < 0.0 or low < 0.0:
            return False
        point += (uniform(state) * (high + low) - low) * direction
    return True
