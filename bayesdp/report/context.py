"""What every section of the page is written from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp.measurements import described
from bayesdp.plots.fit import Fit, Summary
from bayesdp.plots.noise_scale import NoiseScale, noise_scale
from bayesdp.plots.style import percent
from bayesdp.queries import Query
from bayesdp.release import Measured, Release
from bayesdp.summaries import totals_of

__all__ = ["Context"]


@dataclass(frozen=True, eq=False)
class Context:
    """The posterior and the wishes of whoever asked for the page.

    Parameters
    ----------
    fit : Fit
    prob : float
        Probability of the equal-tailed intervals.
    truth : float array, shape (cells,), or None
        The confidential counts, in a simulation.
    command : str
        Command line, where there was one.
    """

    fit: Fit
    prob: float
    truth: npt.NDArray[np.float64] | None
    command: str

    @property
    def tree(self) -> xr.DataTree:
        """The posterior."""
        return self.fit.tree

    @property
    def release(self) -> Release:
        """The release it is based on."""
        return self.fit.release

    @property
    def kind(self) -> str:
        """Probability and kind of the intervals."""
        return f"{percent(self.prob)} equal-tailed interval"

    @cached_property
    def table(self) -> str:
        """The table in a few words."""
        frame = self.release.frame
        sizes = " × ".join(f"{dim} ({size:,})" for dim, size in zip(frame.dims, frame.shape, strict=True))
        return f"{sizes}, {frame.size:,} cells" if len(frame.dims) > 1 else sizes

    @cached_property
    def summary(self) -> Summary:
        """Posterior summary of the cells."""
        return self.fit.summary(self.fit.cells, self.prob)

    @cached_property
    def noise(self) -> list[NoiseScale]:
        """Size of the noise of each measurement."""
        return [noise_scale(own) for own in self.release.measurements]

    @cached_property
    def converged(self) -> bool | None:
        """Whether the chains converged; None where nobody has looked."""
        attrs = self._diagnostics
        return bool(attrs["converged"]) if "converged" in attrs else None

    @property
    def verdict(self) -> str:
        """The verdict in a word or two; empty in files of before there was one."""
        return str(self._diagnostics.get("verdict", ""))

    @property
    def message(self) -> str:
        """Convergence in words."""
        return str(self._diagnostics.get("message", ""))

    @property
    def worst_ess(self) -> float:
        """The smallest effective sample size of anything that moves; NaN where nobody has looked."""
        return float(self._diagnostics.get("worst_ess", np.nan))

    @property
    def _diagnostics(self) -> dict[str, Any]:
        if "diagnostics" not in self.tree.children:
            return {}
        return {str(key): value for key, value in self.tree["diagnostics"].attrs.items()}

    @property
    def prior(self) -> str:
        """The prior in words and formulas, where the posterior has them."""
        return str(self.tree.attrs.get("prior", "")).strip()

    @property
    def simulated(self) -> bool:
        """Whether the noise came from a generator whose seed somebody may know."""
        guarantee = self.release.guarantee
        return bool(self.release.simulated or (guarantee is not None and guarantee.simulated))

    def measurement_title(self, own: Measured) -> str:
        """A measurement in a few words."""
        return f"{own.name}: {described(own.query)}" if own.name else described(own.query)

    @cached_property
    def totals(self) -> list[Query]:
        """Totals that are reported: what was asked besides the cells, one-way margins, groups, the grand total."""
        return totals_of(self.release)
