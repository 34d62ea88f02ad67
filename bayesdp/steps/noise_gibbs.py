"""Step methods of noise that is a variable of the model: on a lattice, in a row space, and perturbation tables that are not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor.tensor as pt
from pymc.initial_point import PointType
from pymc.step_methods.compound import StepMethodState
from pymc.step_methods.state import dataclass_state
from pytensor.compile.mode import Mode
from pytensor.graph.traversal import ancestors

from bayesdp._arrays import Floats, Ints, Words
from bayesdp._numba import seed_state
from bayesdp.distributions.perturbed import PerturbationRowsRV, PerturbedRV, SameRecordsRV
from bayesdp.distributions.tables import ProjectedLaplaceGivenRowsRV, RowSpaceNoiseRV
from bayesdp.fibers.chain import LEAST_MOVES
from bayesdp.fibers.kernel.state import FLAT, set_counts
from bayesdp.fibers.kernel.sweep import move_once, sweep, take_back
from bayesdp.fibers.moves.moves import moves_for
from bayesdp.lattices.samplers import noise_state, set_law
from bayesdp.noise import UnknownPerturbation
from bayesdp.noise.subspace import projected_laplace
from bayesdp.steps.base import (
    AssignedStep,
    KernelTable,
    Point,
    TableGibbs,
    compiled,
    depending_on,
    is_random,
    log_density,
    moved_into_support,
)

_PLAIN = Mode(linker="py", optimizer="fast_compile")  # numba would compile half a minute, and save little


class NoiseTable(KernelTable):
    """A free `LatticeLaplace` or `LatticeGaussian` variable, with the log-density of the rest of the model."""

    # A move draws a direction of the lattice, and a step along it from the exact conditional law of the noise.

    def __init__(
        self, model: pm.Model, value: Any, rng: np.random.Generator, compile_kwargs: Mapping[str, Any]
    ) -> None:
        rv = model.values_to_rvs[value]
        op = rv.owner.op
        self.name = value.name
        self.invariants = op.invariants
        self.shape = op.invariants.frame.shape
        form = op.unit.kernel_of(op.invariants)
        self.law: str = form.kind
        if rv.ndim != len(self.shape):
            raise ValueError(f"{self.name!r} must be one table of shape {self.shape}, not a batch of tables")
        mu, scale = model.replace_rvs_by_values([pt.as_tensor_variable(v) for v in rv.owner.inputs[2:4]])
        rate = pt.reciprocal(scale) if form.of_scale else scale
        if is_random(model, [mu]):
            raise ValueError(
                f"mu of the latent noise {self.name!r} must be known, for example a table of zeros; to sample a table that "
                "noise was added to, use ConfidentialCounts and observe"
            )
        self._parameters, self._inputs = compiled(
            model, [pt.cast(mu, "float64").flatten(), pt.cast(rate, "float64")], compile_kwargs
        )
        self._rest = log_density(model, depending_on(model, value, [rv]), self.name, compile_kwargs)
        self.state = self.kernel = noise_state(
            self.invariants.frame.size, moves_for(self.invariants, compute=False), self.law
        )
        self._none = np.empty((0, self.invariants.frame.size), dtype=np.int64)
        self.state.generator[:] = seed_state(rng)

    def refresh(self, point: Point, table: npt.ArrayLike) -> Floats:
        """Evaluate location and scale of the law, load a table into the kernel, and return the location."""
        mu, scale = self._parameters(*[point[name] for name in self._inputs])
        set_law(self.state, self.law, float(scale), mu)
        set_counts(self.state, np.asarray(table, dtype=np.int64).reshape(-1))
        return np.asarray(mu, dtype=np.float64)

    def begin(self, point: Point, rng: np.random.Generator) -> None:
        """Start a chain: a start off the lattice, or one that the rest of the model forbids, is replaced by one that is allowed."""
        self.state.generator[:] = seed_state(rng)
        given = np.asarray(point[self.name], dtype=np.int64)
        mu = self.refresh(point, given).reshape(self.shape)
        if not self.invariants.is_null(given - np.rint(mu).astype(np.int64)):
            self.refresh(point, np.rint(mu))
        rest = self._rest
        if rest is not None and (tried := moved_into_support(lambda: rest(point, self.value), self._propose)):
            raise ValueError(
                f"no noise {self.name!r} was found that has positive density under the rest of the model ({tried} moves "
                "tried); give one with pm.sample(initvals=...)"
            )

    def _propose(self) -> tuple[int, int]:
        count, step = move_once(FLAT, True, self.state)
        return count, step

    def _take_back(self, count: int, step: int) -> None:
        take_back(count, step, self.state)

    def step(self, point: Point, sweeps: int, rng: np.random.Generator) -> tuple[Ints, float, float]:
        """Move; return the table, the share of moves that changed it, and the share of proposals accepted."""
        self.refresh(point, point[self.name])
        moves = sweeps * max(self.invariants.dimension, 1)
        if self._rest is None:
            moves = max(moves, LEAST_MOVES)
            changed = int(sweep(self._none, moves, FLAT, True, self.state))
            return self.value, changed / moves, 1.0
        return self._accept_on_the_rest(point, moves, rng)


class LatticeNoiseGibbs(TableGibbs):
    """Moves latent lattice noise z; PyMC assigns it to every free `LatticeLaplace` and `LatticeGaussian` by itself.

    The confidential table is what is left of the published one, ``y - z``. Each move is accepted or taken back on the log-density of
    everything else in the model. Where the counts have a prior that `ConfidentialCounts` takes, sampling them instead
    (`bayesdp.observe`) is faster, and gives the same posterior. Options go through ``pm.sample(lattice_noise_gibbs={"sweeps": 4})``:
    moves a draw, in units of the dimension of the lattice. Where NUTS is to run before a start is on the lattice, give one with
    ``pm.sample(initvals=...)``.
    """

    name = "lattice_noise_gibbs"
    kind = "LatticeLaplace and LatticeGaussian"
    stats_dtypes_shapes: ClassVar[dict[str, tuple[type, list[int]]]] = {
        "lattice_changed": (np.float64, []),
        "lattice_accepted": (np.float64, []),
    }

    sweeps = 4
    tables: Sequence[NoiseTable]

    def _table(self, model: pm.Model, value: Any, compile_kwargs: dict[str, Any], initial_point: Any) -> NoiseTable:
        return NoiseTable(model, value, self.rng, compile_kwargs)

    @classmethod
    def belongs(cls, variable: Any) -> bool:
        """Whether a random variable is lattice noise of a form that the kernel knows."""
        law_type = getattr(getattr(variable.owner, "op", None), "law_type", None)
        return law_type is not None and law_type.support == "lattice" and law_type.kernel_form is not None


@dataclass_state
class RowNoiseGibbsState(StepMethodState):
    """What changes while sampling: the generator of the kernel."""

    generator: Words
    sweeps: int = field(metadata={"frozen": True})


class _RowNoise:
    """One `RowSpaceNoise` variable, its directions, and the published minus true answers and the scale of the one law it stands in."""

    def __init__(self, model: pm.Model, value: Any, compile_kwargs: Mapping[str, Any]) -> None:
        w = model.values_to_rvs[value]
        invariants = w.owner.op.invariants
        users = depending_on(model, value, [w])
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
            raise ValueError(
                f"{user.name!r} must be one table of shape {invariants.frame.shape}, not a batch of tables"
            )
        self.name: str = value.name
        outputs = model.replace_rvs_by_values([pt.cast(model.rvs_to_values[user] - mu, "float64").flatten(), b])
        self.parameters, self.inputs = compiled(model, outputs, compile_kwargs)
        self.basis = projected_laplace.row_basis(invariants).T.tocsr()  # shape (cells, rank)
        self.directions = projected_laplace.directions_of(invariants)


class RowNoiseGibbs(AssignedStep):
    """Draws row-space noise; PyMC assigns it to every `bayesdp.distributions.RowSpaceNoise` by itself.

    A sweep draws a step along every row of the invariants, each from its exact conditional law, the exponential of a piecewise
    linear function: no tuning, no rejection. Redundant rows are among the directions, so that chains forget in a sweep or two what
    they were. Options go through ``pm.sample(row_noise_gibbs={"sweeps": 2})``.
    """

    name = "row_noise_gibbs"
    kind = "RowSpaceNoise"
    operation = RowSpaceNoiseRV
    stats_dtypes_shapes: ClassVar[dict[str, tuple[type, list[int]]]] = {"row_noise_l1": (np.float64, [])}
    _state_class = RowNoiseGibbsState

    sweeps = 1
    tables: Sequence[_RowNoise]

    def _table(self, model: pm.Model, value: Any, compile_kwargs: dict[str, Any], initial_point: Any) -> _RowNoise:
        self.generator = seed_state(self.rng)
        return _RowNoise(model, value, compile_kwargs)

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
            projected_laplace.sweep(noise, w, float(b), table.directions, self.sweeps, generator)
            new[table.name] = w
            length += float(np.sum(np.abs(noise)))
        self.generator = generator
        return new, [{"row_noise_l1": length}]


def _stands_in(rv: Any, w: Any) -> bool:
    """Whether a variable is the law that w belongs to, with w itself in its place and nowhere else."""
    if rv.owner is None or not isinstance(rv.owner.op, ProjectedLaplaceGivenRowsRV):
        return False
    mu, rows, b = rv.owner.inputs[2:5]
    return rows is w and w not in ancestors([mu, b])


class _Rows:
    """The rows of one law; where answers stand in them, and those that repeat others; what else depends on them, or None."""

    def __init__(self, model: pm.Model, value: Any, compile_kwargs: Mapping[str, Any]) -> None:
        rows = model.values_to_rvs[value]
        self.name: str = value.name
        self.law: UnknownPerturbation = rows.owner.op.law
        known, values, mu = [rows], [], []
        counted, repeated = [pt.zeros(0, dtype="int64")], [pt.zeros(0, dtype="int64")]
        for rv in model.observed_RVs:
            op, inputs = rv.owner.op, rv.owner.inputs
            if isinstance(op, PerturbedRV) and op.table(rv) is rows:
                published, location = pt.broadcast_arrays(model.rvs_to_values[rv], inputs[2])
                values.append(published.flatten())
                mu.append(location.flatten())
            elif isinstance(op, SameRecordsRV) and rows in inputs:
                again, before = op.repeated(rows, self.law, *inputs)
                counted.append(before)
                repeated.append(again)
            else:
                continue
            known.append(rv)
        if values:
            counted.append(self.law.transitions.places(pt.concatenate(values), pt.concatenate(mu), pt))
        found = model.replace_rvs_by_values([pt.concatenate(places) for places in (counted, repeated)])
        self.occurring, self.inputs = compiled(model, found, {"mode": _PLAIN} | dict(compile_kwargs))
        self.rest: Any = log_density(model, depending_on(model, value, known), value.name, compile_kwargs)

    def tally(self, at: Ints) -> Ints:
        """How often each place occurs that the law has."""
        possible = self.law.transitions.mass > 0.0
        return np.asarray(np.bincount(at[at >= 0], minlength=possible.size).reshape(possible.shape) * possible)


class PerturbationGibbs(AssignedStep):
    """Draws perturbation tables that are not known; PyMC assigns it to every `bayesdp.distributions.PerturbationRows` by itself.

    Given the counts all deviations are known, and the rows are drawn exactly: from Dirichlet laws with the concentrations plus how
    often each deviation of each row occurs, or under the prior of maximum entropy one of its tables by the products of the masses.
    Answers about the same records count once. What else in the model depends on the rows is accounted for by accepting or rejecting;
    where nothing does, the step of the counts draws them, too, in turns with its moves. Another variable raises TypeError.
    """

    name = "perturbation_gibbs"
    kind = "PerturbationRows"
    operation = PerturbationRowsRV
    stats_dtypes_shapes: ClassVar[dict[str, tuple[type, list[int]]]] = {"perturbation_accepted": (np.float64, [])}
    _state_class = StepMethodState

    tables: Sequence[_Rows]

    def _table(self, model: pm.Model, value: Any, compile_kwargs: dict[str, Any], initial_point: Any) -> _Rows:
        return _Rows(model, value, compile_kwargs)

    def step(self, point: PointType) -> tuple[PointType, list[dict[str, Any]]]:
        """Draw every table; the point that is passed in is left as it is."""
        new, accepted = point.copy(), 0
        for table in self.tables:
            counted, repeated = (
                table.tally(places.astype(np.int64))
                for places in table.occurring(*(new[name] for name in table.inputs))
            )
            drawn = table.law.drawn_rows(self.rng, counted - repeated)
            rest, threshold = table.rest, np.log1p(-self.rng.random())
            if rest is None or rest(new, drawn) - rest(new, new[table.name]) > threshold:
                new[table.name] = drawn
                accepted += 1
        return new, [{"perturbation_accepted": accepted / len(self.tables)}]
