"""Posteriors given K-norm noise, against enumeration with norms by another program.

False alarms: see `oracle.STANDARD_ERRORS`.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import bayesdp as bdp
from bayesdp import noise
from bayesdp.polytopes.base import gauge_program
from tests.inference.oracle import assert_posterior, log_poisson, posterior_of, sample, tables_of

SQUARE = {"row": ["p", "q", "r"], "column": ["low", "mid", "high"]}
TABLE = np.array([[2, 0, 1], [1, 2, 0], [0, 1, 2]])


def by_definition() -> np.ndarray:
    """All 2 x 2 moves and 3-cycles of a 3 x 3 table: integer tables with zero margins and an l1 norm of at most 6."""
    corner = np.stack(np.meshgrid(*[np.arange(-3, 4)] * 4, indexing="ij"), axis=-1).reshape(-1, 2, 2)
    tables = np.zeros((len(corner), 3, 3))
    tables[:, :2, :2] = corner
    tables[:, 2, :2], tables[:, :2, 2] = -corner.sum(axis=1), -corner.sum(axis=2)
    tables[:, 2, 2] = corner.sum(axis=(1, 2))
    size = np.abs(tables).sum(axis=(1, 2))
    return tables[(size > 0) & (size <= 6)]


@pytest.mark.system
def test_both_margins_of_a_3x3_table():
    rows, columns = bdp.Margins(SQUARE, ["row"]), bdp.Margins(SQUARE, ["column"])
    law, noisy = noise.SemiKNorm(1.3, 3), np.array([[1.25, 0.5, 1.25], [2.0, 1.5, -0.5], [-0.25, 1.0, 2.25]])
    release = bdp.Release.from_published(
        SQUARE,
        measured=[bdp.Measured(bdp.Identity(SQUARE), noisy, law)],
        exact=[bdp.Exact(rows, TABLE.sum(axis=1)), bdp.Exact(columns, TABLE.sum(axis=0))],
    )
    assert release.measurements[0].law == law
    with pm.Model(coords=release.coords) as model:
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(np.arange(1.0, 10.0).reshape(3, 3) / 4), dims=release.dims)
        bdp.observe(release, x)
    tables = tables_of(release)
    # Coordinates that fix a table with zero margins: its upper left corner.
    corners = by_definition()[:, :2, :2].reshape(-1, 4)
    norms = np.array([gauge_program(corners, (noisy - table)[:2, :2].ravel())[0] for table in tables])
    logs = -1.3 * norms + log_poisson(tables, np.arange(1.0, 10.0).reshape(3, 3) / 4).sum(axis=(1, 2))
    assert len(tables) > 20
    assert_posterior(sample(model, draws=3000, tune=100), tables, posterior_of(logs))
