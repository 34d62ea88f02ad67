"""Losses: what implies what, what adds up, how they grow for groups and with the distance."""

import itertools
import json
import math
import pickle
from dataclasses import replace

import mpmath
import numpy as np
import pytest

import bayesdp as bdp
from bayesdp import privacy
from bayesdp.privacy.caveats import Smooth
from bayesdp.privacy.guarantee import GROWTH
from bayesdp.privacy.losses import ZCDP, ApproximateDP, GaussianDP, LossAt, PureDP, SeveralLosses, stated_loss
from bayesdp.queries import Margins, Totals
from tests.comparison.enumeration import lattice_points
from tests.lattices.oracles import law_on
from tests.refusals import refused


def hockey_stick(p, q, epsilon):
    """The delta of two laws at an epsilon, by its definition."""
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def extreme_pair(epsilon, delta):
    """Two laws on four points that are (epsilon, delta)-close and no closer (Kairouz, Oh and Viswanath, 2015)."""
    high, low = math.exp(epsilon) / (1.0 + math.exp(epsilon)), 1.0 / (1.0 + math.exp(epsilon))
    p = np.array([delta, (1.0 - delta) * high, (1.0 - delta) * low, 0.0])
    return p, p[::-1]


GRID = list(itertools.product((0.0, 0.1, 1.0, 4.0), (0.0, 1e-6, 0.05, 0.4)))


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_the_epsilon_at_a_larger_delta_is_that_of_the_extreme_pair(epsilon, delta):
    p, q = extreme_pair(epsilon, delta)
    own = ApproximateDP(epsilon, delta)
    for asked in np.linspace(0.0, epsilon, 6)[1:-1].tolist() if epsilon else ():
        there = hockey_stick(p, q, asked)
        assert own.at(there).epsilon == pytest.approx(asked, rel=1e-9)
        assert [own.implies(ApproximateDP(asked, there + room)) for room in (1e-12, -1e-12)] == [True, False]
    assert own.implies(ApproximateDP(epsilon + 1.0, delta))
    # From the delta on at which nothing can be told apart, epsilon is 0.
    least = max(hockey_stick(p, q, 0.0), 1e-9)
    assert own.at(min(least + 0.05, 0.99)).epsilon == 0.0


@pytest.mark.parametrize("epsilon", [0.01, 2.0, 30.0, 900.0])
def test_the_mu_of_pure_epsilon_is_the_least_that_covers_it(epsilon):
    mu = PureDP(epsilon).to("gdp")["mu"]
    with mpmath.workdps(400):
        assert mpmath.ncdf(-mpmath.mpf(mu) / 2) == pytest.approx(1 / (1 + mpmath.exp(epsilon)), rel=1e-9)
    if epsilon <= 30.0:
        p, q = extreme_pair(epsilon, 0.0)
        for asked in np.linspace(0.0, epsilon, 9)[:-1].tolist():
            assert hockey_stick(p, q, asked) <= privacy.gaussian_delta(asked, 1.0, mu) * (1 + 1e-9) + 1e-15


def test_composition_covers_two_releases_and_is_the_sum_of_losses_of_one_definition():
    for (e1, d1), (e2, d2) in itertools.product([(1.0, 0.0), (0.5, 0.01), (2.0, 0.3)], repeat=2):
        one, two = (ApproximateDP(e, d) if d else PureDP(e) for e, d in ((e1, d1), (e2, d2)))
        assert one.compose(two) == (ApproximateDP(e1 + e2, d1 + d2) if d1 or d2 else PureDP(e1 + e2))
        (p1, q1), (p2, q2) = extreme_pair(e1, d1), extreme_pair(e2, d2)
        assert hockey_stick(np.outer(p1, p2), np.outer(q1, q2), e1 + e2) <= d1 + d2 + 1e-12
    assert ZCDP(0.5).compose(ZCDP(0.25)) == ZCDP(0.75)
    assert GaussianDP(3.0).compose(GaussianDP(4.0)) == GaussianDP(5.0)
    assert ApproximateDP(1.0, 0.7).compose(ApproximateDP(1.0, 0.6)).says_nothing
    for one, two in itertools.permutations([PureDP(1.0), ZCDP(0.1), GaussianDP(1.0)], 2):
        with pytest.raises(ValueError, match=r"can be added to .* convert one of the two first"):
            one.compose(two)


