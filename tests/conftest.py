"""What every test may use."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest

# Before anything imports Matplotlib: no test may need, or open, a display.
os.environ["MPLBACKEND"] = "Agg"

type MakeRng = Callable[[int], np.random.Generator]


@pytest.fixture
def make_rng() -> MakeRng:
    """Make generators from a seed that the test writes down: ``make_rng(3)``."""
    return np.random.default_rng


@pytest.fixture
def rng(make_rng: MakeRng) -> np.random.Generator:
    """A generator with a fixed seed, fresh in each test."""
    return make_rng(20220628)
