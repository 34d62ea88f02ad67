"""`bdp.fit_hierarchy` against posteriors whose tables are all listed."""

import json
import os
import signal
import threading

import numpy as np
import pytest
import scipy.sparse as sp
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

RATE = 1e-6
"""False alarms of each comparison."""

DRAWS, TABLES = 6_000, 300
BY_COUNTY = bdp.Margins(FRAME, ["county", "race"])
QUICK = {"draws": 60, "tune": 20, "random_seed": 5, "quiet": True}


@pytest.fixture(scope="module")
def release():
    return small_release()


@pytest.fixture(scope="module")
def truth(release):
    return posterior(release)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("tables") / "tables.parquet"


@pytest.fixture(scope="module")
def tree(release, path):
    pytest.importorskip("pyarrow")
    return bdp.fit_hierarchy(
        release, PRIOR, record={"x": bdp.Identity(FRAME), "areas": BY_COUNTY}, draws=DRAWS, tune=300, tables=TABLES,
        tables_path=path, random_seed=11, quiet=True,
    )  # fmt: skip


def _within(found, expected, sd, ess):
    """Means of so many effective draws: 5.5 standard errors, and so a false alarm in 25 million for each; a draw's weight besides."""
    np.testing.assert_array_less(np.abs(found - expected), 5.5 * sd / np.sqrt(ess) + 3.0 / ess)


@pytest.mark.system
def test_the_recorded_cells_have_the_posterior(tree, truth):
    tables, probability = truth
    assert_close_in_variation(indices(tables, tree["posterior"]["x"]), probability, rate=RATE, largest=0.3)


@pytest.mark.system
def test_recorded_answers_are_those_of_the_recorded_cells(tree):
    draws = tree["posterior"]
    np.testing.assert_array_equal(BY_COUNTY.apply(draws["x"].values), draws["areas"].values)
    assert draws["areas"].dims == ("chain", "draw", "county", "race")
    assert draws["areas"].dtype == np.int64
    assert draws["areas"]["county"].values.tolist() == ["A", "B"]
    assert draws["x"]["tract"].values.tolist() == ["t1", "t2", "t3"]


@pytest.mark.system
def test_cells_have_the_posterior(tree, truth):
    tables, probability = truth
    cells = tree["cells"]
    mean = np.tensordot(probability, tables, 1)
    sd = np.sqrt(np.tensordot(probability, (tables - mean) ** 2, 1))
    ess = cells["ess"].values
    assert (ess > 400).all()
    _within(cells["mean"].values, mean, sd, ess)
    _within(
        cells["sd"].values ** 2, sd**2, np.sqrt(np.tensordot(probability, ((tables - mean) ** 2 - sd**2) ** 2, 1)), ess
    )
    for value in range(16):
        share = np.tensordot(probability, (tables == value).astype(float), 1)
        _within(cells["probability"].sel(value=value).values, share, np.sqrt(share * (1 - share)), ess / 2)
    for share in cells["share"].values:
        found = cells["quantile"].sel(share=share).values
        below = np.tensordot(probability, (tables < found).astype(float), 1)
        upto = np.tensordot(probability, (tables <= found).astype(float), 1)
        slack = 5.5 * np.sqrt(share * (1 - share) / (ess / 2))
        assert (below <= share + slack).all()
        assert (upto >= share - slack).all()


@pytest.mark.system
def test_cells_are_summaries_of_the_draws(tree):
    """The same draws in two ways: kept, and not kept."""
    cells, draws = tree["cells"], tree["posterior"]["x"]
    both = ("chain", "draw")
    np.testing.assert_allclose(cells["mean"], draws.mean(both), rtol=1e-12)
    np.testing.assert_allclose(cells["sd"], draws.std(both, ddof=1), rtol=1e-10)
    np.testing.assert_allclose(cells["chain_mean"].transpose("chain", ...), draws.mean("draw"), rtol=1e-12)
    np.testing.assert_allclose(cells["probability"].sel(value=1), (draws == 1).mean(both), rtol=1e-6)
    exact = np.quantile(draws.values, cells["share"].values, axis=(0, 1), method="inverted_cdf")
    np.testing.assert_array_equal(cells["quantile"].transpose("share", ...), exact)
    assert (cells["width"] == 1).all()


