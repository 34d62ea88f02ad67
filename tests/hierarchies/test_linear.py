"""Linear estimates of releases against dense least squares on the whole table."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.stats import binom

import bayesdp as bdp
from bayesdp.hierarchies import linear
from bayesdp.hierarchies.linear import gls
from bayesdp.hierarchies.two_pass import Axis, Contradiction, LevelData, Unidentified, tree_estimate
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
    told = found.to_dataset(_query("tract"), 0.9)
    np.testing.assert_allclose(
        told["upper"] - told["lower"], 2 * 1.6448536269514722 * found.sd(_query("tract")), rtol=1e-12
    )


def test_weighted_sums_of_one_node_are_those_of_dense_least_squares(release):
    """Published codes and contrasts: any weights of cells, alike at every leaf of a node; the leaves of a level in any order."""
    found = gls(release)
    rng = np.random.default_rng(5)
    estimate, covariance = _dense(release)
    rows = []
    for group in ("tract", "county", None):
        labels = np.asarray(FRAME.labels_of("tract") if group == "tract" else FRAME.group("county")[1])
        for label in dict.fromkeys(labels.tolist()) if group else [None]:
            inside = labels == label if group else np.ones(len(labels), dtype=bool)
            weights = rng.integers(-2, 3, FRAME.shape[1:])
            axis = FRAME.dims.index("tract")
            assert axis == 0
            rows.append(np.multiply.outer(inside, weights).reshape(-1))
    rows.append(np.zeros(FRAME.size, dtype=int))
    query = bdp.LinearQuery(FRAME, np.array(rows), [f"row {i}" for i in range(len(rows))])
    a = np.array(rows)
    np.testing.assert_allclose(found.mean(query), a @ estimate, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found.sd(query) ** 2, np.diag(a @ covariance @ a.T), rtol=0, atol=1e-8)
    stacked = query + _query("tract")
    np.testing.assert_allclose(found.mean(stacked)[: len(rows)], a @ estimate, rtol=0, atol=1e-8)
    odd = np.zeros((1, FRAME.size), dtype=int)
    odd[0, [0, -1]] = 1
    with pytest.raises(
        ValueError, match=r"the answer 'odd one' is no sum of the cells of one node .* levels are tract, county, all"
    ):
        found.mean(bdp.LinearQuery(FRAME, odd, ["odd one"]))


def test_limits_and_zeros_are_not_used_and_it_says_so():
    noisy = 8 + np.random.default_rng(1).integers(-3, 4, FRAME.shape)
    measured = [bdp.Measured(bdp.Identity(FRAME), noisy, bdp.noise.DiscreteLaplace(b=2.0))]
    release = bdp.Release.from_published(FRAME, measured, [bdp.Exact(_query("county"), [50, 50], "<=")])
    found = gls(release)
    assert len(found.ignored) == 1
    np.testing.assert_allclose(
        found.sd(bdp.Identity(FRAME)), np.sqrt(float(bdp.noise.DiscreteLaplace(b=2.0).variance(())))
    )


def test_noise_of_lattices_is_refused():
    release = bdp.LatticeLaplace(bdp.Totals(FRAME), epsilon=1.0).release(np.ones(FRAME.shape, int), rng=1)
    with pytest.raises(ValueError, match=r"independent noise that is added, and 'lattice-laplace' of .* is none"):
        gls(release)


def _published(measured, exact=(), frame=FRAME, seed=3):
    """A release of (query, law, answers that are missing), and of exact queries, about one table."""
    rng = np.random.default_rng(seed)
    truth = rng.poisson(20.0, frame.shape)
    parts = []
    for query, law, missing in measured:
        noisy = np.asarray(query.apply(truth) + law.draw(rng, query.shape), dtype=float)
        noisy.reshape(-1)[missing] = np.nan
        parts.append(
            bdp.Measured(
                query, noisy, law, unmeasured=np.isnan(noisy) if missing is not None and len(missing) else None
            )
        )
    return bdp.Release.from_published(frame, parts, [bdp.Exact(query, query.apply(truth)) for query in exact])


SIGMA = bdp.noise.DiscreteGaussian


@pytest.mark.parametrize(
    "exact", [[], [("county", "age")], [("tract",), ("group",), ()]], ids=["none", "ages", "crossing"]
)
@pytest.mark.parametrize("missing", [[], [3], [0, 1, 7]])
def test_exact_sums_of_any_kind_and_missing_answers(exact, missing):
    measured = [
        (_query("tract", "kind", "age"), SIGMA(sigma=2.0), []),
        (_query("tract", "age"), SIGMA(sigma=1.0), missing),
    ]
    release = _published(
        [*measured, (_query("county", "kind"), SIGMA(sigma=1.0), missing[:1])], [_query(*own) for own in exact]
    )
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
    measured = [
        (bdp.Identity(frame), SIGMA(sigma=3.0), [2]),
        (half, SIGMA(sigma=1.0), []),
        (other, SIGMA(sigma=1.0), []),
    ]
    release = _published(
        [*measured, (weighted, SIGMA(sigma=1.0), [])],
        [bdp.LinearQuery(frame, np.eye(8, dtype=int)[:1], ["one"])],
        frame,
    )
    found = gls(release)
    assert found.levels == ()
    _check(found, release, [bdp.Identity(frame), half, weighted, bdp.Totals(frame)])
    np.testing.assert_allclose(
        found.covariance(half), half.matrix @ _dense(release)[1] @ half.matrix.T.toarray(), atol=1e-8
    )
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
    query = _query("tract", "kind", "age")
    for tract, own in zip("abcde", np.arange(30).reshape(5, 6), strict=True):
        np.testing.assert_allclose(found.covariance(query, tract), covariance[np.ix_(own, own)], rtol=0, atol=1e-8)
    query = _query("county", "group")
    rows = query.matrix[2:].toarray()  # east comes second
    np.testing.assert_allclose(found.covariance(query, "east"), rows @ covariance @ rows.T, rtol=0, atol=1e-8)
    rows = _query("age").matrix.toarray()
    np.testing.assert_allclose(found.covariance(_query("age")), rows @ covariance @ rows.T, rtol=0, atol=1e-8)
    for query, node, message in (
        (_query("tract"), None, "node must be a label of 'tract', such as 'a', got None"),
        (_query("tract"), "z", "node must be a label of 'tract', such as 'a', got 'z'"),
        (_query("age"), "a", "node must be None"),
        (_query("age") + _query("tract"), None, "one part"),
    ):
        with pytest.raises(ValueError, match=message):
            found.covariance(query, node)


def test_labelled_output(release):
    found, query = gls(release), _query("county", "age")
    dataset = found.to_dataset(query, 0.9)
    assert set(dataset.data_vars) == {"mean", "sd", "lower", "upper"}
    assert dataset["mean"].dims == ("county", "age")
    assert dataset["mean"].sel(county="east", age="old").item() == found.mean(query)[1, 1]
    assert dataset.attrs["not_used"] == ["nonnegativity"]
    assert repr(found) == "<LinearEstimate: 5 tract, 2 county, 1 all; 6 cells each; nonnegativity not used>"
    total = found.to_dataset(_query())
    assert total["mean"].shape == ()
    both = found.to_dataset(_query("age") + _query())
    assert both["mean"].sel(answer="total").item() == total["mean"].item()


def test_zeros_are_not_used_and_it_says_so():
    zero = bdp.Exact(bdp.LinearQuery(FRAME, np.eye(30, dtype=int)[:2], ["first", "second"]), [0, 0])
    noisy = 8 + np.random.default_rng(1).integers(-3, 4, FRAME.shape)
    release = bdp.Release.from_published(FRAME, [bdp.Measured(bdp.Identity(FRAME), noisy, SIGMA(sigma=2.0))], [zero])
    found = gls(release)
    assert [own.split(" <")[0] for own in found.ignored] == ["cells that must be 0"]
    np.testing.assert_allclose(found.mean(bdp.Identity(FRAME)), noisy)
    assert "nonnegativity not used; not used: cells that must be 0" in repr(found)


def test_a_difference_that_is_0_is_no_cell_that_is_0():
    row = np.zeros((1, 30), dtype=int)
    row[0, :2] = 1, -1
    query = bdp.LinearQuery(FRAME, row, ["first - second"])
    measured = [bdp.Measured(bdp.Identity(FRAME), np.arange(30).reshape(5, 3, 2), SIGMA(sigma=2.0))]
    release = bdp.Release.from_published(FRAME, measured, [bdp.Exact(query, [0])])
    found = gls(release)
    assert found.ignored == ()
    np.testing.assert_allclose(found.mean(bdp.Identity(FRAME)).reshape(-1)[:3], [0.5, 0.5, 2.0])


@pytest.mark.parametrize(
    ("keep", "exact", "error", "message"),
    [
        ([("tract",)], [], ValueError, "gls needs answers at every leaf that fix every cell: .*; tract=a has none"),
        (
            [("tract", "kind", "age")],
            ["odd"],
            NotImplementedError,
            "takes tables of more than 3 cells only where they are a tree",
        ),
    ],
)
def test_large_tables_that_have_no_estimate(monkeypatch, keep, exact, error, message):
    monkeypatch.setattr(linear, "MOST_CELLS", 3)
    odd = [bdp.LinearQuery(FRAME, np.arange(30)[None], ["odd"]) for _ in exact]
    with pytest.raises(error, match=message):
        gls(_published([(_query(*own), SIGMA(sigma=1.0), []) for own in keep], odd))


def test_too_many_cells_for_variances_that_differ(monkeypatch):
    monkeypatch.setattr(linear, "MOST_CELLS", 3)
    monkeypatch.setattr(linear, "MOST_ENTRIES", 8 * 36 - 1)
    every = (_query("tract", "kind", "age"), SIGMA(sigma=1.0), [])
    with pytest.raises(NotImplementedError, match="8 nodes of 6 cells are too many for a covariance of all cells each"):
        gls(_published([every, (_query("tract", "age"), SIGMA(sigma=1.0), [1])]), "tract")
    gls(
        _published([every, (_query("tract", "age"), SIGMA(sigma=1.0), [0, 1])]), "tract"
    )  # all answers of a node: as if never asked there


def test_what_is_refused(release):
    with pytest.raises(ValueError, match=r"the cell tract=., kind=.*, age=.* does not follow from what is published"):
        gls(_published([(_query("tract"), SIGMA(sigma=1.0), [])]))
    with pytest.raises(
        ValueError, match="positive, finite variance, and that of tiny at tract=a, kind=house, age=young is 0"
    ):
        gls(
            bdp.Release.from_published(
                FRAME, [bdp.Measured(bdp.Identity(FRAME), np.ones(FRAME.shape, int), SIGMA(sigma=0.01), name="tiny")]
            )
        )
    with pytest.raises(ValueError, match="leaves must be a dimension of the table \\(tract, kind, age\\), got 'block'"):
        gls(release, leaves="block")
    found = gls(release)
    with pytest.raises(ValueError, match="query must be about the release's table"):
        found.mean(bdp.Totals({"tract": ["a"]}))
    grouped = bdp.Frame.of(TABLE | {"cross": ("tract", list("uvuvu"))})
    with pytest.raises(ValueError, match="'cross' is no level of the tree; levels are tract, county, all"):
        found.mean(Query(grouped, (SumPart(grouped, ("cross",)),)))


def test_exact_totals_that_contradict_one_another():
    noisy = bdp.Measured(bdp.Identity(FRAME), np.ones(FRAME.shape, int), SIGMA(sigma=1.0))
    exact = [bdp.Exact(_query("county"), [10, 20]), bdp.Exact(_query("tract"), [5, 5, 5, 5, 5])]
    with pytest.raises(ValueError, match=r"exact values contradict one another at county=(west|east)"):
        bdp.Release.from_published(FRAME, [noisy], exact)


def test_intervals_cover_as_often_as_they_say():
    """Counts far from 0; one cell of each of 400 counties, which hardly depend on one another; false alarm 2e-4, and a fixed seed."""
    counties = [f"c{i // 2}" for i in range(800)]
    frame = bdp.Frame.of({"tract": range(800), "county": ("tract", counties), "age": [1, 2, 3]})
    rng = np.random.default_rng(5)
    truth = rng.poisson(200.0, frame.shape)
    measured = []
    for keep, sigma in ((("tract", "age"), 4.0), (("tract",), 2.0), (("county", "age"), 2.0), (("age",), 1.0)):
        query = Query(frame, (SumPart(frame, keep),))
        noisy = query.apply(truth) + SIGMA(sigma=sigma).draw(rng, query.shape)
        measured.append(bdp.Measured(query, noisy, SIGMA(sigma=sigma)))
    found = gls(bdp.Release.from_published(frame, measured))
    for keep, step in (("tract", 2), ("county", 1)):
        asked = Query(frame, (SumPart(frame, (keep, "age")),))
        low, high = (found.to_dataset(asked, 0.9)[end].values for end in ("lower", "upper"))
        hits = int(((low <= asked.apply(truth)) & (asked.apply(truth) <= high))[::step, 0].sum())
        assert binom.ppf(5e-5, 400, 0.9) <= hits <= binom.ppf(1 - 5e-5, 400, 0.9)


def _sums(codes, size):
    """The matrix of sums of one dimension."""
    if codes is None:
        return np.ones((1, size))
    return (codes[None, :] == np.unique(codes)[:, None]).astype(float)


def _least_squares(rows, right, weights):
    rows, right, weights = np.vstack(rows), np.concatenate(right), np.concatenate(weights)
    covariance = np.linalg.inv(rows.T @ (weights[:, None] * rows))
    return covariance @ rows.T @ (weights * right), covariance


def test_a_precision_an_answer():
    """Cells as one axis of groups: every answer has its own precision, and some are missing."""
    rng = np.random.default_rng(4)
    cells, parent = 6, np.array([0, 0, 1])
    every, thirds = np.arange(cells), np.array([0, 0, 1, 1, 2, 2])
    levels, rows, right, weights = [], [], [], []
    for nodes, place in ((3, np.arange(3)), (2, parent)):
        queries = []
        for codes in (every, thirds):
            precision = rng.uniform(0.1, 4.0, (nodes, codes.max() + 1))
            if nodes == 2 or codes is thirds:
                precision[rng.random(precision.shape) < 0.4] = 0.0
            answers = rng.normal(size=precision.shape)
            queries.append(((codes,), precision, answers))
            for node in range(nodes):
                rows.append(np.kron((place == node)[None, :].astype(float), _sums(codes, cells)))
                right.append(answers[node])
                weights.append(precision[node])
        levels.append(LevelData(nodes, parent if nodes == 3 else None, queries))
    # Two counties at the top: two trees.
    estimate, covariance = _least_squares(rows, right, weights)
    found = tree_estimate([Axis(every)], levels)
    np.testing.assert_allclose(found[0].cells.reshape(-1), estimate, atol=1e-8)
    np.testing.assert_allclose(
        found[0].covariance((thirds,), 1), _sums(thirds, 6) @ covariance[6:12, 6:12] @ _sums(thirds, 6).T
    )


def test_a_leaf_that_leaves_cells_open():
    precision = np.array([1.0, 0.0])
    every = ((np.arange(3),), precision, np.ones((2, 3)))
    with pytest.raises(Unidentified, match=r"needs answers at every leaf that fix every cell.*leaf 1") as caught:
        tree_estimate([Axis.of(3, [])], [LevelData(2, np.zeros(2, int), [every]), LevelData(1, None, [])])
    assert caught.value.leaf == 1


def test_exact_sums_stand_for_answers():
    """Two cells, of which one sum is exact and the other one noisy, no answer of both."""
    axis = Axis(np.arange(2))
    level = LevelData(
        1, None, [((np.arange(2),), np.array([[4.0, 0.0]]), np.array([[3.0, 0.0]]))], [((None,), np.array([[10.0]]))]
    )
    [found] = tree_estimate([axis], [level])
    np.testing.assert_allclose(found.cells, [[3.0, 7.0]])
    np.testing.assert_allclose(found.covariance((np.arange(2),), 0), [[0.25, -0.25], [-0.25, 0.25]])


@pytest.mark.parametrize("recodes", [[], [np.array([0, 1, 1])]])
def test_exact_sums_of_nodes_that_contradict_one_another(recodes):
    every = ((np.arange(3),), np.ones(2), np.ones((2, 3)))
    leaves = LevelData(2, np.array([0, 0]), [every], [((None,), np.array([[4.0], [5.0]]))])
    fits, odd = (LevelData(1, None, [], [((None,), np.array([[total]]))]) for total in (9.0, 10.0))
    found = tree_estimate([Axis.of(3, recodes)], [leaves, fits])
    np.testing.assert_allclose(found[1].sums((None,)), [[9.0]])
    with pytest.raises(Contradiction, match="exact sums of node 0 of level 1 contradict those of the nodes below it"):
        tree_estimate([Axis.of(3, recodes)], [leaves, odd])
