"""What docs/FILES.md says of the caches of compiled code: where they are, that they can run code, and who is warned."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numba
import pytensor
import pytest

import bayesdp
from bayesdp.cli.files import warn_of_open_caches

pytestmark = pytest.mark.system

ROOT = Path(bayesdp.__file__).resolve().parents[1]
DRAW = (
    "import numpy as np\n"
    "from bayesdp.noise.kernels import discrete_laplace\n"
    "print(discrete_laplace(np.random.default_rng(1), 0.0, 3.0), discrete_laplace.stats.cache_path)"
)


def run(program: str, **environment: str) -> str:
    own = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"} | environment
    done = subprocess.run(
        [sys.executable, "-c", program], env=own, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    return done.stdout


class _Planted:
    """What an attacker writes: a pickle that makes a folder when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_whoever_can_write_to_numbas_cache_can_run_code(tmp_path):
    cache, mark = tmp_path / "cache", tmp_path / "mark"
    first = run(DRAW, NUMBA_CACHE_DIR=str(cache))
    assert str(cache) in first
    [index] = cache.rglob("kernels.discrete_laplace-*.nbi")
    assert not mark.exists()
    index.write_bytes(pickle.dumps(_Planted(mark)))
    run(DRAW, NUMBA_CACHE_DIR=str(cache))  # to which end does not matter
    assert mark.is_dir()


def test_without_the_variable_the_cache_is_beside_the_package():
    told = run("from bayesdp.noise.kernels import discrete_laplace\nprint(discrete_laplace.stats.cache_path)").strip()
    beside = ROOT / "bayesdp" / "noise" / "__pycache__"
    assert Path(told) == beside or not os.access(beside.parent, os.W_OK)


@pytest.mark.parametrize("which", ["numba", "pytensor", "bayesdp", "none"])
def test_open_folders_are_named(which, tmp_path, monkeypatch, capsys):
    folders = {}
    for name in ("numba", "pytensor", "bayesdp"):
        folders[name] = tmp_path / name
        folders[name].mkdir()
        folders[name].chmod(0o777 if name == which else 0o775)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(folders["numba"]))
    monkeypatch.setattr(bayesdp, "__file__", str(folders["bayesdp"] / "__init__.py"))
    monkeypatch.setattr(type(pytensor.config), "compiledir", folders["pytensor"], raising=False)
    warn_of_open_caches("fit")
    told = capsys.readouterr().err.splitlines()
    assert len(told) == (which != "none")
    if told:
        assert f"anybody on this machine can write to {folders[which]} (" in told[0]


def test_a_cache_that_is_not_there_yet_is_no_concern(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "none"))
    warn_of_open_caches("fit")
    assert str(tmp_path) not in capsys.readouterr().err
