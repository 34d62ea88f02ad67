"""A release as it is observed: cells that are there twice with one perturbation count once."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

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

    Raises
    ------
    ValueError
        If a cell has two values, or nothing of the release is new.

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
