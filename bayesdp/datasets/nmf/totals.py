"""Exact totals that a user knows from published tables: the files of persons do not have those of states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._validate import nonnegative_integer, shown
from bayesdp.datasets.nmf.codes import SPLIT_STATES, county_code
from bayesdp.datasets.nmf.layout import Folder
from bayesdp.datasets.nmf.spine import Spine
from bayesdp.frames import Frame
from bayesdp.measurements import Exact
from bayesdp.queries import LinearQuery, Totals

type Mask = npt.NDArray[np.bool_]


def exact_totals(
    totals: Mapping[str, int], frame: Frame, spine: Spine, folder: Folder, prefixes: Sequence[str], product: str
) -> list[Exact]:
    """Totals of states, counties or geounits as exact parts of a release."""
    # The spine splits a state into two branches, so that the published total of a state is that of the sum of two geounits.
    # `totals`: `"US"`, two digits of a state, five of a county, or a geocode -> persons (or units). `frame`, `spine`, `folder`:
    # what was read. `prefixes`: how the geocodes that were read start.
    stated = [(str(key), _leaves(str(key), spine, folder, prefixes), value) for key, value in totals.items()]
    checked = [(key, mask, nonnegative_integer(value, f"totals[{key!r}]")) for key, mask, value in stated]
    if not checked:
        return []
    whole = [value for _, mask, value in checked if mask.all()]
    found = [Exact(Totals(frame), value) for value in whole[:1]]
    if len(set(whole)) > 1:
        raise ValueError(f"totals states several numbers for the same area: {shown(whole)}")
    rest = [(key, mask, value) for key, mask, value in checked if not mask.all()]
    by_group = _as_group(rest, frame)
    if by_group is not None:
        found.append(by_group)
    elif rest:
        matrix = sp.csr_array(
            np.stack([np.repeat(mask, frame.size // len(mask)) for _, mask, _ in rest]).astype(np.int64)
        )
        names = [f"total of {key}" for key, _, _ in rest]
        found.append(Exact(LinearQuery(frame, matrix, names), [value for _, _, value in rest]))
    return found


def _as_group(rest: Sequence[tuple[str, Mask, int]], frame: Frame) -> Exact | None:
    """The totals as those of all labels of one group, which the hierarchy's kernel knows as a level."""
    for name, dim, labels in frame.groups:
        if dim != frame.dims[0]:
            continue
        own = {label: np.asarray([one == label for one in labels], dtype=np.bool_) for label in dict.fromkeys(labels)}
        values = {
            label: value for label, mask in own.items() for _, stated, value in rest if np.array_equal(mask, stated)
        }
        if rest and len(values) == len(own) == len(rest):
            return Exact(Totals(frame, by=name), [values[label] for label in own])
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
        starts = tuple(f"{branch}{key[:2]}10{key[2:]}" for branch in "01")
        if not all(any(start.startswith(own) for own in prefixes) for start in starts):
            raise ValueError(
                f"totals states that of the county {key!r}, and only {shown(prefixes)} was read; read geography={key!r}, or its state"
            )
        if any(leaf.startswith(f"1{key[:2]}") and county_code(leaf) is None for leaf in spine.leaves):
            raise ValueError(
                f"totals states that of the county {key!r}, but its state has areas in the other branch that are cut in another way "
                "than counties, and may be in that county: give the total of the state"
            )
        return mask
    mask = np.asarray([leaf.startswith(key) for leaf in spine.leaves], dtype=np.bool_)
    known = {geocode for own in spine.nodes.values() for geocode in own}
    if key not in known:
        raise ValueError(
            f"totals states that of {key!r}, which was not read; geounits that were are {shown(sorted(known))}"
        )
    return mask


def _state(key: str, spine: Spine, folder: Folder, prefixes: Sequence[str]) -> Mask:
    branches = {"0" + key, "1" + key}
    there = {own for level in folder.levels for own in folder.branches(level)} & branches
    there |= {leaf[:3] for leaf in spine.leaves} & branches
    missing = sorted(own for own in there if not any(own.startswith(prefix) for prefix in prefixes))
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
