"""Which chains of a run that ended early are kept."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest

from bayesdp.streaming.chains import longest_together


@pytest.mark.parametrize("seed", range(30))
def test_no_other_choice_of_chains_keeps_more_draws(seed):
    """Against all choices, each cut to its shortest chain."""
    rng = np.random.default_rng(seed)
    chains = [SimpleNamespace(number=i, draws=int(rng.integers(0, 30))) for i in range(int(rng.integers(1, 6)))]
    found = longest_together(chains)
    numbers = [chain.number for chain in found]
    assert numbers == sorted(set(numbers))
    choices = (own for size in range(1, len(chains) + 1) for own in combinations(chains, size))
    best = max(len(own) * min(chain.draws for chain in own) for own in choices)
    assert len(found) * min(chain.draws for chain in found) == best


def test_all_chains_that_ran_to_their_end_are_kept():
    chains = [SimpleNamespace(number=i, draws=10) for i in range(4)]
    assert longest_together(chains) == chains
