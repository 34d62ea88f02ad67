"""The step method of perturbation tables that are not known."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor.tensor as pt
from pymc.initial_point import PointType
from pymc.step_methods.compound import BlockedStep, Competence, StepMethodState
from pymc.util import get_random_generator
from pytensor.compile.mode import Mode

from bayesdp.distributions.perturbed import PerturbationRowsRV, PerturbedRV, SameRecordsRV
from bayesdp.noise import UnknownPerturbation
from bayesdp.steps._assigned import chosen_values
from bayesdp.steps._compiled import compiled, depends, log_density

__all__ = ["PerturbationGibbs"]

type Ints = npt.NDArray[np.int64]

_PLAIN = Mode(linker="py", optimizer="fast_compile")  # numba would compile half a minute, and save little


class _Table(NamedTuple):
    """The rows of one law; where answers stand in them, and those that repeat others; what else depends on them, or None."""

    name: str
    law: UnknownPerturbation
    occurring: Any
    inputs: list[str]
    rest: Any

    def tally(self, at: Ints) -> Ints:
        """How often each place occurs that the law has."""
        possible = self.law.transitions.mass > 0.0
        return np.asarray(np.bincount(at[at >= 0], minlength=possible.size).reshape(possible.shape) * possible)


class PerturbationGibbs(BlockedStep):
    """Draws perturbation tables that are not known; PyMC assigns it to every `bayesdp.distributions.PerturbationRows` by itself.

    Given the counts all deviations are known, and the rows are drawn exactly: from Dirichlet laws with the concentrations plus how
    often each deviation of each row occurs, or under the prior of maximum entropy one of its tables by the products of the
    masses. Answers about the same records count once. What else in the model depends on the rows is accounted for by accepting or
    rejecting; where nothing does, the step of the counts draws them, too, in turns with its moves. Another variable raises TypeError.

    Parameters
    ----------
    vars : list of variables
        The rows; all of the model if left out.
    model, initial_point, compile_kwargs, blocked, rng
        Supplied by PyMC.

    Examples
    --------
    >>> from pymc.step_methods import STEP_METHODS
    >>> PerturbationGibbs in STEP_METHODS
    True
    """

    name = "perturbation_gibbs"
    default_blocked = True
    stats_dtypes_shapes: ClassVar[dict[str, tuple[type, list[int]]]] = {"perturbation_accepted": (np.float64, [])}
    _state_class = StepMethodState

    def __init__(
        self,
        vars: Any = None,  # the name is PyMC's
        *,
        model: pm.Model | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        rng: Any = None,
        **_: Any,
    ) -> None:
        model = pm.modelcontext(model)
        self.vars = chosen_values(model, vars, _is_rows, "PerturbationGibbs", "PerturbationRows")
        self.rng = get_random_generator(rng)
        self.tables = [_read(model, value, compile_kwargs or {}) for value in self.vars]

    def step(self, point: PointType) -> tuple[PointType, list[dict[str, Any]]]:
        """Draw every table; the point that is passed in is left as it is."""
        new, accepted = point.copy(), 0
        for table in self.tables:
            counted, repeated = (table.tally(own) for own in table.occurring(*(new[name] for name in table.inputs)))
            drawn = table.law.drawn_rows(self.rng, counted - repeated)
            rest, threshold = table.rest, np.log1p(-self.rng.random())
            if rest is None or rest(new, drawn) - rest(new, new[table.name]) > threshold:
                new[table.name] = drawn
                accepted += 1
        return new, [{"perturbation_accepted": accepted / len(self.tables)}]

    @staticmethod
    def competence(var: Any, has_grad: bool) -> Competence:
        """Claim rows of tables, and nothing else."""
        return Competence.IDEAL if _is_rows(var) else Competence.INCOMPATIBLE


def _is_rows(var: Any) -> bool:
    return var.owner is not None and isinstance(var.owner.op, PerturbationRowsRV)


def _read(model: pm.Model, value: Any, compile_kwargs: dict[str, Any]) -> _Table:
    """Find the answers whose likelihood is a product of the rows, and what else depends on them."""
    rows = model.values_to_rvs[value]
    law = rows.owner.op.law
    known, values, mu = [rows], [], []
    counted, repeated = [pt.zeros(0, dtype="int64")], [pt.zeros(0, dtype="int64")]
    for rv in model.observed_RVs:
        op, inputs = rv.owner.op, rv.owner.inputs
        if isinstance(op, PerturbedRV) and op.table(rv) is rows:
            published, location = pt.broadcast_arrays(model.rvs_to_values[rv], inputs[2])
            values.append(published.flatten())
            mu.append(location.flatten())
        elif isinstance(op, SameRecordsRV) and rows in inputs:
            again, before = op.repeated(rows, law, *inputs)
            counted.append(before)
            repeated.append(again)
        else:
            continue
        known.append(rv)
    if values:
        counted.append(law.transitions.places(pt.concatenate(values), pt.concatenate(mu), pt))
    found = model.replace_rvs_by_values([pt.concatenate(own) for own in (counted, repeated)])
    occurring, names = compiled(model, found, {"mode": _PLAIN} | compile_kwargs)
    others = [rv for rv in [*model.free_RVs, *model.observed_RVs, *model.potentials] if rv not in known]
    rest = log_density(model, [rv for rv in others if depends(model, rv, value)], value.name, compile_kwargs)
    return _Table(value.name, law, occurring, names, rest)
