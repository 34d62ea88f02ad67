"""Linear estimates against least squares in rational numbers, with noise of sizes from 1e-9 to 1e3 and redundant exact answers."""

import numpy as np
import pytest
from flint import fmpq, fmpq_mat

import bayesdp as bdp
from bayesdp.hierarchies import linear
from bayesdp.hierarchies.linear import gls
from bayesdp.hierarchies.structure import NoStructure
from bayesdp.hierarchies.two_pass import Axis, Contradiction, LevelData, tree_estimate
from bayesdp.noise import DiscreteGaussian as SIGMA
from bayesdp.noise import Gaussian
from bayesdp.queries import Query, SumPart


def _rational(value):
    return fmpq(*float(value).as_integer_ratio())


def _matrix(rows, columns):
    return fmpq_mat(len(rows), columns, [fmpq(int(v)) for row in rows for v in row])


def _floats(exact):
    return np.array([[int(v.p) / int(v.q) for v in row] for row in exact.table()], dtype=float)


def least_squares(release, queries):
    """Means and covariances of answers without any rounding until the end; None where a cell is open."""
    n = release.frame.size
    equal = [np.c_[own.query.matrix.toarray(), own.values.reshape(-1)] for own in release.exact if own.sign == "="]
    echelon, rank = _matrix([row for own in equal for row in own], n + 1).rref()
    pivots = [next(j for j in range(n + 1) if echelon[i, j] != 0) for i in range(rank)]
    free = [j for j in range(n) if j not in pivots]
    start, left = fmpq_mat(n, 1), fmpq_mat(n, len(free))
    for i, p in enumerate(pivots):
        start[p, 0] = echelon[i, n]
    for c, j in enumerate(free):
        left[j, c] = 1
        for i, p in enumerate(pivots):
            left[p, c] = -echelon[i, j]
    noisy, answers, precision = [], [], []
    for own in release.measurements:
        shown = ~own.unmeasured.reshape(-1)
        noisy += list(own.query.matrix.toarray()[shown])
        answers += [_rational(value) for value in own.values.reshape(-1)[shown]]
        variance = np.broadcast_to(own.law.variance(own.query.shape), own.query.shape).reshape(-1)
        precision += [1 / _rational(value) for value in variance[shown]]
    matrix = _matrix(noisy, n)
    seen, off = matrix * left, fmpq_mat(len(answers), 1, answers) - matrix * start
    entries = [precision[i] * seen[i, c] for i in range(len(noisy)) for c in range(len(free))]
    weighted = fmpq_mat(len(noisy), len(free), entries)
    inner = seen.transpose() * weighted
    if free and inner.det() == 0:
        return None
    inverse = inner.inv() if free else inner
    cells = start + left * (inverse * (weighted.transpose() * off))
    found = []
    for asked in (_matrix(query.matrix.toarray(), n) for query in queries):
        spread = asked * left
        found.append((_floats(asked * cells)[:, 0], _floats(spread * inverse * spread.transpose())))
    return found


def agrees(estimate, queries, expected):
    for query, (mean, covariance) in zip(queries, expected, strict=True):
        found, sd = estimate.sd(query).reshape(-1), np.sqrt(np.diag(covariance))
        assert (found[sd == 0.0] == 0.0).all()
        np.testing.assert_allclose(found, sd, rtol=1e-6, atol=0)
        # As near as binary64 numbers of this size can be, and a ten-thousandth of a standard error.
        off = np.abs(estimate.mean(query).reshape(-1) - mean)
        assert (off <= 1e-4 * sd + 1e-13 * (1.0 + np.abs(mean))).all(), (off / sd).max()


TABLE = {"tract": list("abcde"), "kind": ["house", "prison", "college"], "age": ["young", "old"]}
TABLE |= {"county": ("tract", ["west", "east", "west", "east", "east"])}
TABLE |= {"group": ("kind", ["home", "else", "else"]), "locked": ("kind", ["no", "yes", "no"])}  # do not nest
FRAME = bdp.Frame.of(TABLE)


def _query(*keep):
    return Query(FRAME, (SumPart(FRAME, keep),))


