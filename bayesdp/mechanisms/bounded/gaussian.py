"""Gaussian noise on statistics with public bounds, truncated or clipped (Liu 2019, Section 5)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayesdp._validate import choice, positive_real
from bayesdp.mechanisms._shared import one_statement
from bayesdp.mechanisms.bounded.statistics import StatisticMechanism
from bayesdp.noise import BoundaryInflatedGaussian as InflatedLaw
from bayesdp.noise import TruncatedGaussian as TruncatedLaw
from bayesdp.privacy import gaussian_rho, gaussian_sigma, gaussian_sigma_for_rho
from bayesdp.privacy.bounded import truncated_normal_sigma
from bayesdp.privacy.loss import Loss
from bayesdp.privacy.losses import ZCDP, ApproximateDP, all_of
from bayesdp.sensitivities.differences import NEIGHBOURS
from bayesdp.sensitivities.stated import stated_sensitivity


@dataclass(frozen=True, eq=False)
class GaussianStatistics(StatisticMechanism):
    """Publish one statistic, or a vector of them, within public bounds, with Gaussian noise; see the subclasses.

    Parameters
    ----------
    sensitivity : Sensitivity, sequence of Sensitivity, float, or array_like
        `bayesdp.privacy.Sensitivity` of the statistic, or of the vector (proportions); or one for each statistic. As numbers:
        the largest l2 distance of the whole vector, or the largest change of each, whose squares are added up.
    bounds : pair of float or array_like
        Lower and upper bound of each statistic; None on one side where there is none. Public, and the same for all data.
    rho : float, optional
        zCDP loss.
    epsilon, delta : float, optional
        Approximate differential privacy, in place of rho.
    names : sequence of str, optional
        Names of the statistics of a vector.
    neighbours : {"substitution", "add-remove"}
        What `sensitivity` refers to.

    Raises
    ------
    TypeError, ValueError
        If the loss is not stated in exactly one way, or a parameter is not valid: bounds reversed, equal or both infinite, a
        `Sensitivity` of one statistic for several.
    """

    sensitivity: Any
    bounds: Any
    rho: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    names: Any = None
    neighbours: str = "substitution"
    unit = "l2"

    def __post_init__(self) -> None:
        put = object.__setattr__
        given = {"rho": self.rho, "epsilon": self.epsilon, "delta": self.delta}
        for name in one_statement(given, (("rho",), ("epsilon", "delta"))):
            put(self, name, float(getattr(self, name)))
        choice(self.neighbours, tuple(NEIGHBOURS), "neighbours")
        known = stated_sensitivity(self.sensitivity)
        if known.neighbours is not None:
            put(self, "neighbours", known.neighbours)
        each = np.shape(known.largest) if isinstance(known.largest, tuple) else ()
        if each and min(known.largest) <= 0.0:  # type: ignore[arg-type]  # it is a tuple here
            raise ValueError(f"sensitivity must be greater than 0 for every statistic, got {self.sensitivity!r}")
        put(self, "sensitivity", positive_real(known.l2, "sensitivity"))
        self._take_bounds(known, each)
        _ = self.scale  # refuses now what it cannot be found for

    @property
    def scale(self) -> float:
        """Standard deviation of the noise, in the unit of the statistics."""
        return self.sigma

    @cached_property
    def sigma(self) -> float:
        """Standard deviation of the noise before truncating or clipping, in the unit of the statistics."""
        if self.epsilon is None or self.delta is None:
            assert self.rho is not None  # one of the two ways was taken
            return gaussian_sigma_for_rho(self.rho, self.sensitivity)
        return self._sigma_for(self.epsilon, self.delta)

    def _sigma_for(self, epsilon: float, delta: float) -> float:
        return gaussian_sigma(epsilon, delta, self.sensitivity)

    @property
    def _stated(self) -> Loss:
        if self.epsilon is None or self.delta is None:
            return self.true_loss
        return ApproximateDP(self.epsilon, self.delta)

    @property
    def true_loss(self) -> Loss:
        """What the release costs at most: rho, and epsilon and delta where they were stated."""
        rho = ZCDP(gaussian_rho(self.sigma, self.sensitivity))
        if self.epsilon is None or self.delta is None:
            return rho
        return all_of([rho, ApproximateDP(self.epsilon, self.delta)])


@dataclass(frozen=True, eq=False)
class TruncatedGaussian(GaussianStatistics):
    """Publish statistics with Gaussian noise given that the results are within public bounds.

    Truncating is not post-processing: the normaliser depends on the confidential value. It costs nothing nevertheless: the
    laws around two values t apart are no easier to tell apart than normal laws of the same sigma
    (`bayesdp.privacy.bounded` has the proof), so that sigma is that of Gaussian noise. For one statistic between two
    bounds the exact delta is smaller, and so is the sigma for a stated epsilon and delta: by far, where the sensitivity is a
    tenth of the interval or more.

    See Also
    --------
    BoundaryInflatedGaussian : clipping.
    TruncatedLaplace : pure differential privacy, for which truncating costs.
    bayesdp.noise.TruncatedGaussian : the law.
    bayesdp.distributions.TruncatedGaussian : the law as a PyMC distribution; it takes sigma.
    bayesdp.privacy.truncated_normal_epsilon : also the pure epsilon, which two bounds give it.

    References
    ----------
    Liu (2019), Section 5, which takes truncating for post-processing; docs/CORRECTIONS.md.

    Examples
    --------
    >>> from bayesdp.privacy import proportion_sensitivity
    >>> mechanism = TruncatedGaussian(proportion_sensitivity(50), (0.0, 1.0), rho=0.125)
    >>> print(f"{mechanism.sigma:.3f} {mechanism.true_loss}")
    0.040 rho = 0.125
    >>> 0.0 < float(mechanism.release(0.3, rng=np.random.default_rng(1)).values) < 1.0
    True

    A number between 0 and 1 of one person, who trusts nobody to add up:

    >>> alone = TruncatedGaussian(1.0, (0.0, 1.0), epsilon=1.0, delta=1e-6)
    >>> clipped = BoundaryInflatedGaussian(1.0, (0.0, 1.0), epsilon=1.0, delta=1e-6)
    >>> print(f"{alone.sigma:.3f} {clipped.sigma:.3f}")
    0.706 4.225
    """

    name = "truncated-gaussian"
    _bounded_law = TruncatedLaw

    def _sigma_for(self, epsilon: float, delta: float) -> float:
        if self.shape:
            return super()._sigma_for(epsilon, delta)
        low, high = (float(side) for side in self.bounds)
        return truncated_normal_sigma(epsilon, delta, (low, high), self.sensitivity)


@dataclass(frozen=True, eq=False)
class BoundaryInflatedGaussian(GaussianStatistics):
    """Publish statistics with Gaussian noise, moved to the nearer bound where the result is outside (BIT, clipping).

    Clipping is post-processing: the loss is that of the noise. A released value may be a bound, with positive probability.

    See Also
    --------
    TruncatedGaussian
    bayesdp.noise.BoundaryInflatedGaussian : the law.
    bayesdp.distributions.BoundaryInflatedGaussian : the law as a PyMC distribution; it takes sigma.

    References
    ----------
    Liu (2019), Definition 2(b) and Section 5. Sigma for epsilon and delta: Balle and Wang (2018), Theorem 8.

    Examples
    --------
    >>> from bayesdp.privacy import mean_sensitivity
    >>> each = mean_sensitivity(50, (0.0, 10.0))
    >>> three = BoundaryInflatedGaussian([each] * 3, (0.0, 10.0), epsilon=1.0, delta=1e-6, names=["a", "b", "c"])
    >>> print(f"{three.sensitivity:.4f} {three.sigma:.4f}")
    0.3464 1.4635
    """

    name = "boundary-inflated-gaussian"
    _bounded_law = InflatedLaw
