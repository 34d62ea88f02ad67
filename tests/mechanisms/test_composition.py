"""Several releases of one table together: joint null space, joint fiber by enumeration, and the sum of the losses."""

import math
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
import scipy.linalg

from bayesdp import Exact, Margins, Measured, Release, compose, is_nested
from bayesdp import mechanisms as m
from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.mechanisms.composition import as_one, joint_release
from bayesdp.mechanisms.composition._total import Part
from bayesdp.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from bayesdp.papers.subspace import project
from bayesdp.privacy import DIFFERENCES, EXACT_SAMPLER, Guarantee, SamplerStatement, gaussian_epsilon, semi_adjacency
from bayesdp.privacy.words import BOUNDS, Convolved
from bayesdp.queries import Identity, LinearQuery, Totals
from tests.refusals import refused
from tests.registering import only_here

LABELS = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
TABLE = np.array([[5, 3], [2, 7], [4, 4]])
COUNTY, EDUCATION = Margins(LABELS, ["county"]), Margins(LABELS, ["education"])
PART = Measured(Identity(LABELS), TABLE, DiscreteGaussian(sigma=2.0))
NOISY = Release.from_published(LABELS, measured=[PART])


def stating(query, values):
    return Release.from_published(query.frame, exact=[Exact(query, values)])


def exact(query, table=TABLE):
    return stating(query, query.apply(np.asarray(table)))


def gaussian(query, seed, **loss):
    return m.ProjectedGaussian(query, **loss).release(TABLE, np.random.default_rng(seed))


def lattice(query, epsilon, sampler=EXACT_SAMPLER):
    """As `LatticeLaplace.release`, with noise that happens to be zero."""
    own = m.LatticeLaplace(query, epsilon=epsilon)
    noisy = Measured(Identity(LABELS), TABLE, own.law, own.invariants)
    guarantee = replace(own.guarantee, sampler=sampler, simulated=True)
    return Release.from_published(LABELS, [noisy], exact(query).exact, guarantee=guarantee, simulated=True)


def test_what_only_the_combination_determines():
    both = compose(gaussian(COUNTY, 1, mu=0.3), gaussian(EDUCATION, 2, mu=0.4))
    assert (both.invariants.rank, both.invariants.dimension) == (4, 2)
    margins = [[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1], [1, 0, 1, 0, 1, 0], [0, 1, 0, 1, 0, 1]]
    projected = both.invariants.project(np.eye(6).reshape(6, 3, 2)).reshape(6, 6)
    basis = scipy.linalg.null_space(np.array(margins, dtype=float))
    np.testing.assert_allclose(projected, basis @ basis.T, atol=1e-12)
    assert [own.l1 for own in both.differences] == [4.0]
    one, other = both.releases
    assert both.release.measurements == (*one.measurements, *other.measurements)
    assert both.release.exact == (*one.exact, *other.exact)
    # Alpha has 5 records and Beta 2, all 7 are Low: no High anywhere is seen at once, the Lows only together.
    table = [[5, 0], [2, 0]]
    labels = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
    both = compose(exact(Margins(labels, ["county"]), table), exact(Margins(labels, ["education"]), table))
    assert both.fiber.determined().all()
    assert both.newly_determined.tolist() == [[True, False], [True, False]]
    assert f"one possible count: 4 of 4: {'; '.join(Identity(labels).names)}" in " ".join(str(both).split())
    assert both.invariants.dimension == 1
    assert "determined only by the combination: 2: county=Alpha, education=Low;" in str(both)