test_what_is_no_loss_or_does_not_follow_is_refused = refused(
    (lambda: ApproximateDP(1.0, 0.1).compose(ZCDP(0.1)), "got zero-concentrated"),
    (lambda: ZCDP(0.1).to("gdp"), "and Gaussian differential privacy does not"),
    (lambda: GaussianDP(1.0).to("approximate"), "follows at a delta only: use its method at"),
    (lambda: ApproximateDP(1.0, 0.1).at(0.01), r"delta must be at least that of the loss, 0\.1, got 0\.01"),
    (lambda: ROW.to("pure"), "must be one that follows"),
    (lambda: ROW.compose(PureDP(1.0)), "stated by one of the definitions"),
    (lambda: PureDP(1.0).compose(ROW), "a loss by several definitions"),
    (lambda: SeveralLosses((PureDP(1.0), ApproximateDP(1.0, 0.1))), "by different definitions"),
    (lambda: PureDP(-1.0), "epsilon must be"),
    (lambda: ZCDP(math.nan), "rho must be"),
    (lambda: GaussianDP(math.inf), "mu must be"),
    (lambda: ApproximateDP(1.0, -0.1), "delta must be"),
    (lambda: ApproximateDP(1.0, 0.1).group(0), "k must be"),
    (lambda: ZCDP(1.0).group(0), "k must be"),
    (lambda: privacy.group_loss({"mu": 1.0}, 0), "steps must be an integer greater than 0"),
    (lambda: privacy.smooth_loss(2.0, 0.0), "epsilon"),
    (lambda: privacy.smooth_loss(2.0, 1.0, 1.0), "delta"),
    (lambda: privacy.smooth_loss(-1.0, 1.0), "distance"),
    (lambda: LossAt(ZCDP(0.5), -1.0), "sensitivity must be"),
    (lambda: stated_loss({"delta": 0.1, "rho": 1.0}, "x"), "must state delta only with epsilon, got delta, rho"),
    (lambda: stated_loss({"sensitivity": 1.0}, "x"), "unknown names 'sensitivity'; valid names are epsilon, delta"),
    (lambda: stated_loss({}, "x"), "must map names"),
    (lambda: stated_loss([1.0], "x"), "must map names"),
    (lambda: stated_loss({"rho": -1.0}, "x"), r"x\['rho'\] must be a finite number of at least 0"),
)


def test_what_implies_what():
    order = [PureDP(0.5), PureDP(1.0), PureDP(1.5)]
    assert [[a.implies(b) for b in order] for a in order] == [[True] * 3, [False, True, True], [False, False, True]]
    for one, other, implied in (
        (PureDP(1.0), ZCDP(0.5), True),
        (PureDP(1.0), ZCDP(0.499), False),
        (ZCDP(0.2), ZCDP(0.1), False),
        (ZCDP(0.1), GaussianDP(5.0), False),
        (GaussianDP(0.2), ZCDP(0.02000001), True),
        (GaussianDP(0.2), ZCDP(0.0199), False),
        (ZCDP(1e-9), PureDP(5.0), False),
        (ZCDP(0.0), PureDP(0.0), True),
        (PureDP(1.0), ApproximateDP(1.0, 0.0), True),  # pure is approximate with a delta of nothing
        (ApproximateDP(1.0, 0.0), PureDP(1.0), True),
        (ApproximateDP(1.0, 1e-9), PureDP(50.0), False),
        (ApproximateDP(1.0, 1e-6), ApproximateDP(0.5, 1e-2), False),  # epsilon and delta cross: neither
        (ApproximateDP(0.5, 1e-2), ApproximateDP(1.0, 1e-6), False),
    ):
        assert one.implies(other) == implied, (one, other)
    assert GaussianDP(1.3).at(privacy.gaussian_delta(0.3, 1.0, 1.3))["epsilon"] == pytest.approx(0.3, abs=1e-9)
    assert PureDP(1.0).at(0.1) == ApproximateDP(1.0, 0.0).at(0.1)


