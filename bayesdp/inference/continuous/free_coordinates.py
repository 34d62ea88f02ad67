"""The flat free variable behind a table of continuous counts, and why it has no prior draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.shape_utils import rv_size_is_none
from pytensor.tensor.random.op import RandomVariable

_REASON = (
    "the coordinates of ContinuousCounts have no prior of their own: the prior of the table, restricted to the exact answers, "
    "is known up to a constant and cannot be drawn from directly. bayesdp.inference.add_prior_predictive(tree, model) draws "
    "tables from the base, before any exact answer, and noisy tables around them"
)


class FreeCoordinatesRV(RandomVariable):
    """Random variable of `FreeCoordinates`."""

    name = "free_coordinates"
    signature = "->()"
    dtype = "floatX"
    _print_name = ("FreeCoordinates", r"\operatorname{FreeCoordinates}")

    @classmethod
    def rng_fn(cls, rng: np.random.Generator, size: Sequence[int] | None = None) -> Any:
        """Raise NotImplementedError: there is no prior to draw from."""
        raise NotImplementedError(_REASON)


class FreeCoordinates(pm.Continuous):
    """Unconstrained, with log-density 0: what a Potential says of them is their whole density."""

    rv_op = FreeCoordinatesRV()

    @classmethod
    def dist(cls, **kwargs: Any) -> Any:
        """Make an unregistered variable."""
        return super().dist([], **kwargs)

    def support_point(rv: Any, size: Any) -> Any:  # PyMC passes the variable
        """Give zero, which the coordinates map to a table well inside."""
        return pt.zeros(() if rv_size_is_none(size) else size)  # not of rv itself, which would be drawn

    def logp(value: Any) -> Any:  # PyMC passes the value
        """Give zero."""
        return pt.zeros_like(value)
