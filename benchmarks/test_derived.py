"""Shares, ranks and comparisons of 3,143 counties in 2,000 draws: seconds of a processor for each quantity."""

from __future__ import annotations

import time

import numpy as np
import pytest
import xarray as xr

import bayesdp as bdp

COUNTIES, SIGMA = 3_143, 8.0
Derived = bdp.Derived
PEOPLE, SHARE = Derived.total(by="county"), Derived.share("sex=women", by="county")
ASKED = {
    "people": PEOPLE,
    "share": SHARE,
    "rank": PEOPLE.rank("county"),
    "rank of shares": SHARE.rank("county"),
    "top ten": PEOPLE.top(10, "county"),
    "more women than men": Derived.probability("sex=women > sex=men", by="county"),
}


@pytest.fixture(scope="module", params=[2, 8])
def posterior(request):
    """Of log-normal sizes as American counties have them, sex by ages; draws are the noisy numbers with the noise once more."""
    rng, cells = np.random.default_rng(1), request.param
    labels = [f"{i:05}" for i in range(COUNTIES)]
    table = {"county": labels, "sex": ["women", "men"], "age": [f"age {i}" for i in range(cells // 2)]}
    shares = rng.dirichlet(np.full(cells, 5.0), COUNTIES).reshape(COUNTIES, 2, -1)
    noisy = rng.poisson(np.exp(rng.normal(8.5, 1.5, (COUNTIES, 1, 1))) * shares) + np.rint(
        rng.normal(0.0, SIGMA, shares.shape)
    )
    measured = bdp.Measured(bdp.Identity(table), noisy.astype(np.int64), bdp.noise.DiscreteGaussian(SIGMA))
    release = bdp.Release.from_published(table, [measured])
    draws = np.maximum(noisy + np.rint(rng.normal(0.0, SIGMA, (4, 500, *shares.shape))), 0.0).astype(np.int64)
    x = xr.DataArray(draws, dims=("chain", "draw", *release.dims), coords=release.coords, name="x")
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset({"x": x}), "release": release.to_dataset()})
    bdp.summary(tree, {name: own for name, own in ASKED.items() if name != "share"})  # compiles
    return cells, tree


@pytest.mark.parametrize("name", ASKED)
def test_seconds_of_a_quantity(benchmark, posterior, name, enter):
    cells, tree = posterior
    start = time.process_time()
    found = benchmark.pedantic(bdp.summary, args=(tree, {name: ASKED[name]}))
    seconds = time.process_time() - start
    enter(f"{name} of {COUNTIES:,} counties of {cells} cells", seconds, "s of a processor", at_most=2.0)
    # By hand: the first county alone.
    people = tree["posterior"]["x"].sum(("sex", "age")).values.reshape(-1, COUNTIES)
    women = tree["posterior"]["x"].sel(sex="women").sum("age").values.reshape(-1, COUNTIES)
    share = np.divide(women, people, out=np.full(people.shape, np.nan), where=people > 0)  # no rank without a value
    at = {"people": people[:, 0], "share": share[:, 0], "more women than men": 2 * women[:, 0] > people[:, 0]}
    for own, values in (("rank", people), ("rank of shares", share)):
        larger, equal = (values > values[:, :1]).sum(axis=1), (values == values[:, :1]).sum(axis=1)
        at[own] = 1 + larger + (equal - 1) / 2
    if name == "top ten":
        assert found["mean"].sum() == pytest.approx(10.0)
    else:
        assert found["mean"].iloc[0] == pytest.approx(np.nanmean(at[name]))
