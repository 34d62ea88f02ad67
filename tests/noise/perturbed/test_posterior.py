"""Posteriors of small tables under perturbed cells and margins, by the step method, against enumeration.

A mean fails beyond 5 standard errors (`tests.comparison.means`): about 100 of them here, false alarms below 1e-4 together.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import bayesdp as bdp
from bayesdp.distributions import distribution_of
from bayesdp.inference import FiberGibbs
from bayesdp.noise import CellKey, ConventionalRounding, NoiseLaw, RandomRounding, TransitionTable
from tests.inference.oracle import assert_posterior, posterior_of, sample
from tests.noise.contract.mass_checks import PYTHON
from tests.noise.perturbed.records import log_by_records

LABELS = {"sex": ["f", "m"], "age": ["young", "old"]}
TRUTH = np.array([[4, 1], [0, 7]])
RATE = 3.0
ALL = np.array(list(product(range(16), repeat=4))).reshape(-1, 2, 2)
"""Tables with cells up to 15; none of the laws here allows larger ones."""

FULL = TransitionTable.by_count(
    {x: {y - x: stats.binom.pmf(y, x, 0.8) for y in range(15)} for x in range(15)}, period=0
)
LAWS = {
    "base 3": RandomRounding(3),
    "base 5": ConventionalRounding(5),
    "keys": CellKey(max_deviation=3, variance=2.0),
    "gaps": CellKey(max_deviation=3, variance=2.0, not_smaller_than=3),
    "full": FULL,
}


def published(law: NoiseLaw) -> list[bdp.Measured]:
    """Cells, margins of one dimension and the total, each perturbed on its own."""
    rng = np.random.default_rng(8)
    queries = [bdp.Identity(LABELS), bdp.Margins(LABELS, ["sex"]), bdp.Totals(LABELS)]
    asked = queries if law is not FULL else queries[:2]
    return [bdp.Measured(query, y, law) for query, y in zip(asked, law.draw_answers(rng, asked, TRUTH), strict=True)]


@pytest.mark.parametrize("name", LAWS)
def test_cells_and_margins_perturbed_on_their_own_have_the_joint_posterior(name: str) -> None:
    law = LAWS[name]
    measured = published(law)
    release = bdp.Release.from_published(LABELS, measured)
    with pm.Model(coords=release.coords) as model:
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(RATE), dims=release.dims)
        bdp.observe(release, x)
        step = FiberGibbs(compile_kwargs={"mode": PYTHON})
    assert [term.kind for term in step.tables[0].target.terms] == ["windows"] * len(measured)
    assert step.tables[0]._rest is None
    logs = stats.poisson.logpmf(ALL, RATE).sum(axis=(1, 2))
    if law.same_cell_same_value:
        logs = logs + log_by_records(law, measured, ALL)
    else:
        for own in measured:
            answers = ALL.reshape(-1, 4) @ own.query.matrix.toarray().T
            logs = logs + law.log_each(own.values.reshape(-1), answers).sum(axis=1)
    possible = np.isfinite(logs)
    assert 20 < possible.sum() < len(ALL) / 2
    assert not possible[(ALL == 15).any(axis=(1, 2))].any()
    tree = sample(model, draws=3000, tune=300, seed=5, step=step)
    assert_posterior(tree, ALL[possible], posterior_of(logs[possible]))


def test_a_table_that_ends_has_no_prior_predictive() -> None:
    """A count of the prior may be one that it does not know."""
    release = bdp.Release.from_published(LABELS, published(FULL)[:1])
    with pm.Model(coords=release.coords) as model:
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(RATE), dims=release.dims)
        bdp.observe(release, x)
    assert not bdp.inference.add_prior_predictive(xr.DataTree(), model)
    with pytest.raises(ValueError, match="of at most 14, under the law 'transition-table'"):
        pm.draw(distribution_of(TransitionTable).dist(99, **FULL.model_parameters()), mode=PYTHON)
