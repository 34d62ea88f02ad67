"""The K-norm law of Semi-DP as a PyMC distribution."""

from __future__ import annotations

from typing import Any

import pymc as pm

from bayesdp.distributions._parameters import checked_location, scale
from bayesdp.distributions.polytope.k_norm import HullNormRV
from bayesdp.distributions.tables import applied, nearest_table
from bayesdp.hulls import SensitivityHull, sensitivity_hull
from bayesdp.invariants import Invariants
from bayesdp.noise.semi.semi_k_norm import SemiKNorm as SemiKNormLaw

__all__ = ["SemiKNorm"]


class SemiKNormRV(HullNormRV):
    """Random variable of `SemiKNorm`."""

    name = "semi_k_norm"
    _print_name = ("SemiKNorm", r"\operatorname{SemiKNorm}")

    hull: SensitivityHull

    def law(self, scale: float) -> SemiKNormLaw:
        """Give the noise law at one epsilon."""
        return SemiKNormLaw(scale, self.hull.adjacency)


class SemiKNorm(pm.Continuous):
    r"""Real tables that share the invariants of mu, with density falling in the norm of the hull of a sensitivity space.

    .. math:: \log f(x \mid \mu, \epsilon) = n \log \epsilon - \log(n!\,\mathrm{vol}\, K) - \epsilon \|Q^T(x - \mu)\|_K

    with K the hull of all that so many records can change without changing an invariant. See `KNorm` for the rest.

    Parameters
    ----------
    mu : tensor_like, shape (..., *table)
        The table that the noise was added to.
    epsilon : tensor_like of float
        Rate for each unit of the norm (epsilon > 0), one for a table.
    adjacency : int
        Number of records; 2 or 3 for both margins of a table.
    invariants : Invariants
        Disjoint totals, or both margins of a two-way table.

    Raises
    ------
    NotImplementedError, TypeError, ValueError
        As `bayesdp.hulls.SensitivityHull`.

    See Also
    --------
    bayesdp.noise.SemiKNorm : the same law without PyMC.

    Examples
    --------
    >>> import pymc as pm
    >>> import bayesdp as bdp
    >>> table = bdp.datasets.delinquent_children()
    >>> margins = bdp.Invariants(bdp.Margins(table, ["county"], ["education"]))
    >>> with pm.Model():
    ...     counts = pm.Poisson("counts", 10.0, shape=(4, 4))
    ...     noisy = SemiKNorm("noisy", counts, 1.0, adjacency=3, invariants=margins, observed=table.values)
    """

    rv_type = SemiKNormRV

    @classmethod
    def rv_op(cls, mu: Any, epsilon: Any, *, hull: SensitivityHull, invariants: Invariants, **kwargs: Any) -> Any:
        """Apply the random variable of this polytope and these invariants."""
        return applied(SemiKNormRV(invariants, hull), mu, epsilon, **kwargs)

    @classmethod
    def dist(cls, mu: Any, epsilon: Any, *, adjacency: int, invariants: Invariants, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        location, rate = checked_location(mu, invariants), scale(epsilon, "epsilon")
        hull = sensitivity_hull(invariants, adjacency)
        return super().dist([location, rate], hull=hull, invariants=invariants, **kwargs)

    def support_point(rv: Any, size: Any, mu: Any, epsilon: Any) -> Any:  # PyMC passes the variable
        """Give mu itself."""
        return nearest_table(rv, mu)
