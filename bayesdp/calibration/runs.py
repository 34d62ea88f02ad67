"""Where simulations run, how far they are, and where their results are kept.

A runner takes a function of a number and the numbers, and yields a record for each as it ends, in any order: in this process, in
local processes, or on a Dask cluster. A number whose function raised, or whose process died, yields a record that says so:
``{"number", "error"}``. A journal has one line of JSON for each record, so that a run that was stopped goes on where it was. It is the
result of a study, which users read and add up, and not the state of a run: so it is a file of lines and not a folder of arrays, with
the lock, the comparison of runs and the errors of `bayesdp.storage.journal`.
"""

from __future__ import annotations

import hashlib
import json
import math
import multiprocessing
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Never

import cloudpickle

from bayesdp import _text, _validate
from bayesdp._interrupts import (
    end_with_parent,
    helpers_outlive_hangup,
    leave_signals_to_the_main_process,
)
from bayesdp._numba import dispensable_caches
from bayesdp._validate import shown
from bayesdp.inference.runs.running import ProgressLines, dask_executor
from bayesdp.storage.journal import difference, locked

type Task = Callable[[int], Mapping[str, Any]]
type Runner = Callable[[Task, Iterable[int]], Iterator[dict[str, Any]]]

DIED = "its process died"
"""Error of a simulation that took its process down (memory, a crash, a kill)."""

_TASKS: dict[str, Task] = {}  # in a worker: unpacked tasks by hash, with the models that they have compiled


def _record(task: Task, number: int) -> dict[str, Any]:
    """Run a task; an exception becomes a record of its error."""
    try:
        with dispensable_caches():
            return dict(task(number))
    except Exception as error:
        return {"number": number, "error": f"{type(error).__name__}: {error}"}


def _run_packed(key: str, packed: bytes | None, number: int) -> dict[str, Any] | None:
    """In a worker: run a task, which is unpacked once; None where it has not come to this worker yet."""
    if packed is None and key not in _TASKS:
        return None

    def task(number: int) -> Mapping[str, Any]:
        if packed is not None and key not in _TASKS:
            _TASKS[key] = cloudpickle.loads(packed)
        return _TASKS[key](number)

    return _record(task, number)


