"""PyMC distributions of laws of independent values, made from the laws of `bayesdp.noise`.

Laplace, Gaussian, discrete and Tulap noise as PyMC distributions.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.shape_utils import rv_size_is_none
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable

from bayesdp import noise
from bayesdp.distributions._python_draws import drawn_in_python
from bayesdp.distributions.parameters import is_discrete, location, scale
from bayesdp.distributions.registry import distribution_doc, register_distribution
from bayesdp.noise import kernels
from bayesdp.noise.base import NoiseLaw
from bayesdp.noise.bounded import kernels as bounded_kernels


class ScalarNoiseRV(RandomVariable):
    """A random variable of independent values with a real location, sampled by its law.

    Attributes
    ----------
    law_type : type of NoiseLaw
        Its ``kernel_parameters`` are the parameters after the location, each a float64.
    """

    law_type: ClassVar[Any]

    @classmethod
    def rng_fn(cls, rng: np.random.Generator, *parameters: Any) -> Any:
        """Draw an array of independent values; the last argument is their size."""
        *own, size = parameters
        arrays = [np.asarray(array, dtype=np.float64) for array in own]
        shape = np.broadcast_shapes(*(array.shape for array in arrays)) if size is None else tuple(size)
        out = np.empty((1, int(np.prod(shape))), dtype=np.int64 if cls.law_type.integer else np.float64)
        cls.law_type.fill(rng, *(np.ascontiguousarray(np.broadcast_to(a, shape)).reshape(-1) for a in arrays), out)
        return out.reshape(shape)


@numba_core_rv_funcify.register(ScalarNoiseRV)
def _core(op: ScalarNoiseRV, node: Any) -> tuple[Any, int | None]:
    """Tell PyTensor's numba backend how one value is drawn."""
    draw_one = op.law_type.draw_one
    if draw_one is None:
        return drawn_in_python(op, 0)

    @numba_njit
    def random(rng, mu, *parameters):  # type: ignore[no-untyped-def]  # compiled for the types it meets
        return draw_one(rng, float(mu), *parameters)

    # PyTensor keeps compiled functions on disk: one compiled from other kernels must not be found again.
    sources = {
        __file__,
        kernels.__file__,
        bounded_kernels.__file__,
        inspect.getfile(inspect.unwrap(draw_one.py_func)),
    }
    return random, zlib.crc32("".join(Path(own).read_text(encoding="utf-8") for own in sorted(sources)).encode())


def scalar_distribution(law: type[NoiseLaw]) -> Callable[[type], Any]:
    r"""Make the PyMC distribution of a law of independent noise.

    Parameters
    ----------
    law : type of NoiseLaw
        With `log_kernel` and ``kernel_parameters``, the first of them a positive scale, and a sampler (``fill``, or compiled,
        ``draw_one``). If it has a `log_cdf_kernel`, so has the distribution.

    Returns
    -------
    decorator
        Of a class that holds the docstring, which that of the law completes (`bayesdp.distributions.registry`), and, where
        the law needs others, methods that replace those made here (without ``super()``). The class that it returns has the
        name, the module and the base of that one, so that models can be pickled; `distribution_of` finds it.

    Examples
    --------
    >>> from bayesdp import distributions, noise
    >>> @scalar_distribution(noise.Laplace)
    ... class Sharp(pm.Continuous):
    ...     "The Laplace law under another name."
    >>> print(f"{pm.logp(Sharp.dist(mu=1.0, b=2.0), 3.5).eval():.6f}")  # -2.5 / 2 - log 4
    -2.636294
    >>> register_distribution(noise.Laplace, distributions.Laplace)
    """
    kernels: Any = law
    [name, *more] = law.kernel_parameters

    def logp(value: Any, mu: Any, *parameters: Any) -> Any:
        """Log-mass or log-density."""
        found = whole_values(law, value, kernels.log_kernel(pt, value, mu, *parameters))
        return check_parameters(found, parameters[0] > 0, msg=f"{name} > 0")

    def logcdf(value: Any, mu: Any, *parameters: Any) -> Any:
        """Logarithm of the probability of at most `value`."""
        at = pt.floor(value) if law.integer else value
        found = kernels.log_cdf_kernel(pt, at, pt.cast(mu, "float64"), *parameters)
        return check_parameters(found, parameters[0] > 0, msg=f"{name} > 0")

    def support_point(rv: Any, size: Any, mu: Any, *parameters: Any) -> Any:
        """The location, for integer laws the nearest integer, which always has positive mass."""
        rounds = law.integer and not is_discrete(mu)
        near = pt.cast(pt.round(mu) if rounds else mu, "int64" if law.integer else "float64")
        centre, *_ = pt.broadcast_arrays(near, *parameters)
        return centre if rv_size_is_none(size) else pt.full(size, centre)

    def converted(first: Any, *others: Any) -> list[Any]:
        return [scale(first, name), *(pt.cast(own, "float64") for own in others)]

    verbs = {"logp": logp, "support_point": support_point}
    if getattr(law, "log_cdf_kernel", None) is not None:
        verbs["logcdf"] = logcdf
    observed = "[7, 12]" if law.integer else "[7.3, 12.9]"
    example = "" if more else f'{_LEVEL}{{name}}("noisy", mu=level, {name}=4.0, observed={observed})'
    return lambda own: distribution_class(law, own, converted, verbs, example)


