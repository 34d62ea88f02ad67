"""Losses as values, against mechanisms whose laws are written out, and against quadrature."""

from __future__ import annotations

import itertools
import math
import pickle

import mpmath
import numpy as np
import pytest
from scipy import stats

from bayesdp.privacy import gaussian_delta
from bayesdp.privacy.losses import (
    NO_PROTECTION,
    ZCDP,
    ApproximateDP,
    GaussianDP,
    Loss,
    LossAt,
    PureDP,
    SeveralLosses,
    stated_loss,
)


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    """The delta of two laws at an epsilon, by its definition."""
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def extreme_pair(epsilon: float, delta: float) -> tuple[np.ndarray, np.ndarray]:
    """Two laws on four points that are (epsilon, delta)-close and no closer (Kairouz, Oh and Viswanath, 2015)."""
    high, low = math.exp(epsilon) / (1.0 + math.exp(epsilon)), 1.0 / (1.0 + math.exp(epsilon))
    p = np.array([delta, (1.0 - delta) * high, (1.0 - delta) * low, 0.0])
    return p, p[::-1]


GRID = list(itertools.product((0.0, 0.1, 1.0, 4.0), (0.0, 1e-6, 0.05, 0.4)))


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_the_epsilon_at_a_larger_delta_is_that_of_the_extreme_pair(epsilon: float, delta: float) -> None:
    p, q = extreme_pair(epsilon, delta)
    own = ApproximateDP(epsilon, delta)
    for asked in np.linspace(0.0, epsilon, 6)[1:-1] if epsilon else ():
        there = hockey_stick(p, q, float(asked))
        assert own.at(there).epsilon == pytest.approx(float(asked), rel=1e-9)
        assert own.implies(ApproximateDP(float(asked), there + 1e-12))
        assert not own.implies(ApproximateDP(float(asked), there - 1e-12))
    assert own.implies(ApproximateDP(epsilon + 1.0, delta))
    # From the delta on at which nothing can be told apart, epsilon is 0.
    least = max(hockey_stick(p, q, 0.0), 1e-9)
    assert own.at(min(least + 0.05, 0.99)).epsilon == 0.0


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 2.0, 8.0, 30.0, 900.0])
def test_the_mu_of_pure_epsilon_is_the_least_that_covers_it(epsilon: float) -> None:
    mu = PureDP(epsilon).to("gdp")["mu"]
    with mpmath.workdps(400):
        share = 1 / (1 + mpmath.exp(epsilon))
        assert mpmath.ncdf(-mpmath.mpf(mu) / 2) == pytest.approx(share, rel=1e-9)
    if epsilon <= 30.0:
        p, q = extreme_pair(epsilon, 0.0)
        for asked in np.linspace(0.0, epsilon, 9)[:-1]:
            assert hockey_stick(p, q, float(asked)) <= gaussian_delta(float(asked), 1.0, mu) * (1 + 1e-9) + 1e-15
    # A smaller mu does not cover it: nothing is covered at the level where the two functions meet.
    if epsilon <= 8.0:
        level = stats.norm.cdf(-mu / 2)
        for smaller in (0.999 * mu, 0.9 * mu):
            assert stats.norm.cdf(stats.norm.isf(level) - smaller) > level


def test_mu_and_rho_of_normal_noise_by_quadrature() -> None:
    z = np.linspace(-40.0, 40.0, 400_001)
    step = z[1] - z[0]
    for mu in (0.1, 1.0, 3.0):
        p, q = stats.norm.pdf(z), stats.norm.pdf(z, mu)
        for epsilon in (0.0, 0.3, 2.0):
            delta = hockey_stick(p, q, epsilon) * step
            assert GaussianDP(mu).at(delta)["epsilon"] == pytest.approx(epsilon, abs=1e-6)
        rho = GaussianDP(mu).to("zcdp")["rho"]
        for alpha in (1.5, 4.0):
            log_ratio = stats.norm.logpdf(z) * alpha + stats.norm.logpdf(z, mu) * (1 - alpha)
            renyi = math.log(np.exp(log_ratio).sum() * step) / (alpha - 1)
            assert renyi == pytest.approx(rho * alpha, rel=1e-7)


