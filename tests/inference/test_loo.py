"""What docs/ENTRIES.md says of leaving out one noisy number, against enumeration."""

import arviz as az
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

TOTAL, NOISY, RATE = 60, np.array([11, 29, 23]), np.array([10.0, 30.0, 20.0])
pytestmark = pytest.mark.filterwarnings("ignore")  # of ArviZ, about k


def tables_and_terms(sigma, first=None):
    tables = np.array([(a, b, TOTAL - a - b) for a in range(TOTAL + 1) for b in range(TOTAL + 1 - a)])
    if first is not None:
        tables = tables[tables[:, 0] == first]
    far = np.arange(-400, 401)
    own = -((NOISY - tables) ** 2) / (2 * sigma**2) - logsumexp(-(far**2) / (2 * sigma**2))
    return tables, stats.poisson.logpmf(tables, RATE).sum(axis=1), own


def draws_of(tables, prior, own):
    weights = np.exp(prior + own.sum(axis=1) - logsumexp(prior + own.sum(axis=1)))
    chosen = np.random.default_rng(1).choice(len(tables), (4, 1000), p=weights)
    return az.from_dict({"posterior": {"x": tables[chosen]}, "log_likelihood": {"noisy": own[chosen]}})


def test_ties_leave_k_undefined_and_the_error_unsaid_and_determined_cells_stop_loo():
    for sigma, least, most in ((1.0, 0.1, 0.13), (3.0, 0.0, 0.03)):
        tables, prior, own = tables_and_terms(sigma)
        without = prior[:, None] + own.sum(axis=1, keepdims=True) - own
        exact = logsumexp(without + own, axis=0) - logsumexp(without, axis=0)
        found = az.loo(draws_of(tables, prior, own), pointwise=True)
        assert least < np.abs(found.elpd_i.values - exact).max() < most
        assert np.isnan(found.pareto_k.values).any()
        assert not found.warning
    with pytest.raises(ValueError, match="All tail values are the same"):
        az.loo(draws_of(*tables_and_terms(3.0, first=12)))
