"""The kernel against enumeration: every kind of fiber, every noise law, every prior family.

False alarms: two tests a case at `harness.LEVEL`; all together below 1% (see there).
"""

from __future__ import annotations

import numpy as np
import pytest

from bayesdp.fibers import Fiber, NoiseTerm, Target
from bayesdp.measurements import Exact
from bayesdp.queries import Identity, Margins, Totals
from tests.fibers.cases import CASES, Case
from tests.fibers.harness import LEVEL, exact_posterior, p_values, run

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


def check(target: Target, theta, shape, case: Case, seed: int) -> None:
    tables, probability = exact_posterior(target, theta, shape, case.finite_part)
    thin = max(40, 6 * case.frame.size)
    found = p_values(run(target, theta, shape, 2000, thin, seed), tables, probability)
    assert min(found) > LEVEL, found


def in_turn(start: int, kinds: tuple[str, ...] = tuple(LAWS)) -> list[tuple[str, str, str]]:
    """Every case with every prior, and with the kinds of noise in turn: each pair of a prior and a kind meets several cases."""
    found = []
    for i, (name, case) in enumerate(CASES.items()):
        for j, prior in enumerate(PRIORS):
            kind = kinds[(i + j + start) % len(kinds)]
            if case.fixed_sum or not (
                prior.startswith("dirichlet") or kind == "none"
            ):  # else of infinite mass, or nearly so
                found.append((name, kind, prior))
    return found


@pytest.mark.parametrize(("name", "kind", "prior"), in_turn(0, (*LAWS, "none")))
def test_posterior_on_the_fiber(name, kind, prior):
    case = CASES[name]
    rng = np.random.default_rng(hash_of(name, kind, prior))
    family, theta, shape = prior_of(prior, case.frame.size, rng)
    terms = () if kind == "none" else (noisy_table(case, kind, rng),)
    check(Target(case.fiber, terms, family), theta, shape, case, seed=7)


@pytest.mark.system
@pytest.mark.parametrize(("name", "kind", "prior"), [*in_turn(1), *in_turn(2)])
def test_posterior_on_the_fiber_with_the_other_laws(name, kind, prior):
    test_posterior_on_the_fiber(name, kind, prior)


SEVERAL = [
    (name, kind, prior)
    for name, kind, prior in in_turn(0, ("several", *LAWS))[::3]
    if prior != "flat"
    or kind == "several"
    or CASES[name].fixed_sum  # else of infinite mass: one coordinate has no noise
]


@pytest.mark.parametrize(("name", "kind", "prior"), SEVERAL)
def test_several_noisy_queries_and_noise_in_coordinates_of_its_own(name, kind, prior):
    case = CASES[name]
    rng = np.random.default_rng(hash_of(name, prior, kind))
    family, theta, shape = prior_of(prior, case.frame.size, rng)
    terms = several_queries(case, rng) if kind == "several" else (in_coordinates(case, kind, rng),)
    check(Target(case.fiber, terms, family), theta, shape, case, seed=8)


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


def in_coordinates(case: Case, kind: str, rng: np.random.Generator) -> NoiseTerm:
    """Noise that is a product in coordinates of its own: any real combinations of the cells."""
    rows = rng.normal(size=(case.frame.size - 1, case.frame.size))
    values = rows @ case.table.reshape(-1) + rng.normal(size=len(rows))
    scale = np.asarray(LAWS[kind])
    return NoiseTerm(Identity(case.frame), values, kind, scale, np.ones(len(rows), dtype=bool), rows)


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
