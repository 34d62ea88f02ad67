"""The correlated Gaussian mechanism: normal noise whose shape fits the differences that it has to hide."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

from bayesdp._validate import choice
from bayesdp.mechanisms.subspace.gaussian import ExtendedGaussian, GaussianStatement, ProjectedGaussian
from bayesdp.noise import CorrelatedGaussian as Law
from bayesdp.noise.arrays import positive_number
from bayesdp.privacy import Difference, Guarantee, gaussian_pairs, neighbour_differences
from bayesdp.privacy.caveats import Fixed
from bayesdp.privacy.factorization import (
    MAX_DIMENSION,
    MAX_VECTORS,
    BaseDecomposition,
    Factorization,
    base_decomposition,
    optimal_factorization,
)
from bayesdp.privacy.loss import Loss
from bayesdp.privacy.losses import LossAt
from bayesdp.sensitivities.norms import DifferenceNorm

type Floats = npt.NDArray[np.float64]

METHODS = ("ellipsoid", "factorization")
"""How the shape of the noise is found."""

_FEW, _TOLERANCES = 1000, (1e-6, 1e-3)
"""Up to this many differences of neighbours the shape is found to the first relative gap, else to the second."""


@dataclass(frozen=True)
class CorrelatedGaussian(GaussianStatement):
    """Publish answers with normal noise that is larger in the directions in which neighbouring tables differ more.

    The noise lives on the space that the invariants leave free; in its orthonormal coordinates ``Q`` neighbouring tables
    differ by vectors ``v = Q^T W u``. The covariance is ``s**2 Sigma``, where ``Sigma`` is scaled so that the largest
    ``v^T Sigma^-1 v`` is 1, and s is the scale of one-dimensional Gaussian noise that protects a difference of 1 as stated:
    the loss of the worst neighbours is exactly the stated one. For the cells themselves (no `query`) the differences of
    neighbours are alike in all directions or nearly so, and little is gained over `ExtendedGaussian`; for queries whose
    answers overlap, such as cumulative counts, much is.

    Parameters
    ----------
    invariants : Query, iterable of Query, or Invariants
        What is published exactly.
    rho : float, optional
        zCDP loss for neighbouring tables.
    epsilon, delta : float, optional
        The same by approximate differential privacy, calibrated exactly (Balle and Wang, 2018).
    mu : float, optional
        The same by Gaussian differential privacy.
    method : {"ellipsoid", "factorization"}
        The shape of the noise: by the base decomposition of Nikolov, Talwar and Zhang (Theorem 3.11 of Gao, Gong and Yu
        is about it), or the one with the least total squared error of all Gaussian noise with the same loss, up to a
        relative gap of 1e-6 (1e-3 where neighbours differ by more than 1000 vectors). The second is never worse by more
        than that; see `errors`.
    query : Query, optional
        What the noise is added to; the cells themselves if left out.
    neighbours : {"substitution", "add-remove"}
        Neighbouring tables: one record changes its cell, or one record comes or goes.

    Raises
    ------
    TypeError, ValueError
        If the loss is not stated in exactly one way, a parameter is not valid, the invariants determine the whole table
        or all answers, neighbouring tables leave a direction of the noise space alone, or there are more than 20,000
        differences of neighbours or 300 dimensions.

    See Also
    --------
    bayesdp.noise.CorrelatedGaussian : the law of the noise.
    bayesdp.distributions.CorrelatedGaussian : that law as a PyMC distribution.
    bayesdp.privacy.factorization : how shapes are found.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Section 3.4; Nikolov, Talwar and Zhang (2013), The Geometry of
    Differential Privacy: the Sparse and Approximate Cases; Edmonds, Nikolov and Ullman (2020), The Power of Factorization
    Mechanisms in Local and Central Differential Privacy.

    Examples
    --------
    Cumulative counts over eight ages, with the total known:

    >>> from bayesdp.queries import LinearQuery, Totals
    >>> import numpy as np
    >>> ages = {"age": [str(a) for a in range(8)]}
    >>> below = LinearQuery(ages, np.tril(np.ones((7, 8), dtype=int)), [f"up to {a}" for a in range(7)])
    >>> mechanism = CorrelatedGaussian(Totals(ages), mu=1.0, query=below, method="factorization")
    >>> for name, value in mechanism.errors().items():
    ...     print(f"{name}: {value:.1f}")
    projected Gaussian: 49.0
    extended Gaussian: 49.0
    ellipsoid: 21.3
    factorization: 17.5
    lower bound for Gaussian noise: 17.5
    """

    method: str = field(default="ellipsoid", kw_only=True)

    name = "correlated-gaussian"

    def __post_init__(self) -> None:
        super().__post_init__()
        choice(self.method, METHODS, "method")
        vectors = self._vectors
        if len(vectors) > MAX_VECTORS or vectors.shape[1] > MAX_DIMENSION:
            raise ValueError(
                f"query has {len(vectors)} differences of neighbours in {vectors.shape[1]} dimensions; the shape of the noise "
                f"is fitted to at most {MAX_VECTORS} in {MAX_DIMENSION}: use ExtendedGaussian, which needs none"
            )
        spanned = int(np.linalg.matrix_rank(np.linalg.qr(vectors, mode="r"), rtol=1e-9)) if len(vectors) else 0
        if spanned < self.answer_invariants.dimension:
            raise ValueError(
                f"differences of neighbours (neighbours={self.neighbours!r}) span {spanned} of the "
                f"{self.answer_invariants.dimension} dimensions of the noise, so that its covariance would be singular: "
                "with substitution, add the total number of records to the invariants, or take neighbours='add-remove'"
            )

    @cached_property
    def _vectors(self) -> Floats:
        return neighbour_differences(self.released_query, self.invariants, self.neighbours)

    @property
    def _tolerance(self) -> float:
        return _TOLERANCES[0] if len(self._vectors) <= _FEW else _TOLERANCES[1]

    @cached_property
    def _ellipsoid(self) -> BaseDecomposition:
        return base_decomposition(self._vectors, tolerance=self._tolerance)

    @cached_property
    def _factorization(self) -> Factorization:
        return optimal_factorization(self._vectors, tolerance=self._tolerance)

    @property
    def _shape(self) -> Floats:
        return self._ellipsoid.covariance if self.method == "ellipsoid" else self._factorization.covariance

    @property
    def sensitivity(self) -> float:
        """The largest Mahalanobis distance of neighbouring tables, in the metric of the noise: 1, by its scaling."""
        return 1.0

    @cached_property
    def covariance(self) -> Floats:
        """The covariance of the noise in orthonormal coordinates, shape (dimension, dimension), in squared counts."""
        return self.law.covariance

    @property
    def error(self) -> float:
        """Expected total squared error of the answers: the trace of the covariance."""
        return float(np.trace(self.covariance))

    def errors(self) -> dict[str, float]:
        """Compare the mechanism with others for the same query at the same loss.

        Returns
        -------
        dict
            Expected total squared errors of the projected and the extended Gaussian mechanism and of both methods of this
            one; ``lower bound for Gaussian noise``, below which no Gaussian noise with the stated loss gets, whatever its
            covariance. Where delta is stated and n is not 1, also ``factor of Theorem 3.11``, ``log2(n)**2 log(1/delta)`` with n the
            dimension of the noise: the error of the method ``ellipsoid`` is at most a constant times this factor times the
            error of the best private mechanism of any kind, for small epsilon and delta. The paper does not give the
            constant, so that the factor says how the bound grows, and not what it is.
        """
        same: dict[str, Any] = {**self._loss(), "query": self.released_query, "neighbours": self.neighbours}
        unit = self._scale_for(1.0) ** 2
        found = {
            "projected Gaussian": ProjectedGaussian(self.invariants, **same).error,
            "extended Gaussian": ExtendedGaussian(self.invariants, **same).error,
            "ellipsoid": unit * float(np.trace(self._ellipsoid.covariance)),
            "factorization": unit * self._factorization.error,
            "lower bound for Gaussian noise": unit * self._factorization.bound,
        }
        if self.delta is not None and self.answer_invariants.dimension > 1:
            growth = math.log2(self.answer_invariants.dimension) ** 2
            found["factor of Theorem 3.11"] = growth * math.log(1.0 / self.delta)
        return found

    @cached_property
    def law(self) -> Law:
        """The law of the noise."""
        scale = positive_number(self._scale_for(1.0), "the scale of the noise")
        return Law(scale**2 * self._shape, self.answer_invariants.coordinate_rule)

    @property
    def _noise_scale(self) -> float:
        return math.sqrt(float(scipy.linalg.eigvalsh(self.covariance, subset_by_index=(0, 0))[0]))

    @property
    def _own_guarantee(self) -> Guarantee:
        loss = self._loss()
        return Guarantee(
            loss.kind,
            LossAt(loss, self.sensitivity),
            "Mahalanobis",
            caveats=(Fixed("Mahalanobis distance"),),
        )

    @property
    def _difference_norm(self) -> DifferenceNorm:
        root = scipy.linalg.cholesky(self._shape, lower=True)

        def spherical(answers: Floats) -> Floats:
            """Coordinates in which the noise is spherical."""
            own = self.answer_invariants.coordinates(answers)
            return np.asarray(scipy.linalg.solve_triangular(root, own.T, lower=True).T)

        return DifferenceNorm(self.released_query, self.invariants, self.neighbours, self.sensitivity, "l2", spherical)

    def _loss_at(self, size: float) -> Loss:
        apart = Difference("kept", size, size)
        [row] = gaussian_pairs(self._scale_for(1.0), [apart], delta=self.delta, continuous=True)
        return row.loss
