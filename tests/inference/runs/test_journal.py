"""Draws on disk as they come: a run that was stopped goes on, and ends with the draws and statistics of one that was not."""

import errno
import json
import logging
import pickle
from unittest.mock import Mock

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from pymc.model.transform.optimization import freeze_model

import bayesdp as bdp
from bayesdp.inference import holds_draws, remove_journal
from bayesdp.inference.runs import journal as journal_module
from bayesdp.inference.runs import recorded
from bayesdp.inference.runs.journal import DrawJournal, chunk_arrays, read_chunk
from bayesdp.inference.runs.recorded import checked_state, restore_state, state_arrays
from bayesdp.storage.journal import write_arrays
from tests.inference.oracle import noisy_cells

TABLE = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
DRAWS, TUNE, SECONDS = 24, 16, recorded.SECONDS
QUIET = {"progressbar": False, "quiet": True, "nuts_sampler": "pymc"}
RUN = {"draws": DRAWS, "tune": TUNE, "chains": 2, "cores": 1, "random_seed": 3, **QUIET}


def release(first=14):
    margins = bdp.Exact(bdp.Margins(TABLE, "county", "education"), [16, 30, 10, 38, 18])
    return noisy_cells(TABLE, [[first, -2], [23, 9], [2, 6]], bdp.noise.DiscreteGaussian(sigma=5.0), margins)


def counts():
    return bdp.priors.build_model(release(), "independent")


def with_a_rate():
    """Moves of counts, and NUTS."""
    with pm.Model(coords=release().coords) as model:
        rate = pm.Deterministic("rate", pm.math.exp(pm.Normal("log_rate", 2.0, 1.0)))
        bdp.observe(release(), bdp.ConfidentialCounts("x", pm.Poisson.dist(rate), dims=release().dims))
    return freeze_model(model)


class Killed(Exception):
    """What ends a run here; it is not an interrupt, which PyMC takes for an end that was wanted."""


small = pytest.fixture(scope="module")(counts)


@pytest.fixture(scope="module")
def without(small):
    """Its draws without a journal."""
    with small:
        return bdp.sample(**RUN)


@pytest.fixture
def path(tmp_path, monkeypatch):
    """Of a journal with a record for every draw."""
    monkeypatch.setattr(recorded, "SECONDS", 0.0)
    return tmp_path / "posterior.nc.partial"


def sample(model, path, resume=False, stop=0, **given):
    """Sample with a journal; with `stop`, die after so many draws."""
    done = []

    def count(trace, draw):
        done.append(draw)
        if len(done) == stop:
            raise Killed

    with model:
        return bdp.sample(**RUN | given, journal=path, resume=resume, callback=count)


def assert_same(one, other):
    """The same draws, and the same statistics but for times."""
    xr.testing.assert_equal(one["posterior"].to_dataset(), other["posterior"].to_dataset())
    timed = {"perf_counter_diff", "perf_counter_start", "process_time_diff"}
    ours, theirs = (own["sample_stats"].to_dataset().drop_vars(timed, errors="ignore") for own in (one, other))
    xr.testing.assert_equal(ours, theirs)
    assert dict(one["diagnostics"].attrs) == dict(other["diagnostics"].attrs)


def chunks(path):
    """Chain, first draw, and the one after the last, of every file of draws."""
    names = (own.stem.removeprefix("chain-").split("-") for own in path.glob("chain-*.npz"))
    return sorted((int(chain), int(first), int(last)) for chain, first, last in names)


@pytest.mark.parametrize("build", [counts, with_a_rate])
def test_a_run_that_was_stopped_ends_with_the_draws_of_one_that_was_not(build, path):
    """Stopped in the tuning, at its end, in the first chain, at its end, in the second one and at the end of all."""
    both = DRAWS + TUNE
    stops, model = (7, TUNE, TUNE + 9, both, both + TUNE + 3, 2 * both), build()
    for resumed, stop in enumerate(stops):
        with pytest.raises(Killed):
            sample(model, path, resume=resumed > 0, stop=stop)
    tree = sample(model, path, resume=True)
    with model:
        without = bdp.sample(**RUN)
    assert_same(tree, without)
    assert tree.attrs["resumed"] == len(stops)
    assert "resumed" not in without.attrs


