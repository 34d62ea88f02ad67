"""Statistics with public bounds: Laplace or Gaussian noise, truncated or clipped (Liu 2019); their release and description."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from bayesdp import noise, privacy
from bayesdp._arrays import Floats
from bayesdp._docs import parameters_of, sections_of, with_sections
from bayesdp._text import printable
from bayesdp._validate import Seed, choice, finite_array, positive_integer, positive_real, set_fields
from bayesdp.mechanisms.base import GaussianStatement, stated_loss_of
from bayesdp.mechanisms.bounded.statistic_release import DescribedMechanism, StatisticRelease, checked_names, frame_of
from bayesdp.noise import BoundedLaw
from bayesdp.noise.bounded.base import checked_bounds
from bayesdp.privacy import FLOATING_POINT_CAVEAT, PairLoss, StatisticGuarantee
from bayesdp.privacy.caveats import GENERATOR_CAVEAT, Fixed, PaperScale, Rounded
from bayesdp.privacy.losses import ZCDP, ApproximateDP, Loss, LossAt, PureDP, all_of
from bayesdp.privacy.sensitivities.norms import NEIGHBOURS
from bayesdp.privacy.sensitivities.statistics import Sensitivity, stated_sensitivity
from bayesdp.privacy.words import Neighbours, Statement
from bayesdp.queries import Identity, Query

CONVENTIONS = ("exact", "paper")
"""``exact`` makes the stated epsilon true; ``paper`` takes the paper's scale, and the guarantee states what is true."""

_GRID_BITS = 20

ROUNDING = 1e-9
"""A statistic may be beyond a bound by so much of the larger bound; it then counts as at the bound."""

PUBLIC_BOUNDS = Fixed("public bounds of statistics")
"""Caveat on bounds that were taken from the data."""


