"""What the mechanisms with Laplace noise within public bounds share: parameters, true loss, the paper's scale."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bayesdp._validate import choice, finite_array, positive_integer, positive_real
from bayesdp.mechanisms.bounded.statistics import StatisticMechanism
from bayesdp.privacy.caveats import PaperScale
from bayesdp.privacy.losses import PureDP
from bayesdp.privacy.words import Words
from bayesdp.sensitivities.differences import NEIGHBOURS
from bayesdp.sensitivities.stated import stated_sensitivity

CONVENTIONS = ("exact", "paper")
"""``exact`` makes the stated epsilon true; ``paper`` takes the paper's scale, and the guarantee states what is true."""


@dataclass(frozen=True, eq=False)
class LaplaceStatistics(StatisticMechanism):
    """Publish one statistic, or a vector of them, within public bounds, with Laplace noise; see the subclasses."""

    epsilon: float
    sensitivity: Any
    bounds: Any
    names: Any = field(default=None, kw_only=True)
    largest: Any = field(default=None, kw_only=True)
    changed: int | None = field(default=None, kw_only=True)
    paper_sensitivity: float | None = field(default=None, kw_only=True)
    neighbours: str = field(default="substitution", kw_only=True)
    convention: str = field(default="exact", kw_only=True)
    unit = "l1"

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "epsilon", positive_real(self.epsilon, "epsilon"))
        choice(self.neighbours, tuple(NEIGHBOURS), "neighbours")
        choice(self.convention, CONVENTIONS, "convention")
        known = stated_sensitivity(self.sensitivity)
        put(self, "sensitivity", known.l1)
        if known.neighbours is not None:
            put(self, "changed", known.changed)
            put(self, "neighbours", known.neighbours)
            put(self, "paper_sensitivity", known.paper_l1)
        if known.neighbours is not None or known.largest is not None:
            if known.neighbours is None and self.largest is not None:
                raise ValueError("give the largest changes once: as a vector of sensitivities, or as largest=")
            put(self, "largest", known.largest)
        put(self, "sensitivity", positive_real(self.sensitivity, "sensitivity"))
        if self.paper_sensitivity is not None:
            put(self, "paper_sensitivity", positive_real(self.paper_sensitivity, "paper_sensitivity"))
        if self.changed is not None:
            positive_integer(self.changed, "changed")
        largest = np.asarray(finite_array(self.sensitivity if self.largest is None else self.largest, "largest"), float)
        if not np.all(largest > 0):
            raise ValueError(f"largest must be greater than 0 for every statistic, got {self.largest!r}")
        put(self, "largest", tuple(largest.tolist()) if largest.ndim == 1 else float(largest))
        self._take_bounds(known, largest.shape)
        if known.fractions and all(
            np.all(np.equal(side, edge)) for side, edge in zip(self.bounds, (0.0, 1.0), strict=True)
        ):
            # All of them change, and the loss is never more than that of two: see bayesdp.privacy.bounded.
            put(self, "changed", min(2, math.prod(self.shape)))

    @property
    def _paper_scale(self) -> float:
        own = self.sensitivity if self.paper_sensitivity is None else self.paper_sensitivity
        return float(own / self.epsilon)

    @property
    @abstractmethod
    def true_epsilon(self) -> float:
        """What the release costs at most: the largest loss over all changes that the sensitivities allow."""

    @property
    def true_loss(self) -> PureDP:
        """What the release costs at most, as a loss."""
        return PureDP(self.true_epsilon)

    @property
    def _stated(self) -> PureDP:
        return self.true_loss

    @property
    def _reservations(self) -> tuple[Words, ...]:
        if self.convention != "paper":
            return ()
        return (PaperScale(self._paper_scale, self.epsilon, self.true_epsilon),)
