"""The mass of a law over points or small cells, summed from `NoiseLaw.logp` alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp.noise import Rounded
from tests.comparison.enumeration import Floats, Ints, lattice_points
from tests.noise.contract.examples import TABLE, Example

AT = 3
"""Location of one independent answer: not in the middle of the bounds of laws that have some."""


@dataclass(frozen=True, eq=False)
class Mass:
    """What a law says of one answer (independent noise) or of the three cells (other noise)."""

    values: Floats  # noisy values, shape (m, cells): all that have mass, or the nodes of a quadrature
    mass: Floats  # of the points, or density times weight
    bins: Ints  # the bin of a comparison in which each value is
    size: int  # number of bins
    bin_of: Callable[[Floats], Ints]  # from draws, shape (n, cells), to their bins; `size` for what is in none
    tolerance: float  # how far the sum of a law with its normaliser may be from 1

    @property
    def expected(self) -> Floats:
        """Probability of each bin, and at last of what is in none."""
        inside = np.bincount(self.bins, self.mass, minlength=self.size)
        return np.append(inside, max(1.0 - inside.sum(), 0.0))

    @property
    def moments(self) -> tuple[Floats, Floats]:
        """Mean and variance of each cell, of the mass divided by its sum."""
        share = self.mass / self.mass.sum()
        return share @ self.values, share @ (self.values - share @ self.values) ** 2

    def observed(self, draws: npt.NDArray[np.float64] | Ints) -> Ints:
        """How many draws are in each bin, and at last in none."""
        flat = np.asarray(draws, np.float64).reshape(len(draws), -1)
        return np.bincount(self.bin_of(flat), minlength=self.size + 1)


def _binner(edges: tuple[Floats, ...], atoms: Floats, of: Floats) -> tuple[int, Callable[[Floats], Ints]]:
    """Boxes between the edges of ``of @ values``, the last edge excluded, and then bins of the atoms."""
    shape = tuple(len(edge) - 1 for edge in edges)
    boxes = int(np.prod(shape))

    def bin_of(values: Floats) -> Ints:
        at = values @ of.T
        each = [np.searchsorted(edge, at[:, i], side="right") - 1 for i, edge in enumerate(edges)]
        outside = np.any([(own < 0) | (own >= n) for own, n in zip(each, shape, strict=True)], axis=0)
        clipped = [np.clip(own, 0, n - 1) for own, n in zip(each, shape, strict=True)]
        found = np.where(outside, boxes + len(atoms), np.ravel_multi_index(clipped, shape))
        for i, atom in enumerate(atoms):
            found[values[:, 0] == atom] = boxes + i
        return np.asarray(found, dtype=np.int64)

    return boxes + len(atoms), bin_of


def mass_of(example: Example) -> Mass:
    """By summation over integers or a lattice, or by quadrature over the line, a plane or the simplex."""
    if example.law.support == "simplex":
        return _simplex(example)
    if example.law.independent:
        grid = example.law.integer or isinstance(example.law, Rounded)
        return _whole(example) if grid else _line(example)
    return _lattice(example) if example.law.integer else _plane(example)


def _ends(example: Example) -> tuple[float, float]:
    low, high = (float(np.max(side)) for side in example.law.limits)
    return max(AT - example.reach, low), min(AT + example.reach, high)


def _mass(example: Example, values: Floats) -> Floats:
    at = np.array([AT]) if example.law.independent else example.location
    return np.exp([example.law.logp(own, at, example.kept) for own in values])


def _whole(example: Example) -> Mass:
    low, high = _ends(example)
    step = 1.0 if example.law.integer else example.law.base
    values = np.arange(low, high + step, step)[:, None]
    size, bin_of = _binner((np.append(values, high + step) - 0.5 * step,), np.empty(0), np.eye(1))
    return Mass(values, _mass(example, values), bin_of(values), size, bin_of, example.tolerance)


def _line(example: Example) -> Mass:
    """Gauss's rule of six nodes in eighths of a count from the location, between which kinks and jumps of the laws lie."""
    low, high = _ends(example)
    edge = np.arange(low, high + 0.0625, 0.125)
    nodes, weights = np.polynomial.legendre.leggauss(6)
    values = (edge[:-1, None] + 0.0625 * (1.0 + nodes)).reshape(-1, 1)
    mass = _mass(example, values) * np.tile(0.0625 * weights, len(edge) - 1)
    # A law with atoms has a unit point mass at each bound beside Lebesgue's measure.
    atoms = np.array([low, high]) if getattr(example.law, "has_atoms", False) else np.empty(0)
    values, mass = np.concatenate([values, atoms[:, None]]), np.append(mass, _mass(example, atoms[:, None]))
    size, bin_of = _binner((edge[::4] if len(edge) % 4 == 1 else edge,), atoms, np.eye(1))
    return Mass(values, mass, bin_of(values), size, bin_of, example.tolerance)


