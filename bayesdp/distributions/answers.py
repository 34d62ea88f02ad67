"""The answers of a query as a PyTensor expression of the table, and as an observed variable where they are published exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytensor.sparse as ps
import pytensor.tensor as pt
import scipy.sparse as sp
from pymc.distributions.distribution import Distribution, SymbolicRandomVariable
from pymc.logprob.abstract import ValuedRV, _logprob
from pytensor.compile import SharedVariable
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import walk
from pytensor.tensor.type import discrete_dtypes

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

    def __init__(self, query: Query, keep: npt.NDArray[np.bool_] | None, **kwargs: Any) -> None:
        self.query = query
        self.keep = keep
        super().__init__(**kwargs)


def answers(query: Query, x: Any, keep: npt.NDArray[np.bool_] | None = None) -> Any:
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
    if (
        not more
        and isinstance(part, SumPart)
        and all(level in (None, dim) for level, dim in zip(part.levels, query.frame.dims, strict=True))
    ):
        summed = tuple(axis for axis, level in enumerate(part.levels) if level is None)
        return x.sum(axis=summed) if summed else x
    # Group labels, matrices and stacks. Of counts one sparse product in int64, as float64 rounds products and sums of 2**53 or
    # more, which may cancel to an answer that was published. Of real tables the terms are added up by place: a rewrite of
    # gradients that looks for constants of magnitude 1 fails on sparse ones, and nutpie takes no shared sparse matrix.
    if x.dtype in discrete_dtypes:
        matrix = ps.as_sparse_variable(sp.csr_matrix(query.matrix.astype("int64")))
        result = ps.structured_dot(matrix, pt.cast(x.flatten(), "int64")[:, None])[:, 0]
    else:
        entries = query.matrix.astype("float64").tocoo()
        terms = pt.cast(x.flatten(), "float64")[entries.col] * entries.data
        result = pt.inc_subtensor(pt.zeros(query.rows)[entries.row], terms)
    return result.reshape(query.shape) if query.shape else result[0]


class UnmergedRV(SymbolicRandomVariable):
    """A variable without a generator among its inputs, of which PyTensor would merge two into one, which cannot have two values."""

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


class ExactAnswersRV(UnmergedRV):
    """Random variable of `ExactAnswers`: the answers of a query, without noise, and "=", ">=" or "<="."""

    inline_logprob = False
    _print_name = ("ExactAnswers", r"\operatorname{ExactAnswers}")

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
