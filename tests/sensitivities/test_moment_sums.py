"""Sums of products of bounded values: closed forms against optimisation over all pairs of records."""

from __future__ import annotations

import math

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.privacy import moment_sums_sensitivity
from bayesdp.sensitivities.statistics import stated_sensitivity

CASES = [((1.0, 1.0), False), ((2.0, 1.0), False), ((10.0, 0.3), False), ((1.0, 2.0, 3.0), False), ((1.5,), True),
         ((1.0, 1.0), True), ((0.1, 4.0), True), ((2.0, 1.0, 3.0), True)]  # fmt: skip


def changes(pairs: np.ndarray, bounds: np.ndarray, intercept: bool) -> np.ndarray:
    """What one record in the place of another changes the sums by, shape (k, 2, values) to (k, sums), written out by hand."""
    records = pairs * bounds
    if intercept:
        records = np.concatenate([np.ones((*records.shape[:-1], 1)), records], axis=-1)
    first, second = np.triu_indices(records.shape[-1])
    products = records[..., first] * records[..., second]
    return np.asarray((products[:, 0] - products[:, 1])[:, int(intercept) :])  # the constant is the same for both


def farthest(bounds: np.ndarray, intercept: bool, order: float) -> float:
    """The largest norm of a change: random pairs, vertices and centres, the best 20 improved by ever smaller steps."""
    rng = np.random.default_rng(3)
    shape = (2, len(bounds))
    pairs = np.concatenate([rng.uniform(-1, 1, (4000, *shape)), rng.choice([-1.0, -0.4, 0.0, 1.0], (4000, *shape))])
    step = 0.5
    for _ in range(60):
        sizes = np.linalg.norm(changes(pairs, bounds, intercept), order, axis=1)
        best = pairs[np.argsort(sizes)[-20:]]
        near = np.repeat(best, 60, axis=0)
        pairs = np.concatenate([best, np.clip(near + step * rng.normal(size=near.shape), -1.0, 1.0)])
        step *= 0.8
    return float(sizes.max())


@pytest.mark.parametrize(("limits", "intercept"), CASES)
def test_the_stated_numbers_are_those_of_the_farthest_pair(limits: tuple[float, ...], intercept: bool) -> None:
    bounds = np.array(limits)
    stated = moment_sums_sensitivity(limits, intercept=intercept)
    l1, l2, linf = (farthest(bounds, intercept, order) for order in (1, 2, np.inf))
    m = len(bounds)
    if not intercept or np.min(bounds) >= 1 / (m + 1):
        assert stated.l1 == pytest.approx(l1, rel=1e-6)  # attained
    else:
        assert l1 <= stated.l1 * (1 + 1e-12) <= 1.02 * l1
    assert isinstance(stated.largest, tuple)
    assert max(stated.largest) == pytest.approx(linf, rel=1e-6)
    assert l2 <= stated.l2 * (1 + 1e-12)
    assert stated.l2 <= 1.3 * l2
    rng = np.random.default_rng(4)
    found = np.abs(changes(rng.uniform(-1, 1, (5000, 2, m)), bounds, intercept))
    assert np.all(found <= np.array(stated.largest) * (1 + 1e-12))
    # Records may change places between groups: two of them at once.
    both = moment_sums_sensitivity(limits, intercept=intercept, records=2)
    assert (both.l1, both.l2) == (pytest.approx(2 * stated.l1), pytest.approx(2 * stated.l2))


def test_each_entry_is_in_the_order_of_the_sums() -> None:
    stated = moment_sums_sensitivity((2.0, 5.0), intercept=True)
    # sums of x, y, then x^2, x y, y^2
    assert stated.largest == (4.0, 10.0, 4.0, 20.0, 25.0)


@pytest.mark.parametrize("bad", [(), (0.0, 1.0), (-1.0, 1.0), (np.inf, 1.0), ((1.0, 2.0),)])
def test_bad_bounds(bad: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="bounds"):
        moment_sums_sensitivity(bad)


def test_more_bad_input() -> None:
    with pytest.raises(ValueError, match="records"):
        moment_sums_sensitivity((1.0,), records=0)


def test_a_release_of_the_sums_of_a_regression() -> None:
    rng = np.random.default_rng(8)
    x = rng.uniform(-2, 2, 400)
    y = np.clip(0.5 * x + rng.normal(0, 0.2, 400), -3, 3)
    stated = moment_sums_sensitivity((2.0, 3.0), records=2)
    limits = ([0.0, -2400.0, 0.0], [1600.0, 2400.0, 3600.0])
    names = ["xx", "xy", "yy"]
    records = np.column_stack([x, y])
    sums = (records.T @ records)[np.triu_indices(2)]
    laplace = bdp.BoundaryInflatedLaplace(1.0, stated, limits, names=names)
    normal = bdp.mechanisms.BoundaryInflatedGaussian(stated, limits, rho=0.5, names=names)
    assert laplace.sensitivity == pytest.approx(2 * (4 + 6 + 9))
    assert normal.sensitivity == pytest.approx(stated.l2)
    assert laplace.true_epsilon <= 1.0 + 1e-12
    for mechanism in (laplace, normal):
        release = mechanism.release(sums, rng=1)
        xx, xy, _ = np.asarray(release.values)
        assert abs(xy / xx - 0.5) < 0.5  # the noise is 38 of a sum of 500
        assert math.isfinite(mechanism.logp(release.values, sums))
    assert stated_sensitivity(stated) is stated
