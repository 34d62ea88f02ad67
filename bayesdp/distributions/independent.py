"""PyMC distributions of laws of independent values, free, within bounds and canonical, made from `bayesdp.noise`."""

from __future__ import annotations

import inspect
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.continuous import BoundedContinuous, bounded_cont_transform
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.shape_utils import rv_size_is_none
from pymc.distributions.transforms import _default_transform
from pymc.logprob.abstract import _logprob
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_and_cache_key
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.variable import TensorConstant

from bayesdp import noise
from bayesdp._arrays import Floats
from bayesdp._numba import code_version
from bayesdp._validate import instance
from bayesdp.distributions.confidential_counts import floored
from bayesdp.distributions.registry import (
    PROPS,
    PythonRV,
    add_likelihood,
    as_real,
    blank,
    drawn_in_python,
    in_python,
    is_discrete,
    kind_of,
    location,
    made,
    makes,
    op_of_rv_type,
    register_distribution,
    rv_of,
    scale,
)
from bayesdp.noise.arrays import checked_limit, draw_each, finite
from bayesdp.noise.base import NoiseLaw
from bayesdp.noise.bounded.base import BoundedLaw, checked_bounds
from bayesdp.privacy import TradeOff


class ScalarNoiseRV(PythonRV):
    """A random variable of independent values around a real location, sampled by its law.

    Attributes
    ----------
    law_type : type of NoiseLaw
        Its ``kernel_parameters`` are the parameters after the location, each a float64.
    """

    law_type: ClassVar[Any]

    @classmethod
    def rng_fn(cls, rng: np.random.Generator, *parameters: Any) -> Any:
        """Draw an array of independent values; the last argument is their size."""
        *inputs, size = parameters
        arrays = [np.asarray(array, dtype=np.float64) for array in inputs]
        shape = np.broadcast_shapes(*(array.shape for array in arrays)) if size is None else tuple(size)
        cells = [np.broadcast_to(array, shape) for array in arrays]
        return draw_each(cls.law_type.fill, rng, cells, 1, integer=cls.law_type.integer).reshape(shape)


class BoundedRV(ScalarNoiseRV):
    """A random variable with a law within bounds; its inputs after the location are the scale and both bounds."""


@numba_core_rv_funcify.register(ScalarNoiseRV)
def _core(op: ScalarNoiseRV, node: Any) -> tuple[Any, int | None]:
    """Tell PyTensor's numba backend how one value is drawn."""
    draw_one = op.law_type.draw_one
    if draw_one is None:
        return drawn_in_python(op, node)

    @numba_njit
    def random(rng, mu, *parameters):  # type: ignore[no-untyped-def]  # compiled for the types it meets
        return draw_one(rng, float(mu), *parameters)

    # Laws from outside have their sampler in files of their own.
    source = inspect.getfile(inspect.unwrap(draw_one.py_func))
    return random, code_version() ^ zlib.crc32(Path(source).read_bytes())


