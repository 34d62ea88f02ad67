"""Mechanisms of Semi-DP: what they promise, for whatever totals and for published ones, by enumeration of all tables."""

import json
import math
from functools import partial
from itertools import product

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import softmax

import bayesdp as bdp
from bayesdp import Release
from bayesdp.fibers.fiber import enumerate_fiber
from bayesdp.invariants import Invariants
from bayesdp.measurements import Exact
from bayesdp.mechanisms import Mechanism, SemiGaussian, SemiKNorm, SemiLatticeLaplace, SemiNorm, SemiProjectedLaplace
from bayesdp.mechanisms.composition import compose
from bayesdp.mechanisms.protects import safe_adjacency
from bayesdp.noise import DiscreteLaplace
from bayesdp.papers.semi_dp import semi_project
from bayesdp.privacy.sensitivities.semi_adjacent import semi_adjacency
from bayesdp.privacy.words import SemiAdjacent, SemiAdjacentWithin
from bayesdp.queries import Identity, LinearQuery, Margins, Totals
from tests.comparison.variation import assert_close_in_variation
from tests.lattices.oracles import labels, one_way
from tests.noisy_sums import indices
from tests.refusals import refused

TABLE = {"row": ["p", "q", "r"], "column": ["low", "mid", "high"]}
BOTH = Margins(TABLE, ["row"], ["column"])
COUNTS = np.array([[3, 0, 5], [2, 8, 1], [0, 4, 6]])
CYCLE = np.array([[1, -1, 0], [0, 1, -1], [-1, 0, 1]])
LINE, CUBE = {"cell": range(4)}, labels(2, 2, 2)
TWO_WAY = Margins(CUBE, ["a", "b"], ["b", "c"], ["a", "c"])
CROSSED = LinearQuery(LINE, [[1, 1, 1, 0], [0, 1, 1, 1], [1, 1, 1, 1]], ["left", "right", "all"])
PURE = {"k-norm": SemiKNorm} | {norm: partial(SemiNorm, norm=norm) for norm in ("l1", "l2", "linf")}
PURE |= {f"lattice {norm}": partial(SemiLatticeLaplace, norm=norm) for norm in ("l1", "l2")}


def near(value):
    return pytest.approx(value, rel=1e-9)


def exact(query, counts):
    return [Exact(query, query.apply(counts))]


def apart(records):
    """All 3 x 3 tables with zero margins that so many records change, by trying all upper left corners."""
    corner, rest = np.array(list(product(range(-3, 4), repeat=4))), np.array([[1, 0], [0, 1], [-1, -1]])
    tables = rest @ corner.reshape(-1, 2, 2) @ rest.T
    size = np.abs(tables).sum(axis=(1, 2))
    return tables[(size > 0) & (size <= 2 * records)]


def largest_ratio(mechanism, changes):
    """The largest log-ratio of mass or density between tables that differ by these changes, over many outputs."""
    law, own = mechanism.law, mechanism.invariants
    zero = np.zeros(own.frame.shape, dtype=np.int64)
    outputs = [*mechanism.noise(np.random.default_rng(1), 5), *(25 * change for change in changes[::4])]
    tops = [(value, law.logp(value, zero, own)) for value in outputs]
    return max(abs(law.logp(value, change, own) - top) for value, top in tops for change in changes)


@pytest.mark.parametrize("adjacency", [2, 3])
@pytest.mark.parametrize("name", PURE)
def test_the_largest_log_ratio_over_the_sensitivity_space_is_epsilon(name, adjacency):
    mechanism, changes = PURE[name](BOTH, 0.6, adjacency=adjacency), apart(adjacency)
    assert len(changes) == {2: 18, 3: 30}[adjacency]
    assert largest_ratio(mechanism, changes) == near(0.6)
    row = mechanism.guarantee.pairs[0]
    assert f"at most {adjacency} substituted records apart (Semi-DP, A_{adjacency})" in row.relation
    assert (row.size, row.loss["epsilon"]) == (mechanism.sensitivity, pytest.approx(0.6))
    # One record more is not promised anything: a 3-cycle beyond A_2 costs more, and the row says how much.
    [cycle] = [own for own in mechanism.guarantee.pairs if "3-cycle" in own.relation]
    assert cycle.loss["epsilon"] == near(largest_ratio(mechanism, CYCLE[None]))
    assert (cycle.loss["epsilon"] > 0.6 + 1e-9) == (adjacency == 2 and name != "linf")


