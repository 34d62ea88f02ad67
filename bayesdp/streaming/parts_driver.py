"""Where a run stands, in a file: a driver that was killed goes on from there.

Where tasks run: in this process, or on a Dask cluster. Tasks are pure, so that those of a worker that dies are made again.

The driver: phase by phase, which parts move together, given what the others add up to.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp._interrupts import deferred
from bayesdp._text import printable
from bayesdp.consistency import unmoved
from bayesdp.queries import Query
from bayesdp.storage import write_bytes
from bayesdp.streaming import part_tasks as work
from bayesdp.streaming.above import NoisyAbove, split_noise
from bayesdp.streaming.chains import Plan
from bayesdp.streaming.part_tasks import Failed, packed_arrays, run_packed, unpacked_arrays

type Ints = npt.NDArray[np.int64]
type Records = dict[str, npt.NDArray[Any]]

NAME = "parts.bin"
"""Name of the file in its folder."""

SUMS = "sums of parts in "
"""Before the name of a noisy query above the parts: what each part adds to it, among what is recorded above the parts."""


@dataclass(eq=False)
class Standing:
    """Where a run stands between two phases."""

    phase: int  # phases that are done, tuning among them
    states: list[list[bytes]]  # chain by chain, part by part
    tables: Ints  # sums over the leaves of each part, shape (chains, K, C)
    records: list[list[Records]]  # what is recorded of each part of each chain: arrays with a row for each draw
    tops: list[Records]  # what is recorded of each chain above the parts: arrays with a row for each phase


def save(folder: Path, standing: Standing, run: dict[str, Any]) -> None:
    """Write where a run stands; the file is whole at any moment."""
    arrays: dict[str, npt.NDArray[Any]] = {
        "run": np.frombuffer(json.dumps(run).encode(), dtype=np.uint8),
        "phase": np.array(standing.phase),
        "tables": standing.tables,
    }
    for c, states in enumerate(standing.states):
        for k, state in enumerate(states):
            arrays[f"state {c} {k}"] = np.frombuffer(state, dtype=np.uint8)
            arrays |= {f"record {c} {k} {name}": own for name, own in standing.records[c][k].items()}
        arrays |= {f"top {c} {name}": own for name, own in standing.tops[c].items()}
    write_bytes(folder / NAME, [packed_arrays(arrays)], overwrite=True)


def load(folder: Path) -> tuple[Standing, dict[str, Any]]:
    """Read where a run stands, and what run it is."""
    path = folder / NAME
    try:
        arrays = unpacked_arrays(path.read_bytes())
        run = json.loads(arrays["run" if "run" in arrays else "identity"].tobytes())  # as earlier versions called it
        chains, parts = arrays["tables"].shape[:2]
        found = Standing(
            int(arrays["phase"]),
            [[arrays[f"state {c} {k}"].tobytes() for k in range(parts)] for c in range(chains)],
            arrays["tables"],
            [[{} for _ in range(parts)] for _ in range(chains)],
            [{} for _ in range(chains)],
        )
    except (zlib.error, ValueError, KeyError, EOFError) as error:
        raise ValueError(f"{str(path)!r} is no file of bdp.fit_parts that can be read: {error}") from error
    for name, own in arrays.items():
        kind, *rest = name.split(" ", 3)
        if kind == "record":
            found.records[int(rest[0])][int(rest[1])][rest[2]] = own
        elif kind == "top":
            found.tops[int(rest[0])][name.split(" ", 2)[2]] = own
    return found, run


_TRIES = 5
"""How often a task is given to the cluster before it is given up."""

_NEW_WORKER = 300
"""Seconds that a cluster has to bring up a worker, after all have died."""

_LARGE = 2**20
"""Bytes from which on the state of a part goes to a worker directly, not with the description of the task."""


@dataclass(frozen=True, eq=False)
class Task:
    """A function of `work`, the part that it is about, and its other arguments."""

    part: int
    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()


class Runner(Protocol):
    """Runs tasks that do not wait for each other."""

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """The results, in the order of the tasks."""


def _checked(result: Any, label: object) -> Any:
    if isinstance(result, Failed):
        result.error.add_note(f"This is about the part {printable(str(label))!r}.")
        raise result.error
    return result


@dataclass(frozen=True, eq=False)
class Serially:
    """In this process, one task after the other."""

    jobs: list[bytes]  # packed parts
    labels: list[Any]  # what they are called

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """The results, in the order of the tasks."""
        return [
            _checked(run_packed(self.jobs[own.part], own.function, *own.arguments), self.labels[own.part])
            for own in tasks
        ]


class OnDask:
    """On a Dask cluster."""

    # `jobs`: packed parts: each is sent once, and anew if the workers that had it have died.

    def __init__(self, client: Any, jobs: list[bytes], labels: list[Any]) -> None:
        self._client, self._jobs, self._labels = client, jobs, labels
        self._sent: dict[int, Any] = {}

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """The results, in the order of the tasks."""
        results: dict[int, Any] = {}
        left = list(range(len(tasks)))
        for attempt in range(_TRIES):
            if attempt:
                self._client.wait_for_workers(1, timeout=_NEW_WORKER)
            futures = {}
            reason: Exception | None = None
            try:
                for i in left:
                    futures[i] = self._submitted(tasks[i])
                for i, future in futures.items():
                    try:
                        results[i] = future.result()
                    except Exception as error:  # the worker died, or what it needed was on one that did
                        reason = error
                        self._sent.pop(tasks[i].part, None)
            finally:  # also after Ctrl-C: workers drop what has not begun
                for future in futures.values():
                    future.release()
            left = [i for i in left if i not in results]
            if not left:
                return [_checked(results[i], self._labels[own.part]) for i, own in enumerate(tasks)]
        label = printable(str(self._labels[tasks[left[0]].part]))
        raise RuntimeError(
            f"the cluster lost the work for the part {label!r} {_TRIES} times: its workers die (of memory, perhaps)"
        ) from reason

    def _submitted(self, task: Task) -> Any:
        sent = self._sent.get(task.part)
        if sent is None or sent.status != "finished":
            sent = self._sent[task.part] = self._client.scatter(self._jobs[task.part], hash=False)
        arguments = tuple(
            self._client.scatter(own, hash=False) if isinstance(own, bytes) and len(own) > _LARGE else own
            for own in task.arguments
        )
        return self._client.submit(run_packed, sent, task.function, *arguments, pure=False, retries=0)


@contextmanager
def running(client: Any, jobs: list[bytes], labels: list[Any]) -> Iterator[Runner]:
    """The runner, with a client of its own where an address is given."""
    # `client`: None runs everything in this process. `jobs`, `labels`: see `Serially`.
    if client is None:
        yield Serially(jobs, labels)
        return
    try:
        import distributed
    except ImportError as error:
        raise ImportError("a Dask cluster needs the package distributed: pip install 'bayesdp[cluster]'") from error
    if not isinstance(client, str):
        yield OnDask(client, jobs, labels)
        return
    with distributed.Client(client) as own:
        yield OnDask(own, jobs, labels)


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
