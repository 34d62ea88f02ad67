"""Statements of Cho and Awan, each against an oracle: Propositions 11 to 21, Lemma 34, Remark 33; what others know already."""

import itertools
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import norm

from bayesdp import privacy
from bayesdp.datasets.nmf.products import LEVELS, QUERIES, RHO, share_of
from bayesdp.fibers import Fiber, enumerate_fiber, nearest_table
from bayesdp.invariants import Invariants
from bayesdp.measurements import Exact
from bayesdp.papers import semi_dp
from bayesdp.papers.semi_dp import compare, full_characterization, margin_guarantee, semi_guarantee, side_information
from bayesdp.privacy import SemiGuarantee, SensitivitySpace, approximate_dp, gaussian_delta, gaussian_dp
from bayesdp.privacy.tradeoffs.base import DiscretePair
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.lattices.oracles import labels
from tests.privacy.sensitivities.databases import conforming, distances_from, exact_of, fiber_of, tables_of
from tests.refusals import refused

PAIR = {"group": ["a", "b"], "success": ["yes", "no"]}
CUBE, SQUARE = labels(2, 2, 2), labels(3, 2)
ALPHAS = np.linspace(0.0, 1.0, 401)


@pytest.mark.parametrize("apart", [0, 1, 2, 3])
def test_proposition_11_holds_for_a_mechanism_and_is_attained(apart):
    table, other, inner = [[5, 3], [1, 2]], [[5 - apart, 3], [1, 2 + apart]], ALPHAS[1:-1]
    # The Gaussian mechanism, exactly.
    bound = full_characterization(gaussian_dp(0.7), table, other)
    assert np.allclose(bound(inner), norm.cdf(norm.isf(inner) - apart * 0.7), atol=1e-12)
    # Geometric noise on one count, by all its outcomes.
    epsilon, outcomes = 0.6, np.arange(-80, 90)
    p, q = (softmax(-epsilon * np.abs(outcomes - own[0][0])) for own in (table, other))
    pure = full_characterization(approximate_dp(epsilon), table, other)
    order = np.argsort(-(q / p))  # the lemma of Neyman and Pearson
    alpha, power = (np.append(0.0, np.cumsum(own[order])) for own in (p, q))
    assert np.all(1.0 - np.interp(ALPHAS, alpha, power) >= pure(ALPHAS) - 1e-9)


def test_proposition_11_is_about_tables_that_are_apart_and_bounds_every_pair():
    assert full_characterization(gaussian_dp(1.0), [[2, 0], [0, 1]], [[1, 1], [1, 0]]) == gaussian_dp(2.0)
    assert full_characterization(gaussian_dp(1.0), [2, 1], [2, 0], "add-remove") == gaussian_dp(1.0)
    # Corollary 18 and Proposition 15, for every pair of tables.
    fiber = fiber_of([[[1, 0], [1, 1]], [[0, 1], [0, 1]]], *(Margins(CUBE, [name]) for name in "abc"))
    f = gaussian_dp(0.5)
    stated, sharper = margin_guarantee(f, fiber), semi_guarantee(f, fiber)
    own = privacy.semi_adjacency(fiber)
    assert stated.adjacency == sharper.adjacency == own.worst
    assert (stated.tradeoff, sharper.tradeoff) == (gaussian_dp(0.5 * 4), gaussian_dp(0.5 * own.worst))
    pairs = privacy.conforming_pairs(fiber, stated.adjacency)
    assert len(pairs) > 20
    for x, y in pairs:
        true = full_characterization(f, x, y)
        for bound in (stated, sharper):
            assert np.all(true(ALPHAS) >= bound.tradeoff(ALPHAS) - 1e-12)


OVERLAPPING = fiber_of(np.ones((2, 2, 2), dtype=int), Margins(CUBE, ["a", "b"], ["b", "c"]))
ALONE = fiber_of([[3, 0], [0, 0]], Margins(PAIR, ["group"], ["success"]))


def binary_tradeoff(p, q, alpha):
    """Trade-off of a coin of p against one of q: the four tests without chance, and straight lines between them."""
    corners = sorted({(0.0, 1.0), (1.0, 0.0), (p, 1.0 - q), (1.0 - p, q)})
    best = np.ones_like(alpha)
    for (a, b), (c, d) in product(corners, repeat=2):
        if a < c:
            on = (alpha >= a) & (alpha <= c)
            best[on] = np.minimum(best[on], b + (d - b) * (alpha[on] - a) / (c - a))
    return best


