"""Privacy losses as values: what a definition of privacy states for two tables, and what follows from it.

The definitions are `PureDP` (epsilon), `ApproximateDP` (epsilon, delta), `ZCDP` (rho), `GaussianDP` (mu); guarantees and files state
losses by several at once (the noise of a Gaussian mechanism has a rho, a mu, and an epsilon at each delta), and for a difference of a
given size. A delta of 1 is true of every mechanism: such a loss says nothing, and its text says so; it is never printed as a number.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from scipy.special import log_expit, ndtri_exp

from bayesdp import _validate
from bayesdp.privacy.gaussian import gaussian_epsilon, rho_to_epsilon

NO_PROTECTION = "no protection by this bound, because its delta is 1 or more"
"""The text of a loss that is true of every mechanism."""

LOSS_KINDS: Mapping[str, str] = {
    "pure": "pure differential privacy",
    "zcdp": "zero-concentrated differential privacy",
    "approximate": "approximate differential privacy",
    "gdp": "Gaussian differential privacy",
}
"""The definitions of privacy, as guarantees and files name them, and what they are called."""


class _Parameters(Mapping[str, float]):
    """Numbers by their names, equal to any mapping of the same."""

    @property
    @abstractmethod
    def parameters(self) -> dict[str, float]:
        """The parameters by name."""

    def __getitem__(self, key: str) -> float:
        return self.parameters[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.parameters)

    def __len__(self) -> int:
        return len(self.parameters)

    def __hash__(self) -> int:
        return hash(frozenset(self.parameters.items()))


@dataclass(frozen=True, eq=False)
class Loss(_Parameters):
    """What one definition of privacy states for two tables; as a mapping, its parameters by name.

    Two losses are equal if they have equal parameters, and equal to any mapping of these.

    Examples
    --------
    >>> from bayesdp.privacy.losses import ApproximateDP
    >>> ApproximateDP(1.0, 1e-6).parameters, ApproximateDP(1.0, 1e-6)["delta"]
    ({'epsilon': 1.0, 'delta': 1e-06}, 1e-06)
    """

    kind: ClassVar[str]
    """The definition, as guarantees and files name it."""

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters by name."""
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
        """The loss of two tables that are k steps apart, k at least 1, each step with this loss at most."""

    @abstractmethod
    def compose(self, other: Loss) -> Loss:
        """The loss of two releases with independent noise; ValueError if neither of their definitions contains the other."""

    @abstractmethod
    def at(self, delta: float) -> Loss:
        """The smallest epsilon that follows at a delta strictly between 0 and 1; ValueError if none does."""

    def stated(self, kind: str) -> Loss | None:
        """The loss as it is stated in a definition, without a conversion; None if it is not."""
        return self if kind == self.kind else None

    def to(self, kind: str) -> Loss:
        """The loss in another definition; ValueError if it does not follow, or not without the choice of a delta, see `at`.

        Examples
        --------
        >>> from bayesdp.privacy.losses import PureDP
        >>> print(PureDP(1.0).to("gdp"))
        mu = 1.23204
        """
        found = self.stated(kind) or self._converted(_validate.choice(kind, tuple(LOSS_KINDS), "kind"))
        if found is None:
            why = "follows at a delta only: use its method at" if kind == "approximate" else "does not"
            raise ValueError(f"kind must be one that follows from {self}, and {LOSS_KINDS[kind]} {why}")
        return found

    def _converted(self, kind: str) -> Loss | None:
        return None

    def implies(self, other: Loss) -> bool:
        """Whether every mechanism with this loss has the other one as well.

        Decided exactly between losses of one definition, and for what a pair of epsilon and delta, an epsilon or a mu implies; of
        rho, what the conversions of this package show (`bayesdp.privacy.rho_to_epsilon` is a bound), so that True is proved and
        False may be for want of a proof.

        Examples
        --------
        >>> from bayesdp.privacy.losses import ApproximateDP, PureDP
        >>> PureDP(1.0).implies(ApproximateDP(0.9, 0.1)), PureDP(1.0).implies(ApproximateDP(0.9, 0.01))
        (True, False)
        """
        return other.says_nothing or other._follows_from(self)

    def _follows_from(self, other: Loss) -> bool:
        """Whether this loss, which says something, is shown to follow from another one."""
        found = other.stated(self.kind) or other._converted(self.kind)
        if found is None:
            # Without a delta: only a loss of nothing at all has every property.
            return all(value == 0.0 for value in other.parameters.values())
        return all(value <= self.parameters[name] for name, value in found.parameters.items())

    def __str__(self) -> str:
        if self.says_nothing:
            return NO_PROTECTION
        return ", ".join(f"{name} = {value:.6g}" for name, value in self.parameters.items())

    def _with_part(self, other: Loss) -> Loss:
        """Compose with what the other loss states by the same definition, where it is not of that definition alone."""
        part = other.stated(self.kind)
        if part is not None:
            return self.compose(part)
        theirs = LOSS_KINDS.get(other.kind, "a loss by several definitions")
        raise ValueError(
            f"other must be a loss that can be added to {LOSS_KINDS[self.kind]}, got {theirs} ({other}); convert one of the two "
            "first, at a delta, with its method `at`"
        )


