"""What the laws share whose density depends on the orthonormal coordinates of the subspace."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp.invariants import COORDINATE_RULES, Invariants
from bayesdp.noise.base import Floats
from bayesdp.noise.subspace.projected_gaussian import TOLERANCE
from bayesdp.noise.tables import table_difference

__all__ = ["checked_rule", "coordinates_of_difference", "same_rule"]


def checked_rule(rule: str) -> str:
    """Accept the name of a rule that fixes coordinates."""
    return _validate.choice(rule, COORDINATE_RULES, "coordinates")


def same_rule(invariants: Invariants, rule: str, law: str) -> Invariants:
    """Insist that the coordinates of the invariants are those that the law is stated in."""
    if invariants.coordinate_rule != rule:
        raise ValueError(
            f"the law {law!r} is stated in coordinates {rule!r}, but these invariants have coordinates "
            f"{invariants.coordinate_rule!r}"
        )
    return invariants


def coordinates_of_difference(values: npt.ArrayLike, location: npt.ArrayLike, invariants: Invariants) -> Floats | None:
    """Orthonormal coordinates of values minus location, or None if they are off the subspace.

    They count as off it if what they change of the invariants exceeds `TOLERANCE` times the largest entry of values and
    location (at least 1).
    """
    difference = table_difference(values, location, invariants)
    found = invariants.coordinates(difference)
    magnitude = max(1.0, float(np.max(np.abs(values))), float(np.max(np.abs(location))))
    if float(np.max(np.abs(difference - invariants.from_coordinates(found)))) > TOLERANCE * magnitude:
        return None
    return found
