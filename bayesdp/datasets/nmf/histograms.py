"""Histograms of the 2020 Census's noisy measurement files: their axes, the order of their values, and their recodes.

The orders are those of four independent public readers, which agree with one another and, as their authors report, with published
tables: the Bureau's evaluation code for the generalised-least-squares product, census-bluedown, SeaBlue, and noisyvalue.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from bayesdp._validate import shown
from bayesdp.datasets.nmf.binnings import Axis, Binning, of_ranges

RACES = ("white", "black", "aian", "asian", "nhopi", "sor")
"""White, Black or African American, American Indian and Alaska Native, Asian, Native Hawaiian and other Pacific Islander, some
other race."""

_COMBINATIONS = tuple("-".join(own) for size in range(1, 7) for own in itertools.combinations(RACES, size))
_HHGQ = (
    "household", "correctional", "juvenile", "nursing", "other_institutional", "college_housing", "military",
    "other_noninstitutional",
)  # fmt: skip


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
        for own in self.axes:
            if own.name == name:
                return own
        raise ValueError(f"{name!r} is no axis of the histogram; its axes are {shown(self.names)}")

    def named(self, query: str) -> tuple[str, ...]:
        """The binning of each axis that the name of a query states: its factors are names of binnings, in any order."""
        if query == "total":
            return ("*",) * len(self.axes)
        if query == "detailed":
            return ("detailed",) * len(self.axes)
        found = dict.fromkeys(self.names, "*")
        for factor in (part.strip() for part in query.split("*")):
            axes = [axis for axis in self.axes if factor and axis.knows(factor) and factor != "detailed"]
            if not axes:
                raise ValueError(f"{factor!r} in the query {query!r} is no binning of the axes {shown(self.names)}")
            found[axes[0].name] = factor
        return tuple(found.values())


def _hispanic() -> Axis:
    return Axis.of("hispanic", ("not_hispanic", "hispanic"))


def _race() -> Axis:
    return Axis.of("cenrace", _COMBINATIONS)


PL94_PERSON = Histogram(
    (
        Axis.of(
            "hhgq",
            _HHGQ,
            of_ranges("hhinstlevels", 8, (0, 1, 5), ("household", "institutional", "noninstitutional")),
            Binning("gqNursingTotal", 8, ("nursing",), ((3,),)),
        ),
        Axis.of("votingage", ("under_18", "voting_age"), Binning("nonvoting", 2, ("under_18",), ((0,),))),
        _hispanic(),
        _race(),
    )
)
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
_MAJOR = ((18, 24), (24, 27), (27, 28), (28, 33), (33, 34), (34, 36), (36, 42))
_IN_HOUSEHOLDS = tuple(range(18))
_GQ_MAJOR = tuple(tuple(range(first, end)) for first, end in _MAJOR)

_TAIL = (18, 20, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85, 90, 95, 100, 105, 110)

_AGE_ZEROS = {
    "age_lessthan15": (15, 116), "age_lessthan20": (20, 116), "age_lessthan30": (30, 116), "age_lt16": (16, 116),
    "age_greaterthan25": (0, 26), "age_greaterthan89": (0, 90), "age_gt20": (0, 21), "age_gt74": (0, 75),
    "age_lt15_gt89": (15, 90), "age_lt16_gt75": (16, 76), "age_lt16gt65": (16, 66), "age_lt17gt65": (17, 66),
    "age_lt3_gt30": (3, 31),
}  # fmt: skip
"""Selections of ages in constraints -> the ages that they leave out, from the first to before the second."""


def _outside(name: str, first: int, end: int) -> Binning:
    return Binning(name, 116, (name,), ((*range(first), *range(end, 116)),))


DHC_PERSON = Histogram(
    (
        Axis.of(
            "relgq",
            _RELATIONSHIPS + _GQ,
            of_ranges(
                "relgq_4_groups",
                42,
                (0, 2, 18, 33),
                ("householder", "other in household", "institutional", "noninstitutional"),
            ),
            of_ranges("popSehsdTargetsRelship", 42, range(19), (*_RELATIONSHIPS, "group quarters")),
            Binning(
                "relship_and_eight_level_GQ",
                42,
                (*_RELATIONSHIPS, *_HHGQ[1:]),
                (*((i,) for i in range(18)), *_GQ_MAJOR),
            ),
            Binning(
                "gq_constr_groups",
                42,
                ("household", "residential school", "adult correctional", "college and other", "military", "other"),
                (
                    _IN_HOUSEHOLDS,
                    (32,),
                    tuple(range(18, 23)),
                    (33, *range(37, 42)),
                    (23, 31, 34, 35),
                    (*range(24, 31), 36),
                ),
            ),
            Binning("hhgq", 42, _HHGQ, (_IN_HOUSEHOLDS, *_GQ_MAJOR)),
            Binning("gqlevels", 42, ("household", *_GQ), (_IN_HOUSEHOLDS, *((i,) for i in range(18, 42)))),
            *(Binning(f"relgq{i}", 42, (label,), ((i,),)) for i, label in enumerate(_RELATIONSHIPS + _GQ)),
        ),
        Axis.of("sex", ("male", "female")),
        Axis.of(
            "age",
            tuple(str(age) for age in range(116)),
            of_ranges("age_18_64_116", 116, (0, 18, 65)),
            of_ranges("age_10_groups", 116, (0, 3, 15, 16, 17, 18, 20, 25, 30, 35)),
            of_ranges("age_38_groups", 116, (*range(16), *_TAIL)),
            of_ranges("age_40_groups", 116, (*range(18), *_TAIL)),
            of_ranges("votingage", 116, (0, 18), ("under_18", "voting_age")),
            *(_outside(name, first, end) for name, (first, end) in _AGE_ZEROS.items()),
        ),
        _hispanic(),
        _race(),
    )
)
"""Persons of the demographic and housing characteristics file: 42 x 2 x 116 x 2 x 63 = 1,227,744 cells a geounit."""
