"""Signals of schedulers and closed terminals: taken by the command line while it runs, and by nobody else."""

import os
import pty
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from bayesdp._interrupts import deferred, handled, interrupt, received
from bayesdp.cli.errors import interrupt_status, terminating_signals
from bayesdp.cli.files import read_posterior
from bayesdp.storage import replacing
from tests.cli.conftest import started

pytestmark = pytest.mark.system


def test_only_the_command_line_takes_them_and_gives_them_back(foreground):
    with terminating_signals():
        for name, status in (("SIGTERM", 143), ("SIGHUP", 129)):
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.Signals[name])
            assert interrupt_status() == status
        with terminating_signals():  # a command that runs another one
            assert received.handed_over == (signal.SIGTERM, signal.SIGHUP)
        assert received.handed_over == (signal.SIGTERM, signal.SIGHUP)
        assert signal.getsignal(signal.SIGTERM) is interrupt
    assert signal.getsignal(signal.SIGTERM) is signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    assert received.handed_over == ()
    with handled(lambda number: None) as taken:
        assert taken
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL  # of a user's process: not ours


def test_what_is_ignored_stays_ignored_and_other_threads_change_nothing(foreground):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the background of a shell
    with terminating_signals():
        assert received.handed_over == (signal.SIGTERM,)
        noted = []
        with handled(noted.append):
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
                signal.raise_signal(number)
        assert noted == [signal.SIGTERM]

    def elsewhere():
        with terminating_signals(), deferred():
            return signal.getsignal(signal.SIGTERM)

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(elsewhere).result() is signal.SIG_DFL


@pytest.mark.parametrize("overwrite", [False, True])
def test_an_interrupt_waits_until_a_file_is_written_and_a_full_disk_is_told(foreground, tmp_path, overwrite):
    path = tmp_path / "a.txt"

    def write(error=None):
        with replacing(path, overwrite=overwrite) as temporary:
            signal.raise_signal(signal.SIGINT)
            temporary.write_text("complete")
            signal.raise_signal(signal.SIGINT)
            if error:
                raise error

    with pytest.raises(OSError, match="no room"):
        write(OSError("no room"))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(KeyboardInterrupt):
        write()
    assert (list(tmp_path.iterdir()), path.read_text()) == ([path], "complete")


@pytest.mark.slow
@pytest.mark.parametrize(("draws", "ignored"), [(1_000_000, False), (20_000, True)])
def test_a_closed_terminal_keeps_the_draws(released, draws, ignored):
    """The progress bar cannot be drawn any more, nor can anything be said. Under nohup SIGHUP is ignored, and the run goes on."""
    main, terminal = pty.openpty()
    fit = f"fit release.nc --chains 2 --draws {draws} --tune 10 -o p.nc".split()
    before = "signal.signal(signal.SIGHUP, signal.SIG_IGN)" if ignored else ""
    process = started(*fit, before=before, stdout=terminal, stderr=terminal)
    os.close(terminal)
    shown, deadline = b"", time.monotonic() + 240
    while b"Progress" not in shown and b"Draws" not in shown:
        assert time.monotonic() < deadline
        shown += os.read(main, 65536)
    until = time.monotonic() + 2.0
    while not ignored and time.monotonic() < until:
        os.read(main, 65536)
    os.close(main)  # whoever had the terminal is gone; without a controlling terminal the shell passes SIGHUP on
    if not ignored:
        os.killpg(process.pid, signal.SIGHUP)
    assert process.wait(timeout=400) == (0 if ignored else 129)
    tree, _ = read_posterior("p.nc")
    assert tree.attrs.get("interrupted", 0) == (not ignored)
    assert tree["posterior"].sizes["draw"] == draws if ignored else 10 < tree["posterior"].sizes["draw"] < draws