def distribution_class(
    law: type[NoiseLaw],
    own: type,
    converted: Callable[..., list[Any]],
    verbs: Mapping[str, Any],
    example: str = "",
    entries: Mapping[str, str] | None = None,
    rv_base: type[ScalarNoiseRV] = ScalarNoiseRV,
) -> Any:
    """Make the PyMC distribution of a law and register it."""
    # `own`: name, module, bases, docstring, and methods that replace `verbs`. `converted`: from what is given for
    # `law.kernel_parameters` to float64 tensors, all of them checked. `verbs`: PyMC's methods of the class. `example`: for the
    # docstring, with `{name}` where the name of the class is to be. `entries`: for the docstring: entries of parameters that the
    # law does not have. `rv_base`: base of the type of its random variable.
    base = pm.Discrete if law.integer else pm.Continuous
    if not issubclass(own, base):
        raise TypeError(f"{own.__name__} must be a subclass of pymc.{base.__name__}, as the law {law.name!r} is")
    kind: Any = type(rv_base)
    rv_type = kind(
        f"{own.__name__}RV",
        (rv_base,),
        {
            "__doc__": f"Random variable of `{own.__name__}`.",
            "__module__": own.__module__,
            # An attribute of the distribution, so that pickle finds it.
            "__qualname__": f"{own.__qualname__}.rv_type",
            "name": law.name.replace("-", "_"),
            "law_type": law,
            "dtype": "int64" if law.integer else "float64",
            "signature": f"(),{','.join('()' for _ in law.kernel_parameters)}->()",
            "_print_name": (own.__name__, rf"\operatorname{{{own.__name__}}}"),
        },
    )
    defaults = {f.name: f.default for f in fields(law) if f.default is not MISSING}  # type: ignore[arg-type]
    plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature(
        [inspect.Parameter("mu", plain)]
        + [
            inspect.Parameter(name, plain, default=defaults.get(name, _ABSENT.get(name, inspect.Parameter.empty)))
            for name in law.kernel_parameters
        ]
    )

    def dist(cls: Any, *args: Any, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        given = {name: kwargs.pop(name) for name in signature.parameters if name in kwargs}
        stated = signature.bind(*args, **given)
        stated.apply_defaults()
        mu, *parameters = stated.arguments.values()
        return super(made, cls).dist([location(mu), *converted(*parameters)], **kwargs)

    # For `help`, which leaves out the first parameter of a bound method.
    shown = inspect.Signature([inspect.Parameter("cls", plain), *signature.parameters.values()])
    dist.__signature__ = shown  # type: ignore[attr-defined]
    # PyMC registers a class by its random variable when it is made, so it is made again with one.
    replaced = {key: value for key, value in vars(own).items() if key not in _OF_THE_FIRST}
    body = {"rv_op": rv_type(), "dist": classmethod(dist), "law_type": law, **verbs, **replaced}
    body["__doc__"] = distribution_doc(
        law,
        own.__doc__,
        own.__name__,
        list(signature.parameters),
        given=entries,
        example=example.format(name=own.__name__),
    )
    made: Any = type(own)(own.__name__, own.__bases__, body)
    register_distribution(law, made)
    return made


_LEVEL = """>>> import pymc as pm
>>> with pm.Model():
...     level = pm.Normal("level", 10.0, 5.0)
...     noisy = """

_OF_THE_FIRST = ("__dict__", "__weakref__", "_abc_impl", "rv_op", "rv_type")
_ABSENT = {"lower": None, "upper": None}
"""What stands for a bound that is not there."""


def whole_values(law: type[NoiseLaw], value: Any, logp: Any) -> Any:
    """The log-mass of a value that is whole, ``-inf`` for others; a density as it is."""
    if not law.integer or is_discrete(value):
        return logp
    return pt.switch(pt.eq(value, pt.floor(value)), logp, -np.inf)


@scalar_distribution(noise.Laplace)
class Laplace(pm.Continuous):
    r"""Real numbers with density ``exp(-|x - mu| / b) / (2 b)``: the Laplace mechanism.

    The same law as `pymc.Laplace`, computed in double precision throughout. About counts (`bayesdp.ConfidentialCounts`) it is
    one of the laws with exact conditional steps.

    ========  ======================
    Support   real numbers
    Mean      mu
    Variance  ``2 b**2``
    ========  ======================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: what the noise was added to. The log-density has a kink where it meets the value.
    b : tensor_like of float
        Scale in counts (b > 0); noise that costs epsilon for a change of one count has ``b = 1/epsilon``.
    """


@scalar_distribution(noise.Gaussian)
class Gaussian(pm.Continuous):
    r"""Real numbers with density ``exp(-(x - mu)**2 / (2 sigma**2)) / (sigma sqrt(2 pi))``: the Gaussian mechanism.

    The same law as `pymc.Normal`, computed in double precision throughout. About counts (`bayesdp.ConfidentialCounts`) it is
    one of the laws with exact conditional steps.

    ========  ======================
    Support   real numbers
    Mean      mu
    Variance  ``sigma**2``
    ========  ======================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: what the noise was added to.
    sigma : tensor_like of float
        Standard deviation in counts (sigma > 0).
    """


@scalar_distribution(noise.DiscreteLaplace)
class DiscreteLaplace(pm.Discrete):
    r"""Integers with mass proportional to ``exp(-|x - mu| / b)``, mu any real number.

    .. math:: f(x \mid \mu, b) = \frac{1 - q}{q^f + q^{1-f}} \; q^{|x - \mu|},
        \qquad q = e^{-1/b}, \; f = \mu - \lfloor\mu\rfloor

    ========  ===============================================================
    Support   :math:`x \in \mathbb{Z}`
    Mean      :math:`\mu` at integers and half-integers, near it else
    Variance  :math:`2 q / (1 - q)^2` at integer :math:`\mu`
    ========  ===============================================================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: what the noise was added to. For integer types the normaliser takes its simple form. The
        log-mass has kinks at integer mu, as the law itself does.
    b : tensor_like of float
        Scale in counts (b > 0); noise that costs epsilon for a change of one count has ``b = 1/epsilon``.
    """


@scalar_distribution(noise.DiscreteGaussian)
class DiscreteGaussian(pm.Discrete):
    r"""Integers with mass proportional to ``exp(-(x - mu)**2 / (2 sigma**2))``, mu any real number.

    .. math:: f(x \mid \mu, \sigma) = \frac{e^{-(x - \mu)^2 / 2\sigma^2}}
        {\sum_{k \in \mathbb{Z}} e^{-(k - \mu)^2 / 2\sigma^2}}

    The normaliser is exact to double precision: a direct sum for ``sigma < 1/2``, Poisson's summation formula
    from there on.

    ========  ====================================================================
    Support   :math:`x \in \mathbb{Z}`
    Mean      :math:`\mu` at integers and half-integers, near it else
    Variance  a little below :math:`\sigma^2` at integer :math:`\mu`
    ========  ====================================================================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: what the noise was added to. For integer types the normaliser depends on sigma only.
    sigma : tensor_like of float
        Scale in counts (sigma > 0); near the standard deviation from 1 on.
    """


@scalar_distribution(noise.Tulap)
class Tulap(pm.Continuous):
    r"""Truncated uniform-Laplace noise around mu, canonical for (epsilon, delta)-differential privacy.

    .. math:: f(x \mid \mu, \epsilon, \delta) = \frac{1 - b + 2 \delta b}{1 + b}\; b^{[x - \mu]}
        \qquad b = e^{-\epsilon}, \; [z] = \text{the integer nearest to } |z|

    where delta has not cut the tail off. The density is a step function: it jumps at half-integer distances from mu and is flat
    between them, so that its gradient says nothing about mu. NUTS remains valid (it accepts by the density itself) but moves
    blindly through this term; `pm.Slice` is the better sampler for what is in mu. Counts (`ConfidentialCounts`) move by exact
    conditional steps, and with known epsilon and delta never out of reach.

    With delta > 0 the density is zero far from mu, so that a start of mu out of reach of the data is refused by PyMC; give one
    within reach with ``pm.sample(initvals=...)``. `bayesdp.observe` needs none.

    ========  ==========================================================================
    Support   real numbers; if delta > 0, those within a bounded distance of mu
    Mean      mu
    Variance  ``2 b / (1 - b)**2 + 1/12`` for delta = 0
    ========  ==========================================================================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: what the noise was added to, for a statistic of sensitivity 1.
    epsilon : tensor_like of float
        Privacy loss (epsilon > 0).
    delta : tensor_like of float, default 0
        (0 <= delta < 1).

    See Also
    --------
    bayesdp.noise.Tulap : the same law without PyMC, for releases.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     level = pm.Normal("level", 10.0, 5.0)
    ...     noisy = Tulap("noisy", mu=level, epsilon=1.0, observed=12.3)
    """

    def logp(value: Any, mu: Any, epsilon: Any, delta: Any) -> Any:  # PyMC passes the value here
        """Log-density; ``-inf`` beyond the ends."""
        return _checked(noise.Tulap.log_kernel(pt, value, mu, epsilon, delta), epsilon, delta)

    def logcdf(value: Any, mu: Any, epsilon: Any, delta: Any) -> Any:  # PyMC passes the value here
        """Logarithm of the probability of at most `value`."""
        return _checked(noise.Tulap.log_cdf_kernel(pt, value, mu, epsilon, delta), epsilon, delta)


TulapRV: Any = Tulap.rv_type


def _checked(found: Any, epsilon: Any, delta: Any) -> Any:
    return check_parameters(found, epsilon > 0, delta >= 0, delta < 1, msg="epsilon > 0, 0 <= delta < 1")
