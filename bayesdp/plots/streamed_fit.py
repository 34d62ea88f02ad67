"""What pictures and reports read from a result of `bayesdp.fit_hierarchy`, which has no draws of the cells."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp.composition import CELLS, Streamed, check_posterior
from bayesdp.plots.fit import Fit, Summary
from bayesdp.plots.observed import names_of_measurements
from bayesdp.queries import Query

type Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StreamedFit(Fit):
    """Cells from their summaries, and answers of the queries that were recorded from their draws.

    Parameters
    ----------
    tree, releases, observed
        As for `Fit`.
    counts : xarray.DataArray
        The posterior means of the cells, as there are no draws.
    streamed : Streamed
    """

    streamed: Streamed = field(kw_only=True)

    @classmethod
    def read(cls, tree: xr.DataTree) -> StreamedFit:
        """From the result; errors as of `check_posterior`."""
        check_posterior(tree)
        streamed = Streamed(tree)
        releases = (streamed.release,)
        observed = names_of_measurements(tree, [releases])[0]
        means = tree[CELLS].to_dataset()["mean"].rename(CELLS)
        return cls(tree, releases, means, tuple(observed), streamed=streamed)

    @property
    def chains(self) -> int:
        """Number of chains."""
        return int(self.tree["posterior"].to_dataset().sizes["chain"])

    @property
    def draws(self) -> int:
        """Number of draws of each chain."""
        return int(self.tree["posterior"].to_dataset().sizes["draw"])

    @property
    def recorded(self) -> dict[str, Query]:
        """Queries whose draws were kept, by the variables that hold them."""
        return self.streamed.queries

    def has(self, query: Query) -> bool:
        """Whether `summary` can tell of a query."""
        return query.is_identity or self.streamed.has(query)

    def answers(self, query: Query) -> npt.NDArray[Any]:
        """Draws of the answers of a query that was recorded, chains after one another; ValueError for others."""
        return self.streamed.answers(query).reshape(-1, query.rows)

    def summary(self, query: Query, prob: float) -> Summary:
        """Posterior summary of a query that was recorded, or of the cells; ValueError for others."""
        if not query.is_identity:
            return super().summary(query, prob)
        cells = self.streamed.cells(prob)
        return Summary(cells.mean, cells.sd, cells.lower, cells.upper, prob)

    def moments(self, query: Query) -> tuple[Floats, Floats]:
        """Posterior means and standard deviations."""
        if not query.is_identity:
            return super().moments(query)
        cells = self.tree[CELLS].to_dataset()
        mean, sd = (cells[name].transpose(*self.release.dims).values for name in ("mean", "sd"))
        return np.asarray(mean, dtype=np.float64).reshape(-1), np.asarray(sd, dtype=np.float64).reshape(-1)
