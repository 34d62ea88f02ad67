"""Histograms of noisy measurement files: their axes, the order of their values, and the ways in which queries and tables cut them.

The orders are those of four independent public readers, which agree with one another and, as their authors report, with published
tables: the Bureau's evaluation code for the generalised-least-squares product, census-bluedown, SeaBlue, and noisyvalue.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayesdp._arrays import Ints
from bayesdp._validate import shown


@dataclass(frozen=True)
class Binning:
    """Disjoint groups of the values of an axis."""

    name: str  # as files spell it
    size: int  # number of values of the axis
    labels: tuple[str, ...]  # of the groups
    members: tuple[tuple[int, ...], ...]  # the values of each group

    @cached_property
    def codes(self) -> Ints:
        """The group of each value, -1 for values that are in none."""
        found = np.full(self.size, -1, dtype=np.int64)
        for group, values in enumerate(self.members):
            found[list(values)] = group
        return found

    @cached_property
    def covers(self) -> bool:
        """Whether every value is in a group."""
        return bool(np.all(self.codes >= 0))

    def refines(self, other: Binning) -> bool:
        """Whether each group of this binning lies in one group of the other, which covers the axis."""
        return self.covers and other.covers and bool(np.all(self.groups_in(other)[self.codes] == other.codes))

    def groups_in(self, other: Binning) -> Ints:
        """For each group of this binning, the group of a coarser one that it lies in."""
        return np.asarray(other.codes[[group[0] for group in self.members]], dtype=np.int64)

    def join(self, other: Binning) -> Binning:
        """The finest binning that both refine: what is known of sums over either is known of its groups."""
        group = np.arange(self.size)
        for values in (*self.members, *other.members):
            group[np.isin(group, group[list(values)])] = group[values[0]]
        members = tuple(tuple(np.flatnonzero(group == first).tolist()) for first in dict.fromkeys(group.tolist()))
        for same in (self, other):
            if same.members == members:
                return same
        name = f"{self.name} and {other.name}"
        return Binning(name, self.size, tuple(f"{name} {i + 1}" for i in range(len(members))), members)


def of_ranges(name: str, size: int, starts: Iterable[int], labels: Iterable[str] = ()) -> Binning:
    """Groups of consecutive values, given the first value of each."""
    first = [*starts, size]
    members = tuple(tuple(range(a, b)) for a, b in itertools.pairwise(first))
    named = tuple(labels) or tuple(str(a) if b == a + 1 else f"{a}-{b - 1}" for a, b in itertools.pairwise(first))
    return Binning(name, size, named, members)


@dataclass(frozen=True, eq=False)
class Axis:
    """An axis of a histogram, and the ways in which files cut it."""

    name: str
    labels: tuple[str, ...]  # of its values, in the order of the files
    # Name -> binning: "*", "detailed", which is called as the axis is besides, and its recodes and selections of some values.
    binnings: Mapping[str, Binning]

    @classmethod
    def of(cls, name: str, labels: Sequence[str], *recodes: Binning) -> Axis:
        """The axis with these recodes."""
        size = len(labels)
        whole = Binning("*", size, ("total",), (tuple(range(size)),))
        detailed = Binning(name, size, tuple(labels), tuple((i,) for i in range(size)))
        named = {recode.name: recode for recode in recodes}
        return cls(name, tuple(labels), {"*": whole, "detailed": detailed, name: detailed} | named)

    def binning(self, name: str) -> Binning:
        """The binning of a name; ValueError that lists those that there are."""
        if name not in self.binnings:
            raise ValueError(
                f"{name!r} is no binning of the axis {self.name!r}; known are {shown(self.partitions, 30)}"
            )
        return self.binnings[name]

    @property
    def partitions(self) -> list[str]:
        """Names of the binnings that cover the axis, which a histogram can be cut by."""
        return [name for name, binning in self.binnings.items() if binning.covers and name != self.name]

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


@dataclass(frozen=True, eq=False)
class Histogram:
    """The axes of a histogram, in the order of the files."""

    axes: tuple[Axis, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the axes."""
        return tuple(axis.name for axis in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values along each axis."""
        return tuple(len(axis.labels) for axis in self.axes)

    def axis(self, name: str) -> Axis:
        """The axis of a name."""
        return self.axes[self.names.index(name)]

    def binned(self, names: Iterable[str]) -> tuple[Binning, ...]:
        """The binnings of these names, one an axis; ValueError where one is not known."""
        return tuple(axis.binning(name) for axis, name in zip(self.axes, names, strict=True))

    def named(self, query: str) -> tuple[str, ...]:
        """The binning of each axis that the name of a query states: its factors are names of binnings, in any order."""
        if query == "total":
            return ("*",) * len(self.axes)
        if query == "detailed":
            return ("detailed",) * len(self.axes)
        found = dict.fromkeys(self.names, "*")
        for factor in (part.strip() for part in query.split("*")):
            axes = [axis for axis in self.axes if factor in axis.binnings]
            if not axes or factor == "detailed":
                raise ValueError(f"{factor!r} in the query {query!r} is no binning of the axes {shown(self.names)}")
            found[axes[0].name] = factor
        return tuple(found.values())


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a leaf of a table: how each axis of a histogram is cut. One that is summed over is no dimension of the table."""

    histogram: Histogram
    cuts: tuple[Binning, ...]  # one an axis, each of which covers it

    @property
    def axes(self) -> list[tuple[Axis, Binning]]:
        """The axes that are dimensions of the table, and how they are cut."""
        return [(axis, cut) for axis, cut in zip(self.histogram.axes, self.cuts, strict=True) if len(cut.members) > 1]

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of labels of each."""
        return tuple(len(cut.members) for _, cut in self.axes)

    @property
    def size(self) -> int:
        """Cells of a leaf."""
        return int(np.prod(self.shape, dtype=np.int64))

    def span(self, bins: Sequence[Binning]) -> str | None:
        """Why sums by these binnings, one an axis, are no sums of the cells; None where they are."""
        for axis, cut, asked in zip(self.histogram.axes, self.cuts, bins, strict=True):
            if not asked.covers:
                return f"{asked.name!r} picks out some values of {axis.name!r}"
            if not cut.refines(asked):
                how = "sums over" if len(cut.members) == 1 else f"cuts by {cut.name!r}"
                return f"it is by {asked.name!r}, and the table {how} {axis.name!r}"
        return None

    def kept(self, bins: Sequence[Binning]) -> tuple[str, ...]:
        """What sums by these binnings keep of the table: names of dimensions or of groups (`groups`)."""
        return tuple(
            axis.name if len(asked.members) == len(cut.members) else asked.name
            for axis, cut, asked in zip(self.histogram.axes, self.cuts, bins, strict=True)
            if len(asked.members) > 1
        )

    def groups(self, asked: Iterable[Sequence[Binning]]) -> dict[str, tuple[str, list[str]]]:
        """Group labels that queries need: name -> dimension and labels."""
        found: dict[str, tuple[str, list[str]]] = {}
        for bins in asked:
            for axis, cut, own in zip(self.histogram.axes, self.cuts, bins, strict=True):
                if 1 < len(own.members) < len(cut.members):
                    found[own.name] = (axis.name, [own.labels[g] for g in cut.groups_in(own)])
        return found


def cells_of(
    histogram: Histogram, asked: Sequence[Sequence[Binning]] | None, stated: Mapping[str, str] | None
) -> Cells:
    """The cells that a user states, and elsewhere the coarsest that queries are sums of."""
    # `asked`: the queries; None for all there are. `stated`: axis -> name of a binning.
    given = dict(stated or {})
    unknown = [name for name in given if name not in histogram.names]
    if unknown:
        raise ValueError(f"cells names {shown(unknown)}, which are no axes; axes are {shown(histogram.names)}")
    cuts = []
    for i, axis in enumerate(histogram.axes):
        name = given.get(axis.name)
        if name is None:
            cuts.append(axis.binning("detailed") if asked is None else axis.coarsest(bins[i] for bins in asked))
        elif name in (*axis.partitions, axis.name):
            cuts.append(axis.binning(name))
        else:
            raise ValueError(f"cells cuts {axis.name!r} by {name!r}; it can be cut by {shown(axis.partitions, 12)}")
    return Cells(histogram, tuple(cuts))


RACES = ("white", "black", "aian", "asian", "nhopi", "sor")
"""White, Black, American Indian and Alaska Native, Asian, Native Hawaiian and other Pacific Islander, some other race."""

RACE_SETS = tuple(races for size in range(1, 7) for races in itertools.combinations(RACES, size))
"""The values of the axis of races, in the order of the files."""

_HHGQ = (
    "household", "correctional", "juvenile", "nursing", "other_institutional", "college_housing", "military",
    "other_noninstitutional",
)  # fmt: skip

_HISPANIC = Axis.of("hispanic", ("not_hispanic", "hispanic"))
_RACE = Axis.of("cenrace", tuple("-".join(races) for races in RACE_SETS))

_QUARTERS = Axis.of(
    "hhgq",
    _HHGQ,
    of_ranges("hhinstlevels", 8, (0, 1, 5), ("household", "institutional", "noninstitutional")),
    Binning("gqNursingTotal", 8, ("nursing",), ((3,),)),
)
_VOTING_AGE = Axis.of("votingage", ("under_18", "voting_age"), Binning("nonvoting", 2, ("under_18",), ((0,),)))

PL94_PERSON = Histogram((_QUARTERS, _VOTING_AGE, _HISPANIC, _RACE))
"""Persons of the redistricting file: 8 x 2 x 2 x 63 = 2,016 cells a geounit."""

PL94_UNIT = Histogram((Axis.of("h1", ("vacant", "occupied")),))
"""Housing units of the redistricting file."""

_RELATIONSHIPS = (
    "householder living alone", "householder not alone", "spouse of other sex", "partner of other sex", "spouse of same sex",
    "partner of same sex", "biological child", "adopted child", "stepchild", "sibling", "parent", "grandchild", "parent-in-law",
    "child-in-law", "other relative", "roommate", "foster child", "other nonrelative",
)  # fmt: skip
_GQ_CODES = (
    101, 102, 103, 104, 105, 106, 201, 202, 203, 301, 401, 402, 403, 404, 405, 501, 601, 602, 701, 801, 802, 900, 901, 997,
)  # fmt: skip
_GQ = tuple(f"group quarters {code}" for code in _GQ_CODES)
_GQ_STARTS = (18, 24, 27, 28, 33, 34, 36)
"""The first value of each major kind of group quarters."""

_TAIL = (18, 20, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85, 90, 95, 100, 105, 110)

_AGE_ZEROS = {
    "age_lessthan15": (15, 116), "age_lessthan20": (20, 116), "age_lessthan30": (30, 116), "age_lt16": (16, 116),
    "age_greaterthan25": (0, 26), "age_greaterthan89": (0, 90), "age_gt20": (0, 21), "age_gt74": (0, 75),
    "age_lt15_gt89": (15, 90), "age_lt16_gt75": (16, 76), "age_lt16gt65": (16, 66), "age_lt17gt65": (17, 66),
    "age_lt3_gt30": (3, 31),
}  # fmt: skip
"""Selections of ages in constraints -> the ages that they leave out, from the first to before the second."""

_RELGQ = Axis.of(
    "relgq",
    _RELATIONSHIPS + _GQ,
    of_ranges(
        "relgq_4_groups", 42, (0, 2, 18, 33), ("householder", "other in household", "institutional", "noninstitutional")
    ),
    of_ranges("popSehsdTargetsRelship", 42, range(19), (*_RELATIONSHIPS, "group quarters")),
    of_ranges("relship_and_eight_level_GQ", 42, (*range(18), *_GQ_STARTS), (*_RELATIONSHIPS, *_HHGQ[1:])),
    Binning(
        "gq_constr_groups",
        42,
        ("household", "residential school", "adult correctional", "college and other", "military", "other"),
        (tuple(range(18)), (32,), tuple(range(18, 23)), (33, *range(37, 42)), (23, 31, 34, 35), (*range(24, 31), 36)),
    ),
    of_ranges("hhgq", 42, (0, *_GQ_STARTS), _HHGQ),
    of_ranges("gqlevels", 42, (0, *range(18, 42)), ("household", *_GQ)),
    *(Binning(f"relgq{i}", 42, (label,), ((i,),)) for i, label in enumerate(_RELATIONSHIPS + _GQ)),
)
_AGE = Axis.of(
    "age",
    tuple(str(age) for age in range(116)),
    of_ranges("age_18_64_116", 116, (0, 18, 65)),
    of_ranges("age_10_groups", 116, (0, 3, 15, 16, 17, 18, 20, 25, 30, 35)),
    of_ranges("age_38_groups", 116, (*range(16), *_TAIL)),
    of_ranges("age_40_groups", 116, (*range(18), *_TAIL)),
    of_ranges("votingage", 116, (0, 18), ("under_18", "voting_age")),
    *(Binning(k, 116, (k,), ((*range(first), *range(end, 116)),)) for k, (first, end) in _AGE_ZEROS.items()),
)

DHC_PERSON = Histogram((_RELGQ, Axis.of("sex", ("male", "female")), _AGE, _HISPANIC, _RACE))
"""Persons of the demographic and housing characteristics file: 42 x 2 x 116 x 2 x 63 = 1,227,744 cells a geounit."""
