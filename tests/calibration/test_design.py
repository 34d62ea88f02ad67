"""Intervals before a release: closed forms, enumeration, losses by hand, resuming, and what is refused."""

from __future__ import annotations

import math
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import bayesdp as bdp
from bayesdp.calibration import Design, fits
from bayesdp.calibration.coverage import row_of, summary_of
from bayesdp.calibration.design_inputs import _by_one_definition, answers, losses_of
from bayesdp.calibration.designs import _judged, _result, _rng, _seed
from bayesdp.privacy import DIFFERENCES
from bayesdp.privacy.losses import ApproximateDP

LABELS = {"county": ["Alpha", "Beta"]}
TOTAL = bdp.Totals(LABELS)
QUICK = {"draws": 400, "tune": 50, "chains": 2, "progressbar": False}
MEAN = 6.0


def prior():
    with pm.Model(coords=LABELS) as model:
        bdp.ConfidentialCounts("x", pm.Poisson.dist(MEAN), dims="county")
    return model


def alpha(x):
    return x.sel(county="Alpha")


def share(x):
    return alpha(x) / x.sum("county")


KEPT: dict[str, list[tuple[xr.DataArray, bdp.Release]]] = {}


def keeping(name, mechanism):
    """A candidate that is a function, and keeps what it has released, for the oracle."""
    KEPT[name] = []

    def release(table, rng):
        found = mechanism.release(table, rng)
        KEPT[name].append((table, found))
        return found

    return release


LOW, HIGH = 0.2, 1.0
CANDIDATES = {
    "low": keeping("low", bdp.LatticeLaplace(TOTAL, epsilon=LOW)),
    "high": bdp.LatticeLaplace(TOTAL, epsilon=HIGH),
}
QUESTIONS = {"Alpha": alpha, "share": share, "cells": bdp.Identity(LABELS)}
N = 8
CALL = {"n": N, "seed": 4, **QUICK}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("design") / "fits"


@pytest.fixture(scope="module")
def made(folder):
    return bdp.design(CANDIDATES, prior, QUESTIONS, path=folder, **CALL)


def enumerated(release):
    """Posterior of the first cell under the Poisson prior, the exact total and the discrete Laplace noise on the line."""
    total = int(release.exact[0].values)
    counts = np.arange(total + 1)
    away = np.abs(release.measurements[0].values[0] - counts)
    log = stats.binom.logpmf(counts, total, 0.5) - LOW * 2.0 * away
    weights = np.exp(log - log.max())
    return counts, weights / weights.sum()


@pytest.mark.system
def test_widths_coverage_and_error_are_those_of_the_enumerated_posteriors(made):
    own = made.data.sel(candidate="low", question="Alpha")
    for level in (0.5, 0.9, 0.95):
        widths, hits = [], []
        for table, release in KEPT["low"][:N]:
            counts, p = enumerated(release)
            low, high = (counts[np.searchsorted(np.cumsum(p), q)] for q in ((1 - level) / 2, (1 + level) / 2))
            widths.append(high - low)
            hits.append(low <= int(table[0]) <= high)
        # An end of 800 draws may be the neighbouring count, where the distribution function is near the tail's probability.
        assert float(own["width"].sel(probability=level)) == pytest.approx(np.mean(widths), abs=0.35)
        assert abs(float(own["coverage"].sel(probability=level)) - np.mean(hits)) <= 2.01 / N
    errors = [counts @ p - int(table[0]) for table, release in KEPT["low"][:N] for counts, p in [enumerated(release)]]
    assert float(own["bias"]) == pytest.approx(np.mean(errors), abs=0.1)
    assert float(own["rmse"]) == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=0.06)


@pytest.mark.system
def test_a_larger_budget_gives_narrower_intervals(made):
    for question in made.questions:
        for level in (0.9, 0.95):
            low, high = (
                made.data["width"].sel(candidate=c, question=question, probability=level) for c in ("low", "high")
            )
            assert high < low
    assert made.data["loss"].values.tolist() == [2 * LOW, 2 * HIGH]  # one record moved is 2 in l1
    assert np.array_equal(made.data["width"].sel(question="Alpha"), made.data["width"].sel(question="cells[Alpha]"))


@pytest.mark.system
def test_text_table_and_what_is_said(made):
    assert repr(made) == "<Design: 2 candidates, 4 questions; print it>"
    text = str(made)
    assert "no confidential table was used" in text
    assert "epsilon between two tables that agree on the invariants of every" in text
    table = made.to_dataframe()
    assert len(table) == 2 * 4 * 3
    assert {"candidate", "question", "probability", "width", "coverage", "loss", "failed"} <= set(table.columns)
    assert made.data["failed"].values.tolist() == [0, 0]


