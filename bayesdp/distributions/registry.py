"""How a noise law becomes a PyMC distribution: by which factory, with which docstring, parameters and random variable.

What a distribution and its law both say is written once, at the law: a docstring of a distribution may leave out the summary, the
description, parameters and references, and is completed by those.
"""

from __future__ import annotations

import re
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING
from functools import singledispatch
from inspect import Parameter, Signature
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType, disconnected_type, grad_not_implemented
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import (
    generate_fallback_impl,
    get_numba_type,
    numba_njit,
    register_funcify_default_op_cache_key,
)
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.variable import shared_rng
from pytensor.tensor.type import TensorType, discrete_dtypes
from pytensor.tensor.variable import TensorConstant

from bayesdp._docs import entries_of, joined, sections_of
from bayesdp._numba import code_version
from bayesdp._numba import nb as numba
from bayesdp._validate import instance
from bayesdp._wiring import named
from bayesdp.invariants import Invariants
from bayesdp.noise.base import NoiseLaw

_DISTRIBUTIONS: dict[type[NoiseLaw], Any] = {}
_FACTORIES: dict[type[NoiseLaw], Callable[..., Any]] = {}

LAWS = "bayesdp.distributions"
"""The module of distributions that are made from their laws; pickles find those of laws from elsewhere there too."""


def register_distribution(law_type: type[NoiseLaw], distribution: Any) -> None:
    """Make a PyMC distribution that of a noise law, in place of the one that is made from the law.

    Parameters
    ----------
    law_type : type
        A `NoiseLaw`; a later distribution takes the place of an earlier one.
    distribution : type
        A PyMC distribution; called with a name, ``mu``, the parameters of the law by their names
        (`NoiseLaw.model_parameters`), for noise that is not independent ``invariants``, and ``observed`` and ``dims``.
        Where the Op of its random variable has ``law_type`` too, the posterior kernel asks the law for its form.
    """
    _DISTRIBUTIONS[law_type] = distribution


def makes[F: Callable[..., Any]](family: Any) -> Callable[[F], F]:
    """Say that a function makes the distributions of the laws of a family."""

    def said(factory: F) -> F:
        _FACTORIES[family] = factory
        return factory

    return said


def distribution_of(law_type: type[NoiseLaw]) -> Any:
    """The PyMC distribution of a noise law, a subclass of `pymc.Distribution`; made from the law if none is registered.

    Parameters
    ----------
    law_type : type
        A `bayesdp.noise.NoiseLaw`.

    Raises
    ------
    NotImplementedError
        If none is registered, and the law does not state what it takes to make one: `log_kernel` with its parameters and a
        sampler, or the transitions of perturbed counts.

    Examples
    --------
    >>> from bayesdp import distributions, noise
    >>> distribution_of(noise.DiscreteLaplace) is distributions.DiscreteLaplace
    True
    """
    if law_type not in _DISTRIBUTIONS:
        named("distribution", law_type.name, {})  # which registers those of papers
    if law_type not in _DISTRIBUTIONS:
        factory = next((_FACTORIES[base] for base in law_type.__mro__ if base in _FACTORIES), None)
        if factory is not None:
            factory(law_type)
    if law_type not in _DISTRIBUTIONS:
        raise NotImplementedError(
            f"no PyMC distribution is registered for the noise law {law_type.name!r}, so that a model cannot have it: "
            "bayesdp.distributions.register_distribution does that"
        )
    return _DISTRIBUTIONS[law_type]


def blank(law: type[NoiseLaw], base: Any, notes: str = "", example: str = "", **verbs: Any) -> Any:
    """A class with the name of a law, on which nothing is written but these sections: what `made` makes a distribution of."""
    inside = law.__module__.startswith("bayesdp.noise.")
    place = law.__name__ if inside else f"{law.__module__}:{law.__qualname__}".replace(".", "/")
    doc = joined({"Notes": notes, "Examples": example.replace("NAME", law.__name__)})
    return type(base)(law.__name__, (base,), {"__module__": LAWS, "__qualname__": place, "__doc__": doc, **verbs})


def kind_of(law: type[NoiseLaw]) -> Any:
    """PyMC's base of distributions of such values."""
    return pm.Discrete if law.integer else pm.Continuous


