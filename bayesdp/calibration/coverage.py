"""Do intervals hold the truth as often as they claim? For the posterior, and for analyses without its likelihood beside it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor
import xarray as xr

from bayesdp import _validate
from bayesdp.calibration.fits import SAMPLER, Build, Refit, Simulations, Update, quiet_sample
from bayesdp.calibration.quantities import (
    Quantities,
    Simulate,
    as_draws,
    as_points,
    checked_quantities,
    evaluate,
    scalars,
)
from bayesdp.calibration.runs import by_name, numbers
from bayesdp.calibration.verdict import share_limits
from bayesdp.distributions.confidential_counts import ConfidentialCountsRV
from bayesdp.measurements import Measured
from bayesdp.noise import DiscreteGaussian
from bayesdp.queries import Identity
from bayesdp.release import Release

type Floats = npt.NDArray[np.float64]

NAIVE: Mapping[str, str] = {
    "noise ignored": "published counts are taken for the confidential ones, those below zero as zero, and rounded",
    "invariants ignored": "noise is taken for independent in the cells, with the variance it has, and exact answers are left out",
    "post-processed": (
        "published counts are moved to the nearest table without negative cells that has the exact answers, and taken for "
        "the confidential ones"
    ),
}
"""The analyses that `coverage` knows, and what each does."""

_TABLE = "as_published"


@dataclass(frozen=True)
class Analysis:
    """An analysis: what is read of a release, its model, and new values of the model's data, see `Refit`."""

    name: str
    build_model: Build
    update: Update | None = None
    read: Callable[[Any], Any] = lambda release: release


def _naive_analysis(name: str, build_model: Build) -> Analysis:
    """Make the model of a naive analysis out of that of the right one."""
    # `name`: see `NAIVE`. `build_model`: the right analysis: from a release with one noisy number for each cell to a model with one
    # table of counts.
    if name not in NAIVE:
        raise ValueError(f"naive names {name!r}; known analyses are {', '.join(NAIVE)}")
    if name == "invariants ignored":
        return Analysis(name, build_model, read=_independent)
    table = _rounded if name == "noise ignored" else _nearest

    def build(release: Any) -> pm.Model:
        model = build_model(_independent(release))
        counts = [rv.name for rv in model.free_RVs if isinstance(rv.owner.op, ConfidentialCountsRV)]
        if len(counts) != 1:
            raise ValueError(f"{name!r} needs a model with one table of counts, got {len(counts)}")
        # `pm.observe` copies the data of a model, but not what it is given: to be data of the result, the table must be registered
        # there, or new values of it would change nothing.
        data = pytensor.shared(table(release).astype(np.float64), name=_TABLE)
        observed = pm.observe(model, {counts[0]: data.astype("int64")})
        observed.register_data_var(data)
        return observed

    return Analysis(name, build, lambda release: {_TABLE: table(release).astype(np.float64)})


def _noisy(release: Any) -> Measured:
    """The only measurement of a release, which must have a noisy number for each cell."""
    if not isinstance(release, Release) or len(release.measurements) != 1:
        raise ValueError("naive analyses need a bayesdp.Release with one measurement")
    measured = release.measurements[0]
    if measured.query != Identity(release.frame) or measured.unmeasured.any():
        raise ValueError("naive analyses need a noisy number for each cell of the table")
    return measured


def _independent(release: Any) -> Release:
    """The release that a naive analyst reads: noisy cells only, with independent discrete Gaussian noise of their variances."""
    measured = _noisy(release)
    shape, invariants = measured.query.shape, measured.noise_invariants
    variance: Any = measured.law.variance(shape, invariants)
    if variance is None:  # no closed form: by simulation, the same number every time
        variance = np.var(measured.law.draw(np.random.default_rng(0), shape, 4000, invariants), axis=0)
    sigma = np.sqrt(np.maximum(variance, 1e-12))
    values = np.rint(measured.values).astype(np.int64)
    return Release(release.frame, (Measured(measured.query, values, DiscreteGaussian(sigma)),), ())


def _rounded(release: Any) -> npt.NDArray[np.int64]:
    """The published cells, rounded, and 0 where they are negative."""
    return np.maximum(np.rint(_noisy(release).values), 0).astype(np.int64)


