"""One contract for all noise laws, driven by their registry: a new law is under test by existing.

What a law is compared with is summed from its `logp` by plain arithmetic (`tests/noise/contract/masses.py`), and that is
compared with its PyMC distribution, its draws, its moments, its distribution function, its description, the posterior
kernel, an enumerated posterior, and what composition, pictures, tests and calibration make of it.
"""

from __future__ import annotations

from functools import cache

import pytest

from bayesdp import noise
from tests.noise.contract.examples import Example, example_of
from tests.noise.contract.mass_checks import MASS_CHECKS
from tests.noise.contract.masses import Mass, mass_of

LAWS = noise.law_names().split(", ")


@cache
def _example(name: str) -> tuple[Example, Mass]:
    example = example_of(name)
    assert example.law.name == name
    return example, mass_of(example)


def test_every_registered_law_has_an_example() -> None:
    for name in noise.law_names().split(", "):
        example_of(name)


@pytest.mark.parametrize("check", MASS_CHECKS, ids=lambda own: own.__name__.removeprefix("check_"))
@pytest.mark.parametrize("name", LAWS)
def test_mass(name: str, check) -> None:
    check(*_example(name))