@dataclass(frozen=True, eq=False)
class PureDP(Loss):
    """Pure differential privacy: no event is more than ``exp(epsilon)`` times as probable for one table as for the other.

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
        if isinstance(other, ApproximateDP):
            return other.compose(self)
        return PureDP(self.epsilon + other.epsilon) if isinstance(other, PureDP) else self._with_part(other)

    def at(self, delta: float) -> ApproximateDP:
        """The smallest epsilon at a delta, by the trade-off function: see `ApproximateDP.at`."""
        return ApproximateDP(self.epsilon, 0.0).at(delta)

    def _converted(self, kind: str) -> Loss | None:
        if kind == "approximate":
            return ApproximateDP(self.epsilon, 0.0)
        if kind == "zcdp":
            return ZCDP(0.5 * self.epsilon**2)  # Bun and Steinke, 2016, Proposition 1.4
        # mu = -2 Phi^-1(1 / (1 + e^epsilon)), the smallest possible: the two trade-off functions meet on the diagonal, to the left of
        # which the one of epsilon is a line between two points of the other one, which is convex.
        return GaussianDP(max(0.0, -2.0 * float(ndtri_exp(log_expit(-self.epsilon)))))


@dataclass(frozen=True, eq=False)
class ApproximateDP(Loss):
    """Approximate differential privacy: as pure, but for events of probability delta.

    A delta of 1 and more is true of every mechanism; such values occur in sums, and in files.

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

        By the definition k times. The sum is ``(e**(k epsilon) - 1) / (e**epsilon - 1)``, here in log space.
        """
        count, epsilon = _validate.positive_integer(k, "k"), self.epsilon
        if self.delta <= 0.0 or count == 1:
            delta = min(self.delta, 1.0)
        elif epsilon == 0.0:
            delta = min(count * self.delta, 1.0)
        else:
            log_sum = (count - 1) * epsilon + math.log(-math.expm1(-count * epsilon)) - math.log(-math.expm1(-epsilon))
            log_delta = math.log(self.delta) + log_sum
            delta = 1.0 if log_delta >= 0.0 else math.exp(log_delta)
        return type(self)(count * epsilon, delta)

    def compose(self, other: Loss) -> Loss:
        """The sums of the epsilons and of the deltas, the latter at most 1 (basic composition)."""
        if isinstance(other, PureDP | ApproximateDP):
            return ApproximateDP(self.epsilon + other.epsilon, min(self.delta + other.get("delta", 0.0), 1.0))
        return self._with_part(other)

    def at(self, delta: float) -> ApproximateDP:
        """The smallest epsilon that follows at a delta no smaller than its own.

        Such a mechanism is (e, d)-private just when ``d >= 1 - (1 - delta) (1 + e**e) / (1 + e**epsilon)`` for ``e <= epsilon``
        (Kairouz, Oh and Viswanath, 2015, Section 3: the trade-off functions).

        Examples
        --------
        >>> print(ApproximateDP(1.0, 1e-6).at(0.1))
        epsilon = 0.852907, delta = 0.1
        """
        asked = _validate.probability(delta, "delta")
        if asked < self.delta:
            raise ValueError(f"delta must be at least that of the loss, {self.delta:.6g}, got {asked:.6g}")
        # 1 + e^e = (1 - asked) / (1 - delta) (1 + e^epsilon)
        log_sum = math.log1p(-asked) - math.log1p(-self.delta) - float(log_expit(-self.epsilon))
        if log_sum <= math.log(2.0):
            return ApproximateDP(0.0, asked)
        return ApproximateDP(min(max(log_sum + math.log(-math.expm1(-log_sum)), 0.0), self.epsilon), asked)

    def _follows_from(self, other: Loss) -> bool:
        if self.delta == 0.0 or other.get("delta", 0.0) > self.delta:
            return super()._follows_from(other)
        return other.at(self.delta)["epsilon"] <= self.epsilon

    def _converted(self, kind: str) -> Loss | None:
        if self.delta > 0.0:
            return None
        alone = PureDP(self.epsilon)
        return alone if kind == "pure" else alone._converted(kind)


@dataclass(frozen=True, eq=False)
class ZCDP(Loss):
    """Zero-concentrated differential privacy: the Renyi divergence of every order alpha is at most ``rho alpha``.

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
        return ZCDP(self.rho + other.rho) if isinstance(other, ZCDP) else self._with_part(other)

    def at(self, delta: float) -> ApproximateDP:
        """By the tight conversion of `bayesdp.privacy.rho_to_epsilon`, an upper bound."""
        return ApproximateDP(rho_to_epsilon(self.rho, delta), delta)


