"""Every docstring's See Also names something that there is."""

from __future__ import annotations

import inspect
import sys
from importlib import import_module

import pytest
from numpydoc.docscrape import NumpyDocString

from pages import reference  # isort: skip  # from docs/, see conftest.py


def objects():
    """Public names and the documented members of public classes, each with the module that it is written in."""
    for full in sorted(set(reference.owners().values())):
        package, _, name = full.rpartition(".")
        value = getattr(import_module(package), name)
        if not (isinstance(value, type) or inspect.isroutine(value)) or not value.__module__.startswith("bayesdp"):
            continue
        yield full, value, value
        if isinstance(value, type):
            for member, raw in vars(value).items():
                if (
                    not member.startswith("_")
                    and getattr(raw, "__doc__", None)
                    and not isinstance(raw, (int, str, float))
                ):
                    yield f"{full}.{member}", value, raw


def found(name: str, home: object) -> bool:
    """Whether a name means something: in full, in the module it is written in, in a class, or in a public package."""
    module = sys.modules[home.__module__]
    inside = [module, home, *(import_module(package) for package in reference._packages())]
    if name.startswith("bayesdp"):
        parts = name.split(".")[1:]
        inside = [import_module("bayesdp")]
    elif name.partition(".")[0] in ("pymc", "arviz", "numpy", "scipy", "xarray", "pandas", "multiprocessing"):
        first, *parts = name.split(".")
        inside = [import_module(first)]
    else:
        parts = name.split(".")
    for start in inside:
        value = start
        for part in parts:
            value = getattr(value, part, None) if value is not None else None
            if value is None and inspect.ismodule(start):
                value = sys.modules.get(f"{start.__name__}.{part}")
        if value is not None:
            return True
    return False


def test_every_see_also_is_there():
    looked_at, missing = 0, []
    for full, home, value in objects():
        text = inspect.getdoc(value) or ""
        if "See Also" not in text:
            continue
        for names, _ in NumpyDocString(text)["See Also"]:
            for name, _ in names:
                looked_at += 1
                if not found(name, home):
                    missing.append(f"{full}: {name}")
    assert looked_at > 100
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize("name", ["bayesdp.noise.NoSuchLaw", "NoSuchName"])
def test_what_is_not_there_is_noticed(name):
    import bayesdp

    assert not found(name, bayesdp.Release)
