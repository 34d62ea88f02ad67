"""One chain of a part, or of a whole hierarchy: its start, its tuning, its draws, and its state between two tasks.

A task takes the state of a chain and the sums above, sweeps, and gives the new state and the sums over the leaves. With a folder,
states are files, which are the checkpoint of the run, too. A state has its generators, so that a task that is lost is made again with
the same result, and draws do not depend on where a chain was stopped. What is read from a file is checked: an array gets to a compiled
kernel only where it is one that the kernel could have written.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._interrupts import give_back
from bayesdp.fibers import Fiber
from bayesdp.hierarchies.chain import TreeChain
from bayesdp.hierarchies.modes import ends_of, entries_of
from bayesdp.hierarchies.priors import CellPrior
from bayesdp.hierarchies.structure import Structure
from bayesdp.storage import journal as journals
from bayesdp.storage.journal import Arrays, group, require
from bayesdp.streaming.cells import CellSummary, batching, new_summary, occupied, take
from bayesdp.streaming.part import Kernel, PartContext
from bayesdp.streaming.perturbed import LineTree
from bayesdp.streaming.tables import entries_of_table, table_name

_STARTING = threading.Lock()
"""Chains start one after another: a start needs more memory than a chain that runs."""

_ALONE = 20
"""Sweeps of a part from its start, before it hears of the others: from the ends of tied groups sums need about ten."""

FEWEST = 4
"""Draws of a chain below which it is not worth keeping."""

_LARGEST = 2**53
"""Counts are smaller, and histograms are not shifted by more than its logarithm."""

_MOST_VISITS = 2**10


@dataclass(frozen=True, eq=False)
class Job:
    """What a chain of a part does in one task."""

    place: tuple[int, int]  # the numbers of the chain and of the part
    rng: np.random.Generator  # for the start; chains have consecutive generators of one that was spawned
    begins: bool  # whether it begins where it has no state yet
    state: Path | Chain | None  # where it goes on from
    file: Path | None  # where its state is written, unless it is there already; then it goes on from that
    until: int  # sweeps of the tuning and draws that shall be done
    values: Sequence[Floats] = ()  # with `scales`: of the sums above, query by query
    scales: Sequence[Floats] = ()
    tables: tuple[Path, Ints] | None = None  # a folder for plausible tables, and which draws these are


@dataclass(frozen=True, eq=False)
class Moved:
    """A chain of a part after a task."""

    state: Path | Chain
    done: int  # sweeps of the tuning and draws
    sums: Ints  # over the leaves, shape (C,)
    trouble: str  # why the state, or a table, could not be written; empty if it was


@dataclass(eq=False)
class Chain:
    """The state of a chain: what it goes on from, and what is kept of its draws."""

    number: int
    rng: np.random.Generator
    hyper: dict[str, Floats]  # hyperparameters
    kernel: dict[str, npt.NDArray[Any]]  # table, generator and choices of the kernel: `saved` of it
    # The cell of each tied group that had most of its counts in the first table, shape (T, C).
    ends: Mask
    done: int = 0  # sweeps of the tuning and draws
    draws: int = 0
    # With `answers`, and `drawn` of hyperparameters: room for all draws, from the first one on.
    kept: CellSummary | None = None
    answers: dict[str, Ints] = field(default_factory=dict)
    drawn: dict[str, Floats] = field(default_factory=dict)

    def make_room(self, context: PartContext) -> CellSummary:
        """For what is kept of the draws, nothing yet."""
        plan, names = context.spec.plan, context.spec.prior.names
        self.answers = {name: np.zeros((plan.draws, q.rows), dtype=np.int64) for name, q in context.queries.items()}
        self.drawn = {name: np.zeros((plan.draws, *np.shape(self.hyper[name]))) for name in names}
        return new_summary(context.where, plan.draws, plan.counts, plan.bins, plan.batches)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All of it for a file."""
        numbers = {name: np.array(getattr(self, name)) for name in ("done", "draws")}
        rng = np.array(json.dumps(self.rng.bit_generator.state, default=lambda array: array.tolist()))
        found = {**numbers, "rng": rng, "ends": self.ends}
        groups: dict[str, Arrays] = {"state": self.kernel, "hyper": self.hyper}
        if self.kept is not None:
            groups["kept"] = {name: own for name, own in self.kept._asdict().items() if name != "where"}
            groups["answers"] = {name: own[: self.draws] for name, own in self.answers.items()}
            groups["drawn"] = {name: own[: self.draws] for name, own in self.drawn.items()}
        return found | {
            f"{kind}:{name}": np.asarray(own) for kind, all_ in groups.items() for name, own in all_.items()
        }

    @classmethod
    def read(cls, file: Path, context: PartContext, number: int, rng: np.random.Generator | None = None) -> Chain:
        """The chain of a file, all of it checked but for what `put` checks; `rng` is what it goes on with."""
        plan, free = context.spec.plan, context.structure.free
        saved = journals.read_arrays(file)
        with journals.readable(file):
            done, drawn = int(saved["done"]), int(saved["draws"])
            own = cls(
                number, rng or np.random.default_rng(), group(saved, "hyper:"), group(saved, "state:"),
                saved["ends"], done, drawn,
            )  # fmt: skip
            if rng is not None:
                rng.bit_generator.state = json.loads(str(saved["rng"]))
            tuning = drawn == 0 and 0 <= done <= plan.tune
            drawing = 0 < drawn <= plan.draws and done == plan.tune + drawn
            require(tuning or drawing, "no such draw is in the run")
            check_like({"ends": own.ends}, {"ends": free})
            if drawing:
                own._take_kept(context, saved)
            return own

    def _take_kept(self, context: PartContext, saved: Arrays) -> None:
        """Take over what a file has of the draws."""
        nothing, kept = self.make_room(context), group(saved, "kept:")
        check_kept(kept, nothing, self.draws)
        self.kept = nothing._replace(**kept)
        for name, live in (("answers:", self.answers), ("drawn:", self.drawn)):
            found = group(saved, name)
            check_like(found, {each: own[: self.draws] for each, own in live.items()})
            for each, own in live.items():
                own[: self.draws] = found[each]

    def put(self, kernel: Kernel, context: PartContext, file: Path | None) -> None:
        """Put the chain into a kernel; what was read from a file is checked first."""
        if file is not None:
            with journals.readable(file):
                live = kernel.saved()
                # What is chosen while tuning may be of any size there, see `check_choices`.
                chosen = {"donor_start", "donor_cell", "visits", "mean"} & live.keys() & self.kernel.keys()
                check_like({**self.kernel, **{name: live[name] for name in chosen}}, live)
                require(self.kernel["generator"].any(), "its generator stands still")
                counts = self.kernel["counts"]
                if isinstance(kernel, LineTree):
                    counts = np.asarray(context.structure.leaves_by_cells(counts), dtype=np.int64)
                check_counts(counts, context.target.fiber, context.structure)
                if isinstance(kernel, TreeChain):
                    check_choices(self.kernel, context)
                check_hyper(self.hyper, context.spec.prior, context.structure, counts)
                kernel.restore(self.kernel)
        else:
            kernel.restore(self.kernel)
        kernel.set_cells(*context.spec.prior.weights(context.structure, self.hyper))

    def sweep(self, kernel: Kernel, prior: CellPrior) -> None:
        """Sweep the table, and the hyperparameters given it."""
        kernel.sweep()
        if prior.names:
            self.hyper = prior.update(kernel.structure, kernel.table, self.hyper, self.rng)
            kernel.set_cells(*prior.weights(kernel.structure, self.hyper))

    def keep(self, kernel: Kernel, context: PartContext) -> None:
        """Keep what is asked for of a draw."""
        plan, counts, draw = context.spec.plan, kernel.table, self.draws
        if self.kept is None:
            self.kept = self.make_room(context)
            give_back()
        if context.recorders:
            cells = occupied(counts)
            for name, recorder in context.recorders.items():
                recorder.take(counts, self.answers[name][draw], cells)
        for name, place in self.drawn.items():
            place[draw] = self.hyper[name]
        take(counts, draw, batching(plan.draws, plan.batches)[0], self.kept)
        self.draws = draw + 1


