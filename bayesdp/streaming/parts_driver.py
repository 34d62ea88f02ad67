"""The driver of a run of parts: phase by phase, which parts move together, given what the others add up to; and where tasks run.

That is in this process, or on a Dask cluster. Tasks are pure, so that those of a worker that dies are made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp._interrupts import deferred
from bayesdp._text import printable
from bayesdp.consistency import unmoved
from bayesdp.queries import Query
from bayesdp.streaming import journal as journals
from bayesdp.streaming import part_tasks
from bayesdp.streaming.above import SUMS, NoisyAbove, split_noise
from bayesdp.streaming.chains import Plan
from bayesdp.streaming.journal import RunJournal
from bayesdp.streaming.part_tasks import Failed, Records, run_packed

type Ints = npt.NDArray[np.int64]

NAME = "chains.npz"
"""Name of the file of all states in the folder of the run."""


@dataclass(eq=False)
class RunState:
    """What there is of a run between two phases."""

    phase: int  # phases that are done, tuning among them
    states: list[list[bytes]]  # chain by chain, part by part
    tables: Ints  # sums over the leaves of each part, shape (chains, K, C)
    records: list[list[Records]]  # what is recorded of each part of each chain: arrays with a row for each draw
    tops: list[Records]  # what is recorded of each chain above the parts: arrays with a row for each phase


_TRIES = 5
"""How often a task is given to the cluster before it is given up."""

_NEW_WORKER = 300
"""Seconds that a cluster has to bring up a worker, after all have died."""

_LARGE = 2**20
"""Bytes from which on the state of a part goes to a worker directly, not with the description of the task."""


@dataclass(frozen=True, eq=False)
class Task:
    """A function of `part_tasks`, the part that it is about, and its other arguments."""

    part: int
    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()


class Runner:
    """Runs tasks that do not wait for each other: in this process, one after the other."""

    def __init__(self, specs: list[bytes], labels: list[Any]) -> None:
        self._specs, self._labels = specs, labels  # packed parts, and what they are called

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """The results, in the order of the tasks."""
        return [self._checked(run_packed(self._specs[own.part], own.function, *own.arguments), own) for own in tasks]

    def _checked(self, result: Any, task: Task) -> Any:
        if isinstance(result, Failed):
            result.error.add_note(f"This is about the part {printable(str(self._labels[task.part]))!r}.")
            raise result.error
        return result


class OnDask(Runner):
    """On a Dask cluster, to which each part is sent once, and anew if the workers that had it have died."""

    def __init__(self, specs: list[bytes], labels: list[Any], client: Any) -> None:
        super().__init__(specs, labels)
        self._client = client
        self._sent: dict[int, Any] = {}

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """The results, in the order of the tasks."""
        results: dict[int, Any] = {}
        left = list(range(len(tasks)))
        for attempt in range(_TRIES):
            if attempt:
                self._client.wait_for_workers(1, timeout=_NEW_WORKER)
            futures: dict[int, Any] = {}
            lost: list[Exception] = []
            try:
                for i in left:
                    with self._surviving(tasks[i].part, lost):
                        futures[i] = self._submitted(tasks[i])
                for i, future in futures.items():
                    with self._surviving(tasks[i].part, lost):
                        results[i] = future.result()
            finally:  # also after Ctrl-C: workers drop what has not begun
                for future in futures.values():
                    future.release()
            left = [i for i in left if i not in results]
            if not left:
                return [self._checked(results[i], own) for i, own in enumerate(tasks)]
        label = printable(str(self._labels[tasks[left[0]].part]))
        raise RuntimeError(
            f"the cluster lost the work for the part {label!r} {_TRIES} times: its workers die (of memory, perhaps)"
        ) from lost[-1]

    @contextmanager
    def _surviving(self, part: int, lost: list[Exception]) -> Iterator[None]:
        """Note what a worker that died took along: the task, or what was sent for it."""
        try:
            yield
        except Exception as error:
            lost.append(error)
            self._sent.pop(part, None)

    def _submitted(self, task: Task) -> Any:
        sent = self._sent.get(task.part)
        if sent is None or sent.status != "finished":
            sent = self._sent[task.part] = self._client.scatter(self._specs[task.part], hash=False)
        arguments = tuple(
            self._client.scatter(own, hash=False) if isinstance(own, bytes) and len(own) > _LARGE else own
            for own in task.arguments
        )
        return self._client.submit(run_packed, sent, task.function, *arguments, pure=False, retries=0)


@contextmanager
def running(client: Any, specs: list[bytes], labels: list[Any]) -> Iterator[Runner]:
    """The runner, with a client of its own where an address is given."""
    # `client`: None runs everything in this process.
    if client is None:
        yield Runner(specs, labels)
        return
    try:
        import distributed
    except ImportError as error:
        raise ImportError("a Dask cluster needs the package distributed: pip install 'bayesdp[cluster]'") from error
    if not isinstance(client, str):
        yield OnDask(specs, labels, client)
        return
    with distributed.Client(client) as own:
        yield OnDask(specs, labels, own)


_START, _TASK, _DRIVER = range(3)
"""First number of the place of a seed: starts of chains, tasks, and the driver's own draws."""