@dataclass(frozen=True, eq=False)
class GaussianDP(Loss):
    """Gaussian differential privacy: no easier to tell apart than two normal laws of variance 1 whose means are mu apart.

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
        return GaussianDP(math.hypot(self.mu, other.mu)) if isinstance(other, GaussianDP) else self._with_part(other)

    def at(self, delta: float) -> ApproximateDP:
        """Exact (Balle and Wang, 2018, Theorem 8)."""
        return ApproximateDP(gaussian_epsilon(delta, 1.0, self.mu) if self.mu > 0.0 else 0.0, delta)

    def _converted(self, kind: str) -> Loss | None:
        # The Renyi divergence of order alpha of two normal laws mu apart is alpha mu**2 / 2.
        return ZCDP(0.5 * self.mu**2) if kind == "zcdp" else None


_NAMES = ("epsilon", "delta", "rho", "mu")


@dataclass(frozen=True, eq=False)
class SeveralLosses(Loss):
    """Losses by at least two definitions, all true of the same two tables; not both an epsilon alone and one with a delta.

    Examples
    --------
    >>> both = SeveralLosses((ZCDP(0.125), GaussianDP(0.5)))
    >>> print(both, "|", both.group(2), "|", both["mu"], both.stated("zcdp"))
    rho = 0.125, mu = 0.5 | rho = 0.5, mu = 1 | 0.5 rho = 0.125
    """

    parts: tuple[Loss, ...]
    kind: ClassVar[str] = "several"

    def __post_init__(self) -> None:
        if len(self.parameters) < 2 or len(self.parameters) < sum(map(len, self.parts)):
            raise ValueError(f"parts must be at least two losses by different definitions, got {self.parts!r}")

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters of all parts."""
        return {name: value for part in self.parts for name, value in part.items()}

    @property
    def says_nothing(self) -> bool:
        """Whether no part says anything."""
        return all(part.says_nothing for part in self.parts)

    def stated(self, kind: str) -> Loss | None:
        """The part of that definition."""
        return next((part for part in self.parts if part.kind == kind), None)

    def group(self, k: int) -> Self:
        """Part by part."""
        return type(self)(tuple(part.group(k) for part in self.parts))

    def compose(self, other: Loss) -> Loss:
        """Each part with what the other loss states by the same definition."""
        both = [(part, other.stated(part.kind)) for part in self.parts]
        found = [one.compose(two) for one, two in both if two is not None]
        if not found:
            raise ValueError(f"other must be stated by one of the definitions of {self}, got {other}")
        return all_of(found)

    def at(self, delta: float) -> ApproximateDP:
        """The smallest epsilon of all parts, of those that have one at the delta."""
        able = [part for part in self.parts if not (isinstance(part, ApproximateDP) and part.delta > delta)]
        return min((ApproximateDP(part.at(delta)["epsilon"], delta) for part in able), key=lambda found: found.epsilon)

    def _converted(self, kind: str) -> Loss | None:
        return next((found for part in self.parts if (found := part._converted(kind)) is not None), None)

    def _follows_from(self, other: Loss) -> bool:
        return all(other.implies(part) for part in self.parts)

    def implies(self, other: Loss) -> bool:
        """Whether a part does, for each part of the other; see `Loss.implies`."""
        if isinstance(other, SeveralLosses):
            return all(self.implies(part) for part in other.parts)
        return any(part.implies(other) for part in self.parts)

    def __str__(self) -> str:
        return ", ".join(str(part) for part in self.parts if not part.says_nothing) or NO_PROTECTION


def all_of(losses: Sequence[Loss]) -> Loss:
    """Several losses of the same two tables as one; a single one as it is."""
    return losses[0] if len(losses) == 1 else SeveralLosses(tuple(losses))


