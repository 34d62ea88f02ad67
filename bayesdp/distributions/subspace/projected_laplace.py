"""The projected Laplace law as a PyMC distribution."""

from __future__ import annotations

from typing import Any

from bayesdp.distributions.subspace._laplace_blocks import blocks_log_density
from bayesdp.distributions.table_densities import check_known, log_density
from bayesdp.distributions.tables import table_distribution
from bayesdp.invariants import Invariants
from bayesdp.noise.subspace.projected_laplace import ProjectedLaplace as ProjectedLaplaceLaw
from bayesdp.noise.subspace.rows import components_of

__all__ = ["ProjectedLaplace"]

ProjectedLaplace = table_distribution(
    ProjectedLaplaceLaw,
    r"""Real tables that share the invariants of mu: Laplace noise, projected onto what they leave free.

.. math:: f(x \mid \mu, b) = \prod_{g} \frac{\sqrt{d_g}}{(2b)^{d_g}}
    \int \exp\Bigl(-\sum_{i \in g} |x_i - \mu_i + w| / b\Bigr)\, dw

for disjoint totals over groups of :math:`d_g` cells: the density in orthonormal coordinates of the null space, in
closed form, with gradient, at the cost of one sort a group. It is available for all invariants that fall apart into
components of rank 1; see `RowSpaceNoise` for the others. It is finite for tables that break the invariants too (their
projection counts): in a model, membership is decided by the exact part of a release alone.

Raises
------
NotImplementedError
    If the density is an integral over more than one dimension.

See Also
--------
bayesdp.ProjectedLaplace : the mechanism of the same name; it takes privacy parameters.
bayesdp.noise.ProjectedLaplace : the same law without PyMC.
RowSpaceNoise, ProjectedLaplaceGivenRows : the same law for any invariants, with a latent variable.

Examples
--------
>>> import pymc as pm
>>> import bayesdp as bdp
>>> table = bdp.datasets.delinquent_children()
>>> counties = bdp.Invariants(bdp.Margins(table, ["county"]))
>>> with pm.Model():
...     counts = pm.Gamma("counts", 2.0, 0.1, shape=(4, 4))
...     noisy = ProjectedLaplace("noisy", counts, 5.0, invariants=counties, observed=table.values)
""",
)


@log_density.register
def _integrated(law: ProjectedLaplaceLaw, noise: Any, scale: Any, invariants: Invariants) -> Any:
    return blocks_log_density(noise, scale, invariants)


@check_known.register
def _one_dimensional(law: ProjectedLaplaceLaw, scale: Any, invariants: Invariants) -> None:
    wide = components_of(invariants).wide
    if wide:
        rank, cells = max(part.rows.shape for part in wide)
        raise NotImplementedError(
            f"projected Laplace noise has no closed-form density here: {cells} cells hang together by invariants of rank "
            f"{rank}. Use RowSpaceNoise and ProjectedLaplaceGivenRows from bayesdp.distributions, which have the same "
            "law with a latent variable"
        )
