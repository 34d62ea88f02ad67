"""Posterior summaries of the answers to a query: the numbers behind `bayesdp.summary` and ``bayesdp summary``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp._chains import chain_statistics
from bayesdp._validate import probability
from bayesdp.consistency import determined_answers, implied_answers
from bayesdp.queries import Query
from bayesdp.release import Release
from bayesdp.storage.draws import without_rounding_errors

type Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Answers:
    """Summary of the posterior of each answer of a query; all arrays have one entry an answer.

    Attributes
    ----------
    labels : dict
        Dimension of the answer -> label of each answer.
    published : float array
        The noisy value that was published for the answer; NaN where none was.
    further : tuple of float arrays
        The noisy values of further measurements of the same query.
    mean, sd : float array
        Posterior mean and standard deviation, in counts.
    lower, upper : float array
        Equal-tailed interval.
    prob : float
        Its probability.
    ess_bulk, ess_tail, rhat : float array
        Effective sample sizes and split R-hat; NaN where `determined`.
    exact : bool array
        The answer was published exactly, or is a sum of answers that were.
    determined : bool array
        `exact`, or the exact values leave one possible answer: there is nothing to estimate, and ESS and R-hat mean
        nothing.
    """

    labels: dict[str, list[Any]]
    published: Floats
    further: tuple[Floats, ...]
    mean: Floats
    sd: Floats
    lower: Floats
    upper: Floats
    prob: float
    ess_bulk: Floats
    ess_tail: Floats
    rhat: Floats
    exact: npt.NDArray[np.bool_]
    determined: npt.NDArray[np.bool_]

    @property
    def value(self) -> Floats:
        """The one possible value of the answers that are determined; NaN elsewhere."""
        return np.where(self.determined, self.lower, np.nan)


def summarise(
    draws: xr.DataArray,
    query: Query,
    release: Release,
    prob: float,
    determined_cells: npt.NDArray[np.bool_] | None = None,
) -> Answers:
    """Summarise the posterior of a query's answers.

    Parameters
    ----------
    draws : xarray.DataArray, dims ``(chain, draw, *table)``
        Posterior of the counts.
    query : Query
        About the release's table.
    release : Release
        What the posterior is based on.
    prob : float
        Probability of the intervals, between 0 and 1.
    determined_cells : bool array, shape ``(*table)``, optional
        Cells with one possible value; those of the release's fiber by default.


    Notes
    -----
    The ends of the equal-tailed interval are values that were drawn: the smallest with at least (1 - prob) /
    2, and with at least (1 + prob) / 2, of all draws at or below it. For counts the interval therefore holds
    at least `prob` of the draws.
    """
    answers = query.apply(draws.transpose("chain", "draw", ...)).values
    chains = answers.reshape(*answers.shape[:2], query.rows)
    return summarise_answers(chains, query, release, prob, determined_cells)


def summarise_answers(
    chains: npt.NDArray[Any],
    query: Query,
    release: Release,
    prob: float,
    determined_cells: npt.NDArray[np.bool_] | None = None,
) -> Answers:
    """Summarise draws of the answers, shape (chains, draws, rows); all else as for `summarise`."""
    level = probability(prob, "prob")
    pooled = chains.reshape(-1, query.rows).astype(np.float64)
    if release.about == "statistics":
        cells = np.zeros(release.frame.shape, dtype=np.bool_)
    else:
        if chains.dtype.kind == "f":  # a continuous relaxation
            pooled = without_rounding_errors(pooled)
        cells = release.fiber.determined() if determined_cells is None else determined_cells
    exact = implied_answers(query, release.exact)
    determined = exact | determined_answers(query, release.exact, cells)
    numbers = interval_and_diagnostics(chains, pooled.reshape(chains.shape), level, determined)
    return labelled(query, release, level, exact, determined, numbers)


def labelled(
    query: Query,
    release: Release,
    prob: float,
    exact: npt.NDArray[np.bool_],
    determined: npt.NDArray[np.bool_],
    numbers: Mapping[str, Floats],
) -> Answers:
    """Numbers of the answers of a query with their labels, and what was published of them."""
    published = _published(query, release)
    grid = np.meshgrid(*(np.arange(n) for n in query.shape), indexing="ij")
    return Answers(
        labels={
            dim: [own[i] for i in index.reshape(-1)]
            for (dim, own), index in zip(query.coords.items(), grid, strict=True)
        },
        published=published[0] if published else np.full(query.rows, np.nan),
        further=tuple(published[1:]),
        prob=prob,
        exact=exact,
        determined=determined,
        **numbers,
    )


def interval_and_diagnostics(
    chains: npt.NDArray[Any], values: Floats, level: float, determined: npt.NDArray[np.bool_]
) -> dict[str, Floats]:
    """The numbers that are found in the same way for counts and for parameters."""
    # `chains`, shape (chains, draws, answers): as they were drawn. `values`: the draws as they are summarised: without rounding
    # errors of exact answers. `level`: probability of the interval. `determined`, shape (answers,): answers without diagnostics.
    # Returns `mean`, `sd`, `lower`, `upper`, `ess_bulk`, `ess_tail`, `rhat`: fields of `Answers`.
    pooled = values.reshape(-1, values.shape[-1])
    tails = [(1 - level) / 2, (1 + level) / 2]
    lower, upper = np.quantile(pooled, tails, axis=0, method="inverted_cdf")
    ess_bulk, ess_tail, rhat = _diagnostics(chains, determined)
    return {
        "mean": pooled.mean(axis=0),
        "sd": pooled.std(axis=0),
        "lower": lower,
        "upper": upper,
        "ess_bulk": ess_bulk,
        "ess_tail": ess_tail,
        "rhat": rhat,
    }


def _published(query: Query, release: Release) -> list[Floats]:
    """The noisy values of each measurement that asked just this query, or had it as a part."""
    found = []
    for part in release.measurements:
        values = np.asarray(part.published, dtype=np.float64).reshape(-1)
        if part.query == query:
            found.append(values)
        elif len(query.parts) == 1:
            ends = np.cumsum([own.rows for own in part.query.parts])[:-1]
            pieces = zip(part.query.parts, np.split(values, ends), strict=True)
            found += [piece for own, piece in pieces if own == query.parts[0]]
    return found


def _diagnostics(chains: npt.NDArray[Any], determined: npt.NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
    """Bulk and tail ESS and split R-hat of the free answers, NaN elsewhere and where they do not exist."""
    found = np.full((3, chains.shape[-1]), np.nan)
    free = np.flatnonzero(~determined)
    own = chain_statistics(chains[..., free])
    found[:, free] = own.ess_bulk, own.ess_tail, own.rhat
    return found[0], found[1], found[2]