class StatisticMechanism(DescribedMechanism):
    """Publish one statistic, or a vector of them, within public bounds; see the subclasses, which are dataclasses.

    Parameters
    ----------
    bounds : pair of float or array_like
        Lower and upper bound of each statistic; None on one side where there is none. Public, and the same for all data.
    names : sequence of str, optional
        Names of the statistics of a vector.
    neighbours : {"substitution", "add-remove"}
        What `sensitivity` refers to.

    Attributes
    ----------
    sensitivity : float
        Largest distance of the statistics of neighbours, in the norm of `unit`.
    unit : str
        Norm of the sensitivity, ``l1`` or ``l2``.
    """

    _bounded_law: ClassVar[Any]

    sensitivity: Any
    bounds: Any
    names: Any
    neighbours: str
    unit: str

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            bases: Any = StatisticMechanism, cls.__base__
            said = "\n".join(sections_of(base.__doc__)["Parameters"] for base in bases)
            law = "The law of the released values is `bayesdp.noise.{0}`, in a PyMC model `bayesdp.distributions.{0}`."
            cls.__doc__ = with_sections(
                cls.__doc__, {"": law.format(cls.__name__), "Parameters": parameters_of(cls.__init__, said)}
            )

    def __post_init__(self) -> None:
        choice(self.neighbours, tuple(NEIGHBOURS), "neighbours")
        known = stated_sensitivity(self.sensitivity)
        if isinstance(known.largest, tuple) and min(known.largest) <= 0.0:
            raise ValueError(f"sensitivity must be greater than 0 for every statistic, got {self.sensitivity!r}")
        self._set(sensitivity=positive_real(known.l1 if self.unit == "l1" else known.l2, "sensitivity"))
        if known.neighbours is not None:
            self._set(neighbours=known.neighbours)
        self._take(known)

    _set = set_fields

    @abstractmethod
    def _take(self, known: Sensitivity) -> None:
        """Check and set the other fields."""

    def _take_bounds(self, known: Sensitivity, counts: tuple[int, ...]) -> None:
        """Check bounds and names, and that there are as many as statistics; `counts` is the shape of what was given for each."""
        bounds = checked_bounds(self.bounds, integer=False)
        listed = () if self.names is None else (len(self.names),)
        several = () if known.statistics in (None, 1) else (known.statistics,)
        try:
            shape = np.broadcast_shapes(*(np.shape(side) for side in bounds), counts, listed, several)
        except ValueError:
            raise ValueError(
                f"bounds of shapes {np.shape(bounds[0])} and {np.shape(bounds[1])}, sensitivities of "
                f"{counts[0] if counts else known.statistics or 1} statistics and "
                f"{'no' if self.names is None else len(self.names)} names do not fit one another"
            ) from None
        if len(shape) > 1:
            raise ValueError(f"statistics must be one number or a vector, got bounds of shape {shape}")
        known.fits(shape)
        self._set(bounds=bounds, names=checked_names(self.names, shape))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the statistic: ``()`` or ``(statistics,)``."""
        return () if self.names is None else (len(self.names),)

    @property
    def query(self) -> Query:
        """What is measured of the statistics: each of them."""
        return Identity(frame_of(self.names))

    @property
    def _sides(self) -> list[Floats]:
        return [np.broadcast_to(np.asarray(side, dtype=np.float64), self.shape) for side in self.bounds]

    @property
    def _widths(self) -> Floats:
        low, high = self._sides
        return high - low

    @property
    @abstractmethod
    def scale(self) -> float:
        """Scale of the noise, in the unit of the statistics."""

    @property
    @abstractmethod
    def true_loss(self) -> Loss:
        """What the release costs at most: for neighbours whose statistics are as far apart as the sensitivity."""

    @property
    def law(self) -> BoundedLaw:
        """The law of the released values."""
        made: BoundedLaw = self._bounded_law(self.scale, self.bounds)
        return made

    @property
    def grid(self) -> float:
        """Released values are bounds or multiples of this power of two."""
        power = math.frexp(min([self.scale, *self._widths.reshape(-1)]))[1] - 1 - _GRID_BITS
        edges = [abs(float(x)) for side in self.bounds for x in np.ravel(side) if math.isfinite(x)]
        # Floats near the bounds may be coarser than that.
        return math.ldexp(1.0, max(power, math.frexp(max(edges, default=0.0))[1] - 53))

    @property
    def guarantee(self) -> StatisticGuarantee:
        """What the mechanism protects, in words and numbers, and with what reservations."""
        return self._guarantee()

    def _guarantee(self, *more: Statement, simulated: bool = False) -> StatisticGuarantee:
        grid = Rounded(round(math.log2(self.grid)), within=True)
        return StatisticGuarantee(
            self._stated.kind,
            LossAt(self._stated, self.sensitivity),
            self.unit,
            (PairLoss(Neighbours(self.neighbours, "data"), self.sensitivity, self.unit, self.true_loss),),
            simulated=simulated,
            caveats=(*self._reservations, FLOATING_POINT_CAVEAT, *more, grid, PUBLIC_BOUNDS),
        )

    @property
    def _stated(self) -> Loss:
        """The loss by the definition that the guarantee is about."""
        return self.true_loss

    @property
    def _reservations(self) -> tuple[Statement, ...]:
        """What has to be said of the stated loss."""
        return ()

    def release(self, statistic: Any, rng: Seed = None) -> StatisticRelease:
        """Publish statistics: noisy values within the bounds, their law and the guarantee.

        Parameters
        ----------
        statistic : float or array_like, shape () or (statistics,)
            Confidential values within the bounds. One that is beyond a bound by no more than `ROUNDING` of the larger bound,
            as a mean of numbers that are all at the bound may be, counts as at the bound.
        rng : int, numpy.random.Generator or None
            Without one, NumPy's PCG64 generator, seeded from the operating system's entropy, which is no cryptographic one (the
            guarantee says so): do that to publish. With one the release is marked as simulated,
            because whoever knows the seed can subtract the noise.
        """
        location = self._within(self._vector(statistic, "statistic", confidential=True))
        drawn = np.asarray(self.law.draw(rng, self.shape, location=location), dtype=np.float64)
        stated = self._guarantee(GENERATOR_CAVEAT) if rng is None else self._guarantee(simulated=True)
        return StatisticRelease(
            self._rounded(drawn), self.law, self.names, self.describe(), stated, simulated=rng is not None
        )

    def _within(self, location: Floats) -> Floats:
        """Statistics within their bounds, those that rounding has put beyond one at that bound."""
        # This is a rule that does not look at the data, and brings no two statistics further apart.
        low, high = self._sides
        near = np.clip(location, low, high)
        edges = [np.where(np.isfinite(side), np.abs(side), 0.0) for side in (low, high)]
        outside = np.flatnonzero(np.abs(location - near) > ROUNDING * np.maximum(*edges))
        if outside.size:
            where = int(outside[0])
            raise ValueError(
                f"statistic must lie within its bounds, {low.reshape(-1)[where]:.17g} to {high.reshape(-1)[where]:.17g}, but "
                f"{self._name(where)} does not: the bounds are wrong, or something else was computed"
            )
        return near

    def _rounded(self, values: Floats) -> Floats:
        """Values on the grid; those strictly between the bounds stay there, and bounds stay bounds."""
        low, high = self._sides
        near = np.rint(values / self.grid)
        with np.errstate(invalid="ignore"):
            near = np.where(near * self.grid <= low, np.floor(low / self.grid) + 1.0, near)
            near = np.where(near * self.grid >= high, np.ceil(high / self.grid) - 1.0, near)
        return np.where((values <= low) | (values >= high), values, near * self.grid)

    def logp(self, values: Any, statistic: Any) -> float:
        """Log-density of released values given the statistics; see `law` for atoms. ``-inf`` outside the bounds."""
        location = self._vector(statistic, "statistic", confidential=True)
        return self.law.logp(self._vector(values, "values"), location)

    def _vector(self, values: Any, argument: str, *, confidential: bool = False) -> Floats:
        array = np.asarray(finite_array(values, argument, self._name, confidential=confidential), dtype=np.float64)
        if array.shape != self.shape:
            raise ValueError(
                f"{argument} must have shape {self.shape}, as the bounds and names of the mechanism, got {array.shape}; a "
                "vector needs names=[...], or one pair of bounds for each statistic"
            )
        return array

    def _name(self, where: int) -> str:
        return "the statistic" if self.names is None else printable(self.names[where])


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
    largest : float or array_like, optional
        Largest change of each statistic.
    changed : int, optional
        How many statistics change together at most; or, where that is known, the number whose changes cost as much as those of
        all: 2 for proportions within 0 and 1 under add-remove.
    paper_sensitivity : float, optional
        What the paper takes for the sensitivity, where it is another (1/n for proportions).
    convention : {"exact", "paper"}
        The paper's scale is kept with ``"paper"``; the guarantee states the true epsilon. Clipped noise differs only where the
        paper has another sensitivity.
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

    def _take(self, known: Sensitivity) -> None:
        self._set(epsilon=positive_real(self.epsilon, "epsilon"))
        choice(self.convention, CONVENTIONS, "convention")
        if known.neighbours is not None:
            paper = known.l1 if known.paper_l1 is None else known.paper_l1
            self._set(changed=known.changed, paper_sensitivity=paper, largest=known.largest)
        elif known.largest is not None:
            if self.largest is not None:
                raise ValueError("give the largest changes once: as a vector of sensitivities, or as largest=")
            self._set(largest=known.largest)
        if self.paper_sensitivity is not None:
            self._set(paper_sensitivity=positive_real(self.paper_sensitivity, "paper_sensitivity"))
        if self.changed is not None:
            positive_integer(self.changed, "changed")
        largest = np.asarray(finite_array(self.sensitivity if self.largest is None else self.largest, "largest"), float)
        if not np.all(largest > 0):
            raise ValueError(f"largest must be greater than 0 for every statistic, got {self.largest!r}")
        self._set(largest=tuple(largest.tolist()) if largest.ndim == 1 else float(largest))
        self._take_bounds(known, largest.shape)
        fractions = (known.statistic, known.neighbours) == ("proportion", "add-remove")
        if fractions and all(np.all(np.equal(side, edge)) for side, edge in zip(self.bounds, (0.0, 1.0), strict=True)):
            # All of them change, and the loss is never more than that of two: see bayesdp.privacy.bounded.
            self._set(changed=min(2, math.prod(self.shape)))

    @cached_property
    def scale(self) -> float:
        """Scale of the noise, in the unit of the statistics."""
        if self.convention == "exact":
            return self._exact_scale
        taken = self.sensitivity if self.paper_sensitivity is None else self.paper_sensitivity
        return float(taken / self.epsilon)

    @property
    @abstractmethod
    def _exact_scale(self) -> float:
        """The scale that makes the stated epsilon true."""

    @property
    @abstractmethod
    def true_epsilon(self) -> float:
        """What the release costs at most: the largest loss over all changes that the sensitivities allow."""

    @property
    def true_loss(self) -> PureDP:
        """What the release costs at most, as a loss."""
        return PureDP(self.true_epsilon)

    @property
    def _reservations(self) -> tuple[Statement, ...]:
        paper = PaperScale(self.scale, self.epsilon, self.true_epsilon)
        return (paper,) if self.convention == "paper" else ()


class TruncatedLaplace(LaplaceStatistics):
    """Publish statistics with Laplace noise given that the results are within public bounds.

    The paper takes the scale ``sensitivity / epsilon``, which is not enough: the normaliser depends on the confidential
    value, and tells something about it. Here the scale is solved for, so that epsilon is the largest loss over all changes
    that the sensitivities allow (`bayesdp.privacy.truncated_epsilon`): below twice the paper's. It is attained by one statistic,
    by proportions and by statistics that can all change by the most they can together; for others it is an upper bound.

    See Also
    --------
    BoundaryInflatedLaplace : clipping, which costs no more than the noise.

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

    @property
    def _exact_scale(self) -> float:
        return privacy.truncated_scale(
            self.epsilon, self._widths, self.sensitivity, largest=self.largest, changed=self.changed
        )

    @cached_property
    def true_epsilon(self) -> float:
        """What the release costs at most: the largest loss over all changes that the sensitivities allow."""
        size = np.full(self.shape, self.scale)
        return privacy.truncated_epsilon(
            size, self._widths, self.sensitivity, largest=self.largest, changed=self.changed
        )

    @property
    def _reservations(self) -> tuple[Statement, ...]:
        several = math.prod(self.shape) != 1
        return (*super()._reservations, *((Fixed("largest over sensitivities"),) if several else ()))


