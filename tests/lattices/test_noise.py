"""Noise on small lattices by the Gibbs sampler, against their enumeration."""

from __future__ import annotations

import numpy as np
import pytest

from bayesdp.lattices import sample_noise
from tests.lattices.oracles import CASES, LEVEL, lattice_points, law_on, one_way, pvalue


@pytest.mark.parametrize(
    ("sizes", "epsilon", "variance", "covariance", "nothing"),
    [
        ((2, 2), 0.25, 1.8413471884, -1.8413471884, 0.4621171573),
        ((2, 3), 0.5, 0.661233036, -0.330616518, 0.479365131),
        ((3, 3), 1.0, 0.156180318, -0.078090159, 0.716986545),
    ],
)
def test_the_oracle_has_the_published_numbers_of_lattice_laplace_noise(sizes, epsilon, variance, covariance, nothing):
    points = lattice_points(one_way(*sizes).matrix.toarray(), {2: 40, 3: 12}[sizes[0]])
    probability = law_on(points, "l1", epsilon)
    assert probability @ points[:, 0] ** 2 == pytest.approx(variance, abs=2e-9)
    assert probability @ (points[:, 0] * points[:, 1]) == pytest.approx(covariance, abs=2e-9)
    assert probability[~points.any(axis=1)].item() == pytest.approx(nothing, abs=5e-9)


def test_the_oracle_has_the_published_numbers_of_lattice_gaussian_noise():
    points = lattice_points(one_way(2, 3).matrix.toarray(), 9)
    probability = law_on(points, "gaussian", 1.0)
    assert probability @ points[:, 0] ** 2 == pytest.approx(0.3152159508, abs=1e-10)
    assert probability @ (points[:, 0] * points[:, 1]) == pytest.approx(-0.1576079754, abs=1e-10)
    assert probability[~points.any(axis=1)].item() == pytest.approx(0.5467746409, abs=1e-10)


# 21 tests at the level LEVEL each: a correct sampler with other seeds fails one of them in 480 runs. The chains are
# 40 sweeps or longer; their autocorrelation time is about 4, so the start is forgotten to 1e-4.
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("law", "scale"), [("l1", 1.0), ("l2", 1.7), ("gaussian", 1.1)])
def test_the_chain_follows_the_law(case, law, scale, make_rng):
    invariants, reach = CASES[case]
    if (case, law) == ("3x3x3", "l1"):
        scale = 0.8  # the shortest vectors have length 8
    elif (case, law) == ("3x3x3", "l2"):
        scale = 3.0  # an eighth of the mass is beyond the enumeration otherwise
    points = lattice_points(invariants.matrix.toarray(), reach)
    size = 1200 if case == "3x3x3" else 2000
    draws = sample_noise(invariants, law, scale, make_rng(len(case)), size, "mcmc", 40).reshape(size, -1)
    assert not np.any(invariants.matrix @ draws.T)
    assert pvalue(draws, points, law_on(points, law, scale)) > LEVEL


def test_a_wrong_law_is_seen(make_rng):
    invariants, reach = CASES["3x3"]
    points = lattice_points(invariants.matrix.toarray(), reach)
    draws = sample_noise(invariants, "l1", 1.0, make_rng(1), 2500, "mcmc", 60).reshape(2500, -1)
    assert pvalue(draws, points, law_on(points, "l1", 1.1)) < LEVEL


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_extreme_scales_do_not_break_the_chain(scale, make_rng):
    invariants = one_way(3, 3)
    draws = sample_noise(invariants, "l1", scale, make_rng(3), 200, "mcmc", 50).reshape(200, -1)
    assert not np.any(invariants.matrix @ draws.T)
    # At rate 1e-6 the noise is continuous for all purposes: the size ||z||_1 is Gamma(4, 1/rate), mean 4 / rate.
    size = np.abs(draws).sum(axis=1).mean()
    assert size == 0 if scale > 1 else abs(size * scale - 4.0) < 5 * 2.0 / np.sqrt(200)
