"""The tables of a posterior, drawn (`Posterior`) or summarised while sampling (`SummarisedPosterior`), and its model as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp import _text
from bayesdp._arrays import Floats, Mask
from bayesdp._validate import instance, probability, shown
from bayesdp.fibers import Fiber
from bayesdp.measurements.consistency import determined_answers
from bayesdp.mechanisms.composition import as_one
from bayesdp.queries import Identity, Query, SumPart, combined_answers, rows_of
from bayesdp.release import Exact, Measured, Release
from bayesdp.storage.posteriors import (
    CELLS,
    check_posterior,
    converged_of,
    draws_of,
    groups_of,
    is_relaxed,
    is_streamed,
    releases_of_tables,
    tables_of_posterior,
    without_rounding_errors,
)

_COLUMNS_AT_ONCE = 512
"""About as many quantities are summarised at a time, so that a large table needs no second copy of its draws."""


@dataclass(frozen=True, eq=False)
class Summary:
    """Mean, standard deviation, equal-tailed interval and diagnostics of some quantities; arrays have one entry a quantity.

    Effective sample sizes and R-hat are NaN where they were not asked for, and where a quantity cannot move or never did.
    """

    mean: Floats
    sd: Floats
    lower: Floats
    upper: Floats
    prob: float
    ess_bulk: Floats
    ess_tail: Floats
    rhat: Floats


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
    return Summary(mean, sd, lower, upper, level, *np.full((3, len(mean)), np.nan))


def flat(values: Any) -> Floats:
    """Numbers one after another."""
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
        """The table of that name in the model, the first by default; TypeError or ValueError if there is none, or a check fails."""
        if isinstance(posterior, Posterior):
            return posterior
        tables = {table.name: table for table in PosteriorModel.checked(posterior).published_tables()}
        if var is not None and var not in tables:
            raise ValueError(f"var must be a table of the posterior, {', '.join(tables)}; got {var!r}")
        return tables[next(iter(tables)) if var is None else var]

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
        places = [(i, k) for i, release in enumerate(self.releases) for k in range(len(release.measurements))]
        number, place = places[measurement]
        others = self.releases[number].measurements
        measured = others[place]
        same_query = [k for k, other in enumerate(others) if other.query == measured.query]
        parts = [f"release {number + 1}"] if len(self.releases) > 1 else []
        if measured.name:
            parts.append(measured.name)
        elif len(same_query) > 1:
            parts.append(f"no. {same_query.index(place) + 1}")
        return ", ".join(parts)

    @cached_property
    def observed(self) -> tuple[str | None, ...]:
        """For each of `measurements`, the observed variable of the model; None where there is none."""
        matched = PosteriorModel(self.tree).matched[self.name]
        return tuple(name for part, name in matched if isinstance(part, Measured))

    @cached_property
    def counts(self) -> xr.DataArray:
        """Draws, with dimensions chain, draw and those of the table: real numbers where `relaxation` says so."""
        return draws_of(self.tree, self.name, self.release)

    @cached_property
    def relaxed(self) -> bool:
        """Whether real numbers stand for whole ones, as in files of version 0.1."""
        return is_relaxed(self.tree, self.name)

    @property
    def chains(self) -> int:
        """Number of chains."""
        return int(self.tree["posterior"].to_dataset().sizes["chain"])

    @property
    def draws(self) -> int:
        """Number of draws of each chain."""
        return int(self.tree["posterior"].to_dataset().sizes["draw"])

    @property
    def computed(self) -> bool:
        """Whether no chain was run, as in `bayesdp.fit_cells`: what was drawn are independent draws."""
        return PosteriorModel(self.tree).chains == 0

    @property
    def limits(self) -> xr.DataTree | None:
        """The group ``fiber`` of this table, where the DataTree has it."""
        groups = groups_of(self.tree, "fiber")
        return next((group for _, group in groups if group.attrs.get("variable", self.name) == self.name), None)

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
        return self.flattened(self.chains_of(query))

    def flattened(self, chains: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Chains after one another, without the rounding errors of a relaxation in answers that are exact."""
        found = chains.reshape(-1, chains.shape[2])
        return without_rounding_errors(found) if self.relaxed else found

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
        return [(self.titled(i) if len(found) > 1 else "", flat(measured.published)) for i, measured in found]

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

    def prior_predictive(self, measurement: int) -> tuple[Floats, str] | None:
        """Draws of what is published (or of the counts alone) under the prior, shape ``(draws, answers)``, and what they are.

        None where the DataTree has neither.
        """
        measured = self.measurements[measurement]
        shown, name = ~measured.unmeasured.reshape(-1), self.observed[measurement]
        group = self.tree.children.get("prior_predictive", xr.DataTree())
        if name in group.data_vars:
            values = group.to_dataset()[name].transpose("chain", "draw", ...).values
            draws = values.reshape(values.shape[0] * values.shape[1], -1)
            if draws.shape[1] == shown.sum():
                full = np.full((len(draws), len(shown)), np.nan)
                full[:, shown] = draws
                return full, "noisy value expected under the prior"
        if self.prior_draws is None:
            return None
        answers = measured.query.apply(self.prior_draws.reshape(-1, *self.release.frame.shape))
        flat_answers = np.asarray(answers, dtype=np.float64).reshape(len(self.prior_draws), -1)
        return flat_answers, "count expected under the prior, without noise"

    def truth(self, table: Any) -> Floats | None:
        """A confidential table, where the user has it, as numbers in the order of the cells."""
        return None if table is None else flat(self.release.frame.align(table, "truth"))


