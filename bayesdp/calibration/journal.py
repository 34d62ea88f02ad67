"""Results on disk as they come: one line of JSON each, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import json
import math
import os
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Never

from bayesdp import _text
from bayesdp._validate import shown
from bayesdp.inference.runs.fingerprint import difference
from bayesdp.inference.runs.journal import locked

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


def _truth(value: Any) -> bool:
    return isinstance(value, bool)


def numbers(length: int) -> Check:
    """A list of numbers of this length."""
    return lambda value: isinstance(value, list) and len(value) == length and all(map(number, value))


def by_name(check: Check) -> Check:
    """A mapping from names, at least one, to values that pass a check."""
    return lambda value: isinstance(value, dict) and bool(value) and all(map(check, value.values()))


@dataclass
class Journal:
    """A file of records, one for each simulation that has ended, well or badly.

    The first line says what the run is. A line is written and flushed to disk at once. What a killed process or a power cut can
    leave is a torn last line, half written or filled with zero bytes: it is dropped when the file is read again, and a file
    that never got beyond its first line starts afresh. Anything else that is not a record of this run is refused.

    Parameters
    ----------
    path : Path or None
        Without one, records are kept in memory only.
    about : mapping
        Plain data that must be the same when the run goes on: the `fingerprint` of the run.
    entries : mapping
        What a record of a simulation that ended well has beside its ``number``, and what each entry may hold. One that ended
        badly has an ``error``, and ``again`` if it is to be tried again.
    """

    path: Path | None
    about: Mapping[str, Any]
    entries: Mapping[str, Check] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.records: dict[int, dict[str, Any]] = {}
        if self.path is None:
            return
        self.path = Path(self.path)
        if self.path.exists() and not self.path.is_file():
            raise ValueError(f"{str(self.path)!r} is no file that could be read and added to: name another one")
        # One open file: to close any other of this file would give up the lock.
        self._opened = locked(self.path)
        weakref.finalize(self, self._opened.close)
        try:
            self._begin({"format": _FORMAT, **self.about})
        except BaseException:
            self.close()
            raise

    def _begin(self, head: Mapping[str, Any]) -> None:
        if self._restarted(head):
            self._append(head)
            return
        whole = self._read(head)
        torn = whole < os.fstat(self._opened.fileno()).st_size
        self._check_before_going_on(torn)
        if torn:
            self._opened.truncate(whole)

    def close(self) -> None:
        """Let other processes write to the file, and nothing of this one any more."""
        if self.path is not None:
            self._opened.close()

    def _check_before_going_on(self, torn: bool) -> None:
        """Refuse here what else belongs to the run, while nothing has been changed; `torn`: the last line is going to be dropped."""

    def _restarted(self, head: Mapping[str, Any]) -> bool:
        """Whether nothing but (a torn part of) our own first line is in the file, which then is empty."""
        whole, file = _line(head), self._opened
        begun = file.read(len(whole) + 1).rstrip(b"\0")
        torn = len(begun) < len(whole) and whole.startswith(begun)
        if torn:
            file.seek(len(begun))
            while torn and (more := file.read(1 << 20)):  # zero bytes, as many as there may be
                torn = not more.strip(b"\0")
        if torn:
            file.truncate(0)
        return torn

    def _read(self, head: Mapping[str, Any]) -> int:
        """Read the records; how many bytes of the file they take, without a torn line."""
        self._opened.seek(0)
        lines = self._opened.read().split(b"\n")
        whole = lines[:-1]
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
        known = {**needed, **({"again": _truth} if failed else {})}
        missing = sorted(set(needed) - set(record))
        unknown = sorted(set(record) - set(known)) if self.entries or failed else []
        if missing or unknown:
            wrong = [f"{word}: {shown(keys)}" for word, keys in (("unknown", unknown), ("missing", missing)) if keys]
            self._refuse(at, f"the record has the wrong keys ({'; '.join(wrong)})")
        for key, value in record.items():
            if key in known and not known[key](value):
                self._refuse(at, f"{key} holds something else than it should, {_short(value)}")
        self._check_names(record, at)
        return record

    def _check_names(self, record: Mapping[str, Any], at: int) -> None:
        """Check that a record is about the same quantities as the first one."""
        first = next((earlier for earlier in self.records.values() if "error" not in earlier), None)
        if first is None or "error" in record:
            return
        for key in self.entries:
            mine, others = _names(record[key]), _names(first[key])
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


def _names(value: Any, before: str = "") -> list[str]:
    """The names in an entry, and those below each, in order."""
    if not isinstance(value, dict):
        return []
    return [name for key, below in value.items() for name in (before + key, *_names(below, f"{before}{key}: "))]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
