"""One contract for all noise laws, driven by their registry: a new law is under test by existing.

Its mass is summed from `logp` (`contract/masses.py`) and compared with all that is said of the law (`contract/mass_checks.py`); then
what is made of a release with it (`contract/use_checks.py`).
"""

from functools import cache

import pytest

import bayesdp as bdp
from bayesdp import noise
from tests.noise.contract.examples import LINE, example_of, variants
from tests.noise.contract.mass_checks import MASS_CHECKS
from tests.noise.contract.masses import mass_of
from tests.noise.contract.use_checks import USE_CHECKS, check_short_run, fitted

LAWS = [*noise.law_names().split(", "), *variants()]


@cache
def _mass(name):
    example = example_of(name)
    assert f"{example.law.name} {example.variant}".strip() == name
    return example, mass_of(example)


@cache
def _fitted(name):
    example = example_of(name)
    return example, fitted(example)


def test_every_registered_law_has_an_example():
    for name in noise.law_names().split(", "):
        example_of(name)
    with pytest.raises(AssertionError, match="'no-such-law' is registered, but has no example"):
        example_of("no-such-law")


def test_shares_are_no_counts():
    example = example_of("rescaled-laplace")
    with pytest.raises(ValueError, match="that add up to 1, which are no counts"):
        bdp.Release.from_published(LINE, [bdp.Measured(bdp.Identity(LINE), example.values, example.law)])


@pytest.mark.parametrize("check", MASS_CHECKS, ids=lambda own: own.__name__.removeprefix("check_"))
@pytest.mark.parametrize("name", LAWS)
def test_mass(name, check):
    check(*_mass(name))


# The other checks, with tests/fibers/kernel/test_law.py, imply what sampling shows; only a law with a latent part needs it.
_USES = [pytest.param(own, marks=[pytest.mark.slow] * (own is check_short_run)) for own in USE_CHECKS]


@pytest.mark.parametrize("check", _USES, ids=lambda own: own.__name__.removeprefix("check_"))
@pytest.mark.parametrize("name", LAWS)
def test_use(name, check):
    check(*_fitted(name))


@pytest.mark.system
def test_a_law_with_a_latent_part_is_sampled():
    check_short_run(*_fitted("unknown-perturbation"))