SKEW = DiscretePair(0.0, (0.1, 0.9), (0.5, 0.5))  # a trade-off function that is not symmetric


@pytest.mark.parametrize("f", [approximate_dp(0.8), approximate_dp(0.3, 0.1), gaussian_dp(0.7), SKEW], ids=str)
def test_lemma_34_against_the_trade_off_of_the_outcome(f):
    fiber = fiber_of([[2, 1], [1, 2]], Margins(PAIR, ["group"], ["success"]))
    rng, seen, grid = np.random.default_rng(3), [], np.linspace(0.0, 1.0, 2001)
    pairs = privacy.conforming_pairs(fiber, 2)
    assert len(pairs) == 3
    for _ in range(60):
        phi = 0.5 + rng.choice([0.1, 0.3, 0.9]) * (rng.random(4) - 0.5)
        found = semi_dp.private_test(lambda x, phi=phi: phi[x[0, 0]], f, fiber, 2)
        coins = [(phi[x[0, 0]], phi[y[0, 0]]) for one in pairs for x, y in (one, one[::-1])]
        gap = max(np.max(f(grid) - binary_tradeoff(p, q, grid)) for p, q in coins)
        if abs(found.excess) > 2e-3:
            assert found.private == (gap <= 1e-9)
        seen.append(found.private)
        x, y = found.pair
        assert found.excess == phi[x[0, 0]] - min(g.power(phi[y[0, 0]]) for g in (f, f.inverse()))
    assert 3 < sum(seen) < 57


def test_the_nearest_table_by_all_tables():
    rng = np.random.default_rng(4)
    corner = LinearQuery(SQUARE, [[1, 0, 0, 0, 0, 0]], ["corner"])
    both, total = Margins(SQUARE, ["a"], ["b"]), Totals(SQUARE)
    for query, more in [
        (both, []),
        (total, []),
        (Margins(CUBE, ["a", "b"], ["b", "c"], ["a", "c"]), []),
        (Margins(CUBE, ["a", "b"], ["b", "c"]), []),
        (LinearQuery(SQUARE, [[1, 2, 1, 1, 3, 1]], ["weights"]), []),
        (both, [(1, ">=")]),
        (total, [(1, "<=")]),
        (total, [(0, "=")]),
    ]:
        shape = query.frame.shape
        for round_ in range(2):
            table = rng.integers(0, 3, size=shape)
            for value, _ in more:
                table.flat[0] = value
            fiber = Fiber.of([*exact_of(table, (query,)), *(Exact(corner, [value], sign=sign) for value, sign in more)])
            noisy = table + (rng.normal(scale=3.0, size=shape) if round_ % 2 else rng.integers(-4, 5, size=shape))
            found = nearest_table(fiber, noisy)
            assert fiber.contains(found)
            tables = enumerate_fiber(fiber)
            least = np.abs(tables - noisy).reshape(len(tables), -1).sum(axis=1).min()
            assert np.abs(found - noisy).sum() == pytest.approx(least, abs=1e-9)
            assert np.array_equal(nearest_table(fiber, table), table)


TABLE = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
TOTAL, COUNTY = Invariants(Totals(TABLE)), Invariants(Margins(TABLE, ["county"]))
EDUCATION, BOTH = Invariants(Margins(TABLE, ["education"])), Invariants(Margins(TABLE, ["county"], ["education"]))
F, G = approximate_dp(1.0), gaussian_dp(1.0)


def guarantee(f=F, a=1, t=None, n="substitution"):
    return SemiGuarantee(f, a, t, n)


