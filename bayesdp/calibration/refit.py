"""Fit one model to many releases: build and compile it once, then change the released numbers only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pymc.model.transform.conditioning import remove_value_transforms
from pymc.model.transform.optimization import freeze_model
from pytensor.graph.basic import equal_computations

from bayesdp.inference.observed import numbers_of, observed_by
from bayesdp.inference.runs.fingerprint import described_model, fingerprint
from bayesdp.release import Release

type Build = Callable[[Any], pm.Model]
"""Makes the model of a release."""

type Update = Callable[[Any], Mapping[str, Any]]
"""Gives the new values of the model's ``pm.Data`` for another release."""


class Refit:
    """A model whose compiled functions serve every release of the same structure.

    The first release gives the model. For another one with the same labels, queries and laws the model is built again
    (that costs milliseconds), and its log-density is compared with the first, operation by operation, with the released numbers
    left open. If the two are the same graph, only numbers are replaced from then on. If not, because the model itself
    depends on the numbers (a prior centred at a published mean, say), every release gets a model of its own.

    Parameters
    ----------
    build_model : callable
        From a release to a `pymc.Model`.
    first : object
        The release that gives the compiled model.
    update : callable, optional
        From a release to the values of the model's ``pm.Data``. Needed where the release is not a `bayesdp.Release`, or a tuple of
        them, put into the model by `observe`; without it such models are built again for each release.
    """

    def __init__(self, build_model: Build, first: Any, update: Update | None = None) -> None:
        self._build, self._update = build_model, update
        self._first = self._checked(build_model(first))
        self._frozen = freeze_model(self._first)
        releases = _releases(first)
        observed = tuple(own for _, own, _ in observed_by(self._first))
        # Of several, each has to find its own place: two of one kind could otherwise change places.
        self._structure = _structure(first) if len(releases) == 1 or observed == releases else None
        self._likelihood: Any = None
        self._verdict: bool | None = None

    @property
    def template(self) -> pm.Model:
        """The model of the first release."""
        return self._first

    @property
    def reused(self) -> bool | None:
        """Whether one compiled model serves all releases; None before a second release has come."""
        return self._verdict

    def model(self, release: Any) -> pm.Model:
        """The model of a release, compiled functions kept where they can be."""
        numbers = self._numbers(release)
        if numbers is None:
            return self._checked(self._build(release))
        if self._verdict is None and self._differs(numbers):  # the first release itself would tell nothing
            self._verdict = self._same(self._checked(self._build(release)))
        if self._verdict is False:
            return self._checked(self._build(release))
        _set(self._frozen, numbers)
        return self._frozen

    def log_likelihood(self, release: Any, points: xr.Dataset) -> xr.DataArray:
        """Log-likelihood of the released numbers at each draw.

        Parameters
        ----------
        points : xarray.Dataset
            Values of the model's free variables, with dimensions chain and draw.

        Returns
        -------
        xarray.DataArray, dims (chain, draw)
        """
        numbers = self._numbers(release)
        if numbers is None or self._verdict is False:
            value = _Likelihood(self._checked(self._build(release)))
        else:
            if self._likelihood is None:
                self._likelihood = _Likelihood(self._first)
            value = self._likelihood
            _set(value.model, numbers)
        return value(points)

    def _checked(self, model: Any) -> pm.Model:
        if not isinstance(model, pm.Model):
            raise TypeError(f"build_model must give back a pymc.Model, got {type(model).__name__}")
        return model

    def _numbers(self, release: Any) -> dict[str, Any] | None:
        """New values of the data, or None if this release needs a model of its own."""
        if self._update is not None:
            return dict(self._update(release))
        if self._structure is None or _structure(release) != self._structure:
            return None
        return numbers_of(self._first, _releases(release))

    def _differs(self, numbers: Mapping[str, Any]) -> bool:
        return any(not np.array_equal(self._first[name].get_value(borrow=True), v) for name, v in numbers.items())

    def _same(self, other: pm.Model) -> bool:
        """Whether another model has the same log-density, up to the values of its data."""
        mine, theirs = _open_inputs(self._first), _open_inputs(other)
        if set(mine) != set(theirs):
            return False
        names = sorted(mine)
        left, right = [mine[n] for n in names], [theirs[n] for n in names]
        return bool(equal_computations([self._first.logp()], [other.logp()], in_xs=left, in_ys=right))


def described_task(task: Any, first: Any, **more: Any) -> dict[str, Any]:
    """The fingerprint of a calibration: the fields of its task, and `first`, the release that it begins with, and its model.

    These stand for ``simulate`` and ``build_model``: what they do, and not how they are written.
    """
    given = {own.name: getattr(task, own.name) for own in fields(task) if own.name not in ("simulate", "build_model")}
    try:
        model = described_model(task.build_model(getattr(first, "release", first)))
    except Exception as error:  # this fit will fail, and say so; others need not
        model = {"model": f"{type(error).__name__}: {error}"}
    return fingerprint(**given | {"first": first} | model | more)


class Refitting:
    """A task that compiles its model once in every process; compiled functions are not sent along with the task."""

    _refit: Refit | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_refit": None}


class _Likelihood:
    """The log-likelihood of a model, at untransformed values of its variables."""

    def __init__(self, model: pm.Model) -> None:
        self.model = remove_value_transforms(model)
        total = sum(self.model.logp(vars=[rv], sum=True) for rv in self.model.observed_RVs)
        self._names = [value.name for value in self.model.value_vars]
        self._function = self.model.compile_fn(
            total, inputs=self.model.value_vars, point_fn=False, on_unused_input="ignore"
        )

    def __call__(self, points: xr.Dataset) -> xr.DataArray:
        arrays = [points[name].transpose("chain", "draw", ...).values for name in self._names]
        shape = arrays[0].shape[:2]
        values = np.empty(shape)
        for at in np.ndindex(*shape):
            values[at] = self._function(*(array[at] for array in arrays))
        return xr.DataArray(values, dims=("chain", "draw"))


def _open_inputs(model: pm.Model) -> dict[str, Any]:
    """The inputs that may differ between models of two releases: values of variables, data, lengths of dimensions."""
    data = {name: v for name, v in model.named_vars.items() if hasattr(v, "get_value")}
    lengths = {f"length of {dim}": v for dim, v in model.dim_lengths.items()}
    return {f"value of {v.name}": v for v in model.value_vars} | data | lengths


def _set(model: pm.Model, numbers: Mapping[str, Any]) -> None:
    with model:
        pm.set_data(dict(numbers))


def _releases(given: Any) -> tuple[Release, ...]:
    """The releases of a simulation: one, or several in the order in which the model observes them; none of another kind."""
    listed = given if isinstance(given, tuple) else (given,)
    return listed if all(isinstance(own, Release) for own in listed) else ()


def _structure(given: Any) -> Any:
    """All of the releases but their numbers; None where there are none."""
    return [_structure_of_one(own) for own in _releases(given)] or None


def _structure_of_one(release: Release) -> Any:
    measured = [
        (
            part.query.describe(),
            part.law.describe(),
            None if part.invariants is None else part.invariants.describe(),
            part.unmeasured.tolist(),
        )
        for part in release.measurements
    ]
    exact = [(part.query.describe(), part.sign) for part in release.exact]
    return release.about, release.dims, release.frame.labels, measured, exact
