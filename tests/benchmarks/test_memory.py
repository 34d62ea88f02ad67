"""How memory is measured: on arrays of known size, alone and shared by a fork."""

import multiprocessing
import sys
import time

import numpy as np
import pytest

from benchmarks.memory import apart

MEGABYTES = 64


def filled():
    """Hold an array for a moment, and give it up."""
    held = np.ones(MEGABYTES * 2**17)
    time.sleep(0.2)
    return float(held[-1])


def _hold(own, all_have):
    own = np.ones(MEGABYTES * 2**17) if own is None else own
    all_have.wait()
    time.sleep(0.3 + 0.0 * float(own[-1]))


def forked(copies, each):
    """Children hold the array of the process that they come from, or one each."""
    held, fork = np.ones(MEGABYTES * 2**17), multiprocessing.get_context("fork")
    all_have = fork.Barrier(copies)
    children = [fork.Process(target=_hold, args=(None if each else held, all_have)) for _ in range(copies)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    return len(held)


def _of_array(took):
    return (took.gigabytes - took.before) / (MEGABYTES * 2**20 / 1e9)


def test_what_a_process_held_for_a_moment_and_not_what_this_one_holds():
    ours = np.ones(4 * MEGABYTES * 2**17)
    took = apart(filled)
    assert took.result == 1.0
    assert len(ours) == 4 * MEGABYTES * 2**17
    assert 0.95 < _of_array(took) < 1.3


@pytest.mark.skipif(sys.platform != "linux", reason="pages that are shared are told by Linux only")
@pytest.mark.parametrize(("each", "times"), [(False, 1), (True, 4)])
def test_what_forks_share_is_counted_once(each, times):
    took = apart(forked, 3, each)
    assert 0.95 * times < _of_array(took) < 1.1 * times + 0.4
    if not each:
        assert took.in_full - took.before > 4 * (took.gigabytes - took.before)


def starts():
    """How processes are started."""
    return multiprocessing.get_context().get_start_method()


def test_processes_start_as_those_of_a_user_do():
    assert apart(starts).result == multiprocessing.get_all_start_methods()[0]


def test_an_error_comes_back():
    with pytest.raises(TypeError, match="missing"):
        apart(forked)
