"""How the description of a mechanism says that it is a composition: ``composition_of``, the number of releases put together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["LOSS_UNKNOWN", "check_parts", "composition_name", "number_of_releases"]

LOSS_UNKNOWN = "total_loss"
"""Key under which the description of a composition says why no total loss is stated."""


def composition_name(count: int) -> str:
    """What the composition of this number of releases is called in descriptions. It is for people: programs read the number."""
    return f"composition of {count} releases"


def number_of_releases(description: Mapping[str, Any] | None) -> int:
    """Of how many releases a described mechanism is the composition; 0 if it is none.

    Raises
    ------
    ValueError
        If ``composition_of`` is no whole number of at least 2.

    Examples
    --------
    >>> number_of_releases({"mechanism": "composition of 2 releases", "composition_of": 2, "releases": [None, None]})
    2
    >>> number_of_releases({"mechanism": "k-norm", "epsilon": 1.0})
    0
    """
    if description is None or "composition_of" not in description:
        return 0
    count = description["composition_of"]
    if not isinstance(count, int) or isinstance(count, bool) or count < 2:
        raise ValueError(f"composition_of must be the number of releases put together, at least 2, got {count!r}")
    return count


def check_parts(description: Mapping[str, Any]) -> list[Any]:
    """The descriptions that a composition lists, one for each of its releases."""
    count, parts = number_of_releases(description), description.get("releases")
    name = description.get("mechanism")
    if name != composition_name(count):
        raise ValueError(f"mechanism is {name!r}, but by composition_of = {count} it is a {composition_name(count)!r}")
    if not isinstance(parts, list) or len(parts) != count:
        number = len(parts) if isinstance(parts, list) else "none"
        raise ValueError(f"mechanism {name!r} must list the mechanisms of all releases, got {number}")
    return parts
