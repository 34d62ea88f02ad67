"""Going on with a calibration: every argument changed, one at a time, is refused by its name. No simulation is fitted here."""

import json
import multiprocessing

import numpy as np
import pymc as pm
import pytest

import bayesdp as bdp
from bayesdp.calibration import coverage, fit_many, joint_distribution_test, sbc
from bayesdp.calibration.coverage import _Repeat
from bayesdp.calibration.fits import _Fit
from bayesdp.calibration.joint import _Chain
from bayesdp.calibration.study import Study
from bayesdp.storage.journal import locked
from tests.inference.oracle import counts_model

LABELS = {"county": ["Alpha", "Beta"]}


def released(x, rng, epsilon=0.5):
    return bdp.LatticeLaplace(bdp.Totals(LABELS), epsilon=epsilon).release(x, rng=rng)


def simulate(rng, mean=5.0, epsilon=0.5):
    x = rng.poisson(mean, size=2)
    return {"x": x}, released(x, rng, epsilon)


def release_again(truth, rng):
    return released(truth["x"], rng)


def build_model(release, mean=5.0):
    return counts_model(release, pm.Poisson.dist(np.full(2, mean)))


def share(values, release, county=0):
    return values["x"].isel(county=county)


SIMULATED = {
    "seed": 2, "simulate": lambda rng: simulate(rng, 50.0), "its release": lambda rng: simulate(rng, epsilon=0.6), "draws": 11,
    "quantities": {"share": lambda values, release: share(values, release, 1)},
    "build_model": lambda release: build_model(release, np.nextafter(5.0, 6.0)), "update": lambda release: {"a": 1},
}  # fmt: skip
GIVEN = {"build_model": build_model, "n": 2, "seed": 1, "draws": 10, "progressbar": False}
RELEASES = {name: simulate(np.random.default_rng(seed))[1] for seed, name in enumerate(("one", "two"))}
CALLS = {
    "sbc": (sbc, GIVEN | {"simulate": simulate, "quantities": {"share": share}},
            SIMULATED | {"identity": "other", "also": {"one": share}}),
    "coverage": (coverage, GIVEN | {"simulate": simulate, "quantities": {"share": share}},
                 SIMULATED | {"probability": 0.9}),
    "joint": (joint_distribution_test, {k: v for k, v in GIVEN.items() if k != "draws"}
              | {"simulate": simulate, "release": release_again, "quantities": {"share": share}, "rounds": 1, "steps": 2},
              {k: v for k, v in SIMULATED.items() if k != "draws"}
              | {"release": lambda truth, rng: released(truth["x"], rng, 0.6), "rounds": 2, "steps": 3}),
    "fits": (fit_many, {k: v for k, v in GIVEN.items() if k != "n"} | {"releases": RELEASES},
             {k: v for k, v in SIMULATED.items() if k not in ("simulate", "its release", "quantities")}
             | {"releases": RELEASES | {"two": RELEASES["one"]}, "names": {"one": RELEASES["one"], "2": RELEASES["two"]}}),
}  # fmt: skip
ARGUMENT = {"its release": "simulate", "names": "releases"}
NAMED = {
    "simulate": "first", "its release": "(first|release)", "draws": "sampler: 'draws'", "steps": "sampler: 'draws'",
    "release": "release_again", "build_model": "numbers in the model", "also": "quantities",
}  # fmt: skip


def call(kind, path, **changed):
    function, given, _ = CALLS[kind]
    try:
        function(**given | changed, path=path)
    except ValueError as error:
        if "failed; the first one" not in str(error):
            raise


@pytest.fixture(scope="module", autouse=True)
def begun(tmp_path_factory):
    """Journals of each kind, and no simulation is run in this module."""
    folder = tmp_path_factory.mktemp("begun")
    with pytest.MonkeyPatch.context() as patch:
        for task in (Study, _Repeat, _Chain, _Fit):
            patch.setattr(task, "__call__", lambda self, number: {"number": number, "error": "not run"})
        for kind in CALLS:
            call(kind, folder / kind)
        yield folder


@pytest.mark.parametrize("kind", CALLS)
def test_another_calibration_is_refused_and_the_same_goes_on_and_may_be_longer(begun, kind):
    path = begun / kind
    for change, value in CALLS[kind][2].items():
        named = rf"is of another run: (.*; )?its {NAMED.get(change, change)}(: .*)? is .*, here it is "
        with pytest.raises(ValueError, match=named):
            call(kind, path, **{ARGUMENT.get(change, change): value})
    call(kind, path, **({} if kind == "fits" else {"n": 3}))
    journal = path / "journal.jsonl" if kind == "fits" else path
    head = {"format": "bayesdp-calibration-1", "what": kind, "seed": 1, "versions": {"bayesdp": "0.1.0"}}
    journal.write_text(json.dumps(head) + "\n")
    with pytest.raises(ValueError, match=r"is of another run: it was begun by another version of bayesdp \(0\.1\.0\)"):
        call(kind, path)


def test_the_journal_is_locked_while_the_run_goes_on(tmp_path, monkeypatch):
    """After each record, too: no file is closed that would give up the lock. Not afterwards, whether it ended well or not."""
    seen, path = [], tmp_path / "sbc"

    def is_locked():
        other = multiprocessing.get_context("fork").Process(target=lambda: locked(path).close())
        other.start()
        other.join(60)
        return other.exitcode == 1

    def looked(self, number):
        seen.append(is_locked())
        if len(seen) == 3:
            raise KeyboardInterrupt
        return {"number": number, "error": "not run"}

    monkeypatch.setattr(Study, "__call__", looked)
    with pytest.raises(KeyboardInterrupt) as interrupt:
        call("sbc", path, n=4)
    assert seen == [True] * 3
    assert not is_locked()
    with pytest.raises(ValueError, match="is of another run") as refused:
        call("sbc", path, seed=2)
    assert not is_locked()
    call("sbc", path, n=4)
    assert not is_locked()
    assert interrupt is not None  # their tracebacks keep what the runs had
    assert refused is not None
