"""Integer noise that changes no invariant: what the laws on a lattice share, and the lattice Gaussian and lattice Laplace law.

The normaliser of l2 lattice Laplace noise is a mixture of Gaussian sums:

``exp(-epsilon r) = int_0^inf epsilon / (2 sqrt(pi)) t**(-3/2) exp(-epsilon**2 / (4 t)) exp(-t r**2) dt``, so that with
``Theta(t) = sum_z exp(-t ||z||**2)`` and ``t = exp(u)``

``Z(epsilon) = 1 + int epsilon / (2 sqrt(pi)) exp(-u / 2 - epsilon**2 exp(-u) / 4) (Theta(exp(u)) - 1) du``.

The integrand is analytic for ``|Im u| < pi / 2`` and falls doubly exponentially, and the trapezoidal rule with step h is
off by at most ``2 N / (exp(2 pi a / h) - 1)``, N the integral of the absolute value on the lines ``Im u = +-a``
(Trefethen and Weideman 2014, Theorem 5.1). Taking absolute values gives ``N <= cos(a)**(-1/2) Z(epsilon cos a)``, and by
Poisson's formula ``epsilon**n Z(epsilon)`` grows with epsilon, so that ``N <= cos(a)**(-n-1/2) Z(epsilon)``. The step is
chosen so that the relative error is below 1e-16, and so are the ends of the range, for every epsilon from 1e-14 on: for small t,
Theta is the volume term of Poisson's formula, ``(pi / t)**(n/2)`` over that of a cell.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammainccinv, logsumexp

from bayesdp import _validate
from bayesdp._arrays import Floats, Ints
from bayesdp.invariants import Invariants
from bayesdp.lattices import Sampler, sample_noise, sampler_for
from bayesdp.lattices.fixed_sum import both_sides, log_sum_exp, log_weights
from bayesdp.lattices.parts import Line, Table, lattice_parts
from bayesdp.lattices.sums import added, l1_log_sum, theta_series
from bayesdp.noise import theta
from bayesdp.noise.arrays import softplus
from bayesdp.noise.base import KernelForm, LossByLength, exponential_loss, normal_loss
from bayesdp.noise.lattice.linear import size_masses
from bayesdp.noise.tables import TableLaw, difference_of, norm_of, squared_norm
from bayesdp.queries import Query

_FRACTIONS = np.linspace(0.02, 0.98, 49)  # a / rate in the bound on the tail
_ROUNDING = 1e-11  # relative error allowed for sums of counted masses, and absolute error of one minus such a sum


class LatticeLaw(TableLaw):
    """Noise on ``{z integer : A z = 0}``, A the invariants; its mass is the kernel over a sum that may not be known."""

    family = "lattice"
    support = "lattice"
    integer = True
    unknown_sum = "they have neither a closed form nor few enough dimensions to count"

    def log_normaliser(self, invariants: Invariants) -> float | None:
        """Logarithm of the sum of the kernel over the lattice, or None where it is not computed.

        For every scale where it is computed, to about 1e-14 of the sum (`bayesdp.lattices.sums`). Disjoint totals, free cells, 2 x 2
        and 2 x c tables with both margins have a closed form. Of other lattices, vectors of small parts are counted. In the l1 norm
        up to the size from which the rest follows: 3 x c tables up to c = 6, 2 x 3 x 2 tables with all one-way margins, a few
        overlapping totals. With Gaussian mass, and in the l2 norm, a mixture of such sums, parts of up to ten dimensions or so:
        two-way tables up to 4 x 4 and 3 x 6, 3 x 3 x 3 tables with all two-way margins.
        """
        found = self._log_sum(np, self.scale, invariants)
        return None if found is None else float(found)

    def _log_sum(self, xp: Any, scale: Any, invariants: Invariants) -> Any | None:
        """The same at any scale, for NumPy and PyTensor (`bayesdp.noise.arrays`)."""
        return None

    def tail(self, t: float, invariants: Invariants) -> tuple[float, float]:
        """Lower and upper bound of ``P(||noise|| >= t)`` in the norm of the law; the two agree where vectors can be counted.

        Counted to about twelve digits: l1 noise wherever the normaliser is known; l2 and Gaussian noise while the vectors that matter
        are at most some millions (a few dimensions, or small scales). Elsewhere the lower bound is 0, and the upper one follows from
        the normalisers: ``exp(-a s) Z(rate - a) / Z(rate)`` with the best a on a grid, where the mass is ``exp(-rate s) / Z(rate)``, s
        the norm, or its square for Gaussian noise.

        Raises
        ------
        NotImplementedError
            If the normaliser is not computed for these invariants.

        Examples
        --------
        >>> from bayesdp.noise import LatticeLaplace
        >>> from bayesdp.queries import Totals
        >>> pair = Invariants(Totals({"county": ["Alpha", "Beta"]}))
        >>> low, high = LatticeLaplace(0.25).tail(8, pair)  # 2 exp(-2) / (1 + exp(-0.5)), by hand
        >>> print(f"{low:.10f} {high:.10f} {2 * math.exp(-2) / (1 + math.exp(-0.5)):.10f}")
        0.1684814198 0.1684814198 0.1684814198
        """
        t, invariants = _validate.nonnegative_real(t, "t"), self.needed(invariants)
        power = self._powers()[1]
        whole = self.log_normaliser(invariants)
        if whole is None:
            raise NotImplementedError(
                f"tails of the law {self.name!r} follow from its normaliser, which is not computed under {invariants!r}: "
                f"{self.unknown_sum}"
            )
        rate = self.scale if power == 1 else 0.5 / self.scale**2
        slopes = _FRACTIONS * rate
        others = [self.at(self.scale * (1.0 - a) ** (1 if power == 1 else -0.5)) for a in _FRACTIONS.tolist()]
        logs = np.array([law.log_normaliser(invariants) for law in others]) - whole

        def bound(size: float) -> float:
            return float(np.exp(min(0.0, np.min(logs - slopes * size**power))))

        reach = max(t, 1.0)
        while bound(reach) > 1e-13 * bound(t):
            reach = 1.1 * reach + 0.5 / rate ** (1.0 / power)
        found = self._sizes(reach, invariants, whole)
        if found is not None:
            sizes, masses = found
            counted = math.fsum(masses[sizes >= t * (1.0 - 1e-12)])
            return min(counted * (1.0 - _ROUNDING), bound(t)), min(counted * (1.0 + _ROUNDING) + bound(reach), bound(t))
        found = self._sizes(t, invariants, whole)
        if found is None:
            return 0.0, bound(t)
        sizes, masses = found
        rest = 1.0 - math.fsum(masses[sizes < t * (1.0 - 1e-12)])
        return max(0.0, rest - _ROUNDING), min(rest + _ROUNDING, bound(t))

    def _sizes(self, reach: float, invariants: Invariants, log_sum: float) -> tuple[Floats, Floats] | None:
        """Norms up to `reach` and their probabilities; None where they are too many."""
        order, power = self._powers()
        rate = self.scale if power == 1 else 0.5 / self.scale**2
        tilt = rate * max(reach, 1.0) ** (power - order)
        masses = size_masses(invariants, order, tilt, math.ceil(reach**order))
        if masses is None:
            return None
        n = np.arange(masses.size, dtype=np.float64)
        sizes = n ** (1.0 / order)
        return sizes, masses * np.exp(tilt * n - rate * sizes**power - log_sum)

    @property
    def _form(self) -> tuple[str, float]:
        """What `bayesdp.lattices.sample_noise` calls the law, its norm or "gaussian", and the scale."""
        return getattr(self, "norm", "gaussian"), self.scale

    def noise(self, rng: np.random.Generator, count: int, invariants: Invariants) -> Ints:
        """Draw noise; `bayesdp.lattices` chooses between exact sampling and a Gibbs chain, and says which."""
        return sample_noise(invariants, *self._form, rng=rng, size=count)

    def sampler(self, invariants: Invariants) -> Sampler:
        """How noise is drawn under these invariants, before any is."""
        return sampler_for(invariants, *self._form)

    def _powers(self) -> tuple[int, int]:
        """The order of the norm, 1 or 2, and its power in the mass ``exp(-rate ||z||**power)``."""
        raise NotImplementedError(f"tails are not known for the law {self.name!r}")

    def noise_between(self, values: npt.ArrayLike, location: npt.ArrayLike, invariants: Invariants) -> Floats | None:
        """Values minus location, or None if they are off the lattice (exact integer arithmetic)."""
        difference = difference_of(values, location, invariants)
        whole = np.rint(difference).astype(np.int64)
        return difference if np.array_equal(whole, difference) and invariants.is_null(whole) else None

    def log_mass(self, noise: Floats, invariants: Invariants) -> float:
        """Log-mass of noise on the lattice.

        Where `log_normaliser` is not known it is taken as 0: the result is then right up to a constant that
        depends on the parameters and the invariants only.
        """
        return super().log_mass(noise, invariants) - float(self.log_normaliser(invariants) or 0.0)


GAUSSIAN_SWITCH = 2.0  # scale from which a Gaussian sum over the lattice equals the integral to double precision


def variances(
    invariants: Invariants, order: int, of_line: Callable[[float], float], of_sum: Callable[[int, int], float]
) -> Floats | None:
    """Variance of each cell; None where a part of the lattice has no closed form."""
    # `of_line`: of how often a vector of a length, in the l1 or l2 norm (`order`), is taken. `of_sum`: of one of so many integers
    # with sum zero, each standing in so many cells.
    found = np.zeros(invariants.frame.size)
    for part in lattice_parts(invariants):
        if isinstance(part, Line):
            length = float(np.linalg.norm(part.entries.astype(np.float64), ord=order))
            found[part.cells] = part.entries**2 * of_line(length)
        elif isinstance(part, Table) and len(part.shape) == 1:
            found[part.cells] = of_sum(part.shape[0], part.copies)
        else:
            return None
    return found.reshape(invariants.frame.shape)


def laplace_variance(count: int, rate: float) -> float:
    """Variance of one of `count` integers with sum zero and mass proportional to ``exp(-rate ||z||_1)``."""
    # z is the difference of two independent uniform weak compositions of a random mass s (`bayesdp.lattices.fixed_sum`); given s
    # each part of a composition has the variance s (s + count) (count - 1) / (count**2 (count + 1)).
    k = np.arange(count)
    terms = log_weights(count, rate)
    weights = np.exp(terms - logsumexp(terms))
    ratio = 1.0 / math.expm1(min(2.0 * rate, 700.0))  # x / (1 - x), a number for every rate
    first, second = float(weights @ k), float(weights @ (k * k))
    mean = (2 * count - 1) * ratio
    square = mean * (1.0 + ratio) + mean * mean  # second moment of the negative binomial
    moment = second + 2.0 * first * mean + square + count * (first + mean)  # E s (s + count)
    return 2.0 * moment * (count - 1) / (count * count * (count + 1.0))


def gaussian_log_sum(count: int, sigma: Any, xp: Any = np) -> Any:
    """Logarithm of the sum of ``exp(-||z||_2**2 / (2 sigma**2))`` over integers z with sum zero."""
    # For large scales, by Poisson's formula: the shortest vectors of the dual lattice have squared length (count - 1) / count, at
    # least 1/2.
    small, low, high = both_sides(xp, sigma, GAUSSIAN_SWITCH)
    wave = _waves(count, low, xp)[0]
    direct = log_sum_exp(xp, count * xp.log(wave)) - xp.log(wave.shape[-1])
    dual = (count - 1) * xp.log(high * math.sqrt(2.0 * math.pi)) - 0.5 * math.log(count)
    return xp.where(small, direct, dual)


def gaussian_variance(count: int, sigma: float) -> float:
    """Variance of one of the integers under the mass of `gaussian_log_sum`."""
    if sigma >= GAUSSIAN_SWITCH:
        return sigma * sigma * (1.0 - 1.0 / count)
    wave, second = _waves(count, sigma)
    log_weights = count * np.log(wave)
    weights = np.exp(log_weights - log_weights.max())
    return float(weights @ (second / wave) / weights.sum())


def _waves(count: int, sigma: Any, xp: Any = np) -> tuple[Any, Any]:
    """Sums over k of ``exp(-k**2 / (2 sigma**2)) cos(k t)``, and of k**2 times that, at the nodes t."""
    # The condition that z sums to zero is the mean of exp(i t sum z) over t in a full circle. With M equal steps that mean also keeps
    # the z whose sum is another multiple of M, which for M >= 10 sigma sqrt(count) have less than exp(-50) of the mass. A graph has
    # what any scale below the switch needs.
    largest = float(sigma) if xp is np else GAUSSIAN_SWITCH
    steps = math.ceil(10.0 * largest * math.sqrt(count)) + 10
    nodes, k = 2.0 * math.pi * np.arange(steps) / steps, np.arange(1.0, math.ceil(9.0 * largest) + 2.0)
    weights = 2.0 * xp.exp(-0.5 * (k / xp.expand_dims(sigma, -1)) ** 2)
    cosines = np.cos(np.outer(nodes, k)).T
    # Positive in exact arithmetic; where rounding leaves nothing, its power adds nothing either.
    return xp.maximum(1.0 + xp.dot(weights, cosines), 1e-17), xp.dot(weights * k * k, cosines)


@lru_cache(maxsize=64)
def _gaussian_parts(invariants: Invariants) -> Counter[tuple[Any, float]] | None:
    """How many parts there are of each kind, and what its scale is divided by; None if a sum is not known."""
    # A kind is None for the multiples of a vector, or how many integers sum to zero, or the series of another part.
    found: Counter[tuple[Any, float]] = Counter()
    for part in lattice_parts(invariants):
        if isinstance(part, Line):
            found[None, float(np.linalg.norm(part.entries.astype(np.float64)))] += 1
            continue
        fixed_total = isinstance(part, Table) and len(part.shape) == 1
        kind: Any = part.cells.shape[1] if fixed_total else theta_series(part)
        if kind is None:
            return None
        found[kind, math.sqrt(part.copies) if isinstance(part, Table) else 1.0] += 1
    return found


def l2_log_sum(invariants: Invariants, sigma: Any, xp: Any = np) -> Any | None:
    """Logarithm of the sum of `exp(-||z||_2**2 / (2 sigma**2))` over the lattice; None where it is not computed."""
    parts = _gaussian_parts(invariants)
    if parts is None:
        return None
    terms = []
    for (kind, divisor), number in parts.items():
        scale = sigma / divisor
        if kind is None:
            one = theta.log_sum(0.0 if xp is np else None, scale, xp)
        else:
            one = gaussian_log_sum(kind, scale, xp) if isinstance(kind, int) else kind.log_sum(scale, xp)
        terms.append(number * one)
    return added(xp, terms, sigma)


@dataclass(frozen=True, eq=False)
class LatticeGaussian(LatticeLaw):
    r"""Noise with mass proportional to ``exp(-||z||_2**2 / (2 sigma**2))`` on ``{z integer : A z = 0}``.

    By Poisson summation, two tables x, x' with the same invariants are told apart with a loss of at most
    ``||x - x'||_2**2 / (2 sigma**2)`` in zero-concentrated differential privacy, whatever the dimension.

    Parameters
    ----------
    sigma : float
        Scale in counts, below 2**46.

    References
    ----------
    Dharangutte, Gao, Gong and Yu (2023), Integer Subspace Differential Privacy, Definition 13.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta"], "education": ["Low", "Mid", "High"]}
    >>> both = Invariants(Margins(table, ["county"], ["education"]))
    >>> zero = np.zeros((2, 3), dtype=int)
    >>> print(f"{np.exp(LatticeGaussian(sigma=1.0).logp(zero, zero, both)):.10f}")
    0.5467746409
    """

    sigma: float

    name = "lattice-gaussian"
    full_support = True
    kernel_form = KernelForm("gaussian")
    scale_name = "sigma"
    relation = (
        "sigma, as in mass ~ exp(-norm**2 / (2 sigma**2)): length / sqrt(2 rho) for tables that "
        "far apart (l2), if rho is their loss"
    )
    _variance_words = "in closed form for disjoint totals, 2 x c tables and one free number"

    def log_kernel(self, xp: Any, measured: Any, scale: Any, invariants: Invariants) -> Any:
        """``-||z||_2**2 / (2 sigma**2)``; see `TableLaw.log_kernel`."""
        return -0.5 * squared_norm(xp, measured, invariants) / scale**2

    def _log_sum(self, xp: Any, scale: Any, invariants: Invariants) -> Any | None:
        return l2_log_sum(invariants, scale, xp)

    def _powers(self) -> tuple[int, int]:
        return 2, 2

    def variance(self, shape: tuple[int, ...], invariants: Invariants | None = None) -> Floats | None:
        """Variance of each cell, or None where no closed form is known (see `log_normaliser`)."""

        def of_line(length: float) -> float:
            return float(theta.moments(np.zeros(1), np.array([self.sigma / length]))[1][0])

        def of_sum(count: int, copies: int) -> float:
            return gaussian_variance(count, self.sigma / math.sqrt(copies))

        return variances(self.needed(invariants, shape), 2, of_line, of_sum)

    def pair_loss(self, query: Query, invariants: Invariants) -> LossByLength | None:
        """The loss at a length. See `NoiseLaw.pair_loss`."""
        return LossByLength(("zcdp", "approximate"), "l2", normal_loss(self.sigma, continuous=False), tight=False)


_DIMENSIONS = 5_000  # lattices with more dimensions are not computed: they need thousands of Gaussian sums
_LOG_ERROR = 37.0  # exp(-37) < 1e-16
_LEAST = 1e-14  # rates are above 2**-46


@lru_cache(maxsize=64)
def _radial_nodes(invariants: Invariants) -> tuple[Floats, Floats] | None:
    """Nodes ``1 / (4 t)`` and logarithms of weights: ``Z = 1 + epsilon sum_k exp(log_weights[k] - epsilon**2 nodes[k])``."""
    n = invariants.dimension
    if not 0 < n <= _DIMENSIONS or l2_log_sum(invariants, 1.0) is None:
        return None

    def log_theta(t: float) -> float:
        return float(l2_log_sum(invariants, math.sqrt(0.5 / t)) or 0.0)

    largest = 64.0  # of lengths 1 and more: Theta(t) - 1 <= exp(-t / 2) Theta(t / 2)
    while log_theta(0.5 * largest) - 0.5 * largest > -_LOG_ERROR:
        largest *= 1.5
    # Where Theta is the volume, the share of the mixture at smaller t is an incomplete Gamma function of epsilon**2 / (4 t).
    least = 0.25 * _LEAST**2 / float(gammainccinv(0.5 * (n + 1), math.exp(-_LOG_ERROR)))
    a = np.linspace(0.01, 1.56, 156)
    step = float((2.0 * math.pi * a / (_LOG_ERROR + math.log(2.0) - (n + 0.5) * np.log(np.cos(a)))).max())
    u = np.arange(math.log(least) - step, math.log(largest) + step, step)
    height = np.array([log_theta(math.exp(one)) for one in u])
    u, height = u[height > 0.0], height[height > 0.0]
    weights = math.log(0.5 * step / math.sqrt(math.pi)) - 0.5 * u + height + np.log(-np.expm1(-height))
    return 0.25 * np.exp(-u), weights


def radial_log_sum(invariants: Invariants, epsilon: Any, xp: Any = np) -> Any | None:
    """Logarithm of the sum of ``exp(-epsilon ||z||_2)`` over the lattice; None where it is not computed."""
    if invariants.dimension <= 1:
        lines = [part for part in lattice_parts(invariants) if isinstance(part, Line)]
        lengths = [float(np.linalg.norm(part.entries.astype(np.float64))) for part in lines]
        return added(xp, [-xp.log(xp.tanh(0.5 * epsilon * length)) for length in lengths], epsilon)
    found = _radial_nodes(invariants)
    if found is None:
        return None
    nodes, log_weights = found
    return softplus(xp, xp.log(epsilon) + log_sum_exp(xp, log_weights - xp.expand_dims(epsilon, -1) ** 2 * nodes))


_NORMS = ("l1", "l2")


@dataclass(frozen=True, eq=False)
class LatticeLaplace(LatticeLaw):
    r"""Noise with mass proportional to ``exp(-epsilon ||z||)`` on ``{z integer : A z = 0}``.

    Two tables x, x' with the same invariants are told apart with a loss of at most ``epsilon ||x - x'||``.

    Parameters
    ----------
    epsilon : float
        Rate per count (not the loss of one person: that is 2 epsilon for a substitution in l1).
    norm : {"l1", "l2"}, default "l1"

    References
    ----------
    Dharangutte, Gao, Gong and Yu (2023), Integer Subspace Differential Privacy, Definition 9 and Algorithm 1.

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> pair = Invariants(Totals({"county": ["Alpha", "Beta"]}))
    >>> law = LatticeLaplace(epsilon=0.5)
    >>> print(f"{law.logp([4, 6], [5, 5], pair):.6f}")  # -0.5 * 2 - log coth(0.5)
    -1.771937
    >>> law.logp([4, 7], [5, 5], pair)
    -inf
    """

    epsilon: float
    norm: str = "l1"

    name = "lattice-laplace"
    full_support = True
    kernel_form = KernelForm("l1")
    scale_name = "epsilon"
    relation = "epsilon, the rate per count in mass ~ exp(-epsilon norm): 1 / b for a scale b; and norm, l1 or l2"

    _variance_words = "in closed form for the l1 norm with disjoint totals, 2 x c tables and one free number"

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.choice(self.norm, _NORMS, "norm")

    def log_kernel(self, xp: Any, measured: Any, scale: Any, invariants: Invariants) -> Any:
        """``-epsilon ||z||``; see `TableLaw.log_kernel`."""
        return -scale * norm_of(xp, measured, self.norm, invariants)

    def _log_sum(self, xp: Any, scale: Any, invariants: Invariants) -> Any | None:
        return (l1_log_sum if self.norm == "l1" else radial_log_sum)(invariants, scale, xp)

    def _powers(self) -> tuple[int, int]:
        return (1 if self.norm == "l1" else 2), 1

    def variance(self, shape: tuple[int, ...], invariants: Invariants | None = None) -> Floats | None:
        """Variance of each cell, or None where no closed form is known (see `log_normaliser`)."""
        invariants = self.needed(invariants, shape)
        if self.norm == "l2" and invariants.dimension > 1:
            return None

        def of_line(length: float) -> float:
            # Of a two-sided geometric law: 2 q / (1 - q)**2 = 1 / (2 sinh(rate / 2)**2).
            return 0.5 / math.sinh(min(0.5 * self.epsilon * length, 350.0)) ** 2

        def of_sum(count: int, copies: int) -> float:
            return laplace_variance(count, self.epsilon * copies)

        return variances(invariants, 1 if self.norm == "l1" else 2, of_line, of_sum)

    def pair_loss(self, query: Query, invariants: Invariants) -> LossByLength | None:
        """The loss at a length. See `NoiseLaw.pair_loss`."""
        return LossByLength(("pure",), self.norm, exponential_loss(self.epsilon))

    def kernel_of(self, invariants: Invariants | None) -> KernelForm | None:
        """The form of its norm. See `NoiseLaw.kernel_of`."""
        return KernelForm(self.norm)
