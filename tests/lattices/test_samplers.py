"""Parts of lattices, chains, rounding and the choice of a sampler, against enumerated laws."""

import numpy as np
import pytest
from scipy import stats

from bayesdp._numba import seed_state
from bayesdp.invariants import Invariants
from bayesdp.lattices import gram_schmidt, integers, kernel_basis, sample_noise, sampler_for, samplers
from bayesdp.lattices.parts import Line, Table, lattice_parts
from bayesdp.lattices.samplers import MOST_TRIES
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.fibers.moves.test_basis import NESTED as LABELLED
from tests.lattices.oracles import BLOCKS, CASES, GENERAL, assert_follows, assert_mass, labels, one_way, two_way_margins
from tests.refusals import refused

FREE = Invariants(None, labels(2, 2))
NESTED = Invariants(Margins({"a": range(6), "b": range(4), "group": ("a", list("xxxyyy"))}, ["a"], ["group", "b"]))
CROSSED = [
    Totals({"a": range(9), "rows": ("a", list("xxxyyyzzz")), "columns": ("a", list("uvwuvwuvw"))}, by=by)
    for by in ("rows", "columns")
]


@pytest.mark.parametrize(
    ("invariants", "law", "scale", "name"),
    [
        (BLOCKS, "l1", 1.0, "fixed-sum"),
        (BLOCKS, "l2", 1.0, "nearest-plane"),
        (BLOCKS, "gaussian", 1.0, "klein"),
        (one_way(2, 2), "l1", 1.0, "lines"),
        (one_way(2, 2), "gaussian", 1.0, "lines"),
        (one_way(3, 4), "l1", 1e-4, "two-way"),
        (one_way(10, 10), "l1", 0.25, "two-way"),
        (one_way(14, 14), "l1", 0.25, "gibbs"),
        (Invariants(CROSSED), "l1", 0.25, "two-way"),
        (two_way_margins(2, 5, 2), "l1", 0.25, "fixed-sum"),
        (two_way_margins(4, 2, 3), "l1", 0.25, "two-way"),
        (two_way_margins(3, 3, 3), "l1", 0.25, "three-way"),
        (two_way_margins(7, 7, 7), "l1", 0.25, "gibbs"),
        (FREE, "l1", 1.0, "lines"),
        (GENERAL, "l1", 1.0, "groups"),
        (one_way(20, 20), "l2", 1.0, "gibbs"),
        (one_way(20, 20), "gaussian", 2.0, "klein"),
    ],
)
def test_exact_where_enough_tries_are_kept(invariants, law, scale, name):
    sampler, chain = sampler_for(invariants, law, scale, sweeps=77), name == "gibbs"
    assert (sampler.name, sampler.exact, sampler.sweeps) == (name, not chain, 77 if chain else None)
    assert sampler_for(invariants, law, scale, "mcmc").name == "gibbs"
    if chain:
        assert sampler.acceptance is None
        with pytest.raises(NotImplementedError, match=r"expected acceptance .* below 1 in 10000"):
            sampler_for(invariants, law, scale, "exact")
        with pytest.raises(NotImplementedError, match="no exact sampler"):
            sample_noise(invariants, law, scale, method="exact")
    else:
        assert 1 / MOST_TRIES <= sampler.acceptance <= 1
        assert ("tries a draw" in sampler.words) == (sampler.acceptance < 1)
        assert sampler_for(invariants, law, scale, "exact") == sampler


def test_many_draws_are_made_in_short_calls_and_none_where_nothing_is_free(make_rng, monkeypatch):
    # Lattices without a known basis are left to the chain.
    wide = Invariants(LinearQuery(labels(300), np.random.default_rng(1).integers(1, 4, (1, 300)), ["weighted"]))
    with pytest.raises(NotImplementedError, match="too large"):
        sampler_for(wide, "l2", 0.1, "exact")
    assert sampler_for(wide, "l1", 0.1).name == "groups"  # three groups of cells with equal weights
    monkeypatch.setattr(samplers, "_TRIES_A_CALL", 10)
    draws = sample_noise(one_way(3, 3), "l1", 0.5, make_rng(1), 101)
    assert draws.shape == (101, 3, 3)
    assert len(np.unique(draws.reshape(101, -1), axis=0)) > 60
    determined = one_way(1, 4)
    assert sampler_for(determined, "l2", 0.1).exact
    assert not sample_noise(determined, "l2", 0.1, make_rng(1), 5).any()
    assert sample_noise(one_way(3, 3), "l1", 0.1, make_rng(1), 0).shape == (0, 3, 3)


