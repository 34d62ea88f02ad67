"""Perturbed tables that were made consistent after the perturbation are refused, by the exact chance of it.

False alarms of this module: no more than 6e-3, the sum of the chances in `test_honest_tables_are_taken`.
"""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from bayesdp.consistency import PostProcessedWarning, made_consistent, post_processed
from bayesdp.measurements import Exact, Measured
from bayesdp.noise import CellKey, ConventionalRounding, RandomRounding
from bayesdp.queries import Identity, Margins, Totals
from bayesdp.release import Release
from tests.noise.perturbed.records import ten_five_rule

SIX = {"a": list("abcdef"), "b": list("uvwxyz")}
GAPPED = CellKey(max_deviation=3, variance=(0, 3, 4, 4, 3, 4), not_smaller_than=3)
KEYS = CellKey(max_deviation=2, variance=1.0)
LAWS = [RandomRounding(3), ConventionalRounding(5), KEYS, GAPPED, ten_five_rule()]


def queries(frame):
    """The cells, and all margins."""
    kept = [list(own) for n in reversed(range(len(frame))) for own in combinations(frame, n)]
    return [Identity(frame), *(Margins(frame, own) if own else Totals(frame) for own in kept)]


def consistent(frame, truth, law, rng):
    """Cells perturbed, and sums of the perturbed cells."""
    values = law.draw(rng, truth.shape, location=truth)
    return [Measured(query, query.apply(values), law) for query in queries(frame)]


def honest(frame, truth, law, rng):
    """Every number perturbed on its own; by cell keys once for the same people."""
    keys, parts = {}, []
    for query in queries(frame):
        answers = query.apply(truth).reshape(-1)
        values = law.draw(rng, answers.shape, location=answers)
        matrix = query.matrix
        for row in range(len(answers) if law.same_cell_same_value else 0):
            cells = np.sort(matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]])
            values[row] = keys.setdefault(cells[truth.reshape(-1)[cells] > 0].tobytes(), values[row])
        parts.append(Measured(query, values.reshape(query.shape), law))
    return parts


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_a_consistent_table_is_refused(law):
    rng = np.random.default_rng(1)
    parts = consistent(SIX, rng.poisson(40, (6, 6)), law, rng)
    with pytest.raises(
        ValueError, match=r"perturbed answers by a × b add up exactly to .*\(chance at most .*adding_up='warn'"
    ):
        Release.from_published(SIX, parts)
    with pytest.warns(PostProcessedWarning, match="add up exactly to .* under the stated law"):
        release = Release.from_published(SIX, parts, adding_up="warn")
    assert Release.from_dataset(release.to_dataset()) == release


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_honest_tables_are_taken(law):
    """6 x 6 tables add up by chance at most in 1 of 1,100, and mostly in 1 of 1e5: all laws and means together below 6e-3."""
    rng = np.random.default_rng(2)
    for mean in (0.3, 3.0, 40.0):
        for truth in (rng.poisson(mean, (6, 6)), rng.poisson(rng.gamma(0.3, mean / 0.3, (6, 6)))):
            assert made_consistent(honest(SIX, truth, law, rng)) is None


@pytest.mark.parametrize("law", [RandomRounding(3), KEYS, GAPPED], ids=str)
def test_the_chance_is_that_of_an_enumeration(law):
    """Two by two cells with both margins and the total: all true counts that may be, weighed by p(y | x)."""
    frame = {"a": ["p", "q"], "b": ["u", "v"]}
    values = np.array([[15, 30], [0, 45]])
    parts = [Measured(query, query.apply(values), law) for query in queries(frame)]
    known = [np.ones(part.query.rows, dtype=bool) for part in parts]
    sets = [
        post_processed._counts(part.query.parts[0], part.values.reshape(-1), own, law)
        for part, own in zip(parts, known, strict=True)
    ]
    totals = post_processed._totals(sets, 0)
    weights = [np.exp(law.log_each(y, np.arange(60))) if y else np.eye(60)[0] for y in values.reshape(-1)]
    alone, together = np.zeros(3), 0.0
    for counts in product(*(np.flatnonzero(own) for own in weights)):
        p = np.prod([own[x] / own.sum() for own, x in zip(weights, counts, strict=True)])
        each = np.ones(3)
        for place, part in enumerate(parts[1:]):
            mass = np.exp(law.log_each(part.values, part.query.apply(np.reshape(counts, (2, 2))))).reshape(-1)
            # The second row and the first column have one cell that is not 0: the same people, and so the same number.
            certain = law.same_cell_same_value and place < 2
            each[place] = mass[place] if certain else mass.prod()
        alone += p * each
        together += p * each.prod()
    found = [post_processed._alone(sets[0], total) for total in totals]
    np.testing.assert_allclose(found, alone, rtol=1e-9)
    bound = post_processed._chance(sets[0], totals, 1.001 * float(np.prod(found)))
    assert 0.98 * together <= bound <= 1.15 * together + 1e-3


