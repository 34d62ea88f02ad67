"""Which cells that never moved are told of: those that something holds, and that can be elsewhere. All tables are enumerated."""

from __future__ import annotations

from itertools import product

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.inference.annotating import annotate
from bayesdp.inference.held import at_rest
from tests.steps.test_published_margins import CASES, RATE, SHAPE


def model_of(release, mean=RATE):
    with pm.Model(coords=release.coords) as model:
        base = pm.NegativeBinomial.dist(mu=np.broadcast_to(mean, release.frame.shape), alpha=SHAPE)
        bdp.observe(release, bdp.ConfidentialCounts("x", base, dims=release.dims))
    return model


def at_rest_of(release, model, ends):
    """Of chains that stay where they are."""
    draws = np.stack([[own.reshape(release.frame.shape)] * 3 for own in ends])
    free = np.ones(release.frame.shape, dtype=bool)
    return at_rest(model, "x", xr.DataArray(draws, dims=("chain", "draw", *release.dims)), free).reshape(-1).tolist()


def kinds(tables, own):
    """Cells that have one count in all tables, and those at 0 that have another one in a table which is the same elsewhere."""
    other = tables != own
    return ~other.any(axis=0), other[other.sum(axis=1) == 1].any(axis=0) & (own == 0)


QUICK = ("2x2x2, walls of 1", "2x2x2, zeros kept", "2x2x2, gaps", "2x2x2, total")


@pytest.mark.parametrize("name", [own if own in QUICK else pytest.param(own, marks=pytest.mark.slow) for own in CASES])
def test_cells_of_frozen_chains(name):
    case = CASES[name]
    tables, _ = case.posterior()
    model = model_of(case.released)
    for i in {0, len(tables) - 1}:
        one, open_ = kinds(tables, tables[i])
        assert at_rest_of(case.released, model, tables[[i, i]]) == (one | open_).tolist()


LAW = bdp.noise.TransitionTable.by_count({0: {0: 1.0}, 1: {-1: 1.0}, 2: {1: 1.0}, 3: {-3: 0.5, 0: 0.5}, 4: {-1: 0.5, 1: 0.5}})
"""An odd one: 0 is published of 0, 1 and 3, not of 2; 3 of 2, 3, 4 and more."""


def small(cells, rows):
    frame = {"a": ["a0", "a1"], "b": ["b0", "b1"]}
    parts = [(bdp.Identity(frame), cells), (bdp.Margins(frame, ["a"]), rows)]
    return bdp.Release.from_published(frame, [bdp.Measured(q, y, LAW) for q, y in parts], adding_up="warn")


def enumerated(release):
    tables = np.array(list(product(range(9), repeat=4)))
    possible = np.ones(len(tables), dtype=bool)
    for own in release.measurements:
        answers = tables @ own.query.matrix.toarray().T.astype(int)
        possible &= np.isfinite(own.law.log_each(own.values.reshape(-1), answers)).all(axis=1)
    return tables[possible]
