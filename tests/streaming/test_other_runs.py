"""Going on with a run: every argument of `fit_hierarchy` and `fit_parts` changed, one at a time, is refused by its name."""

import multiprocessing
import threading
import time
from functools import partial

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.hierarchies import split
from bayesdp.hierarchies.priors import FixedNegativeBinomial, VaryingShares
from bayesdp.storage.journal import locked
from bayesdp.streaming.driver import ABOVE
from tests.refusals import refused
from tests.streaming.cases import FRAME, MEAN, PRIOR, SHAPE, small_release
from tests.streaming.parts import cases


def _query(frame, entry=1):
    return {"q": bdp.LinearQuery(frame, np.full((1, frame.size), entry), ["all"])}


HIERARCHY = {
    "release": small_release(), "prior": PRIOR, "record": _query(FRAME), "draws": 8, "tune": 4, "chains": 2, "thin": 1,
    "counts": 15, "bins": 64, "batches": 8, "random_seed": 7, "leaves": "tract", "tables_path": None, "quiet": True,
}  # fmt: skip
OTHER_HIERARCHY = [
    ({"release": small_release(total=False)}, "release"),
    *(({"prior": own}, "prior") for own in (VaryingShares(), FixedNegativeBinomial(np.nextafter(MEAN, 9.0), SHAPE))),
    *(({"record": own}, "record: 'q'") for own in ((), _query(FRAME, 7))),
    ({"record": _query(FRAME) | {"total": bdp.Totals(FRAME)}}, "record: 'total'"),
    *(({"random_seed": own}, "seed") for own in (None, 8)),
    ({"leaves": "race"}, "leaves"),
    ({"tables_path": "tables.parquet"}, "tables"),
    *(({name: HIERARCHY[name] + 1}, name) for name in ("draws", "tune", "chains", "thin", "counts", "bins", "batches")),
]

