"""What the step methods of the package share: which variables they take, compiled functions of a point, and how tables are moved."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from types import FrameType, SimpleNamespace
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor
from pymc.initial_point import PointType
from pymc.step_methods.compound import BlockedStep, Competence, StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_random_generator, get_value_vars_from_user_vars
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import equal_computations
from pytensor.graph.traversal import ancestors

from bayesdp._arrays import Floats, Ints, Words
from bayesdp._validate import positive_integer
from bayesdp.fibers.chain import CountChain
from bayesdp.fibers.kernel.state import State

type Point = Mapping[str, npt.NDArray[Any]]

_ATTEMPTS = 20_000
"""Moves in search of a first table that the rest of the model allows; some tenths of a second."""

_MOST_COMPILED = 12
"""Functions of a frozen model; those that hold released numbers as constants fit one release only."""


stop_request = SimpleNamespace(asked=False)
"""Whether sampling was asked to stop: chains that have not begun then do not begin. (Of Ctrl-C PyMC ends one chain, and begins the
next one, for which a large table first has to be put on its fiber.) A chain in a process of its own has another one, never set."""


class AssignedStep(BlockedStep):
    """A step method that PyMC assigns to all variables of a kind by itself."""

    default_blocked = True
    kind: ClassVar[str]  # in words, for messages
    operation: ClassVar[type]
    sweeps: int  # a draw
    tables: Sequence[Any]  # what is kept of each variable

    def __init__(
        self,
        vars: Any = None,  # the name is PyMC's
        *,
        sweeps: int | None = None,
        model: pm.Model | None = None,
        initial_point: PointType | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
        rng: Any = None,
    ) -> None:
        """Take the variables that are asked for, else all that belong to the step method."""
        found = pm.modelcontext(model)
        if vars is None:
            self.vars = [found.rvs_to_values[rv] for rv in found.free_RVs if self.belongs(rv)]
        else:
            self.vars = list(get_value_vars_from_user_vars(vars, found))
        for value in self.vars:
            if not self.belongs(found.values_to_rvs[value]):
                raise TypeError(f"{type(self).__name__} samples {self.kind} variables, and {value.name!r} is not one")
        if sweeps is not None:
            self.sweeps = positive_integer(sweeps, "sweeps")
        self.rng = get_random_generator(rng)
        self.tables = [self._table(found, value, compile_kwargs or {}, initial_point) for value in self.vars]

    @abstractmethod
    def _table(self, model: pm.Model, value: Any, compile_kwargs: dict[str, Any], initial_point: Any) -> Any:
        """What is kept of a variable."""

    @classmethod
    def belongs(cls, variable: Any) -> bool:
        """Whether a random variable is of that kind."""
        return isinstance(getattr(variable.owner, "op", None), cls.operation)

    @classmethod
    def competence(cls, var: Any, has_grad: bool) -> Competence:
        """Claim variables of that kind, and nothing else."""
        if not cls.belongs(var):
            return Competence.INCOMPATIBLE
        cls._check_sampler(var)
        return Competence.IDEAL

    @classmethod
    def _check_sampler(cls, var: Any) -> None:
        """Raise, with what to do instead, if ``pm.sample`` was asked for a sampler that has no step methods: PyMC does not say."""
        caller: FrameType | None = sys._getframe(1)
        while caller is not None:
            frame, caller = caller, caller.f_back
            asked = (
                frame.f_locals.get("nuts_sampler") if frame.f_globals.get("__name__") == "pymc.sampling.mcmc" else None
            )
            if asked not in {None, "pymc"}:
                raise ValueError(
                    f"nuts_sampler={asked!r} cannot move {var.name} ({cls.kind}), which only {cls.__name__} can: leave nuts_sampler "
                    f"out, or name 'pymc'. {cls.__name__} then moves it, and PyMC's NUTS all variables that it can have"
                )


class KernelTable(ABC):
    """One variable, and the kernel that moves it. Nothing is tuned, and no sums are kept, unless a table says so."""

    name: str
    shape: tuple[int, ...]
    kernel: CountChain | State
    # Log-density of what depends on the table and its kernel does not know; None where every step is drawn from its exact conditional
    # law (no accepting or rejecting).
    _rest: Callable[[Point, Ints], float] | None

    @property
    def generator(self) -> Words:
        """State of the kernel's generator, in place."""
        return self.kernel.generator

    @property
    def value(self) -> Ints:
        """The table as it stands, a copy."""
        return self.kernel.counts.reshape(self.shape).copy()

    @property
    def sums(self) -> Floats:
        """Sums that the kernel updates by differences; adding them up anew would differ in the last digits."""
        return np.empty(0)

    @sums.setter  # noqa: B027 - by default there are none
    def sums(self, recorded: Floats) -> None:
        """Sums to be restored at the next step, if table and noise are those that they were computed from."""

    @abstractmethod
    def begin(self, point: PointType, rng: np.random.Generator) -> None:
        """Start a chain at a table that the model allows."""

    @abstractmethod
    def step(self, point: PointType, sweeps: int, rng: np.random.Generator) -> tuple[Ints, float, float]:
        """Move; return the table, the share of moves that changed it, and the share of proposals accepted."""

    def learn(self) -> None:  # noqa: B027 - by default nothing is tuned
        """Note the table, while tuning."""

    def settle(self) -> None:  # noqa: B027
        """End the tuning."""

    @abstractmethod
    def _propose(self) -> tuple[int, int]:
        """Move by the exact conditional law of what the kernel knows: the number of cells moved and the step, 0 for none."""

    @abstractmethod
    def _take_back(self, count: int, step: int) -> None:
        """Undo the last move."""

    def _accept_on_the_rest(self, point: Point, moves: int, rng: np.random.Generator) -> tuple[Ints, float, float]:
        """Propose moves, and accept each on the ratio of the rest of the model (Metropolis within Gibbs); returns what `step` does."""
        assert self._rest is not None
        height = self._rest(point, self.value)
        changed = accepted = 0
        for threshold in np.log1p(-rng.random(moves)):
            count, step = self._propose()
            if step == 0:
                accepted += 1
                continue
            new = self._rest(point, self.value)
            if new - height > threshold:
                height = new
                changed += 1
                accepted += 1
            else:
                self._take_back(count, step)
        return self.value, changed / moves, accepted / moves