def test_known_sensitivities_of_a_3x3_table():
    for adjacency, l1, l2 in [(2, 4.0, 2.0), (3, 6.0, math.sqrt(6.0))]:
        assert max(np.abs(apart(adjacency)).sum(axis=(1, 2))) == l1
        own = SemiGaussian(BOTH, 0.5, adjacency=adjacency)
        assert (own.sensitivity, own.sigma, own.error) == pytest.approx((l2, l2 / 0.5, 4 * l2**2 / 0.25), rel=1e-12)
        assert SemiNorm(BOTH, 1.0, adjacency=adjacency).rate == pytest.approx(1.0 / l1)
        assert SemiProjectedLaplace(BOTH, 2.0, adjacency=adjacency).b == pytest.approx(l1 / 2.0)
    # Tables with two rows have no 3-cycles.
    assert SemiGaussian(one_way(2, 5), 1.0).sensitivity == 2.0
    # Totals under two records contain 2 (e_i - e_j).
    totals = Totals({"cell": range(5), "group": ("cell", list("xxxyy"))}, "group")
    assert SemiGaussian(totals, 1.0).sensitivity == pytest.approx(math.sqrt(8.0))
    assert SemiNorm(totals, 1.0).sensitivity == 4.0


def test_utility_of_a_3x3_table_under_two_records():
    # Squared errors times epsilon**2, by simulation of other programs: K-norm 46.8, l1 51.2, projected Laplace 128, l2 80.
    optimal, l1, l2, projected = (
        kind(BOTH, 0.7, adjacency=2) for kind in (SemiKNorm, PURE["l1"], PURE["l2"], SemiProjectedLaplace)
    )
    assert (optimal.error * 0.49, l1.error * 0.49) == pytest.approx((46.8, 51.2), rel=0.02)
    assert (l2.error * 0.49, projected.error * 0.49) == pytest.approx((80.0, 128.0), rel=1e-12)
    for mechanism in (optimal, l1):
        squares = np.sum(mechanism.noise(np.random.default_rng(2), 4000) ** 2, axis=(1, 2))
        # Two tests at 4.5 standard errors: below 2e-5.
        assert abs(squares.mean() - mechanism.error) < 4.5 * squares.std() / math.sqrt(4000)
    # Under three records K is the cube: every table with zero margins and cells -1, 0 and 1 is within its corners.
    cube, optimal = SemiNorm(BOTH, 1.0, "linf"), SemiKNorm(BOTH, 1.0)
    assert cube.error == near(optimal.error)
    value = Invariants(BOTH).project(np.random.default_rng(3).normal(size=(3, 3)))
    assert cube.logp(value, 0 * COUNTS) == near(optimal.logp(value, 0 * COUNTS))


def test_the_convention_of_the_paper_states_the_true_loss():
    gaussian = SemiGaussian(BOTH, 1.0, convention="paper")
    assert gaussian.sigma == 2.0
    assert gaussian.guarantee.pairs[0].loss["mu"] == pytest.approx(math.sqrt(1.5), rel=1e-12)
    assert "A_3 is mu = 1.22474 and not mu = 1" in " ".join(str(gaussian.guarantee).split())
    for name, factor in {"k-norm": 2.0, "l1": 1.5, "lattice l1": 1.5, "l2": math.sqrt(1.5), "linf": 1.0}.items():
        mechanism = PURE[name](BOTH, 0.6, convention="paper")
        assert mechanism.guarantee.pairs[0].loss["epsilon"] == near(0.6 * factor)
        assert [largest_ratio(mechanism, apart(a)) for a in (3, 2)] == near([0.6 * factor, 0.6])
        assert ("and the guarantee stands" in " ".join(str(mechanism.guarantee).split())) == (name == "linf")


CASES = [(BOTH, 3), (Margins(TABLE, ["row"]), 2), (Totals(TABLE), 1), (one_way(2, 1).query, 2), (CROSSED, None)]
CASES += [(Margins(CUBE, ["a"], ["b"], ["c"]), 4), (Margins(CUBE, ["a", "b"], ["c"]), 3)]
CASES += [(Margins(CUBE, ["a", "b"], ["b", "c"]), None)]


@pytest.mark.parametrize(("invariants", "expected"), CASES)
def test_the_default_adjacency_is_safe_for_whatever_totals(invariants, expected):
    assert safe_adjacency(Invariants(invariants)) == expected
    if expected is not None:
        tables = np.random.default_rng(4).integers(0, 4, (40, *invariants.frame.shape))
        worst = max(semi_adjacency(exact(invariants, table)).worst for table in tables)
        assert worst == expected  # never more, and no smaller number would do


