"""Convergence of a posterior, in numbers and in words, for what can move: limits that depend on the length of a run, and a verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from scipy.special import fdtri, lambertw, ndtri

from bayesdp._arrays import Floats, Mask
from bayesdp._chains import FEWEST_DRAWS, chain_statistics, rhat_by_chance
from bayesdp._text import printable
from bayesdp.hierarchies.modes import MissedModes, TiedGroups, missed_modes_of_draws

RHAT_LIMIT = 1.01
ESS_PER_CHAIN = 100
"""Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021): R-hat at most 1.01, and 100 effective draws a chain."""

RHAT_LARGE, RHAT_GROSS = 1.05, 1.2
"""However slow chains are: beyond the first none are called converged, and beyond the second all are called not converged."""

FALSE_ALARMS = 0.01
"""Share of runs of chains that agree of which an R-hat exceeds its limit, where that is neither 1.01 nor 1.2."""

_NAMED = 3
"""Quantities that the message names at most."""

_FEWEST, _MARGIN, _NOISE = 5, 1.2, 3.5
"""Effective draws a chain from which a number of draws is estimated; how much larger it is than what is just enough; standard
deviation of the logarithm of an effective size, times its root (2.7 of autoregressions; the tail below is longer)."""

_SLOW = 30
"""Among 100,000 quantities of independent draws, none had an effective sample size below 1/30 of its number of draws."""


def diagnose(
    posterior: xr.Dataset,
    determined: dict[str, Mask],
    told: Callable[[str, int, int], None] | None = None,
    tied: Mapping[str, TiedGroups] | None = None,
    held: Callable[[str, xr.DataArray, xr.DataArray], str] | None = None,
) -> xr.Dataset:
    """Effective sample sizes and R-hat of every free quantity, and a verdict.

    A constant chain looks perfect to the usual formulas. Cells that the exact answers determine are therefore left out (NaN), and
    a free cell that never moved counts as not converged. Parameters that are exactly 0 or 1 in every draw are left out, too.

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
        ``draws_needed`` of a chain (where that can be told), and ``verdict_counts`` and ``verdict_parameters``, of the tables in
        `determined` and of all other variables. With tied groups also ``missed_modes`` (``"none found"``, ``"disagree"`` or
        ``"not judged"``), ``missed_modes_message``, and numbers of groups.

    Notes
    -----
    The limits are those of Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021): R-hat at most 1.01, and 100 effective
    draws a chain. Of many quantities some exceed 1.01 by chance. So the limit of a quantity is the larger one of 1.01 and what
    chains that agree and move as fast as its chains do, each by itself, exceed in one run of 100: by the F distribution of the
    ratio of variances between and within split chains (`bayesdp._chains.rhat_by_chance`; of independent draws in short runs), the
    1% divided equally among the variables, and then among the quantities of each and the two R-hats (of the draws and of their
    distances from the median) by Bonferroni's inequality. It is 1.2 at most, and nothing is called converged with an R-hat beyond
    1.05, but for runs so short that independent draws exceed these.

    *Not converged* is said of what such chains would not show: R-hat above its limit, a free quantity that never moved or is
    not finite, or an effective sample size below both 100 a chain and a 30th of the draws. *Not judged* is said where nothing of
    the kind was seen, but there are fewer than 100 effective draws a chain, or fewer than two chains.
    """
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    found: dict[str, xr.DataArray] = {}
    seen: list[Worst] = []
    judged_of = {
        str(name): _moving(variable, determined.get(str(name))) for name, variable in posterior.data_vars.items()
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
    """Diagnostics of the quantities of a variable that `judged`, which has its name, says can move, and the worst of them."""
    # Draws have the shape (chains, draws, *quantities); `variables` of them share the rate of false alarms.
    name, chains = str(judged.name), len(draws)
    flat, which = draws.reshape(*draws.shape[:2], -1), np.flatnonzero(judged.values)
    if len(which) < flat.shape[2]:
        flat = flat[..., which]
    statistics = chain_statistics(flat, told)
    arrays: dict[str, xr.DataArray] = {}
    for statistic, found in statistics._asdict().items():
        full = np.full(judged.size, np.nan)
        full[which] = found
        arrays[f"{name}_{statistic}"] = judged.copy(data=full.reshape(judged.shape)).rename(None)
    ess = np.minimum(statistics.ess_bulk, statistics.ess_tail)
    limits = rhat_limits(flat, statistics.rhat, variables)
    return arrays, Worst.of(
        name, kind, statistics.rhat, limits, ess, chains, lambda i: quantity_name(judged, int(which[i])), stuck
    )


def quantity_name(variable: xr.DataArray, position: int) -> str:
    """What names a quantity of a variable: ``x[county=Alpha, sex=men]``."""
    at = zip(variable.dims, np.unravel_index(position, variable.shape), strict=True) if variable.ndim else ()
    labels = [f"{dim}={variable[dim].values[i] if dim in variable.coords else i}" for dim, i in at]
    return printable(f"{variable.name}[{', '.join(labels)}]" if labels else str(variable.name))


def not_diagnosed(reason: str) -> xr.Dataset:
    """A data set in the place of diagnostics that were not computed: the verdict *not judged*, and the reason."""
    message = f"Convergence was not judged: {reason}."
    return xr.Dataset(attrs={"verdict": "not judged", "converged": 0, "message": message})


def _moving(draws: xr.DataArray, determined: Mask | None) -> tuple[xr.DataArray, bool]:
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


def rhat_limit(chains: int, draws: int, quantities: int, variables: int) -> float:
    """The largest R-hat of independent draws that is no sign of bad chains; see the Notes of `bayesdp.inference.diagnose`."""
    half = max(draws // 2, 2)
    ratio = float(fdtri(2 * chains - 1, 2 * chains * (half - 1), 1.0 - _rate(quantities, variables)))
    return max(RHAT_LIMIT, float(np.sqrt((ratio + half - 1) / half)))


def rhat_limits(draws: npt.NDArray[Any], rhat: Floats, variables: int) -> Floats:
    """Limits of the R-hat of the quantities of a variable, shape (quantities,); draws of shape (chains, draws, quantities)."""
    chains, length, quantities = draws.shape
    least = rhat_limit(chains, length, quantities, variables)
    limits = np.full(quantities, least)
    doubtful = np.flatnonzero((rhat > least) & (rhat <= RHAT_GROSS))
    limits[doubtful] = rhat_by_chance(draws[..., doubtful], _rate(quantities, variables), least, RHAT_GROSS)
    return limits


def cell_limits(rhat: Floats, times: Floats, chains: int, draws: int, batch: int, variables: int) -> Floats:
    """`rhat_limits` of cells of which batches of draws are known, and autocorrelation times from these."""
    least = rhat_limit(chains, draws, len(rhat), variables)
    half = max(draws // batch // 2, 2)
    beyond = fdtri(2 * chains - 1, 2 * chains * (half - 1), 1.0 - _rate(len(rhat), variables))
    limits = np.sqrt(np.maximum(1.0 + (np.nan_to_num(times) * beyond - 1.0) / (half * batch), 0.0))
    return np.asarray(np.clip(limits, least, max(least, RHAT_GROSS)))


def _rate(quantities: int, variables: int) -> float:
    """Of false alarms of one of the two R-hats of one quantity, by Bonferroni's inequality."""
    return FALSE_ALARMS / (2 * max(quantities, 1) * max(variables, 1))


