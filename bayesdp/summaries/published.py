"""A posterior as a published table of the Census: one line a code, with intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayesdp._validate import probability, shown
from bayesdp.composition import releases_of_tables
from bayesdp.datasets.nmf import code_query, published_codes
from bayesdp.frames import Frame
from bayesdp.summaries.frame import summary


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
        Tables (``"P1"``) or codes (``"P1_003N"``), see `bayesdp.datasets.published_codes`.
    by : str, optional
        A level of geography, such as ``"tract"``; all that was read by default.
    prob : float, default 0.95
        Probability of the equal-tailed intervals.

    Returns
    -------
    pandas.DataFrame
        Index ``code``, or `by` and ``code``; columns ``label``, ``mean``, ``sd``, ``eti95_lower``, ``eti95_upper`` and, of a DataTree,
        the other columns of `bayesdp.summary`.

    Raises
    ------
    TypeError
        If the posterior is neither a DataTree nor a DataArray.
    ValueError
        If a code is not known, its histogram is not that of the posterior, or its cells are finer than those of the posterior.

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
    numbers.insert(0, "label", published_codes(*names)["label"].loc[codes].to_numpy())
    if by is None:
        numbers.index = pd.Index(codes, name="code")
    else:
        places = [str(name).rsplit(", ", 1)[0].removeprefix(f"{by}=") for name in numbers.index]
        numbers.index = pd.MultiIndex.from_arrays([places, codes], names=[by, "code"])
    return numbers


def _of_tree(posterior: xr.DataTree, names: tuple[str, ...], by: str | None, prob: float) -> pd.DataFrame:
    published_codes(*names)
    frames = [releases[0].frame for _, releases in releases_of_tables(posterior)]
    if not frames:
        raise ValueError("posterior lacks the group 'release', so that its cells are not known")
    query, why = None, ""
    for frame in frames:
        try:
            query = code_query(frame, *names, by=by)
        except ValueError as reason:
            why = why or str(reason)
        else:
            break
    if query is None:
        raise ValueError(why)
    table = summary(posterior, query=query, prob=prob)
    part = table.index.get_level_values(0)[0]  # of several tables with the same cells, the first
    own: pd.DataFrame = table.loc[table.index.get_level_values(0) == part].droplevel(0)
    return own


def _answers_of(draws: xr.DataArray) -> str | None:
    """The dimension of the answers of a stack of queries: ``answer``, or ``..._answer`` as `bayesdp.fit_hierarchy` calls it."""
    found = [str(dim) for dim in draws.dims if dim == "answer" or str(dim).endswith("_answer")]
    return found[0] if len(found) == 1 and len(draws.dims) == 3 else None


def _of_draws(draws: xr.DataArray, names: tuple[str, ...], by: str | None, prob: float) -> pd.DataFrame:
    level = probability(prob, "prob")
    missing = [dim for dim in ("chain", "draw") if dim not in draws.dims]
    if missing:
        raise ValueError(f"draws must have the dimensions chain and draw, got {shown(draws.dims)}")
    dim = _answers_of(draws)
    if dim is not None:
        there = [str(own) for own in draws[dim].values]
        codes = published_codes(*names).index
        wanted = [own for own in there if own.rsplit(", ", 1)[-1] in codes and (", " in own) == (by is not None)]
        wanted = [own for own in wanted if by is None or own.startswith(f"{by}=")]
        absent = [code for code in codes if not any(own.rsplit(", ", 1)[-1] == code for own in wanted)]
        if absent:
            raise ValueError(f"the draws have no answers {shown(absent)}; they have {shown(there)}")
        answers = draws.sel({dim: wanted}).transpose("chain", "draw", dim).values
    else:
        query = code_query(Frame.of(draws.isel(chain=0, draw=0, drop=True)), *names, by=by)
        answers, wanted = query.apply(draws).transpose("chain", "draw", "answer").values, query.names
    pooled = answers.reshape(-1, len(wanted)).astype(np.float64)
    lower, upper = np.quantile(pooled, [(1 - level) / 2, (1 + level) / 2], axis=0, method="inverted_cdf")
    ends = f"eti{100 * level:.10g}"
    numbers = {"mean": pooled.mean(axis=0), "sd": pooled.std(axis=0), f"{ends}_lower": lower, f"{ends}_upper": upper}
    return pd.DataFrame(numbers, index=pd.Index(wanted))
