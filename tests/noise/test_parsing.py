"""The laws as text and as descriptions: what methods notes write, scales stated by a loss or a variance, what is refused."""

import json
import pickle

import numpy as np
import pytest

from bayesdp import noise
from bayesdp.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, LatticeLaplace, NoiseLaw, parse_law
from bayesdp.papers import bounded_statistics
from bayesdp.privacy import DIFFERENCES, gaussian_pairs, pure_pairs
from tests.refusals import refused

SOME = [DiscreteLaplace(b=np.array([[1.0, 2.0], [3.0, 4.5]])), Gaussian(sigma=[1.0, 2.5]), LatticeLaplace(0.25, "l2")]


@pytest.mark.parametrize("law", SOME)
def test_descriptions_survive_json_and_pickle(law):
    again = NoiseLaw.from_description(json.loads(json.dumps(law.describe())))
    assert (again, hash(again)) == (law, hash(law))
    assert pickle.loads(pickle.dumps(law)) == law
    for other in (DiscreteLaplace(b=1.0), Gaussian(sigma=[1.0, 2.0]), LatticeLaplace(0.25), "lattice-laplace"):
        assert law != other


def test_arrays_are_summarised_in_text_and_locked_and_names_are_listed():
    law = DiscreteLaplace(epsilon=[0.5, 0.25], sensitivity=0.5)
    assert law == DiscreteLaplace(b=[1.0, 2.0])
    assert str(law) == "discrete-laplace b=<one per cell, from 1 to 2>"
    with pytest.raises(ValueError, match="read-only"):
        law.b[0] = 3.0
    public = (getattr(noise, name) for name in noise.__all__)
    named = [own.name for own in public if isinstance(own, type) and issubclass(own, NoiseLaw) and "name" in vars(own)]
    assert len(named) >= 22
    common, others = noise.law_names().split(", ")[:9], noise.law_names().split(", ")[9:]
    assert others == sorted(others)
    assert sorted([*common, *others]) == sorted([*named, bounded_statistics.RescaledLaplace.name])
    assert common[:5] == ["discrete-laplace", "discrete-gaussian", "laplace", "gaussian", "rounded"]


