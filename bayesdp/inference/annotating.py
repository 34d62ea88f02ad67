"""Releases, guarantees, limits of the cells and diagnostics, added to the draws of a posterior; and what holds cells in place."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

import bayesdp
from bayesdp._arrays import Ints, Mask
from bayesdp._text import shown
from bayesdp.distributions.confidential_counts import ConfidentialCountsRV
from bayesdp.fibers import Fiber, NoiseTerm, Target
from bayesdp.fibers.determined import EXACT_CELLS
from bayesdp.fibers.kernel.state import UNBOUNDED
from bayesdp.frames import Frame
from bayesdp.hierarchies.modes import TiedGroups, read_codes
from bayesdp.inference.diagnostics import diagnose, quantity_name
from bayesdp.inference.observed import releases_of, warn_replaced
from bayesdp.release import Release
from bayesdp.steps.fiber_gibbs import ENDS
from bayesdp.steps.reading import exact_fiber, kernel_target, movement, possible, read_model
from bayesdp.storage import compress_draws

_CELLS, _ANSWERS = 3, 3
"""Of cells that do not move: how many are named, and how many of the answers that hold one."""


def annotate(tree: xr.DataTree, model: pm.Model, *, seed: Any = None) -> xr.DataTree:
    """Add release, guarantee, fiber, diagnostics and versions to the result of ``pm.sample``.

    Parameters
    ----------
    tree : xarray.DataTree
    model : pymc.Model
        The model that was sampled.
    seed : object, optional
        Seed of the sampler, for the record; the noise of a release has none here.

    Returns
    -------
    xarray.DataTree
        The same tree, whose posterior also has the group labels of the tables (``posterior["x"].groupby("state")``). A
        release whose numbers `pm.set_data` has replaced, with a warning, or that a copy of the model does not know, is left
        out. `bayesdp.set_release` keeps it.

    Raises
    ------
    ValueError
        If a draw of the counts does not agree with the exact answers.
    """
    tables = Tables.of(model)
    tables.add_releases(tree, model, seed)
    fixed, tied = tables.add_limits(tree, model, take_ends(tree))
    posterior = tree["posterior"].to_dataset()
    tree["diagnostics"] = xr.DataTree(diagnose(posterior, fixed, tied=tied, held=partial(what_holds, model)))
    return tree


@dataclass(frozen=True)
class Tables:
    """The tables of a model by name: counts with their random variables, and statistics."""

    counts: dict[str, Any]
    releases: dict[str, list[Release]]  # about each of them
    statistics: tuple[str, ...] = ()  # variables that releases of statistics are about

    @property
    def names(self) -> list[str]:
        """All of them, in order."""
        return [*self.counts, *self.statistics]

    @classmethod
    def of(cls, model: pm.Model) -> Tables:
        """Those of a model, with a warning where `pm.set_data` has replaced numbers of a release."""
        warn_replaced(model)
        releases: dict[str, list[Release]] = {}
        for name, release in releases_of(model):
            releases.setdefault(name, []).append(release)
        counts = {rv.name: rv for rv in model.free_RVs if isinstance(rv.owner.op, ConfidentialCountsRV)}
        statistics = tuple(name for name, observed in releases.items() if observed[0].about == "statistics")
        return cls(counts, releases, statistics)

    def _suffix(self, name: str) -> str:
        """The ending of the names of a table's groups: nothing for the first table."""
        return "" if name == self.names[0] else f"_{name}"

    def add_releases(self, tree: xr.DataTree, model: pm.Model, seed: Any) -> None:
        """Add attributes, releases and guarantees, which is quick; plots and reports can read the tree from then on."""
        tree.attrs.update(said_of_run(seed, model.str_repr()), pymc_version=pm.__version__, command="")
        compress_draws(tree)
        for name in self.names:
            add_releases_to(tree, self.releases.get(name, []), self._suffix(name))

    def add_limits(
        self, tree: xr.DataTree, model: pm.Model, ends: Mapping[str, Ints]
    ) -> tuple[dict[str, Mask], dict[str, TiedGroups]]:
        """Check that the draws are on their fibers, and add the limits of all cells."""
        # `ends`: what `take_ends` has taken out of the tree. Returns `fixed`, for each table, which cells have one possible value or
        # are `at_rest`; `tied`, for tables that were moved as hierarchies, the groups of which chains began at different ends.
        fixed: dict[str, Mask] = {}
        tied: dict[str, TiedGroups] = {}
        for name, rv in self.counts.items():
            value = model.rvs_to_values[rv]
            fiber = exact_fiber(model, value)
            # With `var_names`, functions of the table may have been recorded in its place.
            if name in tree["posterior"].data_vars:
                _check_members(tree, name, fiber)
            moves = movement(model, value)
            fixed[name] = fiber.determined() | moves.determined.reshape(fiber.frame.shape)
            if name in tree["posterior"].data_vars:
                fixed[name] |= at_rest(model, name, tree["posterior"].dataset[name], ~fixed[name])
            groups = read_codes(ends[name], moves.structure) if moves.structure is not None and name in ends else None
            if groups is not None:
                tied[name] = groups
            releases = self.releases.get(name, [])
            frame = releases[0].frame if releases else fiber.frame
            limits = _limits(fiber, frame, name)
            limits.attrs |= {"connectivity": moves.claim, "proved": int(moves.proved)}
            tree[f"fiber{self._suffix(name)}"] = xr.DataTree(limits)
            add_group_labels(tree, frame)
        for name in self.statistics:
            tree[f"statistics{self._suffix(name)}"] = xr.DataTree(xr.Dataset(attrs={"variable": name}))
        return fixed, tied


