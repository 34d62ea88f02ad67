"""The cases of the calibration matrix: every mechanism of the library, two priors, two sets of invariants.

Each is a model of a 2 x 3 table with few counts, whose fiber has corners that samplers get wrong.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from bayesdp import mechanisms, noise
from bayesdp.calibration.study import sbc, verdict_of
from bayesdp.calibration.verdict import Verdict
from bayesdp.inference import ConfidentialCounts, observe
from bayesdp.measurements import Exact
from bayesdp.queries import Margins, Query, Totals
from bayesdp.release import Release
from benchmarks.calibration.perturbed import Perturbation

__all__ = [
    "CASES", "INDEPENDENT", "INVARIANTS", "KEEPING", "PERTURBED", "PRIORS", "STATISTICS", "Case",
]  # fmt: skip

TABLE = {"row": ["a", "b"], "column": ["u", "v", "w"]}
SHAPE = (2, 3)

INVARIANTS: dict[str, Query] = {"total": Totals(TABLE), "both margins": Margins(TABLE, ["row"], ["column"])}

PRIORS: dict[str, str] = {
    "Poisson, gamma rate": "one rate ~ Gamma(4, 1/2), cells ~ Poisson(rate); NUTS draws the rate",
    "negative binomial": "cells ~ NegativeBinomial(mean 8, shape 3): gamma rates of the cells, integrated out",
}

type Make = Callable[[Query], Any]
"""From invariants to a mechanism of the table that keeps them."""

KEEPING: dict[str, Make] = {
    "lattice Laplace, l1": lambda a: mechanisms.LatticeLaplace(a, epsilon=0.4, norm="l1"),
    "lattice Laplace, l2": lambda a: mechanisms.LatticeLaplace(a, epsilon=0.6, norm="l2"),
    "lattice Gaussian": lambda a: mechanisms.LatticeGaussian(a, rho=0.1),
    "projected Gaussian": lambda a: mechanisms.ProjectedGaussian(a, mu=0.5),
    "projected Laplace": lambda a: mechanisms.ProjectedLaplace(a, epsilon=0.8),
    "extended Gaussian": lambda a: mechanisms.ExtendedGaussian(a, mu=0.5),
    "extended Laplace": lambda a: mechanisms.ExtendedLaplace(a, epsilon=0.8),
    "correlated Gaussian": lambda a: mechanisms.CorrelatedGaussian(a, mu=0.5),
    "K-norm": lambda a: mechanisms.KNorm(a, epsilon=0.8),
    "Semi-DP Gaussian": lambda a: mechanisms.SemiGaussian(a, mu=0.7),
    "Semi-DP K-norm": lambda a: mechanisms.SemiKNorm(a, epsilon=1.0),
    "Semi-DP lattice Laplace": lambda a: mechanisms.SemiLatticeLaplace(a, epsilon=1.2),
    "Semi-DP l1 norm": lambda a: mechanisms.SemiNorm(a, epsilon=1.0),
    "Semi-DP projected Laplace": lambda a: mechanisms.SemiProjectedLaplace(a, epsilon=1.0),
}
"""Mechanisms whose noise changes no invariant."""

INDEPENDENT: dict[str, Make] = {
    "discrete Laplace": lambda a: mechanisms.DiscreteLaplace(TABLE, epsilon=0.6),
    "discrete Gaussian": lambda a: mechanisms.DiscreteGaussian(TABLE, rho=0.08),
    "canonical noise": lambda a: mechanisms.CanonicalNoise(TABLE, epsilon=0.6, delta=1e-3),
}
"""Mechanisms with independent noise; the exact answers are published beside it, as agencies do."""

PERTURBED: dict[str, noise.NoiseLaw] = {
    "random rounding, base 3": noise.RandomRounding(3),
    "random rounding, base 5": noise.RandomRounding(5),
    "cell key": noise.CellKey(max_deviation=3, variance=1.5, not_smaller_than=2),
    "censored discrete Gaussian": noise.Censored(noise.DiscreteGaussian(2.0), below=6),
    "rounded Laplace, base 1": noise.Rounded(noise.Laplace(1.5), 1),
    "unknown perturbation, Dirichlet rows": noise.UnknownPerturbation(2, concentration=1.0),
    "unknown perturbation, maximum entropy": noise.UnknownPerturbation(3, not_smaller_than=2, prior="max-entropy"),
}
"""Laws of published counts that are no mechanisms here; cells and both margins are perturbed, the exact answers published beside.

