"""What laws on an interval with public bounds share: tails, quantiles, draws, moments that depend on the location, and their words."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from inspect import cleandoc
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
    located,
    positive_scale,
    values_and_location,
)
from bayesdp.noise.base import Floats, Ints, NoiseLaw
from bayesdp.noise.bounded.kernels import filler
from bayesdp.noise.namespace import equal, finite


def plain_bounds(bounds: tuple[Limit, Limit]) -> list[Any]:
    """Bounds as lists of numbers, None where there is no bound."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(item) for item in value]
        return value if math.isfinite(value) else None

    return [plain(side.tolist() if isinstance(side, np.ndarray) else side) for side in bounds]


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
"""A point near the location, and the first two moments of the distance of a value from it."""


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


class BoundedLaw(NoiseLaw):
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
    scale_name : str
        Name of the field that holds its scale.
    log_cdf_kernel, icdf_kernel : callable, optional
        Of ``(xp, value or q, mu, scale, lower, upper)``, for values from lower up to below upper, where formulas are known.
    fill : callable
        ``fill(rng, mu, scale, lower, upper, out)`` writes draws into ``out``, shape (draws, cells); made from ``draw_one``.
    """

    support = "bounded"
    additive = False
    everywhere = True
    has_atoms: ClassVar[bool]
    free: ClassVar[Any]
    scale_name: ClassVar[str] = "b"
    log_cdf_kernel: ClassVar[Any] = None
    icdf_kernel: ClassVar[Any] = None
    fill: ClassVar[Any]
    bounds: Any

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.kernel_parameters = (cls.scale_name, "lower", "upper")
        if "draw_one" in cls.__dict__:
            cls.fill = staticmethod(filler(cls.draw_one))
        if "free" in cls.__dict__ and "kernel_form" not in cls.__dict__:
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
        return {
            key: text
            for key, text in sections_of(words).items()
            if key or "\nSupport " not in cleandoc(cls.__doc__ or "")
        }

    def __post_init__(self) -> None:
        object.__setattr__(self, self.scale_name, positive_scale(self.scale, self.scale_name))
        object.__setattr__(self, "bounds", checked_bounds(self.bounds, integer=self.integer))

    @property
    def lower(self) -> Limit:
        """Lower bounds; -inf where there is none."""
        lower: Limit = self.bounds[0]
        return lower

    @property
    def upper(self) -> Limit:
        """Upper bounds; inf where there is none."""
        upper: Limit = self.bounds[1]
        return upper

    @property
    def scale(self) -> Limit:
        """Scale of the law without bounds."""
        scale: Limit = getattr(self, self.scale_name)
        return scale

    @classmethod
    @abstractmethod
    def log_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """Log-density or log-mass of values within the bounds; `xp` is NumPy or PyTensor, see `bayesdp.noise.namespace`."""

    @abstractmethod
    def _moments(self, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Moments:
        """See `Moments`; the second moment has positive terms only."""

    def logp(self, values: npt.ArrayLike, location: npt.ArrayLike, invariants: Invariants | None = None) -> float:
        """Sum the log-densities of all values; ``-inf`` if one is outside its bounds. See `NoiseLaw.logp`."""
        return float(np.sum(self.log_each(values, location)))

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

    def _quantile(self, q: Floats, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Floats:
        """The smallest value that a share q of the law does not exceed."""
        with np.errstate(divide="ignore"):
            return np.asarray(self.icdf_kernel(np, q, mu, scale, lower, upper))

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
        found = self._quantile(np.clip(share, 1e-300, 1.0), mu, *others)
        return np.where(share <= 0.0, lower, np.where(share >= 1.0, upper, np.clip(found, lower, upper)))

    def mean(self, location: npt.ArrayLike = 0.0) -> Floats:
        """Mean of a value around each location, elementwise."""
        mu = self._prepared(location, 0.0)[0]
        return np.asarray(mu + self.bias(location))

    def bias(self, location: npt.ArrayLike = 0.0) -> Floats:
        """Mean minus location, elementwise."""
        mu, _, *others = self._prepared(location, 0.0)
        near, first, _ = self._moments(mu, *others)
        return np.asarray((near - mu) + first)

    def variance(
        self,
        shape: tuple[int, ...],
        invariants: Invariants | None = None,
        location: npt.ArrayLike | None = None,
    ) -> Floats | None:
        """Variance around each location, shape `shape`; None without a location, on which it depends."""
        if location is None:
            return None
        mu, _, *others = self._prepared(located(location, shape), 0.0)
        _, first, second = self._moments(mu, *others)
        return np.asarray(np.maximum(second - first**2, 0.0))

    def mse(self, location: npt.ArrayLike = 0.0) -> Floats:
        """Mean squared distance from the location, variance plus squared bias, elementwise."""
        mu, _, *others = self._prepared(location, 0.0)
        near, first, second = self._moments(mu, *others)
        shift = near - mu
        return np.asarray(second + 2.0 * shift * first + shift**2)

    def draw(
        self,
        rng: _validate.Seed,
        shape: tuple[int, ...],
        size: int | None = None,
        invariants: Invariants | None = None,
        location: npt.ArrayLike | None = None,
    ) -> Floats | Ints:
        """Draw independent values around a real location (zero by default). See `NoiseLaw.draw`."""
        cells = [located(location, shape), *(broadcast_scale(array, shape, name) for array, name in self._named())]
        drawn: Floats | Ints = draw_each(self.fill, rng, cells, size, integer=self.integer)
        return drawn

    def outside(self, values: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Which values are outside their bounds, elementwise."""
        y = np.asarray(values, dtype=np.float64)
        return (y < broadcast_scale(self.lower, y.shape, "bounds")) | (
            y > broadcast_scale(self.upper, y.shape, "bounds")
        )

    def _named(self) -> tuple[tuple[Limit, str], ...]:
        return (self.scale, self.scale_name), (self.lower, "bounds"), (self.upper, "bounds")

    def _prepared(self, values: npt.ArrayLike, location: npt.ArrayLike) -> tuple[Floats, ...]:
        y, mu = values_and_location(values, location)
        return y, mu, *(broadcast_scale(array, y.shape, name) for array, name in self._named())

    def describe(self) -> dict[str, Any]:
        """Describe the law by plain data; a bound that is infinite is None. See `NoiseLaw.describe`."""
        return {**super().describe(), "bounds": plain_bounds(self.bounds)}

    def __str__(self) -> str:
        lower, upper = map(self._shown, self.bounds)
        return f"{self.name} {self.scale_name}={self._shown(self.scale)} bounds={lower}:{upper}"

    @property
    def limits(self) -> tuple[Any, Any]:
        """Lower and upper bounds."""
        return self.lower, self.upper

    def model_parameters(self) -> dict[str, Any]:
        """The scale and both bounds, by the names that the PyMC distributions have for them."""
        return {self.scale_name: self.scale, "lower": self.lower, "upper": self.upper}


class BoundedReal(BoundedLaw):
    """Real numbers on an interval."""

    integer = False

    def log_density(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Log-density of each value, elementwise; log-probability at a bound that has an atom, ``-inf`` outside the bounds."""
        return self.log_each(values, location)


class BoundaryInflated(BoundedLaw):
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
        mu, _, scale, lower, upper = self._prepared(location, 0.0)
        return self._beyond(mu, scale, lower, upper)

    def _beyond(self, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        """Free probabilities of at most the lower, and of at least the upper bound."""
        at_most = [
            np.where(np.isinf(side), 0.0, np.exp(self.free.log_cdf_kernel(np, finite(np, side, 0.0), centre, scale)))
            for side, centre in ((lower, mu), (-upper, -mu))
        ]
        return at_most[0], at_most[1]
