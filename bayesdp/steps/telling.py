"""What a user is told besides: of models that are right, and slow, and that moves are compiled."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
from numba.core import event
from pymc.pytensorf import constant_fold
from pytensor.compile.ops import ViewOp
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Mul, TrueDiv
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.random.basic import ExponentialRV, GammaRV, PoissonRV
from pytensor.tensor.shape import Reshape

from bayesdp._interrupts import tell

_FEW = 50
"""Up to so many cells gamma rates are not worth a word."""

_NOT_THE_USERS = tuple(f"{folder}{os.sep}" for folder in (Path(pm.__file__).parent, Path(__file__).parents[1]))
"""Folders of PyMC and of this package: a warning names the line of the user's that led here."""

SLOW_RATES = r"each of the \d+ cells of .* has a gamma rate of its own"
"""The beginning of the warning."""


def warn_slow_rates(model: pm.Model, values: Iterable[Any]) -> None:
    """Warn of Poisson counts with a gamma rate for each cell, which could be integrated out."""
    # Told is what is true only: the rate of each cell is one element of a gamma (or exponential) variable of the model, which may be
    # multiplied or divided by anything else, and which nothing but these counts uses.
    for x in map(model.values_to_rvs.__getitem__, values):
        base = x.owner.inputs[0]
        size = _size(x, model)
        if not isinstance(base.owner.op, PoissonRV) or size is None or size <= _FEW:
            continue
        for rates, alone in _rates_of(base.owner.inputs[-1], model):
            if _size(rates, model) == size and not _used_elsewhere(rates, x, model):
                warnings.warn(_message(x, rates, size, alone), UserWarning, skip_file_prefixes=_NOT_THE_USERS)
                break


def _size(variable: Any, model: pm.Model) -> int | None:
    """How many elements a variable has, without compiling anything; None if that is not known."""
    shape = variable.type.shape
    if None in shape and (dims := model.named_vars_to_dims.get(variable.name)):
        shape = [model.dim_lengths[dim].eval() if dim in model.dim_lengths else None for dim in dims]
    return None if None in shape else math.prod(int(n) for n in shape)


def _rates_of(rate: Any, model: pm.Model) -> list[tuple[Any, bool]]:
    """Gamma variables that a rate is a multiple of, and whether it is just that: [] if it is no product."""
    numerators, others = _factors(rate)
    found = []
    for i, rates in enumerate(numerators):
        if rates in model.free_RVs and isinstance(rates.owner.op, GammaRV | ExponentialRV):
            rest = [*numerators[:i], *numerators[i + 1 :], *others]
            if not any(_has_zeros(factor) for factor in rest) and rates not in ancestors(rest):
                found.append((rates, not rest))
    return found


def _factors(rate: Any) -> tuple[list[Any], list[Any]]:
    """What a variable is the product of, cell by cell, and what that is divided by."""
    op = rate.owner.op if rate.owner is not None else None
    if isinstance(op, ViewOp | Reshape | DimShuffle):  # the same numbers in another form; sizes are compared later
        return _factors(rate.owner.inputs[0])
    if isinstance(op, Elemwise) and isinstance(op.scalar_op, Mul):
        both = [_factors(factor) for factor in rate.owner.inputs]
        return [factor for up, _ in both for factor in up], [factor for _, down in both for factor in down]
    if isinstance(op, Elemwise) and isinstance(op.scalar_op, TrueDiv):
        up, down = _factors(rate.owner.inputs[0])
        return up, [*down, rate.owner.inputs[1]]
    return [rate], []


def _has_zeros(factor: Any) -> bool:
    """Whether a factor is a constant or data with zeros, which the mean of a Poisson law may be, and that of PyMC's other not."""
    if isinstance(factor, Constant):
        return bool(np.any(np.asarray(factor.data) == 0))
    return isinstance(factor, SharedVariable) and bool(np.any(factor.get_value(borrow=True) == 0))


def _used_elsewhere(rates: Any, x: Any, model: pm.Model) -> bool:
    """Whether anything that has a density depends on the rates other than through the counts."""
    others = [other for other in [*model.basic_RVs, *model.potentials] if other is not rates and other is not x]
    return bool(others) and rates in ancestors(others, blockers=[x])


def _number(variable: Any) -> float | None:
    """What a variable is that depends on constants only, and is the same for all cells; None for anything else."""
    (folded,) = constant_fold([variable], raise_not_constant=False)
    if not isinstance(folded, np.ndarray | np.generic | float | int):
        return None
    values = np.asarray(folded, dtype=np.float64)
    return float(values.flat[0]) if values.size and np.all(values == values.flat[0]) else None


def _message(x: Any, rates: Any, size: int, alone: bool) -> str:
    """What the slow form is, what the fast one would be, and how draws of the rates are had from that."""
    inputs = rates.owner.inputs[2:]
    exponential = isinstance(rates.owner.op, ExponentialRV)
    shape = 1.0 if exponential else _number(inputs[0])
    scale = _number(inputs[-1])
    alpha = "alpha" if shape is None else f"{shape:.6g}"
    mu = f"mean of {rates.name}" if shape is None or scale is None else f"{shape * scale:.6g}"
    factor = "" if alone else f" times what the rates multiply {rates.name} by"
    where = "" if shape is not None and scale is not None else f", with alpha and the mean as {rates.name} has them"
    rate = "beta + 1" if alone else "beta + what multiplies it"
    return (
        f"each of the {size} cells of {x.name} has a gamma rate of its own ({rates.name}), which nothing else uses: sampled beside "
        f"the counts, rates make chains slow. Integrated out they leave {x.name} the same posterior: write pm.NegativeBinomial.dist("
        f"mu={mu}{factor}, alpha={alpha}) in the place of pm.Poisson.dist{where}. Draws of {rates.name} can be had from "
        f"those of {x.name}: each is Gamma(alpha + count, {rate})"
    )


class _Teller(event.Listener):
    """Tells of the first kernel of the package that is compiled, and not read from Numba's cache."""

    def __init__(self) -> None:
        self.told = False

    def on_start(self, event: Any) -> None:
        """Look at what is compiled."""
        module = str(event.data["dispatcher"].py_func.__module__)
        if not self.told and module.startswith("bayesdp.") and ".kernel." in module:
            self.told = True
            tell("bayesdp: compiling the moves of tables; this takes up to a minute, and once on a machine")

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


@contextmanager
def told_while_compiling() -> Iterator[None]:
    """A context in which standard error is told if a kernel has to be compiled."""
    with event.install_listener("numba:compile", _Teller()):
        yield