PARTS, TOP = cases.PARTS, cases.TOP
COUNTRY = {
    "parts": PARTS, "prior": FixedNegativeBinomial(np.full(2, 900.0), 0.6), "top": TOP, "record": _query(TOP.frame),
    "record_parts": None, "draws": 10, "tune": 4, "chains": 2, "thin": 1, "phase": 5, "together": 2, "counts": 15,
    "bins": 64, "batches": 8, "random_seed": 3, "leaves": None, "quiet": True,
}  # fmt: skip
OTHER = split(cases.country(seed=6), "state")
OTHER_COUNTRY = [
    ({"parts": OTHER[0]}, "releases: 'S'"),
    ({"prior": FixedNegativeBinomial(np.full(2, 9.0), 0.6)}, "prior: 'S'"),
    ({"prior": FixedNegativeBinomial(np.full(2, 900.0), np.nextafter(0.6, 1.0))}, "prior: 'S'"),
    ({"prior": dict.fromkeys(PARTS, COUNTRY["prior"]) | {"T": PRIOR}}, "prior: 'T'"),
    ({"top": OTHER[1]}, "top"),
    *(({"record": own}, "record: 'q'") for own in ((), _query(TOP.frame, 7))),
    ({"record_parts": _query}, "record_parts: 'q'"),
    *(({name: own}, name) for name, own in {"draws": 15, "phase": 2, "together": 1, "leaves": "county"}.items()),
    ({"random_seed": 8}, "seed"),
    *(({name: COUNTRY[name] + 1}, name) for name in ("tune", "chains", "thin", "counts", "bins", "batches")),
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A function for each of the two, that goes on with a run that has ended."""
    hierarchy, country = (tmp_path_factory.mktemp(own) / "run" for own in ("hierarchy", "country"))
    country.mkdir()
    one, other = partial(bdp.fit_hierarchy, journal=hierarchy), partial(bdp.fit_parts, folder=country)
    one(**HIERARCHY)
    other(**COUNTRY)
    return one, other


@pytest.mark.parametrize(
    ("which", "change", "named"), [*((0, *own) for own in OTHER_HIERARCHY), *((1, *own) for own in OTHER_COUNTRY)]
)
def test_another_hierarchy_or_country_is_refused(runs, which, change, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "tables_path" in change:
        pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match=rf"is of another run: (.*; )?its {named} is .*, here it is "):
        runs[which](**(HIERARCHY, COUNTRY)[which] | change, resume=True)
    assert list(tmp_path.iterdir()) == []


def test_what_may_change_and_what_is_refused_after_a_stop_or_of_a_second_process(runs, tmp_path):
    more = {"resume": True, "cores": 1, "quantiles": [0.5], "memory_check": False}
    runs[0](**HIERARCHY, **more)
    parts = {label: lambda own=own: own for label, own in PARTS.items()}
    runs[1](**COUNTRY | {"parts": parts, "random_seed": None}, **more)
    context = multiprocessing.get_context("fork")
    held = context.Event()
    other = context.Process(target=_hold, args=(runs[1].keywords["folder"] / "lock", held))
    other.start()
    try:
        assert held.wait(60)
        for resume in (False, True):
            with pytest.raises(BlockingIOError, match="is being written to by another process"):
                runs[1](**COUNTRY, resume=resume)
    finally:
        other.kill()
        other.join()
    runs[1](**COUNTRY, resume=True)
    # The example of a run that went on with sevens for ones, after the first of its phases.
    given = COUNTRY | {"record_parts": _query, "folder": tmp_path}
    cases.stop_after(2, lambda: bdp.fit_parts(**given))
    with pytest.raises(ValueError, match=r"its record_parts: 'q' is "):
        bdp.fit_parts(**given | {"record_parts": lambda frame: _query(frame, 7)}, resume=True)
    with np.load(tmp_path / ABOVE) as arrays:
        assert int(arrays["round"]) == 2
    assert bdp.fit_parts(**given, resume=True)["parts/S/posterior"]["q"].sizes["draw"] == 10


def _hold(path, held):
    with locked(path):
        held.set()
        time.sleep(60)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("parts", [False, True])
def test_the_folder_is_locked_while_the_run_goes_on(parts, tmp_path, monkeypatch):
    seen, save, (ours, theirs), turn = [], np.savez, multiprocessing.Pipe(), threading.Lock()

    def other():
        while theirs.recv():
            try:
                locked(tmp_path / "run" / "lock").close()
            except BlockingIOError:
                theirs.send(1)
            else:
                theirs.send(0)

    def kept_out():
        with turn:
            ours.send(True)
            return ours.recv() if ours.poll(60) else None

    process = multiprocessing.get_context("fork").Process(target=other, daemon=True)  # before there are threads
    process.start()
    monkeypatch.setattr(np, "savez", lambda *args, **more: (seen.append(kept_out()), save(*args, **more)))
    if parts:
        bdp.fit_parts(**COUNTRY | {"draws": 5, "tune": 1}, folder=tmp_path / "run")
    else:
        bdp.fit_hierarchy(**HIERARCHY, journal=tmp_path / "run", cores=1)
    assert set(seen) == {1}
    assert kept_out() == 0
    ours.send(False)
    process.join(60)


FEW = {"tract": ["a", "b", "c"], "age": ["y", "o"], "g": ("tract", list("112")), "h": ("tract", list("122"))}
LAW = bdp.noise.DiscreteGaussian(2.0)


def _published(query, values, law=LAW, **more):
    return {"release": bdp.Release.from_published(query.frame, [bdp.Measured(query, values, law)], **more)}


CROSSING = [bdp.Measured(bdp.Margins(FEW, [name]), [3, 4], LAW) for name in ("g", "h")]
NO_TREE = {"release": bdp.Release.from_published(FEW, CROSSING), "leaves": "tract"}
INFLATED = _published(bdp.Totals(FRAME), 7, bdp.noise.BoundaryInflatedDiscreteGaussian(2.0, (0, 9)))
SCORE = _published(bdp.LinearQuery(FRAME, np.arange(12)[None], ["score"]), [20])
REAL = _published(bdp.Identity({"sex": ["f", "m"]}), [1.5, 2.0], bdp.noise.Gaussian(1.0), about="statistics")
test_what_cannot_be_fitted = refused(
    (INFLATED, "'boundary-inflated-discrete-gaussian': put the release into a model"),
    (SCORE, "hierarchies take sums of cells, and .* is none: put the release"),
    ({"release": "release"}, "release must be a bayesdp.Release, got str"),
    (REAL, "release is about statistics"),
    (NO_TREE, "release is no hierarchy: the groups 'g' and 'h' of 'tract' do not nest"),
    ({"prior": 3.0}, "prior must be a prior of the cells of a hierarchy"),
    ({"draws": 3}, "draws must be at least 4"),
    ({"draws": 10.5}, "draws"),
    ({"chains": 0}, "chains"),
    ({"thin": 0}, "thin"),
    ({"bins": 4}, "bins must be at least 8"),
    ({"batches": 4}, "batches must be at least 8"),
    ({"quantiles": (0.5, 1.5)}, "quantiles"),
    ({"quantiles": 0.5}, "quantiles"),
    ({"leaves": "block"}, "leaves must be a dimension of the table .*, got 'block'"),
    ({"random_seed": "one"}, "seed"),
    ({"record": "race"}, "record must be queries"),
    ({"tables": 0, "tables_path": "t.parquet"}, "tables"),
    of=lambda given: bdp.fit_hierarchy(
        **{"release": small_release(), "prior": PRIOR, "draws": 8, "quiet": True} | given
    ),
)
