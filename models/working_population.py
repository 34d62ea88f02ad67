"""People at work in Australia by area, sex, age and hours, 2016: every number published, every number perturbed on its own.

The office perturbs each number of a table by a cell key, and publishes cells, all margins, and larger areas: women and men do
not add up to persons, nor areas to states, by up to 9 people and more. Its law is not published; the one used here is an assumption
(`bayesdp.datasets.working_population` says which, and what for). Every published number is a measurement of one table of whole
numbers, whose posterior adds up. Whether it is right can be seen without the truth: leave published numbers out, and predict them.

Read from top to bottom: this is how a model of such tables is written. Run it with ``python models/working_population.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import xarray as xr
from scipy.stats import rankdata

import bayesdp as bdp

__all__ = ["build_model", "by_hand", "full_time_share", "leave_out", "predict", "sum_interval", "without_areas"]

OVER_55 = ["55_59", "60_64", "65_69", "70_74", "75ov"]


def leave_out(release: bdp.Release, *levels: str) -> tuple[bdp.Release, list[bdp.Measured]]:
    """The release without what was published of these levels of areas (names of groups), and that."""
    out = [own for own in release.measurements if set(levels) & set(own.query.dims)]
    kept = [own for own in release.measurements if not set(levels) & set(own.query.dims)]
    return bdp.Release.from_published(release.frame, kept), out


def without_areas(release: bdp.Release, areas: Sequence[str]) -> tuple[bdp.Release, list[bdp.Measured]]:
    """The release without all 210 numbers of some of its smallest areas, and what was published of these."""
    smallest = release.dims[0]
    kept: list[bdp.Measured] = []
    out: list[bdp.Measured] = []
    for own in release.measurements:
        if smallest not in own.query.dims:
            kept.append(own)
            continue
        there = np.isin(own.query.coords[smallest], areas).reshape(-1, *[1] * (own.values.ndim - 1))
        for mask, to in ((there, kept), (~there, out)):
            unmeasured = np.broadcast_to(mask, own.values.shape)
            to.append(bdp.Measured(own.query, np.where(unmeasured, np.nan, own.values), own.law, unmeasured=unmeasured))
    return bdp.Release.from_published(release.frame, kept), out


def build_model(release: bdp.Release, variation: float | None = None) -> pm.Model:
    """Areas that share a profile of sex, age and status, from which each cell departs by a factor of its own.

    Parameters
    ----------
    release : Release
        Of a table of areas by sex, age and status, cells first.
    variation : float, optional
        Standard deviation of the factors; learnt if left out.

    Returns
    -------
    pymc.Model

    Notes
    -----
    ``x[area, sex, age, status]`` is negative binomial with mean ``persons[area] * share[sex, age, status]``: Poisson counts whose
    gamma factors are integrated out. Persons and shares are taken from the published numbers as they are, which are hundreds and
    thousands, known to within 3. Of most cells, too, the published numbers say nearly everything; the prior matters where counts are
    as small as deviations, and in areas of which nothing was published: of these, only larger areas are known, and `persons` is what
    others leave of them.
    """
    cells = release.measurements[0]
    known = np.where(cells.unmeasured, 0, cells.values)
    share = (known.sum(axis=0) + 0.5) / (known.sum() + 0.5 * known[0].size)
    mean = _persons(release)[:, None, None, None] * share

    with pm.Model(coords=release.coords) as model:
        spread = pm.HalfNormal("variation", 1.0) if variation is None else variation
        base = pm.NegativeBinomial.dist(mu=mean, alpha=np.ones_like(mean) / spread**2)
        x = bdp.ConfidentialCounts("x", base, dims=release.dims)
        bdp.observe(release, x)
    return model


def _persons(release: bdp.Release) -> npt.NDArray[np.float64]:
    """About how many people are in each area: as published, or what is left of the next larger one."""
    area = release.dims[0]
    totals = {own.query.dims: own for own in release.measurements if len(own.query.dims) == 1}
    own = totals[(area,)]
    found = np.where(own.unmeasured, np.nan, own.values).astype(float)
    if own.unmeasured.any():
        group, _, codes = release.frame.groups[0]
        above = dict(zip(totals[(group,)].query.coords[group], totals[(group,)].values, strict=True))
        whole = np.array([above[code] for code in codes], dtype=float)
        others = np.array([np.nansum(found[np.array(codes) == code]) for code in codes])
        missing = np.array([(np.isnan(found) & (np.array(codes) == code)).sum() for code in codes])
        found = np.where(np.isnan(found), (whole - others) / np.maximum(missing, 1), found)
    people: npt.NDArray[np.float64] = np.maximum(found, 1.0)
    return people


def predict(
    release: bdp.Release, left_out: Sequence[bdp.Measured], counts: npt.NDArray[np.int64], level: float
) -> xr.Dataset:
    """Intervals for published numbers that the posterior has not seen, and whether they hold them.

    Parameters
    ----------
    release : Release
        What the posterior is given.
    left_out : sequence of Measured
        What it is not given.
    counts : array of int, shape (draws, *table)
        Draws of the table.
    level : float
        Such as 0.9. Limits are quantiles of a law on whole numbers, so that an interval's probability is higher.

    Returns
    -------
    xarray.Dataset
        By answer: ``lower``, ``upper``, ``published``, ``probability`` of the interval, and ``held``.

    Notes
    -----
    The predictive law is averaged over draws of the counts, not drawn. Under cell keys, an answer about the same people as a published
    one has the same number: a random number for each cell that is not empty, added up over an answer, tells whom it is about.
    """
    flat = counts.reshape(len(counts), -1)
    keys = np.random.default_rng(0).integers(1, 2**62, flat.shape[1]) * (flat > 0)
    there = [own for own in release.measurements if not own.unmeasured.all()]
    stated = np.concatenate([own.values[~own.unmeasured] for own in there]).astype(np.int64)
    about = np.hstack([_sums(own.query, keys)[:, ~own.unmeasured.reshape(-1)] for own in there])
    rows = []
    for own in left_out:
        sums, same_people = _sums(own.query, flat), _published_of(about, stated, _sums(own.query, keys))
        for i in np.flatnonzero(~own.unmeasured.reshape(-1)):
            same = same_people[:, i]
            grid = np.arange(max(int(sums[:, i].min()) - 9, 0), int(sums[:, i].max()) + 10)  # laws reach no farther
            free, times = np.unique(sums[same < 0, i], return_counts=True)
            mass = times @ _mass(own.law, grid, free[:, None]) + (same[:, None] == grid).sum(axis=0)
            rows.append((*_interval(grid, mass / mass.sum(), level), own.values.reshape(-1)[i]))
    return _held(rows)


def by_hand(release: bdp.Release, left_out: Sequence[bdp.Measured], level: float) -> xr.Dataset:
    """What is done without a posterior: published numbers of the parts added up, with the law of as many deviations and one more.

    Returns
    -------
    xarray.Dataset
        As of `predict`, and ``smallest``: the smallest published number that was added. For counts of 6 and more the law is exact.
    """
    parts = {own.query.dims[1:]: own for own in release.measurements if own.query.dims[0] == release.dims[0]}
    rows, least = [], []
    for own in left_out:
        group, *kept = own.query.dims
        codes = np.array(dict((name, labels) for name, _, labels in release.frame.groups)[group])
        for code, whole in zip(own.query.coords[group], own.values, strict=True):
            values = parts[tuple(kept)].values[codes == code]
            low, high, probability = sum_interval(own.law, len(values) + 1, level)
            for total, published in zip(values.sum(axis=0).reshape(-1), np.reshape(whole, -1), strict=True):
                rows.append((total + low, total + high, probability, published))
            least += values.min(axis=0).reshape(-1).tolist()
    return _held(rows).assign(smallest=("answer", least))


def sum_interval(law: Any, terms: int, level: float) -> tuple[int, int, float]:
    """Limits of a sum of deviations of that many large counts, and the probability of what is between them."""
    deviations = np.ones(1)
    for _ in range(terms):
        deviations = np.convolve(deviations, _mass(law, np.arange(91, 110), 100))
    return _interval(np.arange(len(deviations)) - len(deviations) // 2, deviations, level)


def full_time_share(counts: xr.DataArray) -> xr.Dataset:
    """Of women of 55 and over at work, the share that works full time, by area, and the area's rank (1 is the largest share).

    Areas in which a draw has no such woman are left out.
    """
    women = counts.sel(sex="F", age=OVER_55).sum("age")
    area = next(str(dim) for dim in women.dims if str(dim).startswith("SA"))
    people = women.sum("status")
    there = (people > 0).all([dim for dim in people.dims if dim != area])
    share = (women.sel(status="EWFT") / people.where(people > 0)).isel({area: np.flatnonzero(there.values)})
    rank = xr.apply_ufunc(
        lambda own: rankdata(-own, axis=-1, method="min"), share, input_core_dims=[[area]], output_core_dims=[[area]]
    )
    return xr.Dataset({"share": share, "rank": rank})


def _mass(law: Any, values: Any, counts: Any) -> npt.NDArray[np.float64]:
    """Probabilities of published numbers given counts."""
    found: npt.NDArray[np.float64] = np.exp(law.log_each(values, counts))
    return found


def _interval(grid: npt.NDArray[np.int64], mass: npt.NDArray[np.float64], level: float) -> tuple[int, int, float]:
    """Quantiles of a law on whole numbers, and the probability of the interval between them, ends included."""
    below = np.cumsum(mass)
    low, high = (min(int(np.searchsorted(below, p - 1e-9)), len(grid) - 1) for p in (0.5 - level / 2, 0.5 + level / 2))
    return int(grid[low]), int(grid[high]), float(mass[low : high + 1].sum())


def _published_of(
    about: npt.NDArray[np.int64], stated: npt.NDArray[np.int64], asked: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """For each draw and answer, the number that is published about the same people; -1 if there is none."""
    found = np.empty_like(asked)
    for whom, own, row in zip(about, asked, found, strict=True):
        people, first = np.unique(whom, return_index=True)
        at = np.minimum(np.searchsorted(people, own), len(people) - 1)
        row[:] = np.where(people[at] == own, stated[first[at]], -1)
    found[asked == 0] = 0  # about nobody: zeros are kept
    return found


def _held(rows: Sequence[tuple[Any, ...]]) -> xr.Dataset:
    lower, upper, probability, published = np.array(rows, dtype=float).T
    data = {"lower": lower, "upper": upper, "published": published, "probability": probability}
    data["held"] = (lower <= published) & (published <= upper)
    return xr.Dataset({name: ("answer", own) for name, own in data.items()})


def _sums(query: Any, flat: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The answers of a query to each of many tables, shape (tables, answers)."""
    found: npt.NDArray[np.int64] = (query.matrix.astype(np.int64) @ flat.T).T
    return found


