"""The sections of a report on the noise law (comparisons, laws that are often secret) and on the odds ratio."""

import csv
import io
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.posterior import Posterior
from bayesdp.report.context import Context
from bayesdp.report.page import page as painted
from bayesdp.report.published import law_tables, noise_sizes
from bayesdp.report.results import cell_table
from bayesdp.significance import odds_ratio_test_from_release, posterior_odds_ratio
from tests.plots.trees import FRAME, TRUTH, release, tree
from tests.plots.trees import unpainted as page
from tests.registering import only_here


@dataclass(frozen=True, eq=False, init=False)
class KeyedInReport(bdp.noise.DiscreteGaussian):
    """Noise that belongs to the records of a cell."""

    name = "keyed-in-report"
    same_cell_same_value = True


registered = only_here(KeyedInReport)
CELLS = bdp.Identity(FRAME)
NOISY = np.where(TRUTH >= 5, TRUTH + 1.0, np.nan)


def compared(converged=True):
    names = ["V = 1", "V < 9"]
    numbers = {"mean": [9.0, 10.5], "sd": [1.0, 2.0], "lower": [7.0, 6.0], "upper": [11.0, 14.0]}
    index = pd.MultiIndex.from_product([["x"], ["area=a"], names], names=["part", "label", "law"])
    table = pd.DataFrame(numbers | {"ess_bulk": 900.0, "rhat": 1.0}, index=index)
    verdict = xr.DataTree.from_dict({"diagnostics": xr.Dataset(attrs={"converged": int(converged)})})
    laws = dict.fromkeys(names, bdp.noise.DiscreteGaussian(sigma=2.0))
    return bdp.LawComparison(laws, table, 0.95, dict.fromkeys(names, verdict))


def test_the_section_says_that_there_is_no_single_number_and_its_tables_have_the_numbers():
    told = painted(tree(), laws=compared())
    for words in ('<section id="laws"', "2 laws were compared, and the result is no single number", "V &lt; 9"):
        assert words in told
    assert "Chains do not agree" not in told
    assert "Under V = 1, V &lt; 9" in page(tree(), laws=compared(converged=False))
    with pytest.raises(TypeError, match=r"laws must be what bayesdp\.compare_laws gave, got dict"):
        page(tree(), laws={})
    spread, rows = law_tables(compared())
    [own] = csv.DictReader(io.StringIO(spread.to_csv()))
    assert (own["Quantity"], float(own["spread"]), float(own["spread_in_sd"])) == ("x: area=a", 1.5, 1.5)
    assert (float(own["lower"]), float(own["upper"])) == (6.0, 14.0)
    assert [row["Law"] for row in csv.DictReader(io.StringIO(rows.to_csv()))] == ["V = 1", "V < 9"]
    # A law that is often secret gets a word of advice.
    cells = bdp.Measured(CELLS, release().values.values, KeyedInReport(sigma=2.0))
    told = page(tree(bdp.Release(release().frame, (cells,), release().exact)))
    assert "The numbers above hold if keyed-in-report sigma=2 is the law" in told
    assert "bayesdp.compare_laws" in told
    assert '<section id="odds"' not in told  # of a table of 4 x 3


def test_a_threshold_and_suppressed_answers_are_said_to_be_such():
    candidates = np.ones(TRUTH.shape, dtype=bool)
    candidates[3, 0] = False
    measured = bdp.thresholded(CELLS, NOISY, bdp.noise.DiscreteGaussian(2.0), 5, candidates=candidates)
    parts = bdp.suppressed(CELLS, {}, below=900, positive=False, assumption="primary")
    exact = bdp.Exact(bdp.Margins(FRAME, ["education"]), TRUTH.sum(axis=0))
    text = painted(tree(bdp.Release.from_published(FRAME, [measured], [*parts, exact])), prob=0.9)
    assumed = "assumed: every missing answer was suppressed for being from 0 to 899"
    for words in (
        "censored law=(discrete-gaussian sigma=2) below=5",
        "Standard deviation of the noise: 2.00 counts (from the closed form of the law)",
        # Four zeros and the 4 of Beta; the 3 of the last county was no candidate.
        "Of its answers, 5 under 5 (not published, and known by that alone).",
        "1 answer was not published.",
        "5 of them under 5, 1 of them not published, noise law censored",  # in the paragraph to cite
        f"as upper bounds ({assumed})",
    ):
        assert words in text
    assert text.count(assumed) == 2  # in the list and in the paragraph


