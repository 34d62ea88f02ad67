"""Log-masses of censored answers as functions of the true answer, tabulated for the kernel of the posterior."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesdp.noise._verbs import LogMassWindows
from bayesdp.noise.base import Floats, NoiseLaw
from bayesdp.noise.independent.discrete_gaussian import DiscreteGaussian
from bayesdp.noise.independent.discrete_laplace import DiscreteLaplace
from bayesdp.noise.independent.gaussian import Gaussian
from bayesdp.noise.independent.laplace import Laplace

_FLAT_LAPLACE = 36.0
"""Scales beyond which the tail on the side where nothing is lost is below 1e-15."""
_FLAT_NORMAL = 8.5
"""The same in standard deviations."""
_FAR_NORMAL = 40.0
"""Standard deviations beyond which a normal log-mass, below -800 there, is taken for its tangent."""
_MORE = 64
"""Counts that a normal window reaches farther: nothing for large scales, a lot for small ones."""
_MOST = 4_000_000
"""Entries of all windows together; where more would be needed, the compiled log-density is used."""

_PUBLISHED, _UNDER, _OVER = 0, 1, 2


def censored_windows(law: NoiseLaw, values: Floats, low: Floats, high: Floats) -> LogMassWindows | None:
    """Windows of published answers, `low - 1` and `high + 1` standing for those held back; None for laws without, or too long ones."""
    # The law is that of the values without thresholds: discrete or continuous Laplace or Gaussian. Around whole numbers the law of
    # value minus location is one law: answers with the same scale, and the same distance from a whole number, share a window.
    laplace = isinstance(law, DiscreteLaplace | Laplace)
    if not laplace and not isinstance(law, DiscreteGaussian | Gaussian):
        return None
    y, low, high = (np.asarray(array, dtype=np.float64).reshape(-1) for array in (values, low, high))
    scale = np.broadcast_to(law.scale, values.shape).reshape(-1)  # type: ignore[attr-defined]  # all four have one
    kind = np.where(y < low, _UNDER, np.where(y > high, _OVER, _PUBLISHED))
    step = 1.0 if law.integer else 0.0
    # The probability is that of values up to `at`, or above it.
    at = np.where(kind == _UNDER, low - step, np.where(kind == _OVER, high, y))
    anchor = np.floor(at)
    shapes, which = np.unique(np.stack([kind, scale, at - anchor], axis=1), axis=0, return_inverse=True)
    which = which.reshape(-1)
    ends = [_ends(int(own[0]), own[1], own[2], laplace, int(step)) for own in shapes]
    if sum(up - down + 1 for down, up in ends) > _MOST:
        return None
    tables, slopes = [], []
    for own, (down, up) in zip(shapes, ends, strict=True):
        table = _table(law, int(own[0]), own[1], own[2], np.arange(down, up + 1.0))
        tables.append(table)
        slopes.append(_slopes(int(own[0]), own[1], table, laplace))
    lengths = np.array([len(table) for table in tables], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    downs = np.array([down for down, _ in ends], dtype=np.int64)
    sides = np.array(slopes, dtype=np.float64)
    return LogMassWindows(
        low=anchor.astype(np.int64) + downs[which],
        start=starts[which],
        length=lengths[which],
        log_mass=np.concatenate(tables),
        below=sides[which, 0],
        above=sides[which, 1],
    )


def _ends(kind: int, scale: float, fraction: float, laplace: bool, step: int) -> tuple[int, int]:
    """First and last true answer of a window, less the anchor."""
    near = int(np.ceil(fraction))
    flat = int(np.ceil((_FLAT_LAPLACE if laplace else _FLAT_NORMAL) * scale)) + 2
    far = near + step if laplace else int(np.ceil(_FAR_NORMAL * scale)) + _MORE
    steep = -step if laplace else -far
    return {_PUBLISHED: (0 if laplace else -far, near if laplace else far), _UNDER: (-flat, far), _OVER: (steep, flat)}[
        kind
    ]


def _table(law: NoiseLaw, kind: int, scale: float, fraction: float, answers: Floats) -> Floats:
    """Log-mass of one value around each true answer."""
    one: Any = law.at_scales(scale)
    at = np.full(answers.shape, fraction)
    verb = {_PUBLISHED: one.log_each, _UNDER: one.log_cdf, _OVER: one.log_sf}[kind]
    return np.asarray(verb(at, answers), dtype=np.float64)


def _slopes(kind: int, scale: float, table: Floats, laplace: bool) -> tuple[float, float]:
    """Slopes outwards below and above a window."""
    down = -1.0 / scale if laplace else min(table[0] - table[1], 0.0)
    up = -1.0 / scale if laplace else min(table[-1] - table[-2], 0.0)
    return (0.0 if kind == _UNDER else float(down)), (0.0 if kind == _OVER else float(up))
