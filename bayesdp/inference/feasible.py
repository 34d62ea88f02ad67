"""A first table for a release."""

from __future__ import annotations

import numpy as np
import xarray as xr

from bayesdp.fibers import Fiber
from bayesdp.release import Release


def feasible_point(release: Release) -> xr.DataArray:
    """A table of nonnegative whole numbers with the exact answers of a release, close to its noisy table if it has one.

    Nobody needs it for sampling: the step method finds its own start. It is not an estimate.

    Parameters
    ----------
    release : Release

    Returns
    -------
    xarray.DataArray of int64
        With the dimensions of the release.

    Raises
    ------
    ValueError
        If no table has these exact answers; the message names those that cannot all hold.

    Examples
    --------
    >>> import bayesdp as bdp
    >>> county = {"county": ["Alpha", "Beta"]}
    >>> release = bdp.Release.from_published(
    ...     county,
    ...     measured=[bdp.Measured(bdp.Identity(county), [12, -3], bdp.noise.DiscreteGaussian(sigma=5.0))],
    ...     exact=[bdp.Exact(bdp.Totals(county), 10)],
    ... )
    >>> feasible_point(release).values
    array([10,  0])
    """
    guide = None
    for measured in release.measurements:
        if measured.query.is_identity:
            guide = np.where(measured.unmeasured, 0.0, measured.values)
            break
    return release.frame.data_array(Fiber.of(release.exact, release.frame).find_point(guide), name="feasible_point")
