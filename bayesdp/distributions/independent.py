"""PyMC distributions of laws of independent values, and of those within bounds, made from the laws of `bayesdp.noise`."""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.continuous import BoundedContinuous, bounded_cont_transform
from pymc.distributions.dist_math import check_icdf_parameters, check_icdf_value, check_parameters
from pymc.distributions.shape_utils import rv_size_is_none
from pymc.distributions.transforms import _default_transform
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_default_op_cache_key
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.variable import TensorConstant

from bayesdp._numba import nb as numba
from bayesdp.distributions.registry import (
    PythonRV,
    WithDerivatives,
    as_real,
    blank,
    drawn_in_python,
    is_discrete,
    kind_of,
    location,
    made,
    makes,
    rv_of,
    scale,
)
from bayesdp.noise import kernels
from bayesdp.noise.base import NoiseLaw
from bayesdp.noise.bounded import kernels as bounded_kernels
from bayesdp.noise.bounded.base import BoundedLaw, checked_bounds
from bayesdp.noise.namespace import finite


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
        *own, size = parameters
        arrays = [np.asarray(array, dtype=np.float64) for array in own]
        shape = np.broadcast_shapes(*(array.shape for array in arrays)) if size is None else tuple(size)
        out = np.empty((1, int(np.prod(shape))), dtype=np.int64 if cls.law_type.integer else np.float64)
        cls.law_type.fill(rng, *(np.ascontiguousarray(np.broadcast_to(a, shape)).reshape(-1) for a in arrays), out)
        return out.reshape(shape)


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

    return random, version_of(kernels, bounded_kernels, inspect.unwrap(draw_one.py_func))


def version_of(*sources: Any) -> int:
    """A number of the files of kernels, and this one: PyTensor keeps what was compiled from other kernels on disk."""
    files = sorted({__file__, *map(inspect.getfile, sources)})
    return zlib.crc32("".join(Path(own).read_text(encoding="utf-8") for own in files).encode())


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
        return [location(mu), scale(first, name), *(pt.cast(own, "float64") for own in others)], {}

    verbs = {"logp": logp, "support_point": support_point}
    if getattr(law, "log_cdf_kernel", None) is not None:
        verbs["logcdf"] = logcdf
    observed = "[7, 12]" if law.integer else "[7.3, 12.9]"
    example = "" if more else f"{_LEVEL}, {name}=4.0, observed={observed})"
    return lambda own: _of_values(law, own, ScalarNoiseRV, variables, verbs, example=example)


def _of_values(law: Any, own: type, base: type, variables: Any, verbs: Any, **doc: Any) -> Any:
    signature = f"(),{','.join('()' for _ in law.kernel_parameters)}->()"
    defaults = {f.name: f.default for f in fields(law) if f.default is not MISSING}
    parameters = {
        name: defaults.get(name, _ABSENT.get(name, inspect.Parameter.empty)) for name in law.kernel_parameters
    }
    body = {"rv_op": rv_of(law, own, base, signature=signature)(), **verbs}
    return made(law, own, parameters, variables, body, **doc)


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


