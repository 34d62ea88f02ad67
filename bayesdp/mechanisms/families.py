"""What families of noise share: how a loss is stated, and real noise on a public grid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bayesdp._validate import MAX_COUNT, positive_real, probability
from bayesdp.invariants import Invariants
from bayesdp.lattices.integers import round_to_lattice
from bayesdp.mechanisms.base import AdditiveMechanism
from bayesdp.noise.arrays import positive_number
from bayesdp.privacy import (
    FLOATING_POINT_CAVEAT,
    gaussian_sigma,
    gaussian_sigma_for_mu,
    gaussian_sigma_for_rho,
    rho_within,
)
from bayesdp.privacy.caveats import Rounded
from bayesdp.privacy.words import Statement

type Floats = npt.NDArray[np.float64]

_GRID_BITS = 20
"""Released values are multiples of the noise scale, rounded down to a power of two, times 2**-20, or of 1 if less."""


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


def laplace_scale(sensitivity: float, epsilon: float, name: str = "sensitivity / epsilon") -> float:
    """The scale `sensitivity / epsilon`, rounded up: exact noise of one rounded down would cost a little more than epsilon."""
    b = positive_number(sensitivity / epsilon, name)
    return b if Fraction(b) * Fraction(epsilon) >= Fraction(sensitivity) else math.nextafter(b, math.inf)


def one_statement(given: dict[str, float | None], ways: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """Check that the loss is stated in exactly one of the `ways`, and that its numbers are valid; return that way."""
    # `given` has each parameter with its value, None where it was left out; a way has the names that belong together.
    stated = tuple(name for name, value in given.items() if value is not None)
    if stated not in ways:
        known = " or ".join(" and ".join(f"{name}=" for name in way) for way in ways)
        raise ValueError(f"state the loss by {known}, and by one of these only; got {', '.join(stated) or 'none'}")
    for name in stated:
        if name == "delta":
            probability(given[name], name)
        else:
            positive_real(given[name], name)
    return stated


def stated_loss_of(mechanism: Any, ways: tuple[tuple[str, ...], ...]) -> dict[str, float]:
    """The fields that state the loss, which must be in exactly one of the `ways`."""
    given = {name: getattr(mechanism, name) for way in ways for name in way}
    return {name: float(given[name]) for name in one_statement(given, ways)}


@dataclass(frozen=True)
class PureStatement(AdditiveMechanism):
    """Pure differential privacy at epsilon.

    Parameters
    ----------
    epsilon : float
        Loss for the tables that are protected.
    """

    epsilon: float

    _checked: ClassVar[staticmethod[[Any, str], float]] = staticmethod(positive_real)

    def __post_init__(self) -> None:
        self._set(epsilon=self._checked(self.epsilon, "epsilon"))
        super().__post_init__()


@dataclass(frozen=True)
class GaussianStatement(AdditiveMechanism):
    """A loss that is stated for Gaussian noise on integers.

    Parameters
    ----------
    rho : float, optional
        zCDP loss for the tables that are protected.
    epsilon, delta : float, optional
        The same by approximate differential privacy.
    """

    rho: float | None = None
    epsilon: float | None = None
    delta: float | None = None

    _ways: ClassVar[tuple[tuple[str, ...], ...]] = (("rho",), ("epsilon", "delta"))
    _unit = "l2"

    def __post_init__(self) -> None:
        self._set(**stated_loss_of(self, self._ways))
        super().__post_init__()

    def _scale_for(self, size: float) -> float:
        """The scale of noise that has the stated loss at a difference of this l2 size."""
        if self.rho is not None:
            return gaussian_sigma_for_rho(self.rho, size)
        assert self.epsilon is not None  # one of the ways was taken
        assert self.delta is not None
        return gaussian_sigma_for_rho(rho_within(self.epsilon, self.delta), size)


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
    def _noise_step(self) -> float:
        return self.grid

    @property
    def _drawing_caveats(self) -> tuple[Statement, ...]:
        return (FLOATING_POINT_CAVEAT, grid_caveat(self.grid))

    def _raw(self, rng: np.random.Generator | None, size: int, method: str) -> npt.NDArray[np.float64]:
        """Noise before it is put on the grid, shape ``(size, *answers)``."""
        return np.asarray(super()._draw(rng, size, method), dtype=np.float64)

    def _draw(self, rng: np.random.Generator | None, size: int, method: str) -> npt.NDArray[np.float64]:
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
