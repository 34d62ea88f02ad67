"""What the files say that a release does not use."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Unused:
    """Evidence of the files that is not in the release, or only in part.

    Parameters
    ----------
    what : str
        The level, or the level and the query.
    reason : str
        Why.
    """

    what: str
    reason: str

    def __str__(self) -> str:
        return f"{self.what}: {self.reason}"


@dataclass
class Ledger:
    """A list of what is not used, each thing once."""

    listed: dict[Unused, None] = field(default_factory=dict)

    def note(self, what: str, reason: str) -> None:
        """Add a line."""
        self.listed[Unused(what, reason)] = None

    @property
    def lines(self) -> tuple[Unused, ...]:
        """The lines, in the order in which they came."""
        return tuple(self.listed)
