"""K-norm noise of a larger ball: the same promise as `KNorm` over all neighbours, less error, and files that cannot lie."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest
from scipy.optimize import minimize

import bayesdp as bdp
from bayesdp.mechanisms import ExtendedLaplace, KNorm, Mechanism, ProjectedLaplace, WideKNorm
from bayesdp.polytopes import SymmetricHull
from bayesdp.polytopes.sums import NormSum, least_sum
from bayesdp.queries import LinearQuery, Margins, Totals

LINE = {"cell": range(4)}
TOTAL = Totals(LINE)
UNEQUAL = LinearQuery(LINE, [[40, 0, 40, 0], [1, 1, 0, 0], [0, 1, 0, 2]], list("abc"))
COUNTS = np.array([3, 0, 5, 2])


@pytest.fixture(scope="module")
def wide() -> WideKNorm:
    return WideKNorm(TOTAL, 0.7, query=UNEQUAL)


def test_the_largest_log_ratio_over_neighbours_is_epsilon(wide: WideKNorm) -> None:
    relations, law, zero = wide.answer_invariants, wide.law, np.zeros(3)
    units = np.eye(4)
    changes = [UNEQUAL.matrix @ (units[i] - units[j]) for i, j in permutations(range(4), 2)]
    points = [*(60 * change for change in changes), *wide.noise(np.random.default_rng(2), 20)]
    ratios = [law.logp(p, zero, relations) - law.logp(p, c, relations) for p in points for c in changes]
    assert len(wide.cuts) > 1
    assert max(ratios) == pytest.approx(0.7, rel=1e-9)
    assert wide.guarantee.pairs[0].loss == pytest.approx({"epsilon": 0.7})
    assert wide.guarantee.certified
    assert not wide._guarantee("mcmc").certified


def test_less_error_than_all_others_where_the_hull_is_long() -> None:
    """The case of docs/CORRECTIONS.md: 16 cells, an answer that counts each a hundredfold, and four small ones.

    One coordinate of scale 100 / u and a cube of four with the rate 1 - u: 2 (100 / u)**2 + 5 * 6 * 4 / 3 / (1 - u)**2.
    """
    cells = {"cell": range(16)}
    rows = np.vstack([np.full(16, 100), np.array(list(product([-1, 1], repeat=4))).T])
    query, free = LinearQuery(cells, rows, list("habcd")), bdp.Invariants(frame=cells)
    errors = {
        kind.name: kind(free, 1.0, query=query, neighbours="add-remove").error
        for kind in (WideKNorm, KNorm, ExtendedLaplace, ProjectedLaplace)
    }
    shares = np.linspace(0.5, 0.9999, 200_001)
    expected = np.min(2 * (100 / shares) ** 2 + 40 / (1 - shares) ** 2)
    assert errors.pop("wide-k-norm") == pytest.approx(expected, rel=1e-8)
    assert expected == pytest.approx(28_552, abs=0.5)
    assert min(errors.values()) > 3.7 * expected


def _lessened(found: NormSum, vertices: np.ndarray) -> float:
    """Error with the best weights of the same pieces, all at once, as a share of the stated one."""
    norms = np.array([own.hull.gauge(vertices @ own.basis) for own in found.pieces]).T
    errors = np.array([np.trace(own.hull.second_moment) for own in found.pieces])
    weights = np.array([own.weight for own in found.pieces])
    assert np.sum(errors / weights**2) == pytest.approx(found.error, rel=1e-9)
    best = minimize(
        lambda logs: np.log(np.sum(errors / (weights * np.exp(logs)) ** 2) / found.error),
        np.zeros(len(errors)),
        constraints={"type": "ineq", "fun": lambda logs: 1.0 - norms @ (weights * np.exp(logs))},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return float(np.exp(best.fun))


def test_never_worse_than_the_hull_and_weights_of_two_pieces_are_the_best() -> None:
    """Random vertices; another optimiser for the weights. With three or more pieces it may find a little less, as is said."""
    rng = np.random.default_rng(0)
    kept: dict[int, list[float]] = {2: [], 3: [], 4: []}
    for _ in range(15):
        for scales in ([30.0, 1.0, 0.9], [8000.0, 400.0, 20.0, 1.0]):
            vertices = rng.normal(size=(8, len(scales))) * scales
            moment = SymmetricHull(vertices).second_moment
            found = least_sum(vertices)
            assert found is not None
            assert moment is not None
            assert found.error <= np.trace(moment) * (1 + 1e-9)
            if len(found.pieces) > 1:
                kept[len(found.pieces)].append(_lessened(found, vertices))
    assert min(len(shares) for shares in kept.values()) > 1
    assert min(kept[2]) > 1 - 1e-6
    assert min(kept[3] + kept[4]) > 0.99
    assert min(kept[3] + kept[4]) < 1 - 5e-4


def test_noise_has_the_stated_error_and_reads_back(wide: WideKNorm, tmp_path) -> None:
    """20,000 draws: the mean square is within 5 standard errors, a false alarm in 10**6."""
    squares = np.sum(wide.noise(np.random.default_rng(5), 20_000) ** 2, axis=1)
    assert abs(squares.mean() - wide.error) < 5 * squares.std() / np.sqrt(len(squares))
    narrow = KNorm(TOTAL, 0.7, query=UNEQUAL).error
    assert narrow is not None
    assert wide.error < narrow
    release = wide.release(COUNTS, rng=1)
    release.to_netcdf(tmp_path / "release.nc")
    again = bdp.Release.from_netcdf(tmp_path / "release.nc")
    assert again == release
    assert again.measurements[0].law == wide.law
    assert Mechanism.from_description(wide.describe(), wide.frame) == wide
    assert np.isfinite(wide.logp(release.measurements[0].values, COUNTS))


def test_a_release_that_claims_more_protection_is_refused(wide: WideKNorm) -> None:
    release = wide.release(COUNTS, rng=1)
    weaker = release.measurements[0].law.at(1.4)
    with pytest.raises(ValueError, match="the mechanism 'wide-k-norm' has noise of the law k-norm"):
        replace(release, measurements=(replace(release.measurements[0], law=weaker),)).check_stated()
    with pytest.raises(ValueError, match="epsilon"):
        replace(release, mechanism=dict(release.mechanism) | {"epsilon": 0.1}).check_stated()


def test_it_is_the_k_norm_mechanism_where_all_axes_are_equally_long() -> None:
    table = {"row": range(3), "column": range(3)}
    both = Margins(table, ["row"], ["column"])
    assert WideKNorm(both, 0.5).cuts == (4,)
    assert WideKNorm(both, 0.5).law == KNorm(both, 0.5).law
    assert WideKNorm(both, 0.5).error == pytest.approx(KNorm(both, 0.5).error)


def test_what_cannot_be_cut_is_refused_before_anything_is_drawn() -> None:
    with pytest.raises(NotImplementedError, match="query leaves 11 dimensions for the noise"):
        WideKNorm(Totals({"cell": range(12)}), 1.0)
    with pytest.raises(ValueError, match="epsilon must be"):
        WideKNorm(TOTAL, -1.0, query=UNEQUAL)


def test_exact_where_k_norm_noise_comes_from_a_chain() -> None:
    """Ten dimensions, in two pieces of five: half of the cells count fiftyfold."""
    cells = {"cell": range(10)}
    rows = np.vstack([np.eye(10, dtype=int)[:5] * 50, np.eye(10, dtype=int)[5:]])
    query, free = LinearQuery(cells, rows, [f"q{i}" for i in range(10)]), bdp.Invariants(frame=cells)
    mechanism = WideKNorm(free, 1.0, query=query, neighbours="add-remove")
    assert KNorm(free, 1.0, query=query, neighbours="add-remove").error is None
    assert mechanism.cuts == (5, 5)
    assert mechanism.error == pytest.approx(2 * (5 * 50**2 + 5))
    draws = mechanism.noise(np.random.default_rng(3), 5000).reshape(5000, 10)
    assert abs(np.mean(np.abs(draws[:, :5])) - 50) < 5 * 50 / np.sqrt(
        25_000
    )  # Laplace of scale 50, five standard errors
    assert abs(np.mean(np.abs(draws[:, 5:])) - 1) < 5 / np.sqrt(25_000)
