"""One model fitted to many releases: built and compiled once, then only the released numbers change; here or on a cluster."""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, fields
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import pymc as pm
import xarray as xr
from pymc.backends.arviz import DataTreeConverter
from pymc.backends.base import MultiTrace
from pymc.backends.ndarray import NDArray
from pymc.model.transform.conditioning import remove_value_transforms
from pymc.model.transform.optimization import freeze_model
from pymc.sampling.mcmc import assign_step_methods, instantiate_steppers
from pytensor.graph.basic import equal_computations

from bayesdp import _validate
from bayesdp._interrupts import handled
from bayesdp.calibration.quantities import Quantities, Simulate, Simulated, simulated
from bayesdp.calibration.runs import Check, Journal, run_all
from bayesdp.inference.observed import numbers_of, observed_by
from bayesdp.inference.runs.fingerprint import described_model, fingerprint
from bayesdp.inference.sampling import annotate
from bayesdp.release import Release
from bayesdp.storage import read_draws, write_draws

type Build = Callable[[Any], pm.Model]
"""Makes the model of a release."""

type Update = Callable[[Any], Mapping[str, Any]]
"""Gives the new values of the model's ``pm.Data`` for another release."""


class Refit:
    """A model whose compiled functions serve every release of the same structure.

    For a second release with the same labels, queries and laws the model is built again, and its log-density is compared with the
    first, operation by operation, with the released numbers left open. If the two are the same graph, only numbers are replaced from
    then on. If not, because the model itself depends on the numbers (a prior centred at a published mean, say), every release gets a
    model of its own; so do those that are not put into the model by `observe`, without `update` for the values of its ``pm.Data``.
    """

    def __init__(self, build_model: Build, first: Any, update: Update | None = None) -> None:
        self._build, self._update, self.first = build_model, update, first
        self.template = self._checked(build_model(first))
        """The model of the first release."""
        self._frozen = freeze_model(self.template)
        releases = _releases(first)
        observed = tuple(own for _, own, _ in observed_by(self.template))
        # Of several, each has to find its own place: two of one kind could otherwise change places.
        self._structure = _structure(first) if len(releases) == 1 or observed == releases else None
        self._likelihood: Any = None
        self.reused: bool | None = None
        """Whether one compiled model serves all releases; None before a second release has come."""

    def model(self, release: Any) -> pm.Model:
        """The model of a release, compiled functions kept where they can be."""
        numbers = self._numbers(release)
        if numbers is None:
            return self._checked(self._build(release))
        given = {name: self.template[name].get_value(borrow=True) for name in numbers}
        if self.reused is None and any(not np.array_equal(given[name], new) for name, new in numbers.items()):
            # The first release itself would tell nothing.
            self.reused = self._same(self._checked(self._build(release)))
        if self.reused is False:
            return self._checked(self._build(release))
        pm.set_data(numbers, self._frozen)
        return self._frozen

    def log_likelihood(self, release: Any, points: xr.Dataset) -> xr.DataArray:
        """Log-likelihood of the released numbers at each draw (chain, draw) of the model's free variables."""
        numbers = self._numbers(release)
        if numbers is None or self.reused is False:
            value = _Likelihood(self._checked(self._build(release)))
        else:
            if self._likelihood is None:
                self._likelihood = _Likelihood(self.template)
            value = self._likelihood
            pm.set_data(numbers, value.model)
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
        return numbers_of(self.template, _releases(release))

    def _same(self, other: pm.Model) -> bool:
        """Whether another model has the same log-density, up to the values of its data."""
        mine, theirs = _open_inputs(self.template), _open_inputs(other)
        if set(mine) != set(theirs):
            return False
        names = sorted(mine)
        left, right = [mine[n] for n in names], [theirs[n] for n in names]
        return bool(equal_computations([self.template.logp()], [other.logp()], in_xs=left, in_ys=right))


def described_task(task: Any, first: Any, **more: Any) -> dict[str, Any]:
    """The fingerprint of a calibration: its task's fields, and in place of functions the first release and its model."""
    given = {own.name: getattr(task, own.name) for own in fields(task) if own.name not in ("simulate", "build_model")}
    try:
        model = described_model(task.build_model(getattr(first, "release", first)))
    except Exception as error:  # this fit will fail, and say so; others need not
        model = {"model": f"{type(error).__name__}: {error}"}
    return fingerprint(**given | {"first": first} | model | more)


