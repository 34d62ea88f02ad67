"""The odds ratio in a posterior: numbers by hand, labels, and the test of the release beside it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import xarray as xr
from scipy.stats import fisher_exact

import bayesdp as bdp
from bayesdp.privacy.tradeoffs.laws import approximate_dp
from bayesdp.significance import odds_ratio_test, odds_ratio_test_from_release, posterior_odds_ratio
from bayesdp.significance.corners import noisy_corner, pvalue_limits

LABELS = {"sex": ["men", "women"], "admission": ["yes", "no"]}
CORNERS = np.array([[5, 6, 6, 7], [7, 8, 4, 9]])


def draws(corners: np.ndarray = CORNERS, **others: object) -> xr.Dataset:
    table = np.stack([corners, 10 - corners, 9 - corners, corners - 1], axis=-1).reshape(*corners.shape, 2, 2)
    counts = xr.DataArray(table, dims=("chain", "draw", *LABELS), coords=LABELS)
    return xr.Dataset({"x": counts, **others})  # type: ignore[dict-item]


def release(law: bdp.noise.NoiseLaw) -> bdp.Release:
    values = np.array([[8, 2], [1, 7]])
    exact = [bdp.Exact(bdp.Margins(LABELS, ["sex"]), [10, 8]), bdp.Exact(bdp.Margins(LABELS, ["admission"]), [9, 9])]
    return bdp.Release.from_published(LABELS, [bdp.Measured(bdp.Identity(LABELS), values, law)], exact)


@pytest.mark.parametrize("alternative", ["greater", "less"])
def test_the_numbers_of_a_small_posterior(alternative: str) -> None:
    found = posterior_odds_ratio(draws(), alternative=alternative, level=0.5)
    corners = np.sort(CORNERS.reshape(-1))
    odds = corners * (corners - 1) / ((10 - corners) * (9 - corners).clip(1))
    odds[-1] = math.inf  # corner 9: a cell without counts
    assert (found.table.low, found.table.median, found.table.high) == (odds[1], odds[3], odds[5])
    p = [fisher_exact([[k, 10 - k], [9 - k, k - 1]], alternative=alternative).pvalue for k in corners]
    assert found.predictive_pvalue == pytest.approx(np.mean(p), rel=1e-10)
    assert (found.population, found.probability, found.test) == (None, None, None)
    assert posterior_odds_ratio(draws(), level=0.9).table.high == math.inf


def test_the_population_and_the_corner_by_labels() -> None:
    logs = xr.DataArray(np.linspace(-1.0, 2.5, 8).reshape(2, 4), dims=("chain", "draw"))
    found = posterior_odds_ratio(draws(log_odds_ratio=logs), null=math.exp(0.6), level=0.6)
    assert found.population is not None
    assert found.probability == 0.5
    assert found.population.median == pytest.approx(math.exp(0.5))
    other = posterior_odds_ratio(
        draws(log_odds_ratio=logs), null=2.0, level=0.5, cell={"sex": "women", "admission": "yes"}
    )
    assert other.cell == "sex=women, admission=yes"
    assert other.population is not None
    assert other.population.median == pytest.approx(math.exp(-1.0))
    first = posterior_odds_ratio(draws(), null=0.5, alternative="less", level=0.5)
    again = posterior_odds_ratio(draws(), null=2.0, cell={"sex": "men", "admission": "no"}, level=0.5)
    assert again.predictive_pvalue == pytest.approx(first.predictive_pvalue, rel=1e-12)
    one = posterior_odds_ratio(draws(), alternative="two-sided")
    both = posterior_odds_ratio(draws(), alternative="two-sided", cell={"sex": "men", "admission": "no"})
    assert both.predictive_pvalue == pytest.approx(one.predictive_pvalue, rel=1e-12)


def test_the_test_of_the_release_is_beside_it_and_not_drawn_twice() -> None:
    own = release(bdp.noise.LatticeLaplace(0.25))
    tree = xr.DataTree.from_dict({"/posterior": draws(), "/release": own.to_dataset()})
    found = posterior_odds_ratio(tree, rng=np.random.default_rng(5))
    assert found.test is not None
    assert found.test == odds_ratio_test_from_release(own, rng=np.random.default_rng(5))
    assert posterior_odds_ratio(tree, test=found.test).test is found.test
    text = str(found)
    assert "posterior predictive p-value" in text
    assert f"{found.test.pvalue:.4g}" in text
    assert "uniformly most powerful" in text


@pytest.mark.parametrize("alternative", ["greater", "less", "two-sided"])
def test_limits_of_the_p_value_over_the_uniform(alternative: str) -> None:
    own = release(bdp.noise.LatticeLaplace(0.25))
    # At the median-unbiased estimate the uniform moves the statistic past the null's median: p rises to 1 and falls again.
    middle = odds_ratio_test(8.0, rows=(10, 8), column=9, tradeoff=approximate_dp(1.0)).confidence_interval(0.5).low
    beyond = []
    for null in (1.0, 3.0, 8.0, 0.7 * middle, middle, 1.5 * middle, 1e3):
        low, high = pvalue_limits(noisy_corner(own), alternative, null)
        p = [
            odds_ratio_test_from_release(own, alternative, null, rng=np.random.default_rng(i)).pvalue for i in range(60)
        ]
        assert low <= min(p)
        assert max(p) <= high
        assert (low, high) == pytest.approx((min(p), max(p)), abs=0.05)
        beyond.append(high == 1.0)
    assert any(beyond) == (alternative == "two-sided")  # a null on either side of it
    assert not all(beyond)
    smooth = pvalue_limits(noisy_corner(release(bdp.noise.ProjectedGaussian(2.0))), alternative, 1.0)
    assert smooth[0] == smooth[1]


def test_posteriors_that_will_not_do() -> None:
    wide = xr.Dataset(
        {"x": (("chain", "draw", "a", "b"), np.ones((1, 2, 2, 3), dtype=int))}, coords={"a": [1, 2], "b": [1, 2, 3]}
    )
    varying = draws()
    varying["x"] = varying["x"].copy(data=varying["x"].values + np.arange(4).reshape(1, 4, 1, 1))
    fractional = draws()
    fractional["x"] = fractional["x"] + 0.5
    rate = draws(log_odds_ratio=xr.DataArray(np.ones((2, 4, 3)), dims=("chain", "draw", "k")))
    cases = [
        (wide, ValueError, "draws of a 2 x 2 table"),
        (varying, ValueError, "totals by sex differ between draws"),
        (fractional, ValueError, "whole numbers"),
        (rate, ValueError, "one number a draw"),
        (draws().drop_vars("x"), ValueError, "no variable 'x'"),
        (draws().isel(draw=0), ValueError, "chain and draw"),
        (xr.DataTree(), ValueError, "no group 'posterior'"),
        ({"x": 1}, TypeError, "DataTree or a Dataset"),
    ]
    for posterior, error, message in cases:
        with pytest.raises(error, match=message):
            posterior_odds_ratio(posterior)  # type: ignore[arg-type]
    for wrong in ({"null": -1.0}, {"alternative": "up"}, {"level": 2.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            posterior_odds_ratio(draws(), **wrong)  # type: ignore[arg-type]
