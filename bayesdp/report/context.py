"""The data of a page: one `Context` for each table, and the `Whole` for the sections on all of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayesdp._arrays import Floats, Mask
from bayesdp.frames import Frame
from bayesdp.measurements import described
from bayesdp.plots.noise import NoiseScale, noise_scale
from bayesdp.plots.style import percent
from bayesdp.posterior import LawComparison, Posterior, PosteriorModel, Summary, totals_of
from bayesdp.queries import Query
from bayesdp.report.html import Html, items
from bayesdp.report.tables import plural


@dataclass(frozen=True, eq=False)
class Context:
    """One table of the posterior, and the options of the page.

    `prob` is the probability of the equal-tailed intervals, `truth`, shape ``(cells,)``, the confidential counts in a simulation.
    Where the page has `several` tables, this one has to be named.
    """

    fit: Posterior
    prob: float
    truth: Floats | None = None
    several: bool = False

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

    def cells(self, chosen: Mask) -> Html:
        """Some cells by name."""
        return items([self.frame.cell_name(int(i)) for i in np.flatnonzero(chosen)], what="cells")

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
        """Totals that are reported: released queries other than the cells, one-way margins, groups, the grand total."""
        # Of a result of `bayesdp.fit_hierarchy`, those that were recorded.
        asked = [*self.fit.recorded.values(), *(part.query for part in self.fit.exact)]
        totals = totals_of(self.frame, asked + [part.query for part in self.fit.measurements])
        return [query for query in totals if self.fit.has(query)]


@dataclass(frozen=True, eq=False)
class Whole:
    """The posterior as a whole, its tables, at least one, and the options of the page.

    `question` is what the reader wants to know, in the words of the user, or empty, `headline` what answers it: a query of one of the
    tables, or a variable of the model. `laws` is the same model under several noise laws.
    """

    model: PosteriorModel
    tables: tuple[Context, ...]
    question: str = ""
    headline: Query | str | None = None
    laws: LawComparison | None = None

    @property
    def kind(self) -> str:
        """Probability and kind of the intervals."""
        return self.tables[0].kind
