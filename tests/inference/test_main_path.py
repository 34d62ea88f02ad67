"""From a release to its posterior, what the exact answers imply is worked out once."""

from __future__ import annotations

import gc

import numpy as np
import pymc as pm
import pytest

import bayesdp as bdp
from bayesdp.fibers import Fiber, fiber
from bayesdp.fibers.system import System

LABELS = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
COUNTS = np.array([[12, 3, 7], [4, 9, 1], [0, 15, 6]])


@pytest.fixture
def worked_out(monkeypatch):
    """How often fibers are made, their rows gathered, and the limits of their cells found."""
    calls = {"fibers": 0, "systems": 0, "limits": 0}

    def counted(name, function):
        def call(*args):
            calls[name] += 1
            return function(*args)

        return call

    monkeypatch.setattr(Fiber, "__init__", counted("fibers", Fiber.__init__))
    monkeypatch.setattr(System, "of", staticmethod(counted("systems", System.of)))
    monkeypatch.setattr(fiber, "cell_bounds", counted("limits", fiber.cell_bounds))
    return calls


def released(more, rng=1):
    """A release of a table that no other test has: `more` is added to a count."""
    margins = bdp.Invariants(bdp.Margins(LABELS, ["county"], ["education"]))
    table = COUNTS.copy()
    table[0, 0] += more
    return bdp.mechanisms.LatticeLaplace(margins, epsilon=1.0).release(table, rng=rng)


def test_one_fiber_from_release_to_posterior(worked_out):
    release = released(1)
    assert worked_out == {"fibers": 1, "systems": 1, "limits": 1}
    with pm.Model(coords=release.coords):
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(6.0), dims=release.dims)
        bdp.observe(release, x)
        bdp.sample(draws=5, tune=5, chains=1, cores=1, random_seed=1, progressbar=False)
    assert worked_out == {"fibers": 1, "systems": 1, "limits": 1}


def test_releases_with_the_same_exact_answers_share_their_fiber(worked_out):
    one, other = released(2, rng=1), released(2, rng=2)
    assert one.fiber is other.fiber
    assert worked_out["fibers"] == 1


def test_other_exact_answers_or_labels_have_another_fiber():
    query = bdp.Totals({"county": ["Alpha", "Beta"]})
    three = Fiber.of([bdp.Exact(query, 3)])
    assert Fiber.of([bdp.Exact(query, 3)]) is three
    assert Fiber.of([bdp.Exact(query, 4)]).find_point().sum() == 4
    assert Fiber.of([bdp.Exact(query, 3, sign="<=")]).bounds()[0].tolist() == [0, 0]
    assert Fiber.of([bdp.Exact(query, 3, sign="<=")]) is not three
    # 1 == 1.0, but not in the name of a cell.
    whole = Fiber.of([bdp.Exact(bdp.Totals({"age": [1, 2]}), 0)])
    real = Fiber.of([bdp.Exact(bdp.Totals({"age": [1.0, 2.0]}), 0)])
    assert whole.determined_names() == ("age=1", "age=2")
    assert real.determined_names() == ("age=1.0", "age=2.0")


def test_nobody_can_change_a_fiber_that_others_use():
    query = bdp.Identity({"county": ["Alpha", "Beta"]})

    class Own:
        sign = "="

        def __init__(self):
            self.query, self.values = query, np.array([3, 4])

    mine = Own()
    fiber = Fiber.of([mine])
    mine.values[0] = 9
    assert fiber.find_point().tolist() == [3, 4]
    assert Fiber.of([Own()]) is fiber
    with pytest.raises(ValueError, match="read-only"):
        fiber.bounds()[0][0] = 9


def test_a_fiber_that_nobody_refers_to_is_not_kept():
    before = len(fiber._IN_USE)
    found = Fiber.of([bdp.Exact(bdp.Totals({"county": ["Alpha", "Beta"]}), 31)])
    assert found.bounds()[1].tolist() == [31, 31]
    assert len(fiber._IN_USE) == before + 1
    del found
    gc.collect()
    assert len(fiber._IN_USE) <= before
