"""Noise laws: what was added to the counts, with an exact log-mass or log-density and a sampler. No PyMC.

The common ones first, by their names in files and on the command line:

=========================  ========================================================  ==============================
``discrete-laplace``       `DiscreteLaplace`, independent integers                   ``exp(-|k - mu| / b)``
``discrete-gaussian``      `DiscreteGaussian`, independent integers                  ``exp(-(k - mu)**2 / (2 sigma**2))``
``laplace``                `Laplace`, independent reals                              ``exp(-|y - mu| / b)``
``gaussian``               `Gaussian`, independent reals                             ``exp(-(y - mu)**2 / (2 sigma**2))``
``rounded``                `Rounded`, one of the last two, rounded                   its integral over the rounding cell
``random-rounding``        `RandomRounding`, true counts, rounded at random          a table of probabilities
``conventional-rounding``  `ConventionalRounding`, true counts, to the nearest       0 and 1
``cell-key``               `CellKey`, true counts, perturbed by their records' keys  a table of probabilities
``censored``               `Censored`, another law, published within thresholds      its mass and its tails
=========================  ========================================================  ==============================

Independent reals of canonical noise are ``tulap`` and ``canonical``. Noise that keeps invariants is ``lattice-laplace`` and
``lattice-gaussian`` on integers, and on reals ``projected-gaussian``, ``projected-laplace``, ``extended-laplace``,
``correlated-gaussian``, ``subspace-norm``, ``k-norm`` and ``semi-k-norm``. Laws within public bounds (`BoundedLaw`) are
``truncated-laplace``, ``boundary-inflated-laplace``, the Gaussian ones and those of integers with such names; ``rescaled-laplace``
(`bayesdp.papers.bounded_statistics`) is that of shares that add up to 1. Counts that offices publish after rounding or perturbing
them (`PerturbedLaw`) have no differential privacy; two more are ``transition-table``, any table of probabilities of a published count
given the true one, and ``unknown-perturbation``, a table that is not published, and learnt.

A new law is a new module with a subclass of a family's base (`IntegerLaw`, `RealLaw`, `BoundedLaw`, `PerturbedLaw`) or of
`NoiseLaw`, imported here. What it says of itself to the rest of the package is in `NoiseLaw`, as a `KernelForm` and a `LossByLength`.
"""

from bayesdp.fibers.windows import LogMassWindows
from bayesdp.noise.base import KernelForm, LossByLength, NoiseLaw, exponential_loss, law_names, normal_loss
from bayesdp.noise.bounded.base import BoundedLaw
from bayesdp.noise.bounded.laws import (
    BoundaryInflatedDiscreteGaussian,
    BoundaryInflatedDiscreteLaplace,
    BoundaryInflatedGaussian,
    BoundaryInflatedLaplace,
    TruncatedDiscreteLaplace,
    TruncatedGaussian,
    TruncatedLaplace,
)
from bayesdp.noise.independent.canonical import Canonical, Tulap
from bayesdp.noise.independent.laws import DiscreteGaussian, DiscreteLaplace, Gaussian, IntegerLaw, Laplace, RealLaw
from bayesdp.noise.independent.rounded import Rounded
from bayesdp.noise.lattice.laws import LatticeGaussian, LatticeLaplace
from bayesdp.noise.parsing import parse_law
from bayesdp.noise.perturbed.base import PerturbedLaw
from bayesdp.noise.perturbed.cell_key import CellKey, UnknownPerturbation, cell_key, censored_counts
from bayesdp.noise.perturbed.censored import Censored
from bayesdp.noise.perturbed.tables import (
    ConventionalRounding,
    RandomRounding,
    TransitionTable,
    conventional_rounding,
    random_rounding,
    read_ptable,
)
from bayesdp.noise.polytope import KNorm, SemiKNorm
from bayesdp.noise.subspace.laws import CorrelatedGaussian, ExtendedLaplace, ProjectedGaussian
from bayesdp.noise.subspace.projected_laplace import ProjectedLaplace
from bayesdp.noise.subspace.subspace_norm import SubspaceNorm

__all__ = [
    "BoundaryInflatedDiscreteGaussian", "BoundaryInflatedDiscreteLaplace", "BoundaryInflatedGaussian",
    "BoundaryInflatedLaplace", "BoundedLaw", "Canonical", "CellKey", "Censored", "ConventionalRounding",
    "CorrelatedGaussian", "DiscreteGaussian", "DiscreteLaplace", "ExtendedLaplace", "Gaussian", "IntegerLaw", "KNorm",
    "KernelForm", "Laplace", "LatticeGaussian", "LatticeLaplace", "LogMassWindows", "LossByLength", "NoiseLaw", "PerturbedLaw",
    "ProjectedGaussian", "ProjectedLaplace", "RandomRounding", "RealLaw", "Rounded", "SemiKNorm", "SubspaceNorm", "TransitionTable",
    "TruncatedDiscreteLaplace", "TruncatedGaussian", "TruncatedLaplace", "Tulap", "UnknownPerturbation", "cell_key", "censored_counts",
    "conventional_rounding", "exponential_loss", "law_names", "normal_loss", "parse_law", "random_rounding", "read_ptable",
]  # fmt: skip
