"""No error of a mechanism shows a confidential number: all mechanisms that make releases x all ways in which a table is wrong."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayesdp import mechanisms, noise
from bayesdp.mechanisms import StatisticMechanism
from bayesdp.papers import bounded_statistics, covariance_cone, semi_dp, subspace
from bayesdp.papers.bounded_statistics import ProportionMechanism
from bayesdp.papers.subspace import Agent, FrameworkMechanism
from bayesdp.queries import Identity, LinearQuery
from tests.mechanisms.examples import BOTH, LABELS, MAKES, TOTAL
from tests.secrets import SECRET, everything_said, shows_secret

BASE = int(SECRET)
NUMBER = 10 * BASE  # every count has the secret digits in it


DOUBLED = LinearQuery(LABELS, [[2**40, 0, 0, 2**40]], ["doubled"])
TRIED = MAKES | {"sums that are too large": lambda: mechanisms.DiscreteLaplace(DOUBLED, 0.5)}


def _labelled(values: Any) -> xr.DataArray:
    return xr.DataArray(values, dims=list(LABELS), coords=LABELS)


def _series(values: list[Any], counties: list[str]) -> pd.Series:
    cells = pd.MultiIndex.from_arrays([counties, ["Low", "High", "Low", "High"]], names=list(LABELS))
    return pd.Series(values, index=cells)


GOOD = [[NUMBER + 1, NUMBER + 2], [NUMBER + 3, NUMBER + 4]]


def _with(value: Any) -> list[list[Any]]:
    return [[value, NUMBER + 2], [NUMBER + 3, NUMBER + 4]]


TABLES: dict[str, Any] = {
    "negative": _labelled(_with(-NUMBER)),
    "fractional": _labelled(_with(NUMBER + 0.5)),
    "missing": _labelled(_with(np.nan)),
    "infinite": _labelled(_with(np.inf)),
    "too large": _labelled(_with(BASE * 10**11)),
    "too large, unsigned": np.array(_with(BASE * 10**13), dtype=np.uint64),
    "too large, a float": _with(BASE * 1e30),
    "too large for any integer": np.array(_with(BASE * 10**30), dtype=object),
    "a sum beyond 2**53": _labelled([[BASE * 10**10 // 2] * 2] * 2),
    "text": np.array([[f"{BASE}x", "1"], ["2", "3"]]),
    "text among objects": np.array([[f"{BASE}x", 1], [2, 3]], dtype=object),
    "nothing": np.array(_with(None), dtype=object),
    "complex": np.array(_with(NUMBER + 1j)),
    "boolean": [[True, False], [True, True]],
    "another shape": [NUMBER + 1, NUMBER + 2],
    "ragged": [[NUMBER + 1], [NUMBER + 2, NUMBER + 3]],
    "one number": NUMBER,
    "other labels": _labelled(GOOD).assign_coords(county=["Alpha", "Gamma"]),
    "other dimensions": _labelled(GOOD).rename(county="state"),
    "a series with a cell twice": _series(GOOD[0] + GOOD[1], ["Alpha", "Alpha", "Alpha", "Alpha"]),
    "a series with a cell missing": _series(GOOD[0] + GOOD[1], ["Alpha", "Alpha", "Beta", "Beta"])[:3],
    "a data frame without names": pd.DataFrame(GOOD),
    "a data frame of text": pd.DataFrame(
        [[f"{BASE}x", 1], [2, 3]],
        index=pd.Index(LABELS["county"], name="county"),
        columns=pd.Index(LABELS["education"], name="education"),
    ),
    "a mapping": {"Alpha": NUMBER},
}
"""Confidential tables, each wrong in one way."""

LARGE = {
    # Valid tables, which some mechanisms refuse: noise on a grid of 2**-20 is added exactly to counts below 2**33.
    "large for a grid": _labelled([[BASE * 10**8] * 2] * 2),
    "beyond bounds": _labelled(GOOD),
}


def _says(call: Callable[[], Any]) -> str | None:
    """Everything that a refusal says, warnings included; None if nothing was refused."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            call()
        except Exception as error:
            told = everything_said(error)
        else:
            told = None
    return told if told is None else "\n".join([told, *(str(item.message) for item in warned)])


@pytest.mark.parametrize("name", TRIED)
def test_no_wrong_table_shows_in_an_error(name: str) -> None:
    mechanism = TRIED[name]()
    for way, table in TABLES.items():
        for call in (lambda table=table: mechanism.release(table), lambda table=table: mechanism.release(table, rng=1)):
            said = _says(call)
            assert said is not None, way
            assert not shows_secret(said), (way, said)
    for way, table in LARGE.items():
        said = _says(lambda table=table: mechanism.release(table, rng=1))
        assert said is None or not shows_secret(said), (way, said)


@pytest.mark.parametrize(
    ("make", "additive"),
    [(subspace.project, True), (subspace.project, False), (subspace.extend, False), (semi_dp.semi_project, True)],
)
def test_no_wrong_table_shows_in_an_error_of_a_framework(make: Any, additive: bool) -> None:
    if make is semi_dp.semi_project:
        made = make(noise.DiscreteLaplace(1.0), Identity(LABELS), TOTAL, loss={"epsilon": 1.0})
    elif additive:
        made = make(noise.DiscreteLaplace(1.0), Identity(LABELS), TOTAL, loss={"epsilon": 1.0}, additive=True)
    else:
        made = make(lambda answers, rng: answers, Identity(LABELS), TOTAL, loss={"epsilon": 1.0})
    assert isinstance(made, FrameworkMechanism)
    for way, table in TABLES.items():
        said = _says(lambda table=table: made.release_values(table, 1))
        assert said is not None, way
        assert not shows_secret(said), (way, said)


