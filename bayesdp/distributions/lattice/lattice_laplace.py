"""The lattice Laplace law as a PyMC distribution."""

from __future__ import annotations

from typing import Any

import pymc as pm
from pymc.distributions.dist_math import check_parameters
from pymc.logprob.abstract import _logprob
from pytensor.tensor.variable import TensorConstant

from bayesdp import _validate
from bayesdp.distributions._parameters import checked_location, scale
from bayesdp.distributions._steps import register_steps
from bayesdp.distributions._tied_tables import as_tied_table
from bayesdp.distributions.lattice._normaliser import laplace_log_normaliser
from bayesdp.distributions.tables import (
    TableNoiseRV,
    applied,
    nearest_table,
    norm_l1,
    norm_l2,
)
from bayesdp.invariants import Invariants
from bayesdp.noise.lattice.lattice_laplace import LatticeLaplace as LatticeLaplaceLaw

__all__ = ["LatticeLaplace"]


class LatticeLaplaceRV(TableNoiseRV):
    """Random variable of `LatticeLaplace`."""

    name = "lattice_laplace"
    moved_only_by = "LatticeNoiseGibbs"
    dtype = "int64"
    _print_name = ("LatticeLaplace", r"\operatorname{LatticeLaplace}")

    def law(self, scale: float) -> LatticeLaplaceLaw:
        """Give the noise law at one epsilon."""
        return LatticeLaplaceLaw(scale, self.norm)


class LatticeLaplace(pm.Discrete):
    r"""Integer tables that share the invariants of mu, with exponentially falling mass around it.

    .. math:: f(x \mid \mu, \epsilon) = e^{-\epsilon \|x - \mu\|} / Z(\epsilon), \qquad A x = A \mu

    The log-mass is finite for tables that break the invariants too: in a model, membership is decided by
    the exact part of a release alone, and its value there is the formula above. A free variable (noise around a known
    table, such as zeros) never leaves the lattice: `bayesdp.steps.LatticeNoiseGibbs` samples it, and is assigned by itself.

    Parameters
    ----------
    mu : tensor_like of int, shape (..., *table)
        The table that the noise was added to.
    epsilon : tensor_like of float
        Rate per count (epsilon > 0), one for a table.
    invariants : Invariants
        What the noise does not change.
    norm : {"l1", "l2"}, default "l1"

    Raises
    ------
    NotImplementedError
        If epsilon is not a constant and Z is not computed for these invariants. Where it is, it is for every
        positive epsilon, with its gradient: see ``bayesdp.noise.LatticeLaplace.log_normaliser``. For a constant
        epsilon, an unknown Z is left out.

    See Also
    --------
    bayesdp.LatticeLaplace : the mechanism of the same name; it takes privacy parameters.
    bayesdp.noise.LatticeLaplace : the same law without PyMC.

    Examples
    --------
    >>> import pymc as pm
    >>> import bayesdp as bdp
    >>> table = bdp.datasets.delinquent_children()
    >>> margins = bdp.Invariants(bdp.Margins(table, ["county"], ["education"]))
    >>> with pm.Model():
    ...     counts = pm.Poisson("counts", 10.0, shape=(4, 4))
    ...     noisy = LatticeLaplace("noisy", counts, 0.25, invariants=margins, observed=table.values)
    """

    rv_type = LatticeLaplaceRV

    @classmethod
    def rv_op(cls, mu: Any, epsilon: Any, *, invariants: Invariants, norm: str, **kwargs: Any) -> Any:
        """Apply the random variable of these invariants and this norm."""
        return applied(LatticeLaplaceRV(invariants, norm), mu, epsilon, **kwargs)

    @classmethod
    def dist(cls, mu: Any, epsilon: Any, *, invariants: Invariants, norm: str = "l1", **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        register_steps()
        location, rate = checked_location(mu, invariants), scale(epsilon, "epsilon")
        _validate.choice(norm, ("l1", "l2"), "norm")
        known = laplace_log_normaliser(rate, invariants, norm) is not None
        if not known and not isinstance(rate, TensorConstant):
            raise NotImplementedError(
                f"epsilon must be a constant here: the normaliser of the {norm} lattice Laplace law with "
                f"these invariants ({invariants!r}) depends on epsilon, and they have neither a closed form nor few "
                f"enough dimensions to count ({invariants.dimension}). Give the epsilon that was published, as a number"
            )
        return super().dist([location, rate], invariants=invariants, norm=norm, **kwargs)

    def support_point(rv: Any, size: Any, mu: Any, epsilon: Any) -> Any:  # PyMC passes the variable
        """Give mu itself."""
        return nearest_table(rv, mu)


@_logprob.register(LatticeLaplaceRV)
def _lattice_laplace_logp(
    op: LatticeLaplaceRV, values: Any, rng: Any, size: Any, mu: Any, epsilon: Any, **_: Any
) -> Any:
    value = as_tied_table(values[0])
    length = norm_l1 if op.norm == "l1" else norm_l2
    mass = -epsilon * length(value - mu, op.ndim_supp)
    normaliser = laplace_log_normaliser(epsilon, op.invariants, op.norm)
    if normaliser is not None:
        mass -= normaliser
    return check_parameters(mass, epsilon > 0, msg="epsilon > 0")
