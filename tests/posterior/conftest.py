"""Posteriors whose draws are all tables of an enumerated fiber, so that every number of them is known."""

import numpy as np
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.fibers import enumerate_fiber

TABLE = {"county": ["Adams", "Cook", "Lake"], "sex": ["women", "men"], "state": ("county", ["IL", "IL", "IN"])}
TOTALS = [3, 2, 3]


def release(noisy=1.0, totals=TOTALS, frame=None):
    frame = bdp.Frame.of(TABLE if frame is None else frame)
    numbers = noisy + np.arange(np.prod(frame.shape)).reshape(frame.shape)
    measured = bdp.Measured(bdp.Identity(frame), numbers, bdp.noise.DiscreteGaussian(2.0))
    exact = [bdp.Exact(bdp.Margins(frame, ["county"]), totals)] if totals else []
    return bdp.Release.from_published(frame, [measured], exact)


def posterior(own, tables, seed=0, chains=4, times=12, name="x", **others):
    """A posterior that has each of some tables equally often, in random order."""
    order = np.random.default_rng(seed).permutation(np.tile(np.arange(len(tables)), times))
    values = tables[order].reshape(chains, -1, *tables.shape[1:])
    x = xr.DataArray(values, dims=("chain", "draw", *own.dims), coords=own.coords, name=name)
    return xr.DataTree.from_dict({"posterior": xr.Dataset({name: x, **others}), "release": own.to_dataset()})


@pytest.fixture(scope="module")
def fiber():
    return enumerate_fiber(release().fiber, 1000).reshape(-1, 3, 2)


@pytest.fixture
def tree(fiber):
    return posterior(release(), fiber)
