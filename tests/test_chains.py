"""Diagnostics of many quantities at once are ArviZ's, and take seconds for a large table."""

import time
import tracemalloc
from importlib import import_module

import numpy as np
import pytest

from bayesdp import _chains
from bayesdp._chains import chain_statistics, ess_bulk, ess_mean

# Warnings: of constant quantities ArviZ divides by zero.
pytestmark = [
    pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:divide by zero encountered:RuntimeWarning"),
]

NAMES = ("ess_bulk", "ess_tail", "rhat")
QUANTITIES = 6


def draws_of_all_kinds(chains, length, rng):
    shape = (chains, length, QUANTITIES)
    slow, alternating = rng.normal(size=(2, *shape))
    for i in range(1, length):
        slow[:, i] += 0.95 * slow[:, i - 1]
        alternating[:, i] -= 0.7 * alternating[:, i - 1]
    return {
        "normal": rng.normal(size=shape),
        "counts": rng.poisson(rng.gamma(0.5, 4.0, size=QUANTITIES), size=shape),
        "rare": (rng.random(shape) < 0.05).astype(np.int64),
        "two values": np.where(rng.random(shape) < 0.5, -2, 7),
        "slow": slow,
        "alternating": alternating,
        "slow counts": np.rint(slow).astype(np.int64),
        "constant": np.broadcast_to(rng.integers(0, 9, size=QUANTITIES), shape),
    }


def both(draws, monkeypatch):
    for many in (0, 2**60):
        monkeypatch.setattr(_chains, "_MANY", many)
        yield chain_statistics(draws)


@pytest.mark.parametrize(
    ("chains", "length"), [(1, 4), (1, 25), (1, 301), (2, 5), (2, 7), (2, 100), (4, 4), (4, 6), (4, 10), (4, 301)]
)
def test_the_numbers_are_those_of_arviz(chains, length, monkeypatch):
    arviz = import_module("arviz_stats.base").array_stats
    for kind, draws in draws_of_all_kinds(chains, length, np.random.default_rng([chains, length])).items():
        floats, axes = draws.astype(np.float64), {"chain_axis": 0, "draw_axis": 1}
        bulk = arviz.ess(floats, method="bulk", **axes)
        tail = arviz.ess(floats, method="tail", prob=(0.05, 0.95), **axes)
        rhat = arviz.rhat(floats, method="rank", **axes) if chains > 1 else np.full(QUANTITIES, np.nan)
        for own in both(draws, monkeypatch):
            for name, theirs in zip(NAMES, (bulk, tail, rhat), strict=True):
                np.testing.assert_allclose(getattr(own, name), theirs, rtol=1e-12, err_msg=f"{kind}: {name}")
            np.testing.assert_allclose(ess_bulk(draws), bulk, rtol=1e-12, err_msg=kind)
        np.testing.assert_allclose(ess_mean(draws), arviz.ess(floats, method="mean", **axes), rtol=1e-12, err_msg=kind)


def test_blocks_and_shapes_change_nothing(monkeypatch):
    draws = np.random.default_rng(1).poisson(3.0, size=(2, 51, 3, 7))
    whole = chain_statistics(draws)
    told = []
    monkeypatch.setattr(_chains, "_BLOCK", 5 * 102)
    parts = chain_statistics(draws, lambda done, total: told.append((done, total)))
    assert whole.rhat.shape == (3, 7)
    for name in NAMES:
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))
        alone = getattr(chain_statistics(draws[:, :, 1, 4]), name)
        np.testing.assert_array_equal(getattr(whole, name)[1, 4], alone)
    assert told == [(5, 21), (10, 21), (15, 21), (20, 21), (21, 21)]
    assert chain_statistics(np.zeros((2, 10, 0))).rhat.shape == (0,)
    rng = np.random.default_rng(2)
    few = chain_statistics(rng.normal(size=(4, 3, 2)))
    assert np.isnan([few.ess_bulk, few.ess_tail, few.rhat]).all()
    draws = rng.normal(size=(2, 100, 3))
    draws[0, 5, 1], draws[1, 7, 2] = np.nan, np.inf
    found = chain_statistics(draws)
    for own in (found.ess_bulk, found.ess_tail, found.rhat, ess_bulk(draws), ess_mean(draws)):
        assert np.isfinite(own).tolist() == [True, False, False]