def test_the_guarantee_says_whether_so_many_records_are_enough():
    # Enough for all two-way margins of a 2 x 2 x 2 table are four records: its only change has l1 norm 8.
    four = SemiGaussian(TWO_WAY, 1.0, adjacency=4)
    assert four.sensitivity == pytest.approx(math.sqrt(8.0))
    assert four.guarantee.caveats[0].startswith("Whether 4 records are enough")
    assert SemiGaussian(BOTH, 1.0).guarantee.caveats[0].startswith("Whatever the published totals are")
    crossed = SemiGaussian(CROSSED, 1.0, published=[Exact(CROSSED, [2, 2, 3])], adjacency=2).guarantee
    assert "Whether 2 records are enough" in " ".join(str(crossed).split())


def test_samplers_are_named_and_never_passed_off():
    large = one_way(5, 5)
    words = " ".join(str(SemiKNorm(large, 1.0).guarantee).split())
    assert "How noise is drawn: rejection from l1 noise that keeps the invariants" in words
    chain = SemiKNorm(large, 1.0, sweeps=2).release(np.full((5, 5), 5), np.random.default_rng(1), method="mcmc")
    assert chain.guarantee.sampler == "approximate: 2 sweeps of hit-and-run, convergence not certified"
    cube = SemiKNorm(BOTH, 1.0).noise(np.random.default_rng(1), 2000, method="algorithm-3")
    squares = np.sum(cube**2, axis=(1, 2))
    assert abs(squares.mean() - 64.5714) < 4.5 * squares.std() / math.sqrt(2000)  # below 1e-5
    lattice = SemiLatticeLaplace(BOTH, 1.0, sweeps=7).release(COUNTS, np.random.default_rng(1), "mcmc").guarantee
    assert lattice.sampler == "approximate: 7 sweeps of Gibbs, convergence not certified"


def test_any_additive_noise_can_be_projected():
    mechanism = semi_project(DiscreteLaplace(6.0), Identity(TABLE), BOTH, loss={"epsilon": 1.0})
    own = mechanism.guarantee
    assert (own.kind, own.parameters["sensitivity"], own.pairs[0].loss) == ("pure", 6.0, {"epsilon": 1.0})
    assert "at most 3 substituted records apart (Semi-DP, A_3)" in own.pairs[0].relation
    drawn = mechanism.noise(np.random.default_rng(1), 3000)
    assert not np.any(drawn.sum(axis=1)) | np.any(drawn.sum(axis=2))
    # Four of nine dimensions are left of a variance of 2 q / (1 - q)**2 a cell.
    q = math.exp(-1 / 6)
    squares = np.sum(drawn**2, axis=(1, 2))
    assert abs(squares.mean() - 4 * 2 * q / (1 - q) ** 2) < 4.5 * squares.std() / math.sqrt(3000)  # below 1e-5
    assert np.array_equal(mechanism.release_values(COUNTS, 2).values.sum("row"), COUNTS.sum(axis=0))

    def normal(rng, size):
        return rng.normal(size=(size, 3, 3))

    given = semi_project(normal, Identity(TABLE), BOTH, loss={"mu": 2.0}, adjacency=2)
    assert (given.guarantee.kind, given.guarantee.parameters) == ("gdp", {"mu": 2.0, "sensitivity": 4.0})