def test_random_joint_fibers_are_those_of_enumeration():
    rng, found = np.random.default_rng(8), 0
    for _ in range(25):
        table = rng.integers(0, 2, size=(2, 3))
        labels = {"a": ["x", "y"], "b": ["p", "q", "r"], "side": ("b", ["l", "l", "m"])}
        queries = (Margins(labels, ["a"]), Margins(labels, ["a", "side"]), Margins(labels, ["b"]), Totals(labels))
        one, other = (queries[i] for i in rng.choice(4, size=2, replace=False))
        both = compose(exact(one, table), exact(other, table))
        total = int(table.sum())
        tables = [np.reshape(x, (2, 3)) for x in product(range(total + 1), repeat=6) if sum(x) == total]
        ends = []
        for asked in ([one], [other], [one, other]):
            own = np.array([x for x in tables if all(np.array_equal(q.apply(x), q.apply(table)) for q in asked)])
            ends.append((own.min(axis=0), own.max(axis=0)))
        *alone, (low, high) = ends
        np.testing.assert_array_equal(both.fiber.bounds(), (low, high))
        new = (low == high) & ~np.any([a == b for a, b in alone], axis=0)
        np.testing.assert_array_equal(both.newly_determined, new)
        narrowed = (low > np.max([a for a, _ in alone], axis=0)) | (high < np.min([b for _, b in alone], axis=0))
        assert f"the combination makes smaller: {narrowed.sum()}\n" in str(both)
        found += int(new.any())
    assert found > 1


def test_nothing_is_left_to_protect_or_the_semi_adjacent_parameter_is_that_of_the_joint_answers():
    labels = {"cell": ["a", "b"]}
    one, other = LinearQuery(labels, [[1, 1]], ["sum"]), LinearQuery(labels, [[1, 2]], ["weighted"])
    both = compose(exact(one, [3, 4]), exact(other, [3, 4]))
    assert both.invariants.dimension == 0
    assert both.guarantee is None
    assert "nothing is protected" in str(both)
    assert both.fiber.determined().all()
    assert "nothing is released but exact values" in str(compose(exact(COUNTY), exact(EDUCATION)))
    # A part without a guarantee makes the total unknown; exact parts beside noise cost the pairs that agree nothing.
    unknown = compose(gaussian(COUNTY, 1, mu=0.3), NOISY)
    assert unknown.guarantee is None
    assert unknown.loss_unknown == "unknown, because no loss is stated by release 2"
    assert compose(gaussian(COUNTY, 1, mu=0.3), exact(EDUCATION)).guarantee.pairs[0].loss == {"mu": pytest.approx(0.3)}
    # Each margin alone: somebody else with the label changes places. Both: in the worst table nobody has both labels.
    both = compose(exact(COUNTY), exact(EDUCATION))
    assert [semi_adjacency(part.fiber).value for part in both.releases] == [2, 2]
    assert (both.semi_adjacency.value, both.semi_adjacency.infimum) == (3, 2)
    assert "Semi-adjacent parameter: 3 (from the worst database), 2 (infimum over databases);" in str(both)


def test_mu_adds_in_squares_and_rho_and_epsilon_add():
    mu = compose(gaussian(COUNTY, 1, mu=0.3), gaussian(EDUCATION, 2, mu=0.4)).guarantee
    assert (mu.kind, mu.parameters) == ("gdp", {"mu": pytest.approx(0.5), "sensitivity": math.sqrt(2)})
    assert [row.loss["mu"] for row in mu.pairs] == [pytest.approx(0.5), pytest.approx(0.5 * math.sqrt(2))]
    parts = (COUNTY, 1, 0.1), (EDUCATION, 2, 0.3), (EDUCATION, 3, 0.1)
    rho = compose(*(gaussian(query, seed, rho=own) for query, seed, own in parts)).guarantee
    # A 2x2 move is the root of 2 times as long.
    assert [row.loss for row in rho.pairs] == [{"rho": pytest.approx(0.5)}, {"rho": pytest.approx(1.0)}]
    pure = compose(lattice(COUNTY, 0.25), lattice(EDUCATION, 0.5)).guarantee
    # No neighbouring tables are protected by lattice noise but those with the same invariants: 2x2 moves, l1 norm 4.
    assert [(row.size, row.loss) for row in pure.pairs] == [(4.0, {"epsilon": pytest.approx(3.0)})]
    assert pure.parameters == {"epsilon": pytest.approx(3.0), "sensitivity": 4.0}


