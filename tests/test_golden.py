"""Numbers and words of laws and mechanisms are those that were written down (`tests.golden`)."""

from __future__ import annotations

import json

import pytest

from tests import golden

THEN = golden.stored()
NAMES = [*(("laws", name) for name in golden.law_names()), *(("mechanisms", name) for name in golden.mechanism_names())]


@pytest.mark.parametrize(("kind", "name"), NAMES, ids=lambda own: own)
def test_as_written_down(kind: str, name: str) -> None:
    make = golden.law_golden if kind == "laws" else golden.mechanism_golden
    now = json.loads(json.dumps(make(name)))
    assert not list(golden.differences(now, THEN[kind][name], name, rtol=1e-9))


def test_all_that_was_written_down_is_there() -> None:
    assert {(kind, name) for kind, made in THEN.items() for name in made} == set(NAMES)


def test_a_difference_is_told() -> None:
    then = {"a": [1.0, {"b": "c"}], "d": 2}
    assert not list(golden.differences({"a": [1.0 + 1e-12, {"b": "c"}], "d": 2}, then, rtol=1e-9))
    assert list(golden.differences({"a": [1.0 + 1e-12, {"b": "x"}], "e": 2}, then)) == [
        "/a/0: 1.000000000001 now, 1.0 before",
        "/a/1/b: 'x' now, 'c' before",
        "/d: only before",
        "/e: only now",
    ]
