"""Folders of compiled code that are full, broken or not there, and the stamps of kernels; memory that is given back."""

import ctypes
import importlib.util
import inspect
import itertools
import logging
import os
import resource
import shutil
import subprocess
import sys
import zlib
from contextlib import contextmanager
from pathlib import Path

import numba
import pytest
from numba.core import caching

import bayesdp
from bayesdp._numba import code_version, dispensable_caches, stamp_of
from bayesdp.distributions import distribution_of, registry, tables
from bayesdp.distributions.independent import _core
from bayesdp.hierarchies.kernel import crossing, sweeps
from bayesdp.hierarchies.kernel.sweeps import sweep
from bayesdp.hierarchies.priors import FixedPoisson
from bayesdp.noise import DiscreteLaplace
from tests.streaming.cases import PRIOR, small_release

SOURCE = "import numba\n@numba.njit(cache=True)\ndef plus(x):\n    return x + {}\n"
_times = itertools.count(10**9, 10)


@contextmanager
def files_of_at_most(size):
    """A full disk, as far as the kernel's answer goes: a write beyond the limit is an error."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def compiled(folder, number):
    """The function as a process of its own has it: from a file that says ``x + number``."""
    path = folder / "kernel.py"
    path.write_text(SOURCE.format(number))
    os.utime(path, 2 * (next(_times),))  # numba looks at the time of a file before it reads it again
    return loaded(folder)


def loaded(folder):
    spec = importlib.util.spec_from_file_location("kernel", folder / "kernel.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.plus


def names(cache):
    return sorted(path.suffix for path in cache.rglob("*") if path.is_file())


def test_a_full_disk_is_told_once_and_work_goes_on(cache, tmp_path, caplog):
    compiled(tmp_path, 1)
    with dispensable_caches(), files_of_at_most(100):
        plus = loaded(tmp_path)
        assert (plus(2), plus(2.5)) == (3, 3.5)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert str(cache) in caplog.text
    assert "cannot be written to (File too large). Work goes on" in caplog.text
    assert names(cache) == []
    assert compiled(tmp_path, 1)(2) == 3
    assert names(cache) == [".nbc", ".nbi"]


def test_outside_of_the_context_numba_does_as_ever(cache, tmp_path, monkeypatch):
    with dispensable_caches():
        pass
    with files_of_at_most(100), pytest.raises(OSError, match="File too large"):
        compiled(tmp_path, 1)(2)
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", caching.CacheImpl._locator_classes[-1:])
    with pytest.raises(RuntimeError, match="no locator available"):
        compiled(tmp_path, 1)


def test_room_for_the_index_alone_does_not_leave_old_code_under_a_new_name(cache, tmp_path, caplog):
    """Numba writes the index first: it would say of the code of an earlier source that it is of this one."""
    assert compiled(tmp_path, 1)(2) == 3
    [index], [code] = cache.rglob("*.nbi"), cache.rglob("*.nbc")
    assert index.stat().st_size < 1500 < code.stat().st_size
    with dispensable_caches(), files_of_at_most(1500):
        assert compiled(tmp_path, 7)(2) == 9
    assert "cannot be written to" in caplog.text
    assert names(cache) == [".nbc"]  # the old one
    assert compiled(tmp_path, 7)(2) == 9


@pytest.mark.parametrize(("suffix", "left"), [(".nbi", 20), (".nbc", 0)])
def test_a_file_that_lost_its_end_is_compiled_again(cache, tmp_path, caplog, suffix, left):
    assert compiled(tmp_path, 1)(2) == 3
    [path] = cache.rglob(f"*{suffix}")
    path.write_bytes(path.read_bytes()[:left])
    for times in (1, 0):
        with dispensable_caches():
            assert loaded(tmp_path)(2) == 3
        assert caplog.text.count("cannot be read (") == caplog.text.count(str(cache)) == times
        caplog.clear()


def test_without_any_folder_work_goes_on_but_errors_that_warnings_are_made_to_be_stay(
    cache, tmp_path, caplog, monkeypatch
):
    cache.write_text("a file, in which there can be no folder")
    with dispensable_caches(), monkeypatch.context() as patch:
        known = caching.CacheImpl._locator_classes
        only = [own for own in known if own.__name__ in ("UserProvidedCacheLocator", "Nowhere")]
        patch.setattr(caching.CacheImpl, "_locator_classes", only)
        plus = compiled(tmp_path, 1)
        assert plus(2) == 3
    assert plus(2.5) == 3.5  # made in the context, used outside
    assert [record.getMessage().split(",")[0] for record in caplog.records] == [str(cache)]
    assert "cannot be written to. Work goes on" in caplog.text

    def warns(*_):
        raise UserWarning("own")

    cache.unlink()
    monkeypatch.setattr(caching.IndexDataCacheFile, "save", warns)
    with dispensable_caches(), pytest.raises(UserWarning, match="own"):
        compiled(tmp_path, 1)(2)


NOWHERE = """
import sys
from numba.core import caching
caching.CacheImpl._locator_classes.clear()
import bayesdp.cli
sys.exit(bayesdp.cli.main(sys.argv[1:]))
"""


def test_a_command_goes_on_where_numba_has_no_folder_at_all(tmp_path):
    (tmp_path / "counts.csv").write_text("a,count\nx,3\ny,8\nz,5\n")
    arguments = ["import", "counts.csv", "--law", "discrete-gaussian sigma=2", "-o", "release.nc"]
    ran = subprocess.run(
        [sys.executable, "-c", NOWHERE, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, (tmp_path / "release.nc").exists()) == (0, True), ran.stderr


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


@pytest.mark.system
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="needs glibc")
def test_holes_in_the_heap_are_given_back():
    found = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, text=True, check=True)
    assert int(found.stdout) > 100e6  # of 168 MB


KERNEL = "from bayesdp._numba import nb\n@nb.njit(cache=True)\ndef {}():\n    return {}\n"
OUTER = f"from bayesdp.inner import inner\n{KERNEL.format('outer', 'inner()')}"
OUTER += "print(outer(), len(outer.stats.cache_hits))\n"


@pytest.mark.system
def test_a_change_in_a_file_that_is_called_is_noticed(tmp_path):
    package = tmp_path / "bayesdp"
    package.mkdir()
    ours = Path(bayesdp.__file__).parent
    needed = {name: (ours / f"{name}.py").read_text() for name in ("_numba", "_interrupts", "_text")}
    for name, text in {**needed, "__init__": "", "outer": OUTER}.items():
        (package / f"{name}.py").write_text(text)

    def run(number):
        (package / "inner.py").write_text(KERNEL.format("inner", number))
        # Python's own bytecode is as old as the second in which the file was written.
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-c", "import bayesdp.outer"]
        run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        return run.stdout.split()

    assert run(1) == ["1", "0"]
    assert run(1) == ["1", "1"]  # compiled before
    assert run(2) == ["2", "0"]


def test_only_files_with_compiled_functions_count_in_the_stamp_of_kernels_and_of_what_pytensor_stores(tmp_path):
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "a.py").write_text("@nb.njit\ndef f(): return 1\n")
    (tmp_path / "b.py").write_text("x = 1\n")
    before = stamp_of(tmp_path)
    (tmp_path / "b.py").write_text("x = 2\n")
    assert stamp_of(tmp_path) == before
    (tmp_path / "inside" / "a.py").write_text("@nb.njit\ndef f(): return 2\n")
    assert stamp_of(tmp_path) != before
    assert sweep._cache._cache_file._source_stamp[1] == stamp_of(Path(bayesdp.__file__).parent)
    # PyTensor keeps functions of its own, with kernels compiled into them: those of another version must not be run.
    assert registry._compiled(tables.BlocksDensity(), None)[1] == code_version()
    drawn = distribution_of(DiscreteLaplace).dist(0, 1.0).owner.op
    source = Path(inspect.getfile(inspect.unwrap(DiscreteLaplace.draw_one.py_func)))
    assert _core(drawn, None)[1] == code_version() ^ zlib.crc32(source.read_bytes())


def test_priors_and_tables_of_all_kinds_share_one_compilation_of_the_moves_of_hierarchies():
    entries = {
        name: getattr(module, name) for module, name in ((sweeps, "sweep"), (crossing, "keep"), (sweeps, "gather"))
    }
    before = {name: set(entry.signatures) for name, entry in entries.items()}
    for prior in (PRIOR, FixedPoisson(2.0)):
        bayesdp.fit_hierarchy(small_release(), prior, draws=12, tune=4, random_seed=1, quiet=True)
    assert all(len(set(entry.signatures) | before[name]) == 1 for name, entry in entries.items())
    parts = [function for function in vars(sweeps).values() if getattr(function, "targetoptions", {}).get("inline")]
    assert parts
    assert not any(part.signatures for part in parts)  # they are compiled where they are called, and only there


@pytest.mark.parametrize(("elsewhere", "hits"), [("generic", 1), (None, 0)])
def test_code_compiled_for_any_processor_is_read_wherever_numba_is_told_so(tmp_path, elsewhere, hits):
    made, moved = tmp_path / "made", tmp_path / "moved"
    made.mkdir()
    (made / "kernel.py").write_text(SOURCE.format(1))
    run = "import kernel; kernel.plus(1); print(sum(kernel.plus.stats.cache_hits.values()))"

    def found(folder, processor):
        own = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "NUMBA_CPU_NAME")}
        own |= {"NUMBA_CPU_NAME": processor} if processor else {}
        done = subprocess.run(
            [sys.executable, "-c", run], cwd=folder, env=own, capture_output=True, text=True, check=True
        )
        return int(done.stdout)

    assert found(made, "generic") == 0
    shutil.copytree(made, moved)
    assert found(moved, elsewhere) == hits
