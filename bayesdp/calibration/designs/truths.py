"""The tables that a design is tried on: draws of a prior, or one table; and the model with which users analyse a release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm

from bayesdp import _validate
from bayesdp.distributions.confidential_counts import ConfidentialCountsRV, FlatCountsRV
from bayesdp.frames import Frame
from bayesdp.inference import FlatCounts, observe
from bayesdp.release import Release

type Prior = Callable[[], pm.Model]
"""Makes a model with one table of counts, and nothing observed."""

_FLAT = "x"


def counts_name(prior: Prior, argument: str) -> tuple[pm.Model, str]:
    """Build a model, and find its table of counts."""
    model: Any = prior()
    if not isinstance(model, pm.Model):
        raise TypeError(f"{argument} must be a function that gives back a pymc.Model, got {type(model).__name__}")
    ops = (ConfidentialCountsRV, FlatCountsRV)
    names = [str(rv.name) for rv in model.free_RVs if isinstance(rv.owner.op, ops)]
    if len(names) != 1:
        raise ValueError(
            f"{argument} must make a model with one table of ConfidentialCounts, got {', '.join(names) or 'none'} among "
            f"{', '.join(str(rv.name) for rv in model.free_RVs) or 'no variables'}"
        )
    if model.observed_RVs:
        raise ValueError(
            f"{argument} must make a model of the table alone; it has observed {model.observed_RVs[0].name!r}"
        )
    return model, names[0]


def frame_of_prior(prior: Prior) -> Frame:
    """The labels of a prior's table: its dimensions and coordinates."""
    model, name = counts_name(prior, "prior_or_table")
    dims = model.named_vars_to_dims.get(name) or ()
    lacking = [dim for dim in dims if model.coords.get(dim) is None]
    if not dims or lacking:
        raise ValueError(
            f"prior_or_table must give its table {name!r} dimensions with labels (pm.Model(coords=...), dims=...), as no candidate "
            "is a mechanism that has them"
        )
    return Frame.of({str(dim): list(model.coords[dim]) for dim in dims})


def drawn_tables(prior: Prior, frame: Frame, n: int, seed: int) -> npt.NDArray[np.int64]:
    """Draw tables from a prior, with all its parameters."""
    # Returns shape `(n, *frame.shape)`.
    model, name = counts_name(prior, "prior_or_table")
    try:
        drawn = np.asarray(pm.draw(model[name], draws=n, random_seed=seed))
    except NotImplementedError as error:
        raise ValueError(f"prior_or_table must be a distribution that can be drawn from: {error}") from error
    drawn = drawn.reshape((n, *drawn.shape[drawn.ndim - len(frame.shape) :])) if n == 1 else drawn
    if drawn.shape[1:] != frame.shape:
        raise ValueError(
            f"prior_or_table draws tables of shape {drawn.shape[1:]}, but the candidates' have {frame.shape}"
        )
    cells = frame.size

    def where(position: int) -> str:
        return f"{frame.cell_name(position % cells)} of draw {position // cells}"

    return _validate.integer_array(drawn, "tables drawn from prior_or_table", where, minimum=0)


@dataclass(frozen=True)
class Analysis:
    """What a user does with a release: from releases to the model of their posterior.

    Attributes
    ----------
    prior : callable or None
        Makes a model with a table of counts; None for flat counts, all tables that agree with the invariants alike.
    """

    prior: Prior | None

    def __call__(self, given: Release | tuple[Release, ...]) -> pm.Model:
        """The model of the posterior."""
        releases = given if isinstance(given, tuple) else (given,)
        if self.prior is None:
            model, name = pm.Model(coords=releases[0].coords), _FLAT
            with model:
                FlatCounts(_FLAT, dims=releases[0].dims)
        else:
            model, name = counts_name(self.prior, "model")
        with model:
            for own in releases:
                observe(own, model[name])
        return model

    @property
    def table(self) -> str:
        """Name of the table in the posterior."""
        return _FLAT if self.prior is None else counts_name(self.prior, "model")[1]
