"""What a worker does for one part: pure functions of bytes, so that a task that is lost is made again with the same result."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import cloudpickle
import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp._caches import dispensable_caches
from bayesdp._validate import shown
from bayesdp.fibers import Target
from bayesdp.frames import Frame
from bayesdp.hierarchies.chain import TreeChain
from bayesdp.hierarchies.modes import ends_of, to_ends
from bayesdp.hierarchies.priors import CellPrior
from bayesdp.hierarchies.released import target_of
from bayesdp.hierarchies.start import start_table
from bayesdp.hierarchies.structure import Structure, structure_of
from bayesdp.queries import Query
from bayesdp.release import Release
from bayesdp.streaming.budget import Plan
from bayesdp.streaming.cells import batching, new_kept, take
from bayesdp.streaming.one_chain import OneChain
from bayesdp.streaming.parts.coupling import known_sums, own_errors
from bayesdp.streaming.parts.state import PartState
from bayesdp.streaming.parts.top import PartTerm, cell_dims
from bayesdp.streaming.recording import Recorder, named_queries
from bayesdp.streaming.result import cells_of, diagnostics_of, posterior_of

__all__ = ["Failed", "Job", "Look", "Moved", "begin", "end", "look", "move", "run_packed"]

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
    """What the driver must know of a part.

    Parameters
    ----------
    dims : tuple
        The dimensions of its cells with their labels.
    errors : list of float64 array
        For each noisy query above, standard errors of the part's own linear estimates of its sums; NaN where there are none.
    known : list of bool array
        For each exact query above, whether the exact answers of the part determine its sums.
    digest : str
        Of what is published.
    formula : str
        The prior.
    leaves, free : int
        Leaves, and cells that can move.
    """

    dims: tuple[tuple[str, tuple[object, ...]], ...]
    errors: list[Floats]
    known: list[npt.NDArray[np.bool_]]
    digest: str
    formula: str
    leaves: int
    free: int


@dataclass(frozen=True, eq=False)
class Moved:
    """A part of a chain after a task: its packed state, the sums over its leaves, shape (C,), and draws of what is recorded."""

    state: bytes
    table: Ints
    records: Records


@dataclass(frozen=True, eq=False)
class Job:
    """One part, as it is sent to workers.

    Parameters
    ----------
    source : Release or callable
        What is published of it, or a function that reads that.
    prior : CellPrior
    plan : Plan
    above : tuple of PartTerm
        Noisy queries above.
    known : tuple
        For each exact query above, what it keeps of the cells.
    record : callable, optional
        The queries whose draws are kept, by the frame of the part.
    leaves : str, optional
        The dimension of the leaves.
    cells : tuple of str, optional
        The other dimensions, where they are known.
    """

    source: Release | Callable[[], Release]
    prior: CellPrior
    plan: Plan
    above: tuple[PartTerm, ...]
    known: tuple[tuple[str, ...], ...]
    record: Callable[[Frame], Any] | None
    leaves: str | None
    cells: tuple[str, ...] | None


@dataclass(eq=False)
class _Built:
    """A job with what takes long to work out."""

    job: Job
    idle: list[TreeChain] = field(default_factory=list)

    @cached_property
    def release(self) -> Release:
        source = self.job.source
        release = source if isinstance(source, Release) else source()
        if not isinstance(release, Release):  # a user's function may give anything
            raise TypeError(f"the function of a part must return a bayesdp.Release, got {type(release).__name__}")
        return release

    @cached_property
    def own(self) -> Target:
        return target_of(self.release, self.job.prior.family)

    @cached_property
    def target(self) -> Target:
        """With the sums above."""
        more = tuple(term.on(self.release.frame) for term in self.job.above)
        return Target(self.own.fiber, (*self.own.terms, *more), self.own.family)

    @cached_property
    def structure(self) -> Structure:
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
        return np.flatnonzero(self.structure.free.reshape(-1)).astype(np.int64)

    @cached_property
    def queries(self) -> dict[str, Query]:
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
        own = self.own.terms
        chain.set_scales([*(term.scale for term in own), *scales], [*(term.values for term in own), *values])

    def without_above(self, chain: TreeChain) -> None:
        """Noise above that is so wide that it says nothing."""
        wide = [np.full(len(term.measured), np.inf) for term in self.job.above]
        self.set_above(chain, [np.zeros_like(own) for own in wide], wide)


_BUILT: dict[str, _Built] = {}


def _built(packed: bytes) -> _Built:
    key = hashlib.sha256(packed).hexdigest()
    if key not in _BUILT:
        while len(_BUILT) >= MOST_BUILT:
            _BUILT.pop(next(iter(_BUILT)), None)
        _BUILT[key] = _Built(cloudpickle.loads(packed))
    return _BUILT[key]


def run_packed(packed: bytes, task: Callable[..., Any], *arguments: Any) -> Any:
    """Run a task of a packed job; an exception is a result, so that it can be told from a worker that died."""
    try:
        with dispensable_caches():
            return task(_built(packed), *arguments)
    except Exception as error:
        return Failed(error)


def look(built: _Built) -> Look:
    """Check a part, and say what the driver must know."""
    structure, frame = built.structure, built.release.frame
    if not built.queries and built.job.record is not None:
        raise ValueError("record_parts gave no query")
    digest = hashlib.sha256(repr(built.release).encode())
    for term in built.own.terms:
        digest.update(np.ascontiguousarray(term.values).tobytes())
        digest.update(np.ascontiguousarray(np.broadcast_to(term.scale, term.values.shape)).tobytes())
    for exact in built.release.exact:
        digest.update(np.ascontiguousarray(exact.values).tobytes())
    return Look(
        dims=cell_dims(frame, structure.axis),
        errors=own_errors(built.release, [term.keep for term in built.job.above], structure),
        known=[known_sums(structure, keep) for keep in built.job.known],
        digest=digest.hexdigest(),
        formula=built.job.prior.formula,
        leaves=len(structure.order),
        free=len(built.where),
    )


def begin(built: _Built, number: int, seed: tuple[int, tuple[int, ...]]) -> Moved:
    """The start of chain `number`: near the part's own linear estimate, with tied groups at one of their ends."""
    rng = _generator(seed)
    structure, prior = built.structure, built.job.prior
    chain = built.chain(rng)
    built.without_above(chain)
    chain.load(np.asarray(structure.in_frame(start_table(built.own, structure, rng)), dtype=np.int64))
    chain.choose_donors(chain.state.counts)
    to_ends(chain, rng, number)
    counts = chain.state.counts
    state = PartState(
        counts=counts.copy(),
        donor_start=chain.state.donor_start,
        donor_cell=chain.state.donor_cell,
        visits=chain.state.visits,
        ends=counts.reshape(-1)[built.where],
        typical=np.zeros(counts.shape),
        hyper=prior.start(structure, counts),
        kept={},
    )
    built.idle.append(chain)
    return Moved(state.packed(), state.counts.sum(axis=0), {})


