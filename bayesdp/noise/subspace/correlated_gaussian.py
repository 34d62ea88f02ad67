"""The correlated Gaussian law: normal noise of a given covariance on the subspace that the invariants leave free."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.linalg

from bayesdp import _validate
from bayesdp.invariants import Invariants
from bayesdp.noise.arrays import MAX_SCALE
from bayesdp.noise.base import Floats, KernelForm, LossByLength, normal_loss
from bayesdp.noise.subspace.base import CoordinateLaw, cell_variances
from bayesdp.queries import Query

_MAX_DIMENSION = 2000
"""A covariance is a dense matrix: above this many rows it is refused."""

_ASYMMETRY = 1e-12
"""Entries across the diagonal may differ by this much, relative to the largest: rounding of whoever computed them."""


def checked_covariance(covariance: npt.ArrayLike) -> Floats:
    """Accept a symmetric positive definite matrix, as one that nobody can write to."""
    matrix = np.array(_validate.finite_array(covariance, "covariance"), dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise ValueError(f"covariance must be a square matrix, got shape {matrix.shape}")
    if len(matrix) > _MAX_DIMENSION:
        raise ValueError(f"covariance must have at most {_MAX_DIMENSION} rows, got {len(matrix)}")
    largest = float(np.max(np.abs(matrix)))
    if largest >= MAX_SCALE**2:
        raise ValueError(f"covariance must have entries smaller than 2**92, got {largest!r}")
    skew = np.abs(matrix - matrix.T)
    if float(skew.max()) > _ASYMMETRY * largest:
        i, j = (int(k) for k in np.unravel_index(int(np.argmax(skew)), skew.shape))
        raise ValueError(
            f"covariance must be symmetric, but entry ({i}, {j}) is {float(matrix[i, j])!r} and ({j}, {i}) is "
            f"{float(matrix[j, i])!r}"
        )
    smallest = float(scipy.linalg.eigvalsh(matrix, subset_by_index=(0, 0))[0])
    # An eigenvalue below the rounding of the matrix cannot be told from zero, and the density would be noise.
    if smallest <= len(matrix) * np.finfo(float).eps * largest:
        raise ValueError(f"covariance must be positive definite, but its smallest eigenvalue is {smallest!r}")
    matrix.flags.writeable = False
    return matrix


@dataclass(frozen=True, eq=False)
class CorrelatedGaussian(CoordinateLaw):
    r"""Normal noise with a given covariance in orthonormal coordinates ``Q`` of ``{z : A z = 0}``.

    With ``c = Q^T z``, the log-density of a noisy table z is
    ``-c^T covariance^-1 c / 2 - log det(2 pi covariance) / 2``. The covariance is stated in coordinates, so the law carries
    the name of the rule that fixes them. `ProjectedGaussian` is the case of a multiple of the identity.

    ========  =============================================
    Support   tables of real numbers that change no invariant
    Mean      0
    Variance  the diagonal of ``Q covariance Q^T``
    ========  =============================================

    Parameters
    ----------
    covariance : array_like, shape (n, n)
        Symmetric positive definite, n the dimension of the subspace; in squared counts.
    coordinates : {"helmert-1", "echelon-1"}
        How the coordinates are chosen, see `Invariants.coordinate_rule`; the invariants that the law is used with must
        have coordinates of that rule.

    Raises
    ------
    TypeError, ValueError
        If the covariance is not symmetric positive definite (the smallest eigenvalue is named) or has more than 2000
        rows, or the rule is not known.

    See Also
    --------
    bayesdp.distributions.CorrelatedGaussian : the same law as a PyMC distribution.
    bayesdp.CorrelatedGaussian : the mechanism that adds this noise; it takes privacy parameters.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Section 3.4.

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> three = Invariants(Totals({"county": ["Alpha", "Beta", "Gamma"]}))
    >>> law = CorrelatedGaussian([[4.0, 1.0], [1.0, 2.0]])
    >>> noise = law.draw(np.random.default_rng(1), (3,), 1000, three)
    >>> bool(np.all(np.abs(noise.sum(axis=1)) < 1e-12))
    True
    """

    covariance: Floats
    coordinates: str = "helmert-1"

    name = "correlated-gaussian"
    everywhere = True
    normal = True
    kernel_form = KernelForm("gaussian")
    scale_name = "sigma"  # no field: PyMC's distribution has it as a factor
    scale = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "covariance", checked_covariance(self.covariance))
        self._check_rule()

    @cached_property
    def factor(self) -> Floats:
        """The lower triangular Cholesky factor of the covariance."""
        return np.asarray(scipy.linalg.cholesky(self.covariance, lower=True))

    @cached_property
    def whitening(self) -> Floats:
        """The inverse of `factor`, which makes coordinates independent, of variance 1."""
        return np.asarray(scipy.linalg.solve_triangular(self.factor, np.eye(len(self.factor)), lower=True))

    def at(self, scale: float) -> Self:
        """The law of `scale` times the noise."""
        return replace(self, covariance=scale**2 * self.covariance)

    def check_fit(self, invariants: Invariants) -> None:
        """Insist on the rule of the coordinates, and on their number."""
        super().check_fit(invariants)
        if invariants.dimension != len(self.covariance):
            raise ValueError(
                f"covariance has {len(self.covariance)} rows, but the invariants leave {invariants.dimension} dimensions free"
            )

    def measured(self, noise: Floats, invariants: Invariants) -> Any:
        """White coordinates, shape (n,)."""
        return scipy.linalg.solve_triangular(self.factor, super().measured(noise, invariants), lower=True)

    def log_kernel(self, xp: Any, measured: Any, scale: Any, invariants: Invariants) -> Any:
        """Log-density at white coordinates; see `TableLaw.log_kernel`."""
        density = -0.5 * xp.sum(xp.square(measured), axis=-1) / scale**2
        density -= invariants.dimension * xp.log(scale * math.sqrt(2.0 * math.pi))
        return density - float(np.sum(np.log(np.diagonal(self.factor))))

    def noise(self, rng: np.random.Generator, count: int, invariants: Invariants) -> Floats:
        """Draw normal coordinates of the covariance."""
        return invariants.from_coordinates(rng.normal(size=(count, invariants.dimension)) @ self.factor.T)

    def variance(self, shape: tuple[int, ...], invariants: Invariants | None = None) -> Floats | None:
        """Variance of each cell."""
        return cell_variances(self.covariance, self.needed(invariants, shape))

    def __str__(self) -> str:
        rows, spread = len(self.covariance), np.sqrt(np.diagonal(self.covariance))
        return (
            f"{self.name} covariance=<{rows} x {rows}, standard deviations from {spread.min():.6g} to "
            f"{spread.max():.6g}> coordinates={self.coordinates}"
        )

    def pair_loss(self, query: Query, invariants: Invariants) -> LossByLength | None:
        """The loss at a length in coordinates in which the noise is spherical. See `NoiseLaw.pair_loss`."""
        free = invariants.through(query)
        if self.coordinates != free.coordinate_rule:
            return None

        def spherical(answers: Floats) -> Floats:
            return np.asarray(scipy.linalg.solve_triangular(self.factor, free.coordinates(answers).T, lower=True).T)

        return LossByLength(("zcdp", "approximate", "gdp"), "l2", normal_loss(1.0, continuous=True), spherical)

    def kernel_of(self, invariants: Invariants | None) -> KernelForm | None:
        """A product in whitened coordinates. See `NoiseLaw.kernel_of`."""
        known = self.needed(invariants)

        def whitened() -> Floats:
            axes = known.from_coordinates(np.eye(known.dimension)).reshape(known.dimension, -1)
            return np.asarray(scipy.linalg.solve_triangular(self.factor, axes, lower=True))

        return KernelForm("gaussian", coordinates=whitened)