def test_releases_of_one_table_compose():
    rng = np.random.default_rng(9)
    norms = [SemiKNorm(BOTH, 0.5), SemiNorm(BOTH, 0.25, "linf"), SemiNorm(BOTH, 1.2, "l1")]
    composed = compose(*(own.release(COUNTS, rng) for own in norms))
    # The l1 noise has a rate of 0.2: 0.8 for the four cells of a move, 1.2 for the six of a 3-cycle.
    names, rows = ("A_3", "2x2 move", "3-cycle"), composed.guarantee.pairs
    assert all(name in row.relation for name, row in zip(names, rows, strict=True))
    assert [row.loss["epsilon"] for row in rows] == pytest.approx([1.95, 1.55, 1.95])
    # Three norms: in records.
    assert (composed.guarantee.unit, composed.guarantee.parameters["sensitivity"]) == ("l1", 6.0)
    twice = compose(*(SemiKNorm(BOTH, 0.5, adjacency=2).release(COUNTS, rng) for _ in range(2))).guarantee
    # Two records and a move; a 3-cycle is out of reach of two records, and two of their longest differences long.
    assert [row.loss["epsilon"] for row in twice.pairs] == pytest.approx([1.0, 1.0, 2.0])
    gaussian = compose(*(SemiGaussian(BOTH, mu).release(COUNTS, rng) for mu in (3.0, 4.0))).guarantee
    assert gaussian.pairs[-1].loss["mu"] == pytest.approx(5.0)
    # With published answers.
    published = exact(BLOCKS, ONES)
    made_for = SemiGaussian(BLOCKS, 0.3, published=published).release(ONES, rng=1)
    anyhow = SemiGaussian(BLOCKS, 0.4).release(ONES, rng=2)
    both = bdp.compose(made_for, anyhow)
    [row] = [own for own in both.guarantee.pairs if isinstance(own.about, SemiAdjacentWithin)]
    assert row.about == SemiAdjacentWithin(2, joint=True)
    assert row.loss == {"mu": pytest.approx(0.5)}
    assert Release.from_dataset(both.release.to_dataset()) == both.release


STRATA = {"stratum": range(3), "a": range(2), "b": range(2)}
IN_STRATA = Margins(STRATA, ["stratum", "a"], ["stratum", "b"])
SPARSE = np.array([[[1, 0], [0, 1]], [[0, 0], [0, 0]], [[2, 0], [0, 2]]])
CORNERS = Margins(labels(3, 3), ["a"], ["b"])
TWO_RECORDS = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 0]])
BLOCKS = Totals({"stratum": range(3), "answer": range(3)}, by="stratum")
ONES = np.array([[1, 0, 0], [0, 0, 1], [0, 0, 0]])


def losses(mechanism, tables, *apart):
    """The largest log-ratio of density or mass at an output, over all pairs of tables so many records apart or less."""
    law, own = mechanism.law, mechanism.invariants
    noise, worst = mechanism.noise(np.random.default_rng(1), 4), np.zeros(len(apart))
    for x in tables:
        # The loss is largest far out along a difference, where norms add up.
        for y in [*(x + noise), *(x + 25 * (x - other) for other in tables)]:
            at = law.logp(y, x, own)
            for other in tables:
                close = (np.abs(x - other).sum() <= 2 * np.array(apart)) & np.any(x != other)
                worst[close] = np.maximum(worst[close], at - law.logp(y, other, own))
    return worst


ORDERS = [("l1", 1), ("l2", 2), ("lattice l1", 1), ("lattice l2", 2), ("linf", np.inf)]
SPARSE_TABLES = [(CORNERS, TWO_RECORDS, 3), (BLOCKS, ONES, 2), (IN_STRATA, SPARSE, 3)]


# Noise of the l-infinity norm has no exact sampler in strata.
@pytest.mark.parametrize(("order", "case"), list(product(ORDERS, SPARSE_TABLES))[:-1])
def test_the_largest_loss_of_all_pairs_is_stated_and_attained(order, case):
    (name, order), (query, counts, apart) = order, case
    kind, published = PURE[name], exact(query, counts)
    mechanism = kind(query, 0.6, published=published, adjacency=apart)
    tables = enumerate_fiber(bdp.fibers.Fiber.of(published))
    # Pairs that are farther apart lose in proportion to their distance.
    farthest = max(np.linalg.norm((x - y).reshape(-1), order) for x in tables for y in tables)
    assert losses(mechanism, tables, apart, 99) == near([0.6, 0.6 * farthest / mechanism.sensitivity])
    row = mechanism.guarantee.pairs[0]
    assert (row.about, row.loss) == (SemiAdjacentWithin(apart), {"epsilon": pytest.approx(0.6)})
    # Made for any totals, the loss of these pairs is less than what is stated, and the noise larger, or as large.
    anyhow = kind(query, 0.6, adjacency=apart)
    assert losses(anyhow, tables, apart) == near([0.6 * mechanism.sensitivity / anyhow.sensitivity])


