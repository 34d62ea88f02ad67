"""Which variables a step method samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pymc as pm
from pymc.util import get_value_vars_from_user_vars


def chosen_values(model: pm.Model, requested: Any, belongs: Callable[[Any], bool], step: str, kind: str) -> list[Any]:
    """Value variables that a step method is to sample: those asked for, else all that belong to it; `kind` is for messages."""
    if requested is None:
        return [model.rvs_to_values[rv] for rv in model.free_RVs if belongs(rv)]
    chosen = list(get_value_vars_from_user_vars(requested, model))
    for value in chosen:
        if not belongs(model.values_to_rvs[value]):
            raise TypeError(f"{step} samples {kind} variables, and {value.name!r} is not one")
    return chosen
