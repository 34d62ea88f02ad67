"""A posterior as a table: counts, totals and parameters with a named interval and diagnostics; exact numbers as exact.

- `summary`: a labelled `pandas.DataFrame` of all of it, or of some variables or one query;
- `compare_laws`: the same of one model under several noise laws, side by side, with their spread;
- `published_table`: lines of published tables of the Census by their codes;
- `summarise_table`, `summarise_variable`: the numbers behind it and behind ``bayesdp summary``.
"""

from __future__ import annotations

from bayesdp.summaries.frame import Answers, published_table, summarise_table, summarise_variable, summary, totals_of
from bayesdp.summaries.law_comparison import LawComparison, compare_laws

__all__ = [
    "Answers", "LawComparison", "compare_laws", "published_table", "summarise_table", "summarise_variable", "summary", "totals_of",
]  # fmt: skip
