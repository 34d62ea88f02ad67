"""``bdp.summary``: a posterior as one labelled table.

Which totals of a table a summary reports.
Summaries of results of `bayesdp.fit_hierarchy`: cells from what was kept of them, recorded queries from their draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayesdp._validate import nearest, probability, shown
from bayesdp.composition import (
    CELLS,
    Streamed,
    as_one,
    check_posterior,
    converged_of,
    determined_of,
    draws_of,
    is_streamed,
    releases_of_tables,
    tables_of_posterior,
)
from bayesdp.consistency import determined_answers, implied_answers
from bayesdp.measurements import described
from bayesdp.queries import Identity, Query, SumPart
from bayesdp.queries.query import checked_query
from bayesdp.release import Release
from bayesdp.summaries.answers import Answers, labelled, summarise, summarise_answers
from bayesdp.summaries.variables import summarise_variable, variable_names


def totals_of(release: Release) -> list[Query]:
    """Totals that are reported: what was asked besides the cells, one-way margins, groups, the grand total.

    Parameters
    ----------
    release : Release

    Returns
    -------
    list of Query
        Each of one part; none for statistics, whose sum means nothing.

    Examples
    --------
    >>> from bayesdp.measurements import Exact
    >>> from bayesdp.queries import Totals
    >>> table = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
    >>> [query.dims for query in totals_of(Release.from_published(table, exact=[Exact(Totals(table), 20)]))]
    [(), ('county',), ('education',)]
    """
    if release.about == "statistics":
        return []
    frame = release.frame
    queries = [own.query for own in release.exact] + [own.query for own in release.measurements]
    asked = [part for query in queries for part in query.parts]
    one_way = [SumPart(frame, (dim,)) for dim in frame.dims] if len(frame.dims) > 1 else []
    groups = [SumPart(frame, (name,)) for name, _, labels in frame.groups if len(set(labels)) > 1]
    wanted: list[Any] = []
    for part in (*asked, *one_way, *groups, SumPart(frame, ())):
        whole = isinstance(part, SumPart) and part.keep == frame.dims
        if not whole and part not in wanted:
            wanted.append(part)
    return [Query(frame, (part,)) for part in wanted]


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


type _Part = tuple[str, Answers, list[str] | None]
"""A part of the table: its title, its numbers, and the names of its rows where they are not made from labels."""


def summary(
    posterior: xr.DataTree, var: str | Sequence[str] | None = None, *, query: Query | None = None, prob: float = 0.95
) -> pd.DataFrame:
    """Summarise a posterior as a labelled table: counts, totals and parameters.

    Parameters
    ----------
    posterior : xarray.DataTree
        As `bayesdp.sample` or `bayesdp.fit_hierarchy` returns it, or read from a file. The latter keeps no draws of the cells: their
        numbers are those of its group ``cells`` (``ess_bulk`` and ``rhat`` from means of batches), called ``cells``, and of
        totals there are those that were recorded.
    var : str or list of str, optional
        Variables of the model: the counts, cell by cell, or parameters. By default the counts, their totals (what was
        asked, one-way margins, groups, the grand total) and all other variables.
    query : Query, optional
        Answers of a query of the counts instead, for example ``bdp.Margins(table, ["county"])``; of every table with those cells.
    prob : float, default 0.95
        Probability of the equal-tailed intervals.

    Returns
    -------
    pandas.DataFrame
        One row a number, with the index levels ``part`` (the variable, or ``x by county`` and ``x: grand total`` for totals of
        the counts x) and ``label``, so that ``.loc["x by county"]`` is a margin and ``.loc["beta"]`` a parameter. Columns:

        - ``published``: the noisy value; ``published_2`` and so on where several measurements asked the same;
        - ``mean``, ``sd``, ``eti95_lower``, ``eti95_upper``: of the posterior; the names of the interval's ends say its kind
          and probability, and its ends are values that were drawn;
        - ``ess_bulk``, ``ess_tail``, ``rhat``: diagnostics;
        - ``exact``: the value of a number that is published exactly, follows from exact values, or is determined by them;
          a whole number (dtype Int64), <NA> for all others. Such a number has no ``sd`` and no diagnostics (NaN);
        - ``status``: "exact" (published, or a sum of published values), "determined" (the exact values leave one possible
          value), or empty.

        ``.attrs`` has ``prob``, ``interval``, ``chains``, ``draws``, ``converged`` and ``message``.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If there is no such variable (those that there are are named), both `var` and `query` are given, counts are asked for
        and the posterior has no release or has not recorded them, or `query` is about other cells than those of its tables. Of a
        result of `bayesdp.fit_hierarchy`: if `query` was not recorded, or no quantiles of cells for `prob` were kept.

    Examples
    --------
    >>> import bayesdp as bdp
    >>> import pymc as pm
    >>> county = {"county": ["Alpha", "Beta"]}
    >>> measured = bdp.Measured(bdp.Identity(county), [30, 80], bdp.noise.DiscreteGaussian(sigma=5.0))
    >>> release = bdp.Release.from_published(county, measured=[measured], exact=[bdp.Exact(bdp.Totals(county), 100)])
    >>> with pm.Model(coords=release.coords):
    ...     bdp.observe(release, bdp.FlatCounts("x", dims="county"))
    ...     posterior = bdp.sample(draws=200, tune=50, chains=2, cores=1, random_seed=1, progressbar=False, quiet=True)
    >>> table = bdp.summary(posterior)
    >>> print(*table.loc[("x: grand total", "total"), ["mean", "exact", "status"]])
    100.0 100 exact
    >>> bdp.summary(posterior, "x", prob=0.9).columns.tolist()[1:5]
    ['mean', 'sd', 'eti90_lower', 'eti90_upper']
    """
    level = probability(prob, "prob")
    given: Any = posterior
    if not isinstance(given, xr.DataTree):
        raise TypeError(f"posterior must be the DataTree that bayesdp.sample returns, got {type(given).__name__}")
    if "posterior" not in posterior.children:
        raise ValueError(f"posterior lacks the group 'posterior'; it has {shown(posterior.children) or 'none'}")
    if var is not None and query is not None:
        raise ValueError("give either var, a variable, or query, answers of the counts")
    if query is not None:
        checked_query(query)
    check_posterior(posterior)
    source: _Source | _StreamedSource = _StreamedSource(posterior) if is_streamed(posterior) else _Source(posterior)
    if var is not None:
        parts = [source.variable(name, level) for name in ([var] if isinstance(var, str) else var)]
    elif query is not None:
        parts = source.answered(query, level)
    else:
        parts = source.everything(level)
    if not parts:
        raise ValueError("var names no variable")
    table = pd.concat([_rows(*part) for part in parts])
    return _finished(table, posterior, level)


class _Source:
    """What is read from a posterior, once."""

    def __init__(self, tree: xr.DataTree) -> None:
        self.tree = tree
        self.draws = tree["posterior"].to_dataset()
        self.tables = {name: as_one(releases) for name, releases in tables_of_posterior(tree).items()}

    def stated(self) -> dict[str, Release]:
        """The tables with their releases, each as one; refused where there is no release at all."""
        if not releases_of_tables(self.tree):
            raise ValueError(
                "posterior lacks the group 'release', so that only variables can be summarised: give var. bayesdp.sample adds "
                "the group; to the result of pm.sample, bayesdp.inference.annotate does"
            )
        return self.tables

    def with_cells_of(self, query: Query) -> list[str]:
        """The tables that a query is about; several may have the same cells."""
        tables = self.stated()
        found = [name for name, release in tables.items() if release.frame.same_cells(query.frame)]
        if not found:
            known = "; ".join(f"{name}: {release.frame}" for name, release in tables.items())
            raise ValueError(
                f"query must be about a table of the posterior ({known or 'none was recorded'}), not {query.frame}"
            )
        return found

    def answered(self, query: Query, level: float) -> list[_Part]:
        """The answers of a query of every table with its cells."""
        return [part for name in self.with_cells_of(query) for part in self.answers(name, [query], level)]

    def everything(self, level: float) -> list[_Part]:
        """All tables with their totals, and all other variables."""
        parts = [
            part
            for name, release in self.stated().items()
            for part in self.answers(name, [Identity(release.frame), *totals_of(release)], level)
        ]
        return parts + [self.variable(name, level) for name in variable_names(self.tree, *self.tables)]

    def answers(self, name: str, queries: list[Query], level: float) -> list[_Part]:
        """Answers about the counts of a table; the grand total and linear combinations have names in place of labels."""
        release = self.tables[name]
        draws = draws_of(self.tree, name, release)
        cells = determined_of(self.tree, name, release.dims)
        return [
            (
                _title(name, query),
                summarise(draws, query, release, level, cells),
                _names(query),
            )
            for query in queries
        ]

    def variable(self, name: str, level: float) -> _Part:
        """The counts of a table, or a parameter."""
        given: Any = name
        if not isinstance(given, str):
            raise TypeError(f"var must be names of variables, got {name!r}")
        if name not in self.draws:
            raise ValueError(
                f"there is no variable {name!r} in the posterior; there are {nearest(name, self.draws.data_vars)}"
            )
        if name in self.tables:
            return self.answers(name, [Identity(self.tables[name].frame)], level)[0]
        known = self.tree["determined"].to_dataset() if "determined" in self.tree.children else {}  # of parts
        return name, summarise_variable(self.draws[name], level, known.get(name)), None


class _StreamedSource:
    """What is read from a result of `bayesdp.fit_hierarchy`."""

    def __init__(self, tree: xr.DataTree) -> None:
        self.streamed = Streamed(tree)
        self.draws = tree["posterior"].to_dataset()

    def answered(self, query: Query, level: float) -> list[_Part]:
        frame = self.streamed.release.frame
        if not frame.same_cells(query.frame):
            raise ValueError(f"query must be about a table of the posterior ({CELLS}: {frame}), not {query.frame}")
        return [(_title(CELLS, query), summarise_streamed(self.streamed, query, level), _names(query))]

    def everything(self, level: float) -> list[_Part]:
        return [self.variable(name, level) for name in [CELLS, *map(str, self.draws.data_vars)]]

    def variable(self, name: str, level: float) -> _Part:
        """The cells, the answers of a recorded query, or a parameter."""
        given: Any = name
        if not isinstance(given, str):
            raise TypeError(f"var must be names of variables, got {name!r}")
        if name == CELLS:
            return name, summarise_streamed(self.streamed, Identity(self.streamed.release.frame), level), None
        if name not in self.draws:
            known = [CELLS, *map(str, self.draws.data_vars)]
            raise ValueError(f"there is no variable {name!r} in the posterior; there are {nearest(name, known)}")
        query = self.streamed.queries.get(name)
        if query is None:
            return name, summarise_variable(self.draws[name], level), None
        answers = summarise_answers(
            self.streamed.draws(name), query, self.streamed.release, level, self.streamed.determined
        )
        return name, answers, _names(query)


def _names(query: Query) -> list[str] | None:
    """Names of rows that have no labels: of the grand total and of linear combinations."""
    return query.names if not query.dims or not _sums(query) else None


def _title(name: str, query: Query) -> str:
    if query.is_identity:
        return name
    if _sums(query):
        kept = query.dims
        return f"{name} by {' × '.join(kept)}" if kept else f"{name}: grand total"
    return f"{name}: {described(query)}"


def _sums(query: Query) -> bool:
    """Whether the answers are labelled sums, and not a stack or a general matrix."""
    return len(query.parts) == 1 and isinstance(query.parts[0], SumPart)


def _rows(title: str, own: Answers, names: list[str] | None) -> pd.DataFrame:
    """The rows of one part."""
    ends = f"eti{100 * own.prob:.10g}"
    columns = [[f"{dim}={label}" for label in labels] for dim, labels in own.labels.items()]
    labels = [", ".join(row) for row in zip(*columns, strict=True)] or [""]  # "" of a single number
    labels = labels if names is None else names
    value = own.value
    whole = np.where(np.isnan(value), 0, np.rint(value)).astype(np.int64)
    found = {
        "published": own.published,
        **{f"published_{k}": values for k, values in enumerate(own.further, start=2)},
        "mean": own.mean,
        "sd": np.where(own.determined, np.nan, own.sd),
        f"{ends}_lower": own.lower,
        f"{ends}_upper": own.upper,
        "ess_bulk": own.ess_bulk,
        "ess_tail": own.ess_tail,
        "rhat": own.rhat,
        "exact": pd.arrays.IntegerArray(whole, ~own.determined),
        "status": np.where(own.exact, "exact", np.where(own.determined, "determined", "")),
    }
    index = pd.MultiIndex.from_arrays([[title] * len(labels), labels], names=["part", "label"])
    return pd.DataFrame(found, index=index)


def _finished(table: pd.DataFrame, tree: xr.DataTree, level: float) -> pd.DataFrame:
    """Columns in one order, and what the numbers are."""
    further = sorted(
        (name for name in table.columns if str(name).startswith("published_")), key=lambda name: int(name[10:])
    )
    rest = [name for name in table.columns if name != "published" and name not in further]
    ordered = table[["published", *further, *rest]]
    said = tree["diagnostics"].attrs if "diagnostics" in tree.children else {}
    sizes = tree["posterior"].to_dataset().sizes
    ordered.attrs = {
        "prob": level,
        "interval": "equal-tailed",
        "chains": int(sizes["chain"]),
        "draws": int(sizes["draw"]),
        "converged": converged_of(tree),
        "message": str(said.get("message", "convergence was not assessed")),
    }
    return ordered
