"""Under its final name an output is complete or as it was: with several writers, kills, full disks and little memory."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

from bayesdp.release import Release
from bayesdp.storage import atomic, draws, write_draws, write_draws_somewhere, write_text
from tests.storage.examples import lattice, several

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]


def script(*arguments: object) -> dict:
    command = [sys.executable, "-m", "tests.storage.writers", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def tree(size: int = 300) -> xr.DataTree:
    draws = np.random.default_rng(1).integers(0, 2**40, (2, size, 40))
    return xr.DataTree.from_dict({"posterior": xr.Dataset({"x": (("chain", "draw", "cell"), draws)})})


# ---------------------------------------------------------------------------------------------------- several writers


@pytest.fixture(scope="module")
def told() -> dict[str, dict]:
    return script(30, 1)


def one_wins(found: dict[str, dict], races: int) -> None:
    for kind in ("file", "file-without-links"):
        assert found[f"races {kind}"] == {"winners": [1] * races, "true": True, "left": [], "died": []}


def test_one_of_several_writers_wins_and_the_others_know_it(told):
    """Before, two of four writers believed it in 21 of 300 races."""
    one_wins(told, 30)


@pytest.mark.slow
def test_one_of_several_writers_wins_in_many_races():
    one_wins(script(300, 0), 300)


def test_with_force_the_last_writer_wins(told):
    found = told["races file-force"]
    assert found["winners"] == [4] * 30
    assert found["true"]
    assert not found["died"]
    assert not found["left"]


# ------------------------------------------------------------------------------------------------------------- kills


@pytest.mark.parametrize(
    ("kind", "there", "allowed"),
    [
        ("file", 0, {"nothing", "new"}),
        ("file-force", 0, {"nothing", "new"}),
        ("file-force", 1, {"old", "new"}),
        ("file-without-links", 0, {"nothing", "empty", "new"}),  # as `replacing` says
    ],
)
def test_killed_at_every_call_of_the_system(told, kind, there, allowed):
    found = told[f"kills {kind} {there}"]
    assert (found["ended"], found["status"]) == ("new", 0)
    assert set(found["states"]) == allowed
    assert found["recovered"] == len(found["states"]) >= 11


# ------------------------------------------------------------------------------------------------ somebody's own files


def test_links_and_devices_are_not_replaced(tmp_path):
    (tmp_path / "own.txt").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "own.txt")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    lattice().to_csv(tmp_path / "release.csv")
    (tmp_path / "linked.csv").symlink_to(tmp_path / "release.csv")
    for name, told in (("link", "is a link to"), ("dangling", "is a link to"), ("pipe", "is no regular file")):
        with pytest.raises(FileExistsError, match=told):
            write_text(tmp_path / name, "ours", overwrite=True)
    with pytest.raises(FileExistsError, match="is a link to"):
        several().to_csv(tmp_path / "linked.csv", overwrite=True)
    assert Release.from_csv(tmp_path / "release.csv") == lattice()
    assert (tmp_path / "own.txt").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()
    assert stat.S_ISFIFO((tmp_path / "pipe").lstat().st_mode)


def test_who_may_read_a_file_stays_as_it_is(tmp_path):
    (tmp_path / "private").write_text("old")
    (tmp_path / "private").chmod(0o600)
    write_text(tmp_path / "private", "new", overwrite=True)
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o600


# ------------------------------------------------------------------------------------------------------ broken disks


def test_on_a_disk_without_hard_links_nothing_is_replaced(tmp_path, monkeypatch):
    def no_links(source, target):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    write_text(tmp_path / "a", "first")
    (tmp_path / "b").write_text("theirs")
    with pytest.raises(FileExistsError, match="exists already"):
        atomic._take_name(tmp_path / "a", tmp_path / "b")  # it appeared after the last look
    assert (tmp_path / "b").read_text() == "theirs"
    monkeypatch.setattr(os, "replace", lambda *_: no_links(*_))
    with pytest.raises(OSError, match="Operation not permitted"):
        write_text(tmp_path / "c", "ours")
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_a_server_that_links_and_says_it_did_not(tmp_path, monkeypatch):
    """Over NFS the answer may be lost: the second attempt finds the link."""
    link = os.link

    def links(source, target):
        link(source, target)
        raise FileExistsError(errno.EEXIST, "File exists")

    monkeypatch.setattr(os, "link", links)
    write_text(tmp_path / "a", "ours")
    assert (tmp_path / "a").read_text() == "ours"


@pytest.mark.parametrize("failing", [1, 2])
def test_the_disk_that_reports_an_error_is_believed(tmp_path, monkeypatch, failing):
    """The first fsync is that of the file, before it has its name; the second that of the folder, after."""
    fsync, calls = os.fsync, []

    def fails(file):
        calls.append(file)
        if len(calls) == failing:
            raise OSError(errno.EIO, "Input/output error")
        fsync(file)

    monkeypatch.setattr(os, "fsync", fails)
    told = ["nothing was written", "it is written, but the disk has not confirmed"][failing - 1]
    with pytest.raises(OSError, match=rf"Input/output error; {told}.*a\.txt"):
        write_text(tmp_path / "a.txt", "text")
    assert os.listdir(tmp_path) == [[], ["a.txt"]][failing - 1]


def test_draws_that_find_no_room_go_elsewhere(tmp_path, monkeypatch):
    (tmp_path / "full").mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "elsewhere"))
    made = atomic.replacing

    def full(path, *, overwrite=False):
        if "full" in Path(path).parts:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return made(path, overwrite=overwrite)

    monkeypatch.setattr(atomic, "replacing", full)
    with pytest.raises(OSError, match=r"p\.nc: No space left on device\. The draws are in '(.*)' instead") as caught:
        write_draws_somewhere(tree(), tmp_path / "full" / "p.nc")
    (kept,) = (tmp_path / "elsewhere").iterdir()
    assert str(kept) in str(caught.value)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert (
        xr.load_datatree(kept, engine="h5netcdf")["posterior"].to_dataset().identical(tree()["posterior"].to_dataset())
    )
    monkeypatch.setattr(atomic, "replacing", lambda path, overwrite: full("full"))
    with pytest.raises(OSError, match="could not be kept elsewhere: full: No space left"):
        write_draws_somewhere(tree(), tmp_path / "full" / "p.nc")
    assert list((tmp_path / "elsewhere").iterdir()) == [kept]


# ------------------------------------------------------------------------------------------------- files in memory


def test_an_image_is_a_file_for_hdf5(tmp_path):
    """The same content as through a file of the system; and many pieces."""
    own = tree(600)
    write_draws(own, tmp_path / "image.nc")
    own.to_netcdf(tmp_path / "file.nc", engine="h5netcdf")
    read = [xr.load_datatree(tmp_path / f"{name}.nc", engine="h5netcdf") for name in ("image", "file")]
    assert read[0].identical(read[1])
    assert abs((tmp_path / "image.nc").stat().st_size - (tmp_path / "file.nc").stat().st_size) < 1000
    holder = draws._Image()
    with h5py.File(holder, "w") as file:
        file["x"] = np.arange(400_000)
    holder.seek(0)
    assert len(holder.content()) > 2
    with h5py.File(holder, "r") as file:
        assert np.array_equal(file["x"][:], np.arange(400_000))


SHORT = """
import builtins, gc, sys
import numpy as np, xarray as xr
from bayesdp.storage import draws
from tests.storage.test_atomic import tree
own, left = tree(200), 0
def failing(size):
    global left
    left -= 1
    if left < 0:
        raise MemoryError
    return builtins.bytearray(size)
draws._PIECE = 8_000
draws.bytearray = failing
tried = 0
while True:
    left = tried
    try:
        draws.netcdf_image(own)
        break
    except MemoryError as error:
        assert "not enough memory to write the file" in str(error), error
    tried += 1
    gc.collect()
print(tried, own["posterior"]["x"].shape == (2, 200, 40))
"""


def test_memory_that_is_short_at_any_piece_is_an_error_and_no_crash():
    """In a process of its own, whose end is part of it: what HDF5 could not close would crash there."""
    command = [sys.executable, "-c", SHORT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    tried, whole = done.stdout.split()
    assert int(tried) > 10
    assert whole == "True"


def test_names_as_long_as_the_system_allows(tmp_path):
    name = "ä" * 126 + ".nc"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lattice().to_netcdf(tmp_path / name)
    assert os.listdir(tmp_path) == [name]
