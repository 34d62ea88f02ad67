"""Intervals before a release: closed forms, losses by hand, resuming, and what is refused."""

import math
from types import SimpleNamespace

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
from tests.refusals import refused

LABELS = {"county": ["Alpha", "Beta"]}
TOTAL = bdp.Totals(LABELS)
QUICK = {"draws": 400, "tune": 50, "chains": 2, "progressbar": False}
MEAN = 6.0


def prior(law=None):
    with pm.Model(coords=LABELS) as model:
        bdp.ConfidentialCounts("x", pm.Poisson.dist(MEAN) if law is None else law, dims="county")
    return model


def alpha(x):
    return x.sel(county="Alpha")


WEAK, STRONG = (bdp.LatticeLaplace(TOTAL, epsilon=own) for own in (0.2, 1.0))
CANDIDATES = {"low": lambda table, rng: WEAK.release(table, rng), "high": STRONG}
QUESTIONS = {"Alpha": alpha, "share": lambda x: alpha(x) / x.sum("county"), "cells": bdp.Identity(LABELS)}
CALL = {"n": 6, "seed": 4, **QUICK}


def asked(change):
    return bdp.design(**({"candidates": CANDIDATES, "prior_or_table": prior, "questions": QUESTIONS} | CALL | change))


@pytest.mark.system
def test_a_larger_budget_gives_narrower_intervals_and_a_stored_run_answers_without_sampling(tmp_path, monkeypatch):
    folder = tmp_path / "fits"
    made = asked({"path": folder})
    low, high = (made.data["width"].sel(candidate=own, probability=[0.9, 0.95]) for own in ("low", "high"))
    assert (high.values < low.values).all()
    assert made.data["loss"].values.tolist() == [0.4, 2.0]  # one record moved is 2 in l1
    assert np.array_equal(made.data["width"].sel(question="Alpha"), made.data["width"].sel(question="cells[Alpha]"))
    table = made.to_dataframe()
    for words in ("no confidential table was used", "epsilon between two tables that agree on the invariants of every"):
        assert words in str(made)
    assert len(table) == 2 * 4 * 3
    assert {"candidate", "question", "probability", "width", "coverage", "loss", "failed"} <= set(table.columns)
    for given, message in ({"probability": 0.8}, "probability"), ({"questions": ["Gamma"]}, "questions"):
        with pytest.raises(ValueError, match=f"{message} must be .*of the design"):
            made.plot(**given)
    with pytest.raises(TypeError, match=r"must be what bayesdp\.design gave"):
        bdp.plots.designs(made.data)
    monkeypatch.setattr(fits, "quiet_sample", lambda *_: pytest.fail("it was sampled"))
    assert asked({"path": folder}).data.identical(made.data)
    other = asked({"path": folder, "questions": {"Beta": lambda x: x.sel(county="Beta")}})
    assert np.array_equal(other.data["width"].sel(question="Beta"), made.data["width"].sel(question="cells[Beta]"))
    for change, message in (
        ({"model": lambda: prior(pm.Poisson.dist(MEAN + 1.0))}, "is of another run"),
        ({"seed": 5}, "is of another run"),
        ({"candidates": CANDIDATES | {"high": bdp.LatticeLaplace(TOTAL, epsilon=0.9)}}, "its releases"),
    ):
        with pytest.raises(ValueError, match=message):
            asked(change | {"path": folder})


@pytest.mark.system
def test_one_table_flat_counts_and_two_releases_have_the_width_of_the_normal_law():
    """Noise (k, -k) of mass exp(-k**2 / sigma**2) is normal with sigma / sqrt(2); two of them halve the variance."""
    rho = 0.0005
    once, given = bdp.LatticeGaussian(TOTAL, rho=rho), QUICK | {"draws": 1000, "n": 4, "seed": 2}
    found = bdp.design({"twice": [once, once]}, [1000, 1000], {"Alpha": alpha}, **given)
    own = found.data.sel(candidate="twice", question="Alpha")
    for level in (0.5, 0.9, 0.95):
        width = 2.0 * stats.norm.isf((1.0 - level) / 2.0) / math.sqrt(2.0 * rho) / 2.0
        assert float(own["width"].sel(probability=level)) == pytest.approx(width, rel=0.05)
    # The flat posterior of one location is calibrated for a fixed truth as well: all 4 intervals miss once in 10,000.
    assert float(own["coverage"].sel(probability=0.9)) > 0.0
    assert float(found.data["loss"][0]) == pytest.approx(2 * 2 * rho)  # 2 releases, l2**2 = 2
    assert found.data.attrs["tried_on"] == "table"
    assert "If it is confidential" in str(found)


