"""Which cells that never moved are told of: those that something holds, and that can be elsewhere. All tables are enumerated."""

from itertools import product

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.inference.annotating import annotate, at_rest
from tests.inference.oracle import counts_model
from tests.steps.test_published_margins import CASES, RATE, SHAPE, posterior

pytestmark = pytest.mark.filterwarnings("ignore::bayesdp.PostProcessedWarning")


def model_of(release, mean=RATE):
    return counts_model(release, pm.NegativeBinomial.dist(mu=np.broadcast_to(mean, release.frame.shape), alpha=SHAPE))


def sampled(release, mean=RATE):
    with model_of(release, mean) as model:
        return bdp.sample(200, tune=50, chains=2, cores=1, random_seed=1, quiet=True, progressbar=False), model


def at_rest_of(release, model, ends):
    """Of chains that stay where they are. Cell by cell: after one that is held no other is looked at."""
    draws = np.stack([[own.reshape(release.frame.shape)] * 3 for own in ends])
    cells = np.eye(release.frame.size, dtype=bool).reshape(-1, *release.frame.shape)
    return [at_rest(model, "x", xr.DataArray(draws, dims=("chain", "draw", *release.dims)), own).any() for own in cells]


@pytest.mark.parametrize(("name", "place"), [("zeros kept", 0), ("gaps", -1), ("gaps", 0), ("total", -1)])
def test_cells_of_frozen_chains(name, place):
    """Cells that have one count in all tables, and those at 0 that have another one in a table which is the same elsewhere."""
    (tables, _), released = posterior(name), CASES[name].released
    own = tables[place]
    other = tables != own
    free = other[other.sum(axis=1) == 1].any(axis=0) & (own == 0)
    assert at_rest_of(released, model_of(released), [own, own]) == (~other.any(axis=0) | free).tolist()


DEVIATIONS = [(0,), (-1, 1), (0,), (-3, 0), (-2, 0), (-1, 0), (-1, 0)]
ROWS = {count: dict.fromkeys(own, 1.0 / len(own)) for count, own in enumerate(DEVIATIONS)}
GAPS = bdp.noise.TransitionTable.by_count(ROWS, period=1)
"""A 2 is published of 1, 2 and 4, a 0 of 0, 1 and 3, a 5 of 5 and 6, and a 6 of 6 and 7."""


def pair(total):
    """Two cells published as 2 and 0, and their sum; beside them two that move."""
    frame = {"a": ["a0", "a1"], "b": ["b0", "b1"]}
    parts = [(bdp.Identity(frame), [[2, 0], [5, 8]]), (bdp.Margins(frame, ["a"]), [total, 13])]
    return bdp.Release.from_published(frame, [bdp.Measured(q, y, GAPS) for q, y in parts], adding_up="warn")


def tables_of(release):
    tables = np.array(list(product(range(10), repeat=4)))
    possible = np.ones(len(tables), dtype=bool)
    for own in release.measurements:
        answers = tables @ own.query.matrix.toarray().T.astype(int)
        possible &= np.isfinite(GAPS.log_each(own.values.reshape(-1), answers)).all(axis=1)
    return tables[possible]


@pytest.mark.parametrize(("total", "pairs"), [(6, [[4, 3]]), (5, [[2, 3], [4, 1]]), (0, [[1, 0], [2, 1]])])
def test_cells_that_cannot_move_are_not_told_of_and_cells_that_can_are(total, pairs):
    """No single cell leads from one pair to another: a sum of 2, from 1 and 1, would be published as 2."""
    release = pair(total)
    assert np.unique(tables_of(release)[:, :2], axis=0).tolist() == pairs
    tree, model = sampled(release)
    assert "never did" not in tree["diagnostics"].attrs["message"]
    tree["posterior"]["x"][:, :, 0] = pairs[0]  # as if chains had stayed there
    message = annotate(tree, model)["diagnostics"].attrs["message"]
    assert ("never did" in message) == (len(pairs) > 1), message


def test_a_cell_at_zero_that_a_gap_holds():
    """From 1 and 0 the second cell cannot go to 1, whose sum of 2 is in a gap, nor to 3, whose sum is beyond the end."""
    release = pair(0)
    end = next(own for own in tables_of(release) if own[:2].tolist() == [1, 0])
    assert not at_rest_of(release, model_of(release), [end])[1]
    assert at_rest_of(pair(2), model_of(pair(2)), [np.array([1, 0, 5, 8])])[1]  # a sum of 2 is published as 2


def test_an_area_of_zeros_is_no_stuck_chain():
    """People there are possible, and improbable: nothing published is above 0. Cells elsewhere that stay are told of."""
    frame = {"area": ["empty", "full"], "b": ["b0", "b1", "b2"]}
    law = bdp.noise.CellKey(max_deviation=3, variance_at_most=9.0, not_smaller_than=3)
    parts = [(bdp.Identity(frame), [[0, 0, 0], [31, 40, 55]]), (bdp.Margins(frame, ["area"]), [0, 127])]
    release = bdp.Release.from_published(frame, [bdp.Measured(query, values, law) for query, values in parts])
    tree, model = sampled(release, [[1e-4], [40.0]])
    assert (tree["posterior"]["x"].values[:, :, 0] == 0).all()  # a count above 0 has probability 2e-4 at most
    assert "never did" not in tree["diagnostics"].attrs["message"]
    assert tree["diagnostics"].attrs["verdict"] != "not converged"
    tree["posterior"]["x"][:, :, 1, 0] = tree["posterior"]["x"].values[0, 0, 1, 0]
    assert "never did" in annotate(tree, model)["diagnostics"].attrs["message"]
