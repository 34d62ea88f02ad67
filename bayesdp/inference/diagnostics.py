"""Convergence of a posterior, in numbers and in words, for what can move."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp._chains import chain_statistics
from bayesdp._text import printable
from bayesdp.hierarchies.modes import MissedModes, TiedGroups, missed_modes_of_draws
from bayesdp.inference._verdict import Worst, cell_limits, rhat_limits, verdict_of, with_modes

__all__ = [
    "Worst",
    "cell_limits",
    "diagnose",
    "diagnosed_variable",
    "not_diagnosed",
    "rhat_limits",
    "verdict_of",
    "with_modes",
]


def diagnose(
    posterior: xr.Dataset,
    determined: dict[str, npt.NDArray[np.bool_]],
    told: Callable[[str, int, int], None] | None = None,
    tied: Mapping[str, TiedGroups] | None = None,
    held: Callable[[str, xr.DataArray, xr.DataArray], str] | None = None,
) -> xr.Dataset:
    """Effective sample sizes and R-hat of every free quantity, and a verdict.

    A constant chain looks perfect to the usual formulas (its effective sample size is the number of draws). Cells that
    the exact answers determine are therefore left out (NaN), and a free cell that never moved counts as not converged. Parameters that
    are exactly 0 or 1 in every draw are left out, too.

    Parameters
    ----------
    posterior : xarray.Dataset
        Draws, with dimensions chain and draw.
    determined : dict
        For each table of counts, which cells have one possible value, or never moved though nothing holds them.
    told : callable, optional
        Called now and then with the name of a variable, how many of its quantities are done, and their number.
    tied : mapping, optional
        The tied groups of tables whose chains started far apart: the check `bayesdp.hierarchies.modes.compare_entries` is
        then part of the verdict.
    held : callable, optional
        Says of a table whose chains did not converge, by its name, draws and R-hat, what holds it; added to the message.

    Returns
    -------
    xarray.Dataset
        ``{name}_ess_bulk``, ``{name}_ess_tail`` (5% and 95% quantiles), ``{name}_rhat`` with the dimensions of each variable,
        and the attributes ``verdict`` (``"converged"``, ``"not judged"`` or ``"not converged"``), ``converged`` (1 or 0),
        ``message``, ``worst_rhat`` with its ``rhat_limit``, ``worst_ess`` with ``ess_limit``, ``worst_quantities`` in words,
        ``draws_needed`` of a chain (left out where that cannot be told), and ``verdict_counts`` and ``verdict_parameters``, which are
        judged apart: the tables in `determined`, and all other variables. With tied groups also
        ``missed_modes`` (``"none found"``, ``"disagree"`` or ``"not judged"``), ``missed_modes_message``, and numbers of groups.
        Where chains disagree, the verdict is ``"not converged"``.

    Notes
    -----
    The limits are those of Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021): R-hat at most 1.01, and 100 effective
    draws a chain. Of many quantities some exceed 1.01 by chance: of 1,000 with 100 effective draws in each of four chains, the
    largest is some 1.03. So the limit of a quantity is the larger one of 1.01 and what chains that agree and move as fast as
    its chains do, each by itself, exceed in one run of 100: by the F distribution of the ratio of variances between and within
    split chains (`bayesdp._chains.rhat_by_chance`; of independent draws in short runs), the 1% divided equally among the variables,
    and then among the quantities of each (and the two R-hats, of the draws and of their distances from the median) by
    Bonferroni's inequality. It is 1.2 at most, and nothing is called converged with an R-hat beyond 1.05, but for runs so short that
    independent draws exceed these.

    *Not converged* is said of what such chains would not show: R-hat above its limit, a free quantity that never
    moved or is not finite, or an effective sample size below both 100 a chain and a 30th of the draws. *Not judged* is said
    where nothing of the kind was seen, but there are fewer than 100 effective draws a chain, or fewer than two chains: that
    is no sign of bad chains, but too little to call them good. ``converged`` is 1 for the verdict *converged* only.
    """
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    found: dict[str, xr.DataArray] = {}
    seen: list[Worst] = []
    judged_of = {
        str(name): _judged(variable, determined.get(str(name))) for name, variable in posterior.data_vars.items()
    }
    moving = sum(bool(judged.any()) for judged, _ in judged_of.values())
    for name, (judged, stuck) in judged_of.items():
        values = posterior[name].transpose("chain", "draw", ...).values
        tell = None if told is None else lambda done, total, name=name: told(name, done, total)
        kind = "counts" if name in determined else "parameters"
        arrays, worst = diagnosed_variable(judged.rename(name), values, moving, kind, stuck, tell)
        found |= arrays
        seen.append(worst)
    attributes = verdict_of(seen, chains, draws)
    modes: dict[str, MissedModes] = {}
    for name, groups in (tied or {}).items():
        if name in posterior.data_vars:
            table = posterior[name].transpose("chain", "draw", *groups.structure.frame.dims)
            modes[name] = missed_modes_of_draws(table.values, groups)
    attributes = with_modes(attributes, modes)
    if held is not None and attributes.get("verdict_counts") == "not converged":
        tables = [name for name in judged_of if name in determined]
        attributes["message"] += "".join(held(name, posterior[name], found[f"{name}_rhat"]) for name in tables)
    return xr.Dataset(found, attrs=attributes)


def diagnosed_variable(
    judged: xr.DataArray,
    draws: npt.NDArray[Any],
    variables: int,
    kind: str,
    stuck: bool = False,
    told: Callable[[int, int], None] | None = None,
) -> tuple[dict[str, xr.DataArray], Worst]:
    """Diagnostics of the quantities of a variable that `judged`, which has its name, says can move, and the worst of them.

    Draws have the shape (chains, draws, *quantities); `variables` of them share the rate of false alarms.
    """
    name, chains = str(judged.name), len(draws)
    flat, which = draws.reshape(*draws.shape[:2], -1), np.flatnonzero(judged.values)
    if len(which) < flat.shape[2]:
        flat = flat[..., which]
    statistics = chain_statistics(flat, told)
    arrays: dict[str, xr.DataArray] = {}
    for statistic in ("ess_bulk", "ess_tail", "rhat"):
        full = np.full(judged.size, np.nan)
        full[which] = getattr(statistics, statistic)
        arrays[f"{name}_{statistic}"] = judged.copy(data=full.reshape(judged.shape)).rename(None)
    ess = np.minimum(statistics.ess_bulk, statistics.ess_tail)
    limits = rhat_limits(flat, statistics.rhat, variables)
    return arrays, Worst.of(
        name, kind, statistics.rhat, limits, ess, chains, lambda i: _quantity_name(judged, int(which[i])), stuck
    )


def _quantity_name(variable: xr.DataArray, position: int) -> str:
    """What names a quantity of a variable: ``x[county=Alpha, sex=men]``."""
    at = zip(variable.dims, np.unravel_index(position, variable.shape), strict=True) if variable.ndim else ()
    own = [f"{dim}={variable[dim].values[i] if dim in variable.coords else i}" for dim, i in at]
    return printable(f"{variable.name}[{', '.join(own)}]" if own else str(variable.name))


def not_diagnosed(reason: str) -> xr.Dataset:
    """A data set in the place of diagnostics that were not computed: the verdict *not judged*, and the reason."""
    attributes: dict[str, Any] = {
        "verdict": "not judged",
        "converged": 0,
        "message": f"Convergence was not judged: {reason}.",
    }
    return xr.Dataset(attrs=attributes)


def _judged(draws: xr.DataArray, determined: npt.NDArray[np.bool_] | None) -> tuple[xr.DataArray, bool]:
    """Which quantities are not determined and moved, and whether one that is not determined never moved."""
    first = draws.isel(chain=0, draw=0, drop=True)
    free = xr.ones_like(first, dtype=bool)
    if determined is not None:
        free = free & ~xr.DataArray(determined, dims=free.dims)
    constant = (draws == first).all(("chain", "draw"))
    if determined is None and draws.dtype.kind == "f":
        # By its structure: a deviation that no count can have, the diagonal of a matrix of correlations.
        free = free & ~(constant & first.isin([0.0, 1.0]))
    return free & ~constant, bool((constant & free).any())
