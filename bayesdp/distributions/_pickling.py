"""Models and steps that `pickle` can write: how it is told to write the parts of PyMC that it cannot.

PyMC gives every model and every variable methods of its own, for printing, which the class does not have. `pickle` writes a method
as the name of an attribute, which would not be found when the pickle is read; here it is told to write the function and the object,
as cloudpickle does. PyMC's NUTS holds a function inside of another one, which is made again when the pickle is read.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from inspect import getclosurevars
from multiprocessing.reduction import ForkingPickler
from types import MethodType, SimpleNamespace
from typing import Any

from pymc.step_methods.hmc.integration import CpuLeapfrogIntegrator


def bound_method(function: Callable[..., Any], instance: Any) -> MethodType:
    """A function as a method of an object; what a pickle of such a method calls."""
    return MethodType(function, instance)


def _method(method: MethodType) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A method as `pickle` is to write it: by name where the class has it, else as a function and an object."""
    function, instance = method.__func__, method.__self__
    name = getattr(function, "__name__", "")
    owner = instance if isinstance(instance, type) else type(instance)
    # The attribute of the class: one of the object's own is not there yet when the pickle is read.
    if hasattr(owner, name) and getattr(instance, name, None) == method:
        return getattr, (instance, name)
    return bound_method, (function, instance)


def integrator(potential: Any, function: Any, raveled: bool, dtype: str) -> CpuLeapfrogIntegrator:
    """PyMC's integrator of a compiled gradient; what a pickle of one calls."""
    gradient = SimpleNamespace(_pytensor_function=function, _raveled_inputs=raveled, dtype=dtype)
    return CpuLeapfrogIntegrator(potential, gradient)


def _integrator(own: CpuLeapfrogIntegrator) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    wrapper = own._logp_dlogp_func
    raveled = "point_map_info" not in wrapper.__code__.co_varnames
    return integrator, (own._potential, getclosurevars(wrapper).nonlocals["pytensor_function"], raveled, own._dtype)


def register() -> None:
    """Tell `pickle`, and the pickler of `multiprocessing`, which has a table of its own."""
    copyreg.pickle(MethodType, _method)
    copyreg.pickle(CpuLeapfrogIntegrator, _integrator)
    ForkingPickler.register(MethodType, _method)
