"""Mechanisms of statistics as plain data, and back: one registry for all of them."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, ClassVar, Self

from bayesdp._validate import shown
from bayesdp._wiring import named, names
from bayesdp.measurements import Measured
from bayesdp.noise.bounded.base import plain_bounds
from bayesdp.privacy import Guarantee

_REGISTRY: dict[str, type[DescribedMechanism]] = {}


class DescribedMechanism(ABC):
    """A dataclass whose fields are its parameters, and which files know by its ``name``."""

    name: ClassVar[str]
    leaves_out: ClassVar[bool] = False
    """Whether it may publish fewer statistics than it has names for."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            _REGISTRY[cls.name] = cls

    def describe(self) -> dict[str, Any]:
        """The mechanism as plain data: ``{"mechanism": name, "epsilon": ..., ...}``."""
        description: dict[str, Any] = {"mechanism": self.name}
        for item in fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            value = getattr(self, item.name)
            if item.name == "bounds":
                value = plain_bounds(value)
            if value is not None:
                description[item.name] = list(value) if isinstance(value, tuple) else value
        return description

    @classmethod
    def _described(cls, description: Any) -> type[Self]:
        """The class of a description, whose name alone is looked at; ValueError if there is none, or it is that of another one."""
        name = description.get("mechanism") if isinstance(description, Mapping) else None
        found: type[Self] | None = named("mechanism", name, _REGISTRY)
        if found is None:
            kinds = {own: named("mechanism", own, _REGISTRY) for own in names("mechanism", _REGISTRY)}
            known = ", ".join(own for own, kind in kinds.items() if issubclass(kind, cls))
            raise ValueError(
                f"a mechanism for statistics is described by a mapping with 'mechanism', one of {known}, got {description!r}"
            )
        if not issubclass(found, cls):
            wanted = repr(cls.name) if hasattr(cls, "name") else f"a {cls.__name__}"
            raise ValueError(f"the description is of the mechanism {found.name!r}, not of {wanted}")
        return found

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        """Rebuild a mechanism from `describe`.

        Raises
        ------
        TypeError, ValueError
            If the name is not registered or is that of another mechanism, a key is unknown or missing, or a value is not
            valid.
        """
        found = cls._described(description)
        parameters = {key: value for key, value in description.items() if key != "mechanism"}
        own = fields(found)  # type: ignore[arg-type]
        odd = [key for key in parameters if key not in [item.name for item in own]]
        missing = [item.name for item in own if item.default is MISSING and item.name not in parameters]
        if odd or missing:
            raise ValueError(
                f"mechanism {found.name!r} has no parameter {shown(odd)}; it has {', '.join(item.name for item in own)}"
                if odd
                else f"mechanism {found.name!r} lacks {shown(missing)}"
            )
        return found(**parameters)

    @classmethod
    def _that_published(cls, description: Mapping[str, Any], measured: Measured, stated: Guarantee | None) -> Any:
        """The mechanism of a release, with the names, query, law and guarantee that the release must have.

        `measured` and `stated` are what the release says, for mechanisms whose law depends on that.
        """
        return cls.from_description(description)

    # Parameters may be arrays, which dataclasses cannot compare or hash; the description can do both.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, DescribedMechanism) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash(repr(self.describe()))