@pytest.mark.system
def test_plausible_tables_are_draws_and_keep_the_total(tree, path):
    parquet = pytest.importorskip("pyarrow.parquet")
    read = parquet.read_table(path)
    frame = read.to_pandas()
    assert sorted(frame["table"].unique()) == list(range(TABLES))
    assert (frame.groupby("table")["count"].sum() == 4 + 1).all()
    draws = tree["posterior"]["x"]
    for number in (0, 17, TABLES - 1):
        own = frame[frame["table"] == number]
        kept = draws.isel(chain=int(own["chain"].iloc[0]), draw=int(own["draw"].iloc[0]))
        for row in own.itertuples():
            assert int(kept.sel(age=row.age, tract=row.tract, race=row.race)) == row.count
        assert int((kept > 0).sum()) == len(own)
    assert b"NegativeBinomial" in read.schema.metadata[b"bayesdp_prior"]
    assert read.schema.metadata[b"bayesdp_seed"] == b"11"


@pytest.mark.system
def test_the_verdict_and_what_else_is_in_the_result(tree, release):
    diagnostics = tree["diagnostics"]
    assert diagnostics.attrs["verdict"] == "converged", diagnostics.attrs["message"]
    assert diagnostics["x_ess_bulk"].dims == FRAME.dims
    assert tree.attrs["prior"] == PRIOR.formula
    assert tree.attrs["seed"] == "11"
    assert json.loads(tree.attrs["sampler"])["draws"] == DRAWS
    assert bdp.Release.from_dataset(tree["release"].to_dataset()) == release
    assert tree["cells"]["county"].to_series().to_dict() == {"t1": "A", "t2": "B", "t3": "A"}
    assert all(own.attrs["meaning"] for own in tree["cells"].data_vars.values())


@pytest.mark.system
def test_the_draws_do_not_depend_on_the_number_of_threads(release):
    one, two = (bdp.fit_hierarchy(release, PRIOR, record=BY_COUNTY, cores=cores, thin=2, **QUICK) for cores in (1, 2))
    xr.testing.assert_identical(one["posterior"].to_dataset(), two["posterior"].to_dataset())
    xr.testing.assert_identical(one["cells"].to_dataset(), two["cells"].to_dataset())
    other = bdp.fit_hierarchy(release, PRIOR, record=BY_COUNTY, **{**QUICK, "random_seed": 6})
    assert not (one["posterior"]["by_county_race"] == other["posterior"]["by_county_race"]).all()
    assert not (one["posterior"]["by_county_race"][0] == one["posterior"]["by_county_race"][1]).all()


@pytest.mark.system
def test_normal_noise_without_anything_exact():
    frame = {"tract": ["a", "b"], "age": ["y", "o"]}
    parts = [
        bdp.Measured(bdp.Identity(frame), [[1.3, 2.2], [-1.7, 0.4]], bdp.noise.Gaussian(1.5)),
        bdp.Measured(bdp.Margins(frame, ["age"]), [1.2, 3.1], bdp.noise.Gaussian(0.8)),
    ]
    release = bdp.Release.from_published(frame, parts)
    prior = FixedNegativeBinomial(1.0, 0.5)
    tree = bdp.fit_hierarchy(release, prior, record={"x": bdp.Identity(frame)}, draws=3_000, random_seed=1, quiet=True)
    tables = np.stack(np.meshgrid(*[np.arange(11)] * 4, indexing="ij"), -1).reshape(
        -1, 2, 2
    )  # more has mass below 1e-6
    logs = nbinom.logpmf(tables, 0.5, 0.5 / 1.5).sum(axis=(1, 2))
    logs -= ((parts[0].values - tables) ** 2).sum(axis=(1, 2)) / (2 * 1.5**2)
    logs -= ((parts[1].values - tables.sum(axis=1)) ** 2).sum(axis=1) / (2 * 0.8**2)
    probability = probabilities(logs)
    for cell in ((0, 0), (0, 1), (1, 0), (1, 1)):
        exact = np.bincount(tables[:, *cell], probability)
        assert_close_in_variation(tree["posterior"]["x"].values[:, :, *cell], exact, rate=RATE)
    exact = np.bincount(tables.sum(axis=(1, 2)), probability)
    assert_close_in_variation(tree["posterior"]["x"].values.sum(axis=(2, 3)), exact, rate=RATE)


