"""Mechanisms: privacy parameters and invariants in; a noise law, a release and a guarantee out.

======================  =====================  ==============================================
name in files           mechanism              noise
======================  =====================  ==============================================
``lattice-laplace``     `LatticeLaplace`       integers, pure differential privacy
``lattice-gaussian``    `LatticeGaussian`      integers, zero-concentrated differential privacy
``projected-gaussian``  `ProjectedGaussian`    reals, concentrated, approximate or Gaussian
======================  =====================  ==============================================

A new mechanism is a new module with a `Mechanism` subclass, imported here.
"""

from __future__ import annotations

from bayesdp.mechanisms.base import Mechanism, mechanism_names
from bayesdp.mechanisms.lattice_gaussian import LatticeGaussian
from bayesdp.mechanisms.lattice_laplace import LatticeLaplace
from bayesdp.mechanisms.projected_gaussian import ProjectedGaussian

__all__ = ["LatticeGaussian", "LatticeLaplace", "Mechanism", "ProjectedGaussian", "mechanism_names"]
