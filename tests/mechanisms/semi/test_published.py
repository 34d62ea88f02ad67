"""Noise of Semi-DP that is made for published totals: what it promises, against all pairs of tables of enumerated fibers."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pymc as pm
import pytest

import bayesdp as bdp
from bayesdp import Exact, Margins, Release, Totals
from bayesdp.fibers.fiber import enumerate_fiber
from bayesdp.mechanisms import (
    Mechanism,
    SemiGaussian,
    SemiKNorm,
    SemiLatticeLaplace,
    SemiNorm,
    SemiProjectedLaplace,
)
from bayesdp.mechanisms.protects import SemiAdjacentTables
from bayesdp.privacy.words import SemiAdjacent, SemiAdjacentWithin
from bayesdp.queries import LinearQuery, Query
from bayesdp.sensitivities.semi_adjacent import semi_adjacency
from tests.comparison.variation import assert_close_in_variation

STRATA = {"stratum": range(3), "a": range(2), "b": range(2)}
IN_STRATA = Margins(STRATA, ["stratum", "a"], ["stratum", "b"])
SPARSE = np.array([[[1, 0], [0, 1]], [[0, 0], [0, 0]], [[2, 0], [0, 2]]])
THREE = {"row": range(3), "column": range(3)}
BOTH = Margins(THREE, ["row"], ["column"])
TWO_RECORDS = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 0]])
BLOCKS = Totals({"stratum": range(3), "answer": range(3)}, by="stratum")
ONES = np.array([[1, 0, 0], [0, 0, 1], [0, 0, 0]])
FLAT = Totals({"cell": range(4)})
PURE: dict[str, tuple[type[SemiAdjacentTables], dict[str, Any]]] = {
    "l1": (SemiNorm, {"norm": "l1"}),
    "l2": (SemiNorm, {"norm": "l2"}),
    "linf": (SemiNorm, {"norm": "linf"}),
    "lattice l1": (SemiLatticeLaplace, {"norm": "l1"}),
    "lattice l2": (SemiLatticeLaplace, {"norm": "l2"}),
}


def exact(query: Query, counts: np.ndarray) -> list[Exact]:
    return [Exact(query, query.apply(counts))]


def losses(mechanism: SemiAdjacentTables, tables: np.ndarray, apart: int) -> float:
    """The largest log-ratio of density or mass at an output, over all pairs of tables so many records apart or less."""
    law, own = mechanism.law, mechanism.invariants
    noise = mechanism.noise(np.random.default_rng(1), 4)
    worst = 0.0
    for x in tables:
        # The loss is largest far out along a difference, where norms add up.
        outputs = [*(x + noise), *(x + 25 * (x - other) for other in tables)]
        for y in outputs:
            at = law.logp(y, x, own)
            for other in tables:
                if 0 < np.abs(x - other).sum() <= 2 * apart:
                    worst = max(worst, at - law.logp(y, other, own))
    return worst


SPARSE_TABLES = ((BOTH, TWO_RECORDS, 3), (BLOCKS, ONES, 2), (IN_STRATA, SPARSE, 3))


@pytest.mark.parametrize(
    ("name", "query", "counts", "apart"),
    # Noise of the l-infinity norm has no exact sampler in strata.
    [(name, *case) for name in PURE for case in SPARSE_TABLES if (name, case[0]) != ("linf", IN_STRATA)],
)
def test_the_largest_loss_of_all_pairs_is_stated_and_attained(
    name: str, query: Query, counts: np.ndarray, apart: int
) -> None:
    kind, parameters = PURE[name]
    published = exact(query, counts)
    mechanism = kind(query, 0.6, published=published, adjacency=apart, **parameters)
    tables = enumerate_fiber(bdp.fibers.Fiber.of(published))
    assert losses(mechanism, tables, apart) == pytest.approx(0.6, rel=1e-9)
    row = mechanism.guarantee.pairs[0]
    assert row.about == SemiAdjacentWithin(apart)
    assert row.loss == {"epsilon": pytest.approx(0.6)}
    # Made for any totals, the loss of these pairs is less than what is stated, and the noise larger, or as large.
    anyhow = kind(query, 0.6, adjacency=apart, **parameters)
    assert losses(anyhow, tables, apart) == pytest.approx(0.6 * mechanism.sensitivity / anyhow.sensitivity, rel=1e-9)
    # Pairs that are farther apart lose in proportion to their distance.
    whole = losses(mechanism, tables, 99)
    order = {"l1": 1, "l2": 2, "linf": np.inf}[name.split()[-1]]
    farthest = max(np.linalg.norm((x - y).reshape(-1), order) for x in tables for y in tables)
    assert whole == pytest.approx(0.6 * farthest / mechanism.sensitivity, rel=1e-9)


def test_normal_noise_has_the_mu_of_the_farthest_pair() -> None:
    for query, counts, apart, anyhow in ((BOTH, TWO_RECORDS, 2, 2.0), (BLOCKS, ONES, 2, math.sqrt(8.0))):
        published = exact(query, counts)
        mechanism = SemiGaussian(query, 0.7, published=published)
        assert mechanism.adjacency == apart
        tables = enumerate_fiber(bdp.fibers.Fiber.of(published))
        z = [x - y for x in tables for y in tables if np.abs(x - y).sum() <= 2 * apart]
        farthest = max(np.linalg.norm(own) for own in z)
        assert farthest / mechanism.law.sigma == pytest.approx(0.7)
        assert mechanism.sigma == pytest.approx(farthest / 0.7)
        assert SemiGaussian(query, 0.7, adjacency=apart).sigma == pytest.approx(anyhow / 0.7)
    # Two records are not three that form a cycle, and the margins of 2 x 2 cells that are all one need no third record.
    assert SemiGaussian(BOTH, 0.7).sigma == pytest.approx(math.sqrt(6.0) / 0.7)
    assert SemiProjectedLaplace(BLOCKS, 1.0, published=exact(BLOCKS, ONES), adjacency=1).b == 2.0


def test_the_hull_of_what_occurs() -> None:
    kind = SemiKNorm
    counts = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    two = kind(BOTH, 0.6, published=exact(BOTH, counts), adjacency=2)
    tables = enumerate_fiber(bdp.fibers.Fiber.of(exact(BOTH, counts)))
    assert losses(two, tables, 2) == pytest.approx(0.6, rel=1e-9)
    # A margin of one record in a total of four cells: K is that of one substitution, whatever the adjacency.
    one = np.array([0, 1, 0, 0])
    mechanism = kind(FLAT, 0.6, published=exact(FLAT, one), adjacency=2)
    assert losses(mechanism, np.eye(4, dtype=np.int64), 2) == pytest.approx(0.6, rel=1e-9)
    assert losses(kind(FLAT, 0.6, adjacency=2), np.eye(4, dtype=np.int64), 2) == pytest.approx(0.3, rel=1e-9)
    with pytest.raises(ValueError, match="published leaves differences in 1 of the 4 dimensions"):
        kind(BOTH, 0.6, published=exact(BOTH, TWO_RECORDS))


def test_steps_that_occur_join_the_fiber_or_the_row_says_how_far() -> None:
    """With the default adjacency chains of protected steps join all tables of these fibers, each within the fiber."""
    rng = np.random.default_rng(5)
    for query, size in ((BOTH, (3, 3)), (BLOCKS, (3, 3)), (IN_STRATA, (3, 2, 2))):
        for _ in range(4):
            counts = rng.poisson(0.7, size=size)
            fiber = bdp.fibers.Fiber.of(exact(query, counts))
            tables = enumerate_fiber(fiber).reshape(-1, counts.size)
            if len(tables) == 1:
                continue
            mechanism = SemiGaussian(query, 1.0, published=fiber)
            needed = semi_adjacency(fiber).value
            assert needed is None or mechanism.adjacency >= needed
            near = np.abs(tables[:, None] - tables).sum(axis=2) <= 2 * mechanism.adjacency
            reached = near[0]
            for _ in tables:
                reached = near[reached].any(axis=0)
            assert reached.all()


@pytest.mark.parametrize("kind", [SemiGaussian, SemiProjectedLaplace, SemiLatticeLaplace])
def test_tables_with_the_same_totals_get_the_same_noise(kind: type[SemiAdjacentTables]) -> None:
    """The scale tells nothing that the totals do not: law, description, guarantee and noise of a seed are those of any table."""
    for query, counts in ((BOTH, np.eye(3, dtype=np.int64)), (BLOCKS, ONES + 1 - np.eye(3, dtype=np.int64))):
        tables = enumerate_fiber(bdp.fibers.Fiber.of(exact(query, counts)))
        first = None
        for table in tables[:: max(1, len(tables) // 5)]:
            release = kind(query, 0.6, published=exact(query, table), adjacency=3).release(table, rng=4)
            [measured] = release.measurements
            own = release.mechanism, measured.law, release.guarantee, (np.asarray(measured.values) - table).tolist()
            first = first or own
            assert own == first


def test_a_release_reads_back_and_a_reader_refuses_other_totals() -> None:
    mechanism = SemiLatticeLaplace(IN_STRATA, 0.5, published=exact(IN_STRATA, SPARSE))
    release = mechanism.release(SPARSE, rng=3)
    assert Mechanism.from_description(json.loads(json.dumps(release.mechanism)), mechanism.frame) == mechanism
    data = release.to_dataset()
    assert Release.from_dataset(data) == release
    text = " ".join(str(release.guarantee).split())
    assert "any two tables with the published exact answers, at most 3 substituted records apart" in text
    assert "The published totals force at most 3 records to change where one does" in text
    assert (
        "The noise is made for the published exact answers, and for nothing else of the table: l1 sensitivity 4" in text
    )

    def read(**changes: Any) -> Release:
        own = json.loads(data.attrs["mechanism"])
        guarantee = json.loads(data.attrs["guarantee"])
        if "published" in changes:
            own["published"] = changes["published"]
        if "about" in changes:
            guarantee["pairs"][0]["about"]["is"] = changes["about"]
            guarantee["pairs"][0]["relation"] = SemiAdjacent(3).words
        return Release.from_dataset(data.assign_attrs(mechanism=json.dumps(own), guarantee=json.dumps(guarantee)))

    other = json.loads(data.attrs["mechanism"])["published"]
    other[0][0] += 1
    other[0][1] -= 1
    for lie in (other, [[1, 2]], "x", other[:1], [[1] * 6, [1, 1, 0, 0, 2]]):
        with pytest.raises(ValueError, match="published"):
            read(published=lie)
    # Nor may the row claim the tables of all totals.
    with pytest.raises(ValueError, match="the guarantee states"):
        read(about="apart")
    with pytest.raises(ValueError, match="at most 3 substituted records apart"):
        read(published=None)


def test_what_is_given_is_checked() -> None:
    good = exact(IN_STRATA, SPARSE)
    with pytest.raises(ValueError, match=r"but stratum=0, a=0 is not 1: give the mechanism"):
        SemiGaussian(IN_STRATA, 1.0, published=good).release(SPARSE + 13)
    for wrong in ("3", 3, {"a": 1}, good[0]):
        with pytest.raises(TypeError, match="published must be a list of Exact"):
            SemiGaussian(IN_STRATA, 1.0, published=wrong)
    with pytest.raises(ValueError, match="neither fewer nor more"):
        SemiGaussian(IN_STRATA, 1.0, published=[Exact(Totals(STRATA), 6)])
    with pytest.raises(ValueError, match="bounds"):
        SemiGaussian(IN_STRATA, 1.0, published=[*good, Exact(Totals(STRATA), 9, sign="<=")])
    with pytest.raises(ValueError, match="about the same table"):
        SemiGaussian(IN_STRATA, 1.0, published=exact(BOTH, TWO_RECORDS))
    with pytest.raises(ValueError, match="no nonnegative integer table"):
        SemiGaussian(BOTH, 1.0, published=[[1, 0, 0], [2, 0, 0]])
    with pytest.raises(ValueError, match="convention='paper'"):
        SemiGaussian(BOTH, 1.0, published=exact(BOTH, TWO_RECORDS), convention="paper")
    with pytest.raises(ValueError, match="determines the cell of every record"):
        SemiGaussian(BOTH, 1.0, published=exact(BOTH, 0 * TWO_RECORDS))
    with pytest.raises(ValueError, match="adjacency=1: no two tables with the published answers"):
        SemiGaussian(BOTH, 1.0, published=exact(BOTH, TWO_RECORDS), adjacency=1)
    crossed = LinearQuery({"cell": range(4)}, [[1, 1, 1, 0], [0, 1, 1, 1], [1, 1, 1, 1]], ["left", "right", "all"])
    with pytest.raises(ValueError, match="adjacency must be given"):
        SemiGaussian(crossed, 1.0, published=[Exact(crossed, [2, 2, 3])])
    words = str(SemiGaussian(crossed, 1.0, published=[Exact(crossed, [2, 2, 3])], adjacency=2).guarantee)
    assert "Whether 2 records are enough" in " ".join(words.split())


def test_several_releases_state_what_tables_with_the_published_answers_lose() -> None:
    published = exact(BLOCKS, ONES)
    made_for = SemiGaussian(BLOCKS, 0.3, published=published).release(ONES, rng=1)
    anyhow = SemiGaussian(BLOCKS, 0.4).release(ONES, rng=2)
    both = bdp.compose(made_for, anyhow)
    assert both.guarantee is not None
    [row] = [own for own in both.guarantee.pairs if isinstance(own.about, SemiAdjacentWithin)]
    assert row.about == SemiAdjacentWithin(2, joint=True)
    assert row.loss == {"mu": pytest.approx(0.5)}
    assert Release.from_dataset(both.release.to_dataset()) == both.release


def test_the_posterior_is_that_of_enumeration() -> None:
    mechanism = SemiLatticeLaplace(IN_STRATA, 2.0, published=exact(IN_STRATA, SPARSE))
    release = mechanism.release(SPARSE, rng=8)
    tables = enumerate_fiber(release.fiber)
    assert len(tables) == 2 * 3
    prior = [float(pm.logp(pm.Poisson.dist(1.0), x).eval().sum()) for x in tables]
    weights = np.array([own + mechanism.logp(release.values, x) for own, x in zip(prior, tables, strict=True)])
    truth = np.exp(weights - np.logaddexp.reduce(weights))
    with pm.Model(coords=release.coords):
        bdp.observe(release, bdp.ConfidentialCounts("x", pm.Poisson.dist(1.0), dims=release.dims))
        drawn = bdp.sample(1000, tune=50, chains=2, cores=1, random_seed=1, quiet=True, progressbar=False)
    x = drawn.posterior["x"].values.reshape(-1, 12)
    which = np.array([int(np.flatnonzero(np.all(tables.reshape(-1, 12) == own, axis=1))[0]) for own in x])
    assert_close_in_variation(which.reshape(2, -1), truth, rate=1e-5)
