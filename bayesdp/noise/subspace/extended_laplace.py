"""The extended Laplace law: independent Laplace noise in orthonormal coordinates of the subspace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesdp.invariants import Invariants
from bayesdp.noise.arrays import positive_number
from bayesdp.noise.base import Floats, KernelForm, LossByLength, exponential_loss
from bayesdp.noise.subspace.base import CoordinateLaw, share_of_projection
from bayesdp.queries import Query


@dataclass(frozen=True, eq=False)
class ExtendedLaplace(CoordinateLaw):
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
    bayesdp.ExtendedLaplace : the mechanism that adds this noise; it takes privacy parameters.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Corollary 3.9.

    Examples
    --------
    Of two counts with a fixed total, the only coordinate is their difference over the root of 2.

    >>> import math
    >>> from bayesdp.queries import Totals
    >>> pair = Invariants(Totals({"county": ["Alpha", "Beta"]}))
    >>> law = ExtendedLaplace(b=2.0)
    >>> print(f"{law.logp([9, 1], [7, 3], pair):.6f} {-math.sqrt(8) / 2 - math.log(4):.6f}")
    -2.800508 -2.800508
    """

    b: float
    coordinates: str = "helmert-1"

    name = "extended-laplace"
    everywhere = True
    kernel_form = KernelForm("l1", of_scale=True)
    scale_name = "b"

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", positive_number(self.b, "b"))
        self._check_rule()

    def log_kernel(self, xp: Any, measured: Any, scale: Any, invariants: Invariants) -> Any:
        """Log-density at coordinates; see `TableLaw.log_kernel`."""
        return -xp.sum(xp.abs(measured), axis=-1) / scale - invariants.dimension * xp.log(2.0 * scale)

    def noise(self, rng: np.random.Generator, count: int, invariants: Invariants) -> Floats:
        """Draw independent coordinates."""
        return invariants.from_coordinates(rng.laplace(scale=self.b, size=(count, invariants.dimension)))

    def variance(self, shape: tuple[int, ...], invariants: Invariants | None = None) -> Floats | None:
        """Variance of each cell; None for more than 2048 cells, unless the invariants are disjoint totals."""
        kept = share_of_projection(self.needed(invariants, shape))
        return None if kept is None else 2.0 * self.b**2 * kept

    def pair_loss(self, query: Query, invariants: Invariants) -> LossByLength | None:
        """The loss at a length in coordinates. See `NoiseLaw.pair_loss`."""
        free = invariants.through(query)
        if self.coordinates != free.coordinate_rule:
            return None
        coordinates = free.coordinates if free.rank else None
        return LossByLength(("pure",), "l1", exponential_loss(1.0 / self.b), coordinates)

    def kernel_of(self, invariants: Invariants | None) -> KernelForm | None:
        """A product in coordinates. See `NoiseLaw.kernel_of`."""
        known = self.needed(invariants)
        return KernelForm(
            "l1", True, lambda: known.from_coordinates(np.eye(known.dimension)).reshape(known.dimension, -1)
        )