def test_the_number_that_stands_for_a_withheld_answer_is_shown_nowhere_as_published():
    for law in (bdp.noise.DiscreteGaussian(2.0), bdp.noise.CellKey(max_deviation=3, variance=1.0)):
        measured = bdp.thresholded(CELLS, NOISY, law, 5, candidates=True)
        own = tree(bdp.Release.from_published(FRAME, [measured]))
        np.testing.assert_array_equal(bdp.summary(own).loc["x", "published"].to_numpy(), NOISY.reshape(-1))
        told = cell_table(Context(Posterior.of(own), 0.9)).to_csv()
        published = [line["published"] for line in csv.DictReader(io.StringIO(told))]
        np.testing.assert_array_equal([float(text) if text else np.nan for text in published], NOISY.reshape(-1))
        assert "6 under 5 (not published, and known by that alone)" in page(own)


def test_the_size_of_a_perturbation_is_averaged_over_the_posterior():
    """The mean squared difference is 2/3 * 1 + 1/3 * 4 = 2 at random, and 1 to the nearest multiple of 3; 0 for multiples of 3."""
    for law, square in ((bdp.noise.RandomRounding(3), 2.0), (bdp.noise.ConventionalRounding(3), 1.0)):
        measured = bdp.Measured(CELLS, 3 * (TRUTH // 3), law)
        own = tree(bdp.Release.from_published(FRAME, [measured]))
        context = Context(Posterior.of(own), 0.9)
        draws = own["posterior"]["x"].values.reshape(-1, TRUTH.size)
        expected = np.sqrt(square * (draws % 3 != 0).mean(axis=0))
        np.testing.assert_allclose(noise_sizes(context, measured, context.noise[0]), expected)
        assert "averaged over the posterior" in page(own)


# The odds ratio: for 2 x 2 tables with exact margins only, and never with a draw in it.

LABELS = {"sex": ["men", "women"], "admission": ["yes", "no"]}
EXACT = [bdp.Exact(bdp.Margins(LABELS, ["sex"]), [10, 8]), bdp.Exact(bdp.Margins(LABELS, ["admission"]), [9, 9])]


def table_of_four(law, exact=EXACT, **others):
    corner = np.random.default_rng(1).integers(5, 9, size=(2, 200))
    counts = np.stack([corner, 10 - corner, 9 - corner, corner - 1], axis=-1).reshape(2, 200, 2, 2)
    draws = xr.DataArray(counts, dims=("chain", "draw", *LABELS), coords=LABELS)
    measured = bdp.Measured(bdp.Identity(LABELS), [[8, 2], [1, 7]], law)
    release = bdp.Release.from_published(LABELS, [measured], exact).to_dataset()
    return xr.DataTree.from_dict({"/posterior": xr.Dataset({"x": draws, **others}), "/release": release})


def section(text):
    return text.split('<section id="odds"')[1].split("</section>")[0]


def test_posterior_and_test_are_side_by_side():
    logs = xr.DataArray(np.linspace(0.0, 2.0, 400).reshape(2, 200), dims=("chain", "draw"))
    own = table_of_four(bdp.noise.ProjectedGaussian(2.0), log_odds_ratio=logs)
    text = page(own, prob=0.9)
    found = posterior_odds_ratio(own, level=0.9)
    numbers = (found.predictive_pvalue, found.test.pvalue, found.table.high, found.population.median)
    words = ("1-GDP", "uniformly most powerful unbiased", "x11 at sex=men, admission=yes", 'href="#odds"')
    for own in (*(f"{number:.3g}" for number in numbers), *words):
        assert own in text


def test_integer_noise_shows_limits_and_draws_nothing_and_other_noise_has_the_posterior_only():
    own = table_of_four(bdp.noise.LatticeLaplace(0.25))
    text = page(own)
    assert section(page(own)) == section(text)
    assert "largest" in text
    release = bdp.Release.from_dataset(own["release"].to_dataset())
    for seed in range(3):
        assert repr(odds_ratio_test_from_release(release, rng=np.random.default_rng(seed)).pvalue) not in text
    text = page(table_of_four(bdp.noise.DiscreteGaussian(2.0)))
    assert "There is no p-value from the release itself" in text
    assert "Posterior predictive p" in text
    assert '<section id="odds"' not in page(table_of_four(bdp.noise.DiscreteGaussian(2.0), EXACT[:1]))