@dataclass(frozen=True, eq=False)
class Driver:
    """A run whose arguments are all valid."""

    runner: Runner
    parts: int
    noisy: list[NoisyAbove]
    plan: Plan
    draws_per_round: int  # that a part makes on its own in a phase
    parts_per_round: int  # parts of a chain that move at a time
    axis: int  # the dimension of the parts in the tables of `queries`
    queries: dict[str, Query]  # what is recorded of parts by cells
    entropy: int  # the seed
    journal: RunJournal | None  # where the run is saved after every `save_every` phases
    save_every: int

    @property
    def tuning(self) -> int:
        """Phases of the tuning."""
        return -(-self.plan.tune // (self.draws_per_round * self.plan.thin))

    @property
    def phases(self) -> int:
        """Phases in all."""
        return self.tuning + self.plan.draws // self.draws_per_round

    def begun(self) -> RunState:
        """The starts of all chains."""
        tasks = [
            Task(k, part_tasks.begin, (c, (self.entropy, (_START, c, k))))
            for c in range(self.plan.chains)
            for k in range(self.parts)
        ]
        moved = self.runner.run(tasks)
        rows = [moved[c * self.parts : (c + 1) * self.parts] for c in range(self.plan.chains)]
        return RunState(
            0,
            [[own.state for own in row] for row in rows],
            np.stack([[own.table for own in row] for row in rows]),
            [[{} for _ in row] for row in rows],
            [{} for _ in rows],
        )

    def run(self, state: RunState, told: Callable[[int, int], None] | None) -> None:
        """All phases that are left."""
        while state.phase < self.phases:
            self._phase(state)
            with deferred():
                state.phase += 1
                if self.journal is not None and (state.phase % self.save_every == 0 or state.phase == self.phases):
                    self._save(self.journal, state)
            if told is not None:
                told(state.phase, self.phases)

    def _save(self, journal: RunJournal, state: RunState) -> None:
        """Write all states; the file is whole at any moment."""
        arrays: Records = {"phase": np.array(state.phase), "tables": state.tables}
        for c, states in enumerate(state.states):
            for k, packed in enumerate(states):
                arrays[f"state {c} {k}"] = np.frombuffer(packed, dtype=np.uint8)
                arrays |= {f"record {c} {k} {name}": own for name, own in state.records[c][k].items()}
            arrays |= {f"top {c} {name}": own for name, own in state.tops[c].items()}
        journal.write(NAME, arrays)

    def saved(self, journal: RunJournal) -> RunState | None:
        """The states in the journal, checked, those of parts by the workers; None if there are none."""
        arrays = journal.read(NAME)
        if arrays is None:
            return None
        file, chains, parts = journal.path / NAME, range(self.plan.chains), range(self.parts)
        with journals.readable(file):
            found = RunState(
                int(arrays["phase"]),
                [[arrays.pop(f"state {c} {k}").tobytes() for k in parts] for c in chains],
                arrays["tables"],
                [[{} for _ in parts] for _ in chains],
                [journals.group(arrays, f"top {c} ") for c in chains],
            )
            for name in arrays:
                if name.startswith("record "):
                    _, chain, part, recorded = name.split(" ", 3)
                    found.records[int(chain)][int(part)][recorded] = arrays[name]
            journals.require(0 < found.phase <= self.phases, "no such phase is in the run")
            drawn, rows = found.phase - self.tuning, self.phases - self.tuning
            sizes = {name: (query.rows,) for name, query in self.queries.items()}
            sizes |= {f"{SUMS}{own.name}": own.rows.shape for own in self.noisy}
            expected = {name: np.zeros((rows, *size), dtype=np.int64) for name, size in sizes.items() if drawn > 0}
            for top in found.tops:
                journals.check_like(top, expected)
        draws, places = max(drawn, 0) * self.draws_per_round, [(c, k) for c in chains for k in parts]
        sums = self.runner.run(
            [Task(k, part_tasks.check, (str(file), found.states[c][k], found.records[c][k], draws)) for c, k in places]
        )
        tables = np.reshape(sums, (len(chains), len(parts), -1))
        with journals.readable(file):
            journals.require(np.array_equal(found.tables, tables), "sums of parts are others")
        found.tables = tables
        return found

    def _phase(self, state: RunState) -> None:
        """Every part of every chain moves once, `parts_per_round` of them at a time, in an order that is drawn at random."""
        chains, phase = range(self.plan.chains), state.phase
        first = (phase - self.tuning) * self.draws_per_round
        rngs = [np.random.default_rng(self._seed(_DRIVER, c, phase)) for c in chains]
        orders = [rng.permutation(self.parts) for rng in rngs]
        for start in range(0, self.parts, self.parts_per_round):
            moving = [order[start : start + self.parts_per_round] for order in orders]
            tasks, places = [], []
            for c in chains:
                given = split_noise(self.noisy, state.tables[c], moving[c], rngs[c])
                for k, (values, scales) in zip(moving[c].tolist(), given, strict=True):
                    seed = (self.entropy, (_TASK, c, k, phase))
                    arguments = (state.states[c][k], seed, values, scales, self.draws_per_round, first)
                    tasks.append(Task(k, part_tasks.move, arguments))
                    places.append((c, k))
            for (c, k), moved in zip(places, self.runner.run(tasks), strict=True):
                state.states[c][k] = moved.state
                state.tables[c, k] = moved.table
                self._add(state.records[c][k], moved.records, max(first, 0), self.plan.draws)
        if first >= 0:
            for c in chains:
                table = self._in_frame(state.tables[c])
                answers = {name: query.apply(table).reshape(1, -1) for name, query in self.queries.items()}
                answers |= {f"{SUMS}{own.name}": own.part_sums(state.tables[c])[None] for own in self.noisy}
                self._add(state.tops[c], answers, phase - self.tuning, self.phases - self.tuning)

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
        found = self.runner.run([Task(k, part_tasks.unseen) for k in range(self.parts)])
        # Random factors: equal parts have the same tables, whose differences would not move.
        mixed = np.stack(found, axis=1) * np.random.default_rng(0).standard_normal((3, self.parts, 1))
        tables = np.stack([self._in_frame(own).reshape(-1) for own in mixed])
        none = np.zeros(tables.shape[1], dtype=np.bool_)
        return {name: unmoved(query, tables, none) for name, query in self.queries.items()}

    def ended(self, state: RunState) -> list[dict[str, xr.Dataset]]:
        """The results of the parts."""
        chains = range(self.plan.chains)
        tasks = [
            Task(k, part_tasks.end, ([state.states[c][k] for c in chains], [state.records[c][k] for c in chains]))
            for k in range(self.parts)
        ]
        return self.runner.run(tasks)
