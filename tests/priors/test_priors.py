"""The default priors: their formulas hold in simulation, and they take nothing but published numbers."""

import math

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import bayesdp as bdp
from bayesdp.priors import build_model, describe_prior, published_mean
from tests.inference.oracle import noisy_cells
from tests.refusals import refused

TABLE = {"county": ["a", "b", "c"], "education": ["Low", "High"]}
LINE = {"county": ["a", "b", "c", "d"], "state": ("county", ["IL", "IN", "IL", "IN"])}
SIZES = {**LINE, "size": ("county", ["big", "big", "small", "small"])}
LAW = bdp.noise.DiscreteGaussian(4.0)


def two_way():
    return noisy_cells(TABLE, [[9, 12], [20, 8], [5, 4]], LAW, bdp.Exact(bdp.Margins(TABLE, ["county"]), [20, 30, 10]))


def one_way(frame=LINE):
    return noisy_cells(frame, np.arange(10, 10 + len(frame["county"])), LAW)


def drawn(model, *names, draws=1500):
    return pm.draw([model[name] for name in names], draws=draws, random_seed=3)


def test_the_published_mean():
    noisy = bdp.Measured(bdp.Identity(TABLE), np.full((3, 2), 7), LAW)
    hidden = bdp.Measured(bdp.Identity(TABLE), [[7.0, np.nan]] * 3, LAW, unmeasured=[(c, "High") for c in "abc"])
    odd = bdp.Exact(bdp.LinearQuery(TABLE, [[1, 1, 0, 0, 0, 0]], ["odd"]), [3])
    for measured, exact, mean in (
        ([noisy], [bdp.Exact(bdp.Margins(TABLE, ["county"]), [20, 30, 10])], 10.0),
        ([noisy], [odd], 7.0),
        ([hidden], [], 7.0),
        ([bdp.Measured(bdp.Totals(TABLE), 60, LAW)], [], 10.0),
        ([bdp.Measured(bdp.Totals(TABLE), -60, LAW)], [], math.sqrt(LAW.variance(())) / 6),  # its noise
        ([bdp.Measured(bdp.Identity(TABLE), np.zeros((3, 2)), LAW)], [], math.sqrt(6 * LAW.variance(())) / 6),
        ([noisy], [bdp.Exact(bdp.Totals(TABLE), 2)], 2 / 6),
        ([noisy], [bdp.Exact(bdp.Totals(TABLE), 0)], 1 / 6),
        ([], [odd], 1.0),
        ([noisy], [bdp.Exact(bdp.Totals(TABLE), 600, "<=")], 7.0),
    ):
        assert published_mean(bdp.Release.from_published(TABLE, measured, exact)) == pytest.approx(mean)


def test_independent_cells_are_gamma_poisson():
    """Mean 10 and variance mean + mean**2 / shape, with and without the rates.

    Means of 9,000 draws with standard deviation 7.4 and excess kurtosis below 10: six standard errors are 5% of
    the mean and 23% of the variance, so a false alarm has a probability below 1e-6.
    """
    for collapsed in (True, False):
        model = build_model(two_way(), "independent", shape=2.0, collapsed=collapsed)
        assert ("rate" in model.named_vars) is not collapsed
        [x] = drawn(model, "x")
        assert x.mean() == pytest.approx(10.0, rel=0.05)
        assert x.var() == pytest.approx(10.0 + 100.0 / 2.0, rel=0.23)
    assert drawn(build_model(two_way(), mean=3.0), "x")[0].mean() == pytest.approx(3.0, rel=0.15)


