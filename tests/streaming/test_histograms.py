import numpy as np
import pytest

from bayesdp.streaming.cells import add_to, pooled_quantiles

SHARES = np.array([0.01, 0.025, 0.25, 0.5, 0.9, 0.975, 1.0])


def _filled(values, bins):
    own, grid = np.zeros(bins, dtype=np.uint16), np.zeros(2, dtype=np.int64)
    for x in values:
        add_to(own, grid, int(x))
    return own, grid


def _quantiles(chains, bins):
    filled = [_filled(values, bins) for values in chains]
    total = sum(len(values) for values in chains)
    quantile, width = np.zeros((len(SHARES), 1), dtype=np.int64), np.zeros(1, dtype=np.int64)
    ranks = np.maximum(1.0, np.ceil(SHARES * total - 1e-6))
    pooled_quantiles(
        np.stack([own for own, _ in filled])[:, None],
        np.stack([grid for _, grid in filled])[:, None],
        ranks,
        quantile,
        width,
    )
    return quantile[:, 0], int(width[0]), filled


STREAMS = {
    "small counts": lambda rng: rng.poisson(2.0, 400),
    "far from 0, narrow": lambda rng: 10**9 + rng.integers(0, 30, 400),
    "falling and rising": lambda rng: np.concatenate([np.arange(200, 0, -1), np.arange(400)]),
    "two modes": lambda rng: np.where(rng.random(400) < 0.3, 0, 5_000 + rng.integers(0, 9, 400)),
    "heavy": lambda rng: np.floor(np.exp(rng.normal(3.0, 3.0, 400))).astype(int),
    "near the largest count": lambda rng: 2**53 - rng.integers(0, 2**40, 400),
    "one value": lambda rng: np.full(10, 7),
    "large, then 0": lambda rng: np.array([2**52, 0, 1, 2, 3]),
}


@pytest.mark.parametrize("bins", [8, 9, 64])
@pytest.mark.parametrize("name", STREAMS)
def test_quantiles_are_right_to_the_stated_width(name, bins):
    rng = np.random.default_rng(1)
    values = STREAMS[name](rng)
    found, width, [(own, grid)] = _quantiles([values], bins)
    spread = int(np.ptp(values))
    assert own.sum() == len(values)
    assert width == 1 << grid[1]
    assert width == 1 if spread < bins - 1 else width < 2 * spread / (bins - 1)
    exact = np.quantile(values, SHARES, method="inverted_cdf")
    assert (np.abs(found - exact) < width).all()
    assert (found >= 0).all()


@pytest.mark.parametrize("bins", [8, 64])
def test_chains_with_bins_of_different_widths_pool(bins):
    rng = np.random.default_rng(2)
    chains = [rng.poisson(5.0, 300), 100 + 50 * rng.poisson(3.0, 500), rng.integers(3, 6, 100)]
    found, width, _ = _quantiles(chains, bins)
    exact = np.quantile(np.concatenate(chains), SHARES, method="inverted_cdf")
    assert (np.abs(found - exact) < width).all()
    assert width > 1


def test_chains_apart_with_narrow_bins_are_exact():
    chains = [np.arange(30), 10**6 + np.arange(50)]
    found, width, _ = _quantiles(chains, 64)
    assert width == 1
    assert found.tolist() == np.quantile(np.concatenate(chains), SHARES, method="inverted_cdf").tolist()


def test_bins_follow_a_drift_as_long_as_all_values_fit():
    _, grid = _filled(np.r_[1000, np.arange(1000, 1064)], 64)
    assert grid[1] == 0
    _, grid = _filled(np.r_[1000, np.arange(1000, 1065)], 64)
    assert grid[1] == 1
