"""One table of a posterior, and the model around it, as summaries, pictures, reports and the command line read them.

Its cells were drawn (`Posterior`), or `bayesdp.fit_hierarchy` summarised them while sampling (`SummarisedPosterior`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp import _text
from bayesdp._validate import probability, shown
from bayesdp.composition import (
    CELLS,
    as_one,
    check_posterior,
    draws_of,
    is_streamed,
    releases_of_tables,
    tables_of_posterior,
)
from bayesdp.consistency import determined_answers
from bayesdp.fibers import Fiber
from bayesdp.queries import Identity, Query, rows_of
from bayesdp.release import Exact, Measured, Release
from bayesdp.storage.draws import relaxation_of, without_rounding_errors

type Floats = npt.NDArray[np.float64]
type Mask = npt.NDArray[np.bool_]

_COLUMNS_AT_ONCE = 512
"""About as many quantities are summarised at a time, so that a large table needs no second copy of its draws."""


@dataclass(frozen=True, eq=False)
class Summary:
    """Mean, standard deviation and equal-tailed interval of some quantities; arrays have one entry a quantity.

    `ess` and `rhat` are there of cells that were summarised while sampling; NaN where a cell cannot move or never did.
    """

    mean: Floats
    sd: Floats
    lower: Floats
    upper: Floats
    prob: float
    ess: Floats | float = np.nan
    rhat: Floats | float = np.nan


def summarise_draws(draws: npt.NDArray[Any], prob: float) -> Summary:
    """Summarise draws, shape ``(draws, quantities)``.

    The ends of the intervals are values that were drawn, so that for counts an interval holds at least `prob` of the draws.

    Examples
    --------
    >>> own = summarise_draws(np.arange(101).reshape(-1, 1), 0.9)
    >>> own.mean.item(), own.lower.item(), own.upper.item()
    (50.0, 5.0, 95.0)
    """
    level = probability(prob, "prob")
    tails = [(1 - level) / 2, (1 + level) / 2]
    found = []
    for columns in np.array_split(draws, max(1, -(-draws.shape[1] // _COLUMNS_AT_ONCE)), axis=1):
        block = columns.astype(np.float64)
        ends = np.quantile(block, tails, axis=0, method="inverted_cdf")
        found.append(np.stack([block.mean(axis=0), block.std(axis=0), *ends]))
    mean, sd, lower, upper = np.concatenate(found, axis=1)
    return Summary(mean, sd, lower, upper, level)


def _flat(values: Any) -> Floats:
    return np.asarray(values, dtype=np.float64).reshape(-1)


@dataclass(frozen=True, eq=False)
class Posterior:
    """A table of confidential counts, or statistics, in a posterior, with the releases that it is based on.

    Several releases are in the order in which the model observed them.
    """

    tree: xr.DataTree
    name: str
    releases: tuple[Release, ...]

    @classmethod
    def of(cls, posterior: Any, var: str | None = None) -> Posterior:
        """The table of that name in the model, the first one by default; ValueError if there is none, and as for `all`."""
        tables = cls.all(posterior)
        if var is None:
            return tables[0]
        for table in tables:
            if table.name == var:
                return table
        names = ", ".join(table.name for table in tables)
        raise ValueError(f"var must be a table of the posterior, {names}; got {var!r}")

    @classmethod
    def all(cls, posterior: Any) -> list[Posterior]:
        """Every table that has a release and was recorded, checked (`check_posterior`); TypeError or ValueError if there is none."""
        if not isinstance(posterior, xr.DataTree):
            raise TypeError(
                f"posterior must be the DataTree that bayesdp.sample returns, got {type(posterior).__name__}"
            )
        has = (
            f"it has {', '.join(posterior.children) or 'none'}. bayesdp.sample adds a release, unless its numbers were replaced in "
            "the model; to the result of pm.sample, bayesdp.inference.annotate does"
        )
        if "posterior" not in posterior.children:
            raise ValueError(f"posterior lacks the group 'posterior'; {has}")
        tables = tables_in(posterior)
        if not tables and not releases_of_tables(posterior):
            raise ValueError(f"posterior lacks the group 'release'; {has}")
        if not tables:
            raise ValueError("posterior lacks the counts that its release is about: they were not recorded (var_names)")
        check_posterior(posterior)
        return tables

    @property
    def release(self) -> Release:
        """The first release: its frame is that of the table."""
        return self.releases[0]

    @cached_property
    def joint(self) -> Release:
        """All releases as one."""
        return as_one(self.releases)

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

    @cached_property
    def observed(self) -> tuple[str | None, ...]:
        """For each of `measurements`, the observed variable of the model."""
        tables = tables_in(self.tree)
        names = names_of_measurements(self.tree, [table.releases for table in tables])
        return tuple(names[[table.name for table in tables].index(self.name)])

    @cached_property
    def counts(self) -> xr.DataArray:
        """Draws, with dimensions chain, draw and those of the table: real numbers where `relaxation` says so."""
        return draws_of(self.tree, self.name, self.release)

    @cached_property
    def relaxation(self) -> xr.Dataset | None:
        """What the posterior says of its error, where real numbers stand for whole ones; None for whole numbers."""
        return relaxation_of(self.tree, self.name)

    @property
    def chains(self) -> int:
        """Number of chains."""
        return int(self.tree["posterior"].to_dataset().sizes["chain"])

    @property
    def draws(self) -> int:
        """Number of draws of each chain."""
        return int(self.tree["posterior"].to_dataset().sizes["draw"])

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
    def known(self) -> Mask:
        """Which cells have one possible value, as the group ``fiber`` says, else found anew, shape ``(*table)``; no statistic has."""
        if self.release.about == "statistics":
            return np.zeros(self.release.frame.shape, dtype=np.bool_)
        limits = self.limits
        if limits is None or "determined" not in limits.data_vars:  # files of earlier versions
            return Fiber.of(self.exact, self.release.frame).determined()
        return np.asarray(limits.to_dataset()["determined"].transpose(*self.release.dims).values, dtype=np.bool_)

    @cached_property
    def determined(self) -> Mask:
        """Which cells have one possible value, shape ``(cells,)``: those `known`, and what follows from them and exact values."""
        if self.release.about == "statistics":
            return self.known.reshape(-1)
        return determined_answers(self.cells, self.exact, self.known)

    def fixed(self, query: Query) -> Mask:
        """Which answers have one possible value: they follow from exact values and determined cells by adding and subtracting."""
        return self.determined if query.is_identity else determined_answers(query, self.exact, self.determined)

    @property
    def recorded(self) -> dict[str, Query]:
        """Queries whose draws were kept beside those of the cells, by the variables that hold them: none, as all are sums of these."""
        return {}

    def has(self, query: Query) -> bool:
        """Whether `summary` can tell of a query: of any, where there are draws of the cells."""
        return bool(query.rows)

    def chains_of(self, query: Query) -> npt.NDArray[Any]:
        """Draws of a query's answers, shape ``(chains, draws, rows)``."""
        return np.asarray(query.apply(self.counts.values)).reshape(self.chains, self.draws, query.rows)

    def answers(self, query: Query) -> npt.NDArray[Any]:
        """Draws of a query's answers, chains after one another: shape ``(chains * draws, rows)``."""
        found = self.chains_of(query).reshape(-1, query.rows)
        return found if self.relaxation is None else without_rounding_errors(found)

    def summary(self, query: Query, prob: float) -> Summary:
        """Posterior summary of a query's answers."""
        return summarise_draws(self.answers(query), prob)

    def moments(self, query: Query) -> tuple[Floats, Floats]:
        """Posterior means and standard deviations of a query's answers."""
        draws = self.answers(query)
        return draws.mean(axis=0), draws.std(axis=0)

    @cached_property
    def published_cells(self) -> list[tuple[str, Floats]]:
        """Noisy values of the cells of each measurement of them, shape ``(cells,)``, with its title; NaN where unmeasured."""
        found = [(i, measured) for i, measured in enumerate(self.measurements) if measured.query.is_identity]
        return [(self.titled(i) if len(found) > 1 else "", _flat(measured.published)) for i, measured in found]

    @cached_property
    def published(self) -> Floats:
        """Noisy value of each cell by the first measurement of them, shape ``(cells,)``; NaN where none was published."""
        return self.published_cells[0][1] if self.published_cells else np.full(self.release.frame.size, np.nan)

    @cached_property
    def prior_draws(self) -> npt.NDArray[Any] | None:
        """Prior draws of the cells, shape ``(draws, cells)``, where the DataTree has them."""
        if "prior" not in self.tree.children or self.name not in self.tree["prior"].data_vars:
            return None
        draws = self.tree["prior"].to_dataset()[self.name].transpose("chain", "draw", *self.release.dims)
        return np.asarray(draws.values).reshape(-1, self.release.frame.size)

    def truth(self, table: Any) -> Floats | None:
        """A confidential table, where the user has it, as numbers in the order of the cells."""
        return None if table is None else _flat(self.release.frame.align(table, "truth"))


