"""What the Gaussian mechanisms of subspace differential privacy share: calibration of one scale.

The extended Gaussian mechanism: the sensitivity that is left within the noise space sets the scale.

The projected Gaussian mechanism: real noise that keeps the invariants.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property

from bayesdp._validate import choice
from bayesdp.mechanisms._shared import one_statement
from bayesdp.mechanisms.subspace.base import SubspaceMechanism
from bayesdp.noise import ProjectedGaussian as Law
from bayesdp.privacy import (
    Difference,
    Guarantee,
    gaussian_pairs,
    gaussian_sigma,
    gaussian_sigma_for_mu,
    gaussian_sigma_for_rho,
    lemma_3_4_sigma,
    projected_sensitivity,
    query_sensitivity,
)
from bayesdp.privacy.loss import Loss
from bayesdp.privacy.losses import LossAt, stated_loss
from bayesdp.sensitivities.norms import DifferenceNorm

CALIBRATIONS = ("analytic", "lemma 3.4")
"""How (epsilon, delta) become a scale: exactly (Balle and Wang, 2018), or by the lemma of Gao, Gong and Yu."""

_WAYS = (("rho",), ("epsilon", "delta"), ("mu",))


@dataclass(frozen=True)
class GaussianStatement(SubspaceMechanism):
    """A subspace mechanism whose loss is stated for Gaussian noise: by rho, by epsilon and delta, or by mu."""

    rho: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    mu: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._stated()

    def _stated(self) -> tuple[str, ...]:
        given = {"rho": self.rho, "epsilon": self.epsilon, "delta": self.delta, "mu": self.mu}
        return one_statement(given, _WAYS)

    def _scale_for(self, sensitivity: float) -> float:
        """The Gaussian scale that has the stated loss at a difference of the given l2 size."""
        if self.rho is not None:
            return gaussian_sigma_for_rho(self.rho, sensitivity)
        if self.mu is not None:
            return gaussian_sigma_for_mu(self.mu, sensitivity)
        assert self.epsilon is not None  # one of the three ways was taken
        assert self.delta is not None
        return gaussian_sigma(self.epsilon, self.delta, sensitivity)

    def _loss(self) -> Loss:
        """The loss as it is stated."""
        return stated_loss({name: getattr(self, name) for name in self._stated()})


@dataclass(frozen=True)
class IsotropicGaussian(GaussianStatement):
    """Independent normal noise of one scale in orthonormal coordinates of the noise space."""

    calibration: str = field(default="analytic", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        choice(self.calibration, CALIBRATIONS, "calibration")
        if self.calibration != "analytic":
            if self.epsilon is None:
                raise ValueError(
                    "calibration='lemma 3.4' turns epsilon and delta into a scale; state the loss by these"
                )
            _ = self.sigma  # refuses now, not at the release, where the lemma does not hold

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """The l2 distance between the answers of neighbouring tables that the scale is made for."""

    @cached_property
    def sigma(self) -> float:
        """The scale of the noise, in the unit of the answers."""
        if self.calibration == "analytic":
            return self._scale_for(self.sensitivity)
        assert self.epsilon is not None
        assert self.delta is not None
        return lemma_3_4_sigma(self.epsilon, self.delta, self.sensitivity)

    @property
    def error(self) -> float:
        """Expected total squared error of the answers, ``dimension * sigma**2`` (Corollaries 3.5 and 3.6)."""
        return self.answer_invariants.dimension * self.sigma**2

    @property
    def law(self) -> Law:
        """The law of the noise."""
        return Law(self.sigma)

    @property
    def _noise_scale(self) -> float:
        return self.sigma

    @property
    def _own_guarantee(self) -> Guarantee:
        loss = self._loss()
        return Guarantee(loss.kind, LossAt(loss, self.sensitivity), "l2")

    @property
    def _difference_norm(self) -> DifferenceNorm:
        # What a kept difference changes is in the noise space: its l2 length is that of its projection.
        return DifferenceNorm(self.released_query, self.invariants, self.neighbours, self._neighbours_apart[0], "l2")

    def _loss_at(self, size: float) -> Loss:
        [row] = gaussian_pairs(self.sigma, [Difference("kept", size, size)], delta=self.delta, continuous=True)
        return row.loss


@dataclass(frozen=True)
class ExtendedGaussian(IsotropicGaussian):
    """Publish answers with normal noise of scale sigma on the space that the invariants leave free.

    The same law as that of `ProjectedGaussian`, with a scale that is at most as large: it protects ``Q^T W x``, the
    answers projected onto the noise space, whose sensitivity is at most that of the answers ``W x``. What the invariants
    say about the answers is published exactly in any case.

    Parameters
    ----------
    invariants : Query, iterable of Query, or Invariants
        What is published exactly.
    rho : float, optional
        zCDP loss for neighbouring tables.
    epsilon, delta : float, optional
        The same by approximate differential privacy.
    mu : float, optional
        The same by Gaussian differential privacy.
    query : Query, optional
        What the noise is added to; the cells themselves if left out.
    neighbours : {"substitution", "add-remove"}
        Neighbouring tables: one record changes its cell, or one record comes or goes.
    calibration : {"analytic", "lemma 3.4"}
        As in `ProjectedGaussian`.

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

    @cached_property
    def sensitivity(self) -> float:
        """The largest l2 distance between the projected answers of neighbouring tables, in counts."""
        return projected_sensitivity(self.released_query, self.invariants, "l2", self.neighbours)


