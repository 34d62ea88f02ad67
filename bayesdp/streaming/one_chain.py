"""One chain: its start, its tuning, and its draws, from each of which what is asked for is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesdp.fibers import Target
from bayesdp.hierarchies.chain import TreeChain
from bayesdp.hierarchies.priors import CellPrior
from bayesdp.hierarchies.structure import Structure
from bayesdp.queries import Query
from bayesdp.streaming.budget import Plan
from bayesdp.streaming.cells import Kept, batching, new_kept, take
from bayesdp.streaming.plausible import TableWriter
from bayesdp.streaming.recording import Recorder

__all__ = ["OneChain"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_SCATTERED = 5
"""Sweeps with flattened noise at the beginning, so that chains begin apart."""

_FLATTENED = 0.25
"""Share of the noise's precision in these."""

_CHOOSING = (16, 8, 4, 2, 1)
"""Donors are chosen anew after one part in so many of the tuning, by the means since the last time."""


@dataclass(eq=False)
class OneChain:
    """A chain and what is kept of its draws.

    Parameters
    ----------
    number : int
    target, structure, prior, plan
        What is sampled, and how.
    queries : dict
        Those whose draws are kept.
    where : int64 array
        The cells that can move, in leaves by cells.
    rng : numpy.random.Generator
    tables : TableWriter, optional

    Attributes
    ----------
    done : int
        Sweeps of the tuning and draws so far.
    draws : int
        Draws so far.
    changed : float
        Moves that changed the table, a draw.
    """

    number: int
    target: Target
    structure: Structure
    prior: CellPrior
    plan: Plan
    queries: dict[str, Query]
    where: Ints
    rng: np.random.Generator
    tables: TableWriter | None

    def __post_init__(self) -> None:
        self.done = self.draws = 0
        self.recorders: dict[str, Recorder] = {}
        self.hyper: dict[str, Floats] = {}
        self.kept: Kept | None = None

    def run(self, start: Ints, stopped: Callable[[], bool]) -> None:
        """Sample, until all draws are made or it is stopped.

        Parameters
        ----------
        start : int64 array, shape (cells,)
            A table with the exact answers, flat in the frame.
        stopped : callable
            Asked between two sweeps.
        """
        plan, structure = self.plan, self.structure
        chain = TreeChain(self.target, structure, self.rng)
        self._begin(chain, start)
        hyper = self.prior.start(structure, chain.state.counts)
        self._set(chain, hyper)
        typical, since = np.zeros(chain.state.counts.shape), 0
        choosing = {max(plan.tune // part, 1) for part in _CHOOSING}
        for sweep in range(1, plan.tune + 1):
            if stopped():
                return
            hyper = self._sweep(chain, hyper)
            typical += chain.state.counts
            since += 1
            self.done += 1
            if sweep in choosing:
                chain.choose_donors(typical / since)
                typical[:], since = 0.0, 0
        del typical
        self._keep(chain, hyper, stopped)

    def _begin(self, chain: TreeChain, start: Ints) -> None:
        """Load the start and scatter it: a few sweeps with flattened noise."""
        self._set(
            chain, self.prior.start(self.structure, np.asarray(self.structure.leaves_by_cells(start), dtype=np.int64))
        )
        scales = [term.scale for term in self.target.terms]
        chain.set_scales(scales, temper=_FLATTENED)
        chain.load(start)
        chain.sweep(_SCATTERED)
        chain.set_scales(scales)
        chain.load(chain.counts)

    def _set(self, chain: TreeChain, hyper: dict[str, Floats]) -> None:
        chain.set_cells(*self.prior.weights(self.structure, hyper))

    def _sweep(self, chain: TreeChain, hyper: dict[str, Floats]) -> dict[str, Floats]:
        """A sweep of the table, and of the hyperparameters given it."""
        chain.sweep()
        if not self.prior.names:
            return hyper
        hyper = self.prior.update(self.structure, chain.state.counts, hyper, self.rng)
        self._set(chain, hyper)
        return hyper

    def _keep(self, chain: TreeChain, hyper: dict[str, Floats], stopped: Callable[[], bool]) -> None:
        plan = self.plan
        self.recorders = {name: Recorder(query, self.structure, plan.draws) for name, query in self.queries.items()}
        self.hyper = {name: np.empty((plan.draws, *np.shape(hyper[name]))) for name in self.prior.names}
        self.kept = new_kept(self.where, plan.draws, plan.counts, plan.bins, plan.batches)
        length, _ = batching(plan.draws, plan.batches)
        for draw in range(plan.draws):
            for _ in range(plan.thin):
                if stopped():
                    return
                hyper = self._sweep(chain, hyper)
            counts = chain.state.counts
            for recorder in self.recorders.values():
                recorder.take(counts, draw)
            for name, kept in self.hyper.items():
                kept[draw] = hyper[name]
            take(counts, draw, length, self.kept)
            if self.tables is not None and self.tables.wanted(self.number, draw):
                self.tables.add(self.number, draw, counts)
            self.draws = draw + 1
            self.done += 1
