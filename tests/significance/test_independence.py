"""Tests of independence, and p-values beside the posterior, by enumeration."""

import math

import numpy as np
import pytest
import xarray as xr
from scipy.special import gammaln
from scipy.stats import fisher_exact

import bayesdp as bdp
from bayesdp.privacy.tradeoffs.laws import approximate_dp
from bayesdp.significance import (
    independence_test_from_releases,
    odds_ratio_test,
    odds_ratio_test_from_release,
    posterior_odds_ratio,
)
from bayesdp.significance.corners import noisy_corner, pvalue_limits
from bayesdp.significance.independence import _noise, _null
from tests.refusals import refused
from tests.significance.examples import both_margins

TABLE = xr.DataArray([[9, 2, 1], [3, 4, 6]], dims=("a", "b"), coords={"a": ["x", "y"], "b": ["u", "v", "w"]})
EXACT = both_margins(TABLE)
INVARIANTS = bdp.Invariants(bdp.Margins(TABLE, ["a"], ["b"]))


def released(values, law, exact=EXACT, frame=TABLE):
    return bdp.Release(bdp.Frame.of(frame), (bdp.Measured(bdp.Identity(frame), values, law),), tuple(exact))


def fiber():
    """All tables with these margins, and their probabilities under independence."""
    tables = bdp.fibers.enumerate_fiber(released(TABLE.values, bdp.noise.LatticeLaplace(0.2)).fiber)
    logs = -gammaln(tables + 1.0).sum(axis=(1, 2))
    mass = np.exp(logs - logs.max())
    return tables, mass / mass.sum()


def test_null_and_p_value_against_all_tables_and_all_noise():
    tables, mass = fiber()
    expected, basis, spread = _null(TABLE.values.sum(axis=1), TABLE.values.sum(axis=0))
    np.testing.assert_allclose(np.tensordot(mass, tables, 1), expected, rtol=1e-10)
    along = (tables - expected).reshape(len(tables), -1) @ basis
    np.testing.assert_allclose(along.T @ (along * mass[:, None]), spread, atol=1e-10)
    np.testing.assert_allclose(basis.T @ basis, np.eye(2), atol=1e-12)
    # Every table of the fiber and every step of the lattice within 1e-9 of all mass; the statistic's matrix is found again.
    epsilon, reach = 0.25, 26
    release = released(TABLE.values, bdp.noise.LatticeLaplace(epsilon))
    result = independence_test_from_releases(release, draws=20_000, rng=4)
    steps = np.arange(-reach, reach + 1)
    i, j = (own.reshape(-1) for own in np.meshgrid(steps, steps))
    moves = np.stack([i, j, -i - j, -i, -j, i + j], axis=1)
    noise = np.exp(-epsilon * np.abs(moves).sum(axis=1))
    assert noise[(np.abs(i) == reach) | (np.abs(j) == reach)].sum() < 1e-4 * noise.sum()
    noise /= noise.sum()
    along = moves @ basis
    inverse = np.linalg.inv(spread + along.T @ (along * noise[:, None]))

    def statistic(rows):
        return np.einsum("ti,ij,tj->t", rows, inverse, rows)

    observed = statistic((TABLE.values - expected).reshape(1, -1) @ basis)[0]
    assert result.statistic == pytest.approx(observed, rel=0.15)  # their covariance is from 2,000 draws
    exact = sum(
        m * float(noise @ (statistic(((own - expected).reshape(-1) @ basis) + along) >= observed * (1 - 1e-9)))
        for own, m in zip(tables, mass, strict=True)
    )
    # Six standard errors of 20,000 draws and 0.01 for the statistic's matrix; the seed is fixed.
    assert result.pvalue == pytest.approx(exact, abs=0.01 + 6 * np.sqrt(exact * (1 - exact) / 20_000))


