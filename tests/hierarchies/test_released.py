"""Which dimension of a release is taken for its geography, what its measurements become, and that its parts say what it said."""

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.fibers import enumerate_fiber
from bayesdp.hierarchies import split
from bayesdp.hierarchies.released import target_of
from bayesdp.hierarchies.structure import structure_of
from tests.noisy_sums import noisy_sums
from tests.refusals import refused

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


OF_COUNTIES = {
    "state": list("STSUT"),
    "branch": ["s1", "t", "s2", "u", "t"],
    "region": list("nonoo"),
    "coast": list("ynnny"),
}
PLACES = {"race": ["a", "b"], "county": ["c1", "c2", "c3", "c4", "c5"], "kind": ("race", ["x", "x"])}
FRAME = bdp.Frame.of(PLACES | {name: ("county", own) for name, own in OF_COUNTIES.items()})
LAW, CELLS = bdp.noise.DiscreteGaussian, bdp.Identity(FRAME)


def _likelihood(release, table):
    """Log-likelihood of a table, up to a constant; minus infinity where exact answers are others."""
    found = 0.0
    for own in release.measurements:
        scale = np.broadcast_to(own.law.sigma, own.query.shape)
        found -= float((((own.values - own.query.apply(table)) / scale)[~own.unmeasured] ** 2).sum()) / 2.0
    for own in release.exact:
        answers = own.query.apply(table)
        kept = {"=": answers == own.values, "<=": answers <= own.values, ">=": answers >= own.values}[own.sign]
        found += 0.0 if kept.all() else -np.inf
    return found


def _release(rng, truth):
    keeps = ("race county", "county", "branch race", "state", "region race", "race", "kind state")
    noisy = noisy_sums(FRAME, truth, [(own.split(), 1.5) for own in keeps], rng)
    values = (truth + rng.integers(-3, 4, truth.shape)).astype(float)
    values[0, 3] = values[1, 1] = np.nan
    law = LAW(rng.uniform(1.0, 3.0, truth.shape))
    noisy.append(bdp.Measured(CELLS, values, law, unmeasured=np.isnan(values), name="cells"))
    stacked = bdp.Totals(FRAME, by="county") + bdp.Totals(FRAME)
    noisy.append(bdp.Measured(stacked, stacked.apply(truth) + 1, LAW(2.0)))
    states, counties = bdp.Totals(FRAME, by="state"), bdp.Totals(FRAME, by="county")
    zeros = bdp.Exact(bdp.LinearQuery(FRAME, np.eye(10, dtype=int)[[1, 8]], ["no a in c2", "no b in c4"]), [0, 0])
    exact = [bdp.Exact(own, own.apply(truth)) for own in (states, bdp.Totals(FRAME))]
    exact += [zeros, bdp.Exact(counties, counties.apply(truth) + 1, "<=")]
    return bdp.Release.from_published(FRAME, noisy, exact)


def test_the_likelihood_of_the_parts_and_the_top_is_that_of_the_whole():
    rng = np.random.default_rng(1)
    truth = rng.integers(1, 5, FRAME.shape)
    truth[0, 1] = truth[1, 3] = 0
    release = _release(rng, truth)
    parts, top = split(release, "state")
    assert list(parts) == ["S", "T", "U"]
    assert top.frame.dims == ("race", "state")
    assert [name for name, _, _ in top.frame.groups] == ["kind", "region"]
    assert [name for name, _, _ in parts["S"].frame.groups] == ["kind", "branch", "coast"]
    assert "cells" in [own.name for own in parts["T"].measurements]
    states, finite = np.array(FRAME.group("state")[1]), 0
    for trial in range(60):
        table = truth.copy()
        if trial % 2:  # the sums of the states stay
            one, other = ((0, 2), (1, 4))[int(rng.integers(2))]
            table[1, [one, other]] += -1, 1
        else:
            table += rng.integers(0, 2, FRAME.shape) * (trial > 0)
        whole = _likelihood(release, table)
        own = [table[:, states == label] for label in parts]
        cut = sum(map(_likelihood, parts.values(), own))
        cut += _likelihood(top, np.stack([each.sum(axis=1) for each in own], axis=1))
        assert cut == pytest.approx(whole)
        finite += np.isfinite(whole)
    assert 20 < finite < 60


def _published(query, values, exact=(), **more):
    return bdp.Release.from_published(FRAME, [bdp.Measured(query, values, LAW(2.0), **more)], exact)


ONES, OPEN = np.ones(FRAME.shape, dtype=int), np.where(np.arange(5) == 3, np.nan, np.ones(FRAME.shape))
ODD = bdp.Exact(bdp.LinearQuery(FRAME, [[1, 2, *[0] * 8]], ["odd"]), [3])


COAST, PART = _published(bdp.Totals(FRAME, by="coast"), [3, 4]), _published(CELLS, OPEN, unmeasured=np.isnan(OPEN))
test_what_is_refused = refused(
    (lambda: split(COAST, "state"), "by 'coast' are about groups of 'county' that cross those of 'state'"),
    (lambda: split(PART, "county"), r"level must be a group label of the table .*'state'.*, got 'county'"),
    (lambda: split("release", "state"), "release must be"),
    (lambda: split(_published(CELLS, ONES, [ODD]), "state"), "'odd' has weights and cells of several parts"),
    (lambda: split(PART, "state"), "nothing is published of the part state=U"),
)
