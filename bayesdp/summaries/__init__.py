"""A posterior as a table: counts, totals and parameters with a named interval and diagnostics; exact numbers as exact.

- `summary`: a labelled `pandas.DataFrame` of all of it, or of some variables or one query;
- `compare_laws`: the same of one model under several noise laws, side by side, with their spread;
- `published_table`: lines of published tables of the Census by their codes;
- `summarise`, `summarise_streamed`, `summarise_variable`: the numbers behind it and behind ``bayesdp summary``.
"""

from __future__ import annotations

from bayesdp.summaries.answers import Answers, summarise
from bayesdp.summaries.frame import summarise_streamed, summary, totals_of
from bayesdp.summaries.law_comparison import LawComparison, compare_laws
from bayesdp.summaries.published import published_table
from bayesdp.summaries.variables import summarise_variable, variable_names

__all__ = [
    "Answers",
    "LawComparison",
    "compare_laws",
    "published_table",
    "summarise",
    "summarise_streamed",
    "summarise_variable",
    "summary",
    "totals_of",
    "variable_names",
]
