"""Parts begin at different ends of tied groups, and are back at their own sums before they hear of each other."""

import numpy as np

import bayesdp as bdp
from bayesdp.hierarchies import split
from bayesdp.hierarchies.priors import FixedNegativeBinomial
from bayesdp.streaming import chains, driver
from tests.noisy_sums import noisy_sums

COUNTIES, SIGMA = [f"{state}{i}" for state in "STU" for i in range(20)], 9.0
FRAME = bdp.Frame.of({"county": COUNTIES, "race": ["a", "b"], "state": ("county", [own[0] for own in COUNTIES])})


def _release():
    """Large counts; totals of counties tie their two cells together."""
    rng = np.random.default_rng(1)
    truth = rng.integers(500, 5000, size=FRAME.shape)
    keeps = (["county", "race"], ["county"], ["state", "race"], ["race"])
    totals = bdp.Totals(FRAME, by="state")
    exact = [bdp.Exact(totals, totals.apply(truth))]
    return bdp.Release.from_published(FRAME, noisy_sums(FRAME, truth, [(own, SIGMA) for own in keeps], rng), exact)


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
