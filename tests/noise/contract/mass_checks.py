"""What every law promises of its mass: normalised, the same in PyMC, and that of its draws; its moments, cdf and picture."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytest

from bayesdp.distributions import distribution_of
from bayesdp.noise import NoiseLaw, parse_law
from bayesdp.noise.secure import draw_independent
from tests.comparison.chi_square import chi_square_pvalue
from tests.comparison.means import assert_moments
from tests.noise.contract.examples import SECURE_DRAWS, TABLE, Example
from tests.noise.contract.masses import AT, Mass, mass_of

DRAWS = 6000
LEVEL = 1e-6
"""False alarms of one comparison with a fixed seed. About 25 laws with three each: together below 1e-4."""

SECURE_LEVEL = 1e-8
"""The same where noise comes from the operating system's entropy and differs in each run."""


def reason(law: NoiseLaw) -> str:
    """Pattern of why something does not work: at least five words that name the law, by its name in files or by that of its class."""
    return rf"(?s)^(?=.*({re.escape(law.name)}|{type(law).__name__}))\s*(\S+\s+){{4}}\S"


def assert_reason(error: Exception, law: NoiseLaw) -> None:
    assert re.search(reason(law), str(error)), error


def check_normalised(example: Example, mass: Mass) -> None:
    """The mass sums to 1 (a density integrates to 1), unless the law says that its normaliser is not known."""
    normaliser = getattr(example.law, "log_normaliser", 0.0)
    if (normaliser(example.kept) if callable(normaliser) else normaliser) is None:
        return
    assert abs(mass.mass.sum() - 1.0) < mass.tolerance, f"{example.law}: the mass sums to {mass.mass.sum():.8f}"


def check_several_answers(example: Example, mass: Mass) -> None:
    """Independent answers have the sum of their log-masses; what is off the support has none."""
    law, values = example.law, example.values
    assert values.dtype == (np.int64 if law.integer else np.float64)
    joint = law.logp(values, example.location, example.kept)
    assert np.isfinite(joint)
    if law.independent:
        alone = [law.logp(values[i : i + 1], TABLE[i : i + 1]) for i in range(3)]
        np.testing.assert_allclose(joint, np.sum(alone), rtol=1e-12)
    for off in _off_support(example):
        assert law.logp(off, example.location, example.kept) == -np.inf


def _off_support(example: Example) -> list[Any]:
    """Tables that cannot be: a fraction, a changed sum, values beyond the ends."""
    law, found = example.law, []
    if law.integer:
        found.append(example.values + np.array([0.25, -0.25, 0.0]))
    if not law.independent:
        found.append(example.values + np.array([1, 0, 0]))
    for end, step in zip(law.limits, (-1, 1), strict=True):
        if np.isfinite(end).all():
            found.append(np.array([end + step, TABLE[1], TABLE[2]]))
    return found


def _variable(example: Example) -> Any:
    law, mu = example.law, example.location.astype(np.float64)
    kept = {} if example.kept is None else {"invariants": example.kept}
    return distribution_of(type(law)).dist(mu=mu, **law.model_parameters(), **kept)


def check_pymc_mass(example: Example, mass: Mass) -> None:
    """The PyMC distribution has the same log-mass, on the support and, where answers are independent, off it."""
    law, variable = example.law, _variable(example)
    value = variable.clone()
    evaluate = pytensor.function([value], pm.logp(variable, value).sum())
    for own in law.draw(np.random.default_rng(3), (3,), 12, example.kept, example.location):
        expected = law.logp(own, example.location, example.kept)
        np.testing.assert_allclose(evaluate(own.astype(variable.dtype)), expected, rtol=1e-9, atol=1e-9)
    for off in _off_support(example):
        if not law.keeps_invariants and np.array_equal(off, off.astype(variable.dtype)):
            assert evaluate(off.astype(variable.dtype)) == -np.inf