def test_size_is_at_most_alpha_and_power_is_above():
    """200 tables under independence, and 40 with a strong association; at alpha 0.1 the bound is four standard errors."""
    rng, law = np.random.default_rng(12), bdp.noise.DiscreteLaplace(2.0)
    tables, mass = fiber()
    strong = mass * np.exp(2.0 * (tables[:, 0, 0] - tables[:, 0, 2]))
    for weights, runs in ((mass, 200), (strong / strong.sum(), 40)):
        p = []
        for k in rng.choice(len(tables), runs, p=weights):
            values = tables[k] + law.draw(rng, (2, 3), None, INVARIANTS)
            p.append(independence_test_from_releases(released(values, law), draws=99, rng=rng).pvalue)
        away = (np.mean(np.array(p) <= 0.1) - 0.1) / np.sqrt(0.09 / runs)
        assert -4 < away < 4 if runs == 200 else away > 4  # from below: it is not wasteful


def test_tables_as_far_off_as_the_released_one_count_and_empty_rows_and_determined_tables():
    """Without noise to speak of, as Fisher's test: 34 of 70 tables are [[3, 1], [1, 3]], its mirror image, or further off; 2 further.

    So 0.486 within five standard errors of 4,000 draws. And the least p-value is 1 / (1 + draws).
    """
    labels = {"a": ["u", "v"], "b": ["x", "y"]}
    for counts, draws, expected, error in (
        ([[3, 1], [1, 3]], 4000, 34 / 70, 5 * np.sqrt(0.25 / 4000)),
        ([[40, 0], [0, 40]], 99, 0.01, 1e-12),
    ):
        table = xr.DataArray(counts, dims=("a", "b"), coords=labels)
        release = released(table.values, bdp.noise.LatticeLaplace(50.0), both_margins(table), table)
        assert independence_test_from_releases(release, draws=draws, rng=1).pvalue == pytest.approx(expected, abs=error)
    labels = {"a": list("xyz"), "b": list("uvw")}
    for counts, degrees, claim in (
        ([[9, 2, 1], [3, 4, 6], [0, 0, 0]], 2, "at least 0.005"),
        ([[0] * 3] * 3, 0, "no test"),
    ):
        table = xr.DataArray(counts, dims=("a", "b"), coords=labels)
        release = released(table.values, bdp.noise.ProjectedGaussian(1.0), both_margins(table), table)
        found = independence_test_from_releases(release, draws=199, rng=1)
        assert (found.degrees, claim in found.claim) == (degrees, True)
        assert degrees or found.pvalue == 1.0


def test_several_releases_are_combined_by_precision_each_with_noise_under_its_own_invariants():
    """A precise release and a noisy one: near the p-value of the precise one alone. Two equal ones: near half the variance."""
    rng = np.random.default_rng(3)
    precise, rough = bdp.noise.ProjectedGaussian(1.0), bdp.noise.ProjectedGaussian(60.0)
    one = released(TABLE.values + precise.draw(rng, (2, 3), None, INVARIANTS), precise)
    two = released(TABLE.values + rough.draw(rng, (2, 3), None, INVARIANTS), rough)
    alone = independence_test_from_releases(one, draws=4000, rng=5)
    both = independence_test_from_releases([one, two], draws=4000, rng=5)
    assert both.pvalue == pytest.approx(alone.pvalue, abs=0.03)
    assert both.statistic == pytest.approx(alone.statistic, rel=0.1)
    with pytest.raises(ValueError, match="counted twice"):
        independence_test_from_releases([one, one])
    with pytest.raises(ValueError, match="at least 99"):
        independence_test_from_releases(one, draws=20)
    # A release that keeps the rows only, beside one that keeps both margins: its noise changes the columns.
    # 4,000 draws of six cells with the closed variance of the law: each within five standard errors.
    law, rows = bdp.noise.ProjectedGaussian(2.0), bdp.Invariants(bdp.Margins(TABLE, ["a"]))
    part = bdp.Measured(bdp.Identity(TABLE), TABLE.values + 0.0, law, invariants=rows)
    joint = bdp.Release(bdp.Frame.of(TABLE), (part,), tuple(EXACT))
    [noise] = _noise(joint, 4000, np.random.default_rng(2))
    np.testing.assert_allclose(noise.sum(axis=2), 0.0, atol=1e-9)
    assert np.all(np.abs(noise.var(axis=0) / law.variance((2, 3), rows) - 1.0) < 5 * np.sqrt(2 / 4000))


