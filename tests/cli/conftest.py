"""Files for the command line, and a way to run it in this process."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import xarray as xr

from bayesdp.cli import main

NOISY = "county,education,count\nAlpha,Low,14\nAlpha,High,-2\nBeta,Low,23\nBeta,High,9\nGamma,Low,2\nGamma,High,6\n"
MARGINS = "county,education,total\nAlpha,,16\nBeta,,30\nGamma,,10\n,Low,38\n,High,18\n"
TABLE = "county,education,count\nAlpha,Low,15\nAlpha,High,1\nBeta,Low,20\nBeta,High,10\nGamma,Low,3\nGamma,High,7\n"
LAW = ("--law", "discrete-gaussian sigma=5")
IMPORT = ("import", "noisy.csv", "--exact", "margins.csv", *LAW, "-o")
"""With a file after it."""
RELEASE = ("release", "table.csv", "--invariant", "margins:county", "--mechanism", "lattice-laplace", "--epsilon", "1")
ROOT = Path(__file__).resolve().parents[2]
COMMAND = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, where the tests run in the background of a shell
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored under nohup, and stays so in every process that is started there
BEFORE
import bayesdp.inference.runs.recorded as recorded
recorded.SECONDS = 0.0 if "--resume" in sys.argv else recorded.SECONDS  # every draw is written as it comes
from bayesdp.cli import main
sys.exit(main(sys.argv[1:]))
"""


def started(*arguments, before="", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE):
    """The command line in a process, and a session, of its own, with signals as in the foreground but for what runs `before`."""
    command = [sys.executable, "-c", COMMAND.replace("BEFORE", before), *arguments]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    return subprocess.Popen(command, stdout=stdout, stderr=stderr, text=True, start_new_session=True, env=env)


class Result(NamedTuple):
    status: int
    out: str
    err: str


def failed(result, *words):
    """Status 2, nothing on standard output, one line on standard error with these words, no traceback."""
    assert (result.status, result.out) == (2, ""), result
    assert len(result.err.splitlines()) == 1, result.err
    assert "Traceback" not in result.err
    for word in words:
        assert word in result.err


def posterior(path="posterior.nc"):
    with xr.open_datatree(path, engine="h5netcdf") as tree:
        return tree.load()


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run the command line in a folder with example files; ``run("import", "noisy.csv", ...)``."""
    monkeypatch.chdir(tmp_path)
    Path("noisy.csv").write_text(NOISY)
    Path("margins.csv").write_text(MARGINS)
    Path("table.csv").write_text(TABLE)

    def call(*arguments):
        capsys.readouterr()
        try:
            status = main(list(arguments))
        except SystemExit as stop:  # argparse leaves this way
            status = int(stop.code or 0)
        out, err = capsys.readouterr()
        return Result(status, out, err)

    return call


@pytest.fixture
def released(run):
    """The same, with ``release.nc`` made of the example files."""
    assert run(*IMPORT, "release.nc").status == 0
    return run


@pytest.fixture
def foreground():
    """Signals as a shell in the foreground has them, and as they were afterwards: tests may run in its background."""
    numbers = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, own) for number, own in numbers.items()}
    yield
    for number, own in before.items():
        signal.signal(number, own)
