"""What others wrote is read in a child process, with limits of processor time and memory that follow from the file's size.

A few bytes of a file can stand for gigabytes, and one damaged address can send a library round in circles, or crash it. No
look at the bytes from outside tells that as well as reading does. So a file is read once, in a child process that the system holds to
its limits: what was read comes back from there, or one line that says why not and names the file.
"""

from __future__ import annotations

import faulthandler
import gc
import mmap
import os
import pickle
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Never

from bayesdp._text import printable

MAX_CELLS = 50_000_000
"""Largest number of values that one variable may declare, unless the reader raises it: 400 MB of float64."""

_FREE_CELLS = 1_000_000
"""Cells that a table may have however small its file is; one more is allowed for each two bytes."""

_MB = 2**20


def cell_limit(file_bytes: int, max_cells: int | None = None) -> int:
    """The largest number of cells of a table, of values of a variable and of answers of a query in a release."""
    return min(MAX_CELLS, _FREE_CELLS + file_bytes // 2) if max_cells is None else max_cells


def check_labels(dim: str, lengths: list[int]) -> None:
    """Refuse labels of such lengths that an array, in which all take the place of the longest, would be far larger than they are."""
    most = max(lengths, default=0)
    if len(lengths) * most > 10_000_000 + 10 * sum(lengths):
        raise ValueError(f"one of the {len(lengths)} labels of {printable(dim)!r} has {most} characters; shorten it")


@dataclass(frozen=True)
class Limits:
    """What the contents of a file may take, all together: bytes, seconds of one processor, and what to do if the file is right."""

    memory: int
    seconds: float
    advice: str = ""

    @classmethod
    def of_release(cls, file_bytes: int, max_cells: int | None = None) -> Limits:
        """24 MB and 8 times the size of the file, or as much as 4 variables of `max_cells` need."""
        # Nothing that bayesdp writes as a release takes more than 5 times its size when it is read: it is not compressed, and a
        # label of one letter takes 40 bytes in a file.
        memory = max(24 * _MB, 0 if max_cells is None else 32 * max_cells) + 8 * file_bytes
        return cls(memory, _seconds(file_bytes), "; if that is right, raise the limit with max_cells")

    @classmethod
    def of_draws(cls, file_bytes: int) -> Limits:
        """192 MB, and what deflate can pack into the file beyond its first MB."""
        # Draws and other people's tables are compressed, and those that are constant by a factor of up to 1032.
        memory = 192 * _MB + 1100 * max(0, file_bytes - _MB)
        return cls(memory, _seconds(file_bytes), "; if that is right, save it without compression")

    @classmethod
    def of_rows(cls, file_bytes: int) -> Limits:
        """128 MB and 64 times the size of the file: text, each field of which becomes an object, and packed rows of noisy numbers."""
        return cls(128 * _MB + 64 * file_bytes, _seconds(file_bytes), "; if that is right, cut it into several files")


def _seconds(file_bytes: int) -> float:
    """3 s, and 3 s for each MB beyond the first: a slow machine unpacks the gigabyte that a MB can be in that time."""
    return 3.0 + 3.0 * max(0, file_bytes - _MB) / _MB


_TROUBLE = (OSError, RuntimeError, LookupError, ValueError, TypeError, AttributeError, MemoryError, OverflowError)


@contextmanager
def damaged(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn whatever a reader stumbles over into a ValueError that names the file, or a place in it."""
    try:
        yield
    except FileNotFoundError:
        raise
    except _TROUBLE as error:
        raise ValueError(_line(path, str(error) or type(error).__name__)) from None


def _line(path: str | os.PathLike[str], message: str) -> str:
    told = " ".join(message.split())
    return printable(told if told.startswith(os.fspath(path)) else f"{os.fspath(path)}: {told}")


_LIBRARIES = 32 * _MB
"""Memory that libraries take besides the contents: caches and buffers."""

_SHORT = re.compile("memory|alloc", re.IGNORECASE)
"""How libraries say that they were given no more memory."""

_one_fork = threading.Lock()  # filelock, which PyTensor imports, refuses a fork while another thread is in one


def in_child[T](read: Callable[[], T], path: str | os.PathLike[str], limits: Limits) -> T:
    """What a function reads from a file, plain data and arrays, in a child process with limits; errors are ValueErrors naming it."""
    # The child is a fork, which takes some milliseconds. Threads do not exist in a fork, but what they have locked stays locked: so
    # `read` opens files with h5py, which waits for its own lock before a fork, or with Python, has imported before what it needs,
    # and leaves pools of threads alone, numba's parallel functions among them. Whatever waits for ever all the same is ended by the
    # clock. Processor time is limited wherever there are forks, memory (address space beyond that of this process) on Linux; on
    # Windows the function is called in this process.
    if not hasattr(os, "fork"):
        with damaged(path):
            return read()
    # Memory that both have, and not a pipe: other forks may hold the end of a pipe open, and it would have to be emptied. It takes
    # what is written only, and is no file: files may have a limit (ulimit -f).
    answer = _shared(limits.memory + _LIBRARIES, path)
    with _one_fork, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Python and of JAX, about threads: see above
        child = os.fork()
    if child == 0:
        _answer(read, path, limits, answer)
    number = _end_of(child)
    begin = int.from_bytes(answer[:8], "little")
    if not begin:
        raise ValueError(_line(path, _unanswered(number, limits)))
    answer.seek(begin)
    error, rest, places = pickle.load(answer)
    if error:
        raise ValueError(error)
    # Copies, of which later forks of this process have their own.
    found: T = pickle.loads(rest, buffers=[bytearray(memoryview(answer)[slice(*place)]) for place in places])
    return found


def _shared(size: int, path: str | os.PathLike[str]) -> mmap.mmap:
    """Memory that a child has as well; less than asked for where the system has no such addresses."""
    lazily = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)  # without a name in Python 3.12
    while size >= _MB:
        try:
            return mmap.mmap(-1, size, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | lazily)
        except (OSError, OverflowError):
            size //= 2
    raise ValueError(_line(path, "there is no memory to read it"))


def _end_of(child: int) -> int:
    """Wait for a child, and end it if that is interrupted; the signal that ended it, or 0."""
    try:
        status = os.waitpid(child, 0)[1]
    except ChildProcessError:  # another part of this process has waited for it
        return 0
    except BaseException:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def _unanswered(number: int, limits: Limits) -> str:
    if number == signal.SIGXCPU:
        return f"reading it takes more than {ceil(limits.seconds)} s of a processor, the most for a file of this size"
    if number == signal.SIGALRM:
        return f"reading it did not end within {_patience(limits):.0f} s"
    if number:
        return f"the file is damaged: reading it ends a process with {signal.Signals(number).name}"
    return _too_large(limits)


def _too_large(limits: Limits) -> str:
    return f"reading it takes more than {limits.memory} bytes, the most for a file of this size{limits.advice}"


def _patience(limits: Limits) -> float:
    """Seconds by the clock: disks far away are slow, and processors busy."""
    return 60.0 + 20.0 * limits.seconds


def _answer(read: Callable[[], object], path: str | os.PathLike[str], limits: Limits, answer: mmap.mmap) -> Never:
    """What the child does."""
    try:
        gc.disable()  # it would copy the memory of all objects, and end some that are not of this process
        faulthandler.disable()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in (1, 2):
            os.dup2(nowhere, standard)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # of Ctrl-C this process hears itself
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGXCPU):
            signal.signal(number, signal.SIG_DFL)
        _limit(limits)
        try:
            _write(answer, "", read())
        except Exception as error:
            # Errors of ours, ValueErrors, may quote the file.
            short = isinstance(error, MemoryError) or (not isinstance(error, ValueError) and _SHORT.search(str(error)))
            line = _line(path, _too_large(limits) if short else str(error)[:_LONGEST] or type(error).__name__)
            _write(answer, line, None)
    finally:
        os._exit(0)


def _write(answer: mmap.mmap, error: str, value: object) -> None:
    """Arrays as they are, each at a multiple of 64 bytes, the rest pickled, and last, at the front, where that begins."""
    arrays: list[pickle.PickleBuffer] = []
    rest, places, end = pickle.dumps(value, protocol=5, buffer_callback=arrays.append), [], 64
    for raw in (array.raw() for array in arrays):
        places.append((begin := -(-end // 64) * 64, end := begin + raw.nbytes))
        if end > len(answer):
            raise MemoryError("the answer is too large")
        answer[begin:end] = raw
    written = pickle.dumps((error, rest, places))
    if end + len(written) > len(answer):
        raise MemoryError("the answer is too large")
    answer[end : end + len(written)] = written
    answer[:8] = end.to_bytes(8, "little")


_LONGEST = 4000
"""Characters of the longest message."""


def _limit(limits: Limits) -> None:
    import resource  # there where forks are

    signal.setitimer(signal.ITIMER_REAL, _patience(limits))
    most = {resource.RLIMIT_CORE: 0, resource.RLIMIT_CPU: ceil(limits.seconds)}
    with suppress(OSError):  # Linux has it
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        most[resource.RLIMIT_AS] = pages * resource.getpagesize() + limits.memory + _LIBRARIES
    for what, amount in most.items():
        now, hard = resource.getrlimit(what)
        given = [size for size in (now, hard) if size != resource.RLIM_INFINITY]
        resource.setrlimit(what, (min([amount, *given]), hard))


def read_plain[T](read: Callable[[], T], path: str | os.PathLike[str]) -> T:
    """What a function reads from a text file, CSV or JSON: in a child where it has more than a MB."""
    # Text does not expand, and work that goes with its length is done at once for less.
    size = os.stat(path).st_size
    if size <= _MB:
        return read()
    return in_child(read, path, Limits.of_rows(size))
