"""One count variable of a model while it is being sampled. Knows PyMC graphs; the moves are in `fibers` and `hierarchies`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
from pytensor.graph.traversal import ancestors

from bayesdp._text import printable
from bayesdp.steps._compiled import Point, compiled, log_density
from bayesdp.steps._compiling import told_while_compiling
from bayesdp.steps._rest import accept_on_the_rest, moved_into_support
from bayesdp.steps._table_gibbs import LEAST_MOVES
from bayesdp.steps.count_chains import CountChain, LineChain, SweepChain
from bayesdp.steps.learnt_laws import LearntLaw, learnt_laws
from bayesdp.steps.movement import hierarchy_of, kernel_target, said_of
from bayesdp.steps.terms import Reading, read_model

_SWEEPS = 2_000
"""In search of a first table that the laws of the noise allow."""

NAMED = 3
"""How many answers are named where no table was found."""

TURNS = 5
"""How often a sweep stops to draw laws that are learnt."""

type Ints = npt.NDArray[np.int64]


class CountTable:
    """A `ConfidentialCounts` variable, its target, and the parameters that the rest of the model gives it.

    Parameters
    ----------
    value : tensor variable
        Value variable of the counts.
    compile_kwargs : mapping
        As in ``pm.sample``.


    Warns
    -----
    UserWarning
        If nothing observed depends on the counts.
    """

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
        point = {} if constant else model.initial_point() if initial_point is None else initial_point
        parameters = self._parameters(*[point[name] for name in self._inputs])
        self._moving = reading.moving
        self.target = kernel_target(reading, parameters)
        structure = hierarchy_of(self.target, reading)
        self.proved, self.claim = said_of(self.target, reading, structure)
        if reading.family == "flat":
            self._check_supported()
        self._rest = log_density(model, reading.unknown, self.name, compile_kwargs, reading.rests)
        self.chain: CountChain
        self.sweeps: SweepChain | None = None
        if structure is not None:
            self.chain = self.sweeps = SweepChain(self.target, structure, rng)
        else:
            self.chain = self._lines = LineChain(self.target, rng, max(reading.fiber.invariants.dimension, 1))
        self._laws: list[LearntLaw] = learnt_laws(model, reading, self.target) if self._rest is None else []
        self._constant: list[npt.NDArray[np.float64]] | None = parameters if constant else None
        self._noise: list[npt.NDArray[np.float64]] | None = None
        self._write(parameters)
        self._start: Ints | None = None
        self._kept_sums: npt.NDArray[np.float64] | None = None
        self._first_table()
        self.dimension = max(reading.fiber.invariants.dimension, 1)
        with told_while_compiling():  # here rather than in the processes of all chains
            self.chain.ready()

    def _first_table(self) -> Ints:
        """A table of the fiber, near the noisy one, that the prior allows as its parameters stand."""
        upper = self.chain.upper
        if self._start is None or np.any(self._start > upper):
            guide, fiber, gaps = self.target.guide(), self.target.fiber, self.target.gaps
            try:
                if self.sweeps is not None:
                    point = self.sweeps.near(0, scatter=0.0)
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
                    point = fiber.with_cells_at_most(upper).find_point(guide, gaps).reshape(-1)
                except ValueError as error:
                    raise ValueError(
                        f"no table with the exact answers has a positive prior probability under the base of {self.name}, "
                        f"which bounds its cells: {error}"
                    ) from error
            self._start = point
        return self._start

    def _priced_table(self) -> Ints | None:
        """A table of the fiber that the laws of the noise allow, found by a price; None where none was, or no law forbids any."""
        guide, fiber, lines = self.target.guide(), self.target.fiber, self._lines
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
            for row in ([] if self.sweeps is not None else self._lines.forbidden[:NAMED].tolist())
            for term, rows in ((term, self.target.rows_of(i)) for i, term in enumerate(self.target.terms))
            if rows.start <= row < rows.stop
        ]
        return f"; what the laws forbade longest in a search by moves: {printable('; '.join(named))}" if named else ""

    @property
    def exact_conditional(self) -> bool:
        """Whether every step is drawn from its exact conditional law (no accepting or rejecting)."""
        return self._rest is None

    def _check_supported(self) -> None:
        lost = np.flatnonzero(self.target.unsupported_cells())
        if lost.size:
            raise ValueError(
                f"the posterior of {self.name} is improper: nothing bounds the cell "
                f"{self.target.fiber.frame.cell_name(int(lost[0]))} (flat prior, no noise, no exact answer)"
            )

    def _write(self, parameters: list[npt.NDArray[np.float64]]) -> bool:
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
    def value(self) -> Ints:
        """The table as it stands, a copy."""
        return self.chain.counts.reshape(self.shape).copy()

    @property
    def generator(self) -> npt.NDArray[np.uint64]:
        """State of the kernel's generator, in place."""
        return self.chain.generator

    @property
    def sums(self) -> npt.NDArray[np.float64]:
        """The table, the noise, and what the kernel has besides: sums that it updates by differences, or what it was tuned to."""
        return np.concatenate([self.chain.counts, *map(np.ravel, self._noise or []), self.chain.memory])

    @sums.setter
    def sums(self, kept: npt.NDArray[np.float64]) -> None:
        self._kept_sums = kept
        added = len(self.chain.memory)
        if len(kept) == len(self.sums):
            self.chain.remember(kept[len(kept) - added :], same=False)

    def _take_sums(self) -> None:
        """Restore recorded sums if table and noise are those that they belong to, so that a resumed chain agrees to the last digit."""
        kept, self._kept_sums = self._kept_sums, None
        now, added = self.sums, len(self.chain.memory)
        if kept is not None and kept.shape == now.shape:
            same = np.array_equal(kept[: len(kept) - added], now[: len(now) - added])
            self.chain.remember(kept[len(kept) - added :], same=same)

    def begin(self, point: Point, rng: np.random.Generator) -> None:
        """Start a chain: keep a start that is on the fiber, otherwise move onto it and scatter.

        Without exact equalities every start is feasible; it is then scattered too, so that chains begin apart. Hierarchies are not
        scattered from a start: see `SweepChain.begin_apart`.
        """
        self._kept_sums = None
        self.chain.reseed(rng)
        self.refresh(point)
        given = np.asarray(point[self.name], dtype=np.int64)
        fiber, gaps = self.target.fiber, self.target.gaps
        inside = bool(np.all(given.reshape(-1) <= self.chain.upper)) and fiber.contains(given)
        inside = inside and (gaps is None or not (gaps.met(given.reshape(-1)).size or gaps.further(given.reshape(-1))))
        constrained = bool(len(fiber.system.names) or fiber.system.fixed.any())
        if inside and constrained:
            self.chain.begin(given.reshape(-1), scatter=False)
        elif self.sweeps is not None:
            self.sweeps.begin_apart(rng)
        else:
            start = given.reshape(-1) if inside else self._first_table()
            self.chain.begin(start, scatter=True)
            if self._log_density(point) == -np.inf:
                # Scattering has left what the rest of the model allows; the start itself may be inside.
                self.chain.load(start)
        self._find_support(point)

    def _find_support(self, point: Point) -> None:
        """Move until the laws of the noise and the terms that the kernel does not know give the table a positive density."""
        if self.sweeps is not None:  # normal noise, which forbids no table
            return
        lines, sweep = self._lines, max(self.dimension, LEAST_MOVES)
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
        if self.sweeps is None and self._lines.differing:
            return -np.inf
        terms, counts = self.target.terms, self.chain.counts
        return float(sum(own.by_law((own.matrix @ counts)[own.measured]) for own in terms if own.by_law is not None))

    def refresh(self, point: Point) -> None:
        """Read the parameters off the other variables of the model."""
        if self._constant is not None:
            return
        parameters = self._parameters(*[point[name] for name in self._inputs])
        if self._write(parameters):
            self.chain.load(self.chain.counts.copy())

    def step(self, point: Point, sweeps: int, rng: np.random.Generator) -> tuple[Ints, float, float]:
        """Move; return the table, the share of moves that changed it, and the share of proposals accepted.

        A sweep has as many moves as the table has degrees of freedom; that of a hierarchy has some more, and each free cell
        takes part. The rows of perturbation tables that are learnt are drawn several times a sweep, and written into the point.
        """
        self.refresh(point)
        current = point[self.name]
        if not np.array_equal(current.reshape(-1), self.chain.counts):
            self.chain.load(np.asarray(current, dtype=np.int64).reshape(-1))
        if self._kept_sums is not None:
            self._take_sums()
        if self._rest is None:
            changed = self._move_with_laws(point, sweeps, rng) if self._laws else self.chain.move(sweeps)
            return self.value, changed, 1.0
        return self._step_and_accept(point, sweeps * self.dimension, rng)

    def learn(self) -> None:
        """Note the table, while tuning."""
        self.chain.learn()

    def settle(self) -> None:
        """End the tuning."""
        self.chain.settle()
        if self.sweeps is not None:
            # What was recorded before the tuning ended has been restored, and would be restored again by the next step.
            self._kept_sums = None

    def _move_with_laws(self, point: Any, sweeps: int, rng: np.random.Generator) -> float:
        """Counts given laws and laws given counts in turns; the share of moves that changed the table."""
        assert self._noise is not None
        turns, changed = TURNS * sweeps, 0.0
        for _ in range(turns):
            changed += self._lines.move(sweeps / turns) / turns
            for law in self._laws:
                rows = law.draw(self._lines, rng)
                point[law.name] = rows
                for term, log_mass in law.log_masses(rows):
                    self._noise[term] = log_mass
        return changed

    def _step_and_accept(self, point: Point, moves: int, rng: np.random.Generator) -> tuple[Ints, float, float]:
        """Propose from the exact conditional of the known terms, accept on the ratio of the others."""
        assert self._rest is not None
        chain, rest = self._lines, self._rest

        def propose() -> tuple[int, int]:
            count, step = chain.propose()
            if count and step < -(2**60):
                raise ValueError(
                    f"the proposals for {self.name} have no finite mass: neither noise nor exact answers bound a direction"
                )
            return count, step

        changed, accepted = accept_on_the_rest(rng, moves, lambda: rest(point, self.value), propose, chain.take_back)
        return self.value, changed / moves, accepted / moves


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
    if set(ancestors([reading.trials])) & set(model.value_vars):
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
