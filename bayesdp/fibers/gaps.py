"""Gaps between the true answers that a published one can come from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.optimize import LinearConstraint

from bayesdp.fibers.noise_term import NoiseTerm

__all__ = ["Gaps"]

type Ints = npt.NDArray[np.int64]

_FAR = 10**4
"""How far from a gap tables are looked for, where the law has no ends."""


class Gaps(NamedTuple):
    """True answers from `first` to `last` that are impossible, one gap a row of `matrix`; `room` is how far others are at most."""

    matrix: sp.csr_array
    first: Ints
    last: Ints
    room: Ints
    published: tuple[tuple[NoiseTerm, int], ...]

    @classmethod
    def of(cls, terms: Iterable[NoiseTerm]) -> Gaps | None:
        """Those of all terms; None where there are none."""
        matrices, ends, published = [], [np.zeros((3, 0), dtype=np.int64)], list[tuple[NoiseTerm, int]]()
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
            ends.append(
                np.stack([begin[gap] + shift, end[gap] - 1 + shift, np.where(endless, _FAR, windows.length[place])])
            )
            rows = np.flatnonzero(term.measured)[place]
            matrices.append(term.matrix[rows])
            published += [(term, row) for row in rows.tolist()]
        first, last, room = np.hstack(ends)
        return cls(sp.csr_array(sp.vstack(matrices)), first, last, room, tuple(published)) if published else None

    def met(self, counts: Ints) -> Ints:
        """The gaps that a flat table puts an answer into."""
        answers = self.matrix @ counts
        return np.flatnonzero((self.first <= answers) & (answers <= self.last))

    def constraint(self, aim: npt.NDArray[np.float64]) -> LinearConstraint:
        """Answers are below their gaps or above, by an integer program in steps up and down from an aim, and 0 (below) or 1 a gap."""
        rows, at = self.matrix.astype(np.float64), self.matrix @ aim
        both = sp.hstack([rows, -rows, -sp.diags_array(self.room.astype(np.float64))], format="csr")
        return LinearConstraint(both, self.last + 1 - self.room - at, self.first - 1 - at)

    def conflict(self, nearest: Ints) -> str:
        """The message where no table avoids all gaps, with an answer that the nearest table has there."""
        met = self.met(nearest)
        term, row = self.published[met[0]]
        return (
            "the laws of the published numbers leave gaps, and no table avoids them all: in the nearest one that is otherwise within "
            f"reach, {term.query.answer_name(row)} is {(self.matrix @ nearest)[met[0]]}, which cannot lead to the published "
            f"{term.values[row]:g} ({len(met)} such answers)"
        )
