"""The public interface as text: ``python -m tests.api_snapshot`` writes it to ``tests/data/api.txt``.

A line for each public name, method and property that the package itself defines, with names, kinds and defaults of parameters.
"""

import enum
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import bayesdp

__all__ = ["PATH", "PUBLIC", "text"]

PATH = Path(__file__).with_name("data") / "api.txt"

PUBLIC = tuple(name for name in bayesdp.__all__ if isinstance(getattr(bayesdp, name), ModuleType))
"""The public packages: those that `bayesdp` names."""


def _default(value: Any) -> str:
    if inspect.isroutine(value) or inspect.isclass(value):
        return f"<{value.__qualname__}>"
    shown = repr(value)
    return f"<{type(value).__name__}>" if " at 0x" in shown or len(shown) > 80 else shown


def _parameters(thing: Any) -> str:
    """The parameters of a callable as they are written in a definition, without annotations."""
    written, last = [], None
    for own in inspect.signature(thing).parameters.values():
        if last is own.POSITIONAL_ONLY and own.kind is not last:
            written.append("/")
        if own.kind is own.KEYWORD_ONLY and last not in (own.KEYWORD_ONLY, own.VAR_POSITIONAL):
            written.append("*")
        stars = {own.VAR_POSITIONAL: "*", own.VAR_KEYWORD: "**"}.get(own.kind, "")
        default = "" if own.default is own.empty else f"={_default(own.default)}"
        written.append(f"{stars}{own.name}{default}")
        last = own.kind
    if last is inspect.Parameter.POSITIONAL_ONLY:
        written.append("/")
    return f"({', '.join(written)})"


def _ours(owner: type) -> bool:
    return owner.__module__.partition(".")[0] == "bayesdp"


def _members(name: str, cls: type) -> Iterator[str]:
    """Public methods and properties of a class, also inherited ones, that the package defines."""
    seen: set[str] = set()
    for owner in cls.__mro__:
        known, seen = seen, seen | vars(owner).keys()
        for own in vars(owner).keys() - known if _ours(owner) else ():
            if own.startswith("_"):
                continue
            member = vars(owner)[own]
            plain = inspect.unwrap(getattr(member, "__func__", member))
            if inspect.isfunction(plain):
                kind = {staticmethod: "static ", classmethod: "class "}.get(type(member), "")
                yield f"{name}.{own}: {kind}method{_parameters(plain)}"
            elif inspect.isdatadescriptor(member) or hasattr(type(member), "__get__"):
                yield f"{name}.{own}: property"


def _lines(name: str, thing: Any) -> Iterator[str]:
    if isinstance(thing, type):
        made_by = next((own for own in thing.__mro__ if {"__init__", "__new__"} & vars(own).keys()), object)
        if issubclass(thing, enum.Enum):
            yield f"{name}: enumeration {', '.join(thing.__members__)}"
        else:
            yield f"{name}: class{_parameters(thing) if _ours(made_by) else ''}"
        yield from sorted(_members(name, thing))
    elif inspect.isroutine(thing):
        yield f"{name}: function{_parameters(thing)}"
    elif isinstance(thing, ModuleType):
        yield f"{name}: module"
    else:
        yield f"{name}: {type(thing).__name__}"


def text() -> str:
    """All lines, sorted by package; what has two public names is written out once."""
    lines: list[str] = []
    known: dict[int, str] = {}
    papers = (f"papers.{name}" for name in bayesdp.papers.__all__)
    for module in (bayesdp, *(import_module(f"bayesdp.{name}") for name in (*PUBLIC, *papers))):
        for own in sorted(module.__all__):
            name, thing = f"{module.__name__}.{own}", getattr(module, own)
            if isinstance(thing, type) or inspect.isroutine(thing):
                first = known.setdefault(id(thing), name)
                if first != name:
                    lines.append(f"{name}: is {first}")
                    continue
            lines += _lines(name, thing)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