def test_epsilon_and_delta_add_also_beside_mu_and_noise_on_a_margin_is_measured_in_its_answers():
    releases = gaussian(COUNTY, 1, epsilon=0.5, delta=1e-6), gaussian(EDUCATION, 2, epsilon=1.0, delta=1e-7)
    # The noise of both is normal, on the cells: together that of the precisions, at the sum of the deltas. Neighbours differ
    # by the root of 2 at most, a 2x2 move by 2.
    length = math.hypot(*(1.0 / own.measurements[0].law.sigma for own in releases))
    for row, size in zip(compose(*releases).guarantee.pairs, (math.sqrt(2), 2.0), strict=True):
        exact = gaussian_epsilon(1.1e-6, 1.0, size * length)
        assert row.loss == {"epsilon": pytest.approx(exact, rel=1e-6), "delta": pytest.approx(1.1e-6)}
    releases = lattice(COUNTY, 0.25), gaussian(EDUCATION, 2, mu=0.3), gaussian(EDUCATION, 3, mu=0.4)
    with pytest.raises(ValueError, match="give delta"):
        compose(*releases)
    both = compose(*releases, delta=1e-6).guarantee
    expected = 1.0 + gaussian_epsilon(1e-6, 1.0, 0.5 * math.sqrt(2))
    assert both.pairs[0].loss == {"epsilon": pytest.approx(expected), "delta": 1e-6}
    frame = {"county": ["A", "B"], "education": ["Low", "High"], "sex": ["f", "m"]}
    table = np.arange(8).reshape(2, 2, 2)
    asked = Margins(frame, ["county", "education"])
    own = m.ProjectedGaussian(Margins(frame, ["county"]), mu=0.3, query=asked).release(table, np.random.default_rng(1))
    known = m.ProjectedGaussian(Margins(frame, ["education"]), mu=0.4).release(table, np.random.default_rng(2))
    both = compose(own, known)
    rows = {row.relation: row.loss["mu"] for row in both.guarantee.pairs[1:]}
    substituted, move = (DIFFERENCES[name].relation + BOUNDS["upper"] for name in ("substitution", "2x2 move"))
    # One record that keeps both margins moves along sex, which the first release does not show; a 2x2 move changes four of
    # its answers by one each, and its noise is made for the root of 2.
    assert rows[substituted] == pytest.approx(0.4)
    assert rows[move] == pytest.approx(math.hypot(math.sqrt(2) * 0.3, 0.4 * math.sqrt(2)))
    both = compose(lattice(COUNTY, 0.1, SamplerStatement("Gibbs", 30)), gaussian(EDUCATION, 2, epsilon=0.5, delta=1e-6))
    assert not both.guarantee.certified
    assert "target epsilon" in str(both)
    assert any(line.startswith("Release 2: Released values are rounded") for line in both.guarantee.caveats)


ONE = gaussian(COUNTY, 1, mu=0.3)
OTHER_TOTAL = exact(COUNTY, [[5, 3], [2, 7], [4, 3]])
CELL = LinearQuery(LABELS, [[1, 0, 0, 0, 0, 0]], ["Alpha Low"])
ELSEWHERE = {**LABELS, "county": ["Alpha", "Beta", "Delta"]}
TRANSPOSED = {"education": LABELS["education"], "county": LABELS["county"]}
SHUFFLED = {**LABELS, "county": ["Beta", "Alpha", "Gamma"]}
BOTH_TOTALS, FILES = [OTHER_TOTAL, exact(EDUCATION)], ["a.nc", "b.nc"]

