"""The noise laws as PyMC distributions, each with a location: what the noise was added to.

`DiscreteLaplace`, `DiscreteGaussian`, `Laplace`, `Gaussian`, `Tulap` and `CanonicalNoise` are elementwise, for any real
location. `LatticeLaplace`, `LatticeGaussian`,
`ProjectedGaussian`, `ProjectedLaplace`, `ExtendedLaplace`, `CorrelatedGaussian`, `KNorm`, `SemiKNorm`, and
`SubspaceNorm` have whole tables as values and keep ``invariants``. Parameters
are named as PyMC names them (``mu``, ``sigma``, ``b``) and are scales of noise; the mechanisms of the same
names in `bayesdp` take privacy parameters. `RowSpaceNoise` is a latent part of projected Laplace noise, for invariants where
its density is not available (`ProjectedLaplaceGivenRows`). `TruncatedLaplace`,
`BoundaryInflatedLaplace`, `TruncatedGaussian`, `BoundaryInflatedGaussian` and the four discrete laws of such names are elementwise,
with values between ``lower`` and ``upper``; `Censored` has what is published within thresholds of another law.
`RandomRounding`, `ConventionalRounding`, `CellKey` and `TransitionTable` are elementwise, counts published for counts ``mu``;
`PerturbedByRows` is such a law whose table is a variable, as `PerturbationRows` that are not known.
In most models `bayesdp.observe` puts them in for you.
`distribution_of` gives the distribution of a law, and makes it from the law if there is none; `register_distribution` makes one known
that was written by hand. `scalar_distribution`, `bounded_distribution`, `perturbed_distribution` and `table_distribution` make them
under a name of your own, of laws of independent values, within bounds, of perturbed counts, and of whole tables.
"""

from __future__ import annotations

from bayesdp.distributions.independent import CanonicalNoise, Censored, Tulap, bounded_distribution, scalar_distribution
from bayesdp.distributions.laws import (
    BoundaryInflatedDiscreteGaussian,
    BoundaryInflatedDiscreteLaplace,
    BoundaryInflatedGaussian,
    BoundaryInflatedLaplace,
    CellKey,
    ConventionalRounding,
    CorrelatedGaussian,
    DiscreteGaussian,
    DiscreteLaplace,
    ExtendedLaplace,
    Gaussian,
    KNorm,
    Laplace,
    LatticeGaussian,
    LatticeLaplace,
    ProjectedGaussian,
    ProjectedLaplace,
    RandomRounding,
    SemiKNorm,
    SubspaceNorm,
    TransitionTable,
    TruncatedDiscreteLaplace,
    TruncatedGaussian,
    TruncatedLaplace,
    UnknownPerturbation,
)
from bayesdp.distributions.perturbed import PerturbationRows, PerturbedByRows, perturbed_distribution
from bayesdp.distributions.registry import add_likelihood, distribution_of, register, register_distribution
from bayesdp.distributions.tables import ProjectedLaplaceGivenRows, RowSpaceNoise, table_distribution

__all__ = [
    "BoundaryInflatedDiscreteGaussian", "BoundaryInflatedDiscreteLaplace", "BoundaryInflatedGaussian",
    "BoundaryInflatedLaplace", "CanonicalNoise", "CellKey", "Censored", "ConventionalRounding", "CorrelatedGaussian",
    "DiscreteGaussian", "DiscreteLaplace", "ExtendedLaplace", "Gaussian", "KNorm", "Laplace", "LatticeGaussian",
    "LatticeLaplace", "PerturbationRows", "PerturbedByRows", "ProjectedGaussian",
    "ProjectedLaplace", "ProjectedLaplaceGivenRows", "RandomRounding", "RowSpaceNoise", "SemiKNorm", "SubspaceNorm",
    "TransitionTable", "TruncatedDiscreteLaplace", "TruncatedGaussian",
    "TruncatedLaplace", "Tulap", "UnknownPerturbation", "add_likelihood", "bounded_distribution", "distribution_of",
    "perturbed_distribution", "register_distribution", "scalar_distribution", "table_distribution",
]  # fmt: skip

register()  # so that `pickle` writes models and steps
