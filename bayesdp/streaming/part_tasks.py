"""What a worker does for one part: pure functions of bytes, so that a task that is lost is made again with the same result.

A part is sent as a `PartSpec`, of which a process works out a `PartContext` once. What there is of a part of a chain between two
tasks is a `PartState`, as bytes: a task gets it and gives back a new one.
"""

from __future__ import annotations

import hashlib
import io
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import cloudpickle
import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp._interrupts import dispensable_caches
from bayesdp._validate import shown
from bayesdp.consistency import unseen_tables
from bayesdp.fibers import Target
from bayesdp.frames import Frame
from bayesdp.hierarchies.chain import TreeChain
from bayesdp.hierarchies.modes import ends_of, paired, to_ends
from bayesdp.hierarchies.priors import CellPrior
from bayesdp.hierarchies.released import target_of
from bayesdp.hierarchies.start import start_table
from bayesdp.hierarchies.structure import Structure, structure_of
from bayesdp.inference.runs.fingerprint import digest
from bayesdp.queries import Query
from bayesdp.release import Release
from bayesdp.streaming import journal as journals
from bayesdp.streaming.above import PartTerm, cell_dims, known_sums, own_errors
from bayesdp.streaming.cells import CellSummary, Recorder, batching, named_queries, new_summary, occupied, take
from bayesdp.streaming.chains import OneChain, PartMemory, Plan, check_worker, swept
from bayesdp.streaming.result import cells_of, diagnostics_of, limits_of, posterior_of

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Records = dict[str, npt.NDArray[Any]]

_FAST = 1
"""Level of compression: most counts are small, and most histograms empty."""


@dataclass(eq=False)
class PartState:
    """One part of one chain."""

    counts: Ints  # shape (T, C)
    donor_start: Ints  # with `donor_cell`, `visits`: see `bayesdp.hierarchies.kernel.moves.State`; chosen while tuning
    donor_cell: Ints
    visits: Ints
    ends: Ints  # counts of the cells that can move in the first table, shape (F,)
    # While tuning, means of tables, the later ones with more weight; 0 before the first phase, shape (T, C).
    typical: Floats
    hyper: dict[str, Floats]  # hyperparameters
    kept: dict[str, npt.NDArray[Any]]  # the fields of `CellSummary` without `where`; empty while tuning

    def packed(self) -> bytes:
        """As compressed bytes."""
        arrays = {own.name: getattr(self, own.name) for own in fields(self) if own.name not in ("hyper", "kept")}
        arrays |= {f"hyper:{name}": np.asarray(own) for name, own in self.hyper.items()}
        arrays |= {f"kept:{name}": own for name, own in self.kept.items()}
        return zlib.compress(journals.array_bytes(arrays), _FAST)

    @classmethod
    def unpacked(cls, packed: bytes, most: int = 0) -> PartState:
        """From bytes; of a state from a file, at most so many are taken out."""
        arrays = journals.arrays_of(io.BytesIO(zlib.decompressobj().decompress(packed, most)))
        plain: dict[str, Any] = {name: own for name, own in arrays.items() if ":" not in name}
        return cls(**plain, hyper=journals.group(arrays, "hyper:"), kept=journals.group(arrays, "kept:"))

    def keep(self, kept: CellSummary) -> None:
        """Take over what is kept of the cells."""
        self.kept = {name: own for name, own in kept._asdict().items() if name != "where"}

    def kept_at(self, where: Ints) -> CellSummary:
        """What is kept of the cells."""
        return CellSummary(where=where, **self.kept)


@dataclass(frozen=True, eq=False)
class PartSpec:
    """One part, as it is sent to workers."""

    source: Release | Callable[[], Release]  # what is published of it, or a function that reads that
    prior: CellPrior
    plan: Plan
    above: tuple[PartTerm, ...]  # noisy queries above
    known: tuple[tuple[str, ...], ...]  # for each exact query above, what it keeps of the cells
    record: Callable[[Frame], Any] | None  # the queries whose draws are kept, by the frame of the part
    leaves: str | None  # the dimension of the leaves
    cells: tuple[str, ...] | None  # the other dimensions, where they are known