Of a law that is not known, the rows of its table are drawn from their prior for each simulation, and ranked like the cells.
"""

SCORES = np.array([0.0, 1.0, 2.0])
"""Of the columns: what means, variances and medians are about."""


def _share(x: Any) -> Any:
    """Of the first cell; like the other statistics, with one public record beside those of the table, so that there is one."""
    return x[0, 0] / (1.0 + x.sum())


def _shares(x: Any) -> Any:
    return x.sum(axis=0) / (1.0 + x.sum())


def _mean(x: Any) -> Any:
    return (x * SCORES).sum() / (1.0 + x.sum())


def _variance(x: Any) -> Any:
    return (x * SCORES**2).sum() / (1.0 + x.sum()) - _mean(x) ** 2


def _median(x: Any) -> Any:
    """The smallest score that at least half of the records do not exceed."""
    half = (1.0 + x.sum()) / 2.0
    return 1.0 * (1.0 + x[:, 0].sum() < half) + 1.0 * (1.0 + x[:, :2].sum() < half)


_UNIT, _RANGE = (0.0, 1.0), (0.0, 2.0)

STATISTICS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "truncated Laplace": (_share, mechanisms.TruncatedLaplace(1.0, 0.04, _UNIT)),
    "boundary-inflated Laplace": (_share, mechanisms.BoundaryInflatedLaplace(1.0, 0.04, _UNIT)),
    "truncated Laplace, mean": (_mean, mechanisms.TruncatedLaplace(1.0, 0.1, _RANGE)),
    "boundary-inflated Laplace, variance": (_variance, mechanisms.BoundaryInflatedLaplace(1.0, 0.08, _UNIT)),
    "truncated Laplace, median": (_median, mechanisms.TruncatedLaplace(1.0, 0.5, _RANGE)),
    "boundary-inflated Laplace, shares": (
        _shares,
        mechanisms.BoundaryInflatedLaplace(1.0, 0.05, _UNIT, names=TABLE["column"]),
    ),
    "truncated Gaussian": (_share, mechanisms.TruncatedGaussian(0.04, _UNIT, rho=0.08)),
    "boundary-inflated Gaussian, variance": (_variance, mechanisms.BoundaryInflatedGaussian(0.08, _UNIT, rho=0.08)),
}
"""Statistics of the table within public bounds, each with a mechanism that publishes it; the invariants are published beside it."""


@dataclass(frozen=True)
class Case:
    """A mechanism, a prior and invariants, as simulator and model.

    Attributes
    ----------
    mechanism : str
        Of `KEEPING`, `INDEPENDENT`, `PERTURBED` or `STATISTICS`.
    prior : str
        Of `PRIORS`.
    invariants : str
        Of `INVARIANTS`.
    """

    mechanism: str
    prior: str
    invariants: str

    @property
    def name(self) -> str:
        """The three in one line."""
        return f"{self.mechanism} | {self.prior} | {self.invariants}"

    @cached_property
    def _made(self) -> Any:
        query = INVARIANTS[self.invariants]
        if self.mechanism in STATISTICS:
            return STATISTICS[self.mechanism][1]
        if self.mechanism in PERTURBED:
            return Perturbation(PERTURBED[self.mechanism], TABLE)
        return (KEEPING | INDEPENDENT)[self.mechanism](query)

    def simulate(self, rng: np.random.Generator) -> tuple[dict[str, Any], Any]:
        """A truth from the prior, and its release."""
        if self.prior == "negative binomial":
            x = rng.negative_binomial(3.0, 3.0 / 11.0, size=SHAPE)
            truth: dict[str, Any] = {"x": x}
        else:
            rate = rng.gamma(4.0, 2.0)
            x = rng.poisson(rate, size=SHAPE)
            truth = {"rate": rate, "x": x}
        query = INVARIANTS[self.invariants]
        exact = Exact(query, query.apply(x))
        if self.mechanism in STATISTICS:
            noisy = self._made.release(STATISTICS[self.mechanism][0](x), rng=rng)
            return truth, (Release.from_published(TABLE, exact=[exact]), noisy)
        if self.mechanism in PERTURBED:
            law, rows = PERTURBED[self.mechanism], None
            if isinstance(law, noise.UnknownPerturbation):
                rows = truth["cells_law"] = law.drawn_rows(rng)
            return truth, self._made.release(x, rng=rng, exact=(exact,), rows=rows)
        release = self._made.release(x, rng=rng)
        if self.mechanism in INDEPENDENT:
            release = Release(release.frame, release.measurements, (exact,))
        return truth, release

    def build_model(self, given: Any) -> pm.Model:
        """The model of a release."""
        release, *noisy = given if isinstance(given, tuple) else (given,)
        with pm.Model(coords=release.coords) as model:
            if self.prior == "negative binomial":
                base = pm.NegativeBinomial.dist(mu=8.0, alpha=3.0)
            else:
                base = pm.Poisson.dist(pm.Gamma("rate", 4.0, 0.5))
            x = ConfidentialCounts("x", base, dims=release.dims)
            observe(release, x)
            for statistics in noisy:
                observe(statistics, STATISTICS[self.mechanism][0](x))
        return model

    def run(self, n: int, seed: int, path: Path | None = None) -> tuple[Verdict, float, int, dict[str, float]]:
        """Calibrate it; the verdict, the median of the seconds a simulation took, how many failed, and coverage by name of column."""
        sampler: dict[str, Any] = {"draws": 200, "tune": 30 if self.prior == "negative binomial" else 200}
        if isinstance(PERTURBED.get(self.mechanism), noise.UnknownPerturbation):
            sampler["compile_kwargs"] = {"mode": "NUMBA"}  # its step is compiled once for all simulations
        own = int(np.random.SeedSequence([seed, zlib.crc32(self.name.encode())]).generate_state(1)[0])
        also = None if self.prior == "negative binomial" else {"rate and table": _rate_and_table}
        tree = sbc(
            self.simulate,
            self.build_model,
            n=n,
            seed=own,
            also=also,
            path=path,
            progressbar=False,
            identity=self.name,
            **sampler,
        )
        seconds = float(tree["fits"].to_dataset()["seconds"].median())
        return verdict_of(tree), seconds, int(tree["verdict"].attrs["failed"]), _held(tree["prior_sbc"].to_dataset())


def _held(ranks: xr.Dataset) -> dict[str, float]:
    """The share of cells, over all simulations, whose rank among the draws is within the middle 50 or 95 %."""
    # Ranks are in 0 to 1, with ties broken at random, so that under right posteriors it is 50 and 95 % for whole numbers, too.
    cells = [ranks[name].values for name in ranks if str(name).startswith("x[")]
    return {f"held_{p}": float(np.mean(np.abs(np.stack(cells) - 0.5) <= p / 200.0)) for p in (50, 95)}


def _rate_and_table(values: xr.Dataset, release: Any) -> xr.DataArray:
    """How far the table's sum is from what the rate lets expect.

    The one quantity that notices a prior of the table that was divided by its sum over the fiber.
    """
    return abs(values["x"].sum(TABLE.keys()) - 6.0 * values["rate"])


def _cases(mechanisms: Iterable[str]) -> tuple[Case, ...]:
    return tuple(
        Case(mechanism, prior, invariants) for mechanism in mechanisms for prior in PRIORS for invariants in INVARIANTS
    )


LEARNT = ("unknown perturbation, Dirichlet rows", "unknown perturbation, maximum entropy")
"""Laws that are not known, of `PERTURBED`: one case of each, with more quantities than the others."""

CASES: tuple[Case, ...] = (
    *_cases(
        own
        for own in (*KEEPING, *INDEPENDENT, *PERTURBED, *STATISTICS)
        if not isinstance(PERTURBED.get(own), noise.UnknownPerturbation)
    ),
    *(Case(name, "negative binomial", "total") for name in LEARNT),
)
"""All cases of the stored matrix."""
