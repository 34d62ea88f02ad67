"""A small country of three states in two regions, and all of its tables with their posterior."""

import numpy as np
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.hierarchies import split
from bayesdp.hierarchies.priors import FixedNegativeBinomial
from bayesdp.streaming.driver import Driver
from tests.noisy_sums import noisy_sums
from tests.streaming import cases

LABELS = {"race": ["a", "b"], "county": ["c1", "c2", "c3", "c4", "c5", "c6"]}
GROUPS = {"state": ("county", list("STSUTU")), "region": ("county", list("nsnsss"))}
FRAME = bdp.Frame.of(LABELS | GROUPS)  # the states' counties are not beside each other

TRUTH = np.array([[2, 0, 1, 0, 1, 0], [0, 1, 0, 1, 0, 1]])
MEAN, SHAPE = 1.5, 0.6
PRIOR = FixedNegativeBinomial(MEAN, SHAPE)
NOISE = ((("county", "race"), 2.0), (("county",), 0.8), (("state", "race"), 1.5))
NOISE += ((("region", "race"), 1.5), (("race",), 0.8))
"""The national sums are known twice as well as the states' own answers tell them."""


def country(noise=NOISE, exact=("state",), seed=5):
    """Noise at four levels, and exact totals of states."""
    measured = noisy_sums(FRAME, TRUTH, noise, np.random.default_rng(seed))
    totals = [bdp.Totals(FRAME, by=level) for level in exact]
    return bdp.Release.from_published(FRAME, measured, [bdp.Exact(own, own.apply(TRUTH)) for own in totals])


PARTS, TOP = split(country(), "state")
SIZES = {"draws": 40, "tune": 10, "phase": 5, "together": 2, "random_seed": 3, "quiet": True}


def fitted(prior=PRIOR, cut=(PARTS, TOP), **more):
    """Parts with their sums by race, and their counties, recorded."""
    parts, top = cut
    record = {
        "record": bdp.Margins(top.frame, ["state", "race"]),
        "record_parts": lambda own: bdp.Totals(own, by="county"),
    }
    return bdp.fit_parts(parts, prior, top=top, **record | SIZES | more)


def stop_after(number, run):
    """A run that ends when it has saved the state of this round."""
    save = Driver._save

    def stopping(driver):
        save(driver)
        if driver.round == number:
            raise KeyError("stopped")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Driver, "_save", stopping)
        with pytest.raises(KeyError, match="stopped"):
            run()


def assert_same(one, other):
    assert list(one.groups) == list(other.groups)
    for group in one.groups:
        xr.testing.assert_equal(one[group].to_dataset(), other[group].to_dataset())


def posterior(release):
    """All tables, shape (n, *frame), and their probabilities."""
    return cases.posterior(release, MEAN, SHAPE)
