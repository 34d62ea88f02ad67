"""Several releases of one table as one release that says what they protect together, and the release of a posterior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import xarray as xr

from bayesdp.composition.composing import compose, together
from bayesdp.composition.joint import joint_release, releases_of_posterior
from bayesdp.mechanisms.stated.tables import LOSS_UNKNOWN
from bayesdp.release import Release


def as_one(releases: Sequence[Release], names: Sequence[str] | None = None) -> Release:
    """Several releases as one, with their total guarantee where one can be stated.

    Parameters
    ----------
    releases : sequence of Release
        At least one; a single one is returned as it is.
    names : sequence of str, optional
        What messages call them; see `joint_release`.

    Returns
    -------
    Release
        Its `mechanism` lists those of the parts, and says why there is no total guarantee where there is none.

    Raises
    ------
    TypeError, ValueError
        As `joint_release`. That losses cannot be added is no error here: the posterior does not need them.
    """
    joint = joint_release(releases, names)
    if len(releases) == 1:
        return joint
    try:
        return compose(*releases).release
    except ValueError as error:  # the releases fit together, so it is about losses of different kinds
        return replace(joint, mechanism={**together(releases), LOSS_UNKNOWN: str(error)})


def posterior_release(tree: xr.DataTree) -> Release:
    """What a posterior is based on, as one release.

    Parameters
    ----------
    tree : xarray.DataTree
        As `bayesdp.sample` returns it, with one group for each release that the model observed.

    Raises
    ------
    ValueError
        If a group is no release, or they do not fit together.
    """
    return as_one(releases_of_posterior(tree))
