"""A ledger for the figures that benchmarks are about: printed together at the end of the run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

type Enter = Callable[..., None]

_LEDGER = pytest.StashKey[list[tuple[str, float, str, str, bool | None]]]()


@pytest.fixture
def enter(request: pytest.FixtureRequest) -> Enter:
    """Enter a figure: ``enter(what, value, unit, at_least=..., at_most=...)``; the target is printed next to it."""
    entries = request.config.stash.setdefault(_LEDGER, [])

    def note(
        what: str, value: float, unit: str, *, at_least: float | None = None, at_most: float | None = None
    ) -> None:
        target, met = "", None
        if at_least is not None:
            target, met = f"at least {at_least:.4g}", value >= at_least
        if at_most is not None:
            target, met = f"at most {at_most:.4g}", value <= at_most
        entries.append((what, value, unit, target, met))

    return note


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    entries = config.stash.get(_LEDGER, [])
    if not entries:
        return
    terminalreporter.section("figures")
    width = max(len(what) for what, *_ in entries)
    for what, value, unit, target, met in entries:
        verdict = "" if met is None else f"  ({target}: {'met' if met else 'MISSED'})"
        terminalreporter.write_line(f"{what:<{width}}  {value:>10.4g} {unit}{verdict}")
