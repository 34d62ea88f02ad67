"""Try candidates for a release before one is made: how wide and how right users' intervals would be, at which loss."""

from __future__ import annotations

import json
import os
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from bayesdp import _text, _validate
from bayesdp._text import printable
from bayesdp._wiring import connected
from bayesdp.calibration.design_inputs import (
    Analysis,
    Candidate,
    Losses,
    Prior,
    Question,
    Releases,
    answers,
    checked_candidates,
    checked_questions,
    counts_name,
    drawn_tables,
    frame_of_prior,
    labelled,
    losses_of,
)
from bayesdp.calibration.fits import Fits, fit_many
from bayesdp.calibration.verdict import share_limits
from bayesdp.frames import Frame
from bayesdp.inference.runs.fingerprint import described_model, difference, fingerprint
from bayesdp.mechanisms.base import confidential_counts
from bayesdp.posterior import converged_of

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
        By candidate, question and probability: ``width``, the mean width of the interval, ``width_error``, its Monte Carlo standard
        error, ``coverage`` with Clopper-Pearson limits at 95% (``coverage_low``, ``coverage_high``). By candidate and question:
        ``bias`` of the posterior mean with its standard error ``bias_error``, ``rmse``, and ``used``, the number of releases
        that these are of. By candidate: ``loss``, ``failed`` fits, fits that did ``not_converged``, and ``certified``, whether
        the noise is drawn exactly, so that the loss stands as it is. All in units of the question.
        Attributes: ``tried_on`` (``"prior"`` or ``"table"``), ``n``, ``seed``, ``loss`` (``"epsilon"``, ``"rho"`` or
        ``"mu"``), ``difference`` in words, ``delta`` (NaN without one).
    errors : mapping from candidate to tuple of str
        What fits failed of, with the number of the release; those are left out of all numbers.

    Examples
    --------
    See `bayesdp.design`.
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
        """The table, one row for each candidate, question and probability.

        Returns
        -------
        pandas.DataFrame
        """
        return self.data.to_dataframe(dim_order=["candidate", "question", "probability"]).reset_index()

    def plot(self, *, probability: float | None = None, questions: Sequence[str] | None = None) -> Figure:
        """Draw widths against losses, see `bayesdp.plots.designs`.

        Parameters
        ----------
        probability, questions
            As there.

        Returns
        -------
        matplotlib.figure.Figure
        """
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
        weak = [name for name, sure in zip(self.candidates, self.data["certified"].values, strict=True) if not sure]
        if weak:
            said.append(f"Noise that is not drawn exactly, so that the loss is not certified: {', '.join(weak)}.")
        bad = [
            f"{name} {failed} failed, {slow} not converged"
            for name, failed, slow in zip(
                self.candidates, self.data["failed"].values, self.data["not_converged"].values, strict=True
            )
            if failed or slow
        ]
        if bad:
            said.append(f"Of {about['n']} fits each: {'; '.join(bad)}. Failed ones are left out, the others are not.")
        fits = about["n"] - self.data["failed"]
        lost = [
            f"{question} of {name} ({int(k)})"
            for name, row in zip(
                self.candidates, (fits - self.data["used"]).transpose("candidate", ...).values, strict=True
            )
            for question, k in zip(self.questions, row, strict=True)
            if k
        ]
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


_FORMAT = "bayesdp-design-1"
_NAME = "design.json"


def folder_of(path: Path, about: Mapping[str, Any]) -> Path:
    """Make the folder of a run, or find it."""
    path.mkdir(exist_ok=True)
    head, file = {"format": _FORMAT, **about}, path / _NAME
    if not file.exists():
        if any(path.iterdir()):
            raise ValueError(f"{str(path)!r} has files and is not of a design: name another folder, or an empty one")
        file.write_text(json.dumps(head), encoding="utf-8")
        return path
    try:
        found: Any = _text.loads(file.read_text(encoding="utf-8"), str(file))
    except (UnicodeDecodeError, ValueError) as error:
        raise ValueError(f"{str(file)!r} is damaged ({error}): name another folder") from error
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise ValueError(f"{str(file)!r} is not a file of this kind: name another folder")
    differs = difference(found, head)
    if differs:
        raise ValueError(f"{str(path)!r} is of another run: {differs}; name another folder to start afresh")
    return path


type Floats = npt.NDArray[np.float64]

_LIMITS = 0.95
"""Of the Clopper-Pearson limits of a coverage."""