MORE = "state the scale of laplace more than once"
test_texts_that_are_refused = refused(
    ("", ValueError, "must start with one of discrete-laplace, discrete-g"),
    ("cauchy sigma=5", ValueError, "unknown noise law 'cauchy'; known laws are 'discrete-laplace'"),
    ("two-sided exponential b=1", ValueError, "unknown noise law 'two-sided exponential'"),
    ("b=3", ValueError, "unknown noise law 'b=3'"),
    ("discrete-gaussian 5", ValueError, "written as name=value, got '5'"),
    ("discrete-gaussian sigma=", ValueError, "written as name=value, got 'sigma='"),
    ("laplace b=1 and more", ValueError, "written as name=value, got 'and more'"),
    ("discrete-gaussian", ValueError, "'discrete-gaussian' lacks parameter 'sigma'"),
    ("discrete-gaussian sigma=5 scale=6", ValueError, "parameter 'sigma' appears twice"),
    ("discrete-gaussian law=5", ValueError, "no parameter 'law'; it takes sigma, or rho"),
    ("discrete-gaussian sigma=nan", ValueError, "sigma must be a finite number greater than 0, got nan"),
    ("discrete-gaussian sigma=-2", ValueError, "sigma must be a finite number greater than 0, got -2.0"),
    ("discrete-gaussian sigma=1e15", ValueError, r"sigma must be smaller than 2\*\*46"),
    ("discrete-gaussian sigma=five", TypeError, "sigma must be a positive real number, got 'five'"),
    ("discrete-gaussian variance=0.5", ValueError, "variance must be at least 1 .* give sigma"),
    ("lattice-laplace epsilon=1 norm=l3", ValueError, "norm must be one of 'l1', 'l2', got 'l3'"),
    ("discrete-laplace sigma=3", ValueError, "it takes b, or epsilon with sensitivity, .*b = sensitivity / eps"),
    ("gaussian b=3", ValueError, r"'b'; it takes sigma, or rho .*sigma = sensitivity / sqrt\(2 rho\)"),
    ("gaussian epsilon=1 delta=1e-6", ValueError, "no parameter 'epsilon', 'delta'; .*by several formulas"),
    ("lattice-laplace b=3", ValueError, "it takes epsilon, the rate per count .*1 / b for a scale b"),
    ("lattice-laplace scale=3", ValueError, "no parameter 'scale'; it takes epsilon"),
    ("projected-laplace epsilon=1", ValueError, "'epsilon'; it takes b, the scale before projection"),
    ("projected-gaussian rho=1", ValueError, "it takes sigma, the standard deviation before projection"),
    ("boundary-inflated-discrete-laplace epsilon=1 bounds=0:9", ValueError, "before clipping: b = sensitivity / eps"),
    ("laplace epsilon=1", ValueError, "epsilon needs sensitivity beside it: .*b = sensitivity / epsilon"),
    ("laplas b=2", ValueError, "did you mean 'laplace'"),
    ("randomm rounding base=3", ValueError, "did you mean 'random-rounding'"),
    ("random-rounding bsae=3", ValueError, "no parameter 'bsae'.* did you mean 'base'"),
    (
        "Laplace, epsilon 0.5 per county, persons",
        ValueError,
        "sensitivity=1, b = 2.*sensitivity=2, b = 4.*methods note says which",
    ),
    (
        "laplace eps=0.25",
        ValueError,
        "added or removed .'unbounded': sensitivity=1, b = 4.*replaced.*'bounded': sensitivity=2, b = 8",
    ),
    ("gaussian rho=0.125", ValueError, r"sensitivity=1, sigma = 2\).*sensitivity=1\.414214, sigma = 2\.82843"),
    ("laplace epsilon 0.5 sensitivity 1 per county", ValueError, "written as name=value, got 'per county'"),
    ("laplace sensitivity=1", ValueError, "sensitivity needs epsilon beside it"),
    ("laplace b=1 epsilon=1 sensitivity=1", ValueError, f"b and epsilon and sensitivity {MORE}"),
    ("laplace variance=2 sd=1.4", ValueError, f"variance and standard_deviation {MORE}"),
    ("laplace epsilon=0 sensitivity=1", ValueError, "epsilon must be a finite number greater than 0"),
    ("tulap delta=0.1", ValueError, "lacks parameter"),
    (lambda: DiscreteLaplace(sigma=3.0), TypeError, "'sigma'; it takes b, or epsilon with sens"),
    (Gaussian, TypeError, "sigma must be a positive real number, got None; gaussian takes sigma"),
    of=lambda own: own() if callable(own) else parse_law(own),
)


# Other spellings of a scale are for people; a file that has them was not written by this package.
test_descriptions_that_are_refused = refused(
    ([], TypeError, "must be a mapping"),
    ({"sigma": 1.0}, ValueError, "lacks 'law'"),
    ({"law": ["discrete-laplace"]}, ValueError, r"unknown noise law \['discrete-laplace'\]"),
    ({"law": "normal", "sigma": 1.0}, ValueError, "unknown noise law 'normal'"),
    ({"law": "laplace", "epsilon": 1.0, "sensitivity": 1.0}, ValueError, "no parameter 'epsilon', 'sensitivity'"),
    ({"law": "discrete-laplace", "b": True}, TypeError, "b must be a positive real number, got True"),
    ({"law": "discrete-laplace", "b": "4"}, TypeError, "b must be a positive real number, got '4'"),
    ({"law": "discrete-laplace", "b": [1.0, -1.0]}, ValueError, r"at position \(1,\) it is .*-1\.0"),
    ({"law": "discrete-laplace", "b": [1.0, float("nan")]}, ValueError, "b must be finite"),
    ({"law": "discrete-laplace", "b": []}, (TypeError, ValueError), "b must hold"),
    ({"law": "lattice-gaussian", "sigma": [1.0]}, TypeError, "sigma must be a positive real number"),
    ({"law": "lattice-laplace", "epsilon": 0}, ValueError, "epsilon must be a finite number greater than 0"),
    of=NoiseLaw.from_description,
)


