"""What the Gaussian mechanisms of subspace differential privacy share: calibration of one scale."""

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
)
from bayesdp.privacy.loss import Loss
from bayesdp.privacy.stated_losses import LossAt, stated_loss
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
