"""Rank plots of the quantities that mixed worst, with a band that chains which disagree leave.

How far the ranks of chains that agree stray from uniform: a simultaneous band, exact for independent draws.

The distribution function of one chain's ranks among the draws of all chains is compared with the diagonal. If `chains`
chains of `n` independent draws each have one law, the number of a chain's draws among the `k` smallest of all is
hypergeometric, with variance ``n (k / N) (1 - k / N) (1 - 1 / chains) N / (N - 1)`` for ``N = chains n``. A band for independent
uniform numbers is wider by ``sqrt(chains / (chains - 1))``, which for two chains is a factor of 1.41 in width.

The band is ``limit`` standard deviations wide at each point of a grid, and the probability that a chain leaves it anywhere
is found by following the hypergeometric counts from draw to draw (a Markov chain), not by simulation.
"""

from __future__ import annotations

import textwrap
from functools import lru_cache
from importlib import import_module

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from bayesdp._arrays import Floats, Mask
from bayesdp._chains import ess_bulk
from bayesdp._validate import positive_integer
from bayesdp.plots.style import COLOURS, cell_labels, panels, percent, plain, style, together
from bayesdp.posterior import Posterior, PosteriorModel

POINTS = 99
"""Points of the grid between 0 and 1 at which chains are compared with the band."""
_MOST = 400
"""The limit for more draws than this is that for so many: it has settled by then, on a grid of 99 points."""
_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


def leaving_probability(n: int, chains: int, width: float) -> float:
    """Probability that the ranks of one chain, of two or more with `n` independent draws each, leave a band anywhere on the grid.

    `width` is half the width of the band, in standard deviations.

    Examples
    --------
    Two draws a chain: the counts stray by one at most, which is less than two standard deviations.

    >>> leaving_probability(2, 2, 2.0)
    0.0
    """
    total = n * chains
    taken = np.arange(total + 1)
    spread = np.sqrt(n * (taken / total) * (1 - taken / total) * (1 - 1 / chains) * total / (total - 1))
    compared = np.zeros(total + 1, dtype=bool)
    compared[np.unique(np.rint(np.arange(1, POINTS + 1) / (POINTS + 1) * total).astype(np.int64))] = True
    compared[[0, total]] = False
    counts = np.arange(n + 1)
    inside = np.zeros(n + 1)
    inside[0] = 1.0
    for k in range(total):
        mine = (n - counts) / (total - k)  # probability that the next smallest draw is of this chain
        moved = inside * (1.0 - mine)
        moved[1:] += inside[:-1] * mine[:-1]
        inside = np.maximum(moved, 0.0)
        if compared[k + 1]:
            # The tolerance keeps counts on the very edge inside, whatever the rounding.
            inside[np.abs(counts - (k + 1) / chains) > width * spread[k + 1] + 1e-9] = 0.0
    return float(max(0.0, 1.0 - inside.sum()))


@lru_cache(maxsize=64)
def limit(n: int, chains: int, level: float) -> float:
    """Half the width of the band in standard deviations: any of the chains leaves it with probability `level` at most."""
    # Two chains leave their bands together, as one's ranks are what the other's are not; the level of more chains is divided by their
    # number (Bonferroni).
    shared = level if chains == 2 else level / chains
    size = max(min(n, _MOST), 2)
    low, high = 0.0, 12.0
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (low, middle) if leaving_probability(size, chains, middle) <= shared else (middle, high)
    return high


def half_width(n: float, chains: int, level: float, z: Floats) -> Floats:
    """Half the width of the band of the distribution function less the diagonal, at each `z` between 0 and 1."""
    # `n`: effective draws of each chain. `chains`, `level`: as for `limit`.
    count = max(n, 2.0)
    scale = np.sqrt(z * (1 - z) * (1 - 1 / chains) / count * (count * chains) / (count * chains - 1))
    return np.asarray(limit(int(count), chains, level) * scale)


def effective_draws(ranks: Floats) -> float:
    """How many independent draws a chain's ranks are worth, as far as shares of draws below a rank go."""
    # `ranks`, shape (chain, draw): fractional ranks among all draws. That is the effective sample size *within* chains of the
    # indicator that a draw is below a rank: the mean over the chains, the smallest over five ranks, at most the number of draws.
    # The usual effective sample size, of all chains together, is small where chains disagree, and would widen the band just there.
    array_stats = import_module("arviz_stats.base").array_stats  # the package has no types
    chains, draws = ranks.shape
    found = float(draws)
    for z in _QUANTILES:
        below = (ranks <= z).astype(np.float64)
        sizes = np.full(chains, float(draws))
        for c in np.flatnonzero(np.ptp(below, axis=1) > 0):
            with np.errstate(all="ignore"):
                ess = float(array_stats.ess(below[c][None], chain_axis=0, draw_axis=1, method="mean"))
            sizes[c] = min(ess, draws) if np.isfinite(ess) else 1.0
        found = min(found, float(sizes.mean()))
    return found


LEVEL = 0.05
"""Chains that agree leave the band anywhere, in any quantity, in this share of posteriors at most."""
_ROUNDING = 1e-12
_TITLE_WIDTH = 30