@pytest.fixture(scope="module", params=[False, True])
def release(request):
    """Without exact totals and with them."""
    keeps = "tract kind age", "tract age", "county group", "county kind age", "tract locked", "age"
    scales = zip(keeps, (2.0, 1.0, 1.5, 3.0, 1.2, 0.7), strict=True)
    measured = [(_query(*keep.split()), SIGMA(sigma), []) for keep, sigma in scales]
    return _published(measured, [_query("county")] if request.param else [])


KEEPS = "tract kind age", "tract", "county age", "group age", "tract group", "locked age", "kind", ""
EVERY = [_query(*keep.split()) for keep in KEEPS]


def test_answers_weighted_sums_and_covariances_are_those_of_least_squares(release):
    found = gls(release, "tract")  # of its own accord it would take the kinds, which more queries keep
    assert found.levels == ("tract", "county", "all")
    agrees(found, EVERY, least_squares(release, EVERY))
    query = _query("county", "age")
    told = found.to_dataset(query, 0.9)
    width = 2 * 1.6448536269514722 * found.sd(query)
    np.testing.assert_allclose(told["upper"] - told["lower"], width, rtol=1e-12)
    np.testing.assert_allclose(told["upper"] + told["lower"], 2 * found.mean(query), rtol=1e-12)
    assert (told["mean"].dims, told.attrs["not_used"]) == (("county", "age"), ["nonnegativity"])
    assert told["mean"].sel(county="east", age="old").item() == found.mean(query)[1, 1]
    both = found.to_dataset(_query("age") + _query())
    assert both["mean"].sel(answer="total").item() == found.to_dataset(_query())["mean"].item()
    # Published codes and contrasts: any weights of cells, alike at every leaf of a node; the leaves of a level in any order.
    rng = np.random.default_rng(5)
    inside = [*np.eye(5, dtype=int), [1, 0, 1, 0, 0], [0, 1, 0, 1, 1], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]]
    a = np.array([np.multiply.outer(own, rng.integers(-2, 3, (3, 2))).reshape(-1) for own in inside])
    query = bdp.LinearQuery(FRAME, a, [f"row {i}" for i in range(len(a))])
    asked = [query, query + _query("tract")]
    agrees(gls(release), asked, least_squares(release, asked))
    cells, groups, ages = _query("tract", "kind", "age"), _query("county", "group"), _query("age")
    found, ((_, cell), (_, group), (_, age)) = gls(release), least_squares(release, [cells, groups, ages])
    own = [(cells, tract, cell[6 * i : 6 * i + 6, 6 * i : 6 * i + 6]) for i, tract in enumerate("abcde")]
    for query, node, expected in (*own, (groups, "east", group[2:, 2:]), (ages, None, age)):  # east comes second
        np.testing.assert_allclose(found.covariance(query, node), expected, rtol=0, atol=1e-8)
    for query, node, message in (
        (_query("tract"), None, "node must be a label of 'tract', such as 'a', got None"),
        (_query("tract"), "z", "node must be a label of 'tract', such as 'a', got 'z'"),
        (ages, "a", "node must be None"),
        (ages + _query("tract"), None, "one part"),
    ):
        with pytest.raises(ValueError, match=message):
            found.covariance(query, node)


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


CELLS, ONE = _query("tract", "kind", "age"), SIGMA(1.0)


@pytest.mark.parametrize("exact", [[], [("county", "age")], [("tract",), ("group",), ()]])
@pytest.mark.parametrize("missing", [[3], [0, 1, 7]])
def test_exact_sums_of_any_kind_and_missing_answers(exact, missing):
    cells, ages = (_query("tract", "kind", "age"), SIGMA(2.0), []), (_query("tract", "age"), SIGMA(1.0), missing)
    kinds = (_query("county", "kind"), SIGMA(1.0), missing[:1])
    release = _published([cells, ages, kinds], [_query(*own) for own in exact])
    found = gls(release)
    assert (found.levels, found.ignored) == (("tract", "county", "all"), ())
    agrees(found, EVERY, least_squares(release, EVERY))


