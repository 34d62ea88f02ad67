"""Which releases a model has observed, so that `sample` can put them beside the posterior."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm

from bayesdp.release import Release

__all__ = ["releases_of", "remember"]

_ATTRIBUTE = "_bayesdp_releases"


def remember(model: pm.Model, release: Release, x: Any, published: Mapping[str, npt.NDArray[np.float64]]) -> None:
    """Note on the model that the variable `x` was observed through `release`, and the ``pm.Data`` that hold its numbers."""
    noted = list(getattr(model, _ATTRIBUTE, ()))
    setattr(model, _ATTRIBUTE, (*noted, (x.name, release, dict(published))))


def releases_of(model: pm.Model) -> tuple[tuple[str, Release], ...]:
    """Pairs of the name of a count variable and a release of it.

    Empty for copies of a model made by PyMC. A release whose numbers `pm.set_data` has replaced is left out: the posterior
    is no longer that of this release.
    """
    return tuple(
        (name, release)
        for name, release, published in getattr(model, _ATTRIBUTE, ())
        if all(np.array_equal(model[data].get_value(), values) for data, values in published.items())
    )