class Odds:
    """One hyperparameter, log odds of the negative binomial cells, with a grid of values: a prior whose law can be listed."""

    family = "negbin"
    names = {"level": ("leaf",), "spread": ("cell",), "odds": ()}  # noqa: RUF012
    formula = "odds uniform on -1.2, -0.8, -0.4"
    grid = np.array([-1.2, -0.8, -0.4])

    def start(self, tree, counts):
        return {"level": np.arange(3.0), "spread": np.arange(4.0), "odds": np.array(-0.8)}

    def weight(self, counts):
        logs = counts.sum() * self.grid + 0.7 * 12 * np.log(-np.expm1(self.grid))
        return np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()

    def update(self, tree, counts, hyper, rng):
        return {**hyper, "odds": np.array(rng.choice(self.grid, p=self.weight(counts)))}

    def weights(self, tree, hyper):
        return np.full((1, 4), float(hyper["odds"])), np.full((1, 4), 0.7)


@pytest.mark.system
def test_hyperparameters_are_drawn_given_the_table_and_kept_with_labels(release):
    tree = bdp.fit_hierarchy(release, Odds(), draws=3_000, tune=50, random_seed=2, quiet=True)
    draws = tree["posterior"]
    # The total is exact, so that the law of the odds does not depend on anything else.
    expected = Odds().weight(np.array([5]))
    index = np.searchsorted(Odds.grid, draws["odds"].values)
    assert_close_in_variation(index, expected, rate=RATE)
    assert draws["level"].dims == ("chain", "draw", "tract")
    # The tree's order of leaves is t1, t3, t2: A before B.
    assert draws["level"].isel(chain=0, draw=0).to_series().to_dict() == {"t1": 0.0, "t2": 2.0, "t3": 1.0}
    assert draws["spread"].dims == ("chain", "draw", "age", "race")
    assert float(draws["spread"].isel(chain=0, draw=0).sel(age="young", race="b")) == 1.0


@pytest.mark.system
def test_chains_that_stay_where_they_start_have_not_converged(release, monkeypatch):
    monkeypatch.setattr(chains.Chain, "sweep", lambda *_: None)
    tree = bdp.fit_hierarchy(release, PRIOR, record=BY_COUNTY, **{**QUICK, "draws": 400})
    attributes = tree["diagnostics"].attrs
    assert attributes["verdict"] == "not converged"
    assert attributes["converged"] == 0
    assert attributes["missed_modes"] == "disagree"
    assert "Chains disagree in" in attributes["message"]
    assert np.isinf(tree["cells"]["rhat"]).any()


class Slow(Odds):
    """A hyperparameter that moves by a hundredth of its range, and never changes the weights of the table."""

    def update(self, tree, counts, hyper, rng):
        return {**hyper, "odds": hyper["odds"] + rng.normal(0.0, 0.01)}

    def weights(self, tree, hyper):
        return np.full((1, 4), -0.8), np.full((1, 4), 0.7)


@pytest.mark.system
def test_a_hyperparameter_that_mixes_slowly_is_in_the_verdict(release, caplog):
    """The table alone passes: what is worst is the hyperparameter. The verdict is told, as `bdp.sample` does."""
    run = {"draws": 400, "tune": 50, "random_seed": 2, "progressbar": False}
    attributes = bdp.fit_hierarchy(release, Slow(), **run)["diagnostics"]
    assert [record.message for record in caplog.records] == [attributes.attrs["message"]]
    bdp.fit_hierarchy(release, Slow(), **run, quiet=True)
    assert len(caplog.records) == 1
    assert (attributes.attrs["verdict_counts"], attributes.attrs["verdict_parameters"]) == (
        "converged",
        "not converged",
    )
    assert attributes.attrs["worst_quantities"].startswith("odds (R-hat ")
    assert attributes.attrs["verdict"] == "not converged"
    assert float(attributes["odds_rhat"]) == attributes.attrs["worst_rhat"] > 1.1
    assert float(attributes["odds_ess_bulk"]) < 30


@pytest.mark.system
def test_chains_that_meet_pass_the_check_for_missed_modes(tree):
    assert tree["diagnostics"].attrs["missed_modes"] in ("none found", "not judged")
    assert tree["diagnostics"].attrs["missed_modes_disagreeing"] == 0


