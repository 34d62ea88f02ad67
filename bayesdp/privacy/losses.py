"""A privacy loss as a value: what one definition of privacy states for two tables, and what follows from it.

Four definitions, each a small class: `PureDP` (epsilon), `ApproximateDP` (epsilon, delta), `ZCDP` (rho) and `GaussianDP` (mu).
Everything that is done with a loss stands here once: several steps (`Loss.group`), several releases (`Loss.compose`), its epsilon
at a delta (`Loss.at`), another definition (`Loss.to`), which of two says more (`Loss.implies`), and its text.

A delta of 1 is true of every mechanism. Such a loss says nothing, and its text says so; it is never printed as a number.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, Self

from scipy.special import ndtri_exp

from bayesdp import _validate
from bayesdp.privacy.gaussian import gaussian_delta, gaussian_epsilon
from bayesdp.privacy.zcdp import rho_to_delta, rho_to_epsilon

__all__ = ["NO_PROTECTION", "ZCDP", "ApproximateDP", "GaussianDP", "Loss", "PureDP", "loss_from"]

NO_PROTECTION = "no protection by this bound, because its delta is 1 or more"
"""The text of a loss that is true of every mechanism."""

_LARGEST_EXPONENT = 700.0
"""Beyond it exp(x) is no binary64 number, and 1 + exp(x) is exp(x) to the last bit."""


@dataclass(frozen=True)
class Loss(ABC):
    """What one definition of privacy states for two tables."""

    kind: ClassVar[str]
    """The definition, as guarantees and files name it."""

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters by name.

        Examples
        --------
        >>> ApproximateDP(1.0, 1e-6).parameters
        {'epsilon': 1.0, 'delta': 1e-06}
        """
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def __post_init__(self) -> None:
        for name, value in self.parameters.items():
            object.__setattr__(self, name, _validate.nonnegative_real(value, name))

    @property
    def says_nothing(self) -> bool:
        """Whether the loss is true of every mechanism."""
        return False

    @abstractmethod
    def group(self, k: int) -> Self:
        """The loss of two tables that are k steps apart, each step with this loss at most.

        Parameters
        ----------
        k : int
            At least 1.

        Raises
        ------
        TypeError, ValueError
            If k is not a positive integer.
        """

    @abstractmethod
    def compose(self, other: Loss) -> Loss:
        """The loss of two releases together, the noise of the second one independent of that of the first.

        Raises
        ------
        ValueError
            If the two are stated by definitions of which neither contains the other; the message names them and what to do.
        """

    @abstractmethod
    def at(self, delta: float) -> ApproximateDP:
        """The smallest epsilon that follows at a delta.

        Parameters
        ----------
        delta : float
            Strictly between 0 and 1.

        Raises
        ------
        TypeError, ValueError
            If delta is not between 0 and 1, or no epsilon follows at it.
        """

    @abstractmethod
    def delta_at(self, epsilon: float) -> float:
        """The smallest delta that follows at an epsilon, at most 1.

        Parameters
        ----------
        epsilon : float
            Zero or greater.
        """

    def to(self, kind: str, delta: float | None = None) -> Loss:
        """The loss in another definition, as far as it follows.

        Parameters
        ----------
        kind : {"pure", "approximate", "zcdp", "gdp"}
        delta : float, optional
            Needed for ``"approximate"`` unless the loss is ``"pure"``, which is approximate with a delta of 0.

        Raises
        ------
        ValueError
            If it does not follow: a loss with a delta gives no epsilon alone, and rho gives no mu.

        Notes
        -----
        Pure epsilon is ``epsilon**2 / 2``-zCDP (Bun and Steinke, 2016, Proposition 1.4), and mu-GDP with
        ``mu = -2 Phi^-1(1 / (1 + e**epsilon))``, the smallest possible: the two trade-off functions meet on the diagonal, to the
        left of which the one of epsilon is a line between two points of the other one, which is convex. mu-GDP is
        ``mu**2 / 2``-zCDP, because the Renyi divergence of order alpha of two normal laws mu apart is ``alpha mu**2 / 2``.

        Examples
        --------
        >>> GaussianDP(0.5).to("zcdp")
        ZCDP(rho=0.125)
        >>> print(PureDP(1.0).to("gdp"))
        mu = 1.23204
        """
        _validate.choice(kind, tuple(_KINDS), "kind")
        if kind == self.kind:
            return self
        if kind == "approximate":
            if delta is None:
                raise ValueError(f"delta must be given: {self} is no single pair of epsilon and delta")
            return self.at(delta)
        found = self._converted(kind)
        if found is None:
            raise ValueError(f"kind must be one that follows from {self}, and {_NAMES[kind]} does not")
        return found

    def _converted(self, kind: str) -> Loss | None:
        return None

    def implies(self, other: Loss) -> bool:
        """Whether every mechanism with this loss has the other one as well.

        Decided exactly between losses of one definition, and for what a pair of epsilon and delta, an epsilon or a mu implies; of
        rho, what the conversions of this package show (`bayesdp.privacy.rho_to_delta` is a bound), so that True is proved and
        False may be for want of a proof.

        Examples
        --------
        >>> PureDP(1.0).implies(ApproximateDP(0.9, 0.1)), PureDP(1.0).implies(ApproximateDP(0.9, 0.01))
        (True, False)
        """
        if other.says_nothing:
            return True
        if isinstance(other, ApproximateDP):
            return self.delta_at(other.epsilon) <= other.delta
        found = self if self.kind == other.kind else self._converted(other.kind)
        if found is None:
            # Without a delta: only a loss of nothing at all has every property.
            return all(value == 0.0 for value in self.parameters.values())
        return all(value <= other.parameters[name] for name, value in found.parameters.items())

    def __str__(self) -> str:
        if self.says_nothing:
            return NO_PROTECTION
        return ", ".join(f"{name} = {value:.6g}" for name, value in self.parameters.items())

    def _refuse(self, other: Loss) -> ValueError:
        return ValueError(
            f"other must be a loss that can be added to {_NAMES[self.kind]}, got {_NAMES[other.kind]} ({other}); convert one of "
            "the two first, with its method `to` or, at a delta, `at`"
        )


