"""What is said of chains: independent and slow draws that agree are not shouted at, bad chains are; how many draws would do."""

import numpy as np
import pytest
import xarray as xr
from scipy.signal import lfilter

from bayesdp._chains import chain_statistics, rhat_by_chance
from bayesdp.inference import diagnose
from bayesdp.inference.diagnostics import Worst, cell_limits, rhat_limit, verdict_of
from bayesdp.streaming.cells import batch_diagnostics


def verdict(draws, determined=None, **others):
    data = xr.Dataset()
    for name, own in {"x": draws, **others}.items():
        data[name] = (("chain", "draw", *(f"{name}_{i}" for i in range(own.ndim - 2))), own)
    return diagnose(data, determined or {}).attrs


def verdict_of_counts(x, **others):
    return verdict(x, {"x": np.zeros(x.shape[2:], dtype=bool)}, **others)


def moving(draws):
    return draws[..., np.ptp(draws.reshape(-1, draws.shape[2]), axis=0) > 0]


@pytest.mark.parametrize("shape", [(2, 20, 50), (4, 50, 100)])
def test_independent_draws_are_not_shouted_at(shape):
    """At a rate of 1%, more than 5% + 2 of 80 runs have a probability below 1e-4 (binomial). Normal draws, and sparse counts."""
    rng, chains = np.random.default_rng(shape), shape[0]
    runs = (
        rng.normal(size=shape) if chains == 2 else rng.poisson(rng.gamma(0.3, 3.0, shape[2]), shape) for _ in range(80)
    )
    found = [verdict(moving(draws)) for draws in runs]
    assert sum(own["verdict"] == "not converged" for own in found) <= 6
    # The usual limits, 1.01 and 100 a chain, would have called every one of them bad.
    usual = [own["worst_rhat"] <= 1.01 and own["worst_ess"] >= 100 * chains for own in found]
    assert not any(usual)
    assert all(own["converged"] == 0 for own in found)
    calm = next(own["message"] for own in found if own["verdict"] == "not judged")
    assert calm.startswith("Too little to judge convergence, and nothing that speaks against it: R-hat at most ")


def test_a_large_table_of_independent_draws_is_good_after_300_draws_and_the_limit_is_a_quantile_of_them():
    """R-hat of one quantity, 2,000 runs: 1% +- 0.7% (three standard deviations); it is 1.01 for runs of the usual length."""
    draws = np.random.default_rng(8).poisson(20.0, size=(2, 300, 3000))
    own = verdict(draws)
    assert own["verdict"] == "converged", own["message"]
    assert 1.01 < own["worst_rhat"] <= own["rhat_limit"] == pytest.approx(rhat_limit(2, 300, 3000, 1))
    assert f"(limit {own['rhat_limit']:.4g}, which chance exceeds in 1% of runs)" in own["message"]
    draws, told = np.random.default_rng(4).normal(size=(2, 300, 2000)), []
    rhat = diagnose(xr.Dataset({"x": (("chain", "draw", "c"), draws)}), {}, lambda *own: told.append(own))[
        "x_rhat"
    ].values
    assert told[-1] == ("x", 2000, 2000)
    assert 0.003 < np.mean(rhat > rhat_limit(2, 300, 1, 1)) < 0.017
    assert rhat_limit(2, 300, 1, 1) > 1.01
    assert rhat_limit(4, 1000, 15_000, 5) == rhat_limit(4, 1000, 10**9, 1) == 1.01
    assert rhat_limit(2, 300, 10, 2) == pytest.approx(rhat_limit(2, 300, 20, 1))


class TestBadChains:
    rng = np.random.default_rng(11)

    def test_one_shifted_cell_among_many_and_draws_that_are_not_finite(self):
        draws = self.rng.normal(size=(2, 300, 2000))
        draws[1, :, 17] += 0.8
        own = verdict(draws)
        assert own["verdict"] == "not converged"
        assert own["message"].startswith("NOT converged, as far as can be told: R-hat up to ")
        draws[0, 3, 1] = np.inf
        own = verdict(draws[..., :3])
        assert own["verdict"] == "not converged"
        assert "x: draws that are not finite" in own["message"]

    def test_a_parameter_among_many_cells_keeps_a_limit_of_its_own(self):
        rng = np.random.default_rng(1)
        rate = rng.normal(size=(4, 150))  # as two chains in halves, each with the mean that it is given
        cells = rng.normal(size=(2, 300, 2000))
        rate += np.array([[0.0], [0.0], [0.35], [0.35]]) - rate.mean(axis=1, keepdims=True)
        rate = rate.reshape(2, 300)
        own = verdict(cells, rate=rate)
        assert own["verdict"] == "not converged"
        assert own["rhat_limit"] == pytest.approx(rhat_limit(2, 300, 1, 2))
        assert own["worst_rhat"] < rhat_limit(2, 300, 2001, 1)

    def test_one_slow_chain_one_that_never_moved_and_too_few_draws(self):
        walk = np.cumsum(self.rng.normal(size=(1, 400, 3)), axis=1)
        # R-hat does not exist; each draw counts for less than a 30th
        assert verdict(walk)["verdict"] == "not converged"
        alone = verdict(self.rng.normal(size=(1, 400, 3)))
        assert alone["verdict"] == "not judged"
        assert "R-hat needs two chains" in alone["message"]
        stuck = self.rng.normal(size=(2, 400, 3))
        stuck[..., 0] = 2.0
        assert verdict(stuck)["verdict"] == "not converged"
        assert verdict(self.rng.normal(size=(2, 3, 1)))["converged"] == 0


