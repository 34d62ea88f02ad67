"""The noise laws as PyMC distributions, each with a location ``mu``: what the noise was added to.

Parameters are named as PyMC names them (``mu``, ``sigma``, ``b``) and are scales of noise; the mechanisms of the same names in
`bayesdp` take privacy parameters. Laws of independent noise are elementwise, for any real location, those within bounds with values
between ``lower`` and ``upper``, and those of perturbed counts for counts ``mu``. Laws of noise that keeps ``invariants`` have whole
tables as values. `Censored` has what is published within thresholds of another law, `Rounded` what is after rounding,
`PerturbedByRows` counts perturbed by a table that is a variable, such as `PerturbationRows`, and `RowSpaceNoise` is a latent part of
projected Laplace noise, for invariants where its density is not available (`ProjectedLaplaceGivenRows`). In most models
`bayesdp.observe` puts them in for you.
`distribution_of` gives the distribution of a law, and makes it from the law if there is none; `register_distribution` makes one known
that was written by hand. `scalar_distribution` makes them under a name, or with methods, of your own.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any

from bayesdp import noise
from bayesdp.distributions.independent import CanonicalNoise, Tulap, of_values, scalar_distribution, within
from bayesdp.distributions.made_of_another import Censored, Rounded
from bayesdp.distributions.perturbed import PerturbationRows, PerturbedByRows, of_table
from bayesdp.distributions.registry import add_likelihood, distribution_of, register_distribution
from bayesdp.distributions.tables import ProjectedLaplaceGivenRows, RowSpaceNoise, of_tables

__all__ = [
    "BoundaryInflatedDiscreteGaussian", "BoundaryInflatedDiscreteLaplace", "BoundaryInflatedGaussian",
    "BoundaryInflatedLaplace", "CanonicalNoise", "CellKey", "Censored", "ConventionalRounding", "CorrelatedGaussian",
    "DiscreteGaussian", "DiscreteLaplace", "ExtendedLaplace", "Gaussian", "KNorm", "Laplace", "LatticeGaussian",
    "LatticeLaplace", "PerturbationRows", "PerturbedByRows", "ProjectedGaussian",
    "ProjectedLaplace", "ProjectedLaplaceGivenRows", "RandomRounding", "Rounded", "RowSpaceNoise", "SemiKNorm", "SubspaceNorm",
    "TransitionTable", "TruncatedDiscreteLaplace", "TruncatedGaussian",
    "TruncatedLaplace", "Tulap", "UnknownPerturbation", "add_likelihood", "distribution_of",
    "register_distribution", "scalar_distribution",
]  # fmt: skip

# The distributions that are made from laws, each with what is to be said of it beyond its law. A law that does not stand here has one
# too, see `distribution_of`.

_AS_PYMC = """The same law as `pymc.{}`, computed in double precision throughout. About counts (`bayesdp.ConfidentialCounts`) it is
one of the laws with exact conditional steps."""
_WHOLE = "For locations of an integer type the normaliser takes its simple form."

Laplace = of_values(noise.Laplace, f"{_AS_PYMC.format('Laplace')} The log-density has a kink where mu meets the value.")
Gaussian = of_values(noise.Gaussian, _AS_PYMC.format("Normal"))
DiscreteLaplace = of_values(
    noise.DiscreteLaplace, f"{_WHOLE} The log-mass has kinks at integer mu, as the law itself does."
)
DiscreteGaussian = of_values(noise.DiscreteGaussian, _WHOLE)


TruncatedLaplace = within(noise.TruncatedLaplace, "The log-density has a kink where mu meets the value.")
TruncatedGaussian = within(
    noise.TruncatedGaussian,
    "Unlike `pymc.TruncatedNormal` it keeps its digits for locations far outside of the bounds and for narrow bounds.",
)
BoundaryInflatedLaplace = within(noise.BoundaryInflatedLaplace)
BoundaryInflatedGaussian = within(noise.BoundaryInflatedGaussian)
TruncatedDiscreteLaplace = within(noise.TruncatedDiscreteLaplace)
BoundaryInflatedDiscreteLaplace = within(noise.BoundaryInflatedDiscreteLaplace)
BoundaryInflatedDiscreteGaussian = within(noise.BoundaryInflatedDiscreteGaussian)

CellKey = of_table(noise.CellKey, "max_deviation=4, variance=2.0")
RandomRounding = of_table(noise.RandomRounding, "base=3")
ConventionalRounding = of_table(noise.ConventionalRounding, "base=3")
TransitionTable = of_table(noise.TransitionTable, "[-1, 0, 1], [[0, 1, 0], [0.2, 0.6, 0.2]]")
UnknownPerturbation = of_table(
    noise.UnknownPerturbation,
    "max_deviation=4",
    "Each count by itself; several have `PerturbedByRows` with `PerturbationRows`.",
)

LatticeLaplace = of_tables(noise.LatticeLaplace, "0.25")
LatticeGaussian = of_tables(noise.LatticeGaussian, "5.0")
ProjectedGaussian = of_tables(noise.ProjectedGaussian, "5.0")
ProjectedLaplace = of_tables(
    noise.ProjectedLaplace,
    "5.0",
    "The density is available in closed form, with gradient, for all invariants that fall apart into components of rank 1, at\n"
    "the cost of one sort a group. `RowSpaceNoise` and `ProjectedLaplaceGivenRows` have the law with a latent variable otherwise.",
    margins='["county"]',
)
ExtendedLaplace = of_tables(noise.ExtendedLaplace, "5.0")
CorrelatedGaussian = of_tables(noise.CorrelatedGaussian, "2.0, covariance=np.eye(9)")
SubspaceNorm = of_tables(noise.SubspaceNorm, '0.25, norm="l2"')
KNorm = of_tables(
    noise.KNorm,
    "1.0, vertices=np.eye(9)",
    "The norm is a maximum of linear forms where the facets of K can be found, and a linear program elsewhere, of microseconds\n"
    "to some milliseconds. It has a gradient almost everywhere.",
)
SemiKNorm = of_tables(noise.SemiKNorm, "1.0, adjacency=3")


def __getattr__(name: str) -> Any:
    """The distribution of another law of `bayesdp.noise`; of one from elsewhere by its name in pickles, ``package/module:Law``."""
    law = resolve_name(name.replace("/", ".")) if ":" in name else vars(noise).get(name)
    if not (isinstance(law, type) and issubclass(law, noise.NoiseLaw)):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return distribution_of(law)