@dataclass_state
class TableGibbsState(StepMethodState):
    """What changes while sampling: whether the chain has begun, the generators of the kernels, and their running sums."""

    fresh: bool
    generators: list[Words]
    sums: list[Floats]
    sweeps: int = field(metadata={"frozen": True})


class TableGibbs(AssignedStep):
    """Moves every table in turn; its first two statistics, in the order of their names, are means over the tables."""

    # They are the share of moves that changed a table, and the share of proposals that were accepted. A chain begins at its first
    # step, when the other variables have their values. PyMC resets the sampling state between chains.

    _state_class = TableGibbsState

    rng: np.random.Generator
    fresh = True
    tuning = False
    tables: Sequence[KernelTable]

    @property
    def generators(self) -> list[Words]:
        """States of the generators of the kernels."""
        return [table.generator.copy() for table in self.tables]

    @generators.setter
    def generators(self, states: list[Words]) -> None:
        for table, state in zip(self.tables, states, strict=True):
            table.generator[:] = state

    @property
    def sums(self) -> list[Floats]:
        """Running sums of the kernels."""
        return [table.sums for table in self.tables]

    @sums.setter
    def sums(self, kept: list[Floats]) -> None:
        for table, sums in zip(self.tables, kept, strict=True):
            table.sums = sums

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """Take the generator of a chain; its first step moves the table to a feasible start."""
        if stop_request.asked:
            raise KeyboardInterrupt
        super().setup_chain(rng, tune, draws)
        self.fresh, self.tuning = True, tune > 0

    def stop_tuning(self) -> None:
        """End the tuning: from now on the moves do not depend on tables that were drawn."""
        super().stop_tuning()
        self.tuning = False
        for table in self.tables:
            table.settle()

    def step(self, point: PointType) -> tuple[PointType, list[dict[str, Any]]]:
        """Move every table; the point that is passed in is left as it is."""
        new, tables = point.copy(), self.tables
        if self.fresh:
            for table in tables:
                table.begin(new, self.rng)
                new[table.name] = table.value
            self.fresh = False
        found = []
        for table in tables:
            new[table.name], *shares = table.step(new, self.sweeps, self.rng)
            found.append(shares)
            if self.tuning:
                table.learn()
        means = (sum(own) / len(tables) for own in zip(*found, strict=True))
        return new, [dict(zip(self.stats_dtypes_shapes, means, strict=False))]


type RemainingDensity = tuple[Any, Any, npt.NDArray[Any]]
"""A part of a log-density, as an expression of value variables and of an input; that input; and its values, of one release."""


def compiled(
    model: pm.Model, outputs: list[Any], compile_kwargs: Mapping[str, Any]
) -> tuple[Callable[..., list[Any]], list[str]]:
    """Compile outputs as a function of the model's value variables, and return the names of those that it takes."""
    used = set(ancestors(outputs))
    inputs = [v for v in model.value_vars if v in used]
    return kept_function(model, inputs, outputs, compile_kwargs), [v.name for v in inputs]


_COMPILED: WeakKeyDictionary[pm.Model, list[tuple[list[Any], list[Any], Mapping[str, Any], Any]]] = WeakKeyDictionary()
"""Compiled functions of frozen models, for which PyMC caches its own functions too: refits compile nothing anew."""


