"""Results on disk as they come: one line of JSON each, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Journal"]

_FORMAT = "bayesdp-calibration-1"


@dataclass
class Journal:
    """A file of records, one for each simulation that has ended, well or badly.

    The first line says what the run is. A line is written and flushed to disk at once; one that a killed process
    has left half written is dropped when the file is read again.

    Parameters
    ----------
    path : Path or None
        Without one, records are kept in memory only.
    about : mapping
        Plain data that must be the same when the run goes on: seed, sampler settings, versions and so on.

    Raises
    ------
    OSError
        If the file cannot be written.
    ValueError
        If the file is of another run, or no journal.
    """

    path: Path | None
    about: Mapping[str, Any]

    def __post_init__(self) -> None:
        self.records: dict[int, dict[str, Any]] = {}
        if self.path is None:
            return
        self.path = Path(self.path)
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"the folder {str(self.path.parent)!r} does not exist; create it first")
        head = {"format": _FORMAT, **self.about}
        if self.path.exists() and self.path.stat().st_size:
            self._read(head)
        else:
            self._append(head)

    def _read(self, head: Mapping[str, Any]) -> None:
        assert self.path is not None
        lines = self.path.read_bytes().split(b"\n")
        whole, rest = lines[:-1], lines[-1]
        try:
            found = json.loads(whole[0])
        except (IndexError, ValueError):
            found = None
        if not isinstance(found, dict) or found.get("format") != _FORMAT:
            raise ValueError(f"{str(self.path)!r} is not a file of this kind: name another one, or remove it")
        ours = json.loads(json.dumps(head))
        for key in dict.fromkeys([*ours, *found]):
            if found.get(key) != ours.get(key):
                raise ValueError(
                    f"{str(self.path)!r} is of another run: its {key} is {found.get(key)!r}, here it is {ours.get(key)!r}; "
                    "name another file to start afresh"
                )
        for line in whole[1:]:
            record = json.loads(line)
            if not record.get("again", False):
                self.records[int(record["number"])] = record
        if rest:  # half a line
            with self.path.open("r+b") as file:
                file.truncate(sum(len(line) + 1 for line in whole))

    def add(self, record: Mapping[str, Any]) -> None:
        """Keep a record, on disk first."""
        if self.path is not None:
            self._append(record)
        self.records[int(record["number"])] = dict(record)

    def _append(self, record: Mapping[str, Any]) -> None:
        assert self.path is not None
        line = json.dumps(record).encode() + b"\n"
        with self.path.open("ab", buffering=0) as file:
            before = file.seek(0, os.SEEK_END)
            try:
                while line:
                    line = line[file.write(line) :]
                os.fsync(file.fileno())
            except OSError as error:
                with suppress(OSError):
                    file.truncate(before)  # no half line, to which the next one would be glued
                told = f"{error.strerror}; the records before are in the file, and the same run goes on from there"
                raise OSError(error.errno, told, str(self.path)) from error
