"""Posteriors given releases of the Semi-DP mechanisms, against enumeration with norms written out.

False alarms: see `oracle.STANDARD_ERRORS`.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import bayesdp as bdp
from bayesdp.mechanisms import SemiLatticeLaplace
from tests.inference.oracle import (
    GRID,
    assert_posterior,
    counts_model,
    is_exact_conditional,
    log_poisson,
    posterior_of,
    sample,
    tables_of,
)

pytestmark = pytest.mark.system

BOTH = bdp.Margins(GRID, ["county"], ["education"])
TABLE = np.array([[3, 1, 4], [2, 5, 0]])
RATES = np.arange(1.0, 7.0).reshape(2, 3)

# Of a table with two rows, whose differences are (a, -a), under any number of records: sensitivities 4, 2 and 1.
MECHANISMS = {
    "gaussian": (bdp.SemiGaussian(BOTH, mu=1.1), lambda a: -((1.1 / 2) ** 2) * (a**2).sum(axis=1)),
    "l1": (bdp.SemiNorm(BOTH, 1.2, "l1"), lambda a: -1.2 * np.abs(a).sum(axis=1) / 2),
    "l2": (bdp.SemiNorm(BOTH, 1.2, "l2"), lambda a: -1.2 * np.sqrt((a**2).sum(axis=1) / 2)),
    "linf": (bdp.SemiNorm(BOTH, 1.2, "linf"), lambda a: -1.2 * np.abs(a).max(axis=1)),
    "k-norm": (bdp.SemiKNorm(BOTH, 1.2), lambda a: -1.2 * np.abs(a).sum(axis=1) / 2),
    "lattice": (SemiLatticeLaplace(BOTH, 1.2, "l2"), lambda a: -1.2 * np.sqrt((a**2).sum(axis=1) / 2)),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_both_margins_of_a_2x3_table(name):
    mechanism, log_density = MECHANISMS[name]
    release = mechanism.release(TABLE, rng=np.random.default_rng(8))
    model = counts_model(release, pm.Poisson.dist(RATES))
    tables = tables_of(release)
    logs = log_density((release.values.values - tables)[:, 0]) + log_poisson(tables, RATES).sum(axis=(1, 2))
    assert is_exact_conditional(model) == (name not in ("linf", "k-norm"))
    # What PyMC has, up to a constant of the fiber, is what NumPy says.
    with model:
        term = model.compile_logp(vars=[model["noisy"]], jacobian=False)
    some = tables[:: max(1, len(tables) // 5)]
    found = np.array([float(term({"x": table})) for table in some])
    assert found == pytest.approx([mechanism.logp(release.values, table) for table in some], rel=1e-9)
    assert_posterior(sample(model, draws=1500, tune=100), tables, posterior_of(logs))
