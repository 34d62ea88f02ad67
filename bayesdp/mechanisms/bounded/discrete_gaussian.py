"""Counts with public bounds: discrete Gaussian noise on the answers of a query, truncated or clipped (Liu 2019, future work)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import brentq

from bayesdp._validate import choice, positive_real, probability
from bayesdp.mechanisms.bounded.counts import PUBLIC_BOUNDS, BoundedCounts, ClippedCounts
from bayesdp.mechanisms.independent.discrete_gaussian import DiscreteGaussian, set_loss
from bayesdp.noise import BoundaryInflatedDiscreteGaussian as InflatedGaussianLaw
from bayesdp.noise import TruncatedDiscreteGaussian as TruncatedGaussianLaw
from bayesdp.privacy import (
    FLOATING_POINT_CAVEAT,
    Guarantee,
    query_sensitivity,
    truncated_gaussian_delta,
    truncated_gaussian_epsilon,
)
from bayesdp.privacy.losses import ApproximateDP
from bayesdp.privacy.stated_losses import LossAt


@dataclass(frozen=True, init=False, eq=False)
class BoundaryInflatedDiscreteGaussian(ClippedCounts):
    """Publish answers with discrete Gaussian noise, moved to the nearer public bound where the result is outside (BIT).

    Clipping is post-processing: the loss, and the scale, are those of `DiscreteGaussian`.

    Parameters
    ----------
    table : Query, or labels of a table
        What is published: a query, or the cells of a table.
    bounds : pair of int or array_like
        Lower and upper bound of each answer; None where there is none.
    rho : float, optional
        zCDP loss.
    epsilon, delta : float, optional
        Approximate differential privacy.
    neighbours, query
        As for `TruncatedDiscreteLaplace`.

    See Also
    --------
    bayesdp.noise.BoundaryInflatedDiscreteGaussian : the law.

    Examples
    --------
    >>> counties = {"county": ["Alpha", "Beta"]}
    >>> BoundaryInflatedDiscreteGaussian(counties, (0, 50), rho=0.125, neighbours="add-remove").law
    BoundaryInflatedDiscreteGaussian(sigma=2.0, bounds=(0.0, 50.0))
    """

    rho: float | None = None
    epsilon: float | None = None
    delta: float | None = None

    name = "boundary-inflated-discrete-gaussian"

    def __init__(
        self,
        table: Any,
        bounds: Any,
        rho: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        neighbours: str = "substitution",
        query: Any = None,
    ) -> None:
        set_loss(self, rho, epsilon, delta)
        self._bounded(table, bounds, query, neighbours)

    @cached_property
    def _free(self) -> DiscreteGaussian:
        return DiscreteGaussian(self.released_query, self.rho, self.epsilon, self.delta, neighbours=self.neighbours)

    @property
    def law(self) -> InflatedGaussianLaw:
        """The law of the released values."""
        return InflatedGaussianLaw(self._free.sigma, self.bounds)


@dataclass(frozen=True, init=False, eq=False)
class TruncatedDiscreteGaussian(BoundedCounts):
    """Publish answers with discrete Gaussian noise given that the results are within public bounds.

    The loss is exact: all pairs of neighbouring answers and all outputs between the bounds are enumerated. For that
    neighbours must differ in one answer, by one (add-remove, and the cells or one set of sums), and both bounds be finite.

    Parameters
    ----------
    table : Query, or labels of a table
        What is published: a query, or the cells of a table.
    bounds : pair of int or array_like
        Lower and upper bound of each answer, both finite.
    epsilon, delta : float
        Approximate differential privacy.
    neighbours, query
        As for `TruncatedDiscreteLaplace`.

    Raises
    ------
    NotImplementedError
        If neighbours differ in several answers, or the bounds are too far apart to enumerate. Clipping has no such
        limits: `BoundaryInflatedDiscreteGaussian`.

    See Also
    --------
    bayesdp.noise.TruncatedDiscreteGaussian : the law.

    Examples
    --------
    >>> counties = {"county": ["Alpha", "Beta"]}
    >>> mechanism = TruncatedDiscreteGaussian(counties, (0, 20), 1.0, 1e-6, neighbours="add-remove")
    >>> print(f"{mechanism.law.sigma:.3f}")
    3.844
    """

    epsilon: float
    delta: float

    name = "truncated-discrete-gaussian"

    def __init__(
        self,
        table: Any,
        bounds: Any,
        epsilon: float,
        delta: float,
        *,
        neighbours: str = "substitution",
        query: Any = None,
    ) -> None:
        object.__setattr__(self, "epsilon", positive_real(epsilon, "epsilon"))
        object.__setattr__(self, "delta", probability(delta, "delta"))
        self._bounded(table, bounds, query, neighbours)
        if self._changes != (1.0, 1):
            raise NotImplementedError(
                "the exact loss of truncated discrete Gaussian noise is known where neighbours differ by one in one answer "
                f"(neighbours='add-remove' and one set of sums); here the answers differ by {self.sensitivity:g} in l1 norm. "
                "BoundaryInflatedDiscreteGaussian clips instead, and costs what the noise costs"
            )
        _ = self._sigma  # refuses now where it cannot be found

    @property
    def sensitivity(self) -> float:
        """The largest l1 change of the answers between neighbouring tables."""
        return query_sensitivity(self.released_query, "l1", self.neighbours)

    @property
    def _intervals(self) -> list[tuple[int, int]]:
        low, high = self._sides
        if not np.all(np.isfinite(high - low)):
            raise NotImplementedError(
                "the loss of truncated discrete Gaussian noise is found by enumeration, which needs two finite bounds; "
                "BoundaryInflatedDiscreteGaussian clips instead"
            )
        return [(0, int(width)) for width in np.unique(high - low)]

    @cached_property
    def _sigma(self) -> float:
        """The smallest scale that has the stated loss, on the safe side of the root."""

        def excess(sigma: float) -> float:
            return max(truncated_gaussian_delta(self.epsilon, sigma, own) for own in self._intervals) - self.delta

        high = 1.0
        while excess(high) > 0.0:
            high *= 2.0
        low = high
        while excess(low) <= 0.0:
            low *= 0.5
            if low < 1e-3:  # all the mass is at the answer: delta is close to 1
                return high
        sigma = float(brentq(excess, low, high, rtol=1e-12))
        while excess(sigma) > 0.0:
            sigma *= 1.0 + 1e-12
        return sigma

    @property
    def law(self) -> TruncatedGaussianLaw:
        """The law of the released values."""
        return TruncatedGaussianLaw(self._sigma, self.bounds)

    def _guarantee(self, method: str) -> Guarantee:
        choice(method, ("auto", "exact"), "method")
        found = max(truncated_gaussian_epsilon(self.delta, self._sigma, own) for own in self._intervals)
        return Guarantee(
            "approximate",
            LossAt(ApproximateDP(self.epsilon, self.delta), self.sensitivity),
            "l1",
            self._neighbouring("l1", ApproximateDP(min(found, self.epsilon), self.delta)),
            caveats=(FLOATING_POINT_CAVEAT, PUBLIC_BOUNDS),
        )
