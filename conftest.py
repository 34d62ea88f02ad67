"""What has to happen before any test, doctest or benchmark of the repository is imported.

``python conftest.py`` prints the folder of compiled kernels, for others that are to share it (see the Makefile).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent

# What builds the site is no test, and is imported as Sphinx does; tests/docs tests it.
collect_ignore = ["docs/conf.py", "docs/pages", "docs/pictures", "docs/made"]

# Packages, and a module, whose numba kernels call one another across files.
_COMPILED = (
    *(
        f"bayesdp/{name}"
        for name in (
            "_numba.py",
            "fibers",
            "lattices",
            "noise",
            "distributions",
            "hierarchies",
            "streaming",
        )
    ),
    "benchmarks/paper_sampler",
)


def _cache_folder() -> Path:
    """A folder for compiled kernels that belongs to the present sources and the present Numba.

    Numba compiles a function again when its own file changes, but not when a function of another file that
    was compiled into it does: a stale kernel would go on being tested. With a folder for each state of the
    sources that cannot happen; nor do the environments of two versions of Numba write over one another's.
    Processes started by pytest-xdist come to the same folder.
    """
    digest = hashlib.blake2b(digest_size=8)
    digest.update(f"{version('numba')} {version('llvmlite')} {sys.version_info[:2]}".encode())
    for package in _COMPILED:
        whole = ROOT / package
        for path in [whole] if whole.is_file() else sorted(whole.rglob("*.py")):
            digest.update(f"{path.relative_to(ROOT)}\0".encode())
            digest.update(path.read_bytes())
    return ROOT / ".cache" / f"numba-{digest.hexdigest()}"


def _tidy(folder: Path) -> None:
    """Remove the folders of earlier sources that nobody has used for a week."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.touch()
    for other in folder.parent.glob("numba-*"):
        if time.time() - other.stat().st_mtime > 7 * 86400:
            shutil.rmtree(other, ignore_errors=True)


# Numba reads the variable when it is imported. At the root, so that doctests and benchmarks have the folder
# as well.
_FOLDER = _cache_folder()
_tidy(_FOLDER)
os.environ["NUMBA_CACHE_DIR"] = str(_FOLDER)

# Two test processes with two threads of linear algebra each get in one another's way: small factorizations then take
# fifty times as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# PyTensor computes the constants of a graph in C where there is a compiler, which takes a second for each new expression, and notes
# where in the sources each node of a graph was made, which is a twentieth of what a short fit takes.
os.environ.setdefault("PYTENSOR_FLAGS", "cxx=,traceback__limit=0")

_ALWAYS_COMPILED = (ROOT / "benchmarks", ROOT / "docs")


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the pages of docs/ as `system`: most fit a model from end to end."""
    for item in items:
        if item.path.is_relative_to(ROOT / "docs"):
            item.add_marker(pytest.mark.system)


def _is_compiled(node: pytest.Item | pytest.Collector) -> bool:
    """Whether a file or test says so, or samples for so long that compilation pays."""
    return any(node.get_closest_marker(name) for name in ("compiled", "system", "slow"))


@pytest.fixture(scope="module", autouse=True)
def _interpreted(request: pytest.FixtureRequest) -> Iterator[None]:
    """Have PyTensor's graphs evaluated by Python, which takes milliseconds where their compilation takes seconds."""
    import pytensor  # after PYTENSOR_FLAGS
    from pytensor.compile.mode import get_mode

    # Sums stay as they are written: NumPy adds up at most 32 numbers at once.
    python = get_mode("FAST_COMPILE").excluding("local_add_canonizer", "local_mul_canonizer")
    compiled = _is_compiled(request.node)
    compiled |= any(request.path.is_relative_to(folder) for folder in _ALWAYS_COMPILED)
    with pytensor.config.change_flags(mode="Mode" if compiled else python):
        yield


@pytest.fixture(autouse=True)
def _compiled(request: pytest.FixtureRequest) -> Iterator[None]:
    """Have them compiled in a single test with such a mark."""
    if not _is_compiled(request.node):
        yield
        return
    import pytensor

    with pytensor.config.change_flags(mode="Mode"):
        yield


if __name__ == "__main__":
    print(_FOLDER)
