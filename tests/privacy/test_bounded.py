"""What noise within bounds loses, Laplace and Gaussian, against a search over pairs and quadrature."""

import numpy as np
import pytest
from scipy import stats

from bayesdp.noise import BoundaryInflatedLaplace, TruncatedGaussian, TruncatedLaplace
from bayesdp.privacy import bounded, gaussian_delta, gaussian_sigma, truncated_normal_delta, truncated_normal_sigma
from bayesdp.privacy.bounded import truncated_epsilon, truncated_loss, truncated_scale
from tests.refusals import refused


def searched(law, distance, points=400):
    """The largest log-ratio of densities over a grid of pairs within a distance, and of outputs."""
    low, high = float(law.lower), min(float(law.upper), float(law.lower) + 40 * law.b)
    s = np.linspace(low, high, points + 1)
    y = np.unique(np.concatenate([s[::8], [low, high]]))
    density = np.stack([law.log_density(y, np.full_like(y, mu)) for mu in s])
    step = round(distance / (s[1] - s[0]))
    assert abs(step * (s[1] - s[0]) - distance) < 1e-9
    return max(float(np.max(np.abs(density[k:] - density[:-k]))) for k in range(1, step + 1))


@pytest.mark.parametrize(("b", "width", "distance"), [(0.1, 1.0, 0.25), (0.5, 4.0, 2.0), (2.0, 80.0, 2.0)])
def test_scalar_loss_is_what_a_search_finds(b, width, distance):
    stated = truncated_epsilon(b, width, distance)
    assert searched(TruncatedLaplace(b, (0.0, width)), distance) == pytest.approx(stated, rel=1e-9)
    assert truncated_loss(distance, b, width) == pytest.approx(stated, rel=1e-12)
    # Clipping costs what the noise costs.
    assert searched(BoundaryInflatedLaplace(b, (0.0, width)), distance) == pytest.approx(distance / b, rel=1e-9)


def test_published_numbers_and_proportions_that_change_in_two_places_only():
    """A scalar on [0, 1], n = 50, epsilon 1 at scale 1/50 costs 1.49; vectors 1.66, 1.80 and 1.91."""
    assert truncated_epsilon(1 / 50, 1.0, 1 / 50) == pytest.approx(1.49, abs=0.005)
    for r, expected in ((2, 1.66), (4, 1.80), (10, 1.91)):
        assert truncated_epsilon(np.full(r, 1.0), np.inf, 1.0) == pytest.approx(expected, abs=0.005)
    assert truncated_epsilon(1.0, np.inf, 1.0) == pytest.approx(1.0 + np.log(2 - np.exp(-1.0)), rel=1e-14)
    n, k = 50, 4
    own = truncated_epsilon(np.full(k, 2 / n), 1.0, 2 / n, largest=1 / n, changed=2)
    assert own == pytest.approx(2 * truncated_loss(1 / n, 2 / n, 1.0), rel=1e-12)
    assert own < truncated_epsilon(np.full(k, 2 / n), 1.0, 2 / n)


@pytest.mark.parametrize(
    ("b", "width", "total", "cap"),
    [
        ([1.0, 1.0], [1.0, 3.0], 1.5, [np.inf, np.inf]),
        ([0.5, 1.0], [2.0, 2.0], 1.0, [0.3, np.inf]),
        ([1.0, 2.0], [np.inf, 1.0], 3.0, [np.inf, np.inf]),
    ],
)
def test_vector_loss_is_the_best_split(b, width, total, cap):
    """Two coordinates: the split of the l1 distance between them by brute force."""
    most = [min(w, c, total) for w, c in zip(width, cap, strict=True)]
    first = np.linspace(max(total - most[1], 0.0) if sum(most) > total else 0.0, most[0], 200_001)
    second = np.minimum(total - first, most[1])
    values = truncated_loss(first, b[0], width[0]) + truncated_loss(second, b[1], width[1])
    found = truncated_epsilon(b, width, total, largest=cap)
    assert values.max() - 1e-12 <= found <= values.max() * (1 + 1e-8)
    one = max(truncated_loss(most[0], b[0], width[0]), truncated_loss(most[1], b[1], width[1]))
    assert truncated_epsilon(b, width, total, largest=cap, changed=1) == pytest.approx(one, rel=1e-12)


@pytest.mark.parametrize(("epsilon", "width", "delta", "r", "cap", "changed"), [
    (0.1, 1.0, 2 / 50, 4, 1 / 50, 2),
    (1.0, np.inf, 5.0, 10, np.inf, None),
    (1.0, 1e12, 1e-9, 2, np.inf, None),
    (1e-6, 1.0, 1e-3, 3, np.inf, None),
])  # fmt: skip
def test_calibration_makes_epsilon_true(epsilon, width, delta, r, cap, changed):
    widths = np.full(r, width)
    b = truncated_scale(epsilon, widths, delta, largest=cap, changed=changed)
    true = truncated_epsilon(np.full(r, b), widths, delta, largest=cap, changed=changed)
    assert true == pytest.approx(epsilon, rel=1e-9)
    assert true <= epsilon
    assert b <= 2 * delta / epsilon * (1 + 1e-9)


