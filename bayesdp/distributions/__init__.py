"""The noise laws as PyMC distributions, each with a location: what the noise was added to.

`DiscreteLaplace`, `DiscreteGaussian`, `Laplace`, `Gaussian`, `Tulap` and `CanonicalNoise` are elementwise, for any real
location. `LatticeLaplace`, `LatticeGaussian`,
`ProjectedGaussian`, `ProjectedLaplace`, `ExtendedLaplace`, `MixedLaplace`, `CorrelatedGaussian`, `KNorm`, `SemiKNorm`,
`SubspaceNorm` and `LatticeKNorm` have whole tables as values and keep ``invariants``. Parameters
are named as PyMC names them (``mu``, ``sigma``, ``b``) and are scales of noise; the mechanisms of the same
names in `bayesdp` take privacy parameters. `RowSpaceNoise` is a latent part of projected Laplace noise, for invariants where
its density is not available (`ProjectedLaplaceGivenRows`). `TruncatedLaplace`,
`BoundaryInflatedLaplace`, `TruncatedGaussian`, `BoundaryInflatedGaussian` and the four discrete laws of such names are elementwise,
with values between ``lower`` and ``upper``; `RescaledLaplace` has vectors of shares that add up to 1; `BoxNorm` is noise of vectors of
statistics; `Censored` has what is published within thresholds of another law.
`RandomRounding`, `ConventionalRounding`, `CellKey` and `TransitionTable` are elementwise, counts published for counts ``mu``;
`PerturbedByRows` is such a law whose table is a variable, as `PerturbationRows` that are not known.
In most models `bayesdp.observe` puts them in for you.
`distribution_of` gives the distribution of a law. `scalar_distribution`, `bounded_distribution`, `perturbed_distribution` and
`table_distribution` make those of laws of independent values, within bounds, of perturbed counts, and whose noise is a whole table
(CONTRIBUTING.md shows it); `register_distribution` makes one known that was written by hand.
"""

from __future__ import annotations

from bayesdp.distributions._pickling import register
from bayesdp.distributions.bounded.base import bounded_distribution
from bayesdp.distributions.bounded.gaussian import BoundaryInflatedGaussian, TruncatedGaussian
from bayesdp.distributions.bounded.laplace import (
    BoundaryInflatedDiscreteGaussian,
    BoundaryInflatedDiscreteLaplace,
    BoundaryInflatedLaplace,
    TruncatedDiscreteGaussian,
    TruncatedDiscreteLaplace,
    TruncatedLaplace,
)
from bayesdp.distributions.independent import of_counts  # noqa: F401  # it registers its likelihoods
from bayesdp.distributions.independent.canonical_noise import CanonicalNoise
from bayesdp.distributions.independent.scalar import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    Tulap,
    scalar_distribution,
)
from bayesdp.distributions.lattice.laws import LatticeGaussian, LatticeLaplace
from bayesdp.distributions.perturbed.base import (
    CellKey,
    ConventionalRounding,
    RandomRounding,
    TransitionTable,
    perturbed_distribution,
)
from bayesdp.distributions.perturbed.by_rows import PerturbationRows, PerturbedByRows, UnknownPerturbation
from bayesdp.distributions.perturbed.censored import Censored
from bayesdp.distributions.polytope.k_norm import KNorm, LatticeKNorm, SemiKNorm
from bayesdp.distributions.registry import add_likelihood, distribution_of, register_distribution
from bayesdp.distributions.subspace.laws import (
    CorrelatedGaussian,
    ExtendedLaplace,
    MixedLaplace,
    ProjectedGaussian,
    ProjectedLaplace,
    SubspaceNorm,
)
from bayesdp.distributions.subspace.row_noise import ProjectedLaplaceGivenRows, RowSpaceNoise
from bayesdp.distributions.tables import table_distribution

__all__ = [
    "BoundaryInflatedDiscreteGaussian",
    "BoundaryInflatedDiscreteLaplace",
    "BoundaryInflatedGaussian",
    "BoundaryInflatedLaplace",
    "CanonicalNoise",
    "CellKey",
    "Censored",
    "ConventionalRounding",
    "CorrelatedGaussian",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "ExtendedLaplace",
    "Gaussian",
    "KNorm",
    "Laplace",
    "LatticeGaussian",
    "LatticeKNorm",
    "LatticeLaplace",
    "MixedLaplace",
    "PerturbationRows",
    "PerturbedByRows",
    "ProjectedGaussian",
    "ProjectedLaplace",
    "ProjectedLaplaceGivenRows",
    "RandomRounding",
    "RowSpaceNoise",
    "SemiKNorm",
    "SubspaceNorm",
    "TransitionTable",
    "TruncatedDiscreteGaussian",
    "TruncatedDiscreteLaplace",
    "TruncatedGaussian",
    "TruncatedLaplace",
    "Tulap",
    "UnknownPerturbation",
    "add_likelihood",
    "bounded_distribution",
    "distribution_of",
    "perturbed_distribution",
    "register_distribution",
    "scalar_distribution",
    "table_distribution",
]

register()  # so that `pickle` writes models and steps