# 20 tests at LEVEL: the sampler that is chosen, cells put where they belong, by enumeration.
@pytest.mark.parametrize(("law", "scale"), [("l1", 1.0), ("gaussian", 1.1)])
@pytest.mark.parametrize("case", [*CASES, "nested", "crossed", "2x2x3"])
def test_noise_follows_its_law(case, law, scale, make_rng):
    others = {"nested": (NESTED, 2), "crossed": (Invariants(CROSSED), 8), "2x2x3": (two_way_margins(2, 2, 3), 12)}
    (invariants, reach), size = {**CASES, **others}[case], 5000
    draws = sample_noise(invariants, law, scale, make_rng(len(case)), size, "exact").reshape(size, -1)
    if case == "nested":  # two tables of 3 x 4 alike: the first, by enumeration
        assert not np.any(invariants.matrix @ draws.T)
        assert np.abs(np.corrcoef(draws[:, 0], draws[:, 12])[0, 1]) < 4 / np.sqrt(size)
        draws, invariants, reach = draws[:, :12], one_way(3, 4), 3
    assert_follows(draws, invariants.matrix.toarray(), reach, law, scale)


@pytest.mark.parametrize("method", ["exact", "mcmc"])
def test_same_seed_same_noise(method, make_rng):
    one, other = (sample_noise(one_way(2, 3), "l1", 0.01, make_rng(1), 4, method, 3) for _ in range(2))
    assert one.shape == (4, 2, 3)
    np.testing.assert_array_equal(one, other)
    assert not np.array_equal(one[0], one[1])  # each draw is a chain of its own
    assert not np.array_equal(one, sample_noise(one_way(2, 3), "l1", 0.01, None, 4, method, 3))


test_bad_arguments_are_named = refused(
    ({"law": "l3"}, ValueError, "law must be one of 'l1', 'l2', 'gaussian', got 'l3'"),
    ({"method": "best"}, ValueError, "method must be one of 'auto', 'exact', 'mcmc', got 'best'"),
    ({"sweeps": 0}, ValueError, "sweeps must be an integer greater than 0"),
    ({"sweeps": 2.5}, TypeError, "sweeps must be a positive integer"),
    ({"scale": 0.0}, ValueError, "scale must be a finite number greater than 0"),
    ({"scale": float("nan")}, ValueError, "scale must be a finite number"),
    ({"scale": "1"}, TypeError, "scale must be a positive real number"),
    ({"scale": 1e-14}, ValueError, r"scale must keep the noise below 2\*\*52"),
    ({"law": "gaussian", "scale": 2.0**50}, ValueError, r"scale must keep the noise below 2\*\*52"),
    ({"size": -1}, ValueError, "size must be an integer of at least 0, got -1"),
    ({"size": 1.5}, TypeError, "integer"),
    ({"rng": 1.0}, TypeError, "rng must be an integer seed"),
    of=lambda kwargs: sample_noise(**{"invariants": BLOCKS, "law": "l1", "scale": 1.0, **kwargs}),
)

RATES = (("l1", 1.0), ("l2", 1.7), ("gaussian", 1.1))
CHAINED = [(case, *law) for case in ("3x3", "totals", "general") for law in RATES] + [("3x3x3", "l1", 0.8)]


# Ten tests at LEVEL. The chains are 40 sweeps or longer; their autocorrelation time is about 4, so the start is forgotten to 1e-4.
@pytest.mark.parametrize(("case", "law", "scale"), CHAINED)
def test_the_chain_follows_the_law(case, law, scale, make_rng):
    (invariants, reach), size = CASES[case], 700 if case == "3x3x3" else 1500
    draws = sample_noise(invariants, law, scale, make_rng(len(case)), size, "mcmc", 40).reshape(size, -1)
    assert_follows(draws, invariants.matrix.toarray(), reach, law, scale)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_extreme_scales_do_not_break_the_chain(scale, make_rng):
    invariants = one_way(3, 3)
    draws = sample_noise(invariants, "l1", scale, make_rng(3), 200, "mcmc", 50).reshape(200, -1)
    assert not np.any(invariants.matrix @ draws.T)
    # At rate 1e-6 the noise is continuous for all purposes: the size ||z||_1 is Gamma(4, 1/rate), mean 4 / rate.
    size = np.abs(draws).sum(axis=1).mean()
    assert size == 0 if scale > 1 else abs(size * scale - 4.0) < 5 * 2.0 / np.sqrt(200)


COUNTIES = Invariants([Totals(LABELLED, by=["state", "sex"]), Margins(LABELLED, ["county"])])


@pytest.mark.parametrize("invariants", [one_way(4, 5), two_way_margins(3, 4, 5), COUNTIES, BLOCKS, GENERAL], ids=repr)
def test_rounded_noise_is_on_the_lattice_and_near_and_moves_along_with_it(invariants, rng):
    noise = invariants.project(30 * rng.normal(size=(50, *invariants.frame.shape)))
    rounded = integers.round_to_lattice(noise, invariants)
    assert rounded.dtype == np.int64
    assert all(invariants.is_null(table) for table in rounded)
    assert np.abs(rounded - noise).max() < 5
    assert np.median(np.abs(rounded - noise)) < 0.5
    basis = kernel_basis(invariants).toarray()
    shift = (rng.integers(-9, 10, size=len(basis)) @ basis).reshape(invariants.frame.shape)
    np.testing.assert_array_equal(integers.round_to_lattice(noise[0] + shift, invariants), rounded[0] + shift)


