"""What the laws of perturbed counts share: they look everything up in a table p(y | x) of published counts given true ones."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp._arrays import Floats, Ints, Mask
from bayesdp.fibers.windows import LogMassWindows
from bayesdp.invariants import Invariants
from bayesdp.noise.arrays import equal, located, values_and_location
from bayesdp.noise.arrays import whole as whole_numbers
from bayesdp.noise.base import IndependentLaw


@dataclass(frozen=True, eq=False)
class Transitions:
    """Probabilities of deviations ``y - x`` for each count x: rows for the first counts, of which the last ones repeat.

    Column j of `mass` has the deviation ``lowest + j``; rows sum to 1. For counts beyond them the last `period` rows repeat: 1 is a
    cap, a base is rounding; with 0 there are no larger counts.
    """

    lowest: int
    mass: Floats
    period: int

    @property
    def highest(self) -> int:
        """The deviation of the last column."""
        return self.lowest + int(self.mass.shape[1]) - 1

    @property
    def largest_count(self) -> float:
        """The largest true count that there may be; infinite where rows repeat."""
        return np.inf if self.period else len(self.mass) - 1

    @cached_property
    def log_mass(self) -> Floats:
        """Logarithms of `mass`."""
        with np.errstate(divide="ignore"):
            return np.log(self.mass)

    @cached_property
    def _cumulated(self) -> Floats:
        """Cumulated probabilities; 1 from the last deviation on that is possible."""
        total = np.cumsum(self.mass, axis=1)
        total /= total[:, -1:]
        last = self.mass.shape[1] - 1 - np.argmax(self.mass[:, ::-1] > 0.0, axis=1)
        return np.where(np.arange(self.mass.shape[1]) >= last[:, None], 1.0, total)

    @cached_property
    def moments(self) -> tuple[Floats, Floats]:
        """Mean and variance of the deviation, by row."""
        deviations = np.arange(self.lowest, self.highest + 1.0)
        share = self.mass / self.mass.sum(axis=1, keepdims=True)
        mean = share @ deviations
        return mean, np.array([row @ (deviations - centre) ** 2 for row, centre in zip(share, mean, strict=True)])

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest number that can be published; infinite where rows repeat."""
        possible = self.mass > 0.0
        counts = np.arange(len(self.mass))
        first = counts + self.lowest + np.argmax(possible, axis=1)
        last = counts + self.highest - np.argmax(possible[:, ::-1], axis=1)
        return float(first.min()), np.inf if self.period else float(last.max())

    def row_of(self, counts: Any, xp: Any = np) -> Any:
        """The row of each count; counts must be at least 0, and at most `largest_count`."""
        rows, period = len(self.mass), max(self.period, 1)
        return xp.where(counts < rows, counts, rows - period + (counts - rows) % period)

    def places(self, values: Any, counts: Any, xp: Any = np) -> Any:
        """Where published values of counts stand in the flat table; -1 where it has none for them, or they are not whole."""
        width, column = self.mass.shape[1], values - counts - self.lowest
        inside = (counts >= 0) & (column >= 0) & (column < width)
        for numbers in (values, counts):
            inside = inside if whole_numbers(numbers) else inside & equal(xp, numbers, xp.floor(numbers))
        if not self.period:
            inside = inside & (counts < len(self.mass))
        place = self.row_of(xp.where(inside, counts, 0), xp) * width + xp.where(inside, column, 0)
        return xp.where(inside, place, -1).astype("int64")

    def log_each(self, values: npt.NDArray[np.generic], counts: npt.NDArray[np.generic]) -> Floats:
        """Log-mass of published numbers given counts, elementwise; ``-inf`` where either is not whole, or not possible."""
        place = self.places(values, counts)
        return np.where(place >= 0, self.log_mass.reshape(-1)[np.maximum(place, 0)], -np.inf)

    def draw(self, rng: np.random.Generator, counts: Ints) -> Ints:
        """Draw a published number for each count, by cumulated probabilities."""
        flat = counts.reshape(-1)
        uniform = rng.random(flat.size)
        found = np.empty(flat.size, dtype=np.int64)
        row = self.row_of(flat)
        order = np.argsort(row, kind="stable")
        edges = np.flatnonzero(np.diff(row[order])) + 1
        for places in np.split(order, edges) if flat.size else []:
            found[places] = np.searchsorted(self._cumulated[row[places[0]]], uniform[places], side="right")
        return (flat + self.lowest + found).reshape(counts.shape)

    def with_code(self, below: int) -> Transitions:
        """The table in which all published numbers under `below`, at least 1, are one, ``below - 1``: they were not published."""
        rows = max(len(self.mass), below - self.lowest) + self.period if self.period else len(self.mass)
        counts = np.arange(rows, dtype=np.int64)
        mass = self.mass[self.row_of(counts)]
        # A count x that may be hidden has x + lowest < below: from it to the code it is no farther down than `lowest`.
        highest = max(self.highest, below - 1)
        found = np.zeros((rows, highest - self.lowest + 1))
        found[:, : mass.shape[1]] = mass
        hidden = counts[:, None] + np.arange(self.lowest, highest + 1) < below
        under = np.where(hidden, found, 0.0).sum(axis=1)
        found[hidden] = 0.0
        some = np.flatnonzero(under > 0.0)
        found[some, below - 1 - some - self.lowest] += under[some]
        return Transitions(self.lowest, found, self.period)

    def candidates(self, value: int) -> tuple[int, int]:
        """The smallest and the largest true count that are near enough to a published number; none if they are reversed."""
        return max(0, value - self.highest), int(min(value - self.lowest, self.largest_count))

    def _column(self, value: int) -> tuple[int, Ints]:
        """Where the mass of a published number stands, flat, by true counts from the first that is possible; empty if none is."""
        low, high = self.candidates(value)
        counts = np.arange(low, high + 1, dtype=np.int64)
        places = self.row_of(counts) * self.mass.shape[1] + value - counts - self.lowest
        possible = np.flatnonzero(self.mass.reshape(-1)[places] > 0.0)
        if not possible.size:
            return low, places[:0]
        return low + int(possible[0]), places[possible[0] : possible[-1] + 1]

    def _columns(self, values: Ints) -> tuple[list[tuple[int, Ints]], Ints, Ints]:
        """The columns of published numbers, each of them once; which of them each number has, and how far that is moved for it."""
        flat = values.reshape(-1)
        keys = flat
        # From `first` on all true counts have rows that repeat, so that published numbers may differ by periods.
        if self.period:
            first = len(self.mass) - self.period + max(self.highest, 0)
            keys = np.where(flat < first, flat, first + (flat - first) % self.period)
        keys, which = np.unique(keys, return_inverse=True)
        return [self._column(int(key)) for key in keys], which, flat - keys[which]

    def windows(self, values: Ints) -> LogMassWindows:
        """The log-mass of published numbers, in C order, as functions of the true counts."""
        columns, which, shift = self._columns(values)
        low = np.array([first for first, _ in columns], dtype=np.int64)
        length = np.array([len(places) for _, places in columns], dtype=np.int64)
        start = np.concatenate([[0], np.cumsum(length)[:-1]]).astype(np.int64)
        mass = self.log_mass.reshape(-1)[np.concatenate([places for _, places in columns])]
        never = np.full(which.size, -np.inf)
        return LogMassWindows(low[which] + shift, start[which], length[which], mass, never, never)

    def window_places(self, values: Ints) -> Ints:
        """Where in `mass`, flat, each entry of `windows` stands: other masses of the same table have the windows at these places."""
        return np.concatenate([places for _, places in self._columns(values)[0]])

    def possible(self, values: Ints) -> Mask:
        """Which published numbers some true count can lead to."""
        columns, which, _ = self._columns(values)
        return np.array([places.size > 0 for _, places in columns], dtype=np.bool_)[which].reshape(values.shape)


