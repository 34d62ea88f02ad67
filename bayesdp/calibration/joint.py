"""Joint distribution test: a step method that keeps the posterior keeps the prior, if data are released anew in between."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from scipy import stats

from bayesdp import _validate
from bayesdp.calibration.fits import SAMPLER, Build, Simulations, Update, quiet_draws
from bayesdp.calibration.quantities import Quantities, Simulate, as_draws, checked_quantities, evaluate, scalars
from bayesdp.calibration.runs import by_name, number, unit
from bayesdp.calibration.verdict import holm

type ReleaseAgain = Callable[[Mapping[str, Any], np.random.Generator], Any]
"""From a truth and a generator to a release of it."""

_SAMPLER = SAMPLER | {
    "tune": 0,  # adaptation would not keep the law
    "init": "adapt_diag",  # without jitter: the chain must start where it is
}


@dataclass(frozen=True)
class JointTest:
    """Two samples that must have one law: draws from the prior, and ends of chains that started at such draws.

    Attributes
    ----------
    pvalues, adjusted : mapping from quantity to float
        Of the two-sample Kolmogorov-Smirnov test, and adjusted for their number.
    n, rounds, steps : int
        Size of each sample; rounds of release and transitions, and transitions in each.
    false_alarm : float
        Chance that a right step method is called wrong.
    failures : mapping from number to error
    """

    pvalues: Mapping[str, float]
    adjusted: Mapping[str, float]
    n: int
    rounds: int
    steps: int
    false_alarm: float
    failures: Mapping[int, str]

    @property
    def passed(self) -> bool:
        """Whether no quantity is rejected."""
        return min(self.adjusted.values()) > self.false_alarm

    def __str__(self) -> str:
        worst = min(self.adjusted, key=lambda name: self.adjusted[name])
        what = "No sign that the steps change the law" if self.passed else "The steps CHANGE the law"
        failed = f" {len(self.failures)} chains failed." if self.failures else ""
        return (
            f"{what}: smallest adjusted p-value {self.adjusted[worst]:.3g} ({worst}), {self.n} chains of {self.rounds} rounds "
            f"with {self.steps} transitions, chance of a false alarm {self.false_alarm:g}.{failed}"
        )


@dataclass(kw_only=True)
class _Chain(Simulations):
    """A task of a number: a draw from the prior; for odd numbers then rounds of release and transitions."""

    release_again: ReleaseAgain
    rounds: int

    def __call__(self, number: int) -> dict[str, Any]:
        start, rng = self.draw(number), np.random.default_rng(self.streams(number)[1])
        values, release = dict(start.truth), start.release
        free = [rv.name for rv in self.refit.template.free_RVs]
        if number % 2:  # odd numbers are run, even ones are the sample of the prior that they are compared with
            for _ in range(self.rounds):
                release = self.release_again(values, rng)
                model = self.refit.model(release)
                starts = {name: values[name] for name in free}
                settings = _SAMPLER | self.sampler | {"initvals": starts}
                last = quiet_draws(model, settings, int(rng.integers(2**31)))[0].isel(chain=[0], draw=[-1])
                values |= {name: last[name].values[0, 0] for name in free}
        points = xr.Dataset(
            {name: as_draws(self.refit.template, name, np.asarray(values[name])[None, None]) for name in free}
        )
        found: dict[str, float] = {}
        for name, function in checked_quantities(self.quantities or free, free).items():
            array = evaluate(name, function, points, release)
            found |= {label: float(value[0, 0]) for label, value in scalars(name, array)}
        return {"number": number, "found": found, "tie": rng.random()}


def joint_distribution_test(
    simulate: Simulate,
    release: ReleaseAgain,
    build_model: Build,
    quantities: Quantities = None,
    *,
    n: int,
    seed: int,
    rounds: int = 3,
    steps: int = 5,
    client: Any = None,
    workers: int = 1,
    update: Update | None = None,
    path: str | os.PathLike[str] | None = None,
    false_alarm: float = 0.01,
    progressbar: bool = True,
    **sampler: Any,
) -> JointTest:
    """Test the step methods of a model without waiting for convergence (after Geweke, 2004).

    The marginal simulator draws from the prior. The successive-conditional one starts there as well, and then repeats: release
    the table, move by the model's step methods given that release. If these keep the posterior, the law of parameters and
    table stays that of the prior, after any number of transitions, converged or not. Chains are independent of each other
    (Gandy and Scott, 2020, "Unit testing for MCMC"), because exact answers would hold a single chain on its first fiber for ever.

    Parameters
    ----------
    release : callable
        ``release(truth, rng)`` gives a new release of a truth, a mapping by name.
    quantities : optional
        As for `sbc`, without the log-likelihood; all free variables if left out.
    n, rounds, steps : int
        Chains, and as many draws from the prior that they are compared with; rounds of release, and transitions in each.
    simulate, build_model, seed, client, workers, update, path, false_alarm, progressbar, **sampler
        As for `sbc`; ``step=...`` chooses steps. Tuning is off: it would not keep the law. ValueError if all chains failed.
    """
    count = _validate.positive_integer(n, "n")
    turns, moves = _validate.positive_integer(rounds, "rounds"), _validate.positive_integer(steps, "steps")
    settings = {"draws": moves, **sampler}
    chain = _Chain(simulate, build_model, quantities, seed, update, settings, release_again=release, rounds=turns)
    where: Any = {"path": path, "client": client, "workers": workers, "progressbar": progressbar}
    good, bad, _ = chain.run(2 * count, "chains", {"found": by_name(number), "tie": unit}, **where, what="joint")
    prior, ends = ([record for record in good if record["number"] % 2 == odd] for odd in (0, 1))
    if not prior or not ends:
        raise ValueError(f"all chains failed; the first one: {bad[0]['error']}")
    pvalues = {}
    for name in prior[0]["found"]:
        pair = [np.array([(r["found"][name], r["tie"]) for r in sample]) for sample in (prior, ends)]
        pvalues[name] = _two_sample(*pair)
    adjusted = dict(zip(pvalues, holm(list(pvalues.values())).tolist(), strict=True))
    failures = {record["number"]: record["error"] for record in bad}
    return JointTest(pvalues, adjusted, count, turns, moves, false_alarm, failures)


def _two_sample(one: np.ndarray, other: np.ndarray) -> float:
    """P-value of the Kolmogorov-Smirnov test of values (first column), ties broken by uniform numbers (second column)."""
    # With ties broken at random the test is exact for counts too.
    both = np.concatenate([one, other])
    places = np.argsort(np.lexsort((both[:, 1], both[:, 0])))
    return float(stats.ks_2samp(places[: len(one)], places[len(one) :], method="auto").pvalue)
