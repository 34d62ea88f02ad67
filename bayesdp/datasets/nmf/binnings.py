"""Ways to cut an axis of a histogram: every value kept, all summed, groups of values, or some values picked out."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bayesdp._validate import shown

type Ints = npt.NDArray[np.int64]
type Members = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Binning:
    """Disjoint groups of the values of an axis.

    Parameters
    ----------
    name : str
        As files spell it.
    size : int
        Number of values of the axis.
    labels : tuple of str
        One a group.
    members : tuple of tuple of int
        The values of each group.
    """

    name: str
    size: int
    labels: tuple[str, ...]
    members: Members

    def __post_init__(self) -> None:
        listed = [value for group in self.members for value in group]
        if len(set(listed)) < len(listed) or not set(listed) <= set(range(self.size)):
            raise ValueError(f"groups of {self.name!r} must be disjoint sets of the values 0 to {self.size - 1}")
        if len(self.labels) != len(self.members):
            raise ValueError(f"{self.name!r} has {len(self.members)} groups and {len(self.labels)} labels")

    @cached_property
    def codes(self) -> Ints:
        """The group of each value, -1 for values that are in none."""
        found = np.full(self.size, -1, dtype=np.int64)
        for group, values in enumerate(self.members):
            found[list(values)] = group
        return found

    @cached_property
    def _firsts(self) -> Ints:
        """The first value of each group."""
        return np.asarray([own[0] for own in self.members], dtype=np.int64)

    @cached_property
    def covers(self) -> bool:
        """Whether every value is in a group."""
        return bool(np.all(self.codes >= 0))

    def refines(self, other: Binning) -> bool:
        """Whether each group of this binning lies in one group of the other, which covers the axis."""
        return self.covers and other.covers and bool(np.all(self.groups_in(other)[self.codes] == other.codes))

    def groups_in(self, other: Binning) -> Ints:
        """For each group of this binning, the group of a coarser one that it lies in."""
        return np.asarray(other.codes[self._firsts], dtype=np.int64)

    def join(self, other: Binning) -> Binning:
        """The finest binning that both refine: what is known of sums over either is known of its groups."""
        group = np.arange(self.size)
        for own in (*self.members, *other.members):
            joined = np.isin(group, group[list(own)])
            group[joined] = group[own[0]]
        kept = dict.fromkeys(group.tolist())
        members = tuple(tuple(np.flatnonzero(group == one).tolist()) for one in kept)
        for known in (self, other):
            if known.members == members:
                return known
        name = f"{self.name} and {other.name}"
        return Binning(name, self.size, tuple(f"{name} {i + 1}" for i in range(len(members))), members)


def of_ranges(name: str, size: int, starts: Iterable[int], labels: Iterable[str] = ()) -> Binning:
    """Groups of consecutive values, given the first value of each."""
    first = [*starts, size]
    members = tuple(tuple(range(a, b)) for a, b in itertools.pairwise(first))
    named = tuple(labels) or tuple(str(own[0]) if len(own) == 1 else f"{own[0]}-{own[-1]}" for own in members)
    return Binning(name, size, named, members)


@dataclass(frozen=True, eq=False)
class Axis:
    """An axis of a histogram, and the ways in which files cut it.

    Parameters
    ----------
    name : str
    labels : tuple of str
        Its values, in the order of the files.
    binnings : mapping
        Name -> groups, for recodes and for selections of some values. ``"*"``, ``"detailed"`` and the axis's own name are
        understood besides.
    """

    name: str
    labels: tuple[str, ...]
    recodes: Mapping[str, Binning]

    @classmethod
    def of(cls, name: str, labels: Iterable[str], *recodes: Binning) -> Axis:
        """The axis with these recodes."""
        return cls(name, tuple(labels), {own.name: own for own in recodes})

    @cached_property
    def whole(self) -> Binning:
        """All values summed."""
        return Binning("*", len(self.labels), ("total",), (tuple(range(len(self.labels))),))

    @cached_property
    def detailed(self) -> Binning:
        """All values kept."""
        return Binning(self.name, len(self.labels), self.labels, tuple((i,) for i in range(len(self.labels))))

    def knows(self, name: str) -> bool:
        """Whether a name is that of a binning of this axis."""
        return name in ("*", "detailed", self.name) or name in self.recodes

    def binning(self, name: str) -> Binning:
        """The binning of a name; ValueError that lists those that there are."""
        if name == "*":
            return self.whole
        if name in ("detailed", self.name):
            return self.detailed
        if name not in self.recodes:
            raise ValueError(
                f"{name!r} is no binning of the axis {self.name!r}; known are {shown(self.partitions, 30)}"
            )
        return self.recodes[name]

    @property
    def partitions(self) -> list[str]:
        """Names of the binnings that cover the axis, which a histogram can be cut by."""
        return ["*", "detailed", *(name for name, own in self.recodes.items() if own.covers)]

    def of_labels(self, labels: Iterable[object]) -> Binning:
        """The binning whose groups have these labels."""
        asked = tuple(labels)
        for name in self.partitions:
            if self.binning(name).labels == asked:
                return self.binning(name)
        raise ValueError(f"labels of {self.name!r} are those of no binning of that axis: {shown(asked)}")

    def coarsest(self, asked: Iterable[Binning]) -> Binning:
        """The coarsest known binning that refines all that are asked for."""
        listed = list(asked)
        good = [self.binning(name) for name in self.partitions]
        good = [own for own in good if all(own.refines(other) for other in listed)]
        return min(good, key=lambda own: len(own.members))