WIDE = xr.DataArray(np.ones((8, 8), dtype=int), dims=("a", "b"), coords={"a": range(8), "b": range(8)})
BOTH = both_margins(WIDE)
FOUR = bdp.Exact(bdp.LinearQuery(TABLE, np.eye(6, dtype=int)[:4], list("pqrs")), [9, 2, 1, 3])  # also rank 4
BOUND = bdp.Exact(bdp.Identity(TABLE), TABLE.values + 1, "<=")
LATTICE, CELLS = bdp.noise.LatticeLaplace(0.2), bdp.noise.DiscreteLaplace(1.0)
SOME = bdp.Measured(bdp.Identity(TABLE), np.where(TABLE == 9, np.nan, TABLE), CELLS, unmeasured=TABLE == 9)
ROWS = bdp.Measured(bdp.Margins(TABLE, ["a"]), [12, 13], CELLS)
CLIPPED = bdp.noise.BoundaryInflatedDiscreteLaplace(2.0, (0.0, 50.0))


test_what_cannot_be_tested_is_refused = refused(
    (released(TABLE.values, CELLS, EXACT[:1]), "leaves 4 dimensions free, and margins leave 2", ValueError),
    (released(TABLE.values, CELLS, [FOUR]), "both margins .* and no more", ValueError),
    (released(TABLE.values, LATTICE, [*EXACT, BOUND]), "leaves 2 dimensions free and has bounds", ValueError),
    (bdp.Release(bdp.Frame.of(TABLE), (ROWS,), tuple(EXACT)), "noisy measurements of all cells", ValueError),
    (bdp.Release(bdp.Frame.of(TABLE), (SOME,), tuple(EXACT)), "noisy measurements of all cells", ValueError),
    (released(TABLE.values, CLIPPED), "depends on the confidential cells", NotImplementedError),
    (released(WIDE.values, bdp.noise.LatticeLaplace(5.0, "l2"), BOTH, WIDE), "by a chain", NotImplementedError),
    ([], "at least one release", ValueError),
    (bdp.Release.from_published(TABLE, [], EXACT), "have none", ValueError),
    of=lambda given: independence_test_from_releases(given, draws=99),
)


LABELS = {"sex": ["men", "women"], "admission": ["yes", "no"]}
CORNERS = np.array([[5, 6, 6, 7], [7, 8, 4, 9]])
U = np.linspace(-0.5, 0.5, 21)


def draws(corners=CORNERS, **others):
    table = np.stack([corners, 10 - corners, 9 - corners, corners - 1], axis=-1).reshape(*corners.shape, 2, 2)
    counts = xr.DataArray(table, dims=("chain", "draw", *LABELS), coords=LABELS)
    return xr.Dataset({"x": counts, **others})


def release(law):
    values = np.array([[8, 2], [1, 7]])
    exact = [bdp.Exact(bdp.Margins(LABELS, ["sex"]), [10, 8]), bdp.Exact(bdp.Margins(LABELS, ["admission"]), [9, 9])]
    return bdp.Release.from_published(LABELS, [bdp.Measured(bdp.Identity(LABELS), values, law)], exact)


@pytest.mark.parametrize("alternative", ["greater", "less"])
def test_the_numbers_of_a_small_posterior(alternative):
    found = posterior_odds_ratio(draws(), alternative=alternative, level=0.5)
    corners = np.sort(CORNERS.reshape(-1))
    odds = corners * (corners - 1) / ((10 - corners) * (9 - corners).clip(1))
    odds[-1] = math.inf  # corner 9: a cell without counts
    assert (found.table.low, found.table.median, found.table.high) == (odds[1], odds[3], odds[5])
    p = [fisher_exact([[k, 10 - k], [9 - k, k - 1]], alternative=alternative).pvalue for k in corners]
    assert found.predictive_pvalue == pytest.approx(np.mean(p), rel=1e-10)
    assert (found.population, found.probability, found.test) == (None, None, None)
    assert posterior_odds_ratio(draws(), level=0.9).table.high == math.inf


