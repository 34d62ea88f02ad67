"""Docstrings of a family of classes: what all of them say is written once and put into each of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from inspect import cleandoc, get_annotations, signature
from typing import Any

_ORDER = ("Parameters", "Attributes", "Returns", "Raises", "See Also", "Notes", "References", "Examples")
_HEADING = re.compile(rf"^({'|'.join(_ORDER)})\n-+\n", re.MULTILINE)


def with_sections(doc: str | None, shared: Mapping[str, str]) -> str:
    """A numpydoc docstring with the shared sections, in numpydoc's order, but for those that it has itself; "" is the description."""
    sections = {**shared, **sections_of(doc)}
    return joined({**sections, "": "\n\n".join(filter(None, (sections[""], shared.get("", ""))))})


def joined(sections: Mapping[str, str]) -> str:
    """A docstring of these sections by their titles, "" for what stands before all of them; empty ones are left out."""
    titled = [f"{title}\n{'-' * len(title)}\n{sections[title]}" for title in _ORDER if sections.get(title)]
    return "\n\n".join(filter(None, (sections.get("", ""), *titled))) + "\n"


def sections_of(doc: str | None) -> dict[str, str]:
    """The text of each section of a numpydoc docstring by its title, "" for what stands before all of them."""
    head, *rest = _HEADING.split(cleandoc(doc or ""))
    return {"": head.strip(), **{title: text.strip() for title, text in zip(rest[::2], rest[1::2], strict=True)}}


def entries_of(section: str) -> dict[str, str]:
    """The entries of a section *Parameters* by name; one of several parameters stands under the name of each."""
    entries = {}
    for entry in re.split(r"\n(?=\S)", section):
        for name in entry.split(" : ")[0].split(", "):
            entries[name] = entry
    return entries


def parameters_of(function: Callable[..., Any], section: str) -> str:
    """What a section *Parameters* says of the parameters of a function, in its order."""
    entries = entries_of(section)
    return "\n".join(dict.fromkeys(entries[name] for name in signature(function).parameters if name in entries))


def documented[F: Callable[..., Any]](shared: Mapping[str, str]) -> Callable[[F], F]:
    """Write shared sections into a docstring, of *Parameters* those that the function has; what it says itself of one stays."""

    def write(function: F) -> F:
        sections = {**shared, **sections_of(function.__doc__)}
        said = "\n".join([shared["Parameters"].strip(), sections["Parameters"]])
        function.__doc__ = with_sections("", {**sections, "Parameters": parameters_of(function, said)})
        return function

    return write


def with_shared_parameters(kind: type) -> str:
    """The docstring of a dataclass with what its bases say of their parameters, in the order of its signature, and of errors."""
    shared: dict[str, str] = {}
    entries: dict[str, str] = {}
    order: dict[str, bool] = {}  # whether a parameter is keyword-only, by its name
    for base in reversed(kind.__mro__):
        sections = sections_of(vars(base).get("__doc__"))
        entries |= entries_of(sections.get("Parameters", ""))
        shared |= {title: text for title, text in sections.items() if title == "Raises" or base is kind}
        attributes = {**vars(base), **vars(base).get("__dataclass_fields__", {})}
        order |= {name: getattr(attributes.get(name), "kw_only", False) is True for name in get_annotations(base)}
    made_by = vars(kind).get("__init__")
    names = sorted(order, key=order.__getitem__) if made_by is None else signature(made_by).parameters
    listed = dict.fromkeys(entries[name] for name in names if name in entries)
    return with_sections("", {**shared, "Parameters": "\n".join(listed)})
