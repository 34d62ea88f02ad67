"""Piecewise linear trade-off functions from lines, from points and from other functions, and exact products of them."""

from __future__ import annotations

import math

import numpy as np

from bayesdp.privacy._levels import Floats
from bayesdp.privacy._tradeoff import TradeOff
from bayesdp.privacy._tradeoff_laws import ApproximateDP, DiscretePair

__all__ = ["as_pair", "from_lines", "from_points", "ordered_pair", "product"]

_SAME_RATIO = 1e-13
"""Outcomes whose log likelihood ratios differ by no more, relative to their size, are one outcome."""


def from_points(alpha: Floats, power: Floats) -> DiscretePair:
    """Join points (type I error, power) by straight lines: from (0, w) to (1, 1), rising and concave."""
    p, q = np.diff(alpha), np.diff(power)
    kept = p > 0.0
    return ordered_pair(float(power[0]), p[kept], np.maximum(q[kept], 0.0))


def ordered_pair(start: float, p: Floats, q: Floats) -> DiscretePair:
    """Put outcomes into falling order of q / p."""
    with np.errstate(over="ignore"):
        order = np.argsort(-(q / p), kind="stable")
    return DiscretePair(min(max(start, 0.0), 1.0), tuple(p[order].tolist()), tuple(q[order].tolist()))


def from_lines(gamma: Floats, delta: Floats) -> DiscretePair:
    """Give the largest of the lines ``1 - delta - gamma alpha``, and 0.

    Source: Dong, Roth and Su (2022, Proposition 2.13). The largest of the lines depends on the lower convex hull of the points
    (gamma, delta) only, and its corners are the slopes of that hull.

    Parameters
    ----------
    gamma, delta : numpy.ndarray
        Slopes, positive, in rising order, and the deltas that belong to them.
    """
    hull_g, hull_d = [0.0], [1.0]
    for g, d in zip(gamma.tolist(), np.clip(delta, 0.0, 1.0).tolist(), strict=True):
        while len(hull_g) > 1 and (hull_d[-1] - hull_d[-2]) * (g - hull_g[-1]) >= (d - hull_d[-1]) * (
            hull_g[-1] - hull_g[-2]
        ):
            hull_g.pop()
            hull_d.pop()
        hull_g.append(g)
        hull_d.append(d)
    slopes, heights = np.array(hull_g), np.array(hull_d)
    corners = np.clip(-np.diff(heights) / np.diff(slopes), 0.0, 1.0)  # falling, as the slopes rise
    corners = np.minimum.accumulate(corners)
    ends = np.concatenate([corners[::-1], [1.0]])  # type I errors at the ends of the segments, from 0 on
    p = np.diff(np.concatenate([[0.0], ends]))
    q = slopes[::-1] * p
    kept = p > 0.0
    return ordered_pair(float(heights[-1]), p[kept], q[kept])


def as_pair(f: TradeOff) -> DiscretePair:
    """Write a piecewise linear function as the trade-off of two discrete laws."""
    if isinstance(f, DiscretePair):
        return f
    if isinstance(f, ApproximateDP):
        shrink = math.exp(-f.epsilon)
        small, large = (1.0 - f.delta) * shrink / (1.0 + shrink), (1.0 - f.delta) / (1.0 + shrink)
        p, q = [small, large], [large, small]
        if f.delta:
            p, q = [*p, f.delta], [*q, 0.0]
        if small == 0.0:  # exp(-epsilon) underflows: the mass of an outcome that tells the tables apart
            return DiscretePair(f.delta + large, tuple(p[1:]), (0.0,) * len(p[1:]))
        return DiscretePair(f.delta, tuple(p), tuple(q))
    a = np.unique(np.concatenate([[0.0, 1.0], f._kinks()]))
    return from_points(a, f._errors(a, 1.0 - a)[1])


def product(one: DiscretePair, other: DiscretePair) -> DiscretePair:
    """Trade-off of the product laws, exactly; outcomes of equal likelihood ratio are put together, which loses nothing."""
    start = one.start + other.start - one.start * other.start
    p, q = np.outer(one.p, other.p).reshape(-1), np.outer(one.q, other.q).reshape(-1)
    kept = p > 0.0  # products may underflow
    p, q = p[kept], q[kept]
    with np.errstate(divide="ignore"):
        ratio = np.log(q) - np.log(p)
    order = np.argsort(-ratio, kind="stable")
    p, q, ratio = p[order], q[order], ratio[order]
    with np.errstate(invalid="ignore"):  # two ratios of zero
        gap = ratio[:-1] - ratio[1:]
    new = np.concatenate([[True], gap > _SAME_RATIO * (1.0 + np.abs(ratio[:-1]))])
    first = np.flatnonzero(new)
    return ordered_pair(start, np.add.reduceat(p, first), np.add.reduceat(q, first))
