"""The sections of the page, one a module: each has a title and writes its content from the context."""

from __future__ import annotations

from typing import Any

from bayesdp.report.context import Context
from bayesdp.report.sections import (
    convergence,
    errors,
    methods,
    noise,
    odds_ratio,
    prior,
    provenance,
    release,
    results,
    sensitivity,
)

__all__ = ["SECTIONS", "sections_of"]

SECTIONS = (release, prior, convergence, results, noise, sensitivity, errors, methods, provenance)
"""In the order of the page. Each has ``ANCHOR``, ``TITLE`` and ``write(context) -> Html``."""


def sections_of(context: Context) -> list[Any]:
    """The sections of one page: `SECTIONS`, and after the results the odds ratio where there is one."""
    shown: list[Any] = list(SECTIONS)
    if odds_ratio.applies(context):
        shown.insert(shown.index(results) + 1, odds_ratio)
    return shown
