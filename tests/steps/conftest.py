"""Models that the tests of the step method share."""

import pytest

from bayesdp.inference import FiberGibbs
from tests.steps.models import begun, build


@pytest.fixture(scope="module")
def plain():
    """Counts alone: no gradient is compiled."""
    return build(before=False)


@pytest.fixture(scope="module")
def mixed():
    return build(before=True, after=True)


@pytest.fixture
def step(plain):
    return begun(FiberGibbs(model=plain))
