"""What the mechanisms for counts within public bounds share: bounds, sensitivities, draws; and clipping."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bayesdp._validate import choice
from bayesdp.invariants import Invariants
from bayesdp.mechanisms.independent.base import AnswersMechanism
from bayesdp.mechanisms.independent.discrete_gaussian import DiscreteGaussian
from bayesdp.mechanisms.independent.discrete_laplace import DiscreteLaplace
from bayesdp.noise.bounded.bounds import checked_bounds, plain_bounds
from bayesdp.noise.bounded.integers import BoundedDiscrete
from bayesdp.noise.bounded.secure import draw_bounded
from bayesdp.noise.secure import statement
from bayesdp.privacy import Guarantee, query_sensitivity
from bayesdp.privacy.caveats import Fixed, IntegersOnly
from bayesdp.queries import SumPart
from bayesdp.release import Exact

PUBLIC_BOUNDS = Fixed("public bounds of counts")


@dataclass(frozen=True, init=False, eq=False)
class BoundedCounts(AnswersMechanism):
    """Publish integer answers within public bounds; see the subclasses."""

    bounds: Any = field(default=(0, None), kw_only=True)

    def _bounded(self, table: Any, bounds: Any, query: Any, neighbours: str) -> None:
        """Set the fields that all these mechanisms have."""
        object.__setattr__(self, "bounds", checked_bounds(bounds, integer=True))
        if isinstance(table, Invariants) and table.query.parts:
            raise ValueError(
                f"{type(self).__name__} publishes nothing exactly but its bounds; give the labels of a table, or a query"
            )
        self._prepare(table, query, neighbours)
        for side in self.bounds:
            try:
                fits = np.broadcast_shapes(np.shape(side), self.released_query.shape) == self.released_query.shape
            except ValueError:
                fits = False
            if not fits:
                raise ValueError(
                    f"bounds must be one number, or one for each answer, of shape {self.released_query.shape}, got {np.shape(side)}"
                )

    @property
    @abstractmethod
    def law(self) -> BoundedDiscrete:
        """The law of the released values."""

    @property
    def _sides(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        low, high = (
            np.broadcast_to(np.asarray(side, dtype=np.float64), self.released_query.shape) for side in self.bounds
        )
        return low, high

    @property
    def _changes(self) -> tuple[float, int | None]:
        """How far an answer can change, and how many can change together."""
        l1 = query_sensitivity(self.released_query, "l1", self.neighbours)
        if all(isinstance(part, SumPart) for part in self.released_query.parts):
            return 1.0, round(l1)  # each record is in one answer of each set of sums, and counts once
        return l1, None

    if not TYPE_CHECKING:  # type checkers are to refuse `noise` as they refuse any other attribute that is not there

        def __getattr__(self, name: str) -> Any:
            """Say why there is no `noise`; Python asks here for attributes that are not there."""
            if name == "noise":
                raise AttributeError(
                    f"{type(self).__name__} does not add noise that is independent of the answers: its law depends on how far "
                    "an answer is from its bounds; draw around answers with mechanism.law.draw(rng, shape, size, "
                    "location=answers)"
                )
            return object.__getattribute__(self, name)

    def _integers_only(self, method: str) -> IntegersOnly:
        drawn = statement()
        return drawn if self.law.has_atoms else replace(drawn, redrawn=True)

    def _noisy(self, answers: npt.NDArray[Any], rng: np.random.Generator | None, method: str) -> npt.NDArray[Any]:
        choice(method, ("auto", "exact"), "method")
        outside = np.flatnonzero(self.law.outside(answers).reshape(-1))
        if outside.size:
            where = int(outside[0])
            low, high = (side.reshape(-1)[where] for side in self._sides)
            raise ValueError(
                f"table must have answers within the bounds, {low:.17g} to {high:.17g}, but "
                f"{self.released_query.answer_name(where)} does not: the bounds are wrong, or it is another table"
            )
        if rng is None:
            return draw_bounded(self.law, answers)
        return np.asarray(self.law.draw(rng, answers.shape, location=answers))

    def _public(self) -> tuple[Exact, ...]:
        low, high = self._sides
        found = []
        if np.all(np.isfinite(high)):
            found.append(Exact(self.released_query, high.astype(np.int64), "<="))
        if np.all(np.isfinite(low)) and np.any(low > 0):
            found.append(Exact(self.released_query, low.astype(np.int64), ">="))
        return tuple(found)

    # Bounds may be arrays, which dataclasses cannot compare or hash; the description can do both.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoundedCounts) and (self.frame, self.describe()) == (other.frame, other.describe())

    def __hash__(self) -> int:
        return hash(repr(self.describe()))

    def describe(self) -> dict[str, Any]:
        """The mechanism as plain data; see `Mechanism.describe`."""
        return {**super().describe(), "bounds": plain_bounds(self.bounds)}


class ClippedCounts(BoundedCounts):
    """Publish integer answers clipped to public bounds: post-processing, with the guarantee of the mechanism without bounds."""

    @property
    @abstractmethod
    def _free(self) -> DiscreteLaplace | DiscreteGaussian:
        """The mechanism without bounds."""

    @property
    def sensitivity(self) -> float:
        """The largest change of the answers between neighbouring tables, in the norm of the mechanism without bounds."""
        return self._free.sensitivity

    def _guarantee(self, method: str) -> Guarantee:
        stated = self._free._guarantee(method)
        return replace(stated, caveats=(*stated.caveats, PUBLIC_BOUNDS))
