"""Answers about the same records as a term of a model: what their likelihoods counted twice is taken back.

Every measurement has a likelihood of its own, as if all answers had a perturbation of their own. Under laws that give the same
records the same perturbation (`bayesdp.noise.records`), a class of m answers has one factor p(y | x) and not m, and equal numbers. So
this term is

    - sum over classes c of (m_c - 1) log p(y_c | x_c),

and minus infinity where two numbers of a class differ. It is an observed variable: the number of classes whose numbers differ,
which is 0.

The class of an answer is told by the sum of random numbers of 64 bits, one for each of its cells that are not empty. Two sums of
different cells are equal with probability 2**-64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.distribution import Distribution
from pymc.logprob.abstract import _logprob

from bayesdp.distributions.answers import OFF_FIBER, UnmergedRV, answers, off_support
from bayesdp.distributions.perturbed import PerturbedByRows, places
from bayesdp.distributions.registry import distribution_of
from bayesdp.fibers.kernel.state import cell_codes
from bayesdp.noise import NoiseLaw, UnknownPerturbation
from bayesdp.queries import Query

__all__ = ["SameRecords", "SameRecordsRV", "SharedPart"]

type Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SharedPart:
    """Published answers that may share perturbations with others.

    `published` says which answers of the query were published; `shared` is as `bayesdp.noise.records.shared_laws`, and 0 also where an
    answer was not published.
    """

    query: Query
    law: NoiseLaw
    published: npt.NDArray[np.bool_]
    shared: Ints


class SameRecordsRV(UnmergedRV):
    """Random variable of `SameRecords`: one of `parts` for each input after the counts; then the rows of unknown laws, in their order.

    The first `known` of the parts are those that another such variable of the model is about already.
    """

    inline_logprob = False
    _print_name = ("SameRecords", r"\operatorname{SameRecords}")

    def __init__(self, parts: Sequence[SharedPart], known: int, **kwargs: Any) -> None:
        self.parts = tuple(parts)
        self.known = known
        self._ndim_supp = 0
        super().__init__(**kwargs)

    @classmethod
    def make(cls, x: Any, *others: Any, parts: Sequence[SharedPart], known: int) -> Any:
        """Apply to a table, the published numbers of each part, and the rows of unknown laws."""
        inner = [own.type() for own in (x, *others)]
        found = _differing(*_classes(parts, inner[0], inner[1 : len(parts) + 1]))
        return cls(parts, known, inputs=inner, outputs=[found])(x, *others)

    def repeated(self, rows: Any, law: UnknownPerturbation, x: Any, *others: Any) -> list[Any]:
        """Where answers that repeat one before them stand in the flat rows of a law: of all parts, and of the known ones."""
        numbers, mu, own, tables = [], [], [], iter(others[len(self.parts) :])
        for part, data in zip(self.parts, others, strict=False):
            sets, unknown = part.shared > 0, isinstance(part.law, UnknownPerturbation)
            numbers.append(data.flatten()[np.flatnonzero(sets[part.published])])
            mu.append(answers(part.query, x, sets).flatten())
            own.append(np.full(np.count_nonzero(sets), unknown and next(tables) is rows))
        several = [pt.zeros(0, dtype="int64")] * 2
        for place, count in enumerate((len(self.parts), self.known)):
            if count:
                _, again, order = _classes(self.parts[:count], x, others[:count])
                found = places(law.transitions, pt.concatenate(numbers[:count]), pt.concatenate(mu[:count]))
                several[place] = pt.switch(np.concatenate(own[:count]), found, -1)[order][1:][again]
        return several


class SameRecords(Distribution):
    """Answers about the same records are published with one number, and count once; see `SameRecordsRV`; used by `observe`."""

    rv_type = SameRecordsRV
    rv_op = SameRecordsRV.make

    @classmethod
    def dist(cls, x: Any, published: Sequence[Any], *, parts: Sequence[SharedPart], known: int = 0, **_: Any) -> Any:
        """Make an unregistered variable."""
        return SameRecordsRV.make(x, *published, parts=parts, known=known)


def _classes(parts: Sequence[SharedPart], x: Any, published: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Published numbers in the order of their classes, which of them belong to the class of the one before, and the order."""
    frame = parts[0].query.frame
    held = pt.switch(pt.neq(x, 0), pt.constant(cell_codes(frame.size).reshape(frame.shape)), np.int64(0))
    classes, numbers = [], []
    for part, data in zip(parts, published, strict=True):
        sets = part.shared > 0
        sums = pt.cast(answers(part.query, held, sets).flatten(), "int64")
        # Laws are told apart by a factor that is odd: a sum is 0 for empty answers only.
        classes.append(sums * pt.constant(2 * part.shared[sets] + 1))
        numbers.append(data.flatten()[np.flatnonzero(sets[part.published])])
    code = pt.concatenate(classes)
    order = pt.argsort(code)
    code = code[order]
    return pt.concatenate(numbers)[order], pt.eq(code[1:], code[:-1]) & pt.neq(code[1:], 0), order


def _differing(numbers: Any, again: Any, order: Any) -> Any:
    """How many numbers are not that of the one before them in their class."""
    return pt.sum(again & pt.neq(numbers[1:], numbers[:-1]))


def _surplus(parts: Sequence[SharedPart], x: Any, published: Any, rows: Any, again: Any, order: Any) -> Any:
    """What the likelihoods of the parts count too often."""
    masses, tables = [], iter(rows)
    for part, data in zip(parts, published, strict=True):
        sets = part.shared > 0
        numbers = data.flatten()[np.flatnonzero(sets[part.published])]
        own = [next(tables)] if isinstance(part.law, UnknownPerturbation) else []
        masses.append(_log_masses(part, x, numbers, sets, *own))
    return pt.sum(pt.switch(again, pt.maximum(pt.concatenate(masses)[order][1:], OFF_FIBER), 0.0))


def _log_masses(part: SharedPart, x: Any, numbers: Any, sets: npt.NDArray[np.bool_], rows: Any = None) -> Any:
    if isinstance(part.law, UnknownPerturbation):
        return pm.logp(PerturbedByRows.dist(answers(part.query, x, sets), rows, part.law), pt.cast(numbers, "int64"))
    parameters = {
        name: np.broadcast_to(value, part.query.shape).reshape(-1)[sets] if isinstance(value, np.ndarray) else value
        for name, value in part.law.model_parameters().items()
    }
    variable = distribution_of(type(part.law)).dist(mu=answers(part.query, x, sets), **parameters)
    return pm.logp(variable, pt.cast(numbers, variable.dtype) if part.law.integer else numbers)


@_logprob.register(SameRecordsRV)
def _same_records_logp(op: SameRecordsRV, values: Any, x: Any, *others: Any, **_: Any) -> Any:
    published, rows = others[: len(op.parts)], others[len(op.parts) :]
    found = _classes(op.parts, x, published)
    surplus = _surplus(op.parts, x, published, rows, *found[1:])
    if op.known:
        before = op.parts[: op.known], x, published[: op.known]
        surplus = surplus - _surplus(*before, rows, *_classes(*before)[1:])
    return pt.switch(pt.eq(_differing(*found), values[0]), -surplus, off_support(x))
