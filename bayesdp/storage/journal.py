"""What a run writes while it goes on, so that one that was killed ends as it would have: a locked folder with files of arrays.

It has the file ``run.json`` (which run it is), and files of arrays (npz), each of which is replaced as a whole: the states of chains,
what is recorded above the parts, and plausible tables. What is read is not trusted: see `bayesdp.streaming.chains`.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import stat
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

import bayesdp
from bayesdp import _text
from bayesdp.storage.atomic import replacing, write_text

try:
    import fcntl
except ImportError:  # Windows: two runs that write to one journal are not noticed there
    fcntl = None  # type: ignore[assignment]

type Arrays = Mapping[str, npt.NDArray[Any]]

SECONDS = 60.0
"""Between two states of a chain; more where writing one takes more than a thirtieth of it."""

_SHARE = 30.0
_FORM = 3
_HEAD = "run.json"
_SHOWN, _NAMED = 120, 3

_OURS = re.compile(r"lock|run\.json|[a-z0-9-]+\.npz|\..*\.tmp")
"""Names of the files of a journal."""


def locked(path: Path) -> BinaryIO:
    """Open a file, new or old, for this process alone."""
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


def difference(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """In what two runs differ, in words; empty if they do not."""
    if theirs == ours:
        return ""
    if theirs.get("form") != ours.get("form"):
        versions = theirs.get("versions")
        then = versions.get("bayesdp") if isinstance(versions, dict) else None
        then = then or theirs.get("bayesdp", theirs.get("version", "which is not stated"))
        return (
            f"it was begun by another version of bayesdp ({then}), whose notes of a run do not say all that those of this one "
            f"({bayesdp.__version__}) do"
        )
    return "; ".join(
        text
        for name in dict.fromkeys([*ours, *theirs])
        if (text := _differing(f"its {name}", theirs.get(name), ours.get(name)))
    )


def _differing(name: str, one: Any, other: Any) -> str:
    if one == other:
        return ""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = [
            key for key in dict.fromkeys([*other, *one]) if (key in one, one.get(key)) != (key in other, other.get(key))
        ]
        more = f", and so on for {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
        return "; ".join(_differing(f"{name}: {key!r}", one.get(key), other.get(key)) for key in keys[:_NAMED]) + more
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return next(text for pair in zip(one, other, strict=True) if (text := _differing(name, *pair)))
    return f"{name} is {_short(one, other)}, here it is {_short(other, one)}"


def _short(value: Any, other: Any) -> str:
    """A value in one line; of a text of several lines, the first line that the other text does not have."""
    if value is None:
        return "not stated"
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=True)[:_SHOWN]
    if isinstance(other, str):
        value = next((line.strip() for line in value.splitlines() if line not in other.splitlines()), value)
    return repr(value if len(value) <= _SHOWN else f"{value[:_SHOWN]}...")


def _foreign(folder: Path) -> list[str]:
    """What is in a folder besides the files of a journal: others, and links, pipes or folders with their names."""
    every = folder.iterdir()
    return [file.name for file in every if not (_OURS.fullmatch(file.name) and stat.S_ISREG(file.lstat().st_mode))]


def holds_draws(path: str | os.PathLike[str]) -> bool:
    """Whether there is the folder of a run that has draws or states, sound or not; ValueError if there is something else."""
    place = Path(path)
    if not os.path.lexists(place):
        return False
    if not place.is_dir() or _foreign(place):
        raise ValueError(f"{str(place)!r} is no journal of a run: name another folder, or move it away")
    return any(place.glob("*.npz"))


def remove_journal(path: str | os.PathLike[str]) -> bool:
    """Remove the folder of a run; whether it had draws. ValueError if it is something else, BlockingIOError while it is written to."""
    held, place = holds_draws(path), Path(path)
    if place.exists():
        with locked(place / "lock"):
            for file in place.iterdir():
                file.unlink()
        place.rmdir()
    return held


class RunJournal:
    """The folder of one run, which no other process may write to meanwhile.

    It is made if there is none; the one that it is in must exist. Without `resume` a folder that has states is an error.
    """

    # `saved`: the run that has states there, if there is one. `resumed`: how often it was stopped and went on. `entropy`: its seed.

    def __init__(self, path: Any, *, resume: bool) -> None:
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"the folder {str(self.path.parent)!r} does not exist; create it first")
        head = self.path / _HEAD
        foreign = _foreign(self.path) if self.path.is_dir() else [""] * self.path.exists()
        if foreign and (not head.exists() or any(map(_OURS.fullmatch, foreign))):
            raise FileExistsError(
                f"{str(self.path)!r} is no journal of a run: name a folder that does not exist, or an empty one"
            )
        self.path.mkdir(exist_ok=True)
        self._lock: BinaryIO = locked(self.path / "lock")
        self.saved: dict[str, Any] | None = None
        self.resumed, self.entropy, self._form = 0, secrets.randbits(128), _FORM
        try:
            for unfinished in self.path.glob(".*.tmp"):  # of a process that was killed
                unfinished.unlink(missing_ok=True)
            if any(self.path.glob("*.npz")):
                if not resume:
                    raise FileExistsError(
                        f"{str(self.path)!r} has a run that did not end, or whose result may not have been saved: resume=True goes on "
                        "with it; to begin anew, remove the folder"
                    )
                self._read_head(head)
        except BaseException:
            self.close()
            raise

    def _read_head(self, file: Path) -> None:
        with readable(file):
            told = _text.loads(file.read_text(encoding="utf-8"), "it")
            _text.expect(told, dict, "it", {"version", "run", "entropy", "resumed"})
            self.saved = _text.expect(told["run"], dict, "the run")
            self.resumed, self.entropy = int(told["resumed"]) + 1, int(told["entropy"])
            require(self.entropy >= 0, "a seed must not be negative")
            self._form = told["version"]

    def check(self, run: Mapping[str, Any]) -> None:
        """Check that a run, by its `fingerprint`, is the one whose states are there, if there are any."""
        saved = run if self.saved is None else self.saved
        differs = difference(saved, run) or (
            "" if self._form == _FORM else f"it was written in the form {self._form!r}"
        )
        if differs:
            remedy = "Go on with the arguments of then, or remove the folder"
            lengths = {name: run[name] for name in ("draws", "tune") if "draws" in run}
            if lengths and self._form == _FORM and not difference({**saved, **lengths}, run):
                remedy = (
                    "A run cannot be made longer or shorter, since what is kept of its cells is cut into batches by the number of "
                    "draws: go on with the numbers of then, or begin anew with these in another folder"
                )
            raise ValueError(f"{str(self.path)!r} is of another run: {differs}. {remedy}")

    def begin(self, run: Mapping[str, Any]) -> None:
        """Note which run it is; see `check` for the error."""
        self.check(run)
        told = {"version": _FORM, "run": run, "entropy": str(self.entropy), "resumed": self.resumed}
        write_text(self.path / _HEAD, json.dumps(told, indent=1), overwrite=True)

    def close(self) -> None:
        """Let other processes write to the folder, and leave nothing there that a worker that died did not finish."""
        for unfinished in self.path.glob(".*.tmp"):
            unfinished.unlink(missing_ok=True)
        self._lock.close()


@contextmanager
def readable(file: object) -> Iterator[None]:
    """Whatever is wrong with what a file holds is a ValueError that names it."""
    try:
        yield
    except Exception as error:  # of damaged archives and JSON, and of values that are none of ours, nearly any
        raise ValueError(f"{str(file)!r} is damaged ({error}): nothing can go on from it") from None


def read_arrays(file: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an npz file, which are stored as they are, so that they take no more memory than the file; no pickles."""
    found: dict[str, npt.NDArray[Any]] = {}
    with readable(file), zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        stored = all(entry.compress_type == zipfile.ZIP_STORED for entry in entries)
        size = file.stat().st_size
        require(stored and sum(entry.file_size for entry in entries) <= size, "it would become larger in memory")
        for entry in entries:
            with archive.open(entry) as stream:
                found[entry.filename.removesuffix(".npy")] = np.lib.format.read_array(stream, allow_pickle=False)
    return found


