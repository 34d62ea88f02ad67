"""What pictures and reports read from a posterior's DataTree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp._validate import probability
from bayesdp.composition import posterior_release
from bayesdp.consistency import implied_answers
from bayesdp.queries import Identity, Query
from bayesdp.release import Measured, Release
from bayesdp.storage.counts import counts_name, relaxation_of, without_rounding_errors

__all__ = ["Fit", "Summary", "summarise"]

type Floats = npt.NDArray[np.float64]
type Mask = npt.NDArray[np.bool_]

_COLUMNS_AT_ONCE = 512
"""Quantiles of this many quantities are found at a time, so that a large table needs no second copy of its draws."""


@dataclass(frozen=True, eq=False)
class Summary:
    """Mean, standard deviation and equal-tailed interval of some quantities; arrays have one entry a quantity."""

    mean: Floats
    sd: Floats
    lower: Floats
    upper: Floats
    prob: float


def summarise(draws: npt.NDArray[Any], prob: float) -> Summary:
    """Summarise draws.

    Parameters
    ----------
    draws : array, shape (draws, quantities)
    prob : float
        Probability of the equal-tailed intervals. Their ends are values that were drawn, so that for counts an interval
        holds at least `prob` of the draws.

    Examples
    --------
    >>> own = summarise(np.arange(101).reshape(-1, 1), 0.9)
    >>> own.mean.item(), own.lower.item(), own.upper.item()
    (50.0, 5.0, 95.0)
    """
    level = probability(prob, "prob")
    tails = [(1 - level) / 2, (1 + level) / 2]
    found = np.empty((4, draws.shape[1]))
    for start in range(0, draws.shape[1], _COLUMNS_AT_ONCE):
        own = draws[:, start : start + _COLUMNS_AT_ONCE].astype(np.float64)
        stop = start + own.shape[1]
        found[0, start:stop], found[1, start:stop] = own.mean(axis=0), own.std(axis=0)
        found[2:, start:stop] = np.quantile(own, tails, axis=0, method="inverted_cdf")
    return Summary(found[0], found[1], found[2], found[3], level)


@dataclass(frozen=True, eq=False)
class Fit:
    """A posterior of confidential counts, with the release that it is based on.

    Parameters
    ----------
    tree : xarray.DataTree
        As `bayesdp.sample` returns it: at least the groups ``posterior`` and ``release``.
    release : Release
        The release in it; where the model observed several, all of them as one.
    counts : xarray.DataArray
        Draws of the counts, with dimensions chain, draw and those of the table; real numbers where `relaxation` says so.
    """

    tree: xr.DataTree
    release: Release
    counts: xr.DataArray

    @classmethod
    def of(cls, posterior: Any) -> Fit:
        """Read a DataTree.

        Raises
        ------
        TypeError
            If it is no DataTree.
        ValueError
            If a group is missing, or there are no counts with the dimensions of the release's table: whole numbers, or
            real ones that the posterior declares to be a continuous relaxation.
        """
        if not isinstance(posterior, xr.DataTree):
            raise TypeError(
                f"posterior must be the DataTree that bayesdp.sample returns, got {type(posterior).__name__}"
            )
        for group in ("posterior", "release"):
            if group not in posterior.children:
                raise ValueError(
                    f"posterior lacks the group {group!r}; it has {', '.join(posterior.children) or 'none'}. "
                    "bayesdp.sample adds it; to the result of pm.sample, bayesdp.inference.annotate does"
                )
        release = posterior_release(posterior)
        name = counts_name(posterior, release.dims)
        draws = posterior["posterior"].to_dataset()[name].transpose("chain", "draw", *release.dims)
        return cls(posterior, release, draws)

    @property
    def name(self) -> str:
        """Name of the counts in the model."""
        return str(self.counts.name)

    @cached_property
    def relaxation(self) -> xr.Dataset | None:
        """What the posterior says of its error, where real numbers stand for whole ones; None for whole numbers."""
        return relaxation_of(self.tree, self.name)

    @property
    def chains(self) -> int:
        """Number of chains."""
        return int(self.counts.sizes["chain"])

    @property
    def draws(self) -> int:
        """Number of draws of each chain."""
        return int(self.counts.sizes["draw"])

    @cached_property
    def cells(self) -> Query:
        """The query of every cell."""
        return Identity(self.release.frame)

    @cached_property
    def determined(self) -> Mask:
        """Which cells have one possible value, shape ``(cells,)``; from the group ``fiber``, else found anew."""
        if "fiber" in self.tree.children:
            own = self.tree["fiber"].to_dataset()["determined"].transpose(*self.release.dims)
            return np.asarray(own.values, dtype=np.bool_).reshape(-1)
        return self.release.fiber.determined().reshape(-1)

    def answers(self, query: Query) -> npt.NDArray[Any]:
        """Draws of a query's answers, chains after one another: shape ``(chains * draws, rows)``."""
        found = np.asarray(query.apply(self.counts.values)).reshape(-1, query.rows)
        return found if self.relaxation is None else without_rounding_errors(found)

    def summary(self, query: Query, prob: float) -> Summary:
        """Posterior summary of a query's answers."""
        return summarise(self.answers(query), prob)

    def fixed(self, query: Query) -> Mask:
        """Which answers have one possible value: exact, a sum of exact values, or of determined cells only."""
        if query.is_identity:
            return self.determined
        involved = abs(query.matrix) @ (~self.determined).astype(np.int64)
        return np.asarray(implied_answers(query, self.release.exact) | (involved == 0))

    @cached_property
    def measured_cells(self) -> Measured | None:
        """The first measurement of the cells themselves."""
        return next((part for part in self.release.measurements if part.query.is_identity), None)

    @cached_property
    def published_again(self) -> list[Floats]:
        """The same of further measurements of the cells, where several were made."""
        cells = [part for part in self.release.measurements if part.query.is_identity]
        return [np.asarray(part.published, dtype=np.float64).reshape(-1) for part in cells[1:]]

    @cached_property
    def published(self) -> Floats:
        """Noisy value of each cell in the first measurement of them, shape ``(cells,)``; NaN where none was published."""
        if self.measured_cells is None:
            return np.full(self.release.frame.size, np.nan)
        return np.asarray(self.measured_cells.published, dtype=np.float64).reshape(-1)

    @cached_property
    def prior_draws(self) -> npt.NDArray[Any] | None:
        """Prior draws of the cells, shape ``(draws, cells)``, where the DataTree has them."""
        if "prior" not in self.tree.children or self.name not in self.tree["prior"].data_vars:
            return None
        own = self.tree["prior"].to_dataset()[self.name].transpose("chain", "draw", *self.release.dims)
        return np.asarray(own.values).reshape(-1, self.release.frame.size)

    def truth(self, table: Any) -> Floats | None:
        """A confidential table, where the user has it, as numbers in the order of the cells."""
        if table is None:
            return None
        return np.asarray(self.release.frame.align(table, "truth"), dtype=np.float64).reshape(-1)
