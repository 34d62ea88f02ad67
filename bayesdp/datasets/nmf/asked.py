"""What a user asks of noisy measurement files, checked against what there is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bayesdp._validate import shown
from bayesdp.datasets.nmf.cells import Cells
from bayesdp.datasets.nmf.layout import Folder
from bayesdp.datasets.nmf.noisy import Bins
from bayesdp.datasets.nmf.products import Product, same_query
from bayesdp.datasets.nmf.spine import Spine


def asked_levels(folder: Folder, product: Product, levels: Iterable[str] | None) -> list[str]:
    """The levels that are to be read, from the top down; TypeError or ValueError where there are no such."""
    if isinstance(levels, str):
        raise TypeError(f"levels must be a list of levels, got the string {levels!r}")
    asked = list(folder.levels if levels is None else levels)
    unknown = [level for level in asked if level not in product.levels]
    if unknown or not asked:
        raise ValueError(f"levels must be some of {shown(product.levels, 10)}, got {shown(unknown or asked)}")
    missing = [level for level in asked if level not in folder.levels]
    if missing:
        raise ValueError(f"{folder.path} has no level {shown(missing)}; its levels are {shown(folder.levels, 10)}")
    return [level for level in product.levels if level in asked]


def asked_queries(queries: Iterable[str] | None) -> list[str] | None:
    """The queries that are to be read; None for all. TypeError where they are no list."""
    if isinstance(queries, str):
        raise TypeError(f"queries must be a list of names, got the string {queries!r}")
    return None if queries is None else list(queries)


def check_names(folder: Folder, product: Product, names: Sequence[str] | None, there: Mapping[str, set[str]]) -> None:
    """Check that the files have these queries; ValueError that lists those that there are."""
    known = sorted(set().union(*there.values()))
    if names is None:
        return
    for name in names:
        if not any(same_query(name) == same_query(own) for own in known):
            valid = product.queries if not known else [own.removesuffix("_dpq") for own in known]
            raise ValueError(
                f"queries names {name!r}, which is not measured in {folder.path}; queries are {shown(valid, 20)}"
            )
    if not names:
        raise ValueError("queries must name at least one query; leave it out for all")


def asked_bins(product: Product, names: Sequence[str] | None) -> list[Bins] | None:
    """What is asked of the cells; None if all, or a query's name does not say it."""
    if names is None:
        return None
    try:
        return [
            tuple(
                axis.binning(own)
                for axis, own in zip(
                    product.histogram.axes, product.histogram.named(name.removesuffix("_dpq").strip()), strict=True
                )
            )
            for name in names
        ]
    except ValueError:
        return None


def check_size(spine: Spine, cells: Cells, most: int, geography: str, product: Product) -> None:
    """Check that the table is not too large; NotImplementedError that says what would make it smaller."""
    leaves = len(spine.leaves)
    if leaves * cells.size > most:
        raise NotImplementedError(
            f"the table of {leaves:,} geounits of the level {spine.leaf} in {geography} by {cells.size:,} cells has "
            f"{leaves * cells.size:,} cells, and a release holds all of them in memory several times: above max_cells = {most:,}. "
            f"Read fewer levels (levels={list(spine.levels[:0:-1])!r}), a smaller geography, some of the queries, or coarser cells "
            f"(cells={{{product.histogram.names[-1]!r}: '*'}})"
        )