def scalar_distribution(law: type[NoiseLaw]) -> Callable[[type], Any]:
    r"""Make the PyMC distribution of a law of independent noise under a name, or with methods, of your own.

    Without it the law has the one that `distribution_of` makes.

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
    >>> import pymc as pm
    >>> @scalar_distribution(noise.Laplace)
    ... class Sharp(pm.Continuous):
    ...     "The Laplace law under another name."
    >>> print(f"{pm.logp(Sharp.dist(mu=1.0, b=2.0), 3.5).eval():.6f}")  # -2.5 / 2 - log 4
    -2.636294
    >>> distributions.register_distribution(noise.Laplace, distributions.Laplace)
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

    def variables(mu: Any, **given: Any) -> tuple[list[Any], dict[str, Any]]:
        first, *others = given.values()
        return [location(mu), scale(first, name), *(pt.cast(value, "float64") for value in others)], {}

    verbs = {"logp": logp, "support_point": support_point}
    if getattr(law, "log_cdf_kernel", None) is not None:
        verbs["logcdf"] = logcdf
    observed = "[7, 12]" if law.integer else "[7.3, 12.9]"
    example = "" if more else f"{_LEVEL}, {name}=4.0, observed={observed})"
    return lambda written: _of_values(law, written, ScalarNoiseRV, variables, verbs, example=example)


def _of_values(law: Any, written: type, base: type, variables: Any, verbs: Any, **doc: Any) -> Any:
    signature = f"(),{','.join('()' for _ in law.kernel_parameters)}->()"
    defaults = {f.name: f.default for f in fields(law) if f.default is not MISSING}
    parameters = {
        name: defaults.get(name, _ABSENT.get(name, inspect.Parameter.empty)) for name in law.kernel_parameters
    }
    body = {"rv_op": rv_of(law, written, base, signature=signature)(), **verbs}
    return made(law, written, parameters, variables, body, **doc)


_ABSENT = {"lower": None, "upper": None}
"""What stands for a bound that is not there."""

_LEVEL = """>>> import pymc as pm
>>> with pm.Model():
...     level = pm.Normal("level", 10.0, 5.0)
...     noisy = NAME("noisy", mu=level"""


@makes(NoiseLaw)
def of_values(law: Any, notes: str = "") -> Any:
    """The distribution of a law of independent values that states its kernel and a sampler."""
    samples = law.draw_one is not None or hasattr(law, "fill")
    if samples and law.kernel_parameters and hasattr(law, "log_kernel"):
        return scalar_distribution(law)(blank(law, kind_of(law), notes))
    return None


def whole_values(law: type[NoiseLaw], value: Any, logp: Any) -> Any:
    """The log-mass of a value that is whole, ``-inf`` for others; a density as it is."""
    if not law.integer or is_discrete(value):
        return logp
    return pt.switch(pt.eq(value, pt.floor(value)), logp, -np.inf)


@makes(BoundedLaw)
def within(law: Any, notes: str = "") -> Any:
    """The distribution of a law within bounds; free variables that are continuous are transformed to the whole line."""

    def logp(value: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """Log-mass or log-density, at a bound with an atom its log-probability; ``-inf`` outside the bounds."""
        inside = pt.and_(pt.ge(value, lower), pt.le(value, upper))
        inner = whole_values(law, value, law.log_kernel(pt, value, mu, scale, lower, upper))
        found = pt.switch(inside, inner, -np.inf)
        return check_parameters(found, scale > 0, pt.lt(lower, upper), msg=f"{law.scale_name} > 0, lower < upper")

    def logcdf(value: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """Logarithm of the probability of at most `value`."""
        at = pt.floor(value) if law.integer else value
        inner = law.log_cdf_kernel(pt, at, mu, scale, lower, upper)
        return pt.switch(pt.lt(value, lower), -np.inf, pt.switch(pt.ge(at, upper), 0.0, inner))

    def support_point(rv: Any, size: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """A point between the bounds, near mu."""
        low, high = pt.invert(pt.isinf(lower)), pt.invert(pt.isinf(upper))
        near = pt.clip(pt.cast(mu, "float64"), lower, upper)
        middle = 0.5 * near + 0.25 * (finite(pt, lower, 0.0) + finite(pt, upper, 0.0))
        point = pt.switch(pt.and_(low, high), middle, pt.switch(low, near + scale, near - scale))
        point = pt.cast(pt.clip(pt.round(point), lower, upper), "int64") if law.integer else point
        return point if rv_size_is_none(size) else pt.full(size, point)

    def variables(mu: Any, lower: Any, upper: Any, **spread: Any) -> tuple[list[Any], dict[str, Any]]:
        [width] = spread.values()
        sides = limits({"the lower bound": lower, "the upper bound": upper}, checked_bounds, integer=law.integer)
        return [location(mu), scale(width, law.scale_name), *sides], {}

    sides = (4, 5)  # of the inputs: generator, size, mu, scale, lower, upper
    verbs = {"logp": logp, "logcdf": logcdf, "support_point": support_point, "bound_args_indices": sides}

    entry = f"lower, upper : tensor_like, optional\n    {'Whole b' if law.integer else 'B'}{_BOUNDS}"
    given = {"mu": _CONFIDENTIAL, "lower": entry, "upper": entry}
    example = (_COUNT if law.integer else _SHARE).replace("SCALE", law.scale_name)
    remark = _ATOMS if law.has_atoms and not law.integer else ""
    base = BoundedContinuous if not (law.integer or law.has_atoms) else kind_of(law)
    written = blank(law, base, notes)
    found = _of_values(law, written, BoundedRV, variables, verbs, given=given, example=example, notes=remark)
    if base is BoundedContinuous:
        _default_transform.register(found)(lambda op, rv: bounded_cont_transform(op, rv, sides))
    return found


_CONFIDENTIAL = "mu : tensor_like of float or int\n    Location: the confidential value."
_BOUNDS = "ounds; None or an infinity where there is none, on one side at most."
_ATOMS = "Give it ``observed`` values: gradient-based steps cannot move a free variable of such a law onto its atoms."

_COUNT = """>>> import pymc as pm
>>> with pm.Model():
...     count = pm.Binomial("count", 50, 0.3)
...     noisy = NAME("noisy", mu=count, SCALE=4.0, lower=0, upper=50, observed=12)"""

_SHARE = """>>> import pymc as pm
>>> with pm.Model():
...     share = pm.Beta("share", 1.0, 1.0)
...     noisy = NAME("noisy", mu=share, SCALE=0.04, lower=0.0, upper=1.0, observed=[0.03, 0.37])"""


def limits(sides: dict[str, Any], check: Callable[..., Any], *, integer: bool) -> list[Any]:
    """Accept a lower and an upper limit, by their names in messages, as float64 tensors; None is none. Constants are checked."""
    found: list[Any] = []
    for (name, value), absent in zip(sides.items(), (-np.inf, np.inf), strict=True):
        variable: Any = pt.as_tensor_variable(np.float64(absent) if value is None else value)
        if isinstance(variable, TensorConstant):
            variable = pt.constant(np.asarray(checked_limit(variable.data, absent, name, integer=integer), np.float64))
        found.append(as_real(variable))
    if all(isinstance(side, TensorConstant) for side in found):
        check([side.data for side in found], integer=integer)
    return found


def of_counts(kind: Any) -> Any:
    """The distribution of the same law about answers of counts: what cannot be has the density `OFF_FIBER` while they are free."""
    plain, name = _logprob.dispatch(kind.rv_type), f"{kind.__name__}OfCounts"
    about = {"__module__": __name__, "__doc__": f"`{kind.__name__}` about answers of counts; used by `observe`."}
    rv_type = type(kind.rv_type)(f"{name}RV", (kind.rv_type,), {**about, "__qualname__": f"{name}.rv_type"})

    @_logprob.register(rv_type)
    def logp(op: Any, values: Any, rng: Any, size: Any, mu: Any, *parameters: Any, **more: Any) -> Any:
        return floored(plain(op, values, rng, size, mu, *parameters, **more), mu)

    return type(kind)(name, (kind,), {**about, "rv_type": rv_type, "rv_op": op_of_rv_type})


@scalar_distribution(noise.Tulap)
class Tulap(pm.Continuous):
    """Truncated uniform-Laplace noise around mu, canonical for (epsilon, delta)-differential privacy.

    With ``b = exp(-epsilon)`` the density is ``(1 - b + 2 delta b) / (1 + b) b**[x - mu]``, [z] the integer nearest to ``|z|``,
    where delta has not cut the tail off. It is a step function: it jumps at half-integer distances from mu and is flat
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
    delta : tensor_like of float, default 0
        At least 0 and less than 1.

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


def _checked(found: Any, epsilon: Any, delta: Any) -> Any:
    return check_parameters(found, epsilon > 0, delta >= 0, delta < 1, msg="epsilon > 0, 0 <= delta < 1")


class CanonicalNoiseRV(PythonRV):
    """Random variable of `CanonicalNoise`; the trade-off function is among its props."""

    law_type = noise.Canonical
    name, signature, dtype = "canonical_noise", "()->()", "float64"
    __props__ = (*PROPS, "tradeoff")
    tradeoff: TradeOff

    def __init__(self, tradeoff: TradeOff, **props: Any) -> None:
        self.noise = tradeoff.canonical_noise()
        super().__init__(tradeoff=tradeoff, **props)

    def rng_fn(self, rng: np.random.Generator, mu: Any, size: Sequence[int] | None = None) -> Floats:
        """Draw an array of independent values."""
        centre = np.asarray(mu, dtype=np.float64)
        shape = centre.shape if size is None else tuple(size)
        return np.asarray(centre + np.asarray(self.noise.rvs(shape, rng)), dtype=np.float64)


class LogDensity(Op):
    """Log-density of canonical noise at each distance from its location, by the recursion. It has no gradient."""

    __props__ = ("tradeoff",)

    def __init__(self, tradeoff: TradeOff) -> None:
        self.tradeoff = tradeoff
        self.noise = tradeoff.canonical_noise()

    def make_node(self, *inputs: Any) -> Any:
        """Take a tensor of distances."""
        distance = pt.cast(pt.as_tensor_variable(inputs[0]), "float64")
        return Apply(self, [distance], [distance.type()])

    def evaluate(self, z: Any) -> Floats:
        """The log-density, by the recursion."""
        return np.reshape(np.asarray(self.noise.logpdf(z), dtype=np.float64), np.shape(z))

    def perform(self, node: Any, inputs: Sequence[Any], output_storage: Any) -> None:
        """Evaluate in NumPy."""
        output_storage[0][0] = self.evaluate(inputs[0])

    def infer_shape(self, node: Any, shapes: Any) -> Any:
        """The shape of the distances."""
        return shapes


register_funcify_and_cache_key(LogDensity)(in_python)


class CanonicalNoise(pm.Continuous):
    r"""Canonical noise of a symmetric trade-off function around mu (paper 003, Definition 35 and Lemma 36).

    Telling mu from mu + 1 is exactly as hard as the trade-off function says. For (epsilon, delta) that is `Tulap`, for mu-GDP
    ``pm.Normal("y", level, 1 / mu)``; this one takes any symmetric function, and evaluates its density by the recursion,
    outside of the compiled code: a few microseconds a value and a step of the recursion.

    The density has no gradient here, so that PyMC gives what is in mu to Slice, which is valid; counts on a fiber need none.

    Where f(0) < 1 the noise is bounded: a start of mu out of reach of the data has no density, and PyMC refuses it beside other
    free variables. Give one within reach with ``pm.sample(initvals=...)``. For (epsilon, delta) `bayesdp.observe` needs none.

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: what the noise was added to, for a statistic of sensitivity 1.
    tradeoff : TradeOff
        Symmetric, and known: not a random variable.

    See Also
    --------
    bayesdp.privacy.TradeOff.canonical_noise : the same law without PyMC.

    Examples
    --------
    >>> import pymc as pm
    >>> from bayesdp.privacy import approximate_dp, tensor_product
    >>> twice = tensor_product(approximate_dp(0.5), approximate_dp(0.5))
    >>> with pm.Model():
    ...     level = pm.Normal("level", 10.0, 5.0)
    ...     noisy = CanonicalNoise("noisy", mu=level, tradeoff=twice, observed=12.3)
    """

    rv_type = CanonicalNoiseRV
    rv_op = op_of_rv_type

    @classmethod
    def dist(cls, mu: Any, tradeoff: TradeOff, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        instance(tradeoff, TradeOff, "tradeoff must be a trade-off function such as gaussian_dp(1.0)")
        tradeoff.canonical_noise()  # refused here if there is none
        return super().dist([location(mu)], tradeoff=tradeoff, **kwargs)

    def support_point(rv: Any, size: Any, mu: Any) -> Any:  # PyMC passes the variable
        """Location, where the density is highest."""
        return pt.zeros_like(rv) + mu


register_distribution(noise.Canonical, CanonicalNoise)


@_logprob.register(CanonicalNoiseRV)
def _canonical_noise_logp(op: CanonicalNoiseRV, values: Any, rng: Any, size: Any, mu: Any, **_: Any) -> Any:
    [value] = values
    return LogDensity(op.tradeoff)(value - mu)


TulapOfCounts, CanonicalNoiseOfCounts = of_counts(Tulap), of_counts(CanonicalNoise)
TulapRV: Any = Tulap.rv_type
CanonicalOfCountsRV: Any = CanonicalNoiseOfCounts.rv_type


@add_likelihood.register
def _add_canonical(law: noise.Canonical, name: str, mu: Any, parameters: Any, *, invariants: None, **data: Any) -> None:
    bounded = is_discrete(mu) and math.isfinite(law.standard.support()[1])
    (CanonicalNoiseOfCounts if bounded else CanonicalNoise)(name, mu=mu, tradeoff=law.tradeoff, **data)


@add_likelihood.register
def _add_tulap(law: noise.Tulap, name: str, mu: Any, parameters: Any, *, invariants: None, **data: Any) -> None:
    """Noise for another sensitivity is noise for 1 in that unit; the published numbers stay in counts."""
    if law.sensitivity != 1.0:
        raise NotImplementedError(
            f"a model with Tulap noise for a sensitivity other than 1 is not available (the law has {law.sensitivity:g}); divide "
            "the published numbers and the answers by it, and use bayesdp.distributions.Tulap"
        )
    held = law.delta > 0.0 and is_discrete(mu)  # counts on a fiber, whose step keeps them within reach
    (TulapOfCounts if held else Tulap)(name, mu=mu, epsilon=law.epsilon, delta=law.delta, **data)