@dataclass(frozen=True)
class ProjectedGaussian(IsotropicGaussian):
    """Publish answers with independent normal noise of scale sigma, projected so that it changes no invariant.

    The projection is post-processing of the unprojected noise, and the noise of the projection is again
    normal of scale sigma in orthonormal coordinates. The loss is stated for neighbouring tables, and
    calibrated exactly for the unprojected noise: by the profile of the Gaussian mechanism for `epsilon` and `delta` (Balle and
    Wang, 2018), and not by the paper's Lemma 3.4, which is too small for small delta. See docs/CORRECTIONS.md. The projected
    noise may lose less between neighbours; the guarantee's row on them states what it does lose.

    Released values stand on a public grid, multiples of `grid`, so that the digits of floating-point noise
    tell nothing about the counts. The rounded noise is moved to the nearest grid points that keep the
    invariants, by about a millionth of sigma: the published table has its totals exactly.

    Parameters
    ----------
    invariants : Query, iterable of Query, or Invariants
        What is published exactly.
    rho : float, optional
        zCDP loss for neighbouring tables.
    epsilon, delta : float, optional
        The same by approximate differential privacy.
    mu : float, optional
        The same by Gaussian differential privacy.
    query : Query, optional
        What the noise is added to; the cells themselves if left out.
    neighbours : {"substitution", "add-remove"}
        Neighbouring tables: one record changes its cell (l2 distance the root of 2 on the cells; the number of
        records is public), or one record comes or goes (1).
    calibration : {"analytic", "lemma 3.4"}
        How `epsilon` and `delta` become a scale. The lemma's is refused where its exact delta exceeds the stated one.

    See Also
    --------
    ExtendedGaussian : less noise, from the sensitivity that is left within the noise space.
    bayesdp.noise.ProjectedGaussian : the law of the noise.
    bayesdp.distributions.ProjectedGaussian : that law as a PyMC distribution; it takes sigma.

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
    def sensitivity(self) -> float:
        """The largest l2 distance between the answers of neighbouring tables, in counts."""
        return query_sensitivity(self.released_query, "l2", self.neighbours)

    @cached_property
    def _neighbours_apart(self) -> tuple[float, str]:
        # The noise hides what the invariants leave free of a difference, which may be much shorter than the difference.
        try:
            free = projected_sensitivity(self.released_query, self.invariants, "l2", self.neighbours)
        except NotImplementedError:  # too many pairs of cells to compare
            return self.sensitivity, "at most"
        return (self.sensitivity if free >= self.sensitivity * (1.0 - 1e-12) else free), ""
