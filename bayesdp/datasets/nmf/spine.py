"""The spine that noise was added on: its geocodes and ordinary codes, the part of it that is read, and exact totals of areas.

The spine of the redistricting file is not that of the tables. Its codes nest: the code of a geounit starts with that of the geounit
above it, and codes of one level have one length. They are made of

* one digit for the branch of the state, 1 for its legal American Indian and Alaska Native areas and 0 for the rest,
* two digits of the state,
* one digit for the kind of unit (1 for a county) and four of it,
* what the Bureau numbered the units below by, and
* for blocks, 16 digits at the end: state (2), county (3), tract (6), block group (1), block (4).

So states and blocks have ordinary codes for certain; counties have where the fourth digit is 1; tracts and counties have those
that all blocks below them agree on, where blocks are read. Block groups of the spine are not those of the tables and have none.
Source: the Bureau's published code that optimises the spine, and the public readers of the files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from bayesdp._arrays import Ints, Mask
from bayesdp._validate import nonnegative_integer, shown
from bayesdp.datasets.nmf.layout import KINDS, Folder, Place, find_rows
from bayesdp.frames import Frame
from bayesdp.measurements import Exact
from bayesdp.queries import LinearQuery, Totals

BLOCK_DIGITS = 16
"""Digits at the end of a block's geocode that are its ordinary code, with the block group between tract and block."""

SPLIT_STATES = frozenset(
    "01 02 04 06 08 09 12 13 15 16 18 19 20 22 23 25 26 27 28 30 31 32 35 36 37 38 40 41 45 46 47 48 49 51 53 55 56".split()
)
"""States with both branches in the 2020 spine."""


def county_code(geocode: str) -> str | None:
    """The five digits of state and county at or below the level of counties, 50007 of 05010007; None for other units."""
    return geocode[1:3] + geocode[5:8] if len(geocode) >= 8 and geocode[3:5] == "10" else None


def block_code(geocode: str) -> str:
    """The 15 digits of a block: 500079601001003 of a geocode that ends in 5000796010011003."""
    end = geocode[-BLOCK_DIGITS:]
    return end[:11] + end[12:]


_CODES: Mapping[str, Callable[[str], str | None]] = {
    "US": lambda _: "US",
    "State": lambda geocode: geocode[1:3],
    "County": county_code,
    "Block": block_code,
}


@dataclass(frozen=True, eq=False)
class Codes:
    """The geounits that were read (level -> geocodes), and their ordinary codes.

    Examples
    --------
    >>> codes = Codes({"State": ("050", "150"), "County": ("05010007",)})
    >>> codes.ordinary("05010007")
    '50007'
    """

    geounits: Mapping[str, tuple[str, ...]]

    def ordinary(self, geocode: str) -> str | None:
        """The ordinary code of a geounit; None where it has none, or it does not follow from what was read."""
        if geocode not in self._ordinary:
            raise ValueError(f"{geocode!r} was not read; geounits that were are {shown(self._ordinary)}")
        return self._ordinary[geocode]

    @cached_property
    def _ordinary(self) -> dict[str, str | None]:
        found: dict[str, str | None] = {}
        for level, geocodes in self.geounits.items():
            code = _CODES.get(level)
            found |= {geocode: None if code is None else code(geocode) for geocode in geocodes}
        # What all blocks below a unit say is certain; it takes the place of what its own code says.
        for level, digits in (("County", 5), ("Tract", 11)):
            units = set(self.geounits.get(level, ()))
            codes: dict[str, set[str]] = {}
            for block, length in product(self.geounits.get("Block", ()), {len(unit) for unit in units}):
                if block[:length] in units:
                    codes.setdefault(block[:length], set()).add(block_code(block)[:digits])
            found |= {unit: own.pop() if len(own) == 1 else None for unit, own in codes.items()}
        return found


type Found = dict[str, dict[str, list[Place]]]
"""Level -> kind -> places of rows."""


