"""The step method of row-space noise: the latent part of projected Laplace noise."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.initial_point import PointType
from pymc.step_methods.compound import BlockedStep, Competence, StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_random_generator
from pytensor.graph.traversal import ancestors

from bayesdp._random import seed_state
from bayesdp._validate import positive_integer
from bayesdp.distributions.tables import ProjectedLaplaceGivenRowsRV, RowSpaceNoiseRV
from bayesdp.noise.subspace.projected_laplace import RowDirections, directions_of, row_basis, sweep
from bayesdp.steps._assigned import chosen_values

__all__ = ["RowNoiseGibbs"]


@dataclass_state
class RowNoiseGibbsState(StepMethodState):
    """What changes while sampling: the generator of the kernel."""

    generator: npt.NDArray[np.uint64]
    sweeps: int = field(metadata={"frozen": True})


@dataclass(frozen=True, eq=False)
class _RowNoise:
    """One `RowSpaceNoise` variable, its directions, and the function that computes the parameters of its law."""

    name: str
    basis: Any  # (cells, rank), sparse
    directions: RowDirections
    parameters: Any
    inputs: tuple[str, ...]


class RowNoiseGibbs(BlockedStep):
    """Draws row-space noise; PyMC assigns it to every `bayesdp.distributions.RowSpaceNoise` by itself.

    A sweep draws a step along every row of the invariants, each from its exact conditional law, the exponential of a
    piecewise linear function: no tuning, no rejection. Redundant rows are among the directions, so that chains forget in
    a sweep or two what they were. Options go through ``pm.sample(row_noise_gibbs={"sweeps": 2})``.

    Parameters
    ----------
    vars : list of variables
        The row-space noise; all of the model if left out.
    sweeps : int
        Sweeps a draw.
    model, initial_point, compile_kwargs, blocked, rng
        Supplied by PyMC.


    Examples
    --------
    >>> from pymc.step_methods import STEP_METHODS
    >>> RowNoiseGibbs in STEP_METHODS
    True
    """

    name = "row_noise_gibbs"
    default_blocked = True
    stats_dtypes_shapes: ClassVar[dict[str, tuple[type, list[int]]]] = {"row_noise_l1": (np.float64, [])}
    _state_class = RowNoiseGibbsState

    def __init__(
        self,
        vars: Any = None,  # the name is PyMC's
        *,
        sweeps: int = 1,
        model: pm.Model | None = None,
        initial_point: PointType | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
        rng: Any = None,
    ) -> None:
        model = pm.modelcontext(model)
        chosen = chosen_values(model, vars, _is_row_noise, "RowNoiseGibbs", "RowSpaceNoise")
        self.vars = chosen
        self.sweeps = positive_integer(sweeps, "sweeps")
        self.rng = get_random_generator(rng)
        self.tables = [_read(model, value, compile_kwargs or {}) for value in chosen]
        self.generator = seed_state(self.rng)

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """Take the generator of a chain."""
        super().setup_chain(rng, tune, draws)
        # Handing NumPy's generator to compiled code at every step would cost more than the step.
        self.generator = seed_state(self.rng)

    def step(self, point: PointType) -> tuple[PointType, list[dict[str, Any]]]:
        """Draw the noise of every table; the point that is passed in is left as it is."""
        new = point.copy()
        generator = self.generator.copy()
        length = 0.0
        for table in self.tables:
            difference, b = table.parameters(*(new[name] for name in table.inputs))
            w = np.array(new[table.name], dtype=np.float64)
            noise = difference + table.basis @ w
            sweep(noise, w, float(b), table.directions, self.sweeps, generator)
            new[table.name] = w
            length += float(np.sum(np.abs(noise)))
        self.generator = generator
        return new, [{"row_noise_l1": length}]

    @staticmethod
    def competence(var: Any, has_grad: bool) -> Competence:
        """Claim row-space noise, and nothing else."""
        return Competence.IDEAL if _is_row_noise(var) else Competence.INCOMPATIBLE


def _is_row_noise(var: Any) -> bool:
    return var.owner is not None and isinstance(var.owner.op, RowSpaceNoiseRV)


def _read(model: pm.Model, value: Any, compile_kwargs: dict[str, Any]) -> _RowNoise:
    """Find the one law that depends on a variable, and compile its published minus true answers and its scale."""
    w = model.values_to_rvs[value]
    invariants = w.owner.op.invariants
    users = [
        rv
        for rv in [*model.free_RVs, *model.observed_RVs, *model.potentials]
        if rv is not w and value in ancestors([_log_density(model, rv)])
    ]
    if len(users) != 1 or not _stands_in(users[0], w):
        names = ", ".join(repr(user.name) for user in users) or "nothing"
        raise ValueError(
            f"row-space noise {value.name!r} must stand in one ProjectedLaplaceGivenRows and in nothing else, but what "
            f"depends on it is: {names}"
        )
    [user] = users
    mu, _, b = user.owner.inputs[2:5]
    if user.owner.op.invariants != invariants:
        raise ValueError(f"{value.name!r} and {user.name!r} must have the same invariants")
    if user.ndim != len(invariants.frame.shape):
        raise ValueError(f"{user.name!r} must be one table of shape {invariants.frame.shape}, not a batch of tables")
    outputs = model.replace_rvs_by_values([pt.cast(model.rvs_to_values[user] - mu, "float64").flatten(), b])
    known = set(ancestors(outputs))
    inputs = [variable for variable in model.value_vars if variable in known]
    parameters = pytensor.function(inputs, outputs, **compile_kwargs)
    parameters.trust_input = True
    return _RowNoise(
        value.name,
        row_basis(invariants).T.tocsr(),
        directions_of(invariants),
        parameters,
        tuple(v.name for v in inputs),
    )


def _log_density(model: pm.Model, variable: Any) -> Any:
    return model.logp(vars=[variable], sum=True, jacobian=False)


def _stands_in(rv: Any, w: Any) -> bool:
    """Whether a variable is the law that w belongs to, with w itself in its place and nowhere else."""
    if rv.owner is None or not isinstance(rv.owner.op, ProjectedLaplaceGivenRowsRV):
        return False
    mu, rows, b = rv.owner.inputs[2:5]
    return rows is w and w not in ancestors([mu, b])
