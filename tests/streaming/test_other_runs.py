"""Going on with a run: every argument of `fit_hierarchy` and `fit_parts` changed, one at a time, is refused by its name."""

from __future__ import annotations

import fcntl
import multiprocessing
from pathlib import Path

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.hierarchies import split
from bayesdp.hierarchies.priors import FixedNegativeBinomial, VaryingShares
from bayesdp.storage.journal import locked
from bayesdp.streaming.driver import ABOVE, Driver
from tests.streaming.cases import FRAME, MEAN, PRIOR, SHAPE, small_release
from tests.streaming.parts import cases


def _query(frame, entry=1):
    return {"q": bdp.LinearQuery(frame, np.full((1, frame.size), entry), ["all"])}


HIERARCHY = {
    "release": small_release(), "prior": PRIOR, "record": _query(FRAME), "draws": 8, "tune": 4, "chains": 2, "thin": 1,
    "counts": 15, "bins": 64, "batches": 8, "random_seed": 7, "leaves": "tract", "tables_path": None,
}  # fmt: skip
OTHER_HIERARCHY = {
    "release": (small_release(total=False), "release"),
    "prior": (FixedNegativeBinomial(np.nextafter(MEAN, 9.0), SHAPE), "prior"),
    "another prior": (VaryingShares(), "prior"),
    "record": (_query(FRAME, 7), "record: 'q'"),
    "nothing to record": ((), "record: 'q'"),
    "more to record": (_query(FRAME) | {"total": bdp.Totals(FRAME)}, "record: 'total'"),
    "draws": (9, "draws"),
    "tune": (5, "tune"),
    "chains": (3, "chains"),
    "thin": (2, "thin"),
    "counts": (14, "counts"),
    "bins": (65, "bins"),
    "batches": (9, "batches"),
    "random_seed": (8, "seed"),
    "no seed": (None, "seed"),
    "leaves": ("race", "leaves"),
    "tables_path": ("tables.parquet", "tables"),
}
ARGUMENT = {
    "another prior": "prior", "nothing to record": "record", "more to record": "record", "no seed": "random_seed",
    "numbers of a prior": "prior", "one part's prior": "prior", "no top": "top",
    "record_parts that was not given": "record_parts", "record_parts of sevens": "record_parts",
}  # fmt: skip


@pytest.fixture(scope="module")
def hierarchy(tmp_path_factory):
    journal = tmp_path_factory.mktemp("hierarchy") / "run"
    bdp.fit_hierarchy(**HIERARCHY, journal=journal, quiet=True)
    return journal


@pytest.mark.parametrize("change", OTHER_HIERARCHY)
def test_another_hierarchy_is_refused(hierarchy, change, tmp_path):
    value, named = OTHER_HIERARCHY[change]
    if change == "tables_path":
        pytest.importorskip("pyarrow")
        value = tmp_path / value
    given = HIERARCHY | {ARGUMENT.get(change, change): value}
    with pytest.raises(ValueError, match=rf"is of another run: its {named} is .*, here it is "):
        bdp.fit_hierarchy(**given, journal=hierarchy, resume=True, quiet=True)
    assert list(tmp_path.iterdir()) == []


def test_what_changes_no_draw_of_a_hierarchy_may_change(hierarchy):
    bdp.fit_hierarchy(
        **HIERARCHY, journal=hierarchy, resume=True, quiet=True, cores=1, quantiles=[0.5], memory_check=False
    )


PARTS, TOP = split(cases.country(), "state")
COUNTRY = {
    "parts": PARTS, "prior": FixedNegativeBinomial(np.full(2, 900.0), 0.6), "top": TOP, "record": _query(TOP.frame),
    "record_parts": None, "draws": 10, "tune": 4, "chains": 2, "thin": 1, "phase": 5, "together": 2, "counts": 15,
    "bins": 64, "batches": 8, "random_seed": 3, "leaves": None,
}  # fmt: skip
OTHER_COUNTRY = {
    "parts": (split(cases.country(seed=6), "state")[0], "releases: 'S'"),
    "prior": (FixedNegativeBinomial(np.full(2, 9.0), 0.6), "prior: 'S'"),
    "numbers of a prior": (FixedNegativeBinomial(np.full(2, 900.0), np.nextafter(0.6, 1.0)), "prior: 'S'"),
    "one part's prior": (dict.fromkeys(PARTS, COUNTRY["prior"]) | {"T": PRIOR}, "prior: 'T'"),
    "top": (split(cases.country(seed=6), "state")[1], "top"),
    "record": (_query(TOP.frame, 7), "record: 'q'"),
    "nothing to record": ((), "record: 'q'"),
    "record_parts that was not given": (_query, "record_parts: 'q'"),
    "draws": (15, "draws"),
    "tune": (5, "tune"),
    "chains": (3, "chains"),
    "thin": (2, "thin"),
    "phase": (2, "phase"),
    "together": (1, "together"),
    "counts": (14, "counts"),
    "bins": (65, "bins"),
    "batches": (9, "batches"),
    "random_seed": (8, "seed"),
    "leaves": ("county", "leaves"),
}


