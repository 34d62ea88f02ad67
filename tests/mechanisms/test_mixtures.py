"""One of several mechanisms with public probabilities (Gao et al., end of Section 2.3)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bayesdp.mechanisms import (
    DiscreteLaplace,
    ExtendedGaussian,
    ExtendedLaplace,
    KNorm,
    LatticeLaplace,
    PublishedChoice,
)
from bayesdp.queries import Margins, Totals

LINE = {"county": ["p", "q", "r"]}
TOTAL = Totals(LINE)
COUNTS = np.array([3, 1, 3])
EITHER = [ExtendedLaplace(TOTAL, 0.5), KNorm(TOTAL, 0.25), LatticeLaplace(TOTAL, 0.4)]


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
    with pytest.raises(ValueError, match="probabilities must be positive and add up to 1"):
        PublishedChoice(EITHER[:2], [0.5, 0.4])
    with pytest.raises(ValueError, match="probabilities must be positive and add up to 1"):
        PublishedChoice(EITHER[:2], [1.5, -0.5])
    with pytest.raises(ValueError, match="probabilities must be a list of two or more numbers"):
        PublishedChoice(EITHER[:1], [1.0])
    with pytest.raises(TypeError, match="mechanisms must be mechanisms such as"):
        PublishedChoice([EITHER[0], EITHER[1].law], [0.5, 0.5])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="mechanisms must be as many as probabilities, 2, got 3"):
        PublishedChoice(EITHER, [0.5, 0.5])
    with pytest.raises(ValueError, match="mechanisms must all have the same invariants"):
        PublishedChoice([EITHER[0], DiscreteLaplace(LINE, epsilon=0.5)], [0.5, 0.5])
    square = {"row": ["p", "q"], "column": ["u", "v"]}
    with pytest.raises(ValueError, match="mechanisms must all have the same invariants"):
        PublishedChoice([EITHER[0], LatticeLaplace(Margins(square, ["row"]), 0.4)], [0.5, 0.5])
