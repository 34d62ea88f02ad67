"""How many parts move at a time, against how much of where it was a part keeps from one phase to the next."""

from __future__ import annotations

import numpy as np
import pytest

from bayesdp.streaming.above import NoisyAbove, parts_per_round, split_noise

PARTS = 12


def _total(noise, answers=1):
    """Sums over all parts, each with noise of this scale; of more than one only the first was measured."""
    return NoisyAbove(
        name="total",
        keep=(),
        rows=np.tile(np.arange(answers), (PARTS, 1)),
        row_of_cell=np.tile(np.arange(answers), (PARTS, 1)),
        sum_of_cell=np.arange(answers),
        values=np.zeros(answers),
        scale=np.full(answers, noise),
        measured=np.arange(answers) < 1,
        labels=[str(i) for i in range(answers)],
    )


@pytest.mark.parametrize(("sd", "noise"), [(1.0, 1.0), (1.0, 0.4), (1.0, 2.1), (0.7, 1.5), (0.5, 2.0)])
def test_as_many_as_leave_the_autocorrelation_at_one_half(sd, noise):
    """Given its share z of the noise, of variance s**2 / m, a difference of two parts is drawn about v / (v + s**2 / m) of that of
    their z, which is the difference as it stood and noise: so this is its autocorrelation."""
    query = _total(noise)
    found = parts_per_round([query], [[np.array([sd])]] * PARTS, PARTS)

    def autocorrelation(moving):
        tables = np.arange(PARTS)[:, None]
        first, *_ = split_noise([query], tables, np.arange(moving), np.random.default_rng(1))
        return sd**2 / (sd**2 + float(first[1][0][0]) ** 2)

    assert 1 <= found <= PARTS
    assert found == 1 or autocorrelation(found) <= 0.5 + 1e-12
    assert found == PARTS or autocorrelation(found + 1) > 0.5


def test_what_it_is_worked_out_from():
    one = [[np.array([1.0])]] * PARTS
    assert parts_per_round([], [[]] * PARTS, PARTS) == PARTS
    assert parts_per_round([_total(1.8)], one, PARTS) == 3
    # Sums of which nothing was published do not count, and one part without an estimate may be much wider than the noise.
    assert parts_per_round([_total(1.8, 2)], [[np.array([1.0, np.nan])]] * PARTS, PARTS) == 3
    assert parts_per_round([_total(1.8)], [*one[1:], [np.array([np.nan])]], PARTS) == 1
