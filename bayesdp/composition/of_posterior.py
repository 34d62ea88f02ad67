"""The tables of a posterior: which releases each is of, and which variable holds its counts.

Results of `bayesdp.fit_hierarchy`, whose draws of the cells were not kept: what can be read from them, and what cannot.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp import _strict_json as strict_json
from bayesdp._validate import probability, shown
from bayesdp.queries import Query, rows_of
from bayesdp.release import Release
from bayesdp.storage.counts import counts_name

_STATING = ("fiber", "statistics")
"""Groups that say which variable a release is about: a table of counts, or statistics."""


def groups_of(tree: xr.DataTree, *kinds: str) -> list[tuple[str, xr.DataTree]]:
    """The groups of some kinds, which are named by the kind, or that and an ending, in their order."""
    return [
        (name, group)
        for name, group in tree.children.items()
        if name in kinds or name.startswith(tuple(f"{kind}_" for kind in kinds))
    ]


def _stated(tree: xr.DataTree) -> list[tuple[str, str]]:
    """The ending of the groups of each table, and the variable that they state."""
    return [
        (name.removeprefix("fiber").removeprefix("statistics"), str(group.attrs.get("variable", "")))
        for name, group in groups_of(tree, *_STATING)
    ]


def releases_of_tables(tree: xr.DataTree) -> list[tuple[str | None, tuple[Release, ...]]]:
    """The name of each table in the posterior with its releases, in the order of the model.

    The groups ``release``, ``release_2``, ... are of the first table, and ``release_{name}``, ``release_{name}_2``, ... of the others.
    """
    tables: list[tuple[str, str | None]] = [(ending, name or None) for ending, name in _stated(tree)] or [("", None)]
    endings = {ending for ending, _ in tables}
    found = []
    for ending, name in tables:
        groups, number = f"release{ending}", 2
        releases = []
        while groups in tree.children:
            releases.append(Release.from_dataset(tree[groups].to_dataset()))
            while f"{ending}_{number}" in endings:  # that is another table, whose name is a number
                number += 1
            groups, number = f"release{ending}_{number}", number + 1
        if releases:
            found.append((name, tuple(releases)))
    return found


def releases_of_posterior(tree: xr.DataTree) -> tuple[Release, ...]:
    """The releases that a posterior says it is based on; of several tables those of the first."""
    return next((releases for _, releases in releases_of_tables(tree)), ())


def tables_of_posterior(tree: xr.DataTree) -> dict[str, tuple[Release, ...]]:
    """The variables of a posterior that hold counts or statistics of which something was published, with the releases of each.

    In the order of the model. Tables that were not recorded (`var_names` of ``pm.sample``) are left out: another variable
    with the same dimensions, such as a function of the counts, is not what the release is about.

    Examples
    --------
    >>> from bayesdp.measurements import Exact
    >>> from bayesdp.queries import Totals
    >>> county = {"county": ["Alpha", "Beta"]}
    >>> release = Release.from_published(county, exact=[Exact(Totals(county), 7)])
    >>> x = xr.DataArray([[[3, 4]]], dims=("chain", "draw", "county"))
    >>> tree = xr.DataTree.from_dict({"posterior": xr.Dataset({"x": x}), "release": release.to_dataset()})
    >>> {name: len(releases) for name, releases in tables_of_posterior(tree).items()}
    {'x': 1}
    """
    recorded = tree["posterior"].data_vars
    several = len(_stated(tree)) > 1
    return {
        (
            _statistics_name(tree, stated, releases[0])
            if releases[0].about == "statistics"
            else counts_name(tree, releases[0].dims, stated if several else None)
        ): releases
        for stated, releases in releases_of_tables(tree)
        if stated is None or stated in recorded
    }


def _statistics_name(tree: xr.DataTree, stated: str | None, release: Release) -> str:
    """The variable that holds statistics: only the posterior can say which one it is."""
    if stated is None:
        raise ValueError(
            "posterior holds a release of statistics, but no group 'statistics' says which variable these are"
        )
    sizes = {dim: n for dim, n in tree["posterior"][stated].sizes.items() if dim not in ("chain", "draw")}
    if tuple(sizes.values()) not in ((), release.frame.shape) or (not sizes and release.frame.size > 1):
        raise ValueError(
            f"{stated} must have {release.frame.size} statistics, as its release, but it has the dimensions {sizes or 'of a number'}"
        )
    return stated


def draws_of(tree: xr.DataTree, name: str, release: Release) -> xr.DataArray:
    """Draws of a table or of statistics, with the dimensions chain, draw and those of its release, in this order.

    A single statistic may be a number in the model, and the dimension of several may have another name there.
    """
    draws = tree["posterior"].to_dataset()[name]
    if release.about == "counts":
        return draws.transpose("chain", "draw", *release.dims)
    values = draws.transpose("chain", "draw", ...).values
    shape = (*values.shape[:2], *release.frame.shape)
    return xr.DataArray(values.reshape(shape), dims=("chain", "draw", *release.dims), coords=release.coords, name=name)


def determined_of(tree: xr.DataTree, name: str, dims: tuple[str, ...]) -> npt.NDArray[np.bool_] | None:
    """Which cells of a table, with the dimensions in this order, have one possible value, where the posterior says so."""
    for _, group in groups_of(tree, "fiber"):
        if group.attrs.get("variable", name) == name:
            if "determined" not in group.data_vars:
                return None  # files of earlier versions; it is worked out again
            return np.asarray(group.to_dataset()["determined"].transpose(*dims).values, dtype=np.bool_)
    return None


type Floats = npt.NDArray[np.float64]

CELLS = "cells"
"""The group that has summaries of the cells in the place of their draws; also the name of the table."""


def is_streamed(tree: xr.DataTree) -> bool:
    """Whether a posterior has summaries of its cells in the place of their draws."""
    if CELLS not in tree.children or "fiber" not in tree.children:
        return False
    return {"mean", "sd", "quantile", "width"} <= set(tree[CELLS].data_vars)


@dataclass(frozen=True, eq=False)
class CellNumbers:
    """Summaries of all cells, in the order of the table; arrays have shape ``(cells,)``.

    `lower` and `upper` are the ends of an equal-tailed interval; `ess` and `rhat` are NaN where a cell cannot move or never did.
    """

    mean: Floats
    sd: Floats
    lower: Floats
    upper: Floats
    ess: Floats
    rhat: Floats


@dataclass(frozen=True, eq=False)
class Streamed:
    """A result of `bayesdp.fit_hierarchy`, for which `is_streamed` holds."""

    tree: xr.DataTree

    @cached_property
    def release(self) -> Release:
        """What it is based on."""
        return releases_of_tables(self.tree)[0][1][0]

    @cached_property
    def determined(self) -> npt.NDArray[np.bool_]:
        """Cells with one possible value, shape ``(*table)``."""
        found = determined_of(self.tree, CELLS, self.release.dims)
        return self.release.fiber.determined() if found is None else found

    @cached_property
    def queries(self) -> dict[str, Query]:
        """The queries whose draws were kept, by the names of their variables."""
        found = {}
        for name, variable in self.tree["posterior"].data_vars.items():
            if "query" not in variable.attrs:
                continue
            where = f"query of {name} in the posterior"
            description = strict_json.loads(variable.attrs["query"], where)
            try:
                query = Query.from_description(description, self.release.frame)
            except (KeyError, TypeError, AttributeError) as error:
                raise ValueError(f"{where} is damaged: {error}") from None
            if variable[0, 0].size != query.rows:
                raise ValueError(f"{where} has {query.rows} answers, but {variable[0, 0].size} were kept")
            found[str(name)] = query
        return found

    def draws(self, name: str) -> npt.NDArray[Any]:
        """The draws of the answers of a query, shape ``(chains, draws, rows)``."""
        draws = self.tree["posterior"].to_dataset()[name].transpose("chain", "draw", ...)
        return draws.values.reshape(*draws.shape[:2], -1)

    def answers(self, query: Query) -> npt.NDArray[Any]:
        """Draws of the answers of a query, each of which is one that was recorded; or of any query, if all cells were."""
        for name, known in self.queries.items():
            if known == query:
                return self.draws(name)
            if known.is_identity:
                draws = self.draws(name)
                sizes = draws.shape[:2]
                return np.asarray(query.apply(draws.reshape(*sizes, *known.shape))).reshape(*sizes, -1)
        places = [self._rows.get(row) for row in rows_of(query.matrix)]
        kept = [place for place in places if place is not None]
        if len(kept) < len(places) or not places:
            raise ValueError(
                f"the draws of {query!r} were not kept: bdp.fit_hierarchy keeps those of the queries in `record` "
                f"({shown(self.queries) if self.queries else 'there were none'}), and of cells summaries, which do not add up to "
                "intervals of sums. Fit again with this query in `record`"
            )
        drawn = {name: self.draws(name) for name in {name for name, _ in kept}}
        return np.stack([drawn[name][:, :, column] for name, column in kept], axis=2)

    @cached_property
    def _rows(self) -> dict[tuple[bytes, bytes], tuple[str, int]]:
        """Where the draws of each answer are, by its cells and their weights."""
        return {
            row: (name, column)
            for name, query in self.queries.items()
            if not query.is_identity
            for column, row in enumerate(rows_of(query.matrix))
        }

    def has(self, query: Query) -> bool:
        """Whether `answers` has the draws of a query."""
        try:
            self.answers(query)
        except ValueError:
            return False
        return True

    def cells(self, prob: float) -> CellNumbers:
        """Summaries of all cells, with equal-tailed intervals; ValueError if the quantiles at their ends were not kept."""
        level = probability(prob, "prob")
        cells, dims = self.tree[CELLS].to_dataset(), self.release.dims
        shares = cells["share"].values.astype(np.float64)
        ends = [
            np.flatnonzero(np.isclose(shares, tail, rtol=0, atol=1e-9)) for tail in ((1 - level) / 2, (1 + level) / 2)
        ]
        if not all(places.size for places in ends):
            known = [
                1 - 2 * share
                for share in shares
                if share < 0.5 and np.isclose(shares, 1 - share, rtol=0, atol=1e-9).any()
            ]
            raise ValueError(
                f"prob={prob:.10g} needs the quantiles {(1 - level) / 2:.10g} and {(1 + level) / 2:.10g} of the cells, which were not "
                f"kept; there are intervals for prob = {', '.join(f'{prob:.10g}' for prob in known) or 'none'}. Fit again with these "
                "in `quantiles`"
            )

        def flat(values: xr.DataArray) -> Floats:
            return np.asarray(values.transpose(*dims).values, dtype=np.float64).reshape(-1)

        quantile = cells["quantile"]
        lower, upper = (flat(quantile.isel(share=int(places[0]), drop=True)) for places in ends)
        return CellNumbers(
            flat(cells["mean"]), flat(cells["sd"]), lower, upper, flat(cells["ess"]), flat(cells["rhat"])
        )
