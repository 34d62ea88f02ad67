"""From a release to its posterior, what the exact answers imply is worked out once."""

import gc
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pymc as pm
import pytest

import bayesdp as bdp
from bayesdp.fibers import Fiber, fiber
from bayesdp.fibers.system import System
from tests.inference.oracle import counts_model

LABELS = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
COUNTS = np.array([[13, 3, 7], [4, 9, 1], [0, 15, 6]])
"""A table that no other test has."""
PAIR = {"county": ["Alpha", "Beta"]}


def test_one_fiber_from_release_to_posterior_and_for_the_next_release(monkeypatch):
    made = Mock(side_effect=Fiber.__init__)
    monkeypatch.setattr(Fiber, "__init__", lambda *args: made(*args))
    monkeypatch.setattr(System, "of", systems := Mock(side_effect=System.of))
    monkeypatch.setattr(fiber, "cell_bounds", limits := Mock(side_effect=fiber.cell_bounds))
    margins = bdp.Invariants(bdp.Margins(LABELS, ["county"], ["education"]))
    release, other = (bdp.mechanisms.LatticeLaplace(margins, epsilon=1.0).release(COUNTS, rng=i) for i in (1, 2))
    with counts_model(release, pm.Poisson.dist(6.0)):
        bdp.sample(draws=5, tune=5, chains=1, cores=1, random_seed=1, progressbar=False)
    assert other.fiber is release.fiber
    assert (made.call_count, systems.call_count, limits.call_count) == (1, 1, 1)


def test_other_exact_answers_or_labels_have_another_fiber_that_nobody_can_change_and_that_is_not_kept():
    query = bdp.Totals(PAIR)
    three = Fiber.of([bdp.Exact(query, 3)])
    assert Fiber.of([bdp.Exact(query, 3)]) is three
    assert Fiber.of([bdp.Exact(query, 4)]).find_point().sum() == 4
    assert Fiber.of([bdp.Exact(query, 3, sign="<=")]).bounds()[0].tolist() == [0, 0]
    # 1 == 1.0, but not in the name of a cell.
    for labels, names in (([1, 2], ("age=1", "age=2")), ([1.0, 2.0], ("age=1.0", "age=2.0"))):
        assert Fiber.of([bdp.Exact(bdp.Totals({"age": labels}), 0)]).determined_names() == names
    mine = SimpleNamespace(sign="=", query=bdp.Identity(PAIR), values=np.array([3, 4]))
    taken = Fiber.of([mine])
    mine.values[0] = 9
    assert taken.find_point().tolist() == [3, 4]
    with pytest.raises(ValueError, match="read-only"):
        taken.bounds()[0][0] = 9
    # A fiber that nobody refers to is not kept.
    before = len(fiber._IN_USE)
    found = Fiber.of([bdp.Exact(bdp.Totals(PAIR), 31)])
    assert found.bounds()[1].tolist() == [31, 31]
    assert len(fiber._IN_USE) == before + 1
    del found
    gc.collect()
    assert len(fiber._IN_USE) <= before
