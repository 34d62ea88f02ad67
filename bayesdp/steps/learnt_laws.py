"""Perturbation tables that are learnt, drawn by turns with the moves of the counts, on which they depend much.

What is slow is a ridge: on 39 Australian areas the standard deviation of the slowest contrast of a row is some fifteen times that
given the counts (0.06 and 0.004). Over 20 draws of two sweeps it moved, in mean squares, 6.0e-4 with one turn a draw, 9.7e-4 with
four turns a sweep and 11.2e-4 with twenty, near the walk of counts whose law is integrated out. Five a sweep cost some tenth of the
time; longer draws then help, which they hardly do with one turn. No more is gained: 2 x 500 draws of 20 sweeps give 27 effective
draws at the least, R-hat 1.09. The prior of maximum entropy has no such ridge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pymc as pm

from bayesdp.distributions.perturbed import PerturbationRowsRV, PerturbedRV
from bayesdp.fibers import Chain, Target
from bayesdp.fibers.kernel.classes import count_places
from bayesdp.fibers.windows import without_infinities
from bayesdp.noise import UnknownPerturbation
from bayesdp.steps._compiled import depends
from bayesdp.steps.terms import Reading

__all__ = ["LearntLaw", "learnt_laws"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Part:
    """One term of a law: its number, its rows in the kernel, where its windows begin there, and where they stand in the flat table."""

    term: int
    rows: slice
    window: int
    places: Ints


@dataclass(frozen=True, eq=False)
class LearntLaw:
    """The rows of a law that only terms of one table depend on, all known to its kernel.

    Drawn given the counts, whose next steps are given the rows: each leaves the law of both as it is, however often they take turns.
    """

    name: str
    law: UnknownPerturbation
    parts: tuple[_Part, ...]

    def draw(self, chain: Chain, rng: np.random.Generator) -> Floats:
        """Rows given the table as it stands, which its next steps then go by."""
        state, found = chain.state, np.zeros(self.law.concentrations.shape)
        for part in self.parts:
            count_places(part.rows.start, part.rows.stop, self.law.transitions.lowest, state.rows, state.laws, state.classes,
                         state.slots, found)  # fmt: skip
        rows = self.law.drawn_rows(rng, np.rint(found))
        for part, (_, log_mass) in zip(self.parts, self.log_masses(rows), strict=True):
            state.windows[part.window : part.window + len(log_mass)] = without_infinities(log_mass)
        return rows

    def log_masses(self, rows: Floats) -> Iterator[tuple[int, Floats]]:
        """Of each term, with its number, what its windows have under some rows."""
        with np.errstate(divide="ignore"):
            flat = np.log(rows).reshape(-1)
        for part in self.parts:
            yield part.term, flat[part.places]


def learnt_laws(model: pm.Model, reading: Reading, target: Target) -> list[LearntLaw]:
    """The laws of a model that only terms of this table, exactly known, depend on."""
    found = []
    records = [id(rv) for rv in reading.variables[len(reading.terms) :]]
    others = [*model.free_RVs, *model.observed_RVs, *model.potentials]
    for rows in model.free_RVs:
        if not isinstance(rows.owner.op, PerturbationRowsRV):
            continue
        value, law = model.rvs_to_values[rows], rows.owner.op.law
        parts, known, window = [], {id(rows), *records}, 0
        for i, (term, rv) in enumerate(zip(reading.terms, reading.variables, strict=False)):
            if isinstance(rv.owner.op, PerturbedRV) and rv.owner.op.table(rv) is rows:
                places = law.transitions.window_places(np.rint(term.values[term.measured]).astype(np.int64))
                parts.append(_Part(i, target.rows_of(i), window, places))
                known.add(id(rv))
            window += 0 if term.windows is None else len(term.windows.log_mass)
        if parts and not any(id(rv) not in known and depends(model, rv, value) for rv in others):
            found.append(LearntLaw(value.name, law, tuple(parts)))
    return found
