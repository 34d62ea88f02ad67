"""What the laws on a lattice share: noise of integers that change no invariant; and integers with sum zero, in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from bayesdp import _validate
from bayesdp.invariants import Invariants
from bayesdp.lattices.fixed_sum import log_squared_binomials
from bayesdp.lattices.parts import Line, Table, lattice_parts
from bayesdp.noise.base import Floats
from bayesdp.noise.tables import TableLaw, difference_of

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
        return None

    def tail_bound(self, t: float, invariants: Invariants) -> float:
        """Upper bound of ``P(||noise|| >= t)`` in the norm of the law, from its normalisers alone.

        ``exp(-a s) Z(rate - a) / Z(rate)`` with the best a on a grid, where the mass is ``exp(-rate s) / Z(rate)``: s is the norm, or
        its square for Gaussian noise. It holds for every t, and needs no count of vectors.

        Raises
        ------
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
        upper one is `tail_bound`, whose errors this has.

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
            counted = math.fsum(masses[sizes >= t * (1.0 - 1e-12)])
            return min(counted * (1.0 - _ROUNDING), bound), min(counted * (1.0 + _ROUNDING) + beyond, bound)
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
    terms = log_squared_binomials(count) - 2.0 * rate * k
    weights = np.exp(terms - logsumexp(terms))
    ratio = 1.0 / math.expm1(min(2.0 * rate, 700.0))  # x / (1 - x), a number for every rate
    first, second = float(weights @ k), float(weights @ (k * k))
    mean = (2 * count - 1) * ratio
    square = mean * (1.0 + ratio) + mean * mean  # second moment of the negative binomial
    moment = second + 2.0 * first * mean + square + count * (first + mean)  # E s (s + count)
    return 2.0 * moment * (count - 1) / (count * count * (count + 1.0))


def trapezoid(count: int, largest: float) -> tuple[Floats, Floats]:
    """Nodes of the trapezoidal rule and terms of the series that it needs, for scales up to `largest`."""
    # The condition that z sums to zero is the mean of exp(i t sum z) over t in a full circle. With M equal steps that mean also keeps
    # the z whose sum is another multiple of M, which for M >= 10 largest sqrt(count) have less than exp(-50) of the mass.
    nodes = math.ceil(10.0 * largest * math.sqrt(count)) + 10
    return 2.0 * math.pi * np.arange(nodes) / nodes, np.arange(1.0, math.ceil(9.0 * largest) + 2.0)


def gaussian_log_sum(count: int, sigma: float) -> float:
    """Logarithm of the sum of ``exp(-||z||_2**2 / (2 sigma**2))`` over integers z with sum zero."""
    # For large scales, by Poisson's formula: the shortest vectors of the dual lattice have squared length (count - 1) / count, at
    # least 1/2.
    if sigma >= GAUSSIAN_SWITCH:
        return (count - 1) * math.log(sigma * math.sqrt(2.0 * math.pi)) - 0.5 * math.log(count)
    wave = _waves(count, sigma)[0]
    return float(logsumexp(count * np.log(wave))) - math.log(wave.size)


def gaussian_variance(count: int, sigma: float) -> float:
    """Variance of one of the integers under the mass of `gaussian_log_sum`."""
    if sigma >= GAUSSIAN_SWITCH:
        return sigma * sigma * (1.0 - 1.0 / count)
    wave, second = _waves(count, sigma)
    log_weights = count * np.log(wave)
    weights = np.exp(log_weights - log_weights.max())
    return float(weights @ (second / wave) / weights.sum())


def _waves(count: int, sigma: float) -> tuple[Floats, Floats]:
    """Sums over k of ``exp(-k**2 / (2 sigma**2)) cos(k t)``, and of k**2 times that, at the nodes t."""
    nodes, k = trapezoid(count, sigma)
    weights = 2.0 * np.exp(-0.5 * (k / sigma) ** 2)
    cosines = np.cos(np.outer(nodes, k))
    # Positive in exact arithmetic; where rounding leaves nothing, its power adds nothing either.
    return np.maximum(1.0 + cosines @ weights, 1e-17), cosines @ (weights * k * k)
