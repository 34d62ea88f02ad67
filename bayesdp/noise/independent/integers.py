"""What the laws on the integers around any real location have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp.invariants import Invariants
from bayesdp.noise._arrays import located
from bayesdp.noise._draws import draw_each
from bayesdp.noise.base import Floats, Ints
from bayesdp.noise.independent.scaled import ScaledLaw

__all__ = ["IntegerLaw"]


class IntegerLaw(ScaledLaw):
    """Independent noise on the integers: a law states its mass, distribution function, moments and sampler for arrays."""

    support = "integers"
    integer = True

    @property
    @abstractmethod
    def _fill(self) -> Any:
        """Compiled sampler, as `draw_each` takes it."""

    @staticmethod
    @abstractmethod
    def _log_mass(k: Floats, mu: Floats, scale: Floats) -> Floats:
        """Log-mass at integers k."""

    @staticmethod
    @abstractmethod
    def _log_cdf(k: Floats, mu: Floats, scale: Floats) -> Floats:
        """Logarithm of P(K <= k) for integers k."""

    def logp(self, values: npt.ArrayLike, location: npt.ArrayLike, invariants: Invariants | None = None) -> float:
        """Sum the log-masses of all cells; ``-inf`` if a value is not an integer. See `NoiseLaw.logp`."""
        return float(np.sum(self.log_mass(values, location)))

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
        return np.where(k == np.rint(k), self._log_mass(k, mu, scale), -np.inf)

    def log_cdf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Logarithm of the probability of at most each value (any real number), elementwise."""
        k, mu, scale = self._prepared(values, location)
        return self._log_cdf(np.floor(k), mu, scale)

    def log_sf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Logarithm of the probability of more than each value (any real number), elementwise."""
        k, mu, scale = self._prepared(values, location)
        return self._log_cdf(-np.floor(k) - 1.0, -mu, scale)

    def draw(
        self,
        rng: _validate.Seed,
        shape: tuple[int, ...],
        size: int | None = None,
        invariants: Invariants | None = None,
        location: npt.ArrayLike | None = None,
    ) -> Ints:
        """Draw independent noise, or values around a real location. See `NoiseLaw.draw`."""
        return draw_each(self._fill, rng, located(location, shape), self._scales(shape), size)
