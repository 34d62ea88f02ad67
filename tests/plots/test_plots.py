"""Pictures: what they show is what NumPy computes from the draws, whatever the labels are."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from IPython.core.formatters import DisplayFormatter
from matplotlib.text import Text

import bayesdp as bdp
from bayesdp import plots
from bayesdp.plots import tradeoffs
from bayesdp.plots.noise import noise_scale
from bayesdp.posterior import Posterior, summarise_draws
from bayesdp.privacy import approximate_dp, gaussian_dp, tensor_product
from tests.plots.trees import FRAME, TRUTH, release, tree

POSTERIOR = tree()


def _line(figure, label):
    (own,) = [line for line in figure.axes[0].get_lines() if line.get_label() == label]
    return own.get_xdata(), own.get_ydata()


def _texts(figure):
    return "\n".join(own.get_text() for own in figure.findobj(Text))


def test_intervals_show_mean_quantiles_release_and_truth_are_paged_and_may_be_relative(monkeypatch):
    figure = plots.intervals(POSTERIOR, prob=0.9, truth=TRUTH)
    draws = POSTERIOR["posterior"]["x"].values.reshape(-1, 12)
    free = np.array([True, True, False] * 4)
    mean, rows = _line(figure, "posterior mean")
    np.testing.assert_allclose(mean, draws.mean(axis=0)[free])
    np.testing.assert_array_equal(rows, np.flatnonzero(free))
    (segments,) = [own.get_segments() for own in figure.axes[0].collections]
    ends = np.quantile(draws, [0.05, 0.95], axis=0, method="inverted_cdf")[:, free]
    np.testing.assert_allclose([[own[0][0], own[1][0]] for own in segments], ends.T)
    np.testing.assert_array_equal(_line(figure, "truth")[0], TRUTH.reshape(-1))
    np.testing.assert_array_equal(_line(figure, "published (noisy)")[0], release().values.values.reshape(-1))
    np.testing.assert_array_equal(_line(figure, "determined by the exact values")[1], np.flatnonzero(~free))
    assert "90% equal-tailed interval" in _texts(figure)
    assert "cells 6 to 10 of 12" in _texts(plots.intervals(POSTERIOR, limit=5, page=2))
    assert "the 5 of 12 cells with the widest intervals" in _texts(plots.intervals(POSTERIOR, limit=5))
    with pytest.raises(ValueError, match="page must be at most 3"):
        plots.intervals(POSTERIOR, limit=5, page=4)
    monkeypatch.setattr("bayesdp.plots.cells._INVISIBLE", 0.0)  # too short, all of them
    figure = plots.intervals(POSTERIOR)
    np.testing.assert_array_equal(_line(figure, "published (noisy)")[0], 0)
    assert "minus published" in figure.axes[0].get_xlabel()


def test_heatmaps_write_the_mean_and_mark_determined_cells_and_any_label_can_be_drawn(tmp_path):
    mean = POSTERIOR["posterior"]["x"].values.reshape(-1, 4, 3).mean(axis=0)
    written = [own.get_text() for own in plots.heatmaps(POSTERIOR).axes[0].texts]
    assert written[:3] == [f"{mean[0, 0]:,.1f}", f"{mean[0, 1]:,.1f}", "= 0"]
    turned = plots.heatmaps(POSTERIOR, dims=("education", "county"))
    assert [own.get_text() for own in turned.axes[0].texts][1] == f"{mean[1, 0]:,.1f}"
    with pytest.raises(ValueError, match="dims must be two dimensions"):
        plots.heatmaps(POSTERIOR, dims=("county", "race"))
    for draw in (plots.intervals, plots.heatmaps, plots.noise_law, plots.ranks, plots.prior_predictive):
        figure = draw(POSTERIOR)
        figure.savefig(tmp_path / "a.svg")  # an odd "$" would be a formula that does not parse
    shown, _ = DisplayFormatter().format(figure)  # in a notebook that has no pyplot yet
    assert shown["image/png"].startswith(b"\x89PNG")


def test_noise_law_shows_mass_or_density_and_standard_deviation():
    for law, sd in (
        (bdp.noise.DiscreteGaussian(sigma=2.0), 2.0),
        (bdp.noise.DiscreteLaplace(b=3.0), np.sqrt(2 * np.exp(-1 / 3)) / (1 - np.exp(-1 / 3))),
    ):
        axes = plots.noise_law(tree(release(law=law))).axes[0]
        mass = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in axes.patches}
        for k in (-2, 0, 3):
            assert mass[k] == pytest.approx(np.exp(law.logp([k], [0])))
        np.testing.assert_allclose(sorted(line.get_xdata()[0] for line in axes.get_lines()), [-sd, sd], rtol=1e-5)
    for law, peak, sd in (
        (bdp.noise.Laplace(b=3.0), 1 / 6, np.sqrt(18.0)),
        (bdp.noise.Gaussian(sigma=2.0), 0.5 / np.sqrt(2 * np.pi), 2.0),
    ):
        curve, *dashed = plots.noise_law(tree(release(law=law))).axes[0].get_lines()
        x, density = np.asarray(curve.get_xdata()), np.asarray(curve.get_ydata())
        assert density.max() == pytest.approx(peak, rel=1e-6)  # at zero, a kink of the Laplace law
        assert np.trapezoid(density, x) == pytest.approx(1.0, abs=0.01)
        np.testing.assert_allclose(sorted(line.get_xdata()[0] for line in dashed), [-sd, sd])


def test_noise_of_the_projected_gaussian_is_its_marginal_and_without_a_formula_it_is_simulated_and_pooled():
    noisy = bdp.Measured(bdp.Identity(FRAME), np.full((4, 3), 4.0), bdp.noise.ProjectedGaussian(sigma=2.0))
    own = bdp.Release.from_published(FRAME, [noisy], [bdp.Exact(bdp.Totals(FRAME), 48)])
    np.testing.assert_allclose(noise_scale(own.measurements[0]).sd, 2.0 * np.sqrt(1 - 1 / 12))
    # 2x2 moves of a 2x2 table have a closed form: the simulated size of a 3x3 one is compared with direct draws.
    frame, table, law = {"a": list("rst"), "b": list("uvw")}, np.full((3, 3), 5), bdp.noise.LatticeLaplace(epsilon=0.5)
    noisy, margins = bdp.Measured(bdp.Identity(frame), table, law), bdp.Margins(frame, ["a"], ["b"])
    own = bdp.Release.from_published(frame, [noisy], [bdp.Exact(margins, margins.apply(table))])
    scale = noise_scale(own.measurements[0])
    assert scale.exchangeable
    assert "simulated" in scale.words
    drawn = law.draw(np.random.default_rng(8), (3, 3), size=400, invariants=own.invariants)
    # Either standard deviation comes from at least 400 independent tables: 15% is more than 5 standard errors.
    assert scale.sd[0] == pytest.approx(np.sqrt((drawn**2).mean()), rel=0.15)


def test_ranks_leave_determined_cells_out_and_the_prior_predictive_interval_is_that_of_the_draws():
    before = plt.get_fignums()
    figure = plots.ranks(POSTERIOR, quantities=12)
    assert plt.get_fignums() == before
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert len(titles) == 9  # 8 free cells and the rate
    assert not any("None" in title for title in titles)
    assert "x: 5\\$ & more · Low" in titles  # escaped once
    assert plots.ranks(tree(chains=1)) is None
    figure = plots.prior_predictive(POSTERIOR, prob=0.8)
    draws = POSTERIOR["prior_predictive"]["noisy"].values.reshape(-1, 12)
    ends = np.quantile(draws, [0.1, 0.9], axis=0, method="inverted_cdf")
    (segments,) = [own.get_segments() for own in figure.axes[0].collections]
    np.testing.assert_allclose([[own[0][0], own[1][0]] for own in segments], ends.T)
    assert plots.prior_predictive(tree(prior=False)) is None


def test_many_columns_are_summarised_in_pieces_and_what_is_no_posterior_is_refused():
    draws = np.random.default_rng(1).integers(0, 50, (40, 1100))
    own = summarise_draws(draws, 0.5)
    np.testing.assert_array_equal(own.upper, np.quantile(draws, 0.75, axis=0, method="inverted_cdf"))
    np.testing.assert_allclose(own.sd, draws.std(axis=0))
    values, broken = POSTERIOR["posterior"].to_dataset(), POSTERIOR.copy(deep=True)
    broken["posterior"] = xr.DataTree(values[["rate"]])
    for given, error, message in (
        ({}, TypeError, "DataTree"),
        (xr.DataTree.from_dict({"posterior": values}), ValueError, "lacks the group 'release'"),
        (broken, ValueError, "counts that its release is about: they were not recorded"),
    ):
        with pytest.raises(error, match=message):
            Posterior.of(given)


def test_lines_are_the_functions():
    curves = {"pure": approximate_dp(1.0), "both $": tensor_product(approximate_dp(0.5), approximate_dp(0.2))}
    axes = tradeoffs(curves).axes[0]
    lines = axes.get_lines()[1:]
    assert [line.get_label() for line in lines] == ["pure", "both \\$"]
    for line, f in zip(lines, curves.values(), strict=True):
        x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        assert (x[0], x[-1]) == (0.0, 1.0)
        np.testing.assert_array_equal(y, f(x))
    kink = np.asarray(lines[0].get_xdata(), dtype=np.float64) - 1.0 / (1.0 + np.e)
    assert np.min(np.abs(kink)) < 1e-15  # it is drawn
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("type I error", "smallest type II error")
    for given, error, message in (
        ([gaussian_dp(1.0)], TypeError, "curves must be a mapping"),
        ({}, ValueError, "at least one"),
        ({"a": 1.0}, TypeError, r"curves\['a'\] must be a trade-off function"),
    ):
        with pytest.raises(error, match=message):
            tradeoffs(given)
