"""Parameters that bases document stand in the docstring of every mechanism, in the order of its signature."""

from __future__ import annotations

import inspect

import pytest
from numpydoc.docscrape import NumpyDocString

from bayesdp import mechanisms

KINDS = [
    kind
    for kind in map(vars(mechanisms).get, mechanisms.__all__)
    if inspect.isclass(kind) and issubclass(kind, mechanisms.Mechanism) and "name" in vars(kind)
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_is_documented_once_and_in_order(kind: type) -> None:
    entries = NumpyDocString(kind.__doc__ or "")["Parameters"]
    assert [name for entry in entries for name in entry.name.split(", ")] == list(inspect.signature(kind).parameters)
    assert all(entry.desc or entry.type for entry in entries)
