"""Discrete Laplace noise on the answers of a query, without invariants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bayesdp._validate import positive_real
from bayesdp.mechanisms._shared import drawn_exactly, laplace_scale
from bayesdp.mechanisms.independent.base import DiscreteMechanism
from bayesdp.noise import DiscreteLaplace as Law
from bayesdp.privacy import FLOATING_POINT_CAVEAT, Guarantee, query_sensitivity
from bayesdp.privacy.losses import PureDP
from bayesdp.privacy.stated_losses import LossAt


@dataclass(frozen=True, init=False)
class DiscreteLaplace(DiscreteMechanism):
    """Publish answers with discrete Laplace noise, of mass ``exp(-|k| / b)``: pure differential privacy.

    The scale is ``b = sensitivity / epsilon``, with the largest l1 change of the answers between neighbouring tables.

    Parameters
    ----------
    table : Query, or labels of a table
        What the noise is added to: a query, or the cells of a table.
    epsilon : float
        Loss for neighbouring tables.
    neighbours : {"substitution", "add-remove"}
        Neighbouring tables: one record changes its cell (the number of records is public), or comes or goes.
    query : Query, optional
        The query, where `table` is the labels.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not valid, or the query is about another table.

    See Also
    --------
    bayesdp.noise.DiscreteLaplace : the law of the noise.
    LatticeLaplace : the same with invariants.

    References
    ----------
    Ghosh, Roughgarden and Sundararajan (2009), Universally Utility-Maximizing Privacy Mechanisms (the geometric mechanism).

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
    >>> mechanism = DiscreteLaplace(Margins(table, ["county"]), epsilon=0.5)
    >>> mechanism.law
    DiscreteLaplace(b=4.0)
    >>> release = mechanism.release([[20, 10], [5, 1]])  # from the operating system's entropy, with integers only
    >>> release.measurements[0].values.dtype
    dtype('int64')
    """

    epsilon: float

    name = "discrete-laplace"

    def __init__(self, table: Any, epsilon: float, *, neighbours: str = "substitution", query: Any = None) -> None:
        object.__setattr__(self, "epsilon", positive_real(epsilon, "epsilon"))
        self._prepare(table, query, neighbours)

    @property
    def sensitivity(self) -> float:
        """The largest l1 change of the answers between neighbouring tables."""
        return query_sensitivity(self.released_query, "l1", self.neighbours)

    @property
    def law(self) -> Law:
        """The law of the noise."""
        return Law(laplace_scale(self.sensitivity, self.epsilon))

    def _guarantee(self, method: str) -> Guarantee:
        drawn_exactly(method, "independent noise")
        return Guarantee(
            "pure",
            LossAt(PureDP(self.epsilon), self.sensitivity),
            "l1",
            self._neighbouring("l1", PureDP(self.epsilon)),
            caveats=(FLOATING_POINT_CAVEAT,),
        )