@pytest.mark.system
def test_the_picture_has_a_panel_for_each_question(made):
    drawn = made.plot(probability=0.9, questions=["Alpha", "share"])
    assert [axes.get_title(loc="left") for axes in drawn.axes] == ["Alpha", "share"]
    assert "90%" in drawn.get_supylabel()
    assert [axes.get_xlabel() for axes in drawn.axes] == ["epsilon", "epsilon"]
    x = [line.get_xdata()[0] for line in drawn.axes[0].lines if line.get_marker() in "os"]
    assert x == [2 * LOW, 2 * HIGH]
    plt.close(drawn)
    with pytest.raises(ValueError, match="probability must be one of the design"):
        made.plot(probability=0.8)
    with pytest.raises(ValueError, match="questions must be of the design"):
        made.plot(questions=["Gamma"])
    with pytest.raises(TypeError, match=r"must be what bayesdp\.design gave"):
        bdp.plots.designs(made.data)


@pytest.mark.system
def test_a_stored_run_answers_new_questions_without_sampling_and_is_the_same(made, folder, monkeypatch):
    def never(*_):
        raise AssertionError

    monkeypatch.setattr(fits, "quiet_sample", never)
    again = bdp.design(CANDIDATES, prior, QUESTIONS, path=folder, **CALL)
    assert again.data.identical(made.data)
    other = bdp.design(CANDIDATES, prior, {"Beta": lambda x: x.sel(county="Beta")}, path=folder, **CALL)
    assert np.array_equal(other.data["width"].sel(question="Beta"), made.data["width"].sel(question="cells[Beta]"))

    def broader():
        with pm.Model(coords=LABELS) as model:
            bdp.ConfidentialCounts("x", pm.Poisson.dist(MEAN + 1.0), dims="county")
        return model

    for change in ({"model": broader}, {"seed": 5}):
        with pytest.raises(ValueError, match="is of another run"):
            bdp.design(CANDIDATES, prior, QUESTIONS, path=folder, **(CALL | change))
    weaker = CANDIDATES | {"high": bdp.LatticeLaplace(TOTAL, epsilon=0.9)}
    with pytest.raises(ValueError, match="its releases"):
        bdp.design(weaker, prior, QUESTIONS, path=folder, **CALL)


@pytest.mark.system
def test_ctrl_c_keeps_what_was_done(tmp_path, monkeypatch):
    """Two fits, then Ctrl-C; the same call goes on with the third."""
    done, original = [], fits.quiet_sample

    def pressed(*arguments):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(1)
        return original(*arguments)

    call = {"n": 3, "seed": 1, **QUICK}
    one = {"high": CANDIDATES["high"]}
    with monkeypatch.context() as patched:
        patched.setattr(fits, "quiet_sample", pressed)
        with pytest.raises(KeyboardInterrupt):
            bdp.design(one, prior, {"Alpha": alpha}, path=tmp_path / "fits", **call)
    done.clear()
    counted = []
    monkeypatch.setattr(fits, "quiet_sample", lambda *a: counted.append(1) or original(*a))
    stopped = bdp.design(one, prior, {"Alpha": alpha}, path=tmp_path / "fits", **call)
    assert len(counted) == 1
    assert stopped.data.identical(bdp.design(one, prior, {"Alpha": alpha}, **call).data)


@pytest.mark.system
def test_one_table_flat_counts_and_two_releases_have_the_width_of_the_normal_law():
    """Noise (k, -k) of mass exp(-k**2 / sigma**2) is normal with sigma / sqrt(2); two of them halve the variance."""
    rho = 0.0005
    sigma = 1.0 / math.sqrt(2.0 * rho)
    once = bdp.LatticeGaussian(TOTAL, rho=rho)
    found = bdp.design(
        {"twice": [once, once]}, [1000, 1000], {"Alpha": alpha}, n=8, seed=2, **(QUICK | {"draws": 1000})
    )
    own = found.data.sel(candidate="twice", question="Alpha")
    expected = sigma / 2.0
    for level in (0.5, 0.9, 0.95):
        width = 2.0 * stats.norm.isf((1.0 - level) / 2.0) * expected
        assert float(own["width"].sel(probability=level)) == pytest.approx(width, rel=0.05)
    # The flat posterior of one location is calibrated for a fixed truth as well: false alarm below 1e-4 for 8 releases.
    hits = round(8 * float(own["coverage"].sel(probability=0.9)))
    assert stats.binom.cdf(hits, 8, 0.9) > 1e-4
    assert float(found.data["loss"][0]) == pytest.approx(2 * 2 * rho)  # 2 releases, l2**2 = 2
    assert found.data.attrs["tried_on"] == "table"
    assert "If it is confidential" in str(found)


