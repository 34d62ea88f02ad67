"""Models that the tests of the step method share."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

from bayesdp.inference import FiberGibbs
from tests.steps.models import build


@pytest.fixture(scope="module")
def plain() -> pm.Model:
    """Counts alone: no gradient is compiled."""
    return build(before=False)


@pytest.fixture(scope="module")
def mixed() -> pm.Model:
    return build(before=True, after=True)


@pytest.fixture
def step(plain) -> FiberGibbs:
    with plain:
        made = FiberGibbs()
    made.setup_chain(np.random.default_rng(3), 10, 10)
    return made