@pytest.mark.system
def test_cells_of_sums_of_at_most_zero_are_told_and_groups_are_compared_by_their_own_cells(release, monkeypatch):
    """Of a table whose leaves are in the middle, in another order than the tree has, where some cells do not move."""
    kinds = bdp.Margins(FRAME, ["tract", "age"])
    most = np.where(kinds.apply(TRUTH) == 0, 0, 9)
    limited = bdp.Release.from_published(
        FRAME, release.measurements, [*release.exact, bdp.Exact(kinds, most, "<=")]
    )  # fmt: skip
    seen = []

    def compared(tied, means, sds, ess, *, several):
        assert several
        seen.append((tied.structure, tied.groups, means, sds))
        return compare_entries(tied, means, sds, ess)

    monkeypatch.setattr(result, "compare_entries", compared)
    cells = bdp.fit_hierarchy(limited, PRIOR, **QUICK)["cells"]
    [(structure, (start, cell), means, sds)] = seen
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


@pytest.mark.system
def test_one_chain_and_few_draws_are_not_judged(release):
    one = bdp.fit_hierarchy(release, PRIOR, chains=1, **QUICK)["diagnostics"].attrs
    assert one["verdict"] == "not judged"
    few = bdp.fit_hierarchy(release, PRIOR, **{**QUICK, "draws": 4})
    assert few["diagnostics"].attrs["verdict"] != "converged"
    assert few["cells"]["mean"].sum() == pytest.approx(5.0)


def _laplace_release():
    return bdp.Release.from_published(
        FRAME, [bdp.Measured(bdp.Identity(FRAME), np.ones(FRAME.shape, dtype=int), bdp.noise.DiscreteLaplace(2.0))]
    )


def _clipped_release():
    law = bdp.noise.BoundaryInflatedDiscreteGaussian(2.0, (0, 9))
    return bdp.Release.from_published(FRAME, [bdp.Measured(bdp.Identity(FRAME), np.ones(FRAME.shape, dtype=int), law)])


def _statistics():
    frame = {"sex": ["f", "m"]}
    return bdp.Release.from_published(
        frame, [bdp.Measured(bdp.Identity(frame), [1.5, 2.0], bdp.noise.Gaussian(1.0))], about="statistics"
    )


def _no_tree():
    frame = {
        "tract": ["a", "b", "c"],
        "age": ["y", "o"],
        "g": ("tract", ["1", "1", "2"]),
        "h": ("tract", ["1", "2", "2"]),
    }
    parts = [bdp.Measured(bdp.Margins(frame, [name]), [3, 4], bdp.noise.DiscreteGaussian(2.0)) for name in ("g", "h")]
    return bdp.Release.from_published(frame, parts)


def _weighted_release():
    query = bdp.LinearQuery(FRAME, sp.csr_array(np.arange(12)[None]), ["score"])
    return bdp.Release.from_published(FRAME, [bdp.Measured(query, [20], bdp.noise.DiscreteGaussian(2.0))])


@pytest.mark.parametrize(
    ("make", "prior", "error", "message"),
    [
        (
            _clipped_release,
            PRIOR,
            NotImplementedError,
            "'boundary-inflated-discrete-gaussian': put the release into a model",
        ),
        (
            _weighted_release,
            PRIOR,
            NotImplementedError,
            "hierarchies take sums of cells, and .* is none: put the release",
        ),
        (lambda: "release", PRIOR, TypeError, "release must be a bayesdp.Release, got str"),
        (_statistics, PRIOR, ValueError, "release is about statistics"),
        (
            _laplace_release,
            PRIOR,
            NotImplementedError,
            r"is 'discrete-laplace': put the release into a model with bdp.observe",
        ),
        (
            _no_tree,
            FixedNegativeBinomial(1.0, 1.0),
            ValueError,
            "release is no hierarchy: the groups 'g' and 'h' of 'tract' do not nest",
        ),
        (small_release, 3.0, TypeError, "prior must be a prior of the cells of a hierarchy"),
    ],
)
def test_what_cannot_be_fitted(make, prior, error, message):
    with pytest.raises(error, match=message):
        bdp.fit_hierarchy(make(), prior, leaves="tract", **QUICK)


