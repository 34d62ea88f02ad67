"""Laplace and Gaussian laws on the real line and on the integers, and what laws with a scale around any location have in common."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bayesdp._arrays import Floats
from bayesdp._docs import documented
from bayesdp._validate import shown
from bayesdp.invariants import Invariants
from bayesdp.noise import kernels, theta
from bayesdp.noise.arrays import (
    broadcast_scale,
    draw_each,
    located,
    log1mexp,
    positive_scale,
    real,
    softplus,
    special,
    two_sensitivities,
    values_and_location,
    whole,
)
from bayesdp.noise.base import IndependentLaw, KernelForm, LossByLength, exponential_loss, normal_loss
from bayesdp.noise.secure import gaussian_by_integers, laplace_by_integers
from bayesdp.privacy.tradeoffs.base import DiscretePair, TradeOff, ordered_pair
from bayesdp.privacy.tradeoffs.laws import LaplaceTradeOff, approximate_dp
from bayesdp.queries import Query


class ScaledLaw(IndependentLaw):
    """Independent noise of each answer, with one scale or one a cell.

    A law states its formulas for arrays, with the location and the scale as arguments: `log_kernel` and `log_cdf_kernel`, for
    NumPy and PyTensor alike, its moments and its sampler.

    Attributes
    ----------
    scale_name : str
        Name of the field that holds the scale.
    draw_one : callable, optional
        Compiled by numba, ``draw_one(rng, mu, scale)`` draws one number. PyTensor calls `fill` where there is none.
    fill : callable
        ``fill(rng, mu, scale, out)`` writes draws into ``out``, shape (draws, cells).
    """

    full_support = True
    scale_name: ClassVar[str]
    fill: ClassVar[Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
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
        """Log-mass at integers, or log-density, elementwise; `xp` is NumPy or PyTensor, see `bayesdp.noise.arrays`."""

    @classmethod
    @abstractmethod
    def log_cdf_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any) -> Any:
        """Logarithm of the probability of at most `value` (an integer for integer laws), elementwise."""

    @staticmethod
    @abstractmethod
    def _moments(mu: Floats, scale: Floats) -> tuple[Floats, Floats]:
        """Mean and variance around mu."""

    def log_each(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Log-mass or log-density of each value, elementwise; ``-inf`` for fractions under integer laws. Shapes broadcast."""
        y, mu, scale = self._prepared(values, location)
        found = np.asarray(self.log_kernel(np, y, mu, scale))
        return np.where(y == np.rint(y), found, -np.inf) if self.integer else found

    def log_cdf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Logarithm of the probability of at most each value (any real number), elementwise."""
        y, mu, scale = self._prepared(values, location)
        return np.asarray(self.log_cdf_kernel(np, np.floor(y) if self.integer else y, mu, scale))

    def log_sf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Logarithm of the probability of more than each value (any real number), elementwise."""
        y, mu, scale = self._prepared(values, location)
        # The law is symmetric: at most the mirror image of the next value.
        return np.asarray(self.log_cdf_kernel(np, -np.floor(y) - 1.0 if self.integer else -y, -mu, scale))

    def cdf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Probability of at most each value (any real number), elementwise."""
        return np.exp(self.log_cdf(values, location))

    def _drawn(self, rng: np.random.Generator, location: Floats, count: int, invariants: Any = None) -> Any:
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


class IntegerLaw(ScaledLaw):
    """Independent noise on the integers, whose mirror image around -mu is the same law: see `ScaledLaw` for what a law states."""

    support = "integers"
    integer = True

    log_mass = ScaledLaw.log_each


class RealLaw(ScaledLaw):
    """Independent noise on the real line, symmetric about zero: see `ScaledLaw` for what a law states."""

    support = "reals"
    integer = False

    log_density = ScaledLaw.log_each


class _StatedLaw(ScaledLaw):
    """Laws whose scale may be stated by a privacy loss with `sensitivity`, or by the variance; the law keeps the scale alone."""

    _loss: ClassVar[str]  # the privacy parameter
    _relation: ClassVar[str]  # formulas, for messages; with a place for that of the variance
    _variance_words: ClassVar[str]
    _of_loss: Any  # of (loss, sensitivity)
    _of_variance: Any

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "_variance_words" in cls.__dict__:
            cls.relation = cls._relation.format(variance=cls._variance_words)
            cls.other_parameters = (cls._loss, "sensitivity", "variance", "standard_deviation")
            also = f"bayesdp.distributions.{cls.__name__} : the same law as a PyMC distribution."
            documented({"Parameters": _STATED[cls.scale_name], "See Also": also})(cls)

    def _set_scale(self, wrong: Mapping[str, Any], **stated: Any) -> None:
        """Keep the scale; TypeError if there is a `wrong` parameter, or nothing was stated, ValueError for the rest."""
        law, relation, name = self.name, self.relation, self.scale_name
        if wrong:
            raise TypeError(f"noise law {law!r} has no parameter {shown(wrong)}; it takes {relation}")
        given = {name: value for name, value in stated.items() if value is not None}
        if not given:
            raise TypeError(f"{name} must be a positive real number, got None; {law} takes {relation}")
        numbers = {name: np.asarray(positive_scale(value, name), dtype=np.float64) for name, value in given.items()}
        if set(given) == {name}:
            found = numbers[name]
        elif set(given) == {self._loss, "sensitivity"}:
            found = self._of_loss(numbers[self._loss], numbers["sensitivity"])
        elif set(given) == {"variance"}:
            found = self._of_variance(numbers["variance"])
        elif set(given) == {"standard_deviation"}:
            found = self._of_variance(numbers["standard_deviation"] ** 2)
        elif set(given) == {"sensitivity"}:
            raise ValueError(f"sensitivity needs {self._loss} beside it: {law} takes {relation}")
        elif set(given) == {self._loss}:
            size = two_sensitivities(self, np.min(numbers[self._loss]))
            raise ValueError(f"{self._loss} needs sensitivity beside it: {size}. {law} takes {relation}")
        else:
            raise ValueError(f"{' and '.join(given)} state the scale of {law} more than once; it takes {relation}")
        self._set(**{name: positive_scale(found if found.ndim else float(found), name)})


_STATED = {
    "b": """\
