"""How the privacy loss of the 2020 redistricting file was split among levels of geography and queries, and what noise follows.

Source: the Census Bureau's published production code, DAS_2020_Redistricting_Production_Code at commit 289ee463,
configs/production/pl94/person_US.ini and person_default.ini, and the strategy
ProductionCandidate20210527US_mult8_add02_dsepJune3 of programs/strategies/strategies.py (public domain, CC0). Persons of the fifty
states and the District of Columbia.
"""

from __future__ import annotations

from fractions import Fraction

from bayesdp._validate import choice, shown

__all__ = ["LEVELS", "QUERIES", "RHO", "share_of", "sigma_squared"]

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

    Examples
    --------
    >>> float(share_of("State", "total")), share_of("US", "total")
    (0.323..., Fraction(0, 1))
    """
    level_share, denominator, shares = _SHARES[choice(level, LEVELS, "level")]
    if query not in QUERIES:
        raise ValueError(f"query must be one of {shown(QUERIES, 20)}, got {query!r}")
    return Fraction(level_share * shares[QUERIES.index(query)], 4099 * denominator)


def sigma_squared(level: str, query: str) -> Fraction | None:
    """The parameter ``sigma**2`` of the noise of a query, as the production settings imply it; None where it was not measured.

    The noise is discrete Gaussian, and this is ``1 / (rho * share of the level * share of the query)``: one record that changes
    moves two cells by one. Geounits that the optimised spine bypasses have more, so that of a file the column ``variance`` counts.

    Parameters
    ----------
    level : {"US", "State", "County", "Tract", "Block_Group", "Block"}
    query : str
        Such as ``"hispanic * cenrace"``.


    Examples
    --------
    >>> sigma_squared("State", "total")
    Fraction(214437516707, 177339451520)
    """
    share = share_of(level, query)
    return 1 / (RHO * share) if share else None
