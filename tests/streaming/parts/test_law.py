"""Parts that move side by side have the joint posterior of all of them, against tables that are all listed."""

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.hierarchies import split
from bayesdp.streaming.above import above, split_noise
from tests.comparison.chi_square import chi_square_pvalue
from tests.comparison.variation import assert_close_in_variation
from tests.noisy_sums import indices
from tests.streaming.parts.cases import FRAME, PARTS, PRIOR, TOP, country, posterior

pytestmark = pytest.mark.system

RATE, STARTS = 1e-5, 3_000  # false alarms of each comparison
BY_STATE = bdp.Margins(FRAME, ["state", "race"])


def _sums(release, query):
    """The answers of a query: all that there are, with their probabilities."""
    tables, probability = posterior(release)
    every, where = np.unique(query.apply(tables).reshape(len(tables), -1), axis=0, return_inverse=True)
    return every, np.bincount(where.reshape(-1), weights=probability)


def _after_one_phase(together, *, stale=False):
    """P-value of the sums of the states after one phase from exact draws, each part being drawn exactly given its z."""
    noisy, _ = above(TOP, list(PARTS))
    own = [_sums(part, bdp.Margins(part.frame, ["race"])) for part in PARTS.values()]
    every, probability = _sums(country(), BY_STATE)
    number = {row.tobytes(): i for i, row in enumerate(every)}
    rng = np.random.default_rng(7)
    after = np.zeros(len(every))
    for start in rng.choice(len(every), size=STARTS, p=probability):
        tables = every[start].reshape(2, 3).T.copy()  # the frame has races first; parts by cells
        before = tables.copy()
        for first in range(0, 3, together):
            moving = np.arange(first, min(first + together, 3))
            given = split_noise(noisy, before if stale else tables, moving, rng)
            for k, (values, scales) in zip(moving, given, strict=True):
                sums, weight = own[k]
                logs = np.log(weight)
                for z, s in zip(values, scales, strict=True):
                    logs = logs - (((sums - z) / s) ** 2).sum(axis=1) / 2.0
                share = np.exp(logs - logs.max())
                tables[k] = sums[rng.choice(len(sums), p=share / share.sum())]
        after[number[np.ascontiguousarray(tables.T).reshape(-1).tobytes()]] += 1
    return chi_square_pvalue(after, STARTS * probability)


@pytest.mark.parametrize("together", [1, 2, 3])
def test_one_phase_from_exact_draws(together):
    """With power: parts that move given where the others stood before the phase are wrong, unless all of them move together."""
    assert _after_one_phase(together) > RATE
    assert together == 3 or _after_one_phase(together, stale=True) < 1e-8


def _fitted(release, draws=1_500):
    """A fit whose sums of states by race have the posterior; and its draws of these."""
    parts, top = split(release, "state")
    frame = bdp.Frame.of({"race": ["a", "b"], "state": ["S", "T", "U"]})
    given = {"tune": 20, "phase": 1, "random_seed": 2, "quiet": True, "draws": draws}
    tree = bdp.fit_parts(parts, PRIOR, top=top, record=bdp.Identity(frame), **given)
    drawn = tree["posterior"]["by_race_state"].transpose("chain", "draw", "race", "state").values
    _compare(release, ["race", "state"], drawn, 0.4)
    return tree, drawn


def _compare(release, keep, values, largest):
    every, probability = _sums(release, bdp.Margins(FRAME, keep))
    index = indices(every, values.reshape(*values.shape[:2], -1))
    assert_close_in_variation(index, probability, rate=RATE, largest=largest)


def test_fit_parts_has_the_joint_posterior():
    release = country()
    tree, draws = _fitted(release)
    _compare(release, ["race"], draws.sum(axis=3), 0.3)
    tables, probability = posterior(release)
    mean = np.tensordot(probability, tables, 1)
    sd = np.sqrt(np.tensordot(probability, (tables - mean) ** 2, 1))
    for label in "STU":
        cells = tree[f"parts/{label}/cells"].to_dataset()
        where = [FRAME.labels_of("county").index(own) for own in cells["county"].values]
        error = sd[:, where] / np.sqrt(cells["ess"].values)
        np.testing.assert_array_less(np.abs(cells["mean"].values - mean[:, where]), 5.5 * error + 3.0 / 1200)


def test_without_a_top_the_parts_are_independent():
    release = country(noise=((("county", "race"), 2.0), (("county",), 0.8), (("state", "race"), 1.5)))
    assert split(release, "state")[1] is None
    assert _fitted(release)[0].attrs["coupled"] == "[]"
