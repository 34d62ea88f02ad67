"""The driver of a run: which chains move when, given what the parts add up to; where that is done; and what is saved of it.

Work goes to threads of this process, or to any executor: processes, a Dask cluster. Tasks give the same result when they are made
again, so that a worker that dies costs what it was working on.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import cloudpickle
import numpy as np
import numpy.typing as npt

from bayesdp._arrays import Ints, Mask
from bayesdp._interrupts import deferred
from bayesdp._numba import dispensable_caches
from bayesdp._text import printable
from bayesdp.inference.runs.running import dask_executor
from bayesdp.measurements.consistency import unmoved
from bayesdp.queries import Query
from bayesdp.storage import journal as journals
from bayesdp.streaming.above import SUMS, NoisyAbove, split_noise
from bayesdp.streaming.chains import Chain, Job, Moved, advance, check_like
from bayesdp.streaming.part import PartContext, PartSpec, Plan, Watch
from bayesdp.streaming.result import unseen

type Records = dict[str, npt.NDArray[Any]]

ABOVE = "above.npz"
"""The file of what is recorded above the parts, and of how many rounds are done."""

_TRIES = 10
"""How often a task is begun before it is given up."""

_SECONDS = 0.2
"""How often progress is looked at."""

_MOST_CONTEXTS = 256
"""Parts whose structure a process keeps at most."""

_log = logging.getLogger(__name__)

_CONTEXTS: dict[str, PartContext] = {}  # in a worker, by the digests of packed parts


@dataclass(frozen=True)
class Failed:
    """What a task gives back when it raised an error, so that this can be told from a worker that died."""

    error: Exception


def run_here(context: PartContext, function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a task."""
    try:
        with dispensable_caches():
            return function(context, *arguments)
    except Exception as error:
        return Failed(error)


