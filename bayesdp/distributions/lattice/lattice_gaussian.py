"""The lattice Gaussian law as a PyMC distribution."""

from __future__ import annotations

from typing import Any

import pymc as pm
from pymc.distributions.dist_math import check_parameters
from pymc.logprob.abstract import _logprob
from pytensor.tensor.variable import TensorConstant

from bayesdp.distributions._parameters import checked_location, scale
from bayesdp.distributions._steps import register_steps
from bayesdp.distributions._tied_tables import as_tied_table
from bayesdp.distributions.lattice._normaliser import gaussian_log_normaliser
from bayesdp.distributions.tables import (
    TableNoiseRV,
    applied,
    nearest_table,
    squared_norm,
)
from bayesdp.invariants import Invariants
from bayesdp.noise.lattice.lattice_gaussian import LatticeGaussian as LatticeGaussianLaw

__all__ = ["LatticeGaussian"]


class LatticeGaussianRV(TableNoiseRV):
    """Random variable of `LatticeGaussian`."""

    name = "lattice_gaussian"
    moved_only_by = "LatticeNoiseGibbs"
    dtype = "int64"
    _print_name = ("LatticeGaussian", r"\operatorname{LatticeGaussian}")

    def law(self, scale: float) -> LatticeGaussianLaw:
        """Give the noise law at one sigma."""
        return LatticeGaussianLaw(scale)


class LatticeGaussian(pm.Discrete):
    r"""Integer tables that share the invariants of mu, with Gaussian mass around it.

    .. math:: f(x \mid \mu, \sigma) = e^{-\|x - \mu\|_2^2 / 2\sigma^2} / Z(\sigma), \qquad A x = A \mu

    The log-mass is finite for tables that break the invariants too: in a model, membership is decided by
    the exact part of a release alone, and its value there is the formula above. A free variable (noise around a known
    table, such as zeros) never leaves the lattice: `bayesdp.steps.LatticeNoiseGibbs` samples it, and is assigned by itself.

    Parameters
    ----------
    mu : tensor_like of int, shape (..., *table)
        The table that the noise was added to.
    sigma : tensor_like of float
        Scale in counts (sigma > 0), one for a table.
    invariants : Invariants
        What the noise does not change.

    Raises
    ------
    NotImplementedError
        If sigma is not a constant and Z is not computed for these invariants. Where it is, it is for every positive
        sigma, with its gradient: see ``bayesdp.noise.LatticeGaussian.log_normaliser``. For a constant sigma, an
        unknown Z is left out.

    See Also
    --------
    bayesdp.LatticeGaussian : the mechanism of the same name; it takes privacy parameters.
    bayesdp.noise.LatticeGaussian : the same law without PyMC.

    Examples
    --------
    >>> import pymc as pm
    >>> import bayesdp as bdp
    >>> table = bdp.datasets.delinquent_children()
    >>> margins = bdp.Invariants(bdp.Margins(table, ["county"], ["education"]))
    >>> with pm.Model():
    ...     counts = pm.Poisson("counts", 10.0, shape=(4, 4))
    ...     noisy = LatticeGaussian("noisy", counts, 5.0, invariants=margins, observed=table.values)
    """

    rv_type = LatticeGaussianRV

    @classmethod
    def rv_op(cls, mu: Any, sigma: Any, *, invariants: Invariants, **kwargs: Any) -> Any:
        """Apply the random variable of these invariants."""
        return applied(LatticeGaussianRV(invariants), mu, sigma, **kwargs)

    @classmethod
    def dist(cls, mu: Any, sigma: Any, *, invariants: Invariants, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        register_steps()
        location, width = checked_location(mu, invariants), scale(sigma, "sigma")
        known = gaussian_log_normaliser(width, invariants) is not None
        if not known and not isinstance(width, TensorConstant):
            raise NotImplementedError(
                f"sigma must be a constant here: the normaliser of the lattice Gaussian law with these "
                f"invariants ({invariants!r}) depends on sigma, and they have neither a closed form nor few enough "
                f"dimensions to count ({invariants.dimension}). Give the sigma that was published, as a number"
            )
        return super().dist([location, width], invariants=invariants, **kwargs)

    def support_point(rv: Any, size: Any, mu: Any, sigma: Any) -> Any:  # PyMC passes the variable
        """Give mu itself."""
        return nearest_table(rv, mu)


@_logprob.register(LatticeGaussianRV)
def _lattice_gaussian_logp(
    op: LatticeGaussianRV, values: Any, rng: Any, size: Any, mu: Any, sigma: Any, **_: Any
) -> Any:
    value = as_tied_table(values[0])
    mass = -0.5 * squared_norm(value - mu, op.ndim_supp) / sigma**2
    normaliser = gaussian_log_normaliser(sigma, op.invariants)
    if normaliser is not None:
        mass -= normaliser
    return check_parameters(mass, sigma > 0, msg="sigma > 0")