def _simplex(example: Example) -> Mass:
    """Gauss's rule in the six triangles of one order of the shares; in one dimension on edges and ties; vertices, middles, centre."""
    nodes, weights = np.polynomial.legendre.leggauss(16)
    u, w = 0.5 * (1.0 + nodes), 0.5 * weights
    points, sizes = [], []
    for order in permutations(range(3)):
        corners = np.zeros((3, 3))  # a vertex, the middle of an edge, the centre
        corners[0, order[0]], corners[1, list(order[:2])], corners[2] = 1.0, 0.5, 1.0 / 3.0
        first, second = (a.reshape(-1, 1) for a in np.meshgrid(u, u))
        points.append(corners[0] + first * ((corners[1] - corners[0]) + second * (corners[2] - corners[1])))
        area = abs(np.linalg.det((corners[1:] - corners[0])[:, :2]))
        sizes.append(area * np.outer(w, w).reshape(-1) * first[:, 0])
    for third in range(3):
        tie = np.repeat(((1.0 - u / 3.0) / 2.0)[:, None], 3, axis=1)
        tie[:, third] = u / 3.0
        edges = [np.insert(np.stack([x, 1.0 - x], axis=-1), third, 0.0, axis=-1) for x in (0.5 * u, 0.5 + 0.5 * u)]
        points += [tie, *edges, np.insert([[0.5, 0.5]], third, 0.0, axis=-1), np.eye(3)[[third]]]
        sizes += [w / 3.0, 0.5 * w, 0.5 * w, np.ones(1), np.ones(1)]
    points, sizes = [*points, np.full((1, 3), 1.0 / 3.0)], [*sizes, np.ones(1)]
    if example.law.rule != "boundary-inflated":
        points, sizes = points[:6], sizes[:6]  # nothing on lines: they have no area

    def bin_of(values: Floats) -> Ints:
        most = values.max(axis=1, keepdims=True)
        top, zero, place = values >= most * (1.0 - 1e-12), values == 0.0, np.argsort(-values, axis=1, kind="stable")
        inside = 12 * (most[:, 0] > 0.6) + 4 * place[:, 0] + place[:, 1]
        face = 24 + 8 * (zero @ [1, 2, 4]) + top @ [1, 2, 4]
        return np.asarray(np.where((top.sum(axis=1) == 1) & ~zero.any(axis=1), inside, face), dtype=np.int64)

    values = np.concatenate(points)
    mass = _mass(example, values) * np.concatenate(sizes)
    return Mass(values, mass, bin_of(values), 24 + 64, bin_of, example.tolerance)


def _lattice(example: Example) -> Mass:
    reach = round(example.reach)
    values = (lattice_points(np.ones((1, 3), dtype=np.int64), reach) + TABLE).astype(np.float64)
    edges = tuple(np.arange(-reach, reach + 2) - 0.5 + TABLE[i] for i in (1, 2))
    size, bin_of = _binner(edges, np.empty(0), np.eye(3)[1:])
    return Mass(values, _mass(example, values), bin_of(values), size, bin_of, 1e-4)


def _plane(example: Example) -> Mass:
    """Gauss's rule of 2 x 2 nodes in 26 x 26 boxes; kinks of a norm may lie across them, which costs less than 0.5%."""
    kept: Any = example.kept
    edge = np.linspace(-example.reach, example.reach, 27)
    half = 0.5 * (edge[1] - edge[0])
    nodes = (edge[:-1, None] + half * (1.0 + np.array([-1.0, 1.0]) / np.sqrt(3.0))).reshape(-1)
    grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
    values = kept.from_coordinates(grid) + TABLE
    of = kept.coordinates(np.eye(3) - 1.0 / 3.0).T  # the orthonormal basis itself
    size, bin_of = _binner(tuple(edge + own for own in of @ TABLE), np.empty(0), of)
    return Mass(values, _mass(example, values) * half**2, bin_of(values), size, bin_of, 5e-3)
