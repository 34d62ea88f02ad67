"""`bdp.fit_hierarchy` against posteriors whose tables are all listed."""

import json
import os
import signal
import threading
from unittest.mock import Mock

import numpy as np
import pytest
import xarray as xr
from scipy.stats import nbinom

import bayesdp as bdp
from bayesdp.hierarchies.modes import compare_entries
from bayesdp.hierarchies.priors import FixedNegativeBinomial
from bayesdp.streaming import chains, fitting, result
from tests.comparison.enumeration import probabilities
from tests.comparison.variation import assert_close_in_variation
from tests.noisy_sums import indices
from tests.streaming.cases import FRAME, PRIOR, TRUTH, posterior, small_release

pytestmark = pytest.mark.system
RATE = 1e-6  # false alarms of each comparison
DRAWS, TABLES = 3_500, 300
RELEASE = small_release()
BY_COUNTY = bdp.Margins(FRAME, ["county", "race"])
QUICK = {"draws": 60, "tune": 20, "random_seed": 5, "quiet": True}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    pytest.importorskip("pyarrow")
    record, path = {"x": bdp.Identity(FRAME), "areas": BY_COUNTY}, tmp_path_factory.getbasetemp() / "tables.parquet"
    run = {"draws": DRAWS, "tune": 300, "tables": TABLES, "tables_path": path, "random_seed": 11, "quiet": True}
    return bdp.fit_hierarchy(RELEASE, PRIOR, record=record, **run)


def test_draws_have_the_posterior_and_answers_and_cells_are_those_of_the_draws(tree):
    tables, probability = posterior(RELEASE)
    draws, cells, areas, both = tree["posterior"]["x"], tree["cells"], tree["posterior"]["areas"], ("chain", "draw")
    assert_close_in_variation(indices(tables, draws), probability, rate=RATE, largest=0.3)
    np.testing.assert_array_equal(BY_COUNTY.apply(draws.values), areas.values)
    assert (areas.dims, areas.dtype) == (("chain", "draw", "county", "race"), np.int64)
    assert areas["county"].values.tolist() == ["A", "B"]
    assert draws["tract"].values.tolist() == ["t1", "t2", "t3"]
    np.testing.assert_allclose(cells["mean"], draws.mean(both), rtol=1e-12)
    np.testing.assert_allclose(cells["sd"], draws.std(both, ddof=1), rtol=1e-10)
    np.testing.assert_allclose(cells["chain_mean"].transpose("chain", ...), draws.mean("draw"), rtol=1e-12)
    np.testing.assert_allclose(cells["probability"].sel(value=1), (draws == 1).mean(both), rtol=1e-6)
    exact = np.quantile(draws.values, cells["share"].values, axis=(0, 1), method="inverted_cdf")
    np.testing.assert_array_equal(cells["quantile"].transpose("share", ...), exact)
    assert (cells["width"] == 1).all()
    assert (cells["ess"] > 400).all()


def test_the_verdict_and_what_else_is_in_the_result(tree, tmp_path_factory):
    diagnostics = tree["diagnostics"]
    assert diagnostics.attrs["verdict"] == "converged", diagnostics.attrs["message"]
    assert diagnostics.attrs["missed_modes_disagreeing"] == 0
    assert diagnostics["x_ess_bulk"].dims == FRAME.dims
    assert (tree.attrs["prior"], tree.attrs["seed"]) == (PRIOR.formula, "11")
    assert json.loads(tree.attrs["sampler"])["draws"] == DRAWS
    assert bdp.Release.from_dataset(tree["release"].to_dataset()) == RELEASE
    assert tree["cells"]["county"].to_series().to_dict() == {"t1": "A", "t2": "B", "t3": "A"}
    read = pytest.importorskip("pyarrow.parquet").read_table(tmp_path_factory.getbasetemp() / "tables.parquet")
    assert b"NegativeBinomial" in read.schema.metadata[b"bayesdp_prior"]
    tables = read.to_pandas().groupby("table")
    assert (tables["count"].sum() == 5).all()
    assert list(tables.groups) == list(range(TABLES))
    for number in (0, 17, TABLES - 1):  # plausible tables are draws
        own = tables.get_group(number).set_index(["age", "tract", "race"])
        kept = tree["posterior"]["x"].isel(chain=own["chain"].iloc[0], draw=own["draw"].iloc[0]).to_series()
        assert kept[kept > 0].to_dict() == own["count"].to_dict()
    for more, verdicts in (({"chains": 1}, ["not judged"]), ({"draws": 4}, ["not judged", "not converged"])):
        assert bdp.fit_hierarchy(RELEASE, PRIOR, **{**QUICK, **more})["diagnostics"].attrs["verdict"] in verdicts