def _nearest(release: Any) -> npt.NDArray[np.int64]:
    """A whole table with the exact answers near the published one: least absolute distance, by integer programming."""
    from scipy import optimize, sparse

    noisy = np.asarray(_noisy(release).values, dtype=np.float64).reshape(-1)
    size = noisy.size
    # Minimise the sum of s with -s <= x - noisy <= s, the exact answers, x >= 0 and whole.
    eye = sparse.eye_array(size)
    rows = [
        optimize.LinearConstraint(sparse.hstack([eye, -eye]), -np.inf, noisy),
        optimize.LinearConstraint(sparse.hstack([eye, eye]), noisy, np.inf),
    ]
    for part in release.exact:
        matrix = sparse.csr_array(part.query.matrix, dtype=np.float64)
        answers = np.asarray(part.values, dtype=np.float64).reshape(-1)
        low = answers if part.sign != "<=" else np.full(answers.shape, -np.inf)
        high = answers if part.sign != ">=" else np.full(answers.shape, np.inf)
        rows.append(optimize.LinearConstraint(sparse.hstack([matrix, sparse.csr_array(matrix.shape)]), low, high))
    cost = np.concatenate([np.zeros(size), np.ones(size)])
    whole = np.concatenate([np.ones(size), np.zeros(size)])
    found = optimize.milp(cost, constraints=rows, integrality=whole, bounds=optimize.Bounds(0, np.inf))
    if found.x is None:
        raise ValueError(f"no table without negative cells has the exact answers: {found.message}")
    return np.asarray(np.rint(found.x[:size]).astype(np.int64).reshape(release.frame.shape))


def row_of(true: float, draws: Floats, probabilities: Sequence[float]) -> Floats:
    """Truth, posterior mean, and the ends of each equal-tailed interval; all NaN where truth or draws are not finite."""
    # An end is a draw: of whole numbers an interval so has whole ends, and may hold more than its probability.
    tails = np.array([[(1.0 - p) / 2.0, (1.0 + p) / 2.0] for p in probabilities]).reshape(-1)
    if not (np.isfinite(true) and np.all(np.isfinite(draws))):
        return np.full(2 + tails.size, np.nan)
    return np.array([true, draws.mean(), *np.quantile(draws, tails, method="inverted_cdf")])


def summary_of(rows: Floats, probabilities: Sequence[float], names: Sequence[str], limits: float = 0.95) -> xr.Dataset:
    """Mean widths, coverage with its Clopper-Pearson limits, bias and error over many releases."""
    # `rows`, shape (release, name, 2 + 2 * probabilities): of `row_of`.
    n = np.sum(~np.isnan(rows[:, :, 0]), axis=0)
    error = rows[:, :, 1] - rows[:, :, 0]
    low, high, true = rows[:, :, 2::2], rows[:, :, 3::2], rows[:, :, :1]
    hits = np.sum((low <= true) & (true <= high), axis=0)  # no comparison with NaN is true
    lowest, highest = share_limits(hits, n[:, None], limits)
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
        coords={"question": list(names), "probability": list(probabilities)},
    )


@dataclass(kw_only=True)
class _Repeat(Simulations):
    """A task of a number: simulate one release, and compute the intervals of each analysis of it."""

    naive: list[str]
    probability: float

    @property
    def analyses(self) -> list[tuple[Analysis, Refit]]:
        """The analysis by the explicit likelihood and the naive ones, each with its model."""
        if self._refit is None:
            right = Analysis("posterior", self.build_model, self.update)
            listed = [right, *(_naive_analysis(name, self.build_model) for name in self.naive)]
            first = self.first
            self._refit = [(own, Refit(own.build_model, own.read(first), own.update)) for own in listed]
        return self._refit

    def _sampled(self, model: pm.Model, seed: int) -> xr.Dataset:
        """Draws of the posterior; a single point without variables where a naive analysis leaves nothing unknown."""
        if not model.free_RVs:
            return xr.Dataset(coords={"chain": [0], "draw": [0]})
        return quiet_sample(model, SAMPLER | self.sampler, seed)["posterior"].to_dataset()

    def __call__(self, number: int) -> dict[str, Any]:
        truth, seed = self.draw(number), int(self.streams(number)[1].generate_state(1)[0])
        found: dict[str, dict[str, list[float]]] = {}
        for analysis, refit in self.analyses:
            model = refit.model(analysis.read(truth.release))
            posterior = _with_fixed(self._sampled(model, seed), model, truth.truth)
            points = as_points(truth, posterior)
            known = [str(variable) for variable in points.data_vars]
            for quantity, function in checked_quantities(self.quantities or known, known).items():
                true, draws = (evaluate(quantity, function, data, truth.release) for data in (points, posterior))
                for (label, one), (_, many) in zip(scalars(quantity, true), scalars(quantity, draws), strict=True):
                    row = row_of(float(one[0, 0]), many, [self.probability])
                    found.setdefault(label, {})[analysis.name] = row.tolist()
        return {"number": number, "found": found}


