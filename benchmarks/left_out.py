"""Published numbers of two censuses that were left out, and predicted: ``python -m benchmarks.left_out FOLDER``.

Australia, working population of 2016 (Australian Bureau of Statistics, Working Population Profile W01, CC BY 2.5 AU; the files of the
DataPack are in ``FOLDER/abs2016_working_population``): larger areas and states from the tables of their SA3, for all nine states; and
SA2 in turn, of some SA3 of states 1 and 2, from the tables of their siblings and of the SA3. An area of one part has the numbers of
that part, and is not judged. New Zealand, 2013 (Stats NZ, CC BY 4.0; ``FOLDER/statsnz2013``): totals, margins, and both.

Printed, and with ``--output`` written as CSV: a row for each state (or sheet), level and interval, with the share of numbers that are
in their intervals beside the probability of these, which have whole ends (*nominal*), and the mean width; of numbers whose parts are
all above 20, the same beside what is done by hand: published parts added up, with the law of as many deviations.

Numbers of one area depend on each other, areas hardly: ``sd`` is the standard deviation of held less nominal with areas as clusters.
Of Australia's numbers it is so small that 1 point is more than chance; of New Zealand's 1,800 numbers in 71 electorates it is not.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pymc as pm
import xarray as xr

import bayesdp as bdp
from bayesdp._chains import chain_statistics
from models import electorates, working_population

__all__ = ["INTERVALS", "larger_areas", "main", "new_zealand", "smaller_areas"]

INTERVALS = (0.5, 0.9, 0.95)
_TOGETHER = 12
"""SA3 that are fitted at once, about: given their own tables they are independent."""

_SA2_OF = {
    "1": ["10102", "10501", "10604", "11001", "11701"],
    "2": ["20102", "20402", "20601", "21001", "21704"],
}
"""SA3 of 4 to 6 parts, in town and country, of which each SA2 is left out in turn: 49 of them."""

_TABLES = {"totals": (1, 4, 5, 7), "margins": (2, 3, 4, 5, 6, 7), "both": (1, 2, 3, 4, 5, 6, 7)}
_TENURES = {"totals": (3,), "margins": (1, 2), "both": (1, 2, 3)}
"""Tables that are left out, by place: those of both sexes, or of all tenures; those of one or no other dimension; all but cells."""

_CASES = ("new-zealand", "larger", "smaller")

type Counts = npt.NDArray[np.int64]


def larger_areas(folder: Path | None, state: str, how: dict[str, int]) -> Iterator[dict[str, Any]]:
    """SA4 and a state, from their SA3."""
    codes = np.array(_working(folder, ["SA3"], [state]).frame.labels[0])
    by_sa4 = _grouped(codes.tolist(), 3)
    parts: list[list[str]] = [[]]
    for code, own in by_sa4.items():
        if parts[-1] and sum(len(by_sa4[other]) for other in parts[-1]) + len(own) > _TOGETHER:
            parts.append([])
        parts[-1].append(code)
    drawn: dict[str, Counts] = {}
    judged: list[pd.DataFrame] = []
    worst = 1.0
    for some in parts:
        release = _working(folder, ["SA3", "SA4"], some)
        given, hidden = working_population.leave_out(release, "SA4_CODE_2016")
        counts, rhat = _fit(working_population.build_model(given, variation=0.4), **how)
        worst = max(worst, rhat)
        drawn |= dict(zip(map(str, given.frame.labels[0]), np.moveaxis(counts, 1, 0), strict=True))
        judged.append(_larger(given, hidden, counts, [code for code in some if len(by_sa4[code]) > 1]))
    yield from _rows("ABS", state, "SA4", pd.concat(judged), worst)
    if len(by_sa4) > 1:
        given, hidden = working_population.leave_out(_working(folder, ["SA3", "STE"], [state]), "STE_CODE_2016")
        counts = np.stack([drawn[str(code)] for code in given.frame.labels[0]], axis=1)
        # One area: its eight tables are the clusters.
        yield from _rows("ABS", state, "state", _larger(given, hidden, counts, [state]), worst)


def _grouped(codes: Sequence[Any], length: int) -> dict[str, list[str]]:
    """Areas by the beginning of their codes."""
    found: dict[str, list[str]] = {}
    for code in codes:
        found.setdefault(str(code)[:length], []).append(str(code))
    return found


def _working(folder: Path | None, levels: list[str], within: Sequence[str]) -> bdp.Release:
    return bdp.datasets.working_population(folder=folder, levels=levels, within=list(within))


def _fit(model: Any, draws: int, tune: int, sweeps: int) -> tuple[Counts, float]:
    """Draws of a table, chains together, and the largest R-hat; without all that `bayesdp.sample` says of them, which takes longer."""
    with model:
        step = bdp.inference.FiberGibbs(sweeps=sweeps)
        tree = pm.sample(
            draws,
            tune=tune,
            chains=2,
            cores=1,
            step=step,
            random_seed=1,
            progressbar=False,
            quiet=True,
            compute_convergence_checks=False,
        )
    counts = tree["posterior"]["x"].values
    rhat = chain_statistics(counts.reshape(*counts.shape[:2], -1)).rhat
    return counts.reshape(-1, *counts.shape[2:]), float(np.nanmax(rhat[np.isfinite(rhat)]))


def _larger(given: bdp.Release, hidden: list[bdp.Measured], counts: Counts, several: list[str]) -> pd.DataFrame:
    """Numbers of areas of several parts, a line a number and interval."""
    area = np.concatenate([_first(own, own.values) for own in hidden])
    table = np.repeat(np.arange(len(hidden)), [own.values.size for own in hidden])
    judged = []
    for level in INTERVALS:
        own = working_population.predict(given, hidden, counts, level)
        simple = working_population.by_hand(given, hidden, level)
        judged.append(_lines(own, simple, level, area if len(several) > 1 else table)[np.isin(area, several)])
    return pd.concat(judged)


def _first(own: bdp.Measured, values: Any) -> npt.NDArray[Any]:
    """Of each answer, the label of its first dimension."""
    codes = np.array(own.query.coords[own.query.dims[0]])
    return np.repeat(codes, np.size(values) // len(codes))


def _lines(own: xr.Dataset, simple: xr.Dataset | None, level: float, cluster: Any) -> pd.DataFrame:
    found = pd.DataFrame({
        "interval": level,
        "cluster": cluster,
        "nominal": own["probability"],
        "held": own["held"].astype(float),
        "width": own["upper"] - own["lower"],
    })  # fmt: skip
    if simple is None:
        return found.assign(large=False)
    return found.assign(
        large=simple["smallest"].values > 20,
        sums_nominal=simple["probability"].values,
        sums_held=simple["held"].values.astype(float),
        sums_width=(simple["upper"] - simple["lower"]).values,
    )


def smaller_areas(folder: Path, state: str, how: dict[str, int]) -> Iterator[dict[str, Any]]:
    """SA2 in turn, from their siblings and the SA3 that they are in."""
    release = _working(folder, ["SA2", "SA3"], _SA2_OF[state])
    members = list(_grouped(list(release.frame.labels[0]), 5).values())
    judged, worst = [], 1.0
    for turn in range(max(map(len, members))):
        areas = [own[turn] for own in members if turn < len(own)]
        given, hidden = working_population.without_areas(release, areas)
        counts, rhat = _fit(working_population.build_model(given, variation=0.4), **how)
        worst = max(worst, rhat)
        area = np.concatenate([_first(own, own.values)[~own.unmeasured.reshape(-1)] for own in hidden])
        for level in INTERVALS:
            own = working_population.predict(given, hidden, counts, level)
            judged.append(_lines(own, _left(given, hidden, level), level, area))
    yield from _rows("ABS", state, "SA2", pd.concat(judged), worst)


def _left(given: bdp.Release, hidden: list[bdp.Measured], level: float) -> xr.Dataset:
    """What a published whole leaves of the published other parts, with the law of as many deviations and one more."""
    tables = {own.query.dims: own for own in given.measurements}
    rows = []
    for own in hidden:
        small, *kept = own.query.dims
        codes = np.array(own.query.coords[small])
        whole = tables["SA3_CODE_2016", *kept]
        for code, values, out in zip(codes, own.values, own.unmeasured, strict=True):
            if np.all(out):
                continue
            inside = np.array([str(other)[:5] == str(code)[:5] and other != code for other in codes])
            parts = tables[small, *kept].values[inside]
            low, high, probability = working_population.sum_interval(own.law, len(parts) + 2, level)
            middle = whole.values[list(whole.query.coords["SA3_CODE_2016"]).index(str(code)[:5])] - parts.sum(axis=0)
            least = np.minimum(parts.min(axis=0), middle)
            for at, published, smallest in zip(np.ravel(middle), np.ravel(values), np.ravel(least), strict=True):
                rows.append((at + low, at + high, probability, low <= published - at <= high, smallest))
    names = ("lower", "upper", "probability", "held", "smallest")
    return xr.Dataset({name: ("answer", column) for name, column in zip(names, np.array(rows).T, strict=True)})


def new_zealand(folder: Path | None, how: dict[str, int]) -> Iterator[dict[str, Any]]:
    """Sums that were left out, from cells and other sums; both sheets of age by sex, and tenures if there is a folder."""
    cases = {own: (bdp.datasets.statsnz_age_by_sex(own), _TABLES) for own in ("general", "Māori")}
    if folder is not None:
        cases["tenures"] = electorates.tenures(folder / "tenure_by_electorate.csv"), _TENURES
    for part, (release, tables) in cases.items():
        for name, left in tables.items():
            given, hidden = electorates.leave_out(release, *left)
            counts, rhat = _fit(electorates.build_model(given, variation=0.4), **how)
            judged = []
            electorate = release.dims[0]
            for level in INTERVALS:
                own = electorates.predict(hidden, counts, level)
                cluster = np.concatenate([
                    (_first(one, one.values) if one.query.dims[:1] == (electorate,) else np.full(one.values.size, "all"))[
                        ~one.unmeasured.reshape(-1)
                    ]
                    for one in hidden
                ])  # fmt: skip
                judged.append(_lines(own, None, level, cluster))
            yield from _rows("Stats NZ", part, name, pd.concat(judged), rhat)


def _rows(case: str, part: str, left_out: str, judged: pd.DataFrame, rhat: float) -> Iterator[dict[str, Any]]:
    for level, own in judged.groupby("interval"):
        apart = (own["held"] - own["nominal"]).groupby(own["cluster"]).sum()
        row: dict[str, Any] = {"case": case, "part": part, "left_out": left_out, "interval": level, "numbers": len(own)}
        row |= {name: float(own[name].mean()) for name in ("nominal", "held", "width")}
        row |= {"sd": float(np.sqrt((apart**2).sum())) / len(own), "rhat": rhat, "large": int(own["large"].sum())}
        if own["large"].any():
            large = own[own["large"]].drop(columns=["interval", "cluster", "large"]).mean()
            row |= {name if name.startswith("sums") else f"large_{name}": large[name] for name in map(str, large.index)}
        yield row


def main(arguments: list[str] | None = None) -> None:
    """Run it, print the table, and write it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--cases", nargs="*", default=list(_CASES), choices=_CASES)
    parser.add_argument("--states", nargs="*", default=list("123456789"))
    for name, default in (("draws", 250), ("tune", 150), ("sweeps", 12), ("sweeps-of-parts", 40)):
        parser.add_argument(f"--{name}", type=int, default=default)
    own = parser.parse_args(arguments)
    abs_ = own.folder / "abs2016_working_population"
    how: dict[str, int] = {"draws": own.draws, "tune": own.tune, "sweeps": own.sweeps}
    longer = how | {"sweeps": own.sweeps_of_parts}
    rows: list[dict[str, Any]] = []

    def take(found: Iterator[dict[str, Any]]) -> None:
        began = time.process_time()
        for row in found:
            rows.append(row)
            print(", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()))
        print(f"  {time.process_time() - began:.0f} s of CPU", file=sys.stderr, flush=True)
        if own.output is not None:
            pd.DataFrame(rows).to_csv(own.output, index=False, float_format="%.5g")

    if "new-zealand" in own.cases:
        take(new_zealand(own.folder / "statsnz2013", how))
    for state in own.states if "larger" in own.cases else []:
        take(larger_areas(abs_, state, how))
    for state in set(own.states) & set(_SA2_OF) if "smaller" in own.cases else []:
        take(smaller_areas(abs_, state, longer))


if __name__ == "__main__":
    main()
