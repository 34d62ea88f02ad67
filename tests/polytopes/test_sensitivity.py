"""Hulls of sensitivity spaces, against their definition: all integer tables that few records make."""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pytest

from bayesdp.invariants import Invariants
from bayesdp.polytopes import SensitivityHull, SymmetricHull, sensitivity_hull
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.polytopes.examples import Programs, both_margins


def totals(*sizes: int) -> Invariants:
    cells = sum(sizes)
    groups = [name for name, size in zip("pqrs", sizes, strict=False) for _ in range(size)]
    return Invariants(Totals({"cell": range(cells), "group": ("cell", groups)}, "group"))


def enumerated(invariants: Invariants, adjacency: int) -> np.ndarray:
    """All integer tables other than zero that change no invariant, and have an l1 norm of at most 2 adjacency."""
    cells = invariants.frame.size
    most = 2 * adjacency
    found = [
        table
        for table in product(range(-adjacency, adjacency + 1), repeat=cells)
        if 0 < sum(map(abs, table)) <= most and not np.any(invariants.matrix @ np.array(table))
    ]
    return np.array(found, dtype=float).reshape(-1, *invariants.frame.shape)


CASES = [
    (both_margins(2, 2), 2),
    (both_margins(2, 2), 3),
    (both_margins(2, 3), 3),
    (both_margins(3, 2), 2),
    (totals(3), 1),
    (totals(3), 2),
    (totals(2, 3), 2),
    (totals(2, 2), 3),
]


@pytest.mark.parametrize(("invariants", "adjacency"), CASES)
def test_the_unit_ball_is_the_hull_of_the_definition(invariants: Invariants, adjacency: int) -> None:
    own = SensitivityHull(invariants, adjacency)
    space = invariants.coordinates(enumerated(invariants, adjacency))
    listed = Programs(space)
    points = np.random.default_rng(1).normal(size=(20, own.dimension))
    assert own.gauge(points) == pytest.approx(listed.gauge(points), rel=1e-9)
    assert np.max(own.gauge(space)) == pytest.approx(1.0, rel=1e-12)
    # Vertices, reach and volume, and moments, of closed forms where the norm is an l1 norm, against Qhull on the list.
    tables = invariants.from_coordinates(own.vertices).reshape(own.count, -1)
    assert np.max(np.abs(tables).sum(axis=1)) == pytest.approx(own.reach, rel=1e-12)
    assert np.max(own.gauge(own.vertices)) == pytest.approx(1.0, rel=1e-9)
    facets = SymmetricHull(space)
    assert own.log_cone_mass == pytest.approx(facets.log_cone_mass, abs=1e-9)
    assert own.second_moment == pytest.approx(facets.second_moment, abs=1e-9)
    for point in points[:4]:
        value, form = own.subgradient(point)
        assert value == pytest.approx(form @ point, rel=1e-9)
        assert np.max(np.abs(space @ form)) <= 1 + 1e-9


@pytest.mark.parametrize("adjacency", [2, 3])
def test_three_by_three(adjacency: int) -> None:
    # From the definition again, in a basis of the lattice: four corner cells of any value up to three fix the table.
    corner = np.array(list(product(range(-3, 4), repeat=4))).reshape(-1, 2, 2)
    table = np.zeros((len(corner), 3, 3))
    table[:, :2, :2] = corner
    table[:, 2, :2], table[:, :2, 2] = -corner.sum(axis=1), -corner.sum(axis=2)
    table[:, 2, 2] = corner.sum(axis=(1, 2))
    size = np.abs(table).sum(axis=(1, 2))
    space = table[(size > 0) & (size <= 2 * adjacency)]
    assert len(space) == {2: 18, 3: 30}[adjacency]
    invariants = both_margins(3, 3)
    own = SensitivityHull(invariants, adjacency)
    assert (own.count, len(own.vertices), own.reach, own.is_l1) == (
        len(space) // 2,
        len(space) // 2,
        2 * adjacency,
        False,
    )
    both = np.concatenate([own.vertices, -own.vertices])
    spaced = invariants.coordinates(space)
    assert np.allclose(np.sort(np.linalg.norm(both[:, None] - spaced, axis=2), axis=0)[0], 0, atol=1e-12)
    # Known sensitivities: 2 and sqrt(6).
    assert np.max(np.linalg.norm(own.vertices, axis=1)) == pytest.approx({2: 2.0, 3: np.sqrt(6)}[adjacency], rel=1e-12)


def test_counts_of_vertices() -> None:
    for rows, columns in [(3, 4), (4, 4), (5, 3)]:
        for adjacency in (2, 3):
            own = SensitivityHull(both_margins(rows, columns), adjacency)
            assert own.count == len(own.vertices)
            tables = np.round(own.invariants.from_coordinates(own.vertices)).reshape(own.count, -1)
            assert len(np.unique(np.concatenate([tables, -tables]), axis=0)) == 2 * own.count
    assert SensitivityHull(both_margins(10, 10), 3).count == 88_425
    assert SensitivityHull(both_margins(10, 10), 2).count == 2025


def test_hulls_are_shared_and_travel() -> None:
    margins = both_margins(3, 4)
    assert sensitivity_hull(margins, 3) is sensitivity_hull(both_margins(3, 4), 3)
    assert sensitivity_hull(margins, 3) != sensitivity_hull(margins, 2)
    assert pickle.loads(pickle.dumps(SensitivityHull(margins, 3))) == SensitivityHull(margins, 3)
    with pytest.raises(ValueError, match=r"points must have shape \(\.\.\., 6\), got \(2,\)"):
        sensitivity_hull(margins, 2).gauge([1.0, 2.0])


def test_what_is_not_known_is_refused() -> None:
    margins = both_margins(3, 3)
    with pytest.raises(ValueError, match="adjacency must be at least 2 for both margins"):
        SensitivityHull(margins, 1)
    with pytest.raises(NotImplementedError, match="adjacency must be 2 or 3 for both margins, got 4"):
        SensitivityHull(margins, 4)
    with pytest.raises(ValueError, match="adjacency must be an integer greater than 0"):
        SensitivityHull(margins, 0)
    cube = {"a": range(2), "b": range(2), "c": range(2)}
    with pytest.raises(NotImplementedError, match="give its vertices instead"):
        SensitivityHull(Invariants(Margins(cube, ["a", "b"], ["b", "c"])), 3)
    partly = Invariants(LinearQuery({"cell": range(3)}, [[1, 1, 0]], ["pair"]))
    with pytest.raises(ValueError, match="every cell must be in a total, but cell=2 is in none"):
        SensitivityHull(partly, 1)
    with pytest.raises(ValueError, match="nothing can change"):
        SensitivityHull(totals(1, 1), 1)