@dataclass(eq=False)
class PartContext:
    """A part with what takes long to work out."""

    spec: PartSpec
    idle: list[TreeChain] = field(default_factory=list)

    @cached_property
    def release(self) -> Release:
        """What is published of it."""
        source = self.spec.source
        release = source if isinstance(source, Release) else source()
        if not isinstance(release, Release):  # a user's function may give anything
            raise TypeError(f"the function of a part must return a bayesdp.Release, got {type(release).__name__}")
        return release

    @cached_property
    def part_target(self) -> Target:
        """The target of its tables, by its answers alone."""
        return target_of(self.release, self.spec.prior.family)

    @cached_property
    def target(self) -> Target:
        """With the sums above."""
        more, alone = tuple(term.on(self.release.frame) for term in self.spec.above), self.part_target
        return Target(alone.fiber, (*alone.terms, *more), alone.family)

    @cached_property
    def structure(self) -> Structure:
        """The same in its hierarchy."""
        leaves, frame = self.spec.leaves, self.release.frame
        if leaves is None and self.spec.cells is not None:
            others = [dim for dim in frame.dims if dim not in self.spec.cells]
            if len(others) != 1:
                raise ValueError(
                    f"a part needs one dimension besides those of the cells ({shown(self.spec.cells)}), which holds its leaves; it "
                    f"has {shown(frame.dims)}"
                )
            (leaves,) = others
        if leaves is not None and leaves not in frame.dims:
            raise ValueError(f"leaves must be a dimension of every part ({shown(frame.dims)}), got {leaves!r}")
        return structure_of(self.target, leaves)

    @cached_property
    def where(self) -> Ints:
        """The cells that can move, in leaves by cells."""
        return np.flatnonzero(self.structure.free.reshape(-1)).astype(np.int64)

    @cached_property
    def queries(self) -> dict[str, Query]:
        """Those whose draws are kept."""
        record = () if self.spec.record is None else self.spec.record(self.release.frame)
        return named_queries(record, self.release.frame, self.spec.prior.names)

    def nothing_kept(self) -> CellSummary:
        """What is kept of the cells before the first draw."""
        plan = self.spec.plan
        return new_summary(self.where, plan.draws, plan.counts, plan.bins, plan.batches)

    def chain(self, rng: np.random.Generator) -> TreeChain:
        """A chain that no other thread uses."""
        try:
            chain = self.idle.pop()  # one step for the interpreter: two threads do not get the same
        except IndexError:
            return TreeChain(self.target, self.structure, rng)
        chain.reseed(rng)
        return chain

    def set_above(self, chain: TreeChain, values: Sequence[Floats], scales: Sequence[Floats]) -> None:
        """Set the values and the scales of the sums above."""
        terms = self.part_target.terms
        chain.set_scales([*(term.scale for term in terms), *scales], [*(term.values for term in terms), *values])

    def without_above(self, chain: TreeChain) -> None:
        """Noise above that is so wide that it says nothing."""
        wide = [np.full(len(term.measured), np.inf) for term in self.spec.above]
        self.set_above(chain, [np.zeros_like(own) for own in wide], wide)


MOST_CONTEXTS = 256
"""Parts whose structure a process keeps at most."""


@dataclass(frozen=True)
class Failed:
    """A task that raised an error, which is not the cluster's fault."""

    error: Exception


@dataclass(frozen=True, eq=False)
class PartInfo:
    """What the driver must know of a part."""

    dims: tuple[tuple[str, tuple[object, ...]], ...]  # the dimensions of its cells with their labels
    # For each noisy query above, standard errors of the part's own linear estimates of its sums; NaN where there are none.
    errors: list[Floats]
    # For each exact query above, whether the exact answers of the part determine its sums.
    known: list[npt.NDArray[np.bool_]]
    fixed: list[npt.NDArray[np.bool_]]  # the same for each noisy query above
    release: str  # a digest of what is published
    law: str | None  # why that is not compatible with the stated law
    recorded: dict[str, str]  # digests of the queries whose draws are kept, by name
    formula: str  # the prior
    leaves: int  # with `free`: leaves, and cells that can move
    free: int
    memory: PartMemory


@dataclass(frozen=True, eq=False)
class Moved:
    """A part of a chain after a task: its packed state, the sums over its leaves, shape (C,), and draws of what is recorded."""

    state: bytes
    table: Ints
    records: Records


_ALONE = 20
"""Sweeps of a part from its start, before it hears of the others: from the ends of tied groups sums need about ten."""

_CONTEXTS: dict[str, PartContext] = {}


def _context(packed: bytes) -> PartContext:
    key = hashlib.sha256(packed).hexdigest()
    if key not in _CONTEXTS:
        while len(_CONTEXTS) >= MOST_CONTEXTS:
            _CONTEXTS.pop(next(iter(_CONTEXTS)), None)
        _CONTEXTS[key] = PartContext(cloudpickle.loads(packed))
    return _CONTEXTS[key]


