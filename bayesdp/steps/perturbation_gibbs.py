"""The step method of unknown perturbation tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.initial_point import PointType
from pymc.logprob.abstract import _logprob
from pymc.step_methods.compound import BlockedStep, Competence, StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_random_generator
from pytensor.compile.mode import Mode
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors

from bayesdp.distributions.perturbed.unknown import PerturbationRowsRV, PerturbationVarianceRV, PerturbedByRowsRV
from bayesdp.distributions.same_records import SameRecordsRV
from bayesdp.noise.perturbed.unknown import dirichlet_rows
from bayesdp.steps._assigned import chosen_values, register_step
from bayesdp.steps._compiled import compiled, depends, log_density
from bayesdp.steps._graph import value_of

__all__ = ["PerturbationGibbs", "register"]

_PLAIN = Mode(linker="py", optimizer="fast_compile")
"""Some tens of steps by NumPy: numba would take half a minute to compile them, and save nothing of large tables."""

type Floats = npt.NDArray[np.float64]


@dataclass_state
class PerturbationGibbsState(StepMethodState):
    """Nothing but the generator changes while sampling."""


@dataclass(frozen=True, eq=False)
class _Table:
    """One variable: how often each deviation of each row occurs, as a function of a point, and the law of the rows given that."""

    name: str
    occurring: Any
    inputs: list[str]
    concentrations: Floats | None  # of Dirichlet rows, or None:
    variances: Floats  # the values of the variable,
    log_rows: Floats  # and the logarithms of the rows of each
    rest: Any  # log-density of what else depends on the variable, as a function of a point and a value; None without

    def draw(self, rng: np.random.Generator, counts: Floats) -> Floats:
        """From the conditional law of the variable given the counts of deviations."""
        if self.concentrations is not None:
            return dirichlet_rows(rng, np.where(self.concentrations > 0, self.concentrations + counts, 0.0))
        seen = np.flatnonzero(counts)
        logs = self.log_rows[:, seen] @ counts.reshape(-1)[seen]
        return np.asarray(self.variances[np.argmax(logs + rng.gumbel(size=len(logs)))])


class PerturbationGibbs(BlockedStep):
    """Draws perturbation tables that are unknown; PyMC assigns it to their variables by itself.

    Given the counts, the deviations of all answers are known, and with them the law of the rows: Dirichlet, with the prior
    concentrations plus how often each deviation of each row occurs; under the prior of maximum entropy that of one variance out of a list,
    with probabilities proportional to the products of the masses. Both are drawn exactly. Answers about the same records have one
    deviation, which counts once. What else in the model depends on the rows is accounted for by accepting or rejecting.

    Parameters
    ----------
    vars : list of variables
        `bayesdp.distributions.PerturbationRows` and `PerturbationVariance`; all of the model if left out.
    model, initial_point, compile_kwargs, blocked, rng
        Supplied by PyMC.

    Raises
    ------
    TypeError
        If a variable is of another kind.
    ValueError
        If a variable does not stand in the rows of a `PerturbedByRows`, as `bayesdp.observe` puts it there.

    Examples
    --------
    >>> from pymc.step_methods import STEP_METHODS
    >>> PerturbationGibbs in STEP_METHODS
    True
    """

    name = "perturbation_gibbs"
    default_blocked = True
    stats_dtypes_shapes: ClassVar[dict[str, tuple[type, list[int]]]] = {"perturbation_accepted": (np.float64, [])}
    _state_class = PerturbationGibbsState

    def __init__(
        self,
        vars: Any = None,  # the name is PyMC's
        *,
        model: pm.Model | None = None,
        initial_point: PointType | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
        rng: Any = None,
    ) -> None:
        model = pm.modelcontext(model)
        self.vars = chosen_values(model, vars, _is_law, "PerturbationGibbs", "PerturbationRows or PerturbationVariance")
        self.rng = get_random_generator(rng)
        self.tables = [_read(model, value, compile_kwargs or {}) for value in self.vars]

    def step(self, point: PointType) -> tuple[PointType, list[dict[str, Any]]]:
        """Draw every table; the point that is passed in is left as it is."""
        new, accepted = point.copy(), 0.0
        for table in self.tables:
            drawn = table.draw(self.rng, table.occurring(*(new[name] for name in table.inputs))[0])
            if table.rest is not None:
                ratio = table.rest(new, drawn) - table.rest(new, new[table.name])
                if not ratio > np.log1p(-self.rng.random()):
                    continue
            new[table.name] = drawn
            accepted += 1.0 / len(self.tables)
        return new, [{"perturbation_accepted": accepted}]

    @staticmethod
    def competence(var: Any, has_grad: bool) -> Competence:
        """Claim unknown tables, and nothing else."""
        return Competence.IDEAL if _is_law(var) else Competence.INCOMPATIBLE


def _is_law(var: Any) -> bool:
    return var.owner is not None and isinstance(var.owner.op, PerturbationRowsRV | PerturbationVarianceRV)


def _read(model: pm.Model, value: Any, compile_kwargs: dict[str, Any]) -> _Table:
    """Find the answers whose likelihood is that of the rows, and what else depends on the variable."""
    own = model.values_to_rvs[value]
    dirichlet = isinstance(own.owner.op, PerturbationRowsRV)
    parameter = np.asarray(value_of(own.owner.inputs[2]), dtype=np.float64)
    found = [PerturbedByRowsRV.table(rv) for rv in model.observed_RVs if isinstance(rv.owner.op, PerturbedByRowsRV)]
    rows = next((table for table in found if own in ancestors([table], blockers=model.free_RVs)), None)
    if rows is None or (dirichlet and rows is not own):
        raise ValueError(f"{value.name!r} must be the rows, or in the rows, of a PerturbedByRows, as bayesdp.observe puts it there")
    log_rows = np.zeros(0)
    if not dirichlet:
        with np.errstate(divide="ignore"):
            every = pytensor.function([own], rows, **compile_kwargs)
            log_rows = np.log(np.stack([every(v) for v in parameter])).reshape(len(parameter), -1)
    kinds, known = PerturbedByRowsRV | SameRecordsRV, {}
    for rv in model.observed_RVs:
        if isinstance(rv.owner.op, kinds):
            table = PerturbedByRowsRV.table(rv) if isinstance(rv.owner.op, PerturbedByRowsRV) else None
            places = [i for i, one in enumerate(rv.owner.inputs) if one is rows or (i == 3 and table is rows)]
            known |= {rv: places} if places else {}
    # The log-likelihood is the sum of the logarithms of the rows, each as often as it occurs. Its gradient says how often, and is read
    # off where all entries are 1: there it is a whole number, also of rows that have an entry of 0 as they stand.
    given = pt.matrix("rows", dtype="float64")
    total: Any = 0.0
    for rv, places in known.items():
        inputs = [given if i in places else one for i, one in enumerate(rv.owner.inputs)]
        total = total + pt.sum(_logprob(rv.owner.op, (model.rvs_to_values[rv],), *inputs))
    shape = next(rv.owner.op.law.transitions.mass.shape for rv in known if isinstance(rv.owner.op, PerturbedByRowsRV))
    gradient = graph_replace([pt.grad(total, given)], {given: pt.ones(shape)})
    occurring, names = compiled(model, model.replace_rvs_by_values(gradient), {"mode": _PLAIN} | compile_kwargs)
    others = [rv for rv in [*model.free_RVs, *model.observed_RVs, *model.potentials] if rv is not own and rv not in known]
    rest = log_density(model, [rv for rv in others if depends(model, rv, value)], value.name, compile_kwargs)
    return _Table(value.name, occurring, names, parameter if dirichlet else None, parameter, log_rows, rest)


def register() -> None:
    """Tell PyMC of the step method, once."""
    register_step(PerturbationGibbs)
