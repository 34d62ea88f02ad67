"""What the mechanisms for statistics within public bounds share: release, rounding, checks, description.

Bounds of statistics whose weighted sum is public too (Liu 2019, Remark 1).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bayesdp._docs import sections_of, with_sections
from bayesdp._text import printable
from bayesdp._validate import Seed, finite_array
from bayesdp.mechanisms.bounded.rules import DescribedMechanism
from bayesdp.mechanisms.bounded.statistic_release import StatisticRelease, checked_names, frame_of
from bayesdp.noise import BoundedLaw
from bayesdp.noise.bounded.base import checked_bounds
from bayesdp.privacy import FLOATING_POINT_CAVEAT, PairLoss, StatisticGuarantee
from bayesdp.privacy.caveats import GENERATOR_CAVEAT, Fixed, Rounded
from bayesdp.privacy.loss import Loss
from bayesdp.privacy.losses import LossAt
from bayesdp.privacy.pairs import Neighbours
from bayesdp.privacy.words import Statement
from bayesdp.queries import Identity, Query
from bayesdp.sensitivities.statistics import StatedSensitivity

type Floats = npt.NDArray[np.float64]


def bounds_given_sum(bounds: Any, total: Any, weights: npt.ArrayLike | None = None) -> tuple[Floats, Floats]:
    """The bounds that statistics have where a weighted sum of them is public, or has public bounds itself.

    Each bound is attained by some values of the others, so that no tighter ones hold for all data. Give a mechanism these bounds in
    the place of those without the sum. A sum that is confidential must not be used: the bounds would tell it.

    Parameters
    ----------
    bounds : pair of float or array_like, shape (statistics,)
        Lower and upper bound of each statistic without the sum; None on one side where there is none.
    total : float or pair of float
        The sum; or its lower and its upper bound, None on one side where there is none.
    weights : array_like, shape (statistics,), optional
        What each statistic counts for in the sum, none of them 0; 1 by default.

    Returns
    -------
    lower, upper : numpy.ndarray, shape (statistics,)
        Equal where the sum determines a statistic, of which there is nothing to release then; infinite where there is no bound.


    References
    ----------
    Liu (2019), Remark 1, which has two statistics of weight 1 and a sum that is known.

    Examples
    --------
    Two shares that add up to 1, the second at least 0.2, and at most 0.9.

    >>> lower, upper = bounds_given_sum(([0.0, 0.2], [1.0, 0.9]), 1.0)
    >>> lower.round(3).tolist(), upper.round(3).tolist()
    ([0.1, 0.2], [0.8, 0.9])

    Costs of three kinds, of which nothing is known but that they are positive and not above 10 together.

    >>> bounds_given_sum(([0.0, 0.0, 0.0], None), (None, 10.0))[1].tolist()
    [10.0, 10.0, 10.0]
    """
    low, high = _sides(bounds)
    share = np.ones(low.size) if weights is None else _weights(weights, low.size)
    least, most = _ends(total)
    # What each statistic adds to the sum, at the least and at the most.
    down = np.where(share > 0, share * low, share * high)
    up = np.where(share > 0, share * high, share * low)
    if math.fsum(down) > most or math.fsum(up) < least:
        raise ValueError(
            f"total must be a sum that statistics within the bounds can have, {math.fsum(down):.17g} to "
            f"{math.fsum(up):.17g}, got {total!r}"
        )
    lower, upper = low.copy(), high.copy()
    for j in range(low.size):
        others_down, others_up = (math.fsum(np.delete(side, j)) for side in (down, up))
        first, second = (least - others_up) / share[j], (most - others_down) / share[j]
        lower[j] = max(low[j], min(first, second))
        upper[j] = min(high[j], max(first, second))
    # The two are equal where the sum leaves one value only; rounding must not reverse them.
    return np.minimum(lower, upper), np.maximum(lower, upper)


def second_of_sum(first: npt.ArrayLike, bounds: Any, total: float, weights: npt.ArrayLike | None = None) -> Floats:
    """The second of two statistics with a public sum, from the first, which was released within `bounds_given_sum`.

    This is post-processing: the pair costs what the first costs, whose sensitivity is that of the first statistic alone. The second is
    within its own bounds whatever was released. (Of three or more statistics the last can be outside of its bounds, as with
    `bayesdp.papers.bounded_statistics.AllButOne`.) For a posterior, observe the release of the first: the second says nothing more.

    Parameters
    ----------
    first : array_like
        Released values of the first statistic.
    bounds, total, weights
        As for `bounds_given_sum`, of two statistics and with a sum that is one number.

    Returns
    -------
    numpy.ndarray, shape of `first`


    References
    ----------
    Liu (2019), Remark 1.

    Examples
    --------
    >>> from bayesdp.mechanisms import BoundaryInflatedLaplace
    >>> known = ([0.0, 0.2], [1.0, 0.9])
    >>> lower, upper = bounds_given_sum(known, 1.0)
    >>> mechanism = BoundaryInflatedLaplace(1.0, 1 / 50, (lower[0], upper[0]))
    >>> release = mechanism.release(0.4, rng=1)
    >>> other = second_of_sum(release.values, known, 1.0)
    >>> print(f"{float(release.values):.3f} {float(other):.3f}")
    0.379 0.621
    """
    known = _number(total)
    lower, upper = bounds_given_sum(bounds, known, weights)
    if lower.size != 2:
        raise ValueError(f"bounds must be those of two statistics, got {lower.size}")
    share = np.ones(2) if weights is None else _weights(weights, 2)
    values = np.asarray(finite_array(first, "first"), dtype=np.float64)
    outside = values[(values < lower[0]) | (values > upper[0])]
    if outside.size:
        raise ValueError(
            f"first must be within the bounds that the sum leaves, {lower[0]:.17g} to {upper[0]:.17g}, got {outside[0]:.17g}"
        )
    # Clipping takes away the error of rounding, and nothing else: the bounds of the first map onto these.
    second: Floats = np.clip((known - share[0] * values) / share[1], lower[1], upper[1])
    return second


def _sides(bounds: Any) -> tuple[Floats, Floats]:
    """Both bounds of every statistic."""
    low, high = np.broadcast_arrays(*map(np.asarray, checked_bounds(bounds, integer=False)))
    if low.ndim != 1 or low.size < 2:
        raise ValueError(
            f"bounds must be those of two or more statistics, arrays of shape (statistics,), got shape {low.shape}"
        )
    return np.array(low, dtype=np.float64), np.array(high, dtype=np.float64)


def _weights(weights: npt.ArrayLike, count: int) -> Floats:
    found = np.asarray(finite_array(weights, "weights"), dtype=np.float64)
    if found.shape != (count,):
        raise ValueError(f"weights must be {count} numbers, one for each statistic, got shape {found.shape}")
    if np.any(found == 0.0):
        where = int(np.flatnonzero(found == 0.0)[0])
        raise ValueError(
            f"weights must not be 0, but that of statistic {where + 1} is: leave out what is not in the sum"
        )
    return found


def _number(total: Any) -> float:
    found = finite_array(total, "total")
    if found.ndim:
        raise TypeError(f"total must be one number here, got {total!r}")
    return float(found)


def _ends(total: Any) -> tuple[float, float]:
    """Lower and upper bound of the sum, which are equal where it is known."""
    if isinstance(total, str) or not isinstance(total, Sequence):
        known = _number(total)
        return known, known
    if len(total) != 2:
        raise TypeError(f"total must be one number, or a pair (lower, upper), got {total!r}")
    ends = [
        absent if side is None or side == absent else _number(side)
        for side, absent in zip(total, (-math.inf, math.inf), strict=True)
    ]
    if ends[0] > ends[1]:
        raise ValueError(f"total must have the lower bound first, got {total!r}")
    return ends[0], ends[1]


_GRID_BITS = 20

ROUNDING = 1e-9
"""A statistic may be beyond a bound by so much of the larger bound; it then counts as at the bound."""

PUBLIC_BOUNDS = Fixed("public bounds of statistics")
"""Caveat on bounds that were taken from the data."""


class StatisticMechanism(DescribedMechanism):
    """Publish one statistic, or a vector of them, within public bounds; see the subclasses, which are dataclasses.

    Attributes
    ----------
    sensitivity : float
        Largest distance of the statistics of neighbours, in the norm of `unit`.
    bounds : pair of float or array_like
    names : tuple of str or None
    neighbours : {"substitution", "add-remove"}
    unit : str
        Norm of the sensitivity, ``l1`` or ``l2``.
    """

    _bounded_law: ClassVar[Any]
    """The type of the law, made of the scale and the bounds."""

    sensitivity: Any
    bounds: Any
    names: Any
    neighbours: str
    unit: str

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:  # parameters are described once, where the fields are
            shared = sections_of(cls.__base__.__doc__)
            cls.__doc__ = with_sections(
                cls.__doc__, {title: shared[title] for title in ("Parameters", "Raises") if title in shared}
            )

    def _take_bounds(self, known: StatedSensitivity, counts: tuple[int, ...]) -> None:
        """Check bounds and names, and that there are as many as statistics; `counts` is the shape of what was given for each."""
        put = object.__setattr__
        put(self, "bounds", checked_bounds(self.bounds, integer=False))
        bounds = self.bounds
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
        put(self, "names", checked_names(self.names, shape))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the statistic: ``()`` or ``(statistics,)``."""
        return () if self.names is None else (len(self.names),)

    @property
    def query(self) -> Query:
        """What is measured of the statistics: each of them."""
        return Identity(frame_of(self.names))

    @property
    def _widths(self) -> npt.NDArray[np.float64]:
        return np.broadcast_to(np.asarray(self.bounds[1]) - np.asarray(self.bounds[0]), self.shape)

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
        widths = self._widths[np.isfinite(self._widths)] if self._widths.size else self._widths
        small = min(self.scale, float(np.min(widths, initial=math.inf)))
        power = math.frexp(small)[1] - 1 - _GRID_BITS
        edges = [abs(float(x)) for side in self.bounds for x in np.ravel(side) if math.isfinite(x)]
        # Floats near the bounds may be coarser than that.
        return math.ldexp(1.0, max(power, math.frexp(max(edges, default=0.0))[1] - 53))

    @property
    def guarantee(self) -> StatisticGuarantee:
        """What the mechanism protects, in words and numbers, and with what reservations."""
        return self._guarantee(())

    def _guarantee(self, more: tuple[Statement, ...], simulated: bool = False) -> StatisticGuarantee:
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
    @abstractmethod
    def _stated(self) -> Loss:
        """The loss by the definition that the guarantee is about."""

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

        Raises
        ------
        ValueError
            If a statistic is outside its bounds, or there are not as many as bounds or names.
        """
        location = self._within(self._statistic(statistic))
        drawn = np.asarray(self.law.draw(rng, self.shape, location=location), dtype=np.float64)
        simulated = rng is not None
        return StatisticRelease(
            self._rounded(drawn),
            self.law,
            self.names,
            self.describe(),
            self._guarantee(() if simulated else (GENERATOR_CAVEAT,), simulated),
            simulated,
        )

    def _within(self, location: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Statistics within their bounds, those that rounding has put beyond one at that bound."""
        # This is a rule that does not look at the data, and brings no two statistics further apart.
        low, high = (np.broadcast_to(np.asarray(side), self.shape) for side in self.bounds)
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

    def _rounded(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Values on the grid; those strictly between the bounds stay there, and bounds stay bounds."""
        low, high = (np.broadcast_to(np.asarray(side), values.shape) for side in self.bounds)
        near = np.rint(values / self.grid)
        with np.errstate(invalid="ignore"):
            near = np.where(near * self.grid <= low, np.floor(low / self.grid) + 1.0, near)
            near = np.where(near * self.grid >= high, np.ceil(high / self.grid) - 1.0, near)
        return np.where((values <= low) | (values >= high), values, near * self.grid)

    def logp(self, values: Any, statistic: Any) -> float:
        """Log-density of released values given the statistics; see `law` for atoms. ``-inf`` outside the bounds."""
        return self.law.logp(self._vector(values, "values"), self._statistic(statistic))

    def _statistic(self, statistic: Any) -> npt.NDArray[np.float64]:
        return self._vector(statistic, "statistic", confidential=True)

    def _vector(self, values: Any, argument: str, *, confidential: bool = False) -> npt.NDArray[np.float64]:
        array = np.asarray(finite_array(values, argument, self._name, confidential=confidential), dtype=np.float64)
        if array.shape != self.shape:
            raise ValueError(
                f"{argument} must have shape {self.shape}, as the bounds and names of the mechanism, got {array.shape}; a "
                "vector needs names=[...], or one pair of bounds for each statistic"
            )
        return array

    def _name(self, where: int) -> str:
        return "the statistic" if self.names is None else printable(self.names[where])
