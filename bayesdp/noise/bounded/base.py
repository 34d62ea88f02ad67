"""What laws on an interval with public bounds share: tails, quantiles, draws, moments that depend on the location, and their words."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp._docs import sections_of, with_sections
from bayesdp.invariants import Invariants
from bayesdp.noise.arrays import (
    Limit,
    broadcast_scale,
    checked_limit,
    draw_each,
    finite,
    located,
    positive_scale,
    values_and_location,
)
from bayesdp.noise.base import Floats, IndependentLaw
from bayesdp.noise.bounded.kernels import filler


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
    try:
        low, high = np.broadcast_arrays(lower, upper)
    except ValueError:
        raise ValueError(
            f"bounds must be of shapes that fit one another, got {np.shape(lower)} and {np.shape(upper)}"
        ) from None
    for wrong, words in (
        (low > high, "must have the lower one first, but they are reversed"),
        (low == high, "must differ, or there is nothing to release, but they are equal"),
        (np.isinf(low) & np.isinf(high), "must have a finite side (use the law without bounds otherwise), but both are infinite"),
    ):  # fmt: skip
        where = np.argwhere(wrong)
        if len(where):
            place = tuple(int(i) for i in where[0])
            at = f" at position {place}" if place else ""
            raise ValueError(f"bounds {words}{at}: {low[place]:.17g} and {high[place]:.17g}")
    return lower, upper


type Moments = tuple[Floats, Floats, Floats]
"""A point `near` the location, and the first two moments of the distance of a value from it."""


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
    log_cdf_kernel, icdf_kernel : callable, optional
        Of ``(xp, value or q, mu, scale, lower, upper)``, for values from lower up to below upper, where formulas are known.
    """

    support = "bounded"
    additive = False
    full_support = True
    has_atoms: ClassVar[bool]
    free: ClassVar[Any]
    scale_name: ClassVar[str] = "b"
    log_cdf_kernel: ClassVar[Any] = None
    icdf_kernel: ClassVar[Any] = None
    fill: ClassVar[Any]
    _sums: ClassVar[Any]
    """Of (mu, scale, lower, upper): `near`, and sums or integrals of ``(y - near)**i`` times the free law, i = 0, 1, 2, in units of
    its mass, or of its density times the scale, at `near`."""
    bounds: tuple[Limit, Limit]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.kernel_parameters = (cls.scale_name, "lower", "upper")
        if "draw_one" in cls.__dict__:
            cls.fill = staticmethod(filler(cls.draw_one))
        if "free" in cls.__dict__:
            cls.kernel_form = cls.free.kernel_form
        if "name" in cls.__dict__ and cls.__module__.startswith("bayesdp."):
            cls.__doc__ = with_sections(cls.__doc__, cls._shared_words())

    @classmethod
    def _shared_words(cls) -> dict[str, str]:
        """What the docstrings of all laws within bounds say, but for a table of facts where there is one."""
        kind = "Standard deviation" if cls.scale_name == "sigma" else "Scale"
        words = _WORDS.format(
            name=cls.__name__,
            support="integers from the lower to the upper bound" if cls.integer else "the interval between the bounds",
            scale=cls.scale_name,
            unit="Scale in counts" if cls.integer else f"{kind} of the law without bounds, in the unit of the values",
            whole=", whole numbers" if cls.integer else "",
        )
        return sections_of(words) | ({"": ""} if "Support   " in (cls.__doc__ or "") else {})

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

    @abstractmethod
    def _moments(self, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Moments:
        """See `Moments`; the second moment has positive terms only."""

    def log_each(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Log-density or log-mass of each value, elementwise; ``-inf`` outside the bounds, and off the integers for integer laws."""
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
            found = self._log_cdf(y, mu, *others)
        outer = (-np.inf, 0.0) if which == 0 else (0.0, -np.inf)
        return np.where(below, outer[0], np.where(above, outer[1], found))

    def _log_cdf(self, y: Floats, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Floats:
        """Logarithm of the probability of at most values from lower up to below upper."""
        return np.asarray(self.log_cdf_kernel(np, y, mu, scale, lower, upper))

    @staticmethod
    def _some_value(lower: Floats, upper: Floats) -> Floats:
        """A finite value within the bounds, below the upper one."""
        return np.where(np.isfinite(lower), lower, upper - 1.0)

    def ppf(self, q: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Quantiles, elementwise: the smallest value not exceeded with probability q; bounds, even infinite ones, for 0 and 1."""
        share = np.asarray(_validate.finite_array(q, "q"), dtype=np.float64)
        if np.any((share < 0.0) | (share > 1.0)):
            raise ValueError(f"q must lie between 0 and 1, got {share[(share < 0.0) | (share > 1.0)][0]}")
        share, mu, *others = self._prepared(share, location)
        lower, upper = others[1:]
        inner = np.clip(share, 1e-300, 1.0)
        with np.errstate(divide="ignore"):
            if self.icdf_kernel is None:
                found = self._bisected(inner, mu, *others)
            else:
                found = np.asarray(self.icdf_kernel(np, inner, mu, *others))
        return np.where(share <= 0.0, lower, np.where(share >= 1.0, upper, np.clip(found, lower, upper)))

    def _bisected(self, q: Floats, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Floats:
        """The smallest value that a share q does not exceed, from the distribution function, which keeps its digits far out."""
        # How far quantiles are where a bound is missing; and a number is the quantile of its own probability, in spite of rounding.
        reach, slack = (800.0 * scale + 2.0, 1e-14) if self.integer else (40.0 * scale, 0.0)
        low = np.where(np.isfinite(lower), lower - self.integer, np.minimum(mu, upper) - reach)
        high = np.where(np.isfinite(upper), upper, np.maximum(mu, lower) + reach)
        if self.integer:
            low, high = np.floor(low), np.ceil(high)
        target = np.log(q) - slack
        while True:
            middle = np.floor(0.5 * (low + high)) if self.integer else 0.5 * (low + high)
            done = (middle <= low) | (middle >= high)
            if np.all(done):
                return np.asarray(high)
            enough = self._log_cdf(middle, mu, scale, lower, upper) >= target
            low, high = np.where(done | enough, low, middle), np.where(done | ~enough, high, middle)

    def _moments_at(self, location: npt.ArrayLike) -> Moments:
        """How far `near` is from the location, and the two moments; see `Moments`."""
        mu, _, *others = self._prepared(location, 0.0)
        near, first, second = self._moments(mu, *others)
        return near - mu, first, second

    def mean(self, location: npt.ArrayLike = 0.0) -> Floats:
        """Mean of a value around each location, elementwise."""
        return np.asarray(np.add(location, self.bias(location)))

    def bias(self, location: npt.ArrayLike = 0.0) -> Floats:
        """Mean minus location, elementwise."""
        shift, first, _ = self._moments_at(location)
        return np.asarray(shift + first)

    def variance(
        self, shape: tuple[int, ...], invariants: Invariants | None = None, location: npt.ArrayLike | None = None
    ) -> Floats | None:
        """Variance around each location, shape `shape`; None without a location, on which it depends."""
        if location is None:
            return None
        _, first, second = self._moments_at(located(location, shape))
        return np.asarray(np.maximum(second - first**2, 0.0))

    def mse(self, location: npt.ArrayLike = 0.0) -> Floats:
        """Mean squared distance from the location, variance plus squared bias, elementwise."""
        shift, first, second = self._moments_at(location)
        return np.asarray(second + 2.0 * shift * first + shift**2)

    def _drawn(self, rng: np.random.Generator, location: Floats, count: int, invariants: Any = None) -> Any:
        return draw_each(self.fill, rng, [location, *self._spread(location.shape)], count, integer=self.integer)

    def outside(self, values: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Which values are outside their bounds, elementwise."""
        y = np.asarray(values, dtype=np.float64)
        lower, upper = (broadcast_scale(side, y.shape, "bounds") for side in (self.lower, self.upper))
        return (y < lower) | (y > upper)

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


class WithAtoms(BoundedLaw):
    """Laws with a probability of each bound."""

    def atoms(self, location: npt.ArrayLike = 0.0) -> tuple[Floats, Floats]:
        """Probabilities of the lower and of the upper bound; 0 for one that is infinite."""
        mu = self._prepared(location, 0.0)[0]
        _, *sides = self._spread(mu.shape)
        at_lower, at_upper = (
            np.where(np.isinf(side), 0.0, np.exp(self.log_each(finite(np, side, 0.0), mu))) for side in sides
        )
        return at_lower, at_upper
