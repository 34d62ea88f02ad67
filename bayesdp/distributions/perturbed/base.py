"""PyMC distributions of laws of perturbed counts, made from the laws of `bayesdp.noise`: probabilities are looked up in a table.

Cell keys, rounding and transition tables as PyMC distributions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorConstant

from bayesdp import noise
from bayesdp.distributions._python_draws import applied, drawn_in_python
from bayesdp.distributions.exact_answers import OFF_FIBER
from bayesdp.distributions.independent.of_counts import are_free
from bayesdp.distributions.parameters import is_discrete
from bayesdp.distributions.registry import distribution_doc, register_distribution
from bayesdp.noise.perturbed.base import PerturbedLaw, Transitions

__all__ = ["PerturbedRV", "counts_of", "perturbed_distribution", "perturbed_op"]


class PerturbedRV(RandomVariable):
    """Random variable of a law of perturbed counts, which is among its props; inputs are the counts and the table's probabilities.

    Where `of_counts`, what cannot be has a large negative log-mass while counts are sampled, as for exact answers: a sampler of other
    variables may run before the step method of the counts has moved them to where the published answers are possible.
    """

    law_type = PerturbedLaw
    name, signature, dtype = "perturbed", "(),(r,d)->()", "int64"
    __props__: tuple[str, ...] = (*RandomVariable.__props__, "law", "of_counts")  # type: ignore[assignment]

    def __init__(self, law: Any, of_counts: bool = False, **props: Any) -> None:
        self.law, self.of_counts, own = law, of_counts, type(law).__name__
        self._print_name = (own, rf"\operatorname{{{own}}}")
        super().__init__(**props)

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


@classmethod  # type: ignore[misc]  # of the distributions
def perturbed_op(cls: Any, *inputs: Any, law: PerturbedLaw, size: Any = None, rng: Any = None, **props: Any) -> Any:
    """Apply the random variable of a law."""
    return applied(cls.rv_type(law, **props), *inputs, size=size, rng=rng)


@numba_core_rv_funcify.register(PerturbedRV)
def _core(op: PerturbedRV, node: Any) -> tuple[Any, None]:
    return drawn_in_python(op, op.ndim_supp)


@pm.logprob.abstract._logprob.register(PerturbedRV)
def _logp(op: PerturbedRV, values: Any, rng: Any, size: Any, mu: Any, rows: Any, **_: Any) -> Any:
    mass = looked_up(op.law.transitions, values[0], mu, op.log_mass(rows))
    return pt.maximum(mass, OFF_FIBER) if op.of_counts and are_free(mu) else mass


@pm.distributions.distribution._support_point.register(PerturbedRV)
def _support_point(op: PerturbedRV, rv: Any, rng: Any, size: Any, mu: Any, rows: Any) -> Any:
    """A published value that is possible for each count: its likeliest one."""
    table = op.law.transitions
    likeliest, row = table.lowest + pt.argmax(rows, axis=-1).flatten(), _row_of(table, pt.maximum(mu, 0))
    return pt.zeros_like(rv) + pt.maximum(mu, 0) + likeliest[row.flatten()].reshape(row.shape)


def _row_of(table: Transitions, count: Any) -> Any:
    """`Transitions.row_of` in PyTensor."""
    period = max(table.period, 1)
    first = len(table.mass) - period
    return pt.switch(pt.lt(count, len(table.mass)), count, first + pt.mod(count - first, period))


def places(table: Transitions, value: Any, mu: Any) -> Any:
    """Where published values of counts stand in the flat table of probabilities, as a tensor; -1 where that has none for them."""
    value, mu = pt.broadcast_arrays(pt.as_tensor_variable(value), mu)
    width = table.mass.shape[1]
    column = value - mu - table.lowest
    inside = pt.ge(mu, 0) & pt.ge(column, 0) & pt.lt(column, width)
    if not is_discrete(value):
        inside = inside & pt.eq(value, pt.floor(value))
    if np.isfinite(table.largest_count):
        inside = inside & pt.le(mu, int(table.largest_count))
    row = _row_of(table, pt.switch(inside, mu, 0))
    return pt.switch(inside, row * width + pt.cast(pt.switch(inside, column, 0), "int64"), -1)


def looked_up(table: Transitions, value: Any, mu: Any, log_mass: Any) -> Any:
    """The log-mass of published values given counts, as a tensor; `Transitions.log_each` in PyTensor, by other log-masses."""
    place = places(table, value, mu)
    found = log_mass.flatten()[pt.maximum(place, 0).flatten()].reshape(place.shape)
    return pt.switch(pt.ge(place, 0), found, -np.inf)


def perturbed_distribution(law: type[PerturbedLaw]) -> Callable[[type], Any]:
    """Make the PyMC distribution of a law of perturbed counts.

    Parameters
    ----------
    law : type of PerturbedLaw
        Its parameters are those of the distribution after ``mu``: known numbers and words, not random variables.

    Returns
    -------
    decorator
        Of a class that holds the docstring, which that of the law completes. The class that it returns has the name, the module and
        the base of that one; `distribution_of` finds it.

    Examples
    --------
    >>> from bayesdp import distributions, noise
    >>> @perturbed_distribution(noise.RandomRounding)
    ... class Rounded(pm.Discrete):
    ...     "Random rounding under another name."
    >>> print(f"{pm.logp(Rounded.dist(mu=4, base=3), 6).eval():.6f}")  # log(1 / 3)
    -1.098612
    >>> register_distribution(noise.RandomRounding, distributions.RandomRounding)
    """
    return lambda own: _made(law, own)


def _made(law: type[PerturbedLaw], own: type) -> Any:
    if not issubclass(own, pm.Discrete):
        raise TypeError(f"{own.__name__} must be a subclass of pymc.Discrete, as the law {law.name!r} is")
    plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
    entries = [
        inspect.Parameter(name, plain, default=inspect.Parameter.empty if default is MISSING else default)
        for name, default in law.stated_parameters().items()
    ]
    signature = inspect.Signature([inspect.Parameter("mu", plain), *entries])

    def dist(cls: Any, *args: Any, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        given = {name: kwargs.pop(name) for name in signature.parameters if name in kwargs}
        stated = signature.bind(*args, **given)
        mu = stated.arguments.pop("mu")
        own = law(**stated.arguments)
        return super(made, cls).dist([counts_of(mu, law.name), pt.constant(own.transitions.mass)], law=own, **kwargs)

    # For `help`, which leaves out the first parameter of a bound method.
    dist.__signature__ = inspect.Signature([inspect.Parameter("cls", plain), *signature.parameters.values()])  # type: ignore[attr-defined]
    replaced = {key: value for key, value in vars(own).items() if key not in _OF_THE_FIRST}
    body = {"rv_type": PerturbedRV, "rv_op": perturbed_op, "dist": classmethod(dist), "law_type": law, **replaced}
    body["__doc__"] = _doc(law, own, list(signature.parameters))
    made: Any = type(own)(own.__name__, own.__bases__, body)
    register_distribution(law, made)
    return made


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
        "given for counts only (ConfidentialCounts has whole numbers; ContinuousCounts has not)"
    )


def _doc(law: type[PerturbedLaw], own: type, parameters: list[str]) -> str:
    example = _COUNT.replace("{name}", own.__name__)
    return distribution_doc(law, own.__doc__, own.__name__, parameters, given={"mu": _LOCATION}, example=example)


_OF_THE_FIRST = ("__dict__", "__weakref__", "_abc_impl", "rv_op", "rv_type")
_LOCATION = "mu : tensor_like of int\n    The true counts."
_COUNT = """>>> import pymc as pm
>>> with pm.Model():
...     count = pm.Poisson("count", 9.0)
...     published = {name}("published", mu=count, base=3, observed=12)"""


@perturbed_distribution(noise.CellKey)
class CellKey(pm.Discrete):
    """Counts mu perturbed by cell keys, by a perturbation table that is given or that of maximum entropy.

    Parameters
    ----------
    ptable : TransitionTable, optional
        The office's own table, as from `bayesdp.noise.read_ptable`; the other parameters must then be left out.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     count = pm.Poisson("count", 9.0)
    ...     published = CellKey("published", mu=count, max_deviation=4, variance=2.0, observed=12)
    """


@perturbed_distribution(noise.RandomRounding)
class RandomRounding(pm.Discrete):
    """Counts mu rounded at random to a multiple of a base.

    Parameters
    ----------
    base : int
        At least 2, and at most 1000.
    """


@perturbed_distribution(noise.ConventionalRounding)
class ConventionalRounding(pm.Discrete):
    """Counts mu rounded to the nearest multiple of a base.

    Parameters
    ----------
    base : int
        At least 2, and at most 1000.
    """


@perturbed_distribution(noise.TransitionTable)
class TransitionTable(pm.Discrete):
    """Counts published for counts mu, with probabilities of the deviations that are given.

    Parameters
    ----------
    deviations : sequence of int
        Increasing.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     count = pm.Poisson("count", 9.0)
    ...     published = TransitionTable("published", count, [-1, 0, 1], [[0, 1, 0], [0.2, 0.6, 0.2]], observed=12)
    """