def bounded_distribution(law: type[BoundedLaw]) -> Callable[[type], Any]:
    """Make the PyMC distribution of a law within bounds, with parameters ``mu``, the scale, ``lower`` and ``upper``.

    Parameters
    ----------
    law : type of BoundedLaw
        With `log_kernel`. If it has a `log_cdf_kernel` or an `icdf_kernel`, so has the distribution.

    Returns
    -------
    decorator
        See `scalar_distribution`. Free variables of a `pymc.distributions.continuous.BoundedContinuous` are transformed to
        the whole line.
    """
    kernels: Any = law

    def logp(value: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """Log-mass or log-density, at a bound with an atom its log-probability; ``-inf`` outside the bounds."""
        return within_bounds(law, kernels.log_kernel(pt, value, mu, scale, lower, upper), value, scale, lower, upper)

    def logcdf(value: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """Logarithm of the probability of at most `value`."""
        at = pt.floor(value) if law.integer else value
        inner = kernels.log_cdf_kernel(pt, at, mu, scale, lower, upper)
        return pt.switch(pt.lt(value, lower), -np.inf, pt.switch(pt.ge(at, upper), 0.0, inner))

    def icdf(value: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """Smallest value whose probability of not being exceeded is at least that."""
        inner = pt.clip(kernels.icdf_kernel(pt, pt.clip(value, 1e-300, 1.0), mu, scale, lower, upper), lower, upper)
        found = pt.switch(pt.eq(value, 0.0), lower, pt.switch(pt.eq(value, 1.0), upper, inner))
        return check_icdf_parameters(check_icdf_value(found, value), scale > 0, msg=f"{law.scale_name} > 0")

    def support_point(rv: Any, size: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """A point between the bounds, near mu."""
        point = _inner_point(size, mu, scale, lower, upper)
        return pt.cast(pt.clip(pt.round(point), lower, upper), "int64") if law.integer else point

    def variables(mu: Any, lower: Any, upper: Any, **spread: Any) -> tuple[list[Any], dict[str, Any]]:
        [width] = spread.values()
        return [location(mu), scale(width, law.scale_name), *_limits(lower, upper, integer=law.integer)], {}

    verbs: dict[str, Any] = {"logp": logp, "support_point": support_point}
    verbs |= {} if law.log_cdf_kernel is None else {"logcdf": logcdf}
    verbs |= {} if law.icdf_kernel is None else {"icdf": icdf}
    sides = (4, 5)  # of the inputs: generator, size, mu, scale, lower, upper
    verbs["bound_args_indices"] = sides

    entry = f"lower, upper : tensor_like, optional\n    {'Whole b' if law.integer else 'B'}{_BOUNDS}"
    given = {"mu": _CONFIDENTIAL, "lower": entry, "upper": entry}
    example = (_COUNT if law.integer else _SHARE).replace("SCALE", law.scale_name)
    notes = _ATOMS if law.has_atoms and not law.integer else ""

    def decorated(own: type) -> Any:
        found = _of_values(law, own, BoundedRV, variables, verbs, given=given, example=example, notes=notes)
        if issubclass(own, BoundedContinuous):
            _default_transform.register(found)(lambda op, rv: bounded_cont_transform(op, rv, sides))
        return found

    return decorated


@makes(BoundedLaw)
def within(law: Any, notes: str = "", **verbs: Any) -> Any:
    """The distribution of a law within bounds."""
    base = BoundedContinuous if not (law.integer or law.has_atoms) else kind_of(law)
    return bounded_distribution(law)(blank(law, base, notes, **verbs))


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


def within_bounds(law: type[BoundedLaw], logp: Any, value: Any, scale: Any, lower: Any, upper: Any) -> Any:
    """A log-density within the bounds, ``-inf`` outside, and an error for parameters that are none."""
    inside = pt.and_(pt.ge(value, lower), pt.le(value, upper))
    found = pt.switch(inside, whole_values(law, value, logp), -np.inf)
    return check_parameters(found, scale > 0, pt.lt(lower, upper), msg=f"{law.scale_name} > 0, lower < upper")


def _limits(lower: Any, upper: Any, *, integer: bool) -> list[Any]:
    """Accept bounds as float64 tensors; None is no bound. Constants are checked: numbers, the lower one below, not both infinite."""
    sides: list[Any] = [
        pt.as_tensor_variable(np.float64(missing) if side is None else side)
        for side, missing in ((lower, -np.inf), (upper, np.inf))
    ]
    if all(isinstance(side, TensorConstant) for side in sides):
        checked = checked_bounds([side.data for side in sides], integer=integer)
        sides = [pt.constant(np.asarray(side, np.float64)) for side in checked]
    return [as_real(side) for side in sides]


def _inner_point(size: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
    """A point strictly within the bounds, near mu."""
    low, high = pt.invert(pt.isinf(lower)), pt.invert(pt.isinf(upper))
    near = pt.clip(pt.cast(mu, "float64"), lower, upper)
    middle = 0.5 * near + 0.25 * (finite(pt, lower, 0.0) + finite(pt, upper, 0.0))
    point = pt.switch(pt.and_(low, high), middle, pt.switch(low, near + scale, near - scale))
    return point if rv_size_is_none(size) else pt.full(size, point)


# Not PyTensor's numba_njit: functions made by that cannot be called from Python, which `perform` does.
@numba.njit(cache=True)
def _sums(mu, sigma, lower, upper):  # type: ignore[no-untyped-def]  # compiled for the types it meets
    out = np.empty((mu.size, 4))
    bounded_kernels.gaussian_sums(mu, sigma, lower, upper, out)
    m = out[:, 3].copy()
    first, second = out[:, 1] / out[:, 0], out[:, 2] / out[:, 0]
    slope = (second - 2.0 * (mu - m) * first) / sigma**3
    return np.log(out[:, 0]), first / sigma**2, slope, m


class GaussianSumsOp(WithDerivatives):
    """Sum of Gaussian masses over the integers of intervals, with its derivatives; see `gaussian_sums`.

    Vectors mu, sigma, lower, upper in; logarithm of the sum in units of the mass of m, its derivatives with respect to mu
    and sigma for fixed m, and m out.
    """

    derivatives = 2
    evaluate = staticmethod(_sums)

    def types(self, *inputs: Any) -> list[Any]:
        """Four vectors."""
        return [pt.vector(dtype="float64") for _ in range(4)]

    def infer_shape(self, node: Any, shapes: Any) -> Any:
        """The shape of the vectors."""
        return [shapes[0]] * 4


@register_funcify_default_op_cache_key(GaussianSumsOp)
def _funcify(op: Any, node: Any, **kwargs: Any) -> tuple[Any, int]:
    return _sums, version_of(bounded_kernels)


def gaussian_sums(mu: Any, sigma: Any, lower: Any, upper: Any) -> tuple[Any, Any]:
    """Logarithm of the sum of ``exp(-(k - m) ((k - m) - 2 (mu - m)) / (2 sigma**2))`` from lower to upper, and m.

    m is the integer within the bounds that is nearest to mu. All arguments have one shape.
    """
    flat = [pt.flatten(variable) for variable in (mu, sigma, lower, upper)]
    found: Any = GaussianSumsOp()(*flat)
    total, _, _, m = found
    return pt.reshape(total, mu.shape, ndim=mu.ndim), pt.reshape(m, mu.shape, ndim=mu.ndim)
