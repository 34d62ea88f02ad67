"""The confidential counts as a PyMC variable, and what is published of them: the answers of a query, as expressions and observed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.distribution import Distribution, SymbolicRandomVariable, _support_point, support_point
from pymc.distributions.shape_utils import _change_dist_size, change_dist_size, convert_size
from pymc.logprob.abstract import ValuedRV, _logprob
from pymc.logprob.basic import logp
from pymc.step_methods.compound import BlockedStep
from pymc.util import check_dist_not_registered
from pytensor.compile import SharedVariable, view_op
from pytensor.compile.builders import OpFromGraph
from pytensor.gradient import disconnected_type
from pytensor.graph.basic import Apply, Constant
from pytensor.graph.op import Op
from pytensor.graph.traversal import walk
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_default_op_cache_key
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.type import discrete_dtypes
from pytensor.tensor.variable import TensorVariable

from bayesdp._arrays import Mask
from bayesdp.distributions.registry import PythonRV, print_name
from bayesdp.queries import Query, SumPart

OFF_FIBER = -1e6
"""Log-density of a table off the fiber, or out of reach of bounded noise, while the counts are free.

A constant: it tells the other variables of the model nothing, so it does not alter their conditional law. It is there so
that a sampler of those others may run before the step method of the counts has moved the start to where the published answers are
possible, which it does at its first step, before anything is recorded; and it stays there. Where the counts are given, it is minus
infinity.
"""


def are_free(mu: Any) -> bool:
    """Whether answers are of counts that are being sampled, rather than given."""

    def inputs(variable: Any) -> Any:
        if variable.owner is None:
            return []
        return variable.owner.inputs[1:] if isinstance(variable.owner.op, ValuedRV) else variable.owner.inputs

    leaves = (variable for variable in walk([mu], inputs) if variable.owner is None)
    return any(not isinstance(leaf, SharedVariable | Constant) for leaf in leaves)


def off_support(mu: Any) -> float:
    """The log-density of answers mu that cannot be."""
    return OFF_FIBER if are_free(mu) else -np.inf


def floored(density: Any, mu: Any) -> Any:
    """A log-density about answers mu, with `OFF_FIBER` for what cannot be while the counts are free."""
    return pt.maximum(density, OFF_FIBER) if are_free(mu) else density


class AnswersOp(OpFromGraph):
    """Answers of a query, recognisable in a graph: step methods look for it between a noise law and the counts.

    `keep` says which answers are wanted, a flat vector of them; without it all of them, in the query's shape.
    """

    def __init__(self, query: Query, keep: Mask | None, **kwargs: Any) -> None:
        self.query = query
        self.keep = keep
        super().__init__(**kwargs)


def answers(query: Query, x: Any, keep: Mask | None = None) -> Any:
    """Ask a query of a symbolic table: integers stay integers, exactly; real numbers have the right gradient.

    The answers have the shape of the query; those that `keep` says are a vector.
    """
    if query.is_identity and keep is None:
        return x
    inner = x.type()
    result = _sums(query, inner)
    if keep is not None:
        result = result.flatten()[np.flatnonzero(keep)]
    return AnswersOp(query, keep, inputs=[inner], outputs=[result], inline=True)(x)


def _sums(query: Query, x: Any) -> Any:
    [part, *more] = query.parts
    levels = part.levels if isinstance(part, SumPart) and not more else ()
    if levels and all(level in (None, dim) for level, dim in zip(levels, query.frame.dims, strict=True)):
        summed = tuple(axis for axis, level in enumerate(levels) if level is None)
        return x.sum(axis=summed) if summed else x
    # Group labels, matrices and stacks: terms are added up by place, those of counts in int64, as float64 rounds products and sums of
    # 2**53 or more, which may cancel to an answer that was published.
    entries, kind = query.matrix.tocoo(), "int64" if x.dtype in discrete_dtypes else "float64"
    terms = pt.cast(x.flatten(), kind)[entries.col] * entries.data.astype(kind)
    result = pt.inc_subtensor(pt.zeros(query.rows, kind)[entries.row], terms)
    return result.reshape(query.shape) if query.shape else result[0]


class UnmergedRV(SymbolicRandomVariable):
    """A variable without a generator among its inputs, of which PyTensor would merge two into one, which cannot have two values."""

    inline_logprob = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._print_name = print_name(cls.__name__.removesuffix("RV"))

    __eq__ = object.__eq__
    __hash__ = object.__hash__


class ExactAnswersRV(UnmergedRV):
    """Random variable of `ExactAnswers`: the answers of a query, without noise, and "=", ">=" or "<="."""

    def __init__(self, query: Query, sign: str, **kwargs: Any) -> None:
        self.query = query
        self.sign = sign
        self._ndim_supp = len(query.shape)
        super().__init__(**kwargs)

    @classmethod
    def make(cls, x: Any, *, query: Query, sign: str) -> Any:
        """Apply to a table."""
        inner = x.type()
        # float64: PyMC stores integer data as int32 and wraps what does not fit; these are exact below 2**53.
        return cls(query, sign, inputs=[inner], outputs=[pt.cast(answers(query, inner), "float64")])(x)


class ExactAnswers(Distribution):
    """Answers of a query about counts that are published exactly, or published bounds of them; used by `observe`."""

    rv_type = ExactAnswersRV
    rv_op = ExactAnswersRV.make

    @classmethod
    def dist(cls, x: Any, *, query: Query, sign: str, **_: Any) -> Any:
        """Make an unregistered variable."""
        return ExactAnswersRV.make(x, query=query, sign=sign)


@_logprob.register(ExactAnswersRV)
def _exact_logp(op: ExactAnswersRV, values: Any, x: Any, **_: Any) -> Any:
    compare = {"=": pt.eq, ">=": pt.ge, "<=": pt.le}[op.sign]
    return pt.switch(pt.all(compare(answers(op.query, x), values[0])), 0.0, off_support(x))


_REMEDY = (
    "Sample with bayesdp.sample or pm.sample, and leave the counts out of `step`: FiberGibbs is assigned by itself"
)

_ALGORITHMS = {
    "pymc.tuning.starting": "find_MAP holds counts where they start, which is no estimate of them, or optimises them as real "
    "numbers",
    "pymc.smc": "sample_smc starts from tables of the prior, of which hardly any has the exact answers, and moves them as real "
    "numbers",
    "pymc_extras.inference": "inference algorithms of pymc-extras hold counts where they start, or move them as if nothing were "
    "exact",
}
"""Modules whose algorithms give wrong answers for a model with counts, and what they do."""


class TiedTable(Op):
    """The identity on a table of counts; a log-density that holds it compiles only for samplers that leave the table alone.

    PyMC has no hook by which a variable could refuse an algorithm, but every algorithm compiles the log-density. When this Op is
    compiled, it looks at its callers, and refuses algorithms that would return a wrong table without an error; wrapping PyMC's
    functions would miss those imported before. Compiled, it costs nothing.
    """

    __props__ = ()
    view_map = {0: [0]}  # noqa: RUF012  # PyTensor reads it off the class

    def make_node(self, *inputs: Any) -> Apply[Any]:
        """Apply to a table."""
        [table] = map(pt.as_tensor_variable, inputs)
        return Apply(self, [table], [table.type()])

    def perform(self, node: Any, inputs: Any, output_storage: Any) -> None:
        """Pass the table on."""
        output_storage[0][0] = inputs[0]

    def infer_shape(self, node: Any, shapes: Any) -> Any:
        """Keep the shape."""
        return shapes

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> Any:
        """Whole numbers have no derivative."""
        return [disconnected_type()]

    def connection_pattern(self, node: Any) -> list[list[bool]]:
        """No gradient goes through."""
        return [[False]]

    def prepare_node(self, node: Any, storage_map: Any, compute_map: Any, impl: Any) -> None:
        """Refuse algorithms, before compilation by other linkers than numba."""
        _refuse_algorithms()
        super().prepare_node(node, storage_map, compute_map, impl)


@register_funcify_default_op_cache_key(TiedTable)
def _core(op: TiedTable, node: Any, **_: Any) -> tuple[Callable[..., Any], int]:
    _refuse_algorithms()

    @numba_njit
    def passed_on(counts):  # type: ignore[no-untyped-def]  # compiled for the types it meets
        return counts

    return passed_on, 1


def as_tied_table(value: Any) -> Any:
    """The value of a table in its log-density: as it is where it is data, else through `TiedTable`."""
    # The Op of its random variable has the attribute `moved_only_by`: the name of its step method.
    given = value.owner is not None or isinstance(value, SharedVariable | Constant)
    return value if given else TiedTable()(value)


def _refuse_algorithms() -> None:
    """Raise, with what to do instead, if the log-density is compiled for an algorithm that cannot have the counts."""
    caller: FrameType | None = sys._getframe(1)
    while caller is not None:
        frame, caller = caller, caller.f_back
        module = frame.f_globals.get("__name__", "")
        for known, reason in _ALGORITHMS.items():
            if module == known or module.startswith(f"{known}."):
                raise ValueError(f"the model has ConfidentialCounts, or latent lattice noise: {reason}. {_REMEDY}")
        if frame.f_code.co_name == "__init__" and isinstance(frame.f_locals.get("self"), BlockedStep):
            _check_step(frame.f_locals)


def _check_step(given: Any) -> None:
    """Refuse a step method under construction that is to move such a table; by PyMC's convention it has `vars`, `model`."""
    step, variables, model = given["self"], given.get("vars"), given.get("model")
    if not variables or model is None:
        return
    names = {kind.__name__ for kind in type(step).__mro__}
    rvs = [model.values_to_rvs.get(variable, variable) for variable in variables]
    tied = {str(rv.name): getattr(getattr(rv.owner, "op", None), "moved_only_by", None) for rv in rvs}
    wrong = [name for name, needed in tied.items() if needed not in {None, *names}]
    if any(not tied[name] for name in wrong):
        raise ValueError(
            f"{', '.join(wrong)} cannot be sampled: no step method keeps latent noise of this law on its lattice, and "
            f"{type(step).__name__} would leave it. Observe it, or use LatticeLaplace or LatticeGaussian"
        )
    if wrong:
        raise ValueError(
            f"step uses {type(step).__name__} for {', '.join(wrong)}: it cannot move inside the exact totals and would record "
            f"tables that break them, or none but its start. {_REMEDY}"
        )