def run_packed(packed: bytes, task: Callable[..., Any], *arguments: Any) -> Any:
    """Run a task of a packed job; an exception is a result, so that it can be told from a worker that died."""
    try:
        with dispensable_caches():
            return task(_context(packed), *arguments)
    except Exception as error:
        return Failed(error)


def info(context: PartContext, memory_check: bool) -> PartInfo:  # tasks have their arguments by place
    """Check a part, and say what the driver must know."""
    structure, frame = context.structure, context.release.frame
    memory = PartMemory.of(structure, context.spec.plan, context.spec.prior, context.queries)
    if memory_check:
        check_worker(memory)
    if not context.queries and context.spec.record is not None:
        raise ValueError("record_parts gave no query")
    return PartInfo(
        dims=cell_dims(frame, structure.axis),
        errors=own_errors(context.release, [term.keep for term in context.spec.above], structure),
        known=[known_sums(structure, keep) for keep in context.spec.known],
        fixed=[known_sums(structure, term.keep) for term in context.spec.above],
        release=digest(context.release),
        law=context.release.law_check.warning,
        recorded={name: digest(query) for name, query in context.queries.items()},
        formula=context.spec.prior.formula,
        leaves=len(structure.order),
        free=len(context.where),
        memory=memory,
    )


def begin(context: PartContext, number: int, seed: tuple[int, tuple[int, ...]]) -> Moved:
    """The start of chain `number`: random, near the part's own linear estimate, opposite to the other chain of its pair.

    From there it sweeps on its own for a while. The ends put its sums far from where they belong; given its share of the noise
    above, a part stays near the sums that it had, and would come back by a small step a phase only.
    """
    rng = _generator(seed)
    structure, prior = context.structure, context.spec.prior
    chain = context.chain(rng)
    context.without_above(chain)
    pair, second = paired(rng, number)
    start = start_table(context.part_target, structure, pair, opposite=second)
    chain.load(np.asarray(structure.in_frame(start), dtype=np.int64))
    chain.choose_donors(chain.state.counts)
    to_ends(chain, pair, int(second))
    ends = chain.state.counts.reshape(-1)[context.where]
    hyper = prior.start(structure, chain.state.counts)
    chain.set_cells(*prior.weights(structure, hyper))
    for _ in range(_ALONE):
        hyper = swept(chain, prior, hyper, rng)
    chain.choose_donors(chain.state.counts)
    state = PartState(
        counts=chain.state.counts.copy(),
        donor_start=chain.state.donor_start,
        donor_cell=chain.state.donor_cell,
        visits=chain.state.visits,
        ends=ends,
        typical=np.zeros(chain.state.counts.shape),
        hyper=dict(hyper),
        kept={},
    )
    context.idle.append(chain)
    return Moved(state.packed(), state.counts.sum(axis=0), {})


def move(
    context: PartContext, state: bytes, seed: tuple[int, tuple[int, ...]], values: Sequence[Floats], scales: Sequence[Floats],
    draws: int, first: int,
) -> Moved:  # fmt: skip
    """Sweep for so many draws, the first of which has the number `first`; negative while tuning, when nothing is kept."""
    rng = _generator(seed)
    plan, structure, prior = context.spec.plan, context.structure, context.spec.prior
    own = PartState.unpacked(state)
    chain = context.chain(rng)
    context.set_above(chain, values, scales)
    chain.state = chain.state._replace(donor_start=own.donor_start, donor_cell=own.donor_cell, visits=own.visits)
    chain.state.counts[:] = own.counts
    chain.renew()
    hyper = own.hyper
    chain.set_cells(*prior.weights(structure, hyper))
    tuning = first < 0
    recorders: dict[str, Recorder] = {}
    kept = None
    hypers: dict[str, Floats] = {}
    length, _ = batching(plan.draws, plan.batches)
    total = np.zeros_like(own.typical)
    if not tuning:
        if first == 0:
            own.typical = np.zeros((0, 0))
            own.keep(context.nothing_kept())
        recorders = {name: Recorder(query, structure, draws) for name, query in context.queries.items()}
        hypers = {name: np.empty((draws, *np.shape(hyper[name]))) for name in prior.names}
        kept = own.kept_at(context.where)
    for draw in range(draws):
        for _ in range(plan.thin):
            hyper = swept(chain, prior, hyper, rng)
            if tuning:
                total += chain.state.counts
        if kept is not None:
            take(chain.state.counts, first + draw, length, kept)
        cells = occupied(chain.state.counts) if recorders else None
        for recorder in recorders.values():
            recorder.take(chain.state.counts, draw, cells)
        for name, place in hypers.items():
            place[draw] = hyper[name]
    if tuning:
        mean = total / (draws * plan.thin)
        own.typical = 0.5 * (own.typical + mean) if own.typical.any() else mean
        chain.choose_donors(own.typical)
        moved = chain.state
        own.donor_start, own.donor_cell, own.visits = moved.donor_start, moved.donor_cell, moved.visits
    own.counts, own.hyper = chain.state.counts.copy(), dict(hyper)
    context.idle.append(chain)
    records: Records = {f"answers:{name}": recorder.answers for name, recorder in recorders.items()}
    records |= {f"hyper:{name}": place for name, place in hypers.items()}
    return Moved(own.packed(), own.counts.sum(axis=0), records)