class SummarisedPosterior(Posterior):
    """A result of `bayesdp.fit_hierarchy`: summaries of the cells, and draws of the answers of queries that were recorded.

    Other queries are refused by ValueError.
    """

    @cached_property
    def counts(self) -> xr.DataArray:
        """The posterior means of the cells, as there are no draws."""
        return self.tree[CELLS].to_dataset()["mean"].rename(CELLS)

    @cached_property
    def recorded(self) -> dict[str, Query]:
        """Queries whose draws were kept, by the variables that hold them."""
        found = {}
        for name, variable in self.tree["posterior"].data_vars.items():
            if "query" not in variable.attrs:
                continue
            where = f"query of {name} in the posterior"
            description = _text.loads(variable.attrs["query"], where)
            try:
                query = Query.from_description(description, self.release.frame)
            except (KeyError, TypeError, AttributeError) as error:
                raise ValueError(f"{where} is damaged: {error}") from None
            if variable[0, 0].size != query.rows:
                raise ValueError(f"{where} has {query.rows} answers, but {variable[0, 0].size} were kept")
            found[str(name)] = query
        return found

    def draws_of(self, name: str) -> npt.NDArray[Any]:
        """Draws of the answers of a recorded query, shape ``(chains, draws, rows)``."""
        draws = self.tree["posterior"].to_dataset()[name].transpose("chain", "draw", ...)
        return draws.values.reshape(self.chains, self.draws, -1)

    def chains_of(self, query: Query) -> npt.NDArray[Any]:
        """Draws of the answers of a query, each of which is one that was recorded; or of any query, if all cells were."""
        for name, known in self.recorded.items():
            if known == query:
                return self.draws_of(name)
            if known.is_identity:
                tables = self.draws_of(name).reshape(self.chains, self.draws, *known.shape)
                return np.asarray(query.apply(tables)).reshape(self.chains, self.draws, -1)
        places = [self._rows.get(row) for row in rows_of(query.matrix)]
        kept = [place for place in places if place is not None]
        if len(kept) < len(places) or not places:
            raise ValueError(
                f"the draws of {query!r} were not kept: bdp.fit_hierarchy keeps those of the queries in `record` "
                f"({shown(self.recorded) if self.recorded else 'there were none'}), and of cells summaries, which do not add up to "
                "intervals of sums. Fit again with this query in `record`"
            )
        drawn = {name: self.draws_of(name) for name in {name for name, _ in kept}}
        return np.stack([drawn[name][:, :, column] for name, column in kept], axis=2)

    @cached_property
    def _rows(self) -> dict[tuple[bytes, bytes], tuple[str, int]]:
        """Where the draws of each answer are, by its cells and their weights."""
        return {
            row: (name, column)
            for name, query in self.recorded.items()
            if not query.is_identity
            for column, row in enumerate(rows_of(query.matrix))
        }

    def has(self, query: Query) -> bool:
        """Whether `summary` can tell of a query: of the cells, and of what was recorded."""
        if query.is_identity:
            return True
        try:
            self.chains_of(query)
        except ValueError:
            return False
        return True

    def summary(self, query: Query, prob: float) -> Summary:
        """Posterior summary of a recorded query, or of the cells; ValueError if the quantiles at the ends were not kept."""
        if not query.is_identity:
            return super().summary(query, prob)
        level, cells = probability(prob, "prob"), self.tree[CELLS].to_dataset()
        shares = cells["share"].values.astype(np.float64)

        def place(share: float) -> int | None:
            return next((i for i, kept in enumerate(shares) if abs(kept - share) <= 1e-9), None)

        tails = (1 - level) / 2, (1 + level) / 2
        low, high = map(place, tails)
        if low is None or high is None:
            known = [f"{1 - 2 * share:.10g}" for share in shares if share < 0.5 and place(1 - share) is not None]
            raise ValueError(
                f"prob={prob:.10g} needs the quantiles {tails[0]:.10g} and {tails[1]:.10g} of the cells, which were not kept; there "
                f"are intervals for prob = {', '.join(known) or 'none'}. Fit again with these in `quantiles`"
            )
        lower, upper = (self._of_cells(cells["quantile"].isel(share=at, drop=True)) for at in (low, high))
        mean, sd, ess, rhat = (self._of_cells(cells[name]) for name in ("mean", "sd", "ess", "rhat"))
        return Summary(mean, sd, lower, upper, level, ess, rhat)

    def moments(self, query: Query) -> tuple[Floats, Floats]:
        """Posterior means and standard deviations."""
        if not query.is_identity:
            return super().moments(query)
        cells = self.tree[CELLS].to_dataset()
        return self._of_cells(cells["mean"]), self._of_cells(cells["sd"])

    def _of_cells(self, values: xr.DataArray) -> Floats:
        return _flat(values.transpose(*self.release.dims).values)


