"""The extended Laplace law as a PyMC distribution."""

from __future__ import annotations

from typing import Any

import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.logprob.abstract import _logprob

from bayesdp.distributions._parameters import checked_location, scale
from bayesdp.distributions.subspace._coordinates import linear_coordinates
from bayesdp.distributions.tables import TableNoiseRV, applied, nearest_table
from bayesdp.invariants import Invariants
from bayesdp.noise.subspace.coordinates import checked_rule, same_rule
from bayesdp.noise.subspace.extended_laplace import ExtendedLaplace as ExtendedLaplaceLaw

__all__ = ["ExtendedLaplace"]


class ExtendedLaplaceRV(TableNoiseRV):
    """Random variable of `ExtendedLaplace`; its invariants fix the coordinates."""

    name = "extended_laplace"
    dtype = "float64"
    _print_name = ("ExtendedLaplace", r"\operatorname{ExtendedLaplace}")

    def law(self, scale: float) -> ExtendedLaplaceLaw:
        """Give the noise law at one b."""
        return ExtendedLaplaceLaw(scale, self.invariants.coordinate_rule)


class ExtendedLaplace(pm.Continuous):
    r"""Real tables that share the invariants of mu: Laplace noise, independent in orthonormal coordinates Q.

    .. math:: \log f(x \mid \mu, b) = -\frac{\|Q^\top (x - \mu)\|_1}{b} - n \log(2 b)

    with n the dimension of the null space, on which this is the density in the coordinates Q. It is finite for tables that
    break the invariants too: in a model, membership is decided by the exact part of a release alone.

    Parameters
    ----------
    mu : tensor_like, shape (..., *table)
        The table that the noise was added to.
    b : tensor_like of float
        Scale in counts (b > 0), one for a table.
    invariants : Invariants
        What the noise does not change.
    coordinates : {"helmert-1", "echelon-1"}, optional
        The rule that the release states; if given, that of the invariants must be the same.

    Raises
    ------
    ValueError
        If the rule is not known, or not that of the invariants.
    NotImplementedError
        If dimensions times cells exceed four million: the log-density needs Q as a dense matrix.

    See Also
    --------
    bayesdp.ExtendedLaplace : the mechanism of the same name; it takes privacy parameters.
    bayesdp.noise.ExtendedLaplace : the same law without PyMC.

    Examples
    --------
    >>> import pymc as pm
    >>> import bayesdp as bdp
    >>> table = bdp.datasets.delinquent_children()
    >>> margins = bdp.Invariants(bdp.Margins(table, ["county"], ["education"]))
    >>> with pm.Model():
    ...     counts = pm.Poisson("counts", 10.0, shape=(4, 4))
    ...     noisy = ExtendedLaplace("noisy", counts, 5.0, invariants=margins, observed=table.values)
    """

    rv_type = ExtendedLaplaceRV

    @classmethod
    def rv_op(cls, mu: Any, b: Any, *, invariants: Invariants, **kwargs: Any) -> Any:
        """Apply the random variable of these invariants."""
        return applied(ExtendedLaplaceRV(invariants), mu, b, **kwargs)

    @classmethod
    def dist(cls, mu: Any, b: Any, *, invariants: Invariants, coordinates: str | None = None, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        location, width = checked_location(mu, invariants), scale(b, "b")
        if coordinates is not None:
            same_rule(invariants, checked_rule(coordinates), "extended-laplace")
        return super().dist([location, width], invariants=invariants, **kwargs)

    def support_point(rv: Any, size: Any, mu: Any, b: Any) -> Any:  # PyMC passes the variable
        """Give mu itself."""
        return nearest_table(rv, mu)


@_logprob.register(ExtendedLaplaceRV)
def _extended_laplace_logp(op: ExtendedLaplaceRV, values: Any, rng: Any, size: Any, mu: Any, b: Any, **_: Any) -> Any:
    [value] = values
    density = -pt.sum(pt.abs(linear_coordinates(value - mu, op.invariants)), axis=-1) / b
    density -= op.invariants.dimension * pt.log(2.0 * b)
    return check_parameters(density, b > 0, msg="b > 0")
