"""Exact masses in 50-digit decimal arithmetic, enumerated lattices, and a chi-square test of draws."""

from __future__ import annotations

import itertools
from decimal import Decimal, localcontext
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2

from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.queries import Margins

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]


class DecimalLaw:
    """A discrete Laplace or Gaussian law, summed over a window that holds all but 1e-40 of it."""

    def __init__(self, kind: Literal["laplace", "gaussian"], mu: float, scale: float) -> None:
        with localcontext() as context:
            context.prec = 50
            centre, width = Decimal(mu), Decimal(scale)
            reach = int(scale * (100 if kind == "laplace" else 15)) + 5
            nearest = int(centre.to_integral_value())
            self.k = np.arange(nearest - reach, nearest + reach + 1)
            if kind == "laplace":
                weights = [(-abs(int(k) - centre) / width).exp() for k in self.k]
            else:
                weights = [(-((int(k) - centre) ** 2) / (2 * width * width)).exp() for k in self.k]
            total = sum(weights)
            masses = [weight / total for weight in weights]
            self.log_mass = self._logs(masses)
            self.log_cdf = self._logs(list(itertools.accumulate(masses)))
            upwards = list(itertools.accumulate(reversed(masses)))[::-1]
            self.log_sf = self._logs([*upwards[1:], Decimal(0)])
            mean = sum(int(k) * mass for k, mass in zip(self.k, masses, strict=True))
            self.mean = float(mean)
            self.variance = float(sum((int(k) - mean) ** 2 * mass for k, mass in zip(self.k, masses, strict=True)))

    @staticmethod
    def _logs(values: list[Decimal]) -> Floats:
        return np.array([float(value.ln()) if value > 0 else -np.inf for value in values])


def chi_square_pvalue(draws: Ints, values: Ints, probabilities: Floats) -> float:
    """P-value of draws against probabilities; all values expected fewer than ten times are one class."""
    possible = np.isin(draws, values[probabilities > 1e-12])
    if not np.all(possible):
        return 0.0  # something that has no business to be there
    expected = draws.size * probabilities
    common = expected >= 10
    drawn, counts = np.unique(draws, return_counts=True)
    count_of = dict(zip(drawn.tolist(), counts.tolist(), strict=True))
    observed = np.array([count_of.get(value, 0) for value in values[common].tolist()])
    observed = np.append(observed, draws.size - observed.sum())
    wanted = np.append(expected[common], draws.size - expected[common].sum())
    if wanted[-1] < 10:  # a class of its own would be too small: join it to the last
        observed, wanted = (np.append(a[:-2], a[-2:].sum()) for a in (observed, wanted))
    if len(wanted) == 1:
        return 1.0
    return float(chi2.sf(np.sum((observed - wanted) ** 2 / wanted), len(wanted) - 1))


def frame_of(*shape: int) -> Frame:
    """A table with dimensions d0, d1, ... and made-up labels."""
    return Frame.of({f"d{i}": [f"{i}.{j}" for j in range(size)] for i, size in enumerate(shape)})


def all_margins(*shape: int) -> Invariants:
    """All one-way margins of a table."""
    return Invariants(Margins(frame_of(*shape), *[[f"d{i}"] for i in range(len(shape))]))


def lattice_points(invariants: Invariants, reach: int) -> Ints:
    """All integer tables with entries up to `reach` in size that change no invariant, by trying them all."""
    cells = invariants.frame.size
    grid = np.array(list(itertools.product(range(-reach, reach + 1), repeat=cells)))
    return grid[np.all(invariants.matrix @ grid.T == 0, axis=0)]
