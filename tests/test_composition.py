"""Several releases of one table together: joint null space, joint fiber by enumeration, and the sum of the losses."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
import scipy.linalg

from bayesdp import Exact, Margins, Measured, Release, compose, is_nested
from bayesdp.composition import as_one, joint_release
from bayesdp.fibers.enumeration import enumerate_fiber
from bayesdp.invariants import Invariants
from bayesdp.mechanisms import LatticeLaplace, ProjectedGaussian, SemiGaussian
from bayesdp.noise import DiscreteGaussian
from bayesdp.privacy import EXACT_SAMPLER, Guarantee, gaussian_epsilon, gibbs_sampler, semi_adjacency
from bayesdp.privacy._semi_enumerated import semi_adjacency_of_tables
from bayesdp.queries import Identity, LinearQuery, Query, Totals

LABELS = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
TABLE = np.array([[5, 3], [2, 7], [4, 4]])
COUNTY, EDUCATION = Margins(LABELS, ["county"]), Margins(LABELS, ["education"])


def exact(query: Query, table: npt.ArrayLike = TABLE) -> Release:
    return Release.from_published(query.frame, exact=[Exact(query, query.apply(np.asarray(table)))])


def gaussian(query: Query, seed: int, **loss: float) -> Release:
    return ProjectedGaussian(query, **loss).release(TABLE, np.random.default_rng(seed))


def lattice(query: Query, epsilon: float, sampler: str = EXACT_SAMPLER) -> Release:
    """As `LatticeLaplace.release`, with noise that happens to be zero."""
    own = LatticeLaplace(query, epsilon=epsilon)
    noisy = Measured(Identity(LABELS), TABLE, own.law, own.invariants)
    guarantee = replace(own.guarantee, sampler=sampler, simulated=True)
    return Release.from_published(LABELS, [noisy], exact(query).exact, guarantee=guarantee, simulated=True)


def null_space(rows: npt.ArrayLike) -> npt.NDArray[np.float64]:
    basis = scipy.linalg.null_space(np.asarray(rows, dtype=float))
    return np.asarray(basis @ basis.T)


# ------------------------------------------------------------------------------------------------ joint invariants


def test_two_one_way_margins_leave_the_null_space_of_both() -> None:
    both = compose(gaussian(COUNTY, 1, mu=0.3), gaussian(EDUCATION, 2, mu=0.4))
    assert (both.ranks, both.rank, both.invariants.dimension) == ((3, 2), 4, 2)
    margins = [[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1], [1, 0, 1, 0, 1, 0], [0, 1, 0, 1, 0, 1]]
    projected = both.invariants.project(np.eye(6).reshape(6, 3, 2)).reshape(6, 6)
    np.testing.assert_allclose(projected, null_space(margins), atol=1e-12)
    assert [own.l1 for own in both.differences] == [4.0]
    assert "2x2 move" in str(both)


def test_the_combined_release_holds_everything() -> None:
    one, other = gaussian(COUNTY, 1, mu=0.3), gaussian(EDUCATION, 2, mu=0.4)
    joint = compose(one, other).release
    assert joint.measurements == (*one.measurements, *other.measurements)
    assert joint.exact == (*one.exact, *other.exact)
    assert [own.invariants for own in joint.measurements] == [one.invariants, other.invariants]
    assert joint.simulated
    assert Release.from_dataset(joint.to_dataset()) == joint


def test_what_only_the_combination_determines() -> None:
    # Alpha has 5 records and Beta 2, all 7 are Low: no High anywhere is seen at once, the Lows only together.
    table = [[5, 0], [2, 0]]
    labels = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
    both = compose(exact(Margins(labels, ["county"]), table), exact(Margins(labels, ["education"]), table))
    assert both.fiber.determined().all()
    assert both.newly_determined.tolist() == [[True, False], [True, False]]
    assert both.newly_determined_cells == ("county=Alpha, education=Low", "county=Beta, education=Low")
    assert both.determined_cells == tuple(Identity(labels).names)
    assert both.narrowed.tolist() == [[True, False], [True, False]]
    assert both.invariants.dimension == 1
    assert "determined only by the combination: 2: county=Alpha, education=Low;" in str(both)


def test_random_joint_fibers_are_those_of_enumeration() -> None:
    rng = np.random.default_rng(8)
    found = 0
    for _ in range(40):
        table = rng.integers(0, 2, size=(2, 3))
        labels = {"a": ["x", "y"], "b": ["p", "q", "r"], "side": ("b", ["l", "l", "m"])}
        queries = (Margins(labels, ["a"]), Margins(labels, ["a", "side"]), Margins(labels, ["b"]), Totals(labels))
        one, other = (queries[i] for i in rng.choice(4, size=2, replace=False))
        both = compose(exact(one, table), exact(other, table))
        total = int(table.sum())
        tables = [np.reshape(x, (2, 3)) for x in product(range(total + 1), repeat=6) if sum(x) == total]
        alone = []
        for query in (one, other):
            own = np.array([x for x in tables if np.array_equal(query.apply(x), query.apply(table))])
            alone.append((own.min(axis=0), own.max(axis=0)))
        joint = np.array([x for x in tables if all(np.array_equal(q.apply(x), q.apply(table)) for q in (one, other))])
        low, high = joint.min(axis=0), joint.max(axis=0)
        lower, upper = both.fiber.bounds()
        np.testing.assert_array_equal(lower, low)
        np.testing.assert_array_equal(upper, high)
        new = (low == high) & ~np.any([a == b for a, b in alone], axis=0)
        np.testing.assert_array_equal(both.newly_determined, new)
        narrowed = (low > np.max([a for a, _ in alone], axis=0)) | (high < np.min([b for _, b in alone], axis=0))
        np.testing.assert_array_equal(both.narrowed, narrowed)
        found += int(new.any())
    assert found > 2


def test_nothing_is_left_to_protect() -> None:
    labels = {"cell": ["a", "b"]}
    one, other = LinearQuery(labels, [[1, 1]], ["sum"]), LinearQuery(labels, [[1, 2]], ["weighted"])
    both = compose(exact(one, [3, 4]), exact(other, [3, 4]))
    assert both.invariants.dimension == 0
    assert both.guarantee is None
    assert "nothing is protected" in str(both)
    assert both.fiber.determined().all()


def test_the_semi_adjacent_parameter_of_the_joint_answers() -> None:
    both = compose(exact(COUNTY), exact(EDUCATION))
    own = both.semi_adjacency
    # Each margin alone: somebody else with the label changes places. Both: in the worst table nobody has both labels.
    assert [semi_adjacency(part.fiber).value for part in both.releases] == [2, 2]
    assert (own.value, own.convention, own.infimum, own.method) == (3, "worst", 2, "one-way margins")
    assert "Semi-adjacent parameter: 3 (from the worst database), 2 (infimum over databases);" in str(both)
    tables = enumerate_fiber(both.fiber).reshape(-1, 6)
    assert semi_adjacency_of_tables(tables) == (own.infimum, own.worst)


def test_the_semi_adjacent_parameter_by_listing_or_unknown() -> None:
    labels = {"a": [0, 1], "b": [0, 1], "c": [0, 1]}
    small, large = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]]]), np.full((2, 2, 2), 60)
    pairs = (Margins(labels, ["a", "b"]), Margins(labels, ["b", "c"]), Margins(labels, ["a", "c"]))
    listed = compose(*(exact(query, small) for query in pairs))
    # Two tables, of four records each, without a common record: everybody changes.
    assert (listed.semi_adjacency.value, listed.semi_adjacency.method) == (4, "enumeration")
    assert "by comparing all tables with these answers (2)" in " ".join(str(listed).split())
    unknown = compose(*(exact(query, large) for query in pairs[:2]))
    assert (unknown.semi_adjacency.value, unknown.semi_adjacency.method) == (None, "unknown")
    assert "Semi-adjacent parameter: unknown (the exact answers are not one-way margins" in str(unknown)


# ------------------------------------------------------------------------------------------------------ total loss


def test_mu_adds_in_squares_and_rho_and_epsilon_add() -> None:
    mu = compose(gaussian(COUNTY, 1, mu=0.3), gaussian(EDUCATION, 2, mu=0.4)).guarantee
    assert mu is not None
    assert mu.kind == "gdp"
    assert mu.parameters == {"mu": pytest.approx(0.5), "sensitivity": math.sqrt(2)}
    assert [row.loss["mu"] for row in mu.pairs] == [pytest.approx(0.5), pytest.approx(0.5 * math.sqrt(2))]

    rho = compose(
        gaussian(COUNTY, 1, rho=0.1), gaussian(EDUCATION, 2, rho=0.3), gaussian(EDUCATION, 3, rho=0.1)
    ).guarantee
    assert rho is not None
    assert rho.pairs[0].loss == {"rho": pytest.approx(0.5)}
    assert rho.pairs[1].loss == {"rho": pytest.approx(1.0)}  # a 2x2 move is the root of 2 times as long

    pure = compose(lattice(COUNTY, 0.25), lattice(EDUCATION, 0.5)).guarantee
    assert pure is not None
    # No neighbouring tables are protected by lattice noise but those with the same invariants: 2x2 moves, l1 norm 4.
    assert [(row.size, row.loss) for row in pure.pairs] == [(4.0, {"epsilon": pytest.approx(3.0)})]
    assert pure.parameters == {"epsilon": pytest.approx(3.0), "sensitivity": 4.0}


def test_epsilon_and_delta_add() -> None:
    total = compose(
        gaussian(COUNTY, 1, epsilon=0.5, delta=1e-6), gaussian(EDUCATION, 2, epsilon=1.0, delta=1e-7)
    ).guarantee
    assert total is not None
    assert total.pairs[0].loss == {"epsilon": pytest.approx(1.5), "delta": pytest.approx(1.1e-6)}
    sigmas = [gaussian(COUNTY, 1, epsilon=0.5, delta=1e-6), gaussian(EDUCATION, 2, epsilon=1.0, delta=1e-7)]
    moved = sum(
        gaussian_epsilon(delta, own.measurements[0].law.sigma, 2.0)  # type: ignore[attr-defined]
        for own, delta in zip(sigmas, (1e-6, 1e-7), strict=True)
    )
    assert total.pairs[1].loss == {"epsilon": pytest.approx(moved), "delta": pytest.approx(1.1e-6)}


def test_pure_and_approximate_are_approximate() -> None:
    both = compose(lattice(COUNTY, 0.25), gaussian(EDUCATION, 2, epsilon=1.0, delta=1e-7)).guarantee
    assert both is not None
    assert both.kind == "approximate"
    [move] = both.pairs
    assert move.loss["delta"] == pytest.approx(1e-7)
    assert move.loss["epsilon"] > 1.0 + 1.0


def test_mu_beside_epsilon_needs_a_delta_and_is_converted_exactly() -> None:
    releases = lattice(COUNTY, 0.25), gaussian(EDUCATION, 2, mu=0.3), gaussian(EDUCATION, 3, mu=0.4)
    with pytest.raises(ValueError, match="give delta"):
        compose(*releases)
    both = compose(*releases, delta=1e-6).guarantee
    assert both is not None
    expected = 1.0 + gaussian_epsilon(1e-6, 1.0, 0.5 * math.sqrt(2))
    assert both.pairs[0].loss == {"epsilon": pytest.approx(expected), "delta": 1e-6}


def test_kinds_that_do_not_convert_exactly_are_not_mixed() -> None:
    with pytest.raises(ValueError, match="gdp, zcdp, and zCDP has no exact conversion"):
        compose(gaussian(COUNTY, 1, mu=0.3), gaussian(EDUCATION, 2, rho=0.1))
    with pytest.raises(ValueError, match="so leave it out"):
        compose(gaussian(COUNTY, 1, mu=0.3), gaussian(EDUCATION, 2, mu=0.1), delta=1e-6)


def test_a_law_that_is_not_known_on_the_cells_is_taken_in_steps() -> None:
    # Noise on a margin: a 2x2 move is two records, each at the loss that is stated for neighbouring tables.
    frame = {"county": ["A", "B"], "education": ["Low", "High"], "sex": ["f", "m"]}
    table = np.arange(8).reshape(2, 2, 2)
    asked = Margins(frame, ["county", "education"])
    own = ProjectedGaussian(Margins(frame, ["county"]), mu=0.3, query=asked).release(table, np.random.default_rng(1))
    known = ProjectedGaussian(Margins(frame, ["education"]), mu=0.4).release(table, np.random.default_rng(2))
    both = compose(own, known)
    assert both.guarantee is not None
    rows = {row.relation.rpartition("(")[2]: row.loss["mu"] for row in both.guarantee.pairs[1:]}
    assert rows["substitution)"] == pytest.approx(0.5)
    assert rows["2x2 move)"] == pytest.approx(math.hypot(2 * 0.3, 0.4 * math.sqrt(2)))


def test_exact_parts_alone_cost_the_pairs_that_agree_nothing() -> None:
    one = gaussian(COUNTY, 1, mu=0.3)
    both = compose(one, exact(EDUCATION))
    assert both.guarantee is not None
    assert both.guarantee.pairs[0].loss == {"mu": pytest.approx(0.3)}
    nothing = compose(exact(COUNTY), exact(EDUCATION))
    assert nothing.guarantee is None
    assert "nothing is released but exact values" in str(nothing)


def test_a_release_without_a_guarantee_makes_the_total_unknown() -> None:
    noisy = Release.from_published(LABELS, measured=[Measured(Identity(LABELS), TABLE, DiscreteGaussian(sigma=2.0))])
    both = compose(gaussian(COUNTY, 1, mu=0.3), noisy)
    assert both.guarantee is None
    assert both.loss_unknown == "unknown, because no loss is stated by release 2"


def test_uncertified_noise_stays_uncertified() -> None:
    both = compose(lattice(COUNTY, 0.1, gibbs_sampler(30)), gaussian(EDUCATION, 2, epsilon=0.5, delta=1e-6))
    assert isinstance(both.guarantee, Guarantee)
    assert not both.guarantee.certified
    assert "target epsilon" in str(both)
    assert any(line.startswith("Release 2: Released values are rounded") for line in both.guarantee.caveats)


# ------------------------------------------------------------------------------------------------------- bad input


def test_contradictory_exact_parts_are_named() -> None:
    told = r"do not fit together: .*county=Alpha \+ .* is 24, but by education, education=Low \+ education=High is 25"
    with pytest.raises(ValueError, match=told):
        compose(exact(COUNTY, [[5, 3], [2, 7], [4, 3]]), exact(EDUCATION))


def test_exact_parts_that_leave_no_table_are_named() -> None:
    one = Release.from_published(LABELS, exact=[Exact(COUNTY, [1, 1, 1])])
    cell = LinearQuery(LABELS, [[1, 0, 0, 0, 0, 0]], ["Alpha Low"])
    other = Release.from_published(LABELS, exact=[Exact(cell, [2])])
    with pytest.raises(ValueError, match="do not fit together"):
        compose(one, other)


def test_releases_are_checked() -> None:
    one = gaussian(COUNTY, 1, mu=0.3)
    with pytest.raises(ValueError, match="at least two releases, got 1"):
        compose(one)
    with pytest.raises(TypeError, match="release 2 is a str"):
        compose(one, "other")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="release 2 is release 1 again"):
        compose(one, gaussian(COUNTY, 1, mu=0.3))
    elsewhere = {"county": ["Alpha", "Beta", "Delta"], "education": ["Low", "High"]}
    with pytest.raises(ValueError, match="release 1 and release 2 have different labels of 'county': 'Gamma', 'Delta'"):
        compose(one, exact(Margins(elsewhere, ["county"])))


def test_a_joint_release_names_what_does_not_fit() -> None:
    one = gaussian(COUNTY, 1, mu=0.3)
    names = ["a.nc", "b.nc"]
    assert joint_release([one]) is one
    transposed = {"education": ["Low", "High"], "county": ["Alpha", "Beta", "Gamma"]}
    with pytest.raises(
        ValueError, match=r"a\.nc has the dimensions 'county', 'education' and b\.nc 'education', 'county'"
    ):
        joint_release([one, exact(Totals(transposed), np.transpose(TABLE))], names)
    shuffled = {"county": ["Beta", "Alpha", "Gamma"], "education": ["Low", "High"]}
    with pytest.raises(
        ValueError, match=r"a\.nc has 'county' as 'Alpha', 'Beta', 'Gamma' and b\.nc as 'Beta', 'Alpha'"
    ):
        joint_release([one, exact(Totals(shuffled))], names)
    with pytest.raises(ValueError, match=r"b\.nc is a\.nc again: its noise would be counted twice"):
        joint_release([one, one], names)
    with pytest.raises(ValueError, match=r"a\.nc and b\.nc: exact values contradict one another"):
        joint_release([exact(COUNTY, [[5, 3], [2, 7], [4, 3]]), exact(EDUCATION)], names)


def test_noise_that_two_releases_share_is_not_counted_twice() -> None:
    """The second release has the noisy table of the first, and one more exact value."""
    part = Measured(Identity(LABELS), TABLE, DiscreteGaussian(sigma=2.0))
    one = Release.from_published(LABELS, measured=[part])
    more = Release.from_published(LABELS, measured=[part], exact=[Exact(Totals(LABELS), 25)])
    with pytest.raises(
        ValueError, match="release 1 and release 2 hold the same noisy numbers, 6 answers by county × educ"
    ):
        compose(one, more)
    # Another draw may come out alike; a name says that it is one. A single number often comes out alike.
    named = Measured(Identity(LABELS), TABLE, DiscreteGaussian(sigma=2.0), name="second draw")
    assert len(joint_release([one, Release.from_published(LABELS, measured=[named])]).measurements) == 2
    total = Release.from_published(LABELS, measured=[Measured(Totals(LABELS), 25, DiscreteGaussian(sigma=2.0))])
    both = joint_release([total, Release.from_published(LABELS, [*total.measurements], [Exact(COUNTY, [8, 9, 8])])])
    assert len(both.measurements) == 2


def test_as_one_says_what_is_protected_together_or_why_that_is_not_known() -> None:
    one, other = gaussian(COUNTY, 1, mu=0.3), gaussian(EDUCATION, 2, mu=0.4)
    both = as_one([one, other])
    assert both.guarantee == compose(one, other).guarantee
    assert both.mechanism == {
        "mechanism": "composition of 2 releases", "releases": [dict(one.mechanism or {}), dict(other.mechanism or {})],
    }  # fmt: skip
    assert Release.from_dataset(both.to_dataset()) == both
    silent = Release.from_published(LABELS, [Measured(Identity(LABELS), TABLE, DiscreteGaussian(sigma=2.0))])
    assert as_one([one, silent]).guarantee is None
    assert "no loss is stated by release 2" in str(as_one([one, silent]).mechanism)
    # Kinds of loss that cannot be added are an error of compose, and no reason against a joint posterior.
    pure = lattice(EDUCATION, 0.1)
    with pytest.raises(ValueError, match="give delta"):
        compose(one, pure)
    assert as_one([one, pure]).guarantee is None
    assert "give delta" in str(as_one([one, pure]).mechanism)


def test_measurements_of_one_name_are_numbered() -> None:
    ones = [
        Release.from_published(LABELS, [Measured(Totals(LABELS), 25 + k, DiscreteGaussian(sigma=2.0), name="total")])
        for k in range(3)
    ]
    assert [own.name for own in joint_release(ones).measurements] == ["total", "total_2", "total_3"]


# -------------------------------------------------------------------------------------------------------- nestedness


def test_nestedness_is_containment_of_null_spaces() -> None:
    rng = np.random.default_rng(4)
    seen = {True: 0, False: 0}
    for _ in range(80):
        rows = rng.integers(-1, 2, size=(3, 5))
        mixed = rng.integers(-2, 3, size=(2, 3)) @ rows if rng.random() < 0.5 else rng.integers(-1, 2, size=(2, 5))
        labels = {"cell": list(range(5))}
        inner = Invariants(LinearQuery(labels, rows, list("abc")))
        outer = Invariants(LinearQuery(labels, mixed, list("de")))
        basis = scipy.linalg.null_space(rows.astype(float))
        contained = bool(np.all(np.abs(mixed @ basis) < 1e-9))
        assert is_nested(inner, outer) == contained
        seen[contained] += 1
    assert min(seen.values()) > 10


def test_nestedness_of_sums_and_of_no_invariants() -> None:
    county, both, none = Invariants(COUNTY), Invariants(COUNTY + EDUCATION), Invariants(None, LABELS)
    assert is_nested(both, county)
    assert not is_nested(county, both)
    assert is_nested(county, none)
    assert not is_nested(none, county)
    assert is_nested(county, county)
    with pytest.raises(ValueError, match="about one table"):
        is_nested(county, Invariants(Totals({"cell": ["a"]})))
    with pytest.raises(TypeError, match="inner must be an Invariants"):
        is_nested(COUNTY, both)  # type: ignore[arg-type]


SQUARE = {"row": ["a", "b", "c"], "column": ["d", "e", "f"]}


def test_semi_dp_releases_compose_at_the_worst_of_what_both_protect():
    margins = Margins(SQUARE, ["row"], ["column"])
    own = SemiGaussian(margins, 0.5, convention="paper")
    table = np.arange(9).reshape(3, 3)
    both = compose(*(own.release(table, np.random.default_rng(k)) for k in (1, 2)))
    worst = both.guarantee.pairs[0]
    assert "at most 3 substituted records apart" in worst.relation
    # Three records: sqrt 6 apart, noise for 2; two releases.
    assert worst.loss["mu"] == pytest.approx(0.5 * math.sqrt(6) / 2 * math.sqrt(2))
    assert worst.size == pytest.approx(math.sqrt(6))
    # What each release says of its own loss is not taken for that of both.
    said = [line for line in both.guarantee.caveats if "0.612372" in line]
    assert said
    assert all(line.startswith("Release 1, 2: ") for line in said)
    assert any("not that of the composition" in line for line in both.guarantee.caveats)


def test_the_nearer_adjacency_is_what_two_releases_protect():
    margins = Margins(SQUARE, ["row"], ["column"])
    table = np.arange(9).reshape(3, 3)
    releases = [SemiGaussian(margins, 0.4, adjacency=a).release(table, np.random.default_rng(a)) for a in (2, 3)]
    worst = compose(*releases).guarantee.pairs[0]
    assert "at most 2 substituted records apart" in worst.relation
    assert worst.size == 2.0
    assert worst.loss["mu"] == pytest.approx(0.4 * math.sqrt(2))
