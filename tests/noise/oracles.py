"""Exact masses in 50-digit decimal arithmetic, enumerated lattices, and a chi-square test of draws."""

from __future__ import annotations

import itertools
from decimal import Decimal, localcontext
from typing import Literal

import numpy as np

from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.queries import Margins
from tests.comparison.chi_square import draws_pvalue
from tests.comparison.enumeration import Floats, Ints
from tests.comparison.enumeration import lattice_points as vectors_of


class DecimalLaw:
    """A discrete Laplace or Gaussian law, summed over a window that holds all but 1e-40 of it."""

    def __init__(self, kind: Literal["laplace", "gaussian"], mu: float, scale: float) -> None:
        with localcontext() as context:
            context.prec = 50
            centre, width, reach = Decimal(mu), Decimal(scale), int(scale * (100 if kind == "laplace" else 15)) + 5
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
    """P-value of draws against probabilities of all values that there are; rare ones are one class."""
    return draws_pvalue(draws, values, probabilities, complete=True)


def frame_of(*shape: int) -> Frame:
    """A table with dimensions d0, d1, ... and made-up labels."""
    return Frame.of({f"d{i}": [f"{i}.{j}" for j in range(size)] for i, size in enumerate(shape)})


def all_margins(*shape: int) -> Invariants:
    """All one-way margins of a table."""
    return Invariants(Margins(frame_of(*shape), *[[f"d{i}"] for i in range(len(shape))]))


def lattice_points(invariants: Invariants, reach: int) -> Ints:
    """All integer tables with entries up to `reach` in size that change no invariant, in lexicographic order of the free cells."""
    tables = vectors_of(invariants.matrix.toarray(), reach)
    return tables[np.abs(tables).max(axis=1) <= reach]
