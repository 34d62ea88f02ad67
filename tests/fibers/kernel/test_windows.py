"""Tabulated log-masses in the kernel against enumeration: concave and not, with ends, gaps and slopes.

False alarms: two tests a case at `harness.LEVEL`; see there.
"""

import numpy as np
import pytest

from bayesdp import Exact, Identity, Margins, Totals
from bayesdp.fibers import Fiber, LogMassWindows, NoiseTerm, Target
from bayesdp.fibers.windows import bent, spread_of_windows
from tests.fibers.harness import LEVEL, exact_posterior, p_values, run, tabulated
from tests.refusals import refused

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
