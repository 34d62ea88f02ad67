"""Try candidates for a release before one is made: how wide and how right users' intervals would be, at which loss."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from bayesdp import _validate
from bayesdp._arrays import Ints
from bayesdp._text import printable
from bayesdp._wiring import connected
from bayesdp.calibration import design_inputs as inputs
from bayesdp.calibration.coverage import row_of, summary_of
from bayesdp.calibration.fits import Fits, fit_many
from bayesdp.frames import Frame
from bayesdp.mechanisms.base import confidential_counts
from bayesdp.storage.posteriors import converged_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH = 100
_TABLE = (
    "Tried on one given table: these numbers are computed from it, without noise. If it is confidential, they are not protected, "
    "and to publish them, or to choose by them, discloses something about it. Of one table, "
    "intervals need not cover as often as they say."
)
_PRIOR = "Tried on tables drawn from a prior: no confidential table was used."


@dataclass(frozen=True, eq=False)
class Design:
    """Intervals of users' posteriors before a release. Made by `bayesdp.design`.

    Attributes
    ----------
    data : xarray.Dataset
        In units of the question. By candidate, question and probability: ``width``, the mean width of the interval, ``width_error``,
        its Monte Carlo standard error, ``coverage`` with Clopper-Pearson limits at 95% (``coverage_low``, ``coverage_high``). By
        candidate and question: ``bias`` of the posterior mean with its standard error ``bias_error``, ``rmse``, and ``used``, the
        number of releases that these are of. By candidate: ``loss``, ``failed`` fits, fits that did ``not_converged``, and
        ``certified``, whether the noise is drawn exactly, so that the loss stands as it is. Attributes: ``tried_on`` (``"prior"`` or
        ``"table"``), ``n``, ``seed``, ``loss`` (``"epsilon"``, ``"rho"`` or ``"mu"``), ``difference`` in words, ``delta`` or NaN.
    errors : mapping from candidate to tuple of str
        What fits failed of, with the number of the release; those are left out of all numbers.
    """

    data: xr.Dataset
    errors: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def candidates(self) -> list[str]:
        """Names of the candidates."""
        return [str(name) for name in self.data["candidate"].values]

    @property
    def questions(self) -> list[str]:
        """Names of the questions; one that has several answers is there with each, as ``by county[Alpha]``."""
        return [str(name) for name in self.data["question"].values]

    @property
    def loss_name(self) -> str:
        """The loss as it is called beside numbers, with its delta."""
        delta = float(self.data.attrs["delta"])
        return str(self.data.attrs["loss"]) + (f" at delta = {delta:g}" if delta > 0.0 else "")

    def to_dataframe(self) -> pd.DataFrame:
        """The table, one row for each candidate, question and probability."""
        return self.data.to_dataframe(dim_order=["candidate", "question", "probability"]).reset_index()

    def plot(self, *, probability: float | None = None, questions: Sequence[str] | None = None) -> Figure:
        """Draw widths against losses, with the arguments of `bayesdp.plots.designs`."""
        drawn: Figure = connected("draw a design")(self, probability=probability, questions=questions)
        return drawn

    def statements(self) -> list[str]:
        """What has to be said beside the numbers, as sentences."""
        about = self.data.attrs
        said = [
            _TABLE if about["tried_on"] == "table" else _PRIOR,
            f"Loss: {self.loss_name} between two tables that agree on the invariants of every candidate and differ by this: "
            f"{about['difference']}. Of the pairs that only some candidates protect, and of what exact answers reveal by "
            "themselves, it says nothing.",
        ]
        weak, bad, lost = [], [], []
        for name in self.candidates:
            own = self.data.sel(candidate=name)
            failed, slow = int(own["failed"]), int(own["not_converged"])
            if not own["certified"]:
                weak.append(name)
            if failed or slow:
                bad.append(f"{name} {failed} failed, {slow} not converged")
            missing = zip(self.questions, (about["n"] - failed - own["used"]).values, strict=True)
            lost += [f"{question} of {name} ({int(k)})" for question, k in missing if k]
        if weak:
            said.append(f"Noise that is not drawn exactly, so that the loss is not certified: {', '.join(weak)}.")
        if bad:
            said.append(f"Of {about['n']} fits each: {'; '.join(bad)}. Failed ones are left out, the others are not.")
        if lost:
            said.append(
                f"No finite answer, in the truth or in a draw, and so left out, which may flatter the rest: {'; '.join(lost)}."
            )
        return [printable(sentence) for sentence in said]

    def __str__(self) -> str:
        shown = self.to_dataframe().sort_values(["question", "loss", "candidate", "probability"], kind="stable")
        listed: Any = shown.itertuples()  # its rows have no types
        rows = [
            {
                "question": printable(row.question),
                "candidate": printable(row.candidate),
                self.data.attrs["loss"]: f"{row.loss:.4g}",
                "interval": f"{100 * row.probability:.10g}%",
                "mean width": f"{row.width:.4g} ± {row.width_error:.2g}",
                "coverage": f"{row.coverage:.3f} [{row.coverage_low:.3f}, {row.coverage_high:.3f}]",
                "bias": f"{row.bias:.2g}",
                "rmse": f"{row.rmse:.3g}",
            }
            for row in listed
        ]
        head = f"Design: {len(self.candidates)} candidates, {len(self.questions)} questions, {self.data.attrs['n']} releases each"
        said = [textwrap.fill(own, _WIDTH, subsequent_indent="  ") for own in self.statements()]
        return "\n".join([head, *said, "", pd.DataFrame(rows).to_string(index=False)])

    def __repr__(self) -> str:
        return f"<Design: {len(self.candidates)} candidates, {len(self.questions)} questions; print it>"


_PROBABILITIES = (0.5, 0.9, 0.95)


def design(
    candidates: Mapping[str, Any],
    prior_or_table: Any,
    questions: Mapping[str, inputs.Question],
    *,
    n: int,
    seed: int,
    model: inputs.Prior | None = None,
    probabilities: Sequence[float] = _PROBABILITIES,
    difference: str | None = None,
    delta: float | None = None,
    client: Any = None,
    workers: int = 1,
    path: str | os.PathLike[str] | None = None,
    progressbar: bool = True,
    **sampler: Any,
) -> Design:
    """Width and coverage of users' posterior intervals for each candidate, beside its loss: before anything is released.

    For each candidate, `n` tables are released by simulation and each release is analysed as a user would, by the exact likelihood
    of its noise and its exact answers. All candidates are tried on the same tables.

    .. warning:: With a given table, the result is computed from it without noise. If the table is confidential, the result is not
       protected: to publish it, or a choice that was made by it, discloses something about the table, and no budget covers it.
       Use a prior, a public table or a synthetic one. The folder `path` holds simulated releases of the table, which are no more
       protected.

    Parameters
    ----------
    candidates : mapping from name to mechanism, list of mechanisms, or function
        A list is released together, each with noise of its own. A function ``release(table, rng)`` gives back a `Release` or several;
        all its randomness must come from the generator.
    prior_or_table : callable, or table of counts
        A function without arguments that makes a `pymc.Model` with one table of `ConfidentialCounts`, from which tables are drawn,
        or one table.
    questions : mapping from name to query or function
        What users want to know. A function gets the counts, a DataArray with dimensions chain, draw and those of the table, and
        gives back one with chain and draw: shares, ratios, odds ratios.
    n, seed : int
        Releases of each candidate, at least 2, and the seed of everything: the same one gives the same result anywhere.
    model : callable, optional
        The model of users' posteriors, a function as for a prior. If left out it is the prior itself; for a given table it is
        `FlatCounts`, all tables alike, which needs exact answers that bound every cell.
    probabilities : sequence of float
        Of the equal-tailed intervals, default 50%, 90% and 95%.
    difference : str, optional
        The difference between two tables at which candidates are compared, one that the invariants of all of them leave free:
        ``"substitution"``, ``"2x2 move"``, ``"3-cycle"``, or others in words; the smallest one if left out.
    delta : float, optional
        Compare by epsilon at this delta. Needed where the candidates' losses do not follow by one definition.
    client, workers, progressbar, **sampler
        As for `bayesdp.calibration.fit_many`.
    path : path, optional
        A folder for the posteriors, made if need be: a run that was stopped goes on where it was; with other `questions` or
        `probabilities` it is not sampled again.

    Raises
    ------
    TypeError, ValueError
        If candidates or questions are about different tables, a candidate is not private or its loss at the difference not known, a
        prior cannot be drawn from, all fits failed, or the folder is of another run.

    Notes
    -----
    With tables drawn from the prior that users have, intervals cover as often as they say (those of whole numbers at least as
    often), up to the error of `n` releases and of the draws. Of one given table they need not. The loss is that of publishing one
    release without a seed.

    Examples
    --------
    >>> import pymc as pm
    >>> import bayesdp as bdp
    >>> labels = {"county": ["Alpha", "Beta"]}
    >>> total = bdp.Totals(labels)
    >>> def prior():
    ...     with pm.Model(coords=labels) as model:
    ...         bdp.ConfidentialCounts("x", pm.Poisson.dist(20.0), dims="county")
    ...     return model
    >>> result = bdp.design(
    ...     {"small": bdp.LatticeLaplace(total, epsilon=0.1), "large": bdp.LatticeLaplace(total, epsilon=1.0)},
    ...     prior,
    ...     {"Alpha": lambda x: x.sel(county="Alpha")},
    ...     n=2, seed=1, draws=200, tune=50, chains=2, progressbar=False,
    ... )
    >>> result.data["loss"].values
    array([0.2, 2. ])
    >>> wide, narrow = result.data["width"].sel(probability=0.95, question="Alpha").values
    >>> bool(wide > narrow)
    True
    """  # fmt: skip
    listed = inputs.checked_candidates(candidates)
    count, own_seed = _validate.positive_integer(n, "n"), _validate.nonnegative_integer(seed, "seed")
    if count < 2:
        raise ValueError("n must be at least 2, so that widths have a Monte Carlo error, got 1")
    levels = _levels(probabilities)
    _validate.instance(model, Callable | None, "model must be a function that gives back a pymc.Model")
    prior: inputs.Prior | None = prior_or_table if callable(prior_or_table) else None
    frame = next((own.frame for candidate in listed for own in candidate.mechanisms), None)
    if frame is None:  # all candidates are functions
        frame = Frame.of(prior_or_table) if prior is None else inputs.frame_of_prior(prior)
    for own in listed:
        for mechanism in own.mechanisms:
            own.check(mechanism.frame, frame)
    asked = inputs.checked_questions(questions, frame)
    if prior is None:
        tables = np.broadcast_to(confidential_counts(prior_or_table, frame).reshape(frame.shape), (count, *frame.shape))
    else:
        tables = inputs.drawn_tables(prior, frame, count, _seed(own_seed, 0))
    # What is wrong with a question shows before anything is fitted.
    inputs.answers(asked, inputs.labelled(tables[:1][None], frame))
    releases = {
        own.name: [
            own.release(inputs.labelled(table, frame), _rng(own_seed, k, number)) for number, table in enumerate(tables)
        ]
        for k, own in enumerate(listed)
    }
    firsts = {name: found[0] for name, found in releases.items()}
    losses = inputs.losses_of(firsts, difference, delta)
    analysis = inputs.Analysis(model or prior)
    for name, first in firsts.items():
        try:
            analysis(first)
        except (TypeError, ValueError) as error:
            raise ValueError(f"candidates[{name!r}] cannot be analysed with this model: {error}") from error
    folder = None if path is None else Path(path)
    if folder is not None:
        folder.mkdir(exist_ok=True)
    parts, errors = [], {}
    for k, (name, found) in enumerate(releases.items()):
        fits = fit_many(
            {str(number): own if len(own) > 1 else own[0] for number, own in enumerate(found)},
            analysis,
            seed=_seed(own_seed, 2, k),
            client=client,
            workers=workers,
            path=None if folder is None else folder / f"{k:03d}",
            progressbar=progressbar,
            **sampler,
        )
        errors[name] = tuple(f"{number}: {error}" for number, error in fits.failures.items())
        parts.append(_judged(fits, tables, frame, analysis.table, asked, levels))
    if all(int(part["failed"]) == count for part in parts):
        name, found_errors = next(iter(errors.items()))
        raise ValueError(f"all fits failed; the first one of candidates[{name!r}] is {found_errors[0]}")
    about = {"tried_on": "prior" if prior else "table", "n": count, "seed": own_seed}
    return _result(parts, errors, firsts, losses, about)


def _levels(probabilities: Any) -> list[float]:
    given = list(probabilities) if isinstance(probabilities, (Sequence, np.ndarray)) else [probabilities]
    levels = [_validate.probability(own, "probabilities") for own in given]
    if not levels or len(set(levels)) < len(levels):
        raise ValueError(f"probabilities must be at least one, all different, got {probabilities!r}")
    return sorted(levels)


def _rng(seed: int, candidate: int, number: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1, candidate, number)))


def _seed(seed: int, *place: int) -> int:
    """The seed of tables that are drawn, place 0, and of the fits of each candidate, places (2, candidate)."""
    return int(np.random.SeedSequence(seed, spawn_key=place).generate_state(1)[0])


def _judged(
    fits: Fits, tables: Ints, frame: Frame, name: str, questions: Mapping[str, inputs.Question], levels: Sequence[float]
) -> xr.Dataset:
    """What the posteriors of one candidate come to."""
    truths = [inputs.answers(questions, inputs.labelled(table[None, None], frame)) for table in tables]
    rows = np.full((len(tables), len(truths[0]), 2 + 2 * len(levels)), np.nan)
    slow = 0
    for number, truth in enumerate(truths):
        if str(number) not in fits:
            continue
        tree = fits[str(number)]
        counts = inputs.labelled(tree["posterior"][name].transpose("chain", "draw", ...).values, frame)
        draws = inputs.answers(questions, counts)
        rows[number] = [row_of(float(true[0, 0]), draws[label], levels) for label, true in truth.items()]
        slow += not converged_of(tree)
    summary = summary_of(rows, levels, list(truths[0]))
    return summary.assign(failed=len(fits.failures), not_converged=slow)


def _result(
    parts: Sequence[xr.Dataset],
    errors: Mapping[str, Sequence[str]],
    firsts: Mapping[str, inputs.Releases],
    losses: inputs.Losses,
    about: Mapping[str, Any],
) -> Design:
    data = xr.concat(parts, xr.DataArray(list(firsts), dims="candidate", name="candidate"))
    exact = [all(own.guarantee is None or own.guarantee.certified for own in found) for found in firsts.values()]
    data["loss"] = "candidate", [losses.values[name] for name in firsts]
    data["certified"] = "candidate", exact
    delta = float("nan") if losses.delta is None else losses.delta
    data.attrs = {**about, "loss": losses.name, "difference": losses.difference, "delta": delta}
    return Design(data, dict(errors))
