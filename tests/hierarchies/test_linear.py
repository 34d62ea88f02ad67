"""Linear estimates of releases against dense least squares on the whole table."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import null_space

import bayesdp as bdp
from bayesdp.hierarchies import linear
from bayesdp.hierarchies.linear import gls
from bayesdp.hierarchies.two_pass import Axis, Contradiction, LevelData, tree_estimate
from bayesdp.queries import Query, SumPart
from tests.noisy_sums import noisy_sums

TABLE = {
    "tract": ["a", "b", "c", "d", "e"],
    "county": ("tract", ["west", "east", "west", "east", "east"]),
    "kind": ["house", "prison", "college"],
    "group": ("kind", ["at home", "elsewhere", "elsewhere"]),
    "locked": ("kind", ["no", "yes", "no"]),  # does not nest with the group
    "age": ["young", "old"],
}
FRAME = bdp.Frame.of(TABLE)
MEASURED = (
    (("tract", "kind", "age"), 2.0),
    (("tract", "age"), 1.0),
    (("county", "group"), 1.5),
    (("county", "kind", "age"), 3.0),
    (("tract", "locked"), 1.2),
    (("age",), 0.7),
)


def _query(*keep):
    return Query(FRAME, (SumPart(FRAME, keep),))


@pytest.fixture(scope="module", params=[False, True], ids=["no total", "exact totals"])
def release(request):
    rng = np.random.default_rng(3)
    truth = rng.poisson(20.0, FRAME.shape)
    measured = noisy_sums(FRAME, truth, [(_query(*keep), sigma) for keep, sigma in MEASURED], rng)
    exact = [bdp.Exact(_query("county"), _query("county").apply(truth))] if request.param else []
    return bdp.Release.from_published(FRAME, measured, exact)


def _dense(release):
    """Estimate and covariance of all cells by dense matrices; what is exact but for limits is taken into account."""
    rows, right, weights = [], [], []
    for own in release.measurements:
        shown = ~own.unmeasured.reshape(-1)
        rows.append(own.query.matrix.toarray()[shown].astype(float))
        right.append(own.values.reshape(-1)[shown].astype(float))
        weights.append(1.0 / np.broadcast_to(own.law.variance(own.query.shape), own.query.shape).reshape(-1)[shown])
    rows, right, weights = np.vstack(rows), np.concatenate(right), np.concatenate(weights)
    equal = [own for own in release.exact if own.sign == "="]
    size = rows.shape[1]
    start, left = np.zeros(size), np.eye(size)
    if equal:
        a = np.vstack([own.query.matrix.toarray() for own in equal]).astype(float)
        start = np.linalg.pinv(a) @ np.concatenate([own.values.reshape(-1) for own in equal])
        left = null_space(a)
    covariance = left @ np.linalg.inv(left.T @ rows.T @ (weights[:, None] * rows) @ left) @ left.T
    return start + covariance @ rows.T @ (weights * (right - rows @ start)), covariance


def _check(found, release, queries):
    estimate, covariance = _dense(release)
    for query in queries:
        a = query.matrix.toarray()
        np.testing.assert_allclose(found.mean(query).reshape(-1), a @ estimate, rtol=0, atol=1e-8)
        variances = np.diag(a @ covariance @ a.T)
        np.testing.assert_allclose(found.sd(query).reshape(-1) ** 2, variances, rtol=0, atol=1e-8)


EVERY = [
    *(("tract", "kind", "age"), ("tract",), ("county", "age"), ("group", "age"), ("tract", "group"), ("locked", "age")),
    *(("kind",), ()),
]


def test_every_answer_is_that_of_dense_least_squares(release):
    found = gls(release, "tract")  # of its own accord it would take the kinds, which more queries keep
    assert found.levels == ("tract", "county", "all")
    _check(found, release, [_query(*keep) for keep in EVERY])
    query = _query("county", "age")
    told = found.to_dataset(query, 0.9)
    width = 2 * 1.6448536269514722 * found.sd(query)
    np.testing.assert_allclose(told["upper"] - told["lower"], width, rtol=1e-12)
    np.testing.assert_allclose(told["upper"] + told["lower"], 2 * found.mean(query), rtol=1e-12)
    assert told["mean"].dims == ("county", "age")
    assert told["mean"].sel(county="east", age="old").item() == found.mean(query)[1, 1]
    assert told.attrs["not_used"] == ["nonnegativity"]
    both = found.to_dataset(_query("age") + _query())
    assert both["mean"].sel(answer="total").item() == found.to_dataset(_query())["mean"].item()


def test_weighted_sums_of_one_node_are_those_of_dense_least_squares(release):
    """Published codes and contrasts: any weights of cells, alike at every leaf of a node; the leaves of a level in any order."""
    found, rng = gls(release), np.random.default_rng(5)
    estimate, covariance = _dense(release)
    inside = [np.eye(5, dtype=int), np.array([[1, 0, 1, 0, 0], [0, 1, 0, 1, 1], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]])]
    a = np.array([np.multiply.outer(own, rng.integers(-2, 3, (3, 2))).reshape(-1) for own in np.concatenate(inside)])
    query = bdp.LinearQuery(FRAME, a, [f"row {i}" for i in range(len(a))])
    np.testing.assert_allclose(found.mean(query), a @ estimate, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found.sd(query) ** 2, np.diag(a @ covariance @ a.T), rtol=0, atol=1e-8)
    stacked = query + _query("tract")
    np.testing.assert_allclose(found.mean(stacked)[: len(a)], a @ estimate, rtol=0, atol=1e-8)


def _published(measured, exact=(), frame=FRAME, seed=3):
    """A release of (query, law, answers that are missing), and of exact queries, about one table."""
    rng = np.random.default_rng(seed)
    truth = rng.poisson(20.0, frame.shape)
    parts = []
    for query, law, missing in measured:
        noisy = np.asarray(query.apply(truth) + law.draw(rng, query.shape), dtype=float)
        noisy.reshape(-1)[missing] = np.nan
        parts.append(bdp.Measured(query, noisy, law, unmeasured=np.isnan(noisy) if len(missing) else None))
    return bdp.Release.from_published(frame, parts, [bdp.Exact(query, query.apply(truth)) for query in exact])


SIGMA = bdp.noise.DiscreteGaussian


@pytest.mark.parametrize(
    "exact", [[], [("county", "age")], [("tract",), ("group",), ()]], ids=["none", "ages", "crossing"]
)
@pytest.mark.parametrize("missing", [[3], [0, 1, 7]])
def test_exact_sums_of_any_kind_and_missing_answers(exact, missing):
    cells, ages = (_query("tract", "kind", "age"), SIGMA(2.0), []), (_query("tract", "age"), SIGMA(1.0), missing)
    kinds = (_query("county", "kind"), SIGMA(1.0), missing[:1])
    release = _published([cells, ages, kinds], [_query(*own) for own in exact])
    found = gls(release)
    assert found.levels == ("tract", "county", "all")
    assert found.ignored == ()
    _check(found, release, [_query(*keep) for keep in EVERY])


def test_a_small_table_that_is_no_tree():
    frame = bdp.Frame.of(
        {"area": list("abcd"), "half": ("area", list("xxyy")), "other": ("area", list("xyxy")), "age": [1, 2]}
    )
    half, other = (Query(frame, (SumPart(frame, (name, "age")),)) for name in ("half", "other"))
    weighted = bdp.LinearQuery(frame, [[1, -1, 0, 2, 0, 0, 0, 3]], ["odd"])
    measured = [(bdp.Identity(frame), SIGMA(3.0), [2]), *((own, SIGMA(1.0), []) for own in (half, other, weighted))]
    release = _published(measured, [bdp.LinearQuery(frame, np.eye(8, dtype=int)[:1], ["one"])], frame)
    found = gls(release)
    assert found.levels == ()
    _check(found, release, [bdp.Identity(frame), half, weighted, bdp.Totals(frame)])
    expected = half.matrix @ _dense(release)[1] @ half.matrix.T.toarray()
    np.testing.assert_allclose(found.covariance(half), expected, atol=1e-8)
    with pytest.raises(ValueError, match="node must be None"):
        found.covariance(half, "x")


def test_leaves_that_do_not_say_what_their_cells_are():
    """Of one tract nothing is measured but its total: cells of the county give the rest."""
    first = np.arange(6)
    measured = [(_query("tract", "kind", "age"), SIGMA(sigma=2.0), first), (_query("tract"), SIGMA(sigma=1.0), [])]
    release = _published([*measured, (_query("county", "kind", "age"), SIGMA(sigma=1.0), [])])
    _check(gls(release), release, [_query(*keep) for keep in EVERY])


def test_covariances_of_the_answers_at_a_node(release):
    found, (_, covariance) = gls(release), _dense(release)
    cells, groups, ages = _query("tract", "kind", "age"), _query("county", "group"), _query("age")
    own = [(cells, tract, np.eye(30)[6 * i : 6 * i + 6]) for i, tract in enumerate("abcde")]
    own += [(groups, "east", groups.matrix[2:].toarray()), (ages, None, ages.matrix.toarray())]  # east comes second
    for query, node, rows in own:
        np.testing.assert_allclose(found.covariance(query, node), rows @ covariance @ rows.T, rtol=0, atol=1e-8)
    for query, node, message in (
        (_query("tract"), None, "node must be a label of 'tract', such as 'a', got None"),
        (_query("tract"), "z", "node must be a label of 'tract', such as 'a', got 'z'"),
        (ages, "a", "node must be None"),
        (ages + _query("tract"), None, "one part"),
    ):
        with pytest.raises(ValueError, match=message):
            found.covariance(query, node)


@pytest.mark.parametrize(
    ("exact", "law", "said"),
    [
        (
            bdp.Exact(bdp.LinearQuery(FRAME, np.eye(30, dtype=int)[:2], ["first", "second"]), [0, 0]),
            SIGMA(2.0),
            "cells",
        ),
        (bdp.Exact(_query("county"), [500, 500], "<="), bdp.noise.DiscreteLaplace(b=2.0), ""),
    ],
    ids=["zeros", "limits"],
)
def test_zeros_and_limits_are_not_used_and_it_says_so(exact, law, said):
    noisy = 8 + np.random.default_rng(1).integers(-3, 4, FRAME.shape)
    release = bdp.Release.from_published(FRAME, [bdp.Measured(bdp.Identity(FRAME), noisy, law)], [exact])
    found = gls(release)
    assert len(found.ignored) == 1
    assert found.ignored[0].startswith("cells that must be 0" if said else "")
    np.testing.assert_allclose(found.mean(bdp.Identity(FRAME)), noisy)
    np.testing.assert_allclose(found.sd(bdp.Identity(FRAME)), np.sqrt(float(law.variance(()))))


def test_a_difference_that_is_0_is_no_cell_that_is_0():
    row = np.zeros((1, 30), dtype=int)
    row[0, :2] = 1, -1
    query = bdp.LinearQuery(FRAME, row, ["first - second"])
    measured = [bdp.Measured(bdp.Identity(FRAME), np.arange(30).reshape(5, 3, 2), SIGMA(sigma=2.0))]
    release = bdp.Release.from_published(FRAME, measured, [bdp.Exact(query, [0])])
    found = gls(release)
    assert found.ignored == ()
    np.testing.assert_allclose(found.mean(bdp.Identity(FRAME)).reshape(-1)[:3], [0.5, 0.5, 2.0])


CELLS, ONE = _query("tract", "kind", "age"), SIGMA(1.0)
ODD = bdp.LinearQuery(FRAME, np.arange(30)[None], ["odd"])
TINY = bdp.Measured(bdp.Identity(FRAME), np.ones(FRAME.shape, int), SIGMA(0.01), name="tiny")
LATTICE = bdp.LatticeLaplace(bdp.Totals(FRAME), epsilon=1.0).release(np.ones(FRAME.shape, int), rng=1)


@pytest.mark.parametrize(
    ("release", "most", "error", "message"),
    [
        (LATTICE, None, ValueError, r"independent noise that is added, and 'lattice-laplace' of .* is none"),
        (
            _published([(_query("tract"), ONE, [])]), None,
            ValueError, r"the cell tract=., kind=.*, age=.* does not follow from what is published",
        ),
        (
            bdp.Release.from_published(FRAME, [TINY]), None,
            ValueError, "positive, finite variance, and that of tiny at tract=a, kind=house, age=young is 0",
        ),
        (
            _published([(_query("tract"), ONE, [])]), {"MOST_CELLS": 3},
            ValueError, "gls needs answers at every leaf that fix every cell: .*; tract=a has none",
        ),
        (
            _published([(CELLS, ONE, [])], [ODD]), {"MOST_CELLS": 3},
            NotImplementedError, "takes tables of more than 3 cells only where they are a tree",
        ),
        (
            _published([(CELLS, ONE, []), (_query("tract", "age"), ONE, [1])]), {"MOST_CELLS": 3, "MOST_ENTRIES": 8 * 36 - 1},
            NotImplementedError, "8 nodes of 6 cells are too many for a covariance of all cells each",
        ),
    ],
    ids=["lattice", "open cell", "no variance", "open leaf", "no tree", "too many cells"],
)  # fmt: skip
def test_releases_that_have_no_estimate(monkeypatch, release, most, error, message):
    for name, value in (most or {}).items():
        monkeypatch.setattr(linear, name, value)
    with pytest.raises(error, match=message):
        gls(release, "tract")
    if most and len(most) == 2:  # if all answers of a node are missing, it is as if it had never been asked
        gls(_published([(CELLS, ONE, []), (_query("tract", "age"), ONE, [0, 1])]), "tract")


def test_queries_and_leaves_that_are_refused(release):
    grouped = bdp.Frame.of(TABLE | {"cross": ("tract", list("uvuvu"))})
    odd = bdp.LinearQuery(FRAME, np.eye(30, dtype=int)[[0]] + np.eye(30, dtype=int)[[-1]], ["odd one"])
    for query, message in (
        (odd, r"the answer 'odd one' is no sum of the cells of one node .* levels are tract, county, all"),
        (bdp.Totals({"tract": ["a"]}), "query must be about the release's table"),
        (Query(grouped, (SumPart(grouped, ("cross",)),)), "'cross' is no level of the tree; levels are tract, county"),
    ):
        with pytest.raises(ValueError, match=message):
            gls(release).mean(query)
    with pytest.raises(ValueError, match=r"leaves must be a dimension of the table \(tract, kind, age\), got 'block'"):
        gls(release, leaves="block")


@pytest.mark.parametrize("recodes", [[], [np.array([0, 1, 1])]])
def test_exact_sums_of_nodes_that_contradict_one_another(recodes):
    every = ((np.arange(3),), np.ones(2), np.ones((2, 3)))
    leaves = LevelData(2, np.array([0, 0]), [every], [((None,), np.array([[4.0], [5.0]]))])
    fits, odd = (LevelData(1, None, [], [((None,), np.array([[total]]))]) for total in (9.0, 10.0))
    found = tree_estimate([Axis.of(3, recodes)], [leaves, fits])
    np.testing.assert_allclose(found[1].sums((None,)), [[9.0]])
    with pytest.raises(Contradiction, match="exact sums of node 0 of level 1 contradict those of the nodes below it"):
        tree_estimate([Axis.of(3, recodes)], [leaves, odd])
