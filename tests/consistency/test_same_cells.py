from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from bayesdp.consistency import counted_once
from bayesdp.measurements import Measured
from bayesdp.noise import DiscreteGaussian
from bayesdp.queries import Identity, LinearQuery, Margins, Totals
from bayesdp.release import Release
from tests.registering import only_here

TABLE = {"area": ["a", "b", "c"], "kind": ["only"]}
TWO = {"area": ["a", "b"], "kind": ["x", "y"]}


@dataclass(frozen=True, eq=False, init=False)
class Keyed(DiscreteGaussian):
    """Noise that belongs to the records of a cell, as under cell keys."""

    name = "keyed-for-same-cells"
    same_cell_same_value = True


registered = only_here(Keyed)
LAW = Keyed(sigma=2.0)


def test_a_margin_of_an_axis_with_one_label_is_the_cell_itself():
    cells = Measured(Identity(TABLE), np.array([[3], [5], [8]]), LAW)
    margin = Measured(Margins(TABLE, ["area"], ["kind"]), [3, 5, 8, 17], LAW)  # 17 is the total, which is new
    kept, said = counted_once([cells, margin])
    assert kept[0] is cells
    np.testing.assert_array_equal(kept[1].unmeasured, [True, True, True, False])
    assert kept[1].values[3] == 17
    assert said.startswith(
        "3 of the 3 answers by area and 1 answer by kind published before with the same value (area=a"
    )


def test_a_total_published_twice_and_a_linear_combination_of_the_same_cells():
    one = Measured(Totals(TWO), 40, LAW, name="census")
    again = Measured(LinearQuery(TWO, [[1, 1, 1, 1], [1, 1, 0, 0]], ["all", "a"]), [40, 22], LAW)
    kept, said = counted_once([one, again])
    np.testing.assert_array_equal(kept[1].unmeasured, [True, False])
    assert "(all)" in said
    kept, _ = counted_once([one, Measured(Totals(TWO), 40, LAW)])
    assert len(kept) == 1
    kept, said = counted_once([again], earlier=[one])
    np.testing.assert_array_equal(kept[0].unmeasured, [True, False])


def test_two_values_of_one_cell_are_an_error_that_names_them():
    one = Measured(Margins(TWO, ["area"]), [22, 18], LAW, name="by area")
    other = Measured(LinearQuery(TWO, [[0, 0, 1, 1]], ["sum of b"]), [19], LAW)
    with pytest.raises(
        ValueError, match=r"sum of b is published with two values, 18 in the 2 answers by area named 'by area' and 19"
    ):
        counted_once([one, other])
    with pytest.raises(ValueError, match="one cell has one perturbation"):
        Release.from_published(TWO, [one, other])


def test_what_is_left_as_it_is():
    independent = DiscreteGaussian(sigma=2.0)
    same = [Measured(Totals(TWO), 40, independent), Measured(Totals(TWO), 40, independent)]
    assert counted_once(same) == (tuple(same), None)
    # Another law, another unit, other weights, and answers that were not published.
    parts = [
        Measured(Totals(TWO), 40, LAW),
        Measured(Totals(TWO), 41, Keyed(sigma=3.0)),
        Measured(Totals(TWO), 42, independent),
        Measured(LinearQuery(TWO, [[2, 2, 2, 2]], ["twice"]), [79], LAW),
        Measured(LinearQuery.of_values(TWO, [[0.5, 0.5, 0.5, 0.5]], ["half"]), [39], LAW),
        Measured(Margins(TWO, ["area"]), [np.nan, 20.0], LAW, unmeasured=["area=a"]),
        Measured(Margins(TWO, ["area"]), [21.0, np.nan], LAW, unmeasured=["area=b"]),
    ]
    assert counted_once(parts) == (tuple(parts), None)


def test_laws_with_a_scale_for_each_answer():
    law = Keyed(sigma=np.array([2.0, 3.0]))
    one = Measured(Margins(TWO, ["area"]), [22, 18], law)
    rows = LinearQuery(TWO, [[1, 1, 0, 0], [0, 0, 1, 1]], ["a", "b"])
    kept, _ = counted_once([one, Measured(rows, [22, 17], Keyed(sigma=np.array([2.0, 4.0])))])
    np.testing.assert_array_equal(kept[1].unmeasured, [True, False])
