"""What the mechanisms of subspace differential privacy share: real noise on any query, on the space left free."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._text import printable
from bayesdp._validate import choice
from bayesdp.mechanisms._shared import drawn_exactly, grid_caveat, grid_for, on_grid
from bayesdp.mechanisms.base import AdditiveMechanism
from bayesdp.privacy import FLOATING_POINT_CAVEAT, Guarantee, PairLoss
from bayesdp.privacy.caveats import Fixed
from bayesdp.privacy.loss import Loss
from bayesdp.privacy.pairs import Kept, Neighbours
from bayesdp.queries import Identity, Query
from bayesdp.queries.query import checked_query
from bayesdp.sensitivities.differences import NEIGHBOURS, DifferenceLength
from bayesdp.sensitivities.kept import difference_lengths
from bayesdp.sensitivities.norms import DifferenceNorm


@dataclass(frozen=True)
class SubspaceMechanism(AdditiveMechanism):
    """Publish noisy answers of a query whose noise changes nothing that the invariants determine.

    Parameters
    ----------
    invariants : Query, iterable of Query, or Invariants
        What is published exactly.
    query : Query, optional
        What the noise is added to; the cells themselves (`Identity`) if left out.
    neighbours : {"substitution", "add-remove"}
        Neighbouring tables: one record changes its cell (the number of records is public), or comes or goes.
    """

    query: Any = field(default=None, kw_only=True)
    neighbours: str = field(default="substitution", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        choice(self.neighbours, tuple(NEIGHBOURS), "neighbours")
        asked = checked_query(Identity(self.frame) if self.query is None else self.query, self.frame)
        object.__setattr__(self, "query", asked)
        if not self.answer_invariants.dimension:
            raise ValueError(
                "the invariants determine every answer of the query, so that there is nothing left to add noise to: "
                f"{', '.join(map(printable, asked.names[:3]))} ..."
            )

    @property
    def released_query(self) -> Query:
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
        """The guarantee for neighbouring tables, without what all these mechanisms have in common."""

    @property
    @abstractmethod
    def _difference_norm(self) -> DifferenceNorm:
        """The norm in which the noise hides differences."""

    @abstractmethod
    def _loss_at(self, size: float) -> Loss:
        """The loss for two tables whose answers are so far apart, in the norm of the noise."""

    @property
    def _neighbours_apart(self) -> tuple[float, str]:
        """The largest distance of neighbouring tables in the norm of the noise, and whether all have it: a key of `BOUNDS`."""
        return self._own_guarantee.parameters.size, ""

    @cached_property
    def _kept(self) -> tuple[DifferenceLength, ...]:
        """How far two tables that conform to the invariants are apart, by the smallest kinds of difference."""
        return difference_lengths(self._difference_norm)

    @property
    def grid(self) -> float:
        """Released values are multiples of this power of two, at most 1 so that counts are on it."""
        return grid_for(self._noise_scale)

    @property
    def _noise_step(self) -> float:
        return self.grid

    def _draw(self, rng: np.random.Generator | None, size: int, method: str) -> npt.NDArray[np.float64]:
        drawn_exactly(method)
        relations = self.answer_invariants
        draws = np.asarray(self.law.draw(rng, relations.frame.shape, size, relations), dtype=np.float64)
        return on_grid(draws, self.grid, relations)

    def _guarantee(self, method: str) -> Guarantee:
        drawn_exactly(method)
        stated = self._own_guarantee
        size, bound = self._neighbours_apart
        neighbours = PairLoss(
            Neighbours(self.neighbours, "all", bound),
            size,
            stated.unit,
            stated.loss if size == stated.parameters.size else self._loss_at(size).to(stated.kind),
        )
        conforming = tuple(
            PairLoss(Kept(own.difference, own.bound), own.size, stated.unit, self._loss_at(own.size))
            for own in self._kept
        )
        bounded = (Fixed("upper bounds"),) if any(own.bound == "upper" for own in self._kept) else ()
        missing = () if self._kept else (Fixed("no kept differences"),)
        return Guarantee(
            stated.kind,
            stated.parameters,
            stated.unit,
            (neighbours, *conforming),
            caveats=(
                *stated.caveats,
                *bounded,
                *missing,
                FLOATING_POINT_CAVEAT,
                grid_caveat(self.grid),
                Fixed("subspace"),
            ),
        )
