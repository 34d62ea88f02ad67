"""The 2020 Census by query and level of geography: what the exact totals of the states do to each part of the loss."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from bayesdp import _validate
from bayesdp.privacy.census_allocation import LEVELS, QUERIES, RHO, share_of
from bayesdp.privacy.zcdp import rho_to_epsilon

__all__ = ["CensusQuery", "census_queries"]


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
    `bayesdp.privacy.census_allocation`.

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