class SummarisedPosterior(Posterior):
    """A result of `bayesdp.fit_hierarchy` or `bayesdp.fit_cells`: summaries of the cells, and draws of queries that were recorded.

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
        """Draws of a query: its answers were recorded, or all are sums of one recorded query's; of any query, if all cells were."""
        for name, known in self.recorded.items():
            if known == query:
                return self.draws_of(name)
            if known.is_identity:
                tables = self.draws_of(name).reshape(self.chains, self.draws, *known.shape)
                return np.asarray(query.apply(tables)).reshape(self.chains, self.draws, -1)
        places = [self._rows.get(row) for row in rows_of(query.matrix)]
        kept = [place for place in places if place is not None]
        if len(kept) < len(places) or not places:
            for name, known in self.recorded.items():
                for part, rows in known.placed_parts:
                    if not isinstance(part, SumPart) or not query.rows:
                        continue
                    weights, found = combined_answers(query.matrix, part)
                    if found.all():
                        answers = self.draws_of(name)[:, :, rows].reshape(-1, part.rows).astype(np.int64)
                        return np.asarray(weights @ answers.T).T.reshape(self.chains, self.draws, -1)
            raise ValueError(
                f"the draws of {query!r} were not kept: those of the queries in `record` are "
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
        tails = (1 - level) / 2, (1 + level) / 2
        there = [np.isclose(shares, share, rtol=0.0, atol=1e-9) for share in tails]
        if not all(kept.any() for kept in there):
            pairs = [
                share for share in shares if share < 0.5 and np.isclose(shares, 1 - share, rtol=0.0, atol=1e-9).any()
            ]
            known = [f"{1 - 2 * share:.10g}" for share in pairs]
            raise ValueError(
                f"prob={prob:.10g} needs the quantiles {tails[0]:.10g} and {tails[1]:.10g} of the cells, which were not kept; there "
                f"are intervals for prob = {', '.join(known) or 'none'}. Fit again with these in `quantiles`"
            )
        ends = [cells["quantile"].isel(share=int(kept.argmax()), drop=True) for kept in there]
        lower, upper = map(self._of_cells, ends)
        mean, sd = self.moments(query)
        absent = cells["mean"] * np.nan  # of cells that were computed
        ess, rhat = (self._of_cells(cells.get(name, absent)) for name in ("ess", "rhat"))
        return Summary(mean, sd, lower, upper, level, ess, np.full(ess.shape, np.nan), rhat)

    def moments(self, query: Query) -> tuple[Floats, Floats]:
        """Posterior means and standard deviations."""
        if not query.is_identity:
            return super().moments(query)
        cells = self.tree[CELLS].to_dataset()
        return self._of_cells(cells["mean"]), self._of_cells(cells["sd"])

    def _of_cells(self, values: xr.DataArray) -> Floats:
        return flat(values.transpose(*self.release.dims).values)


_LINE = re.compile(r"\s*(?P<name>\S.*?) (?P<relation>[~=]) (?P<law>[A-Za-z_]\w*\(.*)")
"""A line of ``model.str_repr()``."""


@dataclass(frozen=True, eq=False)
class PosteriorModel:
    """A posterior as a whole: its tables, and what else is in its model, by name and in the order of the model."""

    tree: xr.DataTree

    @classmethod
    def checked(cls, posterior: Any) -> PosteriorModel:
        """A posterior that has draws, and can be what it says (`check_posterior`); TypeError or ValueError otherwise."""
        instance(posterior, xr.DataTree, "posterior must be the DataTree that bayesdp.sample returns")
        if "posterior" not in posterior.children:
            raise ValueError(f"posterior lacks the group 'posterior'; it has {shown(posterior.children) or 'none'}")
        check_posterior(posterior)
        return cls(posterior)

    @cached_property
    def tables(self) -> list[Posterior]:
        """The tables with a release that were recorded."""
        if is_streamed(self.tree):
            return [SummarisedPosterior(self.tree, CELLS, releases_of_tables(self.tree)[0][1][:1])]
        return [Posterior(self.tree, name, releases) for name, releases in tables_of_posterior(self.tree).items()]

    def published_tables(self) -> list[Posterior]:
        """The same; ValueError if there is none."""
        if not self.tables and not releases_of_tables(self.tree):
            raise ValueError(
                f"posterior lacks the group 'release'; it has {shown(self.tree.children)}. bayesdp.sample adds a release, unless its "
                "numbers were replaced in the model; to the result of pm.sample, bayesdp.inference.annotate does"
            )
        if not self.tables:
            raise ValueError("posterior lacks the counts that its release is about: they were not recorded (var_names)")
        return self.tables

    @property
    def names(self) -> list[str]:
        """Tables and variables, those tables first whose cells were not drawn."""
        variables = list(map(str, self.variables.data_vars))
        return [*(table.name for table in self.tables if table.name not in variables), *variables]

    @property
    def variables(self) -> xr.Dataset:
        """All draws."""
        return self.tree["posterior"].to_dataset()

    def draws_of(self, name: str) -> xr.DataArray:
        """Draws of a variable, with the dimensions chain and draw first."""
        return self.variables[name].transpose("chain", "draw", ...)

    @cached_property
    def others(self) -> list[str]:
        """Variables beside the tables, and beside the coordinates in which continuous counts are sampled."""
        tables = {table.name for table in self.tables}
        hidden = tables | {f"{name}_coordinates" for name in tables | self._relaxed}
        return [str(name) for name in self.variables.data_vars if name not in hidden]

    @cached_property
    def _relaxed(self) -> set[str]:
        return {str(group.attrs.get("variable", "")) for _, group in groups_of(self.tree, "relaxation")}

    @cached_property
    def parameters(self) -> list[str]:
        """Those of `others` that are numbers, and no recorded answers."""
        recorded = {name for table in self.tables for name in table.recorded}
        kinds = {name: self.variables[name].dtype.kind for name in self.others if name not in recorded}
        return [name for name, kind in kinds.items() if kind in "iuf"]

    @cached_property
    def free_parameters(self) -> list[str]:
        """`parameters` without what the model computes from others."""
        computed = {name for name, law in self.laws("=") if law.startswith("Deterministic(")}
        return [name for name in self.parameters if name not in computed]

    @property
    def diagnostics(self) -> dict[Any, Any]:
        """What the posterior says of convergence; empty without diagnostics."""
        return dict(self.tree["diagnostics"].attrs) if "diagnostics" in self.tree.children else {}

    @property
    def chains(self) -> int:
        """Number of chains; 0 where the posterior was computed, and its draws are independent."""
        return 0 if self.diagnostics.get("verdict") == "exact" else int(self.variables.sizes["chain"])

    @cached_property
    def converged(self) -> bool | None:
        """Whether the chains converged, or there were none that had to; None without diagnostics."""
        return converged_of(self.tree)

    @property
    def message(self) -> str:
        """Convergence in words."""
        return str(self.diagnostics.get("message", "convergence was not assessed"))

    @cached_property
    def described(self) -> tuple[str, str]:
        """The attribute ``prior``: words and formulas of `bayesdp fit`, and after them the model as PyMC prints it, or empty."""
        text = str(self.tree.attrs.get("prior", "")).strip("\n")
        words, _, last = text.rpartition("\n\n")
        first = (last.splitlines() or [""])[0]
        if is_streamed(self.tree) or _LINE.fullmatch(first) is None:  # without a model of PyMC
            return text.strip(), ""
        return words.strip(), last

    def laws(self, relation: str) -> list[tuple[str, str]]:
        """Variables and their laws, of the lines of the model with that relation, ``"~"`` or ``"="``."""
        found = (_LINE.fullmatch(line) for line in self.described[1].splitlines())
        return [(line["name"], line["law"]) for line in found if line and line["relation"] == relation]

    @cached_property
    def _observed(self) -> dict[str, npt.NDArray[Any]]:
        group = self.tree.children.get("observed_data", xr.DataTree())
        return {str(name): np.asarray(values.values) for name, values in group.to_dataset().data_vars.items()}

    @cached_property
    def matched(self) -> dict[str, list[tuple[Measured | Exact, str | None]]]:
        """The observed variable that holds each part of a release, by table: of the name that `observe` gives, with its numbers."""
        # Of trees without observed data: the names in a model that has nothing else.
        taken: set[str] = set()
        found = {}
        for table in self.tables:
            named: list[tuple[Measured | Exact, str | None]] = []
            taken = taken if self._observed else set()
            for release in table.releases:  # parts as `bayesdp.observe` adds them
                parts: list[Measured | Exact] = [*release.measurements, *release.exact]
                for part in parts:
                    base = (part.name or "noisy") if isinstance(part, Measured) else "exact"
                    name = next((name for name in self._holding(base, part) if name not in taken), None)
                    taken |= set() if name is None else {name}
                    named.append((part, name))
            found[table.name] = named
        return found

    def _holding(self, base: str, part: Measured | Exact) -> Iterable[str]:
        """Variables that hold the numbers of a part, of the names that `observe` may have given, in the order of their numbers."""
        if not self._observed:
            return chain([base], (f"{base}_{k}" for k in count(2)))
        numbers = np.asarray(part.values).reshape(-1)
        if isinstance(part, Measured):
            numbers = numbers[~part.unmeasured.reshape(-1)]
        numbered = {name: re.fullmatch(rf"{re.escape(base)}(?:_(\d+))?", name) for name in self._observed}
        places = {name: int(found[1] or 1) for name, found in numbered.items() if found}
        values = {name: self._observed[name].reshape(-1) for name in sorted(places, key=places.__getitem__)}
        return [name for name, own in values.items() if own.dtype.kind in "iuf" and np.array_equal(own, numbers)]

    @cached_property
    def _unmatched(self) -> list[str]:
        """Observed variables that hold no part of a release; that answers about the same records agree is part of releases."""
        taken = {name for table in self.matched.values() for _, name in table}
        same = {name for name, law in self.laws("~") if law.startswith("SameRecords(")}
        return [name for name in self._observed if name not in taken | same]

    @cached_property
    def replaced(self) -> list[str]:
        """Observed variables with published numbers that no release of the file has."""
        published = self.tree.children.get("constant_data", xr.DataTree()).to_dataset().data_vars
        # Scalars are not among the constants of PyMC's result; the law of an exact part has a name of its own.
        exact = {name for name, law in self.laws("~") if law.startswith("ExactAnswers(")}
        return [name for name in self._unmatched if f"{name}_published" in published or name in exact]

    @property
    def likelihoods(self) -> list[str]:
        """Observed variables that belong to no release."""
        return [name for name in self._unmatched if name not in self.replaced]

    @cached_property
    def potentials(self) -> list[str]:
        """Terms of the log-density, but those that a table of real numbers (of version 0.1) has of its own."""
        tables = {f"{name}_density" for name in self._relaxed}
        return [name for name, law in self.laws("~") if law.startswith("Potential(") and name not in tables]
