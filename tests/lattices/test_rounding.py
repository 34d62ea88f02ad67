"""Rounding that keeps the invariants."""

from __future__ import annotations

import numpy as np
import pytest

from bayesdp.invariants import Invariants
from bayesdp.lattices import kernel_basis
from bayesdp.lattices.integers import round_to_lattice
from bayesdp.queries import Margins, Totals
from tests.lattices.oracles import BLOCKS, GENERAL, LOOSE, labels, one_way, two_way_margins
from tests.moves.test_basis import NESTED

INVARIANTS = [
    one_way(4, 5),
    two_way_margins(3, 4, 5),
    Invariants([Totals(NESTED, by=["state", "sex"]), Margins(NESTED, ["county"])]),
    Invariants(None, labels(3)),
    BLOCKS,
    GENERAL,
    LOOSE,
]


@pytest.mark.parametrize("invariants", INVARIANTS, ids=repr)
def test_rounded_noise_is_on_the_lattice_and_near(invariants, rng):
    noise = invariants.project(30 * rng.normal(size=(50, *invariants.frame.shape)))
    rounded = round_to_lattice(noise, invariants)
    assert rounded.dtype == np.int64
    assert all(invariants.is_null(table) for table in rounded)
    assert np.abs(rounded - noise).max() < 5
    assert np.median(np.abs(rounded - noise)) < 0.5


@pytest.mark.parametrize("invariants", INVARIANTS, ids=repr)
def test_rounding_moves_along_with_the_lattice(invariants, rng):
    basis = kernel_basis(invariants).toarray()
    shift = (rng.integers(-9, 10, size=len(basis)) @ basis).reshape(invariants.frame.shape)
    noise = invariants.project(rng.normal(size=invariants.frame.shape))
    np.testing.assert_array_equal(
        round_to_lattice(noise + shift, invariants), round_to_lattice(noise, invariants) + shift
    )


def test_integer_noise_stays_as_it_is():
    table = np.array([[2, -2, 0], [-2, 2, 0]])
    np.testing.assert_array_equal(round_to_lattice(table.astype(float), one_way(2, 3)), table)


def test_cells_without_a_first_label_are_rounded_to_the_nearest(rng):
    invariants = one_way(5, 6)
    noise = invariants.project(10 * rng.normal(size=(5, 6)))
    np.testing.assert_array_equal(round_to_lattice(noise, invariants)[1:, 1:], np.rint(noise)[1:, 1:])
