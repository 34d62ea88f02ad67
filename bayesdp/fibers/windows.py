"""Noisy answers as the kernel knows them: terms, log-masses tabulated in windows, and gaps between the answers that can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._validate import choice
from bayesdp.fibers.kernel.state import IMPOSSIBLE
from bayesdp.queries import Query

_ROUNDING = 1e-9
"""Differences of log-masses that count as none."""


@dataclass(frozen=True, eq=False)
class LogMassWindows:
    """The log-mass of published answers as functions of the true answer, each tabulated in a window.

    The log-mass of answer i, where the true answer is the whole number v, is ``log_mass[start[i] + v - low[i]]`` for
    ``low[i] <= v < low[i] + length[i]``. Below the window it is that at the lower end plus ``below[i] * (low[i] - v)``, and above it
    that at the upper end plus ``above[i] * (v - low[i] - length[i] + 1)``. It is right up to a constant for each answer.
    No window may be impossible at one of its ends, or grow outwards.
    """

    low: Ints  # the first true answer of each window, shape (answers,)
    start: Ints  # where the window begins in `log_mass`; answers may share a part of it
    length: Ints
    log_mass: Floats  # ``-inf`` for a true answer that cannot be
    below: Floats  # slopes, at most 0; ``-inf`` where no true answer beyond the window can be
    above: Floats

    def __post_init__(self) -> None:
        shapes = {np.shape(part) for part in (self.low, self.start, self.length, self.below, self.above)}
        if len(shapes) > 1 or np.ndim(self.low) != 1:
            raise ValueError(
                f"low, start, length, below and above must have one shape (answers,), got {sorted(shapes)}"
            )
        if not len(self.low):
            return
        if np.min(self.length) < 1 or np.min(self.start) < 0 or np.max(self.start + self.length) > len(self.log_mass):
            raise ValueError(
                f"windows must have a length of at least 1 and lie within log_mass, which has {len(self.log_mass)} entries"
            )
        ends = np.concatenate([self.log_mass[self.start], self.log_mass[self.start + self.length - 1]])
        if not np.isfinite(ends).all() or np.isnan(self.log_mass).any() or np.isposinf(self.log_mass).any():
            raise ValueError("log_mass must be finite at both ends of every window, and finite or -inf between")
        if not (np.all(self.below <= 0.0) and np.all(self.above <= 0.0)):
            raise ValueError("below and above must be at most 0: the log-mass may not grow beyond a window")

    @property
    def ends(self) -> tuple[Floats, Floats]:
        """The first and the last true answer that can be, infinite where there is none."""
        first = np.where(np.isneginf(self.below), self.low, -np.inf)
        return first, np.where(np.isneginf(self.above), self.low + self.length - 1, np.inf)


def _of_each(windows: LogMassWindows, number: Callable[[Floats, float, float], float]) -> Floats:
    """A number for each answer, of its log-masses and both slopes; where these are the same it is worked out once."""
    if not len(windows.low):
        return np.zeros(0)
    keys = np.stack([windows.start.astype(np.float64), windows.length.astype(np.float64), windows.below, windows.above])
    different, which = np.unique(keys, axis=1, return_inverse=True)
    found = []
    for start, length, below, above in different.T.tolist():
        found.append(number(windows.log_mass[int(start) : int(start + length)], below, above))
    return np.array(found)[which.reshape(-1)]


def _bent(log_mass: Floats, below: float, above: float) -> bool:
    """Whether a log-mass is not concave."""
    if np.isneginf(log_mass).any():  # the difference of two of them is not a number
        return True
    rises = np.concatenate([[-below], np.diff(log_mass), [above]])
    return bool(np.any(rises[1:] > rises[:-1] + _ROUNDING))


def _variance(log_mass: Floats, below: float, above: float) -> float:
    """Of the true answer if all were equally likely before; infinite where the log-mass does not fall on both sides."""
    if below == 0.0 or above == 0.0:
        return np.inf
    inside = np.exp(log_mass - float(log_mass.max()))
    place = np.arange(len(inside), dtype=np.float64)
    mass, first, second = (float((inside * place**power).sum()) for power in range(3))
    for at, height, slope, sign in ((0.0, inside[0], below, -1.0), (place[-1], inside[-1], above, 1.0)):
        # A geometric tail: sum r^k, sum k r^k, sum k^2 r^k.
        r = float(np.exp(slope))
        if r >= 1.0:
            return np.inf
        zeroth, one, two = r / (1 - r), r / (1 - r) ** 2, r * (1 + r) / (1 - r) ** 3
        mass += float(height) * zeroth
        first += float(height) * (at * zeroth + sign * one)
        second += float(height) * (at * at * zeroth + 2 * sign * at * one + two)
    return max(second / mass - (first / mass) ** 2, 0.0)


def bent(windows: LogMassWindows) -> Mask:
    """For each answer, whether its log-mass is not concave."""
    return _of_each(windows, _bent).astype(np.bool_)


def spread_of_windows(windows: LogMassWindows) -> Floats:
    """For each answer, the standard deviation of what it says of the true one; at least 1e-3, as it is divided by."""
    return np.maximum(np.sqrt(_of_each(windows, _variance)), 1e-3)


def without_infinities(log_mass: Floats) -> Floats:
    """The same with `IMPOSSIBLE` for what cannot be."""
    return np.maximum(log_mass, IMPOSSIBLE)


@dataclass(frozen=True, eq=False)
class NoiseTerm:
    """Noisy answers of a query and the shape of their law."""

    query: Query
    values: Floats  # shape (rows,)
    # l1: ``-rate |r|`` a row; l2: ``-rate ||r||_2`` over all rows; gaussian: ``-r^2 / (2 scale^2)`` a row; windows: tabulated.
    kind: str
    # The rate of l1 and l2, one number; the scale of gaussian, shape () or (rows,); for windows how widely a row varies by its own
    # answer, which decides about directions only.
    scale: Floats
    measured: Mask  # which answers were published, shape (rows,)
    # Real combinations of the cells, shape (rows, cells), in the place of the query: laws that are products in coordinates.
    coordinates: Floats | None = None
    windows: LogMassWindows | None = None  # of the published rows, in their order
    # By which law each row shares its perturbation with rows about the same records; 0: it does not.
    laws: Ints | None = None
    changing: bool = False  # whether the log-masses are parameters, which `Target.set_noise` takes in place of a scale
    by_law: Callable[[Ints], float] | None = None  # the log-likelihood of the true answers by the law itself

    def __post_init__(self) -> None:
        choice(self.kind, ("l1", "l2", "gaussian", "windows"), "kind")

    @property
    def on_cells(self) -> bool:
        """Whether the noise is on the cells themselves."""
        return self.coordinates is None and self.query.is_identity

    @property
    def matrix(self) -> sp.csr_array:
        """What is measured, as a matrix of rows by cells."""
        return self.query.matrix if self.coordinates is None else sp.csr_array(self.coordinates)

    @property
    def rows(self) -> int:
        """Number of noisy answers."""
        return self.query.rows if self.coordinates is None else len(self.coordinates)


_FAR = 10**4
"""How far from a gap tables are looked for, where the law has no ends."""


class Gaps(NamedTuple):
    """True answers from `first` to `last` that are impossible, one gap a row of `matrix`; `room` is how far others are at most."""

    # `published` are the answers that a gap is of. Of two answers that may share a perturbation but have different numbers the gap is
    # 0, in the sum of the cells that are in one of them only. There are many pairs, so that `further` finds them as tables meet them.
    matrix: sp.csr_array
    first: Ints
    last: Ints
    room: Ints
    published: tuple[tuple[tuple[NoiseTerm, int], ...], ...]
    sharing: tuple[NoiseTerm, ...]

    @classmethod
    def of(cls, terms: Sequence[NoiseTerm]) -> Gaps | None:
        """Those of all terms; None where there are none."""
        matrices, ends, published = [], [np.zeros((3, 0), dtype=np.int64)], list[tuple[tuple[NoiseTerm, int], ...]]()
        for term in terms:
            if (windows := term.windows) is None:
                continue
            edges = np.diff(np.concatenate([[0], np.isneginf(windows.log_mass), [0]]))
            begin, end = np.flatnonzero(edges > 0), np.flatnonzero(edges < 0)
            lead = np.searchsorted(begin, windows.start)
            many = np.searchsorted(begin, windows.start + windows.length) - lead
            place = np.repeat(np.arange(len(many)), many)
            gap = np.arange(len(place)) + np.repeat(lead - np.cumsum(many) + many, many)
            shift = (windows.low - windows.start)[place]
            endless = (np.isfinite(windows.below) | np.isfinite(windows.above))[place]
            room = np.where(endless, _FAR, windows.length[place])
            ends.append(np.stack([begin[gap] + shift, end[gap] - 1 + shift, room]))
            rows = np.flatnonzero(term.measured)[place]
            matrices.append(term.matrix[rows])
            published += [((term, row),) for row in rows.tolist()]
        sharing = tuple(term for term in terms if term.laws is not None)
        if not published and not sharing:
            return None
        first, last, room = np.hstack(ends)
        return cls(sp.csr_array(sp.vstack(matrices)), first, last, room, tuple(published), sharing)

    def further(self, counts: Ints) -> Gaps | None:
        """With a gap for two answers of each class of the table that have different numbers; None where there are none."""
        # Of two answers that may both be 0 there is none: those have numbers of their own where they are about nobody.
        if not self.sharing:
            return None
        matrix = sp.csr_array(sp.vstack([term.matrix for term in self.sharing])) != 0
        laws = np.concatenate([term.laws for term in self.sharing if term.laws is not None])
        numbers = np.concatenate([term.values for term in self.sharing])
        least, most = np.zeros((2, len(laws)), dtype=np.int64)
        windows = [term.windows for term in self.sharing if term.windows is not None]
        measured = np.concatenate([term.measured for term in self.sharing])
        least[measured] = np.concatenate([each.low for each in windows])
        most[measured] = np.concatenate([each.low + each.length for each in windows])
        # As in the kernel: sets of cells are told by the sum of random numbers of 64 bits, and wrongly so once in 2**64.
        codes = np.random.default_rng(0).integers(1, 2**63, size=len(counts)) * (counts != 0)
        classes = matrix.astype(np.int64) @ codes * (2 * laws + 1) * (laws > 0)
        _, lead, place = np.unique(classes, return_index=True, return_inverse=True)
        lead = lead[place]
        other = np.flatnonzero((classes != 0) & (numbers != numbers[lead]) & (np.maximum(least, least[lead]) > 0))
        if not other.size:
            return None
        answers = [(term, row) for term in self.sharing for row in range(term.rows)]
        pairs = tuple((answers[i], answers[lead[i]]) for i in other)
        return self._replace(
            matrix=sp.csr_array(sp.vstack([self.matrix, (matrix[other] != matrix[lead[other]]).astype(np.float64)])),
            first=np.append(self.first, 0 * other),
            last=np.append(self.last, 0 * other),
            room=np.append(self.room, most[other] + most[lead[other]]),
            published=(*self.published, *pairs),
        )

    def met(self, counts: Ints) -> Ints:
        """The gaps that a flat table puts an answer into."""
        answers = self.matrix @ counts
        return np.flatnonzero((self.first <= answers) & (answers <= self.last))

    def constraint(self, aim: Floats) -> tuple[sp.csr_array, Floats, Floats]:
        """Answers are below their gaps or above, by an integer program in steps up and down from an aim, and 0 (below) or 1 a gap."""
        rows, at = self.matrix.astype(np.float64), self.matrix @ aim
        both = sp.hstack([rows, -rows, -sp.diags_array(self.room.astype(np.float64))], format="csr")
        return both, self.last + 1 - self.room - at, self.first - 1 - at

    def conflict(self, nearest: Ints) -> str:
        """The message where no table avoids all gaps, with an answer that the nearest table has there."""
        met = self.met(nearest)
        (term, row), *others = self.published[met[0]]
        before = (
            "the laws of the published numbers leave gaps, and no table avoids them all: in the nearest one that is otherwise within "
            f"reach, {term.query.answer_name(row)} is "
        )
        if others:
            other, at = others[0]
            return (
                f"{before}about the same records as {other.query.answer_name(at)}, and so has the same perturbation, but "
                f"{term.values[row]:g} and {other.values[at]:g} were published ({len(met)} such answers)"
            )
        return (
            f"{before}{(self.matrix @ nearest)[met[0]]}, which cannot lead to the published {term.values[row]:g} "
            f"({len(met)} such answers)"
        )
