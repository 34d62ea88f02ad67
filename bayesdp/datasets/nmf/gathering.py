"""Noisy answers and constraints, gathered from the rows of files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bayesdp.datasets.nmf.cells import Cells
from bayesdp.datasets.nmf.constraints import Limits
from bayesdp.datasets.nmf.noisy import Gathered, bins_of
from bayesdp.datasets.nmf.products import Product, same_query
from bayesdp.datasets.nmf.rows import Place, Row, read_rows
from bayesdp.datasets.nmf.spine import Found, Spine
from bayesdp.datasets.nmf.unused import Ledger


def names_of(found: Found, kind: str) -> dict[str, set[str]]:
    """The names of rows at each level."""
    return {level: {name for place in own[kind] for _, name in place.keys} for level, own in found.items()}


def _rows(
    product: Product, spine: Spine, found: Found, kind: str, keep: Mapping[str, frozenset[str]]
) -> Iterable[tuple[str, Row, int]]:
    """Level, row and node of all rows that are wanted."""
    for level in spine.levels[::-1]:
        node = {geocode: i for i, geocode in enumerate(spine.nodes[level])}
        places: list[Place] = found[level][kind]
        for place in places:
            for row in read_rows(place, keep[level], product.histogram.names):
                yield level, row, node[row.geocode]


def noisy_of(
    product: Product, spine: Spine, found: Found, cells: Cells, names: Sequence[str] | None, ledger: Ledger
) -> list[Gathered]:
    """The noisy answers of each level and query; what is not used is noted."""
    wanted = None if names is None else {same_query(name) for name in names}
    keep = {
        level: frozenset(name for name in own if wanted is None or same_query(name) in wanted)
        for level, own in names_of(found, "DPQuery").items()
    }
    gathered: dict[tuple[str, str], Gathered] = {}
    for level, row, node in _rows(product, spine, found, "DPQuery", keep):
        try:
            bins = bins_of(row, product.histogram)
        except LookupError as unknown:
            ledger.note(f"{level}, {row.name}", f"how it cuts the histogram is not known here: {unknown.args[0]}")
            continue
        why = cells.span(bins)
        if why is not None:
            ledger.note(f"{level}, {row.name}", f"it is no sum of the cells: {why}")
            continue
        key = (level, row.name)
        if key not in gathered:
            gathered[key] = Gathered.empty(level, row.name, bins, len(spine.nodes[level]))
        gathered[key].add(row, bins, node)
    for part in gathered.values():
        blank = len(part.file)
        if blank < len(spine.nodes[part.level]):
            total = len(spine.nodes[part.level])
            ledger.note(f"{part.level}, {part.name}", f"{total - blank} of {total} geounits have no such measurement")
    return list(gathered.values())


def limits_of(product: Product, spine: Spine, found: Found, cells: Cells, ledger: Ledger) -> Limits:
    """The constraints of all levels."""
    limits = Limits(spine, cells, product, ledger)
    keep = {level: frozenset(own) for level, own in names_of(found, "Constraint").items()}
    for level, row, node in _rows(product, spine, found, "Constraint", keep):
        limits.add(level, row, node)
    return limits
