"""Tests of releases have the size they state: noise by quadrature of each law's own density, the table by SciPy's masses."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import xarray as xr
from scipy.optimize import brentq
from scipy.stats import nchypergeom_fisher

import bayesdp as bdp
from bayesdp.noise.base import NoiseLaw
from bayesdp.significance._families import NoisyCount
from bayesdp.significance.corners import NoisyCorner, noisy_corner

TABLE = xr.DataArray([[2, 4], [3, 6]], dims=("a", "b"), coords={"a": ["x", "y"], "b": ["u", "v"]})
EXACT = [bdp.Exact(bdp.Margins(TABLE, ["a"]), TABLE.sum("b")), bdp.Exact(bdp.Margins(TABLE, ["b"]), TABLE.sum("a"))]
INVARIANTS = bdp.Invariants(bdp.Margins(TABLE, ["a"], ["b"]))
SQUARE = np.array([[1, -1], [-1, 1]])
LAWS: list[NoiseLaw] = [
    bdp.noise.KNorm(0.5, np.array([[1.3]])),
    bdp.noise.SemiKNorm(0.7, 2),
    bdp.noise.SubspaceNorm(0.3, "l1"),
    bdp.noise.SubspaceNorm(0.3, "l2"),
    bdp.noise.SubspaceNorm(0.3, "linf"),
    bdp.noise.ExtendedLaplace(2.5),
    bdp.noise.LatticeLaplace(0.3, "l2"),
    bdp.noise.LatticeGaussian(3.0),
]


def critical(corner: NoisyCorner, alpha: float, null: float, side: str) -> float:
    """The statistic whose p-value is alpha."""
    return float(
        brentq(lambda u: NoisyCount(u, corner.family, corner.noise.noise).pvalue(math.log(null), side) - alpha, -40, 45)
    )


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_rejecting_for_p_up_to_alpha_has_probability_alpha(law: NoiseLaw) -> None:
    """At every null odds ratio, and for both alternatives; the noise law by its log-density along (1, -1, -1, 1) alone."""
    release = bdp.Release(bdp.Frame.of(TABLE), (bdp.Measured(bdp.Identity(TABLE), TABLE.values, law),), tuple(EXACT))
    corner = noisy_corner(release)
    # By the midpoint rule; for whole-number noise the points are the steps.
    width = 1.0 if law.integer else 0.004
    j = np.arange(-100.0, 100.5) if law.integer else np.arange(-40.0, 40.0, width) + 0.5 * width
    step, zero = law.logp(SQUARE, 0 * SQUARE, INVARIANTS), law.logp(0 * SQUARE, 0 * SQUARE, INVARIANTS)
    if law.name == "lattice-gaussian":
        mass = np.exp((step - zero) * j**2)
    else:  # every norm is linear along a line; that this one is, at two more points:
        for at in (3, -2):
            assert law.logp(at * SQUARE, 0 * SQUARE, INVARIANTS) - zero == pytest.approx(
                abs(at) * (step - zero), rel=1e-9
            )
        mass = np.exp((step - zero) * np.abs(j))
    mass /= mass.sum()
    for alpha, null in ((0.05, 1.0), (0.2, 2.5)):
        table = nchypergeom_fisher(15, 6, 5, null).pmf(np.arange(6))
        for side, sign in (("greater", 1.0), ("less", -1.0)):
            cut = critical(corner, alpha, null, side)
            size = sum(
                m * float(mass @ np.clip(0.5 + sign * (x + j - cut) / width, 0.0, 1.0)) for x, m in enumerate(table)
            )
            assert size == pytest.approx(alpha, rel=1e-4)


def changed(tables: list[np.ndarray]) -> int:
    """The most cells outside the last row and column that a difference changes."""
    return max(int(np.count_nonzero(own[:-1, :-1])) for own in tables)


def cycles(size: int, length: int) -> list[np.ndarray]:
    """Differences of a square table in which `length` records exchange labels in a circle, all distinct."""
    found = []
    for rows in itertools.combinations(range(size), length):
        for columns in itertools.permutations(range(size), length):
            move = np.zeros((size, size), dtype=np.int64)
            for k in range(length):
                move[rows[k], columns[k]] += 1
                move[rows[k], columns[(k + 1) % length]] -= 1
            found.append(move)
    return found


@pytest.mark.parametrize(("size", "moves", "three"), [(3, 4, 3), (4, 4, 6)])
def test_a_basis_of_a_larger_table_is_noisier_than_its_projection(size: int, moves: int, three: int) -> None:
    """docs/papers/semi-dp.md: canonical normal noise on basis cells against SemiGaussian at the same mu, cell by cell."""
    assert (changed(cycles(size, 2)), changed(cycles(size, 3))) == (moves, three)
    basis = float(max(moves, three))  # variance at mu = 1: f tensored k times is sqrt(k) mu
    labels = [str(k) for k in range(size)]
    margins = bdp.Margins({"a": labels, "b": labels}, ["a"], ["b"])
    law = bdp.SemiGaussian(margins, mu=1.0).law
    projected = law.variance((size, size), bdp.Invariants(margins))
    assert projected is not None
    np.testing.assert_allclose(projected, 6.0 * (size - 1) ** 2 / size**2, rtol=1e-9)
    assert projected.max() < basis
