"""A release that is cut says what it said before."""

from __future__ import annotations

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.hierarchies import split

FRAME = bdp.Frame.of(
    {
        "race": ["a", "b"],
        "county": ["c1", "c2", "c3", "c4", "c5"],
        "kind": ("race", ["x", "x"]),
        "state": ("county", ["S", "T", "S", "U", "T"]),
        "branch": ("county", ["s1", "t", "s2", "u", "t"]),
        "region": ("county", ["n", "o", "n", "o", "o"]),
        "coast": ("county", ["yes", "no", "no", "no", "yes"]),
    }
)
LAW = bdp.noise.DiscreteGaussian


def _likelihood(release, table):
    """Log-likelihood of a table, up to a constant; minus infinity where exact answers are others."""
    found = 0.0
    for own in release.measurements:
        scale = np.broadcast_to(own.law.sigma, own.query.shape)
        residuals = (own.values - own.query.apply(table)) / scale
        found -= float((residuals[~own.unmeasured] ** 2).sum()) / 2.0
    for own in release.exact:
        answers = own.query.apply(table)
        kept = {"=": answers == own.values, "<=": answers <= own.values, ">=": answers >= own.values}[own.sign]
        found += 0.0 if kept.all() else -np.inf
    return found


def _release(rng, truth):
    noisy = []
    for keep in (
        ["race", "county"],
        ["county"],
        ["branch", "race"],
        ["state"],
        ["region", "race"],
        ["race"],
        ["kind", "state"],
    ):
        query = bdp.Margins(FRAME, keep)
        values = query.apply(truth) + rng.integers(-3, 4, query.shape)
        noisy.append(bdp.Measured(query, values, LAW(1.5)))
    query = bdp.Identity(FRAME)
    values = (truth + rng.integers(-3, 4, truth.shape)).astype(float)
    values[0, 3] = values[1, 1] = np.nan
    law = LAW(rng.uniform(1.0, 3.0, truth.shape))
    noisy.append(bdp.Measured(query, values, law, unmeasured=np.isnan(values), name="cells"))
    stacked = bdp.Totals(FRAME, by="county") + bdp.Totals(FRAME)
    noisy.append(bdp.Measured(stacked, stacked.apply(truth) + 1, LAW(2.0)))
    states, zero = bdp.Totals(FRAME, by="state"), np.zeros((2, 10), dtype=int)
    zero[0, 1] = zero[1, 8] = 1
    zeros = bdp.LinearQuery(FRAME, zero, ["no a in c2", "no b in c4"])
    counties = bdp.Totals(FRAME, by="county")
    exact = [
        bdp.Exact(states, states.apply(truth)),
        bdp.Exact(bdp.Totals(FRAME), int(truth.sum())),
        bdp.Exact(zeros, [0, 0]),
        bdp.Exact(counties, counties.apply(truth) + 1, "<="),
    ]
    return bdp.Release.from_published(FRAME, noisy, exact)


def test_the_likelihood_of_the_parts_and_the_top_is_that_of_the_whole():
    rng = np.random.default_rng(1)
    truth = rng.integers(1, 5, FRAME.shape)
    truth[0, 1] = truth[1, 3] = 0
    release = _release(rng, truth)
    parts, top = split(release, "state")
    assert list(parts) == ["S", "T", "U"]
    assert top.frame.dims == ("race", "state")
    assert [name for name, _, _ in top.frame.groups] == ["kind", "region"]
    assert [name for name, _, _ in parts["S"].frame.groups] == ["kind", "branch", "coast"]
    finite = 0
    for trial in range(60):
        table = truth.copy()
        if trial % 2:  # the sums of the states stay
            i = int(rng.integers(3))
            one, other = [(0, 2), (1, 4), (0, 2)][i]
            table[1, one] -= 1
            table[1, other] += 1
        else:
            table += rng.integers(0, 2, FRAME.shape) * (trial > 0)
        whole = _likelihood(release, table)
        states = np.array(FRAME.group("state")[1])
        cut = sum(_likelihood(parts[label], table[:, states == label]) for label in parts)
        cut += _likelihood(top, np.stack([table[:, states == label].sum(axis=1) for label in parts], axis=1))
        assert cut == pytest.approx(whole)
        finite += np.isfinite(whole)
    assert 20 < finite < 60


def test_names_and_laws_stay():
    parts, _ = split(_named(), "state")
    (own,) = parts["T"].measurements
    assert own.name == "cells"
    assert own.law == LAW(2.0)


def _named():
    return bdp.Release.from_published(
        FRAME, [bdp.Measured(bdp.Identity(FRAME), np.ones(FRAME.shape, dtype=int), LAW(2.0), name="cells")]
    )


def test_groups_that_cross_the_parts_are_refused():
    query = bdp.Totals(FRAME, by="coast")
    release = bdp.Release.from_published(FRAME, [bdp.Measured(query, [3, 4], LAW(2.0))])
    with pytest.raises(ValueError, match="by 'coast' are about groups of 'county' that cross those of 'state'"):
        split(release, "state")


def test_levels_that_are_none_are_listed():
    with pytest.raises(ValueError, match=r"level must be a group label of the table .*'state'.*, got 'county'"):
        split(_named(), "county")
    with pytest.raises(TypeError, match="release must be"):
        split("release", "state")


def test_weights_over_several_parts_are_refused():
    row = np.zeros((1, 10), dtype=int)
    row[0, [0, 1]] = 1, 2
    query = bdp.LinearQuery(FRAME, row, ["odd"])
    release = bdp.Release.from_published(
        FRAME, [bdp.Measured(bdp.Identity(FRAME), np.ones(FRAME.shape, dtype=int), LAW(2.0))], [bdp.Exact(query, [3])]
    )
    with pytest.raises(NotImplementedError, match="'odd' has weights and cells of several parts"):
        split(release, "state")


def test_parts_of_which_nothing_is_published_are_named():
    values = np.ones(FRAME.shape)
    values[:, 3] = np.nan
    measured = bdp.Measured(bdp.Identity(FRAME), values, LAW(2.0), unmeasured=np.isnan(values))
    with pytest.raises(ValueError, match="nothing is published of the part state=U"):
        split(bdp.Release.from_published(FRAME, [measured]), "state")
