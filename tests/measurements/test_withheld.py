"""Values that were withheld: under a threshold, suppressed, top-coded; posteriors by enumeration."""

import itertools
import math

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from pytensor.compile.mode import Mode

import bayesdp as bdp
from bayesdp.fibers import enumerate_fiber
from bayesdp.measurements import held_back
from bayesdp.noise import CellKey, Censored, DiscreteGaussian, DiscreteLaplace, Gaussian, RandomRounding
from tests.refusals import refused

PAGE = {"country": ["FR", "IS", "NO", "SE"]}
COUNTRY = bdp.Identity(PAGE)
LAW = DiscreteGaussian(sigma=10.0)
GRID = bdp.Identity({"county": ["a", "b"], "age": [1, 2]})

SERIES = pd.Series([96.0, 214.0], index=pd.Index(["SE", "FR"], name="country"))
ROWS = [
    {"FR": 214, "SE": 96},
    {"country=SE": 96, ("FR",): 214, "NO": None},
    SERIES,
    xr.DataArray([96, 214], dims=("country",), coords={"country": ["SE", "FR"]}),
    [214, np.nan, np.nan, 96],
    np.ma.masked_array([214, -1, -1, 96], mask=[False, True, True, False]),
]


@pytest.mark.parametrize("published", ROWS)
def test_missing_candidates_are_censored_and_others_unmeasured(published):
    own = bdp.thresholded(COUNTRY, published, LAW, 90, candidates=["FR", "NO", "SE"], name="views")
    assert (own.law, own.name) == (Censored(LAW, below=90), "views")
    np.testing.assert_array_equal(own.values, [214, 0, 89, 96])
    np.testing.assert_array_equal(own.unmeasured, [False, True, False, False])
    assert "1 of them under 90, 1 of them unmeasured, law censored law=(discrete-gaussian sigma=10)" in repr(own)


def test_candidates_as_a_mask_all_or_a_list_of_tuples_of_cells_totals_and_margins():
    by_two = pd.Series([12.0], index=pd.MultiIndex.from_tuples([(2, "b")], names=["age", "county"]))
    expected = [[True, False], [True, True]]  # of (county, age)
    labelled = GRID.frame.data_array(np.array(expected), "c")
    for candidates in (np.array(expected), [("a", 1), ("b", 1), ("b", 2)], labelled):
        own = bdp.thresholded(GRID, by_two, Gaussian(3.0), 10.5, candidates=candidates)
        np.testing.assert_array_equal(own.values, [[9.5, 0.0], [9.5, 12.0]])
        np.testing.assert_array_equal(~own.unmeasured, expected)
    everything = bdp.thresholded(GRID, by_two, Gaussian(3.0), [[1.0, 2.0], [3.0, 4.0]], candidates=True)
    np.testing.assert_array_equal(everything.values, [[0.0, 1.0], [2.0, 12.0]])
    assert held_back(everything) == ["3 of them under a threshold of their own"]
    assert bdp.thresholded(bdp.Totals(PAGE), None, DiscreteLaplace(2.0), 5, candidates=True).values == 4
    both = bdp.Margins({"county": ["a", "b"], "age": ["x", "y"]}, ["county"], ["age"])
    own = bdp.thresholded(both, {both.names[0]: 30, both.names[3]: 8}, DiscreteLaplace(2.0), 5, candidates=True)
    np.testing.assert_array_equal(own.values, [30, 4, 4, 8])


def thresholded(changes):
    given = {
        "query": COUNTRY,
        "published": {"FR": 214, "SE": 96},
        "law": LAW,
        "below": 90,
        "candidates": True,
    } | changes
    return bdp.thresholded(*[given.pop(name) for name in ("query", "published", "law", "below")], **given)


def suppressed(changes):
    given = {"published": {"Alpha": 17}, "below": 5, "assumption": "primary"} | changes
    return bdp.suppressed(COUNTY, given.pop("published"), **given)


