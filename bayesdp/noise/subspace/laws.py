"""Real noise on the subspace that invariants leave free: what the laws share, Gaussian noise and extended Laplace noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.linalg

from bayesdp import _validate
from bayesdp._arrays import Floats
from bayesdp._validate import MAX_SCALE
from bayesdp.invariants import COORDINATE_RULES, Invariants
from bayesdp.noise.base import KernelForm, LossByLength, exponential_loss, normal_loss
from bayesdp.noise.tables import TableLaw, difference_of, squared_norm
from bayesdp.queries import Query

TOLERANCE = 1e-6
"""How far a table on the subspace may break its invariants, relative to its largest entry (at least 1).

Published tables are rounded: to a dyadic grid by our own mechanism, to a few decimals by others.
"""

_PROJECTED_CELLS = 2048  # variances of other invariants than totals: one projection a cell, so for small tables only


def share_of_projection(invariants: Invariants) -> Floats | None:
    """The diagonal of the projection onto the subspace, as a table; None for more than 2048 cells, but for disjoint totals."""
    shape, cells, blocks = invariants.frame.shape, invariants.frame.size, invariants.blocks
    if blocks is not None:
        kept = np.where(blocks < 0, 1.0, 1.0 - 1.0 / np.bincount(blocks + 1)[blocks + 1])
    elif cells <= _PROJECTED_CELLS:
        kept = np.diagonal(invariants.project(np.eye(cells).reshape(-1, *shape)).reshape(cells, -1))
    else:
        return None
    return np.asarray(kept.reshape(shape))


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

    def variance(self, shape: tuple[int, ...], invariants: Invariants | None = None) -> Floats | None:
        """Variance of each cell, or None where it is not known.

        Noise whose variance is the same in all directions: None for more than 2048 cells, unless the invariants are disjoint totals.
        """
        invariants = self.needed(invariants, shape)
        covariance = self._covariance(invariants)
        if covariance is None:
            return None
        if isinstance(covariance, float):
            kept = share_of_projection(invariants)
            return None if kept is None else covariance * kept
        # Q C Q^T has the diagonal sum_j (Q L)_ij**2, with C = L L^T.
        factor = np.linalg.cholesky(covariance)
        return np.asarray(np.sum(invariants.from_coordinates(factor.T) ** 2, axis=0))

    def _covariance(self, invariants: Invariants) -> Floats | float | None:
        """Of orthonormal coordinates; a number for that times the identity, None where it is not known."""
        return None


class CoordinateLaw(SubspaceLaw):
    """Noise on a subspace with a density in coordinates ``Q^T z``; the law carries the name of the rule that fixes them.

    Attributes
    ----------
    coordinates : str
        A field of the law.
    """

    coordinates: str
    isotropic = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(coordinates=_validate.choice(self.coordinates, COORDINATE_RULES, "coordinates"))

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

    def pair_loss(self, query: Query, invariants: Invariants) -> LossByLength | None:
        """The loss at a length in coordinates; None for answers with coordinates of another rule. See `NoiseLaw.pair_loss`."""
        free = invariants.through(query)
        return self._loss_in(free) if self.coordinates == free.coordinate_rule else None

    def _loss_in(self, free: Invariants) -> LossByLength | None:
        """What `pair_loss` gives, in the coordinates of the noise."""
        return None


@dataclass(frozen=True, eq=False)
class ProjectedGaussian(SubspaceLaw):
    r"""Independent normal noise of scale sigma, projected orthogonally onto ``{z : A z = 0}``.

    In orthonormal coordinates of that subspace the noise is again independent normal of scale sigma: its
    density is ``-||z||_2**2 / (2 sigma**2) - n log(sigma sqrt(2 pi))`` with n the dimension, the
    conditional density of the unprojected noise given the invariants (Gao, Gong and Yu, 2022, Theorem 4.2).

    Parameters
    ----------
    sigma : float
        Scale in counts, below 2**46.

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
    full_support = True
    normal = True
    kernel_form = KernelForm("gaussian")
    scale_name = "sigma"
    relation = (
        "sigma, the standard deviation before projection: length / sqrt(2 rho) for tables that far "
        "apart (l2), if rho is their loss"
    )
    _variance_words = "``sigma**2`` times the diagonal of the projection"

    def log_kernel(self, xp: Any, measured: Any, scale: Any, invariants: Invariants) -> Any:
        """Log-density; see `TableLaw.log_kernel`."""
        density = -0.5 * squared_norm(xp, measured, invariants) / scale**2
        return density - invariants.dimension * xp.log(scale * math.sqrt(2.0 * math.pi))

    def noise(self, rng: np.random.Generator, count: int, invariants: Invariants) -> Floats:
        """Draw normal noise, and project it."""
        return invariants.project(rng.normal(scale=self.sigma, size=(count, *invariants.frame.shape)))

    def _covariance(self, invariants: Invariants) -> float:
        return self.sigma**2

    def pair_loss(self, query: Query, invariants: Invariants) -> LossByLength | None:
        """The loss at a length. See `NoiseLaw.pair_loss`."""
        return LossByLength(("zcdp", "approximate", "gdp"), "l2", normal_loss(self.sigma, continuous=True))


