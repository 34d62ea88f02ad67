"""What the laws with a density around any real location have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp.noise.base import Floats
from bayesdp.noise.independent.scaled import ScaledLaw


class RealLaw(ScaledLaw):
    """Independent noise on the real line, symmetric about zero: a law states the laws of its standard form.

    Everything is a function of ``z = (y - mu) / scale``.
    """

    support = "reals"
    integer = False

    @staticmethod
    @abstractmethod
    def _standard_log_density(xp: Any, z: Any) -> Any:
        """Log-density at scale 1 around zero."""

    @staticmethod
    @abstractmethod
    def _standard_log_cdf(xp: Any, z: Any) -> Any:
        """Logarithm of the distribution function at scale 1 around zero."""

    @staticmethod
    @abstractmethod
    def _standard_draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draws at scale 1 around zero."""

    @classmethod
    def log_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any) -> Any:
        """Log-density, elementwise."""
        return cls._standard_log_density(xp, (value - mu) / scale) - xp.log(scale)

    @classmethod
    def log_cdf_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any) -> Any:
        """Logarithm of the probability of at most `value`, elementwise."""
        return cls._standard_log_cdf(xp, (value - mu) / scale)

    @classmethod
    def fill(cls, rng: np.random.Generator, mu: Floats, scale: Floats, out: Floats) -> None:
        """Write draws into ``out``, shape (draws, cells)."""
        out[...] = mu + scale * cls._standard_draw(rng, out.shape)

    def log_density(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Log-density of each value, elementwise.

        Parameters
        ----------
        values, location : array_like
            Finite numbers, of shapes that broadcast.

        Returns
        -------
        numpy.ndarray
        """
        return np.asarray(self.log_kernel(np, *self._prepared(values, location)))

    log_each = log_density

    def log_cdf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Logarithm of the probability of at most each value, elementwise."""
        return np.asarray(self.log_cdf_kernel(np, *self._prepared(values, location)))

    def log_sf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Logarithm of the probability of more than each value, elementwise."""
        y, mu, scale = self._prepared(values, location)
        return np.asarray(self.log_cdf_kernel(np, -y, -mu, scale))
