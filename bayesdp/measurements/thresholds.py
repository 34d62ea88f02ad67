"""Noisy answers that are published only where they reach a threshold."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesdp.measurements.incomplete import chosen, published_answers
from bayesdp.measurements.measured import Measured
from bayesdp.noise.base import NoiseLaw
from bayesdp.noise.perturbed.base import PerturbedLaw
from bayesdp.noise.perturbed.censored import Censored
from bayesdp.noise.perturbed.censored_counts import censored_counts
from bayesdp.queries import Query

_WHY = (
    "candidates must say which answers could have been published: True for all answers of the query, a boolean array of its "
    "shape, or a list of names or label tuples. A candidate that is missing was under the threshold, which tells something of "
    "it; of an answer that was no candidate (not asked for, not collected, held back for another reason) nothing is known. "
    "Without the list the two cannot be told apart"
)


def thresholded(
    query: Query,
    published: Any,
    law: NoiseLaw,
    below: Any,
    *,
    candidates: Any = None,
    name: str | None = None,
) -> Measured:
    """Noisy answers of which those under a threshold were left out.

    An answer that could have been published and was not contributes the probability that its noisy value was under the
    threshold. Leaving such answers out of the model instead, as if they were missing at random, makes true counts too
    large: those that are missing are small ones.

    Parameters
    ----------
    query : Query
        What was asked of the confidential table.
    published : mapping, pandas.Series, pandas.DataFrame, xarray.DataArray or array_like
        The answers that were published: labels or names with their numbers; what is missing, or NaN, was not published.
    law : NoiseLaw
        Of the noise, or of the perturbed counts, without the threshold.
    below : float or array_like
        The smallest noisy value that is published, one for all or one for each answer.
    candidates : bool, boolean array or list
        Which answers could have been published: True for all of them, a mask of the query's shape, or a list of names or label
        tuples. It has to be stated. All others are unmeasured: nothing is known of them.
    name : str, optional
        Name of the measurement.

    Returns
    -------
    Measured
        Under the law ``Censored(law, below)``, or, of perturbed counts, `bayesdp.noise.censored_counts`, a table of probabilities. Its
        repr says how many answers are under the threshold and how many unmeasured; `published` is NaN for both.

    Raises
    ------
    TypeError, ValueError
        If candidates are not stated, a published answer is none of them or under the threshold (it is named), a label is unknown, or
        the law is none that can be censored.

    Examples
    --------
    >>> from bayesdp.noise import DiscreteGaussian
    >>> from bayesdp.queries import Identity
    >>> page = Identity({"country": ["FR", "IS", "NO", "SE"]})
    >>> views = thresholded(page, {"FR": 214, "SE": 96}, DiscreteGaussian(sigma=10.0), 90, candidates=["FR", "NO", "SE"])
    >>> views
    <Measured: 4 answers by country, 1 of them under 90, 1 of them unmeasured, law censored law=(discrete-gaussian sigma=10) below=90>
    >>> views.values
    array([214,   0,  89,  96])
    >>> views.published
    array([214.,  nan,  nan,  96.])
    """
    if not isinstance(query, Query):
        raise TypeError(f"query must be Identity, Margins, Totals or LinearQuery, got {type(query).__name__}")
    if candidates is None:
        raise ValueError(_WHY)
    censored: NoiseLaw
    if isinstance(law, PerturbedLaw):
        censored, low = censored_counts(law, below), np.asarray(below, dtype=np.float64)
    else:
        censored = Censored(law, below=below)
        low = np.asarray(censored.below)
    if np.any(np.isinf(low)):
        raise ValueError("below must be the smallest value that is published, a finite number for each answer")
    try:
        low = np.broadcast_to(low, query.shape)
    except ValueError:
        raise ValueError(
            f"below has shape {low.shape}, which does not fit the answers of the query, of shape {query.shape}"
        ) from None
    values, there = published_answers(query, published)
    possible = chosen(query, candidates, "candidates")
    flat, limit = values.reshape(-1), low.reshape(-1)
    odd = np.flatnonzero(there & ~possible)
    if odd.size:
        raise ValueError(
            f"published has {query.answer_name(int(odd[0]))}, which is not among the candidates, the answers that could have been "
            "published"
        )
    under = np.flatnonzero(there.reshape(-1) & (flat < limit))
    if under.size:
        where = int(under[0])
        raise ValueError(
            f"published has {query.answer_name(where)} = {flat[where]:.17g}, which is under the threshold: nothing below "
            f"{limit[where]:.17g} is published. Is the threshold right, and is it one on the noisy value?"
        )
    coded = np.where(there, values, np.where(possible, low - 1.0, np.nan))
    return Measured(query, coded, censored, name=name, unmeasured=np.asarray(~possible))
