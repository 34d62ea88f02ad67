"""Convergence of a posterior, in numbers and in words, for what can move."""

from __future__ import annotations

from typing import Any

import arviz as az
import numpy as np
import numpy.typing as npt
import xarray as xr

__all__ = ["ESS_PER_CHAIN", "RHAT_LIMIT", "diagnose"]

RHAT_LIMIT = 1.01
ESS_PER_CHAIN = 100
"""Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021): R-hat at most 1.01, and 100 effective draws a chain."""


def diagnose(posterior: xr.Dataset, determined: dict[str, npt.NDArray[np.bool_]]) -> xr.Dataset:
    """Effective sample sizes and R-hat of every free quantity.

    A constant chain looks perfect to the usual formulas (its effective sample size is the number of draws). Cells that
    the exact answers determine are therefore left out (NaN), and a free cell that never moved counts as not converged.

    Parameters
    ----------
    posterior : xarray.Dataset
        Draws, with dimensions chain and draw.
    determined : dict
        For each table of counts, which cells have one possible value.

    Returns
    -------
    xarray.Dataset
        ``{name}_ess_bulk``, ``{name}_ess_tail``, ``{name}_rhat`` with the dimensions of each variable, and the attributes
        ``converged`` (1 or 0), ``message``, ``rhat_limit`` and ``ess_limit``.
    """
    chains = posterior.sizes["chain"]
    found: dict[str, xr.DataArray] = {}
    worst_rhat, worst_ess, stuck, missing = 1.0, np.inf, [], False
    for name, draws in posterior.data_vars.items():
        free = xr.zeros_like(draws.isel(chain=0, draw=0, drop=True), dtype=bool) | True
        if name in determined:
            free = free & ~xr.DataArray(determined[str(name)], dims=free.dims)
        first = draws.isel(chain=0, draw=0, drop=True)
        constant = (draws == first).all(("chain", "draw"))
        if bool((constant & free).any()):
            stuck.append(str(name))
        judged = free & ~constant
        own: dict[str, xr.DataArray] = {}
        with np.errstate(all="ignore"):
            own["ess_bulk"] = _stat(az.ess, draws, judged, method="bulk")
            own["ess_tail"] = _stat(az.ess, draws, judged, method="tail")
            own["rhat"] = _stat(az.rhat, draws, judged) if chains > 1 else xr.full_like(own["ess_bulk"], np.nan)
        for statistic, values in own.items():
            found[f"{name}_{statistic}"] = values
        if bool(judged.any()):
            worst_ess = min(worst_ess, float(own["ess_bulk"].min()), float(own["ess_tail"].min()))
            if chains > 1:
                worst_rhat = max(worst_rhat, float(own["rhat"].max()))
            missing = missing or not bool(np.isfinite(own["ess_bulk"].where(judged, 0.0)).all())
    needed = ESS_PER_CHAIN * chains
    good = chains > 1 and not stuck and not missing and worst_rhat <= RHAT_LIMIT and worst_ess >= needed
    message = _words(good, stuck, chains, worst_rhat, worst_ess, needed)
    attributes: dict[str, Any] = {
        "converged": int(good),
        "message": message,
        "rhat_limit": RHAT_LIMIT,
        "ess_limit": needed,
        "worst_rhat": worst_rhat if chains > 1 else float("nan"),
        "worst_ess": worst_ess if np.isfinite(worst_ess) else float("nan"),
    }
    return xr.Dataset(found, attrs=attributes)


def _stat(function: Any, draws: xr.DataArray, judged: xr.DataArray, **options: Any) -> xr.DataArray:
    """A diagnostic of the quantities that move; NaN elsewhere."""
    if draws.sizes["draw"] < 4:
        return xr.full_like(judged, np.nan, dtype=np.float64)
    # A constant column makes ArviZ warn; it is replaced by something that moves and masked afterwards.
    ramp = xr.DataArray(np.arange(draws.sizes["draw"], dtype=np.float64), dims="draw")
    safe = draws.astype(np.float64).where(judged, ramp)
    return xr.DataArray(function(safe.transpose("chain", "draw", ...), **options)).where(judged)


def _words(good: bool, stuck: list[str], chains: int, rhat: float, ess: float, needed: int) -> str:
    if not np.isfinite(ess) and not stuck:
        return "Nothing can move: the exact answers determine every count."
    told = []
    if stuck:
        told.append(f"{', '.join(stuck)}: a quantity that could move never did")
    if chains > 1:
        verb = "at most" if rhat <= RHAT_LIMIT else "up to"
        told.append(f"R-hat {verb} {rhat:.3f} (limit {RHAT_LIMIT})")
    else:
        told.append("R-hat needs two chains or more: run several to judge convergence")
    if np.isfinite(ess):
        told.append(f"smallest effective sample size {ess:.0f} (limit {needed})")
    verdict = "Converged by the usual limits" if good else "NOT converged, as far as can be told"
    return f"{verdict}: {'; '.join(told)}."
