"""Sentences of guarantees as values: a text together with the numbers that it is made from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Self

from bayesdp import _validate
from bayesdp.privacy.loss import Loss
from bayesdp.privacy.stated_losses import stated_loss

__all__ = ["Words", "words_from"]


@dataclass(frozen=True, eq=False, repr=False)
class Words(str):
    """A text, and as attributes what it is made from.

    It is a string, so that guarantees can be read as text; code asks for the class and the attributes. Subclasses
    are frozen dataclasses with a `name` for files and a `template` for `str.format`, or a `_words` of their own. Two of them are
    equal if their texts are.
    """

    name: ClassVar[str]
    template: ClassVar[str]

    def __new__(cls, *values: Any, **named: Any) -> Self:
        """Make the text; the fields are set afterwards, by the dataclass."""
        # A string cannot be changed once made, so that its text is worked out before the dataclass sets the fields.
        given = {item.name: item.default for item in fields(cls) if item.default is not MISSING}
        given |= dict(zip((item.name for item in fields(cls)), values, strict=False)) | named
        return super().__new__(cls, cls._words(**given))

    def __getnewargs__(self) -> tuple[Any, ...]:  # for copies and pickles: the fields, not the text
        return tuple(getattr(self, item.name) for item in fields(self))

    @classmethod
    def _words(cls, *values: Any, **given: Any) -> str:
        """The text, from the fields."""
        return cls.template.format(**given)

    def describe(self) -> dict[str, Any]:
        """Describe it by plain strings, numbers and lists, without the text; `words_from` reads it."""
        return {"is": self.name, **{item.name: _plain(getattr(self, item.name)) for item in fields(self)}}


def words_from(description: Any, known: Iterable[type[Words]], what: str, levels: int = 20) -> Words:
    """Read what `Words.describe` wrote."""
    # `known`: the classes that it may be of. `what`: what an error calls it. `levels`: how often one may stand in another.
    kinds = {sentence.name: sentence for sentence in known}
    if not levels:
        raise ValueError("a caveat must not stand in more than 20 others")
    if not isinstance(description, Mapping):
        raise TypeError(f"{what} must be a mapping, got {description!r}")
    sentence = kinds[_validate.choice(description.get("is"), tuple(kinds), f"the key 'is' of {what}")]
    types = {item.name: str(item.type) for item in fields(sentence)}
    if set(description) != {"is", *types}:
        raise ValueError(
            f"{what} must have the keys {', '.join(sorted({'is', *types}))}, got {', '.join(map(str, description))}"
        )

    def read(value: Any, kind: str, where: str) -> Any:
        if kind.endswith(" | None"):
            return None if value is None else read(value, kind.removesuffix(" | None"), where)
        if kind.endswith(", ...]"):
            if not isinstance(value, (list, tuple)):
                raise TypeError(f"{where} must be a list, got {value!r}")
            inner = kind.removeprefix("tuple[").removesuffix(", ...]")
            return tuple(read(item, inner, where) for item in value)
        if kind == "Words":
            return words_from(value, kinds.values(), where, levels - 1)
        if kind in _READ:
            return _READ[kind](value, where)
        return words_from(value, [sub for sub in Words.__subclasses__() if sub.__name__ == kind], where, levels - 1)

    return sentence(**{key: read(description[key], kind, f"{key} of {what}") for key, kind in types.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, Words):
        return value.describe()
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


def _truth(value: Any, where: str) -> bool:
    return _validate.boolean(value, where)


_READ: Mapping[str, Callable[[Any, str], Any]] = {
    "str": _text,
    "int": _integer,
    "float": _validate.nonnegative_real,
    "bool": _truth,
    "Loss": stated_loss,
}
"""How a field is read, by the name of its type."""
