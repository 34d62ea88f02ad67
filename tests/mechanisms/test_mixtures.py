"""One of several mechanisms with public probabilities: the choice published, or not (Gao et al., end of Section 2.3)."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

import bayesdp as bdp
from bayesdp.mechanisms import (
    DiscreteLaplace,
    ExtendedGaussian,
    ExtendedLaplace,
    KNorm,
    LatticeLaplace,
    Mechanism,
    MixedLaplace,
    PublishedChoice,
)
from bayesdp.queries import Margins, Totals

LINE = {"county": ["p", "q", "r"]}
TOTAL = Totals(LINE)
COUNTS = np.array([3, 1, 3])
EITHER = [ExtendedLaplace(TOTAL, 0.5), KNorm(TOTAL, 0.25), LatticeLaplace(TOTAL, 0.4)]


@pytest.mark.parametrize("neighbours", ["substitution", "add-remove"])
def test_the_stated_epsilon_is_the_largest_log_ratio_over_neighbours(neighbours: str) -> None:
    mechanism = MixedLaplace(TOTAL, [0.4, 2.0], [0.3, 0.7], neighbours=neighbours)
    relations, law, zero = mechanism.answer_invariants, mechanism.law, np.zeros(3)
    units = np.eye(3)
    moves = (
        [units[i] - units[j] for i, j in permutations(range(3), 2)]
        if neighbours == "substitution"
        else [*units, *-units]
    )
    changes = [relations.project(move) for move in moves]
    points = [zero, *changes, *mechanism.noise(np.random.default_rng(1), 50)]
    points = [relations.project(np.asarray(point)) for point in points]
    ratios = [law.logp(p, zero, relations) - law.logp(p, c, relations) for p in points for c in changes]
    stated = mechanism.guarantee.parameters["epsilon"]
    assert stated == pytest.approx(max(ratios), abs=1e-12)
    assert 0.4 < stated < 2.0


def test_unpublished_choices_come_back_from_files_and_cannot_claim_more(tmp_path) -> None:
    mechanism = MixedLaplace(TOTAL, [0.4, 2.0], [0.3, 0.7])
    release = mechanism.release(COUNTS, rng=4)
    release.to_netcdf(tmp_path / "release.nc")
    assert bdp.Release.from_netcdf(tmp_path / "release.nc") == release
    assert Mechanism.from_description(mechanism.describe(), mechanism.frame) == mechanism
    assert hash(mechanism) == hash(MixedLaplace(TOTAL, (0.4, 2.0), (0.3, 0.7)))
    assert float(release.values.sum()) == 7.0
    better = dict(release.mechanism) | {"epsilons": [0.4, 1.0]}
    with pytest.raises(ValueError, match="the mechanism 'mixed-laplace' has noise of the law"):
        replace(release, mechanism=better).check_stated()
    weights = replace(release.measurements[0].law, weights=[0.5, 0.5])
    with pytest.raises(ValueError, match="the mechanism 'mixed-laplace' has noise of the law"):
        replace(release, measurements=(replace(release.measurements[0], law=weights),)).check_stated()
    other = MixedLaplace(TOTAL, [0.4, 1.0], [0.3, 0.7]).guarantee
    with pytest.raises(ValueError, match="the guarantee states"):
        replace(release, guarantee=replace(other, simulated=True)).check_stated()


def test_the_error_is_the_mean_of_those_mixed() -> None:
    parts = [ExtendedLaplace(TOTAL, epsilon).error for epsilon in (0.4, 2.0)]
    mixed = MixedLaplace(TOTAL, [0.4, 2.0], [0.3, 0.7])
    assert mixed.error == pytest.approx(0.3 * parts[0] + 0.7 * parts[1])
    variance = mixed.law.variance((3,), mixed.answer_invariants)
    assert variance is not None
    assert variance.sum() == pytest.approx(mixed.error)


def test_a_published_choice_is_a_release_of_the_mechanism_drawn() -> None:
    """100 draws: chi-square of the choices at 1e-6."""
    choice = PublishedChoice(EITHER, [0.5, 0.3, 0.2])
    rng = np.random.default_rng(2)
    names = []
    for _ in range(100):
        release = choice.release(COUNTS, rng)
        [own] = [one for one in EITHER if one.name == release.mechanism["mechanism"]]
        assert release.measurements[0].law == own.law
        assert release.guarantee.parameters == own.guarantee.parameters
        release.check_stated()
        names.append(own.name)
    counts = [names.count(own.name) for own in EITHER]
    assert stats.chisquare(counts, [50, 30, 20]).pvalue > 1e-6
    assert choice.release(COUNTS).guarantee.simulated is False


def test_what_is_promised_before_the_draw_is_the_worst() -> None:
    losses = PublishedChoice(EITHER[:2], [0.5, 0.5]).losses()
    rows = [{str(row.relation): dict(row.loss) for row in own.guarantee.pairs} for own in EITHER[:2]]
    assert losses
    for relation, loss in losses:
        assert loss == {"epsilon": max(own[relation]["epsilon"] for own in rows)}
    # A delta is not forgotten beside a mechanism that has none; definitions that one does not state are left out.
    gaussian = ExtendedGaussian(TOTAL, epsilon=0.3, delta=1e-6)
    mixed = PublishedChoice([EITHER[0], gaussian], [0.5, 0.5]).losses()
    worst = dict(mixed)
    for row in gaussian.guarantee.pairs:
        if str(row.relation) in worst:
            assert worst[str(row.relation)]["delta"] == row.loss["delta"]
            assert set(worst[str(row.relation)]) == {"epsilon", "delta"}


def test_bad_mixtures_are_named() -> None:
    with pytest.raises(ValueError, match="epsilons must be as many as probabilities, 2"):
        MixedLaplace(TOTAL, [0.4], [0.5, 0.5])
    with pytest.raises(ValueError, match="probabilities must be positive and add up to 1"):
        MixedLaplace(TOTAL, [0.4, 1.0], [0.5, 0.4])
    with pytest.raises(ValueError, match="epsilons must be"):
        MixedLaplace(TOTAL, [0.4, -1.0], [0.5, 0.5])
    with pytest.raises(TypeError, match="mechanisms must be mechanisms such as"):
        PublishedChoice([EITHER[0], EITHER[1].law], [0.5, 0.5])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="mechanisms must be as many as probabilities, 2, got 3"):
        PublishedChoice(EITHER, [0.5, 0.5])
    with pytest.raises(ValueError, match="mechanisms must all have the same invariants"):
        PublishedChoice([EITHER[0], DiscreteLaplace(LINE, epsilon=0.5)], [0.5, 0.5])
    square = {"row": ["p", "q"], "column": ["u", "v"]}
    with pytest.raises(ValueError, match="mechanisms must all have the same invariants"):
        PublishedChoice([EITHER[0], LatticeLaplace(Margins(square, ["row"]), 0.4)], [0.5, 0.5])