def test_a_large_table_takes_seconds_and_little_memory():
    """10,000 cells, 2 chains of 300 draws: 0.1 s where ArviZ took 13 s; the limit leaves room for a busy machine."""
    draws = np.random.default_rng(3).poisson(5.0, size=(2, 300, 10_000))
    chain_statistics(draws[:, :8, :2].repeat(70_000, axis=2))  # compiles
    start = time.process_time()
    found = chain_statistics(draws)
    assert time.process_time() - start < 2.0
    assert np.isfinite(found.rhat).all()
    tracemalloc.start()
    chain_statistics(draws[:, :, :4000])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100e6  # blocks: independent of the number of cells


def slowly_mixing(length):
    """Sequences that end after tens and hundreds of lags, at the last one, and beyond what compiled code looks at."""
    noise, rho = np.random.default_rng(8).normal(size=(2, length, 40)), np.linspace(0.8, 0.999, 40)
    for i in range(1, length):
        noise[:, i] = rho * noise[:, i - 1] + np.sqrt(1 - rho**2) * noise[:, i]
    draws = np.rint(3.0 * noise).astype(np.int64)
    draws[:, :, 30:] += np.array([0, 9])[:, None, None]
    return draws


def mixed(length):
    """No lag that decides; more values than a table holds; one draw that is not 0, in no half; values that float64 rounds."""
    rng = np.random.default_rng(4)
    slow = np.cumsum(rng.integers(-1, 2, size=(3, length, 19)), axis=1)
    wide = rng.integers(-(10**6), 10**6, size=(3, length, 5))
    only = np.zeros((3, length, 4), dtype=np.int64)
    only[1, length // 2] = 1
    large = rng.poisson(3.0, size=(3, length, 9)) + 2**52
    return np.concatenate([slow, wide, only, large], axis=2)


def beyond_64_bits():
    draws = np.random.default_rng(10).integers(-1, 2, size=(2, 90, 5)) * 2**62 * np.array([1, -1])[:, None, None]
    draws[0, 0], draws[1, 0] = 2**62, -(2**62) - 2**61
    return draws


def whole(highest, *size, dtype=np.int64, seed=6):
    return np.random.default_rng(seed).integers(0, highest, size=size).astype(dtype)


INTEGERS = {
    **{f"mixed, {n}": [mixed(n), mixed(n)[:, :, :19], mixed(n)[:, :, 19:24], mixed(n)[:, :, 24:28]] for n in (51, 400)},
    "slowly mixing": [slowly_mixing(1030), slowly_mixing(2200)],
    "series that ends at the last lag": [whole(40, 1, n, 2000, seed=n) for n in (12, 13, 16, 20)],
    "differences beyond 64 bits": [beyond_64_bits()],
    "differences that 16 bits do not show": [
        whole(3, 2, 90, 5) + k * whole(2, 2, 90, 5, seed=7) for k in (2**15, 2**16)
    ],
    "other types": [whole(3, 2, 90, 11, dtype=own) for own in (np.int8, np.uint8, np.int32, np.uint64, np.bool_)],
    # Lengths for which 5% of the draws is a whole number, or nearly one.
    "quantiles between draws": [whole(30, 2, n, 7) for n in (*range(40, 64), 101, 161, 201)],
    "quantiles at draws": [990_000 + whole(3 * n, 1, n, 7) for n in (*range(40, 64), 101, 161, 201)],
}


@pytest.mark.parametrize("kind", INTEGERS)
def test_integers_of_any_kind_by_compiled_code(kind, monkeypatch):
    for draws in INTEGERS[kind]:
        compiled, plain = both(draws, monkeypatch)
        for name in NAMES:
            np.testing.assert_allclose(getattr(compiled, name), getattr(plain, name), rtol=1e-12, err_msg=name)


def test_integers_in_any_order_of_memory_and_in_blocks(monkeypatch):
    """More quantities than are copied at a time, which is 64, in blocks of 70; 33 draws, one more than are copied at a time."""
    draws = np.random.default_rng(11).poisson(np.linspace(0.1, 40.0, 150), size=(3, 33, 150))
    expected = chain_statistics(draws.astype(np.float64))
    monkeypatch.setattr(_chains, "_MANY", 0)
    monkeypatch.setattr(_chains, "_BLOCK", 70 * 99)
    every_second, last_first = np.repeat(draws, 2, axis=2)[..., ::2], np.asfortranarray(draws)
    for own in (draws, every_second, last_first, draws.astype(np.uint16)):
        for name in NAMES:
            np.testing.assert_allclose(getattr(chain_statistics(own), name), getattr(expected, name), rtol=1e-12)


def test_chains_that_stand_still_apart(monkeypatch):
    draws = np.broadcast_to(np.array([3, 3, 9])[:, None, None], (3, 400, 2))
    for found in both(draws, monkeypatch):
        assert (found.rhat > 1e14).all()  # infinite, by rounding or exactly
        assert (found.ess_bulk < 10).all()