def kept_function(model: pm.Model, inputs: list[Any], outputs: list[Any], compile_kwargs: Mapping[str, Any]) -> Any:
    """A compiled function; that of a frozen model is kept, and is not compiled again."""
    stored = _COMPILED.setdefault(model, []) if isinstance(model, pm.FrozenModel) else []
    for known_inputs, graph, options, function in stored:
        # The same computation of the same variables (constants by value, data by identity), however it was built.
        if options == compile_kwargs and _equal(known_inputs, graph, inputs, outputs):
            return function
    made = pytensor.function(inputs, outputs, **compile_kwargs)
    # The point that PyMC hands over has the right types; checking them again would double the cost of a call.
    made.trust_input = True
    stored.append((inputs, outputs, dict(compile_kwargs), made))
    del stored[:-_MOST_COMPILED]
    return made


def _equal(known: list[Any], graph: list[Any], inputs: list[Any], outputs: list[Any]) -> bool:
    """Whether two functions are the same: value variables by identity, other inputs by place and type."""
    if len(known) != len(inputs) or len(graph) != len(outputs):
        return False
    pairs = zip(known, inputs, strict=True)
    alike = all(a is b or (a.owner, a.name, a.type) == (b.owner, b.name, b.type) for a, b in pairs)
    return alike and bool(equal_computations(graph, outputs, in_xs=known, in_ys=inputs))


_STARTS: WeakKeyDictionary[pm.Model, tuple[list[Any], dict[str, npt.NDArray[Any]]]] = WeakKeyDictionary()


def start_of(model: pm.Model) -> dict[str, npt.NDArray[Any]]:
    """PyMC's initial point of a model, for which it compiles a function at each call: once while variables and data are the same."""
    data = [own.get_value(borrow=True) for own in ancestors(model.free_RVs) if isinstance(own, SharedVariable)]
    parts, chosen = [*model.free_RVs, *data], any(own is not None for own in model.rvs_to_initial_values.values())
    known, start = _STARTS.get(model, ([], {}))
    if chosen or [*map(id, known)] != [*map(id, parts)]:
        start = model.initial_point()
        _STARTS[model] = parts, start
    return {name: value.copy() for name, value in start.items()}


def shape_of(variable: Any) -> tuple[int, ...]:
    """The shape of a variable, from the model's data and constants."""
    # Worked out in Python: to compile a function for it would take most of the time of `observe`.
    known = variable.type.shape
    return tuple(int(n) for n in (variable.shape.eval(mode="FAST_COMPILE") if None in known else known))


def is_random(model: pm.Model, variables: Sequence[Any]) -> bool:
    """Whether any of some parameters depends on variables of the model."""
    return bool(set(ancestors(variables)) & {*model.basic_RVs, *model.value_vars})


def depends(model: pm.Model, variable: Any, value: Any) -> bool:
    """Whether the log-density of a variable or potential, which takes long to write down, depends on a value variable."""
    # In what uses a variable that is transformed, the parents of that are too, by the bounds of the transform.
    others = {own for own in model.basic_RVs if model.rvs_to_transforms.get(own) is None} - {variable}
    given = [variable, model.rvs_to_values.get(variable, variable)]
    near = {value, model.values_to_rvs[value]}.intersection(ancestors(given, blockers=others))
    return bool(near) and value in ancestors([model.logp(vars=[variable], sum=True)])


def depending_on(model: pm.Model, value: Any, known: Sequence[Any]) -> list[Any]:
    """What in a model has a log-density that depends on a value variable, but for what is known."""
    others = [other for other in [*model.free_RVs, *model.observed_RVs, *model.potentials] if other not in known]
    return [other for other in others if depends(model, other, value)]


def log_density(
    model: pm.Model,
    terms: Sequence[Any],
    table: str,
    compile_kwargs: Mapping[str, Any],
    more: Sequence[RemainingDensity] = (),
) -> Callable[[Point, Ints], float] | None:
    """Log-density of some terms (None without any) as a function of a point, the variable named `table` replaced by given counts."""
    if not terms and not more:
        return None
    known: Any = model.logp(vars=list(terms), sum=True) if terms else 0.0
    expression: Any = sum((rest for rest, _, _ in more), known)
    used = set(ancestors([expression]))
    variables = [v for v in model.value_vars if v in used]
    function = kept_function(model, [*variables, *(given for _, given, _ in more)], [expression], compile_kwargs)
    # Not a function inside of this one, which `pickle` could not write.
    return partial(_evaluated, function, table, [v.name for v in variables], [numbers for _, _, numbers in more])


def _evaluated(
    function: Any, table: str, names: list[str], given: list[npt.NDArray[Any]], point: Point, counts: Ints
) -> float:
    contiguous = np.asarray(counts, order="C")  # the state of the kernel has strides
    values = [contiguous if name == table else point[name] for name in names]
    return float(function(*values, *given)[0])


def moved_into_support(density: Callable[[], float], move: Callable[[], object], attempts: int = _ATTEMPTS) -> int:
    """Move until the table has a positive density: 0 when it does; otherwise the number of moves tried in vain."""
    for _ in range(attempts):
        if density() > -np.inf:
            return 0
        move()
    return attempts
