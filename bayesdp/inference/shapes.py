"""Shapes of variables as numbers."""

from __future__ import annotations

from typing import Any


def shape_of(variable: Any) -> tuple[int, ...]:
    """The shape of a variable, from the model's data and constants.

    Worked out in Python: to compile a function for it would take most of the time of `observe`.

    Examples
    --------
    >>> import pymc as pm
    >>> shape_of(pm.Poisson.dist(2.0, shape=(3, 4)))
    (3, 4)
    """
    return tuple(int(n) for n in variable.shape.eval(mode="FAST_COMPILE"))