def test_losses_read_as_mappings_and_at_a_size_as_those_of_files():
    own = ApproximateDP(1.0, 1e-6)
    assert (own["epsilon"], own.get("rho"), list(own), {**own}) == (1.0, None, ["epsilon", "delta"], own.parameters)
    assert own == {"epsilon": 1.0, "delta": 1e-6}
    assert own != PureDP(1.0) != ZCDP(1.0)
    assert {own: "x"}[pickle.loads(pickle.dumps(own))] == "x"
    assert dict(LossAt.of({"rho": 0.5, "sensitivity": 2.0}, "x")) == {"rho": 0.5, "sensitivity": 2.0}
    assert dict(LossAt.of(ZCDP(0.5), "x")) == {"rho": 0.5}
    assert (LossAt(ZCDP(0.5)).size, len(LossAt(ROW, 2.0))) == (1.0, 5)
    assert hash(LossAt(ZCDP(0.5), 2.0)) == hash(LossAt.of({"rho": 0.5, "sensitivity": 2.0}, "x"))


ROW = SeveralLosses((ZCDP(0.5), GaussianDP(1.0), GaussianDP(1.0).at(1e-6)))
"""Normal noise one standard deviation apart."""


def test_several_losses_are_each_stated_and_all_true():
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
    # Of two of which one says nothing the other is printed.
    half = SeveralLosses((ZCDP(0.5), ApproximateDP(3.0, 1.0)))
    assert (str(half), half.says_nothing) == ("rho = 0.5", False)


@pytest.mark.parametrize(
    ("loss", "steps"),
    [
        ({"epsilon": 1.0, "delta": 0.2}, 3),  # 2.2
        ({"epsilon": 200.0, "delta": 1e-6}, 6),  # exp(1200) is no float
        ({"epsilon": 1e6, "delta": 1e-300}, 2),
        ({"epsilon": 0.0, "delta": 0.5}, 2),
    ],
)
def test_a_delta_above_one_is_one_and_says_nothing(loss, steps):
    found = privacy.group_loss(loss, steps)
    assert found == {"epsilon": steps * loss["epsilon"], "delta": 1.0}
    assert stated_loss(found).says_nothing
    assert str(stated_loss(found)) == privacy.losses.NO_PROTECTION
    assert PureDP(1e9).implies(stated_loss(found))
    stated = privacy.Guarantee("approximate", loss, "l1", (privacy.PairLoss("some pair", 4.0, "l1", found),))
    words = "some pair; l1 distance 4: no protection by this bound, because its delta is 1 or more"
    assert words in " ".join(str(stated).split())


def test_every_guarantee_states_its_law_of_growth():
    for kind, loss, words in (
        ("pure", {"epsilon": 0.1}, "k times epsilon."),
        ("zcdp", {"rho": 0.1}, "k squared times rho."),
        ("gdp", {"mu": 0.1}, "k times mu."),
        ("approximate", {"epsilon": 1.0, "delta": 1e-6}, "delta times (exp(k epsilon) - 1) / (exp(epsilon) - 1)."),
    ):
        text = " ".join(str(privacy.Guarantee(kind, loss, "l2")).split())
        assert GROWTH[kind].endswith(words)
        parts = GROWTH[kind], "Loss at l2 distance 1 between two tables: ", "per unit"
        assert [own in text for own in parts] == [True, True, False]


THREE = Totals({"cell": list("abc")})
TABLE = Margins({"row": list("abc"), "column": list("xyz")}, ["row"], ["column"])


