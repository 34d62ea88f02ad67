"""One part of a run as it is sent to workers, and what a worker works out of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._validate import shown
from bayesdp.fibers import Target
from bayesdp.frames import Frame
from bayesdp.hierarchies.chain import TreeChain
from bayesdp.hierarchies.priors import CellPrior
from bayesdp.hierarchies.released import target_of
from bayesdp.hierarchies.structure import Structure, structure_of
from bayesdp.queries import Query
from bayesdp.release import Release
from bayesdp.streaming.budget import Plan
from bayesdp.streaming.parts.top import PartTerm
from bayesdp.streaming.recording import named_queries

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]


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
