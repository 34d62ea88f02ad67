"""What the laws on a lattice share: noise of integers that change no invariant.

Lattices that fall into independent parts with a closed form.

Of the parts that `bayesdp.lattices.parts` tells apart, two have closed forms for sums over them. They cover
disjoint totals, free cells, 2 x 2 and 2 x c tables and many small cases:

line
    the multiples of one integer vector u: a free cell, a pair of cells with a fixed sum, a 2 x 2 table.
zero sum
    m integers that sum to zero, each written into `copies` cells up to sign: a fixed total over m cells
    (one copy), a 2 x c table with both margins (m = c, two copies).

Sums over integers that add up to zero: normalisers and variances of noise with a fixed total.

The normaliser for the l1 norm stands with its exact sampler, in `bayesdp.lattices.exact.fixed_sum`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, logsumexp

from bayesdp import _validate
from bayesdp.invariants import Invariants
from bayesdp.lattices.exact.fixed_sum import both_sides, log_sum_exp
from bayesdp.lattices.parts import Line, Table, lattice_parts
from bayesdp.noise.base import Floats, Ints
from bayesdp.noise.tables import TableLaw, difference_of

__all__ = ["Line", "ZeroSum", "parts"]


@dataclass(frozen=True, eq=False)
class ZeroSum:
    """`count` integers that sum to zero, each standing in `copies` of the flat `cells`, up to sign."""

    cells: Ints
    count: int
    copies: int


@lru_cache(maxsize=64)
def parts(invariants: Invariants) -> tuple[Line | ZeroSum, ...] | None:
    """Split the lattice of the invariants into parts; None where one of them has no closed form."""
    # Together the parts have the dimension of the lattice; cells in none of them carry no noise.
    found: list[Line | ZeroSum] = []
    for part in lattice_parts(invariants):
        if isinstance(part, Line):
            found.append(part)
        elif isinstance(part, Table) and len(part.shape) == 1:
            found.append(ZeroSum(np.sort(part.cells, axis=None), part.shape[0], part.copies))
        else:
            return None
    return tuple(found)


_FRACTIONS = np.linspace(0.02, 0.98, 49)
"""a / rate in the bound on the tail."""

_ROUNDING = 1e-11
"""Relative error allowed for sums of counted masses, and absolute error of one minus such a sum."""


class LatticeLaw(TableLaw):
    """Noise on ``{z integer : A z = 0}``, A the invariants; its mass is the kernel over a sum that may not be known.

    Attributes
    ----------
    unknown_sum : str
        Why the sum may not be known, for a message about invariants: "and they have neither ...".
    """

    family = "lattice"
    support = "lattice"
    integer = True
    unknown_sum = "they have neither a closed form nor few enough dimensions to count"

    def log_normaliser(self, invariants: Invariants) -> float | None:
        """Logarithm of the sum of the kernel over the lattice, or None where it is not computed."""
        return self._log_sum(np, self.scale, invariants)

    def _log_sum(self, xp: Any, scale: Any, invariants: Invariants) -> Any | None:
        """The same at any scale, for NumPy and PyTensor (`bayesdp.noise.namespace`)."""
        return None

    def tail_bound(self, t: float, invariants: Invariants) -> float:
        """Upper bound of ``P(||noise|| >= t)`` in the norm of the law, from its normalisers alone.

        ``exp(-a s) Z(rate - a) / Z(rate)`` with the best a on a grid, where the mass is ``exp(-rate s) / Z(rate)``: s is the norm, or
        its square for Gaussian noise. It holds for every t, and needs no count of vectors.

        Raises
        ------
        TypeError, ValueError
            If t is negative or not finite, or the law does not fit the invariants.
        NotImplementedError
            If the normaliser is not computed for these invariants.
        """
        t, invariants = _validate.nonnegative_real(t, "t"), self.needed(invariants)
        whole = self.log_normaliser(invariants)
        rate, power, law_of = self._rated()
        if whole is None:
            raise NotImplementedError(
                f"tails of the law {self.name!r} follow from its normaliser, which is not computed under {invariants!r}: "
                f"{self.unknown_sum}"
            )
        smallest = 0.0
        for a in _FRACTIONS.tolist():
            other = law_of(rate * (1.0 - a)).log_normaliser(invariants)
            assert other is not None  # known for one rate, known for all
            smallest = min(smallest, other - whole - a * rate * t**power)
        return math.exp(smallest)

    def tail(self, t: float, invariants: Invariants) -> tuple[float, float]:
        """Lower and upper bound of ``P(||noise|| >= t)`` in the norm of the law; the two agree where vectors can be counted.

        Counted to about twelve digits: l1 noise under disjoint totals, 2 x c tables, and wherever the normaliser is known; l2 and
        Gaussian noise while the vectors that matter are at most some millions (a few dimensions, or small scales). Else the
        upper one is `tail_bound`.

        Parameters
        ----------
        t : float
            Zero or more.
        invariants : Invariants

        Raises
        ------
        TypeError, ValueError, NotImplementedError
            As `tail_bound`.

        Examples
        --------
        >>> from bayesdp.noise import LatticeLaplace
        >>> from bayesdp.queries import Totals
        >>> pair = Invariants(Totals({"county": ["Alpha", "Beta"]}))
        >>> low, high = LatticeLaplace(0.25).tail(8, pair)  # 2 exp(-2) / (1 + exp(-0.5)), by hand
        >>> print(f"{low:.10f} {high:.10f} {2 * math.exp(-2) / (1 + math.exp(-0.5)):.10f}")
        0.1684814198 0.1684814198 0.1684814198
        """
        bound = self.tail_bound(t, invariants)
        rate, power, _ = self._rated()
        reach = max(t, 1.0)
        while (beyond := self.tail_bound(reach, invariants)) > 1e-13 * bound:
            reach = 1.1 * reach + 0.5 / rate ** (1.0 / power)
        found = self._sizes(invariants, reach)
        if found is not None:
            sizes, masses = found
            own = math.fsum(masses[sizes >= t * (1.0 - 1e-12)])
            return min(own * (1.0 - _ROUNDING), bound), min(own * (1.0 + _ROUNDING) + beyond, bound)
        found = self._sizes(invariants, t)
        if found is None:
            return 0.0, bound
        sizes, masses = found
        rest = 1.0 - math.fsum(masses[sizes < t * (1.0 - 1e-12)])
        return max(0.0, rest - _ROUNDING), min(rest + _ROUNDING, bound)

    def quantile(self, p: float, invariants: Invariants) -> float:
        """The smallest size s with ``P(||noise|| <= s) >= p``.

        Raises
        ------
        TypeError, ValueError
            If p is not in (0, 1), or the law does not fit the invariants.
        NotImplementedError
            If the normaliser is not known, or the vectors are too many to be counted (then `tail_bound` is what there is).

        Examples
        --------
        >>> from bayesdp.noise import LatticeLaplace
        >>> from bayesdp.queries import Totals
        >>> LatticeLaplace(0.25).quantile(0.9, Invariants(Totals({"county": ["Alpha", "Beta"]})))
        10.0
        """
        p = _validate.probability(p, "p")
        rate, power, _ = self._rated()
        reach = 1.0
        while self.tail_bound(reach, invariants) > 0.999 * (1.0 - p):
            reach = 1.1 * reach + 0.5 / rate ** (1.0 / power)
        found = self._sizes(invariants, reach)
        if found is None:
            raise NotImplementedError(
                f"the vectors of the lattice up to size {reach:.4g} are too many to be counted: at most {1.0 - p:.4g} of the noise is "
                "that large or larger (tail_bound)"
            )
        sizes, masses = found
        return float(sizes[np.searchsorted(np.cumsum(masses), p * (1.0 - _ROUNDING))])

    def cell_tail(self, t: float, invariants: Invariants, cell: Sequence[int]) -> tuple[float, float]:
        """Lower and upper bound of the probability that the noise of one cell is t or more in absolute value.

        Parameters
        ----------
        t : float
            Zero or more.
        invariants : Invariants
        cell : sequence of int
            Its position on each dimension of the table.

        Raises
        ------
        TypeError, ValueError
            If t is negative, or there is no such cell.
        NotImplementedError
            If the law of a cell is not known here. Gaussian noise: known but for very large parts without structure, with bounds that
            agree to many digits from a scale of about two counts on. l1 noise: known for disjoint totals, free cells, 2 x 2
            and 2 x c tables.
        """
        t, invariants = _validate.nonnegative_real(t, "t"), self.needed(invariants)
        shape = invariants.frame.shape
        at: tuple[Any, ...] = tuple(cell)
        if len(at) != len(shape) or not all(isinstance(i, int) and 0 <= i < n for i, n in zip(at, shape, strict=True)):
            raise ValueError(f"cell must be a position in a table of shape {shape}, got {cell!r}")
        found = self._cell_tail(t, invariants, int(np.ravel_multi_index(at, shape)))
        if found is None:
            raise NotImplementedError(f"the law of one cell of {self!r} is not known under {invariants!r}")
        return found

    def _rated(self) -> tuple[float, int, Callable[[float], LatticeLaw]]:
        """The rate of the mass ``exp(-rate ||z||**power)``, the power, and the law with another rate."""
        raise NotImplementedError(f"tails are not known for the law {self.name!r}")

    def _sizes(self, invariants: Invariants, reach: float) -> tuple[Floats, Floats] | None:
        """Norms up to `reach` and their probabilities; None where they cannot be counted."""
        return None

    def _cell_tail(self, t: float, invariants: Invariants, cell: int) -> tuple[float, float] | None:
        """What `cell_tail` gives; None where it is not known."""
        return None

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


GAUSSIAN_SWITCH = 2.0
"""Scale from which a Gaussian sum over the lattice equals the integral to double precision."""


def log_squared_binomials(count: int) -> Floats:
    """``2 log C(count - 1, k)`` for k = 0, ..., count - 1."""
    k = np.arange(count)
    return np.asarray(2.0 * (gammaln(count) - gammaln(k + 1.0) - gammaln(count - k)))


def laplace_variance(count: int, rate: float) -> float:
    """Variance of one of `count` integers with sum zero and mass proportional to ``exp(-rate ||z||_1)``.

    z is the difference of two independent uniform weak compositions of a random mass s, with ``s = K +
    NegBin(2 count - 1, 1 - x)`` and ``P(K = k)`` in proportion to ``C(count-1, k)**2 x**k``; given s each
    part of a composition has the variance ``s (s + count) (count - 1) / (count**2 (count + 1))``.
    """
    k = np.arange(count)
    terms = log_squared_binomials(count) - 2.0 * rate * k
    weights = np.exp(terms - logsumexp(terms))
    ratio = 1.0 / math.expm1(min(2.0 * rate, 700.0))  # x / (1 - x), a number for every rate
    first, second = float(weights @ k), float(weights @ (k * k))
    mean = (2 * count - 1) * ratio
    square = mean * (1.0 + ratio) + mean * mean  # second moment of the negative binomial
    moment = second + 2.0 * first * mean + square + count * (first + mean)  # E s (s + count)
    return 2.0 * moment * (count - 1) / (count * count * (count + 1.0))


def trapezoid(count: int, largest: float) -> tuple[Floats, Floats]:
    """Nodes of the trapezoidal rule and terms of the series that it needs, for scales up to `largest`.

    The condition that z sums to zero is the mean of ``exp(i t sum z)`` over t in a full circle. With M
    equal steps that mean also keeps the z whose sum is another multiple of M, which for ``M >= 10 largest
    sqrt(count)`` have less than ``exp(-50)`` of the mass.
    """
    nodes = math.ceil(10.0 * largest * math.sqrt(count)) + 10
    return 2.0 * math.pi * np.arange(nodes) / nodes, np.arange(1.0, math.ceil(9.0 * largest) + 2.0)


def gaussian_log_sum(count: int, sigma: Any, xp: Any = np) -> Any:
    """Logarithm of the sum of ``exp(-||z||_2**2 / (2 sigma**2))`` over integers z with sum zero.

    For large scales, by Poisson's formula, ``(sigma sqrt(2 pi))**(count-1) / sqrt(count)``: the shortest
    vectors of the dual lattice have squared length (count - 1) / count, at least 1/2.

    Examples
    --------
    >>> print(f"{gaussian_log_sum(2, 1.0):.6f}")
    0.572468
    """
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
    nodes, k = trapezoid(
        count, float(sigma) if xp is np else GAUSSIAN_SWITCH
    )  # a graph has what any scale below that needs
    weights = 2.0 * xp.exp(-0.5 * (k / xp.expand_dims(sigma, -1)) ** 2)
    cosines = np.cos(np.outer(nodes, k)).T
    # Positive in exact arithmetic; where rounding leaves nothing, its power adds nothing either.
    return xp.maximum(1.0 + xp.dot(weights, cosines), 1e-17), xp.dot(weights * k * k, cosines)