def test_normal_noise_has_the_mu_of_the_farthest_pair():
    for query, counts, apart, anyhow in ((CORNERS, TWO_RECORDS, 2, 2.0), (BLOCKS, ONES, 2, math.sqrt(8.0))):
        published = exact(query, counts)
        mechanism = SemiGaussian(query, 0.7, published=published)
        assert mechanism.adjacency == apart
        tables = enumerate_fiber(bdp.fibers.Fiber.of(published))
        z = [x - y for x in tables for y in tables if np.abs(x - y).sum() <= 2 * apart]
        farthest = max(np.linalg.norm(own) for own in z)
        assert (mechanism.law.sigma, mechanism.sigma) == pytest.approx((farthest / 0.7, farthest / 0.7))
        assert SemiGaussian(query, 0.7, adjacency=apart).sigma == pytest.approx(anyhow / 0.7)
    # Two records are not three that form a cycle, and the margins of 2 x 2 cells that are all one need no third record.
    assert SemiGaussian(CORNERS, 0.7).sigma == pytest.approx(math.sqrt(6.0) / 0.7)
    assert SemiProjectedLaplace(BLOCKS, 1.0, published=exact(BLOCKS, ONES), adjacency=1).b == 2.0


def test_the_hull_of_what_occurs():
    counts, one, unit = np.eye(3, dtype=int), np.array([0, 1, 0, 0]), np.eye(4, dtype=np.int64)
    two = SemiKNorm(CORNERS, 0.6, published=exact(CORNERS, counts), adjacency=2)
    assert losses(two, enumerate_fiber(bdp.fibers.Fiber.of(exact(CORNERS, counts))), 2) == near([0.6])
    # A margin of one record in a total of four cells: K is that of one substitution, whatever the adjacency.
    assert losses(SemiKNorm(Totals(LINE), 0.6, published=exact(Totals(LINE), one), adjacency=2), unit, 2) == near([0.6])
    assert losses(SemiKNorm(Totals(LINE), 0.6, adjacency=2), unit, 2) == near([0.3])


def test_a_release_reads_back_and_a_reader_refuses_other_totals():
    mechanism = SemiLatticeLaplace(IN_STRATA, 0.5, published=exact(IN_STRATA, SPARSE))
    release = mechanism.release(SPARSE, rng=3)
    assert Mechanism.from_description(json.loads(json.dumps(release.mechanism)), mechanism.frame) == mechanism
    data = release.to_dataset()
    assert Release.from_dataset(data) == release
    text = " ".join(str(release.guarantee).split())
    assert "any two tables with the published exact answers, at most 3 substituted records apart" in text
    assert "The published totals force at most 3 records to change where one does" in text
    assert "made for the published exact answers, and for nothing else of the table: l1 sensitivity 4" in text

    own, guarantee = (json.loads(data.attrs[name]) for name in ("mechanism", "guarantee"))
    (first, *more), wrong = guarantee["pairs"], [own["published"][0][:], *own["published"][1:]]
    wrong[0][0] += 1
    wrong[0][1] -= 1
    others = (wrong, [[1, 2]], "x", wrong[:1], [[1] * 6, [1, 1, 0, 0, 2]])
    cases = [({"mechanism": own | {"published": other}}, "published") for other in others]
    # Nor may the row claim the tables of all totals.
    claim = first | {"about": first["about"] | {"is": "apart"}, "relation": SemiAdjacent(3).words}
    cases += [({"guarantee": guarantee | {"pairs": [claim, *more]}}, "the guarantee states")]
    cases += [({"mechanism": own | {"published": None}}, "at most 3 substituted records apart")]
    for changed, message in cases:
        with pytest.raises(ValueError, match=message):
            Release.from_dataset(data.assign_attrs({name: json.dumps(value) for name, value in changed.items()}))


