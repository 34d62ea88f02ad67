"""Tulap noise on real numbers: canonical for (epsilon, delta)-differential privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp.invariants import Invariants
from bayesdp.noise._arrays import located, positive_number, values_and_location
from bayesdp.noise._rng import count_of, generator_of
from bayesdp.noise.base import Floats, NoiseLaw
from bayesdp.privacy import canonical

__all__ = ["Tulap"]


@dataclass(frozen=True, eq=False)
class Tulap(NoiseLaw):
    """Independent truncated uniform-Laplace noise of each answer: the noise that wastes nothing of (epsilon, delta).

    Telling two answers apart that differ by `sensitivity` is exactly as hard as (epsilon, delta)-differential privacy says, at
    every level; so tests and intervals from it are optimal (Awan and Slavkovic, 2018). With delta = 0 and sensitivity 1 it is
    discrete Laplace noise of scale ``1/epsilon`` plus a uniform number between -1/2 and 1/2; delta > 0 cuts off the tails.

    ========  ======================================================================
    Support   real numbers; within a bounded distance of the answer if delta > 0
    Mean      the answer
    Variance  ``sensitivity**2 (2 b / (1 - b)**2 + 1/12)``, b = exp(-epsilon), delta = 0
    ========  ======================================================================

    Parameters
    ----------
    epsilon : float
        Greater than zero.
    delta : float, default 0
        At least 0 and less than 1.
    sensitivity : float, default 1
        Largest change of one answer, in counts.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range.

    See Also
    --------
    bayesdp.privacy.canonical.Tulap : the same law with the methods of a SciPy law.
    bayesdp.distributions.Tulap : the same law as a PyMC distribution.
    bayesdp.mechanisms.CanonicalNoise : the mechanism that adds this noise.

    References
    ----------
    Awan and Slavkovic (2018), Differentially Private Uniformly Most Powerful Tests for Binomial Data, Definition 2.

    Examples
    --------
    >>> law = Tulap(epsilon=1.0, delta=0.01)
    >>> print(f"{law.logp([10.3, 3.9], [10, 4]):.6f}")
    -1.520729
    >>> law.draw(np.random.default_rng(1), shape=(3,)).shape
    (3,)
    """

    epsilon: float
    delta: float = 0.0
    sensitivity: float = 1.0

    name = "tulap"
    support = "reals"
    integer = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive_number(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", canonical.Tulap(self.epsilon, self.delta).delta)
        object.__setattr__(self, "sensitivity", positive_number(self.sensitivity, "sensitivity"))

    @property
    def standard(self) -> canonical.Tulap:
        """The law for sensitivity 1, around zero."""
        return canonical.Tulap(self.epsilon, self.delta)

    def logp(self, values: npt.ArrayLike, location: npt.ArrayLike, invariants: Invariants | None = None) -> float:
        """Sum the log-densities of all answers. See `NoiseLaw.logp`."""
        return float(np.sum(self.log_density(values, location)))

    def log_density(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Log-density of each value, elementwise; ``-inf`` where delta > 0 has cut the tail off.

        Parameters
        ----------
        values, location : array_like
            Finite numbers, of shapes that broadcast.

        Returns
        -------
        numpy.ndarray
        """
        y, mu = values_and_location(values, location)
        density = np.asarray(self.standard.logpdf((y - mu) / self.sensitivity), dtype=np.float64)
        return density - math.log(self.sensitivity)

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
        noise = np.asarray(self.standard.rvs((*lead, *shape), generator_of(rng)), dtype=np.float64)
        return np.asarray(located(location, shape) + self.sensitivity * noise, dtype=np.float64)

    def variance(self, shape: tuple[int, ...], invariants: Invariants | None = None) -> Floats:
        """Variance of each answer, shape `shape`."""
        return np.full(shape, self.sensitivity**2 * self.standard.var())