def run_packed(key: str, packed: bytes | None, function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a task in a worker, which unpacks a part once; None where it has not come to this worker yet."""
    context = _CONTEXTS.get(key)
    if context is None:
        if packed is None:
            return None
        while len(_CONTEXTS) >= _MOST_CONTEXTS:
            _CONTEXTS.pop(next(iter(_CONTEXTS)), None)
        context = _CONTEXTS[key] = PartContext(cloudpickle.loads(packed))
    return run_here(context, function, *arguments)


@dataclass(frozen=True, eq=False)
class Task:
    """A function of a part's context, the part, and its other arguments."""

    part: int
    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()


class Runner:
    """Runs tasks that do not wait for each other, in threads of this process or wherever an executor has them."""

    def __init__(
        self, parts: Sequence[PartSpec | PartContext], labels: Sequence[Any], executor: Executor | None, cores: int
    ) -> None:
        self.watch = Watch()
        self._labels = labels
        self._contexts: list[PartContext] = []
        self._packed: list[tuple[str, bytes]] = []
        self._ours = executor is None
        self._pool = ThreadPoolExecutor(cores, "bayesdp chain") if executor is None else executor
        for part in parts:
            if executor is None:
                self._contexts.append(part if isinstance(part, PartContext) else PartContext(part))
                self._contexts[-1].watch = self.watch
            else:
                packed = cloudpickle.dumps(part)
                self._packed.append((hashlib.sha256(packed).hexdigest(), packed))

    def run(self, tasks: Sequence[Task], told: Callable[[], None] | None = None) -> list[Any]:
        """The results, in the order of the tasks; `told` is called now and then."""
        results: list[Any] = [None] * len(tasks)
        tries = [0] * len(tasks)
        futures = {self._submitted(task): i for i, task in enumerate(tasks)}
        try:
            while futures:
                for future in sorted(wait(futures, _SECONDS, FIRST_COMPLETED).done, key=futures.__getitem__):
                    i = futures.pop(future)
                    try:
                        result = future.result()
                    except Exception as error:  # its worker has died
                        tries[i] += 1
                        if tries[i] == _TRIES:
                            lost = f"the work for the part {self._label(tasks[i])} was lost {_TRIES} times"
                            raise RuntimeError(f"{lost}: its workers die (of memory, perhaps)") from error
                        result = None
                    if result is None:
                        futures[self._submitted(tasks[i], anew=True)] = i
                    elif isinstance(result, Failed):
                        if self._labels:
                            result.error.add_note(f"This is about the part {self._label(tasks[i])}.")
                        raise result.error
                    else:
                        results[i] = result
                if told is not None:
                    told()
        except BaseException:  # an interrupt, too: chains end after the sweep that they make
            self.watch.stopped = True
            raise
        finally:
            for future in futures:
                future.cancel()
        return results

    def _label(self, task: Task) -> str:
        return repr(printable(str(self._labels[task.part])))

    def _submitted(self, task: Task, *, anew: bool = False) -> Future[Any]:
        """Begin a task; to a worker that lacks the part it is sent along."""
        if self._contexts:
            return self._pool.submit(run_here, self._contexts[task.part], task.function, *task.arguments)
        key, packed = self._packed[task.part]
        call = (run_packed, key, packed if anew else None, task.function, *task.arguments)
        try:
            return self._pool.submit(*call)
        except BrokenProcessPool:  # one of its processes has died, and it takes no more
            old = cast(Any, self._pool)
            self.close()
            self._pool = ProcessPoolExecutor(old._max_workers, old._mp_context, old._initializer, old._initargs)
            self._ours = True
            return self._pool.submit(*call)
        except Exception as error:
            lost: Future[Any] = Future()
            lost.set_exception(error)
            return lost

    def close(self) -> None:
        """End threads and processes that were made here."""
        if self._ours:
            self._pool.shutdown(cancel_futures=True)


@contextmanager
def running(client: Any, specs: Sequence[PartSpec], labels: Sequence[Any], cores: int) -> Iterator[Runner]:
    """The runner: on an executor, on a Dask cluster by its client or address, or in threads."""
    if client is None or isinstance(client, Executor):
        with closing(Runner(specs, labels, client, cores)) as runner:
            yield runner
        return
    with dask_executor(client) as (_, executor):
        yield Runner(specs, labels, executor, cores)


@dataclass(eq=False)
class Driver:
    """A run whose arguments are all valid; `run` makes all rounds that are left."""

    runner: Runner
    plan: Plan
    rngs: list[list[np.random.Generator]]  # for the starts, chain by chain, part by part
    ends: list[int]  # of each round: the sweeps of the tuning and draws of a chain that are done then
    told: Callable[[int, int], None] | None = None  # called with how many are done in all chains, and of how many
    folder: Path | None = None  # where states are
    # A folder for plausible tables, and which draws of each chain these are.
    tables: tuple[Path, list[Ints]] | None = None
    noisy: list[NoisyAbove] = field(default_factory=list)
    parts_per_round: int = 1  # parts of a chain that move at a time
    entropy: int = 0  # the seed of what is drawn here
    axis: int = 0  # the dimension of the parts in the tables of `queries`
    queries: dict[str, Query] = field(default_factory=dict)  # what is recorded of parts by cells

    def __post_init__(self) -> None:
        self.parts = len(self.rngs[0])
        self.round = 0
        self.states: list[list[Path | Chain | None]] = [[None] * self.parts for _ in self.rngs]
        self.sums = np.zeros((len(self.rngs), self.parts, 0), dtype=np.int64)  # over the leaves of each part, by cells
        # What is recorded above the parts: a row for each round of draws.
        self.tops: list[Records] = [{} for _ in self.rngs]

    def resume(self) -> None:
        """Go on with what is in the folder, all of it checked, if there is anything."""
        if self.folder is None or not (self.folder / ABOVE).exists():
            return
        file = self.folder / ABOVE
        arrays = journals.read_arrays(file)
        with journals.readable(file):
            done = int(arrays["round"])
            journals.require(0 < done <= len(self.ends), "no such round is in the run")
            self.tops = [journals.group(arrays, f"{c} ") for c in range(len(self.rngs))]
            for top in self.tops:
                check_like(top, self._no_records() if self.ends[done - 1] > self.plan.tune else {})
        self.round = done - 1
        places = [(c, k) for c in range(len(self.rngs)) for k in range(self.parts)]
        self._take(places, self.runner.run([self._task(place) for place in places], self._tell))
        self.round = done

    def run(self, rounds: int | None = None) -> None:
        """So many rounds, or all that are left; it may be stopped, and then chains have fewer draws."""
        for _ in range(len(self.ends) - self.round if rounds is None else rounds):
            self._round()
            if self.runner.watch.stopped:
                return
            with deferred():
                self.round += 1
                self._save()

    def _file(self, place: tuple[int, int], number: int) -> Path | None:
        return None if self.folder is None else self.folder / f"chain-{place[0]}-part-{place[1]}-{number}.npz"

    def _save(self) -> None:
        """Write what was recorded above the parts; the states of the round before are not needed from then on."""
        if self.folder is None:
            return
        saver = journals.Saver(self.folder / ABOVE)
        tops = {f"{c} {name}": array for c, top in enumerate(self.tops) for name, array in top.items()}
        if not saver.write({"round": np.array(self.round), **tops}):
            self._trouble(saver.trouble)
            return
        for c in range(len(self.rngs)):
            for k in range(self.parts):
                file = self._file((c, k), self.round - 2)
                if file is not None:
                    file.unlink(missing_ok=True)

    def _trouble(self, what: str) -> None:
        """Tell that the disk takes no more; states stay in memory from then on, and what is there stays as it is."""
        if self.folder is not None:
            limit = "Sampling goes on; it cannot be resumed from later than what was written before"
            _log.warning("%s: %s. %s", self.folder, what, limit)
        self.folder = None

    def _task(self, place: tuple[int, int], values: Sequence[Any] = (), scales: Sequence[Any] = ()) -> Task:
        """What a chain of a part does in this round."""
        c, k = place
        tables = None if self.tables is None else (self.tables[0], self.tables[1][c])
        job = Job(
            place, self.rngs[c][k], self.round == 0, self.states[c][k], self._file(place, self.round), self.ends[self.round],
            values, scales, tables,
        )  # fmt: skip
        return Task(k, advance, (job,))

    def _round(self) -> None:
        """Every part of every chain moves once, in the first one all, then some of them at a time, in a random order."""
        chains, first = range(len(self.rngs)), not self.sums.shape[2]
        seeds = [np.random.SeedSequence(self.entropy, spawn_key=(c, self.round)) for c in chains]
        rngs = [np.random.default_rng(seed) for seed in seeds]
        orders = [np.arange(self.parts) if first else rng.permutation(self.parts) for rng in rngs]
        size = self.parts if first else self.parts_per_round
        for start in range(0, self.parts, size):
            places, tasks = [], []
            for c in chains:
                moving = orders[c][start : start + size]
                given = [((), ())] * len(moving) if first else split_noise(self.noisy, self.sums[c], moving, rngs[c])
                for k, (values, scales) in zip(moving.tolist(), given, strict=True):
                    places.append((c, k))
                    tasks.append(self._task((c, k), values, scales))
            self._take(places, self.runner.run(tasks, self._tell))
        drawn = self.ends[self.round] - self.plan.tune
        if drawn > 0 and (self.queries or self.noisy):
            row = self.round - sum(end <= self.plan.tune for end in self.ends)
            for c in chains:
                top = self.tops[c] = self.tops[c] or self._no_records()
                table = self._in_frame(self.sums[c])
                for name, query in self.queries.items():
                    top[name][row] = query.apply(table).reshape(-1)
                for noisy in self.noisy:
                    top[f"{SUMS}{noisy.name}"][row] = noisy.part_sums(self.sums[c])

    def _take(self, places: Sequence[tuple[int, int]], found: Sequence[Moved]) -> None:
        """Take over what tasks gave."""
        if not self.sums.shape[2]:
            self.sums = np.zeros((*self.sums.shape[:2], len(found[0].sums)), dtype=np.int64)
        for (c, k), moved in zip(places, found, strict=True):
            self.states[c][k], self.sums[c, k] = moved.state, moved.sums
            self.runner.watch.done[c, k] = moved.done
            if moved.trouble:
                self._trouble(moved.trouble)

    def _tell(self) -> None:
        if self.told is not None:
            total = len(self.rngs) * self.parts * (self.plan.tune + self.plan.draws)
            self.told(sum(list(self.runner.watch.done.values())), total)

    def _no_records(self) -> Records:
        """Room for what is recorded above the parts of a chain."""
        rows = sum(end > self.plan.tune for end in self.ends)
        sizes = {name: (query.rows,) for name, query in self.queries.items()}
        sizes |= {f"{SUMS}{noisy.name}": noisy.rows.shape for noisy in self.noisy}
        return {name: np.zeros((rows, *size), dtype=np.int64) for name, size in sizes.items()}

    def _in_frame(self, tables: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Parts by cells in the order of the frame of the queries above."""
        if not self.queries:
            return tables
        shape = next(iter(self.queries.values())).frame.shape
        rest = tuple(n for axis, n in enumerate(shape) if axis != self.axis)
        return np.moveaxis(tables.reshape(len(tables), *rest), 0, self.axis)

    def determined(self) -> dict[str, Mask]:
        """Which answers of the queries above have one possible value by what is exact of each part, and so of all of them."""
        if not self.queries:
            return {}
        found = self.runner.run([Task(k, unseen) for k in range(self.parts)])
        # Random factors: equal parts have the same tables, whose differences would not move.
        mixed = np.stack(found, axis=1) * np.random.default_rng(0).standard_normal((3, self.parts, 1))
        tables = np.stack([self._in_frame(table).reshape(-1) for table in mixed])
        none = np.zeros(tables.shape[1], dtype=np.bool_)
        return {name: unmoved(query, tables, none) for name, query in self.queries.items()}

    def results(self, function: Callable[..., Any]) -> list[Any]:
        """What a function makes of the states of all chains, part by part."""
        states = [[chain[k] for chain in self.states] for k in range(self.parts)]
        self.states = [[None] * self.parts for _ in self.rngs]  # most of the memory of a run, if they are not in files
        return self.runner.run([Task(k, function, (state,)) for k, state in enumerate(states)])
