"""The section on the noise law: where laws were compared, and where a law is of a kind that is often secret."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.noise import DiscreteGaussian
from bayesdp.posterior import Posterior
from bayesdp.report.context import Context
from bayesdp.report.page import page
from bayesdp.report.published import law_tables, noise_sizes
from bayesdp.report.results import cell_table
from tests.plots.trees import FRAME, TRUTH, release, tree
from tests.registering import only_here


@dataclass(frozen=True, eq=False, init=False)
class KeyedInReport(DiscreteGaussian):
    """Noise that belongs to the records of a cell."""

    name = "keyed-in-report"
    same_cell_same_value = True


registered = only_here(KeyedInReport)


def compared(converged: bool = True) -> bdp.LawComparison:
    names = ["V = 1", "V < 9"]
    rows = [
        ("x", "area=a", names[0], 9.0, 1.0, 7.0, 11.0, 900.0, 1.0),
        ("x", "area=a", names[1], 10.5, 2.0, 6.0, 14.0, 900.0, 1.0),
    ]
    table = pd.DataFrame(rows, columns="part label law mean sd lower upper ess_bulk rhat".split()).set_index(
        ["part", "label", "law"]
    )
    verdict = xr.DataTree.from_dict({"diagnostics": xr.Dataset(attrs={"converged": int(converged)})})
    return bdp.LawComparison(
        {own: DiscreteGaussian(sigma=2.0) for own in names}, table, 0.95, dict.fromkeys(names, verdict)
    )


def test_the_section_says_that_there_is_no_single_number() -> None:
    told = page(tree(), laws=compared())
    assert '<section id="laws"' in told
    assert "2 laws were compared, and the result is no single number" in told
    assert "V &lt; 9" in told
    assert "Chains do not agree" not in told
    assert "Under V = 1, V &lt; 9" in page(tree(), laws=compared(converged=False))
    assert 'id="laws"' not in page(tree())


def test_its_tables_have_the_numbers() -> None:
    spread, rows = law_tables(compared())
    [own] = csv.DictReader(io.StringIO(spread.to_csv()))
    assert (own["Quantity"], float(own["spread"]), float(own["spread_in_sd"])) == ("x: area=a", 1.5, 1.5)
    assert (float(own["lower"]), float(own["upper"])) == (6.0, 14.0)
    assert [row["Law"] for row in csv.DictReader(io.StringIO(rows.to_csv()))] == ["V = 1", "V < 9"]


def test_a_law_that_is_often_secret_gets_a_word_of_advice() -> None:
    cells = bdp.Measured(bdp.Identity(FRAME), release().values.values, KeyedInReport(sigma=2.0))
    told = page(tree(bdp.Release(release().frame, (cells,), release().exact)))
    assert "The numbers above hold if keyed-in-report sigma=2 is the law" in told
    assert "bayesdp.compare_laws" in told


def test_what_is_no_comparison_is_refused() -> None:
    with pytest.raises(TypeError, match=r"laws must be what bayesdp\.compare_laws gave, got dict"):
        page(tree(), laws={})


@pytest.fixture(scope="module")
def text() -> str:
    cells = bdp.Identity(FRAME)
    noisy = np.where(TRUTH >= 5, TRUTH + 1.0, np.nan)
    candidates = np.ones(TRUTH.shape, dtype=bool)
    candidates[3, 0] = False
    measured = bdp.thresholded(cells, noisy, bdp.noise.DiscreteGaussian(2.0), 5, candidates=candidates)
    parts = bdp.suppressed(cells, {}, below=900, positive=False, assumption="primary")
    exact = bdp.Exact(bdp.Margins(FRAME, ["education"]), TRUTH.sum(axis=0))
    return page(tree(bdp.Release.from_published(FRAME, [measured], [*parts, exact])), prob=0.9)


def test_the_law_and_the_size_of_the_noise_before_the_threshold(text: str) -> None:
    assert "censored law=(discrete-gaussian sigma=2) below=5" in text
    assert "Standard deviation of the noise: 2.00 counts (from the closed form of the law)" in text


def test_how_many_answers_are_known_by_the_threshold_only(text: str) -> None:
    # Four zeros and the 4 of Beta; the 3 of the last county was no candidate.
    assert "Of its answers, 5 under 5 (not published, and known by that alone)." in text
    assert "1 answer was not published." in text
    assert "5 of them under 5, 1 of them not published, noise law censored" in text  # in the paragraph to cite


def test_the_assumption_is_named_with_the_bounds_and_in_the_paragraph_to_cite(text: str) -> None:
    assumed = "assumed: every missing answer was suppressed for being from 0 to 899"
    assert text.count(assumed) == 2  # in the list and in the paragraph
    assert f"as upper bounds ({assumed})" in text


def test_the_number_that_stands_for_a_withheld_answer_is_shown_nowhere_as_published() -> None:
    cells = bdp.Identity(FRAME)
    noisy = np.where(TRUTH >= 5, TRUTH + 1.0, np.nan)
    for law in (bdp.noise.DiscreteGaussian(2.0), bdp.noise.CellKey(max_deviation=3, variance=1.0)):
        measured = bdp.thresholded(cells, noisy, law, 5, candidates=True)
        own = tree(bdp.Release.from_published(FRAME, [measured]))
        shown = bdp.summary(own).loc["x", "published"].to_numpy()
        np.testing.assert_array_equal(shown, noisy.reshape(-1))
        told = cell_table(Context(Posterior.of(own), 0.9)).to_csv()
        published = [line["published"] for line in csv.DictReader(io.StringIO(told))]
        np.testing.assert_array_equal([float(text) if text else np.nan for text in published], noisy.reshape(-1))
        assert "6 under 5 (not published, and known by that alone)" in page(own)


@pytest.mark.parametrize(
    ("law", "square"), [(bdp.noise.RandomRounding(3), 2.0), (bdp.noise.ConventionalRounding(3), 1.0)]
)
def test_the_size_of_a_perturbation_is_averaged_over_the_posterior(law: bdp.noise.NoiseLaw, square: float) -> None:
    """The mean squared difference is 2/3 * 1 + 1/3 * 4 = 2 at random, and 1 to the nearest multiple of 3; 0 for multiples of 3."""
    measured = bdp.Measured(bdp.Identity(FRAME), 3 * (TRUTH // 3), law)
    own = tree(bdp.Release.from_published(FRAME, [measured]))
    context = Context(Posterior.of(own), 0.9)
    draws = own["posterior"]["x"].values.reshape(-1, TRUTH.size)
    expected = np.sqrt(square * (draws % 3 != 0).mean(axis=0))
    np.testing.assert_allclose(noise_sizes(context, measured, context.noise[0]), expected)
    assert "averaged over the posterior" in page(own)
