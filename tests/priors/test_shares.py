"""The prior of shares that vary by area: its formula, for tables of any dimensions."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import bayesdp as bdp
from bayesdp.priors import build_model
from tests.inference.oracle import noisy_cells
from tests.refusals import refused

LAW = bdp.noise.DiscreteGaussian(2.0)
TABLE = {"age": ["y", "o"], "tract": ["a", "b", "c"], "race": ["r", "s"], "county": ("tract", ["A", "B", "A"])}


def release(table):
    frame = bdp.Frame.of(table)
    return noisy_cells(table, np.arange(2, 2 + frame.size).reshape(frame.shape), LAW)


def test_the_law_of_the_counts_is_that_of_the_formula():
    """Given the parameters: negative binomial cells, so that an area's shares are Dirichlet multinomial given its size."""
    model = build_model(release(TABLE), "shares", concentration=4.0, mean=5.0)
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
    model = build_model(release(TABLE), "shares", size_spread=0.5, concentration=3.0, centre_scale=0.1, mean=5.0)
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
        model = build_model(release(table), "shares", **hyper)
        assert model.named_vars_to_dims["log_area_size"] == (areas,)
        assert model["x"].type.ndim == 2


test_tables_that_it_is_not_for = refused(
    (({"county": ["a", "b"]}, None), "two and more dimensions, areas by cells, and this one has only 'county'"),
    ((TABLE, "county"), "areas must be a dimension of the table, one of 'age', 'tract', 'race', got 'county'"),
    of=lambda own: build_model(release(own[0]), "shares", areas=own[1]),
)
