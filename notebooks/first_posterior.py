"""The simulation of tutorial 1: how often intervals hold the truth that ignore noise, ignore exact margins, or use both."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

import bayesdp as bdp
from bayesdp.fibers import Chain, Fiber, NoiseTerm, Target

__all__ = ["QUICK", "bars", "coverage", "versions"]

QUICK = bool(os.environ.get("BAYESDP_QUICK"))
"""Whether the same cells are to run with smaller numbers, as in continuous integration."""

SHAPE, RATE, SIGMA = 2.0, 0.1, 3.0
WAYS = ("noise ignored", "margins ignored", "ours")


def coverage(release: bdp.Release, seed: int, *, replicates: int, draws: int) -> pd.DataFrame:
    """Coverage and mean width of 95% intervals of counts and of rates, three ways, over tables drawn from the prior."""
    frame, rng = release.frame, np.random.default_rng(seed)
    margins = [part.query for part in release.exact]
    hits: dict[tuple[str, str], list[float]] = {(how, what): [] for how in WAYS for what in ("count", "rate")}
    widths: dict[tuple[str, str], list[float]] = {key: [] for key in hits}
    for _ in range(replicates):
        true_rate = rng.gamma(SHAPE, 1 / RATE, frame.shape)
        true_count = rng.poisson(true_rate)
        values = true_count + bdp.noise.DiscreteGaussian(SIGMA).draw(rng, frame.shape)
        parts = [bdp.Exact(query, query.apply(true_count)) for query in margins]
        # The count is taken for what was published, and the rate gets its textbook gamma posterior.
        found = {WAYS[0]: np.repeat(np.maximum(values.ravel(), 0)[None], 2, axis=0)}
        rates = {WAYS[0]: stats.gamma.ppf([[0.025], [0.975]], SHAPE + found[WAYS[0]][0], scale=1 / (1 + RATE))}
        for how, known in ((WAYS[1], []), (WAYS[2], parts)):
            sample = _counts(frame, values, known, draws, rng)
            found[how] = _interval(sample)
            rates[how] = _interval(rng.gamma(SHAPE + sample, 1 / (1 + RATE)))
        for how in found:
            for what, (a, b), true in (("count", found[how], true_count), ("rate", rates[how], true_rate)):
                hits[how, what].append(float(np.mean((a <= true.ravel()) & (true.ravel() <= b))))
                widths[how, what].append(float(np.mean(b - a)))
    return pd.DataFrame(
        {
            "coverage": {key: np.mean(v) for key, v in hits.items()},
            "standard error": {key: np.std(v, ddof=1) / np.sqrt(len(v)) for key, v in hits.items()},
            "mean width": {key: np.mean(v) for key, v in widths.items()},
        }
    ).round(3)


def _counts(frame: Any, values: Any, parts: Sequence[Any], draws: int, rng: np.random.Generator) -> npt.NDArray[Any]:
    """Draws of the counts given noisy values and exact parts, prior NegativeBinomial (gamma-mixed Poisson)."""
    cells = frame.size
    noisy = values.astype(float).ravel()
    term = NoiseTerm(bdp.Identity(frame), noisy, "gaussian", np.array(SIGMA), np.ones(cells, dtype=bool))
    target = Target(Fiber.of(parts, frame), (term,), "negbin")
    chain = Chain(target, rng)
    chain.set_prior(np.full(cells, -np.log1p(RATE)), np.full(cells, SHAPE))
    chain.load(target.fiber.find_point(values).ravel())
    chain.sweep(2000)
    out = np.empty((draws, cells), dtype=np.int64)
    for i in range(draws):
        chain.sweep(4 * cells)
        out[i] = chain.counts
    return out


def _interval(sample: npt.NDArray[Any]) -> Any:
    return np.quantile(sample, [0.025, 0.975], axis=0, method="inverted_cdf")


def bars(table: pd.DataFrame) -> None:
    """Draw what `coverage` has found."""
    _, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained", sharey=True)
    for ax, what in zip(axes, ("count", "rate"), strict=True):
        part = table.xs(what, level=1)
        ax.barh(part.index, part["coverage"], xerr=2 * part["standard error"], color=["#E6A98A", "#F2D28C", "#8CB8D9"])
        ax.axvline(0.95, color="black", lw=1, ls="--")
        ax.set(xlim=(0, 1.02), xlabel=f"coverage of 95% intervals of a {what}")
        for y, width in enumerate(part["mean width"]):
            ax.text(0.02, y + 0.25, f"mean width {width:.1f}", va="center")
    plt.show()


def versions() -> str:
    """Versions of what the numbers depend on."""
    return ", ".join(f"{name} {version(name)}" for name in ("bayesdp", "pymc", "arviz", "numpy", "numba"))
