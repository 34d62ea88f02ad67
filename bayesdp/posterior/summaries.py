"""A posterior as numbers and as one labelled table, ``bdp.summary``; and as a published table of the Census, one line a code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

import bayesdp
from bayesdp._arrays import Floats, Mask
from bayesdp._chains import chain_statistics
from bayesdp._validate import instance, nearest, probability, shown
from bayesdp.frames import Frame
from bayesdp.measurements import described
from bayesdp.measurements.consistency import determined_answers, implied_answers
from bayesdp.posterior.derived import Derived, all_converged, called, summarised
from bayesdp.posterior.view import Posterior, PosteriorModel, SummarisedPosterior, Summary, flat, summarise_draws
from bayesdp.queries import Query, SumPart
from bayesdp.queries.query import checked_query
from bayesdp.release import Release
from bayesdp.storage.posteriors import releases_of_tables


@dataclass(frozen=True, eq=False, kw_only=True)
class Answers(Summary):
    """Summary of the posterior of each answer of a query; all arrays have one entry an answer.

    `labels` are those of each dimension; `published` is the noisy value, NaN where none was published, and `further` those of other
    measurements of the same query. An answer is `exact` if it was published exactly, or is a sum of answers that were, and
    `determined` if it is, or the exact values leave one possible answer: then there is nothing to estimate, and effective sample sizes
    and R-hat are NaN.
    """

    labels: dict[str, list[Any]]
    published: Floats
    further: tuple[Floats, ...] = ()
    exact: Mask
    determined: Mask

    @property
    def columns(self) -> dict[str, Floats]:
        """The numbers by name, what was published first."""
        further = {f"published_{k}": values for k, values in enumerate(self.further, start=2)}
        names = ("mean", "sd", "lower", "upper", "ess_bulk", "ess_tail", "rhat")
        return {"published": self.published, **further, **{name: getattr(self, name) for name in names}}

    @property
    def value(self) -> Floats:
        """The one possible value of the answers that are determined; NaN elsewhere."""
        return np.where(self.determined, self.lower, np.nan)


def summarise_table(table: Posterior, query: Query, prob: float, *, of_draws: bool = False) -> Answers:
    """Summarise the answers of a query about a table of a posterior.

    The ends of the intervals are values that were drawn: the smallest with at least (1 - prob) / 2, and with at least (1 + prob) / 2,
    of all draws at or below it. For counts the interval therefore holds at least `prob` of the draws.

    Cells that were summarised while sampling have ``ess_bulk`` and ``rhat`` of means of batches, and no ``ess_tail``, unless the
    numbers shall be `of_draws`; other queries must have been recorded.
    """
    release = table.joint
    exact = implied_answers(query, release.exact)
    determined = exact | determined_answers(query, release.exact, table.known)
    if of_draws or not (query.is_identity and isinstance(table, SummarisedPosterior)):
        chains = table.chains_of(query)
        if table.computed:  # independent draws: R-hat has nothing to compare
            sizes = np.where(determined, np.nan, float(table.draws))
            numbers = replace(summarise_draws(table.flattened(chains), prob), ess_bulk=sizes, ess_tail=sizes)
        else:
            numbers = _diagnosed(chains, table.flattened(chains), prob, determined)
    else:
        cells = table.summary(query, prob)
        ess, rhat = (np.where(determined, np.nan, values) for values in (cells.ess_bulk, cells.rhat))
        numbers = replace(cells, ess_bulk=ess, rhat=rhat)
    published = _published(query, release)
    return Answers(
        **vars(numbers),
        labels=_labels_of_each(query.coords),
        published=published[0] if published else np.full(query.rows, np.nan),
        further=tuple(published[1:]),
        exact=exact,
        determined=determined,
    )


def _diagnosed(chains: npt.NDArray[Any], draws: npt.NDArray[Any], prob: float, determined: Mask) -> Summary:
    """Summary with the diagnostics of what is not determined."""
    # `chains`, shape (chains, draws, answers), are as they were drawn; `draws`, chains after one another, without rounding errors.
    found, free = summarise_draws(draws, prob), np.flatnonzero(~determined)
    of_chains = chain_statistics(chains[..., free])
    for name in ("ess_bulk", "ess_tail", "rhat"):
        getattr(found, name)[free] = getattr(of_chains, name)
    return found


def _published(query: Query, release: Release) -> list[Floats]:
    """The noisy values of each measurement that asked just this query, or had it as a part."""
    found = []
    for measured in release.measurements:
        if measured.query == query:
            found.append(flat(measured.published))
        elif len(query.parts) == 1:
            found += answers_to_part(measured.query, measured.published, query)
    return found


def answers_to_part(asked: Query, values: Any, query: Query) -> list[Floats]:
    """The answers of those parts of a query that ask the same as another query of one part."""
    answers = flat(values)
    return [answers[rows] for part, rows in asked.placed_parts if same_part(part, query.parts[0])]


def same_part(one: Any, other: Any) -> bool:
    """Whether two parts of queries have the same answers; the frames of two releases may differ in their groups."""
    if isinstance(one, SumPart) and isinstance(other, SumPart):
        same = one.keep == other.keep and one.answer_labels == other.answer_labels
        return bool(same and np.array_equal(one.row_of_cell, other.row_of_cell))
    return bool(one == other)


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
    ordered = draws.transpose("chain", "draw", ...)
    chains = ordered.values.reshape(*ordered.shape[:2], -1)
    nothing = np.zeros(chains.shape[2], dtype=np.bool_)
    known = nothing if determined is None else determined.transpose(*ordered.dims[2:]).values.reshape(-1).astype(bool)
    labels: dict[str, Sequence[Any]] = {
        str(dim): ordered.coords[dim].values.tolist() if dim in ordered.coords else range(ordered.sizes[dim])
        for dim in ordered.dims[2:]
    }
    numbers = _diagnosed(chains, chains.reshape(-1, chains.shape[2]), prob, known)
    published = np.full(chains.shape[2], np.nan)
    each = _labels_of_each(labels)
    return Answers(**vars(numbers), labels=each, published=published, exact=nothing, determined=known)


def _labels_of_each(coords: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """The labels of each answer, by dimension, of those along each dimension."""
    rows = list(product(*coords.values()))
    return {dim: [row[k] for row in rows] for k, dim in enumerate(coords)}


def totals_of(frame: Frame, asked: Iterable[Query]) -> list[Query]:
    """Totals of a table that are reported: parts of what was asked besides the cells, one-way margins, groups, the grand total.

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> frame = Frame.of({"county": ["Alpha", "Beta"], "education": ["Low", "High"]})
    >>> [query.dims for query in totals_of(frame, [Totals(frame)])]
    [(), ('county',), ('education',)]
    """
    parts = [part for query in asked for part in query.parts]
    one_way = [SumPart(frame, (dim,)) for dim in frame.dims] if len(frame.dims) > 1 else []
    groups = [SumPart(frame, (name,)) for name, _, labels in frame.groups if len(set(labels)) > 1]
    wanted: list[Any] = []
    for part in (*parts, *one_way, *groups, SumPart(frame, ())):
        whole = isinstance(part, SumPart) and part.keep == frame.dims
        if not whole and not any(same_part(part, other) for other in wanted):
            wanted.append(part)
    return [Query(part.frame, (part,)) for part in wanted]


def summary(
    posterior: xr.DataTree,
    var: str | Sequence[str] | Mapping[str, Derived | Callable[..., xr.DataArray]] | None = None,
    *,
    query: Query | None = None,
    prob: float = 0.95,
    columns: bool = False,
) -> pd.DataFrame:
    """Summarise a posterior as a labelled table: counts, totals, parameters, and quantities that follow from them.

    Parameters
    ----------
    posterior : xarray.DataTree
        Of `bayesdp.sample` or `bayesdp.fit_hierarchy`. The latter keeps no draws of the cells: their numbers are those of its group
        ``cells`` (``ess_bulk`` and ``rhat`` from means of batches), called ``cells``, and of totals there are those that were
        recorded.
    var : str or list of str, or mapping, optional
        Variables of the model: the counts, cell by cell, or parameters. By default the counts, their totals (what was
        asked, one-way margins, groups, the grand total) and all other variables.

        Or quantities by name, such as shares, ratios, changes, ranks and probabilities: each a `bayesdp.Derived`, or a function
        whose parameters are named as variables of the posterior (a single one of any other name gets the counts of the first
        table). It is called once, with DataArrays with the dimensions chain and draw, and returns one that has both of them.
    query : Query, optional
        Answers of a query of the counts instead, for example ``bdp.Margins(table, ["county"])``; of every table with those cells.
    prob : float, default 0.95
        Probability of the equal-tailed intervals.
    columns : bool, default False
        Labels in columns of their own (``part``, and one for each dimension), in place of the index: what maps and other programs
        join by. Those of a dimension that is named as a column of numbers are in ``status (label)`` and the like.

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

        Of a mapping there is no ``published``; ``mcse`` is the Monte Carlo error of the mean, ``undefined`` the number of draws
        without a value (a denominator of 0), which the other columns leave out and ``status`` tells of; ``exact`` is real (Float64).
        Of probabilities (functions may return True and False) ``mean`` is the probability, and there is no interval; of one that is 0
        or 1 in all draws, ``mcse`` is that of half an effective draw (of functions: half a draw) more.

        ``.attrs`` has ``prob``, ``interval``, ``chains``, ``draws``, ``converged`` (of all posteriors that it is made from),
        ``message`` and, of a mapping, ``notes``.

    Raises
    ------
    ValueError
        If a function of a mapping raises (the message has its name) or loses the draws.
        If counts are asked for and the posterior has no release or has not recorded them, or `query` is about other cells than those
        of its tables. Of a result of `bayesdp.fit_hierarchy`: if `query` was not recorded, or no quantiles of cells for `prob` were
        kept.

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
    >>> own = bdp.summary(posterior, {"share": bdp.Derived.share("county=Alpha"), "gap": lambda x: x[..., 1] - x[..., 0]})
    >>> own.index.tolist(), bool(0.2 < own.loc[("share", ""), "mean"] < 0.4)
    ([('share', ''), ('gap', '')], True)
    """
    level = probability(prob, "prob")
    notes: list[str] = []
    model = PosteriorModel.checked(posterior)
    if var is not None and query is not None:
        raise ValueError("give either var, a variable, or query, answers of the counts")
    if query is not None:
        parts = _of_query(model, checked_query(query), level)
    elif var is None:
        parts = _of_everything(model, level)
    elif isinstance(var, Mapping):
        parts = [_of_quantity(name, value, model, level, notes) for name, value in var.items()]
    else:
        names = [var] if isinstance(var, str) else var
        parts = [part for name in names for part in _of_variable(model, name, level)]
    if not parts:
        raise ValueError("var names no variable")
    table = pd.concat(parts)
    if "published" in table:
        further = sorted(
            (name for name in table.columns if name.startswith("published_")), key=lambda name: int(name[10:])
        )
        rest = [name for name in table.columns if name != "published" and name not in further]
        table = table[["published", *further, *rest]]
    if columns:
        table = _with_labels(table, [part.attrs["labels"] for part in parts])
    sizes = model.variables.sizes
    table.attrs = {
        "prob": level,
        "interval": "equal-tailed",
        "chains": model.chains,
        "draws": int(sizes["draw"]),
        "converged": all_converged(model.converged, *(part.attrs.get("converged", True) for part in parts)),
        "message": model.message,
        **({"notes": notes} if isinstance(var, Mapping) else {}),
    }
    return table


def _of_quantity(name: Any, value: Any, model: PosteriorModel, level: float, notes: list[str]) -> pd.DataFrame:
    """A quantity that follows from the counts; what is to be said of it goes to the notes."""
    if not isinstance(name, str) or not (isinstance(value, Derived) or callable(value)):
        raise TypeError(f"var must map names to bayesdp.Derived or functions, got {name!r}: {type(value).__name__}")
    try:
        drawn = value.draw(model, value.table) if isinstance(value, Derived) else called(value, model)
    except ValueError as error:
        raise ValueError(f"{name!r}: {error}") from error
    numbers, told = summarised(name, drawn, level)
    notes += [note for note in dict.fromkeys(told) if note not in notes]
    alone = drawn.labels["event"] if drawn.event and list(drawn.labels) == ["event"] else None  # it names itself
    found = _framed(name, drawn.labels, alone, numbers)
    found.attrs["converged"] = drawn.converged
    return found


def _with_labels(table: pd.DataFrame, labels: list[dict[str, list[Any]]]) -> pd.DataFrame:
    """The same with columns of labels in the place of the index: None where a part has no such dimension."""
    found = [pd.DataFrame(own, dtype=object) if own else pd.DataFrame(index=[0]) for own in labels]
    each: pd.DataFrame = pd.concat(found, ignore_index=True).astype(object)
    # Labels stay what they are: beside None whole numbers would become floats, which long ones have no place in.
    each = each.apply(lambda own: own.where(own.notna(), None) if own.isna().any() else own.infer_objects())
    each.columns = pd.Index([f"{dim} (label)" if dim in ("part", *table.columns) else dim for dim in each])
    each.insert(0, "part", table.index.get_level_values("part"))
    return pd.concat([each, table.reset_index(drop=True)], axis=1)


def _of_query(model: PosteriorModel, query: Query, level: float) -> list[pd.DataFrame]:
    """The answers of a query of every table with its cells."""
    tables = model.published_tables()
    found = [table for table in tables if table.joint.frame.same_cells(query.frame)]
    if not found:
        known = "; ".join(f"{table.name}: {table.joint.frame}" for table in tables)
        raise ValueError(f"query must be about a table of the posterior ({known}), not {query.frame}")
    return [part for table in found for part in _answers(table, [query], level)]


def _of_everything(model: PosteriorModel, level: float) -> list[pd.DataFrame]:
    """All tables with their totals, and all other variables."""
    if not model.tables and not releases_of_tables(model.tree):
        model.published_tables()  # says what is missing
    parts = []
    for table in model.tables:
        release, totals = table.joint, []
        if release.about == "counts" and not isinstance(table, SummarisedPosterior):
            asked = [part.query for part in release.exact] + [part.query for part in release.measurements]
            totals = totals_of(release.frame, asked)
        parts += _answers(table, [table.cells, *totals], level)
    return parts + [part for name in model.others for part in _of_variable(model, name, level)]


def _of_variable(model: PosteriorModel, name: Any, level: float) -> list[pd.DataFrame]:
    """The counts of a table, the answers of a recorded query, or a parameter."""
    instance(name, str, "var must be names of variables", quoted=True)
    for table in model.tables:
        if name == table.name:
            return _answers(table, [table.cells], level)
    if name not in model.variables:
        raise ValueError(f"there is no variable {name!r} in the posterior; there are {nearest(name, model.names)}")
    for table in model.tables:
        if name in table.recorded:
            query = table.recorded[name]
            return [_rows(name, summarise_table(table, query, level, of_draws=True), _names(query))]
    determined = model.tree["determined"].to_dataset() if "determined" in model.tree.children else {}  # of parts
    return [_rows(name, summarise_variable(model.variables[name], level, determined.get(name)), None)]


def _answers(table: Posterior, queries: list[Query], level: float) -> list[pd.DataFrame]:
    """Answers about the counts of a table; the grand total and linear combinations have names in place of labels."""
    return [_rows(_title(table.name, query), summarise_table(table, query, level), _names(query)) for query in queries]


def _names(query: Query) -> list[str] | None:
    """Names of rows that have no labels: of the grand total and of linear combinations."""
    return query.names if not query.dims or not _sums(query) else None


def _title(name: str, query: Query) -> str:
    if query.is_identity:
        return name
    if not _sums(query):
        return f"{name}: {described(query)}"
    return f"{name} by {' × '.join(query.dims)}" if query.dims else f"{name}: grand total"


def _sums(query: Query) -> bool:
    """Whether the answers are labelled sums, and not a stack or a general matrix."""
    return len(query.parts) == 1 and isinstance(query.parts[0], SumPart)


def _rows(title: str, own: Answers, names: list[str] | None) -> pd.DataFrame:
    """The rows of one part, with these names or those that are made of the labels."""
    ends = f"eti{100 * own.prob:.10g}"
    value = own.value
    whole = np.where(np.isnan(value), 0, np.rint(value)).astype(np.int64)
    called = {"lower": f"{ends}_lower", "upper": f"{ends}_upper"}
    found: dict[str, Any] = {called.get(name, name): values for name, values in own.columns.items()}
    found |= {
        "sd": np.where(own.determined, np.nan, own.sd),
        "exact": pd.arrays.IntegerArray(whole, ~own.determined),
        "status": np.where(own.exact, "exact", np.where(own.determined, "determined", "")),
    }
    return _framed(title, own.labels, names, found)


def _framed(title: str, labels: dict[str, list[Any]], names: list[str] | None, numbers: dict[str, Any]) -> pd.DataFrame:
    """Numbers under the index of `summary`: the name of the part, and labels or the names that stand for them."""
    columns = [[f"{dim}={label}" for label in own] for dim, own in labels.items()]
    joined = [", ".join(row) for row in zip(*columns, strict=True)] or [""]  # "" of a single number
    joined = joined if names is None else names
    table = pd.DataFrame(
        numbers, index=pd.MultiIndex.from_arrays([[title] * len(joined), joined], names=["part", "label"])
    )
    table.attrs["labels"] = labels
    return table


def published_table(
    posterior: xr.DataTree | xr.DataArray, *names: str, by: str | None = None, prob: float = 0.95
) -> pd.DataFrame:
    """Published tables or codes of the 2020 Census, from one joint posterior.

    Parameters
    ----------
    posterior : xarray.DataTree or xarray.DataArray
        What `bayesdp.sample` returns for a release of `bayesdp.datasets.read_nmf`, or `bayesdp.fit_hierarchy` where it was asked to
        record a `bayesdp.datasets.code_query` of these lines; or draws, with the dimensions chain and draw, of the counts, or of the
        answers of such a query (dimension ``answer``, or ``p1_answer`` and the like) where only these were kept.
    *names : str
        Tables (``"P1"``) or codes (``"P1_003N"``), see `bayesdp.datasets.published_codes`. ValueError if one is not known, its
        histogram is not that of the posterior, or its cells are finer than those of the posterior.
    by : str, optional
        A level of geography, such as ``"tract"``; all that was read by default.
    prob : float, default 0.95
        Probability of the equal-tailed intervals.

    Returns
    -------
    pandas.DataFrame
        Index ``code``, or `by` and ``code``; columns ``label``, ``mean``, ``sd``, ``eti95_lower``, ``eti95_upper`` and, of a DataTree,
        the other columns of `bayesdp.summary`.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> units = {"block": ["a", "b"], "h1": ["vacant", "occupied"]}
    >>> draws = xr.DataArray(np.ones((1, 4, 2, 2), dtype=int), dims=("chain", "draw", *units), coords=units)
    >>> published_table(draws, "H1")["mean"].to_dict()
    {'H1_001N': 4.0, 'H1_002N': 2.0, 'H1_003N': 2.0}
    """
    given: Any = posterior
    if isinstance(given, xr.DataArray):
        numbers = _of_draws(given, names, by, prob)
    elif isinstance(given, xr.DataTree):
        numbers = _of_tree(given, names, by, prob)
    else:
        raise TypeError(f"posterior must be a DataTree or a DataArray of draws, got {type(given).__name__}")
    codes = [str(name).rsplit(", ", 1)[-1] for name in numbers.index]
    numbers.insert(0, "label", bayesdp.datasets.published_codes(*names)["label"].loc[codes].to_numpy())
    if by is None:
        numbers.index = pd.Index(codes, name="code")
    else:
        places = [str(name).rsplit(", ", 1)[0].removeprefix(f"{by}=") for name in numbers.index]
        numbers.index = pd.MultiIndex.from_arrays([places, codes], names=[by, "code"])
    return numbers


def _of_tree(posterior: xr.DataTree, names: tuple[str, ...], by: str | None, prob: float) -> pd.DataFrame:
    bayesdp.datasets.published_codes(*names)
    frames = [releases[0].frame for _, releases in releases_of_tables(posterior)]
    if not frames:
        raise ValueError("posterior lacks the group 'release', so that its cells are not known")
    reasons = []
    for frame in frames:
        try:
            query = bayesdp.datasets.code_query(frame, *names, by=by)
        except ValueError as reason:
            reasons.append(reason)
            continue
        table = summary(posterior, query=query, prob=prob)
        first: pd.DataFrame = table.loc[[table.index[0][0]]].droplevel(0)  # of several tables with the same cells
        return first
    raise reasons[0]


def _of_draws(draws: xr.DataArray, names: tuple[str, ...], by: str | None, prob: float) -> pd.DataFrame:
    level = probability(prob, "prob")
    missing = [dim for dim in ("chain", "draw") if dim not in draws.dims]
    if missing:
        raise ValueError(f"draws must have the dimensions chain and draw, got {shown(draws.dims)}")
    # Of the answers of a stack of queries: ``answer``, or ``..._answer`` as `bayesdp.fit_hierarchy` calls it.
    dims = [str(dim) for dim in draws.dims if dim == "answer" or str(dim).endswith("_answer")]
    if len(dims) == 1 and len(draws.dims) == 3:
        dim = dims[0]
        there = [str(own) for own in draws[dim].values]
        codes = bayesdp.datasets.published_codes(*names).index
        wanted = [own for own in there if own.rsplit(", ", 1)[-1] in codes and (", " in own) == (by is not None)]
        wanted = [own for own in wanted if by is None or own.startswith(f"{by}=")]
        absent = [code for code in codes if not any(own.rsplit(", ", 1)[-1] == code for own in wanted)]
        if absent:
            raise ValueError(f"the draws have no answers {shown(absent)}; they have {shown(there)}")
        answers = draws.sel({dim: wanted}).transpose("chain", "draw", dim).values
    else:
        query = bayesdp.datasets.code_query(Frame.of(draws.isel(chain=0, draw=0, drop=True)), *names, by=by)
        answers, wanted = query.apply(draws).transpose("chain", "draw", "answer").values, query.names
    found, ends = summarise_draws(answers.reshape(-1, len(wanted)), level), f"eti{100 * level:.10g}"
    numbers = {"mean": found.mean, "sd": found.sd, f"{ends}_lower": found.lower, f"{ends}_upper": found.upper}
    return pd.DataFrame(numbers, index=pd.Index(wanted))