def test_zeros_and_limits_that_are_not_used_tables_that_are_no_tree_and_leaves_that_leave_cells_open():
    noisy = 8 + np.random.default_rng(1).integers(-3, 4, FRAME.shape)
    zeros = bdp.Exact(bdp.LinearQuery(FRAME, np.eye(30, dtype=int)[:2], ["first", "second"]), [0, 0])
    limits = bdp.Exact(_query("county"), [500, 500], "<=")
    for exact, law, said in (
        (zeros, SIGMA(2.0), "cells that must be 0"),
        (limits, bdp.noise.DiscreteLaplace(b=2.0), ""),
    ):
        found = gls(bdp.Release.from_published(FRAME, [bdp.Measured(bdp.Identity(FRAME), noisy, law)], [exact]))
        [ignored] = found.ignored
        assert ignored.startswith(said)
        np.testing.assert_allclose(found.mean(bdp.Identity(FRAME)), noisy)
        np.testing.assert_allclose(found.sd(bdp.Identity(FRAME)), np.sqrt(float(law.variance(()))))
    # A difference that is 0 is no cell that is 0.
    query = bdp.LinearQuery(FRAME, [[1, -1, *[0] * 28]], ["first - second"])
    measured = [bdp.Measured(bdp.Identity(FRAME), np.arange(30).reshape(5, 3, 2), SIGMA(sigma=2.0))]
    found = gls(bdp.Release.from_published(FRAME, measured, [bdp.Exact(query, [0])]))
    assert found.ignored == ()
    np.testing.assert_allclose(found.mean(bdp.Identity(FRAME)).reshape(-1)[:3], [0.5, 0.5, 2.0])
    areas = {"area": list("abcd"), "half": ("area", list("xxyy")), "other": ("area", list("xyxy"))}
    frame = bdp.Frame.of(areas | {"age": [1, 2]})
    half, other = (bdp.Margins(frame, [name, "age"]) for name in ("half", "other"))
    weighted = bdp.LinearQuery(frame, [[1, -1, 0, 2, 0, 0, 0, 3]], ["odd"])
    measured = [(bdp.Identity(frame), SIGMA(3.0), [2]), *((own, SIGMA(1.0), []) for own in (half, other, weighted))]
    release = _published(measured, [bdp.LinearQuery(frame, np.eye(8, dtype=int)[:1], ["one"])], frame)
    found, asked = gls(release), [half, bdp.Identity(frame), weighted, bdp.Totals(frame)]
    expected = least_squares(release, asked)
    assert found.levels == ()
    agrees(found, asked, expected)
    np.testing.assert_allclose(found.covariance(half), expected[0][1], atol=1e-8)
    with pytest.raises(ValueError, match="node must be None"):
        found.covariance(half, "x")
    # Of one tract nothing is measured but its total: cells of the county give the rest.
    county, tract = (_query("county", "kind", "age"), ONE, []), (_query("tract"), ONE, [])
    release = _published([(CELLS, SIGMA(sigma=2.0), np.arange(6)), tract, county])
    agrees(gls(release), EVERY, least_squares(release, EVERY))


ODD = bdp.LinearQuery(FRAME, np.arange(30)[None], ["odd"])
ONES = np.ones(FRAME.shape, int)
TINY = bdp.Release.from_published(FRAME, [bdp.Measured(bdp.Identity(FRAME), ONES, SIGMA(0.01), name="tiny")])
LATTICE = bdp.LatticeLaplace(bdp.Totals(FRAME), epsilon=1.0).release(ONES, rng=1)