def row_of(truth: Mapping[str, Floats], draws: Mapping[str, Floats], probabilities: Sequence[float]) -> Floats:
    """Truth, posterior mean, and the ends of each interval, by question."""
    # An end is a draw (of whole numbers an interval so has whole ends, and may hold more than its probability). Returns shape
    # (question, 2 + 2 * probabilities): NaN in the whole row of a question that has no finite answer in the truth or in a draw.
    tails = np.array([[(1.0 - p) / 2.0, (1.0 + p) / 2.0] for p in probabilities]).reshape(-1)
    rows = np.full((len(truth), 2 + tails.size), np.nan)
    for row, (label, true) in zip(rows, truth.items(), strict=True):
        many = draws[label]
        if np.isfinite(true[0, 0]) and np.all(np.isfinite(many)):
            ends = np.quantile(many, tails, method="inverted_cdf")
            row[:] = [true[0, 0], many.mean(), *ends]
    return rows


def summary_of(rows: Floats, probabilities: Sequence[float], questions: Sequence[str]) -> xr.Dataset:
    """Mean widths, coverage, bias and error over many releases of one candidate."""
    # `rows`, shape (release, question, 2 + 2 * probabilities): of `row_of`; NaN where there is nothing.
    n = np.sum(~np.isnan(rows[:, :, 0]), axis=0)
    error = rows[:, :, 1] - rows[:, :, 0]
    low, high, true = rows[:, :, 2::2], rows[:, :, 3::2], rows[:, :, :1]
    hits = np.sum((low <= true) & (true <= high), axis=0)  # no comparison with NaN is true
    lowest, highest = share_limits(hits, n[:, None], _LIMITS)
    with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # where no release, or only one, has a number
        by_probability = {
            "width": np.nanmean(high - low, axis=0),
            "width_error": np.nanstd(high - low, axis=0, ddof=1) / np.sqrt(n[:, None]),
            "coverage": hits / n[:, None],
            "coverage_low": lowest,
            "coverage_high": highest,
        }
        by_question = {
            "bias": np.nanmean(error, axis=0),
            "bias_error": np.nanstd(error, axis=0, ddof=1) / np.sqrt(n),
            "rmse": np.sqrt(np.nanmean(error**2, axis=0)),
            "used": n,
        }
    return xr.Dataset(
        {key: (("question", "probability"), value) for key, value in by_probability.items()}
        | {key: (("question",), value) for key, value in by_question.items()},
        coords={"question": list(questions), "probability": list(probabilities)},
    )


_PROBABILITIES = (0.5, 0.9, 0.95)