@pytest.mark.parametrize(
    "output", [lambda a, rng: a * 1e12, lambda a, rng: np.where(a > 0, np.inf, a), lambda a, rng: a.ravel()]
)
def test_no_answer_shows_in_an_error_of_a_broken_mechanism(output: Any) -> None:
    made = subspace.project(output, Identity(LABELS), TOTAL, loss={"epsilon": 1.0})
    said = _says(lambda: made.release_values(_labelled(GOOD), 1))
    assert said is not None
    assert not shows_secret(said), said


STATISTICS: dict[str, StatisticMechanism] = {
    "truncated": mechanisms.TruncatedLaplace(1.0, [0.1, 0.1], (0.0, 1.0), names=["mean of height", "mean of weight"]),
    "clipped": mechanisms.BoundaryInflatedLaplace(
        1.0, [0.1, 0.1], (0.0, 1.0), names=["mean of height", "mean of weight"]
    ),
    "truncated Gaussian": mechanisms.TruncatedGaussian(
        [0.1, 0.1], (0.0, 1.0), rho=0.1, names=["mean of height", "mean of weight"]
    ),
    "single": mechanisms.TruncatedLaplace(1.0, 0.1, (0.0, 1.0)),
}


@pytest.mark.parametrize("name", STATISTICS)
def test_no_statistic_shows_in_an_error(name: str) -> None:
    mechanism = STATISTICS[name]
    for wrong in (-BASE, BASE, BASE / 2.0, np.nan, np.inf, BASE * 10**11, BASE * 1e30, f"{BASE}x", None, BASE * 1j):
        given = [[wrong, BASE / 1e6], [BASE / 1e6, wrong], [wrong] * 3, wrong] if name != "single" else [wrong, [wrong]]
        for statistic in given:
            said = _says(lambda statistic=statistic: mechanism.release(statistic))
            assert said is not None, statistic
            assert not shows_secret(said), (statistic, said)


@pytest.mark.parametrize("rule", ["boundary-inflated", "truncated"])
def test_no_covariance_shows_in_an_error(rule: str) -> None:
    bounds, names = [(-1e3, 1e3), (-1e3, 1e3)], ["height", "weight"]
    mechanism = covariance_cone.CovarianceMatrix(1.0, 200, bounds, names, rule=rule)
    v = float(BASE) / 100
    for wrong in (
        [[np.nan, v], [v, v]],
        [[v, np.inf], [np.inf, v]],
        [[v, 2 * v], [3 * v, v]],
        [[v, 10 * v], [10 * v, v]],
        [[-v, 0.0], [0.0, v]],
        [[v * 1e6, 0.0], [0.0, v]],
        [[BASE * 10**11, 0], [0, 1]],
        [[f"{BASE}x", "0"], ["0", "1"]],
        [v, v],
        [[v]],
        v,
        [[v, v, v]] * 3,
    ):
        said = _says(lambda wrong=wrong: mechanism.release(wrong))
        assert said is not None, wrong
        assert not shows_secret(said), (wrong, said)


@pytest.mark.parametrize(
    "kind",
    [bounded_statistics.RescaledProportions, bounded_statistics.AllButOne, bounded_statistics.UniversalHistogram],
)
def test_no_count_of_a_category_shows_in_an_error(kind: type[ProportionMechanism]) -> None:
    mechanism = kind(1.0, 4_000_000, ["a", "b", "c", "d"])
    several = bounded_statistics.MultipleSynthesis((mechanism, mechanism))
    for wrong in (-BASE, BASE, BASE + 0.5, np.nan, np.inf, BASE * 10**11, BASE * 1e30, f"{BASE}x", None):
        for counts in ([wrong, BASE, BASE, BASE], [BASE, BASE, wrong], wrong, [BASE * 2] * 3 + [wrong]):
            for made in (mechanism, several):
                said = _says(lambda made=made, counts=counts: made.release(counts))
                assert said is not None, counts
                assert not shows_secret(said), (counts, said)


def test_no_count_shows_in_an_error_of_an_agent() -> None:
    seed = 0x9D1BB5ADB35C3B1A9A6A2B7F0C2F5E11
    for mechanism in (mechanisms.LatticeLaplace(BOTH, 0.5), mechanisms.ProjectedGaussian(BOTH, mu=1e4)):
        agent = Agent(mechanism.describe(), LABELS, seed, [("Alpha", "Low"), ("Beta", "High")])
        wrong = (-BASE, BASE + 0.5, np.nan, np.inf, BASE * 10**11, BASE * 1e30, f"{BASE}x", None)
        for counts in [[own, BASE] for own in wrong] + [[BASE, own] for own in wrong] + [[BASE], BASE, [[BASE, BASE]]]:
            said = _says(lambda counts=counts, agent=agent: agent.privatize(counts, 0))
            assert said is not None, counts
            assert not shows_secret(said), (counts, said)


def test_the_secret_would_be_seen() -> None:
    """What is looked for is found where it is: in a message, a cause, a context, a note, in scientific notation."""
    assert shows_secret("Low is -731941.0")
    assert shows_secret("7.31941e+05")
    assert shows_secret("731,941")
    assert not shows_secret("Low is not")
    for told in ("message", "cause", "context", "note"):
        error = ValueError("Low is 731941" if told == "message" else "Low")
        if told == "cause":
            error.__cause__ = ValueError("is 731941")
        if told == "context":
            error.__context__, error.__suppress_context__ = ValueError("is 731941"), True
        if told == "note":
            error.add_note("is 731941")
        assert shows_secret(everything_said(error)), told
