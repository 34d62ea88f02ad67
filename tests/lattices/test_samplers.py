"""Which sampler is chosen, and what is refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from bayesdp.invariants import Invariants
from bayesdp.lattices import Sampler, choose_sampler, sample_noise
from tests.lattices.oracles import BLOCKS, GENERAL, LOOSE, labels, one_way

FREE = Invariants(None, labels(2, 2))


@pytest.mark.parametrize(
    ("invariants", "law", "name"),
    [
        (BLOCKS, "l1", "fixed-sum"),
        (LOOSE, "l1", "fixed-sum"),
        (BLOCKS, "l2", "gibbs"),
        (BLOCKS, "gaussian", "gibbs"),
        (one_way(2, 2), "l1", "lines"),
        (one_way(2, 2), "l2", "lines"),
        (one_way(2, 2), "gaussian", "lines"),
        (one_way(2, 3), "l1", "gibbs"),
        (FREE, "l1", "lines"),
        (FREE, "gaussian", "lines"),
        (FREE, "l2", "gibbs"),
        (GENERAL, "l1", "gibbs"),
    ],
)
def test_exact_where_there_is_an_exact_sampler(invariants, law, name):
    sampler = choose_sampler(invariants, law, sweeps=77)
    assert sampler.name == name
    assert sampler.exact == (name != "gibbs")
    assert sampler.sweeps == (77 if name == "gibbs" else None)
    assert choose_sampler(invariants, law, "mcmc").name == "gibbs"
    if name == "gibbs":
        with pytest.raises(NotImplementedError, match="no exact sampler"):
            choose_sampler(invariants, law, "exact")
        with pytest.raises(NotImplementedError, match="no exact sampler"):
            sample_noise(invariants, law, 1.0, method="exact")
    else:
        assert choose_sampler(invariants, law, "exact") == sampler


def test_a_sampler_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        choose_sampler(BLOCKS, "l1").exact = False
    assert isinstance(choose_sampler(BLOCKS, "l1"), Sampler)


@pytest.mark.parametrize(("law", "scale"), [("l1", 0.01), ("l2", 0.01), ("gaussian", 100.0)])
def test_same_seed_same_noise_and_the_right_shape(law, scale, make_rng):
    invariants = one_way(2, 3)
    one = sample_noise(invariants, law, scale, make_rng(1), 4, sweeps=3)
    other = sample_noise(invariants, law, scale, make_rng(1), 4, sweeps=3)
    assert one.shape == (4, 2, 3)
    assert one.dtype == np.int64
    np.testing.assert_array_equal(one, other)
    assert not np.array_equal(one[0], one[1])  # each draw is a chain of its own


def test_without_a_generator_draws_differ():
    assert not np.array_equal(sample_noise(BLOCKS, "l1", 0.01, size=3), sample_noise(BLOCKS, "l1", 0.01, size=3))


def test_nothing_is_drawn_where_nothing_is_free(make_rng):
    determined = one_way(1, 4)
    assert choose_sampler(determined, "l2").exact
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
        ({"rng": 1}, TypeError, "rng must be a numpy.random.Generator or None, got int"),
    ],
)
def test_bad_arguments_are_named(kwargs, error, message):
    with pytest.raises(error, match=message):
        sample_noise(**{"invariants": BLOCKS, "law": "l1", "scale": 1.0, **kwargs})
