"""What the laws on a lattice share: noise of integers that change no invariant."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp.invariants import Invariants
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
