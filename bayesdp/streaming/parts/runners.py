"""Where tasks run: in this process, or on a Dask cluster. Tasks are pure, so that those of a worker that dies are made again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from bayesdp._text import printable
from bayesdp.streaming.parts.work import Failed, run_packed

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
