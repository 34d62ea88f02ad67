"""Density, draws and variance of noise in the norm of a polytope, shared by the laws that have one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp.hulls import Hull, sample_hull
from bayesdp.invariants import Invariants
from bayesdp.noise._rng import count_of, generator_of
from bayesdp.noise.base import Floats
from bayesdp.noise.subspace.projected_gaussian import TOLERANCE
from bayesdp.noise.tables import table_difference, table_location

__all__ = ["adjacency_of", "hull_draw", "hull_logp", "hull_variance"]


def adjacency_of(value: Any) -> int:
    """Accept a number of records; also as a float that holds it exactly, as text and some files give numbers."""
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    return _validate.positive_integer(whole, "adjacency")


def hull_logp(
    hull: Hull, epsilon: float, values: npt.ArrayLike, location: npt.ArrayLike, invariants: Invariants
) -> float:
    """Log-density in orthonormal coordinates; ``-inf`` off the subspace, by the tolerance of `ProjectedGaussian.logp`.

    Where the volume of K is not computed, ``log(n! vol(K))`` is taken as 0.
    """
    difference = table_difference(values, location, invariants)
    outside = difference - invariants.project(difference)
    magnitude = max(1.0, float(np.max(np.abs(values))), float(np.max(np.abs(location))))
    if float(np.max(np.abs(outside))) > TOLERANCE * magnitude:
        return -math.inf
    size = float(hull.gauge(invariants.coordinates(difference)))
    return hull.dimension * math.log(epsilon) - (hull.log_cone_mass or 0.0) - epsilon * size


def hull_draw(
    hull: Hull,
    epsilon: float,
    rng: _validate.Seed,
    size: int | None,
    invariants: Invariants,
    location: npt.ArrayLike | None,
) -> Floats:
    """Noise around a location (zeros if None); without `size`, one table, no extra axis."""
    points = sample_hull(hull, epsilon, generator_of(rng), 1 if size is None else count_of(size), invariants)
    noise = invariants.from_coordinates(points[0] if size is None else points)
    return np.asarray(table_location(location, invariants) + noise, dtype=np.float64)


def hull_variance(hull: Hull, epsilon: float, invariants: Invariants) -> Floats | None:
    """Variance of each cell, or None where second moments are not known."""
    if hull.second_moment is None:
        return None
    # Q C Q^T has the diagonal sum_j (Q L)_ij**2, with C = L L^T.
    factor = np.linalg.cholesky(hull.second_moment / epsilon**2)
    return np.asarray(np.sum(invariants.from_coordinates(factor.T) ** 2, axis=0))
