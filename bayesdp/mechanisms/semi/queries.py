"""What the mechanisms of Semi-DP share that answer any query: noise on the span of what the answers can change by."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from bayesdp._text import printable
from bayesdp.mechanisms.semi.base import SemiRealMechanism
from bayesdp.queries import Identity, Query, shown_unit
from bayesdp.sensitivities.spans import exact_rank

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
        If the query is about another table, its answers have several units, the invariants determine all of them, or
        ``convention="paper"`` is asked for, which is about the cells.
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
        if asked.unit is None:
            raise ValueError(
                f"query must have one unit, since noise has one scale for all answers, but its parts have the units "
                f"{', '.join(map(shown_unit, asked.units))}: state all answers in one LinearQuery.of_values(..., unit=...)"
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
        if self.published is not None:
            # What published answers allow may span less than the noise does: e_i is determined if the relations span it.
            matrix = np.asarray(relations.matrix.toarray(), dtype=np.int64)
            units = np.eye(matrix.shape[1], dtype=np.int64)
            fixed = np.array([exact_rank(np.vstack([matrix, own])) == relations.rank for own in units])
        elif self.space.is_of_answers and relations.nested is not None:
            # The squared lengths are products of shares 1 / k and 1 - 1 / k, k a number of labels: far from zero or zero.
            free = relations.from_coordinates(np.eye(relations.dimension)).reshape(relations.dimension, -1)
            fixed = np.linalg.norm(free, axis=0) < _NO_NOISE
        else:
            fixed = ~np.any(self.space.differences, axis=0)  # they span the noise space, and are whole numbers
        return tuple(self.released_query.answer_name(int(i)) for i in np.flatnonzero(fixed))
