"""Random and conventional rounding: probabilities typed by hand, moments by formula, words and numbers that are refused."""

from __future__ import annotations

import numpy as np
import pytest

from bayesdp.noise import ConventionalRounding, RandomRounding, TransitionTable, parse_law

VALUES = np.arange(0, 60)


def masses(law, x: int) -> dict[int, float]:
    """What may be published for a count, with its probability."""
    mass = np.exp(law.log_each(VALUES, x))
    return {int(y): round(float(mass[y]), 12) for y in VALUES[mass > 0]}


def test_base_3_is_that_of_stats_nz() -> None:
    """To the nearest multiple with probability 2/3."""
    two, one = round(2 / 3, 12), round(1 / 3, 12)
    for law in (RandomRounding(3), RandomRounding(3, [1 / 3, 2 / 3])):
        assert masses(law, 0) == {0: 1.0}
        assert masses(law, 1) == {0: two, 3: one}
        assert masses(law, 2) == {0: one, 3: two}
        assert masses(law, 3) == {3: 1.0}
        assert masses(law, 16) == {15: two, 18: one}
        assert masses(law, 17) == {15: one, 18: two}


def test_base_5_is_unbiased_unless_probabilities_are_given() -> None:
    assert masses(RandomRounding(5), 13) == {10: 0.4, 15: 0.6}
    assert masses(RandomRounding(5, [0.1, 0.2, 0.8, 1.0]), 13) == {10: 0.2, 15: 0.8}
    assert masses(RandomRounding(5, [0.1, 0.2, 0.8, 1.0]), 14) == {15: 1.0}


@pytest.mark.parametrize("base", [2, 3, 5, 10, 1000])
def test_moments_of_unbiased_rounding_are_r_times_base_minus_r(base: int) -> None:
    counts = np.arange(3 * base + 1)
    law, rest = RandomRounding(base), counts % base
    np.testing.assert_allclose(law.mean(counts), counts, atol=1e-9)
    np.testing.assert_allclose(law.variance(counts.shape, location=counts), rest * (base - rest), rtol=1e-9)
    np.testing.assert_allclose(law.bias(counts), 0.0, atol=1e-9)


def test_conventional_rounding_is_that_of_hand() -> None:
    for base, ties, expected in (
        (3, "up", [0, 0, 3, 3, 3, 6, 6]),
        (4, "up", [0, 0, 4, 4, 4, 4, 8]),
        (4, "down", [0, 0, 0, 4, 4, 4, 4]),
        (4, "even", [0, 0, 0, 4, 4, 4, 8, 8, 8, 8, 8, 12, 12]),
        (2, "even", [0, 0, 2, 4, 4, 4, 6, 8]),
    ):
        law = ConventionalRounding(base, ties)
        counts = np.arange(len(expected))
        assert law.draw(1, counts.shape, location=counts).tolist() == expected
        assert law.logp(expected, counts) == 0.0
        np.testing.assert_array_equal(law.variance(counts.shape, location=counts), 0.0)


def test_rounding_is_a_table_by_residue() -> None:
    law = RandomRounding(3)
    table = TransitionTable.by_count({0: {0: 1.0}, 1: {-1: 2 / 3, 2: 1 / 3}, 2: {-2: 1 / 3, 1: 2 / 3}}, period=3)
    y, x = np.meshgrid(np.arange(-3, 30), np.arange(30))
    np.testing.assert_allclose(np.exp(law.log_each(y, x)), np.exp(table.log_each(y, x)), atol=1e-15)


def test_words_stand_for_probabilities() -> None:
    assert (
        parse_law("random-rounding base=5 probabilities=unbiased") == RandomRounding(5, "unbiased") == RandomRounding(5)
    )
    nearest = RandomRounding.from_description({"law": "random-rounding", "base": 5, "probabilities": "nearest"})
    assert nearest == RandomRounding(5, [1 / 3, 1 / 3, 2 / 3, 2 / 3])
    assert parse_law("random-rounding base=5 probabilities=nearest") == nearest


def test_laws_are_read_from_the_command_line() -> None:
    assert parse_law("random-rounding base=3") == RandomRounding(3)
    assert parse_law("random-rounding base=3 probabilities=0.25:0.5") == RandomRounding(3, [0.25, 0.5])
    assert parse_law("random-rounding base=2 probabilities=0.25") == RandomRounding(2, [0.25])
    assert parse_law("conventional-rounding base=10 ties=even") == ConventionalRounding(10, "even")
    for law in (RandomRounding(3, [0.1, 0.7]), ConventionalRounding(4)):
        assert parse_law(str(law)) == law


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: RandomRounding(1), "base must be a whole number from 2 to 1000, got 1"),
        (lambda: RandomRounding(3, [0.5]), "one number for each remainder from 1 to 2 by the base 3, got 1"),
        (lambda: RandomRounding(3, [0.5, 1.5]), "that of the remainder 2 is 1.5"),
        (lambda: RandomRounding(3, [0.5, -0.5]), "that of the remainder 2 is -0.5"),
        (lambda: RandomRounding(3, "best"), "probabilities must be one of 'unbiased', 'nearest'"),
        (lambda: RandomRounding(4, "nearest"), "must not be 'nearest' for a base with a middle, got base 4"),
        (lambda: RandomRounding(3, [True, 0.5]), "must hold numbers, not True or False"),
        (lambda: ConventionalRounding(4, "away"), "ties must be one of 'up', 'down', 'even'"),
        (lambda: parse_law("random-rounding base=2.5"), "base must be a positive integer"),
    ],
    ids=["base", "few", "above", "below", "word", "middle", "truth", "ties", "fraction"],
)
def test_parameters_that_are_none_are_refused(make, says: str) -> None:
    with pytest.raises((ValueError, TypeError), match=says):
        make()


def test_a_single_count_gives_a_single_number() -> None:
    law = RandomRounding(3)
    assert law.draw(1, (), location=6).shape == ()
    assert int(law.draw(1, (), location=6)) == 6
    assert law.draw(1, (), 2, location=6).tolist() == [6, 6]
