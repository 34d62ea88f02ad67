"""What noisy measurement files there are, how their noise was allocated, and the published tables as sums of histogram cells.

Tables are P1 to P5 and H1 of the redistricting file, and P12 of the DHC.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from bayesdp._arrays import Mask
from bayesdp._validate import choice, shown
from bayesdp.datasets.nmf.histograms import DHC_PERSON, PL94_PERSON, PL94_UNIT, RACE_SETS, Binning, Histogram
from bayesdp.frames import Frame
from bayesdp.queries import LinearQuery, SumPart

LEVELS = ("US", "State", "County", "Tract", "Block_Group", "Block")
"""Levels of geography of the redistricting file, from the top down."""


@dataclass(frozen=True, eq=False)
class Product:
    """One product."""

    name: str
    suffix: str  # how its folder ends, after `US` or `PR`
    histogram: Histogram
    queries: tuple[str, ...]  # noisy ones, without the suffix `_dpq`
    levels: tuple[str, ...]  # of geography, from the top down
    # What cuts each axis, where their columns say nothing that fits the histogram.
    constraints: dict[str, tuple[str, ...]]


PRODUCTS = {
    product.name: product
    for product in (
        Product(
            "pl94-person",
            "_Person_PL_PROD",
            PL94_PERSON,
            (
                "total", "hhgq", "hhinstlevels", "votingage", "hispanic", "cenrace", "votingage * hispanic", "votingage * cenrace",
                "hispanic * cenrace", "votingage * hispanic * cenrace", "detailed",
            ),
            LEVELS,
            {
                "total": ("*", "*", "*", "*"),
                "hhgq_total_lb": ("hhgq", "*", "*", "*"),
                "hhgq_total_ub": ("hhgq", "*", "*", "*"),
                "nurse_nva_0": ("gqNursingTotal", "nonvoting", "*", "*"),
            },
        ),
        Product("pl94-unit", "_Unit_PL_PROD", PL94_UNIT, ("detailed",), LEVELS, {"total": ("*",)}),
        Product(
            "dhc-person",
            "_DHCP_PROD",
            DHC_PERSON,
            (
                "hispanic * sex", "age_18_64_116 * sex", "age_38_groups * sex", "sex * relgq_4_groups",
                "age_18_64_116 * relgq_4_groups", "gq_constr_groups * age_10_groups", "popSehsdTargetsRelship",
                "relgq * age_40_groups * hispanic * cenrace * sex",
                "hispanic * sex * age_40_groups * relship_and_eight_level_GQ * cenrace", "detailed",
            ),
            ("US", "State", "County", "Prim", "Tract_Subset_Group", "Tract_Subset", "Block_Group", "Block"),
            {
                "pl94": ("hhgq", "*", "votingage", "hispanic", "cenrace"),
                "hhgq_total_lb": ("gqlevels", "*", "*", "*", "*"),
                "hhgq_total_ub": ("gqlevels", "*", "*", "*", "*"),
            },
        ),
    )
}  # fmt: skip
"""Name -> product."""


def product_of(name: str) -> Product:
    """The product of a name; ValueError that lists those that there are."""
    return PRODUCTS[choice(name, tuple(PRODUCTS), "product")]


def plain_name(name: str) -> str:
    """The name of a query or constraint without the suffix that files give it."""
    return name.removesuffix("_dpq").removesuffix("_con")


def same_query(name: str) -> frozenset[str]:
    """What two spellings of a query have in common: its factors, in any order."""
    return frozenset(part.strip() for part in plain_name(name.strip()).split("*"))


# How the privacy loss of the 2020 redistricting file was split among levels of geography and queries. Source: the Census Bureau's
# published production code, DAS_2020_Redistricting_Production_Code at commit 289ee463, configs/production/pl94/person_US.ini and
# person_default.ini, and the strategy ProductionCandidate20210527US_mult8_add02_dsepJune3 of programs/strategies/strategies.py
# (public domain, CC0). Persons of the fifty states and the District of Columbia.
RHO = Fraction(293764, 114921)
"""Loss of zero-concentrated differential privacy in all, for bounded neighbours: 2.556."""

QUERIES = (
    "total", "cenrace", "hispanic", "votingage", "hhinstlevels", "hhgq", "hispanic * cenrace", "votingage * cenrace",
    "votingage * hispanic", "votingage * hispanic * cenrace", "detailed",
)  # fmt: skip

_SHARES = {
    "US": (104, 4097, (0, 52, 26, 26, 26, 26, 130, 130, 26, 442, 3213)),
    "State": (1440, 4097, (3773, 6, 6, 6, 6, 6, 12, 12, 6, 34, 230)),
    "County": (447, 4097, (3126, 10, 10, 10, 10, 10, 28, 28, 10, 101, 754)),
    "Tract": (687, 4102, (1567, 8, 5, 5, 5, 5, 1933, 20, 5, 67, 482)),
    "Block_Group": (1256, 4099, (1705, 3, 3, 3, 3, 3, 1055, 9, 3, 24, 1288)),
    "Block": (165, 4097, (5, 9, 5, 5, 5, 5, 21, 21, 5, 71, 3945)),
}
"""Level -> its share of the loss in 4099ths, and the shares of queries within it: their denominator, and numerators in the order of
`QUERIES`. 0 means that the query was not measured."""


def share_of(level: str, query: str) -> Fraction:
    """The share of the loss that a query at a level of geography has; 0 where it was not measured."""
    level_share, denominator, shares = _SHARES[choice(level, LEVELS, "level")]
    return Fraction(level_share * shares[QUERIES.index(choice(query, QUERIES, "query"))], 4099 * denominator)


def sigma_squared(level: str, query: str) -> Fraction | None:
    """The parameter ``sigma**2`` of the noise of a query, as the production settings imply it; None where it was not measured.

    The noise is discrete Gaussian, and this is ``1 / (rho * share of the level * share of the query)``: one record that changes
    moves two cells by one. Geounits that the optimised spine bypasses have more, so that of a file the column ``variance`` counts.
    Levels are "US", "State", "County", "Tract", "Block_Group" and "Block", queries such as ``"hispanic * cenrace"``.

    Examples
    --------
    >>> sigma_squared("State", "total")
    Fraction(214437516707, 177339451520)
    """
    share = share_of(level, query)
    return 1 / (RHO * share) if share else None


type Row = tuple[str, int, dict[str, frozenset[int]]]
"""Label, depth and selection of a line."""


@dataclass(frozen=True, eq=False)
class Line:
    """A line of a published table; it is the sum of the lines below it that are set in by one more, where there are some."""

    code: str  # as the Bureau's data files call it: P1_003N
    label: str
    depth: int  # how far it is set in
    selection: Mapping[str, frozenset[int]]  # axis -> values that count; axes that are not named count as a whole


@dataclass(frozen=True, eq=False)
class Published:
    """A published table, sums of the cells of a product's histogram."""

    name: str
    product: Product
    lines: tuple[Line, ...]