@pytest.mark.system
def test_chains_in_processes_go_on_as_well_and_leave_few_records(small, without, path, monkeypatch):
    monkeypatch.setattr(recorded, "SECONDS", SECONDS)
    tree = sample(small, path, cores=2)
    assert_same(tree, without)
    assert "resumed" not in tree.attrs
    # One at the end of the tuning and one at the end of each chain, unless it takes longer than some seconds.
    assert len(chunks(path)) >= 4
    # The draws are all there: giving them again needs no sampling, and other processes than then.
    assert_same(sample(small, path, resume=True), without)
    assert remove_journal(path)
    monkeypatch.setattr(recorded, "SECONDS", 0.0)
    for resume, stop in ((False, 20), (True, 60)):
        with pytest.raises(Killed):
            sample(small, path, resume=resume, stop=stop, cores=2)
    assert_same(sample(small, path, resume=True, cores=2), without)


def test_a_run_goes_on_from_any_file_that_was_the_last_and_a_damaged_one_ends_its_chain(small, without, path, caplog):
    """As after a kill at any moment: files are there as a whole, or not at all."""
    with pytest.raises(Killed):
        sample(small, path, stop=TUNE + 5)
    for left in (TUNE + 4, TUNE, 7, 0):
        for chain, first, last in chunks(path):
            if last > left:
                (path / f"chain-{chain}-{first}-{last}.npz").unlink()
        (path / ".chain-0-9-10.npz.0123456789abcdef.tmp").write_bytes(b"PK")
        with DrawJournal(path, small, RUN, resume=True) as journal:
            assert journal.kept == left
        assert not list(path.glob(".*.tmp"))
    assert_same(sample(small, path, resume=True), without)
    hit = path / f"chain-0-{TUNE + 19}-{TUNE + 20}.npz"
    damaged = bytearray(hit.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    hit.write_bytes(damaged)
    caplog.set_level(logging.WARNING)
    with DrawJournal(path, small, RUN, resume=True) as journal:
        assert journal.kept == (TUNE + 19) + (TUNE + DRAWS)
    words = f"{path}: draws of chain 0 are damaged; it goes on from its draw {TUNE + 19}"
    assert [own.getMessage() for own in caplog.records] == [words]
    caplog.clear()
    assert_same(sample(small, path, resume=True), without)
    assert not caplog.records  # what was damaged is gone


@pytest.fixture
def stopped(small, path):
    with pytest.raises(Killed):
        sample(small, path, stop=TUNE + 5)
    return path


def assert_refused(model, path, words, error=ValueError, **given):
    """With these words, and with every file as it was."""
    before = {own.name: own.read_bytes() for own in path.iterdir()}
    with pytest.raises(error, match=words):
        sample(model, path, **given)
    assert {own.name: own.read_bytes() for own in path.iterdir()} == before


def test_another_run_is_refused_with_both_sides(small, stopped):
    """What is compared: tests of the fingerprint. Draws are not lost without saying what becomes of them."""
    assert_refused(small, stopped, "its seed is 3, here it is 4", resume=True, random_seed=4)
    words = r"its options: 'fiber_gibbs' is not stated, here it is \{\"sweeps\": 4\}"
    assert_refused(small, stopped, words, resume=True, fiber_gibbs={"sweeps": 4})
    words = "has 5 draws of chain 0, and draws=4 are asked for: ask for as many or more"
    assert_refused(small, stopped, words, resume=True, draws=4)
    other = bdp.priors.build_model(release(15), "independent")
    assert_refused(other, stopped, r"its release is '.* \[\w+\]', here it is '.* \[\w+\]'", resume=True)
    assert_refused(small, stopped, "resume=True goes on with it", FileExistsError)
    (stopped / "run.json").write_text("{")
    assert_refused(small, stopped, r"run\.json' is damaged", resume=True)
    assert holds_draws(stopped)
    assert remove_journal(stopped)
    assert not holds_draws(stopped)
    assert not remove_journal(stopped)


def test_a_run_that_has_ended_goes_on_with_more_draws_and_without_a_seed_none_is_drawn_twice(small, path):
    """The draws, and the statistics, of one run of that length: nothing is tuned again, and nothing depends on the number of draws.

    Without a seed the chain that had not begun begins as it would have: its seed is in the file.
    """
    short = sample(small, path)
    longer = sample(small, path, resume=True, draws=3 * DRAWS)
    with small:
        assert_same(longer, bdp.sample(**RUN | {"draws": 3 * DRAWS}))
    xr.testing.assert_equal(longer["posterior"]["x"][:, :DRAWS], short["posterior"]["x"])
    assert longer.attrs["resumed"] == 1
    assert remove_journal(path)
    with pytest.raises(Killed):
        sample(small, path, stop=TUNE + 15, random_seed=None)
    one = sample(small, path, resume=True, random_seed=None)
    assert_same(one, sample(small, path, resume=True, random_seed=None))
    assert one.attrs["seed"] == "not recorded"
    x = one["posterior"]["x"].values
    assert x.shape == (2, DRAWS, 3, 2)
    assert not np.array_equal(x[0], x[1])


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_is_no_journal_or_that_of_another_process_is_neither_used_nor_removed(small, path, kind, monkeypatch):
    notes = path if kind == "file" else path / "notes.txt"
    notes.parent.mkdir(exist_ok=True)
    notes.write_text("my notes")
    calls = [lambda: sample(small, path), lambda: sample(small, path, resume=True), lambda: remove_journal(path)]
    for own in calls:
        with pytest.raises((ValueError, FileExistsError), match="is no journal of a run"):
            own()
    assert notes.read_text() == "my notes"
    if kind == "folder":  # as where another process holds the lock; that it does: tests of the storage
        notes.unlink()
        path.rmdir()
        sample(small, path)
        monkeypatch.setattr("fcntl.lockf", Mock(side_effect=BlockingIOError(errno.EAGAIN, "held")))
        for own in calls[1:]:
            with pytest.raises(BlockingIOError, match="is being written to by another process"):
                own()


def test_what_keeps_no_draws_is_refused(small, path):
    for given, words in (
        ({"nuts_sampler": "nutpie"}, "keeps no draws while it samples"),
        ({"discard_tuned_samples": False}, "discard_tuned_samples=False cannot be had"),
        ({"trace": object()}, "leave one of them out"),
        ({"journal": None, "resume": True}, "needs the journal="),
    ):
        with small, pytest.raises(ValueError, match=words):
            bdp.sample(**RUN | {"journal": path} | given)
        assert not path.exists()
    with pytest.raises(FileNotFoundError, match="does not exist; create it first"):
        sample(small, path.parent / "nowhere" / "p.partial")
    with pm.Model() as model:
        pm.Normal("mu", shape=2)
        step = pm.DEMetropolis()
    with pytest.raises(ValueError, match="that sample all chains together cannot be kept"):
        sample(model, path, chains=6, step=step)


def test_a_full_disk_ends_the_journal_and_not_the_run(small, without, path, monkeypatch, caplog):
    made = []

    def full(file, arrays):
        made.append(file)
        if len(made) > 20:
            raise OSError(28, "No space left on device")
        write_arrays(file, arrays)

    with monkeypatch.context() as patch:
        patch.setattr(journal_module, "write_arrays", full)
        assert_same(sample(small, path), without)
    words = f"{path}: No space left on device. Sampling goes on; draws from here on are not kept while sampling"
    assert [own.getMessage() for own in caplog.records if "not kept" in own.getMessage()] == [words]
    assert len(chunks(path)) == 20
    assert_same(sample(small, path, resume=True), without)


def test_counts_that_are_added_up_by_differences_go_on_to_the_last_digit():
    """Noise in real coordinates, and a further term of the model: sums over the table are kept up to date by differences."""
    noisy = np.array([[14.3, 1.7], [21.7, 8.3], [2.1, 7.9]])
    law = bdp.noise.ExtendedLaplace(b=4.0, coordinates="helmert-1")
    own = noisy_cells(TABLE, noisy, law, bdp.Exact(bdp.Margins(TABLE, "county"), [16, 30, 10]))
    with pm.Model(coords=own.coords) as model:
        x = bdp.ConfidentialCounts("x", pm.NegativeBinomial.dist(mu=9.0, alpha=1.0), dims=own.dims)
        bdp.observe(own, x)
        pm.Potential("further", -0.01 * (x[0, 0] - x[1, 1]) ** 2)
        steps = [bdp.inference.FiberGibbs() for _ in range(2)]
    point = model.initial_point()
    steps[0].setup_chain(np.random.default_rng(1), 0, 100)
    for _ in range(50):
        point, _ = steps[0].step(point)
    kept = state_arrays(steps[0])
    steps[1].setup_chain(np.random.default_rng(2), 0, 100)
    restore_state(steps[1], kept)
    ours = theirs = point
    for _ in range(50):
        ours, _ = steps[0].step(ours)
        theirs, _ = steps[1].step(theirs)
        np.testing.assert_array_equal(ours["x"], theirs["x"])
        assert steps[0].sums[0].tobytes() == steps[1].sums[0].tobytes()


def test_a_state_is_taken_only_in_the_place_of_one_of_its_form(small):
    with small:
        step = bdp.inference.FiberGibbs()
    arrays = state_arrays(step)
    own = json.loads(arrays["plain"].tobytes())["state"]["state"]

    def packed(state):
        text = json.dumps({"state": {"state": state}, "counters": [{}]}).encode()
        return {**arrays, "plain": np.frombuffer(text, dtype=np.uint8)}

    generator, more = own["rng"]["generator"]
    nested: dict = {"list": []}
    for _ in range(60):
        nested = {"list": [nested]}
    other = {"dict": generator["dict"] | {"bit_generator": "MT19937"}}
    for state, words in (
        (own | {"rng": {"generator": [other, more]}}, "kind"),
        (own | {"rng": {"generator": [{"dict": {"bit_generator": "PCG64"}}, more]}}, "generator"),
        (own | {"generators": nested}, "nested too deeply"),
        (own | {"rng": 1}, "lacks a random generator"),
        (own | {"fresh": "yes"}, "another kind"),
        (own | {"generators": {"list": [{"array": 99, "float": False}]}}, "lacks an array"),
        ({"fresh": True}, "of other step methods"),
    ):
        with pytest.raises(ValueError, match=words):
            checked_state(step, packed(state))
    foreign = np.frombuffer(pickle.dumps(step.sampling_state), dtype=np.uint8)
    with pytest.raises(ValueError, match=r"UTF-8|not valid JSON"):
        checked_state(step, {**arrays, "plain": foreign})
    for more in ({"0": np.array(["text"])}, {"99": np.zeros(3)}):
        with pytest.raises(ValueError, match=r"no numbers|another form"):
            checked_state(step, arrays | more)


def test_draws_of_other_variables_are_refused_and_whole_numbers_take_no_more_room_than_they_need(tmp_path):
    whole, real = np.dtype(np.int64), np.dtype(np.float64)
    layout = {"x": (whole, (2,)), "mu": (real, ())}
    points = [{"x": np.array([1, 2**40]), "mu": np.array(0.5)}, {"x": np.array([-1, 3]), "mu": np.array(1.5)}]
    stats = [[{"accept": 0.5, "warning": None}], [{"accept": 1.0, "warning": "divergence"}]]
    file = tmp_path / "chunk.npz"
    write_arrays(file, chunk_arrays(points, stats, {"plain": np.arange(3)}))
    chunk = read_chunk(file, layout, 2)
    assert chunk.state["plain"].tolist() == [0, 1, 2]
    assert chunk.values["x"].tolist() == [[1, 2**40], [-1, 3]]
    assert (chunk.objects, chunk.stats[0]["accept"].tolist()) == ([["warning"]], [0.5, 1.0])
    for other, rows in (
        ({"x": layout["x"]}, 2),
        ({"mu": layout["mu"], "x": layout["x"]}, 2),
        (layout | {"x": (whole, (3,))}, 2),
        (layout | {"x": (real, (2,))}, 2),
        (layout, 1),
    ):
        with pytest.raises(ValueError, match=r"chunk\.npz' is damaged .*(other variables|another shape or type)"):
            read_chunk(file, other, rows)
    write_arrays(file, {**chunk_arrays(points, stats, {}), "more": np.zeros(3)})
    with pytest.raises(ValueError, match="belong to nothing"):
        read_chunk(file, layout, 2)
    points = [{"x": np.full(1000, 7)} for _ in range(50)]
    assert chunk_arrays(points, [[{}]] * 50, {})["value:x"].nbytes == 50_000
    for extreme in (-(2**63), 2**63 - 1, -129, 128):
        write_arrays(file, chunk_arrays([{"x": np.array([extreme, -1])}], [[{}]], {}))
        read = read_chunk(file, {"x": layout["x"]}, 1)
        assert read.values["x"].tolist() == [[extreme, -1]]