test_what_is_refused_of_thresholds = refused(
    ({"candidates": None}, "candidates must say which answers could have been published.*cannot be told apart"),
    ({"candidates": ["FR", "NO"]}, "published has country=SE, which is not among the candidates"),
    ({"candidates": ["FR", "SE", "DE"]}, "candidates has labels that are no answers of the query: 'DE'"),
    ({"candidates": np.array([1, 0, 1, 1])}, "candidates has labels that are no answers of the query: .*1"),
    ({"candidates": False}, "published has country=FR, which is not among the candidates"),
    ({"below": 100}, "country=SE = 96, which is under the threshold: nothing below 100 is published"),
    ({"below": None}, "below must be the smallest value that is published"),
    ({"below": [1, 2]}, r"below has shape \(2,\), which does not fit"),
    ({"below": 89.5}, "below must be a whole number"),
    ({"published": {"FR": 214, "country=FR": 214}}, "published has country=FR twice"),
    ({"published": {"XX": 214}}, "published has labels that are no answers of the query: 'XX'"),
    ({"published": {"FR": "214"}}, "published must hold numbers, but country=FR is '214'"),
    ({"published": {"FR": math.inf}}, "country=FR"),
    ({"published": {"FR": 214.5}}, "whole numbers under the law 'censored', but country=FR is 214.5"),
    ({"published": SERIES.rename_axis("state")}, "index levels must have the names 'country', got 'state'"),
    ({"published": xr.DataArray([1], dims=("x",))}, "published must have the dimensions 'country'"),
    ({"published": [1, 2, 3]}, r"must have shape \(4,\)"),
    ({"law": Censored(LAW, 3)}, "law must not be a censored one"),
    ({"query": "country"}, "query must be Identity"),
    of=thresholded,
)  # fmt: skip
test_what_is_refused_of_suppression = refused(
    ({"assumption": None}, 'assumption must be stated: "primary"'),
    ({"assumption": "some"}, "assumption must be"),
    ({"published": {"Alpha": 17, "Beta": 3}}, "county=Beta = 3, .* counts from 1 to 4 are not published"),
    ({"published": {"Beta": 0}, "positive": False}, "county=Beta = 0, .* counts from 0 to 4 are not published"),
    ({"published": {"Alpha": 17.5}}, "county=Alpha"),
    ({"published": {"Alpha": -1}}, "no nonnegative integer table satisfies the exact values: county=Alpha = -1"),
    ({"below": 1}, "below must be at least 2"),
    ({"below": 4.5}, "below must be a positive integer"),
    ({"marked": ["Beta"]}, 'marked goes with assumption="marked"'),
    ({"assumption": "marked"}, 'marked goes with assumption="marked"'),
    ({"assumption": "marked", "marked": ["Alpha"]}, "county=Alpha was suppressed, but it is published as 17"),
    ({"assumption": "marked", "marked": ["Delta"]}, "marked has labels that are no answers of the query: 'Delta'"),
    ({"positive": 1}, "positive must be"),
    of=suppressed,
)  # fmt: skip


