"""The kernel against enumeration: every kind of fiber, every law, every prior family, tabulated log-masses; and what it writes to.

False alarms: two tests a case at `harness.LEVEL`; all together below 1% (see there).
"""

import numpy as np
import pytest

from bayesdp import Exact, Identity, Margins, Totals
from bayesdp.fibers import Chain, Fiber, LogMassWindows, NoiseTerm, Target
from bayesdp.fibers.kernel import state
from bayesdp.fibers.windows import bent, spread_of_windows
from tests.fibers.cases import CASES
from tests.fibers.harness import LEVEL, exact_posterior, p_values, run, tabulated
from tests.refusals import refused

LAWS = {"l1": 0.3, "l2": 0.4, "gaussian": 2.0}
PRIORS = ("poisson", "flat", "negbin 2.5", "negbin 0.1", "binomial", "dirichlet-multinomial 0.1")


def prior_of(name, cells, rng):
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


def term(query, values, kind, scale, measured=None, coordinates=None):
    measured = np.ones(len(values), dtype=bool) if measured is None else measured
    return NoiseTerm(query, np.asarray(values, dtype=float), kind, np.asarray(scale), measured, coordinates)


def noisy_table(case, kind, rng):
    """Integer noisy answers of every cell."""
    values = case.table.reshape(-1) + rng.integers(-2, 3, case.frame.size)
    return term(Identity(case.frame), values, kind, LAWS[kind])


def check(target, theta, shape, case, seed, window=None):
    tables, probability = exact_posterior(target, theta, shape, window or case.finite_part)
    thin = max(80 if np.min(shape) < 1.0 else 40, 6 * case.frame.size)  # several modes mix slowly
    found = p_values(run(target, theta, shape, 1_000, thin, seed), tables, probability)
    assert min(found) > LEVEL, found
    return tables, probability


def in_turn(start, kinds=tuple(LAWS)):
    """Every case with every prior, and with the kinds of noise in turn: each pair of a prior and a kind meets several cases."""
    found = []
    for i, (name, case) in enumerate(CASES.items()):
        for j, prior in enumerate(PRIORS):
            kind = kinds[(i + j + start) % len(kinds)]
            # Else of infinite mass, or nearly so.
            if case.fixed_sum or not (prior.startswith("dirichlet") or kind == "none"):
                found.append((name, kind, prior))
    return found


FAST = in_turn(0, (*LAWS, "none"))


def hash_of(*words):
    """A seed from words, the same in every run (unlike `hash`)."""
    return sum((i + 1) * ord(c) for i, c in enumerate("|".join(words)))


@pytest.mark.parametrize(
    ("name", "kind", "prior"),
    [*FAST, *(pytest.param(*own, marks=pytest.mark.system) for own in in_turn(1) + in_turn(2) if own not in FAST)],
)
def test_posterior_on_the_fiber(name, kind, prior):
    case = CASES[name]
    rng = np.random.default_rng(hash_of(name, kind, prior))
    family, theta, shape = prior_of(prior, case.frame.size, rng)
    terms = () if kind == "none" else (noisy_table(case, kind, rng),)
    check(Target(case.fiber, terms, family), theta, shape, case, seed=7)


def several_queries(case, rng):
    """Everything at once: two noisy versions of the cells (one with holes), noisy margins, a noisy total, real-valued."""
    frame, flat, cells = case.frame, case.table.reshape(-1), case.frame.size
    identity, margin, some = Identity(frame), Margins(frame, [frame.dims[0]]), np.arange(cells) % 2 == 0
    sums = margin.apply(case.table).reshape(-1)
    return (
        term(identity, flat + rng.normal(size=cells), "l1", rng.uniform(0.1, 0.5, cells), some),
        term(identity, flat + 1.5, "l1", 0.2),
        term(identity, flat + rng.normal(size=cells), "gaussian", rng.uniform(1, 4, cells), ~some),
        term(identity, flat + rng.normal(size=cells), "l2", 0.3, some),
        term(margin, sums + 0.7, "gaussian", 2.5),
        term(margin, sums - 1.0, "l2", 0.2),
        term(Totals(frame), [case.table.sum() + 3.25], "l1", 0.15),
    )


