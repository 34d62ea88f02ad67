"""What every test may use."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.slow_ids import is_slow

# Before anything imports Matplotlib: no test may need, or open, a display.
os.environ["MPLBACKEND"] = "Agg"


type MakeRng = Callable[[int], np.random.Generator]


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what tests/slow_ids.txt lists."""
    for item in items:
        if is_slow(item.nodeid):
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def make_rng() -> MakeRng:
    """Make generators from a seed that the test writes down: ``make_rng(3)``."""
    return np.random.default_rng


@pytest.fixture
def rng(make_rng: MakeRng) -> np.random.Generator:
    """A generator with a fixed seed, fresh in each test."""
    return make_rng(20220628)


@pytest.fixture
def unwritable(tmp_path: Path) -> Path:
    """A folder that nobody can write to, not even root, for whom modes of files mean nothing."""
    closed = Path("/sys/kernel") if os.geteuid() == 0 else tmp_path / "closed"
    if closed.parent == tmp_path:
        closed.mkdir(mode=0o500)
    elif not closed.is_dir():
        pytest.skip("root can write anywhere on this system")
    return closed