_MAX_DIMENSION = 2000  # a covariance is a dense matrix: above this many rows it is refused

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

    Parameters
    ----------
    covariance : array_like, shape (n, n)
        Symmetric positive definite, n the dimension of the subspace, at most 2000; in squared counts.
    coordinates : {"helmert-1", "echelon-1"}
        How the coordinates are chosen, see `Invariants.coordinate_rule`; the invariants that the law is used with must
        have coordinates of that rule.

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
    full_support = True
    normal = True
    kernel_form = KernelForm("gaussian")
    scale_name = "sigma"  # no field: PyMC's distribution has it as a factor
    scale = 1.0
    _variance_words = "the diagonal of ``Q covariance Q^T``"

    def __post_init__(self) -> None:
        self._set(covariance=checked_covariance(self.covariance))
        super().__post_init__()

    @cached_property
    def factor(self) -> Floats:
        """The lower triangular Cholesky factor of the covariance."""
        return np.asarray(scipy.linalg.cholesky(self.covariance, lower=True))

    @cached_property
    def whitening(self) -> Floats:
        """The inverse of `factor`, which makes coordinates independent, of variance 1."""
        return self.white(np.eye(len(self.factor)))

    def white(self, coordinates: Floats) -> Floats:
        """White coordinates, shape (n,) or (n, many)."""
        return np.asarray(scipy.linalg.solve_triangular(self.factor, coordinates, lower=True))

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
        return self.white(super().measured(noise, invariants))

    def log_kernel(self, xp: Any, measured: Any, scale: Any, invariants: Invariants) -> Any:
        """Log-density at white coordinates; see `TableLaw.log_kernel`."""
        density = -0.5 * xp.sum(xp.square(measured), axis=-1) / scale**2
        density -= invariants.dimension * xp.log(scale * math.sqrt(2.0 * math.pi))
        return density - float(np.sum(np.log(np.diagonal(self.factor))))

    def noise(self, rng: np.random.Generator, count: int, invariants: Invariants) -> Floats:
        """Draw normal coordinates of the covariance."""
        return invariants.from_coordinates(rng.normal(size=(count, invariants.dimension)) @ self.factor.T)

    def _covariance(self, invariants: Invariants) -> Floats:
        return self.covariance

    def __str__(self) -> str:
        rows, spread = len(self.covariance), np.sqrt(np.diagonal(self.covariance))
        return (
            f"{self.name} covariance=<{rows} x {rows}, standard deviations from {spread.min():.6g} to "
            f"{spread.max():.6g}> coordinates={self.coordinates}"
        )

    def _loss_in(self, free: Invariants) -> LossByLength:
        # In coordinates in which the noise is spherical.
        loss = normal_loss(1.0, continuous=True)
        return LossByLength(
            ("zcdp", "approximate", "gdp"), "l2", loss, lambda answers: self.white(free.coordinates(answers).T).T
        )

    def kernel_of(self, invariants: Invariants | None) -> KernelForm | None:
        """A product in whitened coordinates. See `NoiseLaw.kernel_of`."""
        known = self.needed(invariants)
        return KernelForm("gaussian", coordinates=lambda: self.white(axes_of(known)))


def axes_of(invariants: Invariants) -> Floats:
    """The coordinates Q^T as a matrix, shape (n, cells)."""
    return invariants.from_coordinates(np.eye(invariants.dimension)).reshape(invariants.dimension, -1)


@dataclass(frozen=True, eq=False)
class ExtendedLaplace(CoordinateLaw):
    r"""Independent Laplace noise of scale b in orthonormal coordinates ``Q`` of ``{z : A z = 0}``.

    The log-density of a noisy table z is ``-||Q^T z||_1 / b - n log(2 b)`` with n the dimension. It depends on the
    coordinates, and not only on the subspace: the law carries the name of the rule that fixes them.

    Parameters
    ----------
    b : float
        Scale in counts, below 2**46.
    coordinates : {"helmert-1", "echelon-1"}
        As for `CorrelatedGaussian`.

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
    full_support = True
    kernel_form = KernelForm("l1", of_scale=True)
    scale_name = "b"
    _variance_words = "``2 b**2`` times the diagonal of the projection"

    def log_kernel(self, xp: Any, measured: Any, scale: Any, invariants: Invariants) -> Any:
        """Log-density at coordinates; see `TableLaw.log_kernel`."""
        return -xp.sum(xp.abs(measured), axis=-1) / scale - invariants.dimension * xp.log(2.0 * scale)

    def noise(self, rng: np.random.Generator, count: int, invariants: Invariants) -> Floats:
        """Draw independent coordinates."""
        return invariants.from_coordinates(rng.laplace(scale=self.b, size=(count, invariants.dimension)))

    def _covariance(self, invariants: Invariants) -> float:
        return 2.0 * self.b**2

    def _loss_in(self, free: Invariants) -> LossByLength:
        return LossByLength(("pure",), "l1", exponential_loss(1.0 / self.b), free.coordinates if free.rank else None)

    def kernel_of(self, invariants: Invariants | None) -> KernelForm | None:
        """A product in coordinates. See `NoiseLaw.kernel_of`."""
        known = self.needed(invariants)
        return KernelForm("l1", True, lambda: axes_of(known))
