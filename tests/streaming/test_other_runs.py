"""Going on with a run: every argument of `fit_hierarchy` and `fit_parts` changed, one at a time, is refused by its name."""

import multiprocessing
import time

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
OTHER_HIERARCHY = [
    ({"release": small_release(total=False)}, "release"),
    ({"prior": FixedNegativeBinomial(np.nextafter(MEAN, 9.0), SHAPE)}, "prior"),
    ({"prior": VaryingShares()}, "prior"),
    ({"record": _query(FRAME, 7)}, "record: 'q'"),
    ({"record": ()}, "record: 'q'"),
    ({"record": _query(FRAME) | {"total": bdp.Totals(FRAME)}}, "record: 'total'"),
    ({"random_seed": None}, "seed"),
    ({"random_seed": 8}, "seed"),
    ({"leaves": "race"}, "leaves"),
    ({"tables_path": "tables.parquet"}, "tables"),
    *(({name: HIERARCHY[name] + 1}, name) for name in ("draws", "tune", "chains", "thin", "counts", "bins", "batches")),
]


@pytest.fixture(scope="module")
def hierarchy(tmp_path_factory):
    journal = tmp_path_factory.mktemp("hierarchy") / "run"
    bdp.fit_hierarchy(**HIERARCHY, journal=journal, quiet=True)
    return journal


@pytest.mark.parametrize(("change", "named"), OTHER_HIERARCHY, ids=lambda own: "".join(own))
def test_another_hierarchy_is_refused(hierarchy, change, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "tables_path" in change:
        pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match=rf"is of another run: its {named} is .*, here it is "):
        bdp.fit_hierarchy(**HIERARCHY | change, journal=hierarchy, resume=True, quiet=True)
    assert list(tmp_path.iterdir()) == []


PARTS, TOP = cases.PARTS, cases.TOP
COUNTRY = {
    "parts": PARTS, "prior": FixedNegativeBinomial(np.full(2, 900.0), 0.6), "top": TOP, "record": _query(TOP.frame),
    "record_parts": None, "draws": 10, "tune": 4, "chains": 2, "thin": 1, "phase": 5, "together": 2, "counts": 15,
    "bins": 64, "batches": 8, "random_seed": 3, "leaves": None,
}  # fmt: skip
OTHER = split(cases.country(seed=6), "state")
OTHER_COUNTRY = [
    ({"parts": OTHER[0]}, "releases: 'S'"),
    ({"prior": FixedNegativeBinomial(np.full(2, 9.0), 0.6)}, "prior: 'S'"),
    ({"prior": FixedNegativeBinomial(np.full(2, 900.0), np.nextafter(0.6, 1.0))}, "prior: 'S'"),
    ({"prior": dict.fromkeys(PARTS, COUNTRY["prior"]) | {"T": PRIOR}}, "prior: 'T'"),
    ({"top": OTHER[1]}, "top"),
    ({"record": _query(TOP.frame, 7)}, "record: 'q'"),
    ({"record": ()}, "record: 'q'"),
    ({"record_parts": _query}, "record_parts: 'q'"),
    ({"draws": 15}, "draws"),
    ({"phase": 2}, "phase"),
    ({"together": 1}, "together"),
    ({"random_seed": 8}, "seed"),
    ({"leaves": "county"}, "leaves"),
    *(({name: COUNTRY[name] + 1}, name) for name in ("tune", "chains", "thin", "counts", "bins", "batches")),
]


@pytest.fixture(scope="module")
def country(tmp_path_factory):
    folder = tmp_path_factory.mktemp("country")
    bdp.fit_parts(**COUNTRY, folder=folder, quiet=True)
    return folder


@pytest.mark.parametrize(("change", "named"), OTHER_COUNTRY, ids=lambda own: "".join(own))
def test_another_country_is_refused(country, change, named):
    with pytest.raises(ValueError, match=rf"is of another run: (.*; )?its {named} is .*, here it is "):
        bdp.fit_parts(**COUNTRY | change, folder=country, resume=True, quiet=True)


def test_what_changes_no_draw_may_change(hierarchy, country):
    more = {"resume": True, "quiet": True, "cores": 1, "quantiles": [0.5], "memory_check": False}
    bdp.fit_hierarchy(**HIERARCHY, journal=hierarchy, **more)
    given = COUNTRY | {"parts": {label: lambda own=own: own for label, own in PARTS.items()}, "random_seed": None}
    bdp.fit_parts(**given, folder=country, **more)


def test_other_queries_of_the_parts_are_refused_where_a_run_stopped(tmp_path, monkeypatch):
    """The example of a run that went on with sevens for ones, after the first of its phases."""
    save = Driver._save

    def stop(driver):
        save(driver)
        if driver.round == 2:
            raise KeyError("stopped")

    given = COUNTRY | {"record_parts": _query, "folder": tmp_path, "quiet": True}
    with monkeypatch.context() as patch:
        patch.setattr(Driver, "_save", stop)
        with pytest.raises(KeyError, match="stopped"):
            bdp.fit_parts(**given)
    with pytest.raises(ValueError, match=r"its record_parts: 'q' is "):
        bdp.fit_parts(**given | {"record_parts": lambda frame: _query(frame, 7)}, resume=True)
    with np.load(tmp_path / ABOVE) as arrays:
        assert int(arrays["round"]) == 2
    assert bdp.fit_parts(**given, resume=True)["parts/S/posterior"]["q"].sizes["draw"] == 10


def _hold(path, held):
    with locked(path):
        held.set()
        time.sleep(60)


def test_a_second_process_in_the_folder_is_refused_until_the_first_is_dead(country):
    context = multiprocessing.get_context("fork")
    held = context.Event()
    other = context.Process(target=_hold, args=(country / "lock", held))
    other.start()
    try:
        assert held.wait(60)
        for resume in (False, True):
            with pytest.raises(BlockingIOError, match="is being written to by another process"):
                bdp.fit_parts(**COUNTRY, folder=country, resume=resume, quiet=True)
    finally:
        other.kill()
        other.join()
    bdp.fit_parts(**COUNTRY, folder=country, resume=True, quiet=True)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize(
    "run",
    [
        lambda place: bdp.fit_hierarchy(**HIERARCHY, journal=place, quiet=True, cores=1),
        lambda place: bdp.fit_parts(**COUNTRY | {"draws": 5, "tune": 1}, folder=place, quiet=True),
    ],
)
def test_the_folder_is_locked_while_the_run_goes_on(run, tmp_path, monkeypatch):
    seen, save, lock = [], np.savez, tmp_path / "run" / "lock"

    def kept_out():
        other = multiprocessing.get_context("fork").Process(target=lambda: locked(lock).close())
        other.start()
        other.join(60)
        return other.exitcode

    monkeypatch.setattr(np, "savez", lambda *args, **more: (seen.append(kept_out()), save(*args, **more)))
    run(tmp_path / "run")
    assert set(seen) == {1}
    assert kept_out() == 0