def said_of_run(seed: Any, formula: str) -> dict[str, str]:
    """What a result says of its run."""
    return {
        "bayesdp_version": bayesdp.__version__,
        "numpy_version": np.__version__,
        "seed": "not recorded" if seed is None or isinstance(seed, np.random.Generator) else str(seed),
        "prior": formula,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def take_ends(tree: xr.DataTree) -> dict[str, Ints]:
    """Take out of the statistics of a sampler what chains of hierarchies have told of where they began."""
    # Returns for each table shape (chains, draws); see `bayesdp.hierarchies.modes`.
    found: dict[str, Ints] = {}
    for group in ("warmup_sample_stats", "sample_stats"):
        if group not in tree.children:
            continue
        stats = tree[group].to_dataset()
        names = [str(name) for name in stats.data_vars if str(name).startswith(ENDS)]
        found |= {name.removeprefix(ENDS): stats[name].transpose("chain", "draw", ...).values for name in names}
        if names:
            tree[group].dataset = stats.drop_vars(names)
    return {name: told.reshape(told.shape[:2]).astype(np.int64) for name, told in found.items()}


def add_releases_to(tree: xr.DataTree, releases: list[Release], suffix: str) -> None:
    """Add releases and their guarantees to a result, as groups."""
    for j, release in enumerate(releases):
        ending = suffix if j == 0 else f"{suffix}_{j + 1}"
        tree[f"release{ending}"] = xr.DataTree(release.to_dataset())
        if release.guarantee is not None:
            attrs = {"guarantee": json.dumps(release.guarantee.to_dict()), "text": str(release.guarantee)}
            tree[f"guarantee{ending}"] = xr.DataTree(xr.Dataset(attrs=attrs))


def add_group_labels(tree: xr.DataTree, frame: Frame) -> None:
    """Group labels of a table, as coordinates of the posterior that are no dimensions."""
    posterior = tree["posterior"].to_dataset()
    new = {
        name: (dim, list(labels))
        for name, dim, labels in frame.groups
        if name not in posterior.variables and posterior.sizes.get(dim) == len(labels)
    }
    if new:
        tree["posterior"].dataset = posterior.assign_coords(new)


def _check_members(tree: xr.DataTree, name: str, fiber: Fiber) -> None:
    """Check that all draws of a table are on its fiber; a step method that was forced on the counts leaves it."""
    draws = tree["posterior"][name].transpose("chain", "draw", ...).values
    off = sum(int(np.sum(~fiber.members(chain))) for chain in draws)
    if off:
        raise ValueError(
            f"{off} of {draws.shape[0] * draws.shape[1]} draws of {name} do not agree with the exact answers: another step "
            "method than FiberGibbs was forced on the counts. Leave them out of `step`; FiberGibbs is assigned by itself"
        )


def _limits(fiber: Fiber, frame: Frame, name: str) -> xr.Dataset:
    lower, upper = fiber.bounds()
    arrays = {"lower": lower, "upper": upper, "determined": fiber.determined()}
    return xr.Dataset(
        {label: frame.data_array(array) for label, array in arrays.items()},
        attrs={
            "variable": name,
            "bounds_exact": int(fiber.bounds_are_exact),
            "determined_complete": int(fiber.determined_is_complete),
        },
    )


def at_rest(model: pm.Model, name: str, draws: xr.DataArray, free: Mask) -> Mask:
    """Of the free cells that never moved in any chain, those at 0 that nothing holds there, and those that can be nowhere else."""
    # Nothing holds a cell that one of a hundred tables of each chain leaves another count, all other cells as they are: lines of
    # single cells are drawn from exactly, so that others are improbable. Above 0 bounded laws make none so improbable. That a cell
    # has one count in all tables within the laws is found by integer programs. No more are looked at after the first not at rest.
    flat = draws.transpose("chain", "draw", ...).values.reshape(draws.sizes["chain"], draws.sizes["draw"], -1)
    rest = np.zeros(free.size, dtype=np.bool_)
    still = np.flatnonzero(free.reshape(-1) & (flat == flat[0, 0]).all(axis=(0, 1)))
    reading = read_model(model, model.rvs_to_values[model[name]]) if still.size else None
    if reading is None or reading.unknown or reading.rests or any(term.windows is None for term in reading.terms):
        return rest.reshape(free.shape)
    target, tables = kernel_target(reading), flat[:, :: -max(flat.shape[1] // 100, 1)].astype(np.int64)
    reach = max(
        (int(term.windows.length.max(initial=0)) for term in reading.terms if term.windows is not None), default=0
    )
    for cell in still:
        one, count = np.arange(rest.size) == cell, int(flat[0, 0, cell])
        ways = ((table + k * one for k in range(1, reach + 1) for table in chain) for chain in tables)
        rest[cell] = not count and all(any(possible(target, table) for table in chain) for chain in ways)
        rest[cell] |= rest.size <= EXACT_CELLS and not _elsewhere(target, one, count)
        if not rest[cell]:
            break
    return rest.reshape(free.shape)


def _elsewhere(target: Target, one: Mask, count: int) -> bool:
    """Whether any table has another count in a cell."""
    for lower, upper in ((0, count - 1), (count + 1, UNBOUNDED))[count == 0 :]:
        try:
            fiber = target.fiber.with_cells_between(np.where(one, lower, 0), np.where(one, upper, UNBOUNDED))
            fiber.find_point(target.guide(), target.gaps)
        except ValueError:  # there is no table
            continue
        except TimeoutError:  # nobody knows
            pass
        return True
    return False


def what_holds(model: pm.Model, name: str, draws: xr.DataArray, rhat: xr.DataArray) -> str:
    """Of the cells of a table whose chains agree least: where the chains are, and which answers let them go no further."""
    # `draws`: of dimensions chain, draw and those of the table. `rhat` of each cell: NaN where it is determined, or did not move in
    # any chain. A sentence for each of up to three cells with answers of bounded laws about them.
    if not isinstance(model[name].owner.op, ConfidentialCountsRV):
        return ""
    terms = [term for term in read_model(model, model.rvs_to_values[model[name]]).terms if term.windows is not None]
    flat = draws.transpose("chain", "draw", *rhat.dims).values.reshape(draws.sizes["chain"], draws.sizes["draw"], -1)
    order = np.argsort(-np.nan_to_num(rhat.values.reshape(-1), posinf=1e300), kind="stable")[:_CELLS]
    found: list[str] = []
    for cell in order.tolist():
        walls = [_walls(terms, table, cell) for table in flat[:, -1]]
        chain = max(range(len(walls)), key=lambda i: min(len(walls[i][1]), len(walls[i][-1])))
        if not (walls[chain][1] or walls[chain][-1]):
            continue
        means = ", ".join(f"{mean:.1f}" for mean in flat[:, :, cell].mean(axis=1))
        held = [
            f"one {word} is ruled out by {shown(walls[chain][sign], _ANSWERS, '; ', str)}"
            for sign, word in ((1, "more"), (-1, "less"))
            if walls[chain][sign]
        ]
        found.append(
            f" {quantity_name(rhat.rename(name), cell)} is {means} on average in the chains; at the end of chain {chain}, "
            f"where it is {int(flat[chain, -1, cell])}, {' and '.join(held)}."
        )
    return "".join(found)


def _walls(terms: Sequence[NoiseTerm], table: Ints, cell: int) -> dict[int, list[str]]:
    """Which answers rule out that a cell alone has one count more, or less."""
    found: dict[int, list[str]] = {1: [], -1: []}
    for term in terms:
        windows = term.windows
        assert windows is not None
        rows = np.flatnonzero(term.measured)
        entries = term.matrix[:, [cell]].toarray().reshape(-1)[rows]
        for i in np.flatnonzero(entries).tolist():
            row = int(rows[i])
            value = round(float((term.matrix[[row]] @ table)[0]))
            for sign in found:
                if _impossible(windows, i, value + sign * int(entries[i])):
                    found[sign].append(f"{term.query.answer_name(row)} (published {term.values[row]:g}, now {value})")
    return found


def _impossible(windows: Any, answer: int, value: int) -> bool:
    at, last = value - int(windows.low[answer]), int(windows.length[answer]) - 1
    beyond = windows.below[answer] if at < 0 else windows.above[answer] if at > last else 0.0
    return bool(np.isneginf(beyond + windows.log_mass[int(windows.start[answer]) + min(max(at, 0), last)]))
