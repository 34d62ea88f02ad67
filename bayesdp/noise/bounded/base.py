"""Laws within public bounds, truncated or clipped: tails, draws, moments that depend on the location, and their words."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from bayesdp._arrays import Floats
from bayesdp._docs import sections_of, with_sections
from bayesdp.invariants import Invariants
from bayesdp.noise.arrays import (
    Limit,
    broadcast_scale,
    checked_limit,
    draw_each,
    equal,
    finite,
    located,
    log1mexp,
    positive_scale,
    values_and_location,
)
from bayesdp.noise.base import IndependentLaw
from bayesdp.noise.bounded.kernels import add_up, filler


def plain_bounds(bounds: tuple[Limit, Limit]) -> list[Any]:
    """Bounds as lists of numbers, None where there is no bound."""
    absent: Any = None
    return [np.where(np.isfinite(side), side, absent).tolist() for side in bounds]


def checked_bounds(bounds: Any, *, integer: bool) -> tuple[Limit, Limit]:
    """Accept a lower and an upper bound, or arrays of them; None or an infinity on one side where there is no bound."""
    if isinstance(bounds, str | Mapping) or not hasattr(bounds, "__len__") or len(bounds) != 2:
        raise TypeError(f"bounds must be a pair (lower, upper), got {bounds!r}")
    lower = checked_limit(bounds[0], -math.inf, "the lower bound", integer=integer)
    upper = checked_limit(bounds[1], math.inf, "the upper bound", integer=integer)
    check_sides("bounds", lower, upper, lambda low, high: (
        (low > high, "must have the lower one first, but they are reversed"),
        (low == high, "must differ, or there is nothing to release, but they are equal"),
        (np.isinf(low) & np.isinf(high), "must have a finite side (use the law without bounds otherwise), but both are infinite"),
    ))  # fmt: skip
    return lower, upper


def check_sides(names: str, lower: Limit, upper: Limit, rules: Callable[[Any, Any], Iterable[tuple[Any, str]]]) -> None:
    """Refuse sides whose shapes do not fit one another, and the first place where one of the rules says that they are wrong."""
    try:
        low, high = np.broadcast_arrays(lower, upper)
    except ValueError:
        raise ValueError(
            f"{names} must be of shapes that fit one another, got {np.shape(lower)} and {np.shape(upper)}"
        ) from None
    for wrong, words in rules(low, high):
        where = np.argwhere(wrong)
        if len(where):
            place = tuple(int(i) for i in where[0])
            at = f" at position {place}" if place else ""
            raise ValueError(f"{names} {words}{at}: {low[place]:.17g} and {high[place]:.17g}")


def sums_within(free: Any, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> tuple[Floats, ...]:
    """A point `near` within bounds, and sums or integrals over them of ``(y - near)**i`` times a free law, i = 0, 1, 2.

    The free law is a Laplace or Gaussian one on the reals or the integers, in units of its density or mass at `near`: the location
    moved between the bounds, of integers the nearest of them.
    """
    inner = np.clip(mu, lower, upper)
    laplace = free.kernel_form.kind == "l1"
    near = np.rint(inner) if free.integer else inner
    # The Laplace law around a location outside is that around the bound.
    away = (inner if laplace else mu) - near
    cells = (
        np.ascontiguousarray(array, dtype=np.float64).reshape(-1) for array in (away, scale, near - lower, upper - near)
    )
    out, compiled = np.empty((3, mu.size)), cast("Any", add_up)
    compiled(*cells, laplace, free.integer, out)
    return near, *out.reshape(3, *mu.shape)


_WORDS = """
========  ===========================================================
Support   {support}
Mean      mu plus a bias inwards, away from nearer bounds; see `bias`
Variance  depends on mu and the bounds; see `variance`
========  ===========================================================

Parameters
----------
{scale} : float or array_like
    {unit}.
bounds : pair of float or array_like
    Lower and upper bound{whole}; None or an infinity where there is none, on one side at most.

