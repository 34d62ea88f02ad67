"""What there is of one part of one chain between two tasks, as bytes: a task gets it and gives back a new one.

One part of a run as it is sent to workers, and what a worker works out of it.

What a worker does for one part: pure functions of bytes, so that a task that is lost is made again with the same result.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from math import prod
from typing import Any

import cloudpickle
import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp._caches import dispensable_caches
from bayesdp._validate import shown
from bayesdp.consistency import unseen_tables
from bayesdp.fibers import Target
from bayesdp.frames import Frame
from bayesdp.hierarchies.chain import TreeChain
from bayesdp.hierarchies.ends import ends_of, paired, to_ends
from bayesdp.hierarchies.priors import CellPrior
from bayesdp.hierarchies.released import target_of
from bayesdp.hierarchies.start import start_table
from bayesdp.hierarchies.structure import Structure, structure_of
from bayesdp.inference.runs.fingerprint import digest
from bayesdp.queries import Query
from bayesdp.release import Release
from bayesdp.streaming.above import PartTerm, cell_dims, known_sums, own_errors
from bayesdp.streaming.cells import Kept, Recorder, batching, named_queries, new_kept, occupied, take
from bayesdp.streaming.chains import OneChain, PartMemory, Plan, check_worker
from bayesdp.streaming.result import cells_of, diagnostics_of, limits_of, posterior_of

__all__ = ["Failed", "Look", "Moved", "begin", "end", "look", "move", "run_packed", "unseen"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_FAST = 1
"""Level of compression: most counts are small, and most histograms empty."""


def packed_arrays(arrays: dict[str, npt.NDArray[Any]]) -> bytes:
    """Arrays by name as compressed bytes: their description as a line of JSON, and their numbers. No pickles, which can run code."""
    given = {name: np.ascontiguousarray(own).reshape(own.shape) for name, own in arrays.items()}
    described = json.dumps([[name, own.dtype.str, own.shape] for name, own in given.items()]).encode()
    return zlib.compress(b"".join([described, b"\n", *(own.tobytes() for own in given.values())]), _FAST)


def unpacked_arrays(packed: bytes) -> dict[str, npt.NDArray[Any]]:
    """The arrays again, which can be written to."""
    described, _, numbers = zlib.decompress(packed).partition(b"\n")
    arrays, start = {}, 0
    for name, kind, shape in json.loads(described):
        dtype = np.dtype(kind)
        if dtype.kind not in "biuf":
            raise ValueError(f"{name!r} is of type {dtype}")
        size = prod(shape)
        if start + size * dtype.itemsize > len(numbers):
            raise ValueError(f"{name!r} is cut off")
        arrays[name] = np.frombuffer(numbers, dtype, size, start).reshape(shape).copy()
        start += size * dtype.itemsize
    return arrays


@dataclass(eq=False)
class PartState:
    """One part of one chain."""

    counts: Ints  # shape (T, C)
    donor_start: Ints  # with `donor_cell`, `visits`: see `bayesdp.hierarchies.kernel.state.State`; chosen while tuning
    donor_cell: Ints
    visits: Ints
    ends: Ints  # counts of the cells that can move in the first table, shape (F,)
    # While tuning, means of tables, the later ones with more weight; 0 before the first phase, shape (T, C).
    typical: Floats
    hyper: dict[str, Floats]  # hyperparameters
    kept: dict[str, npt.NDArray[Any]]  # the fields of `Kept` without `where`; empty while tuning

    def packed(self) -> bytes:
        """As bytes."""
        arrays = {own.name: getattr(self, own.name) for own in fields(self) if own.name not in ("hyper", "kept")}
        arrays |= {f"hyper_{name}": np.asarray(own) for name, own in self.hyper.items()}
        arrays |= {f"kept_{name}": own for name, own in self.kept.items()}
        return packed_arrays(arrays)

    @classmethod
    def unpacked(cls, packed: bytes) -> PartState:
        """From bytes."""
        arrays = unpacked_arrays(packed)

        def group(name: str) -> dict[str, npt.NDArray[Any]]:
            return {key.removeprefix(name): arrays.pop(key) for key in list(arrays) if key.startswith(name)}

        hyper, kept = group("hyper_"), group("kept_")
        return cls(**arrays, hyper=hyper, kept=kept)

    def keep(self, kept: Kept) -> None:
        """Take over what is kept of the cells."""
        self.kept = {name: own for name, own in kept._asdict().items() if name != "where"}

    def kept_at(self, where: Ints) -> Kept:
        """What is kept of the cells."""
        return Kept(where=where, **self.kept)


@dataclass(frozen=True, eq=False)
class Job:
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
class Built:
    """A job with what takes long to work out."""

    job: Job
    idle: list[TreeChain] = field(default_factory=list)

    @cached_property
    def release(self) -> Release:
        """What is published of it."""
        source = self.job.source
        release = source if isinstance(source, Release) else source()
        if not isinstance(release, Release):  # a user's function may give anything
            raise TypeError(f"the function of a part must return a bayesdp.Release, got {type(release).__name__}")
        return release

    @cached_property
    def own(self) -> Target:
        """The target of its tables, by its own answers."""
        return target_of(self.release, self.job.prior.family)

    @cached_property
    def target(self) -> Target:
        """With the sums above."""
        more = tuple(term.on(self.release.frame) for term in self.job.above)
        return Target(self.own.fiber, (*self.own.terms, *more), self.own.family)

    @cached_property
    def structure(self) -> Structure:
        """The same in its hierarchy."""
        leaves, frame = self.job.leaves, self.release.frame
        if leaves is None and self.job.cells is not None:
            others = [dim for dim in frame.dims if dim not in self.job.cells]
            if len(others) != 1:
                raise ValueError(
                    f"a part needs one dimension besides those of the cells ({shown(self.job.cells)}), which holds its leaves; it has "
                    f"{shown(frame.dims)}"
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
        record = () if self.job.record is None else self.job.record(self.release.frame)
        return named_queries(record, self.release.frame, self.job.prior.names)

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
        own = self.own.terms
        chain.set_scales([*(term.scale for term in own), *scales], [*(term.values for term in own), *values])

    def without_above(self, chain: TreeChain) -> None:
        """Noise above that is so wide that it says nothing."""
        wide = [np.full(len(term.measured), np.inf) for term in self.job.above]
        self.set_above(chain, [np.zeros_like(own) for own in wide], wide)


type Records = dict[str, npt.NDArray[Any]]

MOST_BUILT = 256
"""Parts whose structure a process keeps at most."""


@dataclass(frozen=True)
class Failed:
    """A task that raised an error, which is not the cluster's fault."""

    error: Exception