def tables_in(tree: xr.DataTree) -> list[Posterior]:
    """The tables of a posterior with a release that were recorded, in the order of the model, not checked."""
    if is_streamed(tree):
        return [SummarisedPosterior(tree, CELLS, releases_of_tables(tree)[0][1][:1])]
    return [Posterior(tree, name, releases) for name, releases in tables_of_posterior(tree).items()]


_LINE = re.compile(r"\s*(?P<name>\S.*?) (?P<relation>[~=]) (?P<law>[A-Za-z_]\w*\(.*)")
"""A line of ``model.str_repr()``."""


@dataclass(frozen=True)
class Further:
    """What is in the model besides the releases of the file, by name and in the order of the model.

    `likelihoods` are observed variables that belong to no release, `replaced` those with published numbers that no release of the
    file has, and `potentials` all but those that a table of `ContinuousCounts` has of its own.
    """

    likelihoods: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    potentials: tuple[str, ...] = ()


@dataclass(frozen=True)
class Described:
    """The attribute ``prior`` of a posterior: the prior in words and formulas, and the model as PyMC prints it, or empty."""

    text: str
    model: str

    @property
    def others(self) -> list[str]:
        """Lines of the model that name no variable with a law: what tables of `ContinuousCounts` say of their base."""
        return [line.strip() for line in self.model.splitlines() if line.strip() and _LINE.fullmatch(line) is None]

    def lines(self, relation: str) -> list[tuple[str, str]]:
        """Variables and their laws, of the lines with that relation, ``"~"`` or ``"="``."""
        found = (_LINE.fullmatch(line) for line in self.model.splitlines())
        return [(line["name"], line["law"]) for line in found if line and line["relation"] == relation]


