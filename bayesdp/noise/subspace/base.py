"""What the laws on a subspace share: noise of real numbers that change no invariant.

What the laws share whose density depends on the orthonormal coordinates of the subspace.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp.invariants import COORDINATE_RULES, Invariants
from bayesdp.noise.base import Floats
from bayesdp.noise.tables import TableLaw, difference_of

TOLERANCE = 1e-6
"""How far a table on the subspace may break its invariants, relative to its largest entry (at least 1).

Published tables are rounded: to a dyadic grid by our own mechanism, to a few decimals by others.
"""

_PROJECTED_CELLS = 2048  # variances of other invariants than totals: one projection a cell, so for small tables only


class SubspaceLaw(TableLaw):
    """Noise on ``{z : A z = 0}``, A the invariants; its kernel is a density in orthonormal coordinates of that space."""

    family = "subspace"
    support = "subspace"
    integer = False

    def noise_between(self, values: npt.ArrayLike, location: npt.ArrayLike, invariants: Invariants) -> Floats | None:
        """Values minus location, projected onto the subspace, or None if they are off it.

        They count as off it if what they change of the invariants exceeds `TOLERANCE` times the largest entry of values and
        location (at least 1).
        """
        difference = difference_of(values, location, invariants)
        inside = invariants.project(difference)
        magnitude = max(1.0, float(np.max(np.abs(values))), float(np.max(np.abs(location))))
        outside = float(np.max(np.abs(difference - inside)))
        return None if outside > TOLERANCE * magnitude else inside


def share_of_projection(invariants: Invariants) -> Floats | None:
    """The diagonal of the projection onto the subspace, as a table: by it projection multiplies the variance of each cell.

    None for more than 2048 cells, unless the invariants are disjoint totals.
    """
    shape, cells = invariants.frame.shape, invariants.frame.size
    if invariants.blocks is not None:
        sizes = np.bincount(invariants.blocks + 1)
        kept = np.where(invariants.blocks < 0, 1.0, 1.0 - 1.0 / sizes[invariants.blocks + 1])
    elif cells <= _PROJECTED_CELLS:
        kept = np.diagonal(invariants.project(np.eye(cells).reshape(-1, *shape)).reshape(cells, -1))
    else:
        return None
    return np.asarray(kept.reshape(shape))


def cell_variances(covariance: Floats | None, invariants: Invariants) -> Floats | None:
    """Variance of each cell of noise with a covariance in coordinates; None if that is not known."""
    if covariance is None:
        return None
    # Q C Q^T has the diagonal sum_j (Q L)_ij**2, with C = L L^T.
    factor = np.linalg.cholesky(covariance)
    return np.asarray(np.sum(invariants.from_coordinates(factor.T) ** 2, axis=0))


class CoordinateLaw(SubspaceLaw):
    """Noise on a subspace with a density in coordinates ``Q^T z``; the law carries the name of the rule that fixes them.

    Attributes
    ----------
    coordinates : str
        A field of the law.
    """

    coordinates: str
    isotropic = False

    def _check_rule(self) -> None:
        object.__setattr__(self, "coordinates", _validate.choice(self.coordinates, COORDINATE_RULES, "coordinates"))

    @classmethod
    def unit(cls, invariants: Invariants, **parameters: Any) -> Self:
        """The law of scale 1, in the coordinates of the invariants where none are given."""
        if parameters.get("coordinates") is None:
            parameters["coordinates"] = invariants.coordinate_rule
        return super().unit(invariants, **parameters)

    def check_fit(self, invariants: Invariants) -> None:
        """Insist that the coordinates of the invariants are those that the law is stated in."""
        if invariants.coordinate_rule != self.coordinates:
            raise ValueError(
                f"the law {self.name!r} is stated in coordinates {self.coordinates!r}, but these invariants have "
                f"coordinates {invariants.coordinate_rule!r}"
            )

    @property
    def whitening(self) -> Floats | None:
        """A matrix to multiply coordinates by, shape (n, n), before the kernel has them; None where there is none."""
        return None

    def measured(self, noise: Floats, invariants: Invariants) -> Any:
        """Coordinates of the noise, shape (n,)."""
        return invariants.coordinates(noise)