class ConfidentialCountsRV(SymbolicRandomVariable):
    """Random variable of `ConfidentialCounts`: its base, marked as counts that a step method may move on a fiber."""

    inline_logprob = False
    extended_signature = None
    moved_only_by = "FiberGibbs"
    _print_name = print_name("ConfidentialCounts")

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
        op = base.owner.op if isinstance(base, TensorVariable) and base.owner is not None else None
        if not isinstance(op, RandomVariable | SymbolicRandomVariable):
            raise TypeError(f"base must be an unnamed PyMC distribution such as pm.Poisson.dist(3), got {base!r}")
        if base.dtype not in discrete_dtypes:
            raise TypeError(
                f"base must be a distribution of whole numbers, but {op} has dtype {base.dtype}; counts have no density"
            )
        check_dist_not_registered(base)
        if kwargs:
            raise TypeError(f"unexpected arguments {sorted(kwargs)}")
        whole = shape if shape is not None else convert_size(size)
        if whole is not None:
            whole = tuple(whole if isinstance(whole, tuple | list | TensorVariable) else np.atleast_1d(whole))
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


class FlatCountsRV(PythonRV):
    """Random variable of `FlatCounts`, which cannot be drawn from."""

    name, signature, dtype = "flat_counts", "->()", "int64"

    def rng_fn(self, *_: Any) -> Any:
        """Refuse: there is no uniform distribution over all counts."""
        raise NotImplementedError(
            "FlatCounts has no finite mass, so it cannot be drawn from: for prior predictive draws use a proper prior"
        )


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
