"""What became of one case, and when it is a defect."""

import traceback
from dataclasses import dataclass
from pathlib import Path

CPU_SECONDS, ENDED, MEGABYTES = 2.0, 5.0, 300.0
"""What reading a file below a megabyte may take: of a processor, or until it is ended, and of memory above what the imports take."""
_OUT_OF_MEMORY = ("Unable to allocate", "MemoryError", "Cannot allocate memory", "allocation failed", "out of memory")
"""How a request that no limit of ours has stopped, but that of the process, shows in a message."""


class Defect(Exception):
    def __init__(self, sort, message):
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


def require(holds, sort, message):
    if not holds:
        raise Defect(sort, message)


def sort_of(error):
    """The class of a defect: its own, or the innermost function of the package in a traceback."""
    if isinstance(error, Defect):
        return error.sort
    frames = [own for own in traceback.extract_tb(error.__traceback__) if f"{Path('/bayesdp/')}" in own.filename]
    place = f"{frames[-1].filename.rpartition('/bayesdp/')[2]}:{frames[-1].name}" if frames else "outside bayesdp"
    return f"traceback: {type(error).__name__} in {place}"


def check_refusal(error, path):
    """A refusal is one printable line that names the file, and no failed attempt to get memory."""
    told = str(error)
    require(not any(sign in told for sign in _OUT_OF_MEMORY), "asked for too much memory", told)
    require("\n" not in told and "\r" not in told, "refusal of several lines", told)
    require(told.isprintable(), "refusal with control characters", told)
    require(isinstance(error, Refused) or path.name in told, "refusal without the file's name", told)
