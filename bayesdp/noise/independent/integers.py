"""What the laws on the integers around any real location have in common."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp.noise.base import Floats
from bayesdp.noise.independent.scaled import ScaledLaw


class IntegerLaw(ScaledLaw):
    """Independent noise on the integers, whose mirror image around -mu is the same law: see `ScaledLaw` for what a law states."""

    support = "integers"
    integer = True

    def log_mass(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Log-mass of each value, elementwise; ``-inf`` where it is not an integer.

        Parameters
        ----------
        values, location : array_like
            Finite numbers below 2**53 in size, of shapes that broadcast.

        Returns
        -------
        numpy.ndarray
        """
        k, mu, scale = self._prepared(values, location)
        return np.where(k == np.rint(k), self.log_kernel(np, k, mu, scale), -np.inf)

    log_each = log_mass

    def log_cdf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Logarithm of the probability of at most each value (any real number), elementwise."""
        k, mu, scale = self._prepared(values, location)
        return np.asarray(self.log_cdf_kernel(np, np.floor(k), mu, scale))

    def log_sf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Logarithm of the probability of more than each value (any real number), elementwise."""
        k, mu, scale = self._prepared(values, location)
        return np.asarray(self.log_cdf_kernel(np, -np.floor(k) - 1.0, -mu, scale))
