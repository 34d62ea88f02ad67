"""Which releases a model has observed, so that `sample` can put them beside the posterior."""

from __future__ import annotations

from typing import Any

import pymc as pm

from bayesdp.release import Release

__all__ = ["releases_of", "remember"]

_ATTRIBUTE = "_bayesdp_releases"


def remember(model: pm.Model, release: Release, x: Any) -> None:
    """Note on the model that the variable `x` was observed through `release`."""
    noted = list(getattr(model, _ATTRIBUTE, ()))
    setattr(model, _ATTRIBUTE, (*noted, (x.name, release)))


def releases_of(model: pm.Model) -> tuple[tuple[str, Release], ...]:
    """Pairs of the name of a count variable and a release of it; empty for copies of a model made by PyMC."""
    return tuple(getattr(model, _ATTRIBUTE, ()))