@pytest.mark.parametrize(
    ("first", "second", "answer", "why"),
    [
        (guarantee(), guarantee(), "equal", "equal up to"),
        (guarantee(approximate_dp(0.5)), guarantee(), "stronger", "larger"),
        (guarantee(gaussian_dp(2.0)), guarantee(G), "weaker", "mu = 2 and 1"),
        (guarantee(t=COUNTY), guarantee(), "weaker", "more invariants"),
        (guarantee(t=TOTAL), guarantee(t=BOTH), "stronger", "fewer invariants"),
        # Substitution keeps the number of records anyway.
        (guarantee(), guarantee(t=TOTAL), "equal", "same invariants"),
        (guarantee(gaussian_dp(1.0)), guarantee(gaussian_dp(0.5), t=TOTAL), "weaker", "same invariants"),
        (guarantee(n="add-remove"), guarantee(n="add-remove", t=TOTAL), "stronger", "fewer invariants"),
        (guarantee(t=COUNTY), guarantee(t=EDUCATION), "not comparable", "each keeps an invariant"),
        (guarantee(a=2), guarantee(), "stronger", "reaches further"),
        (guarantee(F.group(2), 2), guarantee(), "not comparable", "smaller"),
        (guarantee(F), guarantee(G), "not comparable", "cross"),
        (guarantee(a=2, n="add-remove"), guarantee(), "stronger", "reaches further"),
        (guarantee(a=1, n="add-remove"), guarantee(), "not comparable", "neither distance"),
        (guarantee(a=2, n="add-remove", t=TOTAL), guarantee(t=TOTAL), "equal", "equally far"),
        (guarantee(a=2, t=COUNTY), guarantee(a=5, n="add-remove", t=COUNTY), "equal", "equally far"),
        # With the same number of records tables are an even number of additions and removals apart.
        (guarantee(a=2, n="add-remove", t=TOTAL), guarantee(a=3, n="add-remove", t=TOTAL), "equal", "equally far"),
        (guarantee(a=2, n="add-remove", t=BOTH), guarantee(a=3, n="add-remove", t=BOTH), "equal", "equally far"),
        (guarantee(a=3, n="add-remove", t=TOTAL), guarantee(a=4, n="add-remove", t=TOTAL), "weaker", "less far"),
        (guarantee(a=2, n="add-remove"), guarantee(a=3, n="add-remove"), "weaker", "less far"),
        # All pairs of the second are among those of the first, which is also about tables with other totals.
        (guarantee(a=2, n="add-remove"), guarantee(a=3, n="add-remove", t=TOTAL), "stronger", "equally far"),
    ],
)
def test_cases_by_hand(first, second, answer, why):
    found = compare(first, second)
    assert found.answer == answer
    assert why in str(found)
    turned = {"stronger": "weaker", "weaker": "stronger"}
    assert compare(second, first).answer == turned.get(answer, answer)


def test_example_6_and_proposition_15():
    # (D_t, A_a, f^a) is weaker than group privacy (D, A_a, f^a), which is what f-DP gives.
    semi, group = guarantee(F.group(2), 2, COUNTY), guarantee().group(2)
    assert group.tradeoff == F.group(2)
    assert compare(semi, group).answer == "weaker"
    factors = [approximate_dp(0.5)] * 2
    first, late = (SemiGuarantee(own(factors, 2), 2, COUNTY) for own in (privacy.semi_first, privacy.composition_first))
    assert compare(first, late).answer == "stronger"
    assert guarantee(t=BOTH).group(1) == guarantee(t=BOTH)
    assert guarantee(t=TOTAL).group(2) == guarantee(F.group(2), 2, TOTAL)
    assert guarantee(n="add-remove").group(3).adjacency == 3
    # Smooth curves are compared where they are closest: f_{epsilon, delta(epsilon)} touches G_mu at two points.
    below, nearly = (guarantee(approximate_dp(0.7, gaussian_delta(0.7, 1.0) - less)) for less in (0.0, 1e-7))
    assert compare(guarantee(G), below).answer == "stronger"
    found = compare(guarantee(G), nearly)
    assert found.answer == "not comparable"
    assert "cross" in str(found)


@pytest.mark.parametrize("t", [None, TOTAL, COUNTY, BOTH])
def test_the_order_of_distances_is_that_of_the_pairs_of_tables(t):
    """Every pair of tables of up to four records: contained just where `compare` says so, for those with the total fixed."""
    tables = np.concatenate([tables_of(4, records) for records in range(5)])
    kept = tables @ (np.zeros((4, 1)) if t is None else t.matrix.toarray().T)
    pairs = itertools.combinations(zip(tables, kept, strict=True), 2)
    distances = {int(np.abs(x - y).sum()) for (x, p), (y, q) in pairs if (p == q).all()}
    assert (t is None) == any(d % 2 for d in distances)
    for a, b in itertools.product(range(1, 7), repeat=2):
        answer = compare(guarantee(a=a, n="add-remove", t=t), guarantee(a=b, n="add-remove", t=t)).answer
        same = {d for d in distances if d <= a} == {d for d in distances if d <= b}
        # Of one 2x2 table all distances are multiples of 4, which `compare` does not look at.
        assert (answer == "equal") == same or (t is BOTH and same)


