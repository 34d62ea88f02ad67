"""Which dimension of a release is taken for its geography, and what its measurements become."""

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.fibers import enumerate_fiber
from bayesdp.hierarchies.released import target_of
from bayesdp.hierarchies.structure import structure_of
from tests.noisy_sums import noisy_sums

LABELS = {"tract": list("abcd"), "housing": [0, 1, 2, 3], "age": ["young", "old"]}
LABELS |= {"county": ("tract", list("AABB")), "kind": ("housing", ["home", "prison", "prison", "other"])}


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("order", [tuple(LABELS), ("age", "housing", "kind", "tract", "county")])
def test_recodes_of_the_cells_are_not_taken_for_geography_and_nodes_have_their_answers_and_tables(levels, order):
    """At every level of geography the same queries: a recode gives housing as many levels, or one more than geography has."""
    frame, rng = bdp.Frame.of({name: LABELS[name] for name in order}), np.random.default_rng(1)
    kinds = ((), ("age",), ("kind",), ("housing",), ("housing", "age"))
    keeps = [[*level, *keep] for level in ((["tract"], ["county"], []))[:levels] for keep in kinds]
    queries = [(bdp.Margins(frame, own) if own else bdp.Totals(frame), 2.0) for own in keeps]
    measured = noisy_sums(frame, np.full(frame.shape, 5), queries, rng)
    release = bdp.Release.from_published(frame, measured, [bdp.Exact(bdp.Totals(frame), 5 * frame.size)])
    target = target_of(release, "negbin")
    structure = structure_of(target)
    assert structure.levels[0] == "tract"
    assert structure.free.shape == (4, 8)
    assert structure_of(target, "housing").levels == ("housing", "kind", "all")
    for measured in release.measurements:
        [part] = measured.query.parts
        whole = structure.leaves_by_cells(part.row_of_cell)
        first = structure.node_range[0][structure.nodes_of(structure.level_of(part))]
        np.testing.assert_array_equal(structure.answers(part)[:, structure.cell_codes(part)], whole[first])
    counts = np.random.default_rng(1).integers(0, 9, size=structure.free.shape)
    nodes, tables = (np.concatenate(own) for own in zip(*structure.tables_by_level(counts, most=3), strict=True))
    np.testing.assert_array_equal(nodes, np.arange(structure.nodes))
    np.testing.assert_array_equal(tables, [counts[a:b].sum(axis=0) for a, b in zip(*structure.node_range, strict=True)])


def test_cells_of_sums_that_are_at_most_zero_do_not_move_and_every_measurement_is_a_term():
    """As the tables of the fiber have it, which are listed; no zero is stated of a cell."""
    frame = bdp.Frame.of({"tract": ["a", "b"], "kind": ["home", "prison"], "age": ["young", "old"]})
    truth = np.array([[[1, 1], [0, 0]], [[0, 1], [1, 0]]])
    limits = bdp.Exact(bdp.Margins(frame, ["tract", "kind"]), [[9, 0], [9, 9]], "<=")
    noisy = bdp.Measured(bdp.Identity(frame), truth, bdp.noise.DiscreteGaussian(sigma=1.0))
    release = bdp.Release.from_published(frame, [noisy], [bdp.Exact(bdp.Totals(frame), int(truth.sum())), limits])
    structure = structure_of(target_of(release, "negbin"), "tract")
    tables = enumerate_fiber(release.fiber, 10**6).reshape(-1, *frame.shape)
    np.testing.assert_array_equal(structure.free.reshape(frame.shape), np.ptp(tables, axis=0) > 0)
    assert (~structure.free).sum() == 2
    frame = bdp.Frame.of({"tract": ["a", "b"], "age": ["y", "o"]})
    scales, ages = bdp.noise.Gaussian([[1.0, 2.0], [3.0, 4.0]]), bdp.Margins(frame, ["age"])
    cells = bdp.Measured(bdp.Identity(frame), [[1.5, np.nan], [0, 2]], scales, unmeasured=["tract=a, age=o"])
    measured = [cells, bdp.Measured(ages, [3, -1], bdp.noise.DiscreteGaussian(0.5))]
    release = bdp.Release.from_published(frame, measured, [bdp.Exact(bdp.Margins(frame, ["tract"]), [4, 2])])
    target = target_of(release, "poisson")
    cells, by_age = target.terms
    assert target.fiber is release.fiber
    assert target.family == "poisson"
    assert cells.measured.tolist() == [True, False, True, True]
    assert cells.scale.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert cells.values[cells.measured].tolist() == [1.5, 0.0, 2.0]
    assert (by_age.scale.tolist(), by_age.values.tolist(), by_age.query) == ([0.5, 0.5], [3.0, -1.0], ages)
