"""What a worker does for one part: pure functions of bytes, so that a task that is lost is made again with the same result."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import cloudpickle
import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp._interrupts import dispensable_caches
from bayesdp.consistency import unseen_tables
from bayesdp.hierarchies.chain import TreeChain
from bayesdp.hierarchies.modes import ends_of, paired, to_ends
from bayesdp.hierarchies.start import start_table
from bayesdp.inference.runs.fingerprint import digest
from bayesdp.streaming.cells import batching, new_kept, take
from bayesdp.streaming.one_chain import OneChain
from bayesdp.streaming.parts.coupling import known_sums, own_errors
from bayesdp.streaming.parts.job import Built
from bayesdp.streaming.parts.memory import PartMemory, check_worker
from bayesdp.streaming.parts.state import PartState
from bayesdp.streaming.parts.top import cell_dims
from bayesdp.streaming.recording import Recorder, occupied
from bayesdp.streaming.result import cells_of, diagnostics_of, limits_of, posterior_of

__all__ = ["Failed", "Look", "Moved", "begin", "end", "look", "move", "run_packed", "unseen"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
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
