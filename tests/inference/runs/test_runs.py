"""Runs that are stopped or fail: what was drawn is never lost; and what is said meanwhile."""

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent
from unittest.mock import Mock

import nbclient
import nbformat
import numpy as np
import pymc as pm
import pytensor
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp import noise
from bayesdp.inference import annotating, sampling
from bayesdp.inference.runs import running
from bayesdp.inference.runs.running import ProgressLines, diagnostics_lines
from bayesdp.storage import compress_draws, write_draws
from tests.inference.oracle import noisy_cells

ROOT = str(Path(__file__).resolve().parents[3])
FRAME = {"county": ["Alpha", "Beta", "Gamma"]}
QUICK = {"draws": 300, "tune": 20, "chains": 2, "cores": 1, "random_seed": 1, "progressbar": False, "quiet": True}


def made():
    release = noisy_cells(FRAME, [30, 80, 12], noise.DiscreteLaplace(b=3.0), bdp.Exact(bdp.Totals(FRAME), 120))
    with pm.Model(coords=FRAME) as model:
        bdp.observe(release, bdp.FlatCounts("x", dims="county"))
    return model


model = pytest.fixture(scope="module")(made)


def test_nothing_asks_for_the_version_of_the_installed_package():
    """As from a source tree: the package's metadata is not there."""
    package = Path(bdp.__file__).parent
    assert not [own for own in package.rglob("*.py") if 'version("bayesdp")' in own.read_text().replace("'", '"')]


class TestDrawsAreKept:
    @pytest.mark.parametrize(("where", "name"), [(sampling, "diagnose"), (annotating, "_limits")])
    def test_after_an_interrupt_and_an_error_in_the_diagnostics(self, model, monkeypatch, where, name):
        monkeypatch.setattr(where, name, Mock(side_effect=KeyboardInterrupt()))
        with model:
            tree = bdp.sample(**QUICK)
        assert tree.posterior.sizes == {"chain": 2, "draw": 300, "county": 3}
        assert {"release", "diagnostics"} <= set(tree.children)
        assert tree.attrs["bayesdp_version"] == bdp.__version__
        if name == "diagnose":
            assert "fiber" in tree.children
            message = "Convergence was not judged: the diagnostics were interrupted."
            assert tree["diagnostics"].attrs == {"verdict": "not judged", "converged": 0, "message": message}
            monkeypatch.setattr(sampling, "diagnose", Mock(side_effect=MemoryError("no room")))
            with model, pytest.raises(MemoryError, match="no room") as caught:
                bdp.sample(**QUICK)
            assert caught.value.draws.posterior["x"].shape == (2, 300, 3)
            assert caught.value.__notes__ == [
                "What was drawn is not lost: it is in the attribute `draws` of this error."
            ]


SCRIPT = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
import bayesdp as bdp
from tests.inference.runs.test_runs import made
calls = []
with made():
    tree = bdp.sample(
        draws=1_000_000, tune=50, chains=4, cores=1, random_seed=1, progressbar=False,
        callback=lambda trace, draw: calls.append(draw.chain),
    )
x = tree.posterior["x"]
print(x.sizes["chain"], x.sizes["draw"], tree.attrs["interrupted"], len(calls), set(calls), bool((x.sum("county") == 120).all()))
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""


@pytest.mark.system
def test_ctrl_c_with_one_core_returns_what_was_drawn():
    """Once Ctrl-C ended the first of four chains only, and the next one began."""
    given = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "start_new_session": True}
    environment = {**os.environ, "PYTHONPATH": ROOT}
    process = subprocess.Popen([sys.executable, "-c", SCRIPT], env=environment, **given)
    assert process.stderr is not None
    while "FiberGibbs: [x]" not in (line := process.stderr.readline()):
        assert line, "it ended before it began"
    time.sleep(0.7)  # the first draws follow in milliseconds
    start = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - start < 30.0  # a second or two on a machine that does nothing else
    assert process.returncode == 0, err
    assert "interrupted: stopping after this draw; Ctrl-C again to stop in the middle of it" in err
    chains, draws, interrupted, calls, *_ = out.split()
    assert (chains, interrupted) == ("1", "1")
    assert int(draws) + 50 == int(calls) < 1_000_050
    assert out.strip().endswith("{0} True")


