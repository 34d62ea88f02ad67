"""What every law promises where it is used: files, compositions, pictures, tests, the posterior kernel, the posterior."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import bayesdp as bdp
from bayesdp.inference import FiberGibbs
from bayesdp.noise import NoiseLaw, UnknownPerturbation
from bayesdp.privacy import Guarantee, PairLoss, StatisticGuarantee
from bayesdp.privacy.words import Neighbours
from tests.comparison.enumeration import Floats, box
from tests.comparison.variation import assert_close_in_variation
from tests.fibers.harness import log_noise, log_prior
from tests.inference.oracle import assert_posterior, posterior_of, sample
from tests.noise.contract.examples import LINE, Example
from tests.noise.perturbed.records import log_marginal

RATE = np.array([1.0, 2.0, 3.0])
TABLES = np.array([own for own in box(7, 3).tolist() if min(own) >= 0 and sum(own) == 7])
"""All 36 tables of the fiber."""

DIFFERENCES = np.array([[1, -1, 0], [2, -1, -1], [-3, 1, 2]])
"""They change no sum."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """A release of three cells with an exact sum, its model, and what the step method made of it."""

    release: bdp.Release
    model: pm.Model
    step: Any
    log_posterior: Floats
    """Of the model, for each of `TABLES`, other variables as they start."""
    others: list[str]


def released(law: NoiseLaw, values: Any, *, total: int = 7, stated: bool = False) -> bdp.Release:
    """Noisy counts of three cells with their exact sum, or their noisy shares."""
    measured = bdp.Measured(bdp.Identity(LINE), values, law)
    if law.support == "simplex":
        row = PairLoss(Neighbours("substitution", "data"), 1.0, "l1", {"epsilon": 10.0})
        known = StatisticGuarantee("pure", {"epsilon": 10.0}, "l1", (row,)) if stated else None
        return bdp.Release.from_published(LINE, [measured], guarantee=known, about="statistics")
    known = Guarantee("pure", {"epsilon": 1.0}, "l1") if stated else None
    return bdp.Release.from_published(LINE, [measured], [bdp.Exact(bdp.Totals(LINE), total)], guarantee=known)


def model_of(release: bdp.Release) -> pm.Model:
    """Poisson counts."""
    with pm.Model(coords=release.coords) as model:
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(RATE), dims=release.dims)
        if release.about == "statistics":
            bdp.observe(bdp.Release.from_published(LINE, [], [bdp.Exact(bdp.Totals(LINE), 7)]), x)
            bdp.observe(release, x / 7.0 if release.measurements[0].law.support == "simplex" else 1.0 * x)
        else:
            bdp.observe(release, x)
    return model


def fitted(example: Example) -> Fitted:
    """Build the model and the step method once for all checks of one law."""
    release = released(example.law, example.values)
    model = model_of(release)
    with model:
        step = FiberGibbs()
    point, evaluate = model.initial_point(), model.compile_logp()
    logs = np.array([float(evaluate({**point, "x": table})) for table in TABLES])
    # Off the reach of bounded noise the density is a large negative number while counts are free, as off the fiber.
    logs = np.where(logs < -1e5, -np.inf, logs)
    return Fitted(release, model, step, logs, [name for name in point if name != "x"])


def log_law(example: Example) -> Floats:
    """Log of prior times law for each of `TABLES`, by SciPy and by `NoiseLaw.logp`."""
    values, law = example.values, example.law
    if isinstance(law, UnknownPerturbation):  # several numbers tell of one table
        laws = [log_marginal(law, values, table) for table in TABLES]
    else:
        laws = [law.logp(values, example.around(table), example.kept) for table in TABLES]
    return np.asarray(stats.poisson.logpmf(TABLES, RATE).sum(axis=1) + laws)


def assert_same_up_to_a_constant(found: Floats, exact: Floats, what: str) -> None:
    """Both -inf at the same places, and elsewhere a constant apart."""
    finite = np.isfinite(exact)
    np.testing.assert_array_equal(np.isfinite(found), finite, err_msg=what)
    assert np.count_nonzero(finite) > 2
    apart = found[finite] - exact[finite]
    np.testing.assert_allclose(apart, apart[0], rtol=0.0, atol=1e-8, err_msg=what)


def check_posterior(example: Example, own: Fitted) -> None:
    """The log-posterior of the model is prior times law along the fiber; laws with a latent part are sampled instead."""
    if own.others:
        assert example.sampled, f"{example.law.name} has latent variables {own.others}: its posterior has to be sampled"
        return
    assert_same_up_to_a_constant(own.log_posterior, log_law(example), str(example.law))


def check_kernel(example: Example, own: Fitted) -> None:
    """The terms that the kernel took over, with what it leaves to acceptance, are the posterior of the model."""
    [table] = own.step.tables
    target, point = table.target, own.model.initial_point()
    theta, shape, *others = table._parameters(*[point[name] for name in table._inputs])
    terms = [
        replace(term, windows=replace(term.windows, log_mass=scale)) if term.changing else replace(term, scale=scale)
        for term, scale in zip(target.terms, others, strict=False)
    ]
    for i, answers in zip(table._moving, others[len(terms) :], strict=True):
        terms[i] = replace(terms[i], values=answers)
    found = log_prior(target.family, theta, shape, TABLES) + log_noise(SimpleNamespace(terms=terms), TABLES)
    if table._rest is not None:
        found = found + [table._rest(point, one) for one in TABLES]
    found = np.where([target.fiber.contains(one) for one in TABLES], found, -np.inf)
    assert_same_up_to_a_constant(found, own.log_posterior, f"{example.law} in the kernel")
    if example.law.kernel_of(example.kept) is not None:
        assert terms, f"{example.law.name} states a kernel form, but the kernel did not take it"


def check_starts(example: Example, own: Fitted) -> None:
    """Chains begin at tables that the law itself gives a positive probability, and record no other."""
    possible = {tuple(table) for table in TABLES[np.isfinite(log_law(example))]}
    for seed, start in enumerate(([0, 0, 0], [0, 0, 7], [7, 0, 0], [2, 3, 2])):
        own.step.setup_chain(np.random.default_rng(seed), 5, 5)
        point = {**own.model.initial_point(), "x": np.array(start)}
        own.step.tables[0].begin(point, own.step.rng)
        seen = [own.step.tables[0].value]
        for _ in range(5):
            point, _ = own.step.step(point)
            seen.append(point["x"])
        assert {tuple(table) for table in seen} <= possible, f"{example.law} from {start}"


def check_short_run(example: Example, own: Fitted) -> None:
    """The step method draws from the enumerated posterior; see tests/inference/oracle.py for false alarms."""
    if not example.sampled:
        return
    tree, probability = sample(own.model, draws=2000, tune=100, seed=7, step=own.step), posterior_of(log_law(example))
    assert_posterior(tree, TABLES, probability)
    first, drawn = np.bincount(TABLES[:, 0], probability, minlength=8), tree.posterior["x"].values[..., 0]
    assert_close_in_variation(drawn, first, rate=1e-7, largest=0.3, what=str(example.law))


def check_file(example: Example, own: Fitted) -> None:
    """A release with the law is the same after writing and reading; other parameters of a law make no other file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "release"
        own.release.to_netcdf(path.with_suffix(".nc"))
        own.release.to_csv(path.with_suffix(".csv"))
        again, beside = bdp.Release.from_netcdf(path.with_suffix(".nc")), bdp.Release.from_csv(path.with_suffix(".csv"))
    assert again == beside == own.release
    assert again.measurements[0].law == example.law
    np.testing.assert_array_equal(again.measurements[0].values, example.values)