test_releases_that_do_not_fit_are_refused_by_place_or_by_file = refused(
    (lambda: compose(ONE), "at least two releases, got 1"),
    (lambda: compose(ONE, "other"), "release 2 is not, got str"),
    (lambda: compose(ONE, gaussian(COUNTY, 1, mu=0.3)), "release 2 is release 1 again"),
    (
        lambda: compose(ONE, exact(Margins(ELSEWHERE, ["county"]))),
        "release 1 and release 2 have .*'county': 'Gamma', 'Delta'",
    ),
    (lambda: compose(*BOTH_TOTALS), r"do not fit together: .*county=Alpha \+ .* is 24, but by education, .* is 25"),
    (lambda: compose(stating(COUNTY, [1, 1, 1]), stating(CELL, [2])), "do not fit together"),
    (lambda: compose(ONE, gaussian(EDUCATION, 2, rho=0.1)), "gdp, zcdp, and zCDP has no exact conversion"),
    (lambda: compose(ONE, gaussian(EDUCATION, 2, mu=0.1), delta=1e-6), "so leave it out"),
    (
        lambda: joint_release([ONE, exact(Totals(TRANSPOSED), TABLE.T)], FILES),
        r"a\.nc has .* 'county', 'education' and b\.nc 'education', 'c",
    ),
    (
        lambda: joint_release([ONE, exact(Totals(SHUFFLED))], FILES),
        r"a\.nc has 'county' as 'Alpha', 'Beta', 'Gamma' and b\.nc as 'Beta', 'Al",
    ),
    (lambda: joint_release([ONE, ONE], FILES), r"b\.nc is a\.nc again: its noise would be counted twice"),
    (lambda: joint_release(BOTH_TOTALS, FILES), r"a\.nc and b\.nc: exact values contradict one another"),
)


def test_noise_that_two_releases_share_is_not_counted_twice_and_as_one_says_what_is_protected():
    more = Release.from_published(LABELS, measured=[PART], exact=[Exact(Totals(LABELS), 25)])
    with pytest.raises(ValueError, match="release 1 and release 2 hold the same noisy numbers, 6 answers by county"):
        compose(NOISY, more)
    # Another draw may come out alike; a name says that it is one, and is numbered. A single number often comes out alike.
    named = [Release.from_published(LABELS, [replace(PART, values=TABLE + k, name="drawn")]) for k in range(3)]
    assert len(joint_release([NOISY, named[0]]).measurements) == 2
    assert [own.name for own in joint_release(named).measurements] == ["drawn", "drawn_2", "drawn_3"]
    total = Release.from_published(LABELS, measured=[Measured(Totals(LABELS), 25, DiscreteGaussian(sigma=2.0))])
    both = joint_release([total, Release.from_published(LABELS, [*total.measurements], [Exact(COUNTY, [8, 9, 8])])])
    assert len(both.measurements) == 2
    one, other = gaussian(COUNTY, 1, mu=0.3), gaussian(EDUCATION, 2, mu=0.4)
    both, described = as_one([one, other]), [dict(own.mechanism) for own in (one, other)]
    assert both.guarantee == compose(one, other).guarantee
    assert both.mechanism == {"mechanism": "composition of 2 releases", "composition_of": 2, "releases": described}
    assert Release.from_dataset(both.to_dataset()) == both
    # Kinds of loss that cannot be added are an error of compose, and no reason against a joint posterior.
    pure = lattice(EDUCATION, 0.1)
    with pytest.raises(ValueError, match="give delta"):
        compose(one, pure)
    for parts, words in (([one, pure], "give delta"), ([one, NOISY], "no loss is stated by release 2")):
        assert as_one(parts).guarantee is None
        assert words in str(as_one(parts).mechanism)


def test_nestedness_is_containment_of_null_spaces():
    rng, seen, labels = np.random.default_rng(4), {True: 0, False: 0}, {"cell": range(5)}
    for _ in range(80):
        rows = rng.integers(-1, 2, size=(3, 5))
        mixed = rng.integers(-2, 3, size=(2, 3)) @ rows if rng.random() < 0.5 else rng.integers(-1, 2, size=(2, 5))
        inner = Invariants(LinearQuery(labels, rows, list("abc")))
        outer = Invariants(LinearQuery(labels, mixed, list("de")))
        basis = scipy.linalg.null_space(rows.astype(float))
        contained = bool(np.all(np.abs(mixed @ basis) < 1e-9))
        assert is_nested(inner, outer) == contained
        seen[contained] += 1
    assert min(seen.values()) > 10
    county, none = Invariants(COUNTY), Invariants(None, LABELS)
    assert is_nested(county, none)
    assert not is_nested(none, county)
    with pytest.raises(ValueError, match="about one table"):
        is_nested(county, Invariants(Totals({"cell": ["a"]})))


