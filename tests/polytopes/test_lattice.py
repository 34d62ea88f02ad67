"""Integer noise in the norm of a hull, against enumeration of the lattice."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from bayesdp.invariants import Invariants
from bayesdp.polytopes import Hull, SymmetricHull, choose_lattice_sampler, sample_lattice, sensitivity_hull
from bayesdp.polytopes.base import gauge_program
from bayesdp.queries import LinearQuery, Totals
from tests.comparison.chi_square import draws_pvalue
from tests.polytopes.examples import both_margins, substitutions

# Nine chi-square tests at this level: false alarms in fewer than 1 run in 10,000.
LEVEL = 1e-5

CROSSED = Invariants(LinearQuery({"cell": range(4)}, [[1, 1, 1, 0], [0, 1, 1, 1]], ["left", "right"]))


def tables_near(invariants: Invariants, most: int) -> np.ndarray:
    """All tables of the lattice whose free entries are at most so large."""
    shape = invariants.frame.shape
    entries = range(-most, most + 1)
    if shape in ((2, 2), (2, 3), (3, 3)):
        rows, columns = shape
        free = np.array(list(product(entries, repeat=(rows - 1) * (columns - 1)))).reshape(-1, rows - 1, columns - 1)
        tables = np.zeros((len(free), rows, columns), dtype=int)
        tables[:, :-1, :-1] = free
        tables[:, :-1, -1], tables[:, -1, :-1] = -free.sum(axis=2), -free.sum(axis=1)
        tables[:, -1, -1] = free.sum(axis=(1, 2))
        return tables
    flat = np.array(list(product(entries, repeat=invariants.frame.size)))
    return flat[~np.any(invariants.matrix @ flat.T, axis=0)].reshape(-1, *shape)


def listed(invariants: Invariants, tables: list[list[int]]) -> Hull:
    return SymmetricHull(invariants.coordinates(np.array(tables)))


CASES = {
    "2 x 2": (both_margins(2, 2), sensitivity_hull(both_margins(2, 2), 2), 0.9, 14),
    "2 x 3": (both_margins(2, 3), sensitivity_hull(both_margins(2, 3), 3), 1.4, 12),
    "3 x 3, two records": (both_margins(3, 3), sensitivity_hull(both_margins(3, 3), 2), 2.0, 4),
    "3 x 3, three records": (both_margins(3, 3), sensitivity_hull(both_margins(3, 3), 3), 2.5, 4),
    "3 x 3, by facets": (both_margins(3, 3), SymmetricHull(sensitivity_hull(both_margins(3, 3), 3).vertices), 2.5, 4),
    "3 x 3, by programs": (
        both_margins(3, 3),
        SymmetricHull(sensitivity_hull(both_margins(3, 3), 3).vertices, method="program"),
        2.5,
        4,
    ),
    "one total": (substitutions(3)[0], sensitivity_hull(substitutions(3)[0], 2), 1.6, 12),
    "crossed totals": (CROSSED, listed(CROSSED, [[0, 1, -1, 0], [1, -1, 0, 1], [1, 0, -1, 1]]), 2.0, 9),
    "a stretched total": (substitutions(3)[0], listed(substitutions(3)[0], [[2, -2, 0], [0, 1, -1]]), 1.8, 12),
}


@pytest.mark.parametrize("case", CASES)
def test_draws_have_the_mass_of_the_enumeration(case: str) -> None:
    invariants, hull, epsilon, most = CASES[case]
    tables = tables_near(invariants, most)
    size = SymmetricHull(hull.vertices, method="facets").gauge(invariants.coordinates(tables))
    for k in np.random.default_rng(2).integers(0, len(tables), 20):  # the enumeration itself, by another program
        assert size[k] == pytest.approx(gauge_program(hull.vertices, invariants.coordinates(tables[k]))[0], abs=1e-9)
    mass = np.exp(-epsilon * size)
    draws = sample_lattice(hull, invariants, epsilon, np.random.default_rng(1), 20_000)
    assert draws.dtype == np.int64
    assert not np.any(invariants.matrix @ draws.reshape(len(draws), -1).T)
    # Tables that are expected 5 times each have a class of their own; the rest is one, with what is out of the box.
    flat = (own.reshape(len(own), -1) for own in (draws, tables))
    assert draws_pvalue(*flat, mass / mass.sum(), least=5.0, fewest=9) > LEVEL


def test_which_sampler_and_how_much_it_keeps() -> None:
    margins = both_margins(3, 3)
    hull = sensitivity_hull(margins, 3)
    sampler = choose_lattice_sampler(hull, margins, 2.0)
    assert (sampler.exact, sampler.name) == (True, "envelope of two-way")
    tables = tables_near(margins, 9)
    sizes = np.abs(tables).sum(axis=(1, 2))
    gauges = hull.gauge(margins.coordinates(tables))
    share = np.exp(-2.0 * gauges).sum() / np.exp(-2.0 * sizes / 6).sum()
    # 64 draws of a number in [0, 1], and a box that cuts a little off: well within five standard errors.
    assert sampler.acceptance == pytest.approx(share, abs=0.2)
    assert choose_lattice_sampler(
        sensitivity_hull(substitutions(3)[0], 2), substitutions(3)[0], 1.0
    ).acceptance == pytest.approx(1.0)


def test_large_tables() -> None:
    # 10 x 10: no enumeration; that they are there, and keep the margins.
    margins = both_margins(10, 10)
    hull = sensitivity_hull(margins, 3)
    draws = sample_lattice(hull, margins, 1.0, np.random.default_rng(2), 20)
    assert not np.any(draws.sum(axis=1))
    assert not np.any(draws.sum(axis=2))
    assert np.any(draws)


def test_what_cannot_be_drawn_exactly_is_refused() -> None:
    # 60 cells and one record more or less: l1 noise has hardly anything in common with the hull.
    invariants = Invariants(Totals({"cell": range(60)}))
    hull = SymmetricHull(invariants.coordinates(np.eye(60)))
    with pytest.raises(
        NotImplementedError, match=r"no exact sampler is known for integer noise of .* would be accepted"
    ):
        choose_lattice_sampler(hull, invariants, 0.1)
    large = both_margins(16, 16)
    with pytest.raises(NotImplementedError, match=r"l1 noise of rate 0\.0417 .* has no practical exact sampler"):
        sample_lattice(sensitivity_hull(large, 3), large, 0.25, np.random.default_rng(1), 1)
    with pytest.raises(ValueError, match="of dimension 4, but it has dimension 59"):
        choose_lattice_sampler(hull, both_margins(3, 3), 1.0)
    with pytest.raises(ValueError, match="epsilon must be a finite number greater than 0"):
        choose_lattice_sampler(hull, invariants, 0.0)
