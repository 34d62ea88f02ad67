"""What the mechanisms for statistics within public bounds share: release, rounding, checks, description."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._text import printable
from bayesdp._validate import Seed, finite_array
from bayesdp.mechanisms.bounded.described import DescribedMechanism
from bayesdp.mechanisms.bounded.statistic_release import StatisticRelease, checked_names, frame_of
from bayesdp.noise import BoundedLaw
from bayesdp.noise.bounded.bounds import checked_bounds
from bayesdp.privacy import FLOATING_POINT_CAVEAT, PairLoss, StatisticGuarantee
from bayesdp.privacy.caveats import GENERATOR_CAVEAT, Fixed, Rounded
from bayesdp.privacy.loss import Loss
from bayesdp.privacy.relations import Neighbours
from bayesdp.privacy.stated_losses import LossAt
from bayesdp.privacy.words import Words
from bayesdp.queries import Identity, Query
from bayesdp.sensitivities.stated import StatedSensitivity

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

    sensitivity: Any
    bounds: Any
    names: Any
    neighbours: str
    unit: str

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
    @abstractmethod
    def law(self) -> BoundedLaw:
        """The law of the released values."""

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

    def _guarantee(self, more: tuple[Words, ...], simulated: bool = False) -> StatisticGuarantee:
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
    def _reservations(self) -> tuple[Words, ...]:
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

        Returns
        -------
        StatisticRelease

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