def products(pairs: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    p, q = np.ones(1), np.ones(1)
    for one, two in pairs:
        p, q = np.outer(p, one).ravel(), np.outer(q, two).ravel()
    return p, q


def test_composition_covers_two_releases_and_is_the_sum() -> None:
    for (e1, d1), (e2, d2) in itertools.product([(1.0, 0.0), (0.5, 0.01), (2.0, 0.3)], repeat=2):
        one: Loss = PureDP(e1) if d1 == 0.0 else ApproximateDP(e1, d1)
        two: Loss = PureDP(e2) if d2 == 0.0 else ApproximateDP(e2, d2)
        both = one.compose(two)
        assert both.parameters["epsilon"] == e1 + e2
        assert both.parameters.get("delta", 0.0) == d1 + d2
        assert type(both) is (PureDP if d1 == d2 == 0.0 else ApproximateDP)
        p, q = products([extreme_pair(e1, d1), extreme_pair(e2, d2)])
        assert hockey_stick(p, q, e1 + e2) <= d1 + d2 + 1e-12
    assert ZCDP(0.5).compose(ZCDP(0.25)) == ZCDP(0.75)
    assert GaussianDP(3.0).compose(GaussianDP(4.0)) == GaussianDP(5.0)
    assert ApproximateDP(1.0, 0.7).compose(ApproximateDP(1.0, 0.6)).says_nothing


def test_definitions_that_do_not_add_up_are_refused_with_the_way_out() -> None:
    mixed = [PureDP(1.0), ZCDP(0.1), GaussianDP(1.0)]
    for one, two in itertools.permutations(mixed, 2):
        with pytest.raises(ValueError, match=r"can be added to .* convert one of the two first"):
            one.compose(two)
    with pytest.raises(ValueError, match="got zero-concentrated"):
        ApproximateDP(1.0, 0.1).compose(ZCDP(0.1))
    assert PureDP(1.0).implies(ZCDP(0.5))
    assert not PureDP(1.0).implies(ZCDP(0.499))
    assert not ZCDP(0.1).implies(GaussianDP(5.0))
    with pytest.raises(ValueError, match="and Gaussian differential privacy does not"):
        ZCDP(0.1).to("gdp")
    with pytest.raises(ValueError, match="approximate differential privacy follows at a delta only: use its method at"):
        GaussianDP(1.0).to("approximate")
    assert not ApproximateDP(1.0, 0.1).implies(PureDP(5.0))
    assert ApproximateDP(1.0, 0.0).implies(PureDP(1.0))
    with pytest.raises(ValueError, match=r"delta must be at least that of the loss, 0\.1, got 0\.01"):
        ApproximateDP(1.0, 0.1).at(0.01)


def test_groups_by_the_definition() -> None:
    for epsilon, delta, k in itertools.product((0.0, 0.01, 1.0, 3.0), (0.0, 1e-9, 1e-3), (1, 2, 3, 6)):
        expected = delta * math.fsum(math.exp(j * epsilon) for j in range(k))
        found = ApproximateDP(epsilon, delta).group(k)
        assert (found.epsilon, found.delta) == (k * epsilon, pytest.approx(min(expected, 1.0), rel=1e-12))
    assert (PureDP(0.5).group(3), ZCDP(0.5).group(3), GaussianDP(0.5).group(3)) == (
        PureDP(1.5),
        ZCDP(4.5),
        GaussianDP(1.5),
    )
    for own in (PureDP(1.0), ZCDP(1.0), GaussianDP(1.0), ApproximateDP(1.0, 0.1)):
        with pytest.raises(ValueError, match="k must be"):
            own.group(0)


@pytest.mark.parametrize(
    "own", [ApproximateDP(200.0, 1e-6).group(6), ApproximateDP(1e6, 1e-300).group(2), ApproximateDP(4.0, 1.48731)]
)
def test_a_delta_of_one_is_said_in_words_and_nothing_overflows(own: ApproximateDP) -> None:
    assert own.says_nothing
    assert str(own) == NO_PROTECTION
    assert PureDP(1e9).implies(own)


def test_what_implies_what() -> None:
    order = [PureDP(0.5), PureDP(1.0), PureDP(1.5)]
    assert [[a.implies(b) for b in order] for a in order] == [[True] * 3, [False, True, True], [False, False, True]]
    assert not ZCDP(0.2).implies(ZCDP(0.1))
    assert GaussianDP(0.2).implies(ZCDP(0.02000001))
    assert not GaussianDP(0.2).implies(ZCDP(0.0199))
    assert not ZCDP(1e-9).implies(PureDP(5.0))
    assert ZCDP(0.0).implies(PureDP(0.0))
    assert not ApproximateDP(1.0, 1e-9).implies(PureDP(50.0))
    # Epsilon and delta cross: neither implies the other.
    one, two = ApproximateDP(1.0, 1e-6), ApproximateDP(0.5, 1e-2)
    assert not one.implies(two)
    assert not two.implies(one)
    for epsilon, delta in GRID:
        for asked in (0.0, 0.05, 0.9, 3.0):
            p, q = extreme_pair(epsilon, delta)
            least = hockey_stick(p, q, asked)
            assert ApproximateDP(epsilon, delta).implies(ApproximateDP(asked, least + 1e-9))
            if least > 1e-8:
                assert not ApproximateDP(epsilon, delta).implies(ApproximateDP(asked, least - 1e-9))


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
@pytest.mark.parametrize("make", [PureDP, ZCDP, GaussianDP, lambda x: ApproximateDP(1.0, x)])
def test_bad_numbers_are_named(make: type[Loss], bad: float) -> None:
    with pytest.raises(ValueError, match=r"(epsilon|rho|mu|delta) must be"):
        make(bad)  # type: ignore[call-arg]


def test_values_are_equal_hashable_and_pickled() -> None:
    for own in (PureDP(1.0), ApproximateDP(1.0, 0.1), ZCDP(1.0), GaussianDP(1.0)):
        assert pickle.loads(pickle.dumps(own)) == own
        assert {own: 1}[type(own)(**own.parameters)] == 1
    assert PureDP(1) == PureDP(1.0)
    assert len({PureDP(1.0), ZCDP(1.0), GaussianDP(1.0)}) == 3


def test_a_loss_reads_as_a_mapping_of_its_parameters() -> None:
    own = ApproximateDP(1.0, 1e-6)
    assert (own["epsilon"], own.get("rho"), list(own), {**own}) == (1.0, None, ["epsilon", "delta"], own.parameters)
    assert own == {"epsilon": 1.0, "delta": 1e-6}
    assert own != PureDP(1.0) != ZCDP(1.0)
    assert {own: "x"}[ApproximateDP(1.0, 1e-6)] == "x"
    with pytest.raises(TypeError):
        own["epsilon"] = 2.0  # type: ignore[index]
    with pytest.raises(KeyError):
        own["rho"]


def test_pure_is_approximate_with_a_delta_of_nothing() -> None:
    assert PureDP(1.0).implies(ApproximateDP(1.0, 0.0))
    assert PureDP(1.0).at(0.1) == ApproximateDP(1.0, 0.0).at(0.1)


ROW = SeveralLosses((ZCDP(0.5), GaussianDP(1.0), GaussianDP(1.0).at(1e-6)))
"""Normal noise one standard deviation apart."""


def test_several_losses_are_each_stated_and_all_true() -> None:
    assert stated_loss(dict(ROW)) == ROW == stated_loss(ROW)
    assert [ROW.stated(kind) for kind in ("zcdp", "gdp", "approximate")] == list(ROW.parts)
    assert list(ROW) == ["rho", "mu", "epsilon", "delta"]
    assert ROW.group(2) == {**ZCDP(2.0), **GaussianDP(2.0), **ROW.parts[2].group(2)}
    assert ROW.compose(GaussianDP(1.0)) == GaussianDP(math.sqrt(2.0)) == GaussianDP(1.0).compose(ROW)
    assert ROW.compose(ROW)["rho"] == 1.0
    assert ROW.at(1e-3) == GaussianDP(1.0).at(1e-3)  # mu says most at every delta
    assert ROW.implies(GaussianDP(1.0))
    assert ROW.implies(ROW)
    assert not ROW.implies(SeveralLosses((ZCDP(0.5), GaussianDP(0.9))))
    assert GaussianDP(1.0).implies(SeveralLosses((ZCDP(0.5), ApproximateDP(5.0, 1e-6))))
    assert not ZCDP(0.5).implies(ROW)  # rho gives no mu
    assert pickle.loads(pickle.dumps(ROW)) == ROW
    with pytest.raises(ValueError, match="must be one that follows"):
        ROW.to("pure")
    with pytest.raises(ValueError, match="stated by one of the definitions"):
        ROW.compose(PureDP(1.0))
    with pytest.raises(ValueError, match="a loss by several definitions"):
        PureDP(1.0).compose(ROW)
    with pytest.raises(ValueError, match="by different definitions"):
        SeveralLosses((PureDP(1.0), ApproximateDP(1.0, 0.1)))


def test_several_losses_of_which_one_says_nothing_print_the_other() -> None:
    assert str(SeveralLosses((ZCDP(0.5), ApproximateDP(3.0, 1.0)))) == "rho = 0.5"
    assert not SeveralLosses((ZCDP(0.5), ApproximateDP(3.0, 1.0))).says_nothing


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"delta": 0.1}, ValueError, "must state delta only with epsilon, got delta"),
        ({"delta": 0.1, "rho": 1.0}, ValueError, "must state delta only with epsilon, got delta, rho"),
        ({"sensitivity": 1.0}, ValueError, "unknown names 'sensitivity'; valid names are epsilon, delta, rho, mu"),
        ({}, TypeError, "must map names"),
        ([1.0], TypeError, "must map names"),
        ({"rho": -1.0}, ValueError, r"x\['rho'\] must be a finite number of at least 0"),
    ],
)
def test_what_states_no_loss_is_refused(given: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        stated_loss(given, "x")


def test_a_loss_at_a_size_is_the_mapping_of_files() -> None:
    assert dict(LossAt.of({"rho": 0.5, "sensitivity": 2.0}, "x")) == {"rho": 0.5, "sensitivity": 2.0}
    assert dict(LossAt.of(ZCDP(0.5), "x")) == {"rho": 0.5}
    assert (LossAt(ZCDP(0.5)).size, len(LossAt(ROW, 2.0))) == (1.0, 5)
    assert hash(LossAt(ZCDP(0.5), 2.0)) == hash(LossAt.of({"rho": 0.5, "sensitivity": 2.0}, "x"))
    with pytest.raises(ValueError, match="sensitivity must be"):
        LossAt(ZCDP(0.5), -1.0)
