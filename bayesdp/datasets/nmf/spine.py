"""The part of the tree of geography that is read: its nodes level by level, from the leaves up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bayesdp._validate import shown
from bayesdp.datasets.nmf.codes import BLOCK_DIGITS, county_code, state_code
from bayesdp.datasets.nmf.layout import KINDS, Folder
from bayesdp.datasets.nmf.rows import Place, find_rows

type Found = dict[str, dict[str, list[Place]]]
"""Level -> kind -> places of rows."""


def prefixes_of(geography: str) -> tuple[str, ...]:
    """How the geocodes of a geography start: one given by its geocode, by the two digits of a state, or the five of a county.

    Examples
    --------
    >>> prefixes_of("50"), prefixes_of("50007"), prefixes_of("05010007"), prefixes_of("US")
    (('050', '150'), ('05010007', '15010007'), ('05010007',), ('',))
    """
    if not isinstance(geography, str):
        raise TypeError(f"geography must be a string, because leading zeros count, got {geography!r}")
    if geography == "US":
        return ("",)
    if not (geography.isascii() and geography.isdigit()) or len(geography) < 2 or len(geography) == 4:
        raise ValueError(
            "geography must be 'US', two digits of a state, five of a state and county, or a geocode of the files (three digits for "
            f"a branch of a state, eight or more below), got {geography!r}"
        )
    if len(geography) == 2:
        return ("0" + geography, "1" + geography)
    if len(geography) == 5:
        return tuple(f"{branch}{geography[:2]}10{geography[2:]}" for branch in "01")
    return (geography,)


@dataclass(frozen=True, eq=False)
class Spine:
    """Nodes of a tree.

    Parameters
    ----------
    levels : tuple of str
        From the leaves up.
    nodes : mapping
        Level -> geocodes, sorted.
    node_of_leaf : mapping
        Level -> the node of each leaf, int64 array of shape (leaves,).
    """

    levels: tuple[str, ...]
    nodes: Mapping[str, tuple[str, ...]]
    node_of_leaf: Mapping[str, npt.NDArray[np.int64]]

    @property
    def leaf(self) -> str:
        """The level of the leaves."""
        return self.levels[0]

    @property
    def leaves(self) -> tuple[str, ...]:
        """Geocodes of the leaves."""
        return self.nodes[self.leaf]

    @property
    def states(self) -> tuple[str, ...] | None:
        """The state of each leaf; None where leaves are above states."""
        return None if self.leaf == "US" else tuple(state_code(leaf) for leaf in self.leaves)


def find_geounits(folder: Folder, levels: Sequence[str], geography: str) -> Found:
    """Find the rows of a geography at some levels; ValueError that says what there is where there are none, or it is not known."""
    prefixes = prefixes_of(geography)
    found: Found = {}
    for level in levels:
        found[level] = {kind: [] for kind in KINDS}
        folder.strangers(level)
        for prefix in prefixes:
            state, county = (None, None) if level == "US" or not prefix else (prefix[:3], prefix[3:])
            if level == "US" and prefix:
                continue
            for kind in KINDS:
                for file in folder.files(level, kind, state, county):
                    place = find_rows(file, (prefix,))
                    for geocode, _ in place.keys:
                        _check_form(file, level, geocode)
                    if place.keys or not place.rows:
                        found[level][kind].append(place)
    if not any(place.keys for own in found.values() for places in own.values() for place in places):
        raise ValueError(_not_there(folder, levels, geography, prefixes))
    return found


def _check_form(file: Path, level: str, geocode: str) -> None:
    """Check that a geocode has the form from which states, counties and blocks are told: see `bayesdp.datasets.nmf.codes`."""
    digits = geocode.isascii() and geocode.isdigit() and geocode[0] in "01"
    if level == "State":
        good, form = digits and len(geocode) == 3, "three digits, 0 or 1 for the branch and two of the state"
    elif level == "Block":
        good = digits and len(geocode) >= 8 + BLOCK_DIGITS and geocode[-BLOCK_DIGITS:][:2] == geocode[1:3]
        form = f"digits, as in a county and below it, and at the end {BLOCK_DIGITS} that start with the state's two"
    else:
        good, form = (
            level == "US" or (digits and len(geocode) >= 8),
            "eight digits or more, of which the first is 0 or 1",
        )
    if not good:
        raise ValueError(
            f"{file}: geocodes of the level {level} have {form}; got {geocode!r}. These files have other codes of geography than the "
            "spine that is known here, and to read them as if they had not would name wrong places"
        )


def _not_there(folder: Folder, levels: Sequence[str], geography: str, prefixes: Sequence[str]) -> str:
    states: set[str] = set().union(*(folder.branches(level) for level in levels))
    message = f"{folder.path}: there is no geography {geography!r} at the levels {shown(levels, 8)}"
    if states and not any(prefix[:3] in states for prefix in prefixes):
        return f"{message}; branches of states that are there are {shown(sorted(states), 8)}"
    first = ""
    for level in levels:
        if level in ("US", "State"):
            continue
        near: set[str] = set()
        for prefix in {own[:3] for own in prefixes}:
            for kind in KINDS:
                for file in folder.files(level, kind, prefix):
                    near |= {geocode for geocode, _ in find_rows(file, (prefix,)).keys}
        if not near:
            continue
        codes = [f"{own} ({county_code(own)})" if level == "County" else own for own in sorted(near)]
        more = f", ... ({len(codes) - 8} more)" if len(codes) > 8 else ""
        told = f"{message}; of the level {level} there are {', '.join(codes[:8])}{more}"
        if any(len(own) == len(geography) for own in near):
            return told
        first = first or told
    return first or message


def spine_of(folder: Folder, levels: Sequence[str], found: Found) -> Spine:
    """The tree of the geounits that were found at `levels`, which are from the top down."""
    geocodes = {level: _geocodes(found[level].values()) for level in levels}
    there = [level for level in levels if geocodes[level]]
    for level in levels[levels.index(there[0]) : levels.index(there[-1])]:
        if level not in there:
            raise ValueError(
                f"{_at(folder, level)}: there is no geounit of the level {level}, but of {there[0]} and {there[-1]}"
            )
    if "US" in there and len(geocodes["US"]) > 1:
        raise ValueError(f"{_at(folder, 'US')}: the nation has several geocodes: {shown(geocodes['US'])}")
    up = there[::-1]
    leaf = up[0]
    node_of_leaf = {leaf: np.arange(len(geocodes[leaf]), dtype=np.int64)}
    for level in up[1:]:
        place = {geocode: i for i, geocode in enumerate(geocodes[level])}
        node_of_leaf[level] = np.asarray(
            [0 if level == "US" else _parent(folder, level, place, own, leaf) for own in geocodes[leaf]], dtype=np.int64
        )
        childless = np.setdiff1d(np.arange(len(place)), node_of_leaf[level])
        if childless.size:
            raise ValueError(
                f"{_at(folder, leaf)}: there is no geounit of the level {leaf} below {level} {geocodes[level][int(childless[0])]}"
                f"{f' and {childless.size - 1} more' if childless.size > 1 else ''}: files are missing, or read fewer levels"
            )
    for below, above in pairwise(up):
        for node, parent in zip(node_of_leaf[below], node_of_leaf[above], strict=True):
            own, upper = geocodes[below][int(node)], geocodes[above][int(parent)]
            if above != "US" and not own.startswith(upper):
                raise ValueError(
                    f"{_at(folder, below)}: {own} is not below {above} {upper}, its geocode starts otherwise"
                )
    return Spine(tuple(up), {level: tuple(geocodes[level]) for level in up}, node_of_leaf)


def _parent(folder: Folder, level: str, place: Mapping[str, int], leaf: str, leaf_level: str) -> int:
    above = [leaf[:length] for length in {len(geocode) for geocode in place} if leaf[:length] in place]
    if not above:
        raise ValueError(
            f"{_at(folder, leaf_level)}: {leaf} has no geounit of the level {level} above it in {_at(folder, level)}; there are "
            f"{shown(place)}"
        )
    if len(above) > 1:
        raise ValueError(f"{_at(folder, level)}: {leaf} is below several geounits of the level {level}: {shown(above)}")
    return place[above[0]]


def _at(folder: Folder, level: str) -> Path:
    return folder.path / f"{level}.parquet"


def _geocodes(places: Iterable[list[Place]]) -> list[str]:
    return sorted({geocode for own in places for place in own for geocode, _ in place.keys})