def test_log_linear_rates_are_products_of_effects_and_without_overdispersion_counts_are_poisson():
    model = build_model(two_way(), "log-linear")
    intercept, county, education, rate, cv = drawn(
        model, "intercept", "county_effect", "education_effect", "rate", "cell_cv"
    )
    np.testing.assert_allclose(np.log(rate), intercept[:, None, None] + county[:, :, None] + education[:, None, :])
    np.testing.assert_allclose(county.sum(1), 0, atol=1e-9)
    # 1,500 draws of a standard normal after scaling: six standard errors are 0.16.
    assert abs((intercept - np.log(10.0)).mean()) < 0.16
    assert abs((np.log(cv / 0.5) / 0.75).mean()) < 0.16
    model = build_model(two_way(), "log-linear", overdispersion=0.0)
    assert "cell_cv" not in model.named_vars
    rate, x = drawn(model, "rate", "x")
    # 9,000 standardised residuals of variance 1 (kurtosis 3 + 1/rate): six standard errors are at most 0.16.
    assert ((x - rate) / np.sqrt(rate))[rate > 1].var() == pytest.approx(1.0, abs=0.16)


@pytest.mark.parametrize("rates", ["gamma", "lognormal"])
def test_hierarchical_groups_share_a_deviation(rates):
    model = build_model(one_way(), "hierarchical", rates=rates, between=1.0, within=0.2, centre_scale=0.1)
    deviation, within, between, x = drawn(model, "state_deviation", "within_group", "between_groups", "x")
    np.testing.assert_allclose(deviation.sum(1), 0, atol=1e-9)
    assert abs((np.log(within / 0.2) / 0.75).mean()) < 0.16  # six standard errors of 1,500 draws
    assert abs((np.log(between) / 0.75).mean()) < 0.16
    assert x.shape == (1500, 4)
    assert model.named_vars_to_dims["state_deviation"] == ("state",)
    assert list(model.coords["state"]) == ["IL", "IN"]
    # Cells of one state (IL is cells 0 and 2) are alike, those of two states have opposite deviations.
    logs = np.log1p(x)
    same, other = (np.corrcoef(logs[:, 0], logs[:, j])[0, 1] for j in (2, 1))
    assert same > 0.8 > 0.2 > other


def test_tables_with_one_label_or_without_groups_and_a_prior_describes_itself_with_its_numbers():
    model = build_model(noisy_cells({"county": ["a"], "education": ["Low", "High"]}, [[3, 4]], LAW), "log-linear")
    assert [rv.name for rv in model.free_RVs] == ["intercept", "education_effect", "cell_cv", "x"]
    for frame in ({"county": ["a", "b"]}, {"county": ["a", "b"], "state": ("county", ["IL", "IL"])}):
        assert "between_groups" not in build_model(one_way(frame), "hierarchical").named_vars
    assert "size_deviation" in build_model(one_way(SIZES), "hierarchical", group="size").named_vars
    text = describe_prior(two_way(), "log-linear", effect_scale=2.0)
    assert text.splitlines()[0].startswith("log-linear: main effects")
    assert text.endswith("with mean = 10, intercept_scale = 1, effect_scale = 2, overdispersion = 0.5")


test_bad_arguments_are_named = refused(
    (lambda: build_model(one_way(), "flat"), "prior must be one of 'independent', 'log-linear', 'hierarchical'"),
    (lambda: build_model(one_way(), size=1), "no hyperparameter 'size'; it has shape, mean, collapsed"),
    (lambda: build_model(one_way(), shape=-1.0), "shape must be a finite number greater than 0"),
    (lambda: build_model(one_way(), shape="1"), "shape must be a positive real number"),
    (lambda: build_model(one_way(), collapsed=1), "collapsed must be True or False"),
    (lambda: build_model(one_way(), "log-linear", overdispersion=-0.1), "overdispersion"),
    (lambda: build_model(one_way(), "hierarchical", rates="normal"), "rates must be one of 'gamma', 'lognormal'"),
    (lambda: build_model(one_way(), "hierarchical", group=3), "group must be a string"),
    (lambda: build_model(one_way(SIZES), "hierarchical"), "several group labels; choose one of 'state', 'size' with group="),
    (lambda: build_model(one_way(SIZES), "hierarchical", group="region"), "'region' is no group label"),
    (lambda: build_model(two_way(), "hierarchical"), "tables of one dimension"),
    (lambda: describe_prior(two_way(), "flat"), "prior must be one of"),
)  # fmt: skip


