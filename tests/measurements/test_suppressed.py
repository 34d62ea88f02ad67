"""Suppressed and top-coded counts: bounds on the fiber, the assumption they rest on, and what contradicts them."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.fibers import enumerate_fiber

LINE = {"county": ["Alpha", "Beta", "Gamma"]}
COUNTY = bdp.Identity(LINE)
GRID = {"county": ["Alpha", "Beta"], "age": ["young", "old"]}


def _fiber(parts, total: int):
    return enumerate_fiber(bdp.Release.from_published(LINE, exact=[*parts, bdp.Exact(bdp.Totals(LINE), total)]).fiber)


def _tables(total: int, *ranges) -> list[tuple[int, ...]]:
    return [table for table in itertools.product(*ranges) if sum(table) == total]


@pytest.mark.parametrize(
    ("options", "ranges"),
    [
        ({"assumption": "primary"}, (range(1, 5), range(1, 5))),
        ({"assumption": "primary", "positive": False}, (range(5), range(5))),
        ({"assumption": "marked", "marked": ["Beta"]}, (range(1, 5), range(100))),
        ({"assumption": "none"}, (range(100), range(100))),
    ],
    ids=["primary", "zeros", "marked", "none"],
)
def test_tables_that_remain(options, ranges) -> None:
    """Alpha is published; Beta and Gamma are not, with a total that leaves 6 for the two of them."""
    parts = bdp.suppressed(COUNTY, {"Alpha": 17}, below=5, **options)
    found = _fiber(parts, 23)
    assert sorted(map(tuple, found.tolist())) == _tables(23, [17], *ranges)


def test_assumptions_are_shown_and_kept(tmp_path: Path) -> None:
    total = bdp.Exact(bdp.Totals(LINE), 23)
    for options, words in (
        ({"assumption": "primary"}, "assumed: every missing answer was suppressed for being from 1 to 4"),
        (
            {"assumption": "marked", "marked": ["Beta"]},
            "as the publisher marks them, these answers were suppressed for being from 1 to 4; nothing is assumed of 1 other",
        ),
        ({"assumption": "none"}, "nothing is assumed of 2 missing answers"),
    ):
        parts = bdp.suppressed(COUNTY, {"Alpha": 17}, below=5, **options)
        release = bdp.Release.from_published(LINE, exact=[*parts, total])
        assert words in repr(release)
        assert words in release._repr_html_()
        name = options["assumption"]
        release.to_netcdf(tmp_path / f"{name}.nc")
        release.to_csv(tmp_path / name)
        for again in (bdp.Release.from_netcdf(tmp_path / f"{name}.nc"), bdp.Release.from_csv(tmp_path / name)):
            assert again == release
            assert [part.assumption for part in again.exact] == [part.assumption for part in release.exact]
        other = bdp.Release.from_published(
            LINE, exact=[*bdp.suppressed(COUNTY, {"Alpha": 17}, below=5, **options), total]
        )
        assert other == release
    plain = bdp.Exact(bdp.Totals(LINE), 23)
    assert plain == total
    assert plain != bdp.Exact(bdp.Totals(LINE), 23, assumption="as the office says")
    assert plain.on_frame(plain.query.frame).assumption is None


def test_a_bound_that_contradicts_a_total_is_named() -> None:
    parts = bdp.suppressed(COUNTY, {"Alpha": 17, "Gamma": 6}, below=5, assumption="primary")
    with pytest.raises(ValueError, match="no nonnegative integer table satisfies") as raised:
        bdp.Release.from_published(LINE, exact=[*parts, bdp.Exact(bdp.Totals(LINE), 40)])
    assert "county=Beta" in str(raised.value)
    assert "total = 40" in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"assumption": None}, 'assumption must be stated: "primary"'),
        ({"assumption": "some"}, "assumption must be"),
        (
            {"published": {"Alpha": 17, "Beta": 3}},
            "published has county=Beta = 3, .* counts from 1 to 4 are not published",
        ),
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
    ],
)
def test_what_is_refused(changes, words: str) -> None:
    given = {"published": {"Alpha": 17}, "below": 5, "assumption": "primary"} | changes
    with pytest.raises((TypeError, ValueError), match=words):
        bdp.suppressed(COUNTY, given.pop("published"), **given)


def test_zeros_are_published_beside_suppressed_cells() -> None:
    parts = bdp.suppressed(COUNTY, {"Alpha": 0, "Beta": 5}, below=5, assumption="primary")
    np.testing.assert_array_equal(_fiber(parts, 8), [[0, 5, 3]])


def test_of_sums() -> None:
    """Margins that are suppressed bound sums of cells."""
    by_county = bdp.Margins(GRID, ["county"])
    parts = bdp.suppressed(by_county, {"Beta": 12}, below=4, assumption="primary")
    total = bdp.Exact(bdp.Identity(GRID), [[2, 1], [5, 7]])
    assert bdp.Release.from_published(GRID, exact=[*parts, total]).fiber is not None
    with pytest.raises(ValueError, match="county=Alpha"):
        bdp.Release.from_published(GRID, exact=[*parts, bdp.Exact(bdp.Identity(GRID), [[2, 2], [5, 7]])])


def test_top_coding() -> None:
    parts = bdp.top_coded(COUNTY, {"Beta": 17}, at_least=100, coded=["Alpha"])
    found = _fiber(parts, 119)
    assert sorted(map(tuple, found.tolist())) == [(100, 17, 2), (101, 17, 1), (102, 17, 0)]
    assert parts[0].assumption == "nothing is assumed of 1 missing answers"
    assert parts[1].assumption == "top-coded: published as 100 or more"
    with pytest.raises(ValueError, match="county=Beta = 170, but counts of 100 or more are published as such"):
        bdp.top_coded(COUNTY, {"Beta": 170}, at_least=100, coded=["Alpha"])
    with pytest.raises(
        ValueError, match="coded says that county=Beta is published as 100 or more, but it is published as 17"
    ):
        bdp.top_coded(COUNTY, {"Beta": 17}, at_least=100, coded=["Beta"])
    with pytest.raises(ValueError, match="county=Alpha"):
        bdp.Release.from_published(LINE, exact=[*parts, bdp.Exact(bdp.Totals(LINE), 90)])


def test_assumptions_are_sentences() -> None:
    for wrong in ("", "  ", 3):
        with pytest.raises(TypeError, match="assumption must be a sentence or None"):
            bdp.Exact(bdp.Totals(LINE), 23, assumption=wrong)  # type: ignore[arg-type]
    assert "\\x1b" in repr(bdp.Exact(bdp.Totals(LINE), 23, assumption="as \x1b[31m the office says"))
