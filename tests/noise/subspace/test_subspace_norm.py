"""Noise of the l1, l2 and l-infinity norm on a subspace: volumes by directions, draws by the law of their norm."""

import math

import numpy as np
import pytest
from scipy import stats

from bayesdp.invariants import Invariants
from bayesdp.noise import SubspaceNorm
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.lattices.polytopes.examples import both_margins
from tests.refusals import refused

SPACES = {
    "total": Invariants(Totals({"cell": range(4)})),
    "two totals": Invariants(Totals({"cell": range(5), "group": ("cell", list("pppqq"))}, "group")),
    "a free cell": Invariants(LinearQuery({"cell": range(3)}, [[1, 1, 0]], ["sum"])),
    "4 x 2": both_margins(4, 2),
    "3 x 3": both_margins(3, 3),
    "crossed": Invariants(LinearQuery({"cell": range(4)}, [[1, 1, 1, 0], [0, 1, 1, 1]], ["left", "right"])),
}
ORDER = {"l1": 1, "l2": 2, "linf": np.inf}


def lengths(tables, norm):
    return np.linalg.norm(tables.reshape(len(tables), -1), ord=ORDER[norm], axis=1)


@pytest.mark.parametrize("norm", ORDER)
@pytest.mark.parametrize("space", SPACES)
def test_normalisers_and_draws(space, norm):
    own, rng = SPACES[space], np.random.default_rng(7)
    law, n = SubspaceNorm(0.5, norm), own.dimension
    found, directions = law.log_normaliser(own), rng.normal(size=(40_000, n))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    # Under exp(-||v||) the norm is a gamma variable; the integral is (n - 1)! |S| E ||u||**-n, u uniform on the sphere S.
    powers = lengths(own.from_coordinates(directions), norm) ** -float(n)
    sphere = math.lgamma(n) + math.log(2 * math.pi ** (n / 2) / math.gamma(n / 2)) + n * math.log(2.0)
    # 36 tests of three kinds at 5 standard errors or its like: together below 1e-4.
    error = powers.std() / powers.mean() / math.sqrt(len(powers)) + 1e-12
    if found is None:
        assert (space, norm) == ("crossed", "l1")
    else:
        assert abs(math.expm1(found - sphere - math.log(powers.mean()))) < 5 * error
    draws = law.draw(rng, own.frame.shape, 6000, own)
    assert np.max(np.abs(own.matrix @ draws.reshape(6000, -1).T)) < 1e-9
    size = lengths(draws, norm)
    assert stats.kstest(size, stats.gamma(n, scale=2.0).cdf).pvalue > 1e-7
    # The direction: the mean of ||v||_2**2 / ||v||**2 is that of ||u||**-(n + 2) over that of ||u||**-n.
    ratio = np.sum(draws.reshape(6000, -1) ** 2, axis=1) / size**2
    heights = lengths(own.from_coordinates(directions), norm)
    expected = np.mean(heights ** (-n - 2.0)) / np.mean(heights ** -float(n))
    spread = math.hypot(ratio.std() / math.sqrt(6000), 3 * (heights ** (-n - 2.0)).std() / powers.mean() / 200)
    assert abs(ratio.mean() - expected) < 5 * spread + 1e-9
    variance = law.variance(own.frame.shape, own)
    if variance is None:
        assert (space, norm) in {("crossed", "l1"), ("a free cell", "l1")} or norm == "linf"
    else:
        error = (draws**2).std(axis=0) / math.sqrt(6000) + 1e-12
        assert np.max(np.abs((draws**2).mean(axis=0) - variance) / error) < 5.5  # about 100 cells: below 1e-5


def test_density_by_hand():
    own, move, start = both_margins(3, 3), np.array([[1, -1, 0], [-1, 1, 0], [0, 0, 0]]), np.arange(9).reshape(3, 3)
    for norm, size in [("l1", 4.0), ("l2", 2.0), ("linf", 1.0)]:
        law = SubspaceNorm(0.7, norm)
        top = law.logp(start, start, own)
        assert law.logp(start + 3 * move, start, own) - top == pytest.approx(-0.7 * 3 * size, rel=1e-12)
        assert law.logp(start + 1.0, start, own) == -math.inf
    found = SubspaceNorm(0.7, "l2").logp(start, start, own)  # l2 in four dimensions: 2 pi**2 * 3!, over 0.7**4
    assert found == pytest.approx(4 * math.log(0.7) - math.log(12 * math.pi**2), rel=1e-12)
    total = Invariants(Totals({"cell": range(8)}))  # cubes of more than five dimensions have a volume
    assert SubspaceNorm(1.0, "linf").log_normaliser(total) == pytest.approx(13.68161959381424, rel=1e-12)
    assert SubspaceNorm(1.0, "linf").log_normaliser(both_margins(2, 8)) == pytest.approx(16.107634725774048, rel=1e-12)


def test_large_tables_are_drawn_exactly_or_refused():
    for norm in ORDER:
        law = SubspaceNorm(1.0, norm)
        for own in (both_margins(3, 12), Invariants(Totals({"cell": range(400)}))):
            assert law.sampler(own).exact
            assert np.max(np.abs(own.matrix @ law.draw(None, own.frame.shape, 1, own).reshape(-1))) < 1e-8
    cube = {"a": range(5), "b": range(5), "c": range(5)}
    margins = Invariants(Margins(cube, ["a", "b"], ["b", "c"], ["a", "c"]))
    assert SubspaceNorm(1.0, "l2").sampler(margins).exact
    for norm in ("l1", "linf"):
        with pytest.raises(NotImplementedError, match=r"no exact sampler of .* is practical.*The l2 norm has one"):
            SubspaceNorm(1.0, norm).draw(None, (5, 5, 5), 1, margins)


EVERYTHING = Invariants(LinearQuery({"cell": range(2)}, [[1, 0], [0, 1]], ["first", "second"]))
test_bad_arguments_are_named = refused(
    (lambda: SubspaceNorm(0.0), "epsilon must be a finite number greater than 0"),
    (lambda: SubspaceNorm(1.0, "l3"), "norm must be one of 'l1', 'l2', 'linf', got 'l3'"),
    (lambda: SubspaceNorm(0.4, "linf").draw(None, (2,), 1, EVERYTHING), "nothing is left free for noise"),
    error=ValueError,
)
