"""One view of a posterior: summaries, pictures, reports and the command line read its tables, and its model, by nothing else.

`PosteriorModel` is a posterior as a whole, `Posterior` one of its tables: of cells that were drawn, or that `bayesdp.fit_hierarchy`
summarised while sampling. `check_posterior` compares what a posterior says with its draws and its releases.
"""

from __future__ import annotations

from bayesdp.posterior.groups import CELLS, check_posterior, converged_of, releases_of_tables, tables_of_posterior
from bayesdp.posterior.view import Posterior, PosteriorModel, SummarisedPosterior, Summary, flat, summarise_draws

__all__ = [
    "CELLS", "Posterior", "PosteriorModel", "SummarisedPosterior", "Summary", "check_posterior", "converged_of",
    "flat", "releases_of_tables", "summarise_draws", "tables_of_posterior",
]  # fmt: skip
