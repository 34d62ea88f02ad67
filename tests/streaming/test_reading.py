"""What is done with a result of `bdp.fit_hierarchy`: summaries, reports, pictures, files."""

import numpy as np
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.cli import main
from bayesdp.hierarchies.priors import FixedNegativeBinomial, VaryingShares
from bayesdp.posterior import Posterior

pytestmark = pytest.mark.system

AREAS = {"tract": ["t1", "t2", "t3", "t4"], "county": ("tract", ["A", "A", "B", "B"])}
FRAME = bdp.Frame.of(AREAS | {"age": ["young", "old", "oldest"]})
TRUTH = np.array([[20, 9, 0], [3, 14, 0], [8, 8, 0], [1, 30, 0]])
BY_COUNTY = bdp.Margins(FRAME, ["county", "age"])
ASKED = {"quantiles": (0.05, 0.5, 0.95), "random_seed": 3, "quiet": True}


@pytest.fixture(scope="module")
def release():
    rng = np.random.default_rng(4)
    law = bdp.noise.DiscreteGaussian(2.0)
    zeros = bdp.LinearQuery(FRAME, np.eye(12, dtype=int)[2::3], ["z1", "z2", "z3", "z4"])
    measured = [bdp.Measured(q, q.apply(TRUTH) + law.draw(rng, q.shape), law) for q in (bdp.Identity(FRAME), BY_COUNTY)]
    exact = [bdp.Exact(bdp.Totals(FRAME), int(TRUTH.sum())), bdp.Exact(zeros, np.zeros(4, dtype=int))]
    return bdp.Release.from_published(FRAME, measured, exact)


@pytest.fixture(scope="module")
def tree(release):
    record = {"x": bdp.Identity(FRAME), "areas": BY_COUNTY, "total": bdp.Totals(FRAME)}
    return bdp.fit_hierarchy(release, VaryingShares(), record=record, draws=700, **ASKED)


def test_cells_have_a_summary_which_is_that_of_their_draws(tree):
    """The cells were recorded too, so that the same numbers follow from draws; queries and hyperparameters are parts of it."""
    table = bdp.summary(tree, prob=0.9)
    cells, draws = table.loc["cells"], table.loc["x"]
    free = cells["status"] == ""
    for name in ("published", "mean", "eti90_lower", "eti90_upper"):
        np.testing.assert_allclose(cells[name], draws[name], rtol=1e-12)
    np.testing.assert_allclose(cells.loc[free, "sd"], draws.loc[free, "sd"], rtol=1e-3)
    assert cells["status"].tolist() == ["determined" if "oldest" in own else "" for own in cells.index]
    assert cells.loc[~free, "exact"].tolist() == [0] * 4
    for own, missing in (
        (cells.loc[~free, ["sd", "ess_bulk", "rhat"]], True),
        (cells.loc[free, ["ess_bulk", "rhat"]], False),
    ):
        assert (own.isna() == missing).all().all()
    assert cells["ess_tail"].isna().all()
    names = list(dict.fromkeys(table.index.get_level_values(0)))
    assert (names[:4], "log_shape" in names) == (["cells", "x", "areas", "total"], True)
    total, areas = table.loc[("total", "total")], table.loc["areas"]
    assert (total["exact"], total["status"], table.attrs["draws"]) == (TRUTH.sum(), "exact", 700)
    assert areas["published"].notna().all()
    assert (areas.index[0], areas.loc["county=B, age=oldest", "exact"]) == ("county=A, age=young", 0)


def test_a_query_is_answered_if_it_was_recorded_row_by_row(release, tree):
    by_age, prior = bdp.Margins(FRAME, ["age"]), FixedNegativeBinomial(8.0, 0.5)
    narrow = bdp.fit_hierarchy(release, prior, record={"county": BY_COUNTY}, draws=200, **ASKED)  # the counties alone
    assert narrow["posterior"]["by_county"].dims == ("chain", "draw", "county", "age")  # labels have the name itself
    assert bdp.summary(tree, query=by_age)["mean"].sum() == pytest.approx(TRUTH.sum())  # from the cells
    found = (bdp.summary(narrow, "by_county"), bdp.summary(narrow, query=bdp.Margins(FRAME, ["county", "age"])))
    assert found[0]["mean"].tolist() == found[1]["mean"].tolist()
    for given, message in (
        ({"query": by_age}, r"not kept.*'by_county'.*do not add up to intervals.*in `record`"),
        ({"var": "cells", "prob": 0.8}, r"intervals for prob = 0.9. Fit again with these in `quantiles`"),
        ({"var": "z"}, r"no variable 'z'.*'cells', 'by_county'"),
    ):
        with pytest.raises(ValueError, match=message):
            bdp.summary(narrow, **given)
    rows = BY_COUNTY.matrix.toarray()[[4, 1]]
    own = Posterior.of(narrow)
    two = own.chains_of(bdp.LinearQuery(FRAME, rows, ["b", "a"]))
    np.testing.assert_array_equal(two, own.chains_of(BY_COUNTY)[:, :, [4, 1]])
    assert not own.has(bdp.LinearQuery(FRAME, 2 * rows[:1], ["a"]))


def test_the_command_line_summarises_and_reports(tree, tmp_path, capsys):
    file = tmp_path / "fit.nc"
    tree.to_netcdf(file, engine="h5netcdf")
    with xr.open_datatree(file, engine="h5netcdf") as read:
        assert bdp.summary(read.load(), prob=0.9).equals(bdp.summary(tree, prob=0.9))
    assert main(["summary", str(file), "--prob", "0.9"]) in (0, 3)
    said = capsys.readouterr().out
    assert "posterior of cells (cells), 4 chains of 700 draws" in said
    assert said.count(" determined\n") == 4
    assert "other variables: x, areas, total, log_scale" in said
    assert main(["summary", str(file), "--prob", "0.9", "--query", "margins:age", "--format", "csv"]) in (0, 3)
    assert capsys.readouterr().out.startswith("age,published")
    assert main(["report", str(file), "-o", str(tmp_path / "fit.html"), "--prob", "0.9"]) in (0, 3)
    assert main(["report", str(file), "-o", str(tmp_path / "no.html"), "--prob", "0.8"]) == 2
    assert "there are intervals for prob = 0.9" in capsys.readouterr().err