See Also
--------
bayesdp.mechanisms.{name} : the mechanism; it takes privacy parameters.
bayesdp.distributions.{name} : the same law as a PyMC distribution.
"""


class BoundedLaw(IndependentLaw):
    """Values on an interval with public bounds, each around a location of its own.

    The law is that of a noisy value and not of noise that is added: its shape depends on how far the location, the
    confidential value, is from the bounds. Locations may be any real numbers; those outside the bounds occur where the
    bounds come from other released numbers (Liu 2019, Section 4.1).

    A law with atoms has its density with respect to Lebesgue measure plus a unit point mass at each finite bound.

    Attributes
    ----------
    has_atoms : bool
        Whether the mass of the tails stands at the bounds.
    free : type of ScaledLaw
        The law that was bounded; the posterior kernel takes values within the bounds in its form.
    """

    support = "bounded"
    additive = False
    full_support = True
    has_atoms: ClassVar[bool]
    free: ClassVar[Any]
    scale_name: ClassVar[str]
    fill: ClassVar[Any]
    bounds: tuple[Limit, Limit]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "free" in cls.__dict__:
            cls.integer, cls.kernel_form, cls.scale_name = cls.free.integer, cls.free.kernel_form, cls.free.scale_name
            cls.kernel_parameters = (cls.scale_name, "lower", "upper")
        if "draw_one" in cls.__dict__:
            cls.fill = staticmethod(filler(cls.draw_one))
        if "name" in cls.__dict__ and cls.__module__.startswith("bayesdp."):
            cls.__doc__ = with_sections(cls.__doc__, cls._shared_words())

    @classmethod
    def _shared_words(cls) -> dict[str, str]:
        """What the docstrings of all laws within bounds say."""
        kind = "Standard deviation" if cls.scale_name == "sigma" else "Scale"
        words = _WORDS.format(
            name=cls.__name__,
            support="integers from the lower to the upper bound" if cls.integer else "the interval between the bounds",
            scale=cls.scale_name,
            unit="Scale in counts" if cls.integer else f"{kind} of the law without bounds, in the unit of the values",
            whole=", whole numbers" if cls.integer else "",
        )
        found = sections_of(words)
        if cls.integer:  # no mechanism here publishes counts within bounds
            found["See Also"] = found["See Also"].partition("\n")[2]
        return found

    def __post_init__(self) -> None:
        self._set(
            **{self.scale_name: positive_scale(self.scale, self.scale_name)},
            bounds=checked_bounds(self.bounds, integer=self.integer),
        )

    @property
    def lower(self) -> Limit:
        """Lower bounds; -inf where there is none."""
        return self.bounds[0]

    @property
    def upper(self) -> Limit:
        """Upper bounds; inf where there is none."""
        return self.bounds[1]

    @property
    def limits(self) -> tuple[Any, Any]:
        """Lower and upper bounds."""
        return self.lower, self.upper

    @property
    def scale(self) -> Limit:
        """Scale of the law without bounds."""
        scale: Limit = getattr(self, self.scale_name)
        return scale

    @classmethod
    @abstractmethod
    def log_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """Log-density or log-mass of values within the bounds; `xp` is NumPy or PyTensor, see `bayesdp.noise.arrays`."""

    @classmethod
    @abstractmethod
    def log_cdf_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """Logarithm of the probability of at most `value`, from lower up to below upper."""

    @abstractmethod
    def _moments(self, location: npt.ArrayLike) -> tuple[Floats, Floats, Floats]:
        """How far `near`, see `sums_within`, is from the location; the mean of a value's distance from it, and of its square."""

    def log_each(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Log-density or log-mass of each value, elementwise, at an atom its log-probability.

        ``-inf`` outside the bounds, and off the integers for integer laws.
        """
        y, mu, *others = self._prepared(values, location)
        lower, upper = others[1:]
        inside = (y >= lower) & (y <= upper) & ((y == np.rint(y)) if self.integer else True)
        with np.errstate(divide="ignore"):  # atoms that have no probability
            found = self.log_kernel(np, np.where(inside, y, self._some_value(lower, upper)), mu, *others)
        return np.where(inside, found, -np.inf)

    def log_cdf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Logarithm of the probability of at most each value (any real number), elementwise."""
        return self._tail(values, location, 0)

    def log_sf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Logarithm of the probability of more than each value (any real number), elementwise."""
        return self._tail(values, location, 1)

    def cdf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Probability of at most each value (any real number), elementwise."""
        return np.exp(self.log_cdf(values, location))

    def _tail(self, values: npt.ArrayLike, location: npt.ArrayLike, which: int) -> Floats:
        y, mu, *others = self._prepared(values, location)
        lower, upper = others[1:]
        y = np.floor(y) if self.integer else y
        below, above = y < lower, y >= upper
        y = np.where(below | above, self._some_value(lower, upper), y)
        if which == 1:  # at most the mirror image of the next value
            y, mu, others = -y - self.integer, -mu, [others[0], -upper, -lower]
        with np.errstate(divide="ignore"):
            found = self.log_cdf_kernel(np, y, mu, *others)
        outer = (-np.inf, 0.0) if which == 0 else (0.0, -np.inf)
        return np.where(below, outer[0], np.where(above, outer[1], found))

    @staticmethod
    def _some_value(lower: Floats, upper: Floats) -> Floats:
        """A finite value within the bounds, below the upper one."""
        return np.where(np.isfinite(lower), lower, upper - 1.0)

    def mean(self, location: npt.ArrayLike = 0.0) -> Floats:
        """Mean of a value around each location, elementwise."""
        return np.asarray(np.add(location, self.bias(location)))

    def bias(self, location: npt.ArrayLike = 0.0) -> Floats:
        """Mean minus location, elementwise."""
        shift, first, _ = self._moments(location)
        return np.asarray(shift + first)

    def variance(
        self, shape: tuple[int, ...], invariants: Invariants | None = None, location: npt.ArrayLike | None = None
    ) -> Floats | None:
        """Variance around each location, shape `shape`; None without a location, on which it depends."""
        if location is None:
            return None
        _, first, second = self._moments(located(location, shape))
        return np.asarray(np.maximum(second - first**2, 0.0))

    def mse(self, location: npt.ArrayLike = 0.0) -> Floats:
        """Mean squared distance from the location, variance plus squared bias, elementwise."""
        shift, first, second = self._moments(location)
        return np.asarray(second + 2.0 * shift * first + shift**2)

    def _drawn(self, rng: np.random.Generator, location: Floats, count: int, invariants: Any = None) -> Any:
        return draw_each(self.fill, rng, [location, *self._spread(location.shape)], count, integer=self.integer)

    def _spread(self, shape: tuple[int, ...]) -> list[Floats]:
        """Scale and bounds of every value."""
        parameters = (self.scale, self.scale_name), (self.lower, "bounds"), (self.upper, "bounds")
        return [broadcast_scale(array, shape, name) for array, name in parameters]

    def _prepared(self, values: npt.ArrayLike, location: npt.ArrayLike) -> tuple[Floats, ...]:
        y, mu = values_and_location(values, location)
        return y, mu, *self._spread(y.shape)

    def describe(self) -> dict[str, Any]:
        """Describe the law by plain data; a bound that is infinite is None. See `NoiseLaw.describe`."""
        return {**super().describe(), "bounds": plain_bounds(self.bounds)}

    def __str__(self) -> str:
        lower, upper = map(self._shown, self.bounds)
        return f"{self.name} {self.scale_name}={self._shown(self.scale)} bounds={lower}:{upper}"

    def model_parameters(self) -> dict[str, Any]:
        """The scale and both bounds, by the names that the PyMC distributions have for them."""
        return {self.scale_name: self.scale, "lower": self.lower, "upper": self.upper}


class Truncated(BoundedLaw):
    """The free law given that it is within the bounds: its density or mass over the integral or sum of it.

    Attributes
    ----------
    excess : callable
        Of (xp, y, mu, scale, lower, upper): how much larger the free log-density is at the location, moved between the bounds and of
        integers the nearest of them, than at y.
    log_share : callable
        Of (xp, mu, scale, lower, upper): logarithm of the integral or sum of the free law within the bounds, in units of what it is
        there, times the scale for reals.
    """

    has_atoms = False
    excess: ClassVar[Any]
    log_share: ClassVar[Any]
    _log_unit: ClassVar[float] = 0.0
    """What `log_share` leaves out."""

    @classmethod
    def log_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """Log-density or log-mass within the bounds."""
        fallen = -cls.excess(xp, value, mu, scale, lower, upper)
        unit = fallen if cls.integer else fallen - xp.log(scale) - cls._log_unit
        return unit - cls.log_share(xp, mu, scale, lower, upper)

    @classmethod
    def log_cdf_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """See `BoundedLaw.log_cdf_kernel`."""
        total = cls.log_share(xp, mu, scale, lower, upper)

        def part(first: Any, last: Any) -> Any:
            """Logarithm of the probability from `first` to `last`: of the point of these that is nearest to mu, and its share."""
            near = xp.clip(mu, first, last)
            near = xp.round(near) if cls.integer else near
            return cls.log_share(xp, mu, scale, first, last) - cls.excess(xp, near, mu, scale, lower, upper) - total

        left, right = part(lower, value), part(value + 1.0 if cls.integer else value, upper)
        # 1 minus the smaller part keeps all digits.
        low = left <= right
        return xp.where(low, left, log1mexp(xp, xp.where(low, -1.0, xp.minimum(right, 0.0))))

    def _moments(self, location: npt.ArrayLike) -> tuple[Floats, Floats, Floats]:
        _, mu, *others = self._prepared(0.0, location)
        near, s0, s1, s2 = sums_within(self.free, mu, *others)
        return near - mu, s1 / s0, s2 / s0


class Clipped(BoundedLaw):
    """The free law, symmetric about its location, with the mass of each tail at the bound before it."""

    has_atoms = True

    @classmethod
    def log_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """That of the free law between the bounds, the log-probability of the tail at a bound, which belongs to the tail."""
        below = cls.free.log_cdf_kernel(xp, finite(xp, lower, 0.0), mu, scale)
        above = cls.free.log_cdf_kernel(xp, -finite(xp, upper, 0.0), -mu, scale)
        inner = cls.free.log_kernel(xp, value, mu, scale)
        return xp.where(equal(xp, value, lower), below, xp.where(equal(xp, value, upper), above, inner))

    @classmethod
    def log_cdf_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """That of the free law, for values from lower up to below upper."""
        return cls.free.log_cdf_kernel(xp, value, mu, scale)

    def atoms(self, location: npt.ArrayLike = 0.0) -> tuple[Floats, Floats]:
        """Probabilities of the lower and of the upper bound; 0 for one that is infinite."""
        mu = self._prepared(location, 0.0)[0]
        _, *sides = self._spread(mu.shape)
        at_lower, at_upper = (
            np.where(np.isinf(side), 0.0, np.exp(self.log_each(finite(np, side, 0.0), mu))) for side in sides
        )
        return at_lower, at_upper

    def _moments(self, location: npt.ArrayLike) -> tuple[Floats, Floats, Floats]:
        _, mu, scale, lower, upper = self._prepared(0.0, location)
        near, _, s1, s2 = sums_within(self.free, mu, scale, lower, upper)
        unit = np.exp(self.free.log_kernel(np, near, mu, scale))
        first, second = unit * s1, unit * s2
        # What is at a bound, beside the mass of an integer there.
        for side, end, centre in ((lower, lower - self.integer, mu), (upper, -upper - self.integer, -mu)):
            beyond = np.exp(self.free.log_cdf_kernel(np, finite(np, end, 0.0), centre, scale))
            away = np.where(np.isinf(side), 0.0, side - near)
            first, second = first + beyond * away, second + beyond * away**2
        return near - mu, first, second