def names_of_measurements(tree: xr.DataTree, releases: Sequence[Sequence[Release]]) -> list[list[str | None]]:
    """The observed variable of each noisy measurement, for the releases of each table; None where there is none."""
    return [[name for part, name in named if isinstance(part, Measured)] for named in _matched(tree, releases)]


def further(tree: xr.DataTree, releases: Sequence[Sequence[Release]]) -> Further:
    """What is in the model besides the releases of each table."""
    observed = _observed(tree)
    taken = {name for table in _matched(tree, releases) for _, name in table}
    published = set(tree["constant_data"].data_vars) if "constant_data" in tree.children else set()
    laws = dict(described_model(tree).lines("~"))
    # That answers about the same records have one number is part of the releases' likelihood.
    rest = [n for n in observed if n not in taken and not laws.get(n, "").startswith("SameRecords(")]
    # Scalars are not among the constants of PyMC's result; the law of an exact part has a name of its own.
    replaced = [n for n in rest if f"{n}_published" in published or laws.get(n, "").startswith("ExactAnswers(")]
    own_densities = {
        f"{group.attrs.get('variable', '')}_density"
        for name, group in tree.children.items()
        if name.startswith("relaxation")
    }
    potentials = [n for n, law in laws.items() if law.startswith("Potential(") and n not in own_densities]
    return Further(tuple(n for n in rest if n not in replaced), tuple(replaced), tuple(potentials))


