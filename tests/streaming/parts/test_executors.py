"""`bdp.fit_parts` in threads, in processes and wherever else an executor has them: the same draws, and a dead worker costs no run."""

import multiprocessing
import os
import pickle
import signal
import sys
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from unittest.mock import Mock

import pytest

from bayesdp.streaming import driver
from tests.streaming.parts.cases import assert_same, fitted


@pytest.fixture(scope="module")
def alone():
    return fitted(chains=2, cores=1)


class Flaky(ThreadPoolExecutor):
    """Loses some tasks when they are begun, and others when they have ended."""

    begun = 0

    def submit(self, function, *arguments):
        self.begun += 1
        if self.begun % 5 == 1:
            raise OSError("a worker has died")
        if self.begun % 5 == 3:
            function(*pickle.loads(pickle.dumps(arguments)))  # in another process
            future = Future()
            future.set_exception(BrokenProcessPool("a worker has died"))
            return future
        return super().submit(function, *arguments)


@pytest.mark.parametrize("folder", [False, True])
def test_workers_that_die_cost_no_run_and_no_draw(alone, folder, tmp_path):
    with Flaky(2) as executor:
        assert_same(fitted(chains=2, client=executor, folder=tmp_path if folder else None), alone)
    assert executor.begun > 60


def test_work_that_is_always_lost_is_given_up():
    gone = type("Gone", (Executor,), {"submit": Mock(side_effect=OSError("a worker has died"))})
    with pytest.raises(RuntimeError, match="work for the part 'S' was lost 10 times"):
        fitted(chains=2, client=gone())


@pytest.mark.system
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("folder", [pytest.param(False, marks=pytest.mark.slow), True])
def test_processes_that_are_killed_ten_times_cost_no_run_and_no_draw(alone, folder, tmp_path, monkeypatch):
    killed, real = set(), driver.Runner.run

    def killing(self, *given):
        processes = self._pool._processes
        if processes and len(killed) < 10:
            killed.add(next(iter(processes)))
            with suppress(ProcessLookupError):  # one that was killed before, and that nobody has waited for
                os.kill(next(iter(processes)), signal.SIGKILL)
        return real(self, *given)

    monkeypatch.setattr(driver.Runner, "run", killing)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["bayesdp.streaming.driver"])
    with ProcessPoolExecutor(2, context) as executor:
        assert_same(fitted(chains=2, client=executor, folder=tmp_path if folder else None), alone)
    assert len(killed) == 10
    assert not list(tmp_path.glob(".*.tmp"))
