"""What the independent laws around any real location have in common: a scale a cell, and tails."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bayesdp.noise._arrays import broadcast_scale, located, values_and_location
from bayesdp.noise.base import Floats, NoiseLaw
from bayesdp.noise.independent._scales import Ways

__all__ = ["ScaledLaw"]


class ScaledLaw(NoiseLaw):
    """Independent noise of each answer: a law states its distribution function and moments for arrays.

    The scale may be stated in other ways, see `Ways`; the law keeps the scale alone.
    """

    ways: ClassVar[Ways]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "ways" in cls.__dict__:
            cls.relation, cls.other_parameters = cls.ways.relation, cls.ways.others

    def _set_scale(self, wrong: dict[str, Any], **stated: Any) -> None:
        """Work out the scale, and keep it: the last line of every constructor."""
        object.__setattr__(self, self.ways.scale, self.ways.value(self.name, stated, wrong))

    @property
    def scale_name(self) -> str:
        """Name of the field that holds the scale."""
        return self.ways.scale

    @property
    def scale(self) -> float | Floats:
        """The scale, one number or an array."""
        scale: float | Floats = getattr(self, self.ways.scale)
        return scale

    @abstractmethod
    def log_cdf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Logarithm of the probability of at most each value (any real number), elementwise."""

    @abstractmethod
    def log_sf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Logarithm of the probability of more than each value (any real number), elementwise."""

    @staticmethod
    @abstractmethod
    def _moments(mu: Floats, scale: Floats) -> tuple[Floats, Floats]:
        """Mean and variance around mu."""

    def cdf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Probability of at most each value (any real number), elementwise."""
        return np.exp(self.log_cdf(values, location))

    def mean(self, location: npt.ArrayLike = 0.0) -> Floats:
        """Mean around each location, elementwise."""
        mu, _, scale = self._prepared(location, 0.0)
        return self._moments(mu, scale)[0]

    def variance(
        self,
        shape: tuple[int, ...],
        invariants: Any = None,
        location: npt.ArrayLike | None = None,
    ) -> Floats:
        """Variance of each cell around its location (zero by default), shape `shape`."""
        return self._moments(located(location, shape), self._scales(shape))[1]

    def _scales(self, shape: tuple[int, ...]) -> Floats:
        return broadcast_scale(self.scale, shape, self.scale_name)

    def _prepared(self, values: npt.ArrayLike, location: npt.ArrayLike) -> tuple[Floats, Floats, Floats]:
        y, mu = values_and_location(values, location)
        return y, mu, self._scales(y.shape)
