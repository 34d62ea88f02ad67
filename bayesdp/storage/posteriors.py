"""The groups of a posterior: which releases each table is of, which variable holds its counts, and whether it can be what it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp import _text
from bayesdp._arrays import Floats, Mask
from bayesdp._text import printable
from bayesdp._validate import shown
from bayesdp.fibers import Fiber
from bayesdp.frames import Frame
from bayesdp.privacy import Guarantee, StatisticGuarantee
from bayesdp.release import Release

_STATING = ("fiber", "statistics")
"""Groups that say which variable a release is about: a table of counts, or statistics."""


def groups_of(tree: xr.DataTree, *kinds: str) -> list[tuple[str, xr.DataTree]]:
    """The groups of some kinds, which are named by the kind, or that and an ending, in their order."""
    return [
        (name, group)
        for name, group in tree.children.items()
        if name in kinds or name.startswith(tuple(f"{kind}_" for kind in kinds))
    ]


def _stated(tree: xr.DataTree) -> list[tuple[str, str]]:
    """The ending of the groups of each table, and the variable that they state."""
    return [
        (name.removeprefix("fiber").removeprefix("statistics"), str(group.attrs.get("variable", "")))
        for name, group in groups_of(tree, *_STATING)
    ]


def releases_of_tables(tree: xr.DataTree) -> list[tuple[str | None, tuple[Release, ...]]]:
    """The name of each table in the posterior with its releases, in the order of the model."""
    # The groups ``release``, ``release_2``, ... are of the first table, and ``release_{name}``, ``release_{name}_2``, ... of the
    # others.
    tables: list[tuple[str, str | None]] = [(ending, name or None) for ending, name in _stated(tree)] or [("", None)]
    endings = {ending for ending, _ in tables}
    found = []
    for ending, name in tables:
        groups, number = f"release{ending}", 2
        releases = []
        while groups in tree.children:
            releases.append(Release.from_dataset(tree[groups].to_dataset()))
            while f"{ending}_{number}" in endings:  # that is another table, whose name is a number
                number += 1
            groups, number = f"release{ending}_{number}", number + 1
        if releases:
            found.append((name, tuple(releases)))
    return found


def tables_of_posterior(tree: xr.DataTree) -> dict[str, tuple[Release, ...]]:
    """The variables of a posterior that hold counts or statistics of which something was published, with the releases of each."""
    # In the order of the model. Tables that were not recorded (`var_names` of ``pm.sample``) are left out: another variable
    # with the same dimensions, such as a function of the counts, is not what the release is about.
    recorded = tree["posterior"].data_vars
    several = len(_stated(tree)) > 1
    return {
        (
            _statistics_name(tree, stated, releases[0])
            if releases[0].about == "statistics"
            else counts_name(tree, releases[0].dims, stated if several else None)
        ): releases
        for stated, releases in releases_of_tables(tree)
        if stated is None or stated in recorded
    }


def is_relaxed(tree: xr.DataTree, name: str) -> bool:
    """Whether a group declares a variable of a posterior a continuous relaxation of whole numbers."""
    # Version 0.1 wrote one group for each table of real numbers in the place of counts: `relaxation`, or `relaxation_{name}` where it
    # is not the first table.
    return any(group.attrs.get("variable") == name for _, group in groups_of(tree, "relaxation"))


def counts_name(tree: xr.DataTree, dims: tuple[str, ...], asked: str | None = None) -> str:
    """The variable of ``posterior`` that holds the counts: that asked for, else what ``fiber`` says, ``x``, or the only one."""
    # Whole numbers with the dimensions of the table, or real ones that the posterior declares to be a continuous relaxation:
    # real numbers alone may be anything, such as the rates behind the counts.
    shaped = {
        str(name): array.dtype.kind
        for name, array in tree["posterior"].data_vars.items()
        if set(array.dims) == {"chain", "draw", *dims}
    }
    found = [name for name, kind in shaped.items() if kind in "iu" or is_relaxed(tree, name)]
    if asked is None:
        stated = str(tree["fiber"].attrs.get("variable", "")) if "fiber" in tree.children else ""
        for name in (stated, "x"):
            if name in found:
                return name
        if len(found) == 1:
            return found[0]
    elif asked in found:
        return asked
    real = [name for name, kind in shaped.items() if kind == "f" and name not in found]
    raise ValueError(
        f"posterior must hold one integer variable with the dimensions {printable(', '.join(dims))}, or one named x, or a table of "
        f"real ones that are declared a continuous relaxation; it has {', '.join(found) or 'none'}"
        + (f", and real numbers without such a declaration in {', '.join(real)}" if real else "")
        + (f"; there is no {asked!r} among them" if asked is not None else "")
    )


def _statistics_name(tree: xr.DataTree, stated: str | None, release: Release) -> str:
    """The variable that holds statistics: only the posterior can say which one it is."""
    if stated is None:
        raise ValueError(
            "posterior holds a release of statistics, but no group 'statistics' says which variable these are"
        )
    sizes = {dim: n for dim, n in tree["posterior"][stated].sizes.items() if dim not in ("chain", "draw")}
    if tuple(sizes.values()) not in ((), release.frame.shape) or (not sizes and release.frame.size > 1):
        raise ValueError(
            f"{stated} must have {release.frame.size} statistics, as its release, but it has the dimensions {sizes or 'of a number'}"
        )
    return stated


def draws_of(tree: xr.DataTree, name: str, release: Release) -> xr.DataArray:
    """Draws of a table or of statistics, with the dimensions chain, draw and those of its release, in this order."""
    # A single statistic may be a number in the model, and the dimension of several may have another name there.
    draws = tree["posterior"].to_dataset()[name]
    if release.about == "counts":
        return draws.transpose("chain", "draw", *release.dims)
    values = draws.transpose("chain", "draw", ...).values
    shape = (*values.shape[:2], *release.frame.shape)
    return xr.DataArray(values.reshape(shape), dims=("chain", "draw", *release.dims), coords=release.coords, name=name)


_SUM_ROUNDING = 1e-9
"""Sums of real numbers that are exact totals are off by rounding errors, up to this share of them."""


def without_rounding_errors(draws: Floats) -> Floats:
    """Draws of a relaxation, of shape (draws, answers): answers that are constant but for rounding errors are made whole numbers."""
    whole = np.round(draws[0])
    constant = (np.abs(draws - whole) <= _SUM_ROUNDING * np.maximum(np.abs(whole), 1.0)).all(axis=0)
    return np.where(constant, whole, draws)


CELLS = "cells"
"""The group that has summaries of the cells in the place of their draws; also the name of the table."""


def is_streamed(tree: xr.DataTree) -> bool:
    """Whether a posterior has summaries of its cells in the place of their draws."""
    if CELLS not in tree.children or "fiber" not in tree.children:
        return False
    return {"mean", "sd", "quantile", "width"} <= set(tree[CELLS].data_vars)


_VERDICTS = ("converged", "exact", "not judged", "not converged")  # exact: computed, so that nothing has to converge
_VERDICT = f"one of {', '.join(map(repr, _VERDICTS))}"
_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "0 or 1": lambda value: isinstance(value, bool | np.bool_ | int | np.integer) and value in (0, 1),
    "text": lambda value: isinstance(value, str),
    "a number": lambda value: isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool),
    _VERDICT: lambda value: value in _VERDICTS,
}
"""What an attribute may be, in words, and how to tell."""

_ATTRIBUTES = {
    "diagnostics": {
        _VERDICT: "verdict verdict_counts verdict_parameters",
        "0 or 1": "converged",
        "text": "message worst_quantities missed_modes missed_modes_message",
        "a number": "rhat_limit ess_limit worst_rhat worst_ess draws_needed cells_always_zero missed_modes_tested "
        "missed_modes_alike missed_modes_short missed_modes_disagreeing missed_modes_rate",
    },
    "fiber": {"text": "variable connectivity", "0 or 1": "bounds_exact determined_complete proved"},
    "statistics": {"text": "variable"},
    "relaxation": {"text": "variable kind text case"},
    "guarantee": {"text": "guarantee text"},
}
"""The attributes of our own groups by what they may be; files of earlier versions may lack some."""

_ROOT = {"text": "bayesdp_version pymc_version numpy_version seed command prior created", "0 or 1": "interrupted"}
"""Of the whole tree, where other programs leave attributes of their own."""


def converged_of(tree: xr.DataTree) -> bool | None:
    """Whether the diagnostics of a posterior say that the chains converged; None where they say nothing."""
    attrs = tree["diagnostics"].attrs if "diagnostics" in tree.children else {}
    if "converged" not in attrs:
        return None
    _check_kinds("the group 'diagnostics'", attrs, _ATTRIBUTES["diagnostics"], others=False)
    said = bool(attrs["converged"])
    verdict = attrs.get("verdict", "converged" if said else "")
    if said != (verdict in ("converged", "exact")):
        raise ValueError(f"diagnostics say converged = {int(said)}, but the verdict {verdict!r}")
    # Comparisons with NaN, where there is no such number, are False.
    for worst, limit, sign in (("worst_rhat", "rhat_limit", 1), ("worst_ess", "ess_limit", -1)):
        if said and worst in attrs and limit in attrs and sign * (float(attrs[worst]) - float(attrs[limit])) > 0:
            raise ValueError(
                f"diagnostics say converged = 1, but {worst} = {attrs[worst]:.6g} is beyond {limit} = {attrs[limit]:.6g}"
            )
    return said


def _check_kinds(where: str, attrs: Mapping[Any, Any], listed: Mapping[str, str], *, others: bool) -> None:
    """Attributes are of the kind under which they are listed; whether there may be `others`."""
    kinds = {name: kind for kind, names in listed.items() for name in names.split()}
    for key, value in attrs.items():
        if key not in kinds:
            if others:
                continue
            raise ValueError(f"{where} has the unknown attribute {key!r}; it may have {', '.join(kinds)}")
        try:
            good = _KINDS[kinds[key]](value)
        except ValueError:  # an array has no truth value
            good = False
        if not good:
            value = value.item() if isinstance(value, np.generic) else value
            raise ValueError(f"{key} of {where} must be {kinds[key]}, got {value!r}")


_AT_ONCE = 10_000_000
"""Counts that are compared with the exact answers at a time."""

_ROUNDING = 1e-6
"""Real tables keep exact answers up to this share of their largest cell."""


def check_posterior(tree: xr.DataTree) -> None:
    """Check that a posterior holds draws, that they agree with its releases, and that its attributes are what they should be."""
    # Every draw of every table is compared with the exact answers of its releases; 600 tables of 15,000 cells take a tenth of a
    # second. Of tables that were not recorded (`var_names`), nothing can be said.
    sizes = tree["posterior"].to_dataset().sizes
    for dim in ("chain", "draw"):
        if dim not in sizes:
            raise ValueError(f"posterior must have the dimension {dim!r}; it has {shown(sizes)}")
        if not sizes[dim]:
            raise ValueError(f"posterior holds no draws: its dimension {dim!r} has the size 0")
    _check_kinds("the posterior", tree.attrs, _ROOT, others=True)
    for kind, known in _ATTRIBUTES.items():
        for name, group in groups_of(tree, kind):
            _check_kinds(f"the group {name!r}", group.attrs, known, others=False)
    converged_of(tree)
    _check_guarantees(tree)
    for name, releases in tables_of_posterior(tree).items():
        _check_table(tree, name, releases)


def _check_guarantees(tree: xr.DataTree) -> None:
    """The guarantee that stands beside a release is the one in it."""
    for name, group in groups_of(tree, "guarantee"):
        if "guarantee" not in group.attrs:
            continue
        beside = f"release{name.removeprefix('guarantee')}"
        if beside not in tree.children:
            raise ValueError(f"the group {name!r} is about a release, but there is no group {beside!r}")
        description = _text.loads(group.attrs["guarantee"], f"guarantee of the group {name!r}")
        release = Release.from_dataset(tree[beside].to_dataset())
        about, inside = release.about, release.guarantee
        try:
            stated = (StatisticGuarantee if about == "statistics" else Guarantee).from_dict(description)
        except TypeError as error:
            raise ValueError(f"the group {name!r}: {error}") from None
        if stated != inside:
            raise ValueError(
                f"the group {name!r} states {_short(stated)}, but the group {beside!r} holds "
                f"{'no guarantee' if inside is None else _short(inside)}"
            )


def _short(guarantee: Guarantee) -> str:
    loss = ", ".join(f"{name} = {value:.10g}" for name, value in guarantee.parameters.items())
    return f"{guarantee.kind} with {loss}{', simulated' if guarantee.simulated else ''}"


def _check_table(tree: xr.DataTree, name: str, releases: tuple[Release, ...]) -> None:
    """All draws of one table."""
    frame = releases[0].frame
    draws = draws_of(tree, name, releases[0])
    if releases[0].about == "statistics":
        for chain, draw, *cell in np.argwhere(~np.isfinite(draws.values))[:1].tolist():
            raise ValueError(f"{name} in chain {chain}, draw {draw}: {_cell(frame, cell)} is no finite number")
        return
    for dim, labels in zip(frame.dims, frame.labels, strict=True):
        theirs = draws.coords[dim].values.tolist() if dim in draws.coords else None
        if draws.sizes[dim] != len(labels) or (theirs is not None and list(map(str, theirs)) != list(map(str, labels))):
            raise ValueError(
                f"{name} has the labels {shown(theirs or range(draws.sizes[dim]))} of {dim!r}, but its release has {shown(labels)}"
            )
    rounding = _ROUNDING if is_relaxed(tree, name) else 0.0
    if rounding and draws.dtype.kind != "f":
        raise ValueError(f"{name} is said to be a continuous relaxation, but it holds {draws.dtype}")
    fiber = Fiber.of(tuple(dict.fromkeys(part for release in releases for part in release.exact)), frame)
    lowest, highest = np.full(frame.shape, np.inf), np.full(frame.shape, -np.inf)
    step = max(1, _AT_ONCE // max(1, frame.size))
    for chain, start in product(range(draws.sizes["chain"]), range(0, draws.sizes["draw"], step)):
        tables = np.asarray(draws.values[chain, start : start + step])
        _check_tables(tables, f"{name} in chain {chain}, draw ", start, fiber, rounding)
        lowest, highest = np.minimum(lowest, tables.min(axis=0)), np.maximum(highest, tables.max(axis=0))
    for group, limits in groups_of(tree, "fiber"):
        if limits.attrs.get("variable", name) == name:
            _check_limits(limits.to_dataset(), group, name, frame, (lowest, highest), rounding)


def _check_tables(tables: npt.NDArray[Any], where: str, first: int, fiber: Fiber, rounding: float) -> None:
    """Some tables of one chain, shape ``(draws, *table)``; real ones are rounded by this share of their largest cell."""

    def refuse(wrong: Mask, what: str) -> None:
        for draw, *cell in np.argwhere(wrong)[:1].tolist():
            count = f"{_cell(fiber.frame, cell)} is {tables[draw, *cell]}"
            raise ValueError(f"{where}{first + draw}: {count}, and counts are {what}")

    if tables.dtype.kind == "f":
        refuse(~np.isfinite(tables), "finite")
    slack = rounding * np.maximum(1.0, np.abs(tables).max(axis=tuple(range(1, tables.ndim)), keepdims=True))
    refuse(tables < -slack, "at least 0")
    signs = ("", 0, fiber.equalities), ("at least ", 1, fiber.bounds_below), ("at most ", -1, fiber.bounds_above)
    for words, sign, parts in signs:
        for query, values in parts:
            excess = query.apply(tables) - values
            # Rounding of a cell, times the weights of a row.
            weight = max(1.0, float(abs(query.matrix).sum(axis=1).max()) ** 0.5) if rounding and query.rows else 1.0
            room = weight * slack.reshape(-1, *(1,) * (excess.ndim - 1))
            bad = np.abs(excess) > room if sign == 0 else sign * excess < -room
            for draw, *answer in np.argwhere(bad)[:1].tolist():
                row = int(np.ravel_multi_index(tuple(answer), query.shape)) if answer else 0
                wanted = np.asarray(values).reshape(-1)[row]
                found = np.asarray(excess[draw]).reshape(-1)[row] + wanted
                raise ValueError(
                    f"{where}{first + draw}: {query.answer_name(row)} is {found}, but the release published exactly {words}{wanted}"
                )


def _check_limits(limits: xr.Dataset, group: str, name: str, frame: Frame, ends: tuple[Any, Any], slack: float) -> None:
    """What the posterior says of the cells of a table is true of its draws, of which `ends` has the smallest and the largest."""
    unknown = sorted(map(str, set(limits.data_vars) - {"lower", "upper", "determined"}))
    if unknown:
        raise ValueError(f"the group {group!r} has unknown variables: {shown(unknown)}")
    lowest, highest = ends
    room = slack * np.maximum(1.0, np.abs(highest))
    for key, variable in limits.data_vars.items():
        of = f"{key} of the group {group!r} must"
        if dict(variable.sizes) != dict(zip(frame.dims, frame.shape, strict=True)):
            raise ValueError(f"{of} have the dimensions of {name}, {', '.join(frame.dims)}")
        values = variable.transpose(*frame.dims).values
        if values.dtype.kind not in "biuf" or (key == "determined" and not np.isin(values, (0, 1)).all()):
            raise ValueError(f"{of} hold {'0 and 1' if key == 'determined' else 'numbers'}")
        wrong = {
            "determined": (values == 1) & (highest - lowest > 2 * room),
            "lower": lowest < values - room,
            "upper": (values >= 0) & (highest > values + room),  # -1: no limit
        }[str(key)]
        for cell in map(tuple, np.argwhere(wrong).tolist()):
            said = "is determined" if key == "determined" else f"has the {key} limit {values[cell]}"
            raise ValueError(
                f"the group {group!r} says that {_cell(frame, cell)} {said}, but the draws of {name} go from {lowest[cell]:.10g} to "
                f"{highest[cell]:.10g}"
            )


def _cell(frame: Frame, index: Any) -> str:
    return frame.cell_name(int(np.ravel_multi_index(tuple(index), frame.shape)))