def described_model(tree: xr.DataTree) -> Described:
    """The attribute ``prior``: `bayesdp fit` writes words and formulas first, and the model as PyMC prints it after them."""
    text = str(tree.attrs.get("prior", "")).strip("\n")
    if is_streamed(tree):  # without a model of PyMC
        return Described(text.strip(), "")
    words, separator, last = text.rpartition("\n\n")
    if not separator:
        words, last = "", text
    first = last.splitlines()[0] if last.strip() else ""
    if _LINE.fullmatch(first) is None:
        return Described(text.strip(), "")
    return Described(words.strip(), last)


def _observed(tree: xr.DataTree) -> dict[str, npt.NDArray[Any]]:
    if "observed_data" not in tree.children:
        return {}
    variables = tree["observed_data"].to_dataset().data_vars
    return {str(name): np.asarray(values.values) for name, values in variables.items()}


def _matched(tree: xr.DataTree, tables: Sequence[Sequence[Release]]) -> list[list[tuple[Measured | Exact, str | None]]]:
    """The observed variable that holds each part: of the name that `observe` gives, with the numbers of the part.

    Of trees without observed data: the names in a model that has nothing else.
    """
    observed = _observed(tree)
    taken: set[str] = set()
    found = []
    for releases in tables:
        named: list[tuple[Measured | Exact, str | None]] = []
        taken = taken if observed else set()
        for release in releases:
            parts: list[Measured | Exact] = [*release.measurements, *release.exact]  # as `bayesdp.observe` adds them
            for part in parts:
                base = (part.name or "noisy") if isinstance(part, Measured) else "exact"
                names = _holding(observed, base, part) if observed else chain([base], (f"{base}_{k}" for k in count(2)))
                name = next((name for name in names if name not in taken), None)
                taken |= set() if name is None else {name}
                named.append((part, name))
        found.append(named)
    return found


def _holding(observed: dict[str, npt.NDArray[Any]], base: str, part: Measured | Exact) -> list[str]:
    """Variables that hold the numbers of a part, of the names that `observe` may have given, in the order of their numbers."""
    numbers = np.asarray(part.values).reshape(-1)
    if isinstance(part, Measured):
        numbers = numbers[~part.unmeasured.reshape(-1)]
    numbered = {name: re.fullmatch(rf"{re.escape(base)}(?:_(\d+))?", name) for name in observed}
    places = {name: int(found[1] or 1) for name, found in numbered.items() if found}
    return [
        name
        for name in sorted(places, key=places.__getitem__)
        if observed[name].dtype.kind in "iuf" and np.array_equal(observed[name].reshape(-1), numbers)
    ]