class BoundaryInflatedLaplace(LaplaceStatistics):
    """Publish statistics with Laplace noise, moved to the nearer bound where the result is outside (BIT, clipping).

    Clipping is post-processing: epsilon is that of the noise, whose scale is ``sensitivity / epsilon``. A released value
    may be a bound, with positive probability.

    See Also
    --------
    TruncatedLaplace

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

    @property
    def _exact_scale(self) -> float:
        b = float(self.sensitivity / self.epsilon)
        return b if b * self.epsilon >= self.sensitivity else math.nextafter(b, math.inf)

    @property
    def true_epsilon(self) -> float:
        """What the release costs at most: the largest loss over all changes that the sensitivities allow."""
        return self.epsilon if self.convention == "exact" else float(self.sensitivity / self.scale)


LAWS = {"truncated": noise.TruncatedLaplace, "boundary-inflated": noise.BoundaryInflatedLaplace}
MECHANISMS = {"truncated": TruncatedLaplace, "boundary-inflated": BoundaryInflatedLaplace}
"""Law and mechanism of each rule by which values with Laplace noise are kept within their bounds (Liu 2019, Definition 2)."""


@dataclass(frozen=True, eq=False)
class GaussianStatistics(StatisticMechanism):
    """Publish one statistic, or a vector of them, within public bounds, with Gaussian noise; see the subclasses.

    Parameters
    ----------
    sensitivity : Sensitivity, sequence of Sensitivity, float, or array_like
        `bayesdp.privacy.Sensitivity` of the statistic, or of the vector (proportions); or one for each statistic. As numbers:
        the largest l2 distance of the whole vector, or the largest change of each, whose squares are added up.
    rho : float, optional
        zCDP loss.
    epsilon, delta : float, optional
        Approximate differential privacy, in place of rho.
    """

    sensitivity: Any
    bounds: Any
    rho: Any = None
    epsilon: Any = None
    delta: Any = None
    names: Any = None
    neighbours: str = "substitution"
    unit = "l2"

    def _take(self, known: Sensitivity) -> None:
        self._set(**stated_loss_of(self, GaussianStatement._ways))
        self._take_bounds(known, np.shape(known.largest) if isinstance(known.largest, tuple) else ())
        _ = self.scale  # refuses now what it cannot be found for

    @property
    def scale(self) -> float:
        """Standard deviation of the noise, in the unit of the statistics."""
        return self.sigma

    @cached_property
    def sigma(self) -> float:
        """Standard deviation of the noise before truncating or clipping, in the unit of the statistics."""
        if self.rho is not None:
            return privacy.gaussian_sigma_for_rho(self.rho, self.sensitivity)
        return self._sigma_for(self.epsilon, self.delta)

    def _sigma_for(self, epsilon: float, delta: float) -> float:
        return privacy.gaussian_sigma(epsilon, delta, self.sensitivity)

    @property
    def _stated(self) -> Loss:
        return self.true_loss if self.rho is not None else ApproximateDP(self.epsilon, self.delta)

    @property
    def true_loss(self) -> Loss:
        """What the release costs at most: rho, and epsilon and delta where they were stated."""
        rho = ZCDP(privacy.gaussian_rho(self.sigma, self.sensitivity))
        return rho if self.rho is not None else all_of([rho, ApproximateDP(self.epsilon, self.delta)])


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
        return privacy.truncated_normal_sigma(epsilon, delta, (low, high), self.sensitivity)


class BoundaryInflatedGaussian(GaussianStatistics):
    """Publish statistics with Gaussian noise, moved to the nearer bound where the result is outside (BIT, clipping).

    Clipping is post-processing: the loss is that of the noise. A released value may be a bound, with positive probability.

    See Also
    --------
    TruncatedGaussian

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
