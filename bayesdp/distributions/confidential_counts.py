"""The confidential counts as a PyMC variable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.distribution import (
    Distribution,
    SymbolicRandomVariable,
    _support_point,
    support_point,
)
from pymc.distributions.shape_utils import _change_dist_size, change_dist_size, convert_size
from pymc.logprob.abstract import _logprob
from pymc.logprob.basic import logp
from pymc.util import check_dist_not_registered
from pytensor.compile import view_op
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.type import discrete_dtypes
from pytensor.tensor.variable import TensorVariable

from bayesdp.distributions._tied_tables import as_tied_table


class ConfidentialCountsRV(SymbolicRandomVariable):
    """Random variable of `ConfidentialCounts`: its base, marked as counts that a step method may move on a fiber."""

    inline_logprob = False
    extended_signature = None
    moved_only_by = "FiberGibbs"
    _print_name = ("ConfidentialCounts", r"\operatorname{ConfidentialCounts}")

    def __init__(self, ndim_supp: int, **kwargs: Any) -> None:
        self._ndim_supp = ndim_supp
        super().__init__(**kwargs)

    @classmethod
    def make(cls, base: Any, shape: Any = None) -> Any:
        """Wrap a base; a multivariate base over a flat vector is reshaped to the table."""
        ndim = base.owner.op.ndim_supp
        if shape is None or (ndim == 0 or len(shape) == base.ndim):
            if shape is not None and ndim == 0:
                base = change_dist_size(base, shape)
            return cls(ndim, inputs=[base], outputs=[view_op(base)])(base)
        # The lengths of the dimensions are shared variables: inputs of their own, or the inner graph would miss them.
        lengths = [pt.as_tensor_variable(n) for n in shape]
        inner = [n.type() for n in lengths]
        return cls(len(shape), inputs=[base, *inner], outputs=[pt.reshape(base, inner)])(base, *lengths)


class ConfidentialCounts(Distribution):
    r"""Counts that nobody has seen: any PyMC distribution of whole numbers, moved on its fiber while sampling.

    .. math:: p(x \mid \theta) = \text{base}(x \mid \theta)

    The exact parts of a release are data, not a renormalisation: in a model, `observe` multiplies this prior by the
    likelihood of the noisy answers and by the indicator of the exact ones, so that what the exact totals say about
    :math:`\theta` is used.

    Parameters
    ----------
    base : unnamed PyMC distribution
        For example ``pm.Poisson.dist(rate)``. Poisson, negative binomial, binomial, multinomial, Dirichlet-multinomial
        and `FlatCounts` have fast steps; every other discrete distribution works by accepting or rejecting, slower.

        .. warning:: `base` is cloned, as in ``pm.Truncated``; it is not the variable that was passed.
    dims, shape
        As everywhere in PyMC. A multivariate base over a vector of all cells is reshaped to the table.

    Raises
    ------
    TypeError
        If `base` is not an unnamed distribution of whole numbers.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model(coords={"county": ["Alpha", "Beta"]}):
    ...     rate = pm.Gamma("rate", 2.0, 0.1, dims="county")
    ...     x = ConfidentialCounts("x", pm.Poisson.dist(rate), dims="county")
    """

    rv_type = ConfidentialCountsRV
    rv_op = ConfidentialCountsRV.make

    @classmethod
    def dist(cls, base: Any, *, shape: Any = None, size: Any = None, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        kwargs.pop("transform", None)
        if not isinstance(base, TensorVariable) or base.owner is None:
            raise TypeError(f"base must be an unnamed PyMC distribution such as pm.Poisson.dist(3), got {base!r}")
        if not isinstance(base.owner.op, RandomVariable | SymbolicRandomVariable):
            raise TypeError(f"base must be an unnamed PyMC distribution such as pm.Poisson.dist(3), got {base!r}")
        if base.dtype not in discrete_dtypes:
            raise TypeError(
                f"base must be a distribution of whole numbers, but {base.owner.op} has dtype {base.dtype}; counts have no density"
            )
        check_dist_not_registered(base)
        if kwargs:
            raise TypeError(f"unexpected arguments {sorted(kwargs)}")
        whole = shape if shape is not None else convert_size(size)
        if whole is not None:
            whole = (
                tuple(np.atleast_1d(whole)) if not isinstance(whole, tuple | list | TensorVariable) else tuple(whole)
            )
        return ConfidentialCountsRV.make(base, whole)


@_logprob.register(ConfidentialCountsRV)
def _counts_logp(op: ConfidentialCountsRV, values: Any, base: Any, *lengths: Any, **_: Any) -> Any:
    value = as_tied_table(values[0])
    return logp(base, pt.reshape(value, base.shape, ndim=base.ndim) if lengths else value)


@_support_point.register(ConfidentialCountsRV)
def _counts_support_point(op: ConfidentialCountsRV, rv: Any, base: Any, *lengths: Any) -> Any:
    point = support_point(base)
    return pt.reshape(point, lengths) if lengths else point


@_change_dist_size.register(ConfidentialCountsRV)
def _counts_size(op: ConfidentialCountsRV, rv: Any, new_size: Any, expand: bool = False) -> Any:
    base, *lengths = rv.owner.inputs
    if lengths:
        raise NotImplementedError("batches of a multivariate base that is reshaped to a table are not supported")
    return ConfidentialCountsRV.make(change_dist_size(base, new_size, expand=expand))


class FlatCountsRV(RandomVariable):
    """Random variable of `FlatCounts`, which cannot be drawn from."""

    name = "flat_counts"
    signature = "->()"
    dtype = "int64"
    _print_name = ("FlatCounts", r"\operatorname{FlatCounts}")

    def rng_fn(self, rng: Any, size: Any = None) -> Any:
        """Refuse: there is no uniform distribution over all counts."""
        raise NotImplementedError(_NO_DRAW)


_NO_DRAW = "FlatCounts has no finite mass, so it cannot be drawn from: for prior predictive draws use a proper prior"


@numba_core_rv_funcify.register(FlatCountsRV)
def _flat_core(op: FlatCountsRV, node: Any) -> Any:
    raise NotImplementedError(_NO_DRAW)


class _FlatBase(pm.Discrete):
    rv_op = FlatCountsRV()

    @classmethod
    def dist(cls, **kwargs: Any) -> Any:
        return super().dist([], **kwargs)

    def support_point(rv: Any, size: Any) -> Any:
        return pt.zeros(size, dtype="int64")

    def logp(value: Any) -> Any:
        return pt.switch(pt.ge(value, 0), 0.0, -np.inf)


class FlatCounts(ConfidentialCounts):
    r"""Counts with equal prior weight: every table of a finite fiber is as likely as every other, before the noise.

    .. math:: p(x) \propto 1, \qquad x \ge 0

    `observe` refuses it where the exact answers leave a cell without an upper bound: there is no uniform
    distribution over infinitely many tables.

    Parameters
    ----------
    dims, shape
        As everywhere in PyMC.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model(coords={"county": ["Alpha", "Beta"]}):
    ...     x = FlatCounts("x", dims="county")
    """

    @classmethod
    def dist(cls, *, shape: Any = None, size: Any = None, **kwargs: Any) -> Any:  # type: ignore[override]  # no base
        """Make an unregistered variable; see the class for the parameters."""
        whole = shape if shape is not None else size
        if whole is None:
            raise ValueError("FlatCounts needs dims or a shape")
        return ConfidentialCounts.dist(_FlatBase.dist(shape=whole), **kwargs)
