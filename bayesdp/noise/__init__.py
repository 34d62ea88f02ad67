"""Noise laws: what was added to the counts, with an exact log-mass or log-density and a sampler. No PyMC.

=======================  ============================================  ====================================
name in files            law                                           mass or density
=======================  ============================================  ====================================
``discrete-laplace``     `DiscreteLaplace`, independent integers       ``exp(-|k - mu| / b)``
``discrete-gaussian``    `DiscreteGaussian`, independent integers      ``exp(-(k - mu)**2 / (2 sigma**2))``
``lattice-laplace``      `LatticeLaplace`, integers, invariants kept   ``exp(-epsilon ||z||)``
``lattice-gaussian``     `LatticeGaussian`, integers, invariants kept  ``exp(-||z||_2**2 / (2 sigma**2))``
``projected-gaussian``   `ProjectedGaussian`, reals, invariants kept   ``exp(-||z||_2**2 / (2 sigma**2))``
``projected-laplace``    `ProjectedLaplace`, reals, invariants kept    an integral over the row space
``extended-laplace``     `ExtendedLaplace`, reals, invariants kept     ``exp(-||Q^T z||_1 / b)``
``correlated-gaussian``  `CorrelatedGaussian`, reals, invariants kept  ``exp(-z^T Q covariance^-1 Q^T z / 2)``
``k-norm``               `KNorm`, reals, invariants kept               ``exp(-epsilon ||z||_K)``, K a polytope
=======================  ============================================  ====================================

A new law is a new module with a `NoiseLaw` subclass, imported here.
"""

from __future__ import annotations

from bayesdp.noise.base import NoiseLaw, law_names, parse_law
from bayesdp.noise.correlated_gaussian import CorrelatedGaussian
from bayesdp.noise.discrete_gaussian import DiscreteGaussian
from bayesdp.noise.discrete_laplace import DiscreteLaplace
from bayesdp.noise.extended_laplace import ExtendedLaplace
from bayesdp.noise.k_norm import KNorm
from bayesdp.noise.lattice_gaussian import LatticeGaussian
from bayesdp.noise.lattice_laplace import LatticeLaplace
from bayesdp.noise.projected_gaussian import ProjectedGaussian
from bayesdp.noise.projected_laplace import ProjectedLaplace

__all__ = [
    "CorrelatedGaussian",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "ExtendedLaplace",
    "KNorm",
    "LatticeGaussian",
    "LatticeLaplace",
    "NoiseLaw",
    "ProjectedGaussian",
    "ProjectedLaplace",
    "law_names",
    "parse_law",
]
