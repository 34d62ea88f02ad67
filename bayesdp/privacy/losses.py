"""The definitions of privacy as values: `PureDP` (epsilon), `ApproximateDP` (epsilon, delta), `ZCDP` (rho), `GaussianDP` (mu)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, Self

from bayesdp import _validate
from bayesdp.privacy._loss_numbers import delta_of_epsilon, epsilon_of_delta, group_delta, mu_of_epsilon
from bayesdp.privacy.gaussian import gaussian_delta, gaussian_epsilon
from bayesdp.privacy.loss import LOSS_KINDS, NO_PROTECTION, Loss
from bayesdp.privacy.zcdp import rho_to_delta, rho_to_epsilon

__all__ = ["NO_PROTECTION", "ZCDP", "ApproximateDP", "GaussianDP", "Loss", "PureDP", "loss_from"]


@dataclass(frozen=True, eq=False)
class PureDP(Loss):
    """Pure differential privacy: no event is more than ``exp(epsilon)`` times as probable for one table as for the other.

    Parameters
    ----------
    epsilon : float
        Zero or greater.

    Examples
    --------
    >>> print(PureDP(0.5).group(3), "|", PureDP(0.5).compose(PureDP(0.25)))
    epsilon = 1.5 | epsilon = 0.75
    """

    epsilon: float
    kind: ClassVar[str] = "pure"

    def group(self, k: int) -> Self:
        """``k epsilon``."""
        return type(self)(_validate.positive_integer(k, "k") * self.epsilon)

    def compose(self, other: Loss) -> Loss:
        """The sum of the epsilons; with epsilon and delta, these of the pair (epsilon, 0)."""
        if isinstance(other, PureDP):
            return PureDP(self.epsilon + other.epsilon)
        if isinstance(other, ApproximateDP):
            return other.compose(self)
        return self._with_part(other)

    def at(self, delta: float) -> ApproximateDP:
        """The smallest epsilon at a delta, by the trade-off function: see `ApproximateDP.at`."""
        return ApproximateDP(self.epsilon, 0.0).at(delta)

    def delta_at(self, epsilon: float) -> float:
        """See `ApproximateDP.delta_at`."""
        return ApproximateDP(self.epsilon, 0.0).delta_at(epsilon)

    def _converted(self, kind: str) -> Loss | None:
        if kind == "approximate":
            return ApproximateDP(self.epsilon, 0.0)
        return ZCDP(0.5 * self.epsilon**2) if kind == "zcdp" else GaussianDP(mu_of_epsilon(self.epsilon))


@dataclass(frozen=True, eq=False)
class ApproximateDP(Loss):
    """Approximate differential privacy: as pure, but for events of probability delta.

    Parameters
    ----------
    epsilon : float
        Zero or greater.
    delta : float
        Zero or greater. 1 and more are true of every mechanism; such values occur in sums, and in files.

    Examples
    --------
    >>> print(ApproximateDP(1.0, 1e-4).group(3))
    epsilon = 3, delta = 0.00111073
    >>> print(ApproximateDP(200.0, 1e-6).group(6))
    no protection by this bound, because its delta is 1 or more
    """

    epsilon: float
    delta: float
    kind: ClassVar[str] = "approximate"

    @property
    def says_nothing(self) -> bool:
        """Whether delta is 1 or more."""
        return self.delta >= 1.0

    def group(self, k: int) -> Self:
        """``k epsilon``, with ``delta (1 + e**epsilon + ... + e**((k - 1) epsilon))``, at most 1.

        By the definition k times. The sum is ``(e**(k epsilon) - 1) / (e**epsilon - 1)``.
        """
        count = _validate.positive_integer(k, "k")
        return type(self)(count * self.epsilon, group_delta(self.epsilon, self.delta, count))

    def compose(self, other: Loss) -> Loss:
        """The sums of the epsilons and of the deltas, the latter at most 1 (basic composition)."""
        if isinstance(other, PureDP):
            return ApproximateDP(self.epsilon + other.epsilon, min(self.delta, 1.0))
        if isinstance(other, ApproximateDP):
            return ApproximateDP(self.epsilon + other.epsilon, min(self.delta + other.delta, 1.0))
        return self._with_part(other)

    def at(self, delta: float) -> ApproximateDP:
        """The smallest epsilon that follows at a delta no smaller than its own.

        Examples
        --------
        >>> print(ApproximateDP(1.0, 1e-6).at(0.1))
        epsilon = 0.852907, delta = 0.1
        """
        asked = _validate.probability(delta, "delta")
        return ApproximateDP(epsilon_of_delta(self.epsilon, self.delta, asked), asked)

    def delta_at(self, epsilon: float) -> float:
        """The smallest delta that follows at an epsilon; see `at`."""
        return delta_of_epsilon(self.epsilon, self.delta, epsilon)

    def _follows_from(self, other: Loss) -> bool:
        return other.delta_at(self.epsilon) <= self.delta

    def _converted(self, kind: str) -> Loss | None:
        if self.delta > 0.0:
            return None
        alone = PureDP(self.epsilon)
        return alone if kind == "pure" else alone._converted(kind)


@dataclass(frozen=True, eq=False)
class ZCDP(Loss):
    """Zero-concentrated differential privacy: the Renyi divergence of every order alpha is at most ``rho alpha``.

    Parameters
    ----------
    rho : float
        Zero or greater.

    Examples
    --------
    >>> print(ZCDP(0.1).group(3), "|", ZCDP(0.5).at(1e-6))
    rho = 0.9 | epsilon = 5.22153, delta = 1e-06
    """

    rho: float
    kind: ClassVar[str] = "zcdp"

    def group(self, k: int) -> Self:
        """``k**2 rho`` (Bun and Steinke, 2016, Proposition 1.9)."""
        return type(self)(_validate.positive_integer(k, "k") ** 2 * self.rho)

    def compose(self, other: Loss) -> Loss:
        """The sum of the rhos."""
        if isinstance(other, ZCDP):
            return ZCDP(self.rho + other.rho)
        return self._with_part(other)

    def at(self, delta: float) -> ApproximateDP:
        """By the tight conversion of `bayesdp.privacy.rho_to_epsilon`, an upper bound."""
        return ApproximateDP(rho_to_epsilon(self.rho, delta), delta)

    def delta_at(self, epsilon: float) -> float:
        """By `bayesdp.privacy.rho_to_delta`, an upper bound."""
        return rho_to_delta(self.rho, epsilon)


@dataclass(frozen=True, eq=False)
class GaussianDP(Loss):
    """Gaussian differential privacy: no easier to tell apart than two normal laws of variance 1 whose means are mu apart.

    Parameters
    ----------
    mu : float
        Zero or greater.

    Examples
    --------
    >>> print(GaussianDP(0.3).compose(GaussianDP(0.4)), "|", GaussianDP(1.0).at(1e-6))
    mu = 0.5 | epsilon = 4.88655, delta = 1e-06
    """

    mu: float
    kind: ClassVar[str] = "gdp"

    def group(self, k: int) -> Self:
        """``k mu`` (Dong, Roth and Su, 2022, Theorem 2.14)."""
        return type(self)(_validate.positive_integer(k, "k") * self.mu)

    def compose(self, other: Loss) -> Loss:
        """The root of the sum of the squares (Dong, Roth and Su, 2022, Corollary 3.3): exact for normal noise."""
        if isinstance(other, GaussianDP):
            return GaussianDP(math.hypot(self.mu, other.mu))
        return self._with_part(other)

    def at(self, delta: float) -> ApproximateDP:
        """Exact (Balle and Wang, 2018, Theorem 8)."""
        return ApproximateDP(gaussian_epsilon(delta, 1.0, self.mu) if self.mu > 0.0 else 0.0, delta)

    def delta_at(self, epsilon: float) -> float:
        """Exact (Balle and Wang, 2018, Theorem 8)."""
        return gaussian_delta(epsilon, 1.0, self.mu) if self.mu > 0.0 else 0.0

    def _converted(self, kind: str) -> Loss | None:
        return ZCDP(0.5 * self.mu**2) if kind == "zcdp" else None


_KINDS: Mapping[str, type[Loss]] = {own.kind: own for own in (PureDP, ZCDP, ApproximateDP, GaussianDP)}


def loss_from(kind: str, parameters: Mapping[str, float]) -> Loss:
    """The loss of a kind, out of a mapping that may state others too.

    Parameters
    ----------
    kind : {"pure", "zcdp", "approximate", "gdp"}
    parameters : mapping
        Names among ``epsilon``, ``delta``, ``rho``, ``mu`` to numbers.

    Raises
    ------
    ValueError
        If the kind is unknown or a parameter of it is missing.

    Examples
    --------
    >>> loss_from("zcdp", {"rho": 0.5, "epsilon": 3.0, "delta": 1e-3})
    ZCDP(rho=0.5)
    """
    loss = _KINDS[_validate.choice(kind, tuple(_KINDS), "kind")]
    names = [item.name for item in fields(loss)]
    missing = [name for name in names if name not in parameters]
    if missing:
        raise ValueError(
            f"parameters of {LOSS_KINDS[kind]} must include {', '.join(missing)}, got {', '.join(parameters)}"
        )
    return loss(*(parameters[name] for name in names))
