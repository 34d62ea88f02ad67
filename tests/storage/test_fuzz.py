"""Mutated files of every kind that is read: some dozens here, thousands with ``make fuzz``; and the fuzzer itself."""

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from bayesdp.release import Release
from bayesdp.storage import hdf5
from tests.storage.examples import lattice
from tests.storage.fuzz import case, child
from tests.storage.fuzz.mutate import mutate
from tests.storage.fuzz.outcome import Outcome
from tests.storage.fuzz.readers import check_netcdf, check_same, command
from tests.storage.fuzz.targets import KNOWN, TARGETS, Target

CASES = 60
# The process of pytest may have a thread that waits for messages; a fork that only reads a file does not need it.
pytestmark = [pytest.mark.filterwarnings("ignore:This process .*:DeprecationWarning"), pytest.mark.system]


def test_no_file_does_harm(tmp_path):
    """Refused with one line that names the file, or accepted and the same again: within 2 s and 600 MB, and nothing else."""
    command = [sys.executable, "-m", "tests.storage.fuzz.run", "--cases", str(CASES)]
    command += ["--folder", tmp_path / "fuzz", "--json", tmp_path / "all"]
    root = Path(__file__).resolve().parents[2]
    ran = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=900, check=False)
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    outcomes = [Outcome(**json.loads(line)) for line in (tmp_path / "all").read_text().splitlines()]
    assert len(outcomes) >= CASES
    assert {own.target for own in outcomes} == {own.name for own in TARGETS}
    done = [sum(own.verdict == verdict for own in outcomes) for verdict in ("refused", "accepted", "unmade")]
    assert done[0] > 0.4 * len(outcomes)
    assert done[1] > 0.02 * len(outcomes)
    assert done[2] < 0.1 * len(outcomes)  # mutations of what an earlier mutation has made unreadable
    assert not (tmp_path / "fuzz").exists()


@pytest.fixture
def judged(tmp_path):
    def judge(read, check=check_same, spoil=lambda file: None):
        home = tmp_path / f"case-{len([*tmp_path.iterdir()])}"
        for own in ("input", "elsewhere", "output", "cwd"):
            (home / own).mkdir(parents=True)
        path = home / "input" / "release.nc"
        lattice().to_netcdf(path)
        with h5py.File(path, "r+") as file:
            spoil(file)
        return case.judged(0, Target("ours", (), read, check, 1), "nothing", 1, path, home)

    return judge


def ask(path):
    try:
        np.ones(2**38)
    except MemoryError as error:
        raise ValueError(f"{path}: {error}") from None


def write_below(path):
    """As a library in C does: no event of Python."""
    h5py.File(path.parent.parent / "elsewhere" / "new.h5", "w").close()


def change(path):
    with h5py.File(path, "r+") as file:
        file.attrs["x"] = 1


def import_odd(path):
    source = path.parent.parent / "output" / "odd_module.py"
    source.write_text("")
    sys.path.insert(0, str(source.parent))
    __import__("odd_module")


def refuse(told):
    def read(path):
        raise ValueError(told.replace("FILE", str(path)))

    return read


HARM = {
    "hangs": (lambda path: time.sleep(1000), "hung"),
    "takes long": (lambda path: any(iter(int, 1)), "time"),
    "takes memory": (lambda path: bytearray(b"1") * (330 * 2**20) and None, "memory"),
    "asks for memory": (ask, "asked for too much memory"),
    "crashes": (lambda path: os.kill(os.getpid(), signal.SIGSEGV), f"signal {int(signal.SIGSEGV)}"),
    "leaves": (lambda path: os._exit(0), "ended without a word"),
    "starts a process": (lambda path: subprocess.run(["true"], check=True) and None, "did more than reading"),
    "unpickles": (lambda path: pickle.loads(b"cos\ngetcwd\n.") and None, "did more than reading"),
    "writes": (lambda path: Path("found.txt").write_text("x") and None, "did more than reading"),
    "writes without Python": (write_below, "wrote elsewhere"),
    "changes its file": (change, "changed its file"),
    "imports": (import_odd, "imported an odd module"),
    "falls": (lambda path: {}["number"], "traceback: KeyError in outside bayesdp"),
    "names no file": (refuse("it is wrong"), "refusal without the file's name"),
    "says several lines": (refuse("FILE:\nwrong"), "refusal of several lines"),
    "says controls": (refuse("FILE: \x1b[2J"), "refusal with control characters"),
    "forgets itself": (lambda path: np.random.default_rng().random(), "reading is not repeatable"),
}


@pytest.mark.parametrize("kind", HARM)
def test_the_fuzzer_sees(kind, judged, monkeypatch):
    read, sort = HARM[kind]
    monkeypatch.setattr(child, "_WALL", 0.5 if kind == "hangs" else 90.0)
    if kind == "takes long":
        monkeypatch.setattr(case, "CPU_SECONDS", 0.5)
        monkeypatch.setattr(child, "_HARD_CPU", 1)
    outcome = judged(read)
    assert outcome.verdict == "defect", outcome
    assert outcome.sort == sort


def test_verdicts_on_our_own_readers_and_on_one_without_its_check(judged, monkeypatch):
    """A release that contradicts itself is a defect, a refusal none; without the check of what a file declares, zeros take memory."""
    wrong = judged(lambda path: replace(Release.from_netcdf(path), simulated=False), check_netcdf)
    good = judged(Release.from_netcdf, check_netcdf)
    assert [wrong.verdict, good.verdict, good.sort] == ["defect", "accepted", ""]
    assert good.seconds < 2
    for read in (refuse("FILE: it is wrong"), command("summary", "FILE")):  # it is no posterior
        assert judged(read).verdict == "refused"
    monkeypatch.setattr(hdf5._Checker, "groups_of", lambda self, path: ["/"])
    monkeypatch.setattr(hdf5, "in_child", lambda read, path, limits: read())
    monkeypatch.setattr(case, "MEGABYTES", 50.0)

    def spoil(file):
        file.create_dataset("extra", data=np.zeros(10_000_000), chunks=(500_000,), compression=9).make_scale("extra")

    assert judged(hdf5.load_netcdf, check_netcdf, spoil).sort == "memory"


def test_a_case_is_made_again_by_its_number_and_every_target_has_its_turn(tmp_path):
    """The bytes depend on the seed and the number only; whatever the seed, known cases come first, then one of each target."""
    (tmp_path / "shelf").mkdir()
    lattice().to_netcdf(tmp_path / "shelf" / "a.nc")

    def made(number):
        path, rng = tmp_path / "made.nc", np.random.default_rng([7, number])
        path.write_bytes((tmp_path / "shelf" / "a.nc").read_bytes())
        mutation = child.in_child(lambda tell, _: tell({"how": mutate(rng, path, tmp_path / "shelf")}))
        return mutation.told, path.read_bytes()

    first, second = ([made(number) for number in range(12)] for _ in range(2))
    assert first == second
    assert len({content for _, content in first}) > 6
    names = [case.target_of(number, np.random.default_rng(3)).name for number in range(len(KNOWN) + len(TARGETS))]
    assert names[: len(KNOWN)] == [own.target for own in KNOWN]
    assert set(names[len(KNOWN) :]) == {own.name for own in TARGETS}