@pytest.mark.parametrize(
    ("text", "law"),
    [
        ("laplace scale=3", Laplace(3.0)),
        ("Laplace mechanism epsilon=0.5 sensitivity=2", Laplace(4.0)),
        ("double exponential b = 3", Laplace(3.0)),
        ("two-sided geometric epsilon=0.5 sensitivity=1", DiscreteLaplace(2.0)),
        ("Two-Sided Geometric Mechanism eps=0.5 sensitivity=2", DiscreteLaplace(4.0)),
        ("geometric b=2", DiscreteLaplace(2.0)),
        ("Laplace, epsilon 0.5, sensitivity 2", Laplace(4.0)),
        ("discrete Gaussian rho .125 sensitivity 2", DiscreteGaussian(4.0)),
        ("discrete_laplace b=2", DiscreteLaplace(2.0)),
        ("normal standard deviation=5", Gaussian(5.0)),
        ("Gaussian mechanism standard-deviation = 5", Gaussian(5.0)),
        ("gaussian sd=5", Gaussian(5.0)),
        ("gaussian variance=25", Gaussian(5.0)),
        ("laplace standard_deviation=4.242640687119285", Laplace(3.0)),
        ("gaussian rho=0.02 sensitivity=1", Gaussian(5.0)),
        ("discrete gaussian rho=0.125 sensitivity=2", DiscreteGaussian(4.0)),
        ("discrete-gaussian variance=25", DiscreteGaussian(5.0)),
        ("lattice gaussian scale=2", noise.LatticeGaussian(2.0)),
    ],
)
def test_words_of_methods_notes(text, law):
    assert parse_law("Fixed random rounding base=3") == noise.RandomRounding(3)
    own, expected = parse_law(text).describe(), law.describe()
    assert own.pop("law") == expected.pop("law")
    assert own == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("law", [Laplace, DiscreteLaplace, Gaussian, DiscreteGaussian])
@pytest.mark.parametrize("variance", [1.5, 1e6])
def test_the_variance_that_is_stated_is_that_of_the_noise(law, variance):
    # Through the moments of the law, which other tests compare with exact sums; for the discrete Gaussian to 1e-6.
    for made in (law(variance=variance), law(standard_deviation=np.sqrt(variance))):
        assert float(made.variance(())) == pytest.approx(variance, rel=1e-10 if law is not DiscreteGaussian else 1e-6)


@pytest.mark.parametrize("law", [Laplace, DiscreteLaplace])
def test_epsilon_with_sensitivity_is_what_the_noise_costs(law):
    # The largest log-ratio of the density around 0 and around a location that is `sensitivity` away.
    made, reach = law(epsilon=0.7, sensitivity=3), np.arange(-60.0, 61.0)
    density = made.log_mass if law is DiscreteLaplace else made.log_density
    assert np.max(density(reach) - density(reach, 3.0)) == pytest.approx(0.7, rel=1e-12)
    [row] = pure_pairs(1.0 / made.b, "l1", [DIFFERENCES["substitution"]])
    assert row.loss["epsilon"] == pytest.approx(2 * 0.7 / 3)


@pytest.mark.parametrize("law", [Gaussian, DiscreteGaussian])
def test_rho_with_sensitivity_is_what_the_noise_costs(law):
    # One substitution changes two cells by one: the square root of 2 in l2.
    made = law(rho=0.1, sensitivity=np.sqrt(2.0))
    [row] = gaussian_pairs(made.sigma, [DIFFERENCES["substitution"]], delta=None, continuous=law is Gaussian)
    assert row.loss["rho"] == pytest.approx(0.1, rel=1e-12)
