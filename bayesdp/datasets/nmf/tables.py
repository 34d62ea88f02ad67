"""Published tables of the 2020 Census as sums of histogram cells: P1 to P5 and H1 of the redistricting file, P12 of the DHC."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from bayesdp._validate import shown
from bayesdp.datasets.nmf.histograms import RACES
from bayesdp.datasets.nmf.products import Product, product_of

type Selection = Mapping[str, frozenset[int]]


@dataclass(frozen=True, eq=False)
class Line:
    """A line of a published table.

    Parameters
    ----------
    code : str
        As the Bureau's data files call it: ``P1_003N``.
    label : str
    depth : int
        How far it is set in: a line is the sum of the lines below it that are set in by one more, where there are some.
    selection : mapping
        Axis -> values that count; axes that are not named count as a whole.
    """

    code: str
    label: str
    depth: int
    selection: Selection


@dataclass(frozen=True, eq=False)
class Published:
    """A published table.

    Parameters
    ----------
    name, title : str
    product : Product
        The histogram that it is a sum of.
    lines : tuple of Line
    """

    name: str
    title: str
    product: Product
    lines: tuple[Line, ...]

    @cached_property
    def codes(self) -> tuple[str, ...]:
        """The codes of its lines."""
        return tuple(line.code for line in self.lines)


type Row = tuple[str, int, dict[str, frozenset[int]]]

_SIZES = ("one race", "two races", "three races", "four races", "five races", "six races")
_RACE_NAMES = dict(
    zip(
        RACES,
        (
            "White", "Black or African American", "American Indian and Alaska Native", "Asian",
            "Native Hawaiian and Other Pacific Islander", "Some Other Race",
        ),
        strict=True,
    )
)  # fmt: skip
_SETS = tuple(own for size in range(1, 7) for own in itertools.combinations(RACES, size))


def _of_size(*sizes: int) -> frozenset[int]:
    return frozenset(i for i, own in enumerate(_SETS) if len(own) in sizes)


def _races(depth: int) -> Iterator[Row]:
    """The lines of races below a total that is set in by `depth`."""
    yield f"Population of {_SIZES[0]}", depth + 1, {"cenrace": _of_size(1)}
    for i in sorted(_of_size(1)):
        yield f"{_RACE_NAMES[_SETS[i][0]]} alone", depth + 2, {"cenrace": frozenset({i})}
    yield "Population of two or more races", depth + 1, {"cenrace": _of_size(2, 3, 4, 5, 6)}
    for size in range(2, 7):
        yield f"Population of {_SIZES[size - 1]}", depth + 2, {"cenrace": _of_size(size)}
        for i in sorted(_of_size(size)):
            yield "; ".join(_RACE_NAMES[own] for own in _SETS[i]), depth + 3, {"cenrace": frozenset({i})}


def _hispanic_by_race() -> Iterator[Row]:
    yield "Total", 0, {}
    yield "Hispanic or Latino", 1, {"hispanic": frozenset({1})}
    yield "Not Hispanic or Latino", 1, {"hispanic": frozenset({0})}
    for label, depth, selection in _races(1):
        yield label, depth, {"hispanic": frozenset({0})} | selection


def _race() -> Iterator[Row]:
    yield "Total", 0, {}
    yield from _races(0)


def _group_quarters() -> Iterator[Row]:
    named = (
        ("Total", 0, range(1, 8)),
        ("Institutionalized population", 1, range(1, 5)),
        ("Correctional facilities for adults", 2, (1,)),
        ("Juvenile facilities", 2, (2,)),
        ("Nursing facilities/skilled-nursing facilities", 2, (3,)),
        ("Other institutional facilities", 2, (4,)),
        ("Noninstitutionalized population", 1, range(5, 8)),
        ("College/university student housing", 2, (5,)),
        ("Military quarters", 2, (6,)),
        ("Other noninstitutional facilities", 2, (7,)),
    )
    for label, depth, values in named:
        yield label, depth, {"hhgq": frozenset(values)}


def _occupancy() -> Iterator[Row]:
    yield "Total", 0, {}
    yield "Occupied", 1, {"h1": frozenset({1})}
    yield "Vacant", 1, {"h1": frozenset({0})}


_AGES = (0, 5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85, 116)
"""The first age of each group of P12, and the end of the last one."""


def _sex_by_age() -> Iterator[Row]:
    yield "Total", 0, {}
    for sex, name in enumerate(("Male", "Female")):
        yield name, 1, {"sex": frozenset({sex})}
        for first, end in itertools.pairwise(_AGES):
            ages = {"age": frozenset(range(first, end)), "sex": frozenset({sex})}
            yield f"{name}, {_years(first, end)}", 2, ages


def _years(first: int, end: int) -> str:
    if first == 0:
        return f"under {end} years"
    if end > 100:
        return f"{first} years and over"
    middle = "" if end == first + 1 else f" and {end - 1}" if end == first + 2 else f" to {end - 1}"
    return f"{first}{middle} years"


def _adults(rows: Iterator[Row]) -> Iterator[Row]:
    for label, depth, selection in rows:
        yield label, depth, {"votingage": frozenset({1})} | selection


def _table(name: str, title: str, product: str, rows: Iterator[Row]) -> Published:
    lines = tuple(
        Line(f"{name}_{number:03d}N", label, depth, selection)
        for number, (label, depth, selection) in enumerate(rows, start=1)
    )
    return Published(name, title, product_of(product), lines)


TABLES = {
    table.name: table
    for table in (
        _table("P1", "Race", "pl94-person", _race()),
        _table("P2", "Hispanic or Latino, and not Hispanic or Latino by race", "pl94-person", _hispanic_by_race()),
        _table("P3", "Race for the population 18 years and over", "pl94-person", _adults(_race())),
        _table(
            "P4",
            "Hispanic or Latino, and not Hispanic or Latino by race for the population 18 years and over",
            "pl94-person",
            _adults(_hispanic_by_race()),
        ),
        _table("P5", "Group quarters population by major group quarters type", "pl94-person", _group_quarters()),
        _table("H1", "Occupancy status", "pl94-unit", _occupancy()),
        _table("P12", "Sex by age for selected age categories", "dhc-person", _sex_by_age()),
    )
}
"""Name -> table."""


def lines_of(*names: str) -> tuple[Published, tuple[Line, ...]]:
    """The lines that names of tables or codes stand for, and the table of the first."""
    found: list[Line] = []
    tables: list[Published] = []
    for name in names:
        table = TABLES.get(str(name).split("_")[0])
        if table is None or (name != table.name and name not in table.codes):
            known = ", ".join(f"{own.codes[0]} to {own.codes[-1]}" for own in TABLES.values())
            raise ValueError(f"{name!r} is no published table or code that is known here; known are {known}")
        tables.append(table)
        found += table.lines if name == table.name else (table.lines[table.codes.index(name)],)
    if not tables:
        raise ValueError("name at least one published table or code, such as 'P1' or 'P1_003N'")
    if len({table.product.name for table in tables}) > 1:
        raise ValueError(
            f"{shown(names)} are sums of different histograms: {shown(table.product.name for table in tables)}"
        )
    codes = [line.code for line in found]
    if len(set(codes)) < len(codes):
        raise ValueError(f"the same code is asked for twice: {shown(own for own in codes if codes.count(own) > 1)}")
    return tables[0], tuple(found)