def advance(context: PartContext, job: Job) -> Moved:
    """Have a chain begin, or go on, until so many sweeps and draws are done, or the driver stops it."""
    plan, prior, watch = context.spec.plan, context.spec.prior, context.watch
    saver, known = journals.Saver(job.file), job.file is not None and job.file.exists()
    chain, kernel = _ready(context, job, job.file if known else job.state)
    known = known and chain.done == job.until

    def moved(state: Path | Chain) -> Moved:
        return Moved(state, chain.done, kernel.table.sum(axis=0), saver.trouble)

    while chain.done < job.until:
        drawing = chain.done >= plan.tune
        for _ in range(plan.thin if drawing else 1):
            if watch.stopped:
                return moved(chain)
            chain.sweep(kernel, prior)
        if drawing:
            chain.keep(kernel, context)
            if job.tables is not None and chain.draws - 1 in job.tables[1]:
                saver.write(entries_of_table(kernel.table), job.tables[0] / table_name(chain.number, chain.draws - 1))
        else:
            kernel.learn()
            if chain.done + 1 == plan.tune:
                kernel.settle()
        chain.done += 1
        watch.done[job.place] = chain.done
        if saver.due and chain.done < job.until:
            chain.kernel = kernel.saved()
            saver.write(chain.arrays())
    chain.kernel = kernel.saved()
    written = known or (job.file is not None and saver.write(chain.arrays()))
    found = moved(job.file if written and job.file is not None else chain)
    if chain.done < plan.tune + plan.draws and (job.until or not context.spec.above):
        context.idle.append(kernel)  # from here on it may be another chain's
    return found


