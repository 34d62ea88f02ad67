"""The reference: a page for every public class and function, and one for every package that these stand on."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import bayesdp
from bayesdp.priors import Prior
from pages import laws, mechanisms

__all__ = ["BLOCKS", "PUBLIC", "owners", "write"]

PUBLIC = tuple(name for name in bayesdp.__all__ if isinstance(getattr(bayesdp, name), ModuleType))
"""Packages that `bayesdp` names as its own: the public interface, with its own names."""

BLOCKS = (
    "fibers", "frames", "invariants", "lattices", "lattices.polytopes", "measurements", "mechanisms.composition", "posterior",
    "queries", "release",
    "papers.bounded_statistics", "papers.covariance_cone", "papers.integer_subspace", "papers.models", "papers.semi_dp",
    "papers.subspace",
    "steps", "storage", "streaming",
)  # fmt: skip
"""Packages that these stand on, for those who extend them: all on one page each."""


def _packages() -> dict[str, list[str]]:
    """Every package with its public names, in the order in which they own what they share."""
    own = [name for name in bayesdp.__all__ if name not in PUBLIC]
    found = {"bayesdp": own}
    for name in (*PUBLIC, *BLOCKS):
        found[f"bayesdp.{name}"] = list(import_module(f"bayesdp.{name}").__all__)
    return found


def owners() -> dict[str, str]:
    """Every public name of every package, with the name under which it has its place: ``bayesdp.X`` where there is one."""
    first: dict[int, str] = {}
    found: dict[str, str] = {}
    for package, names in _packages().items():
        module = import_module(package)
        for name in names:
            full = f"{package}.{name}"
            value = getattr(module, name)
            # Numbers and strings may be one object in several places, and are not the same thing.
            known = inspect.isroutine(value) or isinstance(value, (type, ModuleType))
            found[full] = first.setdefault(id(value), full) if known else full
    return found


def _heading(text: str, line: str = "=") -> str:
    return f"{text}\n{line * len(text)}\n\n"


def _members(value: type, places: dict[int, str]) -> tuple[list[str], dict[str, list[str]]]:
    """Documented members: those to show with a class, and by the public base that has them those to link to."""
    shown: list[str] = []
    elsewhere: dict[str, list[str]] = {}
    for name in dir(value):
        home = next((base for base in value.__mro__ if name in base.__dict__), object)
        if name.startswith("_") or not home.__module__.startswith("bayesdp"):
            continue
        raw = home.__dict__[name]
        if not (inspect.isroutine(raw) or inspect.isdatadescriptor(raw) or hasattr(raw, "__set_name__")):
            continue
        if not (raw.__doc__ or getattr(getattr(raw, "__func__", None), "__doc__", None)):
            continue
        if home is value or id(home) not in places:
            shown.append(name)
        else:
            elsewhere.setdefault(places[id(home)], []).append(name)
    return shown, elsewhere


def _priors(value: Any) -> str:
    """The default priors that a name stands for, in words: their values are too long to be read; "" of all else."""
    found = list(value.values()) if isinstance(value, dict) else [value]
    if not all(isinstance(own, Prior) for own in found):
        return ""
    text = ""
    for own in found:
        formula = "".join(f"   {line}\n" for line in own.formula.splitlines())
        text += f".. rubric:: {own.name}: {own.title}\n\n.. code-block:: text\n   :class: guarantee\n\n{formula}\n"
        text += ".. list-table::\n   :header-rows: 1\n   :widths: auto\n\n   * - hyperparameter\n     - default\n     - what it is\n"
        for hyper in own.hyperparameters:
            default = hyper.default_text if hyper.default is None else hyper.default
            text += f"   * - ``{hyper.name}``\n     - {default}\n     - {hyper.text}\n"
        text += "\n"
    return text


def _entry(full: str, value: Any, places: dict[int, str]) -> str:
    """One name, by what it is."""
    if isinstance(value, ModuleType):
        return f".. automodule:: {full}\n\n"
    if inspect.isroutine(value):
        return f".. autofunction:: {full}\n\n"
    if not isinstance(value, type):
        priors = _priors(value)
        return f".. autodata:: {full}\n" + ("   :no-value:\n" if priors else "") + f"\n{priors}"
    if issubclass(value, BaseException):
        return f".. autoexception:: {full}\n\n"
    text = f".. autoclass:: {full}\n"
    if value.__module__.startswith("bayesdp.distributions"):
        return text + "\n"  # what PyMC calls, and users do not
    shown, elsewhere = _members(value, places)
    text += (f"   :members: {', '.join(shown)}\n" if shown else "") + "\n"
    for base, names in elsewhere.items():
        links = ", ".join(f":py:obj:`{name} <{base}.{name}>`" for name in names)
        text += f"As every :py:obj:`{base.rpartition('.')[2]} <{base}>`: {links}.\n\n"
    return text


def _first_sentence(value: Any) -> str:
    """What a table says of a name, without markup that could run into that of the table."""
    text = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    return text.replace("*", r"\*").replace("|", r"\|")


def _row(full: str, shown: str, value: Any) -> str:
    about = _first_sentence(value) if isinstance(value, type) or inspect.isroutine(value) else ""
    return f"   * - :py:obj:`{shown} <{full}>`\n     - {about}\n"


def write(made: Path) -> None:
    """Write ``reference``: a page for each package with a table of its names, and the pages of these."""
    target = made / "reference"
    target.mkdir(parents=True, exist_ok=True)
    found = owners()
    places = {
        id(getattr(import_module(own.rpartition(".")[0]), own.rpartition(".")[2])): own for own in set(found.values())
    }
    for package, names in _packages().items():
        module = import_module(package)
        block = package.removeprefix("bayesdp.") in BLOCKS
        text = _heading(package) + f".. automodule:: {package}\n\n"
        if names:
            text += ".. list-table::\n   :widths: 25 75\n   :class: names\n\n"
            text += "".join(_row(found[f"{package}.{name}"], name, getattr(module, name)) for name in names) + "\n"
        own = [name for name in names if found[f"{package}.{name}"] == f"{package}.{name}"]
        if block:
            for name in own:
                value = getattr(module, name)
                text += laws.before(value) + _entry(f"{package}.{name}", value, places)
                text += laws.after(value) + mechanisms.after(value)
        elif own:
            text += ".. toctree::\n   :hidden:\n\n" + "".join(f"   {package}.{name}\n" for name in own)
        (target / f"{package}.rst").write_text(text, encoding="utf-8")
        for name in () if block else own:
            full, value = f"{package}.{name}", getattr(module, name)
            page = _heading(full) + laws.before(value) + _entry(full, value, places)
            page += laws.after(value) + mechanisms.after(value)
            (target / f"{full}.rst").write_text(page, encoding="utf-8")