def test_posterior_by_enumeration():
    """Of three cells with the exact total 9: published, under the threshold, no candidate; a Poisson prior by its formula."""
    cells = {"county": ["p", "q", "r"]}
    own = bdp.thresholded(bdp.Identity(cells), {"p": 6}, DiscreteGaussian(2.0), 4, candidates=["p", "q"])
    release = bdp.Release.from_published(cells, [own], [bdp.Exact(bdp.Totals(cells), 9)])
    with pm.Model(coords=release.coords) as model:
        bdp.observe(release, bdp.ConfidentialCounts("x", pm.Poisson.dist([2.0, 3.0, 1.0]), dims=release.dims))
    evaluate = model.compile_logp(mode=Mode(linker="py", optimizer="fast_compile"))
    tables = [table for table in itertools.product(range(10), repeat=3) if sum(table) == 9]
    expected = []
    for table in tables:
        prior = sum(x * math.log(rate) - math.lgamma(x + 1) for x, rate in zip(table, (2.0, 3.0, 1.0), strict=True))
        tail = sum(math.exp(-((y - table[1]) ** 2) / 8.0) for y in range(-60, 4))
        expected.append(prior - (6 - table[0]) ** 2 / 8.0 + math.log(tail))
    found = [float(evaluate({"x": np.array(table)})) for table in tables]
    np.testing.assert_allclose(np.array(found) - found[0], np.array(expected) - expected[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("law", [DiscreteGaussian(2.0), RandomRounding(3), CellKey(max_deviation=3, variance=1.5)])
def test_files_keep_what_was_withheld(law, tmp_path):
    areas = {"area": ["a", "b", "c", "d"]}
    own = bdp.thresholded(bdp.Identity(areas), {"a": 9, "d": 12}, law, 6, candidates=["a", "b", "d"])
    release = bdp.Release.from_published(areas, measured=[own])
    release.to_netcdf(tmp_path / "r.nc")
    release.to_csv(tmp_path / "r.csv")
    for again in (bdp.Release.from_netcdf(tmp_path / "r.nc"), bdp.Release.from_csv(tmp_path / "r.csv")):
        assert again == release
        [read] = again.measurements
        assert read.withheld.tolist() == [False, True, False, False]
        np.testing.assert_array_equal(read.published, [9, np.nan, np.nan, 12])
        assert "1 of them under 6, 1 of them unmeasured" in repr(read)


LINE = {"county": ["Alpha", "Beta", "Gamma"]}
COUNTY = bdp.Identity(LINE)


def _fiber(parts, total):
    return enumerate_fiber(bdp.Release.from_published(LINE, exact=[*parts, bdp.Exact(bdp.Totals(LINE), total)]).fiber)


@pytest.mark.parametrize(
    ("options", "ranges", "words"),
    [
        ({"assumption": "primary"}, (range(1, 5), range(1, 5)),
         "assumed: every missing answer was suppressed for being from 1 to 4"),
        ({"assumption": "primary", "positive": False}, (range(5), range(5)), "suppressed for being from 0 to 4"),
        ({"assumption": "marked", "marked": ["Beta"]}, (range(1, 5), range(100)),
         "as the publisher marks them, these answers were suppressed for being from 1 to 4; nothing is assumed of 1 other"),
        ({"assumption": "none"}, (range(100), range(100)), "nothing is assumed of 2 missing answers"),
    ],
)  # fmt: skip
def test_tables_that_remain_and_assumptions_that_are_shown_and_kept(options, ranges, words, tmp_path):
    """Alpha is published; Beta and Gamma are not, with a total that leaves 6 for the two of them."""
    parts = bdp.suppressed(COUNTY, {"Alpha": 17}, below=5, **options)
    left = [table for table in itertools.product([17], *ranges) if sum(table) == 23]
    assert sorted(map(tuple, _fiber(parts, 23).tolist())) == left
    release = bdp.Release.from_published(LINE, exact=[*parts, bdp.Exact(bdp.Totals(LINE), 23)])
    assert words in repr(release)
    assert words in release._repr_html_()
    release.to_netcdf(tmp_path / "r.nc")
    release.to_csv(tmp_path / "r")
    for again in (bdp.Release.from_netcdf(tmp_path / "r.nc"), bdp.Release.from_csv(tmp_path / "r")):
        assert again == release
        assert [part.assumption for part in again.exact] == [part.assumption for part in release.exact]


def test_a_bound_that_contradicts_a_total_or_a_sum_of_cells_is_named_and_an_assumption_is_a_sentence():
    parts = bdp.suppressed(COUNTY, {"Alpha": 17, "Gamma": 6}, below=5, assumption="primary")
    with pytest.raises(ValueError, match="no nonnegative integer table satisfies") as raised:
        bdp.Release.from_published(LINE, exact=[*parts, bdp.Exact(bdp.Totals(LINE), 40)])
    assert "county=Beta" in str(raised.value)
    assert "total = 40" in str(raised.value)
    # Zeros are published beside suppressed cells.
    parts = bdp.suppressed(COUNTY, {"Alpha": 0, "Beta": 5}, below=5, assumption="primary")
    np.testing.assert_array_equal(_fiber(parts, 8), [[0, 5, 3]])
    grid = {"county": ["Alpha", "Beta"], "age": ["young", "old"]}
    parts = bdp.suppressed(bdp.Margins(grid, ["county"]), {"Beta": 12}, below=4, assumption="primary")
    bdp.Release.from_published(grid, exact=[*parts, bdp.Exact(bdp.Identity(grid), [[2, 1], [5, 7]])])
    with pytest.raises(ValueError, match="county=Alpha"):
        bdp.Release.from_published(grid, exact=[*parts, bdp.Exact(bdp.Identity(grid), [[2, 2], [5, 7]])])
    plain = bdp.Exact(bdp.Totals(LINE), 23)
    assert plain != bdp.Exact(bdp.Totals(LINE), 23, assumption="as the office says")
    assert "\\x1b" in repr(bdp.Exact(bdp.Totals(LINE), 23, assumption="as \x1b[31m the office says"))
    for wrong in ("", "  ", 3):
        with pytest.raises(TypeError, match="assumption must be a sentence or None"):
            bdp.Exact(bdp.Totals(LINE), 23, assumption=wrong)


def test_top_coding():
    parts = bdp.top_coded(COUNTY, {"Beta": 17}, at_least=100, coded=["Alpha"])
    assert sorted(map(tuple, _fiber(parts, 119).tolist())) == [(100, 17, 2), (101, 17, 1), (102, 17, 0)]
    words = ["nothing is assumed of 1 missing answers", "top-coded: published as 100 or more"]
    assert [part.assumption for part in parts[:2]] == words
    with pytest.raises(ValueError, match="county=Beta = 170, but counts of 100 or more are published as such"):
        bdp.top_coded(COUNTY, {"Beta": 170}, at_least=100, coded=["Alpha"])
    with pytest.raises(ValueError, match="county=Beta is published as 100 or more, but it is published as 17"):
        bdp.top_coded(COUNTY, {"Beta": 17}, at_least=100, coded=["Beta"])
    with pytest.raises(ValueError, match="county=Alpha"):
        bdp.Release.from_published(LINE, exact=[*parts, bdp.Exact(bdp.Totals(LINE), 90)])