@dataclass(frozen=True)
class Worst:
    """The worst diagnostics among the quantities of one variable."""

    name: str
    kind: str  # counts, or parameters, which are judged apart
    rhat: float  # the largest of those beyond their limits, or of all if none is; NaN where there is none
    limit: float
    ess: float  # the smallest effective size; infinite where there is none
    stuck: bool  # whether a quantity that can move did not
    missing: bool  # whether one has draws that are not finite
    named: tuple[tuple[str, float, float, float], ...]  # names, R-hat, sizes, and how many times beyond a limit that is
    quantities: int
    beyond: int

    @classmethod
    def of(
        cls,
        name: str,
        kind: str,
        rhat: Floats,
        limits: Floats,
        ess: Floats,
        chains: int,
        names: Callable[[int], str],
        stuck: bool,
    ) -> Worst:
        """Of arrays of shape (quantities,); `names` gives the name of a quantity."""
        known = np.isfinite(ess)
        excess = np.where(np.isnan(rhat), 0.0, (rhat - 1.0) / (limits - 1.0))
        badness = np.maximum(excess, np.where(known, ESS_PER_CHAIN * chains / np.maximum(ess, 1e-9), 0.0))
        first = [int(i) for i in np.argsort(-badness, kind="stable")[:_NAMED]]
        worst = np.lexsort((np.nan_to_num(rhat), excess > 1.0))[-1:]
        return cls(
            name,
            kind,
            rhat=float(rhat[worst].sum()) if worst.size else float("nan"),
            limit=float(limits[worst].sum()) if worst.size else RHAT_LIMIT,
            ess=float(ess[known].min(initial=np.inf)),
            stuck=stuck,
            missing=not known.all(),
            named=tuple((names(i), float(rhat[i]), float(ess[i]), float(badness[i])) for i in first),
            quantities=ess.size,
            beyond=int((badness > 1.0).sum()),
        )

    @property
    def place(self) -> tuple[bool, float]:
        """The larger, the worse is R-hat: whether it is beyond its limit, and its value."""
        return self.rhat > self.limit, float(np.nan_to_num(self.rhat))


