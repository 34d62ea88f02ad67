"""Tables p(y | x) and rounding: log-mass against rows typed by hand, windows, draws, moments, and what is refused."""

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.noise import ConventionalRounding, RandomRounding, TransitionTable, parse_law
from tests.comparison.chi_square import chi_square_pvalue
from tests.noise.perturbed.records import FULL
from tests.refusals import refused

NEAR, FAR = {-1: 0.4, 0: 0.3, 1: 0.2, 2: 0.1}, {-2: 0.1, -1: 0.25, 0: 0.3, 1: 0.25, 2: 0.1}
CAPPED = TransitionTable.by_count({0: {0: 1.0}, 1: NEAR, 2: {-2: 0.2, 0: 0.6, 2: 0.2}, 3: FAR})
RESIDUES = TransitionTable.by_count({0: {0: 1.0}, 1: {-1: 0.6, 2: 0.4}, 2: {-2: 0.5, 1: 0.5}}, period=3)
MIXED = TransitionTable.by_count({0: {3: 1.0}, 1: {0: 0.5, 9: 0.5}, 2: {-1: 1.0}, 3: {1: 0.25, 4: 0.75}}, period=2)
LAWS = {"capped": CAPPED, "residues": RESIDUES, "mixed": MIXED, "full": FULL}
BY_NAME = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)


def mass_by_hand(name, y, x):
    """p(y | x), from rows that are written once more."""
    if x < 0:
        return 0.0
    if name == "full":
        return {0: {-2: 0.5, 0: 0.5}, 1: {5: 1.0}, 2: {-2: 0.1, 0: 0.2, 5: 0.7}}.get(x, {}).get(y, 0.0)
    if name == "capped":
        first = {0: {0: 1.0}, 1: {0: 0.4, 1: 0.3, 2: 0.2, 3: 0.1}, 2: {0: 0.2, 2: 0.6, 4: 0.2}}
        return first[x].get(y, 0.0) if x in first else FAR.get(y - x, 0.0)
    if name == "residues":
        return [{0: 1.0}, {-1: 0.6, 2: 0.4}, {-2: 0.5, 1: 0.5}][x % 3].get(y - x, 0.0)
    if x < 2:
        return [{3: 1.0}, {1: 0.5, 10: 0.5}][x].get(y, 0.0)
    return ({-1: 1.0} if x % 2 == 0 else {1: 0.25, 4: 0.75}).get(y - x, 0.0)


@pytest.mark.parametrize("name", LAWS)
def test_the_log_mass_is_that_of_rows_typed_by_hand(name):
    y, x = np.meshgrid(np.arange(-8, 45), np.arange(-3, 40), indexing="ij")
    by_hand = np.array([mass_by_hand(name, int(a), int(b)) for a, b in zip(y.flat, x.flat, strict=True)])
    np.testing.assert_allclose(np.exp(LAWS[name].log_each(y, x)).reshape(-1), by_hand, atol=1e-15)
    assert by_hand.sum() > 2.9


@BY_NAME
def test_windows_are_the_log_mass_as_a_function_of_the_count(law):
    published = [y for y in range(-8, 60) if np.isfinite(law.log_each(y, np.arange(80))).any()]
    far = [] if law is FULL else [10**9 + r for r in range(3) if not law.refusals(np.array([10**9 + r]))]
    values = np.array([*published, *published[::-1], *far])
    got = law.windows(values)
    assert len(got.low) == len(values)
    assert np.isneginf([got.below, got.above]).all()
    for i, y in enumerate(values):
        counts = np.arange(-30, 31) + got.low[i] + got.length[i] // 2
        inside = (counts >= got.low[i]) & (counts < got.low[i] + got.length[i])
        assert inside.any()
        place = got.start[i] + np.where(inside, counts - got.low[i], 0)
        np.testing.assert_array_equal(np.where(inside, got.log_mass[place], -np.inf), law.log_each(y, counts))
        assert np.isfinite(got.log_mass[[got.start[i], got.start[i] + got.length[i] - 1]]).all()
    assert len(got.log_mass) < 400  # shared where rows repeat