def test_the_same_people_are_no_contradiction():
    """Forty areas with one sex only: cell and total have one key, and are equal by the mechanism, not by chance."""
    frame = {"area": [f"a{i}" for i in range(40)], "sex": ["f", "m"]}
    rng = np.random.default_rng(3)
    truth = np.column_stack([rng.poisson(30, 40), np.zeros(40, dtype=int)])
    cells, totals = Identity(frame), Margins(frame, ["area"])
    for law, refused in ((KEYS, False), (ConventionalRounding(5), False), (RandomRounding(5), True)):
        values = law.draw(rng, truth.shape, location=truth)
        told = made_consistent([Measured(cells, values, law), Measured(totals, values.sum(axis=1), law)])
        assert (told is not None) is refused, law
    truth[:10, 1] = 7  # ten of them with both
    values = KEYS.draw(rng, truth.shape, location=truth)
    told = made_consistent([Measured(cells, values, KEYS), Measured(totals, values.sum(axis=1), KEYS)])
    assert told is not None


def test_empty_tables_and_multiples_are_no_contradiction():
    rng = np.random.default_rng(4)
    assert made_consistent(consistent(SIX, np.zeros((6, 6), dtype=int), RandomRounding(3), rng)) is None
    few = {"a": ["p", "q"], "b": ["u", "v"]}
    assert made_consistent(consistent(few, rng.poisson(40, (2, 2)), RandomRounding(3), rng)) is None


def test_some_sums_of_a_large_table():
    """Area totals are sums of perturbed cells, and the grand total was perturbed on its own: 1e-6 is below a millionth of a choice."""
    frame = {"area": [f"a{i}" for i in range(30)], "sex": ["f", "m"]}
    rng = np.random.default_rng(5)
    truth = rng.poisson(50, (30, 2))
    values = RandomRounding(3).draw(rng, truth.shape, location=truth)
    parts = [
        Measured(Identity(frame), values, RandomRounding(3)),
        Measured(Margins(frame, ["area"]), values.sum(axis=1), RandomRounding(3)),
        Measured(Totals(frame), values.sum() + 3, RandomRounding(3)),
    ]
    assert "by area × sex add up exactly to perturbed answers by area (" in made_consistent(parts)


def test_exact_totals_that_rounded_cells_add_up_to():
    frame = {"area": [f"a{i}" for i in range(30)], "sex": ["f", "m"]}
    rng = np.random.default_rng(6)
    truth = rng.poisson(50, (30, 2))
    values = RandomRounding(3).draw(rng, truth.shape, location=truth)
    cells = Measured(Identity(frame), values, RandomRounding(3))
    assert "add up exactly to exact answers by area" in made_consistent(
        [cells], [Exact(Margins(frame, ["area"]), values.sum(axis=1))]
    )
    assert made_consistent([cells], [Exact(Margins(frame, ["area"]), truth.sum(axis=1))]) is None


def test_unpublished_cells_are_left_out():
    rng = np.random.default_rng(7)
    parts = consistent(SIX, rng.poisson(40, (6, 6)), KEYS, rng)
    hidden = np.eye(6, dtype=bool)
    cells = Measured(parts[0].query, np.where(hidden, np.nan, parts[0].values), KEYS, unmeasured=hidden)
    assert made_consistent([cells, *parts[1:3]]) is None
    one = np.arange(36).reshape(6, 6) == 0
    cells = Measured(parts[0].query, np.where(one, np.nan, parts[0].values), KEYS, unmeasured=one)
    assert made_consistent([cells, *parts[1:3]]) is not None  # five rows and columns are left
