"""What noise follows from how the privacy loss of the 2020 redistricting file was split among levels of geography and queries.

The allocation and its source are in `bayesdp.privacy.census`.
"""

from __future__ import annotations

from fractions import Fraction

from bayesdp.privacy.census import LEVELS, QUERIES, RHO, share_of

__all__ = ["LEVELS", "QUERIES", "RHO", "sigma_squared"]


def sigma_squared(level: str, query: str) -> Fraction | None:
    """The parameter ``sigma**2`` of the noise of a query, as the production settings imply it; None where it was not measured.

    The noise is discrete Gaussian, and this is ``1 / (rho * share of the level * share of the query)``: one record that changes
    moves two cells by one. Geounits that the optimised spine bypasses have more, so that of a file the column ``variance`` counts.

    Parameters
    ----------
    level : {"US", "State", "County", "Tract", "Block_Group", "Block"}
    query : str
        Such as ``"hispanic * cenrace"``.

    Raises
    ------
    ValueError
        If there is no such level or query; those that there are are listed.

    Examples
    --------
    >>> sigma_squared("State", "total")
    Fraction(214437516707, 177339451520)
    """
    share = share_of(level, query)
    return 1 / (RHO * share) if share else None