def test_the_population_the_corner_by_labels_and_the_test_of_the_release():
    logs = xr.DataArray(np.linspace(-1.0, 2.5, 8).reshape(2, 4), dims=("chain", "draw"))
    found = posterior_odds_ratio(draws(log_odds_ratio=logs), null=math.exp(0.6), level=0.6)
    assert (found.probability, found.population.median) == (0.5, pytest.approx(math.exp(0.5)))
    women, no = {"sex": "women", "admission": "yes"}, {"sex": "men", "admission": "no"}
    other = posterior_odds_ratio(draws(log_odds_ratio=logs), null=2.0, level=0.5, cell=women)
    assert (other.cell, other.population.median) == ("sex=women, admission=yes", pytest.approx(math.exp(-1.0)))
    for first, again in ((("less", 0.5), ("greater", 2.0)), (("two-sided", 1.0), ("two-sided", 1.0))):
        one = posterior_odds_ratio(draws(), alternative=first[0], null=first[1])
        turned = posterior_odds_ratio(draws(), alternative=again[0], null=again[1], cell=no)
        assert turned.predictive_pvalue == pytest.approx(one.predictive_pvalue, rel=1e-12)
    own = release(bdp.noise.LatticeLaplace(0.25))
    tree = xr.DataTree.from_dict({"/posterior": draws(), "/release": own.to_dataset()})
    found = posterior_odds_ratio(tree, rng=np.random.default_rng(5))
    assert found.test is not None
    assert found.test == odds_ratio_test_from_release(own, rng=np.random.default_rng(5))
    assert posterior_odds_ratio(tree, test=found.test).test is found.test


@pytest.mark.parametrize("alternative", ["greater", "less", "two-sided"])
def test_limits_of_the_p_value_over_the_uniform(alternative):
    """Against 21 uniforms from -1/2 to 1/2, at nulls on either side of one where p rises to 1 and falls again."""
    corner, beyond = noisy_corner(release(bdp.noise.LatticeLaplace(0.25))), []
    given = {"rows": (10, 8), "column": 9, "tradeoff": approximate_dp(1.0)}
    middle = odds_ratio_test(8.0, **given).confidence_interval(0.5).low
    for null in (1.0, 0.7 * middle, middle, 1e3):
        low, high = pvalue_limits(corner, alternative, null)
        p = [odds_ratio_test(8.0 + u, **given, alternative=alternative, null=null).pvalue for u in U]
        assert low * (1 - 1e-9) <= min(p) <= max(p) <= high * (1 + 1e-9)
        assert (low, high) == pytest.approx((min(p), max(p)), abs=0.02)
        beyond.append(high == 1.0)
    assert any(beyond) == (alternative == "two-sided")
    assert not all(beyond)
    smooth = pvalue_limits(noisy_corner(release(bdp.noise.ProjectedGaussian(2.0))), alternative, 1.0)
    assert smooth[0] == smooth[1]


WIDE_DIMS = ("chain", "draw", "a", "b")
WIDE_DRAWS = xr.Dataset({"x": (WIDE_DIMS, np.ones((1, 2, 2, 3), dtype=int))}, coords={"a": [1, 2], "b": [1, 2, 3]})


test_posteriors_that_will_not_do = refused(
    ((WIDE_DRAWS, {}), "draws of a 2 x 2 table", ValueError),
    ((draws() + xr.DataArray(np.arange(4), dims="draw"), {}), "totals by sex differ between draws", ValueError),
    ((draws() + 0.5, {}), "whole numbers", ValueError),
    ((draws(log_odds_ratio=(("chain", "draw", "k"), np.ones((2, 4, 3)))), {}), "one number a draw", ValueError),
    ((draws().drop_vars("x"), {}), "no variable 'x'", ValueError),
    ((draws().isel(draw=0), {}), "chain and draw", ValueError),
    ((xr.DataTree(), {}), "no group 'posterior'", ValueError),
    (({"x": 1}, {}), "DataTree or a Dataset", TypeError),
    ((draws(), {"null": -1.0}), "null", ValueError),
    ((draws(), {"alternative": "up"}), "alternative", ValueError),
    ((draws(), {"level": 2.0}), "level", ValueError),
    of=lambda case: posterior_odds_ratio(case[0], **case[1]),
)
