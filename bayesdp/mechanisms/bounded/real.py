"""Laplace and Gaussian noise on statistics with public bounds, truncated or clipped (Liu 2019)."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from bayesdp import noise
from bayesdp._validate import choice, finite_array, positive_integer, positive_real
from bayesdp.mechanisms.bounded.statistics import StatisticMechanism
from bayesdp.mechanisms.families import one_statement
from bayesdp.privacy import gaussian_rho, gaussian_sigma, gaussian_sigma_for_rho, truncated_epsilon, truncated_scale
from bayesdp.privacy.bounded import truncated_normal_sigma
from bayesdp.privacy.caveats import Fixed, PaperScale
from bayesdp.privacy.loss import Loss
from bayesdp.privacy.losses import ZCDP, ApproximateDP, PureDP, all_of
from bayesdp.privacy.words import Statement
from bayesdp.sensitivities.differences import NEIGHBOURS
from bayesdp.sensitivities.statistics import stated_sensitivity

CONVENTIONS = ("exact", "paper")
"""``exact`` makes the stated epsilon true; ``paper`` takes the paper's scale, and the guarantee states what is true."""


@dataclass(frozen=True, eq=False)
class LaplaceStatistics(StatisticMechanism):
    """Publish one statistic, or a vector of them, within public bounds, with Laplace noise; see the subclasses.

    Parameters
    ----------
    epsilon : float
        Loss for neighbouring data sets.
    sensitivity : Sensitivity, sequence of Sensitivity, float, or array_like
        `bayesdp.privacy.Sensitivity` of the statistic, or of the vector (proportions); or one for each statistic, which are
        added up, because changing one record may change all of them. As numbers: the largest l1 distance of the whole vector,
        or the largest change of each, which are added up.
    bounds : pair of float or array_like
        Lower and upper bound of each statistic; None on one side where there is none. Public, and the same for all data.
    names : sequence of str, optional
        Names of the statistics of a vector.
    largest : float or array_like, optional
        Largest change of each statistic.
    changed : int, optional
        How many statistics change together at most; or, where that is known, the number whose changes cost as much as those of
        all: 2 for proportions within 0 and 1 under add-remove.
    paper_sensitivity : float, optional
        What the paper takes for the sensitivity, where it is another (1/n for proportions).
    neighbours : {"substitution", "add-remove"}
        What `sensitivity` refers to.
    convention : {"exact", "paper"}
        The paper's scale is kept with ``"paper"``; the guarantee states the true epsilon. Clipped noise differs only where the
        paper has another sensitivity.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not valid: bounds reversed, equal or both infinite, a `Sensitivity` of one statistic for several.
    """

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
    def _reservations(self) -> tuple[Statement, ...]:
        if self.convention != "paper":
            return ()
        return (PaperScale(self._paper_scale, self.epsilon, self.true_epsilon),)


