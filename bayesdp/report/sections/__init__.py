"""The sections of the page, one a module: each has a title and writes its content from what concerns it."""

from __future__ import annotations

from dataclasses import dataclass

from bayesdp.report.context import Whole
from bayesdp.report.html import Html
from bayesdp.report.sections import (
    convergence,
    errors,
    headline,
    laws,
    methods,
    noise,
    odds_ratio,
    parameters,
    prior,
    provenance,
    release,
    results,
    sensitivity,
    statistics,
)

__all__ = ["OF_A_TABLE", "SECTIONS", "Section", "sections_of"]

SECTIONS = (
    headline, release, results, parameters, noise, prior, sensitivity, laws, convergence, errors, methods, provenance,
)  # fmt: skip
"""In the order of the page: the result, what was published, how it was found and what can be wrong with it. Each has
``ANCHOR``, ``TITLE`` and ``write``, of a `Context` for those in `OF_A_TABLE`, and of the `Whole` for the others."""

OF_A_TABLE = (release, results, odds_ratio, noise, sensitivity)
"""Sections that are written anew for each table."""

_STATISTICS = {
    release: (release.TITLE, statistics.write_release),
    results: ("Statistics: published and posterior", statistics.write_results),
}
"""What is written of statistics in place of the sections on a table of counts; there are no others."""


@dataclass(frozen=True)
class Section:
    """A section of one page: its anchor, its title, and its text."""

    anchor: str
    title: str
    text: Html


def sections_of(whole: Whole) -> list[Section]:
    """The sections of one page, those of the tables one after another; the odds ratio follows the results where there is one."""
    written: list[Section] = []
    for section in SECTIONS:
        if section in (parameters, laws) and not section.applies(whole):
            continue
        if section not in OF_A_TABLE:
            written.append(Section(section.ANCHOR, section.TITLE, section.write(whole)))
            continue
        for i, context in enumerate(whole.tables):
            if context.of_statistics:
                if section in _STATISTICS:
                    title, write = _STATISTICS[section]
                    anchor = f"{section.ANCHOR}-{i + 1}" if i else section.ANCHOR
                    written.append(Section(anchor, f"{title}{context.of_table}", write(context)))
                continue
            for part in (section, odds_ratio) if section is results and odds_ratio.applies(context) else (section,):
                anchor = f"{part.ANCHOR}-{i + 1}" if i else part.ANCHOR
                written.append(Section(anchor, f"{part.TITLE}{context.of_table}", part.write(context)))
    return written
