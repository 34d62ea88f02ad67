"""Which dimension of a release is taken for its geography."""

from __future__ import annotations

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.hierarchies.released import target_of
from bayesdp.hierarchies.structure import structure_of

LABELS = {
    "tract": list("abcd"),
    "housing": [0, 1, 2, 3],
    "age": ["young", "old"],
    "county": ("tract", ["A", "A", "B", "B"]),
    "kind": ("housing", ["household", "institutional", "institutional", "other"]),
}


def _release(geography, order=tuple(LABELS)):
    """At every level of geography the same queries: a recode gives housing as many levels, or one more than geography has."""
    frame = bdp.Frame.of({name: LABELS[name] for name in order})
    noise, rng = bdp.noise.DiscreteGaussian(sigma=2.0), np.random.default_rng(1)
    measured = []
    for level in geography:
        for keep in ((), ("age",), ("kind",), ("housing",), ("housing", "age")):
            query = bdp.Margins(frame, [*level, *keep]) if level or keep else bdp.Totals(frame)
            answers = query.apply(np.full(frame.shape, 5))
            measured.append(
                bdp.Measured(query, np.rint(answers + rng.normal(0.0, 2.0, query.shape)).astype(int), noise)
            )
    return bdp.Release.from_published(frame, measured, [bdp.Exact(bdp.Totals(frame), 5 * frame.size)])


@pytest.mark.parametrize("geography", [(["tract"],), (["tract"], ["county"]), (["tract"], ["county"], [])])
@pytest.mark.parametrize("order", [tuple(LABELS), ("age", "housing", "kind", "tract", "county")])
def test_recodes_of_the_cells_are_not_taken_for_geography(geography, order):
    structure = structure_of(target_of(_release(geography, order), "negbin"))
    assert structure.levels[0] == "tract"
    assert structure.free.shape == (4, 8)


def test_the_linear_estimate_has_the_same_leaves():
    release = _release((["tract"], ["county"]))
    estimate, stated = bdp.gls(release), bdp.gls(release, "tract")
    for keep in (["tract", "kind"], ["county"], ["housing", "age"]):
        query = bdp.Margins(release.frame, keep)
        np.testing.assert_allclose(estimate.mean(query), stated.mean(query), rtol=0, atol=1e-8)


def test_leaves_that_are_asked_for():
    structure = structure_of(target_of(_release((["tract"], ["county"])), "negbin"), "housing")
    assert structure.levels == ("housing", "kind", "all")
