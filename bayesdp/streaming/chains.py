"""Chains of a run, side by side in threads: the start, the tuning and the draws of each, from which what is asked for is kept.

And how much memory a run takes, or its parts, stated before it starts.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._interrupts import give_back, handled, tell
from bayesdp.fibers import Target
from bayesdp.hierarchies.chain import TreeChain
from bayesdp.hierarchies.modes import ends_of
from bayesdp.hierarchies.priors import CellPrior
from bayesdp.hierarchies.structure import Structure
from bayesdp.inference.memory import available_memory
from bayesdp.queries import Query
from bayesdp.streaming import journal as journals
from bayesdp.streaming.cells import CellSummary, Recorder, batching, bytes_per_cell, new_summary, occupied, take
from bayesdp.streaming.journal import KeptTables, TableWriter, Writer
from bayesdp.streaming.perturbed import LineTree, WalledTree, has_walls

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Arrays = dict[str, npt.NDArray[Any]]
type AnyChain = TreeChain | LineTree | WalledTree

_START = 20
"""Tables of real numbers that a start needs: estimates at all levels, and limits of sums with their remainders."""

_LIMITS = 12
"""Such tables that working out which cells are determined needs, where sums have limits or are exact."""

_BLOCK = 256
"""Nodes whose residuals are worked out at a time, see `Tree.tables_by_level`."""


@dataclass(frozen=True)
class Plan:
    """The numbers of a run."""

    draws: int
    tune: int
    chains: int
    cores: int
    thin: int
    counts: int  # the largest count whose probability is kept
    bins: int  # with `batches`: see `bayesdp.streaming.cells.CellSummary`
    batches: int
    quantiles: tuple[float, ...]

    @property
    def of_sampler(self) -> dict[str, int]:
        """Those that a result states."""
        return {"draws": self.draws, "tune": self.tune, "chains": self.chains, "thin": self.thin}

    @property
    def of_draws(self) -> dict[str, int]:
        """Those that the draws, and what is kept of them, depend on."""
        return {name: own for name, own in vars(self).items() if name not in ("cores", "quantiles")}


@dataclass(frozen=True)
class Budget:
    """About how many bytes a run takes, beside the release."""

    # Some 100 MB that do not grow with it come on top in a process that has not fitted anything yet: libraries and compiled code.

    kernel: int  # tables, residuals and lists of the chains that run at the same time
    start: int  # work space of one start: chains start one after another
    # What all chains keep of the cells, from the first draw to the last. Neither this nor `kernel` grows with the number of draws.
    cells: int
    record: int  # draws of queries and hyperparameters
    result: int  # summaries of the cells in the result, and diagnostics; made when the chains are gone
    pooled: int  # summaries of the cells that can move, made while what chains keep is there still

    @classmethod
    def of(cls, structure: Structure, plan: Plan, recorded: int) -> Budget:
        """Of a run that records so many numbers a draw."""
        leaves, places = structure.free.shape
        size, free = leaves * places, int(structure.free.sum())
        answers = structure.nodes * int(structure.query_start[-1])
        # Counts, two arrays of the prior, and means while tuning; lists of free cells and groups; residuals with
        # precisions, their starting values and where each answer is. And what working residuals out anew needs.
        own = 4 * 8 * size + 8 * (3 * free + 4 * answers)
        own += 8 * min(_BLOCK, leaves) * (places + 2 * int(structure.query_start[-1]))
        running = min(plan.cores, plan.chains)
        kept = bytes_per_cell(plan.draws, plan.counts, plan.bins, plan.batches)
        shares = 4 * (plan.counts + 1)
        # While they are made, wide; in the result quantiles and diagnostics take half.
        wide = 8 * (5 + 6 * plan.chains + len(plan.quantiles)) + shares
        own_result = 8 * (2 + 2 * plan.chains) + 4 * (3 + len(plan.quantiles)) + shares
        diagnosed = wide * free + 8 * (8 + 11 * plan.chains) * free
        return cls(
            kernel=running * own,
            start=8 * _START * size,
            cells=plan.chains * free * (kept + 8) + 8 * free,  # with the starts
            record=3 * 8 * plan.chains * plan.draws * recorded,  # kept, put together, and diagnosed
            result=own_result * size + max(diagnosed, 8 * _LIMITS * size),
            pooled=wide * free,
        )

    @property
    def total(self) -> int:
        """The most at any time: when chains start, when they draw, and when their draws are summarised."""
        phases = (self.kernel + self.start, self.kernel + self.cells, self.cells + self.pooled, self.result)
        return max(phases) + self.record

    def check(self, plan: Plan) -> None:
        """Refuse a run that does not fit."""
        # MemoryError says how much is for what, and what to change.
        free = available_memory()
        if free is None or self.total <= free:
            return
        raise MemoryError(
            f"fit_hierarchy needs about {_in_words(self.total)} of memory, and {_in_words(free)} are available: "
            f"{_in_words(self.kernel)} for the tables of {min(plan.cores, plan.chains)} chains that run at the same time (fewer "
            f"`cores`) and {_in_words(self.start)} for a start, {_in_words(self.cells)} for what {plan.chains} chains keep of the "
            f"cells (fewer `chains`, `bins`, `batches` or `counts`), {_in_words(self.record)} for the draws of what is recorded "
            "(fewer `draws`, each after more sweeps with a larger `thin`, or fewer answers in `record`), and "
            f"{_in_words(self.result)} for the result; not all of these at the same time. A release of a part of the leaves needs "
            "less of all"
        )


def numbers_a_draw(structure: Structure, prior: CellPrior, queries: dict[str, Query]) -> int:
    """How many numbers a run records of each draw: answers of queries, and hyperparameters."""
    hyper = prior.start(structure, np.zeros(structure.free.shape, dtype=np.int64))
    return sum(query.rows for query in queries.values()) + sum(np.size(hyper[own]) for own in prior.names)


def _in_words(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e8 else f"{size / 1e6:,.1f} MB"


@dataclass(frozen=True)
class PartMemory:
    """About how many bytes a part takes."""

    work: int  # on a worker while it works on the part: a start, a phase of one chain, or the summaries of all chains
    kept: int  # of which a process that has worked on the part keeps so much
    draws: int  # draws of what is recorded of it, where the run is driven from
    result: int  # its summaries in the result

    @classmethod
    def of(cls, structure: Structure, plan: Plan, prior: CellPrior, queries: dict[str, Query]) -> PartMemory:
        """Of a part with so many chains and draws."""
        budget = Budget.of(structure, plan, numbers_a_draw(structure, prior, queries))
        summary = 8 * (2 + 2 * plan.chains) + 4 * (3 + len(plan.quantiles)) + 4 * (plan.counts + 1)
        return cls(budget.total, budget.kernel, budget.record, summary * structure.free.size)


def check_worker(need: PartMemory) -> None:
    """Refuse a part that this process has no room for."""
    # MemoryError says how much the part needs, and what to change.
    free = available_memory()
    if free is not None and need.work > free:
        raise MemoryError(
            f"fit_parts: a process that works on this part needs about {_in_words(need.work)} of memory, and {_in_words(free)} are "
            "available to it. Cut the release into smaller parts, give each worker more memory, or keep less of the cells (fewer "
            "`chains`, `bins`, `batches` or `counts`) and of draws (`record_parts`, a larger `thin`)"
        )


def check_driver(parts: Sequence[PartMemory], above: int, *, alone: bool) -> None:
    """Refuse a run whose results this process has no room for."""
    # `above`: bytes of what is recorded above the parts. `alone`: whether this process does the work of all parts, too. MemoryError
    # says how much is for what, and what to change.
    free = available_memory()
    draws, result = sum(own.draws for own in parts) + above, sum(own.result for own in parts)
    work = sum(own.kept for own in parts) + max(own.work for own in parts) if alone else 0
    if free is None or draws + result + work <= free:
        return
    raise MemoryError(
        f"fit_parts needs about {_in_words(draws + result + work)} of memory in the process that drives it, and {_in_words(free)} are "
        f"available: {_in_words(result)} for the summaries of the cells of {len(parts)} parts (fewer `counts` or `quantiles`), "
        f"{_in_words(draws)} for draws of what is recorded (fewer answers in `record` and `record_parts`, fewer `draws` with a larger "
        f"`thin`)"
        + (f", {_in_words(work)} for the work on the parts (none where a `client` does that)" if alone else "")
        + ". The compressed states of all parts come on top"
    )


_STARTING = threading.Lock()
"""Chains start one after another: a start needs more memory than a chain that runs."""


@dataclass(eq=False)
class OneChain:
    """A chain and what is kept of its draws."""

    # `done`: sweeps of the tuning and draws so far. `draws`: draws so far. `groups`: the groups of tied cells. `ends`: the cell of
    # each of them that had most of its counts in the first table, shape (T, C). `missed`: precise queries that no move keeps all at
    # once; see `TreeChain.missed`.

    number: int
    target: Target  # with `structure`, `prior`, `plan`: what is sampled, and how
    structure: Structure
    prior: CellPrior
    plan: Plan
    queries: dict[str, Query]  # those whose draws are kept
    where: Ints  # the cells that can move, in leaves by cells
    rng: np.random.Generator
    tables: TableWriter | KeptTables | None
    journal: Writer | None = None  # where states of the chain are kept, and one may be that it goes on from

    def __post_init__(self) -> None:
        self.done = self.draws = 0
        self.recorders: dict[str, Recorder] = {}
        self.hyper: dict[str, Floats] = {}
        self.kept: CellSummary | None = None
        self.groups: tuple[Ints, Ints]
        self.ends: npt.NDArray[np.bool_]
        self.missed: tuple[str, ...] = ()

    def run(self, stopped: Callable[[], bool]) -> None:
        """Sample, until all draws are made or it is stopped."""
        # `stopped`: asked between two sweeps.
        plan, structure = self.plan, self.structure
        saved = None if self.journal is None else self.journal.read()
        tables = any(term.windows is not None for term in self.target.terms)
        kind = TreeChain if not tables else WalledTree if has_walls(self.target, structure) else LineTree
        chain = kind(self.target, structure, self.rng)
        self.missed, self.groups = chain.missed, chain.groups
        if self.journal is None or saved is None:
            with _STARTING:
                if kind is not TreeChain:
                    self._set(chain, self.prior.start(structure, chain.table))
                chain.begin_apart(self.rng)
                self.ends = ends_of(self.groups, chain.table)
                give_back()
            hyper = self.prior.start(structure, chain.table)
        else:
            with journals.readable(self.journal.file):
                hyper = self._restored(chain, saved)
            del saved
        self._set(chain, hyper)
        for sweep in range(self.done + 1, plan.tune + 1):
            if stopped():
                return
            hyper = self._sweep(chain, hyper)
            chain.learn()
            self.done += 1
            if sweep == plan.tune:
                chain.settle()
            elif self.journal is not None and self.journal.due:
                self.journal.write(self._state(chain, hyper))
        give_back()
        self._keep(chain, hyper, stopped)

    def _state(self, chain: AnyChain, hyper: dict[str, Floats]) -> dict[str, npt.NDArray[Any]]:
        """All that the chain goes on from, and what it has kept."""
        drawn = self.draws
        arrays: dict[str, npt.NDArray[Any]] = {
            "done": np.array(self.done),
            "draws": np.array(drawn),
            "rng": np.array(json.dumps(self.rng.bit_generator.state, default=_plain)),
        }
        arrays |= {f"state:{name}": own for name, own in chain.saved().items()}
        arrays |= {f"hyper:{name}": np.asarray(own) for name, own in hyper.items()}
        arrays["ends"] = self.ends
        if self.kept is not None:
            arrays |= {f"kept:{name}": own for name, own in self.kept._asdict().items() if name != "where"}
            arrays |= {f"answers:{name}": own.answers[:drawn] for name, own in self.recorders.items()}
            arrays |= {f"drawn:{name}": own[:drawn] for name, own in self.hyper.items()}
        return arrays

    def _restored(self, chain: AnyChain, saved: Arrays) -> dict[str, Floats]:
        """Put a chain where it was, with what it has kept; its hyperparameters. All is checked, since it may come from anywhere."""
        plan, structure = self.plan, self.structure
        done, draws = int(saved["done"]), int(saved["draws"])
        tuning = draws == 0 and 0 < done < plan.tune
        journals.require(
            tuning or (0 < draws <= plan.draws and done == plan.tune + draws), "no such draw is in the run"
        )
        state, live = journals.group(saved, "state:"), chain.saved()
        chosen = ("donor_start", "donor_cell", "visits", "mean")  # while tuning, by the table
        journals.check_like({**state, **{name: live[name] for name in chosen if name in live}}, live)
        journals.require(state["generator"].any(), "its generator stands still")
        flat = isinstance(chain, LineTree)
        counts = np.asarray(structure.leaves_by_cells(state["counts"]) if flat else state["counts"], dtype=np.int64)
        journals.check_counts(counts, self.target.fiber, structure)
        if isinstance(chain, TreeChain):
            journals.check_donors(state, structure)
            mean = np.zeros(structure.free.shape if tuning else (0, 0))
            journals.check_like({"mean": state["mean"]}, {"mean": mean})
            journals.require(
                state["seen"] == (done if tuning else 0) and bool((state["mean"] >= 0.0).all()),
                "means are of no tables",
            )
            same = all(np.array_equal(state[name], live[name]) for name in ("mix", "group_start", "group_cell"))
            journals.require(same, "its moves are others")
        hyper: dict[str, Floats] = journals.group(saved, "hyper:")
        journals.check_hyper(hyper, self.prior, structure, counts)
        chain.restore(state)
        self.rng.bit_generator.state = json.loads(str(saved["rng"]))
        self.done, self.draws, self.ends = done, draws, saved["ends"]
        journals.check_like({"ends": self.ends}, {"ends": structure.free})
        if draws:
            nothing, kept = self._make_room(hyper), journals.group(saved, "kept:")
            journals.check_kept(kept, nothing, draws)
            self.kept = nothing._replace(**kept)
            answers, drawn = journals.group(saved, "answers:"), journals.group(saved, "drawn:")
            journals.check_like(answers, {name: own.answers[:draws] for name, own in self.recorders.items()})
            journals.check_like(drawn, {name: np.zeros_like(own[:draws]) for name, own in self.hyper.items()})
            for name, recorder in self.recorders.items():
                recorder.answers[:draws] = answers[name]
            for name, place in self.hyper.items():
                place[:draws] = drawn[name]
        return hyper

    def _make_room(self, hyper: dict[str, Floats]) -> CellSummary:
        """For what is kept of the draws, nothing yet."""
        plan = self.plan
        self.recorders = {name: Recorder(query, self.structure, plan.draws) for name, query in self.queries.items()}
        self.hyper = {name: np.empty((plan.draws, *np.shape(hyper[name]))) for name in self.prior.names}
        return new_summary(self.where, plan.draws, plan.counts, plan.bins, plan.batches)

    def _set(self, chain: AnyChain, hyper: dict[str, Floats]) -> None:
        chain.set_cells(*self.prior.weights(self.structure, hyper))

    def _sweep(self, chain: AnyChain, hyper: dict[str, Floats]) -> dict[str, Floats]:
        return swept(chain, self.prior, hyper, self.rng)

    def _keep(self, chain: AnyChain, hyper: dict[str, Floats], stopped: Callable[[], bool]) -> None:
        plan = self.plan
        self.kept = kept = self._make_room(hyper) if self.kept is None else self.kept
        length, _ = batching(plan.draws, plan.batches)
        for draw in range(self.draws, plan.draws):
            for _ in range(plan.thin):
                if stopped():
                    return
                hyper = self._sweep(chain, hyper)
            counts = chain.table
            cells = occupied(counts) if self.recorders else None
            for recorder in self.recorders.values():
                recorder.take(counts, draw, cells)
            for name, place in self.hyper.items():
                place[draw] = hyper[name]
            take(counts, draw, length, kept)
            if self.tables is not None and self.tables.wanted(self.number, draw):
                self.tables.add(self.number, draw, counts)
            self.draws = draw + 1
            self.done += 1
            if self.journal is not None and (self.journal.due or self.draws == plan.draws):
                self.journal.write(self._state(chain, hyper))


def swept(chain: AnyChain, prior: CellPrior, hyper: dict[str, Floats], rng: np.random.Generator) -> dict[str, Floats]:
    """A sweep of the table, and of the hyperparameters given it."""
    chain.sweep()
    if not prior.names:
        return hyper
    hyper = prior.update(chain.structure, chain.table, hyper, rng)
    chain.set_cells(*prior.weights(chain.structure, hyper))
    return hyper


def _plain(value: Any) -> Any:
    """Numbers and arrays of the state of a generator as JSON can hold them; all bit generators take lists back."""
    return value.tolist()


_SECONDS = 0.2
"""How often progress is looked at."""

FEWEST = 4
"""Draws of a chain below which it is not worth keeping."""


def run_all(
    chains: Sequence[OneChain],
    cores: int,
    told: Callable[[int, int], None] | None,
) -> bool:
    """Run chains, at most `cores` at a time."""
    # An error in one ends the others, and is raised. Ctrl-C ends all between two sweeps. `told`: called now and then with the
    # number of sweeps and draws that are done, and with their number in all. Returns whether there was an interrupt that ended it
    # early, with draws to keep. KeyboardInterrupt if Ctrl-C was pressed before there were draws to keep.
    pressed: list[int] = []

    def note(number: int) -> None:
        pressed.append(number)
        if len(pressed) == 1:
            tell("interrupted: stopping after this sweep, keeping what was drawn")

    failed: list[bool] = []

    def stopped() -> bool:
        return bool(pressed or failed)

    total = sum(chain.plan.tune + chain.plan.draws for chain in chains)
    with handled(note), ThreadPoolExecutor(cores, "bayesdp chain") as pool:
        running = {pool.submit(chain.run, stopped) for chain in chains}
        left = set(running)
        try:
            while left:
                over, left = wait(left, _SECONDS, FIRST_EXCEPTION)
                if any(one.exception() is not None for one in over):
                    failed.append(True)
                if told is not None:
                    told(sum(chain.done for chain in chains), total)
        except BaseException:  # an interrupt that we were not asked about: another thread, or a handler of the user's
            failed.append(True)
            raise
    for one in running:
        one.result()
    early = bool(pressed) and any(chain.draws < chain.plan.draws for chain in chains)
    if early and max(chain.draws for chain in chains) < FEWEST:
        raise KeyboardInterrupt
    return early


def longest_together(chains: Sequence[OneChain]) -> list[OneChain]:
    """The chains that make the most draws when all are cut to the shortest of them: all, unless a run ended early."""
    by_length = sorted(chains, key=lambda chain: -chain.draws)
    sizes = [(i + 1) * chain.draws for i, chain in enumerate(by_length)]
    chosen = by_length[: sizes.index(max(sizes)) + 1]
    return sorted(chosen, key=lambda chain: chain.number)
