"""Compositions in files that say of how many releases they are by the name of their mechanism only."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["with_number"]

_NAME = re.compile(r"composition of ([1-9][0-9]{0,5}) releases", re.ASCII)
"""The name by which these files state the number; the only place that reads it."""


def with_number(mechanism: Any) -> Any:
    """The description of a mechanism with ``composition_of`` where an older file has a name such as "composition of 2 releases".

    Compositions that it lists are given theirs too. What is no composition, or has the number, is returned as it is.

    Examples
    --------
    >>> with_number({"mechanism": "composition of 2 releases", "releases": [None, None]})["composition_of"]
    2
    """
    found = {"mechanism": mechanism}
    todo: list[tuple[Any, Any]] = [
        (found, "mechanism")
    ]  # places of descriptions; no recursion, as files may nest them deeply
    while todo:
        holder, place = todo.pop()
        given = holder[place]
        if not isinstance(given, dict):
            continue
        named = _NAME.fullmatch(given["mechanism"]) if isinstance(given.get("mechanism"), str) else None
        if named is None:
            continue
        parts = given.get("releases")
        own = {"composition_of": int(named[1]), **given}
        holder[place] = own
        if isinstance(parts, list):
            own["releases"] = list(parts)
            todo += [(own["releases"], i) for i in range(len(parts))]
    return found["mechanism"]
