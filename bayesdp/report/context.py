"""The data of a page: one `Context` for each table, and the `Whole` that the sections on all of them are written from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp.composition import converged_of
from bayesdp.frames import Frame
from bayesdp.measurements import described
from bayesdp.plots.noise import NoiseScale, noise_scale
from bayesdp.plots.style import percent
from bayesdp.posterior import Described, Further, Posterior, Summary, described_model, further
from bayesdp.queries import Query
from bayesdp.release import Release
from bayesdp.report.tables import plural
from bayesdp.summaries import LawComparison, totals_of


@dataclass(frozen=True, eq=False)
class Context:
    """One table of the posterior, and the options of the page.

    `prob` is the probability of the equal-tailed intervals, `truth`, shape ``(cells,)``, the confidential counts in a simulation, and
    `command` the command line, where there was one. Where the page has `several` tables, this one has to be named.
    """

    fit: Posterior
    prob: float
    truth: npt.NDArray[np.float64] | None
    command: str
    several: bool = False

    @property
    def tree(self) -> xr.DataTree:
        """The posterior."""
        return self.fit.tree

    @property
    def frame(self) -> Frame:
        """Labels of the table."""
        return self.fit.release.frame

    @property
    def of_statistics(self) -> bool:
        """Whether the release is about statistics (any real numbers) and not about a table of counts."""
        return self.fit.release.about == "statistics"

    @property
    def kind(self) -> str:
        """Probability and kind of the intervals."""
        return f"{percent(self.prob)} equal-tailed interval"

    @property
    def of_table(self) -> str:
        """The end of a title that names the table, where the page has several."""
        return f": {self.fit.name}" if self.several else ""

    def file(self, name: str) -> str:
        """The name of a file inside the page; it begins with the name of the table where there are several."""
        return f"{self.fit.name}-{name}" if self.several else name

    @cached_property
    def table(self) -> str:
        """The table in a few words."""
        frame = self.frame
        if self.of_statistics:
            return plural(frame.size, "statistic")
        sizes = " × ".join(f"{dim} ({size:,})" for dim, size in zip(frame.dims, frame.shape, strict=True))
        return f"{sizes}, {frame.size:,} cells" if len(frame.dims) > 1 else sizes

    @cached_property
    def summary(self) -> Summary:
        """Posterior summary of the cells."""
        return self.fit.summary(self.fit.cells, self.prob)

    @cached_property
    def noise(self) -> list[NoiseScale]:
        """Size of the noise of each measurement."""
        return [noise_scale(measured) for measured in self.fit.measurements]

    def measurement_title(self, measurement: int) -> str:
        """A measurement in a few words."""
        query, title = described(self.fit.measurements[measurement].query), self.fit.titled(measurement)
        return f"{title}: {query}" if title else query

    @cached_property
    def totals(self) -> list[Query]:
        """Totals that are reported: released queries other than the cells, one-way margins, groups, the grand total.

        Of a result of `bayesdp.fit_hierarchy`, those that were recorded.
        """
        asked = [*self.fit.recorded.values(), *(part.query for part in self.fit.exact)]
        totals = totals_of(self.frame, asked + [part.query for part in self.fit.measurements])
        return [query for query in totals if self.fit.has(query)]


@dataclass(frozen=True, eq=False)
class Whole:
    """All tables of the posterior, at least one, and the properties of the model as a whole.

    `question` is what the reader wants to know, in the words of the user, or empty, `headline` what answers it: a query of one of the
    tables, or a variable of the model. `laws` is the same model under several noise laws.
    """

    tables: tuple[Context, ...]
    question: str = ""
    headline: Query | str | None = None
    laws: LawComparison | None = None

    @property
    def tree(self) -> xr.DataTree:
        """The posterior."""
        return self.tables[0].tree

    @property
    def kind(self) -> str:
        """Probability and kind of the intervals."""
        return self.tables[0].kind

    @property
    def releases(self) -> list[Release]:
        """All releases of all tables."""
        return [release for table in self.tables for release in table.fit.releases]

    @cached_property
    def further(self) -> Further:
        """Likelihoods and potentials of the model besides the releases, and releases whose numbers were replaced."""
        return further(self.tree, [table.fit.releases for table in self.tables])

    @cached_property
    def described(self) -> Described:
        """The prior in words and formulas, and the model as PyMC prints it, where the posterior has them."""
        return described_model(self.tree)

    @cached_property
    def parameters(self) -> list[str]:
        """Variables of the posterior that are numbers, and neither tables nor the coordinates behind one."""
        tables = {table.fit.name for table in self.tables}
        relaxed = [
            str(group.attrs.get("variable")) for name, group in self.tree.children.items() if name[:10] == "relaxation"
        ]
        recorded = {name for table in self.tables for name in table.fit.recorded}
        hidden = tables | recorded | {f"{name}_coordinates" for name in relaxed}
        variables = self.tree["posterior"].to_dataset().data_vars
        return [
            str(name) for name, variable in variables.items() if variable.dtype.kind in "iuf" and name not in hidden
        ]

    @cached_property
    def free_parameters(self) -> list[str]:
        """`parameters` without what the model computes from others."""
        computed = {name for name, law in self.described.lines("=") if law.startswith("Deterministic(")}
        return [name for name in self.parameters if name not in computed]

    @cached_property
    def converged(self) -> bool | None:
        """Whether the chains converged; None without diagnostics."""
        return converged_of(self.tree)

    @property
    def diagnostics(self) -> dict[Any, Any]:
        """What the posterior says of convergence; empty without diagnostics."""
        return dict(self.tree["diagnostics"].attrs) if "diagnostics" in self.tree.children else {}

    @property
    def message(self) -> str:
        """Convergence in words."""
        return str(self.diagnostics.get("message", ""))

    @property
    def simulated(self) -> bool:
        """Whether the noise of any release came from a generator whose seed somebody may know."""
        return any(is_simulated(release) for release in self.releases)


def is_simulated(release: Release) -> bool:
    """Whether the noise of a release came from a generator whose seed somebody may know."""
    return bool(release.simulated or (release.guarantee is not None and release.guarantee.simulated))