def in_coordinates(case, kind, rng):
    """Noise that is a product in coordinates of its own: any real combinations of the cells."""
    rows = rng.normal(size=(case.frame.size - 1, case.frame.size))
    values = rows @ case.table.reshape(-1) + rng.normal(size=len(rows))
    return term(Identity(case.frame), values, kind, LAWS[kind], None, rows)


@pytest.mark.parametrize(("name", "kind", "prior"), in_turn(0, ("several", *LAWS))[::3])
def test_several_noisy_queries_and_noise_in_coordinates_of_its_own(name, kind, prior):
    case = CASES[name]
    if prior == "flat" and kind != "several" and not case.fixed_sum:
        return  # of infinite mass: one coordinate has no noise
    rng = np.random.default_rng(hash_of(name, prior, kind))
    family, theta, shape = prior_of(prior, case.frame.size, rng)
    terms = several_queries(case, rng) if kind == "several" else (in_coordinates(case, kind, rng),)
    check(Target(case.fiber, terms, family), theta, shape, case, seed=8)


@pytest.mark.parametrize("kind", ["l1", "l2"])
def test_the_kernel_writes_to_what_its_state_says_and_to_nothing_else(kind):
    case = CASES["3x3"]
    target = Target(case.fiber, (noisy_table(case, kind, np.random.default_rng(1)),), "poisson")
    chain = Chain(target, np.random.default_rng(2))
    chain.set_prior(np.zeros(9), np.ones(9))
    chain.load(case.table.reshape(-1))
    before = chain.state._replace(**{name: np.copy(own) for name, own in chain.state._asdict().items()})
    assert chain.sweep(200) > 0
    written = {"cells_int": [state.X], "rows": [state.VALUE], "groups": [state.SQUARED, state.ALONG, state.ACROSS]}
    for name, new in chain.state._asdict().items():
        same = np.asarray(new == getattr(before, name))
        if name not in ("generator", "scratch_int", "scratch_float"):
            assert (np.delete(same, written[name], axis=1) if name in written else same).all(), name
        if name in ("generator", "cells_int", *(("rows", "groups") if kind == "l2" else ())):
            assert not same.all(), name
    if kind == "l2":
        np.testing.assert_array_equal(chain.state.rows[:, state.VALUE], chain.counts)
        squares = (chain.counts - chain.state.rows[:, state.NOISY]) ** 2
        assert chain.state.groups[0, state.SQUARED] == pytest.approx(squares.sum())


def test_shapes_on_both_sides_of_one_and_an_unbounded_direction_that_passes_a_valley():
    # One shape below 1 sends the whole table the general way; the cells with larger shapes have a mode of their own.
    case = CASES["3x3"]
    rng = np.random.default_rng(11)
    theta, shape = np.log(rng.uniform(0.3, 0.9, 9)), np.array([0.1, 3, 1, 0.5, 8, 0.2, 1, 2, 0.9])
    check(Target(case.fiber, (noisy_table(case, "l1", rng),), "negbin"), theta, shape, case, seed=10)
    # Two cells with a known difference: one is all but sure to be zero, the other has its mode far away.
    case = CASES["unbounded pair"]
    theta, shape = np.log([0.97, 0.97]), np.array([6.0, 0.001])
    target = Target(case.fiber, (), "negbin")
    wide = Fiber.of([*case.exact, Exact(case.window[0].query, [700], "<=")], case.frame)
    tables, probability = check(target, theta, shape, case, 12, wide)
    assert 0.05 < probability[tables[:, 1] == 0].sum() < 0.5


FRAME = Identity({"a": ["x", "y"], "b": ["u", "v"]}).frame


def windows_around(truth, shape, rng):
    """A window for each true answer, in a table of its own."""
    pieces, low = [], []
    for value in truth:
        width = int(rng.integers(2, 4))
        place = np.arange(-width, width + 1)
        log_mass = -0.3 * place**2 + 0.2 * place
        if shape == "two humps":
            log_mass = np.where(place == 0, -4.0, rng.normal(size=len(place)))
        if shape == "gaps":
            log_mass = np.where(place % 2 == 0, -np.inf, rng.normal(size=len(place)))
            log_mass[[0, -1]] = rng.normal(size=2)
            log_mass[width] = 0.4  # the true answer itself, so that the true table is possible
        low.append(int(value) - width)
        pieces.append(log_mass)
    length = np.array([len(own) for own in pieces])
    below, above = np.full((2, len(low)), -np.inf)
    if shape in ("sloped", "one side open"):
        below[:], above[:] = rng.uniform(-1.5, -0.5, (2, len(low)))
    if shape == "one side open":
        above[:] = 0.0
        below[0] = -np.inf
    return LogMassWindows(np.array(low), np.cumsum(length) - length, length, np.concatenate(pieces), below, above)


