"""Arguments of runs that stream: the numbers, the prior and the seed, checked."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from bayesdp._validate import generator_of, positive_integer, probability
from bayesdp.hierarchies.modes import several_modes
from bayesdp.hierarchies.priors import CellPrior
from bayesdp.streaming.budget import Plan
from bayesdp.streaming.running import FEWEST

_TUNE = 200
"""Fewest sweeps of the tuning by default.

From starts near the linear estimate, at the ends of their groups, the table needs about 10 (20 tracts of 252 cells with the
published variances: after 8 sweeps the means over ten chains of its residuals, its prior, its zeros and its squares are within half
a standard deviation of what they are later on). Large trees and hyperparameters take longer.
"""


def planned(
    draws: int, tune: int | None, chains: int, cores: int | None, thin: int, counts: int, bins: int, batches: int,
    quantiles: Iterable[float],
) -> Plan:  # fmt: skip
    """The numbers of a run, checked."""
    if positive_integer(draws, "draws") < FEWEST:
        raise ValueError(f"draws must be at least {FEWEST}, below which nothing can be diagnosed, got {draws}")
    for value, name, least in ((bins, "bins", 8), (batches, "batches", 8)):
        if positive_integer(value, name) < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")
    shares: Any = quantiles
    if isinstance(shares, str) or not isinstance(shares, Iterable):
        raise TypeError(f"quantiles must be probabilities, got {shares!r}")
    processors = os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count()
    return Plan(
        draws=draws,
        tune=max(draws // 5, _TUNE) if tune is None else positive_integer(tune, "tune"),
        chains=positive_integer(chains, "chains"),
        cores=min(chains, processors or 1) if cores is None else positive_integer(cores, "cores"),
        thin=positive_integer(thin, "thin"),
        counts=positive_integer(counts, "counts"),
        bins=bins,
        batches=batches,
        quantiles=tuple(probability(own, "quantiles") for own in shares),
    )


def chains_of(chains: int | None, priors: Iterable[CellPrior]) -> int:
    """How many chains: by default four where several modes are possible, of which two chains may find the same one, and else two."""
    if chains is not None:
        return chains
    return 4 if any(map(several_modes, priors)) else 2


def check_prior(prior: Any) -> None:
    """Refuse what is no prior of the cells of a hierarchy."""
    lacking = [
        name for name in ("family", "names", "start", "update", "weights", "formula") if not hasattr(prior, name)
    ]
    if lacking:
        raise TypeError(
            "prior must be a prior of the cells of a hierarchy, such as bdp.hierarchies.priors.FixedNegativeBinomial(mean, shape), "
            f"got {prior!r}"
        )


def generator_from(seed: Any) -> np.random.Generator:
    """A generator from a seed, a sequence of seeds or a generator."""
    if isinstance(seed, (list, tuple, np.ndarray)):
        return np.random.default_rng(seed)
    return generator_of(seed)