def stated_loss(parameters: Any, argument: str = "loss") -> Loss:
    """The loss that a mapping of names to numbers states; a loss is one already. An error calls it `argument`.

    Examples
    --------
    >>> stated_loss({"rho": 0.5, "epsilon": 3.0, "delta": 1e-3}).stated("approximate")
    ApproximateDP(epsilon=3.0, delta=0.001)
    """
    if isinstance(parameters, Loss):
        return parameters
    given = _numbers(parameters, argument, _NAMES)
    if "delta" in given and "epsilon" not in given:
        raise ValueError(f"{argument} must state delta only with epsilon, got {', '.join(given)}")
    delta = given.pop("delta", None)
    kinds: Mapping[str, Callable[[float], Loss]] = {"epsilon": PureDP, "rho": ZCDP, "mu": GaussianDP}
    return all_of(
        [
            ApproximateDP(value, delta) if name == "epsilon" and delta is not None else kinds[name](value)
            for name, value in given.items()
        ]
    )


@dataclass(frozen=True, eq=False)
class LossAt(_Parameters):
    """A loss and the size of the difference of two tables that it is for; as a mapping, its parameters and ``sensitivity``.

    A sensitivity of None is 1, and is not among the parameters.

    Examples
    --------
    >>> dict(LossAt(PureDP(0.5), 2.0))
    {'epsilon': 0.5, 'sensitivity': 2.0}
    """

    loss: Loss
    sensitivity: float | None = None

    def __post_init__(self) -> None:
        if self.sensitivity is not None:
            object.__setattr__(self, "sensitivity", _validate.nonnegative_real(self.sensitivity, "sensitivity"))

    @property
    def size(self) -> float:
        """The size of the difference."""
        return 1.0 if self.sensitivity is None else self.sensitivity

    @classmethod
    def of(cls, parameters: Any, argument: str) -> Self:
        """Read a mapping like that of `stated_loss`, with ``sensitivity`` or without."""
        if isinstance(parameters, cls):
            return parameters
        if isinstance(parameters, Loss):
            return cls(parameters)
        given = _numbers(parameters, argument, (*_NAMES, "sensitivity"))
        sensitivity = given.pop("sensitivity", None)
        return cls(stated_loss(given, argument), sensitivity)

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters of the loss, and the sensitivity."""
        return {**self.loss, **({} if self.sensitivity is None else {"sensitivity": self.sensitivity})}


def _numbers(parameters: Any, argument: str, known: tuple[str, ...]) -> dict[str, float]:
    """Accept a mapping of known names to finite numbers that are not negative."""
    if not isinstance(parameters, Mapping) or not parameters:
        raise TypeError(f"{argument} must map names of privacy parameters to numbers, got {parameters!r}")
    unknown = [name for name in parameters if name not in known]
    if unknown:
        raise ValueError(f"{argument} has unknown names {_validate.shown(unknown)}; valid names are {', '.join(known)}")
    return {key: _validate.nonnegative_real(value, f"{argument}[{key!r}]") for key, value in parameters.items()}


def split_budget(epsilon: float, parts: int | Sequence[float]) -> tuple[float, ...]:
    """Split a budget over releases about the same records; their losses add up (sequential composition).

    Parameters
    ----------
    epsilon : float
        The whole budget.
    parts : int or sequence of float
        Number of equal parts, or the parts themselves, which must add up to the whole.

    Returns
    -------
    tuple of float
        Equal parts are rounded down, so that their sum does not exceed the whole.

    Raises
    ------
    ValueError
        If parts do not add up to epsilon (to rounding, 1e-12 of it).

    Examples
    --------
    >>> split_budget(1.0, [0.5, 0.25, 0.25])
    (0.5, 0.25, 0.25)
    """
    whole = _validate.positive_real(epsilon, "epsilon")
    if isinstance(parts, int) and not isinstance(parts, bool):
        count = _validate.positive_integer(parts, "parts")
        each = whole / count
        while math.fsum([each] * count) > whole:
            each = math.nextafter(each, 0.0)
        return (each,) * count
    given: Any = parts
    if isinstance(given, str | bool) or not isinstance(given, Sequence):
        raise TypeError(f"parts must be a number of parts or a sequence of epsilons, got {parts!r}")
    amounts = tuple(_validate.positive_real(part, f"parts[{i}]") for i, part in enumerate(given))
    total = math.fsum(amounts)
    if not amounts or abs(total - whole) > 1e-12 * whole:
        raise ValueError(f"parts must add up to epsilon = {whole!r}, but {list(amounts)} add up to {total!r}")
    return amounts
