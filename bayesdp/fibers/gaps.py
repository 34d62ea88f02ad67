"""Gaps between the true answers that published ones can come from, and that different ones are not about the same records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.optimize import LinearConstraint

from bayesdp.fibers.noise_term import NoiseTerm

type Ints = npt.NDArray[np.int64]

_FAR = 10**4
"""How far from a gap tables are looked for, where the law has no ends."""


class Gaps(NamedTuple):
    """True answers from `first` to `last` that are impossible, one gap a row of `matrix`; `room` is how far others are at most.

    `published` are the answers that a gap is of. Of two answers that may share a perturbation but have different numbers the gap is 0,
    in the sum of the cells that are in one of them only. There are many pairs, so that `further` finds them as tables meet them.
    """

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
            ends.append(
                np.stack([begin[gap] + shift, end[gap] - 1 + shift, np.where(endless, _FAR, windows.length[place])])
            )
            rows = np.flatnonzero(term.measured)[place]
            matrices.append(term.matrix[rows])
            published += [((term, row),) for row in rows.tolist()]
        sharing = tuple(term for term in terms if term.laws is not None)
        if not published and not sharing:
            return None
        first, last, room = np.hstack(ends)
        return cls(sp.csr_array(sp.vstack(matrices)), first, last, room, tuple(published), sharing)

    def further(self, counts: Ints) -> Gaps | None:
        """With a gap for two answers of each class of the table that have different numbers; None where there are none.

        Of two answers that may both be 0 there is none: those have numbers of their own where they are about nobody.
        """
        if not self.sharing:
            return None
        matrix = sp.csr_array(sp.vstack([term.matrix for term in self.sharing])) != 0
        laws, numbers = (
            np.concatenate(own)
            for own in zip(*((term.laws, term.values) for term in self.sharing if term.laws is not None), strict=True)
        )
        least, most = np.zeros((2, len(laws)), dtype=np.int64)
        windows = [term.windows for term in self.sharing if term.windows is not None]
        measured = np.concatenate([term.measured for term in self.sharing])
        least[measured] = np.concatenate([own.low for own in windows])
        most[measured] = np.concatenate([own.low + own.length for own in windows])
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

    def constraint(self, aim: npt.NDArray[np.float64]) -> LinearConstraint:
        """Answers are below their gaps or above, by an integer program in steps up and down from an aim, and 0 (below) or 1 a gap."""
        rows, at = self.matrix.astype(np.float64), self.matrix @ aim
        both = sp.hstack([rows, -rows, -sp.diags_array(self.room.astype(np.float64))], format="csr")
        return LinearConstraint(both, self.last + 1 - self.room - at, self.first - 1 - at)

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
