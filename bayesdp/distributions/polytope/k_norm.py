"""The K-norm law as a PyMC distribution."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.logprob.abstract import _logprob

from bayesdp.distributions._parameters import checked_location, scale
from bayesdp.distributions.polytope._gauge import table_gauge
from bayesdp.distributions.tables import TableNoiseRV, applied, nearest_table
from bayesdp.hulls import Hull, SymmetricHull, shared
from bayesdp.invariants import Invariants
from bayesdp.noise.polytope.k_norm import KNorm as KNormLaw

__all__ = ["KNorm"]


class HullNormRV(TableNoiseRV):
    """Random variable of the laws on real numbers that a polytope gives the norm of."""

    dtype = "float64"
    __props__ = (*TableNoiseRV.__props__, "hull")

    def __init__(self, invariants: Invariants, hull: Hull, **props: Any) -> None:
        self.hull = hull
        super().__init__(invariants, **props)


class KNormRV(HullNormRV):
    """Random variable of `KNorm`."""

    name = "k_norm"
    _print_name = ("KNorm", r"\operatorname{KNorm}")

    def law(self, scale: float) -> KNormLaw:
        """Give the noise law at one epsilon."""
        return KNormLaw(scale, self.hull.vertices, self.invariants.coordinate_rule)


class KNorm(pm.Continuous):
    r"""Real tables that share the invariants of mu, with density falling exponentially in the norm of a polytope.

    .. math:: \log f(x \mid \mu, \epsilon) = n \log \epsilon - \log(n!\,\mathrm{vol}\, K) - \epsilon \|Q^T(x - \mu)\|_K

    with K the hull of the vertices and their negatives, and n the dimension of the null space, on which this is the
    density in orthonormal coordinates Q. Where the volume of K is not computed its term, a constant, is left out. The
    density is finite for tables that break the invariants too: in a model, membership is decided by the exact part of a
    release alone.

    The norm is a maximum of linear forms where the facets of K can be found, and a linear program elsewhere, of microseconds to
    some milliseconds. It has a gradient almost everywhere.

    Parameters
    ----------
    mu : tensor_like, shape (..., *table)
        The table that the noise was added to.
    epsilon : tensor_like of float
        Rate for each unit of the norm (epsilon > 0), one for a table.
    vertices : array_like, shape (m, n)
        In the orthonormal coordinates of the invariants (see `Invariants.coordinate_rule`); one of each pair v, -v.
    invariants : Invariants
        What the noise does not change.

    Raises
    ------
    TypeError, ValueError
        If the vertices do not fit the invariants, or do not span their null space.

    See Also
    --------
    bayesdp.KNorm : the mechanism of the same name; it takes privacy parameters.
    bayesdp.noise.KNorm : the same law without PyMC.

    Examples
    --------
    >>> import pymc as pm
    >>> import bayesdp as bdp
    >>> table = bdp.datasets.delinquent_children().values[:2, :2]
    >>> margins = bdp.Invariants(bdp.Margins({"county": ["A", "B"], "education": ["L", "H"]}, ["county"], ["education"]))
    >>> move = margins.coordinates([[1, -1], [-1, 1]])
    >>> with pm.Model():
    ...     counts = pm.Poisson("counts", 10.0, shape=(2, 2))
    ...     noisy = KNorm("noisy", counts, 1.0, vertices=[move], invariants=margins, observed=table)
    """

    rv_type = KNormRV

    @classmethod
    def rv_op(cls, mu: Any, epsilon: Any, *, hull: SymmetricHull, invariants: Invariants, **kwargs: Any) -> Any:
        """Apply the random variable of this polytope and these invariants."""
        return applied(KNormRV(invariants, hull), mu, epsilon, **kwargs)

    @classmethod
    def dist(cls, mu: Any, epsilon: Any, *, vertices: npt.ArrayLike, invariants: Invariants, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        location, rate = checked_location(mu, invariants), scale(epsilon, "epsilon")
        hull = shared(SymmetricHull(vertices))
        if hull.dimension != invariants.dimension:
            raise ValueError(
                f"vertices have {hull.dimension} coordinates, but these invariants leave {invariants.dimension} "
                "dimensions free"
            )
        return super().dist([location, rate], hull=hull, invariants=invariants, **kwargs)

    def support_point(rv: Any, size: Any, mu: Any, epsilon: Any) -> Any:  # PyMC passes the variable
        """Give mu itself."""
        return nearest_table(rv, mu)


@_logprob.register(HullNormRV)
def _k_norm_logp(op: HullNormRV, values: Any, rng: Any, size: Any, mu: Any, epsilon: Any, **_: Any) -> Any:
    [value] = values
    gauge = table_gauge(value - mu, op.hull, op.invariants)
    density = op.hull.dimension * pt.log(epsilon) - (op.hull.log_cone_mass or 0.0) - epsilon * gauge
    return check_parameters(density, epsilon > 0, msg="epsilon > 0")