_SIZES = ("one race", "two races", "three races", "four races", "five races", "six races")
_RACE_NAMES = {
    "white": "White", "black": "Black or African American", "aian": "American Indian and Alaska Native", "asian": "Asian",
    "nhopi": "Native Hawaiian and Other Pacific Islander", "sor": "Some Other Race",
}  # fmt: skip


def _of_size(*sizes: int) -> frozenset[int]:
    return frozenset(i for i, races in enumerate(RACE_SETS) if len(races) in sizes)


def _races(depth: int) -> Iterator[Row]:
    """The lines of races below a total that is set in by `depth`."""
    yield f"Population of {_SIZES[0]}", depth + 1, {"cenrace": _of_size(1)}
    for i in sorted(_of_size(1)):
        yield f"{_RACE_NAMES[RACE_SETS[i][0]]} alone", depth + 2, {"cenrace": frozenset({i})}
    yield "Population of two or more races", depth + 1, {"cenrace": _of_size(2, 3, 4, 5, 6)}
    for size in range(2, 7):
        yield f"Population of {_SIZES[size - 1]}", depth + 2, {"cenrace": _of_size(size)}
        for i in sorted(_of_size(size)):
            yield "; ".join(_RACE_NAMES[race] for race in RACE_SETS[i]), depth + 3, {"cenrace": frozenset({i})}