_BEGINNING = {
    "not converged": "NOT converged, as far as can be told",
    "not judged": "Too little to judge convergence, and nothing that speaks against it",
    "converged": "Converged",
}
"""From the worst verdict on."""
_WORDS = {"converged": "are good", "not judged": "have too few effective draws", "not converged": "are bad"}


def verdict_of(seen: Sequence[Worst], chains: int, draws: int) -> dict[str, Any]:
    """Verdict, message and the numbers behind them, as attributes of the diagnostics."""
    seen = [each for each in seen if each.named or each.stuck]  # those that can move
    kinds = {kind: [each for each in seen if each.kind == kind] for kind in ("counts", "parameters")}
    found = {kind: _verdict_on(worst, chains, draws) for kind, worst in kinds.items() if worst or not seen}
    verdict = next(one for one in _BEGINNING if any(judged == one for judged, _ in found.values()))
    widest = max(seen, key=lambda each: each.place, default=None)
    ess = min((each.ess for each in seen), default=np.inf)
    named = sorted((one for each in seen for one in each.named), key=lambda one: -one[3])[:_NAMED]
    worst = "; ".join(
        f"{name} ({'' if np.isnan(rhat) else f'R-hat {rhat:.3f}, '}{size:.0f} effective draws)"
        for name, rhat, size, _ in named
    )
    told = [
        f"{kind} {_WORDS[judged]}, {text}" if len(found) > 1 else text for kind, (judged, text) in found.items() if text
    ]
    if draws < FEWEST_DRAWS:
        told.append(f"{draws} draws a chain, of which {FEWEST_DRAWS} are the fewest that say anything")
    if chains == 1:
        told.append("R-hat needs two chains or more: run several to judge convergence")
    usual = " by the usual limits" if verdict == "converged" and (widest is None or widest.limit <= RHAT_LIMIT) else ""
    message = f"{_BEGINNING[verdict]}{usual}: {'; '.join(told)}."
    needed, beyond = _draws_needed(seen, chains, draws), sum(each.beyond for each in seen)
    if verdict != "converged" and beyond:
        message += f" The worst of {beyond:,} beyond a limit: {worst}."
    if verdict != "converged" and needed > draws:
        message += f" Some {needed:,.0f} draws a chain would do, if the chains go on as they did."
    elif verdict == "not converged" and np.isnan(needed):
        message += " How many draws would do cannot be told from these chains: perhaps no number does."
    if draws >= FEWEST_DRAWS and not seen:
        message = "Nothing can move: the exact answers determine every count."
    return {
        "verdict": verdict,
        "converged": int(verdict == "converged"),
        "message": message,
        "rhat_limit": RHAT_LIMIT if widest is None else widest.limit,
        "ess_limit": ESS_PER_CHAIN * chains,
        "worst_rhat": float("nan") if widest is None else widest.rhat,
        "worst_ess": ess if np.isfinite(ess) else float("nan"),
        "worst_quantities": worst,
        **({} if np.isnan(needed) else {"draws_needed": needed}),
        **{f"verdict_{kind}": judged for kind, (judged, _) in found.items() if seen},
    }


