"""What the laws share that are multiples of canonical noise, whose law for sensitivity 1 is one of `bayesdp.privacy.canonical`."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp.invariants import Invariants
from bayesdp.noise.arrays import count_of, located, values_and_location
from bayesdp.noise.base import Floats, NoiseLaw
from bayesdp.privacy.canonical import CanonicalNoise


class StandardLaw(NoiseLaw):
    """Independent noise of each answer: `unit` times that of the `standard` law."""

    support = "reals"
    integer = False

    @property
    @abstractmethod
    def standard(self) -> CanonicalNoise:
        """The law for sensitivity 1, around zero."""

    @property
    def unit(self) -> float:
        """The sensitivity, in counts."""
        return 1.0

    def logp(self, values: npt.ArrayLike, location: npt.ArrayLike, invariants: Invariants | None = None) -> float:
        """Sum the log-densities of all answers. See `NoiseLaw.logp`."""
        return float(np.sum(self.log_density(values, location)))

    def log_density(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Log-density of each value, elementwise; ``-inf`` off the support.

        Parameters
        ----------
        values, location : array_like
            Finite numbers, of shapes that broadcast.

        Returns
        -------
        numpy.ndarray
        """
        y, mu = values_and_location(values, location)
        return np.asarray(self._standard_log_density((y - mu) / self.unit), dtype=np.float64) - math.log(self.unit)

    def _standard_log_density(self, z: Floats) -> Floats:
        return np.asarray(self.standard.logpdf(z))

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
        noise = np.asarray(self.standard.rvs((*lead, *shape), _validate.generator_of(rng)), dtype=np.float64)
        return np.asarray(located(location, shape) + self.unit * noise, dtype=np.float64)

    def variance(self, shape: tuple[int, ...], invariants: Invariants | None = None) -> Floats:
        """Variance of each answer, shape `shape`."""
        return np.full(shape, self.unit**2 * self.standard.var())