def _ready(context: PartContext, job: Job, source: Path | Chain | None) -> tuple[Chain, Kernel]:
    """The chain as it stands, in a kernel."""
    if source is None:
        if not job.begins:
            raise FileNotFoundError(f"{str(job.file)!r} is missing, and nothing can go on without it")
        with _STARTING:
            return _begun(context, job)
    file = source if isinstance(source, Path) else None
    chain = source if isinstance(source, Chain) else Chain.read(source, context, job.place[0], job.rng)
    kernel = context.kernel(job.values, job.scales)
    chain.put(kernel, context, file)
    if file is not None:
        with journals.readable(file):
            require(chain.done <= job.until, "it is ahead of the run")
    return chain, kernel


def _begun(context: PartContext, job: Job) -> tuple[Chain, Kernel]:
    """A chain at its start: random, near the part's own linear estimate, opposite to the other chain of its pair."""
    # With sums above it sweeps by itself for a while: given its share of the noise above it would come back by small steps only.
    structure, prior = context.structure, context.spec.prior
    kernel = context.new_kernel(job.rng)
    if not isinstance(kernel, TreeChain):
        kernel.set_cells(*prior.weights(structure, prior.start(structure, kernel.table)))
    kernel.begin_apart(job.rng)
    ends = ends_of(kernel.groups, kernel.table)
    give_back()
    hyper = dict(prior.start(structure, kernel.table))
    kernel.set_cells(*prior.weights(structure, hyper))
    chain = Chain(job.place[0], job.rng, hyper, {}, ends)
    if context.spec.above:
        for _ in range(_ALONE):
            chain.sweep(kernel, prior)
        if isinstance(kernel, TreeChain):
            kernel.choose_donors(kernel.table)
    chain.kernel = kernel.saved()
    return chain, kernel


def longest_together(chains: Sequence[Chain]) -> list[Chain]:
    """The chains that make the most draws when all are cut to the shortest of them: all, unless a run ended early."""
    by_length = sorted(chains, key=lambda chain: -chain.draws)
    sizes = [(i + 1) * chain.draws for i, chain in enumerate(by_length)]
    chosen = by_length[: sizes.index(max(sizes)) + 1]
    return sorted(chosen, key=lambda chain: chain.number)


