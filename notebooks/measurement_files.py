"""How good posteriors of measurement files are, beside other estimates of the same numbers: what notebook 08 counts.

Of every geounit of each level: all its cells, its total, the share of adults who are Black alone, and whether it has more Hispanic
adults than Black ones.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr
from scipy import stats

import bayesdp as bdp

sys.path.append(str(Path(__file__).parent))  # a notebook has this folder already

from topdown import topdown_like

__all__ = ["CELLS", "LEVELS", "comparisons", "coverage_of_counties", "estimates", "households"]

type Floats = npt.NDArray[np.float64]

LEVELS = ("block", "block_group", "tract")
CELLS = ("votingage", "hispanic", "cenrace")
_Z = float(stats.norm.ppf(0.975))


def households(release: bdp.Release) -> bdp.Release:
    """A release of a county whose limits say that nobody lives in group quarters, with the cells of people in households only.

    That is all the evidence there is, in an eighth of the cells; and :func:`bayesdp.gls`, which does not look at cells that must be 0,
    has it too.

    Raises
    ------
    ValueError
        If people may live in group quarters.
    """
    frame = release.frame
    if not release.fiber.determined().reshape(frame.shape)[:, 1:].all():
        raise ValueError("release says that people may live in group quarters, which have cells of their own")
    source: dict[str, Any] = {dim: list(frame.labels_of(dim)) for dim in ("block", *CELLS)}
    source |= {name: (dim, list(labels)) for name, dim, labels in frame.groups if dim == "block"}
    smaller = bdp.Frame.of(source)
    measured = []
    for own in release.measurements:
        values = xr.DataArray(np.asarray(own.values), dims=own.query.dims, coords=own.query.coords)
        for axis in ("hhgq", "hhinstlevels"):
            if axis in values.dims:
                values = values.sel({axis: "household"}, drop=True)
        dims = [str(dim) for dim in values.dims]
        query = bdp.Identity(smaller) if dims == list(smaller.dims) else bdp.Margins(smaller, dims)
        measured.append(bdp.Measured(query, values.transpose(*query.dims).values, own.law))
    total = next(own for own in release.exact if own.query.dims == ())
    exact = bdp.Exact(bdp.Totals(smaller), int(total.values))
    return bdp.Release.from_published(smaller, measured, [exact], simulated=release.simulated)


def _ratio(own: Floats, everybody: Floats) -> Floats:
    return np.asarray(np.divide(own, everybody, out=np.full(np.shape(own), np.nan), where=everybody > 0))


def _lines(cells: int) -> dict[str, Floats]:
    """Sums of cells (voting age x Hispanic x race): everybody, adults, Black adults who are not Hispanic, Hispanic adults."""
    mask = np.zeros((4, 2, 2, 63))
    mask[0], mask[1, 1], mask[2, 1, 0, 1], mask[3, 1, 1] = 1, 1, 1, 1
    return dict(zip(("total", "adults", "black", "hispanic"), mask.reshape(4, cells), strict=True))


def _answers(tables: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
    """Of tables, shape (..., units, 252)."""
    sums = {name: tables @ line for name, line in _lines(tables.shape[-1]).items()}
    return {
        "cell": tables,
        "total": sums["total"],
        "share": _ratio(sums["black"], sums["adults"]),
        "more": sums["hispanic"] > sums["black"],
    }


def _by_level(frame: bdp.Frame, level: str, tables: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Tables of blocks as tables of the units of a level, shape (..., units, 252)."""
    query = bdp.Identity(frame) if level == "block" else bdp.Margins(frame, [level, *CELLS])
    found = np.asarray(query.apply(tables))
    lead = tables.shape[: tables.ndim - len(frame.shape)]
    return found.reshape(*lead, query.shape[0], -1)


def _linear(release: bdp.Release, level: str) -> dict[str, tuple[Floats, Floats]]:
    """Estimate and standard error by generalised least squares; a share by the delta method, comparisons as differences."""
    estimate = bdp.gls(release, "block")
    query = bdp.Identity(release.frame) if level == "block" else bdp.Margins(release.frame, [level, *CELLS])
    mean = estimate.mean(query).reshape(query.shape[0], -1)
    covariance = np.stack([estimate.covariance(query, node) for node in query.coords[level]])
    lines = _lines(mean.shape[1])
    sums = {name: mean @ line for name, line in lines.items()}
    share = _ratio(sums["black"], sums["adults"])
    slope = (lines["black"] - share[:, None] * lines["adults"]) / np.where(sums["adults"] > 0, sums["adults"], np.nan)[
        :, None
    ]
    more = lines["hispanic"] - lines["black"]

    def spread(line: Floats) -> Floats:
        return np.asarray(np.sqrt(np.einsum("...c,ucd,...d->u", line, covariance, line)))

    return {
        "cell": (mean, np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))),
        "total": (sums["total"], spread(lines["total"])),
        "share": (share, np.sqrt(np.einsum("uc,ucd,ud->u", slope, covariance, slope))),
        "more": (mean @ more, spread(more)),
    }


def _noisy(release: bdp.Release, level: str) -> dict[str, tuple[Floats, Floats]]:
    """The published number itself: of a total the most precise one, of cells those of the detailed query."""
    found: dict[str, tuple[Floats, Floats]] = {}
    for own in release.measurements:
        law: Any = own.law  # a discrete Gaussian one
        sigma = float(np.asarray(law.sigma))
        name = {(level,): "total", (level, *CELLS): "cell"}.get(own.query.dims)
        if name is not None and (name not in found or sigma < found[name][1].flat[0]):
            values = np.asarray(own.values, dtype=float).reshape(own.query.shape[0], -1)
            values = values[:, 0] if name == "total" else values
            found[name] = values, np.full_like(values, sigma)
    return found


