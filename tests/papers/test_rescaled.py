"""Published shares as a term of a model: the same density as without PyMC, its gradient, and a posterior of counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy.optimize import approx_fprime

import bayesdp as bdp
from bayesdp.papers import bounded_statistics, models
from bayesdp.papers.bounded_statistics import RescaledLaplace
from tests.inference.oracle import LINE, assert_posterior, sample
from tests.papers.test_proportions_as_releases import enumerated, tables_of

CASES = [
    ("boundary-inflated", [0.2, 0.3, 0.5]),
    ("boundary-inflated", [0.0, 0.45, 0.55]),
    ("boundary-inflated", [0.4, 0.4, 0.2]),
    ("boundary-inflated", [1 / 3, 1 / 3, 1 / 3]),
    ("truncated", [0.2, 0.3, 0.5]),
]


@pytest.mark.parametrize(("rule", "shares"), CASES)
def test_the_same_density_as_the_law(rule: str, shares: Any) -> None:
    mu = pt.vector("mu")
    for b in (0.02, 0.7):
        law = RescaledLaplace(b, rule)
        both = pm.logp(models.RescaledLaplace.dist(mu=mu, b=b, rule=rule), np.array(shares))
        compiled = pytensor.function([mu], [both, pt.grad(both, mu)], mode="FAST_COMPILE")
        for point in ([0.15, 0.32, 0.53], [0.0, 0.3, 0.7], [1.0, 0.0, 0.0]):
            found, gradient = compiled(np.array(point))
            assert found == pytest.approx(float(law.log_density(shares, point)), rel=1e-9, abs=1e-9)
            if min(point) > 0:
                numeric = approx_fprime(np.array(point), lambda x, law=law: float(law.log_density(shares, x)), 1e-7)
                assert np.allclose(gradient, numeric, rtol=1e-3, atol=1e-3)


@pytest.mark.slow  # the compiler takes most of it
def test_posterior_of_counts_by_the_step_method() -> None:
    """The fiber step with the shares as another term of the model, against enumeration; errors as in the oracle."""
    mechanism = bounded_statistics.RescaledProportions(2.0, 10, LINE["county"])
    published = mechanism.release([1, 3, 6], rng=np.random.default_rng(4))
    tables = tables_of(10, 3)
    release = bdp.Release.from_published(LINE, [], [bdp.Exact(bdp.Totals(LINE), 10)])
    with pm.Model(coords=release.coords) as model:
        x = bdp.ConfidentialCounts("x", pm.DirichletMultinomial.dist(10, np.ones(3)), dims=release.dims)
        bdp.observe(release, x)
        bdp.observe(published, x / 10.0)
    assert_posterior(sample(model, draws=1500), tables, enumerated(mechanism, published, tables))
