"""No error of a mechanism shows a confidential number: all mechanisms that make releases x all ways in which a table is wrong."""

import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayesdp import mechanisms, noise
from bayesdp.papers.bounded_statistics import AllButOne, MultipleSynthesis, RescaledProportions, UniversalHistogram
from bayesdp.papers.covariance_cone import CovarianceMatrix
from bayesdp.papers.semi_dp import semi_project
from bayesdp.papers.subspace import Agent, extend, project
from bayesdp.queries import Identity, LinearQuery
from tests.mechanisms.examples import BOTH, LABELS, MAKES, TOTAL
from tests.secrets import SECRET, everything_said, shows_secret

BASE = int(SECRET)
NUMBER = 10 * BASE  # every count has the secret digits in it
DOUBLED = LinearQuery(LABELS, [[2**40, 0, 0, 2**40]], ["doubled"])
TRIED = MAKES | {"sums that are too large": lambda: mechanisms.DiscreteLaplace(DOUBLED, 0.5)}


def _labelled(values):
    return xr.DataArray(values, dims=list(LABELS), coords=LABELS)


def _series(values, counties):
    cells = pd.MultiIndex.from_arrays([counties, ["Low", "High", "Low", "High"]], names=list(LABELS))
    return pd.Series(values, index=cells)


def _with(value):
    return [[value, NUMBER + 2], [NUMBER + 3, NUMBER + 4]]


GOOD = _with(NUMBER + 1)
TABLES = {
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
    "a data frame of text": _labelled(np.array([[f"{BASE}x", 1], [2, 3]], dtype=object)).to_pandas(),
    "a mapping": {"Alpha": NUMBER},
}
"""Confidential tables, each wrong in one way."""
LARGE = {
    # Valid tables, which some mechanisms refuse: noise on a grid of 2**-20 is added exactly to counts below 2**33.
    "large for a grid": _labelled([[BASE * 10**8] * 2] * 2),
    "beyond bounds": _labelled(GOOD),
}


def _says(call):
    """Everything that a refusal says, warnings included; None if nothing was refused."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            call()
        except Exception as error:
            return "\n".join([everything_said(error), *(str(item.message) for item in warned)])
    return None


@pytest.mark.parametrize("name", TRIED)
def test_no_wrong_table_shows_in_an_error(name):
    mechanism = TRIED[name]()
    for way, table in (TABLES | LARGE).items():
        for rng in (None, 1):
            said = _says(lambda table=table, rng=rng: mechanism.release(table, rng=rng))
            assert said is not None or way in LARGE, way
            assert said is None or not shows_secret(said), (way, said)


def _framed(make, mechanism, **more):
    made = make(mechanism, Identity(LABELS), TOTAL, loss={"epsilon": 1.0}, **more)
    return lambda table: made.release_values(table, 1)


def _agent(mechanism):
    seed = 0x9D1BB5ADB35C3B1A9A6A2B7F0C2F5E11
    agent = Agent(mechanism.describe(), LABELS, seed, [("Alpha", "Low"), ("Beta", "High")])
    return lambda counts: agent.privatize(counts, 0)


WRONG = [-BASE, BASE + 0.5, np.nan, np.inf, BASE * 10**11, BASE * 1e30, f"{BASE}x", None]
SMALL, TWO = BASE / 1e6, {"names": ["mean of height", "mean of weight"]}
PAIRS = [own for wrong in (*WRONG, BASE * 1j) for own in ([wrong, SMALL], [SMALL, wrong], [wrong] * 3, wrong)]
CATEGORIES = [
    own for wrong in WRONG for own in ([wrong, BASE, BASE, BASE], [BASE, BASE, wrong], wrong, [2 * BASE] * 3 + [wrong])
]
BY_AGENTS = [*([own, BASE] for own in WRONG), *([BASE, own] for own in WRONG), [BASE], BASE, [[BASE, BASE]]]
V = BASE / 100.0
MATRICES = [
    [[np.nan, V], [V, V]], [[V, np.inf], [np.inf, V]], [[V, 2 * V], [3 * V, V]], [[V, 10 * V], [10 * V, V]],
    [[-V, 0.0], [0.0, V]], [[V * 1e6, 0.0], [0.0, V]], [[BASE * 10**11, 0], [0, 1]], [[f"{BASE}x", "0"], ["0", "1"]],
    [V, V], [[V]], V, [[V, V, V]] * 3,
]  # fmt: skip
OF_SHARES = [
    kind(1.0, 4_000_000, ["a", "b", "c", "d"]) for kind in (RescaledProportions, AllButOne, UniversalHistogram)
]
SPREAD = [(-1e3, 1e3), (-1e3, 1e3)]
PRIVATE = {
    "project, noise": (_framed(project, noise.DiscreteLaplace(1.0), additive=True), [*TABLES.values()]),
    "project": (_framed(project, lambda answers, rng: answers), [*TABLES.values()]),
    "extend": (_framed(extend, lambda answers, rng: answers), [*TABLES.values()]),
    "semi_project": (_framed(semi_project, noise.DiscreteLaplace(1.0)), [*TABLES.values()]),
    "a mechanism too large": (_framed(project, lambda a, rng: a * 1e12), [_labelled(GOOD)]),
    "a mechanism not finite": (_framed(project, lambda a, rng: np.where(a > 0, np.inf, a)), [_labelled(GOOD)]),
    "a mechanism of another shape": (_framed(project, lambda a, rng: a.ravel()), [_labelled(GOOD)]),
    "truncated": (mechanisms.TruncatedLaplace(1.0, [0.1, 0.1], (0.0, 1.0), **TWO).release, PAIRS),
    "clipped": (mechanisms.BoundaryInflatedLaplace(1.0, [0.1, 0.1], (0.0, 1.0), **TWO).release, PAIRS),
    "truncated Gaussian": (mechanisms.TruncatedGaussian([0.1, 0.1], (0.0, 1.0), rho=0.1, **TWO).release, PAIRS),
    "single": (mechanisms.TruncatedLaplace(1.0, 0.1, (0.0, 1.0)).release, [*WRONG, *([own] for own in WRONG)]),
    "covariances, clipped": (CovarianceMatrix(1.0, 200, SPREAD, ["height", "weight"]).release, MATRICES),
    "covariances, truncated": (CovarianceMatrix(1.0, 200, SPREAD, rule="truncated").release, MATRICES),
    **{type(own).__name__: (own.release, CATEGORIES) for own in OF_SHARES},
    "several": (MultipleSynthesis((OF_SHARES[1],) * 2).release, CATEGORIES),
    "an agent, integers": (_agent(mechanisms.LatticeLaplace(BOTH, 0.5)), BY_AGENTS),
    "an agent, reals": (_agent(mechanisms.ProjectedGaussian(BOTH, mu=1e4)), BY_AGENTS),
}


@pytest.mark.parametrize("name", PRIVATE)
def test_nothing_confidential_shows_in_an_error(name):
    call, wrong = PRIVATE[name]
    for own in wrong:
        said = _says(lambda own=own: call(own))
        assert said is not None, own
        assert not shows_secret(said), (own, said)


def test_the_secret_would_be_seen():
    """What is looked for is found where it is: in a message, a cause, a context, a note, in scientific notation."""
    assert all(map(shows_secret, ("Low is -731941.0", "7.31941e+05", "731,941")))
    assert not shows_secret("Low is not")
    for link in ("__cause__", "__context__"):
        error = ValueError("Low")
        setattr(error, link, ValueError("is 731941"))
        assert shows_secret(everything_said(error))
    error = ValueError("Low")
    error.add_note("is 731941")
    assert shows_secret(everything_said(error))