def design(
    candidates: Mapping[str, Any],
    prior_or_table: Any,
    questions: Mapping[str, Question],
    *,
    n: int,
    seed: int,
    model: Prior | None = None,
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
    n : int
        Releases of each candidate, at least 2.
    seed : int
        Of everything: the same seed gives the same result, wherever it is computed.
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

    Returns
    -------
    Design
        ``print`` it, ``.to_dataframe()``, ``.plot()``.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type; candidates or questions are about different tables; a candidate is not private, or its
        loss at the difference is not known; a prior cannot be drawn from or draws negative counts; the first release of a
        candidate cannot be analysed; all fits failed, or the folder is of another run.
    OSError
        If the folder cannot be written.

    Notes
    -----
    With tables drawn from the prior that users have, intervals cover as often as they say (those of whole numbers at least as
    often), up to the error of `n` releases and of the draws. Of one given table they need not. The loss
    is that of publishing one release without a seed.

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
    listed = checked_candidates(candidates)
    count, own_seed = _validate.positive_integer(n, "n"), _validate.nonnegative_integer(seed, "seed")
    if count < 2:
        raise ValueError("n must be at least 2, so that widths have a Monte Carlo error, got 1")
    levels = _levels(probabilities)
    if model is not None and not callable(model):
        raise TypeError(f"model must be a function that gives back a pymc.Model, got {type(model).__name__}")
    prior: Prior | None = prior_or_table if callable(prior_or_table) else None
    frame = _frame(listed, prior, prior_or_table)
    for own in listed:
        own.check(frame)
    asked = checked_questions(questions, frame)
    tables = _tables(prior, prior_or_table, frame, count, own_seed)
    answers(asked, labelled(tables[:1][None], frame))  # what is wrong with a question shows before anything is fitted
    releases = {
        own.name: [
            own.release(labelled(table, frame), _rng(own_seed, k, number)) for number, table in enumerate(tables)
        ]
        for k, own in enumerate(listed)
    }
    firsts = {name: found[0] for name, found in releases.items()}
    losses = losses_of(firsts, difference, delta)
    analysis = Analysis(model or prior)
    models = {name: _first_model(name, analysis, found) for name, found in firsts.items()}
    folder = None
    if path is not None:
        described = {name: described_model(own) for name, own in models.items()}
        folder = folder_of(
            Path(path),
            fingerprint(candidates=list(releases), n=count, seed=own_seed, releases=releases, models=described),
        )
    parts, errors = [], {}
    for k, (name, found) in enumerate(releases.items()):
        fits = fit_many(
            {str(number): own if len(own) > 1 else own[0] for number, own in enumerate(found)},
            analysis,
            seed=_fit_seed(own_seed, k),
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
    return _result(
        parts, errors, firsts, losses, {"tried_on": "prior" if prior else "table", "n": count, "seed": own_seed}
    )


def _levels(probabilities: Any) -> list[float]:
    given = list(probabilities) if isinstance(probabilities, (Sequence, np.ndarray)) else [probabilities]
    levels = [_validate.probability(own, "probabilities") for own in given]
    if not levels or len(set(levels)) < len(levels):
        raise ValueError(f"probabilities must be at least one, all different, got {probabilities!r}")
    return sorted(levels)


def _frame(listed: Sequence[Candidate], prior: Prior | None, table: Any) -> Frame:
    """The labels of the table: of the first mechanism, or else of the prior or the table given."""
    known = next((own.frame for candidate in listed for own in candidate.mechanisms), None)
    if known is not None:
        return known
    return Frame.of(table) if prior is None else frame_of_prior(prior)


def _tables(prior: Prior | None, table: Any, frame: Frame, n: int, seed: int) -> npt.NDArray[np.int64]:
    """The truths, shape (n, *table)."""
    if prior is None:
        return np.broadcast_to(confidential_counts(table, frame).reshape(frame.shape), (n, *frame.shape))
    drawn = int(np.random.SeedSequence(seed, spawn_key=(0,)).generate_state(1)[0])
    counts_name(prior, "prior_or_table")
    return drawn_tables(prior, frame, n, drawn)


def _rng(seed: int, candidate: int, number: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1, candidate, number)))


def _fit_seed(seed: int, candidate: int) -> int:
    return int(np.random.SeedSequence(seed, spawn_key=(2, candidate)).generate_state(1)[0])


def _first_model(name: str, analysis: Analysis, releases: Releases) -> Any:
    try:
        return analysis(releases)
    except (TypeError, ValueError) as error:
        raise ValueError(f"candidates[{name!r}] cannot be analysed with this model: {error}") from error


def _judged(
    fits: Fits,
    tables: npt.NDArray[np.int64],
    frame: Frame,
    name: str,
    questions: Mapping[str, Question],
    levels: Sequence[float],
) -> xr.Dataset:
    """What the posteriors of one candidate come to."""
    truths = [answers(questions, labelled(table[None, None], frame)) for table in tables]
    rows = np.full((len(tables), len(truths[0]), 2 + 2 * len(levels)), np.nan)
    slow = 0
    for number, truth in enumerate(truths):
        if str(number) not in fits:
            continue
        tree = fits[str(number)]
        counts = labelled(tree["posterior"][name].transpose("chain", "draw", ...).values, frame)
        rows[number] = row_of(truth, answers(questions, counts), levels)
        slow += not converged_of(tree)
    summary = summary_of(rows, levels, list(truths[0]))
    return summary.assign(failed=len(fits.failures), not_converged=slow)


def _result(
    parts: Sequence[xr.Dataset],
    errors: Mapping[str, Sequence[str]],
    firsts: Mapping[str, Releases],
    losses: Losses,
    about: Mapping[str, Any],
) -> Design:
    data = xr.concat(parts, xr.DataArray(list(firsts), dims="candidate", name="candidate"))
    exact = [all(own.guarantee is None or own.guarantee.certified for own in found) for found in firsts.values()]
    data["loss"] = "candidate", [losses.values[name] for name in firsts]
    data["certified"] = "candidate", exact
    delta = float("nan") if losses.delta is None else losses.delta
    data.attrs = {**about, "loss": losses.name, "difference": losses.difference, "delta": delta}
    return Design(data, dict(errors))