CASES = [(0.5, 0.5, 0.5), (3.0, 1.0, 1.0), (3.3, 0.86, 2.0), (20.0, 2.0, 3.0), (5.0, 0.4, 0.0)]
"""Width, sensitivity (both in units of sigma) and epsilon."""


def _searched(width, t, epsilon):
    """The largest delta over pairs up to t apart, both ways round, by distribution functions at thresholds."""
    law = TruncatedGaussian(1.0, (0.0, width))
    c, worst = np.linspace(0.0, width, 1201), 0.0
    for s in np.linspace(0.0, width - t, 41):
        for other in (s + t, s + 0.5 * t):
            one, two = law.cdf(c, np.full(c.shape, s)), law.cdf(c, np.full(c.shape, other))
            worst = max(worst, (one - np.exp(epsilon) * two).max(), ((1 - two) - np.exp(epsilon) * (1 - one)).max())
    return worst


@pytest.mark.parametrize(("width", "t", "epsilon"), CASES)
def test_delta_is_that_of_the_worst_pair_and_no_more_than_of_gaussian_noise(width, t, epsilon):
    found, searched = truncated_normal_delta(epsilon, 1.0, (0.0, width), t), _searched(width, t, epsilon)
    assert 0.98 * found - 1e-9 <= searched <= found * (1 + 1e-9) + 1e-14  # thresholds and pairs are on grids
    # Any unit, any place, both directions.
    assert truncated_normal_delta(epsilon, 0.1, (-7.0, -7.0 + 0.1 * width), 0.1 * t) == pytest.approx(found, rel=1e-5)
    assert truncated_normal_delta(epsilon, 1e9, (0.0, 1e9 * width), 1e9 * t) == pytest.approx(found, rel=1e-5)
    # The theorem, without the minimum that the function takes: z(s) - z(s + t) <= t at every threshold, and so delta.
    s = np.linspace(0.0, width - t, 41)
    free = gaussian_delta(epsilon, 1.0, t)
    assert bounded._pair_delta(epsilon, s, np.full(41, t), width).max() <= free * (1 + 1e-9)
    law = TruncatedGaussian(1.0, (0.0, width))
    c = np.linspace(0.0, width, 101)[1:-1]
    for own in s:
        one, two = (law.cdf(c, np.full(c.shape, at)) for at in (own, own + t))
        held = (two > 1e-300) & (one < 1 - 1e-9)  # what double precision holds
        apart = stats.norm.ppf(one[held]) - stats.norm.ppf(two[held])
        assert np.all((apart >= 0.0) & (apart <= t * (1 + 1e-6)))


def test_noise_that_is_wide_beside_the_bounds_and_sigma_no_larger_than_gaussian():
    """Losses of 1e-5 to 1e-16 are no rounding errors: for a narrow interval the log-ratio is ``t (w / 2 - y)``, up to w**4.

    Then the density is 1 / w, and the log-ratio positive below w / 2: delta(0) = t w / 8, and at epsilon its excess there.
    """
    for sigma in (1e2, 1e5, 1e8):
        for t in (1.0, 0.1):
            pure = 0.5 * t / sigma**2
            for share in (0.0, 0.3, 0.9):
                found = truncated_normal_delta(share * pure, sigma, (0.0, 1.0), t)
                exact = (1 - share) ** 2 * t / (8 * sigma**2)
                # All pairs lose alike: a coarse bound.
                assert exact * (1 - 1e-3 / sigma - 1e-9) <= found <= exact * 1.06
    for t, epsilon, delta in ((0.02, 1.0, 1e-6), (0.3, 0.1, 1e-3), (1.0, 1.0, 1e-6)):
        sigma = truncated_normal_sigma(epsilon, delta, (0.0, 1.0), t)
        assert truncated_normal_delta(epsilon, sigma, (0.0, 1.0), t) <= delta * (1 + 1e-12)
        assert sigma <= gaussian_sigma(epsilon, delta, t)
        if sigma < 0.99 * gaussian_sigma(epsilon, delta, t):  # no smaller one will do
            assert truncated_normal_delta(epsilon, sigma * (1 - 1e-4), (0.0, 1.0), t) > delta
    assert truncated_normal_sigma(1.0, 1e-6, (0.0, 1.0), 0.1) < 0.66 * gaussian_sigma(1.0, 1e-6, 0.1)
    assert truncated_normal_delta(1.0, 1.0, (0.0, np.inf)) == gaussian_delta(1.0, 1.0)


test_what_is_refused = refused(
    (lambda: truncated_epsilon(1.0, 0.0, 1.0), "width must be positive", ValueError),
    (lambda: truncated_scale(1.0, 1.0, 0.0), "sensitivity must be", ValueError),
    (lambda: truncated_normal_delta(1.0, 0.0, (0.0, 1.0)), "sigma must be", ValueError),
    (lambda: truncated_normal_delta(-1.0, 1.0, (0.0, 1.0)), "epsilon must be", ValueError),
    (lambda: truncated_normal_delta(1.0, 1.0, (1.0, 0.0)), "lower one first, got 1.0 and 0.0", ValueError),
    (lambda: truncated_normal_sigma(1.0, 1.0, (0.0, 1.0)), "delta must", ValueError),
)
