"""``bdp.summary``, on posteriors that were made up, so that every number is known."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayesdp as bdp
from tests.cli.test_summary import TABLE, draws
from tests.cli.test_summary import tree as made_up


def release(*measured):
    cells = [bdp.Measured(bdp.Identity(TABLE), [11, 18, 5], bdp.noise.DiscreteGaussian(2.0))]
    total = [bdp.Measured(bdp.Totals(TABLE), value, bdp.noise.DiscreteGaussian(3.0)) for value in measured]
    return bdp.Release.from_published(TABLE, [*cells, *total], [bdp.Exact(bdp.Totals(TABLE, "state"), [30, 5])])


@pytest.fixture
def tree():
    x = draws()
    own = made_up(x, beta1=x[..., 0].drop_vars("county") / 10, effect=x / 10)
    own["release"] = xr.DataTree(release(33, 36).to_dataset())
    return own


def test_counts_totals_parameters_and_exact_numbers(tree):
    table = bdp.summary(tree, prob=0.9)
    names = "published published_2 mean sd eti90_lower eti90_upper ess_bulk ess_tail rhat exact status"
    assert table.columns.tolist() == names.split()
    parts = list(dict.fromkeys(table.index.get_level_values("part")))
    assert parts == ["x", "x by state", "x: grand total", "beta1", "effect"]
    adams = table.loc[("x", "county=Adams")]
    # 0 to 19, 50 times each: the 5% quantile is the first value with at least 50 of 1000 draws at or below it.
    assert adams[["published", "mean", "eti90_lower", "eti90_upper"]].tolist() == [11.0, 9.5, 0.0, 18.0]
    assert adams["sd"] == pytest.approx(np.sqrt((20**2 - 1) / 12))
    assert 500 < adams["ess_bulk"] < 2000
    assert adams["rhat"] == pytest.approx(1, abs=0.02)
    assert table.loc[("x", "county=Cook"), ["eti90_lower", "eti90_upper"]].tolist() == [11.0, 29.0]
    assert table.loc[("x", "county=Lake"), ["ess_bulk", "ess_tail", "rhat"]].isna().all()
    assert table.loc[("beta1", ""), "mean"] == pytest.approx(0.95)
    assert table.loc[("effect", "county=Cook"), "eti90_upper"] == pytest.approx(2.9)
    # Two measurements of the grand total, both told.
    assert table.loc[("x: grand total", "total"), ["published", "published_2"]].tolist() == [33.0, 36.0]
    told = {"prob": 0.9, "interval": "equal-tailed", "chains": 4, "draws": 250, "converged": True, "message": "fine"}
    assert table.attrs == told
    table = bdp.summary(tree)  # exact numbers are exact
    assert (table["exact"].dtype, table.loc["x by state", "exact"].tolist()) == (pd.Int64Dtype(), [30, 5])
    assert table.loc["x by state", "status"].tolist() == ["exact", "exact"]
    assert table.loc[("x: grand total", "total"), "status"] == "exact"  # a sum of exact values
    assert table.loc["x", "exact"].isna().tolist() == [True, True, False]
    assert table.loc["x", "status"].tolist() == ["", "", "determined"]
    assert "30  exact" in bdp.summary(tree, query=bdp.Totals(TABLE, "state")).to_string()
    assert table.loc["x by state", ["sd", "ess_bulk", "rhat"]].isna().all(axis=None)
    assert table.loc["beta1", "exact"].isna().all()


def test_variables_queries_a_dimension_that_is_called_answer_and_a_posterior_without_a_release(tree):
    assert bdp.summary(tree, "beta1").index.tolist() == [("beta1", "")]
    assert bdp.summary(tree, ["effect", "x"]).index.get_level_values("part").tolist() == ["effect"] * 3 + ["x"] * 3
    stacked = bdp.summary(tree, query=bdp.Totals(TABLE, "state") + bdp.Totals(TABLE))
    assert stacked.index.get_level_values("label").tolist() == ["state=IL", "state=IN", "total"]
    assert stacked["exact"].tolist() == [30, 5, 35]
    for given, error, message in (
        ({"var": "beta"}, ValueError, r"no variable 'beta' in the posterior; there are 'x', 'beta1', 'effect'"),
        ({"var": "x", "query": bdp.Totals(TABLE)}, ValueError, "either var"),
        ({"prob": 95}, ValueError, "prob must lie strictly between 0 and 1"),
        ({"query": "total"}, TypeError, "query must be Identity"),
        ({"posterior": tree["posterior"].to_dataset()}, TypeError, "posterior must be the DataTree"),
    ):
        with pytest.raises(error, match=message):
            bdp.summary(**({"posterior": tree} | given))
    labels = {"answer": ["yes", "no"]}
    measured = bdp.Measured(bdp.Identity(labels), [3, 4], bdp.noise.DiscreteGaussian(2.0))
    own = bdp.Release.from_published(labels, [measured])
    x = xr.DataArray([[[3, 4]] * 5], dims=("chain", "draw", "answer"), coords=labels)
    small = xr.DataTree.from_dict({"/posterior": xr.Dataset({"x": x}), "/release": own.to_dataset()})
    assert bdp.summary(small, "x").index.tolist() == [("x", "answer=yes"), ("x", "answer=no")]
    bare = xr.DataTree.from_dict({"/posterior": tree["posterior"].to_dataset()})
    beta = bdp.summary(bare, "beta1")
    assert (beta["mean"].tolist(), beta.attrs["converged"]) == ([pytest.approx(0.95)], None)
    with pytest.raises(ValueError, match="lacks the group 'release'"):
        bdp.summary(bare)


def test_all_releases_of_a_posterior_count(tree):
    """As `bayesdp.sample` stores a model that observed two: what the second one makes exact is exact."""
    both = tree.copy()
    second = bdp.Release.from_published(TABLE, exact=[bdp.Exact(bdp.LinearQuery(TABLE, [[0, 0, 1]], ["Lake"]), [5])])
    first = bdp.Release.from_published(TABLE, release().measurements)
    both["release"] = xr.DataTree(first.to_dataset())
    both["release_2"] = xr.DataTree(second.to_dataset())
    table = bdp.summary(both)
    assert table.loc[("x: 1 linear combination", "Lake"), "exact"] == 5
    assert table.loc[("x", "county=Lake"), "status"] == "determined"
    assert "x by state" in table.index.get_level_values("part")