def estimates(release: bdp.Release, truth: npt.NDArray[np.int64], tree: xr.DataTree) -> Iterator[pd.DataFrame]:
    """Every number of every unit with each method's estimate and 95 % interval.

    Parameters
    ----------
    release : Release
        What `households` gives.
    truth : int64 array
        The table.
    tree : xarray.DataTree
        Of `bayesdp.fit_hierarchy` with ``record={"people": bdp.Identity(release.frame)}``.

    Yields
    ------
    pandas.DataFrame
        Columns ``level``, ``quantity``, ``method``, ``truth``, ``estimate``, ``lower`` and ``upper`` (NaN for a method without).
    """
    frame = release.frame
    draws = np.concatenate(list(tree["posterior"].to_dataset()["people"].values)).reshape(-1, *frame.shape)
    made = topdown_like(release, "block").values
    for level in LEVELS:
        true = _answers(_by_level(frame, level, truth))
        posterior = _answers(_by_level(frame, level, draws))
        normal = {"GLS": _linear(release, level), "noisy": _noisy(release, level)}
        point = _answers(_by_level(frame, level, made))
        for quantity in ("cell", "total", "share"):
            real = true[quantity].reshape(-1).astype(float)
            there = ~np.isnan(real)  # nobody has no shares

            def rows(
                method: str,
                middle: Floats,
                low: Any,
                high: Any,
                name: str = quantity,
                known: Floats = real,
                there: Any = there,
                level: str = level,
            ) -> pd.DataFrame:
                own = {
                    "level": level,
                    "quantity": name,
                    "method": method,
                    "truth": known,
                    "estimate": middle.reshape(-1),
                }
                table = pd.DataFrame(own | {"lower": np.reshape(low, -1), "upper": np.reshape(high, -1)})
                found: pd.DataFrame = table[there]
                return found

            drawn = posterior[quantity]
            if quantity == "share":  # of draws without adults there is none
                low, middle, high = (np.full(real.size, np.nan) for _ in range(3))
                low[there], high[there] = np.nanquantile(drawn[:, there], [0.025, 0.975], axis=0, method="inverted_cdf")
                middle[there] = np.nanmean(drawn[:, there], axis=0)
            else:
                low, high = np.quantile(drawn, [0.025, 0.975], axis=0, method="inverted_cdf")
                middle = drawn.mean(axis=0)
            yield rows("posterior", middle, low, high)
            for method, found in normal.items():
                if quantity in found:
                    centre, sd = found[quantity]
                    low, high = centre - _Z * sd, centre + _Z * sd
                    if quantity == "share":  # within 0 and 1, which is all that is said where no adults are estimated
                        low, high = (
                            np.nan_to_num(np.clip(low, 0.0, 1.0), nan=0.0),
                            np.nan_to_num(np.clip(high, 0.0, 1.0), nan=1.0),
                        )
                    yield rows(method, centre, low, high)
            nothing = np.full(real.size, np.nan)
            yield rows("TopDown-like", point[quantity].astype(float), nothing, nothing)


def comparisons(release: bdp.Release, truth: npt.NDArray[np.int64], tree: xr.DataTree) -> Iterator[pd.DataFrame]:
    """Of every unit, the probability that it has more Hispanic than Black adults, and whether that is so.

    Yields
    ------
    pandas.DataFrame
        Columns ``level``, ``method``, ``probability`` and ``truth``.
    """
    frame = release.frame
    draws = np.concatenate(list(tree["posterior"].to_dataset()["people"].values)).reshape(-1, *frame.shape)
    for level in LEVELS:
        true = _answers(_by_level(frame, level, truth))["more"]
        difference, spread = _linear(release, level)["more"]
        # Counts are whole numbers, and more is at least one more.
        found = {
            "posterior": _answers(_by_level(frame, level, draws))["more"].mean(axis=0),
            "GLS": stats.norm.cdf((difference - 0.5) / spread),
        }
        for method, probability in found.items():
            yield pd.DataFrame({"level": level, "method": method, "probability": probability, "truth": true})


def coverage_of_counties(counted: pd.DataFrame) -> pd.DataFrame:
    """How often intervals held the truth over many counties, with standard errors: counties are independent, their areas are not.

    Parameters
    ----------
    counted : pandas.DataFrame
        Of `benchmarks.calibration.counties`, of one prior and two counties or more.

    Returns
    -------
    pandas.DataFrame
        By quantity, level and method: ``numbers``, ``held``, ``coverage``, its ``standard error`` (of a ratio of sums) and the
        ``root mean square error``.
    """
    by = counted.groupby(["quantity", "level", "method"])
    sums = by[["numbers", "held", "squares"]].sum()
    coverage = sums["held"] / sums["numbers"]
    own = counted.join(coverage.rename("coverage"), on=["quantity", "level", "method"])
    residual = (own["held"] - own["coverage"] * own["numbers"]) ** 2
    spread = residual.groupby([own[name] for name in ("quantity", "level", "method")]).sum()
    several = by.size()
    error = np.sqrt(spread * several / (several - 1)) / sums["numbers"]
    found = sums[["numbers", "held"]].assign(coverage=coverage)
    found["standard error"] = error
    found["root mean square error"] = np.sqrt(sums["squares"] / sums["numbers"])
    return found
