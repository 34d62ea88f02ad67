"""What the laws on a lattice share: noise of integers that change no invariant."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp.invariants import Invariants
from bayesdp.noise.base import Floats
from bayesdp.noise.tables import TableLaw, difference_of

__all__ = ["LatticeLaw"]


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