def test_releases_queries_and_leaves_that_are_refused(monkeypatch, release):
    grouped = bdp.Frame.of(TABLE | {"cross": ("tract", list("uvuvu"))})
    odd = bdp.LinearQuery(FRAME, np.eye(30, dtype=int)[[0]] + np.eye(30, dtype=int)[[-1]], ["odd one"])
    found = gls(release)
    for query, message in (
        (odd, r"the answer 'odd one' is no sum of the cells of one node .* levels are tract, county, all"),
        (bdp.Totals({"tract": ["a"]}), "query must be about the release's table"),
        (bdp.Totals(grouped, by="cross"), "'cross' is no level of the tree; levels are tract, county"),
    ):
        with pytest.raises(ValueError, match=message):
            found.mean(query)
    with pytest.raises(ValueError, match=r"leaves must be a dimension of the table \(tract, kind, age\), got 'block'"):
        gls(release, leaves="block")
    tracts, cells = _published([(_query("tract"), ONE, [])]), (CELLS, ONE, [])
    ages = [_published([cells, (_query("tract", "age"), ONE, missing)]) for missing in ([1], [0, 1])]
    for release, message in (
        (LATTICE, r"independent noise that is added, and 'lattice-laplace' of .* is none"),
        (tracts, r"the cell tract=., kind=.*, age=.* does not follow from what is published"),
        (TINY, "positive, finite variance, and that of tiny at tract=a, kind=house, age=young is 0"),
    ):
        with pytest.raises(ValueError, match=message):
            gls(release, "tract")
    monkeypatch.setattr(linear, "MOST_CELLS", 3)
    with pytest.raises(ValueError, match=r"gls needs answers at every leaf that fix every cell: .*; tract=a has none"):
        gls(tracts, "tract")
    with pytest.raises(NotImplementedError, match="takes tables of more than 3 cells only where they are a tree"):
        gls(_published([cells], [ODD]), "tract")
    monkeypatch.setattr(linear, "MOST_ENTRIES", 8 * 36 - 1)
    with pytest.raises(NotImplementedError, match="8 nodes of 6 cells are too many for a covariance of all cells each"):
        gls(ages[0], "tract")
    gls(ages[1], "tract")  # if all answers of a node are missing, it is as if it had never been asked


@pytest.mark.parametrize("recodes", [[], [np.array([0, 1, 1])]])
def test_exact_sums_of_nodes_that_contradict_one_another(recodes):
    every = ((np.arange(3),), np.ones(2), np.ones((2, 3)))
    leaves = LevelData(2, np.array([0, 0]), [every], [((None,), np.array([[4.0], [5.0]]))])
    fits, odd = (LevelData(1, None, [], [((None,), np.array([[total]]))]) for total in (9.0, 10.0))
    found = tree_estimate([Axis.of(3, recodes)], [leaves, fits])
    np.testing.assert_allclose(found[1].sums((None,)), [[9.0]])
    with pytest.raises(Contradiction, match="exact sums of node 0 of level 1 contradict those of the nodes below it"):
        tree_estimate([Axis.of(3, recodes)], [leaves, odd])


TWO = bdp.Frame.of({"leaf": ["a", "b"], "k": ["x", "y"]})


def random_release(seed):
    """Sums of a small hierarchy, noisy and exact ones without regard to each other, weights now and then; and what to ask."""
    rng = np.random.default_rng([31, seed])
    leaves, kinds = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    table = {"leaf": [f"t{i}" for i in range(leaves)]}
    table["county"] = ("leaf", sorted(f"c{i}" for i in rng.integers(0, 2, leaves)))
    levels = {"leaf": ["leaf", "county", None], "k": ["k", "group", None], "sex": ["sex", None]}
    if kinds > 1:
        table |= {"k": [f"k{i}" for i in range(kinds)], "group": ("k", ["g0", *["g1"] * (kinds - 1)])}
    if rng.random() < 0.25:
        table["sex"] = ["f", "m"]
    frame = bdp.Frame.of(table)

    def sums():
        keep = [levels[dim][rng.integers(len(levels[dim]))] for dim in frame.dims]
        return Query(frame, (SumPart(frame, tuple(filter(None, keep))),))

    truth = rng.poisson(10 ** rng.uniform(0, 2), frame.shape)
    queries = [sums() for _ in range(rng.integers(1, 5))]
    queries += [bdp.Identity(frame)] if rng.random() < 0.9 else []
    queries += [bdp.LinearQuery(frame, rng.integers(-2, 3, (2, frame.size)), ["p", "q"])] if rng.random() < 0.2 else []
    measured = []
    for query in queries:
        each = rng.random() < 0.1
        law = Gaussian(sigma=10 ** rng.uniform(-9, 3, query.shape if each and query.shape else None))
        measured.append(bdp.Measured(query, query.apply(truth) + law.draw(rng, query.shape), law))
    exact = [sums() for _ in range(rng.integers(0, 3))]
    stated = [bdp.Exact(own, own.apply(truth)) for own in exact if not own.is_identity]
    release = bdp.Release.from_published(frame, measured, stated, adding_up="warn")
    return release, [bdp.Identity(frame), sums(), sums(), bdp.Totals(frame)]


