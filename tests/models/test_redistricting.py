"""The lesson on measurement files: what is written is read, and the posterior keeps what is exact and holds the truth."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

LESSON = Path(__file__).resolve().parents[2] / "models" / "redistricting.py"


@pytest.fixture(scope="module")
def lesson():
    spec = importlib.util.spec_from_file_location("redistricting", LESSON)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def county(lesson):
    return lesson.make_county(7, tracts=2, groups=2, blocks=2)


@pytest.fixture(scope="module")
def release(lesson, county):
    return lesson.make_release(3, county)


def test_the_county_is_as_its_docstring_says(lesson):
    county = lesson.make_county(1, tracts=5, groups=5, blocks=12)
    tables = np.stack(list(county.values()))
    assert tables.shape == (300, 8, 2, 2, 63)
    household = tables[:, 0].sum(axis=(1, 2, 3))
    dormitories = tables[:, 1:].sum(axis=(1, 2, 3, 4))
    # 300 blocks, 30% and 10%: five standard errors.
    assert abs((household == 0).mean() - 0.3) < 0.13
    assert abs((dormitories > 0).mean() - 0.1) < 0.09
    assert tables[:, 1:, 0].sum() == 0  # no minors in group quarters
    again = lesson.make_county(1, tracts=5, groups=5, blocks=12)
    assert all(np.array_equal(own, again[block]) for block, own in county.items())


def test_the_release_has_all_queries_of_all_levels_with_the_published_noise(lesson, county, release):
    truth = lesson.true_table(release, county)
    assert len(release.measurements) == 44  # eleven queries of four levels
    errors = [
        ((np.asarray(own.values) - own.query.apply(truth)) / own.law.sigma).reshape(-1) for own in release.measurements
    ]
    squares = np.square(np.concatenate(errors))
    # Two-sided, false alarm 1e-6 for another seed.
    assert 5e-7 < stats.chi2.sf(squares.sum(), squares.size) < 1 - 5e-7
    compare = {"=": np.equal, ">=": np.greater_equal, "<=": np.less_equal}
    for exact in release.exact:
        assert compare[exact.sign](exact.query.apply(truth), exact.values).all()
    assert release.frame.dims == ("block", "hhgq", "votingage", "hispanic", "cenrace")
    assert {name for name, _, _ in release.frame.groups} >= {"block_group", "tract", "county"}


@pytest.mark.system
def test_the_posterior_keeps_what_is_exact_and_answers_the_questions(lesson, county, release):
    tree = lesson.fit(release, draws=150, tune=150, random_seed=1, cores=1, quiet=True)
    draws, truth = tree["posterior"], lesson.true_table(release, county)
    assert (draws["totals"].sum("block") == truth.sum()).all()
    assert (draws["districts"].sum(["district", "votingage", "hispanic", "cenrace"]) == truth.sum()).all()
    mean = tree["cells"]["mean"].values
    nowhere = truth[:, 1:].sum(axis=(2, 3, 4)) == 0  # no facility of this kind in the block: known from the limits
    assert nowhere.any()
    assert (mean[:, 1:][nowhere] == 0.0).all()
    answers = lesson.questions(draws["districts"])
    true = lesson.questions(lesson.true_districts(release, county))
    assert set(answers.data_vars) == {"total", "black_share", "more_hispanic"}
    even = truth[::2].sum()
    assert true["total"].values.tolist() == [even, truth.sum() - even]
    spread = answers["total"].std(["chain", "draw"])
    assert (abs(answers["total"].mean(["chain", "draw"]) - true["total"]) < 5 * spread).all()
    assert set(np.unique(answers["more_hispanic"])) <= {False, True}
    blocks = draws["totals"]
    z = (blocks.mean(["chain", "draw"]).values - truth.sum(axis=(1, 2, 3, 4))) / np.maximum(
        blocks.std(["chain", "draw"]).values, 1.0
    )
    assert np.abs(z).max() < 5
