"""What values with bounds cost: the true epsilon of truncated noise, and the scale that a stated epsilon needs.

Clipping (the BIT rule) is post-processing: it costs what the noise costs. Truncating is not, because the normaliser
``Z(s)`` of the noise within the bounds depends on the confidential value s. With noise of scale b, bounds a distance w
apart, and values s and s' that are t apart, the largest log-ratio of the densities is ``t/b + log Z(s') - log Z(s)``:
``|y - s'| - |y - s|`` reaches t within the bounds, and the normalisers do not depend on y. Z is concave and positive, so
log Z is concave: for a given t the ratio is largest with s at a bound and s' inside, where the loss is

    loss(t) = t/b + log Z(c0 + t) - log Z(c0),  0 <= t <= w.

It is concave in t, and does not fall, because the derivative of log Z is nowhere below -1/b. Coordinates of a vector are
independent, and every choice of their distances is attained with all of them at a bound, so that their losses add up.

Proportions within 0 and 1 change all together when a record comes, and yet lose what two of them lose that change by 1/n. Let
p be those of n - 1 records and ``p + c (e_j - p)``, c = 1/n, those with one more in category j; L = log Z is symmetric about
1/2. Where p is the likelier, p_i adds ``c p_i / b + g(p_i)`` to the loss, ``g(p) = L((1-c) p) - L(p)``, which is the integral of
``-p L'(p v)`` over v from 1 - c to 1. L' falls, so that ``L'(p v) >= L'(v)`` and g(p) <= p g(1); and p_j adds the same of
``q = 1 - p_j``. The sum of the other p_i is q: all add ``2 q (c/b + g(1)) <= 2 loss(c)``, attained by p = e_i. Where p is the less
likely, -g(p_i) is an increment of L over ``[(1-c) p_i, p_i]``, which is no further left than c, because p_i > 0 is 1/(n-1) or
more: by concavity it is at most ``p_i (L(c) - L(0)) = p_i g(1)``, and the same bound holds.

Truncated Gaussian noise costs never more than Gaussian noise without bounds, although its normaliser depends on s. The laws
around all s are one exponential family in y, so that tests by thresholds of y are the best ones for any two of them. Let F(c; s)
be the probability of at most c, and ``z = Phi^-1(F(c; s))``. The law is the image of a standard normal variable X under an
increasing map T, whose slope is nowhere above sigma: where it is largest, the second derivative of its logarithm,
``T'**2 / sigma**2 - 1``, is not above 0. Then (Hoeffding's covariance, whose integrand is positive)

``-dF/ds = cov(T(X), 1{X > z}) / sigma**2 <= sigma cov(X, 1{X > z}) / sigma**2 = phi(z) / sigma``,

so that ``-dz/ds <= 1 / sigma``: two values t apart are no easier to tell apart than normal laws t / sigma apart. That is Gaussian
differential privacy with ``mu = t / sigma``, from which ``rho = t**2 / (2 sigma**2)`` and the Gaussian delta follow. Independent
statistics add the squares of their t / sigma.

For one statistic the exact delta is found here. F(c; s) falls in s, so that delta is largest for pairs that are as far apart as
neighbours can be, and pairs (s, s + t) with s between a and b lose no more than the pair (a, b + t): bounds on all pairs, refined
where they are largest.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import numpy.typing as npt
import scipy
from scipy.special import ndtr

from bayesdp._arrays import Floats
from bayesdp._validate import finite_array, nonnegative_real, positive_integer, positive_real
from bayesdp.privacy.gaussian import gaussian_delta, gaussian_sigma

_SUBSETS = 20_000
"""Most choices of the statistics that change of which each is looked at."""


def truncated_loss(distance: npt.ArrayLike, b: npt.ArrayLike, width: npt.ArrayLike) -> Floats:
    """Loss of truncated Laplace noise of scale b for one value at a bound and another so far from it, elementwise.

    A distance of more than the width of the bounds counts as the width. For one bound ``t + log(2 - exp(-t))``, t = distance / b.
    """
    scale, wide = np.asarray(b, dtype=np.float64), np.asarray(width, dtype=np.float64)
    near = np.minimum(np.asarray(distance, dtype=np.float64), wide)
    with np.errstate(invalid="ignore"):
        rest = np.where(np.isinf(wide), 1.0, -np.expm1(-(wide / scale - near / scale)))
    return np.asarray(near / scale + np.log(rest - np.expm1(-near / scale)) - np.log(-np.expm1(-wide / scale)))


def truncated_epsilon(
    b: npt.ArrayLike,
    width: npt.ArrayLike,
    sensitivity: float,
    *,
    largest: npt.ArrayLike = math.inf,
    changed: int | None = None,
) -> float:
    """The true epsilon of truncated Laplace noise: the largest loss over pairs that neighbours can attain.

    Parameters
    ----------
    b : array_like, shape () or (statistics,)
        Scale of the noise.
    width : array_like, shape () or (statistics,)
        Distance of the bounds; infinite for one-sided bounds.
    sensitivity : float
        Largest l1 distance between the statistics of neighbours.
    largest : array_like, shape () or (statistics,)
        Largest change of each statistic.
    changed : int, optional
        How many statistics a neighbour changes at most; all of them if left out.

    Returns
    -------
    float
        Attained if neighbours attain every vector of changes that these numbers allow, with all of the changed
        statistics at a bound; never too small. Where the statistics have different scales, bounds or largest changes,
        and ``changed`` leaves more than 20,000 choices, the bound for changes of all statistics.

    Notes
    -----
    The sum of the concave losses is largest where their slopes are equal, or a change is the largest possible: the
    common slope is found by bisection. Spreading the same l1 distance over more coordinates costs more.

    Examples
    --------
    >>> for r in (1, 2, 4, 10):
    ...     print(f"{truncated_epsilon(np.ones(r), np.inf, 1.0):.2f}")
    1.49
    1.66
    1.80
    1.91
    """
    total = positive_real(sensitivity, "sensitivity")
    scale, wide, cap = (np.asarray(a, dtype=np.float64).reshape(-1) for a in np.broadcast_arrays(b, width, largest))
    for name, array in (("b", scale), ("width", wide), ("largest", cap)):
        if not np.all(array > 0):
            raise ValueError(f"{name} must be positive, got {array.min()}")
    cap = np.minimum(np.minimum(cap, wide), total)
    count = scale.size if changed is None else min(positive_integer(changed, "changed"), scale.size)
    if not _alike(scale, wide, cap):
        if math.comb(scale.size, count) <= _SUBSETS:
            chosen = (list(subset) for subset in combinations(range(scale.size), count))
            return max(_largest_sum(scale[i], wide[i], cap[i], total) for i in chosen)
        count = scale.size
    return _largest_sum(scale[:count], wide[:count], cap[:count], total)


def _alike(*arrays: Floats) -> bool:
    """Whether all statistics have the same numbers."""
    return all(np.all(array == array[0]) for array in arrays)


def _largest_sum(scale: Floats, wide: Floats, cap: Floats, total: float) -> float:
    """The largest ``sum_i loss_i(t_i)`` over ``0 <= t_i <= cap_i`` with ``sum_i t_i <= total``, the losses concave."""
    if cap.sum() <= total:
        return float(truncated_loss(cap, scale, wide).sum())
    if _alike(scale, wide, cap):  # concave and symmetric: equal shares
        return float(truncated_loss(np.full_like(cap, total / len(cap)), scale, wide).sum())
    end = np.exp(-wide / scale)

    def spend(level: float) -> Floats:
        """For each statistic, the change t at which the slope of its loss falls to the level: a quadratic in ``exp(-t / b)``.

        ``loss'(t) = (1 + (x - end / x) / Z) / b`` with ``x = exp(-t / b)`` and ``Z = 2 - x - end / x``.
        """
        c = level * scale - 1.0
        root = np.sqrt(c**2 + end * (1.0 - c**2))
        with np.errstate(divide="ignore", invalid="ignore"):
            x = np.where(c < 0.0, end * (1.0 - c) / (root - c), (c + root) / (1.0 + c))
            return np.clip(-scale * np.log(x), 0.0, cap)

    low, high = 0.0, float(np.max(2.0 / scale))
    for _ in range(60):
        level = 0.5 * (low + high)
        low, high = (level, high) if spend(level).sum() > total else (low, level)
    changes = spend(low)  # a little more than the total, so that the result is not too small
    excess = changes.sum() - total
    between = changes - spend(high)  # where the slope is flat, any share of the difference will do
    changes = changes - between * (excess / between.sum() if between.sum() > 0.0 else 0.0)
    return float(truncated_loss(changes, scale, wide).sum())


def truncated_scale(
    epsilon: float,
    width: npt.ArrayLike,
    sensitivity: float,
    *,
    largest: npt.ArrayLike = math.inf,
    changed: int | None = None,
) -> float:
    """The smallest common scale b of truncated Laplace noise whose true epsilon is at most the stated one.

    Parameters
    ----------
    epsilon : float
    width, sensitivity, largest, changed
        As in `truncated_epsilon`.

    Returns
    -------
    float
        Between ``sensitivity / epsilon``, which is not enough, and ``2 sensitivity / epsilon``, which always is: ``t +
        log(2 - exp(-t)) <= 2 t``.

    Examples
    --------
    >>> b = truncated_scale(1.0, 1.0, 1 / 50)
    >>> print(f"{50 * b:.4f} {truncated_epsilon(b, 1.0, 1 / 50):.6f}")
    1.6126 1.000000
    """
    stated = positive_real(epsilon, "epsilon")
    safe = 2.0 * positive_real(sensitivity, "sensitivity") / stated

    def true(b: float) -> float:
        size = np.full(np.shape(np.broadcast_arrays(width, largest)[0]), b)
        return truncated_epsilon(size, width, sensitivity, largest=largest, changed=changed)

    low = 0.5 * safe
    while true(low) <= stated:  # a statistic that hardly changes may need less than sensitivity / epsilon
        low *= 0.5
    high = safe * (1.0 + 1e-12)
    b = float(scipy.optimize.brentq(lambda scale: true(scale) - stated, low, high, xtol=1e-300, rtol=1e-14))
    while true(b) > stated:  # to the safe side of the root
        b *= 1.0 + 1e-13
    return b


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(80)
_NEGLIGIBLE = 45.0
_TOLERANCE = 1e-6
"""Relative; the bound on all pairs is refined until it is so close to the loss of one pair."""
_ROUNDS, _MOST = 40, 4096
"""Most refinements, and most intervals in one of them; what is not refined any more keeps its bound, which is true."""


def truncated_normal_delta(
    epsilon: float, sigma: float, bounds: tuple[float, float], sensitivity: float = 1.0
) -> float:
    """The smallest delta at which truncated Gaussian noise on one statistic is (epsilon, delta)-differentially private.

    Parameters
    ----------
    epsilon, sigma, bounds, sensitivity
        The loss, the scale of the noise, the bounds, of which one may be infinite, and the largest change of the statistic.

    Returns
    -------
    float
        Never too small, and too large by a millionth of it at most where that takes few refinements; at most `gaussian_delta`,
        which it is where a bound is infinite.

    Examples
    --------
    A share of 50 records, and a number between 0 and 1 of one person:

    >>> print(f"{truncated_normal_delta(1.0, 0.05, (0.0, 1.0), 0.02):.4e} {gaussian_delta(1.0, 0.05, 0.02):.4e}")
    1.2999e-03 1.2999e-03
    >>> print(f"{truncated_normal_delta(0.5, 0.8, (0.0, 1.0)):.4f} {gaussian_delta(0.5, 0.8):.4f}")
    0.0291 0.3373
    """
    nonnegative_real(epsilon, "epsilon")
    width, t = _checked(sigma, bounds, sensitivity)
    free = gaussian_delta(epsilon, sigma, t)
    if math.isinf(width):
        return free
    return min(free, _largest(epsilon, width / sigma, t / sigma, free))


def truncated_normal_sigma(
    epsilon: float, delta: float, bounds: tuple[float, float], sensitivity: float = 1.0
) -> float:
    """A scale of truncated Gaussian noise on one statistic that is (epsilon, delta)-differentially private.

    The smallest, where bounds are so narrow that it is smaller than that of Gaussian noise by a thousandth; else the latter.

    Examples
    --------
    A number between 0 and 1 of each person, who needs no aggregation, against Gaussian noise:

    >>> print(f"{truncated_normal_sigma(1.0, 1e-6, (0.0, 1.0)):.4f} {gaussian_sigma(1.0, 1e-6):.4f}")
    0.7065 4.2247
    """
    free = gaussian_sigma(epsilon, delta, sensitivity)
    width, _ = _checked(free, bounds, sensitivity)

    def excess(sigma: float) -> float:
        return truncated_normal_delta(epsilon, sigma, bounds, sensitivity) - delta

    if math.isinf(width) or excess(0.999 * free) > 0.0:
        return free
    low = high = 0.999 * free
    while excess(low) <= 0.0:
        low, high = 0.5 * low, low
        if low < 1e-6 * free:  # a delta so large that hardly any noise is needed
            return high
    # In any unit, so that only `rtol` counts.
    root, step = float(scipy.optimize.brentq(excess, low, high, xtol=1e-300, rtol=1e-10)), 1e-10
    while excess(root) > 0.0:  # bounds on all pairs differ by up to a millionth from one another
        root, step = root * (1.0 + step), 2.0 * step
    return root


def _checked(sigma: float, bounds: tuple[float, float], sensitivity: float) -> tuple[float, float]:
    """Distance of the bounds and of the statistics of neighbours, which is no larger."""
    positive_real(sigma, "sigma")
    low, high = (float(side) for side in bounds)
    finite_array([side for side in (low, high) if not math.isinf(side)], "bounds")
    if not low < high:
        raise ValueError(f"bounds must be two different numbers, the lower one first, got {low} and {high}")
    return high - low, min(positive_real(sensitivity, "sensitivity"), high - low)


def _log_mean(s: Floats, width: float) -> Floats:
    """Logarithm of the mean of ``exp(-(y - s)**2 / 2)`` over 0 < y < width, for locations within it, in units of sigma."""
    if width >= 1.0:
        return np.asarray(np.log(ndtr(width - s) - ndtr(-s)) + 0.5 * math.log(2.0 * math.pi) - math.log(width))
    # About -width**2, which differences of distribution functions would lose.
    y = 0.5 * width * (1.0 + _NODES)
    return np.asarray(np.log1p(0.5 * np.expm1(-0.5 * (y - s[:, None]) ** 2) @ _WEIGHTS))


def _pair_delta(epsilon: float, s: Floats, t: Floats, width: float) -> Floats:
    """The delta of the pair (s, s + t) on (0, width), in units of sigma: an integral of positive terms.

    ``max(0, p(y; s) - exp(epsilon) p(y; s + t))`` is ``p(y; s) (1 - exp(-t (c - y)))`` below c, where the log-ratio is epsilon.
    """
    # Of the densities at the lower bound; at y it is less by t y.
    log_ratio = t * (s + 0.5 * t) + _log_mean(s + t, width) - _log_mean(s, width)
    c = np.minimum((log_ratio - epsilon) / t, s + 12.0)
    end = np.clip(c, 0.0, width)
    away = np.maximum(s - end, 0.0)  # the density falls from `end` downwards, or from s on both sides
    start = np.maximum(np.minimum(end, s) - 2.0 * _NEGLIGIBLE / (away + np.sqrt(away**2 + 2.0 * _NEGLIGIBLE)), 0.0)
    half = 0.5 * (end - start)[:, None]
    y = start[:, None] + half * (1.0 + _NODES)
    density = np.exp(-0.5 * (y - s[:, None]) ** 2 - _log_mean(s, width)[:, None]) / width
    return np.asarray(
        np.sum(half * _WEIGHTS * density * -np.expm1(-t[:, None] * np.maximum(c[:, None] - y, 0.0)), axis=1)
    )


def _largest(epsilon: float, width: float, t: float, free: float) -> float:
    """A bound on the delta of all pairs t apart, close to the largest; `free` is one already. In units of sigma."""
    room = width - t
    if room <= 1e-12 * width:
        return float(_pair_delta(epsilon, np.zeros(1), np.full(1, width), width)[0])
    # Mirror images of pairs are pairs, with small and large outputs exchanged: one direction is enough.
    edges = np.linspace(0.0, room, 65)
    attained = float(_pair_delta(epsilon, edges, np.full(65, t), width).max())
    start, end = edges[:-1], edges[1:]
    settled = attained
    for rounds in range(_ROUNDS + 1):
        bound = _pair_delta(epsilon, start, np.minimum(end - start + t, width - start), width)
        enough = attained * (1.0 + _TOLERANCE)
        open_ = bound > enough
        if not open_.any() or enough >= free or 2 * open_.sum() > _MOST or rounds == _ROUNDS:
            break
        settled = max(settled, float(bound[~open_].max(initial=0.0)))
        middle = 0.5 * (start + end)[open_]
        attained = max(attained, float(_pair_delta(epsilon, middle, np.full(middle.shape, t), width).max()))
        start, end = np.concatenate([start[open_], middle]), np.concatenate([middle, end[open_]])
    return max(settled, float(bound.max()))