_TOTAL: Row = ("Total", 0, {})
_RACE = [_TOTAL, *_races(0)]
_HISPANIC, _NOT_HISPANIC = ({"hispanic": frozenset({i})} for i in (1, 0))
_HISPANIC_BY_RACE: list[Row] = [
    _TOTAL,
    ("Hispanic or Latino", 1, _HISPANIC),
    ("Not Hispanic or Latino", 1, _NOT_HISPANIC),
    *((label, depth, _NOT_HISPANIC | selection) for label, depth, selection in _races(1)),
]
_GROUP_QUARTERS: list[Row] = [
    (label, depth, {"hhgq": frozenset(values)})
    for label, depth, values in (
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
]
_OCCUPANCY = [_TOTAL, ("Occupied", 1, {"h1": frozenset({1})}), ("Vacant", 1, {"h1": frozenset({0})})]

_AGES = (0, 5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85, 116)
"""The first age of each group of P12, and the end of the last one."""


def _sex_by_age() -> Iterator[Row]:
    yield _TOTAL
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


def _adults(rows: list[Row]) -> list[Row]:
    return [(label, depth, {"votingage": frozenset({1})} | selection) for label, depth, selection in rows]


_ROWS: dict[str, tuple[str, Iterable[Row]]] = {
    "P1": ("pl94-person", _RACE), "P2": ("pl94-person", _HISPANIC_BY_RACE), "P3": ("pl94-person", _adults(_RACE)),
    "P4": ("pl94-person", _adults(_HISPANIC_BY_RACE)), "P5": ("pl94-person", _GROUP_QUARTERS),
    "H1": ("pl94-unit", _OCCUPANCY), "P12": ("dhc-person", _sex_by_age()),
}  # fmt: skip

TABLES = {
    name: Published(
        name,
        PRODUCTS[product],
        tuple(Line(f"{name}_{i:03d}N", label, depth, values) for i, (label, depth, values) in enumerate(rows, start=1)),
    )
    for name, (product, rows) in _ROWS.items()
}
"""Name -> table."""


def _lines_of(*names: str) -> tuple[Published, tuple[Line, ...]]:
    """The lines that names of tables or codes stand for, and the table of the first."""
    found: list[Line] = []
    tables: list[Published] = []
    for name in names:
        table = TABLES.get(str(name).split("_")[0])
        lines = [] if table is None else [line for line in table.lines if name in (table.name, line.code)]
        if table is None or not lines:
            known = ", ".join(f"{own.lines[0].code} to {own.lines[-1].code}" for own in TABLES.values())
            raise ValueError(f"{name!r} is no published table or code that is known here; known are {known}")
        tables.append(table)
        found += lines
    if not tables:
        raise ValueError("name at least one published table or code, such as 'P1' or 'P1_003N'")
    products = [table.product.name for table in tables]
    if len(set(products)) > 1:
        raise ValueError(f"{shown(names)} are sums of different histograms: {shown(products)}")
    codes = [line.code for line in found]
    if len(set(codes)) < len(codes):
        raise ValueError(f"the same code is asked for twice: {shown(code for code in codes if codes.count(code) > 1)}")
    return tables[0], tuple(found)


def published_codes(*names: str) -> pd.DataFrame:
    """The lines of published tables as a DataFrame: index ``code``, columns ``label`` and ``depth`` (how far the line is set in).

    Parameters
    ----------
    *names : str
        Tables (``"P1"``) or codes (``"P1_003N"``), of one histogram: P1 to P5 of persons, H1 of housing units, P12 of the DHC.

    Examples
    --------
    >>> published_codes("P1").loc["P1_003N", "label"]
    'White alone'
    """
    _, lines = _lines_of(*names)
    rows = [(line.code, line.label, line.depth) for line in lines]
    return pd.DataFrame(rows, columns=["code", "label", "depth"]).set_index("code")


def code_query(table: Any, *names: str, by: str | None = None) -> LinearQuery:
    """Published codes as one query, so that all of them have one joint posterior.

    Answers are called ``"P1_003N"``, or ``"tract=0501000100..., P1_003N"``.

    Parameters
    ----------
    table : object
        Anything with the labels of a table that `read_nmf` made: its release's frame, or draws without chain and draw.
    *names : str
        Tables (``"P1"``) or codes (``"P1_003N"``, ``"P12_020N"``).
    by : str, optional
        A level of geography, such as ``"tract"``: one answer a geounit and code. By default for all that was read.

    Raises
    ------
    ValueError
        If a code is not known, or the cells of the table are coarser than a code needs; the message names it.

    Examples
    --------
    >>> units = {"block": ["a", "b"], "h1": ["vacant", "occupied"]}
    >>> query = code_query(units, "H1")
    >>> query.names, query.apply([[1, 10], [2, 20]]).tolist()
    (['H1_001N', 'H1_002N', 'H1_003N'], [33, 30, 3])
    """
    frame = Frame.of(table)
    published, lines = _lines_of(*names)
    masks = np.stack(_masks(frame, published, lines))
    leaf, nodes = frame.dims[0], SumPart(frame, () if by is None else (by,))
    if by is not None and nodes.levels[0] != by:
        raise ValueError(
            f"by must be a level of geography, {leaf!r} or a group of it, got {by!r}, a group of {frame.group(by)[0]!r}"
        )
    node = nodes.codes[0]  # of each leaf
    starts = [""] if by is None else [f"{by}={label}, " for label in nodes.answer_labels[0]]
    leaves = sp.csr_array(
        (np.ones(len(node), dtype=np.int64), (node, np.arange(len(node)))), shape=(len(starts), len(node))
    )
    matrix = sp.kron(leaves, sp.csr_array(masks), format="csr")
    return LinearQuery(frame, matrix, [f"{start}{line.code}" for start in starts for line in lines])


def _masks(frame: Frame, published: Published, lines: tuple[Line, ...]) -> list[Mask]:
    """The cells of a leaf that count in each line, flat."""
    histogram = published.product.histogram
    dims = frame.dims[1:]
    if not set(dims) <= set(histogram.names):
        raise ValueError(
            f"{published.name} is a table of {published.product.name}, with the axes {shown(histogram.names)}, but the dimensions of "
            f"the table are {shown(frame.dims)}"
        )
    cuts = {dim: histogram.axis(dim).of_labels(frame.labels_of(dim)) for dim in dims}
    found = []
    for line in lines:
        whole = np.ones((1,) * len(dims), dtype=np.bool_)
        for name, values in line.selection.items():
            chosen = _chosen(line, name, values, cuts.get(name, histogram.axis(name).binning("*")), name in dims)
            if name in dims:
                whole = whole & chosen.reshape([-1 if dim == name else 1 for dim in dims])
        found.append(np.broadcast_to(whole, frame.shape[1:]).reshape(-1))
    return found


def _chosen(line: Line, axis: str, values: frozenset[int], cut: Binning, there: bool) -> Mask:
    """The groups of an axis that count in a line; ValueError if one counts in part only."""
    inside = [len(values & set(members)) for members in cut.members]
    if any(0 < count < len(members) for count, members in zip(inside, cut.members, strict=True)):
        how = f"cut by {cut.name!r}" if there else "not there"
        raise ValueError(
            f"{line.code} ({line.label}) is no sum of the cells: the axis {axis!r} of the table is {how}; read it with "
            f"finer cells, such as cells={{{axis!r}: 'detailed'}}"
        )
    return np.asarray(inside) > 0
