"""What mechanisms for the answers of a query without invariants share, and those of them that add integer noise."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bayesdp._text import printable
from bayesdp._validate import choice
from bayesdp.invariants import Invariants
from bayesdp.mechanisms._shared import drawn_exactly
from bayesdp.mechanisms.base import AdditiveMechanism, Mechanism
from bayesdp.noise import DiscreteGaussian, DiscreteLaplace
from bayesdp.noise.secure import draw_independent, statement
from bayesdp.privacy import PairLoss
from bayesdp.privacy.caveats import IntegersOnly
from bayesdp.privacy.loss import Loss
from bayesdp.privacy.pairs import Neighbours
from bayesdp.queries import Identity, Query
from bayesdp.queries.query import checked_query
from bayesdp.sensitivities.differences import NEIGHBOURS


@dataclass(frozen=True, init=False)
class AnswersMechanism(Mechanism):
    """Publish noisy answers of a query, each with noise of its own, and nothing exactly.

    Parameters
    ----------
    table : Query, or labels of a table
        What the noise is added to: a query, or the cells of a table.
    neighbours : {"substitution", "add-remove"}
        Neighbouring tables: one record changes its cell (the number of records is public), or comes or goes.
    query : Query, optional
        The query, where `table` is the labels.
    """

    _for_invariants: ClassVar[str] = "LatticeLaplace"
    """What messages advise to those who have invariants."""

    query: Any = field(default=None, kw_only=True)
    neighbours: str = field(default="substitution", kw_only=True)

    def _prepare(self, table: Any, query: Any, neighbours: str) -> None:
        """Set the fields that all these mechanisms have."""
        if isinstance(table, Query):
            if query is not None:
                raise ValueError("give the query once: as the first argument or as query=")
            table, query = table.frame, table
        invariants = table if isinstance(table, Invariants) else Invariants((), table)
        if invariants.query.parts:
            raise ValueError(
                f"{type(self).__name__} publishes nothing exactly; for invariants there is {self._for_invariants}"
            )
        asked = checked_query(
            Identity(invariants.frame) if query is None else query, invariants.frame, "the same table"
        )
        choice(neighbours, tuple(NEIGHBOURS), "neighbours")
        for name, value in (("invariants", invariants), ("query", asked), ("neighbours", neighbours)):
            object.__setattr__(self, name, value)
        super().__post_init__()
        if not self.sensitivity:
            raise ValueError(
                f"no two neighbouring tables ({NEIGHBOURS[neighbours]}) have different answers, so that there is nothing for "
                f"the noise to hide: {', '.join(map(printable, asked.names[:3]))}"
            )

    @property
    def released_query(self) -> Query:
        """The query whose answers get the noise."""
        query: Query = self.query
        return query

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """The largest change of the answers between neighbouring tables, in counts."""

    def _neighbouring(self, norm: str, loss: Loss) -> tuple[PairLoss, ...]:
        return (PairLoss(Neighbours(self.neighbours), self.sensitivity, norm, loss),)


@dataclass(frozen=True, init=False)
class DiscreteMechanism(AnswersMechanism, AdditiveMechanism):
    """Publish the answers of a query with independent integer noise; see `AnswersMechanism` for the parameters."""

    @property
    @abstractmethod
    def law(self) -> DiscreteLaplace | DiscreteGaussian:
        """The law of the noise."""

    def _integers_only(self, method: str) -> IntegersOnly:
        return statement()

    def _draw(self, rng: np.random.Generator | None, size: int, method: str) -> npt.NDArray[np.int64]:
        drawn_exactly(method, "independent noise")
        shape = self.released_query.shape
        if rng is None:
            return draw_independent(self.law, size * self.released_query.rows).reshape(size, *shape)
        drawn: npt.NDArray[np.int64] = self.law.draw(rng, shape, size)
        return drawn