KINDS = {
    "both margins": ((3, 2), (Margins(SQUARE, ["a"], ["b"]),)),
    "the total": ((3, 2), (Totals(SQUARE),)),
    "a chain": ((2, 2, 2), (Margins(CUBE, ["a", "b"], ["b", "c"]),)),
    "all pairs": ((2, 2, 2), (Margins(CUBE, ["a", "b"], ["b", "c"], ["a", "c"]),)),
    "weights": ((3, 2), (Totals(SQUARE), LinearQuery(SQUARE, [[0, 1, 2, 3, 1, 1]], ["w"]))),
}


@pytest.mark.parametrize("name", KINDS)
def test_everything_by_all_databases(name):
    shape, queries = KINDS[name]
    rng, shares, adjacency = np.random.default_rng(len(name)), set(), 2
    for n, k in [(4, 0), (4, 1), (4, 2), (4, 3), (5, 3)]:
        cells = rng.integers(0, np.prod(shape), size=n)
        table = np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)
        known = tuple(cells[n - k :].tolist())  # of the last k persons
        claimable = np.unique(conforming(table, queries)[:, 0])
        if len(claimable) < 2:
            continue
        after = conforming(table, queries, known)
        counted = np.bincount(np.array(known, dtype=np.int64), minlength=table.size).reshape(shape)
        own = side_information(exact_of(table, queries), table, counted, adjacency)
        at = {int(cell): row.tolist() for cell, row in zip(own.cells, own.distances, strict=True)}
        alone, kept, farthest = 0, 0, 0
        for person in range(n - k):
            expected = distances_from(cells, person, after, table.size)
            assert at[int(cells[person])] == expected.tolist()
            near = [d for d in expected if 0 < d <= adjacency]
            alone, kept, farthest = alone + (not near), kept + len(near), max(farthest, int(expected.max()))
        assert own.unprotected == pytest.approx(alone / (n - k))
        assert own.claims == pytest.approx(kept / ((n - k) * (len(claimable) - 1)))
        assert np.flatnonzero(own.claimable).tolist() == claimable.tolist()
        assert (own.known, own.remaining) == (k, n - k)
        # Definition 13 over the databases that the adversary still has to reckon with.
        worst = max(int(distances_from(one, i, after, table.size).max()) for one in after for i in range(n - k))
        assert own.parameter.worst == worst >= farthest
        assert own.loss({"rho": 0.5}) == (None if not worst else {"rho": 0.5 * worst**2})
        shares.add(round(own.unprotected, 3))
    # With the total only, everybody can be everything. One record of a given weight may still have two cells.
    assert len(shares) > 1 or name in ("the total", "weights")


def country(divided):
    """Two states of two counties, one of them in two units if divided, two races; the exact totals, and queries by level."""
    state = np.array([0, 0, 1, 1])
    unit = np.array([0, 1, 2, 2]) if divided else state
    county, race = np.divmod(np.arange(8), 2)

    def count(codes):
        rows = (codes[None, :] == np.unique(codes)[:, None]).astype(int)
        return LinearQuery(labels(4, 2), rows, [f"r{i}" for i in range(len(rows))])

    return count(state[county]), {
        ("US", "cenrace"): count(race),
        ("State", "total"): count(unit[county]),
        ("State", "cenrace"): count(unit[county] * 2 + race),
        ("County", "total"): count(county),
        ("County", "cenrace"): count(county * 2 + race),
    }


@pytest.mark.parametrize("undivided", [False, True])
@pytest.mark.parametrize("a", [1, 2, 3])
def test_factors_from_the_sensitivity_spaces_of_a_small_country(a, undivided):
    exact, queries = country(not undivided)
    rows = {(row.level, row.query): row for row in semi_dp.census_queries(a, undivided=undivided)}
    for key, query in queries.items():
        one, found = (own.delta("l2") for own in (SensitivitySpace.dp(query), SensitivitySpace.semi(exact, a, query)))
        assert one**2 == pytest.approx(2.0)
        assert rows[key].semi_rho == pytest.approx(rows[key].rho * (found / one) ** 2)


def test_the_published_allocation_beside_the_figures_of_the_paper():
    rows = semi_dp.census_queries()
    assert sum((share_of(level, query) for level in LEVELS for query in QUERIES), Fraction(0)) == 1
    assert len(rows) == len(LEVELS) * len(QUERIES) - 1 + 1  # no total of the US; the sum of all
    assert all(row.rho > 0 for row in rows)
    total = rows[-1]
    assert sum(row.rho for row in rows[:-1]) == pytest.approx(total.rho) == pytest.approx(float(RHO))
    assert sum(row.semi_rho for row in rows[:-1]) == pytest.approx(total.semi_rho)
    assert (round(total.rho, 2), round(total.semi_rho, 2)) == (2.56, 10.22)  # the paper: 2.56, 10.24 = 4 x 2.56
    one_unit = semi_dp.census_queries(undivided=True)[-1].semi_rho
    assert one_unit == pytest.approx(float(4 * RHO * (1 - share_of("State", "total"))))
    assert round(one_unit, 4) == 6.9169