def _with_fixed(posterior: xr.Dataset, model: pm.Model, truth: Mapping[str, Any]) -> xr.Dataset:
    """Add the table that a naive analysis takes for known to its posterior, with the same value in every draw."""
    for rv in model.observed_RVs:
        if rv.name in truth and rv.name not in posterior:
            data = model[_TABLE].get_value()
            spread = np.broadcast_to(data, (posterior.sizes["chain"], posterior.sizes["draw"], *data.shape))
            posterior[rv.name] = as_draws(model, rv.name, spread)
    return posterior


def coverage(
    simulate: Simulate,
    build_model: Build,
    quantities: Quantities = None,
    *,
    n: int,
    seed: int,
    probability: float = 0.95,
    naive: Iterable[str] = (),
    client: Any = None,
    workers: int = 1,
    update: Update | None = None,
    path: str | os.PathLike[str] | None = None,
    progressbar: bool = True,
    **sampler: Any,
) -> xr.Dataset:
    """Coverage, bias and error of intervals over repeated releases.

    Parameters
    ----------
    simulate : callable
        As for `sbc`. With a truth drawn from the prior, intervals cover as often as they say. With one fixed truth, which is
        what a single table is, they need not: a prior that is far from it makes them fail.
    build_model : callable
    quantities : optional
        As for `sbc`, without the log-likelihood.
    n : int
        Releases.
    seed : int
    probability : float
        Of the equal-tailed intervals.
    naive : iterable of str
        Analyses to compare with, see `bayesdp.calibration.NAIVE`.
    client, workers, update, path, progressbar, **sampler
        As for `sbc`.

    Returns
    -------
    xarray.Dataset, dims (analysis, quantity)
        ``coverage`` with its Clopper-Pearson limits at 99% (``coverage_low``, ``coverage_high``), ``bias``, ``rmse`` of
        the mean, ``width`` of the intervals. Attributes ``n``, ``failed``, ``errors``.

    Raises
    ------
    ValueError
        If all fits failed, or an analysis is unknown or does not apply.
    """
    names = list(naive)
    for name in names:
        _naive_analysis(name, build_model)
    level = _validate.probability(probability, "probability")
    count = _validate.positive_integer(n, "n")
    task = _Repeat(simulate, build_model, quantities, seed, update, dict(sampler), naive=names, probability=level)
    where: Any = {"path": path, "client": client, "workers": workers, "progressbar": progressbar}
    good, bad, _ = task.run(count, "releases", {"found": by_name(by_name(numbers(4)))}, **where, what="coverage")
    labels, analyses = list(good[0]["found"]), list(next(iter(good[0]["found"].values())))
    parts = []
    for analysis in analyses:
        rows = np.array([[record["found"][label][analysis] for label in labels] for record in good])
        part = summary_of(rows, [level], labels, 0.99).isel(probability=0, drop=True)
        parts.append(part.where(part["used"] == len(good)))
    found = xr.concat(parts, xr.DataArray(analyses, dims="analysis", name="analysis")).rename(question="quantity")
    found.attrs = {
        "n": len(good),
        "failed": len(bad),
        "errors": "; ".join(f"{record['number']}: {record['error']}" for record in bad),
        "probability": level,
    }
    return found[["coverage", "coverage_low", "coverage_high", "bias", "rmse", "width"]]
