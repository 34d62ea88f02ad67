"""One chain: its start, its tuning, and its draws, from each of which what is asked for is kept."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._interrupts import give_back
from bayesdp.fibers import Target
from bayesdp.hierarchies.chain import TreeChain
from bayesdp.hierarchies.modes import ends_of
from bayesdp.hierarchies.priors import CellPrior
from bayesdp.hierarchies.structure import Structure
from bayesdp.queries import Query
from bayesdp.streaming.budget import Plan
from bayesdp.streaming.cells import Kept, batching, new_kept, take
from bayesdp.streaming.journal import KeptTables, Writer
from bayesdp.streaming.line_tree import LineTree
from bayesdp.streaming.plausible import TableWriter
from bayesdp.streaming.recording import Recorder, occupied
from bayesdp.streaming.walled_tree import WalledTree, has_walls

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_STARTING = threading.Lock()
"""Chains start one after another: a start needs more memory than a chain that runs."""

_CHOOSING = (16, 8, 4, 2, 1)
"""Donors are chosen anew after one part in so many of the tuning, by the means since the last time; why more than once is told at
`bayesdp.steps.count_chains.SweepChain`."""


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
        self.kept: Kept | None = None
        self.groups: tuple[Ints, Ints] | None = None
        self.ends: npt.NDArray[np.bool_] | None = None
        self.missed: tuple[str, ...] = ()

    def run(self, stopped: Callable[[], bool]) -> None:
        """Sample, until all draws are made or it is stopped."""
        # `stopped`: asked between two sweeps.
        plan, structure = self.plan, self.structure
        saved = None if self.journal is None else self.journal.read()
        tables = any(term.windows is not None for term in self.target.terms)
        kind = TreeChain if not tables else WalledTree if has_walls(self.target, structure) else LineTree
        chain = kind(self.target, structure, self.rng)
        self.missed = chain.missed
        typical, since = (
            np.zeros(chain.table.shape, dtype=np.float32),
            0,
        )  # sums are whole, and exact below 2**24
        if saved is None:
            with _STARTING:
                self._begin(chain)
                give_back()
            hyper = self.prior.start(structure, chain.table)
        else:
            hyper = self._restored(chain, saved)
            if "typical" in saved:
                typical, since = saved["typical"], int(saved["since"])
        self._set(chain, hyper)
        choosing = {max(plan.tune // part, 1) for part in _CHOOSING}
        for sweep in range(self.done + 1, plan.tune + 1):
            if stopped():
                return
            hyper = self._sweep(chain, hyper)
            chain.learn()
            typical += chain.table
            since += 1
            self.done += 1
            if sweep in choosing:
                chain.choose_donors(typical / since)
                typical[:], since = 0.0, 0
            if self.journal is not None and self.journal.due and sweep < plan.tune:
                self.journal.write(self._state(chain, hyper) | {"typical": typical, "since": np.array(since)})
        del typical
        give_back()
        self._keep(chain, hyper, stopped, saved or {})

    def _state(self, chain: TreeChain | LineTree | WalledTree, hyper: dict[str, Floats]) -> dict[str, npt.NDArray[Any]]:
        """All that the chain goes on from, and what it has kept."""
        drawn = self.draws
        arrays: dict[str, npt.NDArray[Any]] = {
            "done": np.array(self.done),
            "draws": np.array(drawn),
            "rng": np.array(json.dumps(self.rng.bit_generator.state, default=_plain)),
        }
        arrays |= {f"state:{name}": own for name, own in chain.saved().items()}
        arrays |= {f"hyper:{name}": np.asarray(own) for name, own in hyper.items()}
        assert self.ends is not None
        assert self.groups is not None
        arrays |= {"ends": self.ends, "group_start": self.groups[0], "group_cell": self.groups[1]}
        if self.kept is not None:
            arrays |= {f"kept:{name}": own for name, own in self.kept._asdict().items() if name != "where"}
            arrays |= {f"answers:{name}": own.answers[:drawn] for name, own in self.recorders.items()}
            arrays |= {f"drawn:{name}": own[:drawn] for name, own in self.hyper.items()}
        return arrays

    def _restored(
        self, chain: TreeChain | LineTree | WalledTree, saved: dict[str, npt.NDArray[Any]]
    ) -> dict[str, Floats]:
        """Put a chain where it was; its hyperparameters."""
        self.done, self.draws = int(saved["done"]), int(saved["draws"])
        self.rng.bit_generator.state = json.loads(str(saved["rng"]))
        before = {name: saved[name] for name in ("mix",) if name in saved}  # where version 0.1 kept it
        chain.restore(before | {name[6:]: own for name, own in saved.items() if name.startswith("state:")})
        self.ends, self.groups = saved["ends"], (saved["group_start"], saved["group_cell"])
        return {name[6:]: own for name, own in saved.items() if name.startswith("hyper:")}

    def _begin(self, chain: TreeChain | LineTree | WalledTree) -> None:
        """Start at a random table, far from those of other chains."""
        if isinstance(chain, LineTree | WalledTree):
            self._set(chain, self.prior.start(self.structure, chain.table))
        chain.begin_apart(self.rng)
        self.groups = chain.groups
        self.ends = ends_of(self.groups, chain.table)

    def _set(self, chain: TreeChain | LineTree | WalledTree, hyper: dict[str, Floats]) -> None:
        chain.set_cells(*self.prior.weights(self.structure, hyper))

    def _sweep(self, chain: TreeChain | LineTree | WalledTree, hyper: dict[str, Floats]) -> dict[str, Floats]:
        """A sweep of the table, and of the hyperparameters given it."""
        chain.sweep()
        if not self.prior.names:
            return hyper
        hyper = self.prior.update(self.structure, chain.table, hyper, self.rng)
        self._set(chain, hyper)
        return hyper

    def _keep(
        self,
        chain: TreeChain | LineTree | WalledTree,
        hyper: dict[str, Floats],
        stopped: Callable[[], bool],
        saved: dict[str, npt.NDArray[Any]],
    ) -> None:
        plan = self.plan
        self.recorders = {name: Recorder(query, self.structure, plan.draws) for name, query in self.queries.items()}
        self.hyper = {name: np.empty((plan.draws, *np.shape(hyper[name]))) for name in self.prior.names}
        self.kept = new_kept(self.where, plan.draws, plan.counts, plan.bins, plan.batches)
        if self.draws:
            self.kept = self.kept._replace(**{name[5:]: own for name, own in saved.items() if name.startswith("kept:")})
            for name, recorder in self.recorders.items():
                recorder.answers[: self.draws] = saved[f"answers:{name}"]
            for name, kept in self.hyper.items():
                kept[: self.draws] = saved[f"drawn:{name}"]
        saved.clear()
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
            for name, kept in self.hyper.items():
                kept[draw] = hyper[name]
            take(counts, draw, length, self.kept)
            if self.tables is not None and self.tables.wanted(self.number, draw):
                self.tables.add(self.number, draw, counts)
            self.draws = draw + 1
            self.done += 1
            if self.journal is not None and (self.journal.due or self.draws == plan.draws):
                self.journal.write(self._state(chain, hyper))


def _plain(value: Any) -> Any:
    """Numbers and arrays of the state of a generator as JSON can hold them; all bit generators take lists back."""
    return value.tolist()
