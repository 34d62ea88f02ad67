"""The file of a journal of draws: locked for one process, growing at its end, and recognised by its beginning.

It begins with `MAGIC` and a record that says which run it is of; all that follows are records (`bayesdp.storage.records`).
"""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import Any, BinaryIO

from bayesdp.storage.records import Scanned, pack, record_bytes, scan, unpack

try:
    import fcntl
except ImportError:  # Windows: two runs that write to one journal are not noticed there
    fcntl = None  # type: ignore[assignment]

MAGIC = b"bayesdp-draws-1\n"
_RUN, RESUMED, DRAWS = b"RUN ", b"GOON", b"DRAW"
"""Tags of records: what the run is, that it went on, and some draws of a chain."""


class JournalFile:
    """An open journal, which no other process may write to meanwhile.

    Parameters
    ----------
    path : Path
        Created where it does not exist; its folder must exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO = locked(path)
        self._end = 0
        self._synced = time.monotonic()

    @property
    def descriptor(self) -> int:
        """Number of the open file."""
        return self._file.fileno()

    @property
    def closed(self) -> bool:
        """Whether nothing can be written any more."""
        return self._file.closed

    def read(self, most: int) -> tuple[dict[str, Any] | None, Scanned]:
        """What the run is, and the records of at most `most` bytes each; None for a file without even a beginning."""
        return _read(self._file, self.path, most)

    def start(self, run: dict[str, Any], entropy: int) -> None:
        """Empty the file, and write the beginning, on disk at once.

        Parameters
        ----------
        run : dict
            The description of the run.
        entropy : int
            Its seed, where it was given none.
        """
        self.cut(0)
        self.append(MAGIC + record_bytes(_RUN, 0, 0, 0, pack({"run": run, "entropy": entropy}, [])))
        os.fsync(self.descriptor)

    def cut(self, end: int) -> None:
        """Take away what follows a position."""
        self._file.truncate(end)
        self._end = end

    def append(self, content: bytes) -> None:
        """Write at the end; what was written of a record that could not be finished is taken away again."""
        view = memoryview(content)
        self._file.seek(self._end)
        try:
            while view:
                view = view[self._file.write(view) :]
        except BaseException:
            self._file.truncate(self._end)
            raise
        self._end += len(content)

    def sync_after(self, seconds: float) -> None:
        """Have the system put the file on disk, if it did not within the last seconds."""
        if time.monotonic() - self._synced >= seconds:
            os.fsync(self.descriptor)
            self._synced = time.monotonic()

    def close(self) -> None:
        """Close the file, which gives up the lock."""
        self._file.close()


def locked(path: Path) -> BinaryIO:
    """Open a file, new or old, for this process alone; errors as of `JournalFile`."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {str(path.parent)!r} does not exist; create it first")
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666), "r+b", buffering=0)
    try:
        if fcntl is not None:
            # Of the process, and not inherited by those of the chains, which may outlive it for a moment.
            fcntl.lockf(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:  # any other error: a file system without locks
        if error.errno in (errno.EACCES, errno.EAGAIN):
            file.close()
            raise BlockingIOError(
                f"{str(path)!r} is being written to by another process: wait for it, or end it"
            ) from None
    return file


def holds_draws(path: str | os.PathLike[str]) -> bool:
    """Whether there is a file of draws that is more than its beginning, sound or not.

    Raises
    ------
    ValueError
        If there is a file of another kind.
    """
    place = Path(path)
    if not os.path.lexists(place):
        return False
    with place.open("rb") as file:
        try:
            head, found = _read(file, place, 2**62, limit=2)  # draws come right after the beginning
        except _DamagedError:
            return True
    return head is not None and any(record.tag == DRAWS for record in found.records)


def remove_journal(path: str | os.PathLike[str]) -> bool:
    """Remove a file of draws; whether it had any.

    Raises
    ------
    ValueError
        If the file is of another kind: no file but a journal is removed.
    BlockingIOError
        If another process is writing to it.
    """
    if not os.path.lexists(path):
        return False
    held = holds_draws(path)
    with locked(Path(path)):
        Path(path).unlink()
    return held


class _DamagedError(ValueError):
    """The beginning of a file of draws cannot be read."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{str(path)!r} is damaged at its beginning: nothing can go on from it (--force begins anew)")


def _read(file: BinaryIO, path: Path, most: int, limit: int | None = None) -> tuple[dict[str, Any] | None, Scanned]:
    """What the run is, and the records; ValueError for another kind of file."""
    file.seek(0)
    begins = file.read(len(MAGIC))
    if begins != MAGIC[: len(begins)]:
        raise ValueError(f"{str(path)!r} is not a file of draws: name another one, or move it away")
    found = scan(file, len(MAGIC), most, limit)
    if not found.records:
        if found.trouble and not found.torn:
            raise _DamagedError(path)
        return None, found
    first = found.records[0]
    if first.tag != _RUN or not first.sound or first.length > 2**24:
        raise _DamagedError(path)
    file.seek(first.offset)
    try:
        plain, _ = unpack(file.read(first.length), "it")
    except ValueError:
        raise _DamagedError(path) from None
    entropy = plain.get("entropy") if isinstance(plain, dict) else None
    if not isinstance(entropy, int) or entropy < 0 or not isinstance(plain.get("run"), dict):
        raise _DamagedError(path)
    return plain, found
