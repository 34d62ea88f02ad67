"""Laws whose values are moved to the nearer bound where they are outside of public bounds (BIT)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp.noise.base import Floats
from bayesdp.noise.bounded.base import BoundedLaw
from bayesdp.noise.namespace import equal, finite


class BoundaryInflated(BoundedLaw):
    """The free law, symmetric about its location, with the mass of each tail at the bound before it."""

    has_atoms = True

    @classmethod
    def log_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """That of the free law between the bounds, the log-probability of the tail at a bound, which belongs to the tail."""
        below = cls.free.log_cdf_kernel(xp, finite(xp, lower, 0.0), mu, scale)
        above = cls.free.log_cdf_kernel(xp, -finite(xp, upper, 0.0), -mu, scale)
        inner = cls.free.log_kernel(xp, value, mu, scale)
        return xp.where(equal(xp, value, lower), below, xp.where(equal(xp, value, upper), above, inner))

    @classmethod
    def log_cdf_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """That of the free law, for values from lower up to below upper."""
        return cls.free.log_cdf_kernel(xp, value, mu, scale)

    def atoms(self, location: npt.ArrayLike = 0.0) -> tuple[Floats, Floats]:
        """Probabilities of the lower and of the upper bound; 0 for one that is infinite."""
        mu, _, scale, lower, upper = self._prepared(location, 0.0)
        return self._beyond(mu, scale, lower, upper)

    def _beyond(self, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        """Free probabilities of at most the lower, and of at least the upper bound."""
        at_most = [
            np.where(np.isinf(side), 0.0, np.exp(self.free.log_cdf_kernel(np, finite(np, side, 0.0), centre, scale)))
            for side, centre in ((lower, mu), (-upper, -mu))
        ]
        return at_most[0], at_most[1]
