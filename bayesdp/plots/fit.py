"""What pictures and reports read from a posterior's DataTree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp._validate import probability
from bayesdp.composition import check_posterior, draws_of, is_streamed, releases_of_tables, tables_of_posterior
from bayesdp.consistency import determined_answers
from bayesdp.fibers import Fiber
from bayesdp.plots.observed import names_of_measurements
from bayesdp.queries import Identity, Query
from bayesdp.release import Exact, Measured, Release
from bayesdp.storage.draws import relaxation_of, without_rounding_errors

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
        block = draws[:, start : start + _COLUMNS_AT_ONCE].astype(np.float64)
        stop = start + block.shape[1]
        found[0, start:stop], found[1, start:stop] = block.mean(axis=0), block.std(axis=0)
        found[2:, start:stop] = np.quantile(block, tails, axis=0, method="inverted_cdf")
    return Summary(found[0], found[1], found[2], found[3], level)


def _has(tree: xr.DataTree) -> str:
    """For messages: the groups that a DataTree has, and which functions add a release to it."""
    return (
        f"it has {', '.join(tree.children) or 'none'}. bayesdp.sample adds a release, unless its numbers were replaced in the "
        "model; to the result of pm.sample, bayesdp.inference.annotate does"
    )


def _flat(values: Any) -> Floats:
    return np.asarray(values, dtype=np.float64).reshape(-1)


@dataclass(frozen=True, eq=False)
class Fit:
    """A posterior of one table of confidential counts, with the releases that it is based on.

    Parameters
    ----------
    tree : xarray.DataTree
        As `bayesdp.sample` returns it: at least the groups ``posterior`` and ``release``.
    releases : tuple of Release
        The releases of the table, in the order in which the model observed them.
    counts : xarray.DataArray
        Draws of the counts, with dimensions chain, draw and those of the table; real numbers where `relaxation` says so.
    observed : tuple of (str or None)
        For each of `measurements`, the observed variable of the model.
    """

    tree: xr.DataTree
    releases: tuple[Release, ...]
    counts: xr.DataArray
    observed: tuple[str | None, ...] = ()

    @classmethod
    def of(cls, posterior: Any, var: str | None = None) -> Fit:
        """Read one table of a DataTree.

        Parameters
        ----------
        posterior : xarray.DataTree
        var : str, optional
            The table, by its name in the model; the first one by default.

        Raises
        ------
        TypeError
            If it is no DataTree.
        ValueError
            If a group is missing, or there are no counts with the dimensions of the release's table: whole numbers, or
            real ones that the posterior declares to be a continuous relaxation. If there is no table of that name.
        """
        tables = cls.all(posterior)
        if var is None:
            return tables[0]
        for table in tables:
            if table.name == var:
                return table
        names = ", ".join(table.name for table in tables)
        raise ValueError(f"var must be a table of the posterior, {names}; got {var!r}")

    @classmethod
    def all(cls, posterior: Any) -> list[Fit]:
        """Read every table of a DataTree that has a release; errors as for `of`."""
        if not isinstance(posterior, xr.DataTree):
            raise TypeError(
                f"posterior must be the DataTree that bayesdp.sample returns, got {type(posterior).__name__}"
            )
        if "posterior" not in posterior.children:
            raise ValueError(f"posterior lacks the group 'posterior'; {_has(posterior)}")
        if is_streamed(posterior):
            from bayesdp.plots.streamed_fit import StreamedFit  # which is a Fit

            return [StreamedFit.read(posterior)]
        if not releases_of_tables(posterior):
            raise ValueError(f"posterior lacks the group 'release'; {_has(posterior)}")
        tables = tables_of_posterior(posterior)
        if not tables:
            raise ValueError("posterior lacks the counts that its release is about: they were not recorded (var_names)")
        check_posterior(posterior)
        observed = names_of_measurements(posterior, list(tables.values()))
        found = []
        for (name, releases), names in zip(tables.items(), observed, strict=True):
            draws = draws_of(posterior, name, releases[0])
            found.append(cls(posterior, releases, draws, tuple(names)))
        return found

    @property
    def release(self) -> Release:
        """The first release: its frame is that of the table."""
        return self.releases[0]

    @property
    def measurements(self) -> tuple[Measured, ...]:
        """What is noisy, of all releases."""
        return tuple(measured for release in self.releases for measured in release.measurements)

    @property
    def exact(self) -> tuple[Exact, ...]:
        """What is exact, of all releases."""
        return tuple(exact for release in self.releases for exact in release.exact)

    def titled(self, measurement: int) -> str:
        """Which release a measurement is of, and its name, as far as that is needed to tell it from the others."""
        numbers = [i for i, release in enumerate(self.releases) for _ in release.measurements]
        measured = self.measurements[measurement]
        parts = [f"release {numbers[measurement] + 1}"] if len(self.releases) > 1 else []
        same_query = [
            i
            for i, (number, other) in enumerate(zip(numbers, self.measurements, strict=True))
            if number == numbers[measurement] and other.query == measured.query
        ]
        if measured.name:
            parts.append(measured.name)
        elif len(same_query) > 1:
            parts.append(f"no. {same_query.index(measurement) + 1}")
        return ", ".join(parts)

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

    @property
    def limits(self) -> xr.DataTree | None:
        """The group ``fiber`` of this table, where the DataTree has it."""
        groups = (group for name, group in self.tree.children.items() if name == "fiber" or name.startswith("fiber_"))
        return next((group for group in groups if group.attrs.get("variable", self.name) == self.name), None)

    @cached_property
    def cells(self) -> Query:
        """The query of every cell."""
        return Identity(self.release.frame)

    @cached_property
    def determined(self) -> Mask:
        """Which cells have one possible value, shape ``(cells,)``; from the group ``fiber``, else found anew. No statistic has."""
        if self.release.about == "statistics":
            return np.zeros(self.release.frame.size, dtype=np.bool_)
        limits = self.limits
        if limits is not None and "determined" in limits.data_vars:
            known = limits.to_dataset()["determined"].transpose(*self.release.dims).values.astype(np.bool_)
        else:
            known = Fiber.of(self.exact, self.release.frame).determined()
        return determined_answers(self.cells, self.exact, known)

    def answers(self, query: Query) -> npt.NDArray[Any]:
        """Draws of a query's answers, chains after one another: shape ``(chains * draws, rows)``."""
        found = np.asarray(query.apply(self.counts.values)).reshape(-1, query.rows)
        return found if self.relaxation is None else without_rounding_errors(found)

    def summary(self, query: Query, prob: float) -> Summary:
        """Posterior summary of a query's answers."""
        return summarise(self.answers(query), prob)

    def moments(self, query: Query) -> tuple[Floats, Floats]:
        """Posterior means and standard deviations of a query's answers."""
        draws = self.answers(query)
        return draws.mean(axis=0), draws.std(axis=0)

    @property
    def recorded(self) -> dict[str, Query]:
        """Queries whose draws were kept beside those of the cells, by the variables that hold them: none, as all are sums of these."""
        return {}

    def has(self, query: Query) -> bool:
        """Whether `summary` can tell of a query: of any, where there are draws of the cells."""
        return bool(query.rows)

    def fixed(self, query: Query) -> Mask:
        """Which answers have one possible value: they follow from exact values and determined cells by adding and subtracting."""
        return self.determined if query.is_identity else determined_answers(query, self.exact, self.determined)

    @cached_property
    def published_cells(self) -> list[tuple[str, Floats]]:
        """Noisy values of the cells of each measurement of them, shape ``(cells,)``, with its title; NaN where unmeasured."""
        found = [(i, measured) for i, measured in enumerate(self.measurements) if measured.query.is_identity]
        return [(self.titled(i) if len(found) > 1 else "", _flat(measured.published)) for i, measured in found]

    @cached_property
    def published(self) -> Floats:
        """Noisy value of each cell by the first measurement of them, shape ``(cells,)``; NaN where none was published."""
        if not self.published_cells:
            return np.full(self.release.frame.size, np.nan)
        return self.published_cells[0][1]

    @cached_property
    def prior_draws(self) -> npt.NDArray[Any] | None:
        """Prior draws of the cells, shape ``(draws, cells)``, where the DataTree has them."""
        if "prior" not in self.tree.children or self.name not in self.tree["prior"].data_vars:
            return None
        draws = self.tree["prior"].to_dataset()[self.name].transpose("chain", "draw", *self.release.dims)
        return np.asarray(draws.values).reshape(-1, self.release.frame.size)

    def truth(self, table: Any) -> Floats | None:
        """A confidential table, where the user has it, as numbers in the order of the cells."""
        if table is None:
            return None
        return np.asarray(self.release.frame.align(table, "truth"), dtype=np.float64).reshape(-1)


def in_range(fit: Fit, measurement: int) -> None:
    """Refuse a measurement that the table does not have."""
    if not 0 <= measurement < len(fit.measurements):
        noisy = (
            f"from 0 to {len(fit.measurements) - 1}" if fit.measurements else "that of a noisy table, and there is none"
        )
        raise ValueError(f"measurement must be {noisy}, got {measurement!r}")
