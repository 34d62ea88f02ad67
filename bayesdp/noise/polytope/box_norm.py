"""The law of noise of a whole vector whose density falls with its largest entry, in scales of the entries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp.invariants import Invariants
from bayesdp.noise.arrays import broadcast_scale, count_of, located, positive_scale, values_and_location
from bayesdp.noise.base import Floats, NoiseLaw
from bayesdp.noise.namespace import special


@dataclass(frozen=True, eq=False)
class BoxNorm(NoiseLaw):
    r"""Noise of a vector with density ``exp(-max_i |z_i| / b_i) / (d! prod_i 2 b_i)``: K-norm noise whose ball is a box.

    All d entries share one radius, a gamma variable of shape d + 1; divided by it and by their scales, they are independent and
    uniform within -1 and 1. Two vectors are told apart with a loss of at most their largest difference in scales,
    ``max_i |x_i - y_i| / b_i``. A release that keeps that below epsilon adds up nothing over the entries.

    ========  ==========================================================
    Support   real vectors
    Mean      0
    Variance  ``b_i**2 (d + 1) (d + 2) / 3``
    ========  ==========================================================

    Parameters
    ----------
    b : float or array_like, shape (statistics,)
        Scale of each entry, in the unit of the statistic.

    Raises
    ------
    TypeError, ValueError
        If a scale is not a positive finite number between 2**-400 and 2**46.

    See Also
    --------
    bayesdp.distributions.BoxNorm : the same law as a PyMC distribution.
    bayesdp.mechanisms.JointCovariance : the mechanism that adds this noise; it takes privacy parameters.
    KNorm : the ball of any vertices, for tables whose invariants are kept.

    References
    ----------
    Hardt and Talwar (2010), On the Geometry of Differential Privacy.

    Examples
    --------
    >>> law = BoxNorm([1.0, 2.0])
    >>> print(f"{law.logp([3.0, 1.0], [0.0, 0.0]):.6f} {-3.0 - math.log(2 * 2 * 4):.6f}")
    -5.772589 -5.772589
    """

    b: float | Floats

    name = "box-norm"
    support = "vectors"
    family = "polytope"
    integer = False
    everywhere = True
    kernel_parameters = ("b",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", positive_scale(self.b, "b"))

    @staticmethod
    def log_kernel(xp: Any, value: Any, mu: Any, b: Any) -> Any:
        """Log-density of vectors.

        Parameters
        ----------
        xp : module
            NumPy or PyTensor, see `bayesdp.noise.namespace`.
        value, mu, b : float64 array or tensor variable, shape (..., d)
            All of the same length d.

        Returns
        -------
        array or tensor variable, shape (...)
        """
        size = 1.0 * value.shape[-1]
        return (
            -xp.max(xp.abs(value - mu) / b, axis=-1)
            - xp.sum(xp.log(2.0 * b), axis=-1)
            - special(xp).gammaln(size + 1.0)
        )

    def logp(self, values: npt.ArrayLike, location: npt.ArrayLike, invariants: Invariants | None = None) -> float:
        """Log-density of all entries together; see `NoiseLaw.logp`."""
        y, mu = (own.reshape(-1) for own in values_and_location(values, location))
        scales = broadcast_scale(self.b, np.broadcast_shapes(np.shape(values), np.shape(location)), "b").reshape(-1)
        return float(self.log_kernel(np, y, mu, scales))

    def draw(
        self,
        rng: _validate.Seed,
        shape: tuple[int, ...],
        size: int | None = None,
        invariants: Invariants | None = None,
        location: npt.ArrayLike | None = None,
    ) -> Floats:
        """Draw noise, or noisy vectors around a location, exactly. See `NoiseLaw.draw`."""
        generator = _validate.generator_of(rng)
        centre, scales = located(location, shape), broadcast_scale(self.b, shape, "b")
        lead = () if size is None else (count_of(size),)
        radius = generator.standard_gamma(math.prod(shape) + 1.0, lead + (1,) * len(shape))
        return np.asarray(centre + scales * radius * generator.uniform(-1.0, 1.0, (*lead, *shape)))

    def variance(self, shape: tuple[int, ...], invariants: Invariants | None = None) -> Floats:
        """Variance of each entry; see `NoiseLaw.variance`."""
        size = math.prod(shape)
        return broadcast_scale(self.b, shape, "b") ** 2 * (size + 1.0) * (size + 2.0) / 3.0

    def refusal(self, values: npt.ArrayLike) -> str:
        """Why values are no vector; see `NoiseLaw.refusal`."""
        shape = np.shape(values)
        return "" if len(shape) == 1 else f"values of the law {self.name!r} must be one vector, got shape {shape}"

    def model_parameters(self) -> dict[str, Any]:
        """The scales; see `NoiseLaw.model_parameters`."""
        return {"b": self.b}