@dataclass(frozen=True, eq=False)
class TruncatedLaplace(LaplaceStatistics):
    """Publish statistics with Laplace noise given that the results are within public bounds.

    The paper takes the scale ``sensitivity / epsilon``, which is not enough: the normaliser depends on the confidential
    value, and tells something about it. Here the scale is solved for, so that epsilon is the largest loss over all changes
    that the sensitivities allow (`bayesdp.privacy.truncated_epsilon`): below twice the paper's. It is attained by one statistic,
    by proportions and by statistics that can all change by the most they can together; for others it is an upper bound.

    See Also
    --------
    BoundaryInflatedLaplace : clipping, which costs no more than the noise.
    bayesdp.noise.TruncatedLaplace : the law.
    bayesdp.distributions.TruncatedLaplace : the law as a PyMC distribution; it takes the scale.

    References
    ----------
    Liu (2019), Definition 2(a); docs/CORRECTIONS.md.

    Examples
    --------
    >>> from bayesdp.privacy import proportion_sensitivity
    >>> mechanism = TruncatedLaplace(1.0, proportion_sensitivity(50), (0.0, 1.0))
    >>> print(f"{mechanism.scale:.5f} {mechanism.true_epsilon:.5f}")
    0.03225 1.00000
    >>> paper = TruncatedLaplace(1.0, proportion_sensitivity(50), (0.0, 1.0), convention="paper")
    >>> print(f"{paper.scale:.5f} {paper.true_epsilon:.2f}")
    0.02000 1.49
    >>> 0.0 < float(mechanism.release(0.3, rng=np.random.default_rng(1)).values) < 1.0
    True

    Three means of the same 50 records, of values between 0 and 10: one record may change each by 0.2.

    >>> from bayesdp.privacy import mean_sensitivity
    >>> each = mean_sensitivity(50, (0.0, 10.0))
    >>> three = TruncatedLaplace(1.0, [each] * 3, (0.0, 10.0), names=["a", "b", "c"])
    >>> print(f"{three.sensitivity:.2f}")
    0.60
    """

    name = "truncated-laplace"
    _bounded_law = noise.TruncatedLaplace

    @cached_property
    def scale(self) -> float:
        """Scale of the noise, in the unit of the statistics."""
        if self.convention == "paper":
            return self._paper_scale
        return truncated_scale(self.epsilon, self._widths, self.sensitivity, largest=self.largest, changed=self.changed)

    @cached_property
    def true_epsilon(self) -> float:
        """What the release costs at most: the largest loss over all changes that the sensitivities allow."""
        size = np.full(self.shape, self.scale)
        return truncated_epsilon(size, self._widths, self.sensitivity, largest=self.largest, changed=self.changed)

    @property
    def _reservations(self) -> tuple[Statement, ...]:
        own = () if math.prod(self.shape) == 1 else (Fixed("largest over sensitivities"),)
        return (*super()._reservations, *own)


@dataclass(frozen=True, eq=False)
class BoundaryInflatedLaplace(LaplaceStatistics):
    """Publish statistics with Laplace noise, moved to the nearer bound where the result is outside (BIT, clipping).

    Clipping is post-processing: epsilon is that of the noise, whose scale is ``sensitivity / epsilon``. A released value
    may be a bound, with positive probability.

    See Also
    --------
    TruncatedLaplace
    bayesdp.noise.BoundaryInflatedLaplace : the law.
    bayesdp.distributions.BoundaryInflatedLaplace : the law as a PyMC distribution; it takes the scale.

    References
    ----------
    Liu (2019), Definition 2(b).

    Examples
    --------
    >>> from bayesdp.privacy import proportion_sensitivity
    >>> shares = proportion_sensitivity(50, 4)
    >>> mechanism = BoundaryInflatedLaplace(1.0, shares, (0.0, 1.0), names=["a", "b", "c", "d"])
    >>> mechanism.scale, mechanism.true_epsilon
    (0.04, 1.0)
    >>> paper = BoundaryInflatedLaplace(1.0, shares, (0.0, 1.0), names=["a", "b", "c", "d"], convention="paper")
    >>> paper.scale, paper.true_epsilon
    (0.02, 2.0)
    """

    name = "boundary-inflated-laplace"
    _bounded_law = noise.BoundaryInflatedLaplace

    @cached_property
    def scale(self) -> float:
        """Scale of the noise, in the unit of the statistics."""
        if self.convention == "paper":
            return self._paper_scale
        b = float(self.sensitivity / self.epsilon)
        return b if b * self.epsilon >= self.sensitivity else math.nextafter(b, math.inf)

    @property
    def true_epsilon(self) -> float:
        """What the release costs at most: the largest loss over all changes that the sensitivities allow."""
        return self.epsilon if self.convention == "exact" else float(self.sensitivity / self.scale)


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
    _bounded_law = noise.TruncatedGaussian

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
    _bounded_law = noise.BoundaryInflatedGaussian
