"""The default priors: their formulas hold in simulation, and they take nothing but published numbers."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

from bayesdp.measurements import Exact, Measured
from bayesdp.noise import DiscreteGaussian
from bayesdp.priors import PRIORS, build_model, describe_prior, published_mean
from bayesdp.queries import Identity, LinearQuery, Margins, Totals
from bayesdp.release import Release

TABLE = {"county": ["a", "b", "c"], "education": ["Low", "High"]}
LINE = {"county": ["a", "b", "c", "d"], "state": ("county", ["IL", "IN", "IL", "IN"])}
LAW = DiscreteGaussian(4.0)


def two_way(**extra) -> Release:
    exact = [Exact(Margins(TABLE, ["county"]), [20, 30, 10])]
    return Release.from_published(TABLE, [Measured(Identity(TABLE), [[9, 12], [20, 8], [5, 4]], LAW)], exact, **extra)


def one_way(frame=None) -> Release:
    frame = frame or LINE
    size = len(frame["county"])
    return Release.from_published(frame, [Measured(Identity(frame), np.arange(10, 10 + size), LAW)])


def prior_draws(model: pm.Model, names: list[str], draws: int = 4000) -> dict[str, np.ndarray]:
    with model:
        variables = [model[name] for name in names]
        return dict(zip(names, pm.draw(variables, draws=draws, random_seed=3), strict=True))


def test_the_published_mean():
    cells = Identity(TABLE)
    exact = Exact(Margins(TABLE, ["county"]), [20, 30, 10])
    noisy = Measured(cells, np.full((3, 2), 7), LAW)
    hidden = Measured(cells, [[7.0, np.nan]] * 3, LAW, unmeasured=[(c, "High") for c in "abc"])
    odd = LinearQuery(TABLE, [[1, 1, 0, 0, 0, 0]], ["odd"])
    assert published_mean(Release.from_published(TABLE, [noisy], [exact])) == 10.0
    assert published_mean(Release.from_published(TABLE, [noisy], [Exact(odd, [3])])) == 7.0
    assert published_mean(Release.from_published(TABLE, [hidden])) == 7.0
    assert published_mean(Release.from_published(TABLE, [Measured(Totals(TABLE), 60, LAW)])) == 10.0
    assert published_mean(Release.from_published(TABLE, [Measured(Totals(TABLE), -60, LAW)])) == 1.0
    assert published_mean(Release.from_published(TABLE, exact=[Exact(odd, [3])])) == 1.0
    bound = Exact(Totals(TABLE), 600, "<=")
    assert published_mean(Release.from_published(TABLE, [noisy], [bound])) == 7.0


def test_independent_cells_are_gamma_poisson():
    """Mean 10 and variance mean + mean**2 / shape, with and without the rates.

    Means of 24,000 draws with standard deviation 7.4 and excess kurtosis below 10: six standard errors are 3% of
    the mean and 15% of the variance, so a false alarm has a probability below 1e-6.
    """
    for collapsed in (True, False):
        model = build_model(two_way(), "independent", shape=2.0, collapsed=collapsed)
        assert ("rate" in model.named_vars) is not collapsed
        x = prior_draws(model, ["x"])["x"].astype(float)
        assert x.mean() == pytest.approx(10.0, rel=0.03)
        assert x.var() == pytest.approx(10.0 + 100.0 / 2.0, rel=0.15)
    assert prior_draws(build_model(two_way(), mean=3.0), ["x"])["x"].mean() == pytest.approx(3.0, rel=0.1)


def test_log_linear_rates_are_products_of_effects():
    model = build_model(two_way(), "log-linear")
    own = prior_draws(model, ["intercept", "county_effect", "education_effect", "rate", "cell_cv"])
    product = own["intercept"][:, None, None] + own["county_effect"][:, :, None] + own["education_effect"][:, None, :]
    np.testing.assert_allclose(np.log(own["rate"]), product)
    np.testing.assert_allclose(own["county_effect"].sum(1), 0, atol=1e-9)
    # 4,000 draws of a standard normal after scaling: six standard errors are 0.1.
    assert abs(((own["intercept"] - np.log(10.0)) / 1.0).mean()) < 0.1
    assert abs((np.log(own["cell_cv"] / 0.5) / 0.75).mean()) < 0.1


def test_log_linear_without_overdispersion_is_poisson():
    model = build_model(two_way(), "log-linear", overdispersion=0.0)
    assert "cell_cv" not in model.named_vars
    own = prior_draws(model, ["rate", "x"])
    residual = (own["x"] - own["rate"]) / np.sqrt(own["rate"])
    # 24,000 standardised residuals of variance 1 (kurtosis 3 + 1/rate): six standard errors are at most 0.1.
    assert residual[own["rate"] > 1].var() == pytest.approx(1.0, abs=0.1)


def test_log_linear_with_one_label_in_a_dimension():
    frame = {"county": ["a"], "education": ["Low", "High"]}
    release = Release.from_published(frame, [Measured(Identity(frame), [[3, 4]], LAW)])
    model = build_model(release, "log-linear")
    assert [rv.name for rv in model.free_RVs] == ["intercept", "education_effect", "cell_cv", "x"]


@pytest.mark.parametrize("rates", ["gamma", "lognormal"])
def test_hierarchical_groups_share_a_deviation(rates):
    model = build_model(one_way(), "hierarchical", rates=rates, between=1.0, within=0.2, centre_scale=0.1)
    own = prior_draws(model, ["state_deviation", "within_group", "between_groups", "x"], 2000)
    np.testing.assert_allclose(own["state_deviation"].sum(1), 0, atol=1e-9)
    assert abs((np.log(own["within_group"] / 0.2) / 0.75).mean()) < 0.14  # six standard errors of 2,000 draws
    assert abs((np.log(own["between_groups"]) / 0.75).mean()) < 0.14
    assert own["x"].shape == (2000, 4)
    assert model.named_vars_to_dims["state_deviation"] == ("state",)
    assert list(model.coords["state"]) == ["IL", "IN"]
    # Cells of one state (IL is cells 0 and 2) are alike, those of two states have opposite deviations.
    logs = np.log1p(own["x"])
    same, other = (np.corrcoef(logs[:, 0], logs[:, j])[0, 1] for j in (2, 1))
    assert same > 0.8 > 0.2 > other


def test_hierarchical_without_groups_or_with_one():
    for frame in ({"county": ["a", "b"]}, {"county": ["a", "b"], "state": ("county", ["IL", "IL"])}):
        model = build_model(one_way(frame), "hierarchical")
        assert "between_groups" not in model.named_vars


def test_hierarchical_chooses_among_groups():
    frame = {**LINE, "size": ("county", ["big", "big", "small", "small"])}
    with pytest.raises(ValueError, match="several group labels; choose one of 'state', 'size' with group="):
        build_model(one_way(frame), "hierarchical")
    assert "size_deviation" in build_model(one_way(frame), "hierarchical", group="size").named_vars
    with pytest.raises(ValueError, match="'region' is no group label"):
        build_model(one_way(frame), "hierarchical", group="region")
    with pytest.raises(ValueError, match="tables of one dimension"):
        build_model(two_way(), "hierarchical")


def test_two_releases_with_the_same_published_numbers_have_the_same_prior():
    """Nothing but published numbers can come in: whatever else a release carries changes nothing."""
    one = one_way()
    two = Release(one.frame, one.measurements, one.exact, mechanism={"epsilon": 3.0}, simulated=True)
    x = [prior_draws(build_model(release), ["x"], 20)["x"] for release in (one, two)]
    np.testing.assert_array_equal(*x)


@pytest.mark.parametrize(
    ("prior", "hyper", "error", "message"),
    [
        ("flat", {}, ValueError, "prior must be one of 'independent', 'log-linear', 'hierarchical'"),
        ("independent", {"size": 1}, ValueError, "no hyperparameter 'size'; it has shape, mean, collapsed"),
        ("independent", {"shape": -1.0}, ValueError, "shape must be a finite number greater than 0"),
        ("independent", {"shape": "1"}, TypeError, "shape must be a positive real number"),
        ("independent", {"collapsed": 1}, TypeError, "collapsed must be True or False"),
        ("log-linear", {"overdispersion": -0.1}, ValueError, "overdispersion"),
        ("hierarchical", {"rates": "normal"}, ValueError, "rates must be one of 'gamma', 'lognormal'"),
        ("hierarchical", {"group": 3}, TypeError, "group must be a string"),
    ],
)
def test_bad_hyperparameters(prior, hyper, error, message):
    with pytest.raises(error, match=message):
        build_model(one_way(), prior, **hyper)


def test_a_prior_describes_itself_with_its_numbers():
    text = describe_prior(two_way(), "log-linear", effect_scale=2.0)
    assert text.splitlines()[0].startswith("log-linear: main effects")
    assert text.endswith("with mean = 10, intercept_scale = 1, effect_scale = 2, overdispersion = 0.5")
    assert "group" not in describe_prior(one_way(), "hierarchical").splitlines()[-1].split("rates")[1]
    with pytest.raises(ValueError, match="prior must be one of"):
        describe_prior(two_way(), "flat")


@pytest.mark.parametrize("prior", PRIORS.values())
def test_the_help_names_every_hyperparameter(prior):
    text = prior.help()
    for own in prior.hyperparameters:
        assert f" {own.name} " in text
    assert max(map(len, text.splitlines())) <= 120
