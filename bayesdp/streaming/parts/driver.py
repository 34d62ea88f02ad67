"""The driver: phase by phase, which parts move together, given what the others add up to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp._interrupts import deferred
from bayesdp.consistency import unmoved
from bayesdp.queries import Query
from bayesdp.streaming.budget import Plan
from bayesdp.streaming.parts import work
from bayesdp.streaming.parts.checkpoint import SUMS, Standing, save
from bayesdp.streaming.parts.runners import Runner, Task
from bayesdp.streaming.parts.top import NoisyAbove, split_noise

type Ints = npt.NDArray[np.int64]

_START, _TASK, _DRIVER = range(3)
"""First number of the place of a seed: starts of chains, tasks, and the driver's own draws."""


@dataclass(frozen=True, eq=False)
class Driver:
    """A run whose arguments are all valid."""

    runner: Runner
    parts: int
    noisy: list[NoisyAbove]
    plan: Plan
    phase: int  # draws of a phase
    together: int  # parts of a chain that move at a time
    axis: int  # the dimension of the parts in the tables of `queries`
    queries: dict[str, Query]  # what is recorded of parts by cells
    entropy: int  # the seed
    folder: Path | None  # where the run is saved, with `fingerprint`, after every `save_every` phases
    save_every: int
    fingerprint: dict[str, Any]

    @property
    def tuning(self) -> int:
        """Phases of the tuning."""
        return -(-self.plan.tune // (self.phase * self.plan.thin))

    @property
    def phases(self) -> int:
        """Phases in all."""
        return self.tuning + self.plan.draws // self.phase

    def begun(self) -> Standing:
        """The starts of all chains."""
        tasks = [
            Task(k, work.begin, (c, (self.entropy, (_START, c, k))))
            for c in range(self.plan.chains)
            for k in range(self.parts)
        ]
        moved = self.runner.run(tasks)
        rows = [moved[c * self.parts : (c + 1) * self.parts] for c in range(self.plan.chains)]
        return Standing(
            0,
            [[own.state for own in row] for row in rows],
            np.stack([[own.table for own in row] for row in rows]),
            [[{} for _ in row] for row in rows],
            [{} for _ in rows],
        )

    def run(self, standing: Standing, told: Callable[[int, int], None] | None) -> None:
        """All phases that are left."""
        while standing.phase < self.phases:
            self._phase(standing)
            with deferred():
                standing.phase += 1
                if self.folder is not None and (standing.phase % self.save_every == 0 or standing.phase == self.phases):
                    save(self.folder, standing, self.fingerprint)
            if told is not None:
                told(standing.phase, self.phases)

    def _phase(self, standing: Standing) -> None:
        """Every part of every chain moves once, `together` of them at a time, in an order that is drawn at random."""
        chains, phase = range(self.plan.chains), standing.phase
        first = (phase - self.tuning) * self.phase
        rngs = [np.random.default_rng(self._seed(_DRIVER, c, phase)) for c in chains]
        orders = [rng.permutation(self.parts) for rng in rngs]
        for start in range(0, self.parts, self.together):
            moving = [order[start : start + self.together] for order in orders]
            tasks, places = [], []
            for c in chains:
                given = split_noise(self.noisy, standing.tables[c], moving[c], rngs[c])
                for k, (values, scales) in zip(moving[c].tolist(), given, strict=True):
                    seed = (self.entropy, (_TASK, c, k, phase))
                    arguments = (standing.states[c][k], seed, values, scales, self.phase, first)
                    tasks.append(Task(k, work.move, arguments))
                    places.append((c, k))
            for (c, k), moved in zip(places, self.runner.run(tasks), strict=True):
                standing.states[c][k] = moved.state
                standing.tables[c, k] = moved.table
                self._add(standing.records[c][k], moved.records, max(first, 0), self.plan.draws)
        if first >= 0:
            for c in chains:
                table = self._in_frame(standing.tables[c])
                answers = {name: query.apply(table).reshape(1, -1) for name, query in self.queries.items()}
                answers |= {f"{SUMS}{own.name}": own.part_sums(standing.tables[c])[None] for own in self.noisy}
                self._add(standing.tops[c], answers, phase - self.tuning, self.phases - self.tuning)

    def _seed(self, *place: int) -> np.random.SeedSequence:
        return np.random.SeedSequence(self.entropy, spawn_key=place)

    def _add(self, kept: dict[str, Any], new: dict[str, Any], start: int, rows: int) -> None:
        for name, own in new.items():
            if name not in kept:
                kept[name] = np.zeros((rows, *own.shape[1:]), dtype=own.dtype)
            kept[name][start : start + len(own)] = own

    def _in_frame(self, tables: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Parts by cells in the order of the frame of the queries above."""
        if not self.queries:
            return tables
        shape = next(iter(self.queries.values())).frame.shape
        rest = tuple(n for axis, n in enumerate(shape) if axis != self.axis)
        return np.moveaxis(tables.reshape(len(tables), *rest), 0, self.axis)

    def determined(self) -> dict[str, npt.NDArray[np.bool_]]:
        """Which answers of the queries above have one possible value by what is exact of each part, and so of all of them."""
        if not self.queries:
            return {}
        found = self.runner.run([Task(k, work.unseen) for k in range(self.parts)])
        # Random factors: equal parts have the same tables, whose differences would not move.
        mixed = np.stack(found, axis=1) * np.random.default_rng(0).standard_normal((3, self.parts, 1))
        tables = np.stack([self._in_frame(own).reshape(-1) for own in mixed])
        none = np.zeros(tables.shape[1], dtype=np.bool_)
        return {name: unmoved(query, tables, none) for name, query in self.queries.items()}

    def ended(self, standing: Standing) -> list[dict[str, xr.Dataset]]:
        """The results of the parts."""
        chains = range(self.plan.chains)
        tasks = [
            Task(k, work.end, ([standing.states[c][k] for c in chains], [standing.records[c][k] for c in chains]))
            for k in range(self.parts)
        ]
        return self.runner.run(tasks)