SQUARE = {"row": ["a", "b", "c"], "column": ["d", "e", "f"]}
BOTH_MARGINS = Margins(SQUARE, ["row"], ["column"])


def test_semi_dp_releases_compose_at_the_worst_of_what_both_protect():
    own = m.SemiGaussian(BOTH_MARGINS, 0.5, convention="paper")
    table = np.arange(9).reshape(3, 3)
    both = compose(*(own.release(table, np.random.default_rng(k)) for k in (1, 2)))
    worst = both.guarantee.pairs[0]
    assert "at most 3 substituted records apart" in worst.relation
    # Three records: sqrt 6 apart, noise for 2; two releases.
    assert worst.loss["mu"] == pytest.approx(0.5 * math.sqrt(6) / 2 * math.sqrt(2))
    assert worst.size == pytest.approx(math.sqrt(6))
    # What each release says of its own loss is not taken for that of both.
    assert {line[:14] for line in both.guarantee.caveats if "0.612372" in line} == {"Release 1, 2: "}
    assert any("not that of the composition" in line for line in both.guarantee.caveats)
    # Of different adjacencies the nearer one is what both protect.
    releases = [m.SemiGaussian(BOTH_MARGINS, 0.4, adjacency=a).release(table, np.random.default_rng(a)) for a in (2, 3)]
    worst = compose(*releases).guarantee.pairs[0]
    assert "at most 2 substituted records apart" in worst.relation
    assert worst.loss["mu"] == pytest.approx(0.4 * math.sqrt(2))


def test_group_privacy_never_states_a_delta_above_one():
    """A mechanism that was handed in has no law: its steps are all there is, and they say nothing."""
    cells, law = Identity(SQUARE), DiscreteGaussian(sigma=np.full((3, 3), 9.0))
    own = project(lambda x, _: x, cells, BOTH_MARGINS, loss={"epsilon": 1.0, "delta": 0.2}).guarantee
    known = exact(BOTH_MARGINS, np.arange(9).reshape(3, 3)).exact
    handed_in = {"mechanism": "handed in", "neighbours": "substitution"}, replace(own, pairs=own.pairs[:1])
    measured = (Measured(cells, np.full((3, 3), k), law) for k in (1, 2))
    releases = [Release(Frame.of(SQUARE), (one,), known, *handed_in) for one in measured]
    both = compose(*releases)
    assert {row.size: row.loss["delta"] for row in both.guarantee.pairs} == {2.0: 0.4, 4.0: 1.0, 6.0: 1.0}
    assert " ".join(str(both).split()).count("no protection by this bound") == 2
    steep = replace(own, parameters={"epsilon": 200.0, "delta": 1e-6, "sensitivity": 2.0}, pairs=())
    far = compose(*(replace(one, guarantee=steep) for one in releases)).guarantee  # exp(600) was no float
    assert far.pairs[-1].loss == {"epsilon": 1200.0, "delta": 1.0}