def check_like(found: Arrays, live: Arrays) -> None:
    """Check that arrays are those of a live state: the same names, shapes and types, and real numbers finite."""
    require(set(found) == set(live), f"it has {sorted(found)}, not {sorted(live)}")
    for name, own in live.items():
        array = np.asarray(found[name])
        shape, dtype = np.shape(own), np.asarray(own).dtype
        same = (array.shape, array.dtype) == (shape, dtype)
        require(same, f"{name} is of shape {array.shape} and type {array.dtype}, not {shape}, {dtype}")
        require(array.dtype.kind != "f" or np.isfinite(array).all(), f"{name} is not finite")


def check_counts(counts: Ints, fiber: Fiber, structure: Structure) -> None:
    """Check that a table, leaves by cells, is one of whole numbers with the exact answers."""
    require(counts.shape == structure.free.shape and counts.dtype == np.int64, "counts are of another shape or type")
    table = np.asarray(structure.in_frame(counts)).reshape(fiber.frame.shape)
    require(fiber.contains(table), "counts are no table with the exact answers")


def check_choices(saved: Arrays, context: PartContext) -> None:
    """Check what the tuning chose: which cells of a leaf others are moved against, visits of cells, and the mean of its tables."""
    structure = context.structure
    starts, cells, visits = saved["donor_start"], saved["donor_cell"], saved["visits"]
    groups, size = int(structure.pair_class.max()) + 2, len(structure.free)
    typed = all(own.dtype == np.int64 for own in (starts, cells, visits))
    require(typed and starts.shape == (size, groups) and cells.ndim == 1, "donors are of another shape or type")
    require(visits.shape == (int(structure.free.sum()),), "visits are of another shape")
    require((visits >= 1).all() and (visits <= _MOST_VISITS).all(), "visits are too few or too many")
    whole = starts[0, 0] == 0 and starts[-1, -1] == len(cells) and (starts[1:, 0] == starts[:-1, -1]).all()
    require(whole and (np.diff(starts, axis=1) >= 0).all(), "donors do not follow one another")
    require(((cells >= 0) & (cells < structure.free.shape[1])).all(), "donors are no cells")
    leaf, cell, which = entries_of((starts, cells))
    fits = structure.free[leaf, cell] & (structure.pair_class[cell] == which % (groups - 1))
    require(fits.all(), "donors are cells that cannot move, or of other sums")

    mean, seen = saved["mean"], int(saved["seen"])
    check_like({"mean": mean}, {"mean": np.zeros(structure.free.shape if seen else (0, 0))})
    require(0 <= seen <= context.spec.plan.tune and bool((mean >= 0.0).all()), "means are of no tables")


def check_hyper(hyper: Arrays, prior: CellPrior, structure: Structure, counts: Ints) -> None:
    """Check hyperparameters of a prior: those that it has, finite, with weights and shapes that are numbers."""
    live, found = (
        {name: np.asarray(own, dtype=np.float64) for name, own in each.items()}
        for each in (prior.start(structure, counts), hyper)
    )
    check_like(found, live)
    for name, own in hyper.items():
        require(not name.endswith("variance") or (own > 0.0).all(), f"{name} is not positive")
    with np.errstate(all="ignore"):
        theta, alpha = prior.weights(structure, dict(hyper))
    require(not np.isnan(theta).any(), "log weights are no numbers")
    require((np.isfinite(alpha) & (alpha > 0.0)).all(), "shapes are impossible")


def check_kept(found: Arrays, live: CellSummary, draws: int) -> None:
    """Check what is kept of the cells after so many draws against what would be kept of none; without `where`."""
    check_like(found, {name: own for name, own in live._asdict().items() if name != "where"})
    low, shift = found["grids"].T
    require((found["first"] >= 0).all() and (found["first"] < _LARGEST).all(), "first counts are none")
    require(((low >= 0) & (low < _LARGEST) & (shift >= 0) & (shift <= 53)).all(), "histograms begin nowhere")
    counted = found["bins"].sum(axis=1, dtype=np.int64) == draws
    require(
        counted.all() and (found["small"].sum(axis=1, dtype=np.int64) <= draws).all(), "histograms have other draws"
    )
    require((found["squares"] >= 0.0).all(), "squares are negative")
