"""Real noise on the space that the invariants leave free, on a public grid: Gaussian, and Laplace of an l1 or another norm."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from bayesdp import noise
from bayesdp._arrays import Floats
from bayesdp._validate import MAX_COUNT, choice, positive_number, positive_real
from bayesdp.invariants import Invariants
from bayesdp.lattices.integers import round_to_lattice
from bayesdp.mechanisms.base import AdditiveMechanism, GaussianStatement, PureStatement
from bayesdp.mechanisms.protects import (
    FittedToNeighbours,
    Neighbouring,
    SemiAdjacentAnswers,
    SemiAdjacentTables,
    WithinNoiseSpace,
)
from bayesdp.noise.subspace.subspace_norm import NORMS
from bayesdp.privacy import (
    DIFFERENCES,
    FLOATING_POINT_CAVEAT,
    Difference,
    factorization,
    gaussian_sigma,
    gaussian_sigma_for_mu,
    projected_sensitivity,
)
from bayesdp.privacy.caveats import Fixed, Rounded
from bayesdp.privacy.losses import GaussianDP, Loss, PureDP
from bayesdp.privacy.words import Statement

_GRID_BITS = 20
"""Released values are multiples of the noise scale, rounded down to a power of two, times 2**-20, or of 1 if less."""

_FEW, _TOLERANCES = 1000, (1e-6, 1e-3)
"""Up to this many differences of neighbours the shape is found to the first relative gap, else to the second."""


def grid_for(scale: float) -> float:
    """The grid step for noise of a scale: a power of two of at most 1, so that counts are on it."""
    return math.ldexp(1.0, min(math.frexp(scale)[1] - 1 - _GRID_BITS, 0))


def on_grid(noise: Floats, grid: float, invariants: Invariants) -> Floats:
    """Noise of shape ``(..., *table)`` moved to nearby multiples of `grid`, a power of two, that change no invariant."""
    # ValueError if noise is 2**53 steps of the grid or more: float64 would round it.
    if np.max(np.abs(noise), initial=0.0) >= MAX_COUNT * grid:
        raise ValueError(
            f"the noise must be smaller than {MAX_COUNT * grid:.6g}, 2**53 steps of its grid, but it is not: take a smaller scale "
            "(a larger loss)"
        )
    whole = round_to_lattice(np.asarray(noise / grid, dtype=np.float64), invariants)
    return np.asarray(grid * whole, dtype=np.float64)


def grid_caveat(grid: float) -> Rounded:
    """What a guarantee says of the grid."""
    return Rounded(round(math.log2(grid)))


@dataclass(frozen=True)
class RealNoise(AdditiveMechanism):
    """Real noise on the space that the invariants leave free, moved to a public grid."""

    @property
    def _noise_scale(self) -> float:
        """The smallest scale of the noise, for the grid of released values."""
        law: Any = self.law
        scale: float = law.scale
        return 1.0 / scale if law.scale_name == "epsilon" else scale

    @property
    def grid(self) -> float:
        """Released values are multiples of this power of two, at most 1 so that counts are on it.

        The digits of floating-point noise then tell nothing about the counts. Rounded noise is moved to the nearest points that
        keep the invariants, by about a millionth of its scale: what is published has its totals exactly.
        """
        return grid_for(self._noise_scale)

    @property
    def error(self) -> Any:
        """Expected total squared error of the answers; None where it is not known."""
        law: Any = self.law
        relations = self.answer_invariants
        covariance = law._covariance(relations)  # of coordinates; a number for that times the identity
        return relations.dimension * covariance if isinstance(covariance, float) else float(np.trace(covariance))

    @property
    def _noise_step(self) -> float:
        return self.grid

    @property
    def _drawing_caveats(self) -> tuple[Statement, ...]:
        return (FLOATING_POINT_CAVEAT, grid_caveat(self.grid))

    def _raw(self, rng: np.random.Generator | None, size: int, method: str) -> Floats:
        """Noise before it is put on the grid, shape ``(size, *answers)``."""
        return np.asarray(super()._draw(rng, size, method), dtype=np.float64)

    def _draw(self, rng: np.random.Generator | None, size: int, method: str) -> Floats:
        return on_grid(self._raw(rng, size, method), self.grid, self.answer_invariants)


@dataclass(frozen=True)
class RealGaussianStatement(GaussianStatement, RealNoise):
    """A loss that is stated for Gaussian noise on real numbers: epsilon and delta are calibrated exactly (Balle and Wang, 2018).

    Parameters
    ----------
    mu : float, optional
        The same by Gaussian differential privacy.
    """

    mu: float | None = None

    _ways = (("rho",), ("epsilon", "delta"), ("mu",))

    def _scale_for(self, size: float) -> float:
        if self.mu is not None:
            return gaussian_sigma_for_mu(self.mu, size)
        if self.epsilon is not None and self.delta is not None:
            return gaussian_sigma(self.epsilon, self.delta, size)
        return super()._scale_for(size)


@dataclass(frozen=True)
class SphericalNoise(RealNoise):
    """Independent normal noise of one scale in orthonormal coordinates of the noise space."""

    _unit = "l2"
    _former = (("calibration", "analytic"),)

    @abstractmethod
    def _scale_for(self, size: float) -> float:
        """The scale of noise that has the stated loss at a difference of this l2 size."""

    @cached_property
    def sigma(self) -> float:
        """The scale of the noise, in the unit of the answers."""
        return self._scale_for(self._stated_size)

    @property
    def law(self) -> noise.ProjectedGaussian:
        """The law of the noise."""
        return noise.ProjectedGaussian(self.sigma)


@dataclass(frozen=True)
class ExtendedGaussian(RealGaussianStatement, SphericalNoise, WithinNoiseSpace):
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
class ProjectedGaussian(RealGaussianStatement, SphericalNoise, Neighbouring):
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
    over `ExtendedGaussian`; for queries whose answers overlap, such as cumulative counts, much is.

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
    >>> for kind in (ProjectedGaussian, ExtendedGaussian, CorrelatedGaussian):
    ...     print(f"{kind(Totals(ages), mu=1.0, query=below).error:.1f}")
    49.0
    49.0
    17.5
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
        scale, free = self._scale_for(1.0), self.answer_invariants.coordinates
        # Coordinates in which the noise is spherical.
        return {"kind": "l2", "coordinates": lambda answers: scale * self.law.white(free(answers).T).T}

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

    def _scale_for(self, size: float) -> float:
        return gaussian_sigma_for_mu(self.mu, size)

    def _loss_at(self, size: float) -> GaussianDP:
        return GaussianDP(self.mu * size / self.sensitivity)


@dataclass(frozen=True)
class LaplaceNoise(PureStatement, RealNoise):
    """Laplace noise of a scale b."""

    @property
    def b(self) -> float:
        """The scale of the noise, ``sensitivity / epsilon``, in the unit of the answers."""
        return self._stated_size / self.epsilon

    def _loss_at(self, size: float) -> PureDP:
        return PureDP(size / self.b)


@dataclass(frozen=True)
class ProjectedNoise(LaplaceNoise):
    """Independent Laplace noise, projected onto the space that the invariants leave free."""

    _law_caveats = (Fixed("projected"),)

    @property
    def law(self) -> noise.ProjectedLaplace:
        """The law of the noise."""
        return noise.ProjectedLaplace(self.b)


@dataclass(frozen=True)
class ExtendedLaplace(LaplaceNoise, WithinNoiseSpace):
    """Publish answers with Laplace noise that is independent in orthonormal coordinates ``Q`` of the noise space.

    The scale is ``b = sensitivity / epsilon`` with the l1 sensitivity of ``Q^T W x``. That depends on the coordinates,
    and so does the law of the noise: the release carries the rule that fixes them (`Invariants.coordinate_rule`).
    Unlike for the Gaussian, nothing says that this is less noise than that of `ProjectedLaplace`; compare `error`.

    Raises
    ------
    NotImplementedError
        If the table is too large for the sensitivity to be computed exactly.

    See Also
    --------
    bayesdp.noise.ExtendedLaplace, bayesdp.distributions.ExtendedLaplace : the law, also for PyMC; it takes b.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Corollary 3.9.

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> mechanism = ExtendedLaplace(Totals({"county": ["Alpha", "Beta", "Gamma"]}), epsilon=0.5)
    >>> print(f"{mechanism.sensitivity:.4f} {mechanism.law}")
    1.9319 extended-laplace b=3.8637 coordinates=helmert-1
    """

    name = "extended-laplace"
    _law_caveats = (Fixed("published coordinates"),)

    @property
    def _measure(self) -> dict[str, Any]:
        relations = self.answer_invariants
        helmert = relations.nested is not None and len(self.released_query.parts) == 1
        # Without relations, the answers themselves.
        return {"kind": "l1", "coordinates": relations.coordinates if relations.rank else None, "helmert": helmert}

    @property
    def law(self) -> noise.ExtendedLaplace:
        """The law of the noise."""
        return noise.ExtendedLaplace(self.b, self.answer_invariants.coordinate_rule)


@dataclass(frozen=True)
class ProjectedLaplace(ProjectedNoise, Neighbouring):
    """Publish answers with independent Laplace noise, projected so that it changes no invariant.

    The noise before the projection has the scale ``b = sensitivity / epsilon`` in every answer; the projection is
    post-processing. The noise after it is not a product, nor what conditioning on the invariants would give: its exact
    density is that of `bayesdp.noise.ProjectedLaplace`. It can be computed where no invariant shares a cell with another; elsewhere
    `logp` raises `NotImplementedError`, and posteriors have what the projection removed as a latent variable (`bayesdp.observe`
    does that).

    See Also
    --------
    ExtendedLaplace : independent noise in orthonormal coordinates of the noise space.
    bayesdp.noise.ProjectedLaplace, bayesdp.distributions.ProjectedLaplace : the law, also for PyMC; it takes b.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Corollary 3.8.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesdp.queries import Totals
    >>> mechanism = ProjectedLaplace(Totals({"county": ["Alpha", "Beta", "Gamma"]}), epsilon=0.5)
    >>> mechanism.b
    4.0
    >>> float(mechanism.release([20, 10, 5], rng=np.random.default_rng(1)).values.sum())
    35.0
    """

    name = "projected-laplace"


@dataclass(frozen=True)
class SemiProjectedLaplace(ProjectedNoise, SemiAdjacentTables):
    """Publish counts with independent Laplace noise of scale ``Delta_1(S_Semi) / epsilon``, projected onto the span.

    The l1 mechanism (Algorithm 4), and post-processing. `SemiNorm` with the norm l1 has less noise at the same loss.

    See Also
    --------
    bayesdp.papers.semi_dp.semi_project : the same for any additive noise, without a likelihood.
    bayesdp.noise.ProjectedLaplace, bayesdp.distributions.ProjectedLaplace : the law, also for PyMC; it takes b.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Proposition 26 and Algorithm 4.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> mechanism = SemiProjectedLaplace(Margins(table, ["county"], ["education"]), epsilon=0.5)
    >>> mechanism.b, mechanism.error
    (12.0, 1152.0)
    """

    name = "semi-projected-laplace"


@dataclass(frozen=True)
class SemiNorm(PureStatement, RealNoise, SemiAdjacentAnswers):
    """Publish answers with noise of density ``exp(-epsilon ||z|| / Delta(S_Semi))`` on the span of the sensitivity space.

    With both margins of a table and two records the l1 norm is the best of the three, 6 to 13 percent above `SemiKNorm` in squared
    error. With three records, the default, the l-infinity norm is that of `SemiKNorm` for 3 x 3 tables, and the l1 norm the best of
    the three from 4 x 4 on. Noise is drawn exactly: for l2 under any invariants; for l1 and l-infinity under disjoint totals, both
    margins of a table (10 x 10 in tens of milliseconds) and, by rejection, other small tables. Where no exact sampler is
    practical, `noise`, `release` and `guarantee` say so by a `NotImplementedError`.

    Parameters
    ----------
    norm : {"l1", "l2", "linf"}, default "l1"

    See Also
    --------
    SemiLatticeLaplace : the same on integers, l1 and l2.
    SemiProjectedLaplace : independent Laplace noise, projected: more of it than here.
    bayesdp.noise.SubspaceNorm, bayesdp.distributions.SubspaceNorm : the law, also for PyMC.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Proposition 7 and Algorithms 4 to 6, on the span.

    Examples
    --------
    Expected squared error of a 3 x 3 table with both margins, in units of ``1 / epsilon**2``, for two records:

    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> margins = Margins(table, ["county"], ["education"])
    >>> for norm in ("l1", "l2", "linf"):
    ...     print(norm, round(SemiNorm(margins, epsilon=1.0, norm=norm, adjacency=2).error, 1))
    l1 50.7
    l2 80.0
    linf 64.6
    """

    norm: str = "l1"

    name = "semi-norm"

    def __post_init__(self) -> None:
        choice(self.norm, NORMS, "norm")
        super().__post_init__()

    @property
    def rate(self) -> float:
        """The rate of the noise per count, ``epsilon / sensitivity``."""
        return self.epsilon / self.sensitivity

    @property
    def law(self) -> noise.SubspaceNorm:
        """The law of the noise."""
        return noise.SubspaceNorm(self.rate, self.norm)

    @property
    def error(self) -> float | None:
        """Expected total squared error of the answers, or None where it has no closed form."""
        variance = self.law.variance(self.answer_invariants.frame.shape, self.answer_invariants)
        return None if variance is None else float(variance.sum())

    @property
    def _unit(self) -> str:
        return self.norm

    def _loss_at(self, size: float) -> PureDP:
        return PureDP(self.rate * size)

    def _size_of(self, difference: Difference) -> float | None:
        if self.norm == "linf":
            # Each named difference changes its cells by one.
            return 1.0 if difference in DIFFERENCES.values() else None
        return difference.size(self.norm)
