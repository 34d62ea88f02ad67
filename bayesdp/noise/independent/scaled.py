"""What the independent laws around any real location have in common: a scale a cell, and tails."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp.invariants import Invariants
from bayesdp.noise._draws import draw_each
from bayesdp.noise.arrays import broadcast_scale, located, positive_scale, values_and_location
from bayesdp.noise.base import Floats, NoiseLaw
from bayesdp.noise.independent._scales import Ways


class ScaledLaw(NoiseLaw):
    """Independent noise of each answer, with one scale or one a cell.

    A law states its formulas for arrays, with the location and the scale as arguments: `log_kernel` and `log_cdf_kernel`, for
    NumPy and PyTensor alike, its moments and its sampler.

    Attributes
    ----------
    scale_name : str
        Name of the field that holds the scale.
    ways : Ways, optional
        The ways in which the scale may be stated; the law keeps the scale alone.
    draw_one : callable, optional
        Compiled by numba, ``draw_one(rng, mu, scale)`` draws one number. PyTensor calls `fill` where there is none.
    fill : callable
        ``fill(rng, mu, scale, out)`` writes draws into ``out``, shape (draws, cells).
    """

    everywhere = True
    ways: ClassVar[Ways | None] = None
    scale_name: ClassVar[str]
    fill: ClassVar[Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.ways is not None and "ways" in cls.__dict__:
            cls.scale_name = cls.ways.scale
            cls.relation, cls.other_parameters = cls.ways.relation, cls.ways.others
        if hasattr(cls, "scale_name"):
            cls.kernel_parameters = (cls.scale_name,)

    def __post_init__(self) -> None:
        object.__setattr__(self, self.scale_name, positive_scale(self.scale, self.scale_name))

    @property
    def scale(self) -> float | Floats:
        """The scale, one number or an array."""
        scale: float | Floats = getattr(self, self.scale_name)
        return scale

    @classmethod
    @abstractmethod
    def log_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any) -> Any:
        """Log-mass at integers, or log-density, elementwise; `xp` is NumPy or PyTensor, see `bayesdp.noise.namespace`."""

    @classmethod
    @abstractmethod
    def log_cdf_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any) -> Any:
        """Logarithm of the probability of at most `value` (an integer for integer laws), elementwise."""

    @staticmethod
    @abstractmethod
    def _moments(mu: Floats, scale: Floats) -> tuple[Floats, Floats]:
        """Mean and variance around mu."""

    @abstractmethod
    def log_each(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Log-mass or log-density of each value, elementwise."""

    def logp(self, values: npt.ArrayLike, location: npt.ArrayLike, invariants: Invariants | None = None) -> float:
        """Sum of the log-masses or log-densities of all answers. See `NoiseLaw.logp`."""
        return float(np.sum(self.log_each(values, location)))

    @abstractmethod
    def log_cdf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Logarithm of the probability of at most each value (any real number), elementwise."""

    @abstractmethod
    def log_sf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Logarithm of the probability of more than each value (any real number), elementwise."""

    def cdf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Probability of at most each value (any real number), elementwise."""
        return np.exp(self.log_cdf(values, location))

    def draw(
        self,
        rng: _validate.Seed,
        shape: tuple[int, ...],
        size: int | None = None,
        invariants: Invariants | None = None,
        location: npt.ArrayLike | None = None,
    ) -> Any:
        """Draw independent noise, or values around a real location. See `NoiseLaw.draw`."""
        cells = [located(location, shape), self._scales(shape)]
        return draw_each(self.fill, rng, cells, size, integer=self.integer)

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

    def at_scales(self, scale: npt.ArrayLike) -> Any:
        """The same law with another scale, or one for each answer."""
        kind: Any = type(self)
        return kind(scale)

    def picture(self, values: Floats, sd: float) -> Floats | None:
        """Mass or density of the noise of one answer. See `NoiseLaw.picture`."""
        return np.exp(self.log_each(values))
