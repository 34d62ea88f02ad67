"""What the laws on a lattice share: noise of integers that change no invariant."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from bayesdp.invariants import Invariants
from bayesdp.noise.base import Family, Floats
from bayesdp.noise.tables import TableLaw, difference_of

__all__ = ["LatticeLaw"]


class LatticeLaw(TableLaw):
    """Noise on ``{z integer : A z = 0}``, A the invariants; its mass is the kernel over a sum that may not be known.

    Attributes
    ----------
    unknown_sum : str
        Why the sum may not be known, for messages.

    Examples
    --------
    A law states its kernel, and how noise is drawn. `bayesdp.distributions.table_distribution` makes the PyMC distribution.

    >>> from dataclasses import dataclass
    >>> from bayesdp.queries import Totals
    >>> @dataclass(frozen=True, eq=False)
    ... class Uniform(LatticeLaw):
    ...     '''Each cell but the last moves by at most reach, the last one makes up for it; under one total.'''
    ...
    ...     reach: float
    ...     name, scale_name = "doctest-uniform", "reach"
    ...
    ...     def log_kernel(self, xp, measured, scale, invariants):
    ...         return xp.where(xp.max(xp.abs(measured[..., :-1]), axis=-1) <= scale, 0.0, -xp.inf)
    ...
    ...     def log_normaliser(self, invariants):
    ...         return invariants.dimension * np.log(2.0 * np.floor(self.reach) + 1.0)
    ...
    ...     def noise(self, rng, count, invariants):
    ...         moved = rng.integers(-int(self.reach), int(self.reach) + 1, (count, invariants.dimension))
    ...         return np.column_stack([moved, -moved.sum(axis=1)])
    >>> three = Invariants(Totals({"county": ["Alpha", "Beta", "Gamma"]}))
    >>> print(f"{Uniform(2.0).logp([4, 7, 1], [5, 5, 2], three):.6f} {-2 * np.log(5):.6f}")
    -3.218876 -3.218876
    >>> Uniform(2.0).logp([4, 8, 0], [5, 5, 2], three)
    -inf
    """

    family: ClassVar[Family] = "lattice"
    support = "lattice"
    integer = True
    unknown_sum = "they have neither a closed form nor few enough dimensions to count"

    def log_normaliser(self, invariants: Invariants) -> float | None:
        """Logarithm of the sum of the kernel over the lattice, or None where it is not computed."""
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
        return super().log_mass(noise, invariants) - (self.log_normaliser(invariants) or 0.0)
