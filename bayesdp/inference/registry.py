"""Which releases a model has observed, so that `sample` can put them beside the posterior.

A release as it is observed: cells that are there twice with one perturbation count once.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm

from bayesdp.consistency import CountedOnceWarning, counted_once
from bayesdp.release import Release


def observed_once(release: Release, earlier: Sequence[Release] = (), *, quiet: bool = False) -> Release:
    """The release without answers that it, or an earlier release, has before, under laws that give one cell one value.

    Parameters
    ----------
    release : Release
    earlier : sequence of Release
        Observed before, of the same table.
    quiet : bool
        Whether nothing is said, because it was said before.

    Returns
    -------
    Release
        The same one where nothing is there twice.


    Warns
    -----
    CountedOnceWarning
    """
    exact = [part for own in (*earlier, release) for part in own.exact]
    before = [measured for own in earlier for measured in own.measurements]
    measurements, said = counted_once(release.measurements, before, exact)
    if said is None:
        return release
    if not measurements and not release.exact:
        raise ValueError(f"release says nothing that was not observed before: {said}")
    if not quiet:
        warnings.warn(said, CountedOnceWarning, stacklevel=3)
    return replace(release, measurements=measurements)


type Observed = tuple[str, Release, dict[str, npt.NDArray[np.float64]]]
"""Name of a count variable, what was observed of it, and the published numbers by the name of their ``pm.Data``."""

_ATTRIBUTE = "_bayesdp_releases"


def remember(model: pm.Model, release: Release, x: Any, published: Mapping[str, npt.NDArray[np.float64]]) -> None:
    """Add to the model's list that `x` was observed through `release`, with the names and values of its ``pm.Data``."""
    setattr(model, _ATTRIBUTE, (*observed_by(model), (x.name, release, dict(published))))


def observed_by(model: pm.Model) -> tuple[Observed, ...]:
    """All that a model has observed, with the numbers that it was observed with; empty for copies made by PyMC."""
    return tuple(getattr(model, _ATTRIBUTE, ()))


def replace_observed(model: pm.Model, old: Observed, new: Observed) -> None:
    """Replace an entry in the model's list of what it has observed."""
    setattr(model, _ATTRIBUTE, tuple(new if entry is old else entry for entry in observed_by(model)))


def releases_of(model: pm.Model) -> tuple[tuple[str, Release], ...]:
    """Pairs of the name of a count variable and a release of it.

    Empty for copies of a model made by PyMC. A release whose numbers `pm.set_data` has replaced is left out: the posterior
    is no longer that of this release.
    """
    return tuple(
        (name, release)
        for name, release, published in observed_by(model)
        if all(np.array_equal(model[data].get_value(), values) for data, values in published.items())
    )


def numbers_of(model: pm.Model, releases: Sequence[Release]) -> dict[str, npt.NDArray[np.float64]] | None:
    """Values for the data of a model that has observed some releases, of other releases with the same structure."""
    # `releases`: one for each that the model has observed, in that order. Returns them by name of the `pm.Data`; None if the
    # model has not observed as many releases, or if one lacks something that was observed.
    noted: Any = getattr(model, _ATTRIBUTE, ())
    if len(noted) != len(releases):
        return None
    found: dict[str, npt.NDArray[np.float64]] = {}
    for (_, observed, published), release in zip(noted, releases, strict=True):
        mine, theirs = (_parts(own) for own in (observed, observed_once(release, quiet=True)))
        if not set(mine) <= set(theirs):
            return None
        # In the order of the release: first what was measured, then what is exact.
        found |= {
            name: theirs[key].reshape(model[name].get_value(borrow=True).shape)
            for name, key in zip(published, mine, strict=True)
        }
    return found


def _parts(release: Release) -> dict[tuple[object, ...], npt.NDArray[np.float64]]:
    """The published numbers by query and sign, and by number where one query is there several times."""
    found: dict[tuple[object, ...], npt.NDArray[np.float64]] = {}
    parts = [(m.query, "~", m.values.reshape(-1)[~m.unmeasured.reshape(-1)]) for m in release.measurements]
    parts += [(exact.query, exact.sign, exact.values.reshape(-1)) for exact in release.exact]
    for query, sign, values in parts:
        count = 0
        while (query, sign, count) in found:
            count += 1
        found[query, sign, count] = values.astype(np.float64)
    return found