@pytest.mark.system
@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"draws": 3}, ValueError, "draws must be at least 4"),
        ({"draws": 0}, ValueError, "draws"),
        ({"draws": 10.5}, TypeError, "draws"),
        ({"chains": 0}, ValueError, "chains"),
        ({"thin": 0}, ValueError, "thin"),
        ({"bins": 4}, ValueError, "bins must be at least 8"),
        ({"batches": 4}, ValueError, "batches must be at least 8"),
        ({"quantiles": (0.5, 1.5)}, ValueError, "quantiles"),
        ({"quantiles": 0.5}, TypeError, "quantiles"),
        ({"leaves": "block"}, ValueError, "leaves must be a dimension of the table .*, got 'block'"),
        ({"random_seed": "one"}, TypeError, "seed"),
        ({"record": "race"}, TypeError, "record must be queries"),
        ({"tables": 0, "tables_path": "t.parquet"}, ValueError, "tables"),
    ],
)
def test_arguments(release, given, error, message):
    with pytest.raises(error, match=message):
        bdp.fit_hierarchy(release, PRIOR, **{**QUICK, **given})


@pytest.mark.system
def test_more_than_memory_is_refused_before_sampling(release, monkeypatch):
    monkeypatch.setattr("bayesdp.inference.memory.available_memory", lambda: 10_000)
    message = (
        r"needs about .* MB of memory, and 0\.0 MB are available.*fewer `cores`.*fewer `chains`, `bins`.*larger `thin`"
    )
    with pytest.raises(MemoryError, match=message):
        bdp.fit_hierarchy(release, PRIOR, **QUICK)
    bdp.fit_hierarchy(release, PRIOR, memory_check=False, **QUICK)


def _interrupting(monkeypatch, when):
    """Press Ctrl-C when the second chain makes a draw or a sweep."""
    own = chains.Chain.sweep
    seen = threading.Event()

    def sweep(self, kernel, prior):
        if when(self) and not seen.is_set():
            seen.set()
            os.kill(os.getpid(), signal.SIGINT)
        own(self, kernel, prior)

    monkeypatch.setattr(chains.Chain, "sweep", sweep)


@pytest.fixture
def own_interrupts():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.system
def test_an_interrupt_keeps_what_was_drawn(release, monkeypatch, tmp_path, capsys, own_interrupts):
    pytest.importorskip("pyarrow")
    _interrupting(monkeypatch, lambda chain: chain.draws == 900)
    given = {**QUICK, "draws": 100_000, "record": BY_COUNTY}
    tree = bdp.fit_hierarchy(release, PRIOR, tables_path=tmp_path / "t.parquet", **given)
    assert tree.attrs["interrupted"] == 1
    assert 4 <= tree["posterior"].sizes["draw"] < 100_000
    assert tree["diagnostics"].attrs["verdict"] != "converged"
    assert "interrupted" in capsys.readouterr().err
    draws = tree["posterior"]["by_county_race"]
    np.testing.assert_allclose(tree["cells"]["mean"].sum(), 5.0)
    assert (draws.sum(("county", "race")) == 5).all()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.system
def test_an_interrupt_before_the_draws_is_one(release, monkeypatch, own_interrupts):
    _interrupting(monkeypatch, lambda chain: chain.done == 3)
    with pytest.raises(KeyboardInterrupt):
        bdp.fit_hierarchy(release, PRIOR, **{**QUICK, "tune": 100_000})


@pytest.mark.system
def test_an_error_in_one_chain_ends_the_others(release, monkeypatch, tmp_path):
    pytest.importorskip("pyarrow")
    own = chains.Chain.sweep

    def sweep(self, kernel, prior):
        if self.number == 1 and self.done == 30:
            raise ZeroDivisionError("in a chain")
        own(self, kernel, prior)

    monkeypatch.setattr(chains.Chain, "sweep", sweep)
    with pytest.raises(ZeroDivisionError, match="in a chain"):
        bdp.fit_hierarchy(release, PRIOR, tables_path=tmp_path / "t.parquet", **{**QUICK, "draws": 10**6, "cores": 2})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.system
def test_tables_that_cannot_be_written_do_not_lose_the_draws(release, monkeypatch, tmp_path):
    pytest.importorskip("pyarrow")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fitting, "write_tables", full)
    with pytest.raises(OSError, match="No space left") as caught:
        bdp.fit_hierarchy(release, PRIOR, record=BY_COUNTY, tables_path=tmp_path / "t.parquet", **QUICK)
    assert caught.value.draws["posterior"].sizes["draw"] == 60
