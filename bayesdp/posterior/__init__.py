"""One view of a posterior: summaries, pictures, reports and the command line read its tables, and its model, by nothing else.

`PosteriorModel` is a posterior as a whole, `Posterior` one of its tables: of cells that were drawn, or that `bayesdp.fit_hierarchy`
summarised while sampling. `summary` and `published_table` are a posterior as a table: counts, totals and parameters with a named
interval and diagnostics, exact numbers as exact; `compare_laws` is what other laws of the noise would say.
`check_posterior` compares what a posterior says with its draws and its releases.
"""

from bayesdp.posterior.derived import Derived
from bayesdp.posterior.law_comparison import LawComparison, compare_laws
from bayesdp.posterior.summaries import (
    Answers,
    published_table,
    summarise_table,
    summarise_variable,
    summary,
    totals_of,
)
from bayesdp.posterior.view import Posterior, PosteriorModel, SummarisedPosterior, Summary, flat, summarise_draws
from bayesdp.storage.posteriors import CELLS, check_posterior, converged_of, releases_of_tables, tables_of_posterior

__all__ = [
    "CELLS", "Answers", "Derived", "LawComparison", "Posterior", "PosteriorModel", "SummarisedPosterior", "Summary", "check_posterior",
    "compare_laws", "converged_of", "flat", "published_table", "releases_of_tables", "summarise_draws", "summarise_table",
    "summarise_variable", "summary", "tables_of_posterior", "totals_of",
]  # fmt: skip
