"""What guarantees say, as values that files hold by their fields and as words; and what a mechanism costs for a pair of tables.

With fixed invariants, two tables can only differ by a ``u`` that changes none of them, and a mechanism reveals the more the larger
``u`` is. So a guarantee is a list of rows: a `Relation` of two tables, the size of ``u`` in the mechanism's norm, and the loss.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, asdict, dataclass, fields
from types import SimpleNamespace
from typing import Any, ClassVar, Self, dataclass_transform

from bayesdp import _validate
from bayesdp.privacy.gaussian import gaussian_epsilon, gaussian_rho, rho_to_epsilon
from bayesdp.privacy.losses import ZCDP, ApproximateDP, GaussianDP, Loss, PureDP, all_of, stated_loss
from bayesdp.privacy.sensitivities.norms import DIFFERENCES, NEIGHBOURS, NORMS, Difference

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
    _validate.instance(description, Mapping, f"{what} must be a mapping", quoted=True)
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
    _validate.instance(description, Mapping, f"{what} must be a mapping", quoted=True)
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
            _validate.instance(value, (list, tuple), f"{where} must be a list", quoted=True)
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


BOUNDS: Mapping[str, str] = {
    "": "",
    "largest": " (the largest loss of all such pairs)",
    "upper": " (an upper bound of the loss of all such pairs)",
    "at most": " (at most)",
}
"""What is added to the words where not all pairs of a kind have the loss that is printed."""

_AMONG: Mapping[str, str] = {
    "": "neighbouring tables",
    "all": "neighbouring tables, whether or not the invariants tell them apart",
    "joint": "neighbouring tables, in what the joint invariants leave free, at most",
    "data": "neighbours",
}
_PUBLIC = "one record changes its cell (substitution; the number of records is public)"


class Relation(Described, ABC):
    """What sets the two tables of a row apart."""

    @property
    def words(self) -> str:
        """As it is printed."""
        return self._words()

    @abstractmethod
    def _words(self) -> str: ...


@dataclass(frozen=True)
class Neighbours(Relation):
    """Tables, or data sets (a key of `_AMONG`), in which one record is another or comes or goes; `bound` is a key of `BOUNDS`.

    Examples
    --------
    >>> Neighbours("add-remove").words
    'neighbouring tables: one record is added or removed (add-remove)'
    """

    change: Choice
    among: Choice = ""
    bound: Choice = ""

    def __post_init__(self) -> None:
        _validate.choice(self.change, tuple(NEIGHBOURS), "change")
        _validate.choice(self.among, tuple(_AMONG), "among")
        _validate.choice(self.bound, tuple(BOUNDS), "bound")

    def _words(self) -> str:
        public = self.change == "substitution" and self.among != "joint"
        change = _PUBLIC if public else NEIGHBOURS[self.change]
        return f"{_AMONG[self.among]}{BOUNDS[self.bound]}: {change}"


@dataclass(frozen=True)
class Conforming(Relation):
    """Tables that agree on all invariants and differ in a kind of way; what the loss is of those that do: a key of `BOUNDS`.

    Examples
    --------
    >>> from bayesdp.privacy import DIFFERENCES
    >>> Conforming(DIFFERENCES["3-cycle"], "upper").words.removeprefix(DIFFERENCES["3-cycle"].relation)
    ' (an upper bound of the loss of all such pairs)'
    """

    difference: Difference
    bound: Choice = ""

    name = "kept"

    def __post_init__(self) -> None:
        Sentence(self.difference.relation)
        _validate.choice(self.bound, tuple(BOUNDS), "bound")

    def _words(self) -> str:
        return self.difference.relation + BOUNDS[self.bound]


@dataclass(frozen=True)
class SemiAdjacent(Relation):
    """Any tables that agree on all invariants and are at most so many substituted records apart (Semi-DP, A_a).

    They are `joint` where the invariants are those of several releases, and the loss the sum of theirs.

    Examples
    --------
    >>> SemiAdjacent(1).words
    'any two tables with the same invariants that one substituted record tells apart (Semi-DP, A_1), at worst'
    """

    adjacency: int
    joint: bool = False

    name = "apart"

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", _validate.positive_integer(self.adjacency, "adjacency"))
        _validate.boolean(self.joint, "joint")

    def _words(self) -> str:
        apart = f"at most {self.adjacency} substituted records apart (Semi-DP, A_{self.adjacency})"
        if self.joint:
            return f"tables that agree on all invariants, {apart}, at most"
        if self.adjacency == 1:
            return "any two tables with the same invariants that one substituted record tells apart (Semi-DP, A_1), at worst"
        return f"any two tables with the same invariants, {apart}, at worst"


@dataclass(frozen=True)
class SemiAdjacentWithin(SemiAdjacent):
    """The same of tables with the answers to the invariants that are published, and of no others.

    Examples
    --------
    >>> SemiAdjacentWithin(2).words
    'any two tables with the published exact answers, at most 2 substituted records apart (Semi-DP, A_2), at worst'
    """

    name = "apart within"

    def _words(self) -> str:
        a = self.adjacency
        records = "one substituted record" if a == 1 else f"{a} substituted records"
        end = "at most" if self.joint else "at worst"
        return f"any two tables with the published exact answers, at most {records} apart (Semi-DP, A_{a}), {end}"


@dataclass(frozen=True)
class Sentence(Relation):
    """A relation that only its author can say; nothing follows from it."""

    text: Choice

    def __post_init__(self) -> None:
        text: Any = self.text
        if not isinstance(text, str) or not text:
            raise TypeError(f"relation must be a sentence, got {text!r}")

    def _words(self) -> str:
        return self.text


@dataclass(frozen=True)
class Convolved(Relation):
    """The tables of another row, at an epsilon and delta by convolution of all losses in the place of their sum.

    No epsilon below `least` will do at the delta of the row; 0 where that is not known, and the epsilon is an upper bound.

    Examples
    --------
    >>> Convolved(Neighbours("add-remove", "joint"), 1.25).words.removeprefix(Neighbours("add-remove", "joint").words)
    '; by convolution of the losses, where no epsilon below 1.25 will do'
    """

    of: Relation
    least: float = 0.0

    def __post_init__(self) -> None:
        of: Any = self.of
        if isinstance(of, Convolved):
            raise ValueError("the relation of a row by convolution must not be by convolution itself")
        if not isinstance(of, Neighbours | Conforming | SemiAdjacent):
            raise TypeError(f"of must be the relation of a row that losses are added in, got {self.of!r}")
        object.__setattr__(self, "least", _validate.nonnegative_real(self.least, "least"))

    def _words(self) -> str:
        bound = f"where no epsilon below {self.least:.6g} will do" if self.least > 0.0 else "an upper bound"
        return f"{self.of.words}; by convolution of the losses, {bound}"


def relation_from(description: Any) -> Relation:
    """Read what `Relation.describe` wrote.

    Examples
    --------
    >>> relation_from(SemiAdjacent(3).describe())
    SemiAdjacent(adjacency=3, joint=False)
    """
    known: tuple[type[Relation], ...] = (Neighbours, Conforming, SemiAdjacent, SemiAdjacentWithin, Convolved, Sentence)
    return described_from(description, known, "a relation")


UNITS = (*NORMS, "linf", "K", "Mahalanobis")
"""The norms l1 and l2, the largest change of a cell, and the norms of mechanisms that fit the noise to the differences of neighbours:
the norm K, in which their hull is the unit ball, and the Mahalanobis norm of correlated Gaussian noise, scaled so that the
largest of them has length 1."""


@dataclass(frozen=True)
class PairLoss:
    """One row of a guarantee.

    Attributes
    ----------
    about : Relation
        What sets the two tables apart; a sentence is taken as a `Sentence`.
    size : float
        Norm of the difference, in counts.
    norm : str
        One of `UNITS`.
    loss : Loss
        The loss for that pair, by one definition or several; a mapping of names among ``epsilon``, ``delta``, ``rho``, ``mu`` is
        taken as one.
    """

    about: Relation
    size: float
    norm: str
    loss: Loss

    def __post_init__(self) -> None:
        about: Any = self.about
        object.__setattr__(self, "about", about if isinstance(about, Relation) else Sentence(about))
        object.__setattr__(self, "size", _validate.nonnegative_real(self.size, "size"))
        _validate.choice(self.norm, UNITS, "norm")
        object.__setattr__(self, "loss", stated_loss(self.loss))

    @property
    def relation(self) -> str:
        """What sets the two tables apart, in words."""
        return self.about.words

    def to_dict(self) -> dict[str, Any]:
        """Describe the row by plain strings and numbers; the words are there for people who read the file."""
        row = {"relation": self.relation, "size": self.size, "norm": self.norm, "loss": dict(self.loss)}
        return row if isinstance(self.about, Sentence) else {**row, "about": self.about.describe()}


def pure_pairs(epsilon: float, norm: str, differences: Sequence[str | Difference]) -> tuple[PairLoss, ...]:
    """Rows of a mechanism with mass proportional to ``exp(-epsilon ||z||)``: a loss of ``epsilon ||u||``.

    Parameters
    ----------
    epsilon : float
        Rate of the noise, per count.
    norm : {"l1", "l2"}
        Norm of the noise.
    differences : sequence of str or Difference
        Names in `DIFFERENCES`, or differences of one's own.

    Examples
    --------
    >>> [row.loss["epsilon"] for row in pure_pairs(0.25, "l1", ["substitution", "2x2 move", "3-cycle"])]
    [0.5, 1.0, 1.5]
    """
    rate = _validate.positive_real(epsilon, "epsilon")
    found = map(_difference, differences)
    return tuple(PairLoss(Conforming(item), item.size(norm), norm, PureDP(rate * item.size(norm))) for item in found)


def gaussian_pairs(
    sigma: float, differences: Sequence[str | Difference], *, delta: float | None = None, continuous: bool = False
) -> tuple[PairLoss, ...]:
    """Rows of a Gaussian mechanism of scale sigma, in counts: a zCDP loss of ``||u||_2^2 / (2 sigma^2)``.

    Parameters
    ----------
    differences : sequence of str or Difference
        As in `pure_pairs`.
    delta : float, optional
        Adds the epsilon of each row at this delta. On a lattice it comes from zCDP by the tight conversion,
        which holds in any dimension; for continuous noise it is exact.
    continuous : bool, default False
        The noise is a continuous Gaussian on a linear subspace. Adds mu, of Gaussian differential privacy.

    Examples
    --------
    >>> [round(row.loss["rho"], 4) for row in gaussian_pairs(2.0, ["substitution", "2x2 move", "3-cycle"])]
    [0.25, 0.5, 0.75]
    """
    rows = []
    for item in map(_difference, differences):
        rho = gaussian_rho(sigma, item.l2)
        losses: list[Loss] = [ZCDP(rho)]
        if continuous:
            losses.append(GaussianDP(math.sqrt(2.0 * rho)))
        if delta is not None:
            exact = continuous and item.l2 > 0.0
            epsilon = gaussian_epsilon(delta, sigma, item.l2) if exact else rho_to_epsilon(rho, delta)
            losses.append(ApproximateDP(epsilon, delta))
        rows.append(PairLoss(Conforming(item), item.l2, "l2", all_of(losses)))
    return tuple(rows)


def _difference(item: str | Difference) -> Difference:
    if isinstance(item, Difference):
        return item
    return DIFFERENCES[_validate.choice(item, tuple(DIFFERENCES), "difference")]