def check_pymc_draws(example: Example, mass: Mass) -> None:
    """Draws of the random variable are tables with a finite log-mass around the location."""
    drawn = pm.draw(_variable(example), 20, random_seed=4)
    assert drawn.shape == (20, 3)
    assert all(np.isfinite(example.law.logp(own, example.location, example.kept)) for own in drawn)
    assert len(np.unique(drawn.round(9), axis=0)) > min(5, example.outcomes**3 // 2)


def _draws(example: Example) -> np.ndarray:
    law, seed = example.law, np.random.default_rng(5)
    if law.independent:
        return law.draw(seed, (1,), DRAWS, location=np.array([AT]))
    return law.draw(seed, (3,), DRAWS, example.kept, example.location)


def check_draws(example: Example, mass: Mass) -> None:
    """Draws have the mass (chi-square), its mean and its variance; they are reproducible, and of the right type."""
    drawn = _draws(example)
    np.testing.assert_array_equal(drawn, _draws(example))
    assert drawn.dtype == (np.int64 if example.law.integer else np.float64)
    expected = mass.expected / mass.expected.sum()
    if example.outcomes == 1:
        assert np.unique(drawn).tolist() == mass.values[mass.mass > 0.5].reshape(-1).tolist()
    else:
        assert chi_square_pvalue(mass.observed(drawn), DRAWS * expected, fewest=min(8, example.outcomes)) > LEVEL
    assert_moments(drawn, *mass.moments, rate=LEVEL, what=str(example.law))


def check_secure_draws(example: Example, mass: Mass) -> None:
    """Draws by integers only have the mass of their law; a law without says so."""
    law = example.law
    if example.secure is None:
        try:
            drawn = draw_independent(law, SECURE_DRAWS, "integers")
        except TypeError as error:
            assert_reason(error, law)
            return
        values = drawn + AT
    else:
        law, drawn = example.secure()
        values = drawn if law.independent else drawn + TABLE
    assert drawn.dtype == np.int64
    compared = mass_of(Example(law, 1.5 * example.reach))
    expected = compared.expected / compared.expected.sum()
    assert chi_square_pvalue(compared.observed(values), len(values) * expected, fewest=5) > SECURE_LEVEL


def check_variance(example: Example, mass: Mass) -> None:
    """The stated variance, where there is one, is that of the mass."""
    law, (mean, spread) = example.law, mass.moments
    if law.family == "bounded":
        return  # it depends on where the confidential value is; see `check_cdf`, which fixes the whole law
    if law.family == "perturbed":  # so does this one
        if law.support == "counts":  # a mean of codes of what was held back says nothing
            np.testing.assert_allclose(law.variance((1,), location=[AT]), spread, rtol=1e-12)
            np.testing.assert_allclose(law.mean([AT]), mean, rtol=1e-12)
        return
    stated = law.variance((1,) if law.independent else (3,), example.kept)
    if stated is not None:
        # Nodes of a plane are in the middle of boxes, and tails are cut at the reach.
        np.testing.assert_allclose(stated, spread, rtol=1e-2 if law.support == "subspace" else 3e-3)


def check_cdf(example: Example, mass: Mass) -> None:
    """The stated distribution function, where there is one, is the sum of the mass."""
    law: Any = example.law
    if not hasattr(law, "cdf"):
        return
    order, ends = np.argsort(mass.values[:, 0], kind="stable"), np.unique(np.rint(mass.values[:, 0]))
    below = [mass.mass[order][mass.values[order, 0] <= end].sum() for end in ends]
    np.testing.assert_allclose(law.cdf(ends, float(AT)), below, atol=3e-5)


def check_picture(example: Example, mass: Mass) -> None:
    """The picture of one answer, where the law has a formula, is its mass or density: it has the sum and mean size of it."""
    law = example.law
    if law.family in ("bounded", "perturbed"):
        assert law.picture(np.zeros(1), 1.0) is None
        return
    mean, sd = mass.moments[0][0], float(np.sqrt(mass.moments[1][0]))
    step = 1.0 if law.integer else sd / 20.0
    at = step * np.arange(-np.ceil(12 * sd / step), np.ceil(12 * sd / step) + 1)
    shown = law.picture(at, sd)
    if shown is None:
        return
    size = mass.mass @ np.abs(mass.values[:, 0] - mean) / mass.mass.sum()
    np.testing.assert_allclose([step * shown.sum(), step * shown @ np.abs(at)], [1.0, size], rtol=2e-2)


def check_description(example: Example, mass: Mass) -> None:
    """Its description is plain data that gives the same law again; so does its text, where that has all parameters."""
    law = example.law
    told = json.loads(json.dumps(law.describe(), allow_nan=False))
    again, at = NoiseLaw.from_description(told), (example.values, example.location, example.kept)
    assert (type(again), again, hash(again)) == (type(law), law, hash(law))
    assert again.logp(*at) == law.logp(*at)
    assert str(law).startswith(law.name)
    if all(isinstance(value, float | int | str) for value in law.model_parameters().values()) and "{" not in str(law):
        try:
            read = parse_law(str(law))
        except (TypeError, ValueError) as error:
            assert_reason(error, law)
        else:
            assert read == law
    with pytest.raises(ValueError, match=reason(law)):
        NoiseLaw.from_description({**told, "no_such_parameter": 1.0})


def check_kept(example: Example, mass: Mass) -> None:
    """Noise of whole tables changes no invariant, and needs to be told which there are."""
    law = example.law
    if not law.keeps_invariants:
        return
    drawn = law.draw(6, (3,), 50, example.kept)
    np.testing.assert_allclose(drawn.sum(axis=1), 0.0, atol=1e-9)
    for call in (lambda: law.draw(6, (3,)), lambda: law.logp(TABLE, TABLE)):
        with pytest.raises(TypeError, match=reason(law)):
            call()


MASS_CHECKS = [own for name, own in list(globals().items()) if name.startswith("check_")]
"""Each takes an example and its mass."""
