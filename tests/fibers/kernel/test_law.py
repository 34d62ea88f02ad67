"""The kernel against enumeration: every kind of fiber, every noise law, every prior family.

False alarms: two tests a case at `harness.LEVEL`; all together below 1% (see there).
"""

from __future__ import annotations

import numpy as np
import pytest

from bayesdp.fibers import Chain, Fiber, NoiseTerm, Target, enumerate_fiber
from bayesdp.measurements import Exact
from bayesdp.queries import Identity, Margins, Totals
from tests.fibers.cases import CASES, Case
from tests.fibers.harness import LEVEL, exact_posterior, p_values, run

pytestmark = pytest.mark.system

LAWS = {"l1": 0.3, "l2": 0.4, "gaussian": 2.0}

PRIORS = ("poisson", "flat", "negbin 2.5", "negbin 0.1", "binomial", "dirichlet-multinomial 0.1")


def prior_of(name: str, cells: int, rng: np.random.Generator):
    """Kernel family, log weights and shapes."""
    family, _, number = name.partition(" ")
    if family == "dirichlet-multinomial":
        return "negbin", np.zeros(cells), np.full(cells, float(number))
    if family == "negbin":
        return family, np.log(rng.uniform(0.3, 0.9, cells)), np.full(cells, float(number))
    if family == "poisson":
        return family, np.log(rng.uniform(0.5, 4.0, cells)), np.ones(cells)
    if family == "binomial":
        return family, rng.normal(size=cells), np.full(cells, 9.0)
    return family, np.zeros(cells), np.ones(cells)


def noisy_table(case: Case, kind: str, rng: np.random.Generator) -> NoiseTerm:
    """Integer noisy answers of every cell."""
    cells = case.frame.size
    values = case.table.reshape(-1) + rng.integers(-2, 3, cells)
    return NoiseTerm(
        Identity(case.frame), values.astype(float), kind, np.asarray(LAWS[kind]), np.ones(cells, dtype=bool)
    )


def combinations():
    for name, case in CASES.items():
        for kind in LAWS:
            for prior in PRIORS:
                if prior.startswith("dirichlet") and not case.fixed_sum:
                    continue  # its weights alone have infinite mass where the sum is free
                yield pytest.param(name, kind, prior, id=f"{name}-{kind}-{prior}")


def check(target: Target, theta, shape, case: Case, seed: int, draws: int = 2000, start=None) -> None:
    tables, probability = exact_posterior(target, theta, shape, case.finite_part)
    thin = max(40, 6 * case.frame.size)
    found = p_values(run(target, theta, shape, draws, thin, seed, start), tables, probability)
    assert min(found) > LEVEL, found


@pytest.mark.parametrize(("name", "kind", "prior"), list(combinations()))
def test_posterior_on_the_fiber(name, kind, prior):
    case = CASES[name]
    rng = np.random.default_rng(abs(hash_of(name, kind, prior)))
    family, theta, shape = prior_of(prior, case.frame.size, rng)
    check(Target(case.fiber, (noisy_table(case, kind, rng),), family), theta, shape, case, seed=7)


def hash_of(*words: str) -> int:
    """A seed from words, the same in every run (unlike `hash`)."""
    return sum((i + 1) * ord(c) for i, c in enumerate("|".join(words)))


def several_queries(case: Case, rng: np.random.Generator) -> tuple[NoiseTerm, ...]:
    """Everything at once: two noisy versions of the cells (one with holes), noisy margins, a noisy total, real-valued."""
    frame, cells = case.frame, case.frame.size
    identity, margin, total = Identity(frame), Margins(frame, [frame.dims[0]]), Totals(frame)
    flat = case.table.reshape(-1)
    some = np.arange(cells) % 2 == 0
    every_row, one_row = np.ones(margin.rows, dtype=bool), np.ones(1, dtype=bool)
    return (
        NoiseTerm(identity, flat + rng.normal(size=cells), "l1", rng.uniform(0.1, 0.5, cells), some),
        NoiseTerm(identity, flat + 1.5, "l1", np.asarray(0.2), np.ones(cells, dtype=bool)),
        NoiseTerm(identity, flat + rng.normal(size=cells), "gaussian", rng.uniform(1, 4, cells), ~some),
        NoiseTerm(identity, flat + rng.normal(size=cells), "l2", np.asarray(0.3), some),
        NoiseTerm(margin, margin.apply(case.table).reshape(-1) + 0.7, "gaussian", np.asarray(2.5), every_row),
        NoiseTerm(margin, margin.apply(case.table).reshape(-1) - 1.0, "l2", np.asarray(0.2), every_row),
        NoiseTerm(total, np.array([case.table.sum() + 3.25]), "l1", np.asarray(0.15), one_row),
    )


