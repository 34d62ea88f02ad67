"""What every section of the page is written from."""

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
from bayesdp.plots.fit import Fit, Summary
from bayesdp.plots.noise_scale import NoiseScale, noise_scale
from bayesdp.plots.observed import Described, Further, described_model, further
from bayesdp.plots.style import percent
from bayesdp.queries import Query, SumPart
from bayesdp.release import Release
from bayesdp.report.numbers import plural

__all__ = ["Context", "Whole", "is_simulated", "same_part"]


@dataclass(frozen=True, eq=False)
class Context:
    """One table of the posterior, and the wishes of whoever asked for the page.

    Parameters
    ----------
    prob : float
        Probability of the equal-tailed intervals.
    truth : float array, shape (cells,), or None
        The confidential counts, in a simulation.
    command : str
        Command line, where there was one.
    several : bool
        Whether the page has other tables, so that this one has to be named.
    """

    fit: Fit
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
        """Whether it is no table of counts but statistics, any real numbers."""
        return self.fit.release.about == "statistics"

    @property
    def kind(self) -> str:
        """Probability and kind of the intervals."""
        return f"{percent(self.prob)} equal-tailed interval"

    @property
    def of_table(self) -> str:
        """Which table, where the page has several: the end of a title."""
        return f": {self.fit.name}" if self.several else ""

    def file(self, name: str) -> str:
        """The name of a file inside the page: that of the table comes first where there are several."""
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
        return [noise_scale(own) for own in self.fit.measurements]

    @property
    def worst_ess(self) -> float:
        """The smallest effective sample size of anything that moves; NaN where nobody has looked."""
        return float(_diagnostics(self.tree).get("worst_ess", np.nan))

    def measurement_title(self, measurement: int) -> str:
        """A measurement in a few words."""
        own, title = described(self.fit.measurements[measurement].query), self.fit.titled(measurement)
        return f"{title}: {own}" if title else own

    @cached_property
    def totals(self) -> list[Query]:
        """Totals that are reported: what was asked besides the cells, one-way margins, groups, the grand total."""
        frame = self.frame
        queries = [own.query for own in self.fit.exact] + [own.query for own in self.fit.measurements]
        asked = [part for query in queries for part in query.parts]
        one_way = [SumPart(frame, (dim,)) for dim in frame.dims] if len(frame.dims) > 1 else []
        groups = [SumPart(frame, (name,)) for name, _, labels in frame.groups if len(set(labels)) > 1]
        wanted: list[Any] = []
        for part in (*asked, *one_way, *groups, SumPart(frame, ())):
            whole = isinstance(part, SumPart) and part.keep == frame.dims
            if not whole and not any(same_part(part, other) for other in wanted):
                wanted.append(part)
        return [Query(part.frame, (part,)) for part in wanted]


@dataclass(frozen=True, eq=False)
class Whole:
    """All tables of the posterior, and what concerns them together.

    Parameters
    ----------
    tables : tuple of Context
        One a table, at least one.
    question : str
        What the reader wants to know, in the words of whoever asked for the page; empty for words of our own.
    headline : Query or str or None
        What answers it: a query of one of the tables, or a variable of the model.
    """

    tables: tuple[Context, ...]
    question: str = ""
    headline: Query | str | None = None

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
        return [release for own in self.tables for release in own.fit.releases]

    @cached_property
    def further(self) -> Further:
        """What is in the model besides the releases."""
        return further(self.tree, [own.fit.releases for own in self.tables])

    @cached_property
    def described(self) -> Described:
        """The prior in words and formulas, and the model as PyMC prints it, where the posterior has them."""
        return described_model(self.tree)

    @cached_property
    def parameters(self) -> list[str]:
        """Variables of the posterior that are numbers, and neither tables nor the coordinates behind one."""
        tables = {own.fit.name for own in self.tables}
        relaxed = [
            str(own.attrs.get("variable")) for name, own in self.tree.children.items() if name[:10] == "relaxation"
        ]
        hidden = tables | {f"{name}_coordinates" for name in relaxed}
        variables = self.tree["posterior"].to_dataset().data_vars
        return [str(name) for name, own in variables.items() if own.dtype.kind in "iuf" and name not in hidden]

    @cached_property
    def free_parameters(self) -> list[str]:
        """`parameters` without what the model computes from others."""
        computed = {name for name, law in self.described.lines("=") if law.startswith("Deterministic(")}
        return [name for name in self.parameters if name not in computed]

    @cached_property
    def converged(self) -> bool | None:
        """Whether the chains converged; None where nobody has looked."""
        return converged_of(self.tree)

    @property
    def verdict(self) -> str:
        """The verdict in a word or two; empty in files of before there was one."""
        return str(_diagnostics(self.tree).get("verdict", ""))

    @property
    def message(self) -> str:
        """Convergence in words."""
        return str(_diagnostics(self.tree).get("message", ""))

    @property
    def simulated(self) -> bool:
        """Whether the noise of any release came from a generator whose seed somebody may know."""
        return any(is_simulated(release) for release in self.releases)


def same_part(one: Any, other: Any) -> bool:
    """Whether two parts of queries ask for the same numbers; the frames of two releases may differ in their groups."""
    if isinstance(one, SumPart) and isinstance(other, SumPart):
        same = one.keep == other.keep and one.answer_labels == other.answer_labels
        return bool(same and np.array_equal(one.row_of_cell, other.row_of_cell))
    return bool(one == other)


def is_simulated(release: Release) -> bool:
    """Whether the noise of a release came from a generator whose seed somebody may know."""
    return bool(release.simulated or (release.guarantee is not None and release.guarantee.simulated))


def _diagnostics(tree: xr.DataTree) -> dict[str, Any]:
    if "diagnostics" not in tree.children:
        return {}
    return {str(key): value for key, value in tree["diagnostics"].attrs.items()}
