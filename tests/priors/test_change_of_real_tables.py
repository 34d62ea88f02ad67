"""`build_change` on pairs of tables that offices published: two days of page views, men and women of New Zealand's electorates."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayesdp as bdp
from bayesdp.cli import main
from bayesdp.noise import RandomRounding
from bayesdp.priors import build_change
from bayesdp.storage import read_draws

ROOT = Path(__file__).resolve().parents[2]
VIEWS = Path(os.environ.get("BAYESDP_SHARED_DATA", ROOT.parent / "shared/data")) / "wikimedia_dp/australia_cyclones.csv"
DAYS = ["2025-03-04", "2025-03-05"]


def released(cells, numbers, law, hidden=None):
    identity = bdp.Identity(cells)
    return bdp.Release.from_published(cells, [bdp.Measured(identity, numbers, law, unmeasured=hidden)])


@pytest.mark.slow  # half a minute of a processor
@pytest.mark.skipif(not VIEWS.is_file(), reason="BAYESDP_SHARED_DATA names no folder with page views")
def test_two_days_of_page_views():
    """Views of 42 pages from Australia, those below 90 held back; of the second day every second number is left to be predicted."""
    views = pd.read_csv(VIEWS).query("date in @DAYS").pivot(index="page_name", columns="date", values="views")
    terms, seen = bdp.datasets.WikimediaTerms.on(DAYS[0], "AU"), views[DAYS[1]].to_numpy()
    law, cells = bdp.noise.Censored(terms.law, below=terms.threshold), {"page": list(views.index)}
    asked = np.flatnonzero(views.notna().all(axis=1))[::2]
    hidden = np.isin(np.arange(len(views)), asked)
    day, next_day = (views[own].fillna(terms.threshold - 1).to_numpy() for own in DAYS)
    with build_change(released(cells, day, law), released(cells, np.where(hidden, np.nan, next_day), law, hidden)):
        tree = bdp.sample(draws=500, tune=500, chains=2, cores=1, random_seed=1, progressbar=False, quiet=True)
    before, after = (tree["posterior"][name].values.reshape(-1, len(views)) for name in ("before", "after"))
    noise = terms.law.draw(np.random.default_rng(2), after.shape)
    low, high = np.quantile(after + noise, [0.05, 0.95], axis=0)
    # Of 18 pages 16.2 are expected; fewer than 13 in 0.7% of experiments, if pages were independent.
    assert len(asked) == 18
    assert ((low <= seen) & (seen <= high))[asked].sum() >= 13
    # They tell something: the day before is known, and pages have from 90 to 12,000 views.
    assert np.median((high / low)[asked]) < 5.0
    for own, name in ((before, DAYS[0]), (after, DAYS[1])):
        published = views[name].notna().to_numpy() & ~(hidden & (name == DAYS[1]))
        away = (views[name].to_numpy() - own.mean(axis=0))[published] / terms.law.sigma
        assert np.abs(away).max() < 3.0
        held_back = views[name].isna().to_numpy()
        assert (np.quantile(own[:, held_back], 0.5, axis=0) < terms.threshold + 2.0 * terms.law.sigma).all()


@pytest.mark.slow  # a minute of a processor
def test_men_and_women_of_64_electorates_by_18_ages(monkeypatch, tmp_path):
    """Two tables of 1,152 cells by the command line; their sums, which were rounded on their own, were not given to it."""
    monkeypatch.chdir(tmp_path)
    law, both = RandomRounding(3), bdp.datasets.statsnz_age_by_sex()
    by_sex, people = both.measurements[0].labelled, both.measurements[1].labelled
    men, women = (by_sex.sel(col_header2=sex, drop=True) for sex in ("Male", "Female"))
    cells = {"electorate": men["row_header2"].values.tolist(), "age": men["row_header3"].values.tolist()}
    for name, own in (("men", men), ("women", women)):
        released(cells, own.values.astype(int), law).to_netcdf(f"{name}.nc")
    run = "--change --draws 500 --tune 500 --chains 2 --cores 1 --seed 1 --quiet -o both.nc".split()
    assert main(["fit", "men.nc", "women.nc", *run]) in (0, 3)  # 3: a few more draws would do
    counts = read_draws("both.nc")["posterior"]
    # Each count can have been rounded to what was published. The five counts around a multiple have 1, 2, 3, 2, 1 ninths of the
    # probability where the prior is flat over them, as it nearly is here.
    ninths = np.zeros(5)
    for name, own in (("before", men), ("after", women)):
        off = (counts[name].values - own.values).astype(int)
        assert np.abs(off).max() <= 2
        ninths += np.bincount(off.reshape(-1) + 2, minlength=5) / off.size / 2.0
    np.testing.assert_allclose(ninths, np.array([1, 2, 3, 2, 1]) / 9.0, atol=0.01)
    # The published sum of a cell given its two counts: its probability, and that of all that are no likelier (a p-value).
    total, told = (counts["before"] + counts["after"]).values.reshape(-1, people.size), people.values.reshape(-1)
    near = 3 * np.arange(-3, 4)[:, None] + told
    mass = np.array([np.exp(law.log_each(own.astype(float), total)).mean(axis=0) for own in near])
    assert (mass[3] > 1e-3).all()
    least = np.where(mass <= mass[3] * (1.0 + 1e-9), mass, 0.0).sum(axis=0)
    assert 0.9 <= (least > 0.1).mean()  # sums within the smallest sets of 90%
    # The common change is that of the sums, and closer known than cells scatter.
    change, ratio = counts["change"].values, np.log(women.values.sum() / men.values.sum())
    assert np.abs(change.mean() - ratio) < 0.05
    assert change.std() < 0.01