@pytest.mark.parametrize("name", LAWS)
def test_draws_of_several_counts_at_once_and_moments_are_those_of_the_row_of_each(name):
    """Chi-square at 1e-6 for each of at most 16, seeds fixed; moments against sums over values by hand."""
    law, values = LAWS[name], np.arange(-10, 60)
    location = np.tile([0, 1, 2] if law is FULL else [0, 1, 2, 50], (4000, 1))
    drawn = law.draw(7, location.shape, location=location)
    assert drawn.dtype == np.int64
    for column, x in enumerate(location[0].tolist()):
        mass = np.array([mass_by_hand(name, y, x) for y in values.tolist()])
        observed, mean = np.bincount(drawn[:, column] + 10, minlength=70), mass @ values
        assert observed[mass == 0].sum() == 0
        assert mass.max() == 1.0 or chi_square_pvalue(observed, 4000 * mass) > 1e-6
        assert law.mean(x) == pytest.approx(mean)
        assert law.variance((1,), location=x) == pytest.approx(mass @ (values - mean) ** 2)
    assert law.variance((3,)) is None
    assert law.draw(3, (2,), 5, location=[1, 2]).shape == (5, 2)


def test_limits_are_the_ends_of_what_can_be_published():
    assert [own.limits for own in (FULL, CAPPED, MIXED)] == [(-2.0, 5.0), (0.0, np.inf), (1.0, np.inf)]
    assert int(RandomRounding(3).draw(1, (), location=6)) == 6


CELLS = bdp.Identity({"county": ["Alpha", "Beta", "Gamma"]})
NEVER_ZERO = TransitionTable.by_count({0: {3: 1.0}, 1: {2: 1.0}, 2: {1: 1.0}}, period=3)
TRIED = "county=Beta is 4, which no count leads to under the law .*: counts from 2 to 6 were tried"
NO_ZERO = "bounds of the law 'transition-table', 3 to inf, but county=Beta is 0"
test_what_is_no_law_or_count_is_refused = refused(
    (lambda: bdp.Measured(CELLS, [3, 4, 6], RESIDUES), TRIED),
    (lambda: bdp.Measured(CELLS, [3, 0, 6], NEVER_ZERO), NO_ZERO),
    (lambda: TransitionTable([0, 1], [[1, 0], [0.5, 0.4]]), "those of row x = 1 sum to 0.9"),
    (lambda: TransitionTable([0, 1], [[1, 0], [1.5, -0.5]]), "row x = 1 has 1.5"),
    (lambda: TransitionTable([0, 1], [[1, 0], [0.5, np.nan]]), "rows must be finite, but row x = 1"),
    (lambda: TransitionTable([0, 1], [[1, 0], [0.5]]), "rows must have 2 probabilities each"),
    (lambda: TransitionTable([1, 0], [[1, 0]]), "deviations must be increasing, but 0 comes after 1"),
    (lambda: TransitionTable([0, 0.5], [[1, 0]]), r"deviations must hold whole numbers, but 1 is 0\.5"),
    (lambda: TransitionTable([0, True], [[1, 0]]), "must hold numbers, not True or False"),
    (lambda: TransitionTable([0], [[1.0]], 2), "period must be at most the number of rows, 1"),
    (lambda: TransitionTable.by_count({0: {0: 1.0, True: 0}}), "must hold numbers, not True or False"),
    (lambda: TransitionTable.by_count({0: {0: 1.0}, 2: {0: 1.0}}), "the row of x = 1 is missing"),
    (lambda: TransitionTable.by_count([{0: 1.0}]), "rows must be a mapping"),
    (lambda: FULL.draw(1, (2,), location=[0, 3]), r"of at most 2, .* at position \(1,\) it is 3"),
    (lambda: CAPPED.draw(1, (2,), location=[0, 1.5]), r"at position \(1,\) it is 1.5"),
    (lambda: CAPPED.draw(1, (2,), location=-1), "location must be a count"),
    (lambda: RandomRounding(1), "base must be a whole number from 2 to 1000, got 1"),
    (lambda: RandomRounding(3, [0.5]), "one number for each remainder from 1 to 2 by the base 3, got 1"),
    (lambda: RandomRounding(3, [0.5, 1.5]), "that of the remainder 2 is 1.5"),
    (lambda: RandomRounding(3, [0.5, -0.5]), "that of the remainder 2 is -0.5"),
    (lambda: RandomRounding(3, "best"), "probabilities must be one of 'unbiased', 'nearest'"),
    (lambda: RandomRounding(4, "nearest"), "must not be 'nearest' for a base with a middle, got base 4"),
    (lambda: RandomRounding(3, [True, 0.5]), "must hold numbers, not True or False"),
    (lambda: ConventionalRounding(4, "away"), "ties must be one of 'up', 'down', 'even'"),
    (lambda: parse_law("random-rounding base=2.5"), "base must be a positive integer"),
)