def delta_at(points, mass, u, epsilon):
    moved = {tuple(p): m for p, m in zip((points + u).tolist(), mass, strict=True)}
    pairs = ((m, moved.get(tuple(p), 0.0)) for p, m in zip(points.tolist(), mass, strict=True))
    return sum(max(m - math.exp(epsilon) * other, 0.0) for m, other in pairs)


def test_groups_by_the_definition_and_distances_like_them():
    for step, k in itertools.product(({"epsilon": 0.5}, {"epsilon": 0.5, "delta": 1e-5}), (1, 2, 3, 7)):
        assert dict(privacy.smooth_loss(k, **step)) == pytest.approx(privacy.group_loss(step, k))
        assert privacy.smooth_loss(0.0, **step)["epsilon"] == 0.0
    assert privacy.smooth_loss(1e6, 1.0, 0.5)["delta"] == 1.0
    loss = privacy.smooth_loss(1.5, 2.0, 0.1)
    assert loss["delta"] == pytest.approx(0.1 * (math.exp(3.0) - 1.0) / (math.exp(2.0) - 1.0), rel=1e-12)
    # At distance 2 the delta would be 0.5 (e + 1).
    told = str(Smooth(1.0, 0.5, "l2")).split("at most, ")[1].split(". ")[1].split("; ")
    assert [own.split(":")[0] for own in told] == ["d = 1", "d = 2"]
    for epsilon, delta, k in itertools.product((0.0, 0.01, 3.0), (0.0, 1e-9, 1e-3), (1, 2, 6)):
        expected = min(delta * math.fsum(math.exp(j * epsilon) for j in range(k)), 1.0)
        found = ApproximateDP(epsilon, delta).group(k)
        assert found == {"epsilon": k * epsilon, "delta": pytest.approx(expected, rel=1e-12)}
        assert privacy.group_loss({"epsilon": epsilon, "delta": delta}, k) == found
    singles = [PureDP(0.5), ZCDP(0.5), GaussianDP(0.5)]
    assert [own.group(3) for own in singles] == [PureDP(1.5), ZCDP(4.5), GaussianDP(1.5)]


@pytest.mark.parametrize(("epsilon", "sigma"), [(0.5, 2.0), (2.0, 1.0)])
def test_lattice_gaussians_are_smooth_at_every_distance(epsilon, sigma):
    """All differences up to 8 counts a cell, of three cells with a total."""
    delta = privacy.smooth_gaussian_delta(epsilon, sigma)
    invariants = bdp.Invariants(THREE)
    points = lattice_points(invariants.matrix.toarray(), math.ceil(9 * sigma) + 8)
    mass = law_on(points, "gaussian", sigma)
    for u in points[(np.abs(points).max(axis=1) <= 8) & (points[:, 0] > 0) & (points[:, 1] <= points[:, 2])][::3]:
        distance = float(np.linalg.norm(u))
        bound = privacy.smooth_loss(distance, epsilon, delta).get("delta", 0.0)
        assert delta_at(points, mass, u, epsilon * distance) <= bound * (1 + 1e-9) + 1e-14


def test_the_guarantee_prints_how_it_grows_and_files_may_not_claim_less():
    text = " ".join(str(bdp.LatticeLaplace(THREE, epsilon=0.25).guarantee).split())
    assert "d = 2: epsilon = 0.5; d = 4: epsilon = 1; d = 8: epsilon = 2; d = 16: epsilon = 4." in text
    mechanism = bdp.LatticeGaussian(THREE, epsilon=1.0, delta=1e-6)
    [own] = [caveat for caveat in mechanism.guarantee.caveats if isinstance(caveat, Smooth)]
    assert (own.epsilon, own.delta, own.norm) == (1.0, pytest.approx(1e-6, rel=1e-6), "l2")
    assert not [1 for c in bdp.LatticeGaussian(THREE, rho=0.5).guarantee.caveats if isinstance(c, Smooth)]
    release = bdp.LatticeLaplace(THREE, epsilon=0.5).release([3, 4, 5], rng=1)
    read = privacy.Guarantee.from_dict(json.loads(json.dumps(release.guarantee.to_dict())))
    assert [type(caveat) for caveat in read.caveats] == [type(caveat) for caveat in release.guarantee.caveats]
    replace(release, guarantee=read).check_stated()
    better = tuple(Smooth(0.1, 0.0, "l1") if isinstance(c, Smooth) else c for c in read.caveats)
    told = r"caveats: the guarantee states .*epsilon = 0\.1 .*but the mechanism .*epsilon = 0\.5 "
    with pytest.raises(ValueError, match=told):
        replace(release, guarantee=replace(read, caveats=better)).check_stated()


