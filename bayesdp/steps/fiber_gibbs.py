"""The step method of confidential counts, and a count variable while it is being sampled; the moves are in `fibers`, `hierarchies`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from pymc.initial_point import PointType

from bayesdp._arrays import Floats, Ints
from bayesdp._numba import told_while_compiling
from bayesdp._text import printable
from bayesdp.distributions.confidential_counts import ConfidentialCountsRV
from bayesdp.distributions.perturbed import PerturbationRowsRV, PerturbedRV
from bayesdp.fibers import Chain, Target
from bayesdp.fibers.chain import LEAST_MOVES, CountChain
from bayesdp.fibers.kernel.classes import count_places
from bayesdp.fibers.windows import without_infinities
from bayesdp.hierarchies.chain import TreeChain
from bayesdp.hierarchies.modes import numbered, start_codes
from bayesdp.noise import UnknownPerturbation
from bayesdp.steps.base import (
    KernelTable,
    Point,
    TableGibbs,
    compiled,
    depending_on,
    is_random,
    log_density,
    moved_into_support,
    start_of,
)
from bayesdp.steps.reading import Reading, hierarchy_of, kernel_target, possible, read_model, said_of
from bayesdp.steps.supports import warn_slow_rates

ENDS = "fiber_ends_"
"""Beginning of the name of the statistic by which a hierarchy tells where its chains began; `annotate` reads it, and takes it out."""

_SWEEPS = 2_000
"""In search of a first table that the laws of the noise allow."""

_NAMED = 3
"""How many answers are named where no table was found."""

_TURNS = 5
"""How often a sweep stops to draw laws that are learnt."""


class FiberGibbs(TableGibbs):
    """Moves confidential counts inside their fiber; PyMC assigns it to every `ConfidentialCounts` by itself.

    Each move draws a random direction that changes no exact answer, and takes a step along it from the exact conditional
    law of the prior and the noise. Whatever else in the model depends on the counts (a second likelihood, a Potential, a
    base without fast steps) is then accounted for by accepting or rejecting on its compiled log-density. Options go
    through ``pm.sample(fiber_gibbs={"sweeps": 4})``.

    Parameters
    ----------
    vars : list of variables
        The counts; all of the model if left out. Several tables in one model share one step.
    sweeps : int
        Moves a draw, 2 by default, in degrees of freedom of the table (at least 100 moves where all are exact). Where the counts
        are a hierarchy (`bayesdp.hierarchies.structure`; tables of 100 cells or more with normal noise, on which nothing else in
        the model depends), whole sweeps, in which every free cell takes part; what cells are moved against is chosen while
        tuning.
    model, initial_point, compile_kwargs, blocked, rng
        Supplied by PyMC.

    Attributes
    ----------
    connectivity : dict
        For each variable, what is known of its moves: ``proved`` says whether they connect every fiber of these
        invariants (a Markov basis); where they do not, random sums of moves reach every table with positive probability.

    Raises
    ------
    ValueError
        If a fiber is empty or a posterior improper.

    Warns
    -----
    UserWarning
        Where counts have a gamma rate for each cell that could be integrated out, as `bayesdp.sample` does.

    Notes
    -----
    A chain whose start is off the fiber is moved onto it at its first step, before anything is recorded, and scattered,
    so that chains begin apart. Chains of a hierarchy begin at random tables near the linear estimate (`bayesdp.hierarchies.start`),
    in independent pairs of opposite ones, so that `bayesdp.inference.diagnose` can look for missed modes; there is no such check
    for other tables. Every step stays on the fiber.

    Where nothing else in the model depends on the counts: where laws forbid answers (bounded deviations, gaps), tables of up to 128
    degrees of freedom are moved through softer walls besides (tempered transitions, `bayesdp.fibers.chain`), unless answers share a
    key; where precise noisy answers are sums that nest or cross, half of all moves are drawn by looking at which cells are not 0
    (`bayesdp.fibers.kernel.occupied_moves`); and rows of perturbation tables that are not known
    (`bayesdp.distributions.PerturbationRows`) are drawn with the counts, five times a sweep.

    Some directions keep noisy answers besides that are precise beside the others (`bayesdp.fibers.target`). How often each kind is
    taken is learnt while tuning, and frozen. Where scales or priors are variables of the model, their values at the initial
    point decide, once and for all, so that the steps leave the posterior invariant whatever values they take later.

    Examples
    --------
    >>> from pymc.step_methods import STEP_METHODS
    >>> FiberGibbs in STEP_METHODS
    True
    """

    name = "fiber_gibbs"
    tables: Sequence[CountTable]
    kind = "ConfidentialCounts"
    operation = ConfidentialCountsRV
    sweeps = 2
    stats_dtypes_shapes: dict[str, tuple[type, list[int]]] = {  # noqa: RUF012  # PyMC's, of class and instance
        "fiber_changed": (np.float64, []),
        "fiber_accepted": (np.float64, []),
    }

    def _table(self, model: pm.Model, value: Any, compile_kwargs: dict[str, Any], initial_point: Any) -> CountTable:
        warn_slow_rates(model, [value])
        table = CountTable(model, value, self.rng, compile_kwargs, initial_point)
        if table.tree is not None:  # PyMC looks at those of the instance
            self.stats_dtypes_shapes = {**self.stats_dtypes_shapes, f"{ENDS}{table.name}": (np.int64, [])}
            self.stats_dtypes = [{name: dtype for name, (dtype, _) in self.stats_dtypes_shapes.items()}]
        return table

    def step(self, point: PointType) -> tuple[PointType, list[dict[str, Any]]]:
        """Move every table; the point that is passed in is left as it is."""
        new, [stats] = super().step(point)
        told = {f"{ENDS}{table.name}": table.tell() for table in self.tables if table.tree is not None}
        return new, [stats | told]

    @property
    def connectivity(self) -> dict[str, dict[str, Any]]:
        """What is known of the moves of each variable: ``proved`` and ``claim``."""
        return {t.name: {"proved": t.proved, "claim": t.claim} for t in self.tables}


class CountTable(KernelTable):
    """A `ConfidentialCounts` variable, its target, and the parameters that the rest of the model gives it."""

    def __init__(
        self,
        model: pm.Model,
        value: Any,
        rng: np.random.Generator,
        compile_kwargs: Mapping[str, Any],
        initial_point: Point | None = None,
    ) -> None:
        self.name = value.name
        reading = read_model(model, value)
        self.shape = reading.fiber.frame.shape
        _check_trials(reading, model, value.name)
        _warn_if_unobserved(reading, model, value.name)
        self._parameters, self._inputs = compiled(model, reading.symbolic, compile_kwargs)
        constant = not self._inputs
        point = {} if constant else start_of(model) if initial_point is None else initial_point
        parameters = self._parameters(*[point[name] for name in self._inputs])
        self._moving = reading.moving
        self.target = kernel_target(reading, parameters)
        structure = hierarchy_of(self.target, reading)
        self.proved, self.claim = said_of(self.target, reading, structure)
        if reading.family == "flat":
            self._check_supported()
        self._rest = log_density(model, reading.unknown, self.name, compile_kwargs, reading.rests)
        self.chain: CountChain
        self.tree: TreeChain | None = None
        # Where chains of a hierarchy begin is told with the draws, a word each, so that a check for missed modes can compare them.
        self._told = 0
        if structure is not None:
            self.chain = self.tree = TreeChain(self.target, structure, rng)
        else:
            self.chain = self.lines = Chain(self.target, rng)
        self.kernel = self.chain
        self._laws: list[LearntLaw] = learnt_laws(model, reading, self.target) if self._rest is None else []
        self._constant: list[Floats] | None = parameters if constant else None
        self._noise: list[Floats] | None = None
        self._write(parameters)
        self._start: Ints | None = None
        self._recorded: Floats | None = None
        self.dimension = max(reading.fiber.invariants.dimension, 1)
        first = self._first_table()
        with told_while_compiling():  # here rather than in the processes of all chains
            self.chain.begin(first)
            self.chain.ready()
        self._began = self._start_words()

    def _start_words(self) -> Ints:
        """Where the chain begins, in the words of `start_codes`; none of a table in general."""
        return np.zeros(0, dtype=np.int64) if self.tree is None else start_codes(self.tree)

    def tell(self) -> int:
        """The next word about where the chain began."""
        self._told = (self._told + 1) % len(self._began)
        return numbered(self._began, self._told)

    def _first_table(self) -> Ints:
        """A table of the fiber, near the noisy one, that the prior allows as its parameters stand."""
        upper = self.chain.upper
        if self._start is None or np.any(self._start > upper):
            guide, fiber, gaps = self.target.guide(), self.target.fiber, self.target.gaps
            try:
                if self.tree is not None:
                    point = self.tree.near(0, scatter=0.0)
                elif (found := self._priced_table()) is not None:
                    point = found
                else:
                    point = fiber.find_point(guide, gaps).reshape(-1)
            except ValueError as error:
                raise ValueError(
                    f"no table is left for {self.name}, with the limits of its prior and the reach of bounded noise: {error}"
                ) from error
            except TimeoutError as error:
                raise ValueError(
                    f"no first table of {self.name} was found: {error}{self._forbidden()}; give one with pm.sample(initvals=...)"
                ) from error
            if np.any(point > upper):
                try:
                    point = fiber.with_cells_between(0, upper).find_point(guide, gaps).reshape(-1)
                except ValueError as error:
                    raise ValueError(
                        f"no table with the exact answers has a positive prior probability under the base of {self.name}, "
                        f"which bounds its cells: {error}"
                    ) from error
            self._start = point
        return self._start

    def _priced_table(self) -> Ints | None:
        """A table of the fiber that the laws of the noise allow, found by a price; None where none was, or no law forbids any."""
        guide, fiber, lines = self.target.guide(), self.target.fiber, self.lines
        if all(term.windows is None for term in self.target.terms):
            return None
        with told_while_compiling():
            lines.ready()
        if self.target.walls_alone:
            lines.load(np.clip(np.rint(guide).astype(np.int64), fiber.system.lower, self.chain.upper))
        else:
            lines.load(np.minimum(fiber.find_point(guide).reshape(-1), self.chain.upper))
        given = lines.generator.copy()
        lines.reseed(np.random.default_rng(0))  # one first table of a model, whatever seeds its chains have
        found = lines.counts.copy() if lines.disperse() else None
        lines.generator[:] = given
        return found

    def _forbidden(self) -> str:
        """Which answers the search by a price left forbidden longest, in words."""
        named = [
            f"{term.query.answer_name(row - rows.start)} (published {term.values[row - rows.start]:g})"
            for row in ([] if self.tree is not None else self.lines.forbidden[:_NAMED].tolist())
            for term, rows in ((term, self.target.rows_of(i)) for i, term in enumerate(self.target.terms))
            if rows.start <= row < rows.stop
        ]
        return f"; what the laws forbade longest in a search by moves: {printable('; '.join(named))}" if named else ""

    def _check_supported(self) -> None:
        lost = np.flatnonzero(self.target.unsupported_cells())
        if lost.size:
            raise ValueError(
                f"the posterior of {self.name} is improper: nothing bounds the cell "
                f"{self.target.fiber.frame.cell_name(int(lost[0]))} (flat prior, no noise, no exact answer)"
            )

    def _write(self, parameters: list[Floats]) -> bool:
        """Write parameters into the chain; whether those of the noise changed, after which the table has to be loaded again."""
        theta, shape, *others = parameters
        before, self._noise = self._noise, [other.copy() for other in others]
        changed = before is None or not all(map(np.array_equal, before, others))
        if others and changed:
            scales, answers = others[: len(self.target.terms)], others[len(self.target.terms) :]
            values = [term.values for term in self.target.terms]
            for term, moved in zip(self._moving, answers, strict=True):
                values[term] = moved
            self.chain.set_scales(scales, values)
        self.chain.set_prior(theta, shape)
        return bool(others) and changed

    @property
    def sums(self) -> Floats:
        """The table, the noise, where the chain began, and what the kernel has besides: sums by differences, what it was tuned to."""
        noise = map(np.ravel, self._noise or [])
        return np.concatenate([self.chain.counts, *noise, self._began, self.chain.memory])

    @sums.setter
    def sums(self, kept: Floats) -> None:
        self._recorded = kept
        if len(kept) == len(self.sums):
            self._remember(kept, same=False)

    def _take_sums(self) -> None:
        """Restore recorded sums if table and noise are those that they belong to, so that a resumed chain agrees to the last digit."""
        recorded, self._recorded = self._recorded, None
        now = self.sums
        if recorded is not None and recorded.shape == now.shape:
            added = len(self._began) + len(self.chain.memory)
            same = np.array_equal(recorded[: len(now) - added], now[: len(now) - added])
            self._remember(recorded, same=same)

    def _remember(self, sums: Floats, *, same: bool) -> None:
        at = len(sums) - len(self.chain.memory)
        self._began = sums[at - len(self._began) : at].astype(np.int64)
        self.chain.remember(sums[at:], same=same)

    def begin(self, point: Point, rng: np.random.Generator) -> None:
        """Start a chain: keep a start that is on the fiber, otherwise move onto it and scatter."""
        # Without exact equalities every start is feasible; it is then scattered too, so that chains begin apart.
        self._recorded = None
        self.chain.reseed(rng)
        self.refresh(point)
        given, system = np.asarray(point[self.name], dtype=np.int64).reshape(-1), self.target.fiber.system
        inside = bool(np.all(given <= self.chain.upper)) and possible(self.target, given)
        if inside and (len(system.names) or system.fixed.any()):
            self.chain.begin(given)
        elif self.tree is not None:
            self.tree.begin_apart(rng)
        else:
            start = given if inside else self._first_table()
            self.lines.begin(start)
            self.lines.disperse()
            if self._log_density(point) == -np.inf:
                # Scattering has left what the rest of the model allows; the start itself may be inside.
                self.chain.load(start)
        self._began = self._start_words()
        self._find_support(point)

    def _find_support(self, point: Point) -> None:
        """Move until the laws of the noise and the terms that the kernel does not know give the table a positive density."""
        if self.tree is not None:  # normal noise, which forbids no table
            return
        lines, sweep = self.lines, max(self.dimension, LEAST_MOVES)
        tried = moved_into_support(self._log_likelihood, lambda: lines.sweep(sweep), _SWEEPS)
        if self._rest is not None and not tried:
            tried = moved_into_support(lambda: self._log_density(point), lines.propose)
        if tried:
            what = "sweeps" if tried == _SWEEPS else "moves"
            raise ValueError(
                f"no table of {self.name} was found that agrees with the exact answers and has positive density under the "
                f"laws of the noise and other terms of the model ({tried} {what} tried); give one with pm.sample(initvals=...)"
            )

    def _log_density(self, point: Point) -> float:
        """What the kernel does not know, and the likelihood by the laws: minus infinity where no chain may begin."""
        known = self._log_likelihood()
        return known if self._rest is None else known + self._rest(point, self.value)

    def _log_likelihood(self) -> float:
        """By the laws; minus infinity where answers about the same records have different numbers, else up to what they share."""
        if self.tree is None and self.lines.differing:
            return -np.inf
        terms, counts = self.target.terms, self.chain.counts
        return float(
            sum(term.by_law((term.matrix @ counts)[term.measured]) for term in terms if term.by_law is not None)
        )

    def refresh(self, point: Point) -> None:
        """Read the parameters off the other variables of the model."""
        if self._constant is not None:
            return
        parameters = self._parameters(*[point[name] for name in self._inputs])
        if self._write(parameters):
            self.chain.load(self.chain.counts.copy())

    def step(self, point: Point, sweeps: int, rng: np.random.Generator) -> tuple[Ints, float, float]:
        """Move; return the table, the share of moves that changed it, and the share of proposals accepted."""
        self.refresh(point)
        current = point[self.name]
        if (current.reshape(-1) != self.chain.counts).any():
            self.chain.load(np.asarray(current, dtype=np.int64).reshape(-1))
        if self._recorded is not None:
            self._take_sums()
        if self._rest is None:
            changed = self._move_with_laws(point, sweeps, rng) if self._laws else self.chain.move(sweeps)
            return self.value, changed, 1.0
        return self._accept_on_the_rest(point, sweeps * self.dimension, rng)

    def learn(self) -> None:
        """Have the chain note the table."""
        self.chain.learn()

    def settle(self) -> None:
        """End the tuning."""
        self.chain.settle()
        if self.tree is not None:
            # What was recorded before the tuning ended has been restored, and would be restored again by the next step.
            self._recorded = None

    def _move_with_laws(self, point: Any, sweeps: int, rng: np.random.Generator) -> float:
        """Counts given laws and laws given counts in turns; the share of moves that changed the table."""
        assert self._noise is not None
        turns, changed = _TURNS * sweeps, 0.0
        for _ in range(turns):
            changed += self.lines.move(sweeps / turns) / turns
            for law in self._laws:
                rows = law.draw(self.lines, rng)
                point[law.name] = rows
                for term, log_mass in law.log_masses(rows):
                    self._noise[term] = log_mass
        return changed

    def _propose(self) -> tuple[int, int]:
        count, step = self.lines.propose()
        if count and step < -(2**60):
            raise ValueError(
                f"the proposals for {self.name} have no finite mass: neither noise nor exact answers bound a direction"
            )
        return count, step

    def _take_back(self, count: int, step: int) -> None:
        self.lines.take_back(count, step)


def _warn_if_unobserved(reading: Reading, model: pm.Model, name: str) -> None:
    """Warn of counts on which no data depend: `observe` was forgotten."""
    system = reading.fiber.system
    seen = [term for term in reading.unknown if term not in model.free_RVs]
    if not (reading.terms or reading.rests or seen or len(system.names) or system.fixed.any()):
        warnings.warn(
            f"nothing was observed of {name}: its posterior is its prior; call bayesdp.observe(release, {name})",
            UserWarning,
            stacklevel=2,
        )


def _check_trials(reading: Reading, model: pm.Model, name: str) -> None:
    """A multinomial's number of trials must be what the exact answers say, and a constant."""
    if reading.trials is None:
        return
    if is_random(model, [reading.trials]):
        raise ValueError(
            f"the number of trials n of the multinomial base of {name} must be a constant: it is published exactly"
        )
    trials = np.asarray(reading.trials.eval(), dtype=np.int64)
    start = reading.fiber.find_point()
    sums = start.reshape(-1, reading.trial_cells).sum(axis=1)
    wanted = np.broadcast_to(trials.reshape(-1) if trials.ndim else trials, sums.shape)
    # Exact answers fix these sums if their indicators have no part in the null space; a random mixture of the indicators
    # shows it for all at once.
    mixture = np.repeat(np.random.default_rng(0).normal(size=len(sums)), reading.trial_cells)
    if np.max(np.abs(reading.fiber.invariants.project(mixture.reshape(reading.fiber.frame.shape)))) > 1e-8:
        raise ValueError(
            f"the multinomial base of {name} fixes sums of counts that are not among the exact answers; publish them as "
            "exact: Exact(Totals(frame), n), or the margin over which it is multinomial"
        )
    wrong = np.flatnonzero(sums != wanted)
    if wrong.size:
        i = int(wrong[0])
        raise ValueError(
            f"the multinomial base of {name} has n = {int(wanted[i])}, but the exact answers add up to {int(sums[i])}"
        )