def worst_mixed(fit: Posterior, quantities: int) -> tuple[list[tuple[str, Floats]], int]:
    """Draws of the quantities with the smallest bulk effective sample size, with labels, and the number of moving quantities."""
    # Draws have shape ``(chain, draw)``. Determined cells, and anything else that never moved but for rounding errors, are left out;
    # so are the coordinates behind a continuous relaxation, of which the table is a function.
    model = PosteriorModel(fit.tree)
    shown = {*model.others, *(table.name for table in model.tables)}
    found: list[tuple[float, str, Floats]] = []
    candidates = 0
    for name, variable in model.variables.data_vars.items():
        if variable.dtype.kind not in "iuf" or name not in shown:
            continue
        own = model.draws_of(str(name))
        draws = own.values.reshape(fit.chains, fit.draws, -1)
        flat = draws.reshape(-1, draws.shape[2])
        moves = np.flatnonzero(np.ptp(flat, axis=0) > _ROUNDING * np.abs(flat).max(axis=0))
        if not moves.size:
            continue
        candidates += moves.size
        moving = draws[..., moves].astype(np.float64)
        ess = np.nan_to_num(ess_bulk(moving), nan=0.0)
        for i in np.argsort(ess, kind="stable")[:quantities]:
            found.append((float(ess[i]), _label(fit, str(name), own, int(moves[i])), moving[..., i]))
    found.sort(key=lambda item: item[0])
    return [(label, draws) for _, label, draws in found[:quantities]], candidates


def _label(fit: Posterior, name: str, own: xr.DataArray, position: int) -> str:
    """A title as Matplotlib shall draw it."""
    if own.ndim == 2:
        return plain(name)
    if name == fit.name:
        return f"{plain(name)}: {cell_labels(fit.release.frame, [position])[0]}"
    place = np.unravel_index(position, own.shape[2:])
    labels = [
        str(own[dim].values[i]) if dim in own.coords else str(i) for dim, i in zip(own.dims[2:], place, strict=True)
    ]
    return f"{plain(name)}: {together(labels)}"


def ranks(posterior: xr.DataTree | Posterior, *, quantities: int = 4) -> Figure | None:
    """Draw rank plots of so many `quantities`, those with the smallest effective sample sizes.

    Each line is the share of one chain's draws below a rank among all draws, less that rank. Lines of chains that agree stay in
    the band; a chain whose line leaves it was somewhere else, and is drawn thick. None for a single chain, which has nothing to be
    compared with, for fewer than four draws, and where nothing moves.

    Notes
    -----
    The band is simultaneous over ranks, chains and all quantities of the posterior that move, those which are not drawn
    too: where all chains have one law, a line leaves a band in 5% of posteriors at most. It is exact for independent draws (of two
    chains; beyond, Bonferroni), and draws that depend on one another count as so many independent ones
    as their effective sample size within chains says (`bayesdp.plots.rank`). For two chains of 500 independent draws and
    one quantity, a shift by 0.3 standard deviations is seen nine times out of ten.

    Counts are integers (unless relaxed), so that draws tie; ties are broken at random (with a fixed seed), or the ranks of chains that
    agree perfectly would not be uniform.
    """
    fit = Posterior.of(posterior)
    positive_integer(quantities, "quantities")
    if fit.chains < 2 or fit.draws < 4:
        return None
    chosen, candidates = worst_mixed(fit, quantities)
    if not chosen:
        return None
    rng = np.random.default_rng(0)
    return _drawn([(label, _fractional(draws, rng)) for label, draws in chosen], LEVEL / candidates)


def _fractional(draws: Floats, rng: np.random.Generator) -> Floats:
    """Ranks of the draws among all chains as shares of their number, ties broken at random."""
    flat = draws.reshape(-1)
    order = np.lexsort((rng.random(flat.size), flat))
    ranked = np.empty(flat.size)
    ranked[order] = (np.arange(flat.size) + 1) / flat.size
    return ranked.reshape(draws.shape)


def _compared(ranked: Floats, level: float) -> tuple[Floats, Floats, Floats, Mask]:
    """Grid, line of each chain, half the width of the band, and which chains leave it."""
    z = np.arange(1, POINTS + 1) / (POINTS + 1)
    lines = np.stack([np.searchsorted(np.sort(own), z + 1e-12, side="right") / own.size - z for own in ranked])
    half = half_width(effective_draws(ranked), len(ranked), level, z)
    return z, lines, half, np.asarray((np.abs(lines) > half + 1e-9).any(axis=1))


def _drawn(chosen: list[tuple[str, Floats]], level: float) -> Figure:
    with style():
        drawn, places = panels(len(chosen), min(2, len(chosen)), 1.1, 1.9, sharex=True)
        for axes, (label, ranked) in zip(places, chosen, strict=True):
            z, lines, half, leaves = _compared(ranked, level)
            ends = np.concatenate([[0.0], z, [1.0]])
            axes.fill_between(ends, -np.pad(half, 1), np.pad(half, 1), color="#B9D3E6", linewidth=0)
            axes.axhline(0.0, color=COLOURS["determined"], linewidth=0.7)
            for c, line in enumerate(lines):
                look = {"linewidth": 2.2, "label": f"chain {c}: leaves the band"} if leaves[c] else {"linewidth": 1.0}
                axes.plot(ends, np.pad(line, 1), **look)
            # A panel has half the width: a long title takes two lines.
            title = "\n".join(textwrap.wrap(label, _TITLE_WIDTH, break_long_words=False)) or label
            axes.set_title(title + (" ✗" if leaves.any() else ""), fontsize=10)
            axes.set_xlim(0.0, 1.0)
            axes.set_xticks([0.0, 0.5, 1.0], ["0", "½", "1"])
            if leaves.any():
                axes.legend(fontsize=8)
        drawn.supxlabel(f"rank among all draws (band: simultaneous {percent(1 - LEVEL)})", fontsize=10)
        drawn.supylabel("share of draws below, less expected", fontsize=10)
    return drawn