K = np.arange(-300, 301)


# Eight tests at LEVEL.
@pytest.mark.parametrize(
    ("draw", "parameters", "mass"),
    [
        *((integers.discrete_laplace, (rate,), np.exp(-rate * np.abs(K))) for rate in (0.05, 1.0, 4.5)),
        *((integers.discrete_gaussian, (sigma,), np.exp(-(K**2) / (2 * sigma**2))) for sigma in (0.35, 7.3)),
        (integers.geometric, (0.3,), np.where(K < 0, 0.0, np.exp(-0.3 * np.abs(K)))),
        *((integers.uniform_below, (n, integers.spare_bits(n)), 1.0 * ((K >= 0) & (K < n))) for n in (2, 5)),
    ],
)
def test_integers_follow_their_law(draw, parameters, mass, make_rng):
    state = seed_state(make_rng(1))
    assert_mass(np.array([[draw(state, *parameters)] for _ in range(5000)]), K[:, None], mass / mass.sum())
    assert [integers.spare_bits(n) for n in (1, 2, 3, 4, 5, 2**40 + 1)] == [63, 63, 62, 62, 61, 23]  # room for n


CAMPUS = {"a": range(4), "b": range(3), "c": range(5)}
STATES = {"county": range(6), "education": range(3), "state": ("county", list("xxxyyy"))}


def shown(part):
    if isinstance(part, Table):
        return tuple(sorted(part.shape)), part.copies
    return "line" if isinstance(part, Line) else "general"


@pytest.mark.parametrize(
    ("invariants", "expected"),
    [
        (BLOCKS, [((3,), 1), "line"]),
        (CASES["loose"][0], ["line", ((3,), 1)]),
        (one_way(2, 4), [((4,), 2)]),
        (one_way(5, 3), [((3, 5), 1)]),
        (two_way_margins(3, 4, 5), [((3, 4, 5), 1)]),
        (two_way_margins(3, 2, 5), [((3, 5), 2)]),
        (two_way_margins(2, 2, 5), [((5,), 4)]),
        (one_way(3, 3, 3), ["general"]),
        (Invariants(Margins(CAMPUS, ["a", "c"], ["b", "c"])), [((3, 4), 1)] * 5),
        (Invariants(Margins(STATES, ["county"], ["state", "education"], ["education"])), [((3, 3), 1)] * 2),
        (Invariants(Margins(labels(1, 4), ["a"], ["b"])), []),
        (Invariants(LinearQuery(labels(5), [[1, 1, 0, 0, 0], [0, 0, 1, 1, 1], [1, 1, 1, 1, 1]], list("xyz"))), ["line", ((3,), 1)]),
        (Invariants(LinearQuery(labels(4), [[1, 1, 1, 0], [1, 0, -1, 1]], list("xy"))), ["general"]),
        (Invariants(LinearQuery(labels(5), [[1, 1, 0, 0, 0], [0, 1, 1, 1, 1]], list("xy"))), ["general"]),
        (Invariants(LinearQuery(labels(3), [[1, 0, 0], [0, 1, 1]], list("xy"))), ["line"]),
    ],
)  # fmt: skip
def test_the_kinds_of_part(invariants, expected):
    found = [str(shown(part)) for part in lattice_parts(invariants)]
    assert sorted(found) == sorted(map(str, expected))


def test_what_looks_like_a_table_with_three_ways_but_is_none():
    # Three partitions whose joins are the ways of a 3 x 3 x 3 table; the first one is finer than two ways.
    grid = np.indices((3, 3, 3)).reshape(3, -1)
    codes = [grid[0] * 9 + grid[2] * 3 + (grid[1] + grid[0]) % 2, grid[0] * 3 + grid[1], grid[1] * 3 + grid[2]]
    groups = {f"g{k}": ("cell", [str(v) for v in code]) for k, code in enumerate(codes)}
    frame = {"cell": range(27), **groups}
    parts = lattice_parts(Invariants([Totals(frame, by=name) for name in groups]))
    assert all(not isinstance(part, Table) or len(part.shape) < 3 for part in parts)


@pytest.mark.parametrize("shape", [1, 3])
def test_gamma_draws_have_their_law(shape):
    """Kolmogorov and Smirnov: false alarms at 1e-5."""
    state = seed_state(np.random.default_rng(3))
    assert (
        stats.kstest([gram_schmidt._gamma(state, shape) for _ in range(300_000)], stats.gamma(shape).cdf).pvalue > 1e-5
    )
