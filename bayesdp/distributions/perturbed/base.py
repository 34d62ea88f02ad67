"""PyMC distributions of laws of perturbed counts, made from the laws of `bayesdp.noise`: probabilities are looked up in a table."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorConstant

from bayesdp.distributions._python_draws import applied, drawn_in_python
from bayesdp.distributions.docstrings import distribution_doc
from bayesdp.distributions.parameters import is_discrete
from bayesdp.distributions.registry import register_distribution
from bayesdp.noise.base import Ints
from bayesdp.noise.perturbed.base import PerturbedLaw
from bayesdp.noise.perturbed.transitions import Transitions

__all__ = ["PerturbedRV", "looked_up", "perturbed_distribution"]


class PerturbedRV(RandomVariable):
    """Random variable of a law of perturbed counts; the law, which is known, is among its props."""

    law_type: ClassVar[type[PerturbedLaw]]
    signature = "()->()"
    dtype = "int64"
    __props__: tuple[str, ...] = (*RandomVariable.__props__, "law")  # type: ignore[assignment]

    def __init__(self, law: PerturbedLaw, **props: Any) -> None:
        self.law = law
        super().__init__(**props)

    def rng_fn(self, rng: np.random.Generator, mu: Any, size: Sequence[int] | None = None) -> Ints:
        """Draw an array of independent counts."""
        counts = np.asarray(mu)
        shape = counts.shape if size is None else tuple(size)
        return self.law.draw(rng, shape, location=counts)


@numba_core_rv_funcify.register(PerturbedRV)
def _core(op: PerturbedRV, node: Any) -> tuple[Any, None]:
    return drawn_in_python(op, 0)


def looked_up(table: Transitions, value: Any, mu: Any, log_mass: Any = None) -> Any:
    """The log-mass of published values given counts, as a tensor (`Transitions.log_each`); `log_mass` in the place of the table's."""
    value, mu = pt.broadcast_arrays(pt.as_tensor_variable(value), mu)
    rows, width = table.mass.shape
    column = value - mu - table.lowest
    inside = pt.ge(mu, 0) & pt.ge(column, 0) & pt.lt(column, width)
    if not is_discrete(value):
        inside = inside & pt.eq(value, pt.floor(value))
    if np.isfinite(table.largest_count):
        inside = inside & pt.le(mu, int(table.largest_count))
    count = pt.switch(inside, mu, 0)
    first = rows - max(table.period, 1)
    row = pt.switch(pt.lt(count, rows), count, first + pt.mod(count - first, max(table.period, 1)))
    place = row * width + pt.cast(pt.switch(inside, column, 0), "int64")
    flat = pt.constant(table.log_mass.reshape(-1)) if log_mass is None else log_mass.flatten()
    return pt.switch(inside, flat[place.flatten()].reshape(place.shape), -np.inf)


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
    kind: Any = type(PerturbedRV)
    rv_type = kind(
        f"{own.__name__}RV",
        (PerturbedRV,),
        {
            "__doc__": f"Random variable of `{own.__name__}`.",
            "__module__": own.__module__,
            "__qualname__": f"{own.__qualname__}.rv_type",  # an attribute of the distribution, so that pickle finds it
            "name": law.name.replace("-", "_"),
            "law_type": law,
            "_print_name": (own.__name__, rf"\operatorname{{{own.__name__}}}"),
        },
    )
    plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
    entries = [
        inspect.Parameter(name, plain, default=inspect.Parameter.empty if default is MISSING else default)
        for name, default in law.stated_parameters().items()
    ]
    signature = inspect.Signature([inspect.Parameter("mu", plain), *entries])

    def rv_op(cls: Any, mu: Any, *, law: PerturbedLaw, size: Any = None, rng: Any = None) -> Any:
        """Apply the random variable of this law."""
        return applied(rv_type(law), mu, size=size, rng=rng)

    def dist(cls: Any, *args: Any, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        given = {name: kwargs.pop(name) for name in signature.parameters if name in kwargs}
        stated = signature.bind(*args, **given)
        mu = stated.arguments.pop("mu")
        return super(made, cls).dist([_counts(mu, law)], law=law(**stated.arguments), **kwargs)

    def logp(op: Any, values: Any, rng: Any, size: Any, mu: Any, **_: Any) -> Any:
        return looked_up(op.law.transitions, values[0], mu)

    def support_point(op: Any, rv: Any, rng: Any, size: Any, mu: Any) -> Any:
        """A published value that is possible for each count: its likeliest one."""
        table = op.law.transitions
        likeliest = pt.constant(table.lowest + table.mass.argmax(axis=1))
        first, period = len(table.mass) - max(table.period, 1), max(table.period, 1)
        count = pt.maximum(mu, 0)
        row = pt.switch(pt.lt(count, len(table.mass)), count, first + pt.mod(count - first, period))
        return pt.zeros_like(rv) + count + likeliest[row.flatten()].reshape(row.shape)

    # For `help`, which leaves out the first parameter of a bound method.
    dist.__signature__ = inspect.Signature([inspect.Parameter("cls", plain), *signature.parameters.values()])  # type: ignore[attr-defined]
    replaced = {key: value for key, value in vars(own).items() if key not in _OF_THE_FIRST}
    body = {"rv_type": rv_type, "rv_op": classmethod(rv_op), "dist": classmethod(dist), "law_type": law, **replaced}
    body["__doc__"] = _doc(law, own, list(signature.parameters))
    made: Any = type(own)(own.__name__, own.__bases__, body)
    pm.logprob.abstract._logprob.register(rv_type)(logp)
    pm.distributions.distribution._support_point.register(rv_type)(support_point)
    register_distribution(law, made)
    return made


def _counts(given: Any, law: type[PerturbedLaw]) -> Any:
    """Accept a location of whole numbers; a constant that is written as real numbers must be whole."""
    variable = pt.as_tensor_variable(given)
    if is_discrete(variable):
        return pt.cast(variable, "int64")
    if isinstance(variable, TensorConstant):
        numbers = np.asarray(variable.data)
        if np.all(numbers == np.rint(numbers)):
            return pt.constant(numbers.astype(np.int64))
    raise TypeError(
        f"mu must hold counts, whole numbers, under the law {law.name!r}, got a variable of {variable.dtype}: its probabilities are "
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
