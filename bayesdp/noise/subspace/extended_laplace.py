"""The extended Laplace law: independent Laplace noise in orthonormal coordinates of the subspace."""

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
from bayesdp.noise.subspace.coordinates import checked_rule, coordinates_of_difference, same_rule
from bayesdp.noise.tables import needed, table_location

__all__ = ["ExtendedLaplace"]

_VARIANCE_CELLS = 2048  # variances of other invariants than totals: one projection a cell, so for small tables only


@dataclass(frozen=True, eq=False)
class ExtendedLaplace(NoiseLaw):
    r"""Independent Laplace noise of scale b in orthonormal coordinates ``Q`` of ``{z : A z = 0}``.

    The log-density of a noisy table z is ``-||Q^T z||_1 / b - n log(2 b)`` with n the dimension. It depends on the
    coordinates, and not only on the subspace: the law carries the name of the rule that fixes them.

    ========  ================================================
    Support   tables of real numbers that change no invariant
    Mean      0
    Variance  ``2 b**2`` times the diagonal of the projection
    ========  ================================================

    Parameters
    ----------
    b : float
        Scale in counts.
    coordinates : {"helmert-1", "echelon-1"}
        How the coordinates are chosen, see `Invariants.coordinate_rule`; the invariants that the law is used with must
        have coordinates of that rule.

    Raises
    ------
    TypeError, ValueError
        If b is not a positive finite number below 2**46, or the rule is not known.

    See Also
    --------
    bayesdp.distributions.ExtendedLaplace : the same law as a PyMC distribution.
    bayesdp.ExtendedLaplace : the mechanism that adds this noise.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Corollary 3.9.

    Examples
    --------
    Of two counts with a fixed total, the only coordinate is their difference over the root of 2.

    >>> from bayesdp.queries import Totals
    >>> pair = Invariants(Totals({"county": ["Alpha", "Beta"]}))
    >>> law = ExtendedLaplace(b=2.0)
    >>> print(f"{law.logp([9, 1], [7, 3], pair):.6f} {-math.sqrt(8) / 2 - math.log(4):.6f}")
    -2.800508 -2.800508
    """

    b: float
    coordinates: str = "helmert-1"

    name = "extended-laplace"
    support = "subspace"
    integer = False
    isotropic = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", positive_number(self.b, "b"))
        object.__setattr__(self, "coordinates", checked_rule(self.coordinates))

    def _own(self, invariants: Invariants | None, shape: tuple[int, ...] | None) -> Invariants:
        return same_rule(needed(invariants, shape, self.name), self.coordinates, self.name)

    def logp(self, values: npt.ArrayLike, location: npt.ArrayLike, invariants: Invariants | None = None) -> float:
        """Log-density in orthonormal coordinates; ``-inf`` off the subspace. See `NoiseLaw.logp`.

        A table counts as off the subspace under the same tolerance as in `ProjectedGaussian.logp`.

        Raises
        ------
        ValueError
            If the coordinates of the invariants follow another rule.
        """
        own = self._own(invariants, None)
        found = coordinates_of_difference(values, location, own)
        if found is None:
            return -math.inf
        return -float(np.sum(np.abs(found))) / self.b - own.dimension * math.log(2.0 * self.b)

    def draw(
        self,
        rng: _validate.Seed,
        shape: tuple[int, ...],
        size: int | None = None,
        invariants: Invariants | None = None,
        location: npt.ArrayLike | None = None,
    ) -> Floats:
        """Draw noise that changes no invariant, or noisy tables around a table. See `NoiseLaw.draw`."""
        own = self._own(invariants, shape)
        lead = () if size is None else (count_of(size),)
        noise = own.from_coordinates(generator_of(rng).laplace(scale=self.b, size=(*lead, own.dimension)))
        return np.asarray(table_location(location, own) + noise, dtype=np.float64)

    def variance(self, shape: tuple[int, ...], invariants: Invariants | None = None) -> Floats | None:
        """Variance of each cell; None for more than 2048 cells, unless the invariants are disjoint totals."""
        own = self._own(invariants, shape)
        if own.blocks is not None:
            sizes = np.bincount(own.blocks + 1)
            kept = np.where(own.blocks < 0, 1.0, 1.0 - 1.0 / sizes[own.blocks + 1])
        elif own.frame.size <= _VARIANCE_CELLS:
            kept = np.sum(own.from_coordinates(np.eye(own.dimension)).reshape(own.dimension, -1) ** 2, axis=0)
        else:
            return None
        return np.asarray(2.0 * self.b**2 * kept.reshape(shape))