def move(
    built: _Built, state: bytes, seed: tuple[int, tuple[int, ...]], values: Sequence[Floats], scales: Sequence[Floats],
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
            chain.sweep()
            if prior.names:
                hyper = prior.update(structure, chain.state.counts, hyper, rng)
                chain.set_cells(*prior.weights(structure, hyper))
            if tuning:
                total += chain.state.counts
        if kept is not None:
            take(chain.state.counts, first + draw, length, kept)
        for recorder in recorders.values():
            recorder.take(chain.state.counts, draw)
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


def end(built: _Built, states: Sequence[bytes], records: Sequence[Records]) -> dict[str, xr.Dataset]:
    """The result of a part from all of its chains: draws, cells, diagnostics, and what was published."""
    plan, structure = built.job.plan, built.structure
    chain = built.chain(np.random.default_rng(0))
    built.without_above(chain)
    groups = (chain.state.group_start, chain.state.group_cell)
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
        made.draws, made.kept, made.groups = plan.draws, own.kept_at(built.where), groups
        made.ends = ends_of(groups, start.reshape(structure.free.shape))
        made.recorders = {name: Recorder(query, structure, 0) for name, query in built.queries.items()}
        for name, recorder in made.recorders.items():
            recorder.answers = recorded[f"answers_{name}"]
        made.hyper = {name: recorded[f"hyper_{name}"] for name in built.job.prior.names}
        chains.append(made)
    posterior = posterior_of(chains, structure, built.release.frame)
    cells, found = cells_of(chains, structure, plan)
    diagnostics = diagnostics_of(posterior, chains, found, built.target, plan)
    return {"posterior": posterior, "cells": cells, "diagnostics": diagnostics, "release": built.release.to_dataset()}


def _generator(seed: tuple[int, tuple[int, ...]]) -> np.random.Generator:
    """The generator of one task: its seed is that of the run with the place of the task, so that none has to be kept."""
    entropy, place = seed
    return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=place))
