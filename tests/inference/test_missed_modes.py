"""Chains of hierarchies that cannot cross between modes are noticed, from `bayesdp.sample` to the words in its result."""

from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest

import bayesdp as bdp
from bayesdp.hierarchies import chain as chains
from bayesdp.hierarchies.kernel.sweeps import CROSS_CELLS, CROSS_DONORS, MIX
from bayesdp.hierarchies.modes import chain_number, numbered, read_codes, start_codes, to_ends
from bayesdp.inference import annotate
from bayesdp.inference.runs import recorded
from bayesdp.steps import reading
from bayesdp.steps.fiber_gibbs import ENDS
from tests.hierarchies.cases import CASES
from tests.inference.oracle import counts_model
from tests.inference.oracle import sample as quietly
from tests.noisy_sums import noisy_sums

LABELS = {"tract": [f"tract{i}" for i in range(4)], "age": ["young", "old"], "race": ["a", "b", "c"]}
LABELS["county"] = ("tract", ["p", "p", "q", "q"])
SHAPE = (4, 2, 3)
QUICK = {"chains": 2, "cores": 1, "random_seed": 3, "progressbar": False}


@pytest.fixture(autouse=True)
def _every_size(monkeypatch):
    monkeypatch.setattr(reading, "HIERARCHY_CELLS", 0)


@pytest.fixture(scope="module")
def model():
    """About 10 counts of each race in a tract: noise and prior leave open of which age, and are against some of both."""
    rng = np.random.default_rng(1)
    truth = rng.multinomial(240, np.full(24, 1.0 / 24.0)).reshape(SHAPE)
    measured = noisy_sums(LABELS, truth, ((("tract", "age", "race"), 25.0), (("tract", "race"), 0.8)), rng)
    release = bdp.Release.from_published(LABELS, measured, [bdp.Exact(bdp.Totals(LABELS), 240)])
    return counts_model(release, pm.NegativeBinomial.dist(mu=0.0195, alpha=0.001, shape=SHAPE))


def sample(model, draws=1_500, tune=300, **more):
    with model:
        return bdp.sample(draws=draws, tune=tune, **{**QUICK, "quiet": True, **more})


def test_chains_that_cross_agree_draws_of_pymc_say_the_same_and_of_a_start_of_the_user_nothing_is_said(model):
    good = sample(model)
    found = good["diagnostics"].attrs
    assert (found["verdict"], found["missed_modes"]) == ("converged", "none found"), found["message"]
    assert found["missed_modes_tested"] + found["missed_modes_alike"] == 12
    assert found["missed_modes_tested"] >= 10
    assert "no group was found in which they disagree" in found["message"]
    assert set(good["sample_stats"].data_vars) == {"fiber_changed", "fiber_accepted"}  # not where chains began
    tree = quietly(model, 1_500, tune=300, seed=3, nuts_sampler="pymc")
    assert f"{ENDS}x" in tree["sample_stats"]
    with model:
        annotate(tree, model)
    assert f"{ENDS}x" not in tree["sample_stats"]
    assert good["diagnostics"].attrs.items() <= tree["diagnostics"].attrs.items()
    start = np.zeros(SHAPE, dtype=int)
    start[:, 0, :] = 20
    found = sample(model, draws=100, tune=0, initvals={"x": start})["diagnostics"].attrs
    assert (found["missed_modes_tested"], found["missed_modes_alike"]) == (0, 12)
    assert found["missed_modes"] == "not judged"


def test_chains_that_cannot_cross_are_noticed(model, monkeypatch, caplog):
    """A kernel that moves cells between tracts only: a race that is known to within a count keeps its tract's age."""
    few = np.zeros(len(MIX), dtype=np.int64)
    few[[CROSS_CELLS, CROSS_DONORS]] = 100, 20
    monkeypatch.setattr(chains, "moves_of", lambda structure: few.copy())
    found = sample(model, quiet=False)["diagnostics"].attrs
    assert (found["verdict"], found["converged"], found["missed_modes"]) == ("not converged", 0, "disagree")
    assert found["missed_modes_disagreeing"] >= 8
    assert "missed a mode" in found["message"]
    assert "tract" in found["missed_modes_message"]
    assert any("missed a mode" in record.message for record in caplog.records)