def check_composition(example: Example, own: Fitted) -> None:
    """Two releases are composed with a total loss, or it says why there is none."""
    if example.outcomes == 1:
        return  # nothing is random: another release is the same one
    other = example.law.draw(9, (3,), invariants=example.kept, location=example.location)
    for stated in (True, False):
        two = [released(example.law, values, stated=stated) for values in (example.values, other)]
        if example.law.same_cell_same_value:  # two values of one cell are an error
            with pytest.raises(ValueError, match="published with two values"):
                bdp.compose(*two)
            continue
        both = bdp.compose(*two)
        assert len(both.release.measurements) == 2
        assert (both.guarantee is not None, both.loss_unknown is None) == (stated, stated)
        assert "epsilon" in str(both.guarantee) if stated else len(both.loss_unknown.split()) >= 5


def check_pair_loss(example: Example, own: Fitted) -> None:
    """The loss at a length is the largest log-ratio of the law, where it says so; of normal noise twice that at the centre."""
    law, kept = example.law, example.kept
    known = law.pair_loss(bdp.Identity(LINE), bdp.Invariants(bdp.Totals(LINE)))
    if known is None:
        return
    for change in DIFFERENCES:
        zero, image = np.zeros_like(change), change[None].astype(float)
        image = image if known.coordinates is None else known.coordinates(image)
        length = float(np.linalg.norm(image.reshape(-1), ord=1 if known.norm == "l1" else 2))
        if known.kinds == ("pure",):
            loss = dict(known.loss(length, None))["epsilon"]
            places = [np.clip(k * one, *law.limits) for one in DIFFERENCES for k in (-40, -3, -1, 0, 1, 2, 40)]
            ratios = [law.logp(at, change, kept) - law.logp(at, zero, kept) for at in places]
            assert max(ratios) <= loss + 1e-9
            assert not known.tight or max(ratios) > 0.999 * loss
        else:
            # Of normal noise the log-ratio at the centre is mu**2 / 2 = rho.
            centre = law.logp(zero, zero, kept) - law.logp(zero, change, kept)
            for unit, found in dict(known.loss(length, None)).items():
                stated = {"rho": found, "mu": 0.5 * found**2}[unit]
                assert centre * (1.0 - 1e-9) <= stated <= centre * (1.0 + (1e-9 if known.tight else 0.03))


USE_CHECKS = [own for name, own in list(globals().items()) if name.startswith("check_")]
"""Each takes an example and its model."""