@pytest.mark.parametrize("prior", ["poisson", "flat", "negbin 0.1", "binomial"])
@pytest.mark.parametrize("name", CASES)
def test_several_noisy_queries_at_once(name, prior):
    case = CASES[name]
    rng = np.random.default_rng(hash_of(name, prior))
    family, theta, shape = prior_of(prior, case.frame.size, rng)
    check(Target(case.fiber, several_queries(case, rng), family), theta, shape, case, seed=8)


def in_coordinates(case: Case, kind: str, rng: np.random.Generator) -> NoiseTerm:
    """Noise that is a product in coordinates of its own: any real combinations of the cells."""
    rows = rng.normal(size=(case.frame.size - 1, case.frame.size))
    values = rows @ case.table.reshape(-1) + rng.normal(size=len(rows))
    scale = np.asarray(LAWS[kind])
    return NoiseTerm(Identity(case.frame), values, kind, scale, np.ones(len(rows), dtype=bool), rows)


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("prior", ["poisson", "negbin 0.1"])
@pytest.mark.parametrize("name", CASES)
def test_noise_in_coordinates_of_its_own(name, prior, kind):
    case = CASES[name]
    rng = np.random.default_rng(hash_of(name, prior, kind))
    family, theta, shape = prior_of(prior, case.frame.size, rng)
    check(Target(case.fiber, (in_coordinates(case, kind, rng),), family), theta, shape, case, seed=13)


@pytest.mark.parametrize("prior", ["poisson", "negbin 0.1"])
@pytest.mark.parametrize(
    "name", ["2x3", "disjoint totals", "structural zeros", "3x3x3, two-way margins", "inequalities"]
)
def test_without_noise_the_prior_on_the_fiber(name, prior):
    case = CASES[name]
    family, theta, shape = prior_of(prior, case.frame.size, np.random.default_rng(hash_of(name, prior)))
    check(Target(case.fiber, (), family), theta, shape, case, seed=9)


def test_shapes_on_both_sides_of_one():
    # One shape below 1 sends the whole table the general way; the cells with larger shapes have a mode of their own.
    case = CASES["3x3"]
    rng = np.random.default_rng(11)
    theta, shape = np.log(rng.uniform(0.3, 0.9, 9)), np.array([0.1, 3, 1, 0.5, 8, 0.2, 1, 2, 0.9])
    check(Target(case.fiber, (noisy_table(case, "l1", rng),), "negbin"), theta, shape, case, seed=10)


def test_an_unbounded_direction_may_pass_a_valley():
    # Two cells with a known difference: one is all but sure to be zero, the other has its mode far away.
    case = CASES["unbounded pair"]
    theta, shape = np.log([0.97, 0.97]), np.array([6.0, 0.001])
    target = Target(case.fiber, (), "negbin")
    wide = Fiber.of([*case.exact, Exact(case.window[0].query, [700], "<=")], case.frame)
    tables, probability = exact_posterior(target, theta, shape, wide)
    assert 0.05 < probability[tables[:, 1] == 0].sum() < 0.5
    found = p_values(run(target, theta, shape, 2000, 60, 12), tables, probability)
    assert min(found) > LEVEL, found


def test_the_isolated_fiber_is_crossed():
    case = CASES["3x3x3, isolated"]
    assert len(enumerate_fiber(case.fiber)) == 2
    assert case.fiber.moves.proved
    chain = Chain(Target(case.fiber, (), "poisson"), np.random.default_rng(1))
    chain.set_prior(np.zeros(27), np.ones(27))
    chain.load(case.table.reshape(-1))
    visits = set()
    for _ in range(200):
        chain.sweep(50)
        visits.add(tuple(chain.counts.tolist()))
    assert len(visits) == 2


def test_long_run_without_thinning_has_the_right_mean():
    # Complements the chi-square tests of thinned chains: 400,000 moves, batch means, 5 standard errors (6e-7 a cell).
    case = CASES["3x3"]
    rng = np.random.default_rng(3)
    family, theta, shape = prior_of("poisson", 9, rng)
    target = Target(case.fiber, (noisy_table(case, "l1", rng),), family)
    tables, probability = exact_posterior(target, theta, shape)
    draws = run(target, theta, shape, 40_000, 10, 4).astype(float)
    batches = draws.reshape(200, 200, 9).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(200)
    np.testing.assert_array_less(np.abs(batches.mean(axis=0) - probability @ tables), 5 * error)
