"""The tables of a posterior: which releases each is of, and which variable holds its counts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp.release import Release
from bayesdp.storage.counts import counts_name

_STATING = ("fiber", "statistics")
"""Groups that say which variable a release is about: a table of counts, or statistics."""


def _stated(tree: xr.DataTree) -> list[tuple[str, str]]:
    """The ending of the groups of each table, and the variable that they state."""
    return [
        (group.removeprefix(kind), str(own.attrs.get("variable", "")))
        for group, own in tree.children.items()
        for kind in _STATING
        if group == kind or group.startswith(f"{kind}_")
    ]


def releases_of_tables(tree: xr.DataTree) -> list[tuple[str | None, tuple[Release, ...]]]:
    """The name of each table in the posterior with its releases, in the order of the model.

    Parameters
    ----------
    tree : xarray.DataTree
        As `bayesdp.sample` returns it: the groups ``release``, ``release_2``, ... are of the first table, and
        ``release_{name}``, ``release_{name}_2``, ... of the others.

    Returns
    -------
    list of tuple
        The name is None where the tree has no group ``fiber`` or ``statistics`` that states it. Tables without a release are left out.
    """
    tables: list[tuple[str, str | None]] = [(ending, name or None) for ending, name in _stated(tree)] or [("", None)]
    endings = {ending for ending, _ in tables}
    found = []
    for ending, name in tables:
        groups, own = f"release{ending}", 2
        releases = []
        while groups in tree.children:
            releases.append(Release.from_dataset(tree[groups].to_dataset()))
            while f"{ending}_{own}" in endings:  # that is another table, whose name is a number
                own += 1
            groups, own = f"release{ending}_{own}", own + 1
        if releases:
            found.append((name, tuple(releases)))
    return found


def tables_of_posterior(tree: xr.DataTree) -> dict[str, tuple[Release, ...]]:
    """The variables of a posterior that hold counts or statistics of which something was published, with the releases of each.

    Parameters
    ----------
    tree : xarray.DataTree
        As `bayesdp.sample` returns it.

    Returns
    -------
    dict
        In the order of the model. Tables that were not recorded (`var_names` of ``pm.sample``) are left out: another variable
        with the same dimensions, such as a function of the counts, is not what the release is about.

    Raises
    ------
    ValueError
        If a group is no release, or a tree that does not state the variable has none, or several, that it may be.

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

    Parameters
    ----------
    tree : xarray.DataTree
    name : str
        One of `tables_of_posterior`.
    release : Release
        One of its releases.
    """
    draws = tree["posterior"].to_dataset()[name]
    if release.about == "counts":
        return draws.transpose("chain", "draw", *release.dims)
    values = draws.transpose("chain", "draw", ...).values
    shape = (*values.shape[:2], *release.frame.shape)
    return xr.DataArray(values.reshape(shape), dims=("chain", "draw", *release.dims), coords=release.coords, name=name)


def determined_of(tree: xr.DataTree, name: str, dims: tuple[str, ...]) -> npt.NDArray[np.bool_] | None:
    """Which cells of a table have one possible value, where the posterior says so.

    Parameters
    ----------
    tree : xarray.DataTree
    name : str
        The variable that holds the table.
    dims : tuple of str
        The dimensions of the table, in the order of its release.
    """
    for group, own in tree.children.items():
        if (group == "fiber" or group.startswith("fiber_")) and own.attrs.get("variable", name) == name:
            if "determined" not in own.data_vars:
                return None  # files of earlier versions; it is worked out again
            return np.asarray(own.to_dataset()["determined"].transpose(*dims).values, dtype=np.bool_)
    return None
