"""Liu (2019), Proposition 3: noisy statistics as estimates of a parameter, by exact sums over the data."""

import numpy as np
import pytest
from scipy import stats

from bayesdp.noise import BoundaryInflatedLaplace, TruncatedLaplace

SIZES = (20, 80, 320, 1280, 5120)
EPSILON = 0.5


@pytest.mark.parametrize("theta", [0.0, 0.02, 0.5])
@pytest.mark.parametrize("kind", [TruncatedLaplace, BoundaryInflatedLaplace])
def test_unbiased_and_consistent_for_the_parameter(kind, theta):
    """Of n answers yes or no, X are yes: s = X/n, noise of scale 1/(n epsilon). Mean, error and tail are sums over X."""
    errors = []
    for n in SIZES:
        b = 1.0 / (n * EPSILON)
        law, s, mass = kind(b, (0.0, 1.0)), np.arange(n + 1) / n, stats.binom.pmf(np.arange(n + 1), n, theta)
        shift = law.bias(s)
        # What makes (a) true: the bias is below the scale at every s, and so on average over any s.
        assert np.abs(shift).max() <= (b if kind is TruncatedLaplace else b / 2) * (1 + 1e-12)
        bias = float(mass @ (s + shift)) - theta
        assert abs(bias) <= b * (1 + 1e-12)  # (a)
        # E (s* - theta)**2 = E mse(s) + 2 E bias(s) (s - theta) + Var(s)
        error = float(mass @ (law.mse(s) + 2 * shift * (s - theta) + (s - theta) ** 2))
        most = (np.sqrt(2) * b + np.sqrt(theta * (1 - theta) / n)) ** 2
        assert error <= most * (1 + 1e-12)  # Minkowski, with Proposition 2
        errors.append(error)
        above, below = 1.0 - law.cdf(np.full(n + 1, theta + 0.05), s), law.cdf(np.full(n + 1, theta - 0.05), s)
        tail = float(mass @ (above + below))
        assert tail <= error / 0.05**2 + 1e-12  # Chebyshev
    assert tail < 1e-9  # (b), at the largest size
    assert np.all(np.diff(errors) < 0)
    # Four times the records divide the error by four at least, once the noise is the smaller part.
    assert errors[-1] < errors[-2] / 3.9
