"""Tables of which every margin is published, each number perturbed on its own: families of directions for every set of dimensions."""

import re
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations, product

import numpy as np
import pymc as pm
import pytest
from scipy import special
from scipy.special import softmax

import bayesdp as bdp
from bayesdp.fibers import Chain
from bayesdp.fibers import chain as chain_module
from bayesdp.fibers.target import precise_sets
from bayesdp.inference import FiberGibbs
from tests.fibers.harness import LEVEL, p_values
from tests.inference.oracle import counts_model

STARTS = 1_200
RATE, SHAPE = 3.0, 0.8


def wall(reach, *, bent=False):
    """Deviations of at most `reach`, all as likely, or large ones more likely; zeros are kept, and no count below 0 is published."""
    rows: dict[int, dict[int, float]] = {0: {0: 1.0}}
    for x in range(1, reach + 1):
        near = {v: 1.0 + 2.0 * bent * abs(v) for v in range(-min(x, reach), reach + 1)}
        rows[x] = {v: p / sum(near.values()) for v, p in near.items()}
    return bdp.noise.TransitionTable.by_count(rows, period=1)


ROWS = [{0: 1.0}, {-1: 0.6, 2: 0.4}, {-2: 0.4, 2: 0.6}, {-3: 0.2, 0: 0.3, 2: 0.3, 4: 0.2}]
ROWS += [dict.fromkeys((-4, 0, 2, 3), 0.25), {-5: 0.1, -2: 0.2, 0: 0.2, 2: 0.2, 4: 0.2, 5: 0.1}]
ROWS += [dict.fromkeys((-5, -3, -2, 0, 2, 3, 4, 5), 0.125)]
GAPS = bdp.noise.TransitionTable.by_count(dict(enumerate(ROWS)), period=1)
"""Deviations of 1 are not possible but from a count of 4 or 5 to none, and no 1 or 2 is published."""


@dataclass(frozen=True)
class Case:
    """A table of a small shape, and what is published of it."""

    shape: tuple[int, ...]
    law: bdp.noise.NoiseLaw
    seed: int = 1
    zeros: tuple[int, ...] = ()
    exact_total: bool = False
    released: bdp.Release = field(init=False)

    def __post_init__(self):
        rng = np.random.default_rng(self.seed)
        frame = {dim: [f"{dim}{i}" for i in range(size)] for dim, size in zip("abc", self.shape, strict=True)}
        truth = 1 + rng.poisson(RATE, self.shape)
        truth.reshape(-1)[list(self.zeros)] = 0
        queries: list[bdp.Query] = [] if self.exact_total else [bdp.Totals(frame)]
        for size in (1, 2, 3):
            queries += [bdp.Margins(frame, list(dims)) for dims in combinations(frame, size)]
        published = [bdp.Measured(q, self.law.draw(rng, q.shape, location=q.apply(truth)), self.law) for q in queries]
        exact = [bdp.Exact(bdp.Totals(frame), truth.sum())] if self.exact_total else []
        made = bdp.Release.from_published(frame, published, exact, adding_up="warn")
        object.__setattr__(self, "released", made)

    def model(self):
        return counts_model(self.released, pm.NegativeBinomial.dist(mu=RATE, alpha=SHAPE))

    def chain(self):
        chain = FiberGibbs(model=self.model()).tables[0].chain
        assert isinstance(chain, Chain)
        chain.reseed(np.random.default_rng(self.seed))
        return chain

    def posterior(self):
        """All tables that the laws allow, and their probabilities."""
        cells = next(own for own in self.released.measurements if own.query.rows == np.prod(self.shape))
        guess = np.arange(int(cells.values.max()) + 8)
        options = [guess[np.isfinite(self.law.log_each(y, guess))] for y in cells.values.reshape(-1)]
        found = np.array(list(product(*options)), dtype=np.int64)
        for own in self.released.exact:
            found = found[np.all(found @ own.query.matrix.toarray().T == own.values.reshape(-1), axis=1)]
        weight = special.gammaln(found + SHAPE) - special.gammaln(found + 1) + found * np.log(RATE / (SHAPE + RATE))
        weight = weight.sum(axis=1)
        for own in self.released.measurements:
            weight += self.law.log_each(own.values.reshape(-1), found @ own.query.matrix.toarray().T).sum(axis=1)
        return found[np.isfinite(weight)], softmax(weight[np.isfinite(weight)])