def write_arrays(file: Path, arrays: Arrays) -> None:
    """Write an npz file, which is there as a whole, or as it was."""
    with replacing(file, overwrite=True) as temporary, temporary.open("wb") as opened:
        np.savez(opened, **dict[str, Any](arrays))


class Saver:
    """Writes states to a file now and then. An error of the disk ends that, and the run goes on; `trouble` says what it was."""

    def __init__(self, file: Path | None) -> None:
        self.trouble = ""
        self._file, self._wait, self._last = file, SECONDS, time.monotonic()

    @property
    def due(self) -> bool:
        """Whether it is time."""
        return self._file is not None and not self.trouble and time.monotonic() - self._last >= self._wait

    def write(self, arrays: Arrays, file: Path | None = None) -> bool:
        """Write a state, or something else to another file; whether that is there."""
        place, begun = file or self._file, time.monotonic()
        if place is not None and not self.trouble:
            try:
                write_arrays(place, arrays)
            except OSError as error:
                self.trouble = error.strerror or str(error)
        if file is None:
            self._last = time.monotonic()
            self._wait = max(SECONDS, _SHARE * (self._last - begun))
        return not self.trouble


def require(holds: Any, what: str) -> None:
    """ValueError unless something holds of what was read."""
    if not holds:
        raise ValueError(what)


def group(arrays: Arrays, prefix: str) -> dict[str, npt.NDArray[Any]]:
    """The arrays whose names begin so, without that."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
