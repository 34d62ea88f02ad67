"""Making consistent: noisy sums that add up exactly, to one another or to exact values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from bayesdp._text import printable
from bayesdp.consistency._general import ExactPart
from bayesdp.consistency._published import Floats, Mask, Published
from bayesdp.consistency._sums import meet, row_map
from bayesdp.queries import SumPart

__all__ = ["Sums", "adding_up", "all_sums"]


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums by some labels, published with noise or exactly."""

    part: SumPart
    values: Floats  # shape (rows,), as those that follow
    known: Mask  # which were published
    mass: Floats  # a bound on the probability of any one published number; 1 for exact values
    noisy: bool

    @property
    def words(self) -> str:
        """Whether they are noisy, and the labels that they are summed by."""
        own = "grand total" if not self.part.keep else f"answers by {printable(' × '.join(self.part.keep))}"
        return f"{'noisy' if self.noisy else 'exact'} {own}"


def all_sums(published: Iterable[Published], exact: Iterable[ExactPart]) -> list[Sums]:
    """The parts that are sums, of all measurements and exact equalities."""
    found = []
    for answers in published:
        mass, start = answers.largest_mass(), 0
        for part in answers.measured.query.parts:
            own = slice(start, start + part.rows)
            start += part.rows
            if isinstance(part, SumPart):
                found.append(Sums(part, answers.values[own], answers.measures[own], mass[own], noisy=True))
    for part, values in exact:
        if isinstance(part, SumPart):
            every = np.ones(part.rows, dtype=np.bool_)
            found.append(Sums(part, values.astype(np.float64), every, np.ones(part.rows), noisy=False))
    return found


def adding_up(sums: Iterable[Sums], fewest: int = 1) -> tuple[int, list[tuple[float, str]]]:
    """How many pairs were compared, and a bound on the probability of each that adds up exactly.

    Two sets of sums are compared at the finest labels that both add up to. The confidential answers are equal there, so
    the published ones are equal if the noises are. Given all noises of one comparison but one, that one must have one
    value, or real noise must fall into one step of the grid: a probability of at most the largest mass. Comparisons
    at different labels share no noise, so that all of them agree with at most the product. Comparisons with fewer sums than
    `fewest` count, and are not reported.
    """
    compared, found = 0, []
    for one, other in combinations(sums, 2):
        common = meet(one.part, other.part)
        if common is None or not (one.noisy or other.noisy):
            continue
        compared += 1
        sides = np.zeros((2, common.rows))
        mass, known = np.ones(common.rows), np.ones(common.rows, dtype=np.bool_)
        for i, side in enumerate((one, other)):
            target = row_map(side.part, common)
            sides[i] = np.bincount(target, weights=side.values, minlength=common.rows)
            np.minimum.at(mass, target, side.mass)
            np.logical_and.at(known, target, side.known)
        size = float(np.abs(one.values).sum() + np.abs(other.values).sum())
        if known.sum() >= fewest and np.all(np.abs(sides[0] - sides[1])[known] <= 1e-13 * size):
            words = f"{one.words} and {other.words} agree exactly on all {int(known.sum())} sums that both determine"
            found.append((float(np.exp(np.sum(np.log(mass[known])))), words))
    return compared, found
