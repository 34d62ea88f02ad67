"""Cell keys: tables of maximum entropy against SciPy's solver and closed forms, given tables, the 10-5 rule, files."""

import json

import numpy as np
import pytest
from scipy.optimize import minimize

from bayesdp.noise import CellKey, NoiseLaw, TransitionTable, parse_law, read_ptable
from bayesdp.noise.perturbed.cell_key import feasible_variances
from tests.noise.perturbed.records import ten_five_rule
from tests.refusals import refused


def row_of(law, x):
    """What may be published for a count."""
    y = np.arange(x + 40)
    mass = np.exp(law.log_each(y, x))
    return {int(own): float(p) for own, p in zip(y, mass, strict=True) if p > 0}


def solved(deviations, variance, *, at_most=False):
    """The same problem by a general solver, over the probabilities themselves; its variance is fixed, or at most so much."""
    found = minimize(
        lambda p: float(np.sum(p * np.log(np.maximum(p, 1e-300)))),
        np.full(len(deviations), 1.0 / len(deviations)),
        jac=lambda p: np.log(np.maximum(p, 1e-300)) + 1.0,
        bounds=[(1e-12, 1.0)] * len(deviations),
        constraints=[
            {"type": "eq", "fun": lambda p: p.sum() - 1.0},
            {"type": "eq", "fun": lambda p: p @ deviations},
            {"type": "ineq" if at_most else "eq", "fun": lambda p: variance - p @ deviations**2},
        ],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert found.status in (0, 8)  # 8: no step gains more than rounding loses, which depends on the processor
    return found.x


@pytest.mark.parametrize("x", [1, 2, 4, 7, 30])
@pytest.mark.parametrize(
    ("most", "variance", "least", "at_most"),
    [(5, 3.0, 0, False), (6, 4.5, 4, False), (3, 2.5, 3, True), (4, 5.0, 0, True), (5, 2.0, 0, True)],
)
def test_rows_are_those_of_a_general_solver(x, most, variance, least, at_most):
    stated = {"variance_at_most" if at_most else "variance": variance}
    law = CellKey(max_deviation=most, not_smaller_than=least, **stated)
    allowed = [y for y in range(max(x - most, 0), x + most + 1) if y == 0 or y >= least]
    assert set(row_of(law, x)) <= set(allowed)
    found = np.exp(law.log_each(allowed, x))
    np.testing.assert_allclose(found, solved(np.array(allowed) - x, variance, at_most=at_most), atol=3e-6)
    if at_most:
        assert found.min() > 1e-4  # nothing is left out, as under a variance that is fixed
        assert law.variance((), location=x) <= variance + 1e-9


@pytest.mark.parametrize(("most", "variance", "least"), [(2, 1.0, 0), (5, 3.0, 3), (9, 6.0, 5), (100, 400.0, 0)])
@pytest.mark.filterwarnings("ignore:variance 400 is the largest:UserWarning")
def test_moments_are_zero_and_the_variance(most, variance, least):
    law = CellKey(max_deviation=most, variance=variance, not_smaller_than=least)
    counts, v = np.arange(3 * most), np.arange(-most, most + 1)
    np.testing.assert_allclose(law.mean(counts), counts, atol=1e-8)
    feasible = [feasible_variances(v[(x + v == 0) | (x + v >= max(least, 1))]) for x in counts[1:]]
    stated = [0.0, *(np.clip(variance, *ends) for ends in feasible)]
    np.testing.assert_allclose(law.variance(counts.shape, location=counts), stated, atol=1e-8)
    rows = len(law.transitions.moments[1])
    np.testing.assert_allclose(law.transitions.moments[1], stated[:rows], atol=1e-8)
    np.testing.assert_allclose(stated[rows - 1 :], variance)  # from here on all counts have one row
    assert row_of(law, 0) == {0: 1.0}
    assert not any(0 < y < least for x in counts for y in row_of(law, int(x)))


def test_closed_forms():
    """D = 1 has ``V/2, 1 - V, V/2``; with three deviations the constraints leave no choice."""
    law = CellKey(max_deviation=1, variance=0.3)
    for x in (1, 2, 50):
        assert row_of(law, x) == pytest.approx({x - 1: 0.15, x: 0.7, x + 1: 0.15}, abs=1e-14)
    # From 1 with D = 2: -1, 0, 1, 2; V = 2 is the largest variance, on -1 and 2 alone.
    largest = r"the largest .* for the count 1, .*: p\(0 \| 1\) = 0.6667, p\(3 \| 1\) = 0.3333, and p\(1"
    with pytest.warns(UserWarning, match=largest):
        assert row_of(CellKey(max_deviation=2, variance=3.0), 1) == pytest.approx({0: 2 / 3, 3: 1 / 3})
    # 1 and 2 may not be published: 1 becomes 0 or 3 with a variance of 2 at the least, 2 becomes 0 or 3.
    small = CellKey(max_deviation=2, variance=1.0, not_smaller_than=3)
    assert row_of(small, 1) == pytest.approx({0: 2 / 3, 3: 1 / 3})
    assert row_of(small, 2) == pytest.approx({0: 1 / 3, 3: 2 / 3})
    assert small.transitions.moments[1][:3].tolist() == pytest.approx([0.0, 2.0, 2.0])
    # Uniform where nothing else is asked; on 0, 1, 2 with a mean square of 1: p_1 = q p_0, p_2 = q**4 p_0, q + 4 q**4 = 1 + q + q**4.
    law = CellKey(max_deviation=3, variance_at_most=9, zeros="perturbed")
    assert row_of(law, 30) == pytest.approx(dict.fromkeys(range(27, 34), 1 / 7))
    assert row_of(law, 0) == pytest.approx(dict.fromkeys(range(4), 1 / 4))
    q = (1 / 3) ** 0.25
    row = np.array([1.0, q, q**4]) / (1 + q + q**4)
    assert row_of(CellKey(max_deviation=2, variance=1.0, zeros="perturbed"), 0) == pytest.approx(dict(enumerate(row)))


def test_a_variance_for_each_count():
    law = CellKey(max_deviation=4, variance=[0, 1, 1.5, 2])
    np.testing.assert_allclose(law.variance((5,), location=[0, 1, 2, 3, 40]), [0, 1, 1.5, 2, 2], atol=1e-9)
    np.testing.assert_allclose(law.mean([0, 1, 2, 3, 40]), [0, 1, 2, 3, 40], atol=1e-9)
    assert row_of(law, 2) == pytest.approx(row_of(CellKey(max_deviation=4, variance=1.5), 2))
    # It may go on beyond the counts near zero, and the last number is that of all larger ones.
    long = CellKey(max_deviation=1, variance=np.append(0.0, np.linspace(0.1, 0.8, 30)))
    np.testing.assert_allclose(long.variance((3,), location=[5, 30, 900]), [long.deviation_variance[5], 0.8, 0.8])


def test_a_law_that_says_so_by_count_is_not_warned_of_and_text_keeps_it():
    largest = r"variance 4 is the largest .* count 1 and 4, .*: p\(3 \| 4\) = 0.75, p\(7 \| 4\) = 0.25, "
    with pytest.warns(UserWarning, match=largest):
        degenerate = CellKey(max_deviation=3, variance=4, not_smaller_than=3)
    by_count = CellKey(max_deviation=3, variance=(0, 3, 4, 4, 3, 4), not_smaller_than=3)
    assert row_of(by_count, 4) == row_of(degenerate, 4) == pytest.approx({3: 0.75, 7: 0.25})
    for law in (by_count, CellKey(max_deviation=3, variance_at_most=4, not_smaller_than=3)):
        assert parse_law(str(law)) == law
        assert NoiseLaw.from_description(json.loads(json.dumps(law.describe()))) == law
    assert parse_law("cell-key max_deviation=3 variance=0:3:4:4:3:4 not_smaller_than=3") == by_count
    perturbed = CellKey(max_deviation=5, variance=3.0, zeros="perturbed")
    assert parse_law("cell key max-deviation=5 variance=3 zeros=perturbed") == perturbed


NEITHER = "needs max_deviation and either variance or variance_at_most, or ptable"
test_arguments_that_are_none_are_refused = refused(
    ({}, NEITHER),
    ({"max_deviation": 2}, NEITHER),
    ({"max_deviation": 2, "variance": 1.0, "variance_at_most": 1.0}, NEITHER),
    ({"max_deviation": 2, "variance_at_most": 5.0}, "variance_at_most must be at most 4"),
    ({"max_deviation": 2, "variance_at_most": [1.0]}, "variance_at_most must be a positive real number"),
    ({"max_deviation": 2, "variance": []}, "variance must hold 1 to 4000 numbers, from that of 0 on, got 0"),
    ({"max_deviation": 2, "variance": [0, -1]}, "variance of 1 must be a finite number of at least 0"),
    ({"max_deviation": 2, "variance": [1, 1]}, r"from 0 to 0 for the count 0, which may become \[0\], got 1"),
    ({"max_deviation": 2, "variance": [0, 2, 5]}, r"count 2, which may become \[0, 1, 2, 3, 4\], got 5"),
    ({"max_deviation": 3, "variance": [0, 1, 2], "not_smaller_than": 3}, r"from 2 to 3 for the count 1, which"),
    ({"max_deviation": 2, "variance": 5.0}, "variance must be at most 4, the square of max_deviation"),
    ({"max_deviation": 2, "variance": 0.0}, "variance must be a finite number greater than 0"),
    ({"max_deviation": 2000, "variance": 1.0}, "max_deviation must be at most 1000"),
    ({"max_deviation": 2.5, "variance": 1.0}, "max_deviation must be a positive integer"),
    ({"max_deviation": 2, "variance": 1.0, "zeros": "lost"}, "zeros must be one of 'kept', 'perturbed'"),
    ({"max_deviation": 2, "variance": 1.0, "not_smaller_than": 4}, r"may become \[0\], .* must be at least 3"),
    ({"ptable": TransitionTable([0], [[1.0]]), "variance": 1.0}, "ptable says all of the law, so variance must"),
    ({"ptable": "table.csv"}, r"must be a TransitionTable \(read_ptable reads a file; .*\), got str"),
    of=lambda arguments: CellKey(**arguments),
)


# Deviations by count of ptable_10_5_rule.csv of the package cell-key-perturbation 3.1.0 (Office for National Statistics, MIT licence,
# Copyright (c) 2023 Iain Dove); all 256 cell keys of a count have the same one there. The package has no row for 0, which it keeps.
TEN_FIVE = {
    1: -1, 2: -2, 5: -5, 9: -9, 10: 0, 11: -1, 12: -2, 13: 2, 14: 1, 15: 0, 16: -1, 17: -2, 18: 2, 19: 1, 20: 0, 22: -2, 23: 2,
    745: 0, 746: -1, 749: 1, 750: 0,
}  # fmt: skip


def test_the_ten_five_rule_is_that_of_the_package():
    law = ten_five_rule()
    assert all(row_of(law, x) == {x + deviation: 1.0} for x, deviation in (TEN_FIVE | {0: 0}).items())
    for x in range(751, 1010):  # the package takes the row of ((x - 1) mod 250) + 501 for counts above 750
        near = (x - 1) % 250 + 501
        assert row_of(law, x) == {y - near + x: p for y, p in row_of(law, near).items()}
    assert law.refusals(np.array([0, 5, 10, 12])).keys() == {1, 3}


PTABLE = "i,j,p\n0,0,1\n1,0,0.4\n1,1,0.2\n1,2,0.4\n2,1,0.25\n2,2,0.5\n2,3,0.25\n"


def test_a_table_is_read_from_a_file(tmp_path):
    path = tmp_path / "p table.csv"
    path.write_text(PTABLE)
    by_hand = TransitionTable.by_count({0: {0: 1.0}, 1: {-1: 0.4, 0: 0.2, 1: 0.4}, 2: {-1: 0.25, 0: 0.5, 1: 0.25}})
    assert read_ptable(path) == by_hand
    law = CellKey(by_hand)
    assert CellKey(read_ptable(path)) == parse_law(f"cell-key {path}") == law
    assert row_of(law, 9) == {8: 0.25, 9: 0.5, 10: 0.25}
    path.write_text("i;j;p;v\n0;0;1;0\n1;0;0.5;-1\n1;2;0.5;1\n", encoding="utf-8-sig")
    assert read_ptable(path) == TransitionTable.by_count({0: {0: 1.0}, 1: {-1: 0.5, 1: 0.5}})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("i,j\n0,0\n", "lacks the column p"),
        ("i,j,p,q\n0,0,1,2\n", "has the column 'q', which is not known"),
        (PTABLE.replace("1,0,0.4\n", ""), "those of row x = 1 sum to 0.6"),
        (PTABLE.replace("\n1,", "\n3,"), "the row of x = 1 is missing"),
        (PTABLE.replace("0.25", "-0.25"), "line 6: p must be a probability from 0 to 1, got '-0.25'"),
        (PTABLE.replace("0.25", "0,25"), "line 6: 4 fields, but there are 3 columns"),
        (PTABLE.replace("0.2\n", "nan\n"), "line 4: p must be a probability"),
        (PTABLE + "2,3,0.25\n", "line 9: i = 2 with j = 3 stands in the file twice"),
        (PTABLE.replace("2,1,", "2,-1,"), "line 6: j must be a count from 0 to"),
        (PTABLE.replace("2,1,", "2.5,1,"), "line 6: i must be a whole number, got '2.5'"),
        ("i,j,p,v\n0,0,1,1\n", "line 2: v must be j - i, which is 0, got '1'"),
        ("i,j,p\n", "has no rows"),
        ("", "lacks the column i, j, p"),
        ('i,j,p\n"0,0,1\n', "is no CSV file"),
    ],
)
def test_files_that_are_none_are_refused(tmp_path, text, says):
    path = tmp_path / "ptable.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=says) as found:
        read_ptable(path)
    assert "ptable.csv" in str(found.value)
    path.write_bytes(b"i,j,p\n\xff")
    with pytest.raises(ValueError, match="is not text in UTF-8"):
        read_ptable(path)
    with pytest.raises(FileNotFoundError, match=r"there is no perturbation table .*none\.csv"):
        parse_law(f"cell-key {tmp_path / 'none.csv'}")
