"""How long the paper's chain takes until its noise is near its law: 4 x 4 table, margins fixed, l1, epsilon 0.25.

Paper 002, Figure 1: the estimated distance vanishes after about ten thousand iterations (of one coordinate each) of the
sampler with jumps a = exp(-1); here with tuned jumps, and with exact conditional steps, too.
"""

from __future__ import annotations

import math
import time

import arviz as az
import numpy as np
import pytest

from bayesdp.invariants import Invariants
from bayesdp.lattices.samplers import sample_noise
from bayesdp.papers.integer_subspace import BasisLaw, couple, draw_basis_gibbs, gibbs
from bayesdp.queries import Margins, Totals
from benchmarks.paper_sampler.coupled import metropolis
from benchmarks.paper_sampler.double_geometric import draw_double_geometric, tune_jumps

EPSILON, PAPER = 0.25, math.exp(-1)
TARGET = BasisLaw.of(
    Invariants(Margins({"county": range(4), "education": range(4)}, ["county"], ["education"])), "l1", EPSILON
)
DRAWS = 2000
_SECONDS: dict[str, float] = {}


def plain_metropolis(
    a: float, sweeps: int, rng: np.random.Generator, target: BasisLaw = TARGET, epsilon: float = EPSILON
) -> np.ndarray:
    """Algorithm 1 of the paper as one would write it in NumPy: one chain from zero."""
    basis = target.basis.toarray()
    z = np.zeros(target.cells, dtype=np.int64)
    for _ in range(sweeps):
        jumps = rng.geometric(1 - a, size=len(basis)) - rng.geometric(1 - a, size=len(basis))
        levels = rng.exponential(size=len(basis))
        for vector, jump, level in zip(basis, jumps, levels, strict=True):
            proposal = z + jump * vector
            if epsilon * (np.abs(proposal).sum() - np.abs(z).sum()) < level:
                z = proposal
    return z


@pytest.mark.parametrize("name", ["paper", "tuned", "gibbs"])
@pytest.mark.benchmark(group="sweeps to a total variation bound of 0.01")
def test_sweeps_to_the_law(benchmark, enter, name):
    rng = np.random.default_rng(1)
    a = {"paper": PAPER, "tuned": tune_jumps(TARGET, rng), "gibbs": None}[name]
    words = {"paper": "Metropolis, a = exp(-1)", "tuned": "Metropolis, tuned", "gibbs": "Gibbs along a basis"}[name]
    found = couple(TARGET, rng, pairs=3000, meet=gibbs if a is None else metropolis(a))
    sweeps = found.sweeps_to(0.01)
    assert sweeps is not None

    def draw(size: int) -> np.ndarray:
        if a is None:
            return draw_basis_gibbs(TARGET, rng, chains=size, thin=sweeps)
        return draw_double_geometric(TARGET, a, rng, chains=size, thin=sweeps)

    draw(1)
    benchmark.pedantic(draw, args=(DRAWS,), rounds=3)
    seconds = _SECONDS[name] = benchmark.stats.stats.min / DRAWS
    enter(f"4 x 4, {words}: median meeting time", float(np.median(found.meetings - found.lag)), "sweeps")
    limit = {"paper": 1500, "tuned": 500, "gibbs": 70}[name]
    enter(f"4 x 4, {words}: bound below 0.01 after", sweeps, "sweeps", at_most=limit)
    enter(f"4 x 4, {words}: one draw of that length", 1e6 * seconds, "microseconds")
    upper = found.sweeps_to(0.01, upper=True)
    if upper is not None:
        enter(f"4 x 4, {words}: upper limit below 0.01 after", upper, "sweeps")
    if name == "gibbs":
        enter("4 x 4, Gibbs against the paper's sampler, compiled", _SECONDS["paper"] / seconds, "times", at_least=3)
        start = time.perf_counter()
        plain_metropolis(PAPER, 750, rng)
        plain = time.perf_counter() - start
        enter("4 x 4, Gibbs against the paper's sampler in NumPy, 750 sweeps", plain / seconds, "times", at_least=100)


def test_fixed_total_of_102_cells(benchmark, enter):
    """Exact draws against effective draws of the paper's sampler in NumPy, a = exp(-2.5) and epsilon = 0.192 as there.

    Its autocorrelation comes from a long run of the compiled sampler, which is the same chain; its speed from NumPy.
    """
    invariants = Invariants(Totals({"county": range(102)}))
    target, a = BasisLaw.of(invariants, "l1", 0.192), math.exp(-2.5)
    rng = np.random.default_rng(1)
    size = 20_000
    sample_noise(invariants, "l1", 0.192, rng=rng, size=10)
    benchmark.pedantic(lambda: sample_noise(invariants, "l1", 0.192, rng=rng, size=size), rounds=3)
    exact = size / benchmark.stats.stats.min
    thin = 100
    draws = draw_double_geometric(target, a, rng, chains=4, draws=3000, burn_in=20_000, thin=thin)
    tree = az.from_dict({"posterior": {"z": draws.astype(np.float64)}})
    each = 4 * 3000 * thin / float(az.ess(tree, method="mean")["z"].min())  # sweeps for an effective draw
    start = time.perf_counter()
    plain_metropolis(a, 40, rng, target, 0.192)
    plain = 40 / (time.perf_counter() - start) / each
    enter("102 cells, fixed total: exact draws a second", exact, "", at_least=30_000)
    enter("102 cells: sweeps of the paper's sampler for an effective draw of the worst cell", each, "sweeps")
    enter(
        "102 cells: exact draws / effective draws of the paper's sampler in NumPy", exact / plain, "times", at_least=1e4
    )