@dataclass(frozen=True)
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
        raise self._refuse(other)

    def at(self, delta: float) -> ApproximateDP:
        """The smallest epsilon at a delta, by the trade-off function: see `ApproximateDP.at`."""
        return ApproximateDP(self.epsilon, 0.0).at(delta)

    def delta_at(self, epsilon: float) -> float:
        """See `ApproximateDP.delta_at`."""
        return ApproximateDP(self.epsilon, 0.0).delta_at(epsilon)

    def _converted(self, kind: str) -> Loss | None:
        if kind == "zcdp":
            return ZCDP(0.5 * self.epsilon**2)
        # log(1 / (1 + e^epsilon)), in log space.
        return (
            GaussianDP(max(0.0, -2.0 * float(ndtri_exp(-_log_one_plus_exp(self.epsilon))))) if kind == "gdp" else None
        )


@dataclass(frozen=True)
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

        By the definition k times. The sum is ``(e**(k epsilon) - 1) / (e**epsilon - 1)``, taken in log space.
        """
        count = _validate.positive_integer(k, "k")
        return type(self)(count * self.epsilon, _group_delta(self.epsilon, self.delta, count))

    def compose(self, other: Loss) -> Loss:
        """The sums of the epsilons and of the deltas, the latter at most 1 (basic composition)."""
        if isinstance(other, PureDP):
            return ApproximateDP(self.epsilon + other.epsilon, min(self.delta, 1.0))
        if isinstance(other, ApproximateDP):
            return ApproximateDP(self.epsilon + other.epsilon, min(self.delta + other.delta, 1.0))
        raise self._refuse(other)

    def at(self, delta: float) -> ApproximateDP:
        """The smallest epsilon that follows at a delta no smaller than its own.

        A mechanism that is (epsilon, delta)-private is (e, d)-private just when ``d >= 1 - (1 - delta) (1 + e**e) / (1 +
        e**epsilon)`` for ``e <= epsilon`` (Kairouz, Oh and Viswanath, 2015, Section 3: the trade-off functions).

        Examples
        --------
        >>> print(ApproximateDP(1.0, 1e-6).at(0.1))
        epsilon = 0.852907, delta = 0.1
        """
        asked = _validate.probability(delta, "delta")
        if asked < self.delta:
            raise ValueError(f"delta must be at least that of the loss, {self.delta:.6g}, got {asked:.6g}")
        # 1 + e^e = (1 - asked) / (1 - delta) (1 + e^epsilon)
        log_sum = math.log1p(-asked) - math.log1p(-self.delta) + _log_one_plus_exp(self.epsilon)
        if log_sum <= math.log(2.0):
            return ApproximateDP(0.0, asked)
        epsilon = log_sum + math.log(-math.expm1(-log_sum))
        return ApproximateDP(min(max(epsilon, 0.0), self.epsilon), asked)

    def delta_at(self, epsilon: float) -> float:
        """The smallest delta that follows at an epsilon; see `at`."""
        asked = _validate.nonnegative_real(epsilon, "epsilon")
        if asked >= self.epsilon or self.says_nothing:
            return min(self.delta, 1.0)
        log_ratio = _log_one_plus_exp(asked) - _log_one_plus_exp(self.epsilon)
        return min(1.0, max(self.delta, -math.expm1(log_ratio) + self.delta * math.exp(log_ratio)))

    def _converted(self, kind: str) -> Loss | None:
        if self.delta > 0.0:
            return None
        alone = PureDP(self.epsilon)
        return alone if kind == "pure" else alone._converted(kind)


@dataclass(frozen=True)
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
        raise self._refuse(other)

    def at(self, delta: float) -> ApproximateDP:
        """By the tight conversion of `bayesdp.privacy.rho_to_epsilon`, an upper bound."""
        return ApproximateDP(rho_to_epsilon(self.rho, delta), delta)

    def delta_at(self, epsilon: float) -> float:
        """By `bayesdp.privacy.rho_to_delta`, an upper bound."""
        return rho_to_delta(self.rho, epsilon)


@dataclass(frozen=True)
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
        raise self._refuse(other)

    def at(self, delta: float) -> ApproximateDP:
        """Exact (Balle and Wang, 2018, Theorem 8)."""
        return ApproximateDP(gaussian_epsilon(delta, 1.0, self.mu) if self.mu > 0.0 else 0.0, delta)

    def delta_at(self, epsilon: float) -> float:
        """Exact (Balle and Wang, 2018, Theorem 8)."""
        return gaussian_delta(epsilon, 1.0, self.mu) if self.mu > 0.0 else 0.0

    def _converted(self, kind: str) -> Loss | None:
        return ZCDP(0.5 * self.mu**2) if kind == "zcdp" else None


_KINDS: Mapping[str, type[Loss]] = {own.kind: own for own in (PureDP, ZCDP, ApproximateDP, GaussianDP)}
_NAMES = {
    "pure": "pure differential privacy",
    "zcdp": "zero-concentrated differential privacy",
    "approximate": "approximate differential privacy",
    "gdp": "Gaussian differential privacy",
}


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
    own = _KINDS[_validate.choice(kind, tuple(_KINDS), "kind")]
    names = [item.name for item in fields(own)]
    missing = [name for name in names if name not in parameters]
    if missing:
        raise ValueError(f"parameters of {_NAMES[kind]} must include {', '.join(missing)}, got {', '.join(parameters)}")
    return own(*(parameters[name] for name in names))


def _log_one_plus_exp(x: float) -> float:
    return x if x > _LARGEST_EXPONENT else math.log1p(math.exp(x))


def _group_delta(epsilon: float, delta: float, k: int) -> float:
    if delta <= 0.0 or k == 1:
        return min(delta, 1.0)
    if epsilon == 0.0:
        return min(k * delta, 1.0)
    log_sum = (k - 1) * epsilon + math.log(-math.expm1(-k * epsilon)) - math.log(-math.expm1(-epsilon))
    log_delta = math.log(delta) + log_sum
    return 1.0 if log_delta >= 0.0 else math.exp(log_delta)
