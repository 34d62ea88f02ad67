"""Observed noise laws about counts in the form in which the kernel knows them.

Of most laws the kernel knows a formula (`NoiseLaw.kernel_form`). What it takes of others:

- Tabulated log-masses (`NoiseLaw.windows`). True answers beyond a window that ends are limits of the fiber. Gaps inside of a window
  are not; moves are then sums of basic ones, too, so that they can be crossed.
- Tulap noise. About a whole number x the density of a published y is ``b**[y - x]`` up to a constant, with ``[z]`` the integer
  nearest to ``|z|``: that is ``exp(-epsilon |r - x|)`` for the integer r nearest to y (and for y itself half-way between two),
  the kernel's l1 law. What delta > 0 cuts off leaves an interval of whole numbers for each answer: limits of the fiber.
- Noise within bounds. For answers x that the exact parts keep within the bounds, ``-rate |y - x|`` is all of the log-likelihood of
  clipped Laplace noise: at a bound it is a tail, ``exp(-rate (c1 - x))`` up to a constant. The normaliser of a truncated law depends
  on x, as do the tails of clipped Gaussian noise: what the kernel proposes is accepted on the ratio of this rest, which varies slowly.
  Answers that may be beyond a bound are left to the rest where the kernel would be a poor proposal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial, singledispatch
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor.tensor as pt
import scipy.sparse as sp
from pytensor.compile import SharedVariable, ViewOp
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Cast
from pytensor.tensor.shape import SpecifyShape

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp.distributions.confidential_counts import AnswersOp
from bayesdp.distributions.independent import BoundedRV, CanonicalOfCountsRV, TulapRV
from bayesdp.distributions.perturbed import PerturbedRV
from bayesdp.distributions.registry import is_discrete
from bayesdp.distributions.tables import ProjectedLaplaceGivenRowsRV, TableNoiseRV
from bayesdp.fibers import Fiber, NoiseTerm
from bayesdp.fibers.determined import range_of_sums
from bayesdp.fibers.kernel.state import UNBOUNDED
from bayesdp.fibers.system import propagated_bounds
from bayesdp.fibers.windows import spread_of_windows
from bayesdp.frames import Frame
from bayesdp.noise import NoiseLaw
from bayesdp.privacy.canonical import CanonicalNoise, Tulap
from bayesdp.queries import Identity, LinearQuery, Query
from bayesdp.steps.base import RemainingDensity, is_random

type Reach = tuple[Query, Ints, Ints]
"""Sums of the table, and the smallest and largest of each that bounded noise leaves possible."""

_REAL_ENTRIES = 4_000_000
"""Coordinates times cells of a law that is a product in coordinates; larger ones go through the compiled log-density."""


@dataclass(frozen=True, eq=False)
class KernelTerm:
    """The part of one observed variable that the kernel computes."""

    term: NoiseTerm  # its scale is a placeholder
    scale: Any  # or log-masses that change
    answers: Any = None  # the noisy answers, where a part of the noise is a variable of the model
    rest: RemainingDensity | None = None  # the log-likelihood minus what the kernel computes
    reach: Reach | None = None  # the answers that bounded noise allows
    # Why moves that connect the tables within reach need not connect those that the noise allows; empty if they do.
    doubt: str = ""


@dataclass(frozen=True, eq=False)
class Published:
    """What an observed variable says of a query: which of its answers were published, and their values."""

    query: Query
    keep: Mask  # shape (rows,)
    values: Floats  # shape (published,)
    shape: tuple[int, ...]  # of the variable

    @property
    def padded(self) -> Floats:
        """The values, with 0 for answers that were not published."""
        found = np.zeros(self.query.rows)
        found[self.keep] = self.values
        return found

    def reach(self, name: str, which: Ints | Mask, why: Iterable[str], lower: Ints, upper: Ints) -> Reach:
        """Limits of some of the answers; `why` says in words what each published number leaves possible."""
        rows = np.flatnonzero(self.keep)[which]
        names = [
            f"{name} {self.query.answer_name(int(row))}, published {y:g}{said}"
            for row, y, said in zip(rows, self.values[which], why, strict=True)
        ]
        return LinearQuery(self.query.frame, sp.csr_array(self.query.matrix[rows]), names), lower, upper


def source(variable: Any) -> Any:
    """Look through casts, views and shape assertions."""
    while variable.owner is not None:
        op = variable.owner.op
        if not isinstance(op, ViewOp | SpecifyShape) and not isinstance(getattr(op, "scalar_op", None), Cast):
            break
        variable = variable.owner.inputs[0]
    return variable


def value_of(variable: Any) -> npt.NDArray[Any]:
    """The number behind data: constants, shared variables, and anything computed from them."""
    inner = source(variable)
    if isinstance(inner, Constant):
        return np.asarray(inner.data)
    return np.asarray(inner.get_value() if isinstance(inner, SharedVariable) else variable.eval())


def published(model: pm.Model, rv: Any, x: Any, frame: Frame) -> Published | None:
    """What an observed law of noise says of a query of the counts x; None if it is not about one."""
    mu, *parameters = rv.owner.inputs[2:]
    location = source(mu)
    if location is x:
        query: Query = Identity(frame)
        keep = np.ones(frame.size, dtype=np.bool_)
    elif (
        location.owner is not None
        and isinstance(location.owner.op, AnswersOp)
        and source(location.owner.inputs[0]) is x
    ):
        op = location.owner.op
        query = op.query
        keep = np.ones(query.rows, dtype=np.bool_) if op.keep is None else np.asarray(op.keep, dtype=np.bool_)
    else:
        return None
    if x in ancestors(parameters):
        return None
    values = value_of(model.rvs_to_values[rv]).astype(np.float64)
    # Numbers of another size are broadcast against the counts, which is not a query with one number for each answer.
    return Published(query, keep, values.reshape(-1), values.shape) if values.size == keep.sum() else None


def _spread(scale: Any, rv: Any, keep: Mask) -> Any:
    """A scale for each answer of a query, 1 for those that were not published; a single one stays as it is."""
    if not scale.ndim:
        return pt.cast(scale, "float64")
    scales = pt.broadcast_to(scale, rv.shape).flatten()
    return pt.cast(pt.set_subtensor(pt.ones(keep.size)[np.flatnonzero(keep)], scales), "float64")


def _rate(rv: Any, form: Any) -> Any:
    """The scale of a law that has a form, as the kernel takes it."""
    scale = rv.owner.inputs[3]
    return pt.reciprocal(scale) if form.of_scale else scale


@singledispatch
def kernel_term(op: Any, model: pm.Model, rv: Any, x: Any, fiber: Fiber) -> KernelTerm | None:
    """Read an observed variable: in the form that its law says (`NoiseLaw.kernel_form`), or as registered for its Op."""
    # `op`: `law_type` is its law, `unit` that at scale 1 where it is one of tables. `fiber`: from the exact answers. None if the
    # kernel does not know its law, or its query: the variable is then part of the compiled log-density.
    law = _law_with_windows(model, rv)
    form = getattr(getattr(op, "law_type", None), "kernel_form", None)
    about = published(model, rv, x, fiber.frame) if law is not None or form is not None else None
    if about is None:
        return None
    if law is not None and (tabulated := _window_term(rv, law, about)) is not None:
        return tabulated
    if form is not None and isinstance(op, TableNoiseRV):
        form = op.unit.kernel_of(op.invariants)
    if form is None:
        return None
    query, keep = about.query, about.keep
    if form.coordinates is None:
        return KernelTerm(
            NoiseTerm(query, about.padded, form.kind, np.ones(()), keep), _spread(_rate(rv, form), rv, keep)
        )
    # A product in coordinates of the answers: as many real combinations of the cells.
    if not keep.all() or op.invariants.dimension * max(fiber.frame.size, query.rows) > _REAL_ENTRIES:
        return None
    combinations = form.coordinates()
    rows = np.asarray((query.matrix.T @ combinations.T).T, dtype=np.float64)
    measured = np.ones(len(rows), dtype=np.bool_)
    term = NoiseTerm(query, combinations @ about.values, form.kind, np.ones(()), measured, rows)
    return KernelTerm(term, pt.cast(_rate(rv, form), "float64"))


@kernel_term.register
def _given_rows(op: ProjectedLaplaceGivenRowsRV, model: pm.Model, rv: Any, x: Any, fiber: Fiber) -> KernelTerm | None:
    """Projected Laplace noise, its part in the row space a variable: Laplace noise about answers that move."""
    about = published(model, rv, x, fiber.frame)
    if about is None or not about.keep.all():
        return None
    row_noise, b = rv.owner.inputs[3:5]
    located = pt.as_tensor_variable(about.values) + op.spread(row_noise).flatten()
    term = NoiseTerm(about.query, about.values, "l1", np.ones(()), about.keep)
    return KernelTerm(term, pt.cast(pt.reciprocal(b), "float64"), answers=pt.cast(located, "float64"))


def _law_with_windows(model: pm.Model, rv: Any) -> NoiseLaw | None:
    """The law of an observed variable, if it tabulates its log-mass; None if not, or if a parameter is not a number."""
    op = rv.owner.op
    law: Any = getattr(op, "law", None)
    law_type: Any = type(law) if isinstance(law, NoiseLaw) else getattr(op, "law_type", None)
    if getattr(law_type, "windows", NoiseLaw.windows) is NoiseLaw.windows:
        return None
    if isinstance(law, NoiseLaw):
        return law
    parameters = rv.owner.inputs[3:]
    if is_random(model, parameters):
        return None
    numbers = [value_of(parameter) for parameter in parameters]
    made: NoiseLaw = (
        op.law_of(numbers)  # a law within another one
        if hasattr(op, "law_of")
        else law_type(**dict(zip(law_type.kernel_parameters, numbers, strict=True)))
    )
    return made


def _window_term(rv: Any, law: NoiseLaw, about: Published) -> KernelTerm | None:
    """The term of a variable whose law tabulates its log-mass; None for answers that are no whole numbers of the table."""
    query, keep = about.query, about.keep
    if np.any(query.matrix.data != np.rint(query.matrix.data)):
        return None
    values = (np.rint(about.values).astype(np.int64) if law.integer else about.values).reshape(about.shape)
    windows = law.windows(values)
    if windows is None:
        return None
    scale = np.ones(query.rows)
    scale[keep] = spread_of_windows(windows)
    by_law = partial(_log_likelihood, law, values)
    parameter, op = pt.constant(scale), rv.owner.op
    changing = isinstance(op, PerturbedRV) and not isinstance(op.table(rv), Constant)
    if changing:
        parameter = op.log_mass(op.table(rv)).flatten()[op.law.transitions.window_places(values)]
    term = NoiseTerm(query, about.padded, "windows", scale, keep, windows=windows, changing=changing, by_law=by_law)
    lower = np.where(np.isneginf(windows.below), windows.low, -UNBOUNDED)
    upper = np.where(np.isneginf(windows.above), windows.low + windows.length - 1, UNBOUNDED)
    ending = (lower > -UNBOUNDED) | (upper < UNBOUNDED)
    reach: Reach | None = None
    if ending.any():
        lower, upper = lower[ending], upper[ending]
        why = [f", which {_said(low, high)} can lead to" for low, high in zip(lower, upper, strict=True)]
        reach = about.reach(rv.name, ending, why, lower, upper)
    gaps = f"the law of {rv.name} leaves gaps between the true answers that a published one can come from"
    return KernelTerm(term, parameter, reach=reach, doubt=gaps if np.isneginf(windows.log_mass).any() else "")


def _log_likelihood(law: NoiseLaw, values: npt.NDArray[Any], answers: npt.NDArray[Any]) -> float:
    return law.logp(values, answers.reshape(values.shape))


def _said(low: int, high: int) -> str:
    """Which true answers, in words."""
    if low == high:
        return f"only {low}"
    if low <= -UNBOUNDED:
        return f"only numbers up to {high}"
    return f"only {low} or more" if high >= UNBOUNDED else f"only {low} to {high}"


@kernel_term.register
def _tulap(op: TulapRV, model: pm.Model, rv: Any, x: Any, fiber: Fiber) -> KernelTerm | None:
    """Tulap noise: a Laplace term, and limits where its support is bounded, unless that is not known before sampling."""
    about = published(model, rv, x, fiber.frame)
    epsilon, delta = rv.owner.inputs[3:5]
    if about is None or is_random(model, [delta]):
        return None
    cut = np.broadcast_to(value_of(delta), about.shape).reshape(-1)
    reach: Reach | None = None
    if cut.any():
        if is_random(model, [epsilon]):
            return None
        rates = np.broadcast_to(value_of(epsilon), about.shape).reshape(-1)
        pairs = set(zip(rates[cut > 0.0].tolist(), cut[cut > 0.0].tolist(), strict=True))
        reach = _ends_of(rv, about, [(Tulap(*pair), (rates == pair[0]) & (cut == pair[1])) for pair in pairs])
    values = about.padded
    whole = np.rint(values)
    values = np.where(np.abs(values - whole) == 0.5, values, whole)
    term = NoiseTerm(about.query, values, "l1", np.ones(()), about.keep)
    return KernelTerm(term, _spread(epsilon, rv, about.keep), reach=reach)


def reach_of_unknown(model: pm.Model, rv: Any, x: Any, frame: Frame) -> Reach | None:
    """The true answers that bounded noise leaves possible, for a variable that the kernel leaves to the compiled log-density."""
    op: Any = getattr(rv.owner, "op", None)
    about = published(model, rv, x, frame) if isinstance(op, CanonicalOfCountsRV) else None
    return None if about is None else _ends_of(rv, about, [(op.noise, np.ones(about.values.size, dtype=np.bool_))])


def _ends_of(rv: Any, about: Published, laws: Sequence[tuple[CanonicalNoise, Mask]]) -> Reach:
    """The smallest and largest whole numbers about which bounded laws, each of some answers, give these a positive density."""
    lower, upper = np.zeros(about.values.size), np.zeros(about.values.size)
    why = [""] * about.values.size
    for law, which in laws:
        observed, end = about.values[which], law.support()[1]
        low, high = np.ceil(observed - end), np.floor(observed + end)
        # The end may be rounded: the density itself decides.
        lower[which] = low + np.isneginf(law.logpdf(observed - low))
        upper[which] = high - np.isneginf(law.logpdf(observed - high))
        for i in np.flatnonzero(which):
            why[i] = f" with noise of at most {end:g}"
    of = np.flatnonzero(np.any([which for _, which in laws], axis=0))
    return about.reach(rv.name, of, [why[i] for i in of], lower[of].astype(np.int64), upper[of].astype(np.int64))


@kernel_term.register
def _within_bounds(op: BoundedRV, model: pm.Model, rv: Any, x: Any, fiber: Fiber) -> KernelTerm | None:
    """Truncated and clipped noise; None if the kernel has nothing of it."""
    about, bounds = published(model, rv, x, fiber.frame), rv.owner.inputs[4:]
    form, clipped = op.law_type.kernel_form, op.law_type.has_atoms
    if about is None or form is None or is_random(model, bounds):
        return None
    query, keep, observed, laplace = about.query, about.keep, about.values, form.kind == "l1"
    lower, upper = (np.broadcast_to(value_of(side), about.shape).reshape(-1) for side in bounds)
    inside = _stay_within(fiber, query, keep, lower, upper)
    usable = inside | ((observed > lower) & (observed < upper)) if clipped else inside
    if not usable.any():
        return None
    measured = np.zeros(query.rows, dtype=np.bool_)
    measured[keep] = usable
    mu, scale = rv.owner.inputs[2:4]
    term = NoiseTerm(query, about.padded, form.kind, np.ones(()), measured)
    kernel_scale = _spread(_rate(rv, form), rv, keep)
    whole = is_discrete(mu) and np.all(observed == np.rint(observed))
    if clipped and laplace and usable.all() and (whole or op.dtype == "float64"):
        return KernelTerm(term, kernel_scale)
    # Everything that differs between releases is data or an input, so that one compiled function serves them all.
    data = pt.cast(model.rvs_to_values[rv], "float64").flatten()
    mask = pt.vector(f"{rv.name} in the kernel", dtype="bool")
    distance = data - pt.cast(mu, "float64").flatten()
    width = pt.broadcast_to(scale, rv.shape).flatten()
    known = -pt.abs(distance) / width if laplace else -0.5 * (distance / width) ** 2
    [kernel] = model.replace_rvs_by_values([pt.sum(pt.switch(mask, known, 0.0))])
    return KernelTerm(term, kernel_scale, rest=(model.logp(vars=[rv], sum=True) - kernel, mask, usable))


def _stay_within(fiber: Fiber, query: Query, keep: Mask, lower: Floats, upper: Floats) -> Mask:
    """For each published answer, whether the exact parts keep it within its bounds in every table."""
    low, high = range_of_sums(query.matrix, *propagated_bounds(fiber.system))
    for sign, parts in ((0, fiber.equalities), (1, fiber.bounds_below), (-1, fiber.bounds_above)):
        for exact, values in parts:
            if exact == query:
                low = np.maximum(low, values.reshape(-1)) if sign >= 0 else low
                high = np.minimum(high, values.reshape(-1)) if sign <= 0 else high
    return np.asarray((low[keep] >= lower) & (high[keep] <= upper))
