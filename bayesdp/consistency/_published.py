"""Published answers with independent noise, as the tests for post-processing look at them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp.measurements import Measured, described
from bayesdp.measurements.checks import has_negative_entry

type Floats = npt.NDArray[np.float64]
type Mask = npt.NDArray[np.bool_]

_DECIMALS = 9
"""Decimals of real numbers that are looked for."""


@dataclass(frozen=True, eq=False)
class Published:
    """Answers with independent noise of a scale each."""

    measured: Measured
    law: Callable[[Floats], Any]  # from scales to the law of noise of these scales (`NoiseLaw.at_scales`)
    values: Floats  # shape (answers,), as all that follow
    scale: Floats
    measures: Mask  # which were published
    nonnegative: Mask  # which are sums of counts, and so at least zero in every table
    grid: float  # distance of numbers that may have been published: 1 for integer noise, else a power of ten

    @property
    def words(self) -> str:
        """How many answers there are, and the labels that they are by."""
        return described(self.measured.query)

    def cdf(self, at: Floats, scale: float) -> Floats:
        """Distribution function of noise of one scale, at some points."""
        return np.asarray(self.law(np.full(at.shape, scale)).cdf(at))


def published_of(measurements: Iterable[Measured]) -> list[Published]:
    """Those measurements whose noise is independent in each answer, with a law that is unbounded and has one scale."""
    # Laws that give one cell one value are left out: the same cell in two tables agrees by its making.
    found = []
    for measured in measurements:
        law: Any = measured.law
        if law.at_scales(1.0) is not None and not law.same_cell_same_value:
            shape = measured.query.shape
            values = np.asarray(measured.values, dtype=np.float64).reshape(-1)
            measures = ~measured.unmeasured.reshape(-1)
            scale = np.broadcast_to(law.scale, shape).reshape(-1)
            grid = 1.0 if law.integer else grid_of(values[measures])
            nonnegative = ~has_negative_entry(measured.query)
            found.append(Published(measured, law.at_scales, values, scale, measures, nonnegative, grid))
    return found


def grid_of(values: Floats) -> float:
    """The coarsest power of ten, of 1 at most, that all values are multiples of; else the rounding of binary numbers."""
    # If numbers were published to a fixed number of decimals then this is no finer than that: bounds that grow with the grid hold
    # for the true one.
    rounding = 1e-15 * float(np.max(np.abs(values), initial=1.0))
    for decimals in range(_DECIMALS + 1):
        steps = values * 10.0**decimals
        if rounding * 10.0**decimals > 1e-4:
            break
        if np.all(np.abs(steps - np.rint(steps)) <= 1e-3):
            return 10.0**-decimals
    return 4.0 * rounding