ONE_EACH = exact(CORNERS, TWO_RECORDS)
GIVEN = "adjacency must be given for these invariants.*semi_adjacency"
test_bad_arguments_are_named = refused(
    *((lambda kind=kind: kind(BOTH, -1.0), "epsilon must be a finite number greater than 0")
      for kind in (SemiKNorm, SemiNorm, SemiLatticeLaplace, SemiProjectedLaplace)),
    (lambda: SemiGaussian(BOTH, 0.0), "mu must be a finite number greater than 0"),
    (lambda: SemiGaussian(BOTH, 1.0, adjacency=0), "adjacency must be an integer greater than 0, got 0"),
    (lambda: SemiGaussian(BOTH, 1.0, adjacency=2.5), "adjacency must be"),
    (lambda: SemiNorm(BOTH, 1.0, "l3"), "norm must be one of 'l1', 'l2', 'linf', got 'l3'"),
    (lambda: SemiLatticeLaplace(BOTH, 1.0, "linf"), "norm must be one of 'l1', 'l2', got 'linf'"),
    (lambda: SemiKNorm(BOTH, 1.0, sweeps=0), "sweeps must be an integer greater than 0"),
    (lambda: SemiGaussian(Identity(LINE), 1.0), "invariants determine every cell"),
    (lambda: SemiKNorm("margins", 1.0), "invariants must be a query"),
    (lambda: SemiGaussian(CROSSED, 1.0), GIVEN),
    (lambda: semi_project(DiscreteLaplace(1.0), Identity(LINE), CROSSED, loss={"epsilon": 1.0}), GIVEN),
    (lambda: semi_project(DiscreteLaplace(1.0), Identity(TABLE), BOTH, loss={"mu": 2.0}, adjacency=0), "adjacency must be"),
    (lambda: SemiGaussian(BOTH, 1.0, adjacency=1), "spans 0 of the 4 dimensions.*Take a greater adjacency"),
    (lambda: SemiGaussian(Invariants(None, TABLE), 1.0), "spans 8 of the 9 dimensions.*add the grand total"),
    (lambda: SemiGaussian(TWO_WAY, 1.0, adjacency=3), "spans 0 of the 1 dimensions"),
    (lambda: SemiGaussian(BOTH, 1.0, adjacency=2, convention="paper"), "convention='paper' is Proposition 32"),
    (lambda: SemiGaussian(BOTH, 1.0, convention="printed"), "convention must be one of"),
    (lambda: SemiGaussian(BOTH, 1.0).noise(1, 1, "mcmc"), "method must be 'auto' or 'exact'"),
    (lambda: SemiNorm(BOTH, 1.0).noise(1, 1, "mcmc"), "method must be 'auto' or 'exact'"),
    (lambda: SemiGaussian(IN_STRATA, 1.0, published=exact(IN_STRATA, SPARSE)).release(SPARSE + 13),
     "but stratum=0, a=0 is not 1: give the mechanism"),
    *((lambda wrong=wrong: SemiGaussian(IN_STRATA, 1.0, published=wrong), "published must be a list of Exact")
      for wrong in ("3", 3, {"a": 1}, ONE_EACH[0])),
    (lambda: SemiGaussian(IN_STRATA, 1.0, published=[Exact(Totals(STRATA), 6)]), "neither fewer nor more"),
    (lambda: SemiGaussian(IN_STRATA, 1.0, published=[*exact(IN_STRATA, SPARSE), Exact(Totals(STRATA), 9, sign="<=")]), "bounds"),
    (lambda: SemiGaussian(IN_STRATA, 1.0, published=ONE_EACH), "about the same table"),
    (lambda: SemiGaussian(CORNERS, 1.0, published=[[1, 0, 0], [2, 0, 0]]), "no nonnegative integer table"),
    (lambda: SemiGaussian(CORNERS, 1.0, published=ONE_EACH, convention="paper"), "convention='paper'"),
    (lambda: SemiGaussian(CORNERS, 1.0, published=exact(CORNERS, 0 * TWO_RECORDS)), "determines the cell of every record"),
    (lambda: SemiGaussian(CORNERS, 1.0, published=ONE_EACH, adjacency=1), "adjacency=1: no two tables with the published answers"),
    (lambda: SemiGaussian(CROSSED, 1.0, published=[Exact(CROSSED, [2, 2, 3])]), "adjacency must be given"),
    (lambda: SemiKNorm(CORNERS, 0.6, published=ONE_EACH), "published leaves differences in 1 of the 4 dimensions"),
)  # fmt: skip


def test_the_posterior_is_that_of_enumeration():
    mechanism = SemiLatticeLaplace(IN_STRATA, 2.0, published=exact(IN_STRATA, SPARSE))
    release = mechanism.release(SPARSE, rng=8)
    tables = enumerate_fiber(release.fiber)
    assert len(tables) == 2 * 3
    prior = stats.poisson(1.0).logpmf(tables).sum(axis=(1, 2, 3))
    truth = softmax(prior + [mechanism.logp(release.values, x) for x in tables])
    with pm.Model(coords=release.coords):
        bdp.observe(release, bdp.ConfidentialCounts("x", pm.Poisson.dist(1.0), dims=release.dims))
        drawn = bdp.sample(1000, tune=50, chains=2, cores=1, random_seed=1, quiet=True, progressbar=False)
    assert_close_in_variation(indices(tables, drawn.posterior["x"].values), truth, rate=1e-5)
