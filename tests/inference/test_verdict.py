"""What is said of chains: independent draws are not shouted at, bad chains are."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from bayesdp.inference import diagnose
from bayesdp.inference.diagnostics import Worst, rhat_limit, verdict_of


def verdict(draws: np.ndarray, **others: np.ndarray) -> dict:
    data = {
        name: (("chain", "draw", *(f"{name}_{i}" for i in range(own.ndim - 2))), own)
        for name, own in {"x": draws, **others}.items()
    }
    return diagnose(xr.Dataset(data), {}).attrs


def moving(draws: np.ndarray) -> np.ndarray:
    return draws[..., np.ptp(draws.reshape(-1, draws.shape[2]), axis=0) > 0]


LAWS = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "counts": lambda rng, shape: rng.poisson(rng.gamma(0.3, 3.0, size=shape[2]), size=shape),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(
    ("chains", "length", "cells", "runs"), [(2, 20, 50, 300), (2, 100, 300, 60), (4, 50, 100, 150)]
)
def test_independent_draws_are_not_shouted_at(law, chains, length, cells, runs):
    """At a rate of 1%, more than 5% + 2 of the runs have a probability below 1e-4 (binomial)."""
    rng = np.random.default_rng([chains, length, cells])
    found = [verdict(moving(LAWS[law](rng, (chains, length, cells)))) for _ in range(runs)]
    alarms = sum(own["verdict"] == "not converged" for own in found)
    assert alarms <= 0.05 * runs + 2
    # The usual limits, 1.01 and 100 a chain, would have called every one of them bad.
    usual = [own["worst_rhat"] <= 1.01 and own["worst_ess"] >= 100 * chains for own in found]
    assert not any(usual)
    assert all(own["converged"] == 0 for own in found)
    calm = next(own["message"] for own in found if own["verdict"] == "not judged")
    assert calm.startswith("Too little to judge convergence, and nothing that speaks against it: R-hat at most ")


def test_a_large_table_of_independent_draws_is_good_after_300_draws():
    draws = np.random.default_rng(8).poisson(20.0, size=(2, 300, 3000))
    own = verdict(draws)
    assert own["verdict"] == "converged", own["message"]
    assert 1.01 < own["worst_rhat"] <= own["rhat_limit"] == pytest.approx(rhat_limit(2, 300, 3000, 1))
    assert f"(limit {own['rhat_limit']:.4g}, which chance exceeds in 1% of runs)" in own["message"]


def test_the_limit_is_a_quantile_of_independent_draws():
    """R-hat of one quantity, 2,000 runs: 1% +- 0.7% (three standard deviations); it is 1.01 for runs of the usual length."""
    rng = np.random.default_rng(4)
    draws = rng.normal(size=(2, 300, 2000))
    rhat = diagnose(xr.Dataset({"x": (("chain", "draw", "c"), draws)}), {})["x_rhat"].values
    assert 0.003 < np.mean(rhat > rhat_limit(2, 300, 1, 1)) < 0.017
    assert rhat_limit(2, 300, 1, 1) > 1.01
    assert rhat_limit(4, 1000, 15_000, 5) == rhat_limit(4, 1000, 10**9, 1) == 1.01
    assert rhat_limit(2, 300, 10, 2) == pytest.approx(rhat_limit(2, 300, 20, 1))


class TestBadChains:
    rng = np.random.default_rng(11)

    def test_one_shifted_cell_among_three_thousand(self):
        draws = self.rng.normal(size=(2, 300, 3000))
        draws[1, :, 17] += 0.8
        own = verdict(draws)
        assert own["verdict"] == "not converged"
        assert own["message"].startswith("NOT converged, as far as can be told: R-hat up to ")

    def test_a_drift_in_every_chain(self):
        draws = self.rng.normal(size=(4, 100, 20))
        draws[..., 3] += np.linspace(-1.5, 1.5, 100)
        assert verdict(draws)["verdict"] == "not converged"

    def test_a_parameter_among_many_cells_keeps_a_limit_of_its_own(self):
        cells = self.rng.normal(size=(2, 300, 3000))
        rate = self.rng.normal(size=(4, 150))  # as two chains in halves, each with the mean that it is given
        rate += np.array([[0.0], [0.0], [0.35], [0.35]]) - rate.mean(axis=1, keepdims=True)
        rate = rate.reshape(2, 300)
        own = verdict(cells, rate=rate)
        assert own["verdict"] == "not converged"
        assert own["rhat_limit"] == pytest.approx(rhat_limit(2, 300, 1, 2))
        assert own["worst_rhat"] < rhat_limit(2, 300, 3001, 1)

    def test_one_slow_chain_and_one_that_never_moved(self):
        walk = np.cumsum(self.rng.normal(size=(1, 400, 3)), axis=1)
        assert (
            verdict(walk)["verdict"] == "not converged"
        )  # R-hat does not exist; each draw counts for less than a 30th
        independent = self.rng.normal(size=(1, 400, 3))
        assert verdict(independent)["verdict"] == "not judged"
        stuck = self.rng.normal(size=(2, 400, 3))
        stuck[..., 0] = 2.0
        assert verdict(stuck)["verdict"] == "not converged"

    def test_draws_that_are_not_finite(self):
        draws = self.rng.normal(size=(2, 500, 3))
        draws[0, 3, 1] = np.inf
        own = verdict(draws)
        assert own["verdict"] == "not converged"
        assert "x: draws that are not finite" in own["message"]


def test_progress_is_told_by_variable():
    told = []
    data = {"x": (("chain", "draw", "c"), np.random.default_rng(0).normal(size=(2, 50, 3)))}
    diagnose(xr.Dataset(data), {}, lambda *own: told.append(own))
    assert told == [("x", 3, 3)]


def test_chains_that_stand_still_at_different_values_are_the_worst_there_is():
    """Their R-hat is infinite, and no number says so where rounding does not happen to leave a large one."""
    rng = np.random.default_rng(11)
    draws = rng.poisson(20.0, size=(4, 1024, 3)).astype(np.float64)
    draws[..., 1] = np.array([0.0, 0.0, 1.0, 1.0])[:, None]
    own = verdict(draws)
    assert (own["verdict"], own["worst_rhat"] > 1e6) == ("not converged", True)
    assert "R-hat up to" in own["message"]
    # Two of them and nothing else, with an effective sample size that is not looked at: R-hat alone condemns them.
    ratios, sizes = np.array([1.0, np.inf]), np.array([4e3, 4e3])
    alone = Worst.of("x", "counts", ratios, np.full(2, 1.01), sizes, 4, "x{}".format, stuck=False)
    assert verdict_of([alone], 4, 1024)["verdict"] == "not converged"
    assert "R-hat up to inf" in verdict_of([alone], 4, 1024)["message"]