def test_the_draws_do_not_depend_on_the_number_of_threads_and_more_than_memory_is_refused(monkeypatch):
    one, two = (bdp.fit_hierarchy(RELEASE, PRIOR, record=BY_COUNTY, cores=cores, thin=2, **QUICK) for cores in (1, 2))
    for group in ("posterior", "cells"):
        xr.testing.assert_identical(one[group].to_dataset(), two[group].to_dataset())
    other = bdp.fit_hierarchy(RELEASE, PRIOR, record=BY_COUNTY, **{**QUICK, "random_seed": 6})
    own = one["posterior"]["by_county_race"]
    assert not (own == other["posterior"]["by_county_race"]).all()
    assert not (own[0] == own[1]).all()
    monkeypatch.setattr("bayesdp.inference.memory.available_memory", lambda: 10_000)
    message = r"about .* MB of memory, and 0\.0 MB are available.*fewer `cores`.*fewer `chains`, `bins`.*larger `thin`"
    with pytest.raises(MemoryError, match=message):
        bdp.fit_hierarchy(RELEASE, PRIOR, **QUICK)
    bdp.fit_hierarchy(RELEASE, PRIOR, memory_check=False, **QUICK)


class Odds:
    """One hyperparameter, log odds of the negative binomial cells, with a grid of values: a prior whose law can be listed."""

    family = "negbin"
    names = {"level": ("leaf",), "spread": ("cell",), "odds": ()}  # noqa: RUF012
    formula = "odds uniform on -1.2, -0.8, -0.4"
    grid = np.array([-1.2, -0.8, -0.4])

    def start(self, tree, counts):
        return {"level": np.arange(3.0), "spread": np.arange(4.0), "odds": np.array(-0.8)}

    def weight(self, counts):
        return probabilities(counts.sum() * self.grid + 0.7 * 12 * np.log(-np.expm1(self.grid)))

    def update(self, tree, counts, hyper, rng):
        return {**hyper, "odds": np.array(rng.choice(self.grid, p=self.weight(counts)))}

    def weights(self, tree, hyper):
        return np.full((1, 4), float(hyper["odds"])), np.full((1, 4), 0.7)