def test_correlated_gaussians_are_put_together_exactly_and_rows_that_are_not_exact_say_so():
    made = m.CorrelatedGaussian(BOTH_MARGINS, epsilon=1.0, delta=1e-6)
    one, other = (made.release(np.arange(9).reshape(3, 3), np.random.default_rng(seed)) for seed in (1, 2))
    guarantee = compose(one, other).guarantee
    cycle = np.array([1.0, -1, 0, 0, 1, -1, -1, 0, 1]).reshape(3, 3)
    move = np.array([1.0, -1, 0, -1, 1, 0, 0, 0, 0]).reshape(3, 3)
    for row, z in zip(guarantee.pairs[1:], (move, cycle), strict=True):
        # The exact mu of both: the length of the difference in the inverse covariance of each, by dense algebra.
        squares = []
        for own in (one, other):
            law = own.measurements[0].law
            u = own.invariants.coordinates(z[None])[0]
            squares.append(u @ np.linalg.solve(law.covariance, u))
        exact = gaussian_epsilon(2e-6, 1.0, math.sqrt(sum(squares)))
        assert row.loss == {"epsilon": pytest.approx(exact, rel=1e-5), "delta": 2e-6}
        # Before: two or three steps for each release, epsilon = 4 and 6.
        assert row.loss["epsilon"] < 0.7 * row.size
    # The figure: at the delta that three steps led to.
    mu = math.sqrt(sum(squares))
    assert gaussian_epsilon(2.22e-5, 1.0, mu) == pytest.approx(2.82, abs=0.01)
    exact_rows = compose(lattice(COUNTY, 0.25), lattice(EDUCATION, 0.5)).guarantee
    assert not any(row.relation.endswith(BOUNDS["upper"]) for row in exact_rows.pairs)
    # The largest log ratio of both laws together, over all noise that keeps both margins: 0.75 times l1.
    z = np.array([[1, -1], [-1, 1], [0, 0]])
    k = np.arange(-20, 21)[:, None, None] * z
    ratio = 0.75 * (np.abs(k - z).sum(axis=(1, 2)) - np.abs(k).sum(axis=(1, 2)))
    assert exact_rows.pairs[0].loss["epsilon"] == pytest.approx(ratio.max())
    mixed = compose(lattice(COUNTY, 0.25), gaussian(EDUCATION, 2, epsilon=1.0, delta=1e-7)).guarantee
    assert mixed.kind == "approximate"
    [move] = mixed.pairs
    assert move.relation.endswith(BOUNDS["upper"])
    assert move.loss["delta"] == pytest.approx(1e-7)
    assert move.loss["epsilon"] > 1.0 + 1.0
    neighbours = compose(gaussian(COUNTY, 1, mu=0.3), gaussian(EDUCATION, 2, mu=0.4)).guarantee
    assert "in what the joint invariants leave free, at most:" in neighbours.pairs[0].relation
    assert not neighbours.pairs[1].relation.endswith(BOUNDS["upper"])


@pytest.mark.parametrize("seed", range(4))
def test_no_row_of_a_composition_is_looser_than_the_rows_of_the_releases(seed: int):
    running = LinearQuery(SQUARE, np.tri(9, dtype=int), list("abcdefghi"))
    asked = [Identity(SQUARE) + BOTH_MARGINS, Margins(SQUARE, ["row", "column"]), running]
    rng = np.random.default_rng(seed)
    chosen = zip(rng.integers(3, size=2), rng.integers(3, size=2), strict=True)
    makers = (m.ExtendedLaplace, 0.4), (m.KNorm, 0.3), (m.ProjectedLaplace, 0.7)
    made = [makers[i][0](BOTH_MARGINS, epsilon=makers[i][1], query=asked[j]) for i, j in chosen]
    guarantee = compose(*(own.release(np.arange(9).reshape(3, 3), rng=k) for k, own in enumerate(made))).guarantee
    for name in ("2x2 move", "3-cycle"):
        of = DIFFERENCES[name].relation
        stated = sum(row.loss["epsilon"] for own in made for row in own.guarantee.pairs if row.relation.startswith(of))
        [total] = [row.loss["epsilon"] for row in guarantee.pairs if row.relation.startswith(of)]
        assert total <= stated * (1.0 + 1e-9)


