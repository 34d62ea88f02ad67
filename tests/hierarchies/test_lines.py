"""Draws along lines against their weights, short and long, with and without noise."""

import numpy as np
import pytest
from scipy.special import gammaln

from bayesdp._numba import seed_state
from bayesdp.hierarchies.kernel.moves import draw_many, draw_pair, draw_square
from tests.comparison.chi_square import chi_square_pvalue
from tests.comparison.enumeration import probabilities

DRAWS, WEIGHTS = 10_000, np.zeros(4096)


def _law(counts, entries, alphas, steps, a, b, end=1.0):
    """The law of the step along a line, by logarithms."""
    cells = np.asarray(counts)[:, None] + np.asarray(entries)[:, None] * steps
    logs = (gammaln(cells + np.asarray(alphas)[:, None]) - gammaln(cells + 1)).sum(axis=0)
    logs += b * steps - 0.5 * a * steps**2
    logs[[0, -1]] += np.log(end)
    return probabilities(logs)


@pytest.mark.parametrize(
    ("total", "shapes", "a", "centre"),
    [  # short, long, long and at an end, without noise
        (7, (0.4, 2.0), 0.3, 2.0),
        (900, (0.3, 0.3), 0.01, 30.0),
        (900, (0.05, 3.0), 0.002, 880.0),
        (300, (1.0, 1.0), 0.0, 0.0),
    ],
)
@pytest.mark.parametrize("end", [1.0, 0.2])
def test_repeated_draws_along_one_line(total, shapes, a, centre, end):
    """From exact draws of the line, one draw each: windows that depended on the table would show."""
    rng = np.random.default_rng(5)
    law = _law((0, total), (1, -1), shapes, np.arange(total + 1), a, a * centre, end)
    state, after = seed_state(rng), np.zeros(total + 1)
    for x in rng.choice(total + 1, size=DRAWS, p=law).tolist():
        noise = (a, a * (centre - x), end)
        after[x + draw_pair(state, WEIGHTS, x, shapes[0], total - x, shapes[1], 1.0, -x, total - x, *noise)] += 1
    assert chi_square_pvalue(after, DRAWS * law) > 1e-5


def test_weights_that_overflow_are_worked_out_by_logarithms_and_entries_of_two():
    """A slope of 40 a count: weights of e^4000 and more."""
    state = seed_state(np.random.default_rng(1))
    drawn = [draw_pair(state, WEIGHTS, 0, 1.0, 100, 1.0, 1.0, 0, 100, 0.0, 40.0, 1.0) for _ in range(50)]
    assert set(drawn) == {100}
    # Points whose weights are 0 or too large as numbers, next to two that share nearly all of the probability.
    law = _law((0, 60), (1, -1), (0.5, 2.0), np.arange(61), 1e4, 1e4 * 20.5)
    state = seed_state(np.random.default_rng(3))
    drawn = [draw_pair(state, WEIGHTS, 21, 0.5, 39, 2.0, 1.0, -21, 39, 1e4, -0.5e4, 1.0) for _ in range(DRAWS)]
    after = np.bincount(21 + np.array(drawn), minlength=61)
    assert law[[20, 21]].sum() > 0.999999
    assert chi_square_pvalue(after[[20, 21]], DRAWS * law[[20, 21]]) > 1e-5
    # A direction that takes two counts a step from one cell and adds one to another.
    steps, state = np.arange(5), seed_state(np.random.default_rng(2))
    line = np.array([1, 8]), np.array([1, -2]), np.array([0.5, 1.5])
    after = np.bincount([draw_many(state, WEIGHTS, *line, 2, 1.0, 0, 4, 0.4, 0.0) for _ in range(DRAWS)], minlength=5)
    assert chi_square_pvalue(after, DRAWS * _law(*line, steps, 0.4, 0.0)) > 1e-5


@pytest.mark.parametrize(
    ("counts", "shapes", "a", "b"),
    [
        ((3, 5, 6, 2), (0.4, 2.0, 0.1, 0.3), 0.3, 0.7),
        ((40, 70, 55, 12), (0.1, 0.1, 0.1, 0.1), 0.04, -0.2),  # longer than its window
        ((3, 5, 6, 2), (0.4, 2.0, 0.1, 0.3), 1000.0, 2500.0),  # weights of e^3125: by logarithms
    ],
)
def test_draws_along_a_square(counts, shapes, a, b):
    """From exact draws of the line, one draw each: the four cells all have their own count and shape."""
    rng = np.random.default_rng(7)
    x, alphas, entries = np.array(counts), np.array(shapes), np.array([1, -1, -1, 1])
    low, high = -min(counts[0], counts[3]), min(counts[1], counts[2])
    steps = np.arange(low, high + 1)
    law, state, after = _law(x, entries, alphas, steps, a, b), seed_state(rng), np.zeros(len(steps))
    for k in rng.choice(steps, size=DRAWS, p=law):
        step = draw_square(state, WEIGHTS, x + entries * k, entries, alphas, 1.0, low - k, high - k, a, b - a * k)
        after[k + step - low] += 1
    assert chi_square_pvalue(after, DRAWS * law) > 1e-5
