"""The laws as text and as descriptions: what methods notes write, scales stated by a loss or a variance, what is refused."""

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
from bayesdp.privacy import DIFFERENCES, gaussian_pairs, pure_pairs

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
        ({"law": "lattice-laplace", "epsilon": 0}, ValueError, "epsilon must be a finite number greater than 0"),
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


@pytest.mark.parametrize(
    ("text", "law"),
    [
        ("laplace b=3", Laplace(3.0)),
        ("laplace scale=3", Laplace(3.0)),
        ("Laplace mechanism epsilon=0.5 sensitivity=2", Laplace(4.0)),
        ("double exponential b = 3", Laplace(3.0)),
        ("two-sided geometric epsilon=0.5 sensitivity=1", DiscreteLaplace(2.0)),
        ("Two-Sided Geometric Mechanism eps=0.5 sensitivity=2", DiscreteLaplace(4.0)),
        ("geometric mechanism sensitivity=2 epsilon=0.5", DiscreteLaplace(4.0)),
        ("geometric b=2", DiscreteLaplace(2.0)),
        ("discrete laplace b=2", DiscreteLaplace(2.0)),
        ("discrete_laplace b=2", DiscreteLaplace(2.0)),
        ("gaussian sigma=5", Gaussian(5.0)),
        ("normal standard deviation=5", Gaussian(5.0)),
        ("Gaussian mechanism standard-deviation = 5", Gaussian(5.0)),
        ("gaussian sd=5", Gaussian(5.0)),
        ("gaussian variance=25", Gaussian(5.0)),
        ("laplace variance=18", Laplace(3.0)),
        ("laplace standard_deviation=4.242640687119285", Laplace(3.0)),
        ("gaussian rho=0.02 sensitivity=1", Gaussian(5.0)),
        ("discrete gaussian rho=0.125 sensitivity=2", DiscreteGaussian(4.0)),
        ("discrete-gaussian scale=5", DiscreteGaussian(5.0)),
        ("discrete-gaussian variance=25", DiscreteGaussian(5.0)),
        ("discrete-gaussian standard deviation=5", DiscreteGaussian(5.0)),
        ("lattice gaussian scale=2", LatticeGaussian(2.0)),
    ],
)
def test_words_of_methods_notes(text: str, law: NoiseLaw) -> None:
    found = parse_law(text)
    assert type(found) is type(law)
    own, expected = found.describe(), law.describe()
    assert own.keys() == expected.keys()
    [key] = own.keys() - {"law"}
    assert own[key] == pytest.approx(expected[key], rel=1e-14)


@pytest.mark.parametrize("law", [Laplace, DiscreteLaplace, Gaussian, DiscreteGaussian])
@pytest.mark.parametrize("variance", [1.5, 30.0, 1e6])
def test_the_variance_that_is_stated_is_that_of_the_noise(law: type[NoiseLaw], variance: float) -> None:
    # Through the moments of the law, which other tests compare with exact sums; for the discrete Gaussian to 1e-6.
    for made in (law(variance=variance), law(standard_deviation=np.sqrt(variance))):
        assert float(made.variance(())) == pytest.approx(variance, rel=1e-10 if law is not DiscreteGaussian else 1e-6)


@pytest.mark.parametrize("law", [Laplace, DiscreteLaplace])
def test_epsilon_with_sensitivity_is_what_the_noise_costs(law: type[NoiseLaw]) -> None:
    # The largest log-ratio of the density around 0 and around a location that is `sensitivity` away.
    made = law(epsilon=0.7, sensitivity=3)
    reach = np.arange(-60.0, 61.0)
    density = made.log_mass if law is DiscreteLaplace else made.log_density
    assert np.max(density(reach) - density(reach, 3.0)) == pytest.approx(0.7, rel=1e-12)
    assert pure_pairs(1.0 / made.b, "l1", [DIFFERENCES["substitution"]])[0].loss["epsilon"] == pytest.approx(
        2 * 0.7 / 3
    )