LAW2 = bdp.noise.DiscreteGaussian(2.0)
AREAS = {"age": ["y", "o"], "tract": ["a", "b", "c"], "race": ["r", "s"], "county": ("tract", ["A", "B", "A"])}


def of_areas(table):
    frame = bdp.Frame.of(table)
    return noisy_cells(table, np.arange(2, 2 + frame.size).reshape(frame.shape), LAW2)


def test_the_law_of_the_counts_is_that_of_the_formula():
    """Given the parameters: negative binomial cells, so that an area's shares are Dirichlet multinomial given its size."""
    model = build_model(of_areas(AREAS), "shares", concentration=4.0, mean=5.0)
    assert model.named_vars_to_dims["log_area_size"] == ("tract",)
    assert model.named_vars_to_dims["share"] == ("age", "race")
    r, p = model["x"].owner.inputs[0].owner.inputs[-2:]  # of the negative binomial base
    names = ["log_area_size", "share", "concentration", "log_share", "x"]
    log_size, share, a, log_share, x, r, p = pm.draw([*(model[name] for name in names), r, p], draws=20, random_seed=1)
    soft = np.exp(log_share)
    np.testing.assert_allclose(share.reshape(20, 4), soft / soft.sum(axis=1, keepdims=True))
    size, a = np.exp(log_size)[:, None, :, None], a[:, None, None, None]
    shapes = np.broadcast_to(a * share[:, :, None, :], x.shape)
    np.testing.assert_allclose(np.broadcast_to(r, x.shape), shapes)
    np.testing.assert_allclose(np.broadcast_to(p, x.shape), np.broadcast_to(a / (a + size), x.shape))
    for draw in range(20):
        # Given its size an area is Dirichlet multinomial, with the shares and the concentration as parameters.
        tract, n = x[draw, :, 1], int(x[draw, :, 1].sum())
        given_size = stats.dirichlet_multinomial.logpmf(tract.reshape(-1), shapes[draw, :, 1].reshape(-1), n)
        whole = stats.nbinom.logpmf(n, a[draw], a[draw] / (a[draw] + size[draw, 0, 1]))
        cells = stats.nbinom.logpmf(tract, shapes[draw, :, 1], (a / (a + size))[draw, :, 1]).sum()
        assert cells == pytest.approx(float((given_size + whole).item()), rel=1e-6)


def test_hyperpriors():
    model = build_model(of_areas(AREAS), "shares", size_spread=0.5, concentration=3.0, centre_scale=0.1, mean=5.0)
    names = ["area_size_centre", "area_size_spread", "concentration", "log_share", "log_area_size"]
    centre, spread, a, share, size = pm.draw([model[name] for name in names], draws=2_000, random_seed=2)
    np.testing.assert_allclose(share.sum(axis=1), 0.0, atol=1e-9)
    for values, mean, sd in (
        (centre, np.log(5.0 * 4), 0.1),
        (np.log(spread), np.log(0.5), 0.75),
        (np.log(a), np.log(3.0), 1.0),
        (size[:, 2], centre, spread),
        (share[:, 0], 0.0, 2.0 * np.sqrt(0.75)),
    ):
        assert stats.kstest((values - mean) / sd, "norm").pvalue > 1e-6


def test_the_dimension_of_the_areas():
    for table, hyper, areas in (
        ({"county": ["a", "b"], "age": ["y", "o"]}, {"areas": "age"}, "age"),
        ({"county": ["a", "b"], "age": ["all"]}, {}, "county"),
        ({"county": ["a"], "age": ["y", "o"]}, {}, "county"),
    ):
        model = build_model(of_areas(table), "shares", **hyper)
        assert model.named_vars_to_dims["log_area_size"] == (areas,)
        assert model["x"].type.ndim == 2


test_tables_that_it_is_not_for = refused(
    (({"county": ["a", "b"]}, None), "two and more dimensions, areas by cells, and this one has only 'county'"),
    ((AREAS, "county"), "areas must be a dimension of the table, one of 'age', 'tract', 'race', got 'county'"),
    of=lambda own: build_model(of_areas(own[0]), "shares", areas=own[1]),
)
