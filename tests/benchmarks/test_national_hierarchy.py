import numpy as np
import pytest

import bayesdp as bdp
from benchmarks.national_hierarchy import make_release, with_groups

RHO = 0.5


@pytest.fixture(scope="module")
def morocco():
    truth = with_groups(bdp.datasets.morocco_communes(), ["a", "b", "c"], seed=1)
    return truth, make_release(truth, ["province", "region"], "region", rho=RHO)


def test_morocco_has_exact_regions_and_noise_of_the_stated_law_at_each_level(morocco):
    truth, release = morocco
    assert truth.shape == (1503, 3)
    np.testing.assert_array_equal(truth.sum("group"), bdp.datasets.morocco_communes())
    queries = ["commune", "province", "commune group", "province group", "region group", "group"]
    assert [" ".join(own.query.dims) for own in release.measurements] == queries
    (exact,) = release.exact
    regions = bdp.datasets.morocco_communes().groupby("region").sum().to_series().to_dict()
    assert dict(zip(exact.labelled["region"].values.tolist(), exact.values.tolist(), strict=True)) == regions
    truth, release = morocco
    assert release.guarantee.pairs[0].loss["rho"] <= RHO + 1e-12  # what one record costs
    # Means of n standardised errors and of their squares, against 5.5 standard errors: false alarm below 1e-5 for all six queries
    # with many answers; those with few have heavier tails (chi-squared), so that more room is left for these.
    for own in release.measurements:
        errors = (own.values - own.query.apply(truth.values)).reshape(-1) / own.law.sigma
        assert abs(np.mean(errors**2) - 1.0) < (5.5 if errors.size > 50 else 12.0) * np.sqrt(2.0 / errors.size)
        assert abs(np.mean(errors)) < 5.5 / np.sqrt(errors.size)


def test_the_linear_estimate_keeps_regions_and_covers(morocco):
    truth, release = morocco
    estimate = bdp.gls(release, "commune")
    by_region, by_province = bdp.Totals(truth, by="region"), bdp.Totals(truth, by="province")
    np.testing.assert_allclose(estimate.mean(by_region), by_region.apply(truth), rtol=0, atol=1e-3)
    z = (estimate.mean(by_province) - by_province.apply(truth)) / estimate.sd(by_province)
    assert np.abs(z[estimate.sd(by_province) > 1e-6]).max() < 5.0  # 75 provinces: false alarm below 5e-5
    cells = bdp.Identity(truth)
    inside = np.abs(estimate.mean(cells) - truth.values) < 1.96 * estimate.sd(cells)
    assert abs(inside.mean() - 0.95) < 0.015  # 4,509 cells, the standard error is 0.0033
