"""Every field that a release of statistics states, changed one at a time: refused, but for words."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import h5py
import numpy as np
import pytest

from bayesdp import mechanisms as m
from bayesdp import noise, privacy
from bayesdp.mechanisms.bounded.statistic_release import StatisticGuarantee, StatisticRelease
from bayesdp.papers import bounded_statistics, covariance_cone
from bayesdp.privacy import PairLoss
from bayesdp.release import Release
from tests.storage.changed_fields import at, mutants

pytestmark = pytest.mark.system

NAMES = ["a", "b", "c", "d"]
COUNTS = [5, 10, 15, 20]
UNIT = (0.0, 1.0)
MEAN = privacy.mean_sensitivity(50, (0.0, 10.0))
SIGNED = [[1.0, 0.5], [0.5, 2.0]]
STATISTICS: dict[str, Any] = {
    "a mean": lambda: m.TruncatedLaplace(1.0, privacy.mean_sensitivity(50, UNIT), UNIT).release(0.3, rng=1),
    "three means": lambda: m.TruncatedLaplace(1.0, [MEAN] * 3, (0.0, 10.0), names=NAMES[:3]).release([1, 5, 9], rng=1),
    "one side": lambda: m.BoundaryInflatedLaplace(1.0, 0.1, (0.0, None)).release(2.0, rng=1),
    "own bounds": lambda: m.BoundaryInflatedLaplace(0.7, [0.1, 0.2], (0.0, [1.0, 2.0])).release([0.5, 0.5], rng=1),
    "median": lambda: m.TruncatedLaplace(
        2.0, 1.0, UNIT, convention="paper"
    ).release(0.5, rng=1),
    "variance": lambda: m.TruncatedLaplace(
        1.0, (own := privacy.variance_sensitivity(50, UNIT)), own.bounds, convention="paper"
    ).release(0.2, rng=1),
    "shares, add-remove": lambda: m.TruncatedLaplace(
        1.0, privacy.proportion_sensitivity(50, 4, "add-remove"), UNIT, names=NAMES
    ).release([0.1, 0.2, 0.3, 0.4], rng=1),
    "paper, clipped": lambda: m.BoundaryInflatedLaplace(
        1.0, privacy.proportion_sensitivity(50, 4), UNIT, names=NAMES, convention="paper"
    ).release([0.1, 0.2, 0.3, 0.4], rng=1),
    "truncated Gaussian": lambda: m.TruncatedGaussian(0.1, UNIT, epsilon=1.0, delta=1e-3).release(0.3, rng=1),
    "clipped Gaussian": lambda: m.BoundaryInflatedGaussian([MEAN] * 3, (0.0, 10.0), rho=0.1, names=NAMES[:3]).release(
        [1, 5, 9], rng=1
    ),
    "published": lambda: m.TruncatedLaplace(1.0, 0.1, UNIT).release(0.3),
}  # fmt: skip
PROPORTIONS = {
    f"{kind.name}, {rule}, {convention}": lambda kind=kind, rule=rule, convention=convention: kind(
        1.0, 50, NAMES, rule=rule, convention=convention
    ).release(COUNTS, rng=1)
    for kind in (
        bounded_statistics.RescaledProportions,
        bounded_statistics.AllButOne,
        bounded_statistics.UniversalHistogram,
    )
    for rule in ("boundary-inflated", "truncated")
    for convention in ("exact", "paper")
}
COVARIANCES = {
    f"covariance, {rule}, {convention}": lambda rule=rule, convention=convention: covariance_cone.CovarianceMatrix(
        1.0, 200, [(-3.0, 3.0), (-4.5, 4.5)], ["height", "weight"], rule=rule, convention=convention, parts=[0.5, 0.3, 0.2]
    ).release(SIGNED, rng=3)
    for rule in ("boundary-inflated", "truncated")
    for convention in ("exact", "paper")
}  # fmt: skip
MADE = STATISTICS | PROPORTIONS | COVARIANCES

WORDS = ("relation", "caveats")
NO_EFFECT = {"paper_sensitivity", "changed", "largest"}
"""Of clipped noise, and what is said of the paper where its convention is not taken: another value gives the same noise."""

DEFAULTS = {"neighbours", "convention", "names", "rule"}
"""Of a mechanism's description: what may be left out has its usual value, which must fit the rest."""


def harmless(path: tuple[Any, ...], how: str) -> bool:
    """Whether what is said is true without the field: words, or a row fewer."""
    return (
        any(part in WORDS for part in path)
        or (how == "removed" and (isinstance(path[-1], int) or path[-1] in ("about", "person", "record")))
        or any(part in NO_EFFECT for part in path)
        or (how == "truth" and isinstance(path[-1], int))  # true in a list of numbers is 1
        or (path[0] == "mechanism" and path[-1] in DEFAULTS and how == "removed")
    )