@pytest.mark.parametrize(
    ("first", "last", "fewest"), [(0, 100, 15), pytest.param(100, 1000, 140, marks=pytest.mark.slow)]
)
def test_rational_least_squares(monkeypatch, first, last, fewest):
    """By both solvers: that of small tables always, that of trees wherever it does not refuse; `fewest` times it does not."""
    trees = 0
    for seed in range(first, last):
        release, queries = random_release(seed)
        expected = least_squares(release, queries)
        if expected is None:
            with pytest.raises(ValueError, match="does not follow from what is published"):
                bdp.gls(release)
            continue
        agrees(bdp.gls(release), queries, expected)
        with monkeypatch.context() as patch:
            patch.setattr(linear, "tree_form", lambda *_: (_ for _ in ()).throw(NoStructure("not now")))
            agrees(bdp.gls(release), queries, expected)
        with monkeypatch.context() as patch:
            patch.setattr(linear, "MOST_CELLS", 0)
            try:
                tree = bdp.gls(release)
            except (ValueError, NotImplementedError):
                continue  # no tree, or noise that differs too much for one; `fewest` have an answer
            agrees(tree, queries, expected)
            trees += 1
    assert trees >= fewest


def _redundant(law, total=57):
    answers = [(bdp.Identity(TWO), [[30, 17], [9, 5]], SIGMA(1.0)), (bdp.Totals(TWO), total, law)]
    measured = [bdp.Measured(*own) for own in (*answers, (bdp.Margins(TWO, ["k"]), [40, 20], Gaussian(5.0)))]
    return bdp.Release.from_published(TWO, measured, [bdp.Exact(bdp.Margins(TWO, ["leaf"]), [43, 14])])


@pytest.mark.parametrize("law", [*map(SIGMA, (0.11, 3.0)), *map(Gaussian, (1e-8, 50.0))], ids=str)
def test_a_noisy_total_that_exact_ones_determine_says_nothing(law):
    release, queries = _redundant(law), [bdp.Identity(TWO), bdp.Margins(TWO, ["k"]), bdp.Totals(TWO)]
    estimate = bdp.gls(release)
    agrees(estimate, queries, least_squares(_redundant(Gaussian(1.0)), queries))
    assert estimate.ignored == ("1 noisy answers that exact ones determine",)


def test_noisy_answers_that_contradict_exact_ones_and_what_rounding_would_spoil_are_refused_and_named(monkeypatch):
    named = r"the noisy answer total is \d\d\S*, and exact answers say that it is 57: noise"
    for most_cells in (0, linear.MOST_CELLS):
        monkeypatch.setattr(linear, "MOST_CELLS", most_cells)
        bdp.gls(_redundant(SIGMA(2.0), 65))  # 4 standard deviations: once in 16,000 releases
        for law, total in ((SIGMA(2.0), 71), (SIGMA(0.12), 58), (Gaussian(1e-8), 57.001)):
            with pytest.raises(ValueError, match=named):
                bdp.gls(_redundant(law, total))
    near = bdp.LinearQuery({"cell": ["a", "b"]}, [[10**5, 10**5 + 1], [10**5 + 1, 10**5 + 2]], ["near", "nearer"])
    release = bdp.Release.from_published(near.frame, [bdp.Measured(near, [1.0, 2.0], Gaussian(1.0))])
    with pytest.raises(ValueError, match=r"rounding errors grow by a factor of .* some of near\S*; near"):
        bdp.gls(release)
    monkeypatch.setattr(linear, "MOST_CELLS", 3)
    cells = bdp.Measured(bdp.Identity(TWO), [[30, 17], [9, 5]], Gaussian(1e3))
    kinds = bdp.Measured(bdp.Margins(TWO, ["k"]), [40, 20], Gaussian(1e-3))
    release = bdp.Release.from_published(TWO, [cells, kinds])
    message = r"noise of k=x \(sd 0.001\) is too small beside the largest \(sd 1e\+03\)"
    with pytest.raises(NotImplementedError, match=message):
        bdp.gls(release)
