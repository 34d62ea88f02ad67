"""Names, descriptions and texts of the laws, and what is refused."""

from __future__ import annotations

import json
import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest

from bayesdp import noise
from bayesdp.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    LatticeGaussian,
    LatticeLaplace,
    NoiseLaw,
    ProjectedGaussian,
    law_names,
    parse_law,
)
from bayesdp.papers import bounded_statistics

LAWS = [
    DiscreteLaplace(b=4.0),
    DiscreteLaplace(b=np.array([[1.0, 2.0], [3.0, 4.5]])),
    DiscreteGaussian(sigma=6.25),
    DiscreteGaussian(sigma=[1.0, 2.5]),
    Laplace(b=4.0),
    Laplace(b=[1.0, 2.5]),
    Gaussian(sigma=6.25),
    Gaussian(sigma=[1.0, 2.5]),
    LatticeLaplace(epsilon=0.25),
    LatticeLaplace(epsilon=0.25, norm="l2"),
    LatticeGaussian(sigma=2.0),
    ProjectedGaussian(sigma=2.0),
    noise.SubspaceNorm(epsilon=0.25),
    noise.SubspaceNorm(epsilon=0.25, norm="linf"),
]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_descriptions_survive_json_and_pickle(law: NoiseLaw) -> None:
    again = NoiseLaw.from_description(json.loads(json.dumps(law.describe())))
    assert type(again) is type(law)
    assert again == law
    assert hash(again) == hash(law)
    assert pickle.loads(pickle.dumps(law)) == law


def test_different_laws_differ() -> None:
    for i, first in enumerate(LAWS):
        assert [j for j, second in enumerate(LAWS) if first == second] == [i]
    assert DiscreteLaplace(b=1.0) != "discrete-laplace"


@pytest.mark.parametrize("law", [law for law in LAWS if not np.ndim(next(iter(vars(law).values())))], ids=str)
def test_text_round_trip(law: NoiseLaw) -> None:
    assert parse_law(str(law)) == law


def test_arrays_are_summarised_in_text_and_locked() -> None:
    law = DiscreteLaplace(b=[1.0, 2.0])
    assert str(law) == "discrete-laplace b=<one per cell, from 1 to 2>"
    assert isinstance(law.b, np.ndarray)
    with pytest.raises(ValueError, match="read-only"):
        law.b[0] = 3.0
    with pytest.raises(FrozenInstanceError):
        law.b = 2.0  # type: ignore[misc]


def test_names_are_listed() -> None:
    public = (getattr(noise, name) for name in noise.__all__)
    named = [own.name for own in public if isinstance(own, type) and issubclass(own, NoiseLaw) and "name" in vars(own)]
    assert len(named) >= 22
    assert law_names() == ", ".join(sorted([*named, bounded_statistics.RescaledLaplace.name]))


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("", ValueError, "must start with one of boundary-inflated"),
        ("cauchy sigma=5", ValueError, "unknown noise law 'cauchy'; known laws are 'boundary-inflated"),
        ("discrete-gaussian 5", ValueError, "written as name=value, got '5'"),
        ("discrete-gaussian sigma=", ValueError, "written as name=value, got 'sigma='"),
        ("discrete-gaussian", ValueError, "'discrete-gaussian' lacks parameter 'sigma'"),
        ("discrete-gaussian sigma=5 sigma=6", ValueError, "parameter 'sigma' appears twice"),
        ("discrete-gaussian sigma=5 scale=6", ValueError, "parameter 'sigma' appears twice"),
        ("discrete-gaussian law=5", ValueError, "no parameter 'law'; it takes sigma, or rho"),
        ("discrete-gaussian sigma=nan", ValueError, "sigma must be a finite number greater than 0, got nan"),
        ("discrete-gaussian sigma=-2", ValueError, "sigma must be a finite number greater than 0, got -2.0"),
        ("discrete-gaussian sigma=1e15", ValueError, r"sigma must be smaller than 2\*\*46"),
        ("discrete-gaussian sigma=five", TypeError, "sigma must be a positive real number, got 'five'"),
        ("lattice-laplace epsilon=1 norm=l3", ValueError, "norm must be one of 'l1', 'l2', got 'l3'"),
    ],
)
def test_texts_that_are_refused(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        parse_law(text)


@pytest.mark.parametrize(
    ("description", "error", "message"),
    [
        ([], TypeError, "must be a mapping"),
        ({"sigma": 1.0}, ValueError, "lacks 'law'"),
        ({"law": ["discrete-laplace"]}, ValueError, r"unknown noise law \['discrete-laplace'\]"),
        ({"law": "discrete-laplace", "b": True}, TypeError, "b must be a positive real number, got True"),
        ({"law": "discrete-laplace", "b": "4"}, TypeError, "b must be a positive real number, got '4'"),
        ({"law": "discrete-laplace", "b": None}, TypeError, "b must be a positive real number, got None"),
        ({"law": "discrete-laplace", "b": [1.0, -1.0]}, ValueError, r"at position \(1,\) it is .*-1\.0"),
        ({"law": "discrete-laplace", "b": [1.0, float("nan")]}, ValueError, "b must be finite"),
        ({"law": "discrete-laplace", "b": []}, (TypeError, ValueError), "b must hold"),
        ({"law": "lattice-gaussian", "sigma": [1.0]}, TypeError, "sigma must be a positive real number"),
        (
            {"law": "lattice-laplace", "epsilon": 0},
            ValueError,
            "epsilon must be a finite number greater than 0",
        ),
    ],
)
def test_descriptions_that_are_refused(description: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        NoiseLaw.from_description(description)


def test_a_new_law_registers_itself() -> None:
    # In a child class without a name of its own nothing is registered.
    class Renamed(DiscreteLaplace):
        """No name of its own."""

    assert NoiseLaw.from_description({"law": "discrete-laplace", "b": 1.0}).__class__ is DiscreteLaplace
    assert issubclass(Renamed, NoiseLaw)
