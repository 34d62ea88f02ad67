"""What the invariants of a census release do to its stated privacy loss (paper 003, Section 6)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bayesdp import _validate
from bayesdp.privacy.zcdp import rho_to_epsilon

__all__ = ["CensusRow", "census_analysis"]

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
