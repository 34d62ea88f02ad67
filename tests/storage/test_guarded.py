"""A file is read in a child first: it is held to its limits, and nothing of it is left, however it ends."""

import mmap
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from unittest.mock import Mock

import h5py
import numpy as np
import pytest

from bayesdp.storage import guarded, load_netcdf
from bayesdp.storage.guarded import Limits, in_child, read_plain
from bayesdp.tables import read_table
from tests.storage.examples import lattice

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no limits without forks")
LIMITS = Limits(2**24, 1.0, "; ask somebody")


def fail(error):
    return Mock(side_effect=error)


TOO_MUCH = "reading it takes more than 16777216 bytes"
ENDS = {
    "time": (lambda: any(iter(int, 1)), "it takes more than 1 s of a processor, the most for a file of this size$"),
    "crash": (lambda: os.kill(os.getpid(), signal.SIGSEGV), "is damaged: reading it ends a process with SIGSEGV"),
    "an end without a word": (lambda: os._exit(0), rf"{TOO_MUCH}, the most for a file of this size; ask somebody$"),
    "error": (fail(KeyError("x\x1b[2J")), r"a\.nc: 'x\\x1b\[2J'$"),
    "error without words": (fail(AssertionError()), r"a\.nc: AssertionError$"),
    "error of several lines": (fail(ValueError("one\n two")), r"a\.nc: one two$"),
    "error of a library": (fail(OSError("Unable to allocate it")), TOO_MUCH),
    "a long error": (fail(ValueError("ü" * 10**6)), r"a\.nc: ü{1000}"),
    "exit": (lambda: sys.exit(3), "reading it takes more than"),
}


def limits_and_files():
    return [resource.getrlimit(own) for own in (resource.RLIMIT_CPU, resource.RLIMIT_AS)], len(os.listdir("/dev/fd"))


@pytest.mark.parametrize("kind", ENDS)
def test_however_it_ends_one_line_names_the_file(kind, capfd):
    read, message = ENDS[kind]
    before = limits_and_files()
    with pytest.raises(ValueError, match=message) as caught:
        in_child(read, "folder/a.nc", LIMITS)
    assert str(caught.value).startswith("folder/a.nc: ")
    assert "\n" not in str(caught.value)
    assert limits_and_files() == before
    with suppress(ChildProcessError):  # other tests' children may live, and none has ended without being waited for
        assert os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux")
def test_memory_is_limited_and_what_is_read_comes_back(capfd):
    """Oracle: half of the limit is there, and the limit, what libraries may take and 16 MB more are not."""
    in_child(lambda: np.ones(2**23, "i1"), "a.nc", LIMITS)
    with pytest.raises(ValueError, match=rf"a\.nc: {TOO_MUCH}"):
        in_child(lambda: mmap.mmap(-1, 2**26), "a.nc", LIMITS)  # not of memory that this process has freed
    found = in_child(lambda: {"a": np.arange(1000), "b": ["x", None, 0.5]}, "a.nc", LIMITS)
    assert found["a"].tolist() == list(range(1000))
    assert found["b"] == ["x", None, 0.5]
    found["a"][0] = 7  # it is the caller's own
    in_child(lambda: os.write(1, b"much"), "a.nc", LIMITS)
    assert capfd.readouterr() == ("", "")
    with pytest.raises(ValueError, match=r"a\.nc: .*pickle"):
        in_child(threading.Lock, "a.nc", LIMITS)


def test_text_is_read_here_unless_it_is_long(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("a,count\n1,2\n")
    assert read_plain(os.getpid, tmp_path / "a.csv") == os.getpid()
    expected = read_table(tmp_path / "a.csv")
    monkeypatch.setattr(guarded, "_MB", 4)
    assert read_plain(os.getpid, tmp_path / "a.csv") != os.getpid()
    assert read_table(tmp_path / "a.csv").identical(expected)
    (tmp_path / "a.csv").write_text('a,count\n1,"2\n')
    with pytest.raises(ValueError, match=r"^\S*a\.csv, line 2: it is not a CSV file there"):
        read_table(tmp_path / "a.csv")


def test_a_child_that_waits_is_ended_one_that_is_not_kept_may_be_right_and_without_forks_there_is_none(monkeypatch):
    """Some programs have the system forget how their children ended."""
    monkeypatch.setattr(guarded, "_patience", lambda limits: 0.2)
    with pytest.raises(ValueError, match=r"a\.nc: reading it did not end within 0 s"):
        in_child(lambda: time.sleep(1000), "a.nc", LIMITS)
    monkeypatch.undo()
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        in_child(lambda: None, "a.nc", LIMITS)
        with pytest.raises(ValueError, match=r"a\.nc: no"):
            in_child(fail(ValueError("no")), "a.nc", LIMITS)
    finally:
        signal.signal(signal.SIGCHLD, before)
    monkeypatch.delattr(os, "fork")
    assert in_child(os.getpid, "a.nc", LIMITS) == os.getpid()
    with pytest.raises(ValueError, match=r"a\.nc: 'no'"):
        in_child(fail(KeyError("no")), "a.nc", LIMITS)


def test_other_threads_may_read_meanwhile(tmp_path):
    """They hold the lock of HDF5 at any time; and two threads have files read in children at once."""
    lattice().to_netcdf(tmp_path / "a.nc")
    ended = threading.Event()

    def read():
        while not ended.is_set():
            with h5py.File(tmp_path / "a.nc", "r") as file:
                file["measured_0"][()]

    def check():
        for _ in range(3):
            load_netcdf(tmp_path / "a.nc", release=True)

    with ThreadPoolExecutor(2) as threads:
        done = [threads.submit(read), threads.submit(check)]
        try:
            check()
        finally:
            ended.set()
    assert [own.result() for own in done] == [None, None]


TWO_FORKS = """
import os, threading, time
os.register_at_fork(before=lambda: time.sleep(0.2))  # runs after that of filelock, which is registered later
import filelock
from bayesdp.storage.guarded import Limits, in_child
def read():
    print(in_child(lambda: "read\\n", "a.nc", Limits(2**24, 1.0)), end="")
threads = [threading.Thread(target=read) for _ in range(3)]
for thread in threads:
    thread.start()
"""


def test_threads_fork_one_after_the_other():
    """PyTensor imports filelock, whose audit refuses a fork while another thread is in one."""
    command = [sys.executable, "-W", "ignore", "-c", TWO_FORKS]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == 3 * "read\n"


INTERRUPTED = """
import signal, time
from bayesdp.storage.guarded import Limits, in_child
def read():
    open("{0}/child", "w").write(str(__import__("os").getpid()))
    time.sleep(1000)
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a job in the background is started without
try:
    in_child(read, "a.nc", Limits(2**24, 1.0))
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.system
def test_ctrl_c_ends_both(tmp_path):
    command = [sys.executable, "-c", INTERRUPTED.format(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        told = tmp_path / "child"
        while not (told.exists() and told.read_text()):
            assert process.poll() is None
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to both
        assert process.communicate(timeout=60)[0] == "interrupted\n"
    with pytest.raises(ProcessLookupError):
        os.kill(int(told.read_text()), 0)
    assert [own.name for own in tmp_path.iterdir()] == ["child"]