class Refitting(ABC):
    """A task that compiles its model once in every process; compiled functions are not sent along with the task."""

    build_model: Build
    update: Update | None
    _refit: Refit | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_refit": None}

    @property
    @abstractmethod
    def first(self) -> Any:
        """The release that gives the model, in every process: what is compiled must not depend on which one came first."""

    @property
    def refit(self) -> Refit:
        """The model of the first release, and of all others."""
        if self._refit is None:
            self._refit = Refit(self.build_model, self.first, self.update)
        return self._refit


@dataclass
class Simulations(Refitting):
    """The task of a calibration: calling it with a number simulates a truth and a release of it, and looks at them."""

    simulate: Simulate
    build_model: Build
    quantities: Quantities
    seed: int
    update: Update | None = None
    sampler: dict[str, Any] = field(default_factory=dict)

    def streams(self, number: int) -> list[np.random.SeedSequence]:
        """Seeds of the truth and its release, and two of what is done with them: by the number only, wherever it is run."""
        return np.random.SeedSequence(self.seed, spawn_key=(number,)).spawn(3)

    def draw(self, number: int) -> Simulated:
        """Truth and release of a simulation."""
        return simulated(self.simulate, np.random.default_rng(self.streams(number)[0]))

    @property
    def first(self) -> Any:
        """The release of simulation 0."""
        return self.draw(0).release

    @abstractmethod
    def __call__(self, number: int) -> dict[str, Any]:
        """Run a simulation: its record, in plain numbers."""

    def run(
        self,
        count: int,
        words: str,
        entries: Mapping[str, Check],
        *,
        path: str | os.PathLike[str] | None,
        client: Any,
        workers: int,
        progressbar: bool,
        **about: Any,
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]], Mapping[str, Any]]:
        """Run the numbers below `count`, or go on: the records of those that ended well and of the others, and the fingerprint."""
        journal = Journal(path, described_task(self, self.draw(0), **about), entries)
        good, bad = run_all(self, count, journal, client, workers, words, progressbar)
        if not good:
            raise ValueError(f"all {len(bad)} {words} failed; the first one: {bad[0]['error']}")
        return good, bad, journal.about


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


def _releases(given: Any) -> tuple[Release, ...]:
    """The releases of a simulation: one, or several in the order in which the model observes them; none of another kind."""
    listed = given if isinstance(given, tuple) else (given,)
    return listed if all(isinstance(own, Release) for own in listed) else ()


def _structure(given: Any) -> Any:
    """All of the releases but their numbers; None where there are none."""
    found = []
    for release in _releases(given):
        described: list[tuple[Any, ...]] = [(part.query, part.law, part.invariants) for part in release.measurements]
        measured = [[None if own is None else own.describe() for own in part] for part in described]
        unmeasured = [part.unmeasured.tolist() for part in release.measurements]
        exact = [(part.query.describe(), part.sign) for part in release.exact]
        found.append((release.about, release.dims, release.frame.labels, measured, unmeasured, exact))
    return found or None


SAMPLER: dict[str, Any] = {
    "draws": 400,
    "tune": 400,
    "chains": 1,
    "cores": 1,
    "nuts_sampler": "pymc",
    "progressbar": False,
    "quiet": True,
    "compute_convergence_checks": False,
}
"""Default arguments of ``pm.sample`` in a simulation."""


def quiet_draws(model: pm.Model, settings: Mapping[str, Any], seed: int) -> tuple[xr.Dataset, int]:
    """Sample a model: its posterior, and how many draws diverged."""
    # The other groups of the tree, which nothing here looks at, take ten times as long to make as the posterior.
    # PyMC means to give that up, and other samplers have no other form.
    plain = "return_inferencedata" in _ACCEPTED and settings.get("nuts_sampler") == "pymc"
    found = quiet_sample(model, ({"return_inferencedata": False} if plain else {}) | dict(settings), seed)
    if not isinstance(found, MultiTrace):
        stats = found["sample_stats"] if "sample_stats" in found.children else {}
        return found["posterior"].to_dataset(), int(stats["diverging"].sum()) if "diverging" in stats else 0
    made = DataTreeConverter(trace=found, model=model, save_warmup=False).posterior_to_xarray()
    diverging = found.get_sampler_stats("diverging") if "diverging" in found.stat_names else 0
    return made["posterior"], int(np.sum(diverging))


