"""One model fitted to many releases: built and compiled once, then only the released numbers change; here or on a cluster."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pymc as pm
import xarray as xr
from pymc.model.transform.conditioning import remove_value_transforms
from pymc.model.transform.optimization import freeze_model
from pymc.sampling.mcmc import assign_step_methods
from pytensor.graph.basic import equal_computations

from bayesdp import _validate
from bayesdp._interrupts import handled
from bayesdp.calibration.runs import Check, Journal, run_all, text
from bayesdp.inference.observed import numbers_of, observed_by
from bayesdp.inference.runs.fingerprint import described_model, fingerprint
from bayesdp.inference.sampling import annotate
from bayesdp.storage import read_draws, write_draws

_FIT_SAMPLER = SAMPLER | {"draws": 1000, "tune": 1000, "chains": 4}


class Fits(Mapping[str, xr.DataTree]):
    """Posteriors by name; those that failed are in `failures`.

    Where they are in files, each is checked and read when it is asked for: ValueError, with its name, if it is damaged.

    Attributes
    ----------
    failures : mapping from name to error
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

    def __call__(self, number: int) -> dict[str, Any]:
        if self._refit is None:
            self._refit = Refit(self.build_model, self.releases[0], self.update)
        release = self.releases[number]
        seed = int(np.random.SeedSequence(self.seed, spawn_key=(number,)).generate_state(1)[0])
        tree = quiet_sample(self._refit.model(release), _FIT_SAMPLER | self.sampler, seed)
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
    releases : mapping from name to release
    build_model : callable
        From a release to a `pymc.Model`.
    seed : int
        Of all fits: each has its own from it, by its place, wherever it is run.
    client, workers, update, progressbar
        As for `sbc`.
    path : path, optional
        A folder for the results, made if need be: a netCDF file for each as it ends, so that a run that was stopped goes on
        where it was. Without it they are kept in memory.
    **sampler
        For ``pm.sample``.

    Returns
    -------
    Fits
        A mapping from name to DataTree, as `bayesdp.sample` gives it; failed fits are in ``.failures``, and are tried
        again when the run is.

    Raises
    ------
    ValueError
        If there is no release, the folder is of another run, or a posterior in it is damaged while others are missing; the
        folder is left as it was then.
    OSError
        If the folder cannot be written.
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
    journal = _Folder(None if folder is None else folder / "journal.jsonl", about, _RECORD, folder)
    good, bad = run_all(fit, len(names), journal, client, workers, "fits", progressbar)
    return Fits(
        {record["name"]: record["tree"] for record in good},
        {names[record["number"]]: record["error"] for record in bad},
    )


_RECORD: dict[str, Check] = {"name": text, "file": text}
"""Entries of a record in the journal, beside the number of the fit."""


@dataclass
class _Folder(Journal):
    """A journal of posteriors, each of which is a file in the same folder."""

    # A run that goes on reads each of them once. In a folder where nothing is left to do, each is read when it is asked for.
    folder: Path | None = None

    def _check_before_going_on(self, torn: bool) -> None:
        assert self.folder is not None
        for number, record in list(self.records.items()):
            if "error" in record:  # tried again
                del self.records[number]
            else:
                # The journal names files beside itself: nothing else is opened, whatever it says.
                if record["file"] != self._file(number) or record["name"] != self._name(number):
                    raise ValueError(
                        f"{str(self.path)!r}: fit {number} is said to be {record['name']!r} in {record['file']!r}, here it is "
                        f"{self._name(number)!r} in {self._file(number)!r}; remove the line, or name another folder"
                    )
                if not (self.folder / record["file"]).is_file():
                    raise ValueError(
                        f"{str(self.path)!r}: the file {record['file']!r} of fit {number} is missing; put it back, or remove the line"
                    )
                record["tree"] = self.folder / record["file"]
        if torn or len(self.records) < len(self.about["names"]):
            self._check_posteriors()

    def _check_posteriors(self) -> None:
        """Read each posterior that is there, before others are added to them: a folder that is refused is left as it was."""
        for number in sorted(self.records):
            try:
                read_draws(self.records[number]["tree"])
            except ValueError as error:
                raise ValueError(
                    f"{error}; remove this file and its line, of number {number}, in {str(self.path)!r}, and it is fitted again"
                ) from None

    @staticmethod
    def _file(number: int) -> str:
        return f"{number:06d}.nc"

    def _name(self, number: int) -> str | None:
        names = self.about["names"]
        return names[number] if number < len(names) else None

    def add(self, record: Mapping[str, Any]) -> None:
        """Write the posterior to its file, then note that it is there."""
        if self.folder is None or "error" in record:
            super().add(record)
            return
        name = self._file(record["number"])
        write_draws(record["tree"], self.folder / name, overwrite=True)
        super().add({"number": record["number"], "name": record["name"], "file": name})
        self.records[record["number"]]["tree"] = self.folder / name
