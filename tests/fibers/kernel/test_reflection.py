"""Reflections along a line against their law, worked out from the overlaps of intervals."""

from __future__ import annotations

import numpy as np
import pytest

from bayesdp.fibers.kernel.state import WINDOW
from bayesdp.fibers.kernel.weights import reflected_step


def _table(law, at):
    """What `tabulate` writes for a table that stands at position `at` of the line."""
    weights = np.zeros(2 * WINDOW)
    up, down = law[at + 1 :] / law[at], law[:at][::-1] / law[at]
    weights[WINDOW : WINDOW + len(up)] = up
    weights[: len(down)] = down
    return up.sum(), down.sum(), len(up), len(down), weights


def _transition(law, shares):
    """Chances to go from one place to another, by a grid of uniform shares."""
    chances = np.zeros((len(law), len(law)))
    for at in range(len(law)):
        above, under, up, down, weights = _table(law, at)
        for share in shares:
            k, _ = reflected_step(share, above, under, up, down, 0.0, 0.0, weights)
            chances[at, at + k] += 1.0 / len(shares)
    return chances


@pytest.mark.parametrize("law", [[0.2, 0.5, 0.3], [0.1, 0.4, 0.3, 0.15, 0.05], [0.7, 0.3], np.exp(-np.arange(9.0))])
def test_chances_are_the_overlaps_with_the_mirrored_law(law):
    law = np.asarray(law) / np.sum(law)
    edges = np.concatenate([[0.0], np.cumsum(law)])
    mirrored = 1.0 - edges[::-1]
    overlap = np.minimum(edges[1:, None], mirrored[None, 1:]) - np.maximum(edges[:-1, None], mirrored[None, :-1])
    expected = np.maximum(overlap, 0.0)[:, ::-1] / law[:, None]
    shares = (np.arange(20_000) + 0.5) / 20_000
    chances = _transition(law, shares)
    np.testing.assert_allclose(chances, expected, atol=1e-4)
    np.testing.assert_allclose(law @ expected, law, atol=1e-14)


def test_sure_means_that_no_weight_left_out_could_change_the_step():
    rng = np.random.default_rng(1)
    seen = {True: 0, False: 0}
    for _ in range(3000):
        law = np.exp(-0.5 * ((np.arange(12) - 12 * rng.random()) / (0.5 + 3 * rng.random())) ** 2)
        at = int(rng.integers(12))
        above, under, up, down, weights = _table(law, at)
        rest, more = rng.random(2) * 10.0 ** rng.uniform(-4, 0)
        share = rng.random()
        k, sure = reflected_step(share, above, under, up, down, rest, more, weights)
        seen[sure] += 1
        if sure:
            for upper in (0.0, rest):
                for lower in (0.0, more):
                    again, _ = reflected_step(share, above + upper, under + lower, up, down, 0.0, 0.0, weights)
                    assert again == k
    assert min(seen.values()) > 100
