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
from tests.cli.conftest import ROOT

pytestmark = pytest.mark.system

DRAW = (
    "import numpy as np\n"
    "from bayesdp.noise.kernels import discrete_laplace\n"
    "print(discrete_laplace(np.random.default_rng(1), 0.0, 3.0), discrete_laplace.stats.cache_path)"
)


def drawn(cache: Path) -> str:
    """What a process prints, to whichever end it comes."""
    done = subprocess.run(
        [sys.executable, "-c", DRAW], env={**os.environ, "NUMBA_CACHE_DIR": str(cache)}, cwd=ROOT, capture_output=True,
        text=True, timeout=300, check=False,
    )  # fmt: skip
    return done.stdout


class _Planted:
    """What an attacker writes: a pickle that makes a folder when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_whoever_can_write_to_numbas_cache_can_run_code(tmp_path):
    cache, mark = tmp_path / "cache", tmp_path / "mark"
    assert str(cache) in drawn(cache)
    [index] = cache.rglob("kernels.discrete_laplace-*.nbi")
    assert not mark.exists()
    index.write_bytes(pickle.dumps(_Planted(mark)))
    drawn(cache)
    assert mark.is_dir()


@pytest.mark.parametrize("which", ["numba", "pytensor", "bayesdp", "none", "absent"])
def test_open_folders_are_named(which, tmp_path, monkeypatch, capsys):
    folders = {}
    for name in ("numba", "pytensor", "bayesdp"):
        folders[name] = tmp_path / name
        folders[name].mkdir()
        folders[name].chmod(0o777 if name == which else 0o775)
    if which == "absent":  # a cache that is not there yet is no concern
        folders["numba"].rmdir()
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(folders["numba"]))
    monkeypatch.setattr(bayesdp, "__file__", str(folders["bayesdp"] / "__init__.py"))
    monkeypatch.setattr(type(pytensor.config), "compiledir", folders["pytensor"], raising=False)
    warn_of_open_caches("fit")
    told = capsys.readouterr().err.splitlines()
    assert len(told) == (which in ("numba", "pytensor", "bayesdp"))
    if told:
        assert f"anybody on this machine can write to {folders[which]} (" in told[0]
