"""The verdict of the diagnostics: limits of R-hat that depend on the length of a run, and the message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import f as f_distribution

from bayesdp._chains import FEWEST_DRAWS, ChainStatistics
from bayesdp._text import printable
from bayesdp.hierarchies.modes import MissedModes

__all__ = ["ESS_PER_CHAIN", "FALSE_ALARMS", "RHAT_LIMIT", "Worst", "rhat_limit", "verdict_of", "with_modes"]

RHAT_LIMIT = 1.01
ESS_PER_CHAIN = 100
"""Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021): R-hat at most 1.01, and 100 effective draws a chain."""

FALSE_ALARMS = 0.01
"""Share of runs of independent draws of which an R-hat exceeds its limit, where that is not 1.01."""

_SLOW = 30
"""Among 100,000 quantities of independent draws, none had an effective sample size below 1/30 of its number of draws."""


def rhat_limit(chains: int, draws: int, quantities: int, variables: int) -> float:
    """The largest R-hat that is no sign of bad chains; see the Notes of `bayesdp.inference.diagnose`.

    Parameters
    ----------
    chains, draws : int
        Chains, and draws of each.
    quantities : int
        Quantities of the variable.
    variables : int
        Variables that share the rate of false alarms.

    Examples
    --------
    >>> rhat_limit(4, 1000, 15_000, 2), round(rhat_limit(2, 300, 15_000, 1), 3)
    (1.01, 1.034)
    """
    half = draws // 2
    if half < 2 or quantities == 0:
        return RHAT_LIMIT
    rate = FALSE_ALARMS / (2 * quantities * max(variables, 1))
    ratio = float(f_distribution.isf(rate, 2 * chains - 1, 2 * chains * (half - 1)))
    return max(RHAT_LIMIT, float(np.sqrt((ratio + half - 1) / half)))


@dataclass(frozen=True)
class Worst:
    """The worst diagnostics among the quantities of one variable.

    Attributes
    ----------
    rhat, ess : float
        Largest and smallest; NaN and infinity where there is none. R-hat is infinite where chains stand still at different values.
    limit : float
        The limit of R-hat.
    stuck, missing : bool
        Whether a quantity that can move did not; whether one has draws that are not finite.
    """

    name: str
    rhat: float
    ess: float
    limit: float
    stuck: bool
    missing: bool

    @classmethod
    def of(cls, name: str, statistics: ChainStatistics, limit: float, *, stuck: bool) -> Worst:
        """Of the statistics of all quantities of a variable."""
        known = np.isfinite(statistics.ess_bulk)
        smallest = np.minimum(statistics.ess_bulk, statistics.ess_tail)[known]
        ratios = statistics.rhat[~np.isnan(statistics.rhat)]
        return cls(
            name,
            rhat=float(ratios.max()) if ratios.size else float("nan"),
            ess=float(smallest.min()) if smallest.size else float("inf"),
            limit=limit,
            stuck=stuck,
            missing=not known.all(),
        )

    @property
    def excess(self) -> float:
        """(R-hat - 1) / (limit - 1): above 1 if R-hat exceeds its limit; 0 where there is no R-hat."""
        return 0.0 if np.isnan(self.rhat) else (self.rhat - 1.0) / (self.limit - 1.0)


_NOT_CONVERGED = "NOT converged, as far as can be told"


def verdict_of(seen: Sequence[Worst], chains: int, draws: int) -> dict[str, Any]:
    """Verdict, message and the numbers behind them, as attributes of the diagnostics."""
    ess = min((worst.ess for worst in seen), default=float("inf"))
    widest = max(seen, key=lambda own: own.excess, default=None)
    rhat = widest.rhat if widest is not None and chains > 1 else float("nan")
    limit = widest.limit if widest is not None else RHAT_LIMIT
    wanted = ESS_PER_CHAIN * chains
    short = draws < FEWEST_DRAWS
    stuck = [worst.name for worst in seen if worst.stuck]
    missing = [worst.name for worst in seen if worst.missing and not short]
    nothing = not np.isfinite(ess) and not (stuck or missing or short)
    bad = bool(stuck or missing) or rhat > limit or ess < min(wanted, chains * draws / _SLOW)
    enough = nothing or (ess >= wanted and not short)
    verdict = "not converged" if bad else "converged" if enough and chains > 1 else "not judged"
    told = [f"{', '.join(map(printable, stuck))}: a quantity that could move never did"] if stuck else []
    if missing:
        told.append(f"{', '.join(map(printable, missing))}: draws that are not finite")
    if short:
        told.append(f"{draws} draws a chain, of which {FEWEST_DRAWS} are the fewest that say anything")
    told += _rhat_words(rhat, limit, chains)
    if np.isfinite(ess):
        told.append(f"smallest effective sample size {ess:.0f} (limit {wanted})")
    beginning = {
        "converged": "Converged by the usual limits",
        "not judged": "Too little to judge convergence, and nothing that speaks against it",
        "not converged": _NOT_CONVERGED,
    }[verdict]
    message = f"{beginning}: {'; '.join(told)}."
    if nothing and verdict != "not converged":
        message = "Nothing can move: the exact answers determine every count."
    return {
        "verdict": verdict,
        "converged": int(verdict == "converged"),
        "message": message,
        "rhat_limit": limit,
        "ess_limit": wanted,
        "worst_rhat": rhat,
        "worst_ess": ess if np.isfinite(ess) else float("nan"),
    }


def with_modes(attributes: Mapping[str, Any], found: Mapping[str, MissedModes]) -> dict[str, Any]:
    """Attributes of the diagnostics with the checks for missed modes of tables, by name: chains that disagree are not converged.

    Nothing is called converged where chains have too few effective draws for the check. The attributes of a check have the name of the
    table at their ends if there are several tables.
    """
    told = dict(attributes)
    for name, check in found.items():
        ending = f"_{name}" if len(found) > 1 else ""
        told.update({f"{key}{ending}": value for key, value in check.attributes.items()})
        told["message"] += f" {check.message}"
    if any(check.verdict == "disagree" for check in found.values()):
        if told["verdict"] != "not converged":
            told["message"] = f"{_NOT_CONVERGED}, because chains from different starts disagree. {told['message']}"
        told |= {"verdict": "not converged", "converged": 0}
    elif told["verdict"] == "converged" and any(check.short for check in found.values()):
        told["message"] = f"Too little to judge whether a mode was missed. {told['message']}"
        told |= {"verdict": "not judged", "converged": 0}
    return told


def _rhat_words(rhat: float, limit: float, chains: int) -> list[str]:
    if chains == 1:
        return ["R-hat needs two chains or more: run several to judge convergence"]
    if np.isnan(rhat):
        return []
    verb = "at most" if rhat <= limit else "up to"
    if limit <= RHAT_LIMIT:
        return [f"R-hat {verb} {rhat:.3f} (limit {RHAT_LIMIT})"]
    rare = f"independent draws of this number exceed it in {FALSE_ALARMS:.0%} of runs"
    return [f"R-hat {verb} {rhat:.3f} (limit {limit:.3f}: {rare})"]
