"""The projected Gaussian law: continuous noise on the subspace that the invariants leave free."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp.invariants import Invariants
from bayesdp.noise._arrays import positive_number
from bayesdp.noise._rng import count_of, generator_of
from bayesdp.noise.base import Floats, NoiseLaw
from bayesdp.noise.tables import needed, table_difference, table_location

__all__ = ["TOLERANCE", "ProjectedGaussian"]

TOLERANCE = 1e-6
"""How far a table on the subspace may break its invariants, relative to its largest entry (at least 1).

Published tables are rounded: to a dyadic grid by our own mechanism, to a few decimals by others.
"""

_PROJECTED_CELLS = 2048  # variances of other invariants than totals: one projection a cell, so for small tables only


@dataclass(frozen=True, eq=False)
class ProjectedGaussian(NoiseLaw):
    r"""Independent normal noise of scale sigma, projected orthogonally onto ``{z : A z = 0}``.

    In orthonormal coordinates of that subspace the noise is again independent normal of scale sigma: its
    density is ``-||z||_2**2 / (2 sigma**2) - n log(sigma sqrt(2 pi))`` with n the dimension, the
    conditional density of the unprojected noise given the invariants (Gao, Gong and Yu, 2022, Theorem 4.2).

    ========  ==================================================
    Support   tables of real numbers that change no invariant
    Mean      0
    Variance  ``sigma**2`` times the diagonal of the projection
    ========  ==================================================

    Parameters
    ----------
    sigma : float
        Scale in counts.

    Raises
    ------
    TypeError, ValueError
        If sigma is not a positive finite number below 2**46.

    See Also
    --------
    bayesdp.distributions.ProjectedGaussian : the same law as a PyMC distribution.
    bayesdp.ProjectedGaussian : the mechanism that adds this noise.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Section 3.

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> pair = Invariants(Totals({"county": ["Alpha", "Beta"]}))
    >>> noise = ProjectedGaussian(sigma=2.0).draw(np.random.default_rng(1), (2,), 1000, pair)
    >>> bool(np.all(np.abs(noise.sum(axis=1)) < 1e-12))
    True
    """

    sigma: float

    name = "projected-gaussian"
    support = "subspace"
    integer = False
    relation = (
        "sigma, the standard deviation before projection: length / sqrt(2 rho) for tables that far "
        "apart (l2), if rho is their loss"
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", positive_number(self.sigma, "sigma"))

    def logp(self, values: npt.ArrayLike, location: npt.ArrayLike, invariants: Invariants | None = None) -> float:
        """Log-density in orthonormal coordinates; ``-inf`` off the subspace. See `NoiseLaw.logp`.

        A table counts as off the subspace if what it changes of the invariants exceeds `TOLERANCE` times the
        largest entry of values and location (at least 1).
        """
        own = needed(invariants, None, self.name)
        difference = table_difference(values, location, own)
        inside = own.project(difference)
        magnitude = max(1.0, float(np.max(np.abs(values))), float(np.max(np.abs(location))))
        if float(np.max(np.abs(difference - inside))) > TOLERANCE * magnitude:
            return -math.inf
        square = float(np.sum((inside / self.sigma) ** 2))
        return -0.5 * square - own.dimension * math.log(self.sigma * math.sqrt(2.0 * math.pi))

    def draw(
        self,
        rng: _validate.Seed,
        shape: tuple[int, ...],
        size: int | None = None,
        invariants: Invariants | None = None,
        location: npt.ArrayLike | None = None,
    ) -> Floats:
        """Draw projected normal noise, or noisy tables around a table. See `NoiseLaw.draw`."""
        own = needed(invariants, shape, self.name)
        lead = () if size is None else (count_of(size),)
        noise = own.project(generator_of(rng).normal(scale=self.sigma, size=(*lead, *shape)))
        return np.asarray(table_location(location, own) + noise, dtype=np.float64)

    def variance(self, shape: tuple[int, ...], invariants: Invariants | None = None) -> Floats | None:
        """Variance of each cell; None for more than 2048 cells, unless the invariants are disjoint totals."""
        own = needed(invariants, shape, self.name)
        if own.blocks is not None:
            sizes = np.bincount(own.blocks + 1)
            kept = np.where(own.blocks < 0, 1.0, 1.0 - 1.0 / sizes[own.blocks + 1])
        elif own.frame.size <= _PROJECTED_CELLS:
            units = np.eye(own.frame.size).reshape(-1, *shape)
            kept = np.diagonal(own.project(units).reshape(own.frame.size, -1))
        else:
            return None
        return np.asarray(self.sigma**2 * kept.reshape(shape))
