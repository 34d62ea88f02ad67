"""Which sampler is chosen, and what is refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from bayesdp.invariants import Invariants
from bayesdp.lattices import Sampler, sample_noise, sampler_for, samplers
from bayesdp.lattices.samplers import MOST_TRIES
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.lattices.oracles import (
    BLOCKS,
    CASES,
    GENERAL,
    LEVEL,
    LOOSE,
    labels,
    lattice_points,
    law_on,
    one_way,
    pvalue,
    two_way_margins,
)

FREE = Invariants(None, labels(2, 2))


NESTED = Invariants(
    Margins({"a": range(6), "b": range(4), "group": ("a", list("xxxyyy"))}, ["a"], ["group", "b"]),
)
CROSSED = [
    Totals({"a": range(9), "rows": ("a", list("xxxyyyzzz")), "columns": ("a", list("uvwuvwuvw"))}, by=by)
    for by in ("rows", "columns")
]


@pytest.mark.parametrize(
    ("invariants", "law", "scale", "name"),
    [
        (BLOCKS, "l1", 1.0, "fixed-sum"),
        (LOOSE, "l1", 1.0, "fixed-sum"),
        (BLOCKS, "l2", 1.0, "nearest-plane"),
        (BLOCKS, "gaussian", 1.0, "klein"),
        (one_way(2, 2), "l1", 1.0, "lines"),
        (one_way(2, 2), "l2", 1.0, "lines"),
        (one_way(2, 2), "gaussian", 1.0, "lines"),
        (one_way(2, 3), "l1", 1.0, "fixed-sum"),
        (one_way(3, 4), "l1", 1e-4, "two-way"),
        (one_way(10, 10), "l1", 0.25, "two-way"),
        (one_way(14, 14), "l1", 0.25, "gibbs"),
        (one_way(14, 14), "l1", 4.0, "two-way"),
        (NESTED, "l1", 0.25, "two-way"),
        (Invariants(CROSSED), "l1", 0.25, "two-way"),
        (two_way_margins(2, 2, 2), "l1", 0.25, "lines"),
        (two_way_margins(2, 5, 2), "l1", 0.25, "fixed-sum"),
        (two_way_margins(4, 2, 3), "l1", 0.25, "two-way"),
        (two_way_margins(3, 3, 3), "l1", 0.25, "three-way"),
        (two_way_margins(7, 7, 7), "l1", 0.25, "gibbs"),
        (FREE, "l1", 1.0, "lines"),
        (FREE, "gaussian", 1.0, "lines"),
        (FREE, "l2", 1.0, "nearest-plane"),
        (GENERAL, "l1", 1.0, "groups"),
        (one_way(20, 20), "l2", 0.25, "nearest-plane"),
        (one_way(20, 20), "l2", 1.0, "gibbs"),
        (one_way(20, 20), "gaussian", 2.0, "klein"),
    ],
)
def test_exact_where_enough_tries_are_kept(invariants, law, scale, name):
    sampler = sampler_for(invariants, law, scale, sweeps=77)
    assert sampler.name == name
    assert sampler.exact == (name != "gibbs")
    assert sampler.sweeps == (77 if name == "gibbs" else None)
    assert sampler_for(invariants, law, scale, "mcmc").name == "gibbs"
    if name == "gibbs":
        assert sampler.acceptance is None
        with pytest.raises(NotImplementedError, match=r"expected acceptance .* below 1 in 10000"):
            sampler_for(invariants, law, scale, "exact")
        with pytest.raises(NotImplementedError, match="no exact sampler"):
            sample_noise(invariants, law, scale, method="exact")
    else:
        assert 1 / MOST_TRIES <= sampler.acceptance <= 1
        assert ("tries a draw" in sampler.words) == (sampler.acceptance < 1)
        assert sampler_for(invariants, law, scale, "exact") == sampler


def test_lattices_without_a_known_basis_are_left_to_the_chain():
    wide = Invariants(LinearQuery(labels(300), np.random.default_rng(1).integers(1, 4, (1, 300)), ["weighted"]))
    with pytest.raises(NotImplementedError, match="too large"):
        sampler_for(wide, "l2", 0.1, "exact")
    assert sampler_for(wide, "l1", 0.1).name == "groups"  # three groups of cells with equal weights


# 21 tests at LEVEL: the sampler that is chosen, cells put where they belong, by enumeration.
@pytest.mark.parametrize("case", [*CASES, "nested", "crossed", "2x2x3"])
@pytest.mark.parametrize(("law", "scale"), [("l1", 1.0), ("gaussian", 1.1)])
def test_noise_follows_its_law(case, law, scale, make_rng):
    others = {"nested": (NESTED, 2), "crossed": (Invariants(CROSSED), 8), "2x2x3": (two_way_margins(2, 2, 3), 12)}
    invariants, reach = {**CASES, **others}[case]
    size = 8000
    draws = sample_noise(invariants, law, scale, make_rng(len(case)), size, "exact").reshape(size, -1)
    assert not np.any(invariants.matrix @ draws.T)
    if case == "nested":  # two tables of 3 x 4 alike: the first, by enumeration
        assert np.abs(np.corrcoef(draws[:, 0], draws[:, 12])[0, 1]) < 4 / np.sqrt(size)
        draws, invariants, reach = draws[:, :12], one_way(3, 4), 4
    points = lattice_points(invariants.matrix.toarray(), reach)
    assert pvalue(draws, points, law_on(points, law, scale)) > LEVEL


def test_many_draws_are_made_in_short_calls(make_rng, monkeypatch):
    monkeypatch.setattr(samplers, "_TRIES_A_CALL", 10)
    draws = sample_noise(one_way(3, 3), "l1", 0.5, make_rng(1), 101)
    assert draws.shape == (101, 3, 3)
    assert len(np.unique(draws.reshape(101, -1), axis=0)) > 60


def test_a_sampler_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        sampler_for(BLOCKS, "l1", 1.0).exact = False
    assert isinstance(sampler_for(BLOCKS, "l1", 1.0), Sampler)


@pytest.mark.parametrize("method", ["exact", "mcmc"])
@pytest.mark.parametrize(("law", "scale"), [("l1", 0.01), ("l2", 0.01), ("gaussian", 100.0)])
def test_same_seed_same_noise_and_the_right_shape(law, scale, method, make_rng):
    invariants = one_way(2, 3)
    one = sample_noise(invariants, law, scale, make_rng(1), 4, method, 3)
    other = sample_noise(invariants, law, scale, make_rng(1), 4, method, 3)
    assert one.shape == (4, 2, 3)
    assert one.dtype == np.int64
    np.testing.assert_array_equal(one, other)
    assert not np.array_equal(one[0], one[1])  # each draw is a chain of its own


def test_without_a_generator_draws_differ():
    assert not np.array_equal(sample_noise(BLOCKS, "l1", 0.01, size=3), sample_noise(BLOCKS, "l1", 0.01, size=3))


def test_nothing_is_drawn_where_nothing_is_free(make_rng):
    determined = one_way(1, 4)
    assert sampler_for(determined, "l2", 0.1).exact
    assert not sample_noise(determined, "l2", 0.1, make_rng(1), 5).any()
    assert sample_noise(one_way(3, 3), "l1", 0.1, make_rng(1), 0).shape == (0, 3, 3)


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
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
    ],
)
def test_bad_arguments_are_named(kwargs, error, message):
    with pytest.raises(error, match=message):
        sample_noise(**{"invariants": BLOCKS, "law": "l1", "scale": 1.0, **kwargs})