def quiet_sample(model: pm.Model, settings: Mapping[str, Any], seed: int) -> Any:
    """Sample a model."""
    # PyMC takes Ctrl-C for "these draws are enough", and gives back what it has. Of one fit among hundreds that would be a
    # posterior of a few draws that nobody notices: here Ctrl-C always ends the run. `settings`: arguments of `pm.sample`.
    pressed: list[int] = []

    def note(number: int) -> None:
        pressed.append(number)
        raise KeyboardInterrupt

    try:
        # Not in a worker, which ignores it: its driver decides.
        with handled(note, own_too=True), model, warnings.catch_warnings():
            # NUTS overflows on its first trial steps from a distant start, and rejects them.
            warnings.filterwarnings("ignore", "overflow encountered", RuntimeWarning)
            warnings.filterwarnings("ignore", "`return_inferencedata=False` is deprecated", FutureWarning)
            found = pm.sample(**_with_kept(model, settings), random_seed=seed)
    finally:
        if pressed:  # whatever PyMC did with it
            raise KeyboardInterrupt from None
    return found


class _Kept(NamedTuple):
    """What PyMC would work out again for every fit of a frozen model; the fits of one come one after the other."""

    steps: Mapping[Any, list[Any]]  # which step method each variable has: found by differentiating the model
    gradient: Any  # log-density and gradient for NUTS; None where NUTS has no variables, or all: its start makes a function of its own
    trace: NDArray  # with the function that gives what is recorded


_KEPT: WeakKeyDictionary[pm.Model, _Kept] = WeakKeyDictionary()

_ACCEPTED = signature(pm.sample).parameters

_PLAIN = SAMPLER.keys() | {"fiber_gibbs", "nuts", "return_inferencedata"}
"""Arguments of `pm.sample` with which it can be given its steps and its trace."""