def test_a_composition_composes_by_its_rows_and_a_projected_neighbour_may_lose_less_than_was_asked_for():
    frame = {"a": [0, 1], "b": [0, 1, 2], "c": [0, 1]}
    two_way = Margins(frame, ["a", "b"], ["b", "c"], ["a", "c"])
    mechanism = m.ProjectedGaussian(two_way, mu=0.5, query=Identity(frame) + two_way)
    releases = [mechanism.release(np.arange(12).reshape(2, 3, 2), np.random.default_rng(k)) for k in range(3)]
    stepwise = compose(compose(*releases[:2]).release, releases[2]).guarantee
    [row] = stepwise.pairs
    # Eight cells change by one, and no margin: the root of 8, as far as the noise was made for, and more than four neighbours by
    # its length on the cells.
    assert row.loss == {"mu": pytest.approx(math.sqrt(3) * 0.5)}
    assert compose(*releases).guarantee.pairs[1].loss["mu"] == pytest.approx(row.loss["mu"])
    # mu = 0.5 was stated for neighbours.
    stack = mechanism.released_query.matrix.toarray().astype(float)
    kernel = stack @ scipy.linalg.null_space(two_way.matrix.toarray().astype(float))
    ends = (scipy.linalg.orth(kernel).T @ stack).T
    worst = max(np.linalg.norm(x - y) for x in ends for y in ends) / mechanism.sigma
    [row] = [own for own in mechanism.guarantee.pairs if own.relation.startswith("neighbouring tables")]
    assert row.loss == {"mu": pytest.approx(worst)}
    assert worst == pytest.approx(0.2887 / 2, abs=1e-4)
    assert mechanism.guarantee.parameters["mu"] == 0.5


@dataclass(frozen=True, eq=False, init=False)
class OneDraw(DiscreteLaplace):
    """Noise of one draw, which is added to all answers: what is moved between two of them is told at once."""

    name = "one-draw-for-all"
    independent = False

    def pair_loss(self, query, invariants):
        return None


registered = only_here(OneDraw)


def test_noise_that_the_answers_share_is_not_told_apart_answer_by_answer():
    """Ten releases that state 0.2: as twenty randomised responses of 0.1, or, of a law that is not independent, ten of 0.2."""
    stated = m.DiscreteLaplace(Invariants((), LABELS), epsilon=0.2).guarantee

    def convolved(law):
        parts = [Measured(Identity(LABELS), TABLE + k, law) for k in range(10)]
        releases = [Release.from_published(LABELS, [own], guarantee=stated) for own in parts]
        rows = compose(*releases, at_delta=1e-6).guarantee.pairs
        moved = (row for row in rows if isinstance(row.about, Convolved) and row.about.of.difference.l1 == 2.0)
        return next((row.loss["epsilon"] for row in moved), 2.0)

    assert convolved(DiscreteLaplace(10.0)) == pytest.approx(1.78861, abs=1e-5)
    assert convolved(OneDraw(10.0)) > 1.9


def test_the_loss_of_plain_real_noise_is_that_of_its_law():
    for law, kind, expected in (
        (Laplace(4.0), "pure", {"epsilon": 0.5}),  # l1 distance 2 over b
        (Gaussian(5.0), "zcdp", {"rho": 0.04}),  # squared l2 distance 2 over 2 sigma**2
        (Gaussian(5.0), "gdp", {"mu": math.sqrt(2.0) / 5.0}),
    ):
        noisy, stated = Measured(Identity(LABELS), TABLE + 0.25, law), dict.fromkeys(expected, 9.0)
        guarantee = replace(m.ProjectedGaussian(COUNTY, mu=0.3).guarantee, kind=kind, unit="l2", parameters=stated)
        own = Release.from_published(LABELS, [noisy], exact(COUNTY).exact, guarantee=guarantee)
        found = Part(own, own.invariants).by_law[DIFFERENCES["substitution"]].loss
        assert (found.kind, found.parameters) == (kind, pytest.approx(expected))


def test_losses_in_a_norm_follow_its_distance_where_the_law_says_nothing_of_the_kind():
    """Epsilon 0.5 and 0.25 at l1 distance 2; a 2 x 2 move changes four counts by one, a cycle six."""
    frame = Frame.of({"a": range(3), "b": range(3)})
    margins, rng, parts = Margins(frame, ["a"], ["b"]), np.random.default_rng(1), []
    for epsilon in (0.5, 0.25):
        noisy = Measured(Identity(frame), rng.normal(20.0, 3.0, (3, 3)), Gaussian(3.0))
        known, stated = Exact(margins, [60] * 6), Guarantee("pure", {"epsilon": epsilon, "sensitivity": 2.0}, "l1")
        parts.append(Release.from_published(frame, [noisy], [known], guarantee=stated))
    assert [row.loss["epsilon"] for row in compose(*parts).guarantee.pairs] == pytest.approx([1.5, 2.25])