def test_hyperparameters_are_drawn_given_the_table_and_normal_noise_without_anything_exact():
    tree = bdp.fit_hierarchy(RELEASE, Odds(), draws=1_500, tune=50, random_seed=2, quiet=True)
    draws = tree["posterior"]
    # The total is exact, so that the law of the odds does not depend on anything else.
    index = np.searchsorted(Odds.grid, draws["odds"].values)
    assert_close_in_variation(index, Odds().weight(np.array([5])), rate=RATE)
    assert draws["level"].dims == ("chain", "draw", "tract")
    # The tree's order of leaves is t1, t3, t2: A before B.
    assert draws["level"].isel(chain=0, draw=0).to_series().to_dict() == {"t1": 0.0, "t2": 2.0, "t3": 1.0}
    assert draws["spread"].dims == ("chain", "draw", "age", "race")
    assert float(draws["spread"].isel(chain=0, draw=0).sel(age="young", race="b")) == 1.0
    frame = {"tract": ["a", "b"], "age": ["y", "o"]}
    cells = bdp.Measured(bdp.Identity(frame), [[1.3, 2.2], [-1.7, 0.4]], bdp.noise.Gaussian(1.5))
    ages = bdp.Measured(bdp.Margins(frame, ["age"]), [1.2, 3.1], bdp.noise.Gaussian(0.8))
    release, prior = bdp.Release.from_published(frame, [cells, ages]), FixedNegativeBinomial(1.0, 0.5)
    tree = bdp.fit_hierarchy(release, prior, record={"x": bdp.Identity(frame)}, draws=2_000, random_seed=1, quiet=True)
    tables = np.indices((11,) * 4).reshape(4, -1).T.reshape(-1, 2, 2)  # more has mass below 1e-6
    logs = nbinom.logpmf(tables, 0.5, 0.5 / 1.5).sum(axis=(1, 2)) - ((cells.values - tables) ** 2).sum((1, 2)) / 4.5
    logs -= ((ages.values - tables.sum(axis=1)) ** 2).sum(axis=1) / 1.28
    probability, draws = probabilities(logs), tree["posterior"]["x"].values
    for weights in (*np.eye(4, dtype=int), np.ones(4, dtype=int)):
        exact = np.bincount(tables.reshape(-1, 4) @ weights, probability)
        assert_close_in_variation(draws.reshape(*draws.shape[:2], 4) @ weights, exact, rate=RATE)


def test_chains_that_stay_and_hyperparameters_that_mix_slowly_have_not_converged(monkeypatch, caplog):
    # The table alone passes: what is worst is the hyperparameter. The verdict is told, as `bdp.sample` does.
    run = {"draws": 400, "tune": 50, "random_seed": 2, "progressbar": False}
    found = bdp.fit_hierarchy(RELEASE, Slow(), **run)["diagnostics"]
    told = found.attrs
    assert [record.message for record in caplog.records] == [told["message"]]
    bdp.fit_hierarchy(RELEASE, Slow(), **run, quiet=True)
    assert len(caplog.records) == 1
    verdicts = [told[name] for name in ("verdict_counts", "verdict_parameters", "verdict")]
    assert verdicts == ["converged", "not converged", "not converged"]
    assert told["worst_quantities"].startswith("odds (R-hat ")
    assert float(found["odds_rhat"]) == told["worst_rhat"] > 1.1
    assert float(found["odds_ess_bulk"]) < 30
    monkeypatch.setattr(chains.Chain, "sweep", lambda *_: None)
    tree = bdp.fit_hierarchy(RELEASE, PRIOR, record=BY_COUNTY, **{**QUICK, "draws": 400})
    told = tree["diagnostics"].attrs
    assert [told[name] for name in ("verdict", "converged", "missed_modes")] == ["not converged", 0, "disagree"]
    assert "Chains disagree in" in told["message"]
    assert np.isinf(tree["cells"]["rhat"]).any()


class Slow(Odds):
    """A hyperparameter that moves by a hundredth of its range, and never changes the weights of the table."""

    def update(self, tree, counts, hyper, rng):
        return {**hyper, "odds": hyper["odds"] + rng.normal(0.0, 0.01)}

    def weights(self, tree, hyper):
        return np.full((1, 4), -0.8), np.full((1, 4), 0.7)


