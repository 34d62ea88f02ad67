"""Losses as guarantees and files state them: by several definitions at once, and for a difference of a given size.

The noise of a Gaussian mechanism, say, has a rho, a mu, and an epsilon at each delta, and all are true of the same two tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from bayesdp import _validate
from bayesdp.privacy.loss import NO_PROTECTION, Loss
from bayesdp.privacy.losses import ZCDP, ApproximateDP, GaussianDP, PureDP

_NAMES = ("epsilon", "delta", "rho", "mu")


@dataclass(frozen=True, eq=False)
class SeveralLosses(Loss):
    """Losses by several definitions, all of which are true of the same two tables; `all_of` makes it.

    Parameters
    ----------
    parts : tuple of Loss
        At least two, each of another definition; not both an epsilon alone and one with a delta.

    Examples
    --------
    >>> both = SeveralLosses((ZCDP(0.125), GaussianDP(0.5)))
    >>> print(both, "|", both.group(2), "|", both["mu"], both.to("zcdp"))
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
        return min((ApproximateDP(part.at(delta)["epsilon"], delta) for part in able), key=lambda own: own.epsilon)

    def delta_at(self, epsilon: float) -> float:
        """The smallest of all parts."""
        return min(part.delta_at(epsilon) for part in self.parts)

    def _converted(self, kind: str) -> Loss | None:
        found = (part._converted(kind) for part in self.parts)
        return next((own for own in found if own is not None), None)

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
    """The loss that a mapping of names to numbers states; a loss is one already.

    Parameters
    ----------
    parameters : Loss, or mapping
        Names among ``epsilon``, ``delta``, ``rho``, ``mu`` to numbers; delta only with epsilon.
    argument : str
        What an error calls it.

    Raises
    ------
    TypeError, ValueError
        If it is no mapping or empty, or a name or a number is not valid.

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
    found: list[Loss] = []
    for name, value in given.items():
        if name == "rho":
            found.append(ZCDP(value))
        elif name == "mu":
            found.append(GaussianDP(value))
        elif name == "epsilon":
            found.append(ApproximateDP(value, given["delta"]) if "delta" in given else PureDP(value))
    return all_of(found)


@dataclass(frozen=True, eq=False)
class LossAt(Mapping[str, float]):
    """A loss and the size of the difference of two tables that it is for; as a mapping, its parameters and ``sensitivity``.

    Parameters
    ----------
    loss : Loss
    sensitivity : float, optional
        The size; None is 1, and is not among the parameters.

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

    def __getitem__(self, key: str) -> float:
        if key == "sensitivity" and self.sensitivity is not None:
            return self.sensitivity
        return self.loss[key]

    def __iter__(self) -> Iterator[str]:
        return iter([*self.loss, *(() if self.sensitivity is None else ("sensitivity",))])

    def __len__(self) -> int:
        return len(self.loss) + (self.sensitivity is not None)

    def __hash__(self) -> int:
        return hash((self.loss, self.sensitivity))


def _numbers(parameters: Any, argument: str, known: tuple[str, ...]) -> dict[str, float]:
    """Accept a mapping of known names to finite numbers that are not negative."""
    if not isinstance(parameters, Mapping) or not parameters:
        raise TypeError(f"{argument} must map names of privacy parameters to numbers, got {parameters!r}")
    unknown = [name for name in parameters if name not in known]
    if unknown:
        raise ValueError(f"{argument} has unknown names {_validate.shown(unknown)}; valid names are {', '.join(known)}")
    return {key: _validate.nonnegative_real(value, f"{argument}[{key!r}]") for key, value in parameters.items()}