GRID = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
BY_TOTAL = bdp.LatticeLaplace(bdp.Totals(GRID), epsilon=0.25)
BY_MARGINS = bdp.LatticeLaplace(bdp.Margins(GRID, ["county"], ["education"]), epsilon=0.5)


def test_losses_are_at_a_difference_that_all_invariants_leave_free_and_as_rho_or_at_a_delta():
    """A 2x2 move is 4 in l1: 4 epsilon, also for the candidate whose own guarantee has no such row."""

    def one_release(*mechanisms):
        return tuple(own.release([[5, 3], [2, 7], [4, 4]], k) for k, own in enumerate(mechanisms))

    pair = {"total": one_release(BY_TOTAL), "margins": one_release(BY_MARGINS)}
    found = losses_of(pair, None, None)
    assert found.values == {"total": 1.0, "margins": 2.0}
    assert (found.name, found.delta) == ("epsilon", None)
    assert "2x2 move" in found.difference
    assert losses_of({"both": one_release(BY_TOTAL, BY_MARGINS)}, None, None).values == {"both": 3.0}
    with pytest.raises(ValueError, match=r"difference must be one that .* every candidate leave free, '2x2 move'"):
        losses_of(pair, "substitution", None)
    gaussian = bdp.LatticeGaussian(bdp.Totals(GRID), rho=0.01)
    pair = {"laplace": one_release(BY_TOTAL), "gaussian": one_release(gaussian)}
    found = losses_of(pair, None, None)
    expected = {"laplace": 0.5**2 / 2, "gaussian": 0.02}  # epsilon = 0.5, so epsilon**2 / 2
    assert (found.name, found.values) == ("rho", pytest.approx(expected))
    at = losses_of(pair, None, 1e-6)
    assert (at.name, at.delta) == ("epsilon", 1e-6)
    assert at.values["gaussian"] == pytest.approx(bdp.privacy.rho_to_epsilon(0.02, 1e-6))
    assert at.values["laplace"] <= 0.5
    # A delta of 1 or more holds of any mechanism: its epsilon is no number to compare by.
    losses = dict.fromkeys(("vacuous", "other"), ApproximateDP(0.5, 1.0))
    found = _by_one_definition(losses, DIFFERENCES["substitution"], None)
    assert found.values == dict.fromkeys(losses, math.inf)


def test_summaries_by_hand_and_chains_and_noise_that_are_not_sure_are_counted():
    draws = np.arange(1.0, 101.0).reshape(2, 50)
    assert row_of(4.0, draws, [0.5, 0.9]).tolist() == [4.0, 50.5, 25.0, 75.0, 5.0, 95.0]
    assert np.isnan(row_of(4.0, np.where(draws == 3.0, np.inf, draws), [0.5])).all()
    rows = np.array([[[0.0, 1.0, -1.0, 3.0]], [[5.0, 2.0, 1.0, 4.0]], [[np.nan] * 4]])
    found = summary_of(rows, [0.9], ["a"])
    limits = stats.binomtest(1, 2).proportion_ci(0.95, method="exact")
    expected = {
        "used": 2, "width": 3.5, "width_error": np.std([4.0, 3.0], ddof=1) / np.sqrt(2), "coverage": 0.5,
        "coverage_low": limits.low, "coverage_high": limits.high, "bias": -1.0, "rmse": np.sqrt(5.0),
    }  # fmt: skip
    assert {key: found[key].item() for key in expected} == pytest.approx(expected)
    empty = summary_of(np.full((2, 1, 4), np.nan), [0.9], ["a"])
    assert empty["used"].item() == 0
    assert all(np.isnan(empty[key]).all() for key in expected if key not in ("used", "width_error"))
    ends = np.array([[[true, 4.0, 3.0, 5.0]] for true in (3.0, 5.0, 2.9, 5.1)])
    assert summary_of(ends, [0.9], ["a"])["coverage"].item() == 0.5
    two = summary_of(np.array([[[0.0, 0.0, -1.0, 1.0, -4.0, 6.0]]] * 2), [0.5, 0.9], ["a"])
    assert two["width"].values.tolist() == [[2.0, 10.0]]
    assert len({_rng(4, k, number).integers(2**62) for k in range(3) for number in range(5)}) == 15
    assert len({_seed(4, 0), *(_seed(4, 2, k) for k in range(5))}) == 6

    def posterior(count, converged):
        x = xr.DataArray(np.full((2, 9, 2), count), dims=("chain", "draw", "county"), coords=LABELS)
        about = {"converged": int(converged), "verdict": "converged" if converged else "not converged"}
        return xr.DataTree.from_dict({"posterior": xr.Dataset({"x": x}), "diagnostics": xr.Dataset(attrs=about)})

    ready = fits.Fits({"0": posterior(1, True), "1": posterior(5, False)}, {"2": "no reason"})
    tables = np.array([[1, 0], [3, 0], [9, 0]])
    part = _judged(ready, tables, bdp.Frame.of(LABELS), "x", {"Alpha": alpha}, [0.9])
    assert (part["failed"].item(), part["not_converged"].item(), part["used"].item()) == (1, 1, 2)
    assert (part["bias"].item(), part["rmse"].item()) == (1.0, pytest.approx(math.sqrt(2.0)))  # 0 and 2
    sure = bdp.LatticeLaplace(TOTAL, epsilon=0.5).release([5, 3], np.random.default_rng(1))
    unsure = SimpleNamespace(guarantee=SimpleNamespace(certified=False))
    losses = losses_of({"sure": (sure,), "one of two": (sure, sure)}, None, None)
    firsts = {"sure": (sure,), "one of two": (sure, unsure)}
    data = _result([part, part], {}, firsts, losses, {"tried_on": "prior", "n": 3, "seed": 1}).data
    assert data["certified"].values.tolist() == [True, False]
    text = " ".join(Design(data).statements())
    assert "Noise that is not drawn exactly, so that the loss is not certified: one of two." in text
    assert "Of 3 fits each: sure 1 failed, 1 not converged; one of two 1 failed, 1 not converged." in text
    assert [axes.get_title(loc="left") for axes in Design(data).plot(questions=["Alpha"]).axes] == ["Alpha"]
    empty = xr.DataArray([[[0, 0]]], dims=("chain", "draw", "county"), coords=LABELS)
    assert np.isnan(answers(QUESTIONS, empty)["share"]).all()
    data["used"].loc[{"candidate": "sure"}] = 1
    assert "left out, which may flatter the rest: Alpha of sure (" in " ".join(Design(data).statements())


