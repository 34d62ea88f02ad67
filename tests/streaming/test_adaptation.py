"""What a chain chooses by the tables that it has seen, it chooses while it is tuned, by means of tables; after that it stays."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.hierarchies import split
from bayesdp.hierarchies.chain import TreeChain
from bayesdp.streaming.chains import longest_together
from tests.streaming.cases import PRIOR, small_release
from tests.streaming.parts import cases as country

CHOSEN = ("group_start", "group_cell", "donor_start", "donor_cell", "visits")
DRAWS = 40


@pytest.fixture
def watched(monkeypatch):
    """At every sweep of every chain, what it has chosen; and the sums of the tables that it chose by."""
    seen, chosen_by = {}, {}
    sweep, choose = TreeChain.sweep, TreeChain.choose_donors

    def sweeping(self, sweeps=1):
        own = b"".join(getattr(self.state, name).tobytes() for name in CHOSEN)
        seen.setdefault(id(self.structure), []).append(own)
        return sweep(self, sweeps)

    def choosing(self, counts):
        chosen_by.setdefault(id(self.structure), []).append(float(np.sum(counts)))
        choose(self, counts)

    monkeypatch.setattr(TreeChain, "sweep", sweeping)
    monkeypatch.setattr(TreeChain, "choose_donors", choosing)
    return seen, chosen_by


def _check(watched, totals):
    seen, chosen_by = watched
    assert len(seen) == len(totals)
    assert any(len(set(own[:-DRAWS])) > 1 for own in seen.values())  # while they are tuned
    for own in seen.values():
        assert len(set(own[-DRAWS:])) == 1
    # Totals are exact, so that every table has the same, and so has every mean of tables.
    np.testing.assert_allclose(sorted(max(own) for own in chosen_by.values()), sorted(totals), rtol=1e-6)
    np.testing.assert_allclose(sorted(min(own) for own in chosen_by.values()), sorted(totals), rtol=1e-6)


def test_of_a_hierarchy(watched):
    bdp.fit_hierarchy(small_release(), PRIOR, draws=DRAWS, tune=80, chains=1, random_seed=1, quiet=True)
    _check(watched, [5.0])


def test_of_parts(watched):
    parts, top = split(country.country(), "state")
    bdp.fit_parts(
        parts, country.PRIOR, top=top, draws=DRAWS, tune=80, phase=8, thin=1, chains=1, random_seed=1, quiet=True
    )
    _check(watched, [float(country.TRUTH[:, own].sum()) for own in ([0, 2], [1, 4], [3, 5])])


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