def prefixes_of(geography: str) -> tuple[str, ...]:
    """How the geocodes of a geography start: of a geocode itself, of two digits of a state, or of the five of a county."""
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
    return _county_geocodes(geography) if len(geography) == 5 else (geography,)


def _county_geocodes(county: str) -> tuple[str, ...]:
    """The geocodes that a county may have, one for each branch of its state."""
    return tuple(f"{branch}{county[:2]}10{county[2:]}" for branch in "01")


@dataclass(frozen=True, eq=False)
class Spine:
    """The part of the tree of geography that is read: its nodes level by level, from the leaves up."""

    levels: tuple[str, ...]
    nodes: Mapping[str, tuple[str, ...]]  # level -> geocodes, sorted
    node_of_leaf: Mapping[str, Ints]  # level -> the node of each leaf

    @property
    def leaf(self) -> str:
        """The level of the leaves."""
        return self.levels[0]

    @property
    def leaves(self) -> tuple[str, ...]:
        """Geocodes of the leaves."""
        return self.nodes[self.leaf]


def find_geounits(folder: Folder, levels: Sequence[str], geography: str, axes: Sequence[str]) -> Found:
    """Find the rows of a geography at some levels; ValueError that says what there is where there are none, or it is not known."""
    # `axes`: columns that say how rows cut the axes of the histogram.
    prefixes = prefixes_of(geography)
    found: Found = {level: {kind: [] for kind in KINDS} for level in levels}
    for level in levels:
        folder.strangers(level)
    asked = [
        (level, kind, file, prefix)
        for level, prefix, kind in product(levels, prefixes, KINDS)
        if not (level == "US" and prefix)
        for file in folder.files(level, kind, prefix)
    ]
    places = find_rows([(file, prefix) for _, _, file, prefix in asked], axes)
    for (level, kind, file, _), place in zip(asked, places, strict=True):
        for geocode in dict.fromkeys(geocode for geocode, _ in place.keys):
            _check_form(file, level, geocode)
        if place.groups or not place.rows:
            found[level][kind].append(place)
    if not any(place.groups for own in found.values() for places in own.values() for place in places):
        raise ValueError(_not_there(folder, levels, geography, prefixes))
    return found


def _check_form(file: Path, level: str, geocode: str) -> None:
    """Check that a geocode has the form from which states, counties and blocks are told."""
    digits = geocode.isascii() and geocode.isdigit() and geocode[0] in "01"
    if level == "State":
        good, form = digits and len(geocode) == 3, "three digits, 0 or 1 for the branch and two of the state"
    elif level == "Block":
        good = digits and len(geocode) >= 8 + BLOCK_DIGITS and geocode[-BLOCK_DIGITS:][:2] == geocode[1:3]
        form = f"digits, as in a county and below it, and at the end {BLOCK_DIGITS} that start with the state's two"
    else:
        good = level == "US" or (digits and len(geocode) >= 8)
        form = "eight digits or more, of which the first is 0 or 1"
    if not good:
        raise ValueError(
            f"{file}: geocodes of the level {level} have {form}; got {geocode!r}. These files have other codes of geography than the "
            "spine that is known here, and to read them as if they had not would name wrong places"
        )


def _not_there(folder: Folder, levels: Sequence[str], geography: str, prefixes: Sequence[str]) -> str:
    states = folder.branches(*levels)
    message = f"{folder.path}: there is no geography {geography!r} at the levels {shown(levels, 8)}"
    if states and not any(prefix[:3] in states for prefix in prefixes):
        return f"{message}; branches of states that are there are {shown(sorted(states), 8)}"
    told, branches = "", {prefix[:3] for prefix in prefixes}
    for level in levels:
        if level in ("US", "State"):
            continue
        files = [(file, own) for own in branches for kind in KINDS for file in folder.files(level, kind, own)]
        near = sorted({geocode for place in find_rows(files, None) for geocode, _ in place.keys})
        same = any(len(geocode) == len(geography) for geocode in near)
        if near and (same or not told):
            codes = [f"{geocode} ({county_code(geocode)})" if level == "County" else geocode for geocode in near[:8]]
            more = f", ... ({len(near) - 8} more)" if len(near) > 8 else ""
            told = f"; of the level {level} there are {', '.join(codes)}{more}"
        if same:
            break
    return message + told


