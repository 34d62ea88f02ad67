"""Quantities that follow from the counts of a posterior: sums, shares, ratios, changes, ranks and probabilities, draw by draw."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._chains import chain_statistics, ess_mean
from bayesdp._validate import finite_real, instance, nearest, positive_integer, shown
from bayesdp.posterior.selections import QUOTING, Rows, Selection, Sums, names_of, quoted, split
from bayesdp.posterior.view import Posterior, PosteriorModel, SummarisedPosterior, summarise_draws
from bayesdp.release import share_noise

_RELATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "=": operator.eq,
}  # fmt: skip
_TURNED = {">": "<", "<": ">", ">=": "<=", "<=": ">=", "=": "="}
_TWO = "two posteriors of independent releases"


@dataclass(frozen=True, eq=False, kw_only=True)
class Drawn:
    """Draws of a quantity, one or more rows of it.

    `chains`, shape (chains, draws, rows), have NaN where there is no value. Rows that are `determined` have one possible value, and
    `exact` ones follow from published values alone. An `event` happens or does not, so that it has a probability and no interval;
    `behind` is then what it depends on, which varies although the event always happens, or never. `converged` is about the other
    posteriors that it is made from. Values that are no further apart than `rounding`, of changes, are equal.
    """

    labels: dict[str, list[Any]]
    chains: Floats
    exact: Mask
    determined: Mask
    event: bool = False
    behind: Floats | None = None
    notes: tuple[str, ...] = ()
    converged: bool | None = True
    rounding: float = 0.0

    @property
    def keys(self) -> list[tuple[Any, ...]]:
        """The labels of each row."""
        return list(zip(*self.labels.values(), strict=True)) or [()]


def all_converged(*each: bool | None) -> bool | None:
    """Whether all posteriors converged; None where one of them does not say it, and none of them says no."""
    return False if False in each else None if None in each else True


@dataclass(frozen=True, eq=False)
class Derived:
    """A quantity that follows from the counts: a sum, a share, a ratio, and changes, ranks and probabilities of these.

    Made by the methods below, and computed by `bayesdp.summary`. Cells are named by their labels, in one of two ways: a mapping,
    ``{"sex": "women", "age": ["0-4", "5-9"]}``, or a text, ``"sex=women*age=0-4,5-9"``, in which ``*`` means "and", a comma "or",
    ``total`` all cells, and sums and differences have blanks around the sign: ``"county=Cook - county=Lake"``. Groups (``state``) are
    named as dimensions are. Names and labels that hold ``,``, ``*``, ``=`` or an operator between blanks are put into double quotes.

    Where methods have them, `by` are dimensions or groups, a list or a text with ``*`` between them, for each of whose labels there
    is a row (labels that the cells leave out have none), and `table` is the name of a table in the posterior, by default the first.

    Parameters
    ----------
    what : str
        The quantity in words.
    by : tuple of str
        What it is by.
    table : str or None
        The table that it is about.
    draw : callable
        Makes its draws from a posterior and the name of a table.

    See Also
    --------
    bayesdp.summary : posterior means, intervals and diagnostics.

    Examples
    --------
    >>> print(Derived.share({"sex": "women"}, by="county"))
    share of sex=women by county
    >>> print(Derived.ratio("sex=women", "sex=men", by="county").top(10, "county"))
    top 10 of county by sex=women / sex=men
    """

    what: str
    by: tuple[str, ...]
    table: str | None
    draw: Callable[[PosteriorModel, str | None], Drawn]

    def __str__(self) -> str:
        return f"{self.what} by {'*'.join(map(quoted, self.by))}" if self.by else self.what

    @staticmethod
    def total(cells: Any = None, *, by: str | Iterable[str] = (), table: str | None = None) -> Derived:
        """The sum of some cells, by default of all, or a difference of such sums."""
        return _quotient(Sums.of(cells), None, by, table)

    @staticmethod
    def share(cells: Any, *, by: str | Iterable[str] = (), table: str | None = None) -> Derived:
        """The share of some cells in all, or in all with the same labels of `by`; no value where these are 0, as for `ratio`."""
        share = _quotient(Sums(((1, Selection.of(cells)),)), Sums.of(None), by, table)
        return replace(share, what=f"share of {Selection.of(cells)}")

    @staticmethod
    def ratio(above: Any, below: Any, *, by: str | Iterable[str] = (), table: str | None = None) -> Derived:
        """The ratio of two sums. Draws in which the denominator is 0 have none: they are left out, counted, and told of."""
        return _quotient(Sums.of(above), Sums.of(below), by, table)

    @staticmethod
    def probability(event: str, *, by: str | Iterable[str] = (), table: str | None = None) -> Derived:
        """The probability of a comparison of sums, ratios or numbers: ``"county=Cook > county=Lake"``, ``"sex=women / total >= 0.5"``.

        One of ``> >= < <= =`` stands between the sides, with blanks around it. With ``>`` and ``<``, the probability that both sides
        are equal has a row of its own.
        """
        sides, relations = split(event, r"\s(?:>=|<=|>|<|=)\s")
        if len(sides) != 2:
            raise ValueError(
                f"a comparison has one of {' '.join(_RELATIONS)}, with blanks around it, got {event!r}; {QUOTING}"
            )
        one, other = (_side(side, by, table) for side in sides)
        if isinstance(one, Derived):
            return _compared(one, relations[0], other)
        if isinstance(other, Derived):
            return _compared(other, _TURNED[relations[0]], one)
        raise ValueError(f"a comparison is about cells on one side at least, got {event!r}")

    def exceeds(self, other: Derived | float) -> Derived:
        """The probability that this is greater than another quantity or a number, and in a row of its own that both are equal."""
        return _compared(self, ">", other if isinstance(other, Derived) else finite_real(other, "other"))

    def change(self, since: xr.DataTree | str, *, relative: bool = False) -> Derived:
        """The change since another posterior, or since another table of the same one; `relative`: divided by the earlier value.

        A posterior must be of an independent release, such as last year's. Its draws are paired with those of this one although they
        have nothing to do with one another: each chain with the next one, so that equal seeds make them no more alike.
        """
        instance(since, xr.DataTree | str, "since must be a posterior, or the name of a table")

        def draw(model: PosteriorModel, name: str | None) -> Drawn:
            now = self.draw(model, name)
            if now.event:
                raise ValueError(f"{self} has no change: each draw says yes or no; what it is about has one")
            if isinstance(since, xr.DataTree) and any(note.startswith(_TWO) for note in now.notes):
                raise ValueError(f"{self} is one between two posteriors already, of which a third knows nothing")
            before = self._before(since, model, name)
            if set(before.labels) == set(now.labels):  # whatever their order
                before = replace(before, labels={dim: before.labels[dim] for dim in now.labels})
            notes = before.notes
            if isinstance(since, xr.DataTree):
                now, before, told = _paired(now, before)
                notes = (*notes, told)
            places, ours = {key: i for i, key in enumerate(before.keys)}, now.keys
            if list(now.labels) != list(before.labels) or set(places) != set(ours):
                odd = shown(sorted(set(places) ^ set(ours), key=str))
                raise ValueError(
                    f"it is compared with other labels of {'*'.join(self.by)}: {odd} are in one of both only"
                )
            order = [places[key] for key in ours]
            earlier = before.chains[..., order]
            change = now.chains - earlier
            exact, determined = now.exact & before.exact[order], now.determined & before.determined[order]
            chains = _divided(change, earlier) if relative else change
            scale = np.fmax.reduce(
                np.abs([chains] if relative else [now.chains, earlier]), axis=None, initial=float(relative)
            )
            return replace(now, chains=chains, exact=exact, determined=determined, notes=(*now.notes, *notes),
                           converged=all_converged(now.converged, before.converged), rounding=1e-12 * scale)  # fmt: skip

        return Derived(f"{'relative ' * relative}change of {self.what}", self.by, self.table, draw)

    def _before(self, since: xr.DataTree | str, model: PosteriorModel, name: str | None) -> Drawn:
        """The draws of the same quantity of another posterior, or table."""
        ours = _table(model, name)
        if isinstance(since, str):
            if since == ours.name:
                raise ValueError(f"since must be another table than {since!r} itself")
            found = self.draw(model, since)
            return replace(found, notes=(*found.notes, f"change: table {ours.name} since table {since}"))
        try:
            earlier = PosteriorModel.checked(since)
            name = name if len(earlier.published_tables()) > 1 else None  # the only table may have another name there
            found, theirs = self.draw(earlier, name), _table(earlier, name)
        except ValueError as error:
            raise ValueError(f"the posterior that it is compared with: {error}") from None
        if since is model.tree or any(share_noise(own, other) for own in ours.releases for other in theirs.releases):
            raise ValueError(
                "both posteriors are of one release, or of one measurement; a change is of independent ones"
            )
        told = [f"change: table {ours.name} since table {theirs.name}"] * (ours.name != theirs.name)
        one, other = (
            {*zip(own.joint.frame.dims, map(frozenset, own.joint.frame.labels), strict=True)} for own in (ours, theirs)
        )
        told += ["change: the two tables have different labels, and a sum is that of what each of them has"] * (
            one != other
        )
        if earlier.converged is False:
            told.append(f"the posterior that it is compared with did not converge: {earlier.message}")
        if any(release.simulated for release in theirs.releases):
            told.append("the release that it is compared with is simulated: the noise came from a seeded generator")
        return replace(found, notes=(*found.notes, *told), converged=all_converged(found.converged, earlier.converged))

    def rank(self, dim: str, *, ascending: bool = False) -> Derived:
        """Ranks of the labels of one of the dimensions of `by`, for each label of the others; 1 is the largest value.

        Labels with equal values share the mean of the ranks that they take: 1, 2.5, 2.5, 4. Labels without a value in a draw have no
        rank in it. `ascending`: 1 is the smallest value.
        """
        return _ranked(self, dim, None, ascending)

    def top(self, k: int, dim: str, *, ascending: bool = False) -> Derived:
        """Probabilities of being among the `k` largest, or smallest, see `rank`.

        Labels with equal values share the places that are left, and labels without a value are not among them: the probabilities
        add up to `k` or, where fewer than `k` labels have a value, to that number.
        """
        return _ranked(self, dim, positive_integer(k, "k"), ascending)


def _table(model: PosteriorModel, name: str | None) -> Posterior:
    tables = {table.name: table for table in model.published_tables()}
    if name is not None and name not in tables:
        raise ValueError(f"there is no table {name!r} in the posterior; there are {nearest(name, tables)}")
    return tables[next(iter(tables)) if name is None else name]


def _divided(above: npt.NDArray[Any], below: npt.NDArray[Any]) -> Floats:
    """One by the other, NaN where that is 0 or has no value."""
    found: Floats = np.full(above.shape, np.nan)
    np.divide(above, below, out=found, where=(below != 0) & np.isfinite(below))
    return found


def _quotient(above: Sums, below: Sums | None, by: str | Iterable[str], table: str | None) -> Derived:
    """Some sums, or divided by others."""
    names = names_of(by) if isinstance(by, str) else tuple(by)

    def draw(model: PosteriorModel, name: str | None) -> Drawn:
        rows = Rows(_table(model, name), names, above)
        chains, exact, determined = rows.drawn(above)
        if below is not None:
            others, also_exact, also_determined = rows.drawn(below)
            chains, exact, determined = _divided(chains, others), exact & also_exact, determined & also_determined
        return Drawn(labels=rows.labels, chains=chains.astype(np.float64), exact=exact, determined=determined)

    return Derived(str(above) if below is None else f"{above} / {below}", names, table, draw)


def _side(text: str, by: str | Iterable[str], table: str | None) -> Derived | float:
    """A number, a sum or a ratio."""
    try:
        return finite_real(float(text), "a side of a comparison")
    except ValueError:
        sums = [Sums.of(piece) for piece in split(text, r"\s/\s")[0]]
        if len(sums) > 2:
            raise ValueError(f"a ratio is written as 'A / B', got {text!r}; {QUOTING}") from None
        return _quotient(sums[0], sums[1] if sums[1:] else None, by, table)


def _paired(now: Drawn, before: Drawn) -> tuple[Drawn, Drawn, str]:
    """Draws of two independent posteriors side by side, and what is said of it."""
    sizes = [own.chains.shape[:2] for own in (now, before)]
    chains, draws = np.min(sizes, axis=0)
    text = f"{_TWO}: each chain of one is paired with the next chain of the other"
    if sizes[0] != sizes[1]:
        text += f"; {chains} chains and {draws} draws of each were taken, the first ones"
    # Chains of equal seeds may use equal random numbers, so that their draws would be alike.
    kept = before.chains[:chains, :draws]
    kept = np.roll(kept, 1, axis=0) if chains > 1 else np.roll(kept, draws // 2, axis=1)
    return replace(now, chains=now.chains[:chains, :draws]), replace(before, chains=kept), text


def _ranks(values: Floats, rounding: float) -> tuple[Ints, Ints]:
    """The best and the worst rank along the last axis, from 1, of values that share theirs if they are within `rounding`."""
    order, places = np.argsort(values, axis=-1), np.arange(1, values.shape[-1] + 1)
    first = np.ones(values.shape, dtype=np.bool_)
    with np.errstate(invalid="ignore"):  # infinite ones are equal
        first[..., 1:] = np.diff(np.take_along_axis(values, order, axis=-1)) > rounding
    last = np.roll(first, -1, axis=-1)
    best, worst = np.empty_like(order), np.empty_like(order)
    np.put_along_axis(best, order, np.maximum.accumulate(np.where(first, places, 0), axis=-1), axis=-1)
    later = np.where(last, places, places[-1])[..., ::-1]
    np.put_along_axis(worst, order, np.minimum.accumulate(later, axis=-1)[..., ::-1], axis=-1)
    return best, worst


def _ranked(of: Derived, dim: str, k: int | None, ascending: bool) -> Derived:
    """Ranks along a dimension, or whether they are k or better."""
    kind = "rank" if k is None else f"{'bottom' if ascending else 'top'} {k}"
    what = f"{kind} of {dim} by {of.what}{', smallest first' * (ascending and k is None)}"

    def draw(model: PosteriorModel, name: str | None) -> Drawn:
        own = of.draw(model, name)
        if own.event or dim not in own.labels:
            known = "none, as it is a probability" if own.event else shown(own.labels) or "none"
            raise ValueError(f"ranks are of labels of a dimension that the quantity is by ({known}), not of {dim!r}")
        rivals: dict[tuple[Any, ...], list[int]] = {}
        for i, key in enumerate(zip(*(labels for other, labels in own.labels.items() if other != dim), strict=True)):
            rivals.setdefault(key, []).append(i)
        ranks, chains = np.empty_like(own.chains), np.empty_like(own.chains)
        exact, determined = own.exact.copy(), own.determined.copy()
        for places in rivals.values() or [list(range(len(own.exact)))]:
            if k is not None and k >= len(places):
                raise ValueError(f"k must be less than the number of ranked labels of {dim!r}, {len(places)}, got {k}")
            values = own.chains[..., places] * (1 if ascending else -1)
            # What has no value has no rank, and takes none from others.
            best, worst = _ranks(np.where(np.isnan(values), np.inf, values), own.rounding)
            ranks[..., places] = (best + worst) / 2
            found = ranks[..., places] if k is None else np.clip((k + 1 - best) / (worst + 1 - best), 0.0, 1.0)
            chains[..., places] = np.where(np.isnan(values), np.nan if k is None else 0.0, found)
            exact[places], determined[places] = own.exact[places].all(), own.determined[places].all()
        share = f"the places that are left: probabilities add up to {k} or, where fewer have a value, to that number"
        notes = (
            *own.notes,
            f"{kind}: labels with equal values share {'the mean of their ranks' if k is None else share}",
        )
        event = k is not None
        return replace(own, chains=chains, exact=exact, determined=determined, event=event, behind=ranks, notes=notes)

    return Derived(what, (), of.table, draw)


def _compared(one: Derived, relation: str, other: Derived | float) -> Derived:
    """Whether a quantity is greater than another one or a number, and the like."""

    def named(relation: str) -> str:
        return f"{one.what} {relation} {other.what if isinstance(other, Derived) else f'{other:.10g}'}"

    def draw(model: PosteriorModel, name: str | None) -> Drawn:
        own = of = one.draw(model, name)
        if isinstance(other, Derived):
            of = other.draw(model, name if other.table == one.table else other.table)
            if own.labels != of.labels:
                raise ValueError(f"both sides of {named(relation)} need the same rows: leave `by` out, or select alike")
        if "event" in own.labels:
            raise ValueError("rows of a comparison have the label 'event', what is compared: rename that dimension")
        values = of.chains if isinstance(other, Derived) else np.asarray(other)
        relations = [relation, "="] if relation in ("<", ">") else [relation]
        gap, times = own.chains - values, len(relations)
        gap[np.abs(gap) <= max(own.rounding, of.rounding)] = 0.0
        happens = [np.where(np.isfinite(gap), _RELATIONS[each](gap, 0.0), np.nan) for each in relations]
        labels = {dim: labels * times for dim, labels in own.labels.items()}
        labels["event"] = [named(each) for each in relations for _ in own.keys]
        return Drawn(labels=labels, chains=np.concatenate(happens, axis=2), exact=np.tile(own.exact & of.exact, times),
                     determined=np.tile(own.determined & of.determined, times), event=True, behind=np.tile(gap, times),
                     notes=(*own.notes, *of.notes), converged=all_converged(own.converged, of.converged))  # fmt: skip

    return Derived(f"probability of {named(relation)}", one.by, one.table, draw)


def called(function: Callable[..., Any], model: PosteriorModel) -> Drawn:
    """The draws that a user's function makes of variables of the posterior, which its parameters name."""
    parameters = inspect.signature(function).parameters.values()
    given: dict[str, xr.DataArray] = {}
    needed = [own.name for own in parameters if own.default is own.empty]
    for parameter in parameters:
        name = parameter.name
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ValueError(f"the function must name the variables that it takes, and not only have {parameter}")
        if name not in model.names and name in needed:
            if len(needed) > 1:
                raise ValueError(f"the posterior has no variable {name!r}; it has {nearest(name, model.names)}")
            name = model.published_tables()[0].name
        if name in model.names:
            given[parameter.name] = _variable(name, model)
    try:
        with np.errstate(divide="ignore", invalid="ignore"):  # what has no value is counted, and told
            found = function(*(given.pop(own.name) for own in parameters if own.kind is own.POSITIONAL_ONLY), **given)
    except Exception as error:
        raise ValueError(f"the function raised {type(error).__name__}: {error}") from error
    sizes = {dim: model.variables.sizes[dim] for dim in ("chain", "draw")}
    if not isinstance(found, xr.DataArray) or any(found.sizes.get(dim) != size for dim, size in sizes.items()):
        got = f"dimensions {dict(found.sizes)}" if isinstance(found, xr.DataArray) else type(found).__name__
        raise ValueError(f"the function must return a DataArray that keeps the dimensions {sizes}; it returned {got}")
    if found.dtype.kind not in "biuf" or not found.size:
        raise ValueError(f"the function must return numbers, or True and False, not {found.size} of {found.dtype}")
    ordered = found.transpose("chain", "draw", ...)
    values = ordered.values.astype(np.float64).reshape(*ordered.shape[:2], -1)
    places = np.indices(ordered.shape[2:]).reshape(found.ndim - 2, values.shape[2])
    labels = {str(dim): ordered[dim].values[own].tolist() for dim, own in zip(ordered.dims[2:], places, strict=True)}
    none, event = np.zeros(values.shape[2], dtype=np.bool_), found.dtype.kind == "b"
    chains = np.where(np.isfinite(values), values, np.nan)
    return Drawn(labels=labels, chains=chains, exact=none, determined=none, event=event)


