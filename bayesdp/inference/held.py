"""What holds cells of a table that do not move: answers whose laws rule out the next count; or nothing, and they have no other one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import xarray as xr

from bayesdp._text import printable
from bayesdp.distributions.confidential_counts import ConfidentialCountsRV
from bayesdp.fibers import NoiseTerm, Target
from bayesdp.fibers.fiber import EXACT_CELLS
from bayesdp.fibers.kernel.state import UNBOUNDED
from bayesdp.steps.reading import kernel_target, read_model

_CELLS, _ANSWERS = 3, 3
"""How many cells are named, and how many of the answers that hold one."""

type Ints = npt.NDArray[np.int64]
type Mask = npt.NDArray[np.bool_]


def at_rest(model: pm.Model, name: str, draws: xr.DataArray, free: Mask) -> Mask:
    """Of the free cells that never moved in any chain, those at 0 that nothing holds there, and those that can be nowhere else.

    Nothing holds a cell that one of a hundred tables of each chain leaves another count, all other cells as they are: lines of single
    cells are drawn from exactly, so that others are improbable. Above 0 bounded laws make none so improbable, and the cell is told
    of. That a cell has one count in all tables within the laws (which may leave gaps) is found by integer programs, of tables of up
    to `EXACT_CELLS` cells. Under unbounded noise, and where something else depends on the counts, no cell is at rest. After the first
    cell that is not, no more are looked at.

    Parameters
    ----------
    model : pymc.Model
    name : str
        Of a table of counts.
    draws : xarray.DataArray, dimensions chain, draw and those of the table
    free : bool array, of the table's shape
    """
    flat = draws.transpose("chain", "draw", ...).values.reshape(draws.sizes["chain"], draws.sizes["draw"], -1)
    rest = np.zeros(free.size, dtype=np.bool_)
    still = np.flatnonzero(free.reshape(-1) & (flat == flat[0, 0]).all(axis=(0, 1)))
    reading = read_model(model, model.rvs_to_values[model[name]]) if still.size else None
    if reading is None or reading.unknown or reading.rests or any(own.windows is None for own in reading.terms):
        return rest.reshape(free.shape)
    target, tables = kernel_target(reading), flat[:, :: -max(flat.shape[1] // 100, 1)].astype(np.int64)
    reach = max((int(own.windows.length.max(initial=0)) for own in reading.terms if own.windows is not None), default=0)
    for cell in still:
        one, count = np.arange(rest.size) == cell, int(flat[0, 0, cell])
        ways = ((table + k * one for k in range(1, reach + 1) for table in own) for own in tables)
        rest[cell] = not count and all(any(_possible(target, table) for table in own) for own in ways)
        rest[cell] |= rest.size <= EXACT_CELLS and not _elsewhere(target, one, count)
        if not rest[cell]:
            break
    return rest.reshape(free.shape)


def _possible(target: Target, table: Ints) -> bool:
    """Whether exact answers and laws allow a table."""
    inside, gaps = target.fiber.contains(table.reshape(target.fiber.frame.shape)), target.gaps
    return inside and (gaps is None or not (gaps.met(table).size or gaps.further(table)))


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
    """Of the cells whose chains agree least: where the chains are, and which answers let them go no further; empty for none.

    Parameters
    ----------
    model : pymc.Model
    name : str
        Of a table of counts.
    draws : xarray.DataArray, dimensions chain, draw and those of the table
    rhat : xarray.DataArray
        Of each cell; NaN where it is determined, or did not move in any chain.

    Returns
    -------
    str
        A sentence for each of up to three cells with answers of bounded laws about them.
    """
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
        at = [f"{rhat.dims[i]}={_label(rhat, i, k)}" for i, k in enumerate(np.unravel_index(cell, rhat.shape))]
        means = ", ".join(f"{mean:.1f}" for mean in flat[:, :, cell].mean(axis=1))
        held = [
            f"one {word} is ruled out by {_listed(walls[chain][sign])}"
            for sign, word in ((1, "more"), (-1, "less"))
            if walls[chain][sign]
        ]
        found.append(
            f" {printable(f'{name}[{", ".join(at)}]')} is {means} on average in the chains; at the end of chain {chain}, "
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


def _label(array: xr.DataArray, axis: int, place: int) -> Any:
    dim = array.dims[axis]
    return array[dim].values[place] if dim in array.coords else place


def _listed(answers: list[str]) -> str:
    more = len(answers) - _ANSWERS
    return "; ".join(printable(own) for own in answers[:_ANSWERS]) + (f" and {more} more" if more > 0 else "")