GRID = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
TABLE = [[5, 3], [2, 7], [4, 4]]
BY_TOTAL = bdp.LatticeLaplace(bdp.Totals(GRID), epsilon=0.25)
BY_MARGINS = bdp.LatticeLaplace(bdp.Margins(GRID, ["county"], ["education"]), epsilon=0.5)


def one_release(*mechanisms, seed=1):
    rng = np.random.default_rng(seed)
    return tuple(own.release(TABLE, rng) for own in mechanisms)


def test_losses_are_at_a_difference_that_all_invariants_leave_free():
    """A 2x2 move is 4 in l1: 4 epsilon, also for the candidate whose own guarantee has no such row."""
    found = losses_of({"total": one_release(BY_TOTAL), "margins": one_release(BY_MARGINS)}, None, None)
    assert found.values == {"total": 1.0, "margins": 2.0}
    assert (found.name, found.delta) == ("epsilon", None)
    assert "2x2 move" in found.difference
    both = losses_of({"both": one_release(BY_TOTAL, BY_MARGINS)}, None, None)
    assert both.values == {"both": 3.0}
    assert bdp.compose(*one_release(BY_TOTAL, BY_MARGINS)).guarantee.pairs[0].loss["epsilon"] == 3.0
    with pytest.raises(
        ValueError, match="difference must be one that the invariants of every candidate leave free, '2x2 move'"
    ):
        losses_of({"total": one_release(BY_TOTAL), "margins": one_release(BY_MARGINS)}, "substitution", None)


def test_losses_of_several_definitions_are_compared_as_rho_or_at_a_delta():
    gaussian = bdp.LatticeGaussian(bdp.Totals(GRID), rho=0.01)
    pair = {"laplace": one_release(BY_TOTAL), "gaussian": one_release(gaussian)}
    found = losses_of(pair, None, None)
    assert found.name == "rho"
    assert found.values == pytest.approx({"laplace": 0.5**2 / 2, "gaussian": 0.02})  # epsilon = 0.5, so epsilon**2 / 2
    at = losses_of(pair, None, 1e-6)
    assert (at.name, at.delta) == ("epsilon", 1e-6)
    assert at.values["gaussian"] == pytest.approx(bdp.privacy.rho_to_epsilon(0.02, 1e-6))
    assert at.values["laplace"] <= 0.5


def test_a_loss_that_says_nothing_is_infinite():
    """A delta of 1 or more holds of any mechanism: its epsilon is no number to compare by."""
    losses = {"vacuous": ApproximateDP(0.5, 1.0), "other": ApproximateDP(0.5, 1.0)}
    found = _by_one_definition(losses, DIFFERENCES["substitution"], None)
    assert found.values == {"vacuous": math.inf, "other": math.inf}


def test_summaries_by_hand():
    draws = np.arange(1.0, 101.0).reshape(2, 50)
    assert row_of(4.0, draws, [0.5, 0.9]).tolist() == [4.0, 50.5, 25.0, 75.0, 5.0, 95.0]
    assert np.isnan(row_of(4.0, np.where(draws == 3.0, np.inf, draws), [0.5])).all()
    rows = np.array([[[0.0, 1.0, -1.0, 3.0]], [[5.0, 2.0, 1.0, 4.0]], [[np.nan] * 4]])
    found = summary_of(rows, [0.9], ["a"])
    assert found["used"].item() == 2
    assert found["width"].item() == 3.5
    assert found["width_error"].item() == pytest.approx(np.std([4.0, 3.0], ddof=1) / np.sqrt(2))
    assert found["coverage"].item() == 0.5
    limits = stats.binomtest(1, 2).proportion_ci(0.95, method="exact")
    assert (found["coverage_low"].item(), found["coverage_high"].item()) == pytest.approx((limits.low, limits.high))
    assert (found["bias"].item(), found["rmse"].item()) == pytest.approx((-1.0, np.sqrt(5.0)))
    empty = summary_of(np.full((2, 1, 4), np.nan), [0.9], ["a"])
    assert empty["used"].item() == 0
    assert all(
        np.isnan(empty[key]).all() for key in ("width", "coverage", "coverage_low", "coverage_high", "bias", "rmse")
    )


