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
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from bayesdp._validate import positive_integer, positive_real

type Floats = npt.NDArray[np.float64]

_SUBSETS = 20_000
"""Most choices of the statistics that change of which each is looked at."""


def truncated_loss(distance: npt.ArrayLike, b: npt.ArrayLike, width: npt.ArrayLike) -> Floats:
    """Loss of truncated Laplace noise for one value at a bound and another so far from it, elementwise.

    Parameters
    ----------
    distance : array_like
        At least 0; more than the width counts as the width.
    b, width : array_like
        Scale of the noise and distance of the bounds (infinite where there is one only), positive.

    Returns
    -------
    numpy.ndarray
        ``t + log(2 - exp(-t))`` with ``t = distance / b`` for one bound.

    Examples
    --------
    >>> print(f"{truncated_loss(1.0, 1.0, np.inf):.4f}")
    1.4899
    """
    t = np.minimum(np.asarray(distance, dtype=np.float64), width) / np.asarray(b)
    w = np.asarray(width) / np.asarray(b)
    with np.errstate(invalid="ignore"):
        rest = np.where(np.isinf(w), 1.0, -np.expm1(-(w - t)))
    return np.asarray(t + np.log(-np.expm1(-t) + rest) - np.log(-np.expm1(-w)))


def discrete_truncated_loss(distance: npt.ArrayLike, b: npt.ArrayLike, width: npt.ArrayLike) -> Floats:
    """Loss of truncated discrete Laplace noise, as `truncated_loss` for whole distances and widths.

    With ``q = exp(-1/b)``, ``Z(s)`` is ``1 + q - q**(s - c0 + 1) - q**(c1 - s + 1)`` up to a constant, again concave.
    """
    n = np.minimum(np.asarray(distance, dtype=np.float64), width)
    scale, wide = np.asarray(b, dtype=np.float64), np.asarray(width, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        rest = np.where(np.isinf(wide), 1.0, -np.expm1(-(wide - n) / scale))
    q = np.exp(-1.0 / scale)
    # 1 + q - q**(n+1) - q**(w-n+1), in differences of 1 and powers.
    inner = -np.expm1(-1.0 / scale) + q * (-np.expm1(-n / scale)) + q * rest
    edge = -np.expm1(-(wide + 1.0) / scale)
    return np.asarray(n / scale + np.log(inner) - np.log(edge))


def truncated_epsilon(
    b: npt.ArrayLike,
    width: npt.ArrayLike,
    sensitivity: float,
    *,
    largest: npt.ArrayLike = math.inf,
    changed: int | None = None,
    discrete: bool = False,
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
    discrete : bool
        Discrete Laplace noise on integers: distances and widths are whole numbers.

    Returns
    -------
    float
        Attained if neighbours attain every vector of changes that these numbers allow, with all of the changed
        statistics at a bound; never too small. Where the statistics have different scales, bounds or largest changes,
        and ``changed`` leaves more than 20,000 choices, the bound for changes of all statistics.

    Raises
    ------
    TypeError, ValueError
        If a number is not valid.

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
    scale, wide, cap = (np.asarray(a, dtype=np.float64) for a in np.broadcast_arrays(b, width, largest))
    for name, array in (("b", scale), ("width", wide), ("largest", cap)):
        if not np.all(array > 0):
            raise ValueError(f"{name} must be positive, got {array.min()}")
    scale, wide, cap = (array.reshape(-1) for array in (scale, wide, cap))
    cap = np.minimum(np.minimum(cap, wide), total)
    if discrete:
        # A change beyond 2**53 of a whole number is none; fractional limits allow no more than their floor.
        cap, total = np.floor(cap), math.floor(total)
    keep = cap > 0
    scale, wide, cap = scale[keep], wide[keep], cap[keep]
    if not scale.size:
        return 0.0
    count = scale.size if changed is None else min(positive_integer(changed, "changed"), scale.size)
    alike = all(np.all(array == array[0]) for array in (scale, wide, cap))
    if count < scale.size and alike:
        return _largest_sum(scale[:count], wide[:count], cap[:count], total, discrete)
    if count < scale.size and math.comb(scale.size, count) <= _SUBSETS:
        chosen = (list(subset) for subset in combinations(range(scale.size), count))
        return max(_largest_sum(scale[i], wide[i], cap[i], total, discrete) for i in chosen)
    return _largest_sum(scale, wide, cap, total, discrete)


def _largest_sum(scale: Floats, wide: Floats, cap: Floats, total: float, discrete: bool) -> float:
    """The largest ``sum_i loss_i(t_i)`` over ``0 <= t_i <= cap_i`` with ``sum_i t_i <= total``, the losses concave."""
    loss = discrete_truncated_loss if discrete else truncated_loss
    if cap.sum() <= total:
        return float(loss(cap, scale, wide).sum())
    if discrete and total <= 10_000:
        # One unit after the other to where it costs most, which is best for concave losses.
        given = np.zeros_like(cap)
        for _ in range(int(total)):
            gain = np.where(given < cap, loss(given + 1, scale, wide) - loss(given, scale, wide), -np.inf)
            given[np.argmax(gain)] += 1
        return float(loss(given, scale, wide).sum())
    if all(np.all(array == array[0]) for array in (scale, wide, cap)):
        return float(
            loss(np.full_like(cap, total / len(cap)), scale, wide).sum()
        )  # concave and symmetric: equal shares

    def slope(t: Floats) -> Floats:
        """``loss'(t) = (1 + (exp(-t/b) - exp(-(w-t)/b)) / Z(t)) / b``, and the same with the shifts of the discrete law."""
        shift = 1.0 / scale if discrete else np.zeros_like(scale)
        fall, rise = np.exp(-t / scale - shift), np.exp(-np.maximum(wide - t, 0.0) / scale - shift)
        z = (
            1.0 + np.exp(-shift) * discrete - fall - rise
            if discrete
            else -np.expm1(-t / scale) - np.expm1(-np.maximum(wide - t, 0.0) / scale)
        )
        return np.asarray((1.0 + (fall - rise) / z) / scale)

    def spend(level: float) -> Floats:
        """For each statistic, the change t at which the slope of its loss falls to the level: ``loss_i'(t_i) = level``."""
        low, high = np.zeros_like(cap), cap.copy()
        for _ in range(60):
            middle = 0.5 * (low + high)
            steep = slope(middle) > level
            low, high = np.where(steep, middle, low), np.where(steep, high, middle)
        return high

    low, high = 0.0, float(slope(np.zeros_like(cap)).max())
    for _ in range(60):
        level = 0.5 * (low + high)
        low, high = (level, high) if spend(level).sum() > total else (low, level)
    changes = spend(low)  # a little more than the total, so that the result is not too small
    excess = changes.sum() - total
    between = changes - spend(high)  # where the slope is flat, any share of the difference will do
    changes = changes - between * (excess / between.sum() if between.sum() > 0.0 else 0.0)
    return float(loss(changes, scale, wide).sum())


def truncated_scale(
    epsilon: float,
    width: npt.ArrayLike,
    sensitivity: float,
    *,
    largest: npt.ArrayLike = math.inf,
    changed: int | None = None,
    discrete: bool = False,
) -> float:
    """The smallest common scale b of truncated Laplace noise whose true epsilon is at most the stated one.

    Parameters
    ----------
    epsilon : float
    width, sensitivity, largest, changed, discrete
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
        return truncated_epsilon(size, width, sensitivity, largest=largest, changed=changed, discrete=discrete)

    low = safe
    for _ in range(200):  # a statistic that hardly changes may need less than sensitivity / epsilon
        low *= 0.5
        if true(low) > stated:
            break
    else:
        raise ValueError("no neighbours have different statistics, so that there is nothing for the noise to hide")
    b = float(brentq(lambda scale: true(scale) - stated, low, safe * (1.0 + 1e-12), xtol=1e-300, rtol=1e-14))
    while true(b) > stated:  # to the safe side of the root
        b *= 1.0 + 1e-13
    return b
