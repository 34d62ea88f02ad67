"""What the laws with a density around any real location have in common."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp.invariants import Invariants
from bayesdp.noise._arrays import located
from bayesdp.noise._rng import count_of, generator_of
from bayesdp.noise.base import Floats
from bayesdp.noise.independent.scaled import ScaledLaw

__all__ = ["RealLaw"]


class RealLaw(ScaledLaw):
    """Independent noise on the real line, symmetric about zero: a law states the laws of its standard form.

    Everything is a function of ``z = (y - mu) / scale``.
    """

    support = "reals"
    integer = False

    @staticmethod
    @abstractmethod
    def _standard_log_density(z: Floats) -> Floats:
        """Log-density at scale 1 around zero."""

    @staticmethod
    @abstractmethod
    def _standard_log_cdf(z: Floats) -> Floats:
        """Logarithm of the distribution function at scale 1 around zero."""

    @staticmethod
    @abstractmethod
    def _standard_draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draws at scale 1 around zero."""

    def logp(self, values: npt.ArrayLike, location: npt.ArrayLike, invariants: Invariants | None = None) -> float:
        """Sum the log-densities of all answers. See `NoiseLaw.logp`."""
        return float(np.sum(self.log_density(values, location)))

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
        y, mu, scale = self._prepared(values, location)
        return np.asarray(self._standard_log_density((y - mu) / scale) - np.log(scale))

    def log_cdf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Logarithm of the probability of at most each value, elementwise."""
        y, mu, scale = self._prepared(values, location)
        return self._standard_log_cdf((y - mu) / scale)

    def log_sf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Logarithm of the probability of more than each value, elementwise."""
        y, mu, scale = self._prepared(values, location)
        return self._standard_log_cdf((mu - y) / scale)

    def draw(
        self,
        rng: _validate.Seed,
        shape: tuple[int, ...],
        size: int | None = None,
        invariants: Invariants | None = None,
        location: npt.ArrayLike | None = None,
    ) -> Floats:
        """Draw independent noise, or values around a location. See `NoiseLaw.draw`."""
        lead = () if size is None else (count_of(size),)
        noise = self._standard_draw(generator_of(rng), (*lead, *shape))
        return np.asarray(located(location, shape) + self._scales(shape) * noise, dtype=np.float64)
