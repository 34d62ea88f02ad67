"""Gaussian mechanisms: normal noise of one scale, or of a shape that fits the differences that it has to hide."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

from bayesdp import noise
from bayesdp._validate import choice, positive_real
from bayesdp.mechanisms.families import RealGaussianStatement, RealNoise
from bayesdp.mechanisms.protects import FittedToNeighbours, Neighbouring, SemiAdjacentAnswers, WithinNoiseSpace
from bayesdp.noise.arrays import positive_number
from bayesdp.privacy import factorization, gaussian_sigma_for_mu, lemma_3_4_sigma, projected_sensitivity
from bayesdp.privacy.caveats import Fixed
from bayesdp.privacy.losses import GaussianDP, Loss

type Floats = npt.NDArray[np.float64]

_FEW, _TOLERANCES = 1000, (1e-6, 1e-3)
"""Up to this many differences of neighbours the shape is found to the first relative gap, else to the second."""


@dataclass(frozen=True)
class SphericalNoise(RealNoise):
    """Independent normal noise of one scale in orthonormal coordinates of the noise space."""

    _unit = "l2"

    @property
    @abstractmethod
    def sigma(self) -> float:
        """The scale of the noise, in the unit of the answers."""

    @property
    def error(self) -> float:
        """Expected total squared error of the answers, ``dimension * sigma**2``."""
        return self.answer_invariants.dimension * self.sigma**2

    @property
    def law(self) -> noise.ProjectedGaussian:
        """The law of the noise."""
        return noise.ProjectedGaussian(self.sigma)


@dataclass(frozen=True)
class CalibratedGaussian(RealGaussianStatement, SphericalNoise, Neighbouring):
    """Normal noise of one scale for neighbouring tables.

    Parameters
    ----------
    calibration : {"analytic", "lemma 3.4"}
        How `epsilon` and `delta` become a scale. The lemma's is refused where its exact delta exceeds the stated one.
    """

    calibration: str = field(default="analytic", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        choice(self.calibration, ("analytic", "lemma 3.4"), "calibration")
        if self.calibration != "analytic":
            _ = self.sigma  # refuses now, not at the release, where the lemma does not hold

    @cached_property
    def sigma(self) -> float:
        """The scale of the noise, in the unit of the answers."""
        if self.calibration == "analytic":
            return self._scale_for(self.sensitivity)
        if self.epsilon is None or self.delta is None:
            raise ValueError("calibration='lemma 3.4' turns epsilon and delta into a scale; state the loss by these")
        return lemma_3_4_sigma(self.epsilon, self.delta, self.sensitivity)


@dataclass(frozen=True)
class ExtendedGaussian(CalibratedGaussian, WithinNoiseSpace):
    """Publish answers with normal noise of scale sigma on the space that the invariants leave free.

    The same law as that of `ProjectedGaussian`, with a scale that is at most as large: it protects ``Q^T W x``, the
    answers projected onto the noise space, whose sensitivity is at most that of the answers ``W x``. What the invariants
    say about the answers is published exactly in any case.

    See Also
    --------
    CorrelatedGaussian : noise of a shape of its own, for general queries.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Algorithm 1 and Corollary 3.6.

    Examples
    --------
    >>> from bayesdp.mechanisms import ProjectedGaussian
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
    >>> both = Margins(table, ["county"], ["education"])
    >>> print(f"{ExtendedGaussian(both, mu=0.5).sigma:.4f} {ProjectedGaussian(both, mu=0.5).sigma:.4f}")
    2.3094 2.8284
    """

    name = "extended-gaussian"


@dataclass(frozen=True)
class ProjectedGaussian(CalibratedGaussian):
    """Publish answers with independent normal noise of scale sigma, projected so that it changes no invariant.

    The projection is post-processing, and its noise is again normal of scale sigma in orthonormal coordinates. The loss is stated for
    neighbouring tables, and calibrated exactly for the unprojected noise: for `epsilon` and `delta` by the profile of the Gaussian
    mechanism, and not by the paper's Lemma 3.4, which is too small for small delta (docs/CORRECTIONS.md). The projected noise may lose
    less between neighbours; the guarantee's row on them states what it does lose.

    See Also
    --------
    ExtendedGaussian : less noise, from the sensitivity that is left within the noise space.
    bayesdp.noise.ProjectedGaussian, bayesdp.distributions.ProjectedGaussian : the law, also for PyMC; it takes sigma.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Corollary 3.5.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesdp.queries import Totals
    >>> mechanism = ProjectedGaussian(Totals({"county": ["Alpha", "Beta", "Gamma"]}), mu=0.5)
    >>> print(f"{mechanism.sigma:.4f}")
    2.8284
    >>> float(mechanism.release([20, 10, 5], rng=np.random.default_rng(1)).values.sum())
    35.0
    """

    name = "projected-gaussian"

    @cached_property
    def _neighbours_apart(self) -> tuple[float, str]:
        # The noise hides what the invariants leave free of a difference, which may be much shorter than the difference.
        try:
            free = projected_sensitivity(self.released_query, self.invariants, "l2", self.neighbours)
        except NotImplementedError:  # too many pairs of cells to compare
            return self.sensitivity, "at most"
        return (self.sensitivity if free >= self.sensitivity * (1.0 - 1e-12) else free), ""


@dataclass(frozen=True)
class CorrelatedGaussian(RealGaussianStatement, FittedToNeighbours):
    """Publish answers with normal noise that is larger in the directions in which neighbouring tables differ more.

    The noise lives on the space that the invariants leave free; in its orthonormal coordinates ``Q`` neighbouring tables
    differ by vectors ``v = Q^T W u``. The covariance is ``s**2 Sigma``, where ``Sigma`` is scaled so that the largest
    ``v^T Sigma^-1 v`` is 1, and s is the scale of one-dimensional Gaussian noise that protects a difference of 1 as stated:
    the loss of the worst neighbours is exactly the stated one. ``Sigma`` is that with the least total squared error of all
    Gaussian noise with the same loss, up to a relative gap of 1e-6 (1e-3 where neighbours differ by more than 1000 vectors). For
    the cells themselves (no `query`) the differences of neighbours are alike in all directions or nearly so, and little is gained
    over `ExtendedGaussian`; for queries whose answers overlap, such as cumulative counts, much is: see `errors`.

    See Also
    --------
    bayesdp.noise.CorrelatedGaussian, bayesdp.distributions.CorrelatedGaussian : the law, also for PyMC.
    bayesdp.privacy.factorization : how the shape is found.
    bayesdp.papers.subspace.base_decomposition : the shape that Theorem 3.11 of Gao, Gong and Yu is about.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Section 3.4; Edmonds, Nikolov and Ullman (2020), The Power of
    Factorization Mechanisms in Local and Central Differential Privacy.

    Examples
    --------
    Cumulative counts over eight ages, with the total known:

    >>> from bayesdp.queries import LinearQuery, Totals
    >>> import numpy as np
    >>> ages = {"age": [str(a) for a in range(8)]}
    >>> below = LinearQuery(ages, np.tril(np.ones((7, 8), dtype=int)), [f"up to {a}" for a in range(7)])
    >>> mechanism = CorrelatedGaussian(Totals(ages), mu=1.0, query=below)
    >>> for name, value in mechanism.errors().items():
    ...     print(f"{name}: {value:.1f}")
    projected Gaussian: 49.0
    extended Gaussian: 49.0
    factorization: 17.5
    lower bound for Gaussian noise: 17.5
    """

    name = "correlated-gaussian"
    _unit = "Mahalanobis"
    _law_caveats = (Fixed("Mahalanobis distance"),)
    _former = (("method", "factorization"),)

    def __post_init__(self) -> None:
        super().__post_init__()
        count, dimension = self._vectors.shape
        if count > factorization.MAX_VECTORS or dimension > factorization.MAX_DIMENSION:
            raise ValueError(
                f"query has {count} differences of neighbours in {dimension} dimensions; the shape of the noise is fitted to at most "
                f"{factorization.MAX_VECTORS} in {factorization.MAX_DIMENSION}: use ExtendedGaussian, which needs none"
            )
        self._check_spanned("its covariance would be singular")

    @cached_property
    def _factorization(self) -> factorization.Factorization:
        few = len(self._vectors) <= _FEW
        return factorization.optimal_factorization(self._vectors, tolerance=_TOLERANCES[0 if few else 1])

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
            Expected total squared errors of the projected and the extended Gaussian mechanism and of this one (``factorization``);
            ``lower bound for Gaussian noise``, below which no Gaussian noise with the stated loss gets, whatever its covariance.
        """
        same: dict[str, Any] = {**self._loss, "query": self.released_query, "neighbours": self.neighbours}
        unit = self._scale_for(1.0) ** 2
        return {
            "projected Gaussian": ProjectedGaussian(self.invariants, **same).error,
            "extended Gaussian": ExtendedGaussian(self.invariants, **same).error,
            "factorization": unit * self._factorization.error,
            "lower bound for Gaussian noise": unit * self._factorization.bound,
        }

    @cached_property
    def law(self) -> noise.CorrelatedGaussian:
        """The law of the noise."""
        scale = positive_number(self._scale_for(1.0), "the scale of the noise")
        return noise.CorrelatedGaussian(
            scale**2 * self._factorization.covariance, self.answer_invariants.coordinate_rule
        )

    @property
    def _noise_scale(self) -> float:
        return math.sqrt(float(scipy.linalg.eigvalsh(self.covariance, subset_by_index=(0, 0))[0]))

    @property
    def _measure(self) -> dict[str, Any]:
        root = scipy.linalg.cholesky(self._factorization.covariance, lower=True)

        def spherical(answers: Floats) -> Floats:
            """Coordinates in which the noise is spherical."""
            free = self.answer_invariants.coordinates(answers)
            return np.asarray(scipy.linalg.solve_triangular(root, free.T, lower=True).T)

        return {"kind": "l2", "coordinates": spherical}

    def _loss_at(self, size: float) -> Loss:
        return noise.normal_loss(self._scale_for(1.0), continuous=True)(size, self.delta)