@pytest.mark.parametrize("kind", MADE)
def test_every_number_of_a_guarantee(kind: str) -> None:
    release = MADE[kind]()
    told = release.guarantee.to_dict()
    assert replace(release, guarantee=StatisticGuarantee.from_dict(json.loads(json.dumps(told)))) == release
    tried = 0
    for path, how, changed in mutants(told):
        less_said = how == "removed" and path == ("pairs", 0, "loss", "rho") and len(told["pairs"][0]["loss"]) > 1
        if harmless(path, how) or less_said:
            continue
        tried += 1
        try:
            replace(release, guarantee=StatisticGuarantee.from_dict(changed))
        except (TypeError, ValueError):
            continue
        pytest.fail(f"accepted: {path} {how} {at(told, path)!r}")
    assert tried > 100
    for size in (1e-3, -1e-3):
        name = next(iter(told["parameters"]))
        for path in (("parameters", name), ("pairs", 0, "loss", name), ("parameters", "sensitivity")):
            changed = json.loads(json.dumps(told))
            at(changed, path[:-1])[path[-1]] *= 1.0 + size
            with pytest.raises(ValueError, match="the guarantee states"):
                replace(release, guarantee=StatisticGuarantee.from_dict(changed))


@pytest.mark.parametrize("kind", STATISTICS | PROPORTIONS)
def test_what_is_written_is_read(kind: str, tmp_path: Any) -> None:
    release = MADE[kind]()
    release.to_netcdf(tmp_path / "r.nc")
    again = type(release).from_netcdf(tmp_path / "r.nc")
    assert (type(again), again) == (type(release), release)


@pytest.mark.parametrize("kind", MADE)
def test_simulated_is_said_once(kind: str) -> None:
    release = MADE[kind]()
    with pytest.raises(ValueError, match=r"simulated of the release is .*, but simulated of"):
        replace(release, simulated=not release.simulated)


def said_by(path: Any) -> dict[str, Any]:
    """What a file says of its law, its mechanism, its guarantee and its noise."""
    with h5py.File(path, "r") as file:
        law = json.loads(file.attrs["measurements"])[0]["law"]
        told = {key: json.loads(file.attrs[key]) for key in ("mechanism", "guarantee")}
        return {"law": law, **told, "simulated": bool(file.attrs["simulated"])}


def say_in(path: Any, changed: dict[str, Any]) -> None:
    """Write that into the file; what is missing there is taken out."""
    with h5py.File(path, "r+") as file:
        for key in ("mechanism", "guarantee"):
            file.attrs.pop(key, None)
            if key in changed:
                file.attrs[key] = json.dumps(changed[key])
        [measured] = json.loads(file.attrs["measurements"])
        measured.pop("law", None)
        file.attrs["measurements"] = json.dumps([{**measured, **({"law": changed["law"]} if "law" in changed else {})}])
        file.attrs.pop("simulated", None)
        if "simulated" in changed:
            value = changed["simulated"]
            file.attrs["simulated"] = int(value) if isinstance(value, bool) else json.dumps(value)


@pytest.mark.parametrize("kind", ["a mean", "own bounds", "covariance, boundary-inflated, exact"])
def test_every_field_of_a_file(kind: str, tmp_path: Any) -> None:
    release, path = MADE[kind](), tmp_path / "r.nc"
    release.to_netcdf(path)
    assert Release.from_netcdf(path) == release
    told = said_by(path)
    for field, how, changed in mutants(told):
        if harmless(field, how) or (field[0] == "guarantee" and len(field) > 3) or field == ("guarantee",):
            continue  # the deeper fields of a guarantee are those of the test above
        if field == ("mechanism",) and how in ("null", "removed"):
            continue  # then the law has to do
        say_in(path, changed)
        try:
            Release.from_netcdf(path)
        except ValueError:
            continue
        pytest.fail(f"accepted: {field} {how} {at(told, field)!r}")