ONE, F_MU = fiber_of([1, 0], Totals({"cell": ["u", "v"]})), gaussian_dp(1.0)
FIRST = LinearQuery(PAIR, [[1, 0, 0, 0]], ["first"])
OPEN = Fiber.of([Exact(FIRST, [3])])
MARGINS = Margins(PAIR, ["group"], ["success"])
RECORDS = np.array([[2, 1], [1, 1]])
EXACT, ZERO = exact_of(RECORDS, (MARGINS,)), 0 * RECORDS
FOUR = fiber_of([[2, 1], [1, 2]], MARGINS)
WIDE = {"a": range(6), "b": range(6), "c": range(6)}
LARGE = np.random.default_rng(1).poisson(2.0, size=(6, 6, 6))
OF_LARGE = exact_of(LARGE, (Margins(WIDE, ["a", "b"], ["b", "c"], ["a", "c"]),))
WEIGHTED = LinearQuery({"cell": [0, 1]}, [[1, 2]], ["w"])
NO_WAY = r"group\(2\) needs a guarantee without invariants"
test_bad_arguments_are_named = refused(
    (lambda: full_characterization(F_MU, [2, 1], [2, 0]), "their totals differ"),
    (lambda: full_characterization(1.0, [2, 1], [2, 0]), "tradeoff must be a trade-off function"),
    (lambda: margin_guarantee(F_MU, OVERLAPPING), "must be one-way margins"),
    (lambda: margin_guarantee(F_MU, ALONE), "nothing left to protect"),
    (lambda: semi_guarantee(F_MU, ALONE), "nothing left to protect"),
    (lambda: semi_guarantee(F_MU, OPEN), "no known semi-adjacent parameter"),
    (lambda: semi_dp.private_test(lambda x: 1.5, F_MU, ONE, 1), "must return a probability"),
    (lambda: semi_dp.private_test(0.5, F_MU, ONE, 1), "test must be a function"),
    (lambda: nearest_table(FOUR, [1.0, 2.0]), r"values must have shape \(2, 2\)"),
    (lambda: nearest_table(FOUR, [[np.nan, 1.0], [1.0, 1.0]]), "values"),
    (lambda: nearest_table(MARGINS, [[1, 1], [1, 1]]), "fiber must be a Fiber"),
    (lambda: compare(guarantee(), F), "second must be a SemiGuarantee"),
    (lambda: guarantee("f"), "tradeoff must be a trade-off function"),
    (lambda: guarantee(a=0), "adjacency must be"),
    (lambda: guarantee(n="swap"), "neighbours"),
    (lambda: SemiGuarantee(F, 1, TABLE), "invariants must be an Invariants or None"),
    (lambda: compare(guarantee(t=TOTAL), guarantee(t=Invariants(Totals({"x": ["a", "b"]})))), "one table"),
    # With both margins of a 2x2 table no two different tables are one record apart: f of adjacency 1 is about nothing.
    (lambda: guarantee(t=BOTH).group(2), NO_WAY),
    (lambda: guarantee(t=COUNTY).group(2), NO_WAY),
    (lambda: guarantee(n="add-remove", t=TOTAL).group(2), NO_WAY),
    (lambda: side_information(EXACT, RECORDS, [[0, 2], [0, 0]]), "known must not have more records than the table"),
    (lambda: side_information(EXACT, RECORDS, RECORDS), "known must leave at least one record"),
    (lambda: side_information(EXACT, RECORDS, [0, 0]), r"known must have shape \(2, 2\)"),
    (lambda: side_information(EXACT, RECORDS + 1, ZERO), "table must have shape"),
    (lambda: side_information(ALONE, [[3, 0], [0, 0]], ZERO), "nothing to protect"),
    (lambda: side_information(OF_LARGE, LARGE, 0 * LARGE, 4), "junction tree"),
    (lambda: side_information([Exact(WEIGHTED, [4])], [2, 1], [0, 0]), "must fix the number of records"),
    (lambda: semi_dp.census_queries(undivided=1), "undivided"),
)  # fmt: skip
