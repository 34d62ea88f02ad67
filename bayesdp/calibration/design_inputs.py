"""What a design is of: candidates and what they lose, the tables that they are tried on, questions, and the model of users."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import xarray as xr

from bayesdp import _validate
from bayesdp._arrays import Floats, Ints
from bayesdp.calibration.quantities import of_draws, scalars
from bayesdp.distributions.confidential_counts import ConfidentialCountsRV, FlatCountsRV
from bayesdp.frames import Frame
from bayesdp.inference import FlatCounts, observe
from bayesdp.invariants import Invariants
from bayesdp.mechanisms import Mechanism
from bayesdp.mechanisms.composition import loss_at_difference
from bayesdp.privacy import DIFFERENCES, Difference
from bayesdp.privacy.losses import Loss
from bayesdp.privacy.sensitivities.kept import kept_differences
from bayesdp.queries import Query
from bayesdp.release import Release

type Releases = tuple[Release, ...]
"""What one candidate publishes of one table: at least one release, with independent noise."""

type Function = Callable[[xr.DataArray, np.random.Generator], Any]


@dataclass(frozen=True)
class Candidate:
    """One way to release a table."""

    name: str
    mechanisms: tuple[Mechanism, ...]  # released one after the other; none where there is a function
    function: Function | None = None  # from a table and a generator to a release, or a sequence of releases

    def release(self, table: xr.DataArray, rng: np.random.Generator) -> Releases:
        """Release a table, and check that a function gives back releases of that table with noise and a guarantee."""
        if self.function is None:
            return tuple(own.release(table, rng) for own in self.mechanisms)
        given, argument = self.function(table, rng), f"candidates[{self.name!r}]"
        found = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
        if not found or not all(isinstance(own, Release) for own in found):
            raise TypeError(f"{argument} must give back a Release, or several, got {type(given).__name__}")
        for own in found:
            if own.about != "counts":
                raise ValueError(f"{argument} must release a table of counts, got a release of {own.about}")
            self.check(own.frame, Frame.of(table))
        silent = any(own.measurements and own.guarantee is None for own in found)
        if silent or not any(own.measurements for own in found):
            why = "states no guarantee" if silent else "has no noise: every answer is exact"
            raise ValueError(
                f"{argument} is not private: a release of it {why}, so that no loss can be put beside its intervals"
            )
        return found

    def check(self, own: Frame, frame: Frame) -> None:
        """Check that what is released is about the cells of a frame."""
        if not own.same_cells(frame):
            raise ValueError(
                f"candidates[{self.name!r}] is about the cells of {_cells(own)}, the others or the table about {_cells(frame)}: all "
                "candidates must be about the same dimensions and labels"
            )


def _cells(frame: Frame) -> str:
    return " × ".join(
        f"{dim} ({', '.join(map(str, own[:3]))}{', ...' if len(own) > 3 else ''})"
        for dim, own in zip(frame.dims, frame.labels, strict=True)
    )


def checked_candidates(candidates: Any) -> list[Candidate]:
    """Check the argument `candidates` of `design`."""
    if not isinstance(candidates, Mapping) or not candidates:
        raise TypeError(f"candidates must be a mapping from names to at least one mechanism, got {candidates!r}")
    found = []
    for name, given in candidates.items():
        if not isinstance(name, str) or not name:
            raise TypeError(f"candidates must have names, got {name!r}")
        listed = (given,) if isinstance(given, Mechanism) else given
        if isinstance(listed, Sequence) and listed and all(isinstance(own, Mechanism) for own in listed):
            found.append(Candidate(name, tuple(listed)))
        elif callable(given):
            found.append(Candidate(name, (), given))
        else:
            raise TypeError(
                f"candidates[{name!r}] must be a mechanism for tables, a list of such, or a function of a table and a generator, got "
                f"{type(given).__name__}"
            )
    return found


def labelled(values: npt.NDArray[Any], frame: Frame) -> xr.DataArray:
    """Tables with the labels of a frame; dimensions chain and draw in front where there are two more than those of the frame."""
    lead = ("chain", "draw")[: values.ndim - len(frame.dims)]
    return xr.DataArray(values, dims=(*lead, *frame.dims), coords=frame.coords)


_NAMES = {"pure": "epsilon", "approximate": "epsilon", "zcdp": "rho", "gdp": "mu"}


@dataclass(frozen=True)
class Losses:
    """What each candidate loses at one difference."""

    values: dict[str, float]  # infinite where a bound says nothing
    name: str  # epsilon, rho or mu
    difference: str  # in words
    delta: float | None  # that epsilon is for


def losses_of(releases: Mapping[str, Releases], difference: str | None, delta: float | None) -> Losses:
    """The losses of all candidates at a difference that the invariants of all of them leave free."""
    # `difference`: a key of `bayesdp.privacy.DIFFERENCES`, or the words of another one; the smallest for which all losses are known if
    # left out. `delta`: where losses by several definitions are to be compared as an epsilon.
    if delta is not None:
        _validate.probability(delta, "delta")
    frame = next(iter(releases.values()))[0].frame
    exact = [part.query for found in releases.values() for own in found for part in own.exact if part.sign == "="]
    invariants = Invariants([query for k, query in enumerate(exact) if query not in exact[:k]], frame)
    free = kept_differences(invariants) if invariants.dimension else ()
    if not free:
        raise ValueError(
            "candidates have invariants that together leave no difference between two tables free, so that there is no loss to "
            "compare them by; compare those with less different invariants"
        )
    names = {own: next((key for key, known in DIFFERENCES.items() if known == own), own.relation) for own in free}
    chosen = [own for own in free if difference in (None, names[own], own.relation)]
    if not chosen:
        raise ValueError(
            f"difference must be one that the invariants of every candidate leave free, {', '.join(map(repr, names.values()))}, got "
            f"{difference!r}"
        )
    lacking = ""
    for own in chosen:
        found = {name: loss_at_difference(listed, own, invariants, delta) for name, listed in releases.items()}
        known = {name: loss for name, loss in found.items() if loss is not None}
        if len(known) == len(found):
            return _by_one_definition(known, own, delta)
        lacking = next(name for name, loss in found.items() if loss is None)
    raise ValueError(
        f"candidates[{lacking!r}] states no loss from which that at the difference {names[chosen[-1]]!r} follows; name another "
        f"difference: {', '.join(map(repr, names.values()))}"
    )


def _by_one_definition(losses: Mapping[str, Loss], difference: Difference, delta: float | None) -> Losses:
    """The losses as numbers that can be compared: at a delta, by the definition that all have, or as rho."""
    kinds = {own.kind for own in losses.values()}
    deltas = {own.parameters.get("delta") for own in losses.values()}
    kind, at = "approximate", delta
    if delta is None:
        kind = kinds.copy().pop() if len(kinds) == 1 else "zcdp"
        at = deltas.copy().pop() if len(deltas) == 1 else None
    values: dict[str, float] = {}
    for name, loss in losses.items():
        try:
            if kind == "approximate" and len(deltas) > 1 and delta is None:
                raise ValueError("the deltas are not the same")
            told = loss.at(delta) if delta is not None else loss.to(kind)
        except ValueError as error:
            raise ValueError(
                f"delta must be one at which every candidate has an epsilon, got {delta!r}: the loss of candidates[{name!r}] is "
                f"{loss}: {error}"
            ) from error
        values[name] = float("inf") if told.says_nothing else float(told.parameters[_NAMES[kind]])
    return Losses(values, _NAMES[kind], difference.relation, at)


type Question = Query | Callable[[xr.DataArray], xr.DataArray]


def checked_questions(questions: Any, frame: Frame) -> dict[str, Question]:
    """Check the argument `questions` of `design`."""
    if not isinstance(questions, Mapping) or not questions:
        raise TypeError(f"questions must be a mapping from names to at least one query or function, got {questions!r}")
    for name, question in questions.items():
        if not isinstance(name, str) or not name:
            raise TypeError(f"questions must have names, got {name!r}")
        if isinstance(question, Query):
            if not question.frame.same_cells(frame):
                raise ValueError(
                    f"questions[{name!r}] is a query of another table than the candidates': its dimensions are "
                    f"{', '.join(question.frame.dims)}, theirs {', '.join(frame.dims)}, or their labels differ"
                )
        elif not callable(question):
            raise TypeError(
                f"questions[{name!r}] must be a query or a function of the counts, got {type(question).__name__}"
            )
    return dict(questions)


def answers(questions: Mapping[str, Question], counts: xr.DataArray) -> dict[str, Floats]:
    """Answer all questions on tables with dims ``(chain, draw, *table)``: arrays (chain, draw) by label, as ``by county[Alpha]``."""
    found: dict[str, Floats] = {}
    for name, question in questions.items():
        with np.errstate(divide="ignore", invalid="ignore"):
            given: Any = question.apply(counts) if isinstance(question, Query) else question(counts)
        for label, values in scalars(name, of_draws(given, f"questions[{name!r}]")):
            if label in found:
                raise ValueError(f"questions give two answers the name {label!r}; give one of them another name")
            found[label] = values
    return found


type Prior = Callable[[], pm.Model]
"""Makes a model with one table of counts, and nothing observed."""

_FLAT = "x"


def counts_name(prior: Prior, argument: str) -> tuple[pm.Model, str]:
    """Build a model, and find its table of counts."""
    model: Any = prior()
    _validate.instance(model, pm.Model, f"{argument} must be a function that gives back a pymc.Model")
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


def drawn_tables(prior: Prior, frame: Frame, n: int, seed: int) -> Ints:
    """Draw tables from a prior, with all its parameters, shape ``(n, *frame.shape)``."""
    model, name = counts_name(prior, "prior_or_table")
    try:
        drawn = np.asarray(pm.draw(model[name], draws=n, random_seed=seed))
    except NotImplementedError as error:
        raise ValueError(f"prior_or_table must be a distribution that can be drawn from: {error}") from error
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
    """What a user does with a release: from releases to the model of their posterior."""

    prior: Prior | None  # None for flat counts, all tables that agree with the invariants alike

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
