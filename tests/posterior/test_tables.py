"""Summaries of posteriors with several tables, and of those whose counts were not recorded."""

import numpy as np
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.cli import main
from bayesdp.report import report
from bayesdp.significance import odds_ratio_test_from_release, posterior_odds_ratio

COUNTY = {"county": ["Adams", "Cook"]}
TWO_WAY = {"sex": ["f", "m"], "vote": ["yes", "no"]}


def release(cells, exact):
    noisy = [bdp.Measured(bdp.Identity(COUNTY), cells, bdp.noise.DiscreteGaussian(2.0))]
    return bdp.Release.from_published(COUNTY, noisy, [exact]).to_dataset()


def table(labels, values, determined):
    draws = xr.DataArray(values, dims=("chain", "draw", *labels), coords=labels)
    cells = xr.DataArray(determined, dims=list(labels), coords=labels)
    return draws, xr.Dataset({"determined": cells})


@pytest.fixture
def tree():
    """x and z have the same cells, and other exact answers: the total of x is 30, and Cook of z is 5; Adams of both varies."""
    adams = np.random.default_rng(5).permutation(np.tile(np.arange(20), 20)).reshape(2, 200)
    x, fiber = table(COUNTY, np.stack([adams, 30 - adams], axis=-1), [False, False])
    z, other = table(COUNTY, np.stack([200 + adams, np.full_like(adams, 5)], axis=-1), [False, True])
    cook = bdp.LinearQuery(COUNTY, [[0, 1]], ["Cook"])
    values = xr.Dataset({"x": x, "z": z, "twice": 2 * x, "rate": x / 10})
    first = {"release": release([11, 18], bdp.Exact(bdp.Totals(COUNTY), 30)), "fiber": fiber.assign_attrs(variable="x")}
    second = {"release_z": release([207, 6], bdp.Exact(cook, [5])), "fiber_z": other.assign_attrs(variable="z")}
    return xr.DataTree.from_dict({"posterior": values, **first, **second})


def test_each_table_has_its_own_release_on_the_command_line_too(tree, tmp_path, monkeypatch, capsys):
    table = bdp.summary(tree)
    parts = ["x", "x: grand total", "z", "z: 1 linear combination", "z: grand total", "twice", "rate"]
    assert list(dict.fromkeys(table.index.get_level_values("part"))) == parts
    assert (table.loc["x", "published"].tolist(), table.loc["z", "published"].tolist()) == ([11, 18], [207, 6])
    assert table.loc[["x", "z"], "status"].tolist() == ["", "", "", "determined"]
    assert table.loc[("z", "county=Cook"), "exact"] == 5
    assert table.loc[("x: grand total", "total"), "exact"] == 30
    assert table.loc["z: grand total", "exact"].isna().all()
    assert bdp.summary(tree, "z").equals(table.loc[["z"]])
    assert bdp.summary(tree, "twice")["published"].isna().all()  # whole numbers of the same cells, and no table
    # Queries are of every table with these cells.
    found = bdp.summary(tree, query=bdp.Totals(COUNTY))
    assert found.index.get_level_values("part").tolist() == ["x: grand total", "z: grand total"]
    assert found["status"].tolist() == ["exact", ""]
    with pytest.raises(ValueError, match="query must be about a table of the posterior"):
        bdp.summary(tree, query=bdp.Totals(TWO_WAY))
    monkeypatch.chdir(tmp_path)
    tree.to_netcdf("posterior.nc", engine="h5netcdf")

    def shown(*options):
        main(["summary", "posterior.nc", *options])
        return capsys.readouterr().out.splitlines()

    assert [line.split()[1] for line in shown()[3:5]] == ["11", "18"]
    adams, cook = shown("--var", "z")[3:5]
    assert (adams.split()[1], cook.split()[1], cook.split()[-1]) == ("207", "6", "determined")
    assert shown("--var", "x", "--query", "total")[3].endswith("exact")
    assert not shown("--var", "z", "--query", "total")[3].endswith("exact")
    assert "published" not in shown("--var", "twice")[2]


def test_counts_that_were_not_recorded(tree):
    """As `bdp.sample(var_names=...)` leaves them; a function of the counts does not take their place."""
    bare = tree.copy()
    bare["posterior"] = xr.DataTree(tree["posterior"].to_dataset().drop_vars(["x", "z"]))
    assert bdp.summary(bare, "rate").index.get_level_values("part").tolist() == ["rate", "rate"]
    assert bdp.summary(bare)["published"].isna().all()
    for asked in (lambda: bdp.summary(bare, query=bdp.Totals(COUNTY)), lambda: report(bare, "report.html")):
        with pytest.raises(ValueError, match="were not recorded"):
            asked()


def test_the_odds_ratio_of_a_table_is_tested_by_its_own_release():
    margins = bdp.Margins(TWO_WAY, ["sex"], ["vote"])
    values = np.tile([[20, 10], [10, 20]], (1, 20, 1, 1))
    posterior, groups = {}, {}
    for name, ending, seed in (("x", "", 1), ("z", "_z", 2)):
        draws, fiber = table(TWO_WAY, values, np.zeros((2, 2), dtype=bool))
        posterior[name] = draws
        own = bdp.LatticeLaplace(margins, epsilon=0.25).release(draws[0, 0], rng=seed)
        groups |= {f"/release{ending}": own.to_dataset(), f"/fiber{ending}": fiber.assign_attrs(variable=name)}
    tree = xr.DataTree.from_dict({"/posterior": xr.Dataset(posterior), **groups})
    for name, ending in (("x", ""), ("z", "_z")):
        own = bdp.Release.from_dataset(tree[f"release{ending}"].to_dataset())
        expected = odds_ratio_test_from_release(own, "greater", 1.0, rng=3).pvalue
        assert posterior_odds_ratio(tree, variable=name, alternative="greater", rng=3).test.pvalue == expected
    both = {"/posterior": xr.Dataset({"x": posterior["x"]}), "/release": groups["/release"]}
    both["/release_2"] = groups["/release_z"]  # the test is of one release, and would leave out half of what is known
    assert posterior_odds_ratio(xr.DataTree.from_dict(both), rng=1).test is None