def test_it_is_written_into_the_journal(model, tmp_path, monkeypatch):
    monkeypatch.setattr(recorded, "SECONDS", 0.0)
    seen = []

    def stop(trace, draw):
        seen.append(draw)
        if len(seen) == 45:  # the second chain is in its tuning
            raise RuntimeError("killed")

    given = {"draws": 30, "tune": 10}
    with pytest.raises(RuntimeError, match="killed"):
        sample(model, **given, journal=tmp_path / "draws", callback=stop)
    again = sample(model, **given, journal=tmp_path / "draws", resume=True)
    whole = sample(model, **given)
    np.testing.assert_array_equal(again["posterior"]["x"], whole["posterior"]["x"])
    whole = whole["diagnostics"].attrs
    assert sum(name.startswith("missed_modes") for name in whole) == 7
    assert whole["missed_modes_alike"] <= 2
    assert whole.items() <= again["diagnostics"].attrs.items()


def _begun(name, number):
    chain = CASES[name].chain(1)
    chain.load(CASES[name].target.fiber.find_point().reshape(-1))
    to_ends(chain, np.random.default_rng(1), number)
    return chain


def test_numbers_grow_by_one_from_chain_to_chain_and_words_say_what_ties_and_which_cells_are_apart():
    first = [chain_number(own) for own in np.random.default_rng(5).spawn(3)]
    parts = [chain_number(own.spawn(2)[1]) for own in np.random.default_rng(5).spawn(3)]
    assert np.diff([first, parts]).tolist() == [[1, 1], [1, 1]]
    for own in (np.random.PCG64(5), np.random.MT19937(5)):
        assert chain_number(np.random.Generator(own)) is None
    one, two = _begun("groups of four", 0), _begun("groups of four", 1)
    words = [start_codes(chain) for chain in (one, two)]
    told = np.array([[numbered(own, i % len(own)) for i in range(5)] for own in words])
    tied = read_codes(told, one.structure)
    assert tied is not None
    for array, own in zip(tied.groups, (one.state.group_start, one.state.group_cell), strict=True):
        np.testing.assert_array_equal(array, own)
    counts = np.array([one.state.counts, two.state.counts])
    most = (counts == counts.max(axis=2, keepdims=True)) & (counts > 0)
    assert ((counts.max(axis=2, keepdims=True) == counts).sum(axis=2) == 1).all()  # no ties here
    np.testing.assert_array_equal(tied.apart, most[0] != most[1])
    assert tied.apart.any()


def _words(cells, end):
    """Those of a chain of a leaf with so many cells that are all tied, of which one has the only count."""
    counts = np.zeros((1, cells), dtype=np.int64)
    counts[0, end] = 1
    groups = {"group_start": np.array([[0, cells]]), "group_cell": np.arange(cells, dtype=np.int64)}
    return start_codes(SimpleNamespace(state=SimpleNamespace(counts=counts, **groups), tying=None))


@pytest.mark.parametrize("end", [0, 47, 48, 100])
def test_large_tables_take_several_words(end):
    words = [_words(101, end), _words(101, 13)]
    assert [len(own) for own in words] == [4, 4]
    classes = {"answer_of": np.zeros((101, 1), dtype=int), "pair_class": np.zeros(101, dtype=int)}
    structure = SimpleNamespace(free=np.ones((1, 101), dtype=bool), **classes)
    told = np.array([[numbered(own, i) for i in (3, 1, 0, 2)] for own in words])
    assert np.flatnonzero(read_codes(told, structure).apart).tolist() == sorted({end, 13})
    # What was not told is not said to be apart.
    few = read_codes(told[:, :3], structure)
    assert np.flatnonzero(few.apart).tolist() == [cell for cell in sorted({end, 13}) if not 48 <= cell < 96]
    assert read_codes(told[:, :2], structure) is None
    told[1, 3] = told[1, 0]  # nor what only one of the chains has told
    assert np.array_equal(read_codes(told, structure).apart, few.apart)
    # They travel with the state of a step method as real numbers.
    np.testing.assert_array_equal(words[0].astype(np.float64).astype(np.int64), words[0])
