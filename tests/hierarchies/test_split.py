"""A release that is cut says what it said before."""

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.hierarchies import split
from tests.noisy_sums import noisy_sums
from tests.refusals import refused

GROUPS = {
    "state": list("STSUT"),
    "branch": ["s1", "t", "s2", "u", "t"],
    "region": list("nonoo"),
    "coast": list("ynnny"),
}
LABELS = {"race": ["a", "b"], "county": ["c1", "c2", "c3", "c4", "c5"], "kind": ("race", ["x", "x"])}
FRAME = bdp.Frame.of(LABELS | {name: ("county", own) for name, own in GROUPS.items()})
LAW, CELLS = bdp.noise.DiscreteGaussian, bdp.Identity(FRAME)


def _likelihood(release, table):
    """Log-likelihood of a table, up to a constant; minus infinity where exact answers are others."""
    found = 0.0
    for own in release.measurements:
        scale = np.broadcast_to(own.law.sigma, own.query.shape)
        found -= float((((own.values - own.query.apply(table)) / scale)[~own.unmeasured] ** 2).sum()) / 2.0
    for own in release.exact:
        answers = own.query.apply(table)
        kept = {"=": answers == own.values, "<=": answers <= own.values, ">=": answers >= own.values}[own.sign]
        found += 0.0 if kept.all() else -np.inf
    return found


def _release(rng, truth):
    keeps = ("race county", "county", "branch race", "state", "region race", "race", "kind state")
    noisy = noisy_sums(FRAME, truth, [(own.split(), 1.5) for own in keeps], rng)
    values = (truth + rng.integers(-3, 4, truth.shape)).astype(float)
    values[0, 3] = values[1, 1] = np.nan
    law = LAW(rng.uniform(1.0, 3.0, truth.shape))
    noisy.append(bdp.Measured(CELLS, values, law, unmeasured=np.isnan(values), name="cells"))
    stacked = bdp.Totals(FRAME, by="county") + bdp.Totals(FRAME)
    noisy.append(bdp.Measured(stacked, stacked.apply(truth) + 1, LAW(2.0)))
    states, counties = bdp.Totals(FRAME, by="state"), bdp.Totals(FRAME, by="county")
    zeros = bdp.Exact(bdp.LinearQuery(FRAME, np.eye(10, dtype=int)[[1, 8]], ["no a in c2", "no b in c4"]), [0, 0])
    exact = [bdp.Exact(own, own.apply(truth)) for own in (states, bdp.Totals(FRAME))]
    exact += [zeros, bdp.Exact(counties, counties.apply(truth) + 1, "<=")]
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
    assert "cells" in [own.name for own in parts["T"].measurements]
    states, finite = np.array(FRAME.group("state")[1]), 0
    for trial in range(60):
        table = truth.copy()
        if trial % 2:  # the sums of the states stay
            one, other = ((0, 2), (1, 4))[int(rng.integers(2))]
            table[1, [one, other]] += -1, 1
        else:
            table += rng.integers(0, 2, FRAME.shape) * (trial > 0)
        whole = _likelihood(release, table)
        own = [table[:, states == label] for label in parts]
        cut = sum(map(_likelihood, parts.values(), own))
        cut += _likelihood(top, np.stack([each.sum(axis=1) for each in own], axis=1))
        assert cut == pytest.approx(whole)
        finite += np.isfinite(whole)
    assert 20 < finite < 60


def _published(query, values, exact=(), **more):
    return bdp.Release.from_published(FRAME, [bdp.Measured(query, values, LAW(2.0), **more)], exact)


ONES, OPEN = np.ones(FRAME.shape, dtype=int), np.where(np.arange(5) == 3, np.nan, np.ones(FRAME.shape))
ODD = bdp.Exact(bdp.LinearQuery(FRAME, [[1, 2, *[0] * 8]], ["odd"]), [3])


COAST, PART = _published(bdp.Totals(FRAME, by="coast"), [3, 4]), _published(CELLS, OPEN, unmeasured=np.isnan(OPEN))
test_what_is_refused = refused(
    (lambda: split(COAST, "state"), "by 'coast' are about groups of 'county' that cross those of 'state'"),
    (lambda: split(PART, "county"), r"level must be a group label of the table .*'state'.*, got 'county'"),
    (lambda: split("release", "state"), "release must be"),
    (lambda: split(_published(CELLS, ONES, [ODD]), "state"), "'odd' has weights and cells of several parts"),
    (lambda: split(PART, "state"), "nothing is published of the part state=U"),
)
