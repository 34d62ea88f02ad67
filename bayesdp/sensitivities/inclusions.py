"""What invariants save: the sensitivity spaces of DP, of groups and of Semi-DP, one inside the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bayesdp.sensitivities.space import NORMS, SensitivitySpace

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Inclusions:
    """Proposition 24 in numbers. Made by `inclusions`.

    Attributes
    ----------
    semi_in_group : bool
        Whether ``S_Semi`` is a subset of ``S_Group``.
    group_gauge, semi_gauge : float
        The largest norm, of which the unit ball is ``Hull(S_DP)``, of a difference in ``S_Group``, in ``S_Semi``: the least
        multiple of ``Hull(S_DP)`` that holds it.
    adjacency : int
        a, the size of groups.
    sensitivities : mapping
        For ``l1``, ``l2`` and ``linf``: those of ``S_Semi`` and of ``S_Group``, and a times that of ``S_DP``.
    """

    semi_in_group: bool
    group_gauge: float
    semi_gauge: float
    adjacency: int
    sensitivities: Mapping[str, tuple[float, float, float]]

    @property
    def hold(self) -> bool:
        """Whether all that Proposition 24 states is so here."""
        ordered = all(a <= b + _ROUNDING and b <= c + _ROUNDING for a, b, c in self.sensitivities.values())
        return self.semi_in_group and self.group_gauge <= self.adjacency + _ROUNDING and ordered

    def __str__(self) -> str:
        lines = [
            f"S_Semi inside S_Group: {'yes' if self.semi_in_group else 'no'}",
            f"Hull(S_Group) inside {self.adjacency} Hull(S_DP): the least multiple is {self.group_gauge:.6g}; "
            f"of S_Semi it is {self.semi_gauge:.6g}",
            f"sensitivity  {'S_Semi':>8} {'S_Group':>8} {f'{self.adjacency} S_DP':>8}",
        ]
        lines += [f"  {norm:<10} {a:8.4f} {b:8.4f} {c:8.4f}" for norm, (a, b, c) in self.sensitivities.items()]
        return "\n".join(lines)


def inclusions(semi: SensitivitySpace) -> Inclusions:
    """Compare a Semi-DP sensitivity space with those of groups and of single records (Proposition 24).

    Parameters
    ----------
    semi : SensitivitySpace
        Small enough for the differences of groups to be listed.

    Returns
    -------
    Inclusions
        Print it.

    Raises
    ------
    TypeError, ValueError
        If the argument is no `SensitivitySpace`, the query is constant, or there are too many differences to list.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Proposition 24.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"sex": ["F", "M"], "admitted": ["no", "yes"]}
    >>> print(inclusions(SensitivitySpace.semi(Margins(table, ["sex"], ["admitted"]), 3)))
    S_Semi inside S_Group: yes
    Hull(S_Group) inside 3 Hull(S_DP): the least multiple is 3; of S_Semi it is 2
    sensitivity    S_Semi  S_Group   3 S_DP
      l1           4.0000   6.0000   6.0000
      l2           2.0000   4.2426   4.2426
      linf         1.0000   3.0000   3.0000
    """
    if not isinstance(semi, SensitivitySpace):
        raise TypeError(f"semi must be a SensitivitySpace, got {type(semi).__name__}")
    a = semi.adjacency
    one = SensitivitySpace.dp(semi.query, semi.neighbours)
    group = SensitivitySpace.group(semi.query, a, semi.neighbours)
    if not one.rank:
        raise ValueError("query has the same answers on all databases of one size: there is nothing to compare")
    members = {row.tobytes() for row in np.ascontiguousarray(group.differences)}
    inside = all(row.tobytes() in members for row in np.ascontiguousarray(semi.differences))

    def largest(space: SensitivitySpace) -> float:
        return float(np.max(one.hull.gauge(one.coordinates(space.differences)), initial=0.0))

    table = {norm: (semi.delta(norm), group.delta(norm), a * one.delta(norm)) for norm in NORMS}
    return Inclusions(inside, largest(group), largest(semi), a, table)