def test_an_end_of_an_interval_and_a_truth_that_are_equal_are_a_hit():
    rows = np.array([[[3.0, 4.0, 3.0, 5.0]], [[5.0, 4.0, 3.0, 5.0]], [[2.9, 4.0, 3.0, 5.0]], [[5.1, 4.0, 3.0, 5.0]]])
    found = summary_of(rows, [0.9], ["a"])
    assert found["coverage"].item() == 0.5
    assert found["bias"].item() == pytest.approx(0.0, abs=1e-12)
    two = summary_of(np.array([[[0.0, 0.0, -1.0, 1.0, -4.0, 6.0]]] * 2), [0.5, 0.9], ["a"])
    assert two["width"].values.tolist() == [[2.0, 10.0]]


def test_tables_releases_and_fits_have_streams_of_their_own():
    drawn = {_rng(4, k, number).integers(2**62) for k in range(3) for number in range(5)}
    assert len(drawn) == 15
    assert len({_seed(4, 0), *(_seed(4, 2, k) for k in range(5))}) == 6
    noise = {int(release.measurements[0].values[0]) - int(table[0]) for table, release in KEPT["low"][:N]}
    assert len(noise) > 1 or not KEPT["low"]


def test_chains_and_noise_that_are_not_sure_are_counted():
    """Three posteriors, of which the second did not converge and the third failed; two releases together, one by a chain."""

    def posterior(count, converged):
        x = xr.DataArray(np.full((2, 9, 2), count), dims=("chain", "draw", "county"), coords=LABELS)
        about = xr.Dataset(
            attrs={"converged": int(converged), "verdict": "converged" if converged else "not converged"}
        )
        return xr.DataTree.from_dict({"posterior": xr.Dataset({"x": x}), "diagnostics": about})

    ready = fits.Fits({"0": posterior(1, True), "1": posterior(5, False)}, {"2": "no reason"})
    tables = np.array([[1, 0], [3, 0], [9, 0]])
    frame = bdp.Frame.of(LABELS)
    part = _judged(ready, tables, frame, "x", {"Alpha": alpha}, [0.9])
    assert (part["failed"].item(), part["not_converged"].item(), part["used"].item()) == (1, 1, 2)
    assert (part["bias"].item(), part["rmse"].item()) == (1.0, pytest.approx(math.sqrt(2.0)))  # 0 and 2
    table, rng = [5, 3], np.random.default_rng(1)
    sure = bdp.LatticeLaplace(TOTAL, epsilon=0.5).release(table, rng)
    unsure = SimpleNamespace(guarantee=SimpleNamespace(certified=False))
    losses = losses_of({"sure": (sure,), "one of two": (sure, sure)}, None, None)
    firsts = {"sure": (sure,), "one of two": (sure, unsure)}
    data = _result([part, part], {}, firsts, losses, {"tried_on": "prior", "n": 3, "seed": 1}).data
    assert data["certified"].values.tolist() == [True, False]
    text = " ".join(Design(data).statements())
    assert "Noise that is not drawn exactly, so that the loss is not certified: one of two." in text
    assert "Of 3 fits each: sure 1 failed, 1 not converged; one of two 1 failed, 1 not converged." in text


@pytest.mark.system
def test_candidates_of_one_loss_are_drawn_side_by_side_with_whole_labels(made):
    """Markers of 7 points do not cover one another, none is cut at the axis, and names that begin alike are told apart."""
    names = [f"counties and levels of education are exact, epsilon = {own}" for own in ("a", "b", "c")]
    parts = [made.data.sel(candidate=own).drop_vars("candidate") for own in ("low", "low", "high")]
    data = xr.concat(parts, xr.DataArray(names, dims="candidate", name="candidate"))
    data["width"].loc[{"candidate": names[1]}] = 0.0
    data.attrs = made.data.attrs
    drawn = Design(data).plot(questions=["Alpha", "share"])
    drawn.draw_without_rendering()
    for axes in drawn.axes:
        lines = [line for line in axes.lines if line.get_marker() in "osD"]
        places = [line.get_transform().transform(line.get_xydata())[0] for line in lines]
        apart = [abs(places[i][0] - places[j][0]) for i, j in ((0, 1), (0, 2), (1, 2))]
        assert min(apart) > 7 / 72 * drawn.dpi
        assert not lines[1].get_clip_on()
        assert [line.get_xdata()[0] for line in lines] == [2 * LOW, 2 * LOW, 2 * HIGH]
    [legend] = drawn.legends
    assert [own.get_text() for own in legend.get_texts()] == names
    assert legend.get_window_extent().x1 <= drawn.bbox.x1
    assert all(legend.get_window_extent().y1 < axes.get_window_extent().y0 for axes in drawn.axes)
    plt.close(drawn)


