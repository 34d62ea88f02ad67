"""Mechanisms: privacy parameters and invariants in; a noise law, a release and a guarantee out.

=======================  =====================  ===============================================================
name in files            mechanism              noise
=======================  =====================  ===============================================================
``lattice-laplace``      `LatticeLaplace`       integers, pure differential privacy
``lattice-gaussian``     `LatticeGaussian`      integers, zero-concentrated differential privacy
``projected-gaussian``   `ProjectedGaussian`    reals, concentrated, approximate or Gaussian
``extended-gaussian``    `ExtendedGaussian`     the same, from the sensitivity left in the noise space
``projected-laplace``    `ProjectedLaplace`     reals, pure differential privacy
``extended-laplace``     `ExtendedLaplace`      reals, pure; independent in published coordinates
``correlated-gaussian``  `CorrelatedGaussian`   the same as the Gaussians above, of a shape that fits the query
``k-norm``               `KNorm`                reals, pure; the smallest ball that hides all neighbours
``discrete-laplace``     `DiscreteLaplace`      integers, pure; independent, no invariants
``discrete-gaussian``    `DiscreteGaussian`     integers, concentrated or approximate; independent, no invariants
``canonical-noise``      `CanonicalNoise`       reals, pure, approximate or Gaussian; independent, no invariants
=======================  =====================  ===============================================================

Semi-DP, for tables with the same invariants that are a few records apart: ``semi-gaussian`` (`SemiGaussian`), ``semi-k-norm``
(`SemiKNorm`: the smallest ball), ``semi-norm`` and ``semi-lattice-laplace``
(`SemiNorm`, `SemiLatticeLaplace`: noise of the l1, l2 and l-infinity norm), ``semi-projected-laplace`` (`SemiProjectedLaplace`);
``semi-canonical`` (`SemiCanonical`: one cell with canonical noise of any trade-off function, where a single direction is free).

Within public bounds there are `TruncatedLaplace`, `BoundaryInflatedLaplace`, `TruncatedGaussian` and `BoundaryInflatedGaussian` for
statistics, which publish a `StatisticRelease`. Proportions that add up to 1 are in `bayesdp.papers.bounded_statistics`, covariance
matrices in `bayesdp.papers.covariance_cone`.

`PublishedChoice` runs one of several mechanisms, and says which. In `bayesdp.papers`: how many sweeps a Markov chain of lattice noise
needs (`integer_subspace`), any private mechanism made to keep the invariants, and holders of single cells who add noise without
telling anybody their counts (`subspace`).
"""

from bayesdp.mechanisms.base import AdditiveMechanism, Mechanism
from bayesdp.mechanisms.bounded.statistic_release import StatisticRelease
from bayesdp.mechanisms.bounded.statistics import (
    BoundaryInflatedGaussian,
    BoundaryInflatedLaplace,
    StatisticMechanism,
    TruncatedGaussian,
    TruncatedLaplace,
)
from bayesdp.mechanisms.canonical import CanonicalNoise, SemiCanonical
from bayesdp.mechanisms.integers import (
    DiscreteGaussian,
    DiscreteLaplace,
    LatticeGaussian,
    LatticeLaplace,
    SemiLatticeLaplace,
)
from bayesdp.mechanisms.k_norm import KNorm, SemiKNorm
from bayesdp.mechanisms.published_choice import PublishedChoice
from bayesdp.mechanisms.real import (
    CorrelatedGaussian,
    ExtendedGaussian,
    ExtendedLaplace,
    ProjectedGaussian,
    ProjectedLaplace,
    SemiGaussian,
    SemiNorm,
    SemiProjectedLaplace,
)
from bayesdp.privacy import StatisticGuarantee

__all__ = [
    "AdditiveMechanism", "BoundaryInflatedGaussian", "BoundaryInflatedLaplace", "CanonicalNoise", "CorrelatedGaussian",
    "DiscreteGaussian", "DiscreteLaplace", "ExtendedGaussian", "ExtendedLaplace", "KNorm", "LatticeGaussian", "LatticeLaplace",
    "Mechanism", "ProjectedGaussian", "ProjectedLaplace", "PublishedChoice", "SemiCanonical", "SemiGaussian", "SemiKNorm",
    "SemiLatticeLaplace", "SemiNorm", "SemiProjectedLaplace", "StatisticGuarantee", "StatisticMechanism", "StatisticRelease",
    "TruncatedGaussian", "TruncatedLaplace",
]  # fmt: skip
