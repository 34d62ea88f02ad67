"""Budgets of the 2020 Census: what a query got of them, by level, and the losses of its published counts.

How the privacy loss of the 2020 redistricting file was split among levels of geography and queries.

Source: the Census Bureau's published production code, DAS_2020_Redistricting_Production_Code at commit 289ee463,
configs/production/pl94/person_US.ini and person_default.ini, and the strategy
ProductionCandidate20210527US_mult8_add02_dsepJune3 of programs/strategies/strategies.py (public domain, CC0). Persons of the fifty
states and the District of Columbia.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from bayesdp import _validate
from bayesdp._validate import choice, shown
from bayesdp.privacy.gaussian import rho_to_epsilon

_CONVENTIONS = {"tight": "tight", "paper": "bun-steinke"}


@dataclass(frozen=True)
class CensusRow:
    """The loss between two tables that agree on the invariants and differ in up to `a` records.

    Parameters
    ----------
    a : int
        Distance of the tables, in records. 1 is the loss as stated: that of a record which changes alone, as one within its
        state can. One that leaves it needs another that moves the other way, and is at distance 2.
    rho : float
        zCDP loss at that distance.
    delta : float
        The delta of the two conversions.
    epsilon : float
        Epsilon by the conversion that was asked for.
    epsilon_tight : float
        Epsilon by the tight conversion, for comparison: never larger.
    """

    a: int
    rho: float
    delta: float
    epsilon: float
    epsilon_tight: float

    def __str__(self) -> str:
        return (
            f"a = {self.a}: rho = {self.rho:.6g}, epsilon = {self.epsilon:.5f} (tight: {self.epsilon_tight:.5f}) "
            f"at delta = {self.delta:g}"
        )


def census_analysis(
    rho: float = 2.56, a: int | Iterable[int] = (1, 2), delta: float = 1e-10, convention: str = "tight"
) -> tuple[CensusRow, ...]:
    """Give the loss of a rho-zCDP release with invariants, for tables at the distances that the invariants allow.

    Group privacy makes rho-zCDP of one record ``a**2 rho`` of a records (Bun and Steinke, 2016, Proposition 1.9; paper 003,
    Lemma 39), and that is the guarantee for tables that agree on the invariants and differ in up to a records. With the
    invariants of the 2020 census that concern persons, the total of each state, ``a = 2``: somebody is replaced, and somebody
    else moves the other way. For other invariants, see the semi-adjacent parameter.

    Parameters
    ----------
    rho : float, default 2.56
        zCDP loss for one record; 2.56 was spent on the person tables of the 2020 redistricting data.
    a : int or iterable of int, default (1, 2)
        Distances, usually 1 and the semi-adjacent parameter of the invariants.
    delta : float, default 1e-10
        For the conversion to (epsilon, delta).
    convention : {"tight", "paper"}
        Conversion of `CensusRow.epsilon`: the tight one, or that of Bun and Steinke, which the paper prints. Both are valid.

    Returns
    -------
    tuple of CensusRow
        One for each distance.

    Raises
    ------
    TypeError, ValueError
        If rho is not positive, a distance not a positive integer, delta not in (0, 1), or the convention is unknown.

    Examples
    --------
    >>> for row in census_analysis(convention="paper"):
    ...     print(row)
    a = 1: rho = 2.56, epsilon = 17.91528 (tight: 17.15831) at delta = 1e-10
    a = 2: rho = 10.24, epsilon = 40.95057 (tight: 39.82257) at delta = 1e-10
    """
    loss = _validate.positive_real(rho, "rho")
    slack = _validate.probability(delta, "delta")
    method = _CONVENTIONS[_validate.choice(convention, tuple(_CONVENTIONS), "convention")]
    distances = list(a) if isinstance(a, Iterable) else [a]
    if not distances:
        raise ValueError("a must hold at least one distance")
    rows = []
    for given in distances:
        steps = _validate.positive_integer(given, "a")
        group_rho = steps**2 * loss
        epsilon = rho_to_epsilon(group_rho, slack, method=method)
        rows.append(CensusRow(steps, group_rho, slack, epsilon, rho_to_epsilon(group_rho, slack)))
    return tuple(rows)


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

LEVELS = tuple(_SHARES)


def share_of(level: str, query: str) -> Fraction:
    """The share of the loss that a query at a level of geography has; 0 where it was not measured.

    Raises
    ------
    ValueError
        If there is no such level or query; those that there are are listed.

    Examples
    --------
    >>> float(share_of("State", "total")), share_of("US", "total")
    (0.323..., Fraction(0, 1))
    """
    level_share, denominator, shares = _SHARES[choice(level, LEVELS, "level")]
    if query not in QUERIES:
        raise ValueError(f"query must be one of {shown(QUERIES, 20)}, got {query!r}")
    return Fraction(level_share * shares[QUERIES.index(query)], 4099 * denominator)


@dataclass(frozen=True)
class CensusQuery:
    """The loss of one query at one level of geography. Made by `census_queries`.

    Attributes
    ----------
    level, query : str
        ``"all"`` in the last row, the sum of all.
    rho : float
        zCDP loss as stated: of one record that changes alone.
    semi_rho : float
        zCDP loss between tables that agree on the totals of the states and differ in up to `a` records: the largest there is.
    group_rho : float
        ``a**2 rho``, as Section 6 of the paper has it for all queries together.
    a : int
        The distance.
    epsilon, semi_epsilon : float
        Epsilons of `rho` and of `semi_rho` at the delta that was asked for, by the tight conversion.
    """

    level: str
    query: str
    rho: float
    semi_rho: float
    group_rho: float
    a: int
    epsilon: float
    semi_epsilon: float

    def __str__(self) -> str:
        return (
            f"{self.level}, {self.query}: rho = {self.rho:.6f}, with state totals at a = {self.a}: {self.semi_rho:.6f} "
            f"(a**2 rho: {self.group_rho:.6f})"
        )


def census_queries(a: int = 2, delta: float = 1e-10, *, undivided: bool = False) -> tuple[CensusQuery, ...]:
    """The loss of every measured query of the 2020 redistricting file (persons), with the totals of the states exact.

    Section 6 multiplies the loss of all queries, 2.56, by ``a**2 = 4``. Query by query the factor is ``a**2`` too: a records of
    one state can all make the same change of block and of attributes, which moves every query as far as it can be, all of them
    by the same pair of tables, so that the losses add up. There is one exception. The census measured the *totals of the
    states* with noise as well, nearly a third of the loss, and published them exactly; between tables that agree on them, the noise
    says nothing. But the units that it measured are those of its spine, where a state with legal American Indian or Alaska
    Native areas is two units, these areas and the rest, whose totals are not published: the loss of records that change between these
    two is multiplied like every other.

    Parameters
    ----------
    a : int, default 2
        Distance of the tables, in substituted records; 2 is the semi-adjacent parameter of the totals of the states.
    delta : float, default 1e-10
        For the epsilons.
    undivided : bool, default False
        The losses of records in states that are one unit, for which the exact total leaves nothing of the noisy one. By default
        those of all records, the largest.

    Returns
    -------
    tuple of CensusQuery
        One for each measured query and level, and a last one for all together.

    Raises
    ------
    TypeError, ValueError
        If a is not a positive integer, delta not in (0, 1), or undivided no bool.

    Notes
    -----
    The numbers of housing units and
    of group quarters, which were exact too, are not about persons (Section 6.1).

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Section 6; for the allocation see
    `bayesdp.privacy.census`.

    Examples
    --------
    >>> print(census_queries()[-1])
    all, all: rho = 2.556226, with state totals at a = 2: 10.224902 (a**2 rho: 10.224902)
    >>> rows = census_queries(undivided=True)
    >>> print(next(row for row in rows if (row.level, row.query) == ("State", "total")))
    State, total: rho = 0.826998, with state totals at a = 2: 0.000000 (a**2 rho: 3.307993)
    >>> print(rows[-1])
    all, all: rho = 2.556226, with state totals at a = 2: 6.916909 (a**2 rho: 10.224902)
    """
    steps = _validate.positive_integer(a, "a")
    slack = _validate.probability(delta, "delta")
    one_unit = _validate.boolean(undivided, "undivided")
    rows = []
    stated, changed = Fraction(0), Fraction(0)
    for level in LEVELS:
        for query in QUERIES:
            rho = RHO * share_of(level, query)
            if not rho:
                continue
            known = one_unit and level == "State" and query == "total"
            semi = Fraction(0) if known else steps**2 * rho
            stated, changed = stated + rho, changed + semi
            rows.append(_row(level, query, rho, semi, steps, slack))
    return (*rows, _row("all", "all", stated, changed, steps, slack))


def _row(level: str, query: str, rho: Fraction, semi: Fraction, a: int, delta: float) -> CensusQuery:
    epsilon, semi_epsilon = (rho_to_epsilon(float(own), delta) if own else 0.0 for own in (rho, semi))
    return CensusQuery(level, query, float(rho), float(semi), float(a * a * rho), a, epsilon, semi_epsilon)
