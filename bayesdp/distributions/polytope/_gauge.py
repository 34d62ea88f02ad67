"""The norm of a polytope as a PyTensor expression, with its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_and_cache_key

from bayesdp._numba import nb as numba
from bayesdp.distributions.table_densities import dense_basis, measured
from bayesdp.hulls import Hull, SensitivityHull
from bayesdp.invariants import Invariants
from bayesdp.noise.polytope.base import HullLaw


class GaugeOp(Op):
    """Gauges of points, shape (points, n), by linear programs; and the forms, of that shape, that attain them: the gradient."""

    __props__ = ("hull",)

    def __init__(self, hull: Hull) -> None:
        self.hull = hull

    def make_node(self, *inputs: Any) -> Apply[Any]:
        """Apply the Op to a matrix of points."""
        rows: Any = pt.cast(pt.as_tensor_variable(inputs[0]), "float64")
        count = rows.type.shape[0]
        return Apply(
            self,
            [rows],
            [
                pt.tensor(dtype="float64", shape=(count,)),
                pt.tensor(dtype="float64", shape=(count, self.hull.dimension)),
            ],
        )

    def perform(self, node: Any, inputs: Any, output_storage: Any) -> None:
        """Solve one program for each row."""
        output_storage[0][0], output_storage[1][0] = self.values_and_forms(inputs[0])

    def values_and_forms(self, points: Any) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Gauges and forms of the rows."""
        values, forms = np.empty(len(points)), np.empty((len(points), self.hull.dimension))
        for i, point in enumerate(points):
            values[i], forms[i] = self.hull.subgradient(point)
        return values, forms

    def infer_shape(self, node: Any, shapes: Any) -> Any:
        """Shapes of both outputs."""
        return [(shapes[0][0],), (shapes[0][0], self.hull.dimension)]

    def connection_pattern(self, node: Any) -> list[list[bool]]:
        """Only the gauge has a gradient; the form is piecewise constant."""
        return [[True, False]]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        """A subgradient of the gauge, which is the gradient almost everywhere."""
        if isinstance(cotangents[0].type, DisconnectedType):
            return [pt.zeros_like(inputs[0])]
        return [cotangents[0][:, None] * outputs[1]]


@register_funcify_and_cache_key(GaugeOp)
def _in_python(op: GaugeOp, node: Any, **_: Any) -> tuple[Any, None]:
    """Call the solver from compiled code, on purpose and so without PyTensor's warning about it."""
    # None as cache key keeps PyTensor from storing a function that refers to this very Op.
    vector, matrix = numba.types.Array(numba.float64, 1, "C"), numba.types.Array(numba.float64, 2, "C")

    def solve(points: Any) -> Any:
        return op.values_and_forms(points)

    @numba_njit
    def gauge(points):  # type: ignore[no-untyped-def]  # compiled for the types it meets
        with numba.objmode(values=vector, forms=matrix):
            values, forms = solve(points)
        return values, forms

    return gauge, None


def table_gauge(difference: Any, hull: Hull, invariants: Invariants) -> Any:
    """Gauge of ``Q^T z`` for tables z, shape ``(..., *table)``, also off the subspace: of their projection."""
    # The hull is in the coordinates of the invariants. NotImplementedError as for `dense_basis`.
    basis = dense_basis(invariants, "the K-norm")
    lead = [difference.shape[i] for i in range(difference.ndim - len(invariants.frame.shape))]
    flat = difference.reshape((-1, basis.shape[1]))
    gauges: Any
    if isinstance(hull, SensitivityHull) and hull.is_l1:
        tables = pt.dot(pt.dot(flat, basis.T), basis)
        gauges = pt.sum(pt.abs(tables), axis=1) / hull.reach
    elif hull.facets is None:
        op: Any = GaugeOp(hull)
        gauges = op(pt.dot(flat, basis.T))[0]
    else:
        gauges = pt.max(pt.abs(pt.dot(flat, (hull.facets.forms @ basis).T)), axis=1)
    return gauges.reshape(lead) if lead else gauges[0]


@measured.register
def _norm(law: HullLaw, noise: Any, invariants: Invariants) -> Any:
    return table_gauge(noise, law.ball(invariants), invariants)
