"""What guarantees say as values, which files hold by their fields; how noise is drawn, and the loss of one person, in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, asdict, dataclass, fields
from types import SimpleNamespace
from typing import Any, ClassVar, Self, dataclass_transform

from bayesdp import _validate
from bayesdp.privacy.losses import Loss, stated_loss
from bayesdp.sensitivities.differences import Difference

type Choice = str
"""A text that is one of a few."""


class Described:
    """A frozen dataclass that files hold by its fields, under the words of its class's name: `InUnits` is "in units"."""

    name: ClassVar[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = re.sub("(?<!^)(?=[A-Z])", " ", cls.__name__).lower()

    def describe(self) -> dict[str, Any]:
        """Describe it by plain strings, numbers and lists; `described_from` reads it."""
        return {"is": self.name, **{item.name: _plain(getattr(self, item.name)) for item in _fields(self)}}


def _fields(described: Any) -> tuple[Field[Any], ...]:
    return fields(described)  # every subclass is a dataclass


@dataclass_transform(frozen_default=True, eq_default=False)
class Statement(str, Described):
    """A text, and as attributes what it is made from.

    It is a string, so that guarantees can be read as text; code asks for the class and the attributes. Subclasses are frozen
    dataclasses with a `template` for `str.format`, or a `_words` of their own. Two of them are equal if their texts are.
    """

    template: ClassVar[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclass(frozen=True, eq=False, repr=False)(cls)

    def __new__(cls, *values: Any, **named: Any) -> Self:
        """Make the text; the fields are set afterwards, by the dataclass."""
        # A string cannot be changed once made, so that its text is worked out before the dataclass sets the fields.
        given = {item.name: item.default for item in _fields(cls) if item.default is not MISSING}
        given |= dict(zip((item.name for item in _fields(cls)), values, strict=False)) | named
        return super().__new__(cls, cls._words(SimpleNamespace(**given)))

    def __getnewargs__(self) -> tuple[Any, ...]:  # for copies and pickles: the fields, not the text
        return tuple(getattr(self, item.name) for item in _fields(self))

    @classmethod
    def _words(cls, given: Any) -> str:
        """The text, from an object with the fields."""
        return cls.template.format(**vars(given))


def exactly(description: Any, names: Sequence[str], what: str) -> dict[str, Any]:
    """Accept a mapping with exactly these keys."""
    if not isinstance(description, Mapping):
        raise TypeError(f"{what} must be a mapping, got {description!r}")
    unknown = [key for key in description if key not in names]
    if unknown:
        raise ValueError(f"{what} has unknown keys {_validate.shown(unknown)}; valid keys are {', '.join(names)}")
    missing = [name for name in names if name not in description]
    if missing:
        raise ValueError(f"{what} lacks {_validate.shown(missing)}")
    return dict(description)


def described_from[T: Described](description: Any, known: Iterable[type[T]], what: str, levels: int = 20) -> T:
    """Read what `Described.describe` wrote, of one of the classes `known`; `what` is what an error calls it."""
    if not levels:
        raise ValueError(f"{what} must not stand in more than 20 others")
    kinds = {kind.name: kind for kind in known}
    if not isinstance(description, Mapping):
        raise TypeError(f"{what} must be a mapping, got {description!r}")
    kind = kinds[_validate.choice(description.get("is"), tuple(kinds), f"the key 'is' of {what}")]
    return _made(kind, description, ["is"], what, lambda value, where: described_from(value, known, where, levels - 1))


def _made[T](cls: type[T], description: Any, besides: list[str], what: str, inner: Callable[[Any, str], Any]) -> T:
    """An object of a dataclass from its fields, each read by its type; `inner` reads what is described in its turn."""
    types = {item.name: str(item.type) for item in _fields(cls)}
    exactly(description, [*besides, *types], what)

    def read(value: Any, kind: str, where: str) -> Any:
        if kind.endswith(" | None"):
            return None if value is None else read(value, kind.removesuffix(" | None"), where)
        if kind.endswith(", ...]"):
            if not isinstance(value, (list, tuple)):
                raise TypeError(f"{where} must be a list, got {value!r}")
            return tuple(read(item, kind.removeprefix("tuple[").removesuffix(", ...]"), where) for item in value)
        if kind == "Difference":
            return _made(Difference, value, [], where, inner)
        return _READ.get(kind, inner)(value, where)

    return cls(**{key: read(description[key], kind, f"{key} of {what}") for key, kind in types.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, Described):
        return value.describe()
    if isinstance(value, Difference):
        return asdict(value)
    if isinstance(value, Loss):
        return dict(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{where} must be text, got {value!r}")
    return value


def _integer(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= _validate.MAX_COUNT:
        raise TypeError(f"{where} must be a whole number below 2**53, got {value!r}")
    return value


_READ: Mapping[str, Callable[[Any, str], Any]] = {
    "Choice": lambda value, where: value,  # checked by the class, whose message lists the choices
    "str": _text,
    "int": _integer,
    "float": _validate.nonnegative_real,
    "bool": _validate.boolean,
    "Loss": stated_loss,
    "SamplerStatement": lambda value, where: described_from(value, (SamplerStatement,), where),
}
"""How a field is read, by the name of its type; other types are described in their turn."""


_CHAINS = ("Gibbs", "hit-and-run")


class SamplerStatement(Statement):
    """How the noise was drawn: by sweeps of a Markov chain, or, with a `chain` of "", from its law, up to floating point.

    Examples
    --------
    >>> EXACT_SAMPLER, SamplerStatement("Gibbs", 1000)
    ('exact', 'approximate: 1000 sweeps of Gibbs, convergence not certified')
    """

    chain: Choice = ""
    sweeps: int = 0
    name = "sampler"

    def __post_init__(self) -> None:
        _validate.choice(self.chain, ("", *_CHAINS), "chain")
        if self.chain:
            _validate.positive_integer(self.sweeps, "sweeps")
        elif self.sweeps:
            raise ValueError(f"sweeps must be 0 without a chain, got {self.sweeps!r}")

    @classmethod
    def _words(cls, given: Any) -> str:
        chain = f"approximate: {given.sweeps} sweeps of {given.chain}, convergence not certified"
        return chain if given.chain else "exact"

    @property
    def exact(self) -> bool:
        """Whether the noise has the stated law."""
        return not self.chain

    @classmethod
    def of(cls, sampler: Any) -> SamplerStatement:
        """Accept a sampler, or its text as files have it."""
        if isinstance(sampler, cls):
            return sampler
        if isinstance(sampler, str):
            sweeps = next((int(part) for part in sampler[:60].split() if part.isascii() and part.isdigit()), 0)
            for known in (EXACT_SAMPLER, *(cls(chain, sweeps) for chain in _CHAINS if sweeps)):
                if sampler == known:
                    return known
        raise ValueError(
            f"sampler must be {EXACT_SAMPLER!r} or 'approximate: n sweeps of Gibbs, convergence not certified', got {sampler!r}"
        )


EXACT_SAMPLER = SamplerStatement()
"""The noise is drawn from its law, up to floating point."""


_UNPROTECTED = "changes an exact value and is not protected at all"


class OnePerson(Statement):
    """In which cells one record can change while all exact values stay, and at what loss.

    Of all `cells` a record can move from `movable` ones to another (`alike`: from any to any), at a loss of `move` at most, and come
    or go in `uncounted` ones; None where nothing is known, or nothing stated. Where no record can change alone, `least` change
    together, with Semi-DP `most` at most.

    Examples
    --------
    >>> OnePerson(6, 0, 0, False, least=2)
    "Changing, adding or removing one person's record alone changes an exact value and is not protected at all. Protected are only changes of 2 or more records together that leave every exact value as it is."
    """  # noqa: E501  # one sentence

    cells: int
    movable: int
    uncounted: int
    alike: bool
    move: Loss | None = None
    addition: Loss | None = None
    least: int | None = None
    most: int | None = None
    sampler: SamplerStatement = EXACT_SAMPLER

    @classmethod
    def _words(cls, person: Any) -> str:
        if not person.movable and not person.uncounted:
            return (
                f"Changing, adding or removing one person's record alone {_UNPROTECTED}. Protected are only changes of "
                f"{_group_size(person)} together that leave every exact value as it is."
            )
        return " ".join(filter(None, (_move_sentence(person), _addition_sentence(person))))


def loss_words(loss: Loss, sampler: SamplerStatement) -> str:
    """Write a loss; while the sampler is not exact, never without saying so."""
    if loss.says_nothing or sampler.exact:
        return str(loss)
    return f"target {loss} ({sampler.replace(':', ',')})"


def _move_sentence(person: Any) -> str:
    """What moving one record from a cell to another costs, and from which cells it can move."""
    if not person.movable:
        return f"Moving one person's record from one cell to another {_UNPROTECTED}." if person.cells > 1 else ""
    cost = _cost_words(person.move, person.sampler)
    if person.alike:
        return f"Moving one person's record from one cell to any other {cost}."
    if person.movable == person.cells:
        return (
            f"Moving one person's record between two cells that count towards the same exact values {cost}; moving it anywhere "
            f"else {_UNPROTECTED}."
        )
    return (
        f"In {person.movable} of {person.cells} cells one person's record can move to another cell without changing an exact value, "
        f"which {cost}; every other move of one record {_UNPROTECTED}."
    )


def _addition_sentence(person: Any) -> str:
    """What adding or removing one record costs, and in which cells."""
    if not person.uncounted:
        return f"Adding or removing one {_UNPROTECTED}."
    everywhere = person.uncounted == person.cells
    if person.addition is None and everywhere:
        return "Nothing is stated about adding or removing one: the number of records is taken to be public."
    where = "" if everywhere else f" in {person.uncounted} of {person.cells} cells, which no exact value counts,"
    unknown = "is something about which nothing is stated"
    cost = unknown if person.addition is None else _cost_words(person.addition, person.sampler)
    rest = "" if everywhere else f"; adding or removing one anywhere else {_UNPROTECTED}"
    return f"Adding or removing one{where} {cost}{rest}."


def _cost_words(loss: Loss | None, sampler: SamplerStatement) -> str:
    if loss is None:
        return "is protected, but at what loss is not known"
    return f"{'has' if loss.says_nothing else 'costs at most'} {loss_words(loss, sampler)}"


def _group_size(person: Any) -> str:
    """How many records change at least, and with Semi-DP at most."""
    if person.least is None:
        return "several records" if person.most is None else f"up to {person.most} records"
    if person.most is None:
        return f"{person.least} or more records"
    return f"{person.least} records" if person.most == person.least else f"{person.least} to {person.most} records"
