"""Numbers that exact ones leave no choice are marked as exact in summaries and reports, of drawn and of streamed posteriors."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.cli import main
from bayesdp.hierarchies import split
from bayesdp.hierarchies.priors import FixedNegativeBinomial
from bayesdp.measurements.consistency import determined_answers
from tests.plots.trees import unpainted as page

TABLE = {"leaf": ["a", "b", "c"], "county": ("leaf", ["u", "v", "v"]), "k": ["x", "y"]}
FRAME = bdp.Frame.of(TABLE)
TRUTH = np.array([[3, 4], [1, 6], [7, 2]])
COUNTY, LEAF = bdp.Totals(FRAME, "county"), bdp.Totals(FRAME, "leaf")
COLUMN = bdp.LinearQuery(FRAME, [[1, 0, 0, 0, 0, 0]], ["x of a"])
PRIOR = FixedNegativeBinomial(4.0, 1.0)


def released(*exact):
    noisy = bdp.Measured(bdp.Identity(FRAME), TRUTH + 1, bdp.noise.DiscreteGaussian(2.0))
    return bdp.Release.from_published(FRAME, [noisy], [bdp.Exact(query, query.apply(TRUTH)) for query in exact])


RELEASE = released(COUNTY, COLUMN)
"""County totals, of which u has one leaf, and one of its two cells."""
HOW = {"draws": 100, "tune": 20, "cores": 1, "random_seed": 1, "quiet": True}


@pytest.fixture(scope="module")
def drawn():
    with pm.Model(coords=RELEASE.coords):
        bdp.observe(RELEASE, bdp.FlatCounts("x", dims=RELEASE.dims))
        return bdp.sample(chains=2, progressbar=False, **HOW)


@pytest.fixture(scope="module")
def streamed():
    return bdp.fit_hierarchy(RELEASE, PRIOR, record={"leaves": LEAF, "counties": COUNTY}, **HOW)


def _marked(table, values):
    """The rows that follow have their value, and no errors or diagnostics; the others do."""
    free = table["exact"].isna()
    assert table.loc[~free, "exact"].to_dict() == values
    assert (table.loc[~free, "status"] != "").all()
    assert table.loc[~free, ["sd", "ess_bulk", "rhat"]].isna().all(axis=None)
    assert table.loc[free, "sd"].notna().all()


def test_of_a_posterior_and_each_part(drawn, streamed):
    expected = ({"leaf=a": 7}, {"county=u": 7, "county=v": 16}, {"leaf=a, k=x": 3, "leaf=a, k=y": 4})
    for tree, parts in ((drawn, ("x by leaf", "x by county", "x")), (streamed, ("leaves", "counties", "cells"))):
        for part, values in zip(parts, expected, strict=True):
            _marked(bdp.summary(tree).loc[part], values)
    rows, kept = bdp.summary(streamed, prob=0.9).loc["cells"], streamed["cells"]["quantile"]
    for name, share in (("eti90_lower", 0.05), ("eti90_upper", 0.95)):
        np.testing.assert_array_equal(rows[name].iloc[2:], kept.sel(share=share).values.reshape(-1)[2:])
    parts, top = split(RELEASE, "county")
    record = {"record_parts": lambda frame: {"leaves": bdp.Totals(frame, "leaf")}}
    tree = bdp.fit_parts(parts, PRIOR, top=top, draws=60, tune=10, random_seed=1, leaves="leaf", quiet=True, **record)
    _marked(bdp.summary(tree["parts/u"]).loc["leaves"], {"leaf=a": 7})
    _marked(bdp.summary(tree["parts/v"]).loc["leaves"], {})


ABOVE = bdp.Frame.of({"county": ["u", "v"], "k": ["x", "y"]})
RECORDED = {
    "counties": (bdp.Totals(ABOVE, "county"), COUNTY),
    "kind": (bdp.Totals(ABOVE, "k"), bdp.Totals(FRAME, "k")),
    "each": (bdp.Identity(ABOVE), bdp.Margins(FRAME, ["county", "k"])),
    "grand": (bdp.Totals(ABOVE), bdp.Totals(FRAME)),
    "weighted": (
        bdp.LinearQuery(ABOVE, [[3, 3, -2, -2], [1, -1, 0, 0], [1, 1, -1, 0], [1, 0, -1, 0]], list("abcd")),
        bdp.LinearQuery(
            FRAME, [[3, 3, *[-2] * 4], [1, -1, *[0] * 4], [1, 1, *[-1, 0] * 2], [1, 0, *[-1, 0] * 2]], [*"abcd"]
        ),
    ),
}
"""What is recorded above the parts, and the same of the table."""


@pytest.mark.parametrize("exact", [(COUNTY, COLUMN), (LEAF,)])
@pytest.mark.system
def test_of_what_is_recorded_above_parts(exact, tmp_path):
    release = released(*exact)
    parts, top = split(release, "county")
    record = {name: query for name, (query, _) in RECORDED.items()}
    options = {"draws": 60, "tune": 10, "random_seed": 1, "leaves": "leaf", "quiet": True}
    tree = bdp.fit_parts(parts, PRIOR, top=top, record=record, **options)
    tree.to_netcdf(tmp_path / "fit.nc", engine="h5netcdf")
    for name, (_, whole) in RECORDED.items():
        free = ~determined_answers(whole, release.exact, release.fiber.determined())
        values = whole.apply(TRUTH).reshape(-1)
        for one in (tree, xr.open_datatree(tmp_path / "fit.nc", engine="h5netcdf")):
            table = bdp.summary(one, name)
            assert table["exact"].isna().tolist() == free.tolist()
            _marked(table.reset_index(drop=True), {row: values[row] for row in np.flatnonzero(~free)})
    if COUNTY in exact:
        assert bdp.summary(tree, "grand")["exact"].tolist() == [23]


def test_in_reports_and_on_the_command_line(drawn, streamed, tmp_path, capsys):
    for tree, asked in ((drawn, ["--query", "totals:leaf"]), (streamed, ["--var", "leaves"])):
        text = page(tree)
        rows = [row for row in text[text.index("Totals by leaf") :].split("<tr")[1:] if ">a<" in row or ">b<" in row]
        assert ["fixed" in row.split(">")[0] for row in rows[:2]] == [True, False]
        tree.to_netcdf(tmp_path / "fit.nc", engine="h5netcdf")
        main(["summary", str(tmp_path / "fit.nc"), *asked])
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert ["a", "-", "7", "-", "-", "-", "-", "-", "determined"] in lines