BOTH_SIDES = {
    "epsilon": (("guarantee", "parameters", "epsilon"), 0.01, "parameters: .* states epsilon = 0.01.*-laplace' has epsilon = 0.99999"),
    "row": (("guarantee", "pairs", 0, "loss", "epsilon"), 0.5, "states epsilon = 0.5 at l1 distance 0.02.*has epsilon = 0.99999"),
    "law": (("law", "b"), 3.0, "'truncated-laplace' has noise of the law truncated-laplace, b = 0.032.*release says .*b = 3.0"),
    "mechanism": (("mechanism", "epsilon"), 0.5, "has noise of the law .*but the release says"),
    "name": (("mechanism", "mechanism"), "magic", "one of .*truncated-laplace.*magic"),
    "unknown key": (("mechanism", "extra"), 1, "has no parameter 'extra'"),
    "simulated": (("simulated",), False, "simulated of the release is False, but simulated of its guarantee is True"),
    "sampler": (("guarantee", "sampler"), "approximate: 7 sweeps of Gibbs, convergence not certified", "7 sweeps.*exact"),
    "person": (("guarantee", "person"), "At most epsilon = 0.1.", "person: .* states .*epsilon = 0.1.*, but .* has nothing of it"),
    "cells": (("guarantee", "determined_cells"), ["x"], "determined cells, 'x', but the statistics have no cells"),
}  # fmt: skip


@pytest.mark.parametrize("claim", BOTH_SIDES)
def test_both_sides_are_named(claim: str, tmp_path: Any) -> None:
    path, value, message = BOTH_SIDES[claim]
    STATISTICS["a mean"]().to_netcdf(tmp_path / "r.nc")
    told = said_by(tmp_path / "r.nc")
    at(told, path[:-1])[path[-1]] = value
    say_in(tmp_path / "r.nc", told)
    with pytest.raises(ValueError, match=message):
        StatisticRelease.from_netcdf(tmp_path / "r.nc")


LAWS = [noise.TruncatedLaplace(0.05, UNIT), noise.BoundaryInflatedLaplace(0.05, UNIT)]


@pytest.mark.parametrize("law", LAWS)
def test_the_law_alone_bounds_what_may_be_stated(law: Any) -> None:
    """Oracle: the largest log-ratio of the densities of two locations that far apart, on a grid of values."""
    size = 0.1
    values, low = np.linspace(0.0, 1.0, 201), np.linspace(0.0, 1.0 - size, 91)
    ratio = [np.abs(law.log_each(values, np.full(201, x)) - law.log_each(values, np.full(201, x + size))) for x in low]
    true = float(np.max(ratio))

    def stated(epsilon: float) -> StatisticGuarantee:
        return StatisticGuarantee("pure", {"epsilon": epsilon, "sensitivity": size}, "l1")

    assert true >= size / 0.05 * (1.0 - 1e-9)
    StatisticRelease(0.4, law, guarantee=stated(true))
    StatisticRelease(0.4, law, guarantee=stated(size / 0.05))
    with pytest.raises(
        ValueError, match=r"states epsilon = 1.9 for statistics that are 0.1 apart, .* at least epsilon = 2.0"
    ):
        StatisticRelease(0.4, law, guarantee=stated(1.9))
    row = PairLoss("made up", size, "l1", {"epsilon": 0.1})
    with pytest.raises(ValueError, match=r"epsilon = 0.1 .* at least epsilon = 2.0"):
        StatisticRelease(0.4, law, guarantee=replace(stated(5.0), pairs=(row,)))


def test_shares_are_those_of_the_noisy_values() -> None:
    release = PROPORTIONS["all-but-one, truncated, exact"]()
    with pytest.raises(TypeError, match="shares"):  # they follow from the noisy values
        replace(release, shares=np.full(4, 0.25))
    with pytest.raises(
        ValueError, match=r"one of all-but-one, .*, rescaled-proportions, .*, universal-histogram, got .*magic"
    ):
        replace(release, mechanism={**release.mechanism, "mechanism": "magic"})
    with pytest.raises(
        ValueError, match=r"'all-but-one' has noise .*boundary-inflated.*release says truncated-laplace"
    ):
        replace(release, mechanism={**release.mechanism, "rule": "boundary-inflated"})


def test_a_covariance_without_noise_had_a_part_of_the_budget() -> None:
    """A released variance of 0: the part of the covariance is not known any more, and the guarantee still includes it."""
    mechanism = covariance_cone.CovarianceMatrix(1.0, 200, [(-3.0, 3.0), (-4.5, 4.5)])
    for seed in range(30):
        release = mechanism.release([[0.0, 0.0], [0.0, 2.0]], rng=seed)
        if release.scales[0, 1] == 0.0:
            break
    assert release.scales[0, 1] == 0.0
    low = StatisticGuarantee.from_dict({**release.guarantee.to_dict(), "pairs": []})
    with pytest.raises(ValueError, match=r"states epsilon = 0.5"):
        replace(release, guarantee=replace(low, parameters={**low.parameters, "epsilon": 0.5}))