b : float or array_like
    Scale in counts, below 2**46: a change of one count costs ``epsilon = 1/b``. An array has one scale per cell of the query, or
    a shape that broadcasts to it.
epsilon, sensitivity : float or array_like
    In place of b: the privacy loss, and the largest l1 change of the answers that it is for. ``b = sensitivity / epsilon``.
variance, standard_deviation : float or array_like
    In place of b, either: of the noise, on the integers around a whole number.""",
    "sigma": """\
sigma : float or array_like
    Standard deviation in counts, below 2**46; on the integers close to it from 1 on. An array has one per cell of the query, or a
    shape that broadcasts to it.
rho, sensitivity : float or array_like
    In place of sigma: the loss of zero-concentrated differential privacy, and the largest l2 change of the answers that it is for.
    ``sigma = sensitivity / sqrt(2 rho)``.
variance, standard_deviation : float or array_like
    In place of sigma, either: of the noise; on the integers of at least 1, from where ``sigma**2`` is the variance to 1e-6.""",
}
"""What docstrings say of the parameters."""


class _OfLaplace(_StatedLaw):
    """Laws with scale b whose log-density falls by the same everywhere."""

    kernel_form = KernelForm("l1", of_scale=True)
    scale_name, _loss = "b", "epsilon"
    _relation = (
        "b, or epsilon with sensitivity, the largest change of all answers together (l1) that epsilon is for: "
        "b = sensitivity / epsilon; or variance = {variance}, or standard_deviation"
    )

    def __init__(
        self,
        b: Any = None,
        *,
        epsilon: Any = None,
        sensitivity: Any = None,
        variance: Any = None,
        standard_deviation: Any = None,
        **wrong: Any,
    ) -> None:
        stated = {"b": b, "epsilon": epsilon, "sensitivity": sensitivity}
        self._set_scale(wrong, **stated, variance=variance, standard_deviation=standard_deviation)

    @staticmethod
    def _of_loss(epsilon: Floats, sensitivity: Floats) -> Floats:
        return np.asarray(sensitivity / epsilon)

    def pair_loss(self, query: Query, invariants: Invariants) -> LossByLength | None:
        """The loss at a length. See `NoiseLaw.pair_loss`; not known here where each answer has a scale of its own."""
        return None if np.ndim(self.scale) else LossByLength(("pure",), "l1", exponential_loss(1.0 / float(self.scale)))


class _OfGaussian(_StatedLaw):
    """Laws with scale sigma whose log-density is a parabola."""

    kernel_form = KernelForm("gaussian")
    scale_name, _loss = "sigma", "rho"
    _relation = (
        "sigma, or rho (zCDP) with sensitivity, the largest l2 change of the answers that rho is for: sigma = sensitivity / "
        "sqrt(2 rho); or variance = {variance}, or standard_deviation; epsilon and delta give a sigma by several formulas, so "
        "look it up, or take it from mechanisms.DiscreteGaussian(table, epsilon=..., delta=...).sigma"
    )

    def __init__(
        self,
        sigma: Any = None,
        *,
        rho: Any = None,
        sensitivity: Any = None,
        variance: Any = None,
        standard_deviation: Any = None,
        **wrong: Any,
    ) -> None:
        stated = {"sigma": sigma, "rho": rho, "sensitivity": sensitivity}
        self._set_scale(wrong, **stated, variance=variance, standard_deviation=standard_deviation)

    @staticmethod
    def _of_loss(rho: Floats, sensitivity: Floats) -> Floats:
        return np.asarray(sensitivity / np.sqrt(2.0 * rho))

    def pair_loss(self, query: Query, invariants: Invariants) -> LossByLength | None:
        """The loss at a length. See `NoiseLaw.pair_loss`; not known here where each answer has a scale of its own."""
        if np.ndim(self.scale):
            return None
        continuous = not self.integer  # on integers the loss is an upper bound
        kinds = ("zcdp", "approximate", "gdp") if continuous else ("zcdp", "approximate")
        return LossByLength(kinds, "l2", normal_loss(float(self.scale), continuous=continuous), tight=continuous)


@dataclass(frozen=True, eq=False, init=False)
class Laplace(_OfLaplace, RealLaw):
    r"""Independent real noise with density ``exp(-|y - mu| / b) / (2 b)``: the Laplace mechanism of textbooks.

    For published numbers with decimals. Noise that was rounded to whole numbers, or drawn as such, is `DiscreteLaplace`; noise
    that changes no exact total is `ProjectedLaplace`. No mechanism of this package adds it: drawn with floating-point numbers
    it gives away more than its epsilon says (Mironov 2012).

    ========  ==============
    Support   real numbers
    Mean      mu
    Variance  ``2 b**2``
    ========  ==============

    References
    ----------
    Dwork, McSherry, Nissim and Smith (2006), Calibrating Noise to Sensitivity in Private Data Analysis.

    Examples
    --------
    >>> law = Laplace(epsilon=0.5, sensitivity=2.0)
    >>> law
    Laplace(b=4.0)
    >>> print(f"{law.logp([3.5, -1.25], [0, 0]):.6f}")  # -4.75 / 4 - 2 log 8
    -5.346383
    >>> law.draw(np.random.default_rng(1), shape=(3,)).shape
    (3,)
    """

    b: float | Floats

    name = "laplace"
    _variance_words = "2 b**2"
    draw_one = staticmethod(kernels.laplace)

    @staticmethod
    def _of_variance(variance: Floats) -> Floats:
        return np.asarray(np.sqrt(0.5 * variance))

    @classmethod
    def log_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any) -> Any:
        """Log-density."""
        return -xp.abs((value - mu) / scale) - math.log(2.0) - xp.log(scale)

    @classmethod
    def log_cdf_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any) -> Any:
        """Logarithm of the probability of at most `value`."""
        z = (value - mu) / scale
        tail = -xp.abs(z) - math.log(2.0)
        return xp.where(z <= 0.0, tail, xp.log1p(-xp.exp(tail)))

    @staticmethod
    def fill(rng: np.random.Generator, mu: Floats, scale: Floats, out: Floats) -> None:
        """Write draws into ``out``, shape (draws, cells)."""
        out[...] = mu + scale * rng.laplace(size=out.shape)

    @staticmethod
    def _moments(mu: Floats, scale: Floats) -> tuple[Floats, Floats]:
        return mu, 2.0 * scale**2

    def shift_tradeoff(self, by: float) -> TradeOff | None:
        """See `NoiseLaw.shift_tradeoff`; not known where each answer has a scale of its own."""
        return None if np.ndim(self.b) else LaplaceTradeOff(by / float(self.b))


@dataclass(frozen=True, eq=False, init=False)
class Gaussian(_OfGaussian, RealLaw):
    r"""Independent real noise with density ``exp(-(y - mu)**2 / (2 sigma**2)) / (sigma sqrt(2 pi))``: the Gaussian mechanism.

    For published numbers with decimals. Noise that was rounded to whole numbers, or drawn as such, is `DiscreteGaussian`; noise
    that changes no exact total is `ProjectedGaussian`. No mechanism of this package adds it: drawn with floating-point numbers
    it gives away more than its guarantee says (Mironov 2012).

    ========  ==============
    Support   real numbers
    Mean      mu
    Variance  ``sigma**2``
    ========  ==============

    References
    ----------
    Bun and Steinke (2016), Concentrated Differential Privacy, Proposition 1.6, for rho.

    Examples
    --------
    >>> Gaussian(rho=0.02, sensitivity=1.0)
    Gaussian(sigma=5.0)
    >>> print(f"{Gaussian(2.0).logp([3.5, -1.0], [0, 0]):.6f}")  # -13.25 / 8 - 2 log 2 - log(2 pi)
    -4.880421
    """

    sigma: float | Floats

    name = "gaussian"
    _variance_words = "sigma**2"
    _of_variance = staticmethod(np.sqrt)
    normal = True
    draw_one = staticmethod(kernels.gaussian)

    @classmethod
    def log_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any) -> Any:
        """Log-density."""
        return -0.5 * ((value - mu) / scale) ** 2 - 0.5 * math.log(2.0 * math.pi) - xp.log(scale)

    @classmethod
    def log_cdf_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any) -> Any:
        """Logarithm of the probability of at most `value`."""
        erf, x = special(xp), (value - mu) / scale / math.sqrt(2.0)
        far = x < -1.0
        below = xp.log(0.5 * erf.erfcx(-xp.where(far, x, -1.0))) - x**2
        return xp.where(far, below, xp.log1p(-0.5 * erf.erfc(xp.where(far, -1.0, x))))

    @staticmethod
    def fill(rng: np.random.Generator, mu: Floats, scale: Floats, out: Floats) -> None:
        """Write draws into ``out``, shape (draws, cells)."""
        out[...] = mu + scale * rng.standard_normal(out.shape)

    @staticmethod
    def _moments(mu: Floats, scale: Floats) -> tuple[Floats, Floats]:
        return mu, scale**2


@dataclass(frozen=True, eq=False, init=False)
class DiscreteLaplace(_OfLaplace, IntegerLaw):
    r"""Independent integer noise with mass proportional to ``exp(-|k - mu| / b)``.

    With ``q = exp(-1/b)`` and ``f = mu - floor(mu)`` the normaliser is ``(q**f + q**(1-f)) / (1 - q)``; at an
    integer mu that is ``(1 + q) / (1 - q)``, the two-sided geometric law.

    ========  ==============================================
    Support   the integers
    Mean      mu for integers and half-integers, near it else
    Variance  ``2 q / (1 - q)**2`` around an integer
    ========  ==============================================

    References
    ----------
    Ghosh, Roughgarden and Sundararajan (2009); Inusah and Kozubowski (2006) for the law.

    Examples
    --------
    >>> law = DiscreteLaplace(b=4.0)
    >>> print(f"{law.logp([3, -1], [0, 0]):.6f}")
    -5.169262
    >>> law.draw(np.random.default_rng(1), shape=(3,)).dtype
    dtype('int64')
    """

    b: float | Floats

    name = "discrete-laplace"
    _variance_words = "1 / (2 sinh(1 / (2 b))**2)"
    draw_one = staticmethod(kernels.discrete_laplace)
    fill = staticmethod(kernels.fill_discrete_laplace)

    @staticmethod
    def _of_variance(variance: Floats) -> Floats:
        return np.asarray(0.5 / np.arcsinh(1.0 / np.sqrt(2.0 * variance)))

    @classmethod
    def log_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any) -> Any:
        """Log-mass at integers."""
        # Relative to the mass of the nearest integer, so that nothing underflows for small b.
        nearest = 0.0 if whole(mu) else xp.abs(xp.round(mu) - mu)
        mass = -(xp.abs(value - mu) - nearest) / scale + xp.log(-xp.expm1(-1.0 / scale))
        return mass - xp.log1p(xp.exp(-(1.0 - 2.0 * nearest) / scale))

    @classmethod
    def log_cdf_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any) -> Any:
        """Logarithm of the probability of at most `value`, an integer."""
        base = xp.floor(mu)
        # With f = mu - floor(mu), P(K <= k) = q**(mu - k) / (q**f + q**(1 - f)) up to floor(mu); above, it is 1
        # minus the mirror image.
        below = value <= base
        distance = xp.where(below, mu - value, value + 1.0 - mu)
        nearest = xp.where(below, mu - base, base + 1.0 - mu)  # distance of the nearest integer on that side
        tail = -(distance - nearest) / scale - softplus(xp, (2.0 * nearest - 1.0) / scale)
        return xp.where(below, tail, log1mexp(xp, xp.where(below, -1.0, tail)))

    @staticmethod
    def _moments(mu: Floats, scale: Floats) -> tuple[Floats, Floats]:
        near = np.rint(mu)
        sign = np.where(mu >= near, 1.0, -1.0)
        f = np.abs(mu - near)  # by symmetry only 0 <= f <= 1/2 is needed; counting away from the nearest integer
        # Mean of the steps beyond the first integer of a side.
        geometric = 1.0 / np.expm1(np.minimum(1.0 / scale, 700.0))
        above = 1.0 / (1.0 + np.exp(np.minimum((1.0 - 2.0 * f) / scale, 700.0)))
        mean = above + geometric * np.tanh((2.0 * f - 1.0) / (2.0 * scale))
        square = geometric * (2.0 * geometric + 1.0) + above * (1.0 + 2.0 * geometric)
        return near + sign * mean, square - mean**2

    def shift_tradeoff(self, by: float) -> TradeOff | None:
        """See `NoiseLaw.shift_tradeoff`; not known where each answer has a scale of its own."""
        return None if np.ndim(self.b) else shifted_discrete_laplace(1.0 / float(self.b), int(by))

    def draw_by_integers(self, size: int, engine: str) -> list[int]:
        """Draw noise of one scale with integer arithmetic only. See `NoiseLaw.draw_by_integers`."""
        return laplace_by_integers(float(self.b), size, engine)


@dataclass(frozen=True, eq=False, init=False)
class DiscreteGaussian(_OfGaussian, IntegerLaw):
    r"""Independent integer noise with mass proportional to ``exp(-(k - mu)**2 / (2 sigma**2))``.

    The normaliser is a theta function: summed directly for small scales, by Poisson's formula for large ones,
    exact to double precision everywhere. For sigma of 1 or more it is ``sigma sqrt(2 pi)`` to 1e-8, and mean
    and variance are mu and sigma**2 to 1e-6 and better.

    ========  ==========================================
    Support   the integers
    Mean      mu for integers and half-integers, near it else
    Variance  a little below ``sigma**2`` around an integer
    ========  ==========================================

    See Also
    --------
    bayesdp.distributions.DiscreteGaussian : the same law as a PyMC distribution.
    bayesdp.privacy.discrete_gaussian_delta : what it protects.

    References
    ----------
    Canonne, Kamath and Steinke (2020), The Discrete Gaussian for Differential Privacy, Definition 1.

    Examples
    --------
    >>> law = DiscreteGaussian(sigma=6.25)
    >>> np.round(np.exp(law.log_mass([0, 1, 2, 3])), 11)
    array([0.06383076, 0.06301894, 0.06064488, 0.0568852 ])
    """

    sigma: float | Floats

    name = "discrete-gaussian"
    _variance_words = "sigma**2 (from 1 on)"
    draw_one = staticmethod(kernels.discrete_gaussian)
    fill = staticmethod(kernels.fill_discrete_gaussian)

    @staticmethod
    def _of_variance(variance: Floats) -> Floats:
        if np.any(variance < 1.0):
            raise ValueError(
                "variance must be at least 1 for the discrete Gaussian, got "
                f"{float(np.min(variance)):g}: below that sigma**2 and the variance of the noise are two numbers, and notes call "
                "either the variance; give sigma"
            )
        return np.asarray(np.sqrt(variance))

    @classmethod
    def log_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any) -> Any:
        """Log-mass at integers."""
        if whole(mu):
            return -0.5 * ((value - mu) / scale) ** 2 - theta.log_sum(None, scale, xp)
        centre = xp.round(mu)
        j, offset = value - centre, mu - centre
        return -0.5 * j * (j - 2.0 * offset) / scale**2 - theta.log_sum(offset, scale, xp)

    @classmethod
    def log_cdf_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any) -> Any:
        """Logarithm of the probability of at most `value`, an integer."""
        value, mu, scale = xp.broadcast_arrays(value, real(xp, mu), scale)
        centre = xp.round(mu)
        j, offset = value - centre, mu - centre
        # From the nearest integer of mu on, subtract the upper tail from 1; below it, sum the mirrored tail.
        above = j >= 0.0
        start, side = xp.where(above, j + 1.0, -j), xp.where(above, offset, -offset)
        tail = xp.minimum(theta.log_upper_tail(start, side, scale, xp) - theta.log_sum(offset, scale, xp), 0.0)
        return xp.where(above, log1mexp(xp, xp.where(above, tail, -1.0)), tail)

    @staticmethod
    def _moments(mu: Floats, scale: Floats) -> tuple[Floats, Floats]:
        centre = np.rint(mu)
        mean, variance = theta.moments(mu - centre, scale)
        return centre + mean, variance

    def shift_tradeoff(self, by: float) -> TradeOff | None:
        """See `NoiseLaw.shift_tradeoff`; not known where each answer has a scale of its own."""
        if np.ndim(self.sigma):
            return None
        most = math.ceil(10.0 * float(self.sigma)) + int(by)  # beyond it is a mass of 1e-22, around both centres
        if most > MOST_OUTCOMES:
            return None
        return shifted_masses(np.exp(np.asarray(self.log_mass(np.arange(-most, most + 1)))), int(by))

    def draw_by_integers(self, size: int, engine: str) -> list[int]:
        """Draw noise of one scale with integer arithmetic only. See `NoiseLaw.draw_by_integers`."""
        return gaussian_by_integers(float(self.sigma), size, engine)


MOST_OUTCOMES = 50_000
"""Outcomes that are written out."""


def shifted_discrete_laplace(rate: float, by: int) -> TradeOff | None:
    """Of mass proportional to ``exp(-rate |z|)``: all integers up to one centre have the same loss, and all from the other on."""
    if by == 1:
        return approximate_dp(rate)
    if by > MOST_OUTCOMES or rate * by > 700.0:
        return None
    q = math.exp(-rate)
    k = np.arange(1, by)
    null = np.concatenate([[1.0 / (1.0 + q)], (1.0 - q) / (1.0 + q) * q**k, [q**by / (1.0 + q)]])
    return DiscretePair(0.0, tuple(null[::-1].tolist()), tuple(null.tolist()))


def shifted_masses(masses: Floats, by: int) -> TradeOff | None:
    """Of masses of the integers ``-n, ..., n``; what is beyond, less than any rounding, tells the two apart entirely."""
    # `masses`, shape (2 n + 1,): symmetric. What they lack to 1 must be below 1e-20 by their formula.
    if masses.size + by > MOST_OUTCOMES:
        return None
    beyond = np.zeros(by)
    null, other = np.concatenate([masses, beyond]), np.concatenate([beyond, masses])
    both = (null > 0.0) & (other > 0.0)
    p, q = null[both], other[both]
    # Of each centre the far side of the other one's; masses may underflow.
    alone = float(other[null == 0.0].sum())
    return ordered_pair(alone, np.append(p, alone), np.append(q, 0.0))
