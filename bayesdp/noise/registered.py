"""What all laws share: a name that files know, parameters, a description, and comparison by it."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, ClassVar

import numpy as np

from bayesdp import _validate
from bayesdp._wiring import named, names

_REGISTRY: dict[str, type[Any]] = {}


class RegisteredLaw(ABC):
    """A frozen dataclass whose fields are the parameters of a law; a subclass that defines a `name` is registered under it.

    Attributes
    ----------
    name : str
        Name in files and on the command line.
    other_parameters : tuple of str
        Parameters that its constructor takes in place of its fields.
    relation : str
        What the law takes and how that is related to what else a methods note may state, for messages; may be empty.
    """

    name: ClassVar[str]
    other_parameters: ClassVar[tuple[str, ...]] = ()
    relation: ClassVar[str] = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            _REGISTRY[cls.name] = cls

    def describe(self) -> dict[str, Any]:
        """Describe the law by plain strings, numbers and lists: ``{"law": name, ...parameters}``."""
        description: dict[str, Any] = {"law": self.name}
        for name, value in self._parameters().items():
            description[name] = value.tolist() if isinstance(value, np.ndarray) else value
        return description

    def _parameters(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def stated_parameters(cls) -> dict[str, Any]:
        """Parameters in a description with their defaults, by default the fields; `dataclasses.MISSING` for those without."""
        return {
            item.name: MISSING if item.default is MISSING and item.default_factory is MISSING else item.default
            for item in fields(cls)  # type: ignore[arg-type]  # subclasses are dataclasses
        }

    @classmethod
    def read_word(cls, word: str) -> dict[str, Any] | None:
        """The parameters for which text without ``=`` stands on the command line; None, the default, where it means nothing."""
        return None

    # Laws may hold arrays, which dataclasses cannot compare or hash; the description can do both.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, RegisteredLaw) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash(repr(self.describe()))

    def __str__(self) -> str:
        shown = (f"{name}={self._shown(value)}" for name, value in self._parameters().items() if value is not None)
        return " ".join([self.name, *shown])

    @staticmethod
    def _shown(value: Any) -> str:
        """A parameter in one line; an array has one number for each cell."""
        if isinstance(value, np.ndarray):
            return f"<one per cell, from {value.min():.6g} to {value.max():.6g}>"
        return f"{value:.6g}" if isinstance(value, float) else str(value)


def law_names() -> str:
    """List the registered names for a message."""
    return ", ".join(names("law", _REGISTRY))


def registered_law(name: Any) -> type[Any]:
    """The law of a registered name; ValueError for other names."""
    found: type[Any] | None = named("law", name, _REGISTRY)
    if found is None:
        raise ValueError(
            f"unknown noise law {name!r}; known laws are {_validate.nearest(name, names('law', _REGISTRY))}"
        )
    return found


def made_law(name: Any, parameters: Mapping[str, Any], others: tuple[str, ...] = ()) -> Any:
    """Make a law of a registered name."""
    # `others`: parameters that are accepted in place of fields of the law.
    law = registered_law(name)
    stated = law.stated_parameters()
    known = list(stated)
    unknown = [key for key in parameters if key not in known and key not in others]
    if unknown:
        valid = f"it takes {law.relation}" if law.relation else f"it has {', '.join(known)}"
        raise ValueError(f"noise law {name!r} has no parameter {_validate.shown(unknown)}; {valid}")
    missing = [key for key, default in stated.items() if default is MISSING and key not in parameters]
    if missing and not any(key in parameters for key in others):
        raise ValueError(f"noise law {name!r} lacks parameter {_validate.shown(missing)}")
    try:
        return law(**parameters)
    except (TypeError, ValueError) as error:
        raise type(error)(f"noise law {name!r}: {error}") from None
