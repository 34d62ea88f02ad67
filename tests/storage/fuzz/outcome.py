"""What became of one case, and when it is a defect."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from pathlib import Path

CPU_SECONDS = 2.0
"""Reading a file below a megabyte may take this much processor time, ..."""

MEGABYTES = 300.0
"""... and this much memory above what the imports take."""

_OUT_OF_MEMORY = (
    "Unable to allocate", "MemoryError", "Cannot allocate memory", "memory allocation failed", "out of memory",
)  # fmt: skip
"""How a request that no limit of ours has stopped, but that of the process, shows in a message."""


class Defect(Exception):
    """Something that must not happen, with the class of defects that it belongs to."""

    def __init__(self, sort: str, message: str) -> None:
        super().__init__(message)
        self.sort = sort


class Refused(ValueError):
    """The command line has refused a file with one line and status 2."""


@dataclass(frozen=True)
class Outcome:
    """One case: a mutated file, and what its reader did, in seconds of a processor and memory above the imports."""

    case: int  # with the seed all that is needed to have it again
    target: str
    how: str  # it was changed
    verdict: str  # "refused", "accepted", "defect", or "unmade" where the mutation itself failed
    sort: str = ""  # of a defect
    message: str = ""
    seconds: float = 0.0
    megabytes: float = 0.0
    size: int = 0  # bytes of the file, or of all files of a folder


def sort_of(error: BaseException) -> str:
    """The class of a defect: its own, or the innermost function of the package in a traceback."""
    if isinstance(error, Defect):
        return error.sort
    frames = [own for own in traceback.extract_tb(error.__traceback__) if f"{Path('/bayesdp/')}" in own.filename]
    place = f"{frames[-1].filename.rpartition('/bayesdp/')[2]}:{frames[-1].name}" if frames else "outside bayesdp"
    return f"traceback: {type(error).__name__} in {place}"


def check_refusal(error: BaseException, path: Path) -> None:
    """A refusal is one printable line that names the file, and no failed attempt to get memory."""
    told = str(error)
    if any(sign in told for sign in _OUT_OF_MEMORY):
        raise Defect("asked for too much memory", told)
    if "\n" in told or "\r" in told:
        raise Defect("refusal of several lines", told)
    if not told.isprintable():
        raise Defect("refusal with control characters", told)
    if not isinstance(error, Refused) and path.name not in told:
        raise Defect("refusal without the file's name", told)