def fiber_within(frame, terms, exact=()):
    """What `bayesdp.steps.reading` does with the ends of windows."""
    lower, upper = [], []
    for term in terms:
        w, wide = term.windows, 2**53
        lower.append((term.query, np.where(np.isneginf(w.below), w.low, -wide)))
        upper.append((term.query, np.where(np.isneginf(w.above), w.low + w.length - 1, wide)))
    base = Fiber.of(list(exact), frame)
    return Fiber(base.frame, base.equalities, tuple(lower), tuple(upper))


@pytest.mark.parametrize("shape", ["concave", "two humps", "gaps", "sloped", "one side open"])
@pytest.mark.parametrize(("prior", "with_total"), [("poisson", False), ("negbin", False), ("negbin", True)])
def test_windows_of_cells_and_sums_have_the_exact_posterior(shape, prior, with_total):
    truth, terms = np.array([2, 1, 0, 4]), []
    rng = np.random.default_rng(sum(map(ord, shape + prior)) + with_total)
    for query in (Identity(FRAME), Margins(FRAME, ["a"])):
        own, n = windows_around(query.apply(truth.reshape(2, 2)).reshape(-1), shape, rng), query.rows
        terms.append(NoiseTerm(query, np.zeros(n), "windows", spread_of_windows(own), np.ones(n, bool), windows=own))
    fiber = fiber_within(FRAME, terms, [Exact(Totals(FRAME), int(truth.sum()))] if with_total else [])
    theta = np.log(rng.uniform(0.2, 0.35, 4))  # beyond 13, where the enumeration ends, there is a share of 1e-6
    parameters = np.full(4, 0.6) if prior == "negbin" else np.ones(4)
    target = Target(fiber, tuple(terms), prior, open=shape == "gaps")
    at_most = (*fiber.bounds_above, (Identity(FRAME), np.full(4, 13)))
    window = Fiber(fiber.frame, fiber.equalities, fiber.bounds_below, at_most)
    tables, probability = exact_posterior(target, theta, parameters, window)
    possible = probability > 0.0
    drawn = run(target, theta, parameters, 1500, 40, 5, truth)
    assert min(p_values(drawn, tables[possible], probability[possible])) > LEVEL


def test_which_windows_are_not_concave_and_their_spread_is_that_of_the_law():
    log_mass = np.array([-1.0, 0.0, -1.0, -3.0, -1.0, 0.0, -np.inf, -1.0])
    start, length = np.array([0, 0, 4, 0]), np.array([3, 5, 4, 3])
    below, above = np.array([-np.inf, -np.inf, -np.inf, -2.0]), np.array([-np.inf, -np.inf, -np.inf, -0.5])
    windows = LogMassWindows(np.zeros(4, int), start, length, log_mass, below, above)
    assert bent(windows).tolist() == [False, True, True, True]
    below, above = np.array([[-np.inf, -0.7, 0.0], [-np.inf, -0.4, -np.inf]])
    windows = LogMassWindows(np.full(3, 4), np.zeros(3, int), np.full(3, 3), np.log([0.2, 0.5, 0.3]), below, above)
    place = np.arange(-400, 401)
    sloped = np.exp([tabulated(windows, 1, int(v)) for v in place])
    expected = [0.49, float(np.cov(place, aweights=sloped, ddof=0)), np.inf]
    assert np.square(spread_of_windows(windows)) == pytest.approx(expected)


def _one(**change):
    good = {"low": [1], "start": [0], "length": [3], "log_mass": [0.0] * 3, "below": [-1.0], "above": [-1.0]}
    return LogMassWindows(**{name: np.array(own) for name, own in (good | change).items()})


test_bad_windows_are_refused = refused(
    (lambda: _one(length=[0]), "length of at least 1"),
    (lambda: _one(start=[2]), "lie within log_mass"),
    (lambda: _one(log_mass=[0.0, 0.0, -np.inf]), "finite at both ends"),
    (lambda: _one(above=[0.1]), "at most 0"),
    (lambda: _one(low=[1, 2]), "one shape"),
)
