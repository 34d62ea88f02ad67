"""The noise laws as PyMC distributions, each with a location: what the noise was added to.

`DiscreteLaplace` and `DiscreteGaussian` are elementwise, for any real location. `LatticeLaplace`, `LatticeGaussian`,
`ProjectedGaussian`, `ProjectedLaplace`, `ExtendedLaplace`, `CorrelatedGaussian` and `KNorm` have whole tables as values and
keep ``invariants``. Parameters
are named as PyMC names them (``mu``, ``sigma``, ``b``) and are scales of noise; the mechanisms of the same
names in `bayesdp` take privacy parameters. `RowSpaceNoise` is a latent part of projected Laplace noise, for invariants where
its density is not available (`ProjectedLaplaceGivenRows`). In most models `bayesdp.observe` puts them in for you.
"""

from __future__ import annotations

from bayesdp.distributions.correlated_gaussian import CorrelatedGaussian
from bayesdp.distributions.discrete_gaussian import DiscreteGaussian
from bayesdp.distributions.discrete_laplace import DiscreteLaplace
from bayesdp.distributions.extended_laplace import ExtendedLaplace
from bayesdp.distributions.k_norm import KNorm
from bayesdp.distributions.lattice_gaussian import LatticeGaussian
from bayesdp.distributions.lattice_laplace import LatticeLaplace
from bayesdp.distributions.projected_gaussian import ProjectedGaussian
from bayesdp.distributions.projected_laplace import ProjectedLaplace
from bayesdp.distributions.row_noise import ProjectedLaplaceGivenRows, RowSpaceNoise

__all__ = [
    "CorrelatedGaussian",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "ExtendedLaplace",
    "KNorm",
    "LatticeGaussian",
    "LatticeLaplace",
    "ProjectedGaussian",
    "ProjectedLaplace",
    "ProjectedLaplaceGivenRows",
    "RowSpaceNoise",
]