CASES = {
    "walls of 1": Case((2, 2, 2), wall(1), seed=7),
    "walls of 2": Case((2, 2, 2), wall(2, bent=True), seed=16),
    "gaps": Case((2, 2, 2), GAPS, seed=4),
    "zeros kept": Case((2, 2, 2), wall(2), seed=21, zeros=(0, 6)),
    "total": Case((2, 2, 2), wall(2), seed=20, exact_total=True),
}


posterior = cache(lambda name: CASES[name].posterior())


def ends_of(starts, chain, move):
    """Where each start is after a move."""
    ends = np.empty_like(starts)
    for start, end in zip(starts, ends, strict=True):
        chain.load(start)
        move()
        end[:] = chain.counts
    return ends


@pytest.mark.parametrize("name", ["walls of 2", "gaps", "zeros kept", "total"])
def test_steps_of_each_family_and_ways_from_exact_draws(name):
    """Neither changes the law; ways change the table. False alarms: `LEVEL` for each test of each family, and of ways."""
    tables, probability = posterior(name)
    assert 8 <= len(tables) < 400_000
    chain, rng = CASES[name].chain(), np.random.default_rng(11)
    families = chain._measured
    assert families >= 7  # a family for each set of dimensions
    starts = tables[rng.choice(len(tables), STARTS, p=probability)]
    moved = np.zeros(families)
    for family in range(families):
        ends = ends_of(starts, chain, lambda family=family: chain.sweep_of(family, 3))
        moved[family] = np.mean(np.any(starts != ends, axis=1))
        assert min(p_values(ends, tables, probability)) > LEVEL, family
    assert (moved > 0.0).sum() >= families / 2
    if name in ("gaps", "total"):
        ends = ends_of(starts, chain, lambda: chain.temper(5))
        assert min(p_values(ends, tables, probability)) > LEVEL
        assert np.mean(np.any(starts != ends, axis=1)) > 0.02


@pytest.mark.system
@pytest.mark.parametrize("name", ["walls of 2", "gaps", "total"])
def test_a_chain_with_learnt_shares(name):
    """Tables far apart in one chain, whose shares were learnt. False alarms: `LEVEL` each."""
    tables, probability = posterior(name)
    chain = CASES[name].chain()
    chain.begin(tables[0])
    for _ in range(40):
        chain.move(2)
        chain.learn()
    chain.settle()
    shares = np.diff(chain.state.cumulative, prepend=0.0)
    assert np.isclose(shares.sum(), 1.0)
    assert shares.min() > 0.0
    assert not np.allclose(chain.state.cumulative, chain.target.moves.cumulative)
    apart = name == "gaps"  # fewer draws, further apart: ways are taken now and then
    draws = np.empty((500 if apart else 2_000, tables.shape[1]), dtype=np.int64)
    for own in draws:
        for _ in range(25 if apart else 1):
            chain.move(40)
        own[:] = chain.counts
    assert min(p_values(draws, tables, probability)) > LEVEL


def test_what_directions_keep_and_chains_that_stand_apart_are_told_of_with_what_holds_them(monkeypatch):
    """Two chains begin at tables that differ in some cells, of which steps of families do not lead from one to the other."""
    target = FiberGibbs(model=CASES["walls of 1"].model()).tables[0].target
    kept = precise_sets(target.fiber, target.terms, target.spread)
    found = {frozenset(part.keep for part in own.invariants.query.parts) for own in kept}
    # Pairs along a dimension keep the sums over it, squares those over either of two, and cubes all.
    assert frozenset({(), ("a",), ("b",), ("a", "b")}) in found
    assert len(found) >= 7
    monkeypatch.setattr(chain_module, "TEMPERED", 0)  # as in a larger table
    monkeypatch.setattr(Chain, "disperse", lambda self: True)  # they stay where they begin
    case = CASES["gaps"]
    tables, _ = posterior("gaps")
    apart = tables[[0, int(np.argmax(np.abs(tables - tables[0]).sum(axis=1)))]]
    with case.model():
        starts = [{"x": table.reshape(case.shape)} for table in apart]
        given = {"chains": 2, "cores": 1, "random_seed": 1, "quiet": True, "progressbar": False}
        found = bdp.sample(60, tune=5, initvals=starts, **given)
    attrs = found["diagnostics"].attrs
    assert attrs["verdict"] == "not converged"
    assert "on average in the chains; at the end of chain" in attrs["message"]
    words = attrs["message"].partition("ruled out by ")[2]
    number, value = re.search(r"published (\d+), now (\d+)", words).groups()
    assert any(np.isneginf(GAPS.log_each(int(number), int(value) + step)) for step in (-1, 1))
