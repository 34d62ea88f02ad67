"""What the Laplace mechanisms of subspace differential privacy share: calibration of one scale."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from bayesdp._validate import positive_real
from bayesdp.mechanisms.subspace.base import SubspaceMechanism
from bayesdp.privacy.losses import PureDP


@dataclass(frozen=True)
class SubspaceLaplace(SubspaceMechanism):
    """A subspace mechanism with Laplace noise: pure differential privacy at epsilon."""

    epsilon: float

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "epsilon", positive_real(self.epsilon, "epsilon"))

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """The l1 distance between the answers of neighbouring tables that the scale is made for."""

    @property
    def b(self) -> float:
        """The scale of the noise, ``sensitivity / epsilon``, in the unit of the answers."""
        return self.sensitivity / self.epsilon

    @property
    def error(self) -> float:
        """Expected total squared error of the answers, ``2 * dimension * b**2``."""
        return 2.0 * self.answer_invariants.dimension * self.b**2

    @property
    def _noise_scale(self) -> float:
        return self.b

    def _loss_at(self, size: float) -> PureDP:
        return PureDP(size / self.b)