def _variable(name: str, model: PosteriorModel) -> xr.DataArray:
    """A variable, of a table with its groups as coordinates."""
    table = next((own for own in model.tables if own.name == name), None)
    if isinstance(table, SummarisedPosterior):
        known = shown(model.variables.data_vars) or "there are none"
        raise ValueError(f"fit_hierarchy keeps no draws of cells; parameters can be the recorded variables: {known}")
    draws = model.draws_of(name) if table is None else table.counts
    if table is not None:
        draws = draws.assign_coords({group: (dim, list(labels)) for group, dim, labels in table.release.frame.groups})
    # Differences of narrow or unsigned integers would wrap.
    return draws.astype(np.int64) if draws.dtype.kind in "iu" else draws


def summarised(name: str, own: Drawn, prob: float) -> tuple[dict[str, Any], list[str]]:
    """Columns by their names, and what is to be said. Draws without a value are left out, and counted."""
    shape, flat = own.chains.shape, own.chains.reshape(-1, own.chains.shape[2])
    there = np.isfinite(flat)
    undefined, share = (~there).sum(axis=0), there.mean(axis=0)
    ends = [f"eti{100 * prob:.10g}_{end}" for end in ("lower", "upper")]
    names = ("mean", "sd", *ends, "mcse", "ess_bulk", "ess_tail", "rhat")
    found = {column: np.full(shape[2], np.nan) for column in names}
    for rows in [np.flatnonzero(undefined == 0), *np.flatnonzero((undefined > 0) & (share > 0))[:, None]]:
        some = flat if len(rows) == shape[2] > 1 else flat[:, rows][there[:, rows[0]]] if rows.size else None
        summary = None if some is None else summarise_draws(some, prob)
        for column, of in zip(names[:4], ("mean", "sd", "lower", "upper"), strict=True):
            found[column][rows] = getattr(summary, of, ())
    drawn, free = found[ends[0]].copy(), np.flatnonzero(~own.determined & (share > 0))
    # Draws without a value count as the mean of the others: the error of that mean is then this one's, over their share.
    filled = (np.where(there, flat, found["mean"]) if undefined.any() else flat).reshape(shape)
    filled = filled if len(free) == shape[2] else filled[..., free]
    twice = 2.0 * filled  # of counts, ranks and events whole numbers, whose statistics are worked out faster
    whole = bool((np.abs(twice) < 2.0**53).all() and (twice == np.rint(twice)).all())
    of_chains, size = chain_statistics(twice.astype(np.int64) if whole else filled), np.full(shape[2], np.nan)
    size[free], found["rhat"][free] = ess_mean(filled) * share[free], of_chains.rhat
    for column in ("ess_bulk", "ess_tail"):
        found[column][free] = getattr(of_chains, column) * share[free]
    still = free[found["sd"][free] <= 1e-9 * np.abs(found["mean"][free])]  # as far as rounding leaves it
    still = still[np.fmin.reduce(flat[:, still]) == np.fmax.reduce(flat[:, still])]
    found["sd"][still] = 0.0
    for own_size in (size, found["ess_bulk"], found["ess_tail"]):
        own_size[still] = np.nan
    spread = found["sd"].copy()
    if own.event:
        # It is not said that it must happen, or cannot: half an effective draw more of each. Of functions all draws count.
        valid = len(flat) * share[still]
        if own.behind is not None:
            found["ess_bulk"][still] = valid = ess_mean(np.nan_to_num(own.behind[..., still])) * share[still]
        size[still], guess = valid, (found["mean"][still] * valid + 0.5) / (valid + 1)
        spread[still] = np.sqrt(guess * (1 - guess))
        found |= {column: np.full(shape[2], np.nan) for column in ("sd", *ends)}
    found["mcse"] = np.where(own.determined, np.nan, spread / np.sqrt(size))
    found["sd"][own.determined] = np.nan
    words = np.where(own.exact, "exact", np.where(own.determined, "determined", ""))
    counted = [f"undefined in {count} of {len(flat)} draws" if count else "" for count in undefined.tolist()]
    status = np.where(undefined > 0, counted, words).astype(object)
    value = pd.array(np.where(own.determined & (undefined == 0), drawn, np.nan), dtype="Float64")
    notes = [*own.notes, *["mcse of a probability is its Monte Carlo error"] * own.event]
    if undefined.any():
        text = "have no value in some draws (a denominator of 0), which are left out, and counted"
        notes.append(f"{name}: {(undefined > 0).sum()} of {shape[2]} numbers {text}")
    return {**found, "undefined": undefined, "exact": value, "status": status}, notes