THIRDS = {0: {0: 1.0}, 1: {0: 2 / 3, 3: 1 / 3}, 2: {0: 1 / 3, 3: 2 / 3}, 3: {3: 1.0}, 17: {15: 1 / 3, 18: 2 / 3}}
"""Base 3 as by Stats NZ: to the nearest multiple with probability 2/3."""


def test_rows_of_random_rounding_are_those_of_hand():
    given, unbiased = RandomRounding(5, [0.1, 0.2, 0.8, 1.0]), {13: {10: 0.4, 15: 0.6}}
    cases = [(RandomRounding(3), THIRDS), (RandomRounding(3, [1 / 3, 2 / 3]), THIRDS), (RandomRounding(5), unbiased)]
    for law, rows in [*cases, (given, {13: {10: 0.2, 15: 0.8}, 14: {15: 1.0}})]:
        for x, row in rows.items():
            expected = [row.get(y, 0.0) for y in range(60)]
            assert np.exp(law.log_each(np.arange(60), x)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("base", [2, 5, 1000])
def test_moments_of_unbiased_rounding_are_r_times_base_minus_r(base):
    counts = np.arange(3 * base + 1)
    law, rest = RandomRounding(base), counts % base
    np.testing.assert_allclose(law.mean(counts), counts, atol=1e-9)
    np.testing.assert_allclose(law.variance(counts.shape, location=counts), rest * (base - rest), rtol=1e-9)
    np.testing.assert_allclose(law.bias(counts), 0.0, atol=1e-9)


def test_words_and_lists_stand_for_probabilities():
    nearest = RandomRounding(5, [1 / 3, 1 / 3, 2 / 3, 2 / 3])
    for text, law in (
        ("random-rounding base=5 probabilities=unbiased", RandomRounding(5)),
        ("random-rounding base=5 probabilities=nearest", nearest),
        ("random-rounding base=3 probabilities=0.25:0.5", RandomRounding(3, [0.25, 0.5])),
        ("random-rounding base=2 probabilities=0.25", RandomRounding(2, [0.25])),
        ("conventional-rounding base=10 ties=even", ConventionalRounding(10, "even")),
    ):
        assert parse_law(text) == parse_law(str(law)) == law


def test_conventional_rounding_is_that_of_hand():
    for base, ties, expected in (
        (3, "up", [0, 0, 3, 3, 3, 6, 6]),
        (4, "up", [0, 0, 4, 4, 4, 4, 8]),
        (4, "down", [0, 0, 0, 4, 4, 4, 4]),
        (4, "even", [0, 0, 0, 4, 4, 4, 8, 8, 8, 8, 8, 12, 12]),
    ):
        law, counts = ConventionalRounding(base, ties), np.arange(len(expected))
        assert law.draw(1, counts.shape, location=counts).tolist() == expected
        assert law.logp(expected, counts) == 0.0
        np.testing.assert_array_equal(law.variance(counts.shape, location=counts), 0.0)
