"""Where chains begin; what they choose by tables that they have seen, they choose while tuned, by means of tables."""

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.hierarchies import split
from bayesdp.hierarchies.chain import TreeChain
from bayesdp.hierarchies.priors import FixedNegativeBinomial
from bayesdp.streaming import chains, driver
from bayesdp.streaming.chains import longest_together
from tests.noisy_sums import noisy_sums
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


RUN = {"draws": DRAWS, "tune": 80, "chains": 1, "random_seed": 1, "quiet": True}


@pytest.mark.parametrize(
    ("run", "totals"),
    [
        (lambda: bdp.fit_hierarchy(small_release(), PRIOR, **RUN), [5.0]),
        (lambda: bdp.fit_parts(country.PARTS, country.PRIOR, top=country.TOP, phase=8, thin=1, **RUN), [3.0, 2.0, 2.0]),
    ],
)
def test_what_is_chosen_of_a_hierarchy_and_of_parts(watched, run, totals):
    run()
    seen, chosen_by = watched
    assert len(seen) == len(totals)
    assert any(len(set(own[:-DRAWS])) > 1 for own in seen.values())  # while they are tuned
    assert all(len(set(own[-DRAWS:])) == 1 for own in seen.values())
    # Totals are exact, so that every table has the same, and so has every mean of tables.
    for end in (min, max):
        np.testing.assert_allclose(sorted(end(own) for own in chosen_by.values()), sorted(totals), rtol=1e-6)


def test_no_other_choice_of_chains_keeps_more_draws():
    """Against all choices, each cut to its shortest chain; chains that all ran to their end are all kept."""
    rng = np.random.default_rng(1)
    lengths = [rng.integers(0, 30, rng.integers(1, 6)) for _ in range(30)]
    for own in [*lengths, np.full(4, 10)]:
        given = [SimpleNamespace(number=i, draws=n) for i, n in enumerate(own)]
        found = [chain.number for chain in longest_together(given)]
        assert found == sorted(set(found))
        every = [list(some) for size in range(1, len(own) + 1) for some in combinations(range(len(own)), size)]
        assert len(found) * own[found].min() == max(len(some) * own[some].min() for some in every)
    assert found == [0, 1, 2, 3]


COUNTIES, SIGMA = [f"{state}{i}" for state in "STU" for i in range(20)], 9.0
STATES = bdp.Frame.of({"county": COUNTIES, "race": ["a", "b"], "state": ("county", [own[0] for own in COUNTIES])})


def _release():
    """Large counts; totals of counties tie their two cells together."""
    rng = np.random.default_rng(1)
    truth = rng.integers(500, 5000, size=STATES.shape)
    keeps = (["county", "race"], ["county"], ["state", "race"], ["race"])
    totals = bdp.Totals(STATES, by="state")
    exact = [bdp.Exact(totals, totals.apply(truth))]
    return bdp.Release.from_published(STATES, noisy_sums(STATES, truth, [(own, SIGMA) for own in keeps], rng), exact)


def _begun(monkeypatch):
    """Sums of parts when they first hear of each other, and the tables that the parts of each chain began at."""
    parts, top = split(_release(), "state")
    seen, ends = [], []
    real, ends_of = driver.Driver._round, chains.ends_of

    def told(self):
        if self.round:
            seen.append(self.sums.copy())
        real(self)

    def begun(groups, table):
        ends.append(table.copy())
        return ends_of(groups, table)

    monkeypatch.setattr(driver.Driver, "_round", told)
    monkeypatch.setattr(chains, "ends_of", begun)
    run = {"draws": 4, "tune": 4, "chains": 2, "phase": 2, "cores": 1, "random_seed": 2, "quiet": True}
    bdp.fit_parts(parts, FixedNegativeBinomial(mean=3_000.0, shape=0.5), top=top, **run)
    own = [(bdp.gls(part, "county"), bdp.Margins(part.frame, ["race"])) for part in parts.values()]
    mean, sd = (np.array([getattr(gls, name)(query) for gls, query in own]) for name in ("mean", "sd"))
    return (seen[0] - mean) / sd, ends


def test_sums_of_parts_are_their_own_when_they_first_hear_of_each_other(monkeypatch):
    """Twelve sums, each of which is further away than five standard deviations in less than 1e-5 of runs."""
    away, ends = _begun(monkeypatch)
    assert np.abs(away).max() < 5.0
    for one, other in zip(ends[:3], ends[3:], strict=True):  # the check for missed modes has its scattered starts
        assert (np.abs(one - other) > 5.0 * SIGMA).mean() > 0.9
    monkeypatch.setattr(chains, "_ALONE", 0)
    away, _ = _begun(monkeypatch)
    assert not np.abs(away).max() < 5.0  # the ends alone are far away
