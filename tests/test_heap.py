"""Memory that is given back, and the stamps of compiled kernels."""

from __future__ import annotations

import ctypes
import inspect
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

import bayesdp
from bayesdp._numba import code_version, stamp_of

pytestmark = pytest.mark.system

HOLES = """
import numpy as np
from bayesdp._interrupts import give_back

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

arrays = [np.ones(12_000) for _ in range(2_000)]  # 96 kB each, below what gets pages of its own
kept = arrays[::8]
del arrays
before = resident()
assert give_back()
print(before - resident())
"""


@pytest.mark.skipif(
    not (sys.platform.startswith("linux") and hasattr(ctypes.CDLL(None), "malloc_trim")), reason="needs glibc"
)
def test_holes_in_the_heap_are_given_back():
    found = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, text=True, check=True)
    assert int(found.stdout) > 100e6  # of 168 MB


OUTER = """
from bayesdp._numba import nb
from bayesdp.inner import inner

@nb.njit(cache=True)
def outer():
    return inner()

print(outer(), len(outer.stats.cache_hits))
"""

INNER = """
from bayesdp._numba import nb

@nb.njit(cache=True)
def inner():
    return {number}
"""


def test_a_change_in_a_file_that_is_called_is_noticed(tmp_path):
    package = tmp_path / "bayesdp"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "_numba.py").write_text((Path(bayesdp.__file__).parent / "_numba.py").read_text())
    (package / "outer.py").write_text(OUTER)

    def run(number):
        (package / "inner.py").write_text(INNER.format(number=number))
        # Python's own bytecode is as old as the second in which the file was written.
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        run = subprocess.run(
            [sys.executable, "-c", "import bayesdp.outer"],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return run.stdout.split()

    assert run(1) == ["1", "0"]
    assert run(1) == ["1", "1"]  # compiled before
    assert run(2) == ["2", "0"]


def test_only_files_with_compiled_functions_count(tmp_path):
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "a.py").write_text("@nb.njit\ndef f(): return 1\n")
    (tmp_path / "b.py").write_text("x = 1\n")
    before = stamp_of(tmp_path)
    (tmp_path / "b.py").write_text("x = 2\n")
    assert stamp_of(tmp_path) == before
    (tmp_path / "inside" / "a.py").write_text("@nb.njit\ndef f(): return 2\n")
    assert stamp_of(tmp_path) != before


def test_kernels_have_the_stamp_of_the_package():
    from bayesdp.hierarchies.kernel.sweeps import sweep

    stamp = sweep._cache._cache_file._source_stamp
    assert stamp[1] == stamp_of(Path(bayesdp.__file__).parent)


def test_what_pytensor_stores_has_the_stamp_too():
    # It keeps functions of its own, with kernels compiled into them: those of another version of the package must not be run.
    from bayesdp.distributions import registry, tables
    from bayesdp.distributions.independent import _core
    from bayesdp.distributions.registry import distribution_of
    from bayesdp.noise import DiscreteLaplace

    assert registry._compiled(tables.BlocksDensity(), None)[1] == code_version()
    drawn = distribution_of(DiscreteLaplace).dist(0, 1.0).owner.op
    source = Path(inspect.getfile(inspect.unwrap(DiscreteLaplace.draw_one.py_func)))
    assert _core(drawn, None)[1] == code_version() ^ zlib.crc32(source.read_bytes())
