"""PyMC distributions of laws of perturbed counts: they look probabilities up in a table, known, learnt or any expression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.distribution import Distribution, _support_point
from pymc.logprob.abstract import _logprob
from pytensor.tensor.variable import TensorConstant
from scipy.special import gammaln

from bayesdp import noise
from bayesdp._arrays import Floats, Ints, Mask
from bayesdp.distributions.confidential_counts import OFF_FIBER, UnmergedRV, answers, floored, off_support
from bayesdp.distributions.registry import (
    PROPS,
    PythonRV,
    add_likelihood,
    blank,
    distribution_of,
    is_discrete,
    made,
    makes,
    op_of_rv_type,
    print_name,
)
from bayesdp.fibers.kernel.state import cell_codes
from bayesdp.noise import NoiseLaw, UnknownPerturbation
from bayesdp.noise.perturbed.base import PerturbedLaw, Transitions
from bayesdp.queries import Query


class PerturbedRV(PythonRV):
    """Random variable of a law of perturbed counts, which is among its props; inputs are the counts and the table's probabilities.

    Where `of_counts`, what cannot be has a large negative log-mass while counts are sampled (`OFF_FIBER`).
    """

    law_type: Any = PerturbedLaw
    name, signature, dtype = "perturbed", "(),(r,d)->()", "int64"
    __props__ = (*PROPS, "law", "of_counts")
    law: Any
    of_counts = False

    def __init__(self, law: Any, **props: Any) -> None:
        self._print_name = print_name(type(law).__name__)
        super().__init__(law=law, **props)

    def rng_fn(self, rng: np.random.Generator, mu: Any, rows: Any, size: Sequence[int] | None = None) -> Any:
        """Draw an array of independent counts by one table."""
        counts, table = self.law._counts(np.asarray(mu)), self.law.transitions
        if not np.array_equal(np.reshape(rows, table.mass.shape), table.mass):
            table = Transitions(table.lowest, np.reshape(rows, table.mass.shape), table.period)
        return table.draw(rng, np.array(counts if size is None else np.broadcast_to(counts, size), order="C"))

    @staticmethod
    def table(rv: Any) -> Any:
        """The probabilities of such a variable, without the dimensions that it gives them for its answers."""
        rows = rv.owner.inputs[3]
        return rows.owner.inputs[0] if rows.ndim > 2 and rows.owner is not None else rows

    def log_mass(self, rows: Any) -> Any:
        """Logarithms of probabilities, minus infinity for what the law does not have."""
        possible = self.law.transitions.mass > 0.0
        return pt.switch(possible, pt.log(pt.switch(possible, rows, 1.0)), -np.inf)


@_logprob.register(PerturbedRV)
def _logp(op: PerturbedRV, values: Any, rng: Any, size: Any, mu: Any, rows: Any, **_: Any) -> Any:
    # `Transitions.log_each` in PyTensor, by other log-masses.
    place = op.law.transitions.places(pt.as_tensor_variable(values[0]), mu, pt)
    found = op.log_mass(rows).flatten()[pt.maximum(place, 0).flatten()].reshape(place.shape)
    mass = pt.switch(pt.ge(place, 0), found, -np.inf)
    return floored(mass, mu) if op.of_counts else mass


@_support_point.register(PerturbedRV)
def _likeliest(op: PerturbedRV, rv: Any, rng: Any, size: Any, mu: Any, rows: Any) -> Any:
    """A published value that is possible for each count: its likeliest one."""
    table = op.law.transitions
    likeliest, row = table.lowest + pt.argmax(rows, axis=-1).flatten(), table.row_of(pt.maximum(mu, 0), pt)
    return pt.zeros_like(rv) + pt.maximum(mu, 0) + likeliest[row.flatten()].reshape(row.shape)


_LOCATION = "mu : tensor_like of int\n    The true counts."

_PUBLISHED = """>>> import pymc as pm
>>> with pm.Model():
...     count = pm.Poisson("count", 9.0)
...     published = NAME("published", count, PARAMETERS, observed=12)"""


@makes(PerturbedLaw)
def of_table(law: Any, shown: str = "", notes: str = "") -> Any:
    """The distribution of a law of perturbed counts; `shown`: its parameters in the example of the docstring."""

    def variables(mu: Any, **stated: Any) -> tuple[list[Any], dict[str, Any]]:
        made_law = law(**stated)
        return [counts_of(mu, law.name), pt.constant(made_law.transitions.mass)], {"law": made_law}

    example = _PUBLISHED.replace("PARAMETERS", shown) if shown else ""
    written, body = blank(law, pm.Discrete, notes, example), {"rv_type": PerturbedRV, "rv_op": op_of_rv_type}
    return made(law, written, law.stated_parameters(), variables, body, given={"mu": _LOCATION})


def counts_of(given: Any, law: str) -> Any:
    """Accept a location of whole numbers; a constant that is written as real numbers must be whole."""
    variable = pt.as_tensor_variable(given)
    if is_discrete(variable):
        return pt.cast(variable, "int64")
    if isinstance(variable, TensorConstant):
        numbers = np.asarray(variable.data)
        if np.all(numbers == np.rint(numbers)):
            return pt.constant(numbers.astype(np.int64))
    raise TypeError(
        f"mu must hold counts, whole numbers, under the law {law!r}, got a variable of {variable.dtype}: its probabilities are "
        "given for counts only, as ConfidentialCounts has them"
    )


class PerturbationRowsRV(PerturbedRV):
    """Random variable of `PerturbationRows`; its input are the prior means."""

    name, signature, dtype = "perturbation_rows", "(r,d)->(r,d)", "float64"

    def rng_fn(self, rng: np.random.Generator, means: Any, size: Sequence[int] | None = None) -> Floats:  # type: ignore[override]
        """Draw tables."""
        lead = () if size is None else tuple(size)
        drawn = [self.law.drawn_rows(rng) for _ in range(int(np.prod(lead)))]
        return np.reshape(drawn, (*lead, *np.shape(means)[-2:]))


class PerturbationRows(pm.Continuous):
    """The rows of a perturbation table that is not known, with the prior of its law; `bayesdp.steps.PerturbationGibbs` draws them.

    Parameters
    ----------
    law : bayesdp.noise.UnknownPerturbation

    Examples
    --------
    >>> pm.draw(PerturbationRows.dist(noise.UnknownPerturbation(1)), random_seed=1)[0].tolist()
    [0.0, 1.0, 0.0]
    """

    rv_type = PerturbationRowsRV
    rv_op = op_of_rv_type

    @classmethod
    def dist(cls, law: noise.UnknownPerturbation, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        return super().dist([pt.constant(law.transitions.mass)], law=law, **kwargs)


@_support_point.register(PerturbationRowsRV)
def _rows_point(op: PerturbationRowsRV, rv: Any, rng: Any, size: Any, means: Any) -> Any:
    """The prior means, or the table in the middle of the family."""
    return means if op.law.prior == "dirichlet" else pt.constant(op.law.tables[len(op.law.tables) // 2])


@_logprob.register(PerturbationRowsRV)
def _rows_logp(op: PerturbationRowsRV, values: Any, rng: Any, size: Any, means: Any, **_: Any) -> Any:
    [value], law = values, op.law
    if law.prior != "dirichlet":
        known = pt.any(pt.all(pt.lt(pt.abs(value - pt.constant(law.tables)), 1e-9), axis=(1, 2)))
        return pt.switch(known, -np.log(len(law.tables)), -np.inf)
    possible = law.concentrations > 0
    shapes = np.where(possible, law.concentrations, 1.0)
    constant = gammaln(law.concentrations.sum(axis=1)).sum() - gammaln(shapes).sum()
    inside = pt.all(pt.lt(pt.abs(pt.sum(value, axis=1) - 1.0), 1e-6))
    inside = inside & pt.all(pt.switch(possible, pt.ge(value, 0.0), pt.eq(value, 0.0)))
    return pt.switch(inside, constant + pt.sum((shapes - 1.0) * pt.log(pt.switch(possible, value, 1.0))), -np.inf)


class PerturbedByRows(pm.Discrete):
    """Counts published for counts mu with probabilities that are given, or variables of the model.

    The posterior kernel of a `ConfidentialCounts` takes the rows as they stand at each draw. What cannot be has a large negative
    log-mass while mu is being sampled, as for exact answers.

    Parameters
    ----------
    mu : tensor_like of int
        The true counts; real numbers raise TypeError.
    rows : tensor_like of float, shape (counts, deviations)
        Row x for counts x from 0 on, each with sum 1, in the layout of ``like.transitions.mass``: a `PerturbationRows`, or any
        expression, such as a table for rounding with an unknown probability. Another shape raises ValueError.
    like : PerturbedLaw
        A law with the same possible deviations, whose last rows repeat in the same way. Only that is read off it.

    Examples
    --------
    Rounding to base 3, where it is not known how often the nearest multiple is taken:

    >>> with pm.Model():
    ...     count = pm.Poisson("count", 9.0)
    ...     p = pm.Beta("p", 2, 1)
    ...     rows = pt.stack([[0, 0, 1, 0, 0], [0, p, 0, 0, 1 - p], [1 - p, 0, 0, p, 0]])
    ...     published = PerturbedByRows("published", count, rows, like=noise.RandomRounding(3), observed=12)
    """

    rv_type = PerturbedRV
    rv_op = op_of_rv_type

    @classmethod
    def dist(cls, mu: Any, rows: Any, like: PerturbedLaw, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        table, shape = pt.as_tensor_variable(rows), like.transitions.mass.shape
        if table.ndim != 2 or any(given not in (None, n) for given, n in zip(table.type.shape, shape, strict=True)):
            raise ValueError(f"rows must have the shape {shape} of like.transitions.mass, got {table.type.shape}")
        return super().dist([counts_of(mu, like.name), pt.cast(table, "float64")], law=like, of_counts=True, **kwargs)


def rows_of(model: pm.Model, law: noise.NoiseLaw) -> Any:
    """The variable of a model that has the rows of an unknown law, or of an equal one; None if there is none."""
    learnt = (rv for rv in model.free_RVs if isinstance(rv.owner.op, PerturbationRowsRV))
    return next((rv for rv in learnt if rv.owner.op.law == law), None)


@add_likelihood.register
def _add_perturbed(law: PerturbedLaw, name: str, mu: Any, parameters: Any, *, invariants: None, **data: Any) -> None:
    """Answers that are real numbers are left to the distribution of the law, which says that it needs counts."""
    if not is_discrete(mu):
        distribution_of(type(law))(name, mu=mu, **parameters, **data)
        return
    rows: Any = pt.constant(law.transitions.mass)
    if isinstance(law, noise.UnknownPerturbation):
        model = pm.modelcontext(None)
        known = rows_of(model, law)
        rows = _new_rows(model, law, name) if known is None else known
    PerturbedByRows(name, mu, rows, like=law, **data)


def _new_rows(model: pm.Model, law: noise.UnknownPerturbation, name: str) -> Any:
    """Add the rows of a law, with their dimensions, which have the name of the measurement before them where theirs are taken."""
    dims = []
    for dim, labels in (("count", law.counts), ("deviation", law.deviations)):
        taken = dim in model.named_vars or tuple(model.coords.get(dim) or labels) != tuple(labels)
        dims.append(f"{name}_{dim}" if taken else dim)
        model.add_coord(dims[-1], labels)
    rows = PerturbationRows(f"{name}_law", law, dims=dims)
    if law.prior != "dirichlet":
        place = pt.argmin(pt.sum(pt.abs(rows - pt.constant(law.tables)), axis=(1, 2)))
        pm.Deterministic(f"{name}_law_variance", pt.constant(law.variances)[place])
    return rows


@dataclass(frozen=True, eq=False)
class SharedPart:
    """Published answers that may share perturbations with others.

    `published` says which answers of the query were published; `shared` is as `bayesdp.noise.base.shared_laws`, and 0 also where an
    answer was not published.
    """

    query: Query
    law: NoiseLaw
    published: Mask
    shared: Ints

    @property
    def sets(self) -> Mask:
        """Which answers may share."""
        return self.shared > 0

    def numbers(self, data: Any) -> Any:
        """The published numbers of those, of all that were published."""
        return data.flatten()[np.flatnonzero(self.sets[self.published])]

    def answers(self, table: Any) -> Any:
        """Their answers about a table."""
        return answers(self.query, table, self.sets).flatten()

    def log_masses(self, x: Any, data: Any, rows: Any) -> Any:
        """Log-masses of the published numbers, by rows where the law is unknown."""
        numbers = self.numbers(data)
        if isinstance(self.law, UnknownPerturbation):
            return pm.logp(PerturbedByRows.dist(self.answers(x), rows, self.law), pt.cast(numbers, "int64"))
        parameters = {
            name: np.broadcast_to(value, self.query.shape).reshape(-1)[self.sets]
            if isinstance(value, np.ndarray)
            else value
            for name, value in self.law.model_parameters().items()
        }
        variable = distribution_of(type(self.law)).dist(mu=self.answers(x), **parameters)
        return pm.logp(variable, pt.cast(numbers, variable.dtype) if self.law.integer else numbers)


class SameRecordsRV(UnmergedRV):
    """Random variable of `SameRecords`: one of `parts` for each input after the counts; then the rows of unknown laws, in their order.

    The first `known` of the parts are those that another such variable of the model is about already. Every measurement has a
    likelihood of its own, as if all answers had a perturbation of their own; but a class c of m answers about the same records
    (`bayesdp.noise.base.shared_laws`) has one factor p(y | x), and equal numbers. So it is ``-sum_c (m_c - 1) log p(y_c | x_c)``,
    and minus infinity where two numbers of a class differ; its value is the number of classes whose numbers differ, which is 0. The
    class of an answer is told by the sum of random numbers of 64 bits, one for each of its cells that are not empty: two sums of
    different cells are equal with probability 2**-64.
    """

    def __init__(self, parts: Sequence[SharedPart], known: int, **kwargs: Any) -> None:
        self.parts = tuple(parts)
        self.known = known
        self._ndim_supp = 0
        super().__init__(**kwargs)

    @classmethod
    def make(cls, x: Any, *others: Any, parts: Sequence[SharedPart], known: int) -> Any:
        """Apply to a table, the published numbers of each part, and the rows of unknown laws."""
        inner = [variable.type() for variable in (x, *others)]
        found = _differing(*_classes(parts, inner[0], inner[1 : len(parts) + 1]))
        return cls(parts, known, inputs=inner, outputs=[found])(x, *others)

    def repeated(self, rows: Any, law: UnknownPerturbation, x: Any, *others: Any) -> list[Any]:
        """Where answers that repeat one before them stand in the flat rows of a law: of all parts, and of the known ones."""
        tables = _tables(self.parts, others[len(self.parts) :])
        several = []
        for count in (len(self.parts), self.known):
            parts = self.parts[:count]
            if not parts:
                several.append(pt.zeros(0, dtype="int64"))
                continue
            _, again, order = _classes(parts, x, others[:count])
            numbers = pt.concatenate([part.numbers(data) for part, data in zip(parts, others, strict=False)])
            mu = pt.concatenate([part.answers(x) for part in parts])
            of_law = [np.full(part.sets.sum(), table is rows) for part, table in zip(parts, tables, strict=False)]
            found = pt.switch(np.concatenate(of_law), law.transitions.places(numbers, mu, pt), -1)
            several.append(found[order][1:][again])
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
    # Laws are told apart by a factor that is odd: a sum is 0 for empty answers only.
    classes = [pt.cast(part.answers(held), "int64") * pt.constant(2 * part.shared[part.sets] + 1) for part in parts]
    code = pt.concatenate(classes)
    order = pt.argsort(code)
    code = code[order]
    numbers = pt.concatenate([part.numbers(data) for part, data in zip(parts, published, strict=True)])
    return numbers[order], pt.eq(code[1:], code[:-1]) & pt.neq(code[1:], 0), order


def _differing(numbers: Any, again: Any, order: Any) -> Any:
    """How many numbers are not that of the one before them in their class."""
    return pt.sum(again & pt.neq(numbers[1:], numbers[:-1]))


def _tables(parts: Sequence[SharedPart], rows: Sequence[Any]) -> list[Any]:
    """The rows of each part whose law is unknown, None for the others."""
    unknown = iter(rows)
    return [next(unknown) if isinstance(part.law, UnknownPerturbation) else None for part in parts]


def _surplus(parts: Sequence[SharedPart], x: Any, published: Any, rows: Any, again: Any, order: Any) -> Any:
    """What the likelihoods of the parts count too often."""
    masses = [part.log_masses(x, *one) for part, *one in zip(parts, published, _tables(parts, rows), strict=True)]
    return pt.sum(pt.switch(again, pt.maximum(pt.concatenate(masses)[order][1:], OFF_FIBER), 0.0))


@_logprob.register(SameRecordsRV)
def _same_records_logp(op: SameRecordsRV, values: Any, x: Any, *others: Any, **_: Any) -> Any:
    published, rows = others[: len(op.parts)], others[len(op.parts) :]
    found = _classes(op.parts, x, published)
    surplus = _surplus(op.parts, x, published, rows, *found[1:])
    if op.known:
        before = op.parts[: op.known], x, published[: op.known]
        surplus = surplus - _surplus(*before, rows, *_classes(*before)[1:])
    return pt.switch(pt.eq(_differing(*found), values[0]), -surplus, off_support(x))
