"""A run that is killed, and goes on from its journal, ends as a run that was never stopped."""

import numpy as np
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.hierarchies.priors import VaryingShares
from bayesdp.storage import journal as journals
from tests.streaming.cases import FRAME, PRIOR, small_release

pytestmark = pytest.mark.system

RELEASE = small_release()
FILE = "chain-{}-part-0-0.npz"
AREAS = {"areas": bdp.Margins(FRAME, ["county", "race"])}
GIVEN = {"record": AREAS, "draws": 60, "tune": 40, "random_seed": 7, "quiet": True, "thin": 2}


class Killed(BaseException):
    """Stands for the end of a process: nothing of ours catches it."""


def killed(kill, run):
    """A run that writes its state after every sweep and draw, and ends at write number `kill`."""
    write, made = journals.write_arrays, []

    def counted(file, arrays):
        made.append(file)
        if len(made) >= kill:
            raise Killed
        write(file, arrays)

    with pytest.MonkeyPatch.context() as patched:
        for name, own in (("SECONDS", 0.0), ("_SHARE", 0.0), ("write_arrays", counted)):
            patched.setattr(journals, name, own)
        with pytest.raises(Killed):
            run()


def _same(one, other):
    for group in ("posterior", "cells", "diagnostics", "fiber"):
        xr.testing.assert_identical(one[group].to_dataset(), other[group].to_dataset())


def _fit(prior=PRIOR, **more):
    return bdp.fit_hierarchy(RELEASE, prior, **{**GIVEN, **more})


@pytest.mark.parametrize("kill", [30, 120])
def test_a_run_that_ends_while_tuning_or_drawing_goes_on_with_its_tables(kill, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    paths = [tmp_path / "tables.parquet", tmp_path / "whole.parquet"]
    given = {"journal": tmp_path / "run", "tables_path": paths[0], "tables": 7}
    killed(kill, lambda: _fit(VaryingShares(), cores=1, **given))
    assert not paths[0].exists()
    with pytest.raises(FileExistsError, match="resume=True goes on"):
        _fit(VaryingShares(), **given)
    resumed = _fit(VaryingShares(), **given, resume=True)
    assert resumed.attrs["resumed"] == 1
    _same(resumed, _fit(VaryingShares(), tables_path=paths[1], tables=7))
    order = ["table", "age", "tract", "race"]
    one, two = (parquet.read_table(own).to_pandas().sort_values(order).reset_index(drop=True) for own in paths)
    assert one.equals(two)


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """Journals of a run, with the states of its first chain: while tuning, and at the end."""
    folder, found = tmp_path_factory.mktemp("states"), {}
    killed(20, lambda: _fit(VaryingShares(), cores=1, journal=folder / "tuning"))
    _fit(VaryingShares(), journal=folder / "drawn")
    for name in ("tuning", "drawn"):
        with np.load(folder / name / FILE.format(0)) as own:
            found[name] = dict(own)
    return folder, found


def _first(value):
    return lambda array: np.concatenate([[value], array.reshape(-1)[1:]]).astype(array.dtype).reshape(array.shape)


IMPOSSIBLE = {
    "a donor that is no cell": ("tuning", "state:donor_cell", _first(2**40)),
    "a negative donor": ("tuning", "state:donor_cell", _first(-1)),
    "donors that begin beyond": ("drawn", "state:donor_start", _first(2**40)),
    "visits cut short": ("tuning", "state:visits", lambda own: own[:-1]),
    "visits without end": ("drawn", "state:visits", _first(2**62)),
    "negative counts": ("tuning", "state:counts", lambda own: own - 9),
    "counts beside the exact total": ("drawn", "state:counts", lambda own: own + 1),
    "counts that are real numbers": ("drawn", "state:counts", lambda own: own.astype(float)),
    "a generator that stands still": ("tuning", "state:generator", np.zeros_like),
    "a shape that is no number": ("tuning", "hyper:log_shape", lambda own: np.full_like(own, np.nan)),
    "a shape without limit": ("tuning", "hyper:log_shape", lambda own: np.full_like(own, 1e6)),
    "histograms that begin nowhere": ("drawn", "kept:grids", lambda own: own - 2**62),
    "histograms of other draws": ("drawn", "kept:bins", np.zeros_like),
    "fewer answers": ("drawn", "answers:areas", lambda own: own[:-1]),
    "draws that are no numbers": ("drawn", "drawn:log_shape", lambda own: own * np.nan),
    "a draw after the last": ("drawn", "draws", lambda own: own + 1),
    "sweeps before the first": ("tuning", "done", lambda own: own - 2**40),
    "another seed of seeds": ("tuning", "rng", lambda own: np.array("{}")),
    "a start that is none": ("tuning", "ends", lambda own: own[:-1]),
    "means of no table": ("tuning", "state:mean", lambda own: own - 1e30),
    "nothing of it": ("tuning", "state:donor_start", None),
}


@pytest.mark.parametrize("wrong", IMPOSSIBLE)
def test_a_state_that_no_chain_had_is_refused(states, wrong):
    """Compiled code would write where these say, never end, or believe them."""
    folder, found = states
    stage, name, change = IMPOSSIBLE[wrong]
    arrays = {key: own for key, own in found[stage].items() if key != name}
    more = {} if change is None else {name: change(found[stage][name])}
    np.savez(folder / stage / FILE.format(0), **arrays, **more)
    with pytest.raises(ValueError, match=r"chain-0-part-0-0\.npz' is damaged \("):
        _fit(VaryingShares(), journal=folder / stage, resume=True)


def test_folders_of_journals_seeds_that_are_kept_and_files_that_would_grow(tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a.txt").write_text("mine")
    for given, error, message in (
        ({"journal": tmp_path / "letters"}, FileExistsError, "is no journal of a run"),
        ({"journal": tmp_path / "no" / "run"}, FileNotFoundError, "does not exist; create it first"),
        ({"resume": True}, ValueError, "resume=True goes on from a journal"),
    ):
        with pytest.raises(error, match=message):
            _fit(**given)
    journal = tmp_path / "run"
    journal.mkdir()
    (journal / ".run.json.0123456789abcdef.tmp").write_text("{")
    _fit(journal=journal)
    (journal / ".chain-0-part-0-0.npz.0123456789abcdef.tmp").write_bytes(b"PK")
    _fit(journal=journal, resume=True)
    assert not list(journal.glob("*.tmp"))
    with pytest.raises(ValueError, match=r"its draws is 60, here it is 61\. A run cannot be made longer .* begin anew"):
        _fit(journal=journal, draws=61, resume=True)
    (journal / FILE.format(1)).write_bytes(b"PK nothing")
    with pytest.raises(ValueError, match=r"chain-1-part-0-0.npz' is damaged"):
        _fit(journal=journal, resume=True)
    given = {"random_seed": None, "journal": tmp_path / "seeds"}
    first = _fit(**given)
    (tmp_path / "seeds" / FILE.format(0)).unlink()  # this chain begins anew
    _same(_fit(**given, resume=True), first)
    # Zeros that take next to nothing, and a header that asks for more than there is.
    file = tmp_path / "zeros.npz"
    for save in (np.savez_compressed, np.savez):
        save(file, zeros=np.zeros(10**5))
        if save is np.savez:
            file.write_bytes(file.read_bytes().replace(b"(100000,), }    ", b"(1000000000,), }"))
        with pytest.raises(ValueError, match=r"zeros\.npz' is damaged .*(larger in memory|EOF|CRC)"):
            journals.read_arrays(file)