@dataclass(frozen=True, eq=False)
class _Part:
    """One term of a law: its number, its rows in the kernel, where its windows begin there, and where they stand in the flat table."""

    term: int
    rows: slice
    window: int
    places: Ints


@dataclass(frozen=True, eq=False)
class LearntLaw:
    """The rows of a law that only terms of one table depend on, all known to its kernel: drawn by turns with moves of the counts."""

    # Each leaves the law of both as it is, however often they take turns. Five turns a sweep cost a tenth of the time, and moved the
    # slowest contrast of 39 areas nearly as far as twenty.

    name: str
    law: UnknownPerturbation
    parts: tuple[_Part, ...]

    def draw(self, chain: Chain, rng: np.random.Generator) -> Floats:
        """Rows given the table as it stands, which its next steps then go by."""
        state, found = chain.state, np.zeros(self.law.concentrations.shape)
        for part in self.parts:
            limits = part.rows.start, part.rows.stop, self.law.transitions.lowest
            count_places(*limits, state.rows, state.laws, state.classes, state.slots, found)
        rows = self.law.drawn_rows(rng, np.rint(found))
        for part, (_, log_mass) in zip(self.parts, self.log_masses(rows), strict=True):
            state.windows[part.window : part.window + len(log_mass)] = without_infinities(log_mass)
        return rows

    def log_masses(self, rows: Floats) -> Iterator[tuple[int, Floats]]:
        """Of each term, with its number, what its windows have under some rows."""
        with np.errstate(divide="ignore"):
            flat = np.log(rows).reshape(-1)
        for part in self.parts:
            yield part.term, flat[part.places]


def learnt_laws(model: pm.Model, reading: Reading, target: Target) -> list[LearntLaw]:
    """The laws of a model that only terms of this table, exactly known, depend on."""
    found = []
    for rows in model.free_RVs:
        if not isinstance(rows.owner.op, PerturbationRowsRV):
            continue
        value, law = model.rvs_to_values[rows], rows.owner.op.law
        parts, known, window = [], [rows, *reading.variables[len(reading.terms) :]], 0
        for i, (term, rv) in enumerate(zip(reading.terms, reading.variables, strict=False)):
            if isinstance(rv.owner.op, PerturbedRV) and rv.owner.op.table(rv) is rows:
                places = law.transitions.window_places(np.rint(term.values[term.measured]).astype(np.int64))
                parts.append(_Part(i, target.rows_of(i), window, places))
                known.append(rv)
            window += 0 if term.windows is None else len(term.windows.log_mass)
        if parts and not depending_on(model, value, known):
            found.append(LearntLaw(value.name, law, tuple(parts)))
    return found