def autoregressions(rng, chains, draws, quantities, rho):
    """Stationary, of variance 1; the autocorrelation time is (1 + rho) / (1 - rho)."""
    steps = rng.normal(scale=np.sqrt(1 - rho**2), size=(chains, draws, quantities))
    steps[:, 0] = rng.normal(size=(chains, quantities))
    return lfilter([1.0], [1.0, -rho], steps, axis=1)


def test_the_limit_is_a_quantile_of_chains_that_agree_and_cells_known_by_batches_have_such_limits_too():
    """Of 1,000 quantities 2% at most, by the docstring 0.8% to 2.4%: with four standard deviations, 0.1% to 4%.

    At 0.5%, with 130 effective draws a chain and 32 batches, of 2,000 cells: 0.1% to 1.4% with four standard deviations.
    """
    draws = autoregressions(np.random.default_rng(21), 2, 600, 1000, 0.7)
    over = np.mean(chain_statistics(draws).rhat > rhat_by_chance(draws, 0.01, 1.0, 9.0))
    assert 0.001 < over < 0.04
    draws = autoregressions(np.random.default_rng(22), 2, 1024, 2000, 0.8)
    sums = draws.reshape(2, 32, 32, -1).sum(axis=2).transpose(0, 2, 1)
    squares = np.square(draws - draws.mean(axis=1, keepdims=True)).sum(axis=1)
    _, rhat, times = batch_diagnostics(sums, np.zeros((2, 2000)), squares, [1024, 1024], 32)
    limits = cell_limits(rhat[:1], times, 2, 1024, 32, 1)
    assert 0.001 < np.mean(rhat > limits) < 0.014
    assert np.mean(rhat > 1.01) > 0.05
    shifted = sums + 32 * 0.8 * np.arange(2)[:, None, None]
    _, rhat, times = batch_diagnostics(shifted, np.zeros((2, 2000)), squares, [1024, 1024], 32)
    assert np.mean(rhat > cell_limits(rhat[:1], times, 2, 1024, 32, 1)) > 0.8


@pytest.mark.parametrize("bad", ["slow drift", "two modes", "one chain apart"])
def test_one_bad_quantity_among_slow_ones_is_found_and_named(bad):
    """5 runs each: none is called converged, all are called bad and name it, 4 or more by R-hat."""
    rng, by_rhat = np.random.default_rng(24), 0
    for _ in range(5):
        x, noise = autoregressions(rng, 4, 1000, 40, 0.6), rng.normal(size=(4, 1000))
        if bad == "slow drift":
            x[..., 17] = noise + np.cumsum(rng.normal(scale=0.05, size=(4, 1000)), axis=1)
        elif bad == "two modes":  # four standard deviations apart; a chain goes over once in 1,000 draws
            x[..., 17] = noise + 4.0 * (
                (np.cumsum(rng.random((4, 1000)) < 0.001, axis=1) + rng.integers(2, size=(4, 1))) % 2
            )
        else:  # by a standard deviation, of chains that move slowly
            x[..., 17] += np.array([[1.0], [0.0], [0.0], [0.0]])
        own = verdict_of_counts(x)
        assert own["verdict"] == "not converged"
        assert own["worst_quantities"].startswith("x[x_0=17] (")
        by_rhat += own["worst_rhat"] > own["rhat_limit"]
    assert by_rhat >= 4


def test_counts_and_parameters_are_judged_apart_and_chains_that_stand_still_are_the_worst_there_is():
    rng = np.random.default_rng(25)
    own = verdict_of_counts(rng.normal(size=(4, 500, 20)), mu=rng.normal(size=(4, 500)) + np.arange(4)[:, None])
    assert (own["verdict_counts"], own["verdict_parameters"]) == ("converged", "not converged")
    assert own["verdict"] == "not converged"
    assert own["message"].startswith("NOT converged, as far as can be told: counts are good, R-hat at most 1.00")
    assert "; parameters are bad, R-hat up to 1." in own["message"]
    assert "The worst of 1 beyond a limit: mu (R-hat 1." in own["message"]
    assert own["message"].lower().count("not converged") == 1
    assert "draws_needed" not in own
    assert own["message"].endswith("How many draws would do cannot be told from these chains: perhaps no number does.")
    # At different values, with an effective sample size that is not looked at: R-hat alone condemns them (tests of chains).
    ratios, sizes = np.array([1.0, np.inf]), np.array([4e3, 4e3])
    alone = Worst.of("x", "counts", ratios, np.full(2, 1.01), sizes, 4, "x{}".format, stuck=False)
    assert verdict_of([alone], 4, 1024)["verdict"] == "not converged"
    assert "R-hat up to inf" in verdict_of([alone], 4, 1024)["message"]
    near = Worst.of("x", "counts", np.array([1.3, 1.2]), np.array([1.5, 1.05]), sizes, 4, "x{}".format, stuck=False)
    assert (near.named[0][0], near.rhat, near.beyond) == (
        "x1",
        1.2,
        1,
    )  # the smaller, with a limit that is smaller still


def test_so_many_draws_are_needed():
    """Right within a factor of two, from 25 effective draws a chain on: with it most runs are good, with half of it few."""
    rng, draws, rho, quantities = np.random.default_rng(26), 400, 0.8, 20
    own = [verdict_of_counts(autoregressions(rng, 4, draws, quantities, rho)) for _ in range(6)]
    needed = sorted(one["draws_needed"] for one in own)
    usual = int(np.median(needed))
    assert draws < needed[0]
    assert usual / 2 < needed[0] <= needed[-1] < 2 * usual
    assert f"Some {own[0]['draws_needed']:,.0f} draws a chain would do" in own[0]["message"]
    for number, fewest, most in ((usual, 4, 6), (usual // 2, 0, 1)):
        runs = [verdict_of_counts(autoregressions(rng, 4, number, quantities, rho)) for _ in range(6)]
        assert fewest <= sum(one["converged"] for one in runs) <= most
