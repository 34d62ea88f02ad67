"""The K-norm mechanism: its promise, by the exact log-likelihood over all neighbours, and what it publishes."""

from itertools import product

import numpy as np
import pytest

from bayesdp.invariants import Invariants
from bayesdp.mechanisms import ExtendedLaplace, KNorm, SemiKNorm
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.privacy.sensitivities.databases import neighbours_of
from tests.refusals import refused

TABLE = {"row": range(3), "column": range(3)}
BOTH = Margins(TABLE, ["row"], ["column"])
CASES = [
    (BOTH, None),
    (Totals(TABLE), Margins(TABLE, ["row"])),
    (Totals(TABLE), BOTH),
    (Totals({"cell": range(5)}), None),
]


@pytest.mark.parametrize("kind", ["substitution", "add-remove"])
@pytest.mark.parametrize(("invariants", "query"), CASES)
def test_the_largest_log_ratio_over_neighbours_is_epsilon(kind, invariants, query):
    mechanism = KNorm(invariants, 0.6, query=query, neighbours=kind)
    relations, law = mechanism.answer_invariants, mechanism.law
    shape, zero = relations.frame.shape, np.zeros(relations.frame.shape)
    asked = mechanism.released_query.matrix
    # The part of each neighbour's change that the noise has to hide.
    changes = [relations.project((asked @ u).reshape(shape)) for u in neighbours_of(mechanism.frame.size, kind)]
    noise = [*mechanism.noise(np.random.default_rng(1), 3).reshape(3, *shape), *50 * np.array(changes[::9])]
    tops = [(own, law.logp(own, zero, relations)) for own in map(relations.project, noise)]
    ratios = [top - law.logp(own, change, relations) for own, top in tops for change in changes]
    assert (max(ratios), min(ratios)) == pytest.approx((0.6, -0.6), rel=1e-9)
    first = mechanism.guarantee.pairs[0]
    assert (first.size, first.norm, first.loss) == (1.0, "K", {"epsilon": 0.6})


def test_noise_has_the_variance_of_the_law():
    mechanism = KNorm(Totals({"cell": range(4)}), 0.5)
    draws = mechanism.noise(np.random.default_rng(4), 4000)
    assert np.all(draws.sum(axis=1) == 0)
    squares = np.sum(draws**2, axis=1)
    assert mechanism.error == pytest.approx(4 * 7 * 3 / 5 / 0.25, rel=1e-9)
    assert KNorm(Totals({"cell": range(12)}), 0.5).error is None  # too many corners
    # 4.5 standard errors: below 1e-5.
    assert abs(squares.mean() - mechanism.error) < 4.5 * squares.std() / np.sqrt(4000)


def test_hit_and_run_is_never_passed_off_as_exact():
    # One record comes or goes among 40 cells with a fixed total: nothing exact is known.
    mechanism = KNorm(Totals({"cell": range(40)}), 1.0, neighbours="add-remove", sweeps=1)
    text = " ".join(str(mechanism.guarantee).split()).replace("hit- and", "hit-and")
    assert "target epsilon = 1 (approximate, 1 sweeps of hit-and-run" in text
    assert not mechanism.guarantee.certified
    with pytest.raises(NotImplementedError, match="no exact sampler is known"):
        mechanism.noise(np.random.default_rng(1), 1, "exact")


test_bad_arguments_are_named = refused(
    (lambda: KNorm(BOTH, -1.0), "epsilon must be a finite number greater than 0"),
    (lambda: KNorm(BOTH, 1.0, sweeps=0), "sweeps must be an integer greater than 0"),
    (lambda: KNorm(Invariants(None, TABLE), 1.0), "span 8 of the 9 dimensions .*add the total number of records"),
    (lambda: KNorm(BOTH, 1.0, query=Margins(TABLE, ["row"])), "the invariants determine every answer of the query"),
)  # fmt: skip


def test_the_smallest_ball_need_not_have_the_least_error():
    """Sixteen cells, one answer that counts each a hundredfold and four that add or subtract it: K is a box.

    A uniform point of a box with half sides h has the expected square sum(h**2) / 3, and the radius (n + 1)(n + 2).
    Simulated, 10,000 draws: the mean of their squares is within 5 standard errors, a false alarm in 10**6 each.
    """
    cells = {"cell": range(16)}
    rows = np.vstack([np.full(16, 100), np.array(list(product([-1, 1], repeat=4))).T])
    query, free = LinearQuery(cells, rows, list("habcd")), Invariants(frame=cells)
    smallest = KNorm(free, 1.0, query=query, neighbours="add-remove")
    larger = ExtendedLaplace(free, 1.0, query=query, neighbours="add-remove")
    assert smallest.error == pytest.approx(6 * 7 * (100**2 + 4) / 3, rel=1e-9)  # 140,056
    assert larger.error == pytest.approx(2 * 5 * (100 + 4) ** 2, rel=1e-12)  # 108,160
    for kind in (KNorm, SemiKNorm):
        assert "no promise of the least error" in " ".join(kind.__doc__.split())
    for mechanism in (smallest, larger):
        assert mechanism.guarantee.pairs[0].loss == {"epsilon": 1.0}  # the same promise
        squares = np.sum(mechanism.noise(np.random.default_rng(3), 10_000) ** 2, axis=1)
        assert abs(squares.mean() - mechanism.error) < 5 * squares.std() / np.sqrt(len(squares))
