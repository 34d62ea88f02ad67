"""The distributions that are made from the laws of `bayesdp.noise`, each with what is to be said of it beyond its law.

A law that does not stand here has one too, see `distribution_of`. What takes more than its law stands elsewhere: `Tulap`,
`CanonicalNoise`, `Censored`, and variables of a model that are no law of noise.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any

from bayesdp import noise
from bayesdp.distributions.independent import of_values, within
from bayesdp.distributions.perturbed import of_table
from bayesdp.distributions.registry import distribution_of
from bayesdp.distributions.tables import of_tables

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