def _verdict_on(seen: Sequence[Worst], chains: int, draws: int) -> tuple[str, str]:
    """The verdict on variables of one kind, and what is said of them."""
    ess = min((each.ess for each in seen), default=np.inf)
    widest = max(seen, key=lambda each: each.place, default=None)
    wanted, short = ESS_PER_CHAIN * chains, draws < FEWEST_DRAWS
    stuck = [each.name for each in seen if each.stuck]
    missing = [each.name for each in seen if each.missing and not short]
    over = widest is not None and widest.rhat > widest.limit
    bad = bool(stuck or missing) or over or ess < min(wanted, chains * draws / _SLOW)
    short_run = 1.0 if widest is None else rhat_limit(chains, draws, widest.quantities, len(seen))
    large = widest is not None and widest.rhat > max(RHAT_LARGE, short_run)
    good = ess >= wanted and not short and not large and chains > 1
    told = [f"{', '.join(map(printable, stuck))}: a quantity that could move never did"] if stuck else []
    if missing:
        told.append(f"{', '.join(map(printable, missing))}: draws that are not finite")
    if widest is not None and not np.isnan(widest.rhat):
        why = "" if widest.limit in (RHAT_LIMIT, RHAT_GROSS) else ", which chance exceeds in 1% of runs"
        told.append(f"R-hat {'up to' if over else 'at most'} {widest.rhat:.3f} (limit {widest.limit:.4g}{why})")
    if np.isfinite(ess):
        told.append(f"smallest effective sample size {ess:.0f} (limit {wanted})")
    return "not converged" if bad else "converged" if good else "not judged", "; ".join(told)


def _draws_needed(seen: Sequence[Worst], chains: int, draws: int) -> float:
    """Draws of a chain that are enough, to two digits; NaN where each chain may be in a place of its own, or nothing is known."""
    # The smallest of many estimates is below the usual size T of quantities that are alike: ``log(smallest) = log T - s / sqrt(T)``,
    # which is solved for T. Where only R-hat is too large, R-hat^2 - 1 falls as one over the draws.
    ess, wanted = min((each.ess for each in seen), default=float("inf")), ESS_PER_CHAIN * chains
    over = max((each.rhat for each in seen if each.rhat > each.limit), default=1.0)
    known = np.isfinite(over) and np.isfinite(ess) and not any(each.stuck or each.missing for each in seen)
    if chains == 1 or not known or ess < _FEWEST * chains:
        return float("nan")
    s = max(-_NOISE * float(ndtri(1.0 / (1.0 + sum(each.quantities for each in seen)))), 0.0)
    usual = [size * math.exp(2.0 * lambertw(s / math.sqrt(size) / 2.0).real) for size in (wanted, ess)]
    times = usual[0] / usual[1] if ess < wanted else (over**2 - 1.0) / (RHAT_LIMIT**2 - 1.0)
    if times <= 1.0:
        return float(draws)
    step = 10.0 ** (math.floor(math.log10(_MARGIN * draws * times)) - 1)
    return math.ceil(_MARGIN * draws * times / step) * step


def with_modes(attributes: Mapping[str, Any], found: Mapping[str, MissedModes]) -> dict[str, Any]:
    """Attributes of the diagnostics with the checks for missed modes of tables, by name: chains that disagree are not converged."""
    # Nothing is called converged where chains have too few effective draws for the check. The attributes of a check have the name
    # of the table at their ends if there are several tables.
    told = dict(attributes)
    for name, check in found.items():
        ending = f"_{name}" if len(found) > 1 else ""
        told.update({f"{key}{ending}": value for key, value in check.attributes.items()})
        told["message"] += f" {check.message}"
    if any(check.verdict == "disagree" for check in found.values()):
        if told["verdict"] != "not converged":
            beginning, _, rest = told["message"].partition(": ")  # which says another verdict
            told["message"] = (
                f"{_BEGINNING['not converged']}, because chains from different starts disagree, "
                f"which the usual diagnostics do not show: {rest or beginning}"
            )
        told |= {"verdict": "not converged", "verdict_counts": "not converged", "converged": 0}
    elif told["verdict"] == "converged" and any(check.short for check in found.values()):
        rest = told["message"].partition(": ")[2] or told["message"]
        told["message"] = f"Too little to judge whether a mode was missed; the usual diagnostics are good: {rest}"
        told |= {"verdict": "not judged", "verdict_counts": "not judged", "converged": 0}
    return told
