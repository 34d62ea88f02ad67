"""The projected Laplace law as a PyMC distribution."""

from __future__ import annotations

from typing import Any

import pymc as pm
from pymc.distributions.dist_math import check_parameters
from pymc.logprob.abstract import _logprob

from bayesdp.distributions._parameters import checked_location, scale
from bayesdp.distributions.subspace._laplace_blocks import blocks_log_density
from bayesdp.distributions.tables import TableNoiseRV, applied, nearest_table
from bayesdp.invariants import Invariants
from bayesdp.noise.subspace.projected_laplace import ProjectedLaplace as ProjectedLaplaceLaw
from bayesdp.noise.subspace.rows import components_of

__all__ = ["ProjectedLaplace"]


class ProjectedLaplaceRV(TableNoiseRV):
    """Random variable of `ProjectedLaplace`."""

    name = "projected_laplace"
    dtype = "float64"
    _print_name = ("ProjectedLaplace", r"\operatorname{ProjectedLaplace}")

    def law(self, scale: float) -> ProjectedLaplaceLaw:
        """Give the noise law at one b."""
        return ProjectedLaplaceLaw(scale)


class ProjectedLaplace(pm.Continuous):
    r"""Real tables that share the invariants of mu: Laplace noise, projected onto what they leave free.

    .. math:: f(x \mid \mu, b) = \prod_{g} \frac{\sqrt{d_g}}{(2b)^{d_g}}
        \int \exp\Bigl(-\sum_{i \in g} |x_i - \mu_i + w| / b\Bigr)\, dw

    for disjoint totals over groups of :math:`d_g` cells: the density in orthonormal coordinates of the null space, in
    closed form, with gradient, at the cost of one sort a group. It is available for all invariants that fall apart into
    components of rank 1; see `RowSpaceNoise` for the others. It is finite for tables that break the invariants too (their
    projection counts): in a model, membership is decided by the exact part of a release alone.

    Parameters
    ----------
    mu : tensor_like, shape (..., *table)
        The table that the noise was added to.
    b : tensor_like of float
        Scale of the noise before it is projected, in counts (b > 0), one for a table.
    invariants : Invariants
        What the noise does not change.

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
    """

    rv_type = ProjectedLaplaceRV

    @classmethod
    def rv_op(cls, mu: Any, b: Any, *, invariants: Invariants, **kwargs: Any) -> Any:
        """Apply the random variable of these invariants."""
        return applied(ProjectedLaplaceRV(invariants), mu, b, **kwargs)

    @classmethod
    def dist(cls, mu: Any, b: Any, *, invariants: Invariants, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        location, width = checked_location(mu, invariants), scale(b, "b")
        wide = components_of(invariants).wide
        if wide:
            rank, cells = max(part.rows.shape for part in wide)
            raise NotImplementedError(
                f"projected Laplace noise has no closed-form density here: {cells} cells hang together by invariants of rank "
                f"{rank}. Use RowSpaceNoise and ProjectedLaplaceGivenRows from bayesdp.distributions, which have the same "
                "law with a latent variable"
            )
        return super().dist([location, width], invariants=invariants, **kwargs)

    def support_point(rv: Any, size: Any, mu: Any, b: Any) -> Any:  # PyMC passes the variable
        """Give mu itself."""
        return nearest_table(rv, mu)


@_logprob.register(ProjectedLaplaceRV)
def _projected_laplace_logp(op: ProjectedLaplaceRV, values: Any, rng: Any, size: Any, mu: Any, b: Any, **_: Any) -> Any:
    [value] = values
    return check_parameters(blocks_log_density(value - mu, b, op.invariants), b > 0, msg="b > 0")
