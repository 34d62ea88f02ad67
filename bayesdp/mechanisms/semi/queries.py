"""What the mechanisms of Semi-DP share that answer any query: noise on the span of what the answers can change by."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from bayesdp._text import printable
from bayesdp.mechanisms.semi.base import SemiRealMechanism
from bayesdp.queries import Identity, Query

__all__ = ["SemiQueryMechanism"]

_NO_NOISE = 1e-9
"""Length of the projection of a sum onto the noise space below which it is zero."""


@dataclass(frozen=True)
class SemiQueryMechanism(SemiRealMechanism):
    """Real noise on the answers of a query (Cho and Awan, Algorithms 1 and 2).

    Parameters
    ----------
    query : Query, optional
        What the noise is added to; the cells themselves (`Identity`) if left out.

    Raises
    ------
    TypeError, ValueError
        If the query is about another table, the invariants determine all its answers, or ``convention="paper"`` is asked for,
        which is about the cells.
    NotImplementedError
        If `published` is given with a query other than the cells.
    """

    query: Any = field(default=None, kw_only=True)

    @property
    def released_query(self) -> Query:
        """The query whose answers get the noise."""
        query: Query = self.query
        return query

    def _check_query(self) -> None:
        asked = Identity(self.frame) if self.query is None else self.query
        if not isinstance(asked, Query):
            raise TypeError(f"query must be Identity, Margins, Totals or LinearQuery, got {type(asked).__name__}")
        if not asked.frame.same_cells(self.frame):
            raise ValueError("query must be about the table of the invariants (same dimensions and labels)")
        if self.convention == "paper" and not asked.is_identity:
            raise ValueError(
                "convention='paper' is Proposition 32, about the cells of a table: leave out query, or take convention='definition'"
            )
        if self.published is not None and not asked.is_identity:
            raise NotImplementedError(
                "published= is for noise on the cells: how far the answers of a query can be apart under published totals is not "
                "worked out. Leave out published (the noise is then enough for any totals) or query"
            )
        object.__setattr__(self, "query", asked)
        if not self.answer_invariants.dimension:
            raise ValueError(
                "the invariants determine every answer of the query, so that there is nothing left to add noise to: "
                f"{', '.join(map(printable, asked.names[:3]))} ..."
            )

    @cached_property
    def exact_answers(self) -> tuple[str, ...]:
        """The names of the answers that the invariants determine; they are published without noise.

        Examples
        --------
        >>> from bayesdp import Margins, SemiGaussian
        >>> table = {"sex": ["F", "M"], "age": ["young", "old"]}
        >>> asked = Margins(table, ["sex"]) + Margins(table, ["age"])
        >>> SemiGaussian(Margins(table, ["sex"]), mu=1.0, query=asked).exact_answers
        ('sex=F', 'sex=M')
        """
        relations = self.answer_invariants
        if self.space.is_of_answers and relations.nested is not None:
            # The squared lengths are products of shares 1 / k and 1 - 1 / k, k a number of labels: far from zero or zero.
            free = relations.from_coordinates(np.eye(relations.dimension)).reshape(relations.dimension, -1)
            fixed = np.linalg.norm(free, axis=0) < _NO_NOISE
        else:
            fixed = ~np.any(self.space.differences, axis=0)  # they span the noise space, and are whole numbers
        return tuple(self.released_query.answer_name(int(i)) for i in np.flatnonzero(fixed))
