"""Posterior summaries of the answers to a query, and of parameters: the numbers behind `bayesdp.summary` and ``bayesdp summary``."""

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
from bayesdp.posterior import Posterior, SummarisedPosterior, Summary, summarise_draws
from bayesdp.queries import Query, SumPart
from bayesdp.release import Release
from bayesdp.storage.draws import without_rounding_errors

type Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Answers:
    """Summary of the posterior of each answer of a query; all arrays have one entry an answer.

    `labels` are those of each dimension; `published` is the noisy value, NaN where none was published, and `further` those of other
    measurements of the same query. `lower` and `upper` are the ends of an equal-tailed interval. An answer is `exact` if it was
    published exactly, or is a sum of answers that were, and `determined` if it is, or the exact values leave one possible answer:
    then there is nothing to estimate, and effective sample sizes and R-hat are NaN.
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
    draws: xr.DataArray, query: Query, release: Release, prob: float, known: npt.NDArray[np.bool_] | None = None
) -> Answers:
    """Summarise the answers of a query from draws of the counts, with the dimensions chain, draw and those of the release's table.

    `known` are cells with one possible value, shape ``(*table)``; those of the release's fiber by default. The ends of the intervals
    are values that were drawn: the smallest with at least (1 - prob) / 2, and with at least (1 + prob) / 2, of all draws at or
    below it. For counts the interval therefore holds at least `prob` of the draws.
    """
    answers = query.apply(draws.transpose("chain", "draw", ...)).values
    chains = answers.reshape(*answers.shape[:2], query.rows)
    if known is None:
        statistics = release.about == "statistics"
        known = np.zeros(release.frame.shape, dtype=np.bool_) if statistics else release.fiber.determined()
    return _of_chains(chains, query, release, prob, known)


def summarise_table(table: Posterior, query: Query, prob: float, *, of_draws: bool = False) -> Answers:
    """Summarise the answers of a query about a table of a posterior.

    Cells that were summarised while sampling have ``ess_bulk`` and ``rhat`` of means of batches, and no ``ess_tail``, unless the
    numbers shall be `of_draws`; other queries must have been recorded.
    """
    release = table.joint
    if of_draws or not (query.is_identity and isinstance(table, SummarisedPosterior)):
        return _of_chains(table.chains_of(query), query, release, prob, table.known)
    cells = table.summary(table.cells, prob)
    exact, determined = _without_noise(table.cells, release, table.known)
    ess, rhat = (np.where(determined, np.nan, values) for values in (cells.ess, cells.rhat))
    numbers = _numbers(cells, ess, np.full(cells.mean.shape, np.nan), rhat)
    return _labelled(table.cells, release, cells.prob, exact, determined, numbers)


def _of_chains(
    chains: npt.NDArray[Any], query: Query, release: Release, prob: float, known: npt.NDArray[np.bool_]
) -> Answers:
    """Summarise draws of the answers, shape (chains, draws, rows)."""
    level, values = probability(prob, "prob"), chains.astype(np.float64)
    if chains.dtype.kind == "f" and release.about == "counts":  # a continuous relaxation
        values = without_rounding_errors(values.reshape(-1, query.rows)).reshape(chains.shape)
    exact, determined = _without_noise(query, release, known)
    numbers = _interval_and_diagnostics(chains, values, level, determined)
    return _labelled(query, release, level, exact, determined, numbers)


def _without_noise(
    query: Query, release: Release, known: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Which answers are exact, and which are that or determined."""
    exact = implied_answers(query, release.exact)
    return exact, exact | determined_answers(query, release.exact, known)


def _labelled(
    query: Query,
    release: Release,
    prob: float,
    exact: npt.NDArray[np.bool_],
    determined: npt.NDArray[np.bool_],
    numbers: Mapping[str, Floats],
) -> Answers:
    """Numbers of the answers of a query with their labels, and what was published of them."""
    published = _published(query, release)
    return Answers(
        labels={
            dim: [labels[i] for i in places.reshape(-1)]
            for (dim, labels), places in zip(query.coords.items(), np.indices(query.shape), strict=True)
        },
        published=published[0] if published else np.full(query.rows, np.nan),
        further=tuple(published[1:]),
        prob=prob,
        exact=exact,
        determined=determined,
        **numbers,
    )