def check(context: PartContext, file: str, state: bytes, records: Records, draws: int) -> Ints:
    """Check what a file has of a part of a chain after so many draws; the sums over its leaves."""
    plan, structure, prior = context.spec.plan, context.structure, context.spec.prior
    with journals.readable(file):
        nothing = context.nothing_kept()
        start = prior.start(structure, np.zeros(structure.free.shape, dtype=np.int64))
        hyper = sum(np.asarray(own).nbytes for own in start.values())
        # Tables and donors take 40 bytes a cell; there is a header for each array.
        most = 2**20 + 64 * structure.free.size + 2 * hyper + sum(own.nbytes for own in nothing)
        own = PartState.unpacked(state, most)
        journals.check_counts(own.counts, context.target.fiber, structure)
        journals.check_donors(vars(own), structure)
        journals.check_hyper(own.hyper, prior, structure, own.counts)
        typical = np.zeros((0, 0) if draws else own.counts.shape)
        journals.check_like({"ends": own.ends, "typical": own.typical}, {"ends": context.where, "typical": typical})
        journals.require((own.ends >= 0).all() and (own.typical >= 0.0).all(), "counts are negative")
        expected: Records = {}
        if draws:
            journals.check_kept(own.kept, nothing, draws)
            expected = {
                f"answers:{name}": Recorder(query, structure, plan.draws).answers
                for name, query in context.queries.items()
            }
            expected |= {f"hyper:{name}": np.zeros((plan.draws, *np.shape(own.hyper[name]))) for name in prior.names}
        journals.check_like(records, expected)
        return own.counts.sum(axis=0)


def end(context: PartContext, states: Sequence[bytes], records: Sequence[Records]) -> dict[str, xr.Dataset]:
    """The result of a part from all of its chains: draws, cells, diagnostics, and what was published."""
    plan, structure = context.spec.plan, context.structure
    chain = context.chain(np.random.default_rng(0))
    context.without_above(chain)
    groups, missed = (chain.state.group_start, chain.state.group_cell), chain.missed
    context.idle.append(chain)
    chains = []
    for number, (state, recorded) in enumerate(zip(states, records, strict=True)):
        own = PartState.unpacked(state)
        made = OneChain(
            number, context.target, structure, context.spec.prior, plan, context.queries, context.where,
            np.random.default_rng(0), None,
        )  # fmt: skip
        start = np.zeros(structure.free.size, dtype=np.int64)
        start[context.where] = own.ends
        made.draws, made.kept, made.groups, made.missed = plan.draws, own.kept_at(context.where), groups, missed
        made.ends = ends_of(groups, start.reshape(structure.free.shape))
        made.recorders = {name: Recorder(query, structure, 0) for name, query in context.queries.items()}
        for name, recorder in made.recorders.items():
            recorder.answers = recorded[f"answers:{name}"]
        made.hyper = {name: recorded[f"hyper:{name}"] for name in context.spec.prior.names}
        chains.append(made)
    posterior = posterior_of(chains, structure, context.release.frame)
    cells, found = cells_of(chains, structure, plan)
    diagnostics = diagnostics_of(posterior, chains, found, context.target, plan)
    limits, stated = limits_of(context.target, context.release, structure), context.release.to_dataset()
    return {"posterior": posterior, "cells": cells, "diagnostics": diagnostics, "release": stated, "fiber": limits}


def unseen(context: PartContext) -> Floats:
    """The sums over the leaves, shape (3, C), of random tables that what is exact of a part does not see."""
    release, structure = context.release, context.structure
    known = limits_of(context.target, release, structure)["determined"].values
    tables = unseen_tables(release.frame, release.exact, known)[0].reshape(3, *release.frame.shape)
    return np.asarray(tables.sum(axis=1 + structure.axis).reshape(3, -1))


def _generator(seed: tuple[int, tuple[int, ...]]) -> np.random.Generator:
    """The generator of one task: its seed is that of the run with the place of the task, so that none has to be kept."""
    entropy, place = seed
    return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=place))
