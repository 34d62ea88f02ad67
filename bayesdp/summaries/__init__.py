"""A posterior as a table: counts, totals and parameters with a named interval and diagnostics; exact numbers as exact."""

from __future__ import annotations

from bayesdp.summaries.frame import Answers, published_table, summarise_table, summarise_variable, summary, totals_of
from bayesdp.summaries.law_comparison import LawComparison, compare_laws

__all__ = [
    "Answers", "LawComparison", "compare_laws", "published_table", "summarise_table", "summarise_variable", "summary", "totals_of",
]  # fmt: skip