def _interval_and_diagnostics(
    chains: npt.NDArray[Any], values: Floats, level: float, determined: npt.NDArray[np.bool_]
) -> dict[str, Floats]:
    """Fields of `Answers` that are found in the same way for counts and for parameters.

    `chains`, shape (chains, draws, answers), are as they were drawn, and `values` without rounding errors of exact answers.
    """
    summary = summarise_draws(values.reshape(-1, values.shape[-1]), level)
    ess_bulk, ess_tail, rhat = np.full((3, chains.shape[-1]), np.nan)
    free = np.flatnonzero(~determined)
    of_chains = chain_statistics(chains[..., free])
    ess_bulk[free], ess_tail[free], rhat[free] = of_chains.ess_bulk, of_chains.ess_tail, of_chains.rhat
    return _numbers(summary, ess_bulk, ess_tail, rhat)


def _numbers(summary: Summary, ess_bulk: Floats, ess_tail: Floats, rhat: Floats) -> dict[str, Floats]:
    numbers = {name: getattr(summary, name) for name in ("mean", "sd", "lower", "upper")}
    return numbers | {"ess_bulk": ess_bulk, "ess_tail": ess_tail, "rhat": rhat}


def _published(query: Query, release: Release) -> list[Floats]:
    """The noisy values of each measurement that asked just this query, or had it as a part."""
    found = []
    for measured in release.measurements:
        if measured.query == query:
            found.append(np.asarray(measured.published, dtype=np.float64).reshape(-1))
        elif len(query.parts) == 1:
            found += answers_to_part(measured.query, measured.published, query)
    return found


def answers_to_part(asked: Query, values: Any, query: Query) -> list[Floats]:
    """The answers of those parts of a query that ask the same as another query of one part."""
    flat = np.asarray(values, dtype=np.float64).reshape(-1)
    return [flat[rows] for part, rows in asked.placed_parts if same_part(part, query.parts[0])]


def same_part(one: Any, other: Any) -> bool:
    """Whether two parts of queries have the same answers; the frames of two releases may differ in their groups."""
    if isinstance(one, SumPart) and isinstance(other, SumPart):
        same = one.keep == other.keep and one.answer_labels == other.answer_labels
        return bool(same and np.array_equal(one.row_of_cell, other.row_of_cell))
    return bool(one == other)


def variable_names(tree: xr.DataTree, *counts: str) -> list[str]:
    """The variables of a posterior beside tables of counts, and beside the coordinates in which continuous counts are sampled."""
    names = [str(name) for name in tree["posterior"].data_vars]
    hidden = {*counts, *(f"{name}_coordinates" for name in counts)}
    return [name for name in names if name not in hidden]


def summarise_variable(draws: xr.DataArray, prob: float, determined: xr.DataArray | None = None) -> Answers:
    """Summarise a variable with the dimensions chain and draw, and any others, element by element; nothing of it is published.

    `determined`: which elements have one possible value; none by default. The ends of intervals are values that were drawn.

    Examples
    --------
    >>> draws = xr.DataArray([[[1.0, 5.0], [2.0, 6.0], [3.0, 7.0]]], dims=("chain", "draw", "group"), name="effect")
    >>> own = summarise_variable(draws, 0.9)
    >>> own.labels, own.mean.tolist(), own.upper.tolist()
    ({'group': [0, 1]}, [2.0, 6.0], [3.0, 7.0])
    """
    level = probability(prob, "prob")
    ordered = draws.transpose("chain", "draw", ...)
    shape = ordered.shape[2:]
    chains = ordered.values.reshape(*ordered.shape[:2], -1)
    nothing = np.zeros(chains.shape[2], dtype=np.bool_)
    known = nothing if determined is None else determined.transpose(*ordered.dims[2:]).values.reshape(-1).astype(bool)
    numbers = _interval_and_diagnostics(chains, chains.astype(np.float64), level, known)
    labels: dict[str, list[Any]] = {}
    for dim, places in zip(ordered.dims[2:], np.indices(shape), strict=True):
        named = ordered.coords[dim].values.tolist() if dim in ordered.coords else list(range(ordered.sizes[dim]))
        labels[str(dim)] = [named[i] for i in places.reshape(-1)]
    return Answers(
        labels=labels,
        published=np.full(chains.shape[2], np.nan),
        further=(),
        prob=level,
        exact=nothing,
        determined=known,
        **numbers,
    )
