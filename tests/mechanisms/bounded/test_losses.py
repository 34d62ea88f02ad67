"""What mechanisms within bounds lose: vectors of statistics, added records, and matrices whose bounds are released values."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp import mechanisms as m
from bayesdp.papers import covariance_cone
from bayesdp.privacy import (
    covariance_sensitivity,
    mean_sensitivity,
    proportion_sensitivity,
    variance_sensitivity,
)
from bayesdp.privacy.bounded import truncated_loss
from bayesdp.sensitivities.statistics import moment_sums_sensitivity, stated_sensitivity

KINDS = [bdp.TruncatedLaplace, bdp.BoundaryInflatedLaplace]
MEAN = mean_sensitivity(50, (0.0, 10.0))


def loss_of(law: Any, first: Any, second: Any) -> float:
    """The largest log-ratio of the densities of two vectors: the one of each coordinate, over many outputs and both ways round."""
    first, second = np.atleast_1d(first), np.atleast_1d(second)
    low, high = np.broadcast_to(law.lower, first.shape), np.broadcast_to(law.upper, first.shape)
    each = np.zeros((2, len(first)))
    for i, (s, t) in enumerate(zip(first, second, strict=True)):
        inner = np.linspace(low[i], high[i], 9)[1:-1]
        # Density within the bounds, masses at them: each has its own measure, the same for both.
        outputs = np.concatenate([inner, [s, t], [low[i], high[i]] if law.has_atoms else []])
        outputs = outputs if law.has_atoms else outputs[(outputs >= low[i]) & (outputs <= high[i])]
        one = type(law)(law.b, (low[i], high[i]))
        ratio = one.log_each(outputs, np.full_like(outputs, s)) - one.log_each(outputs, np.full_like(outputs, t))
        each[:, i] = ratio.max(), (-ratio).max()
    return float(each.sum(axis=1).max())


@pytest.mark.parametrize("kind", KINDS)
def test_one_sensitivity_is_not_enough_for_several_statistics(kind: Any) -> None:
    """Three means of the same records: one record moves each by 0.2, so that noise for one of them loses 3."""
    alone = kind(1.0, MEAN, (0.0, 10.0))
    lost = loss_of(alone.law, [0.0, 0.0, 0.0], [0.2, 0.2, 0.2])
    assert lost == pytest.approx(3.0, rel=1e-9)
    with pytest.raises(ValueError, match=r"sensitivity is that of one statistic, but there are 3: .* losses add up"):
        kind(1.0, MEAN, (0.0, 10.0), names=["a", "b", "c"])
    with pytest.raises(ValueError, match="is that of one statistic, but there are 2"):
        kind(1.0, MEAN, ([0.0, 0.0], [10.0, 10.0]))
    with pytest.raises(ValueError, match="is that of one statistic, but there are 3"):
        kind(1.0, [0.2], (0.0, 10.0), names=["a", "b", "c"])
    for one in (
        variance_sensitivity(50, (0.0, 1.0)),
        covariance_sensitivity(50, (0.0, 1.0), (0.0, 2.0)),
        proportion_sensitivity(50),
    ):
        with pytest.raises(ValueError, match="is that of one statistic, but there are 4"):
            kind(1.0, one, one.bounds, names=["a", "b", "c", "d"])
    every = kind(1.0, [MEAN] * 3, (0.0, 10.0), names=["a", "b", "c"])
    assert every.sensitivity == pytest.approx(0.6)
    assert every.largest == (0.2, 0.2, 0.2)
    assert loss_of(every.law, [0.0, 0.0, 0.0], [0.2, 0.2, 0.2]) == pytest.approx(every.true_epsilon, rel=1e-9)
    assert every.true_epsilon == pytest.approx(1.0, rel=1e-9)
    assert every.guarantee.parameters["epsilon"] == every.true_epsilon
    assert m.StatisticMechanism.from_description(every.describe()) == every


def test_sensitivities_one_after_the_other() -> None:
    shares, variance = proportion_sensitivity(50, 3), variance_sensitivity(50, (0.0, 2.0))
    bounds = ([0.0] * 4, [1.0, 1.0, 1.0, 1.1])
    both = bdp.TruncatedLaplace(1.0, [shares, variance], bounds)
    assert both.sensitivity == pytest.approx(2 / 50 + 4 / 50)
    assert both.largest == (1 / 50, 1 / 50, 1 / 50, 4 / 50)
    assert both.changed == 3
    assert both.paper_sensitivity == pytest.approx(1 / 50 + 4 / 50)
    # A record that leaves the first category for the second, and changes the variance the most from 0.
    attained = loss_of(both.law, [1.0, 0.0, 0.0, 0.0], [0.98, 0.02, 0.0, 0.08])
    assert attained <= both.true_epsilon * (1 + 1e-9)
    added = variance_sensitivity(50, (0.0, 2.0), "add-remove")
    for given, error, message in (
        (
            [shares, added],
            ValueError,
            r"one kind of neighbours, got 'substitution' and, at sensitivity\[1\], 'add-remove'",
        ),
        ([shares, 0.1], TypeError, r"all numbers or all of .*Sensitivity, but sensitivity\[1\] is 0.1"),
        ([variance, stated_sensitivity(0.2)], ValueError, "one kind of neighbours"),
        ([[0.1, 0.2]], ValueError, r"a vector of them, got an array of shape \(1, 2\)"),
        ([shares], ValueError, "do not fit one another"),
        ("wide", TypeError, "sensitivity must hold integers or real numbers"),
    ):
        with pytest.raises(error, match=message):
            bdp.TruncatedLaplace(1.0, given, bounds)
    # As many statistics as the sensitivity is of, also without names or bounds that say so.
    assert bdp.TruncatedLaplace(1.0, shares, (0.0, 1.0)).names == ("statistic 1", "statistic 2", "statistic 3")
    sums = moment_sums_sensitivity((1.0, 2.0))
    assert bdp.BoundaryInflatedLaplace(1.0, [variance, sums], (-9.0, 9.0)).largest == (4 / 50, 1.0, 4.0, 4.0)


def compositions(n: int, k: int) -> list[tuple[int, ...]]:
    return [own for own in itertools.product(range(n + 1), repeat=k) if sum(own) == n]


@pytest.mark.parametrize(("n", "k", "epsilon"), [(2, 3, 1.0), (3, 4, 0.3), (5, 3, 4.0), (4, 4, 12.0), (7, 3, 0.05)])
@pytest.mark.parametrize("convention", ["exact", "paper"])
def test_added_records_and_truncated_proportions_by_enumeration(
    n: int, k: int, epsilon: float, convention: str
) -> None:
    """All data sets of n records, and all that have one more or one less: the stated loss is attained, not only an upper bound."""
    sensitivity = proportion_sensitivity(n, k, "add-remove")
    own = bdp.TruncatedLaplace(epsilon, sensitivity, (0.0, 1.0), convention=convention)
    losses = [
        loss_of(own.law, np.array(table) / size, (np.array(table) + np.eye(k, dtype=int)[j]) / (size + 1))
        for size in (n - 1, n)
        for table in compositions(size, k)
        for j in range(k)
    ]
    assert max(losses) == pytest.approx(own.true_epsilon, rel=1e-9)
    assert own.true_epsilon == pytest.approx(2 * float(truncated_loss(1 / n, own.scale, 1.0)), rel=1e-12)
    assert own.neighbours == "add-remove"
    if convention == "exact":
        assert own.true_epsilon == pytest.approx(epsilon, rel=1e-9)


def test_proportions_within_other_bounds_keep_the_upper_bound() -> None:
    """At most half in each category is public: two at a half lose more than one at 1 would, and all may change."""
    own = bdp.TruncatedLaplace(1.0, proportion_sensitivity(7, 4, "add-remove"), (0.0, 0.5))
    assert own.changed is None
    lost = loss_of(own.law, [0.5, 0.5, 0.0, 0.0], np.array([3, 3, 1, 0]) / 7)
    exact = bdp.TruncatedLaplace(1.0, proportion_sensitivity(7, 4, "add-remove"), (0.0, 1.0))
    assert exact.changed == 2
    assert 2 * float(truncated_loss(1 / 7, own.scale, 0.5)) < lost <= own.true_epsilon
    assert "at most this, where neighbours cannot attain all" in " ".join(str(own.guarantee).split())


BOUNDS = [(-3.0, 3.0), (-4.5, 4.5)]
TRUTH = np.array([[1.0, 0.7 * np.sqrt(2)], [0.7 * np.sqrt(2), 2.0]])


@pytest.mark.parametrize("parts", [None, [1e-4, 1 - 2e-4, 1e-4]])
def test_covariance_matrix_states_the_loss_of_no_path_but_of_the_worst(parts: Any) -> None:
    paper = covariance_cone.CovarianceMatrix(1.0, 80, BOUNDS, rule="truncated", convention="paper", parts=parts)
    budget, tops, sizes = paper.parts, 80 / (4 * 79) * np.array([36.0, 54.0, 81.0]), np.array([36.0, 54.0, 81.0]) / 80
    assert budget is not None
    stated = {paper.release(TRUTH, rng=np.random.default_rng(seed)).guarantee for seed in range(12)}  # type: ignore[misc]
    (text,) = {str(own) for own in stated}
    assert f"The true epsilon of all is {paper.true_epsilon:.6g}" in " ".join(text.split())
    # Over all widths that released variances can leave for the covariance.
    edges = np.append(np.geomspace(1e-6, 1.0, 200), 1.0) * 2 * tops[1]
    scales = sizes / np.array(budget)
    variances = sum(float(truncated_loss(sizes[i], scales[i], tops[i])) for i in (0, 2))
    paths = variances + truncated_loss(sizes[1], scales[1], edges)
    assert paper.true_epsilon == pytest.approx(paths.max(), rel=1e-12)
    assert paths.min() < paths.max()
    assert paper.true_epsilon == pytest.approx(1.748 if parts is None else 1.490, abs=1e-3)
    for own in (
        covariance_cone.CovarianceMatrix(1.0, 80, BOUNDS, rule="truncated", parts=parts),
        covariance_cone.CovarianceMatrix(1.0, 80, BOUNDS, convention="paper", parts=parts),
    ):
        assert own.true_epsilon == pytest.approx(1.0, rel=1e-12)
