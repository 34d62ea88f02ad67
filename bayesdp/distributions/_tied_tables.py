"""An Op around tables of counts in a log-density, which refuses algorithms that would return wrong tables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytensor.tensor as pt
from pymc.step_methods.compound import BlockedStep
from pytensor.compile import SharedVariable
from pytensor.gradient import disconnected_type
from pytensor.graph.basic import Apply, Constant
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_default_op_cache_key

__all__ = ["as_tied_table"]

_REMEDY = (
    "Sample with bayesdp.sample or pm.sample, and leave the counts out of `step`: FiberGibbs is assigned by itself. For "
    "optimisation and variational inference there is bayesdp.ContinuousCounts"
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


def _callers() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _refuse_algorithms() -> None:
    """Raise, with what to do instead, if the log-density is compiled for an algorithm that cannot have the counts."""
    for frame in _callers():
        module = frame.f_globals.get("__name__", "")
        for known, reason in _ALGORITHMS.items():
            if module == known or module.startswith(f"{known}."):
                raise ValueError(f"the model has ConfidentialCounts, or latent lattice noise: {reason}. {_REMEDY}")
        if frame.f_code.co_name == "__init__" and isinstance(frame.f_locals.get("self"), BlockedStep):
            _check_step(frame.f_locals)


def _check_step(own: Any) -> None:
    """Refuse a step method under construction that is to move such a table; by PyMC's convention it has `vars`, `model`."""
    step, variables, model = own["self"], own.get("vars"), own.get("model")
    if not variables or model is None:
        return
    names = {kind.__name__ for kind in type(step).__mro__}
    rvs = [model.values_to_rvs.get(variable, variable) for variable in variables]
    tied = {str(rv.name): getattr(getattr(rv.owner, "op", None), "moved_only_by", None) for rv in rvs}
    wrong = [name for name, own_step in tied.items() if own_step not in {None, *names}]
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
