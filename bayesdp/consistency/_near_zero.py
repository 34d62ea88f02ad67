"""Clipping at zero: no negative number among many that are zero or close to it."""

from __future__ import annotations

import math

import numpy as np

from bayesdp.consistency._published import Floats, Published

TESTS = 2
"""Windows that are looked at: exact zeros, and up to one scale."""

_SCALES = 500
"""Largest number of different scales whose answers enter the test; of more, this many, spread evenly from small to large."""
_POINTS = 640
_FAR = 40.0
_WEIGHTS = 1.0 + np.geomspace(1e-2, 1e8, 80)


def near_zero(answers: Published) -> list[tuple[float, str]]:
    r"""Bounds on the probability of what was published near zero, with words for it.

    Let the answers be ``x_i``, whole numbers of at least zero, and ``Y_i`` what is published. Under the law the `Y_i` are
    independent, with ``a(x) = P(0 <= Y <= w)`` and ``c(x) = P(Y < 0)``. For the event that none is negative and that at least
    m of them are in the window ``0 .. w``, and any ``s > 1``,

    .. math:: P \le s^{-m} \; E \Bigl[ \prod_i 1\{Y_i \ge 0\} \, s^{1\{Y_i \le w\}} \Bigr]
        = s^{-m} \prod_i \bigl(1 + (s - 1) a(x_i) - c(x_i)\bigr) \le s^{-m} \prod_i \Bigl(1 + \sup_x \{(s - 1) a(x) - c(x)\}\Bigr).

    The first step is Markov's inequality, the last one holds for every true table: clipping is told from large counts because
    a count that is often published as zero is as often published below. (For discrete Laplace noise of ratio q the supremum is
    0 at ``s = 1 / (1 - q)``: given that a number is zero or negative, it is zero with probability 1 - q.) The bound does not
    rise with m, so that the smallest over s is a p-value: reject when it is below a level, and the level bounds the rate of
    false alarms. The supremum is taken over intervals of x, with the largest a and the smallest c of each, which are at
    their ends.

    Returns
    -------
    list of (float, str)
        Empty if a number is negative, or none is near zero.
    """
    known = answers.measures & answers.nonnegative
    every = np.unique(answers.scale)
    if len(every) > _SCALES:
        known &= np.isin(answers.scale, every[np.linspace(0, len(every) - 1, _SCALES).astype(np.int64)])
    values = answers.values[known]
    if not len(values) or np.any(values < -0.25 * answers.grid):
        return []
    scales = np.unique(answers.scale[known])
    which = np.searchsorted(scales, answers.scale[known])
    sizes = np.bincount(which, minlength=len(scales))
    found = []
    for wide in (False, True):
        window = np.floor(scales) if answers.measured.law.integer else scales
        window = window if wide else np.zeros(len(scales))
        near = int(np.sum(values <= window[which] + 0.25 * answers.grid))
        if near:
            gains = _gains(answers, scales, window)
            logs = -near * np.log(_WEIGHTS) + sizes @ np.log1p(gains)
            what = "at most one scale of the noise" if wide else "exactly 0"
            words = f"none of the {len(values)} noisy numbers ({answers.words}) is negative and {near} are {what}"
            found.append((float(np.exp(min(float(logs.min()), 0.0))), words))
    return found


def _gains(answers: Published, scales: Floats, window: Floats) -> Floats:
    """The supremum over x of ``(s - 1) a(x) - c(x)``, or 0 if that is more, shape (scales, weights)."""
    half = 0.5 * answers.grid
    gains = np.zeros((len(scales), len(_WEIGHTS)))
    for i, scale in enumerate(scales):
        own, w = float(scale), float(window[i])
        step = float(max(1, math.ceil(_FAR * own / _POINTS)))
        low = np.arange(0.0, _FAR * own + w + 2.0 * step, step)
        high = low + step - 1.0  # the last whole number of the interval
        below = answers.cdf(-half - high, own)
        inside = answers.cdf(w + half - low, own) - below
        # From the end of the last interval on: all below the window at its end, and nothing surely negative.
        inside = np.append(inside, answers.cdf(w + half - low[-1:] - step, own))
        below = np.append(below, 0.0)
        gains[i] = np.max(np.outer(_WEIGHTS - 1.0, inside) - below, axis=1, initial=0.0)
    return gains
