"""The density of projected Laplace noise in closed form, as an Op with gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType, disconnected_type, grad_not_implemented
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_default_op_cache_key
from pytensor.tensor.blockwise import Blockwise

from bayesdp.invariants import Invariants
from bayesdp.noise.subspace.laplace_line import blocks_density
from bayesdp.noise.subspace.rows import components_of


class BlocksDensity(Op):
    """Log-density of noise on disjoint totals, its gradient in the noise and its derivative in b, in one pass.

    Inputs: noise (vector), b (scalar), and the blocks as in `bayesdp.noise.subspace.laplace_line.blocks_density`. The blocks are
    inputs and not parameters of the Op, so that all invariants share one compiled function.
    """

    __props__ = ()

    def make_node(self, *inputs: Any) -> Apply[Any]:
        """Apply to symbolic inputs."""
        given = [pt.as_tensor_variable(value) for value in inputs]
        return Apply(self, given, [pt.dscalar(), given[0].type(), pt.dscalar()])

    def perform(self, node: Apply[Any], inputs: Sequence[Any], output_storage: list[list[Any]]) -> None:
        """Evaluate without PyTensor's compiler."""
        u, b, starts, cells, entries = inputs
        gradient = np.empty(len(u))
        value, derivative = blocks_density(u, float(b), starts, cells, entries, gradient)
        output_storage[0][0] = np.asarray(value)
        output_storage[1][0] = gradient
        output_storage[2][0] = np.asarray(derivative)

    def infer_shape(self, node: Apply[Any], shapes: list[Any]) -> list[Any]:
        """The gradient is as long as the noise."""
        return [(), shapes[0], ()]

    def connection_pattern(self, node: Apply[Any]) -> list[list[bool]]:
        """Everything depends on the noise and on b; the blocks are not varied."""
        return [[True] * 3] * 2 + [[False] * 3] * 3

    def pullback(self, inputs: Sequence[Any], outputs: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """Reuse what was computed with the value; second derivatives are refused, not taken for zero."""
        fixed = [disconnected_type() for _ in range(3)]
        if any(not isinstance(own.type, DisconnectedType) for own in cotangents[1:]):
            return [*(grad_not_implemented(self, i, inputs[i]) for i in range(2)), *fixed]
        return [cotangents[0] * outputs[1], cotangents[0] * outputs[2], *fixed]


@register_funcify_default_op_cache_key(BlocksDensity)
def _compiled(op: BlocksDensity, node: Any, **_: Any) -> tuple[Any, int]:
    """Give the kernel to PyTensor; the number must change whenever the kernel does, or a stored one is used."""

    @numba_njit
    def density(u, b, starts, cells, entries):  # type: ignore[no-untyped-def]  # compiled for the types it meets
        gradient = np.empty(len(u))
        value, derivative = blocks_density(u, b.item(), starts, cells, entries, gradient)
        return np.asarray(value), gradient, np.asarray(derivative)

    return density, 2


def blocks_log_density(difference: Any, b: Any, invariants: Invariants) -> Any:
    """Log-density in orthonormal coordinates of the null space, for invariants whose components have rank 1."""
    # `difference` is noise, shape `(..., *table)`: what it has off the subspace is ignored; `b` has shape (...).
    parts = components_of(invariants)
    ndim = len(invariants.frame.shape)
    lead = difference.ndim - ndim
    cells = invariants.frame.size
    u = pt.cast(difference, "float64").reshape((*[difference.shape[i] for i in range(lead)], cells), ndim=lead + 1)
    blocks = [pt.constant(array) for array in (parts.starts, parts.cells, parts.entries)]
    op = BlocksDensity()
    batched = lead or b.ndim
    apply: Any = Blockwise(op, signature="(n),(),(s),(m),(m)->(),(n),()") if batched else op
    return apply(u, b, *blocks)[0] + parts.log_volume