def _with_kept(model: pm.Model, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, with what is kept of a frozen model."""
    # PyMC hands out a copy of the gradient to every step method, for they may run side by side, and to copy it is to link it again: a
    # fifth of the time of a small simulation. Steps and trace, which are not for several chains, were another fifth.
    chosen = dict(settings)
    own_steps = {"step", "compile_kwargs"} & chosen.keys()
    if own_steps or chosen.get("nuts_sampler") != "pymc" or not isinstance(model, pm.FrozenModel):
        return chosen
    if model not in _KEPT:
        _, steps = assign_step_methods(model)
        variables = steps.get(pm.NUTS) if len(steps) > 1 else None
        trusted: dict[str, Any] = {"ravel_inputs": True, "trust_input": True}  # NUTS gives arrays of the right type
        gradient = model.logp_dlogp_function(variables, **trusted) if variables else None
        _KEPT[model] = _Kept(steps, gradient, NDArray(model=model))
        _KEPT[model].trace.model = None  # what is kept of a model must not keep it
    kept = _KEPT[model]
    if kept.gradient is not None:
        chosen["nuts"] = {"logp_dlogp_func": kept.gradient} | dict(chosen.get("nuts", {}))
    if kept.steps.keys() == {pm.NUTS} or chosen["chains"] != 1 or not chosen.keys() <= _PLAIN:
        return chosen
    options = {name: chosen.pop(name) for name in ("fiber_gibbs", "nuts") if name in chosen}
    trace = copy(kept.trace)
    trace.model, trace.samples = model, {}
    return chosen | {"step": instantiate_steppers(model, [], kept.steps, step_kwargs=options), "trace": trace}


_FIT_SAMPLER = SAMPLER | {"draws": 1000, "tune": 1000, "chains": 4}


class Fits(Mapping[str, xr.DataTree]):
    """Posteriors by name; the errors of those that failed are in `failures`, by name.

    Where they are in files, each is checked and read when it is asked for: ValueError, with its name, if it is damaged.
    """

    def __init__(self, found: Mapping[str, xr.DataTree | Path], failures: Mapping[str, str]) -> None:
        self._found, self.failures = dict(found), dict(failures)

    def __getitem__(self, name: str) -> xr.DataTree:
        if name not in self._found and name in self.failures:
            raise KeyError(f"the fit of {name!r} failed: {self.failures[name]}")
        value = self._found[name]
        return read_draws(value) if isinstance(value, Path) else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        return f"<Fits: {len(self)} posteriors, {len(self.failures)} failed>"


@dataclass
class _Fit(Refitting):
    """The fit of one release, by number."""

    names: list[str]
    releases: list[Any]
    build_model: Build
    seed: int
    update: Update | None = None
    sampler: dict[str, Any] = field(default_factory=dict)

    @property
    def first(self) -> Any:
        return self.releases[0]

    def __call__(self, number: int) -> dict[str, Any]:
        release = self.releases[number]
        seed = int(np.random.SeedSequence(self.seed, spawn_key=(number,)).generate_state(1)[0])
        tree = quiet_sample(self.refit.model(release), _FIT_SAMPLER | self.sampler, seed)
        # The numbers of the sampled model were replaced, so it does not know the release; a model built anew does.
        annotated = annotate(tree, self.build_model(release), seed=seed)
        return {"number": number, "name": self.names[number], "tree": annotated}


def fit_many(
    releases: Mapping[str, Any],
    build_model: Build,
    *,
    seed: int,
    client: Any = None,
    workers: int = 1,
    update: Update | None = None,
    path: str | os.PathLike[str] | None = None,
    progressbar: bool = True,
    **sampler: Any,
) -> Fits:
    """Fit one model to many releases, compiled once for all of the same structure.

    Parameters
    ----------
    releases, seed
        By name; and the seed of all fits: each has its own from it, by its place, wherever it is run.
    path : path, optional
        A folder for the results, made if need be: a netCDF file for each as it ends, so that a run that was stopped goes on
        where it was. Without it they are kept in memory.
    build_model, client, workers, update, progressbar, **sampler
        As for `sbc`.

    Returns
    -------
    Fits
        Posteriors as `bayesdp.sample` gives them; failed fits are tried again when the run is.

    Raises
    ------
    ValueError
        If there is no release, the folder is of another run, or a posterior in it is damaged while others are missing; the
        folder is left as it was then.
    """
    given: Any = releases
    if not isinstance(given, Mapping) or not given:
        raise ValueError(f"releases must be a mapping from names to at least one release, got {releases!r}")
    names = [str(name) for name in releases]
    fit = _Fit(
        names, list(releases.values()), build_model, _validate.nonnegative_integer(seed, "seed"), update, dict(sampler)
    )
    folder = None if path is None else Path(path)
    if folder is not None:
        folder.mkdir(exist_ok=True)
    about = described_task(fit, fit.releases[0], what="fits")
    journal = _Folder(None if folder is None else folder / "journal.jsonl", about, folder=folder)
    good, bad = run_all(fit, len(names), journal, client, workers, "fits", progressbar)
    return Fits(
        {record["name"]: record["tree"] for record in good},
        {names[record["number"]]: record["error"] for record in bad},
    )


@dataclass
class _Folder(Journal):
    """A journal that says which run it is of, beside the posteriors, each of which is a file named by its number."""

    folder: Path | None = None

    def _check_before_beginning(self) -> None:
        left = [] if self.folder is None else sorted(self.folder.glob("[0-9]*.nc"))
        if left:
            raise ValueError(
                f"{str(self.folder)!r} has posteriors of another run, {left[0].name!r} first: name another folder"
            )

    def _check_before_going_on(self) -> None:
        """Find the posteriors; where others are to be added, each is read first: a folder that is refused is left as it was."""
        names = self.about["names"]
        files = [(number, self._file(number)) for number in range(len(names))]
        self.records = {k: {"number": k, "name": names[k], "tree": file} for k, file in files if file.is_file()}
        if len(self.records) == len(names):
            return
        for record in self.records.values():
            try:
                read_draws(record["tree"])
            except ValueError as error:
                raise ValueError(f"{error}; remove this file, and it is fitted again") from None

    def _file(self, number: int) -> Path:
        assert self.folder is not None
        return self.folder / f"{number:06d}.nc"

    def add(self, record: Mapping[str, Any]) -> None:
        """Write the posterior to its file; a failure is noted, and tried again when the run goes on."""
        if self.folder is None or "error" in record:
            super().add(record)
            return
        file = self._file(record["number"])
        write_draws(record["tree"], file, overwrite=True)
        self.records[record["number"]] = {**record, "tree": file}