@dataclass(frozen=True, eq=False)
class Look:
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

_BUILT: dict[str, Built] = {}


def _built(packed: bytes) -> Built:
    key = hashlib.sha256(packed).hexdigest()
    if key not in _BUILT:
        while len(_BUILT) >= MOST_BUILT:
            _BUILT.pop(next(iter(_BUILT)), None)
        _BUILT[key] = Built(cloudpickle.loads(packed))
    return _BUILT[key]


def run_packed(packed: bytes, task: Callable[..., Any], *arguments: Any) -> Any:
    """Run a task of a packed job; an exception is a result, so that it can be told from a worker that died."""
    try:
        with dispensable_caches():
            return task(_built(packed), *arguments)
    except Exception as error:
        return Failed(error)


def look(built: Built, memory_check: bool) -> Look:  # tasks have their arguments by place
    """Check a part, and say what the driver must know."""
    structure, frame = built.structure, built.release.frame
    memory = PartMemory.of(structure, built.job.plan, built.job.prior, built.queries)
    if memory_check:
        check_worker(memory)
    if not built.queries and built.job.record is not None:
        raise ValueError("record_parts gave no query")
    return Look(
        dims=cell_dims(frame, structure.axis),
        errors=own_errors(built.release, [term.keep for term in built.job.above], structure),
        known=[known_sums(structure, keep) for keep in built.job.known],
        fixed=[known_sums(structure, term.keep) for term in built.job.above],
        release=digest(built.release),
        law=built.release.law_check.warning,
        recorded={name: digest(query) for name, query in built.queries.items()},
        formula=built.job.prior.formula,
        leaves=len(structure.order),
        free=len(built.where),
        memory=memory,
    )


def begin(built: Built, number: int, seed: tuple[int, tuple[int, ...]]) -> Moved:
    """The start of chain `number`: random, near the part's own linear estimate, opposite to the other chain of its pair.

    From there it sweeps on its own for a while. The ends put its sums far from where they belong; given its share of the noise
    above, a part stays near the sums that it had, and would come back by a small step a phase only.
    """
    rng = _generator(seed)
    structure, prior = built.structure, built.job.prior
    chain = built.chain(rng)
    built.without_above(chain)
    pair, second = paired(rng, number)
    chain.load(np.asarray(structure.in_frame(start_table(built.own, structure, pair, opposite=second)), dtype=np.int64))
    chain.choose_donors(chain.state.counts)
    to_ends(chain, pair, int(second))
    ends = chain.state.counts.reshape(-1)[built.where]
    hyper = prior.start(structure, chain.state.counts)
    chain.set_cells(*prior.weights(structure, hyper))
    for _ in range(_ALONE):
        hyper = _swept(built, chain, hyper, rng)
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
    built.idle.append(chain)
    return Moved(state.packed(), state.counts.sum(axis=0), {})


