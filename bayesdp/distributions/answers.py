"""The answers of a query as a PyTensor expression of the table."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytensor.sparse as ps
import pytensor.tensor as pt
import scipy.sparse as sp
from pytensor.compile.builders import OpFromGraph
from pytensor.tensor.type import discrete_dtypes

from bayesdp.queries import Query, SumPart


class AnswersOp(OpFromGraph):
    """Answers of a query, recognisable in a graph: step methods look for it between a noise law and the counts.

    Parameters
    ----------
    query : Query
    keep : bool array, shape (rows,), or None
        Which answers are wanted (a flat vector of them), or None for all, in the query's shape.
    """

    def __init__(self, query: Query, keep: npt.NDArray[np.bool_] | None, **kwargs: Any) -> None:
        self.query = query
        self.keep = keep
        super().__init__(**kwargs)


def answers(query: Query, x: Any, keep: npt.NDArray[np.bool_] | None = None) -> Any:
    """Ask a query of a symbolic table.

    Parameters
    ----------
    query : Query
    x : tensor variable, shape ``(*table)``
        Integers stay integers, exactly; real numbers have the right gradient.
    keep : bool array, shape (rows,), optional
        Which answers are wanted.

    Returns
    -------
    tensor variable
        Shape ``query.shape``, or a vector of the wanted answers.
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
