"""The noise laws as PyMC distributions, each with a location: what the noise was added to.

`DiscreteLaplace` and `DiscreteGaussian` are elementwise, for any real location. `LatticeLaplace`,
`LatticeGaussian` and `ProjectedGaussian` have whole tables as values and keep ``invariants``. Parameters
are named as PyMC names them (``mu``, ``sigma``, ``b``) and are scales of noise; the mechanisms of the same
names in `bayesdp` take privacy parameters. In most models `bayesdp.observe` puts them in for you.
"""

from __future__ import annotations

from bayesdp.distributions.discrete_gaussian import DiscreteGaussian
from bayesdp.distributions.discrete_laplace import DiscreteLaplace
from bayesdp.distributions.lattice_gaussian import LatticeGaussian
from bayesdp.distributions.lattice_laplace import LatticeLaplace
from bayesdp.distributions.projected_gaussian import ProjectedGaussian

__all__ = ["DiscreteGaussian", "DiscreteLaplace", "LatticeGaussian", "LatticeLaplace", "ProjectedGaussian"]
