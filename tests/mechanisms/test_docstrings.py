"""Parameters that bases document stand in the docstring of every mechanism, in the order of its signature."""

from __future__ import annotations

import inspect

import pytest

from bayesdp import mechanisms
from bayesdp._docs import entries_of, sections_of

KINDS = [
    kind
    for kind in map(vars(mechanisms).get, mechanisms.__all__)
    if inspect.isclass(kind) and issubclass(kind, mechanisms.Mechanism) and "name" in vars(kind)
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_is_documented_in_the_order_of_the_signature(kind: type) -> None:
    entries = entries_of(sections_of(kind.__doc__)["Parameters"])
    assert list(entries) == list(inspect.signature(kind).parameters)
