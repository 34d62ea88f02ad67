"""A privacy loss as a value: what one definition of privacy states for two tables, and what follows from it.

This is what all definitions have in common; `bayesdp.privacy.losses` has the definitions. A delta of 1 is true of every mechanism:
such a loss says nothing, and its text says so; it is never printed as a number.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, Self

from bayesdp import _validate

NO_PROTECTION = "no protection by this bound, because its delta is 1 or more"
"""The text of a loss that is true of every mechanism."""

LOSS_KINDS: Mapping[str, str] = {
    "pure": "pure differential privacy",
    "zcdp": "zero-concentrated differential privacy",
    "approximate": "approximate differential privacy",
    "gdp": "Gaussian differential privacy",
}
"""The definitions of privacy, as guarantees and files name them, and what they are called."""


@dataclass(frozen=True, eq=False)
class Loss(Mapping[str, float]):
    """What one definition of privacy states for two tables; as a mapping, its parameters by name.

    Two losses are equal if they have equal parameters, and equal to any mapping of these.
    """

    kind: ClassVar[str]
    """The definition, as guarantees and files name it."""

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters by name.

        Examples
        --------
        >>> from bayesdp.privacy.losses import ApproximateDP
        >>> ApproximateDP(1.0, 1e-6).parameters, ApproximateDP(1.0, 1e-6)["delta"]
        ({'epsilon': 1.0, 'delta': 1e-06}, 1e-06)
        """
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def __post_init__(self) -> None:
        for name, value in self.parameters.items():
            object.__setattr__(self, name, _validate.nonnegative_real(value, name))

    def __getitem__(self, key: str) -> float:
        return self.parameters[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.parameters)

    def __len__(self) -> int:
        return len(self.parameters)

    def __hash__(self) -> int:
        return hash(frozenset(self.parameters.items()))

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

    @abstractmethod
    def delta_at(self, epsilon: float) -> float:
        """The smallest delta that follows at an epsilon, at most 1."""

    def stated(self, kind: str) -> Loss | None:
        """The loss as it is stated in a definition, without a conversion; None if it is not."""
        return self if kind == self.kind else None

    def to(self, kind: str, delta: float | None = None) -> Loss:
        """The loss in another definition, as far as it follows; approximate ones need a delta, but that of a pure one is 0.

        Pure epsilon is ``epsilon**2 / 2``-zCDP (Bun and Steinke, 2016, Proposition 1.4), and mu-GDP with
        ``mu = -2 Phi^-1(1 / (1 + e**epsilon))``, the smallest possible: the two trade-off functions meet on the diagonal, to the
        left of which the one of epsilon is a line between two points of the other one, which is convex. mu-GDP is
        ``mu**2 / 2``-zCDP, because the Renyi divergence of order alpha of two normal laws mu apart is ``alpha mu**2 / 2``.

        Examples
        --------
        >>> from bayesdp.privacy.losses import GaussianDP, PureDP
        >>> GaussianDP(0.5).to("zcdp")
        ZCDP(rho=0.125)
        >>> print(PureDP(1.0).to("gdp"))
        mu = 1.23204
        """
        _validate.choice(kind, tuple(LOSS_KINDS), "kind")
        if kind == "approximate" and delta is not None and self.kind != kind:
            return self.at(delta)
        found = self._converted(kind) if self.stated(kind) is None else self.stated(kind)
        if found is None and kind == "approximate":
            raise ValueError(f"delta must be given: {self} is no single pair of epsilon and delta")
        if found is None:
            raise ValueError(f"kind must be one that follows from {self}, and {LOSS_KINDS[kind]} does not")
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
        >>> from bayesdp.privacy.losses import ApproximateDP, PureDP
        >>> PureDP(1.0).implies(ApproximateDP(0.9, 0.1)), PureDP(1.0).implies(ApproximateDP(0.9, 0.01))
        (True, False)
        """
        if other.says_nothing:
            return True
        return other._follows_from(self)

    def _follows_from(self, other: Loss) -> bool:
        """Whether this loss, which says something, is shown to follow from another one."""
        found = other._converted(self.kind) if other.stated(self.kind) is None else other.stated(self.kind)
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
            "first, with its method `to` or, at a delta, `at`"
        )
