"""Whether a posterior can be what it says: draws that agree with the releases in it, and attributes that fit one another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp import _strict_json as strict_json
from bayesdp._validate import shown
from bayesdp.composition.of_posterior import draws_of, groups_of, tables_of_posterior
from bayesdp.fibers import Fiber
from bayesdp.frames import Frame
from bayesdp.privacy import Guarantee, StatisticGuarantee
from bayesdp.queries import Query
from bayesdp.release import Release
from bayesdp.storage.counts import relaxation_of

_VERDICTS = ("converged", "not judged", "not converged")


_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "0 or 1": lambda value: isinstance(value, bool | np.bool_ | int | np.integer) and value in (0, 1),
    "text": lambda value: isinstance(value, str),
    "a number": lambda value: isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool),
    f"one of {', '.join(map(repr, _VERDICTS))}": lambda value: value in _VERDICTS,
}
"""What an attribute may be, in words, and how to tell."""

_FLAG, _TEXT, _NUMBER, _VERDICT = _KINDS


def _attributes(**names: str) -> dict[str, str]:
    """Each attribute, of those listed by their kind, and its kind."""
    kinds = {"flags": _FLAG, "texts": _TEXT, "numbers": _NUMBER, "verdicts": _VERDICT}
    return {name: kinds[kind] for kind, listed in names.items() for name in listed.split()}


_ATTRIBUTES = {
    "diagnostics": _attributes(
        verdicts="verdict verdict_counts verdict_parameters",
        flags="converged",
        texts="message worst_quantities missed_modes missed_modes_message",
        numbers="rhat_limit ess_limit worst_rhat worst_ess draws_needed cells_always_zero missed_modes_tested missed_modes_alike "
        "missed_modes_short missed_modes_disagreeing missed_modes_rate",
    ),
    "fiber": _attributes(texts="variable connectivity", flags="bounds_exact determined_complete proved"),
    "statistics": _attributes(texts="variable"),
    "relaxation": _attributes(texts="variable kind text case"),
    "guarantee": _attributes(texts="guarantee text"),
}
"""What the attributes of our own groups are; files of earlier versions may lack some."""

_ROOT = _attributes(texts="bayesdp_version pymc_version numpy_version seed command prior created", flags="interrupted")
"""Of the whole tree, where other programs leave attributes of their own."""


def check_attributes(tree: xr.DataTree) -> None:
    """Check the attributes of a posterior, of which other programs may add some, and of our groups, which have no others."""
    _check_kinds("the posterior", tree.attrs, _ROOT, others=True)
    for kind, known in _ATTRIBUTES.items():
        for name, group in groups_of(tree, kind):
            _check_kinds(f"the group {name!r}", group.attrs, known, others=False)


def converged_of(tree: xr.DataTree) -> bool | None:
    """Whether the diagnostics of a posterior say that the chains converged; None where they say nothing.

    Examples
    --------
    >>> converged_of(xr.DataTree.from_dict({"diagnostics": xr.Dataset(attrs={"converged": "no"})}))
    Traceback (most recent call last):
        ...
    ValueError: converged of the group 'diagnostics' must be 0 or 1, got 'no'
    """
    attrs = tree["diagnostics"].attrs if "diagnostics" in tree.children else {}
    if "converged" not in attrs:
        return None
    _check_kinds("the group 'diagnostics'", attrs, _ATTRIBUTES["diagnostics"], others=False)
    said = bool(attrs["converged"])
    verdict = attrs.get("verdict", "converged" if said else "")
    if said != (verdict == "converged"):
        raise ValueError(f"diagnostics say converged = {int(said)}, but the verdict {verdict!r}")
    # Comparisons with NaN, where there is no such number, are False.
    for worst, limit, sign in (("worst_rhat", "rhat_limit", 1), ("worst_ess", "ess_limit", -1)):
        if said and worst in attrs and limit in attrs and sign * (float(attrs[worst]) - float(attrs[limit])) > 0:
            raise ValueError(
                f"diagnostics say converged = 1, but {worst} = {attrs[worst]:.6g} is beyond {limit} = {attrs[limit]:.6g}"
            )
    return said


def _check_kinds(where: str, attrs: Mapping[Any, Any], kinds: Mapping[str, str], *, others: bool) -> None:
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
    """Check that a posterior holds draws, that they agree with its releases, and that its attributes are what they should be.

    Every draw of every table is compared with the exact answers of its releases; 600 tables of 15,000 cells take a tenth of a
    second. Of tables that were not recorded (`var_names`), nothing can be said.
    """
    sizes = tree["posterior"].to_dataset().sizes
    for dim in ("chain", "draw"):
        if dim not in sizes:
            raise ValueError(f"posterior must have the dimension {dim!r}; it has {shown(sizes)}")
        if not sizes[dim]:
            raise ValueError(f"posterior holds no draws: its dimension {dim!r} has the size 0")
    check_attributes(tree)
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
        description = strict_json.loads(group.attrs["guarantee"], f"guarantee of the group {name!r}")
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
        if not np.isfinite(draws.values).all():
            chain, draw, *cell = np.argwhere(~np.isfinite(draws.values))[0].tolist()
            raise ValueError(f"{name} in chain {chain}, draw {draw}: {_cell(frame, cell)} is no finite number")
        return
    _check_labels(draws, name, frame)
    real = relaxation_of(tree, name) is not None
    if real and draws.dtype.kind != "f":
        raise ValueError(f"{name} is said to be a continuous relaxation, but it holds {draws.dtype}")
    fiber = Fiber.of(tuple(dict.fromkeys(part for release in releases for part in release.exact)), frame)
    lowest = np.full(frame.shape, np.inf)
    highest = np.full(frame.shape, -np.inf)
    step = max(1, _AT_ONCE // max(1, frame.size))
    for chain in range(draws.sizes["chain"]):
        for start in range(0, draws.sizes["draw"], step):
            tables = np.asarray(draws.values[chain, start : start + step])
            _check_tables(tables, name, fiber, real=real, first=(chain, start))
            lowest = np.minimum(lowest, tables.min(axis=0))
            highest = np.maximum(highest, tables.max(axis=0))
    for group, limits in groups_of(tree, "fiber"):
        if limits.attrs.get("variable", name) == name:
            _check_limits(limits.to_dataset(), group, name, frame, lowest, highest, slack=_ROUNDING if real else 0.0)


def _check_labels(draws: xr.DataArray, name: str, frame: Frame) -> None:
    for dim, labels in zip(frame.dims, frame.labels, strict=True):
        theirs = draws.coords[dim].values.tolist() if dim in draws.coords else None
        if draws.sizes[dim] != len(labels) or (theirs is not None and list(map(str, theirs)) != list(map(str, labels))):
            raise ValueError(
                f"{name} has the labels {shown(theirs or range(draws.sizes[dim]))} of {dim!r}, but its release has {shown(labels)}"
            )


def _check_tables(tables: npt.NDArray[Any], name: str, fiber: Fiber, *, real: bool, first: tuple[int, int]) -> None:
    """Some tables of one chain, shape ``(draws, *table)``."""
    axes = tuple(range(1, tables.ndim))

    def at(draw: int) -> str:
        return f"{name} in chain {first[0]}, draw {first[1] + draw}"

    if real and not np.isfinite(tables).all():
        draw, *cell = np.argwhere(~np.isfinite(tables))[0].tolist()
        raise ValueError(f"{at(draw)}: {_cell(fiber.frame, cell)} is {tables[draw, *cell]}, and counts are finite")
    slack = _ROUNDING * np.maximum(1.0, np.abs(tables).max(axis=axes, keepdims=True)) if real else None
    low = tables < (0 if slack is None else -slack)
    if low.any():
        draw, *cell = np.argwhere(low)[0].tolist()
        raise ValueError(f"{at(draw)}: {_cell(fiber.frame, cell)} is {tables[draw, *cell]}, and counts are at least 0")
    for words, sign, parts in (
        ("", 0, fiber.equalities),
        ("at least ", 1, fiber.bounds_below),
        ("at most ", -1, fiber.bounds_above),
    ):
        for query, values in parts:
            excess = query.apply(tables) - values
            room = 0 if slack is None else _room(query, slack, excess.ndim)
            bad = np.abs(excess) > room if sign == 0 else sign * excess < -room
            if bad.any():
                draw, *answer = np.argwhere(bad)[0].tolist()
                where = int(np.ravel_multi_index(tuple(answer), query.shape)) if answer else 0
                wanted = np.asarray(values).reshape(-1)[where]
                found = np.asarray(excess[draw]).reshape(-1)[where] + wanted
                raise ValueError(
                    f"{at(draw)}: {query.answer_name(where)} is {found}, but the release published exactly {words}{wanted}"
                )


def _room(query: Query, slack: npt.NDArray[np.float64], dimensions: int) -> npt.NDArray[np.float64]:
    """How far answers of real tables may be off: the rounding of a cell, times the weights of a row."""
    weight = float(abs(query.matrix).sum(axis=1).max()) if query.rows else 0.0
    return np.asarray(slack.reshape(-1, *(1,) * (dimensions - 1)) * max(1.0, weight**0.5))


def _check_limits(
    limits: xr.Dataset,
    group: str,
    name: str,
    frame: Frame,
    lowest: npt.NDArray[np.float64],
    highest: npt.NDArray[np.float64],
    *,
    slack: float,
) -> None:
    """What the posterior says of the cells of a table is true of its draws."""
    unknown = sorted(map(str, set(limits.data_vars) - {"lower", "upper", "determined"}))
    if unknown:
        raise ValueError(f"the group {group!r} has unknown variables: {shown(unknown)}")
    room = slack * np.maximum(1.0, np.abs(highest))
    for key, variable in limits.data_vars.items():
        if dict(variable.sizes) != dict(zip(frame.dims, frame.shape, strict=True)):
            raise ValueError(
                f"{key} of the group {group!r} must have the dimensions of {name}, {', '.join(frame.dims)}"
            )
        values = variable.transpose(*frame.dims).values
        if values.dtype.kind not in "biuf" or (key == "determined" and not np.isin(values, (0, 1)).all()):
            raise ValueError(
                f"{key} of the group {group!r} must hold {'0 and 1' if key == 'determined' else 'numbers'}"
            )
        if key == "determined":
            wrong = values.astype(np.bool_) & (highest - lowest > 2 * room)
        elif key == "lower":
            wrong = lowest < values - room
        else:
            wrong = (values >= 0) & (highest > values + room)  # -1: no limit
        bad = np.argwhere(wrong)
        if len(bad):
            cell = tuple(bad[0].tolist())
            said = "is determined" if key == "determined" else f"has the {key} limit {values[cell]}"
            raise ValueError(
                f"the group {group!r} says that {_cell(frame, cell)} {said}, but the draws of {name} go from {lowest[cell]:.10g} to "
                f"{highest[cell]:.10g}"
            )


def _cell(frame: Frame, index: Any) -> str:
    return frame.cell_name(int(np.ravel_multi_index(tuple(index), frame.shape)))