def spine_of(folder: Folder, levels: Sequence[str], found: Found) -> Spine:
    """The tree of the geounits that were found at `levels`, which are from the top down."""
    geocodes = {
        level: sorted({geocode for own in found[level].values() for place in own for geocode, _ in place.keys})
        for level in levels
    }
    there = [level for level in levels if geocodes[level]]
    for level in levels[levels.index(there[0]) : levels.index(there[-1])]:
        if level not in there:
            raise ValueError(
                f"{folder.at(level)}: there is no geounit of the level {level}, but of {there[0]} and {there[-1]}"
            )
    if "US" in there and len(geocodes["US"]) > 1:
        raise ValueError(f"{folder.at('US')}: the nation has several geocodes: {shown(geocodes['US'])}")
    up = there[::-1]
    leaf = up[0]
    node_of_leaf = {leaf: np.arange(len(geocodes[leaf]), dtype=np.int64)}
    ancestors = geocodes[leaf]  # of each leaf, at the level below
    for below, level in pairwise(up):
        place = {geocode: i for i, geocode in enumerate(geocodes[level])}
        lengths = {len(geocode) for geocode in place}
        parents: list[str] = []
        for geocode, ancestor in zip(geocodes[leaf], ancestors, strict=True):
            above = [geocodes["US"][0]] if level == "US" else [geocode[:n] for n in lengths if geocode[:n] in place]
            if not above:
                raise ValueError(
                    f"{folder.at(leaf)}: {geocode} has no geounit of the level {level} above it in {folder.at(level)}; there are "
                    f"{shown(place)}"
                )
            if len(above) > 1:
                raise ValueError(
                    f"{folder.at(level)}: {geocode} is below several geounits of the level {level}: {shown(above)}"
                )
            if level != "US" and not ancestor.startswith(above[0]):
                raise ValueError(
                    f"{folder.at(below)}: {ancestor} is not below {level} {above[0]}, its geocode starts otherwise"
                )
            parents.append(above[0])
        node_of_leaf[level] = np.asarray([place[parent] for parent in parents], dtype=np.int64)
        childless = sorted(set(place) - set(parents))
        if childless:
            raise ValueError(
                f"{folder.at(leaf)}: there is no geounit of the level {leaf} below {level} {childless[0]}"
                f"{f' and {len(childless) - 1} more' if childless[1:] else ''}: files are missing, or read fewer levels"
            )
        ancestors = parents
    return Spine(tuple(up), {level: tuple(geocodes[level]) for level in up}, node_of_leaf)


def exact_totals(
    totals: Mapping[str, int], frame: Frame, spine: Spine, folder: Folder, prefixes: Sequence[str]
) -> list[Exact]:
    """Totals of states, counties or geounits as exact parts of a release."""
    # The spine splits a state into two branches, so that the published total of a state is that of the sum of two geounits.
    # `totals`: "US", two digits of a state, five of a county, or a geocode -> persons (or units).
    masks = {str(key): _leaves(str(key), spine, folder, prefixes) for key in totals}
    values = {str(key): nonnegative_integer(value, f"totals[{str(key)!r}]") for key, value in totals.items()}
    if len(masks) < len(totals):
        raise ValueError(f"totals states an area twice, as a number and as text: {shown(totals)}")
    whole = [values[key] for key, mask in masks.items() if mask.all()]
    found = [Exact(Totals(frame), value) for value in whole[:1]]
    if len(set(whole)) > 1:
        raise ValueError(f"totals states several numbers for the same area: {shown(whole)}")
    rest = [(key, mask, values[key]) for key, mask in masks.items() if not mask.all()]
    if not rest:
        return found
    by_group = _as_group(rest, frame)
    if by_group is not None:
        return [*found, by_group]
    cells = frame.size // frame.shape[0]
    matrix = sp.csr_array(np.stack([np.repeat(mask, cells) for _, mask, _ in rest]).astype(np.int64))
    names = [f"total of {key}" for key, _, _ in rest]
    return [*found, Exact(LinearQuery(frame, matrix, names), [value for _, _, value in rest])]