def serially(task: Task, numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Run in this process, in order."""
    for number in numbers:
        yield _record(task, number)


def _over(
    places: list[Executor], task: Task, numbers: Iterable[int], renewed: Callable[[Executor], Executor]
) -> Iterator[dict[str, Any]]:
    """Run one number at a time in each place; where its worker dies it has a record that says so, and the place is renewed."""
    packed, left = cloudpickle.dumps(task), iter(numbers)
    key = hashlib.sha256(packed).hexdigest()
    busy: dict[Future[dict[str, Any] | None], tuple[int, int]] = {}

    def start(place: int, number: int | None, sent: bytes | None = None) -> None:
        if number is not None:
            busy[places[place].submit(_run_packed, key, sent, number)] = place, number

    for place in range(len(places)):
        start(place, next(left, None), packed)
    while busy:
        for future in wait(busy, return_when=FIRST_COMPLETED).done:
            place, number = busy.pop(future)
            try:
                record = future.result()
            except Exception:
                record = {"number": number, "error": DIED, "again": True}
                places[place] = renewed(places[place])
            if record is None:
                start(place, number, packed)
            else:
                start(place, next(left, None))
                yield record


def in_processes(workers: int) -> Runner:
    """Run in local processes."""
    # Each of the `workers` is a pool of its own with one process, so that a process that dies takes one simulation with it.

    def run(task: Task, numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
        helpers_outlive_hangup()
        # Not forked from here: this process may have threads (a notebook has), and compiled functions.
        context = multiprocessing.get_context("forkserver")

        def pool(broken: Executor | None = None) -> Executor:
            if broken is not None:
                broken.shutdown(wait=False)
            return ProcessPoolExecutor(max_workers=1, mp_context=context, initializer=_begin_worker)

        pools = [pool() for _ in range(workers)]
        try:
            yield from _over(pools, task, numbers, pool)
        finally:
            for own in pools:
                for process in list((getattr(own, "_processes", None) or {}).values()):
                    process.terminate()
                own.shutdown(wait=False, cancel_futures=True)

    return run


def _begin_worker() -> None:
    """Leave signals to the driver (a terminal sends Ctrl-C to workers as well), and end with it."""
    leave_signals_to_the_main_process()
    end_with_parent()


def on_dask(client: Any) -> Runner:
    """Run on a Dask cluster, by its client or the address of its scheduler; workers need this library in the same version."""

    def run(task: Task, numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
        with dask_executor(client) as (used, executor):
            # A few simulations a worker are under way at a time, so that few results are lost with one.
            yield from _over([executor] * (2 * max(sum(used.ncores().values()), 1)), task, numbers, lambda own: own)

    return run


_FORMAT = "bayesdp-calibration-1"

type Check = Callable[[Any], bool]
"""Whether a value is what an entry of a record may hold."""


def text(value: Any) -> bool:
    """Text of at least one character."""
    return isinstance(value, str) and bool(value)


def count(value: Any) -> bool:
    """A whole number that is not negative, of a size that arrays can hold."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def number(value: Any) -> bool:
    """Any real number; NaN and infinity are results, too."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def rank(value: Any) -> bool:
    """A rank between 0 and 1."""
    return number(value) and 0.0 <= value <= 1.0


def unit(value: Any) -> bool:
    """A share between 0 and 1, or NaN where there is none."""
    return number(value) and (math.isnan(value) or 0.0 <= value <= 1.0)


def numbers(length: int) -> Check:
    """A list of numbers of this length."""
    return lambda value: isinstance(value, list) and len(value) == length and all(map(number, value))


def by_name(check: Check) -> Check:
    """A mapping from names, at least one, to values that pass a check."""
    return lambda value: isinstance(value, dict) and bool(value) and all(map(check, value.values()))


@dataclass
class Journal:
    """A file of records, one for each simulation that has ended, well or badly; kept in memory only without a `path`.

    The first line says what the run is: `about`, plain data that must be the same when it goes on. What a killed process or a power
    cut can leave is a torn last line, half written or filled with zero bytes: it is dropped when the file is read again. Anything
    else that is not a record of this run is refused. `entries`: what a record of a simulation that ended well has beside its
    ``number``, and what each may hold. One that ended badly has an ``error``, and ``again`` if it is to be tried again.
    """

    path: str | os.PathLike[str] | None
    about: Mapping[str, Any]
    entries: Mapping[str, Check] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.records: dict[int, dict[str, Any]] = {}
        if self.path is None:
            return
        path = self.path = Path(self.path)
        if path.exists() and not path.is_file():
            raise ValueError(f"{str(path)!r} is no file that could be read and added to: name another one")
        # One open file: to close any other of this file would give up the lock.
        self._opened = locked(path)
        weakref.finalize(self, self._opened.close)
        try:
            self._begin({"format": _FORMAT, **self.about})
        except BaseException:
            self.close()
            raise

    def _begin(self, head: Mapping[str, Any]) -> None:
        content, first = self._opened.read(), _line(head)
        begun = content.rstrip(b"\0")
        if len(begun) < len(first) and first.startswith(begun):  # nothing, or a torn part of our own first line
            self._check_before_beginning()
            self._opened.truncate(0)
            self._append(head)
            return
        whole = self._read(content, head)
        self._check_before_going_on()
        if whole < len(content):
            self._opened.truncate(whole)

    def close(self) -> None:
        """Let other processes write to the file, and nothing of this one any more."""
        if self.path is not None:
            self._opened.close()

    def _check_before_beginning(self) -> None:
        """Refuse here what is left of another run."""

    def _check_before_going_on(self) -> None:
        """Refuse here what else belongs to the run, while nothing has been changed."""

    def _read(self, content: bytes, head: Mapping[str, Any]) -> int:
        """Read the records; how many bytes of the file they take, without a torn line."""
        whole = content.split(b"\n")[:-1]
        if len(whole) > 1 and b"\0" in whole[-1]:  # a block of the last line never got to the disk
            whole = whole[:-1]
        try:
            found = _parsed(whole[0])
        except (IndexError, ValueError):
            found = None
        if not isinstance(found, dict) or found.get("format") != _FORMAT:
            raise ValueError(f"{str(self.path)!r} is not a file of this kind: name another one, or remove it")
        differs = difference(found, json.loads(json.dumps(head)))
        if differs:
            raise ValueError(f"{str(self.path)!r} is of another run: {differs}; name another file to start afresh")
        seen: dict[int, int] = {}
        for at, line in enumerate(whole[1:], start=2):
            record = self._record(line, at)
            if record.get("again", False):
                continue
            number = record["number"]
            if number in self.records and not self._same(self.records[number], record):
                self._refuse(at, f"it has another result of number {number} than line {seen[number]}")
            seen[number] = at
            self.records[number] = record
        return sum(len(line) + 1 for line in whole)

    def _refuse(self, line: int, why: str) -> Never:
        raise ValueError(
            f"{str(self.path)!r}, line {line}: {why}; the file is damaged: remove the line, or name another file"
        )

    def _record(self, line: bytes, at: int) -> dict[str, Any]:
        """Read a line as a record with exactly the entries of this run."""
        try:
            record = _parsed(line)
        except ValueError as error:
            self._refuse(at, str(error))
        if not isinstance(record, dict):
            self._refuse(at, f"a record must be an object, got {type(record).__name__}")
        failed = "error" in record
        needed: dict[str, Check] = {"number": count, **({"error": text} if failed else self.entries)}
        known: dict[str, Check] = {**needed, **({"again": lambda value: isinstance(value, bool)} if failed else {})}
        missing = sorted(set(needed) - set(record))
        unknown = sorted(set(record) - set(known)) if self.entries or failed else []
        if missing or unknown:
            self._refuse(at, f"the record has the wrong keys ({_text.both_lists(unknown=unknown, missing=missing)})")
        for key, value in record.items():
            if key in known and not known[key](value):
                self._refuse(at, f"{key} holds something else than it should, {repr(value)[:60]}")
        self._check_names(record, at)
        return record

    def _check_names(self, record: Mapping[str, Any], at: int) -> None:
        """Check that a record is about the same quantities as the first one."""
        first = next((earlier for earlier in self.records.values() if "error" not in earlier), None)
        if first is None or "error" in record:
            return
        for key in (key for key in self.entries if isinstance(record[key], dict)):
            mine, others = list(record[key]), list(first[key])
            if mine != others:
                odd = sorted(set(mine) ^ set(others)) or mine
                self._refuse(at, f"{key} has other names than in simulation {first['number']}: {shown(odd)}")

    def _same(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        """Whether one number may have both records: the first failed and was tried again, or both are equal but for the time."""
        return "error" in one or {**one, "seconds": 0} == {**other, "seconds": 0}

    def add(self, record: Mapping[str, Any]) -> None:
        """Keep a record, on disk first."""
        if self.path is not None:
            self._append(record)
        self.records[int(record["number"])] = dict(record)

    def _append(self, record: Mapping[str, Any]) -> None:
        line, file = _line(record), self._opened
        before = file.seek(0, os.SEEK_END)
        try:
            while line:
                line = line[file.write(line) :]
            os.fsync(file.fileno())
        except OSError as error:
            with suppress(OSError):
                file.truncate(before)  # no half line, to which the next one would be glued
            what = f"{error.strerror}; the records before are in the file, and the same run goes on from there"
            raise OSError(error.errno, what, str(self.path)) from error


def _line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record).encode() + b"\n"


def _parsed(line: bytes) -> Any:
    """A line as strict JSON, but with the infinities and NaN that results may hold."""
    try:
        written = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not text in UTF-8 ({error.reason} at byte {error.start})") from None
    return _text.loads(written, "the record", constants=True)


def followed(
    records: Iterable[dict[str, Any]], *, total: int, done: int, words: str, show: bool
) -> Iterator[dict[str, Any]]:
    """Pass records on, and say now and then how many have come, and how many of them failed; `done` came in an earlier run."""
    lines, failed = ProgressLines(words, "done"), 0
    for come, record in enumerate(records, done + 1):
        failed += "error" in record
        if show:
            lines(come, total, f", {failed} failed")
        yield record


def choose_runner(client: Any, workers: int) -> Runner:
    """The runner: a cluster if `client` is given, local processes if there are several workers, otherwise this process."""
    count = _validate.positive_integer(workers, "workers")
    if client is not None:
        if count > 1:
            raise ValueError("give either client, a cluster, or workers, local processes, not both")
        return on_dask(client)
    return in_processes(count) if count > 1 else serially


def run_all(
    task: Any, count: int, journal: Journal, client: Any, workers: int, words: str, progressbar: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Run the numbers below `count`, or go on with them; the records of those that ended well, and of the others, by number."""
    runner = choose_runner(client, workers)
    left = [number for number in range(count) if number not in journal.records]
    show = progressbar and bool(left)
    with closing(journal):  # each record is there before the next one is awaited
        for record in followed(runner(task, left), total=count, done=count - len(left), words=words, show=show):
            journal.add(record)
    records = [journal.records[number] for number in range(count) if number in journal.records]
    return [r for r in records if "error" not in r], [r for r in records if "error" in r]
