"""What the independent laws around any real location have in common: a scale a cell, stated in several ways, and tails."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bayesdp._validate import shown
from bayesdp.noise.arrays import broadcast_scale, draw_each, located, positive_scale, values_and_location
from bayesdp.noise.base import Floats, IndependentLaw


@dataclass(frozen=True)
class Ways:
    """The ways in which the scale of a law may be stated: names, and functions of arrays that give the scale."""

    scale: str
    loss: str  # the privacy parameter that gives the scale together with `sensitivity`
    from_loss: Callable[[Floats, Floats], Floats]
    from_variance: Callable[[Floats], Floats]
    relation: str  # these formulas, for messages

    @property
    def others(self) -> tuple[str, ...]:
        """Names of the parameters that may stand in place of the scale."""
        return (self.loss, "sensitivity", "variance", "standard_deviation")

    def value(self, law: str, stated: Mapping[str, Any], wrong: Mapping[str, Any]) -> float | Floats:
        """The scale of a law of that name, from what was stated: one of the scale and `others`, None where nothing was given."""
        # TypeError if there is a `wrong` parameter, one that no law of this kind has, or nothing was stated; ValueError for the
        # rest.
        if wrong:
            raise TypeError(f"noise law {law!r} has no parameter {shown(wrong)}; it takes {self.relation}")
        given = {name: value for name, value in stated.items() if value is not None}
        if not given:
            raise TypeError(f"{self.scale} must be a positive real number, got None; {law} takes {self.relation}")
        if set(given) == {self.scale}:
            return positive_scale(given[self.scale], self.scale)
        numbers = {name: np.asarray(positive_scale(value, name), dtype=np.float64) for name, value in given.items()}
        if set(given) == {self.loss, "sensitivity"}:
            found = self.from_loss(numbers[self.loss], numbers["sensitivity"])
        elif set(given) == {"variance"}:
            found = self.from_variance(numbers["variance"])
        elif set(given) == {"standard_deviation"}:
            found = self.from_variance(numbers["standard_deviation"] ** 2)
        elif set(given) <= {self.loss, "sensitivity"}:
            missing = "sensitivity" if self.loss in given else self.loss
            raise ValueError(f"{next(iter(given))} needs {missing} beside it: {law} takes {self.relation}")
        else:
            raise ValueError(f"{' and '.join(given)} state the scale of {law} more than once; it takes {self.relation}")
        return positive_scale(found if found.ndim else float(found), self.scale)


class ScaledLaw(IndependentLaw):
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

    def _set_scale(self, wrong: Mapping[str, Any], **stated: Any) -> None:
        assert self.ways is not None
        object.__setattr__(self, self.scale_name, self.ways.value(self.name, stated, wrong))

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
    def log_cdf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Logarithm of the probability of at most each value (any real number), elementwise."""

    @abstractmethod
    def log_sf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Logarithm of the probability of more than each value (any real number), elementwise."""

    def cdf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Probability of at most each value (any real number), elementwise."""
        return np.exp(self.log_cdf(values, location))

    def _drawn(self, rng: np.random.Generator, location: Floats, count: int) -> Any:
        cells = [location, self._scales(location.shape)]
        return draw_each(self.fill, rng, cells, count, integer=self.integer)

    def mean(self, location: npt.ArrayLike = 0.0) -> Floats:
        """Mean around each location, elementwise."""
        mu, _, scale = self._prepared(location, 0.0)
        return self._moments(mu, scale)[0]

    def variance(self, shape: tuple[int, ...], invariants: Any = None, location: npt.ArrayLike | None = None) -> Floats:
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
        return np.asarray(np.exp(self.log_each(values)))


class IntegerLaw(ScaledLaw):
    """Independent noise on the integers, whose mirror image around -mu is the same law: see `ScaledLaw` for what a law states."""

    support = "integers"
    integer = True

    def log_mass(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Log-mass of each value, elementwise; ``-inf`` where it is not an integer. Numbers are below 2**53 in size."""
        k, mu, scale = self._prepared(values, location)
        return np.where(k == np.rint(k), self.log_kernel(np, k, mu, scale), -np.inf)

    log_each = log_mass

    def log_cdf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Logarithm of the probability of at most each value (any real number), elementwise."""
        k, mu, scale = self._prepared(values, location)
        return np.asarray(self.log_cdf_kernel(np, np.floor(k), mu, scale))

    def log_sf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Logarithm of the probability of more than each value (any real number), elementwise."""
        k, mu, scale = self._prepared(values, location)
        return np.asarray(self.log_cdf_kernel(np, -np.floor(k) - 1.0, -mu, scale))


class RealLaw(ScaledLaw):
    """Independent noise on the real line, symmetric about zero: a law states the laws of its standard form.

    Everything is a function of ``z = (y - mu) / scale``.
    """

    support = "reals"
    integer = False

    @staticmethod
    @abstractmethod
    def _standard_log_density(xp: Any, z: Any) -> Any:
        """Log-density at scale 1 around zero."""

    @staticmethod
    @abstractmethod
    def _standard_log_cdf(xp: Any, z: Any) -> Any:
        """Logarithm of the distribution function at scale 1 around zero."""

    @staticmethod
    @abstractmethod
    def _standard_draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draws at scale 1 around zero."""

    @classmethod
    def log_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any) -> Any:
        """Log-density, elementwise."""
        return cls._standard_log_density(xp, (value - mu) / scale) - xp.log(scale)

    @classmethod
    def log_cdf_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any) -> Any:
        """Logarithm of the probability of at most `value`, elementwise."""
        return cls._standard_log_cdf(xp, (value - mu) / scale)

    @classmethod
    def fill(cls, rng: np.random.Generator, mu: Floats, scale: Floats, out: Floats) -> None:
        """Write draws into ``out``, shape (draws, cells)."""
        out[...] = mu + scale * cls._standard_draw(rng, out.shape)

    def log_density(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Log-density of each value, elementwise; values and locations are of shapes that broadcast."""
        return np.asarray(self.log_kernel(np, *self._prepared(values, location)))

    log_each = log_density

    def log_cdf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Logarithm of the probability of at most each value, elementwise."""
        return np.asarray(self.log_cdf_kernel(np, *self._prepared(values, location)))

    def log_sf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Logarithm of the probability of more than each value, elementwise."""
        y, mu, scale = self._prepared(values, location)
        return np.asarray(self.log_cdf_kernel(np, -y, -mu, scale))