def whole(value: Any) -> Any:
    """A whole number that is written as a real one, as an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class PerturbedLaw(IndependentLaw):
    """Counts that were published instead of true ones: each answer by a law p(y | x) of its true count x, a whole number >= 0.

    A law states `transitions`, the table of its probabilities; everything else follows. Such laws are not differentially
    private, and claim no guarantee.
    """

    support = "counts"
    family = "perturbed"
    integer = True
    additive = False

    @property
    @abstractmethod
    def transitions(self) -> Transitions:
        """The table of probabilities; made once."""

    def log_each(self, values: npt.ArrayLike, location: npt.ArrayLike = 0) -> Floats:
        """Log-mass of each published value given its true count, elementwise; ``-inf`` where it cannot be, or that is no count."""
        return self.transitions.log_each(*values_and_location(values, location))

    log_mass = log_each

    def mean(self, location: npt.ArrayLike = 0) -> Floats:
        """Mean of the published value given each true count, elementwise."""
        counts = self._counts(np.asarray(location))
        return np.asarray(counts + self.bias(counts))

    def bias(self, location: npt.ArrayLike = 0) -> Floats:
        """Mean minus true count, elementwise."""
        counts = self._counts(np.asarray(location))
        return np.asarray(self.transitions.moments[0][self.transitions.row_of(counts)])

    def variance(
        self, shape: tuple[int, ...], invariants: Invariants | None = None, location: npt.ArrayLike | None = None
    ) -> Floats | None:
        """Variance given each true count, shape `shape`; None without them, on which it depends."""
        if location is None:
            return None
        counts = self._counts(located(location, shape))
        return np.asarray(self.transitions.moments[1][self.transitions.row_of(counts)])

    def _drawn(self, rng: np.random.Generator, location: Floats, count: int, invariants: Any = None) -> Ints:
        counts = self._counts(location)
        return self.transitions.draw(rng, np.array(np.broadcast_to(counts, (count, *counts.shape)), order="C"))

    @property
    def limits(self) -> tuple[Any, Any]:
        """The smallest and the largest value that can be published."""
        return self.transitions.ends

    @property
    def not_private(self) -> str:
        """That the law is not differentially private."""
        if not self.transitions.period:
            return f"no differential privacy is claimed for counts perturbed by {self.name}"
        why = "a published one rules out true counts that are far from it"
        return f"counts perturbed by {self.name} are not differentially private: {why}"

    def refusals(self, values: Floats | Ints) -> dict[int, str]:
        """Why values cannot have been published, by their places in C order: the true counts that were tried."""
        flat = np.asarray(values, dtype=np.float64).reshape(-1)
        whole = flat == np.rint(flat)  # of fractions the measurement itself says more
        places = np.flatnonzero(whole)
        bad = places[~self.transitions.possible(flat[whole].astype(np.int64))]
        return {int(place): self._tried(int(flat[place])) for place in bad}

    def _tried(self, value: int) -> str:
        table = self.transitions
        low, high = table.candidates(value)
        tried = f"counts from {low} to {high} were tried" if low < high else f"the count {low} was tried"
        if low > high:
            tried = f"no count is near enough, deviations go from {table.lowest} to {table.highest}"
        return f"which no count leads to under the law {self}: {tried}"

    def windows(self, values: Floats | Ints) -> LogMassWindows:
        """The log-mass of published values as functions of their true counts; see `NoiseLaw.windows`."""
        return self.transitions.windows(np.asarray(values, dtype=np.int64))

    def _counts(self, location: npt.NDArray[Any]) -> Ints:
        """Locations as counts that the law knows."""
        array = _validate.finite_array(location, "location")
        flat = array.reshape(-1)
        largest = self.transitions.largest_count
        bad = np.flatnonzero((flat != np.rint(flat)) | (flat < 0) | (flat > largest))
        if bad.size:
            where = tuple(int(i) for i in np.unravel_index(bad[0], array.shape))
            upto = "" if np.isinf(largest) else f" of at most {largest:.0f}"
            at = f"at position {where} it is" if where else "it is"
            raise ValueError(
                f"location must be a count, a whole number >= 0{upto}, under the law {self.name!r}, "
                f"but {at} {flat[bad[0]].item()!r}"
            )
        return array.astype(np.int64)

    @staticmethod
    def _shown(value: Any) -> str:
        """A parameter in one line; a list of numbers as on the command line."""
        if isinstance(value, tuple):
            return ":".join(map(PerturbedLaw._shown, value))
        return repr(value) if isinstance(value, float) else str(value)