def test_rows_of_files_of_earlier_versions_are_read_and_smaller_losses_are_not():
    mechanism = bdp.LatticeGaussian(TABLE, epsilon=1.0, delta=1e-6)
    release = mechanism.release(np.full((3, 3), 5), rng=1)
    earlier = replace(release.guarantee, pairs=mechanism._earlier_rows())
    assert earlier.pairs[0].loss["epsilon"] > release.guarantee.pairs[0].loss["epsilon"]
    replace(release, guarantee=earlier).check_stated()
    row = release.guarantee.pairs[0]
    less = replace(row, loss={**dict(row.loss), "epsilon": 0.99 * row.loss["epsilon"]})
    with pytest.raises(ValueError, match="the guarantee states"):
        replace(release, guarantee=replace(release.guarantee, pairs=(less,))).check_stated()
    # A delta above one, as `compose` wrote it in version 0.1.
    row = {"relation": "a move", "size": 4.0, "norm": "l1", "loss": {"epsilon": 4.0, "delta": 1.48731}}
    description = privacy.Guarantee("approximate", {"epsilon": 2.0, "delta": 0.4}, "l1").to_dict()
    old = privacy.Guarantee.from_dict({**description, "pairs": [row]})
    assert "a move; l1 distance 4: no protection by this bound" in " ".join(str(old).split())
    assert "1.48731" not in str(old)


def test_the_smooth_delta_is_the_largest_over_all_squared_distances():
    """Over the first 3,000, from the definition; and where exponentials overflow or deltas underflow."""
    for epsilon, sigma in ((0.5, 2.0), (1.0, 3.0), (0.2, 4.0), (0.5, 10.0)):
        each = []
        for m in range(1, 3001):
            apart = epsilon * math.sqrt(m)
            each.append(privacy.rho_to_delta(m / (2 * sigma**2), apart) * math.expm1(epsilon) / math.expm1(apart))
        assert privacy.smooth_gaussian_delta(epsilon, sigma) == pytest.approx(max(each), rel=1e-12)
    # exp(epsilon) is no float here; distances 1 and sqrt(2) by the conversion of their rho, weights in logarithms.
    for epsilon, sigma in ((800.0, 0.01), (800.0, 0.03), (699.0, 0.03), (100.0, 0.1)):
        found = privacy.smooth_gaussian_delta(epsilon, sigma)
        for m in (1, 2, 3):
            own = privacy.rho_to_delta(m / (2 * sigma**2), epsilon * math.sqrt(m))
            assert found >= own * math.exp(epsilon * (1.0 - math.sqrt(m))) * (1 - 1e-9)
        assert sigma > 0.01 or found == 1.0  # rho = 5000 at epsilon = 800
    # It used to be 1 after 200,000 distances where deltas underflow. Against the Gaussian tail bound at each distance.
    for epsilon, sigma in ((1.0, 30.0), (0.5, 200.0), (0.02, 1e4)):
        found, least = privacy.smooth_gaussian_delta(epsilon, sigma), privacy.rho_to_delta(1 / (2 * sigma**2), epsilon)
        assert max(least, 1e-300) <= found <= max(1e-300, math.exp(-((epsilon * sigma - 0.5 / sigma) ** 2) / 2))