if __name__ == "__main__":
    published = bdp.datasets.working_population()
    smaller, larger = leave_out(published, "SA4_CODE_2016", "STE_CODE_2016")
    print(smaller)
    with build_model(smaller, variation=0.4):
        posterior = bdp.sample(draws=500, chains=2, random_seed=1, fiber_gibbs={"sweeps": 15})
    print(posterior["diagnostics"].attrs["message"])
    drawn = posterior["posterior"].dataset["x"]
    simple = by_hand(smaller, larger, 0.9)
    asked = simple["smallest"].values > 20
    predicted = predict(smaller, larger, drawn.values.reshape(-1, *drawn.shape[2:]), 0.9)
    for name, own in (("posterior of areas", predicted), ("sums of published areas", simple)):
        part = own.isel(answer=np.flatnonzero(asked))
        width = float((part["upper"] - part["lower"]).mean())
        print(
            f"{int(asked.sum())} published numbers of SA4 and states that were left out, all parts above 20, by {name}: "
            f"{float(part['held'].mean()):.1%} in intervals of {float(part['probability'].mean()):.1%}, mean width {width:.1f}"
        )
    women = full_time_share(drawn)
    for code in women["SA3_CODE_2016"].values:
        one = women.sel(SA3_CODE_2016=code)
        low, high = one["share"].quantile([0.05, 0.95]).values
        first, last = one["rank"].quantile([0.05, 0.95]).values
        print(f"  {code}: full-time share of women over 55 {low:.1%} to {high:.1%}, rank {first:.0f} to {last:.0f}")