def test_cells_of_sums_of_at_most_zero_are_told_and_groups_are_compared_by_their_own_cells(monkeypatch):
    """Of a table whose leaves are in the middle, in another order than the tree has, where some cells do not move."""
    kinds = bdp.Margins(FRAME, ["tract", "age"])
    most = np.where(kinds.apply(TRUTH) == 0, 0, 9)
    exact = [*RELEASE.exact, bdp.Exact(kinds, most, "<=")]
    limited, seen = bdp.Release.from_published(FRAME, RELEASE.measurements, exact), []

    def compared(tied, means, sds, ess, *, several):
        assert several
        seen.append((tied.structure, tied.groups, means, sds))
        return compare_entries(tied, means, sds, ess)

    monkeypatch.setattr(result, "compare_entries", compared)
    cells = bdp.fit_hierarchy(limited, PRIOR, **QUICK)["cells"]
    [(structure, (start, cell), means, sds, *_)] = seen
    zero = np.broadcast_to((most == 0)[..., None], FRAME.shape)  # age by tract by race
    assert 0 < zero.sum() < FRAME.size
    for name, value in (("mean", 0.0), ("sd", 0.0), ("width", 1)):
        assert (cells[name].values[zero] == value).all()
    assert cells.attrs["moving_cells"] == FRAME.size - zero.sum()
    assert cells["probability"].dims == ("value", *FRAME.dims)
    leaf = np.repeat(np.arange(len(start)), start[:, -1] - start[:, 0])
    for name, found in (("chain_mean", means), ("chain_sd", sds)):
        tables = [structure.leaves_by_cells(own.reshape(-1)) for own in cells[name].values]
        np.testing.assert_array_equal(found, np.array(tables)[:, leaf, cell])
    assert means.any()


def _at(monkeypatch, when, what):
    """Do something once, at the first sweep of a chain of which that is true."""
    own, done = chains.Chain.sweep, threading.Event()

    def sweep(self, kernel, prior):
        if when(self) and not done.is_set():
            done.set()
            what()
        own(self, kernel, prior)

    monkeypatch.setattr(chains.Chain, "sweep", sweep)


def test_an_interrupt_keeps_what_was_drawn_and_before_the_draws_it_is_one(monkeypatch, tmp_path, capsys):
    pytest.importorskip("pyarrow")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with monkeypatch.context() as patch:
            _at(patch, lambda chain: chain.draws == 900, lambda: os.kill(os.getpid(), signal.SIGINT))
            given = {**QUICK, "draws": 100_000, "record": BY_COUNTY, "tables_path": tmp_path / "t.parquet"}
            tree = bdp.fit_hierarchy(RELEASE, PRIOR, **given)
        _at(monkeypatch, lambda chain: chain.done == 3, lambda: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            bdp.fit_hierarchy(RELEASE, PRIOR, **{**QUICK, "tune": 100_000})
    finally:
        signal.signal(signal.SIGINT, before)
    assert tree.attrs["interrupted"] == 1
    assert 4 <= tree["posterior"].sizes["draw"] < 100_000
    assert tree["diagnostics"].attrs["verdict"] != "converged"
    assert "interrupted" in capsys.readouterr().err
    np.testing.assert_allclose(tree["cells"]["mean"].sum(), 5.0)
    assert (tree["posterior"]["by_county_race"].sum(("county", "race")) == 5).all()
    assert list(tmp_path.iterdir()) == []


def test_an_error_in_one_chain_ends_the_others_and_one_in_the_tables_keeps_the_draws(monkeypatch, tmp_path):
    pytest.importorskip("pyarrow")
    given = {**QUICK, "record": BY_COUNTY, "tables_path": tmp_path / "t.parquet"}
    with monkeypatch.context() as patch:
        _at(patch, lambda chain: chain.number == 1 and chain.done == 30, lambda: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            bdp.fit_hierarchy(RELEASE, PRIOR, **{**given, "draws": 10**6, "cores": 2})
    assert list(tmp_path.iterdir()) == []
    full = Mock(side_effect=OSError(28, "No space left on device"))
    monkeypatch.setattr(fitting, "write_tables", full)
    with pytest.raises(OSError, match="No space left") as caught:
        bdp.fit_hierarchy(RELEASE, PRIOR, **given)
    assert caught.value.draws["posterior"].sizes["draw"] == 60