@pytest.fixture(scope="module")
def country(tmp_path_factory):
    folder = tmp_path_factory.mktemp("country")
    bdp.fit_parts(**COUNTRY, folder=folder, quiet=True)
    return folder


@pytest.mark.parametrize("change", OTHER_COUNTRY)
def test_another_country_is_refused(country, change):
    value, named = OTHER_COUNTRY[change]
    given = COUNTRY | {ARGUMENT.get(change, change): value}
    with pytest.raises(ValueError, match=rf"is of another run: (.*; )?its {named} is .*, here it is "):
        bdp.fit_parts(**given, folder=country, resume=True, quiet=True)


def test_what_changes_no_draw_of_a_country_may_change(country):
    given = COUNTRY | {"parts": {label: lambda own=own: own for label, own in PARTS.items()}, "random_seed": None}
    bdp.fit_parts(**given, folder=country, resume=True, quiet=True, cores=1, quantiles=[0.5], memory_check=False)


def test_other_queries_of_the_parts_are_refused_where_a_run_stopped(tmp_path, monkeypatch):
    """The example of a run that went on with sevens for ones, after the first of its phases."""

    class Stopped(Exception):
        pass

    save = Driver._save

    def stop(driver):
        save(driver)
        if driver.round == 2:
            raise Stopped

    given = COUNTRY | {"record_parts": _query, "folder": tmp_path, "quiet": True}
    with monkeypatch.context() as patch:
        patch.setattr(Driver, "_save", stop)
        with pytest.raises(Stopped):
            bdp.fit_parts(**given)
    with pytest.raises(ValueError, match=r"its record_parts: 'q' is "):
        bdp.fit_parts(**given | {"record_parts": lambda frame: _query(frame, 7)}, resume=True)
    with np.load(tmp_path / ABOVE) as arrays:
        assert int(arrays["round"]) == 2
    answers = bdp.fit_parts(**given, resume=True)["parts/S/posterior"]["q"]
    assert answers.sizes["draw"] == 10


def _hold(path, ready, done):
    with locked(Path(path)):
        ready.set()
        done.wait(60)


@pytest.mark.parametrize("resume", [False, True])
def test_a_second_process_in_the_folder_is_refused_until_the_first_is_dead(country, resume):
    context = multiprocessing.get_context("fork")
    ready, done = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(str(country / "lock"), ready, done))
    other.start()
    try:
        assert ready.wait(60)
        with pytest.raises(BlockingIOError, match="is being written to by another process"):
            bdp.fit_parts(**COUNTRY, folder=country, resume=resume, quiet=True)
        other.kill()
        other.join()
        bdp.fit_parts(**COUNTRY, folder=country, resume=True, quiet=True)
    finally:
        other.kill()
        other.join()


def test_the_folder_is_locked_while_the_run_goes_on(tmp_path, monkeypatch):
    def trial(path, found):
        try:
            locked(Path(path)).close()
        except BlockingIOError:
            found.put("locked")
        else:
            found.put("free")

    seen = []

    def looked(*given):
        context = multiprocessing.get_context("fork")
        found = context.Queue()
        other = context.Process(target=trial, args=(str(tmp_path / "lock"), found))
        other.start()
        seen.append(found.get(timeout=60))
        other.join()
        save(*given)

    save = Driver._save
    monkeypatch.setattr(Driver, "_save", looked)
    bdp.fit_parts(**COUNTRY, folder=tmp_path, quiet=True)
    assert set(seen) == {"locked"}
    with (tmp_path / "lock").open("r+b") as file:
        fcntl.lockf(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
