"""The public interface changes on purpose only: it is compared with a stored text."""

from __future__ import annotations

import difflib

import bayesdp
from tests import api_snapshot

ADVICE = (
    "The public interface is not the stored one. If that is meant: follow docs/POLICY.md (what was there goes on working, with a "
    "FutureWarning), write `python -m tests.api_snapshot`, look at the change of tests/data/api.txt, and name it in CHANGELOG.md.\n"
)


def _difference(stored: str, now: str) -> str:
    lines = difflib.unified_diff(stored.splitlines(), now.splitlines(), "stored", "now", n=0, lineterm="")
    return "\n".join(lines)


def test_the_public_interface_is_the_stored_one():
    found = _difference(api_snapshot.PATH.read_text(encoding="utf-8"), api_snapshot.text())
    assert not found, ADVICE + found


def test_every_public_name_has_a_line():
    named = {line.partition(":")[0] for line in api_snapshot.PATH.read_text(encoding="utf-8").splitlines()}
    assert {f"bayesdp.{name}" for name in bayesdp.__all__} <= named
    for package in api_snapshot.PUBLIC:
        assert {f"bayesdp.{package}.{name}" for name in getattr(bayesdp, package).__all__} <= named


class _Before:
    """What a class of the package looks like, for the check of the check."""

    def method(self, table, /, *, rng=None, **options): ...

    @classmethod
    def made(cls, size=(3, "a")): ...

    @property
    def answer(self): ...


def test_the_text_has_what_callers_depend_on(monkeypatch):
    monkeypatch.setattr(_Before, "__module__", "bayesdp.somewhere")
    assert list(api_snapshot._lines("Before", _Before)) == [
        "Before: class",
        "Before.answer: property",
        "Before.made: class method(cls, size=(3, 'a'))",
        "Before.method: method(self, table, /, *, rng=None, **options)",
    ]


def test_a_changed_default_is_shown(monkeypatch):
    stored = api_snapshot.text()
    monkeypatch.setattr(bayesdp.Frame, "__doc__", "another text is no change")
    assert api_snapshot.text() == stored
    monkeypatch.setattr(bayesdp, "compose", lambda *releases, more=1: None)
    assert "+bayesdp.compose: function(*releases, more=1)" in _difference(stored, api_snapshot.text())
