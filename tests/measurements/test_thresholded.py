"""Answers under a threshold: what is made of the published rows, what is refused, and an enumerated posterior."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from pytensor.compile.mode import Mode

import bayesdp as bdp
from bayesdp.measurements import held_back
from bayesdp.noise import CellKey, Censored, DiscreteGaussian, DiscreteLaplace, Gaussian, RandomRounding

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


@pytest.mark.parametrize("published", ROWS, ids=["labels", "names", "series", "array", "list", "masked"])
def test_missing_candidates_are_censored_and_others_unmeasured(published) -> None:
    own = bdp.thresholded(COUNTRY, published, LAW, 90, candidates=["FR", "NO", "SE"], name="views")
    assert own.law == Censored(LAW, below=90)
    np.testing.assert_array_equal(own.values, [214, 0, 89, 96])
    np.testing.assert_array_equal(own.unmeasured, [False, True, False, False])
    assert own.name == "views"
    assert held_back(own) == ["1 of them under 90"]
    assert repr(own) == (
        "<Measured: 4 answers by country, 1 of them under 90, 1 of them unmeasured, "
        "law censored law=(discrete-gaussian sigma=10) below=90>"
    )


def test_candidates_as_a_mask_all_or_a_list_of_tuples() -> None:
    by_two = pd.Series([12.0], index=pd.MultiIndex.from_tuples([(2, "b")], names=["age", "county"]))
    expected = [[True, False], [True, True]]  # of (county, age)
    for candidates in (
        np.array(expected),
        [("a", 1), ("b", 1), ("b", 2)],
        GRID.frame.data_array(np.array(expected), "c"),
    ):
        own = bdp.thresholded(GRID, by_two, Gaussian(3.0), 10.5, candidates=candidates)
        np.testing.assert_array_equal(own.values, [[9.5, 0.0], [9.5, 12.0]])
        np.testing.assert_array_equal(~own.unmeasured, expected)
    everything = bdp.thresholded(GRID, by_two, Gaussian(3.0), [[1.0, 2.0], [3.0, 4.0]], candidates=True)
    np.testing.assert_array_equal(everything.values, [[0.0, 1.0], [2.0, 12.0]])
    assert held_back(everything) == ["3 of them under a threshold of their own"]


def test_a_grand_total_and_margins() -> None:
    total = bdp.thresholded(bdp.Totals(PAGE), None, DiscreteLaplace(2.0), 5, candidates=True)
    assert total.values == 4
    both = bdp.Margins({"county": ["a", "b"], "age": ["x", "y"]}, ["county"], ["age"])
    own = bdp.thresholded(both, {both.names[0]: 30, both.names[3]: 8}, DiscreteLaplace(2.0), 5, candidates=True)
    np.testing.assert_array_equal(own.values, [30, 4, 4, 8])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"candidates": None}, "candidates must say which answers could have been published.*cannot be told apart"),
        ({"candidates": ["FR", "NO"]}, "published has country=SE, which is not among the candidates"),
        ({"candidates": ["FR", "SE", "DE"]}, "candidates has labels that are no answers of the query: 'DE'"),
        ({"candidates": np.array([1, 0, 1, 1])}, "candidates has labels that are no answers of the query: .*1"),
        ({"candidates": False}, "published has country=FR, which is not among the candidates"),
        ({"below": 100}, "published has country=SE = 96, which is under the threshold: nothing below 100 is published"),
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
    ],
)
def test_what_is_refused(changes, words: str) -> None:
    given = {
        "query": COUNTRY,
        "published": {"FR": 214, "SE": 96},
        "law": LAW,
        "below": 90,
        "candidates": True,
    } | changes
    own = [given.pop(name) for name in ("query", "published", "law", "below")]
    with pytest.raises((TypeError, ValueError), match=words):
        bdp.thresholded(*own, **given)


@pytest.fixture(scope="module")
def release() -> bdp.Release:
    """Three cells with the exact total 9: one published, one under the threshold, one that was no candidate."""
    cells = {"county": ["p", "q", "r"]}
    own = bdp.thresholded(bdp.Identity(cells), {"p": 6}, DiscreteGaussian(2.0), 4, candidates=["p", "q"])
    return bdp.Release.from_published(cells, [own], [bdp.Exact(bdp.Totals(cells), 9)])


def test_posterior_by_enumeration(release: bdp.Release) -> None:
    """Against masses and tails that are summed here, and a Poisson prior by its formula."""
    with pm.Model(coords=release.coords) as model:
        bdp.observe(release, bdp.ConfidentialCounts("x", pm.Poisson.dist([2.0, 3.0, 1.0]), dims=release.dims))
    evaluate = model.compile_logp(mode=Mode(linker="py", optimizer="fast_compile"))
    tables = [table for table in itertools.product(range(10), repeat=3) if sum(table) == 9]
    k = range(-60, 80)
    whole = sum(math.exp(-(j**2) / 8.0) for j in range(-80, 81))

    def mass(y: int, x: int) -> float:
        return math.exp(-((y - x) ** 2) / 8.0) / whole

    found, expected = [], []
    for table in tables:
        prior = sum(x * math.log(rate) - math.lgamma(x + 1) for x, rate in zip(table, (2.0, 3.0, 1.0), strict=True))
        tail = sum(mass(y, table[1]) for y in k if y < 4)
        expected.append(prior + math.log(mass(6, table[0])) + math.log(tail))
        found.append(float(evaluate({"x": np.array(table)})))
    np.testing.assert_allclose(np.array(found) - found[0], np.array(expected) - expected[0], rtol=1e-9, atol=1e-9)
    # What leaving out the second cell would give is another posterior: its mean is too large.
    weights, without = (np.exp(np.array(own) - max(own)) for own in (expected, [
        e - math.log(sum(mass(y, t[1]) for y in k if y < 4)) for e, t in zip(expected, tables, strict=True)
    ]))  # fmt: skip
    second = np.array(tables)[:, 1]
    assert weights @ second / weights.sum() < without @ second / without.sum() - 0.2


def test_files_and_text(release: bdp.Release, tmp_path: Path) -> None:
    assert "1 of them under 4, 1 unmeasured, law censored law=(discrete-gaussian sigma=2) below=4" in repr(release)
    release.to_netcdf(tmp_path / "release.nc")
    release.to_csv(tmp_path / "folder")
    for again in (bdp.Release.from_netcdf(tmp_path / "release.nc"), bdp.Release.from_csv(tmp_path / "folder")):
        assert again == release
        assert held_back(again.measurements[0]) == ["1 of them under 4"]


@pytest.mark.parametrize(
    "law", [DiscreteGaussian(2.0), RandomRounding(3), CellKey(max_deviation=3, variance=1.5)], ids=lambda law: law.name
)
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
