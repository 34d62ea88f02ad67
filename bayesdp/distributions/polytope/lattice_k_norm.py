"""The K-norm law on a lattice as a PyMC distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.logprob.abstract import _logprob
from pytensor.tensor.variable import TensorConstant

from bayesdp.distributions._parameters import checked_location, scale
from bayesdp.distributions._tied_tables import as_tied_table
from bayesdp.distributions.lattice._normaliser import laplace_log_normaliser
from bayesdp.distributions.polytope._gauge import table_gauge
from bayesdp.distributions.tables import TableNoiseRV, applied, nearest_table
from bayesdp.hulls import Hull, SensitivityHull
from bayesdp.invariants import Invariants
from bayesdp.noise.polytope.lattice_k_norm import LatticeKNorm as LatticeKNormLaw

__all__ = ["LatticeKNorm"]


class LatticeKNormRV(TableNoiseRV):
    """Random variable of `LatticeKNorm`; `tables` are the vertices, as nested tuples, where they are listed."""

    name = "lattice_k_norm"
    moved_only_by = ""  # none: as a free variable it cannot be sampled
    dtype = "int64"
    _print_name = ("LatticeKNorm", r"\operatorname{LatticeKNorm}")
    __props__ = (*TableNoiseRV.__props__, "hull", "adjacency", "tables")

    def __init__(self, invariants: Invariants, hull: Hull, law: LatticeKNormLaw, **props: Any) -> None:
        self.hull = hull
        self.adjacency = law.adjacency
        self.tables = None if law.vertices is None else _frozen(law.vertices.tolist())
        super().__init__(invariants, **props)

    def law(self, scale: float) -> LatticeKNormLaw:
        """Give the noise law at one epsilon."""
        return LatticeKNormLaw(scale, self.adjacency, None if self.tables is None else np.array(self.tables))


class LatticeKNorm(pm.Discrete):
    r"""Integer tables that share the invariants of mu, with mass falling exponentially in the norm of a polytope.

    .. math:: f(x \mid \mu, \epsilon) = e^{-\epsilon \|x - \mu\|_K} / Z(\epsilon), \qquad A x = A \mu

    Either K is the hull of all that a number of records can change without changing an invariant (`adjacency`), or its
    vertices are listed. The log-mass is finite for tables that break the invariants too (the norm is that of their
    projection): in a model, membership is decided by the exact part of a release alone.

    Parameters
    ----------
    mu : tensor_like of int, shape (..., *table)
        The table that the noise was added to.
    epsilon : tensor_like of float
        Rate for each unit of the norm (epsilon > 0), one for a table.
    adjacency : int, optional
        Number of records; 2 or 3 for both margins of a table.
    vertices : array_like of int, shape (m, *table), optional
        Instead: one of each pair v, -v.
    invariants : Invariants
        What the noise does not change.

    Raises
    ------
    NotImplementedError
        If epsilon is not a constant and the norm is not a multiple of the l1 norm whose Z is known. For a constant
        epsilon, an unknown Z is left out.

    See Also
    --------
    bayesdp.noise.LatticeKNorm : the same law without PyMC.

    Examples
    --------
    >>> import pymc as pm
    >>> import bayesdp as bdp
    >>> table = bdp.datasets.delinquent_children()
    >>> margins = bdp.Invariants(bdp.Margins(table, ["county"], ["education"]))
    >>> with pm.Model():
    ...     counts = pm.Poisson("counts", 10.0, shape=(4, 4))
    ...     noisy = LatticeKNorm("noisy", counts, 1.0, adjacency=3, invariants=margins, observed=table.values)
    """

    rv_type = LatticeKNormRV

    @classmethod
    def rv_op(
        cls, mu: Any, epsilon: Any, *, hull: Hull, law: LatticeKNormLaw, invariants: Invariants, **kwargs: Any
    ) -> Any:
        """Apply the random variable of this polytope and these invariants."""
        return applied(LatticeKNormRV(invariants, hull, law), mu, epsilon, **kwargs)

    @classmethod
    def dist(
        cls,
        mu: Any,
        epsilon: Any,
        *,
        adjacency: int | None = None,
        vertices: npt.ArrayLike | None = None,
        invariants: Invariants,
        **kwargs: Any,
    ) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        location, rate = checked_location(mu, invariants), scale(epsilon, "epsilon")
        law = LatticeKNormLaw(1.0, adjacency, vertices)  # type: ignore[arg-type]  # checked there
        hull = law.hull(invariants)
        if not isinstance(rate, TensorConstant) and _log_normaliser(rate, hull, invariants) is None:
            raise NotImplementedError(
                "epsilon must be a constant here: the normaliser of the lattice K-norm law with these invariants "
                f"({invariants!r}) depends on epsilon and is not known to us"
            )
        return super().dist([location, rate], hull=hull, law=law, invariants=invariants, **kwargs)

    def support_point(rv: Any, size: Any, mu: Any, epsilon: Any) -> Any:  # PyMC passes the variable
        """Give mu itself."""
        return nearest_table(rv, mu)


def _frozen(nested: Any) -> Any:
    return tuple(_frozen(item) for item in nested) if isinstance(nested, list) else nested


def _log_normaliser(epsilon: Any, hull: Hull, invariants: Invariants) -> Any | None:
    """Where the norm is a multiple of the l1 norm."""
    if not (isinstance(hull, SensitivityHull) and hull.is_l1):
        return None
    if isinstance(epsilon, TensorConstant):  # kept a constant, so that the normaliser is a number
        rate: Any = pt.constant(np.asarray(epsilon.data, dtype=np.float64) / hull.reach)
    else:
        rate = epsilon / hull.reach
    return laplace_log_normaliser(rate, invariants, "l1")


@_logprob.register(LatticeKNormRV)
def _lattice_k_norm_logp(op: LatticeKNormRV, values: Any, rng: Any, size: Any, mu: Any, epsilon: Any, **_: Any) -> Any:
    value = as_tied_table(values[0])
    mass = -epsilon * table_gauge(value - mu, op.hull, op.invariants)
    normaliser = _log_normaliser(epsilon, op.hull, op.invariants)
    if normaliser is not None:
        mass -= normaliser
    return check_parameters(mass, epsilon > 0, msg="epsilon > 0")
