"""What the laws share whose mass or density falls in the norm of a polytope."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np

from bayesdp import _validate
from bayesdp.hulls import Hull, choose_hull_sampler, sample_hull
from bayesdp.invariants import Invariants
from bayesdp.lattices.samplers import Sampler
from bayesdp.noise.base import Floats
from bayesdp.noise.subspace.base import SubspaceLaw, cell_variances
from bayesdp.noise.tables import TableLaw


def adjacency_of(value: Any) -> int:
    """Accept a number of records; also as a float that holds it exactly, as text and some files give numbers."""
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    return _validate.positive_integer(whole, "adjacency")


class HullLaw(TableLaw):
    """Noise with a kernel ``exp(-epsilon ||Q^T z||_K)``."""

    epsilon: float
    family = "polytope"
    scale_name = "epsilon"

    @abstractmethod
    def ball(self, invariants: Invariants) -> Hull:
        """The polytope K, in orthonormal coordinates of the invariants."""

    def check_fit(self, invariants: Invariants) -> None:
        """Insist that there is such a polytope."""
        self.ball(invariants)

    def measured(self, noise: Floats, invariants: Invariants) -> Any:
        """The norm of the noise."""
        return self.ball(invariants).gauge(invariants.coordinates(noise))

    def log_kernel(self, xp: Any, measured: Any, scale: Any, invariants: Invariants) -> Any:
        """``-epsilon ||Q^T z||_K``; see `TableLaw.log_kernel`."""
        return -scale * measured


class HullDensity(HullLaw, SubspaceLaw):
    """Such noise of real numbers, with the normaliser ``n! vol(K) / epsilon**n``."""

    def log_kernel(self, xp: Any, measured: Any, scale: Any, invariants: Invariants) -> Any:
        """Log-density at a norm; where the volume of K is not computed, ``log(n! vol(K))`` is taken as 0."""
        constant = self.ball(invariants).log_cone_mass or 0.0
        return invariants.dimension * xp.log(scale) - constant - scale * measured

    def sampler(self, invariants: Invariants) -> Sampler:
        """How noise is drawn, before any is, exactly or by hit-and-run: see `bayesdp.hulls.choose_hull_sampler`."""
        return choose_hull_sampler(self.ball(invariants), invariants)

    def noise(self, rng: np.random.Generator, count: int, invariants: Invariants) -> Floats:
        """Draw noise; `sampler` says how."""
        points = sample_hull(self.ball(invariants), self.epsilon, rng, count, invariants)
        return invariants.from_coordinates(points)

    def variance(self, shape: tuple[int, ...], invariants: Invariants | None = None) -> Floats | None:
        """Variance of each cell, or None where second moments of K are not known."""
        invariants = self.needed(invariants, shape)
        moments = self.ball(invariants).second_moment
        return None if moments is None else cell_variances(moments / self.epsilon**2, invariants)

    def _log_integral(self, hull: Hull) -> float | None:
        """Logarithm of the integral of ``exp(-epsilon ||v||_K)``, or None where the volume of K is not computed."""
        cones = hull.log_cone_mass
        return None if cones is None else cones - hull.dimension * math.log(self.epsilon)