OTHER = {"county": ["Alpha", "Gamma"]}


def published(*measured):
    def release(table, rng):
        noisy = [bdp.Measured(query, query.apply(table), bdp.noise.DiscreteGaussian(3.0)) for query in measured]
        return bdp.Release.from_published(LABELS, noisy, [bdp.Exact(TOTAL, table.sum())])

    return release


def not_one():
    with pm.Model(coords=LABELS) as model:
        pm.Poisson("x", MEAN, dims="county")
    return model


ELSEWHERE = CANDIDATES | {"odd": bdp.LatticeLaplace(bdp.Totals(OTHER), epsilon=1.0)}
# Uniform whole numbers have no compiled draws.
test_what_is_refused = pytest.mark.filterwarnings("ignore:Numba will use object mode")(
    refused(
        ({"candidates": {}}, "candidates must be a mapping"),
        ({"candidates": {"a": 3}}, r"candidates\['a'\] must be a mechanism"),
        ({"candidates": ELSEWHERE}, r"candidates\['odd'\] is about the cells of county \(Alpha, Gamma\)"),
        ({"candidates": {"open": published()}}, r"candidates\['open'\] is not private: .* has no noise"),
        (
            {"candidates": {"mute": published(bdp.Identity(LABELS))}},
            r"\['mute'\] is not private: .* states no guarantee",
        ),
        ({"candidates": {"no": lambda table, rng: None}}, r"candidates\['no'\] must give back a Release"),
        ({"questions": {"q": bdp.Identity(OTHER)}}, r"questions\['q'\] is a query of another table"),
        ({"questions": {"q": lambda x: 3.0}}, r"questions\['q'\] must give back a DataArray"),
        ({"questions": {"q": lambda x: x.mean("draw")}}, r"questions\['q'\] must keep the dimensions chain"),
        ({"questions": {"x[Alpha]": alpha, "x": bdp.Identity(LABELS)}}, "two answers the name"),
        ({"prior_or_table": lambda: prior(pm.DiscreteUniform.dist(-5, -1))}, "prior_or_table.*county=Alpha of draw 0"),
        ({"prior_or_table": not_one}, "one table of ConfidentialCounts, got none among x"),
        ({"prior_or_table": lambda: 3}, "prior_or_table must be a function that gives back a pymc.Model"),
        ({"prior_or_table": [3, -1]}, "county=Beta"),
        (
            {"prior_or_table": [3.5, 77777.25]},
            r"(?s)^(?!.*77777).*county=Alpha",
        ),  # and the confidential count is not printed
        ({"n": 1}, "n must be at least 2"),
        ({"model": 3}, "model must be a function"),
        ({"probabilities": [0.5, 0.5]}, "probabilities must be at least one, all different"),
        ({"difference": "3-cycle"}, "leave free, 'substitution', got '3-cycle'"),
        of=asked,
    )
)