def _swept(built: Built, chain: TreeChain, hyper: dict[str, Floats], rng: np.random.Generator) -> dict[str, Floats]:
    """A sweep of the table, and of the hyperparameters given it."""
    chain.sweep()
    prior = built.job.prior
    if not prior.names:
        return hyper
    hyper = prior.update(built.structure, chain.state.counts, hyper, rng)
    chain.set_cells(*prior.weights(built.structure, hyper))
    return hyper


def move(
    built: Built, state: bytes, seed: tuple[int, tuple[int, ...]], values: Sequence[Floats], scales: Sequence[Floats],
    draws: int, first: int,
) -> Moved:  # fmt: skip
    """Sweep for so many draws, the first of which has the number `first`; negative while tuning, when nothing is kept."""
    rng = _generator(seed)
    plan, structure, prior = built.job.plan, built.structure, built.job.prior
    own = PartState.unpacked(state)
    chain = built.chain(rng)
    built.set_above(chain, values, scales)
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
            own.keep(new_kept(built.where, plan.draws, plan.counts, plan.bins, plan.batches))
        recorders = {name: Recorder(query, structure, draws) for name, query in built.queries.items()}
        hypers = {name: np.empty((draws, *np.shape(hyper[name]))) for name in prior.names}
        kept = own.kept_at(built.where)
    for draw in range(draws):
        for _ in range(plan.thin):
            hyper = _swept(built, chain, hyper, rng)
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
        own.donor_start, own.donor_cell, own.visits = (
            chain.state.donor_start,
            chain.state.donor_cell,
            chain.state.visits,
        )
    own.counts, own.hyper = chain.state.counts.copy(), dict(hyper)
    built.idle.append(chain)
    records: Records = {f"answers_{name}": recorder.answers for name, recorder in recorders.items()}
    records |= {f"hyper_{name}": place for name, place in hypers.items()}
    return Moved(own.packed(), own.counts.sum(axis=0), records)


def end(built: Built, states: Sequence[bytes], records: Sequence[Records]) -> dict[str, xr.Dataset]:
    """The result of a part from all of its chains: draws, cells, diagnostics, and what was published."""
    plan, structure = built.job.plan, built.structure
    chain = built.chain(np.random.default_rng(0))
    built.without_above(chain)
    groups, missed = (chain.state.group_start, chain.state.group_cell), chain.missed
    built.idle.append(chain)
    chains = []
    for number, (state, recorded) in enumerate(zip(states, records, strict=True)):
        own = PartState.unpacked(state)
        made = OneChain(
            number, built.target, structure, built.job.prior, plan, built.queries, built.where,
            np.random.default_rng(0), None,
        )  # fmt: skip
        start = np.zeros(structure.free.size, dtype=np.int64)
        start[built.where] = own.ends
        made.draws, made.kept, made.groups, made.missed = plan.draws, own.kept_at(built.where), groups, missed
        made.ends = ends_of(groups, start.reshape(structure.free.shape))
        made.recorders = {name: Recorder(query, structure, 0) for name, query in built.queries.items()}
        for name, recorder in made.recorders.items():
            recorder.answers = recorded[f"answers_{name}"]
        made.hyper = {name: recorded[f"hyper_{name}"] for name in built.job.prior.names}
        chains.append(made)
    posterior = posterior_of(chains, structure, built.release.frame)
    cells, found = cells_of(chains, structure, plan)
    diagnostics = diagnostics_of(posterior, chains, found, built.target, plan)
    limits, stated = limits_of(built.target, built.release, structure), built.release.to_dataset()
    return {"posterior": posterior, "cells": cells, "diagnostics": diagnostics, "release": stated, "fiber": limits}


def unseen(built: Built) -> Floats:
    """The sums over the leaves, shape (3, C), of random tables that what is exact of a part does not see."""
    release, structure = built.release, built.structure
    known = limits_of(built.target, release, structure)["determined"].values
    tables = unseen_tables(release.frame, release.exact, known)[0].reshape(3, *release.frame.shape)
    return np.asarray(tables.sum(axis=1 + structure.axis).reshape(3, -1))


def _generator(seed: tuple[int, tuple[int, ...]]) -> np.random.Generator:
    """The generator of one task: its seed is that of the run with the place of the task, so that none has to be kept."""
    entropy, place = seed
    return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=place))