@dataclass(frozen=True)
class SemiGaussian(SphericalNoise, SemiAdjacentAnswers):
    """Publish answers with normal noise of scale ``Delta_2(S_Semi) / mu`` on the span of the sensitivity space.

    Tables with the same invariants, at most `adjacency` substituted records apart, are told apart no better than N(0, 1) from
    N(mu, 1): mu-GDP within Semi-DP. With both margins of a table and the default adjacency of 3 the sensitivity is the
    root of 6 (a 3-cycle), or 2 where there are two rows or columns. The paper has 2 in general; see docs/CORRECTIONS.md.

    Parameters
    ----------
    mu : float
        Loss for the tables that are protected, by Gaussian differential privacy.

    See Also
    --------
    ProjectedGaussian : the same law, for neighbours that differ in one record, whether or not the invariants tell them apart.
    bayesdp.noise.ProjectedGaussian, bayesdp.distributions.ProjectedGaussian : the law, also for PyMC; it takes sigma.
    bayesdp.significance.odds_ratio_test_from_release : for 2 x 2 tables.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Algorithm 1 and Proposition 28.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> margins = Margins(table, ["county"], ["education"])
    >>> for mechanism in (SemiGaussian(margins, mu=0.5), SemiGaussian(margins, mu=0.5, convention="paper")):
    ...     row = mechanism.guarantee.pairs[0]
    ...     print(f"sigma {mechanism.sigma:.4f}: mu = {row.loss['mu']:.4f} at {row.size:.4f}")
    sigma 4.8990: mu = 0.5000 at 2.4495
    sigma 4.0000: mu = 0.6124 at 2.4495
    """

    mu: float

    name = "semi-gaussian"

    def __post_init__(self) -> None:
        self._set(mu=positive_real(self.mu, "mu"))
        super().__post_init__()

    @property
    def sigma(self) -> float:
        """The scale of the noise, in counts, or in multiples of the unit of the query."""
        return gaussian_sigma_for_mu(self.mu, self.sensitivity)

    def _loss_at(self, size: float) -> GaussianDP:
        return GaussianDP(self.mu * size / self.sensitivity)
