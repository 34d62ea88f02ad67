"""Censored answers in the kernel: its posterior against enumeration, with bounds of the thresholds far inside and far outside.

False alarms: see tests/inference/oracle.py, 6e-7 a mean.
"""

from __future__ import annotations

import itertools

import numpy as np
import pymc as pm
import pytest
from pytensor.compile.mode import Mode
from scipy import stats

import bayesdp as bdp
from bayesdp.inference import FiberGibbs
from bayesdp.noise import DiscreteGaussian, DiscreteLaplace, Gaussian
from tests.inference.oracle import assert_posterior, posterior_of, sample

LINE = {"county": ["p", "q", "r"]}
RATE = np.array([2.0, 4.0, 3.0])
TABLES = np.array([own for own in itertools.product(range(13), repeat=3) if sum(own) == 12])


@pytest.mark.parametrize("law", [DiscreteLaplace(1.5), DiscreteGaussian(2.0), Gaussian(1.5)], ids=str)
def test_kernel_takes_them_and_has_the_posterior(law) -> None:
    measured = bdp.thresholded(bdp.Identity(LINE), {"q": 7}, law, 5, candidates=["p", "q"])
    release = bdp.Release.from_published(LINE, [measured], [bdp.Exact(bdp.Totals(LINE), 12)])
    with pm.Model(coords=release.coords) as model:
        bdp.observe(release, bdp.ConfidentialCounts("x", pm.Poisson.dist(RATE), dims=release.dims))
        step = FiberGibbs(compile_kwargs={"mode": Mode(linker="py", optimizer="fast_compile")})
    [table] = step.tables
    assert [term.kind for term in table.target.terms] == ["windows"]
    assert table._rest is None
    under = law.log_cdf(4 if law.integer else 5.0, TABLES[:, 0])
    logs = stats.poisson.logpmf(TABLES, RATE).sum(axis=1) + under + law.log_each(7, TABLES[:, 1])
    assert_posterior(sample(model, draws=2000, tune=100, seed=3, step=step), TABLES, posterior_of(logs))
