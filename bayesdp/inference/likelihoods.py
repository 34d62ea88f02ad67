"""The PyMC distribution of every noise law, as `observe` puts it into a model."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp import distributions, noise
from bayesdp.distributions._parameters import is_discrete
from bayesdp.distributions.independent.canonical_of_counts import CanonicalOfCounts
from bayesdp.distributions.independent.tulap_of_counts import TulapOfCounts
from bayesdp.invariants import Invariants
from bayesdp.noise import NoiseLaw
from bayesdp.noise._rows import components_of
from bayesdp.noise.independent.scaled import ScaledLaw

__all__ = ["add_likelihood"]

type Keep = npt.NDArray[np.bool_] | None


def add_likelihood(
    name: str,
    law: NoiseLaw,
    mu: Any,
    *,
    observed: Any,
    dims: tuple[str, ...],
    invariants: Invariants | None = None,
    scale: Any = None,
) -> None:
    """Add the observed variable of one measurement to the current model.

    Parameters
    ----------
    name : str
    law : NoiseLaw
    mu : tensor variable
        Answers that the noise was added to, of the shape of `observed`.
    observed : tensor variable
        The noisy answers.
    dims : tuple of str
        Dimensions of the answers.
    invariants : Invariants, optional
        What the noise leaves as it is, in terms of the answers.
    scale : float or array, optional
        For independent noise, the scale of each answer that was published; for laws within bounds, that and the lower
        and upper bounds.

    Raises
    ------
    NotImplementedError
        If no PyMC distribution is known for the law.
    """
    common: dict[str, Any] = {"observed": observed, "dims": dims}
    if isinstance(law, ScaledLaw):
        _SCALED[type(law)](name, mu=mu, **{law.scale_name: scale}, **common)
        return
    if isinstance(law, noise.Tulap):
        _tulap(name, law, mu, common)
        return
    if isinstance(law, noise.Canonical):
        bounded = is_discrete(mu) and math.isfinite(law.standard.support()[1])
        own = CanonicalOfCounts if bounded else distributions.CanonicalNoise
        own(name, mu=mu, tradeoff=law.tradeoff, **common)
        return
    if isinstance(law, noise.BoundedLaw):
        spread, lower, upper = scale
        limits = {law.scale_name: spread, "lower": lower, "upper": upper}
        _BOUNDED[type(law)](name, mu=mu, **limits, **common)
        return
    add = _ON_A_SPACE.get(type(law))
    if add is None or invariants is None:
        raise NotImplementedError(f"no PyMC distribution is registered for the noise law {law.name!r}")
    add(name, law, mu, {**common, "invariants": invariants})


def _tulap(name: str, law: noise.Tulap, mu: Any, common: dict[str, Any]) -> None:
    """Noise for another sensitivity is noise for 1 in that unit; the published numbers stay in counts."""
    if law.sensitivity != 1.0:
        raise NotImplementedError(
            f"a model with Tulap noise for a sensitivity other than 1 is not available (the law has {law.sensitivity:g}); divide "
            "the published numbers and the answers by it, and use bayesdp.distributions.Tulap"
        )
    held = law.delta > 0.0 and is_discrete(mu)  # counts on a fiber, whose step keeps them within reach
    own = TulapOfCounts if held else distributions.Tulap
    own(name, mu=mu, epsilon=law.epsilon, delta=law.delta, **common)


def _lattice_laplace(name: str, law: Any, mu: Any, common: dict[str, Any]) -> None:
    distributions.LatticeLaplace(name, mu=mu, epsilon=law.epsilon, norm=law.norm, **common)


def _lattice_gaussian(name: str, law: Any, mu: Any, common: dict[str, Any]) -> None:
    distributions.LatticeGaussian(name, mu=mu, sigma=law.sigma, **common)


def _projected_gaussian(name: str, law: Any, mu: Any, common: dict[str, Any]) -> None:
    distributions.ProjectedGaussian(name, mu=mu, sigma=law.sigma, **common)


def _projected_laplace(name: str, law: Any, mu: Any, common: dict[str, Any]) -> None:
    """In closed form where it has one, and nothing else has to be sampled anyway; else with its row-space noise.

    Counts on a lattice move by exact conditional steps only where the noise is a product, which it is given the row-space
    noise.
    """
    invariants = common["invariants"]
    if not invariants.rank or (not is_discrete(mu) and len(components_of(invariants).wide) == 0):
        distributions.ProjectedLaplace(name, mu=mu, b=law.b, **common)
        return
    w = distributions.RowSpaceNoise(f"{name}_rows", law.b, invariants=invariants)
    distributions.ProjectedLaplaceGivenRows(name, mu=mu, w=w, b=law.b, **common)


def _extended_laplace(name: str, law: Any, mu: Any, common: dict[str, Any]) -> None:
    distributions.ExtendedLaplace(name, mu=mu, b=law.b, coordinates=law.coordinates, **common)


def _correlated_gaussian(name: str, law: Any, mu: Any, common: dict[str, Any]) -> None:
    distributions.CorrelatedGaussian(name, mu=mu, covariance=law.covariance, coordinates=law.coordinates, **common)


def _k_norm(name: str, law: Any, mu: Any, common: dict[str, Any]) -> None:
    distributions.KNorm(name, mu=mu, epsilon=law.epsilon, vertices=law.vertices, **common)


def _semi_k_norm(name: str, law: Any, mu: Any, common: dict[str, Any]) -> None:
    distributions.SemiKNorm(name, mu=mu, epsilon=law.epsilon, adjacency=law.adjacency, **common)


def _subspace_norm(name: str, law: Any, mu: Any, common: dict[str, Any]) -> None:
    distributions.SubspaceNorm(name, mu=mu, epsilon=law.epsilon, norm=law.norm, **common)


def _lattice_k_norm(name: str, law: Any, mu: Any, common: dict[str, Any]) -> None:
    distributions.LatticeKNorm(
        name, mu=mu, epsilon=law.epsilon, adjacency=law.adjacency, vertices=law.vertices, **common
    )


_SCALED: dict[type[NoiseLaw], Any] = {
    noise.DiscreteLaplace: distributions.DiscreteLaplace,
    noise.DiscreteGaussian: distributions.DiscreteGaussian,
    noise.Laplace: distributions.Laplace,
    noise.Gaussian: distributions.Gaussian,
}

_BOUNDED: dict[type[NoiseLaw], Any] = {
    noise.TruncatedLaplace: distributions.TruncatedLaplace,
    noise.BoundaryInflatedLaplace: distributions.BoundaryInflatedLaplace,
    noise.TruncatedDiscreteLaplace: distributions.TruncatedDiscreteLaplace,
    noise.BoundaryInflatedDiscreteLaplace: distributions.BoundaryInflatedDiscreteLaplace,
    noise.TruncatedDiscreteGaussian: distributions.TruncatedDiscreteGaussian,
    noise.BoundaryInflatedDiscreteGaussian: distributions.BoundaryInflatedDiscreteGaussian,
}

_ON_A_SPACE: dict[type[NoiseLaw], Callable[[str, Any, Any, dict[str, Any]], None]] = {
    noise.LatticeLaplace: _lattice_laplace,
    noise.LatticeGaussian: _lattice_gaussian,
    noise.ProjectedGaussian: _projected_gaussian,
    noise.ProjectedLaplace: _projected_laplace,
    noise.ExtendedLaplace: _extended_laplace,
    noise.CorrelatedGaussian: _correlated_gaussian,
    noise.KNorm: _k_norm,
    noise.SemiKNorm: _semi_k_norm,
    noise.SubspaceNorm: _subspace_norm,
    noise.LatticeKNorm: _lattice_k_norm,
}
