"""Where simulations run: in this process, in local processes, or on a Dask cluster.

Each runner takes a function of a number and the numbers, and yields a record for each as it ends, in any order. A number
whose function raised, or whose process died, yields a record that says so: ``{"number", "error"}``.
"""

from __future__ import annotations

import hashlib
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import cloudpickle

from bayesdp import _validate
from bayesdp._interrupts import (
    dispensable_caches,
    end_with_parent,
    helpers_outlive_hangup,
    leave_signals_to_the_main_process,
)

type Task = Callable[[int], Mapping[str, Any]]
type Runner = Callable[[Task, Iterable[int]], Iterator[dict[str, Any]]]

DIED = "its process died"
"""Error of a simulation that took its process down (memory, a crash, a kill)."""

_NEW_WORKER = 300
"""Seconds that a cluster has to bring up a worker, after all have died."""

_TASKS: dict[str, Task] = {}  # in a worker: unpacked tasks by hash, with the models that they have compiled


def _record(task: Task, number: int) -> dict[str, Any]:
    """Run a task; an exception becomes a record of its error."""
    try:
        with dispensable_caches():
            return dict(task(number))
    except Exception as error:
        return {"number": number, "error": f"{type(error).__name__}: {error}"}


def _run_packed(packed: bytes, number: int) -> dict[str, Any]:
    """In a worker: unpack the task once, then run it."""
    key = hashlib.sha256(packed).hexdigest()
    if key not in _TASKS:
        with dispensable_caches():
            _TASKS[key] = cloudpickle.loads(packed)
    return _record(_TASKS[key], number)


def serially(task: Task, numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Run in this process, in order.

    Examples
    --------
    >>> list(serially(lambda k: {"number": k, "half": 1 / k}, [2, 0]))
    [{'number': 2, 'half': 0.5}, {'number': 0, 'error': 'ZeroDivisionError: division by zero'}]
    """
    for number in numbers:
        yield _record(task, number)


def in_processes(workers: int) -> Runner:
    """Run in local processes."""
    # Each of the `workers` is a pool of its own with one process, so that a process that dies takes one simulation with it, and is
    # replaced.
    count = _validate.positive_integer(workers, "workers")

    def run(task: Task, numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
        packed = cloudpickle.dumps(task)
        helpers_outlive_hangup()
        # Not forked from here: this process may have threads (a notebook has), and compiled functions.
        context = multiprocessing.get_context("forkserver")
        pools = {slot: _pool(context) for slot in range(count)}
        left = iter(numbers)
        busy: dict[Future[dict[str, Any]], tuple[int, int]] = {}

        def start(slot: int) -> None:
            number = next(left, None)
            if number is not None:
                busy[pools[slot].submit(_run_packed, packed, number)] = (slot, number)

        try:
            for slot in pools:
                start(slot)
            while busy:
                for future in wait(busy, return_when=FIRST_COMPLETED).done:
                    slot, number = busy.pop(future)
                    try:
                        record = future.result()
                    except BrokenProcessPool:
                        pools[slot].shutdown(wait=False)
                        pools[slot] = _pool(context)
                        record = {"number": number, "error": DIED, "again": True}
                    start(slot)
                    yield record
        finally:
            for pool in pools.values():
                for process in list((pool._processes or {}).values()):
                    process.terminate()
                pool.shutdown(wait=False, cancel_futures=True)

    return run


def _pool(context: Any) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(max_workers=1, mp_context=context, initializer=_begin_worker)


def _begin_worker() -> None:
    """Leave signals to the driver (a terminal sends Ctrl-C to workers as well), and end with it."""
    leave_signals_to_the_main_process()
    end_with_parent()


def on_dask(client: Any) -> Runner:
    """Run on a Dask cluster."""
    # `client`: a client, or the address of a scheduler. Workers need this library in the same version; simulations of one worker
    # process take turns.
    try:
        import distributed
    except ImportError as error:
        raise ImportError("a Dask cluster needs the package distributed: pip install 'bayesdp[cluster]'") from error

    def run(task: Task, numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
        made_here = isinstance(client, str)
        used = distributed.Client(client) if made_here else client
        try:
            packed, lost = cloudpickle.dumps(task), []
            for number, record in _on_workers(used, packed, numbers):
                if record is None:
                    lost.append(number)
                else:
                    yield record
            for number in lost:  # one at a time: a worker that dies now was killed by this one
                [(_, again)] = _on_workers(used, packed, [number])
                yield {"number": number, "error": DIED, "again": True} if again is None else again
        finally:
            if made_here:
                used.close()

    return run


def _on_workers(client: Any, packed: bytes, numbers: Iterable[int]) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Numbers and records as they come; None where the result was lost because a worker died, whatever killed it."""
    # The task is kept on the workers, and given to them anew if all that had it have died. A few simulations a worker are under way
    # at a time, so that few results are lost with one. Whatever ends this, workers are told to drop what has not begun.
    import distributed

    left = iter(numbers)
    kept: Any = None
    futures: dict[Any, int] = {}
    running = distributed.as_completed()

    def start() -> None:
        nonlocal kept
        number = next(left, None)
        if number is None:
            return
        if kept is None or kept.status != "finished":
            client.wait_for_workers(1, timeout=_NEW_WORKER)
            kept = client.scatter(packed, broadcast=True, hash=False)
        future = client.submit(_run_packed, kept, number, pure=False, retries=0)
        futures[future] = number
        running.add(future)

    try:
        for _ in range(2 * max(sum(client.ncores().values()), 1)):
            start()
        record: dict[str, Any] | None
        for future in running:
            number = futures.pop(future)
            try:
                record = future.result()
            except distributed.KilledWorker:  # the scheduler has tried it on several workers, and all of them died
                record = {"number": number, "error": DIED, "again": True}
            except Exception:  # its result, or the task, was on a worker that died
                record = None
            future.release()
            start()
            yield number, record
    finally:  # at Ctrl-C a traceback may hold all of this, and with it the simulations on the workers
        for future in (*futures, *(() if kept is None else (kept,))):
            future.release()