def rv_of(law: type[NoiseLaw], written: type, base: type, **body: Any) -> Any:
    """The type of the random variable of a distribution, which is an attribute of that, so that pickle finds it."""
    place = {"__module__": written.__module__, "__qualname__": f"{written.__qualname__}.rv_type"}
    said = {"__doc__": f"Random variable of `{written.__name__}`.", "_print_name": print_name(written.__name__)}
    values = {"name": law.name.replace("-", "_"), "law_type": law, "dtype": "int64" if law.integer else "float64"}
    return type(base)(f"{written.__name__}RV", (base,), {**place, **said, **values, **body})


def print_name(name: str) -> tuple[str, str]:
    """How PyMC shows a random variable, as text and in LaTeX."""
    return name, rf"\operatorname{{{name}}}"


def made(
    law: type[NoiseLaw],
    written: type,
    parameters: Mapping[str, Any],
    variables: Callable[..., tuple[list[Any], dict[str, Any]]],
    body: Mapping[str, Any],
    *,
    keywords: Sequence[str] | None = None,
    **doc: Any,
) -> Any:
    """Make the distribution of a law and register it: `written`, with its docstring completed and all that is in `body`."""
    # `parameters`: what `dist` takes after `mu`, with defaults. `variables`: from these to the inputs of the random variable,
    # checked, and what its Op holds. `body`: PyMC's methods, which those of `written` replace. `keywords`: parameters by name only;
    # then more arguments are shown too. `doc`: see `distribution_doc`.
    if not issubclass(written, kind_of(law)):
        raise TypeError(
            f"{written.__name__} must be a subclass of pymc.{kind_of(law).__name__}, as the law {law.name!r} is"
        )
    plain, by_name = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY
    shown = [Parameter("cls", plain), Parameter("mu", plain)]
    for name, default in parameters.items():
        needed = Parameter.empty if default is MISSING else default
        shown.append(Parameter(name, by_name if name in (keywords or ()) else plain, default=needed))
    signature = Signature(shown)

    def dist(cls: Any, *args: Any, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        given = {name: kwargs.pop(name) for name in signature.parameters if name in kwargs}
        stated = signature.bind(cls, *args, **given)
        stated.apply_defaults()
        del stated.arguments["cls"]
        inputs, held = variables(**stated.arguments)
        return super(found, cls).dist(inputs, **held, **kwargs)

    more = [] if keywords is None else [Parameter("kwargs", Parameter.VAR_KEYWORD)]
    dist.__signature__ = Signature([*shown, *more])  # type: ignore[attr-defined]  # what `help` shows
    # PyMC registers a class by its random variable when it is made, so it is made again with one.
    replaced = {key: value for key, value in vars(written).items() if key not in _OF_THE_FIRST}
    completed = distribution_doc(law, written.__doc__, written.__name__, ["mu", *parameters], **doc)
    kind: Any = type(written)
    body = {"dist": classmethod(dist), "law_type": law, **body, **replaced, "__doc__": completed}
    found = kind(written.__name__, written.__bases__, {**body, "__qualname__": written.__qualname__})
    register_distribution(law, found)
    return found


_OF_THE_FIRST = ("__dict__", "__weakref__", "_abc_impl", "rv_op", "rv_type")

_OF_THE_DISTRIBUTION = {
    "mu": "mu : tensor_like of float or int\n    Location: what the noise was added to.",
    "invariants": "invariants : Invariants\n    What the noise does not change.",
}
"""Parameters that a distribution has and its law has not."""


def distribution_doc(
    law: type[NoiseLaw],
    doc: str | None,
    name: str,
    parameters: Sequence[str],
    *,
    given: Mapping[str, str] | None = None,
    example: str = "",
    scale_shape: str = "",
    notes: str = "",
    raises: str = "",
) -> str:
    """Complete the docstring of a distribution."""
    # `doc` is what is written at the distribution. `parameters`: names of its parameters, in order; the first after `mu` is a
    # positive scale. `given`: entries of parameters that are neither written at the distribution nor to be those of the law.
    # `example` and `raises`: what stands in these sections if nothing is written there. `scale_shape`: added to the type of the scale.
    # `notes`: for that section, after what is written there. Sections are in the order of numpydoc. *Raises* and *Notes* of the law
    # are left out: they are about its constructor and its methods.
    said, of_law = sections_of(doc), sections_of(law.__doc__)
    summary, _, description = said[""].partition("\n\n")
    of_summary, _, of_description = of_law[""].partition("\n\n")
    of_description = re.sub(r"^Mean      0$", "Mean      mu", of_description, flags=re.MULTILINE)
    written, entries = entries_of(said.get("Parameters", "")), entries_of(of_law.get("Parameters", ""))
    scale = parameters[1] if len(parameters) > 1 else ""
    entries[scale] = "\n".join(
        [f"{scale} : tensor_like of float, positive{scale_shape}", *entries.get(scale, "").split("\n")[1:]]
    )
    known = entries | _OF_THE_DISTRIBUTION | dict(given or {}) | written
    place = "bayesdp.noise" if law.__module__.startswith("bayesdp.noise.") else law.__module__
    others = [
        one for one in of_law.get("See Also", "").split("\n") if not one.startswith(f"bayesdp.distributions.{name} ")
    ]
    by_the_law = {
        "Raises": raises,
        "See Also": "\n".join([f"{place}.{law.__qualname__} : the same law without PyMC.", *filter(None, others)]),
        "References": of_law.get("References", ""),
        "Examples": example.replace("NAME", name),
    }
    both = {
        "": f"{summary or of_summary}\n\n{description or of_description}".strip(),
        "Parameters": "\n".join(dict.fromkeys(known.get(one, one) for one in parameters)),
        "Notes": "\n\n".join(filter(None, (said.get("Notes"), notes))),
    }
    return joined(by_the_law | said | both)


@singledispatch
def add_likelihood(
    law: NoiseLaw, name: str, mu: Any, parameters: Mapping[str, Any], *, invariants: Invariants | None, **data: Any
) -> None:
    """Add the observed variable of one measurement to the current model; laws with more than one way register theirs.

    Parameters
    ----------
    law : NoiseLaw
    name : str
    mu : tensor variable
        Answers that the noise was added to.
    parameters : mapping
        Those of the law (`NoiseLaw.model_parameters`), of the shape of the answers that were published.
    invariants : Invariants or None
        What the noise leaves as it is, in terms of the answers; None for independent noise.
    **data
        ``observed``, the noisy answers, and ``dims``.

    Raises
    ------
    NotImplementedError
        If the law has no PyMC distribution.
    """
    kept = {} if invariants is None else {"invariants": invariants}
    distribution_of(type(law))(name, mu=mu, **parameters, **kept, **data)


PROPS: tuple[str, ...] = RandomVariable.__props__
"""What every Op of a random variable depends on; PyTensor merges and caches Ops that agree in their ``__props__``."""


class PythonRV(RandomVariable):
    """A random variable that is drawn by its `rng_fn`, from compiled code as well.

    It is made with what its Op holds beside the inputs, by name: all that its ``__props__`` have beyond `PROPS`.
    """

    __props__: tuple[str, ...] = PROPS  # type: ignore[assignment]  # PyTensor's has four
    _print_name: tuple[str, str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)  # type: ignore[no-untyped-call]
        if "name" in vars(cls) and "_print_name" not in vars(cls):
            cls._print_name = print_name(cls.__name__.removesuffix("RV"))

    def __init__(self, **props: Any) -> None:
        for name in self.__props__[len(PROPS) :]:
            if name in props:
                setattr(self, name, props.pop(name))
        super().__init__(**props)


def in_python(op: Any, node: Any, **_: Any) -> tuple[Any, None]:
    """What PyTensor's numba backend calls for an Op: its `perform`, without PyTensor's warning about it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        # No cache key: PyTensor is not to store a function that refers to this Op.
        return generate_fallback_impl(op, node), None


class WithDerivatives(Op):
    """An Op whose first output is computed together with its derivatives, the next outputs, in the first of its inputs.

    `evaluate` gives all outputs from arrays, compiled by numba, and `types` what they are. Second derivatives are refused, not taken
    for zero.
    """

    __props__: tuple[str, ...] = ()
    derivatives: ClassVar[int]
    evaluate: Any

    @abstractmethod
    def types(self, *inputs: Any) -> list[Any]:
        """New variables for the outputs."""

    def make_node(self, *inputs: Any) -> Apply[Any]:
        """Apply to symbolic inputs."""
        given = [pt.as_tensor_variable(value) for value in inputs]
        return Apply(self, given, self.types(*given))

    def perform(self, node: Apply[Any], inputs: Sequence[Any], output_storage: list[list[Any]]) -> None:
        """Evaluate without PyTensor's compiler."""
        for storage, found in zip(output_storage, self.evaluate(*inputs), strict=True):
            storage[0] = np.asarray(found)

    def connection_pattern(self, node: Apply[Any]) -> list[list[bool]]:
        """Only the value and its derivatives depend on anything, and only on the first inputs."""
        connected = [i <= self.derivatives for i in range(len(node.outputs))]
        return [connected if i < self.derivatives else [False] * len(connected) for i in range(len(node.inputs))]

    def pullback(self, inputs: Sequence[Any], outputs: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """Reuse what was computed with the value."""
        varied, fixed = range(self.derivatives), [disconnected_type() for _ in inputs[self.derivatives :]]
        if any(not isinstance(cotangents[1 + i].type, DisconnectedType) for i in varied):
            return [
                *(grad_not_implemented(self, i, inputs[i], "second derivatives are not available") for i in varied),
                *fixed,
            ]
        return [*(cotangents[0] * outputs[1 + i] for i in varied), *fixed]


@register_funcify_default_op_cache_key(WithDerivatives)
def _compiled(op: WithDerivatives, node: Any, **_: Any) -> tuple[Any, int]:
    return op.evaluate, code_version()


@numba_core_rv_funcify.register(PythonRV)
def drawn_in_python(op: Any, node: Any) -> tuple[Any, None]:
    """The `rng_fn` of a random variable, for PyTensor's numba backend."""
    whole = get_numba_type(TensorType(op.dtype, (None,) * op.ndim_supp)) if op.ndim_supp else None
    kind = whole or numba.from_dtype(np.dtype(op.dtype))

    def draw(rng: np.random.Generator, inputs: tuple[Any, ...]) -> Any:
        drawn = np.asarray(op.rng_fn(rng, *inputs, None), dtype=op.dtype)
        return drawn if whole else drawn.item()

    @numba_njit
    def compiled(rng, *inputs):  # type: ignore[no-untyped-def]  # compiled for the types it meets
        with numba.objmode(out=kind):
            out = draw(rng, inputs)
        return out

    return compiled, None


def applied(op: Any, *inputs: Any, size: Any, rng: Any) -> Any:
    """The variable of a random variable's Op, with a generator of its own if none is given."""
    generator = shared_rng(seed=None) if rng is None else rng
    return op(*inputs, size=size, rng=generator, return_next_rng=True)[1]


@classmethod  # type: ignore[misc]  # of distributions: PyMC wants the attribute `rv_op` of each of them
def op_of_rv_type(cls: Any, *inputs: Any, size: Any = None, rng: Any = None, **props: Any) -> Any:
    """Apply the random variable of a distribution, made with what its Op holds beside the inputs."""
    return applied(cls.rv_type(**props), *inputs, size=size, rng=rng)


def is_discrete(variable: Any) -> bool:
    """Whether a variable has an integer (or Boolean) type."""
    return variable.dtype in discrete_dtypes


def as_real(variable: Any) -> Any:
    """A tensor variable in double precision."""
    return variable if variable.dtype == "float64" else pt.cast(variable, "float64")


def scale(value: Any, argument: str) -> Any:
    """Accept a scale as float64; a constant must be a positive number."""
    # PyTensor stores a Python float such as 2.0, which fits, in single precision, and would go on computing with it.
    variable = pt.as_tensor_variable(value)
    if not isinstance(variable, TensorConstant):
        return as_real(variable)
    number = np.asarray(variable.data)
    if number.dtype.kind not in "iuf":
        raise TypeError(f"{argument} must be a real number, got {value!r}")
    if not np.all((number > 0) & np.isfinite(number)):
        raise ValueError(f"{argument} must be finite and greater than 0, got {value!r}")
    return pt.constant(number.astype(np.float64))


def location(value: Any) -> Any:
    """Accept a location: integers keep their type, real numbers become float64."""
    variable = pt.as_tensor_variable(value)
    if is_discrete(variable) or not isinstance(variable, TensorConstant):
        return variable if is_discrete(variable) else as_real(variable)
    return pt.constant(np.asarray(variable.data, dtype=np.float64))


def checked_location(value: Any, invariants: Any) -> Any:
    """Accept a location with exactly the dimensions of the table of the invariants (batches in front)."""
    instance(invariants, Invariants, "invariants must be a bayesdp.Invariants")
    variable = location(value)
    table = invariants.frame.shape
    known = variable.type.shape[max(variable.ndim - len(table), 0) :]
    fits = len(known) == len(table) and all(
        given is None or given == size for given, size in zip(known, table, strict=True)
    )
    if not fits:
        raise ValueError(f"mu must have the shape of the table, {table}, got {variable.type.shape}")
    return variable