def _as_group(rest: Sequence[tuple[str, Mask, int]], frame: Frame) -> Exact | None:
    """The totals as those of all labels of one group, which the hierarchy's kernel knows as a level."""
    inside = np.stack([mask for _, mask, _ in rest])
    if np.any(inside.sum(axis=0) != 1):
        return None
    areas = inside.argmax(axis=0).tolist()  # of each leaf
    for name, dim, labels in frame.groups:
        area_of = dict(zip(labels, areas, strict=True)) if dim == frame.dims[0] else {}
        if area_of and [area_of[label] for label in labels] == areas and len(area_of) == len(rest) == len(set(areas)):
            return Exact(Totals(frame, by=name), [rest[area][2] for area in area_of.values()])
    return None


def _leaves(key: str, spine: Spine, folder: Folder, prefixes: Sequence[str]) -> Mask:
    """The leaves of an area, all of which must have been read."""
    if key == "US":
        if "" not in prefixes:
            raise ValueError(
                "totals states that of 'US', and only a part of the nation was read: geography must be 'US'"
            )
        return np.ones(len(spine.leaves), dtype=np.bool_)
    if len(key) == 2:
        return _state(key, spine, folder, prefixes)
    if len(key) == 5:
        mask = np.asarray([county_code(leaf) == key for leaf in spine.leaves], dtype=np.bool_)
        if not mask.any():
            raise ValueError(f"totals states that of the county {key!r}, and no county with that code was read")
        if not all(start.startswith(tuple(prefixes)) for start in _county_geocodes(key)):
            raise ValueError(
                f"totals states that of the county {key!r}, and only {shown(prefixes)} was read; read geography={key!r}, or its state"
            )
        if any(leaf.startswith(f"1{key[:2]}") and county_code(leaf) is None for leaf in spine.leaves):
            raise ValueError(
                f"totals states that of the county {key!r}, but its state has areas in the other branch that are cut in another way "
                "than counties, and may be in that county: give the total of the state"
            )
        return mask
    known = {geocode for own in spine.nodes.values() for geocode in own}
    if key not in known:
        raise ValueError(
            f"totals states that of {key!r}, which was not read; geounits that were are {shown(sorted(known))}"
        )
    return np.asarray([leaf.startswith(key) for leaf in spine.leaves], dtype=np.bool_)


def _state(key: str, spine: Spine, folder: Folder, prefixes: Sequence[str]) -> Mask:
    branches = {"0" + key, "1" + key}
    there = folder.branches(*folder.levels) | {leaf[:3] for leaf in spine.leaves}
    there &= branches
    missing = sorted(branch for branch in there if not branch.startswith(tuple(prefixes)))
    if missing or not there:
        raise ValueError(
            f"totals states that of the state {key!r}, which is the sum of its branches {', '.join(sorted(there or branches))}, and "
            f"{', '.join(missing) or 'none of them'} was not read as a whole: read geography={key!r}"
        )
    if key in SPLIT_STATES and "1" + key not in there:
        raise ValueError(
            f"totals states that of the state {key!r}, whose spine has the branches 0{key} and 1{key}, but no State=1{key} in "
            f"{folder.path}: the total is not that of what is there"
        )
    return np.asarray([leaf[:3] in branches for leaf in spine.leaves], dtype=np.bool_)
