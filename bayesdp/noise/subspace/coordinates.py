"""What the laws share whose density depends on the orthonormal coordinates of the subspace."""

from __future__ import annotations

from typing import Any, Self

from bayesdp import _validate
from bayesdp.invariants import COORDINATE_RULES, Invariants
from bayesdp.noise.base import Floats
from bayesdp.noise.subspace.base import SubspaceLaw


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
