"""Certificates against the true distance on an enumerable chain, and what they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bayesdp.mechanisms import LatticeGaussian, LatticeLaplace, ProjectedGaussian
from bayesdp.papers.integer_subspace import certify
from bayesdp.privacy import rho_to_epsilon
from bayesdp.queries import LinearQuery, Totals
from tests.lattices.oracles import LEVEL, labels, one_way, pvalue
from tests.papers.coupled_chains import Plane

COUNTIES = {"county": ["Alpha", "Beta", "Gamma"]}


@pytest.mark.parametrize(("norm", "epsilon"), [("l1", 0.7), ("l2", 0.9)])
def test_the_true_distance_is_within_the_tolerance(norm, epsilon, make_rng):
    mechanism = LatticeLaplace(Totals(COUNTIES), epsilon=epsilon, norm=norm)
    certificate = certify(mechanism, 0.01, chains=5000, rng=make_rng(1))
    plane = Plane(norm, epsilon, 12)
    truth = plane.distances(plane.sweep(), certificate.sweeps + 1)
    assert truth[certificate.sweeps] <= certificate.tv_upper <= 0.01
    assert truth[1] > 0.01  # one sweep is not enough, and it does not say so
    assert certificate.tv_estimate <= certificate.tv_upper
    assert certificate.sweeps < 40
    # Noise of the certified chain, against the law after so many sweeps: 2 tests at LEVEL.
    draws = certificate.noise(make_rng(2), size=4000)
    law = np.linalg.matrix_power(plane.sweep(), certificate.sweeps)[plane.zero]
    assert pvalue(draws, plane.points, law) > LEVEL


def test_noise_has_the_shape_of_the_table_and_as_many_sweeps_as_certified(make_rng):
    certificate = certify(LatticeLaplace(one_way(2, 3), epsilon=0.5), 0.05, chains=500, rng=make_rng(1))
    noise = certificate.noise(make_rng(2), size=7)
    assert noise.shape == (7, 2, 3)
    assert not noise.sum(axis=1).any()
    assert not noise.sum(axis=2).any()
    assert certificate.noise(make_rng(2), size=0).shape == (0, 2, 3)
    assert certificate.noise().shape == (1, 2, 3)
    (here,) = np.flatnonzero(certificate.bound.times == certificate.sweeps)
    assert certificate.bound.upper[here] == certificate.tv_upper
    assert here == 1 or certificate.bound.upper[here - 1] > 0.05


def test_charge_of_laplace_noise(make_rng):
    mechanism = LatticeLaplace(one_way(3, 3), epsilon=0.5, sensitivity=2.0)
    own = certify(mechanism, 0.05, chains=1000, rng=make_rng(1))
    assert (own.largest, own.delta) == (6.0, 0.0)  # a 3-cycle
    assert own.epsilon == pytest.approx(0.25 * 6)
    assert own.delta_charge == pytest.approx((1 + math.exp(1.5)) * own.tv_upper)
    named = certify(mechanism, 0.05, chains=1000, largest=10.0, rng=make_rng(1))
    assert named.tv_upper == own.tv_upper
    assert named.delta_charge == pytest.approx((1 + math.exp(2.5)) * own.tv_upper)
    l2 = certify(LatticeLaplace(one_way(3, 3), epsilon=0.5, norm="l2"), 0.05, chains=1000, rng=make_rng(1))
    assert l2.epsilon == pytest.approx(0.5 * math.sqrt(6))


def test_charge_of_gaussian_noise(make_rng):
    stated = certify(LatticeGaussian(one_way(2, 3), rho=0.02), 0.05, chains=1000, delta=1e-5, rng=make_rng(1))
    assert (stated.largest, stated.delta) == (2.0, 1e-5)
    assert stated.epsilon == pytest.approx(rho_to_epsilon(0.02 * 4, 1e-5))
    assert stated.delta_charge == pytest.approx((1 + math.exp(stated.epsilon)) * stated.tv_upper)
    mechanism = LatticeGaussian(one_way(2, 3), epsilon=0.5, delta=1e-6)
    assert certify(mechanism, 0.05, chains=1000, rng=make_rng(1)).delta == 1e-6
    with pytest.raises(
        ValueError, match="delta must be given for Gaussian noise that is stated by rho, and only for that"
    ):
        certify(mechanism, 0.05, delta=1e-6)
    with pytest.raises(ValueError, match="delta must be given for Gaussian noise"):
        certify(LatticeGaussian(one_way(2, 3), rho=0.02), 0.05)


def test_the_certificate_says_that_it_is_an_estimate(make_rng):
    certificate = certify(LatticeLaplace(Totals(COUNTIES), epsilon=0.7), 0.05, chains=500, rng=make_rng(1))
    assert str(certificate) == certificate.text
    assert certificate.text.startswith(f"Estimate, not a proof: after {certificate.sweeps} sweeps of Gibbs from zero")
    assert "99% confidence" in certificate.text
    assert "on top of 0;" in certificate.text
    wide = certify(LatticeLaplace(Totals(COUNTIES), epsilon=0.7), 0.05, chains=500, largest=100.0, rng=make_rng(1))
    assert "protects nothing" in wide.text
    assert math.isinf(
        certify(
            LatticeLaplace(Totals(COUNTIES), epsilon=0.7), 0.05, chains=500, largest=1e6, rng=make_rng(1)
        ).delta_charge
    )


def test_tolerances_that_the_pairs_cannot_support_are_refused(make_rng):
    mechanism = LatticeLaplace(one_way(3, 3), epsilon=0.5)
    with pytest.raises(
        ValueError, match=r"even if none stayed apart, the upper limit would be 0\.0066; use at least chains=(\d+)"
    ) as caught:
        certify(mechanism, 0.001, chains=1000)
    needed = int(str(caught.value).rsplit("=", 1)[1])
    assert certify(mechanism, 0.0015, chains=needed, rng=make_rng(1)).tv_upper <= 0.0015
    # Enough if all pairs met at once, but they do not.
    with pytest.raises(ValueError, match=r"does not fall below 0\.0.*; about \d+ pairs could"):
        certify(mechanism, 0.0067, chains=1000, rng=make_rng(1))
    with pytest.raises(ValueError, match="does not fall below 1; try a longer lag"):
        certify(LatticeLaplace(one_way(4, 4), epsilon=0.05), 0.05, chains=300, lag=1, confidence=0.999, rng=make_rng(1))


def test_pairs_that_never_met_are_not_dropped(make_rng):
    mechanism = LatticeLaplace(one_way(4, 4), epsilon=0.25)
    with pytest.raises(ValueError, match=r"of 300 pairs of chains have not met within 40 sweeps: the bound is unknown"):
        certify(mechanism, 0.1, chains=300, lag=30, horizon=40, rng=make_rng(1))


def test_what_has_no_chain_or_no_known_difference():
    with pytest.raises(TypeError, match=r"LatticeLaplace or LatticeGaussian.*got ProjectedGaussian"):
        certify(ProjectedGaussian(Totals(COUNTIES), rho=0.1), 0.05)
    with pytest.raises(ValueError, match="tolerance must lie strictly between 0 and 1"):
        certify(LatticeLaplace(Totals(COUNTIES), epsilon=0.5), 0.0)
    with pytest.raises(ValueError, match="delta must not be given for Laplace noise"):
        certify(LatticeLaplace(Totals(COUNTIES), epsilon=0.5), 0.05, delta=1e-6)
    with pytest.raises(ValueError, match="largest must be a finite number greater than 0"):
        certify(LatticeLaplace(Totals(COUNTIES), epsilon=0.5), 0.05, largest=0.0)
    weighted = LinearQuery(labels(450), [list(range(1, 451))], ["weighted"])
    with pytest.raises(ValueError, match="largest must be given"):
        certify(LatticeLaplace(weighted, epsilon=0.5), 0.05)
