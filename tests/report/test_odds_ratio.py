"""The section on the odds ratio: shown for 2 x 2 tables with exact margins only, and never with a draw in it."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.report.page import page
from bayesdp.significance import odds_ratio_test_from_release, posterior_odds_ratio
from tests.plots.trees import tree as tree_of_counties

LABELS = {"sex": ["men", "women"], "admission": ["yes", "no"]}
EXACT = [bdp.Exact(bdp.Margins(LABELS, ["sex"]), [10, 8]), bdp.Exact(bdp.Margins(LABELS, ["admission"]), [9, 9])]


def tree(law: bdp.noise.NoiseLaw, exact: list[bdp.Exact] = EXACT, **others: object) -> xr.DataTree:
    rng = np.random.default_rng(1)
    corner = rng.integers(5, 9, size=(2, 200))
    counts = np.stack([corner, 10 - corner, 9 - corner, corner - 1], axis=-1).reshape(2, 200, 2, 2)
    draws = xr.DataArray(counts, dims=("chain", "draw", *LABELS), coords=LABELS)
    measured = bdp.Measured(bdp.Identity(LABELS), [[8, 2], [1, 7]], law)
    release = bdp.Release.from_published(LABELS, [measured], exact)
    return xr.DataTree.from_dict({
        "/posterior": xr.Dataset({"x": draws, **others}),  # type: ignore[dict-item]
        "/release": release.to_dataset(),
    })  # fmt: skip


def section(text: str) -> str:
    return text.split('<section id="odds"')[1].split("</section>")[0]


def test_posterior_and_test_are_side_by_side() -> None:
    logs = xr.DataArray(np.linspace(0.0, 2.0, 400).reshape(2, 200), dims=("chain", "draw"))
    own = tree(bdp.noise.ProjectedGaussian(2.0), log_odds_ratio=logs)
    text = page(own, prob=0.9)
    assert '<section id="odds"' in text
    assert 'href="#odds"' in text
    found = posterior_odds_ratio(own, level=0.9)
    assert found.test is not None
    for number in (found.predictive_pvalue, found.test.pvalue, found.table.high, found.population.median):  # type: ignore[union-attr]
        assert f"{number:.3g}" in text
    assert "1-GDP" in text
    assert "uniformly most powerful unbiased" in text
    assert "x11 at sex=men, admission=yes" in text
    assert section(page(own, prob=0.9)) == section(text)


def test_integer_noise_shows_limits_and_draws_nothing() -> None:
    own = tree(bdp.noise.LatticeLaplace(0.25))
    text = page(own)
    assert section(page(own)) == section(text)
    assert "largest" in text
    release = bdp.Release.from_dataset(own["release"].to_dataset())
    for seed in range(3):
        p = odds_ratio_test_from_release(release, rng=np.random.default_rng(seed)).pvalue
        assert repr(p) not in text


def test_other_noise_has_the_posterior_only() -> None:
    text = page(tree(bdp.noise.DiscreteGaussian(2.0)))
    assert "There is no p-value from the release itself" in text
    assert "Posterior predictive p" in text


@pytest.mark.parametrize("which", ["counties", "one margin"])
def test_other_tables_have_no_such_section(which: str) -> None:
    own = tree_of_counties() if which == "counties" else tree(bdp.noise.DiscreteGaussian(2.0), EXACT[:1])
    assert '<section id="odds"' not in page(own)