class TestProgressLines:
    def test_now_and_then(self, monkeypatch, capsys):
        """At 5, 10, 15, 23, ... seconds, and once a minute in the end; of what is left after the first draw alone."""

        def lines(seconds, told, before=(), after=1000):
            times = iter(seconds)
            monkeypatch.setattr(running.time, "monotonic", lambda: next(times))
            own = told()
            for done in range(1, len(seconds)):
                own(*before, done, after)
            return capsys.readouterr().err.splitlines()

        many = lines(np.arange(1001.0), lambda: ProgressLines("sampling", "draws"))
        assert many[0] == "sampling: 5 of 1,000 draws (0%), 0:00:05 passed, about 0:16:35 left"
        assert 15 < len(many) < 30
        assert lines([0.0, 100.0, 151.0], lambda: ProgressLines("sampling", "draws")) == [
            "sampling: 1 of 1,000 draws (0%), 0:01:40 passed",
            "sampling: 2 of 1,000 draws (0%), 0:02:31 passed, about 14:08:18 left",
        ]
        assert not lines([0.0, 1.0, 2.0, 4.9], diagnostics_lines, ("x",), 3)  # a quick run
        # After a long compilation no line stays at the first draw: the next one comes with five seconds of draws.
        assert lines([0.0, 100.0, 103.0, 106.0], lambda: ProgressLines("sampling", "draws", "compiling the model")) == [
            "compiling the model",
            "sampling: 3 of 1,000 draws (0%), 0:01:46 passed, about 0:49:51 left",
        ]

    def test_sampling_writes_them_when_they_are_wanted(self, model, monkeypatch, capsys):
        monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
        assert [running.lines_wanted(own) for own in ({}, {"progressbar": False}, {"quiet": True})] == [
            True,
            False,
            False,
        ]
        with monkeypatch.context() as patch:
            patch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
            assert not running.lines_wanted({})
        for widgets in (None, "there"):
            with monkeypatch.context() as patch:
                patch.setattr(running, "Console", lambda: Mock(is_jupyter=True))
                patch.setattr(running, "find_spec", lambda name, found=widgets: found)
                assert running.lines_wanted({}) == (widgets is None)
        monkeypatch.setattr(running, "_FIRST", 0.0)
        monkeypatch.setattr(running, "_LONGEST", 0.0)
        with model:
            bdp.sample(**QUICK | {"draws": 30, "progressbar": True, "quiet": False})
        assert "sampling: 99 of 100 draws (99%)" in capsys.readouterr().err

    @pytest.mark.system
    @pytest.mark.skipif(find_spec("ipywidgets") is not None, reason="with ipywidgets there is a bar")
    def test_a_notebook_without_widgets_has_them_once_and_no_bar_that_cannot_be_shown(self):
        source = """
            import pymc as pm, bayesdp as bdp
            from bayesdp.inference.runs import running
            from tests.inference.runs.test_runs import QUICK, made
            running._FIRST = running._LONGEST = 0.0
            with made():
                bdp.sample(**QUICK | {"draws": 30, "progressbar": True, "quiet": False})
            with pm.Model():
                pm.Normal("z")  # for nutpie, where it is installed
                bdp.sample(30, tune=30, chains=2, random_seed=1)"""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(dedent(source))])
        nbclient.NotebookClient(notebook, resources={"metadata": {"path": ROOT}}).execute()
        outputs = notebook.cells[0].outputs
        lines = "".join(own.text for own in outputs if own.output_type == "stream").splitlines()
        assert [own.output_type for own in outputs if own.output_type == "display_data"] == []
        assert lines.count("compiling the model") == 1
        assert len([own for own in lines if own.startswith("sampling: 99 of 100 draws (99%)")]) == 1


def test_functions_are_compiled_for_sums_in_one_order(monkeypatch):
    """In this process and in those of the chains; the user's setting is as before."""
    seen, run = [], pm.sample

    def looked(*args, **given):
        seen.append(pytensor.config.numba__fastmath)
        return run(*args, **given)

    monkeypatch.setattr(pm, "sample", looked)
    with pytensor.config.change_flags(numba__fastmath=True):
        with pm.Model():
            pm.Normal("mean")
            bdp.sample(5, tune=5, chains=1, cores=1, random_seed=7, nuts_sampler="pymc", progressbar=False, quiet=True)
        running._run((), lambda: seen.append(pytensor.config.numba__fastmath), ())
        assert pytensor.config.numba__fastmath
    assert seen == [False, False]


TWICE = """
import hashlib
from tests.inference.runs.test_journal import RUN, bdp, with_a_rate
with with_a_rate():
    draws = bdp.sample(**RUN | {"draws": 200, "tune": 200, "chains": 4, "cores": 2})["posterior"].to_dataset()
print([hashlib.sha256(draws[name].values[chain].tobytes()).hexdigest() for name in sorted(draws) for chain in range(4)])
"""


@pytest.mark.slow
def test_draws_with_a_seed_are_the_same_the_first_time_and_later(tmp_path):
    """Of four chains of two processes at a time, the first two compile where nothing is there to be read."""
    flags = f"{os.environ.get('PYTENSOR_FLAGS', '')},base_compiledir={tmp_path / 'pytensor'}".strip(",")
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(tmp_path / "numba"),
        "PYTENSOR_FLAGS": flags,
        "PYTHONPATH": ROOT,
    }
    command = [sys.executable, "-c", TWICE]
    one, other = (subprocess.check_output(command, env=environment, text=True, timeout=600) for _ in range(2))
    assert one == other


def test_a_file_is_about_as_small_as_one_of_the_smallest_type(tmp_path):
    """Counts of 2,000 cells that vary by a few, 200 draws: at most 15% more than what the smallest type needs, compressed."""
    rng = np.random.default_rng(1)
    draws = rng.integers(0, 30_000, size=2000) + rng.poisson(4.0, size=(2, 100, 2000))
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset({"x": (("chain", "draw", "cell"), draws)})})
    write_draws(compress_draws(tree), tmp_path / "small.nc")
    narrow = tree.map_over_datasets(lambda own: own.astype(np.min_scalar_type(-int(draws.max()))))
    narrow["posterior"]["x"].encoding.update(tree["posterior"]["x"].encoding)
    narrow.to_netcdf(tmp_path / "narrow.nc", engine="h5netcdf")
    size = {path.stem: path.stat().st_size for path in tmp_path.iterdir()}
    assert size["small"] < 1.15 * size["narrow"]
    assert size["small"] < draws.nbytes / 2
    with pytest.raises(FileExistsError):
        write_draws(tree, tmp_path / "small.nc")
    again = xr.open_datatree(tmp_path / "small.nc", engine="h5netcdf").load()["posterior"]["x"]
    np.testing.assert_array_equal(again, draws, strict=True)
