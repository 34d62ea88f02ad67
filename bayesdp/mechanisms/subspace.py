"""What the mechanisms of subspace differential privacy share: real noise on any query, on the space left free."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._validate import choice
from bayesdp.lattices.rounding import round_to_lattice
from bayesdp.mechanisms._differences import kept_differences
from bayesdp.mechanisms.base import Mechanism
from bayesdp.privacy import FLOATING_POINT_CAVEAT, Difference, Guarantee, PairLoss
from bayesdp.queries import Identity, Query, SumPart

__all__ = ["NEIGHBOURS", "SubspaceMechanism"]

NEIGHBOURS = MappingProxyType(
    {
        "substitution": "one record changes its cell (substitution; the number of records is public)",
        "add-remove": "one record is added or removed (add-remove)",
    }
)
"""Neighbouring tables, in words."""

_GRID_BITS = 20
"""Released values are multiples of the noise scale, rounded down to a power of two, times 2**-20, or of 1 if less."""

_SUBSPACE = (
    "Neighbours that the invariants tell apart are not protected against that; the loss bounds what the noisy answers add "
    "about the part that the invariants leave free (subspace differential privacy)."
)


@dataclass(frozen=True)
class SubspaceMechanism(Mechanism):
    """Publish noisy answers of a query whose noise changes nothing that the invariants determine.

    Parameters
    ----------
    invariants : Query, iterable of Query, or Invariants
        What is published exactly.
    query : Query, optional
        What the noise is added to; the cells themselves (`Identity`) if left out.
    neighbours : {"substitution", "add-remove"}
        Neighbouring tables: one record changes its cell (the number of records is public), or comes or goes.

    Raises
    ------
    TypeError, ValueError
        If the query is about another table, or the invariants determine all its answers.
    """

    query: Any = field(default=None, kw_only=True)
    neighbours: str = field(default="substitution", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        choice(self.neighbours, tuple(NEIGHBOURS), "neighbours")
        asked = Identity(self.frame) if self.query is None else self.query
        if not isinstance(asked, Query):
            raise TypeError(f"query must be Identity, Margins, Totals or LinearQuery, got {type(asked).__name__}")
        if not asked.frame.same_cells(self.frame):
            raise ValueError("query must be about the table of the invariants (same dimensions and labels)")
        object.__setattr__(self, "query", asked)
        if not self.answer_invariants.dimension:
            raise ValueError(
                "the invariants determine every answer of the query, so that there is nothing left to add noise to: "
                f"{', '.join(asked.names[:3])} ..."
            )

    @property
    def asked(self) -> Query:
        """The query whose answers get the noise."""
        query: Query = self.query
        return query

    @property
    @abstractmethod
    def _noise_scale(self) -> float:
        """The smallest scale of the noise, for the grid of released values."""

    @property
    @abstractmethod
    def _own_guarantee(self) -> Guarantee:
        """The guarantee, without what all these mechanisms have in common."""

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """The smallest kinds of difference between the answers of two tables that the invariants do not tell apart.

        Known for noise on the cells and on a single margin or total; empty for other queries.
        """
        if self.asked.is_identity or (len(self.asked.parts) == 1 and isinstance(self.asked.parts[0], SumPart)):
            return kept_differences(self.answer_invariants)
        return ()

    @property
    def grid(self) -> float:
        """Released values are multiples of this power of two, at most 1 so that counts are on it."""
        return math.ldexp(1.0, min(math.frexp(self._noise_scale)[1] - 1 - _GRID_BITS, 0))

    def _draw(self, rng: np.random.Generator | None, size: int, method: str) -> npt.NDArray[np.float64]:
        _check_method(method)
        relations = self.answer_invariants
        draws = np.asarray(self.law.draw(rng, relations.frame.shape, size, relations))
        whole = round_to_lattice(np.asarray(draws / self.grid, dtype=np.float64), relations)
        return np.asarray(self.grid * whole, dtype=np.float64)

    def _guarantee(self, method: str) -> Guarantee:
        _check_method(method)
        stated = self._own_guarantee
        grid = f"Released values are rounded to multiples of 2**{round(math.log2(self.grid))}, invariants kept."
        neighbours = PairLoss(
            f"neighbouring tables, whether or not the invariants tell them apart: {NEIGHBOURS[self.neighbours]}",
            stated.parameters["sensitivity"],
            stated.unit,
            {name: value for name, value in stated.parameters.items() if name != "sensitivity"},
        )
        return Guarantee(
            stated.kind,
            stated.parameters,
            stated.unit,
            (neighbours, *stated.pairs),
            caveats=(*stated.caveats, FLOATING_POINT_CAVEAT, grid, _SUBSPACE),
        )


def _check_method(method: Any) -> None:
    if choice(method, ("auto", "exact", "mcmc"), "method") == "mcmc":
        raise ValueError("method must be 'auto' or 'exact': the noise of this mechanism is always drawn exactly")