@pytest.mark.system
def test_answers_that_are_no_numbers_are_left_out_and_said(made):
    empty = xr.DataArray([[[0, 0]]], dims=("chain", "draw", "county"), coords=LABELS)
    assert np.isnan(answers({"share": share}, empty)["share"]).all()
    data = made.data.copy(deep=True)
    data["used"].loc[{"candidate": "low", "question": "share"}] = N - 2
    assert "left out, which may flatter the rest: share of low (2)" in " ".join(Design(data).statements())


OTHER = {"county": ["Alpha", "Gamma"]}


def negative():
    with pm.Model(coords=LABELS) as model:
        bdp.ConfidentialCounts("x", pm.DiscreteUniform.dist(-5, -1), dims="county")
    return model


def not_one():
    with pm.Model(coords=LABELS) as model:
        pm.Poisson("x", MEAN, dims="county")
    return model


def exact_only(table, rng):
    return bdp.Release.from_published(LABELS, exact=[bdp.Exact(TOTAL, table.sum())])


def no_guarantee(table, rng):
    law = bdp.noise.DiscreteGaussian(3.0)
    noisy = bdp.Measured(bdp.Identity(LABELS), table + law.draw(rng, table.shape), law)
    return bdp.Release.from_published(LABELS, measured=[noisy], exact=[bdp.Exact(TOTAL, table.sum())])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"candidates": {}}, TypeError, "candidates must be a mapping"),
        ({"candidates": {"a": 3}}, TypeError, r"candidates\['a'\] must be a mechanism"),
        (
            {"candidates": CANDIDATES | {"odd": bdp.LatticeLaplace(bdp.Totals(OTHER), epsilon=1.0)}},
            ValueError,
            r"candidates\['odd'\] is about the cells of county \(Alpha, Gamma\)",
        ),
        ({"candidates": {"open": exact_only}}, ValueError, r"candidates\['open'\] is not private: .* has no noise"),
        (
            {"candidates": {"mute": no_guarantee}},
            ValueError,
            r"candidates\['mute'\] is not private: .* states no guarantee",
        ),
        (
            {"candidates": {"none": lambda table, rng: None}},
            TypeError,
            r"candidates\['none'\] must give back a Release",
        ),
        ({"questions": {"q": bdp.Identity(OTHER)}}, ValueError, r"questions\['q'\] is a query of another table"),
        ({"questions": {"q": lambda x: 3.0}}, TypeError, r"questions\['q'\] must give back a DataArray"),
        (
            {"questions": {"q": lambda x: x.mean("draw")}},
            ValueError,
            r"questions\['q'\] must keep the dimensions chain",
        ),
        ({"questions": {"x[Alpha]": alpha, "x": bdp.Identity(LABELS)}}, ValueError, "two answers the name"),
        ({"prior_or_table": negative}, ValueError, "prior_or_table.*county=Alpha of draw 0"),
        ({"prior_or_table": not_one}, ValueError, "one table of ConfidentialCounts, got none among x"),
        ({"prior_or_table": lambda: 3}, TypeError, "prior_or_table must be a function that gives back a pymc.Model"),
        ({"prior_or_table": [3, -1]}, ValueError, "county=Beta"),
        ({"n": 1}, ValueError, "n must be at least 2"),
        ({"model": 3}, TypeError, "model must be a function"),
        ({"probabilities": [0.5, 0.5]}, ValueError, "probabilities must be at least one, all different"),
        ({"difference": "3-cycle"}, ValueError, "leave free, 'substitution', got '3-cycle'"),
    ],
)
@pytest.mark.filterwarnings("ignore:Numba will use object mode")  # uniform whole numbers have no compiled draws
def test_what_is_refused(change, error, message):
    given = {"candidates": {"high": CANDIDATES["high"]}, "prior_or_table": prior, "questions": {"Alpha": alpha}}
    with pytest.raises(error, match=message):
        bdp.design(**(given | CALL | change))


def test_a_confidential_count_is_not_printed():
    with pytest.raises(ValueError, match="county=Alpha") as caught:
        bdp.design({"high": CANDIDATES["high"]}, [3.5, 77777.25], {"Alpha": alpha}, **CALL)
    assert "77777" not in str(caught.value)


@pytest.mark.system
@pytest.mark.slow
def test_local_processes_give_the_same(made):
    plain = CANDIDATES | {"low": bdp.LatticeLaplace(TOTAL, epsilon=LOW)}
    assert bdp.design(plain, prior, QUESTIONS, workers=2, **CALL).data.identical(made.data)
