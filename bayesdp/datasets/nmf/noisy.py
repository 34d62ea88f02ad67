"""Noisy answers of a level of geography, gathered row by row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from bayesdp.datasets.nmf.binnings import Binning
from bayesdp.datasets.nmf.cells import Cells
from bayesdp.datasets.nmf.histograms import Histogram
from bayesdp.datasets.nmf.products import plain_name
from bayesdp.datasets.nmf.rows import Row
from bayesdp.datasets.nmf.spine import Spine
from bayesdp.frames import Frame
from bayesdp.measurements import Measured
from bayesdp.noise import DiscreteGaussian
from bayesdp.queries import Query, SumPart

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Bins = tuple[Binning, ...]


def bins_of(row: Row, histogram: Histogram, named: tuple[str, ...] | None = None) -> Bins:
    """How a row cuts each axis: by its columns, or where the file lacks them by the name of the query."""
    # `named`: what the name means, one an axis; for constraints. LookupError if it is by a binning that is not known here.
    stated = row.bins
    try:
        if any(own is None for own in stated):
            stated = named or histogram.named(plain_name(row.name))
        try:
            bins = tuple(axis.binning(str(own)) for axis, own in zip(histogram.axes, stated, strict=True))
        except ValueError:
            if named is None:
                raise
            bins = tuple(axis.binning(own) for axis, own in zip(histogram.axes, named, strict=True))
    except ValueError as unknown:
        raise LookupError(str(unknown)) from unknown
    shape = tuple(len(own.members) for own in bins)
    stated_shape = None if row.shape is None else tuple(n for n in row.shape if n != 1)
    if len(row.values) != np.prod(shape) or stated_shape not in (None, tuple(n for n in shape if n != 1)):
        raise ValueError(
            f"{row.file}: geocode {row.geocode}, {row.name} has {len(row.values)} numbers of shape {row.shape}, but by "
            f"{', '.join(own.name for own in bins)} there are {' x '.join(map(str, shape))}"
        )
    return bins


def sigma_of_variance(variance: Floats) -> Floats:
    """The scale sigma of discrete Gaussian noise of these variances."""
    # What files state is the variance of the discrete law (`computeDiscreteGaussianVariance` of programs/engine/primitives.py in
    # the Bureau's production code). From 1 on it is sigma**2 to 2e-7, which is as near as the files' float32 tells; below it is
    # less. `variance`: positive.
    stated, place = np.unique(variance, return_inverse=True)
    sigma = np.sqrt(stated)
    for i in np.flatnonzero(stated < 1.0):
        least = np.sqrt(0.5 / np.log(4.0 / stated[i]))  # the variance is below 4 exp(-1 / (2 sigma**2)) here
        sigma[i] = brentq(lambda own, of=stated[i]: _law_variance(own) - of, least, 1.1, xtol=1e-15, rtol=1e-13)
    return np.asarray(sigma[place].reshape(variance.shape))


def _law_variance(sigma: float) -> float:
    return float(np.asarray(DiscreteGaussian(sigma=sigma).variance((1,))).reshape(-1)[0])


def level_query(frame: Frame, spine: Spine, level: str, kept: Iterable[str]) -> tuple[Query, SumPart]:
    """Sums of the geounits of a level."""
    part = SumPart(frame, (level.lower(), *kept))
    return Query(frame, (part,)), part


def in_order(
    values: npt.NDArray[np.generic], part: SumPart, spine: Spine, level: str, cells: Cells, bins: Bins
) -> npt.NDArray[np.generic]:
    """Answers as files order them, shape (nodes, groups of each axis), in the order and shape of a sum."""
    position = {geocode: i for i, geocode in enumerate(spine.nodes[level])}
    orders = [[position[str(label)] for label in part.answer_labels[0]]]
    for cut, own in zip(cells.cuts, bins, strict=True):
        if len(own.members) == 1:
            orders.append([0])
        elif len(own.members) == len(cut.members):
            orders.append(cut.groups_in(own).tolist())
        else:
            labels = part.answer_labels[part.keep.index(own.name)]
            orders.append([own.labels.index(str(label)) for label in labels])
    return np.asarray(values[np.ix_(*orders)].reshape(part.shape))


@dataclass(eq=False)
class Gathered:
    """The answers of one query at one level, which are filled in as rows come.

    Parameters
    ----------
    level, name : str
    bins : tuple of Binning
    values : float64 array, shape (nodes, groups of each axis)
        NaN where nothing was measured.
    variance : float64 array, shape (nodes,)
        Of the discrete noise, see `sigma_of_variance`.
    """

    level: str
    name: str
    bins: Bins
    values: Floats
    variance: Floats
    file: dict[str, Path] = field(default_factory=dict)

    @classmethod
    def empty(cls, level: str, name: str, bins: Bins, nodes: int) -> Gathered:
        """Nothing is measured yet."""
        shape = tuple(len(own.members) for own in bins)
        return cls(level, name, bins, np.full((nodes, *shape), np.nan), np.full(nodes, np.nan))

    def add(self, row: Row, bins: Bins, node: int) -> None:
        """Add the answers of a geounit; ValueError that names the file and the geocode."""
        where = f"{row.file}: geocode {row.geocode}, {row.name}"
        if row.geocode in self.file:
            raise ValueError(f"{where} is there twice, also in {self.file[row.geocode]}")
        if bins != self.bins:
            raise ValueError(
                f"{where} is by {', '.join(own.name for own in bins)}, other rows of the level by "
                f"{', '.join(own.name for own in self.bins)}"
            )
        if not (np.isfinite(row.variance) and row.variance > 0):
            stated = "is missing" if np.isnan(row.variance) else f"is {row.variance:g}"
            raise ValueError(f"{where}: the variance of the noise {stated}; it must be a positive number")
        self.file[row.geocode] = row.file
        self.values[node] = row.values.reshape(self.values.shape[1:])
        self.variance[node] = row.variance

    def measured(self, frame: Frame, spine: Spine, cells: Cells) -> Measured:
        """The answers as a noisy part of a release."""
        query, part = level_query(frame, spine, self.level, cells.kept(self.bins))
        values = np.asarray(in_order(self.values, part, spine, self.level, cells, self.bins), dtype=np.float64)
        spread = self.variance.reshape(-1, *(1,) * len(self.bins))
        wide = np.broadcast_to(spread, self.values.shape)
        variance = np.asarray(in_order(wide, part, spine, self.level, cells, self.bins), dtype=np.float64)
        missing = np.isnan(values)
        # Where nothing was measured the scale means nothing, but must be some positive number.
        sigma = sigma_of_variance(np.where(missing, 1.0, variance))
        known = np.unique(sigma[~missing])
        law = DiscreteGaussian(sigma=float(known[0]) if len(known) == 1 else sigma)
        name = f"{self.level.lower()}_{plain_name(self.name).replace(' * ', '_by_').replace(' ', '_')}"
        if missing.any():
            return Measured(query, values, law, name=name, unmeasured=missing)
        return Measured(query, values.astype(np.int64), law, name=name)