@pytest.mark.parametrize("law", [Gaussian, DiscreteGaussian])
def test_rho_with_sensitivity_is_what_the_noise_costs(law: type[NoiseLaw]) -> None:
    # One substitution changes two cells by one: the square root of 2 in l2.
    made = law(rho=0.1, sensitivity=np.sqrt(2.0))
    [row] = gaussian_pairs(made.sigma, [DIFFERENCES["substitution"]], delta=None, continuous=law is Gaussian)
    assert row.loss["rho"] == pytest.approx(0.1, rel=1e-12)


def test_a_scale_a_cell() -> None:
    made = DiscreteLaplace(epsilon=[0.5, 0.25], sensitivity=1.0)
    assert made == DiscreteLaplace(b=[2.0, 4.0])
    assert not made.b.flags.writeable
    assert repr(Gaussian(variance=4.0)) == "Gaussian(sigma=2.0)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "discrete-laplace sigma=3",
            r"no parameter 'sigma'; it takes b, or epsilon with sensitivity, .*b = sensitivity / eps",
        ),
        ("gaussian b=3", r"no parameter 'b'; it takes sigma, or rho .*sigma = sensitivity / sqrt\(2 rho\)"),
        ("gaussian epsilon=1 delta=1e-6", r"no parameter 'epsilon', 'delta'; .*by several formulas"),
        ("lattice-laplace b=3", r"no parameter 'b'; it takes epsilon, the rate per count .*1 / b for a scale b"),
        ("lattice-laplace scale=3", r"no parameter 'scale'; it takes epsilon"),
        ("projected-laplace epsilon=1", r"no parameter 'epsilon'; it takes b, the scale before projection"),
        ("projected-gaussian rho=1", r"no parameter 'rho'; it takes sigma, the standard deviation before projection"),
        (
            "boundary-inflated-discrete-laplace epsilon=1 bounds=0:9",
            r"b of the noise before clipping: b = sensitivity / eps",
        ),
        ("laplace epsilon=1", r"epsilon needs sensitivity beside it: .*b = sensitivity / epsilon"),
        ("laplace sensitivity=1", r"sensitivity needs epsilon beside it"),
        (
            "laplace b=1 epsilon=1 sensitivity=1",
            r"b and epsilon and sensitivity state the scale of laplace more than once",
        ),
        ("laplace b=1 variance=2", r"b and variance state the scale of laplace more than once"),
        ("laplace variance=2 sd=1.4", r"variance and standard_deviation state the scale of laplace more than once"),
        ("laplace epsilon=0 sensitivity=1", r"epsilon must be a finite number greater than 0"),
        ("laplace", r"'laplace' lacks parameter 'b'"),
        ("discrete-gaussian variance=0.5", r"variance must be at least 1 .* give sigma"),
        ("two-sided exponential b=1", r"unknown noise law 'two-sided exponential'"),
        ("laplace b=1 and more", r"written as name=value, got 'and more'"),
        ("b=3", r"unknown noise law 'b=3'"),
    ],
)
def test_the_relation_is_said_when_another_parameter_is_given(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_law(text)


def test_in_python_too() -> None:
    with pytest.raises(
        TypeError, match=r"'discrete-laplace' has no parameter 'sigma'; it takes b, or epsilon with sens"
    ):
        DiscreteLaplace(sigma=3.0)
    with pytest.raises(TypeError, match=r"'gaussian' has no parameter 'epsilon'; it takes sigma, or rho"):
        Gaussian(epsilon=1.0)
    with pytest.raises(TypeError, match=r"sigma must be a positive real number, got None; gaussian takes sigma"):
        Gaussian()


def test_files_hold_the_scale_alone() -> None:
    # Other spellings are for people; a file that has them was not written by this package.
    with pytest.raises(ValueError, match="no parameter 'epsilon', 'sensitivity'"):
        NoiseLaw.from_description({"law": "laplace", "epsilon": 1.0, "sensitivity": 1.0})
    with pytest.raises(ValueError, match="unknown noise law 'normal'"):
        NoiseLaw.from_description({"law": "normal", "sigma": 1.0})
