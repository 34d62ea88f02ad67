"""Summaries of results of `bayesdp.fit_hierarchy`: cells from what was kept of them, recorded queries from their draws."""

from __future__ import annotations

import numpy as np

from bayesdp._validate import probability
from bayesdp.composition import Streamed
from bayesdp.consistency import determined_answers, implied_answers
from bayesdp.queries import Identity, Query
from bayesdp.summaries.answers import Answers, labelled, summarise_answers


def summarise_streamed(own: Streamed, query: Query, prob: float) -> Answers:
    """Summarise the answers of a query.

    Parameters
    ----------
    own : Streamed
    query : Query
        The cells (`Identity`), or what was recorded. Of cells, ``ess_bulk`` and ``rhat`` are those of means of batches, and there is
        no ``ess_tail``.
    prob : float
        Probability of the equal-tailed intervals.

    Raises
    ------
    ValueError
        If draws of the answers were not kept, or no quantiles of cells for this probability.
    """
    level, release = probability(prob, "prob"), own.release
    if not query.is_identity:
        return summarise_answers(own.answers(query), query, release, level, own.determined)
    query = Identity(release.frame)
    exact = implied_answers(query, release.exact)
    cells, determined = own.cells(level), exact | determined_answers(query, release.exact, own.determined)
    numbers = {
        "mean": cells.mean,
        "sd": cells.sd,
        "lower": cells.lower,
        "upper": cells.upper,
        "ess_bulk": np.where(determined, np.nan, cells.ess),
        "ess_tail": np.full(cells.mean.shape, np.nan),
        "rhat": np.where(determined, np.nan, cells.rhat),
    }
    return labelled(query, release, level, exact, determined, numbers)
