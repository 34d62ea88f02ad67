"""What releases, reports, pictures and the command line say of perturbed counts: the law, and that it is not private."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot

import bayesdp as bdp
from bayesdp import noise
from bayesdp.plots.noise import draw_noise_law, noise_scale
from bayesdp.report import report
from tests.cli.conftest import run as run  # a fixture
from tests.plots.trees import FRAME, TRUTH, tree

TABLE = noise.TransitionTable([-1, 0, 1], [[0, 1, 0], [0.3, 0.4, 0.3]])
LAWS = [noise.RandomRounding(3), noise.ConventionalRounding(5), noise.CellKey(max_deviation=3, variance=2.0), TABLE]
CELLS = bdp.Identity(FRAME)


@pytest.mark.parametrize("law", LAWS, ids=lambda own: own.name)
def test_a_release_says_that_the_law_is_not_private_and_shows_one_count(law):
    own = bdp.Release.from_published(FRAME, [bdp.Measured(CELLS, law.draw(1, TRUTH.shape, location=TRUTH), law)])
    assert f"protection: counts perturbed by {law.name} are not differentially private" in str(own)
    assert own.guarantee is None
    measured = own.measurements[0]
    axes = draw_noise_law(measured, noise_scale(measured)).axes[0]
    shown = {round(bar.get_x() + 0.35): bar.get_height() for bar in axes.patches}
    [count] = {float(line.get_xdata()[0]) for line in axes.lines}
    assert shown == pytest.approx({value: np.exp(law.logp([value], [count])) for value in shown})
    assert sum(shown.values()) == pytest.approx(1.0)
    assert f"published for a count of {count:.0f}" in axes.get_title(loc="left")
    pyplot.close("all")


def test_the_report_says_it_too(tmp_path):
    values = LAWS[0].draw(1, TRUTH.shape, location=TRUTH)
    release = bdp.Release.from_published(FRAME, [bdp.Measured(CELLS, values, LAWS[0])])
    text = report(tree(release), tmp_path / "report.html").read_text()
    assert "were made: counts perturbed by random-rounding are not differentially private" in text
    assert "Its size depends on the true count." in text
    assert "for one true count, at a dashed line" in text
    # Nothing is claimed of a table that may be private.
    full = noise.TransitionTable.by_count({0: {0: 0.5, 1: 0.5}, 1: {-1: 0.5, 0: 0.5}}, period=0)
    assert full.not_private == "no differential privacy is claimed for counts perturbed by transition-table"


def test_errors_on_the_command_line_are_one_line(run):
    Path("rounded.csv").write_text("county,education,count\nAlpha,Low,15\nAlpha,High,0\nBeta,Low,22\nBeta,High,9\n")
    for law, words in (
        ("random-rounding base=3", "county=Beta, education=Low is 22, which no count leads to"),
        ("cell-key none.csv", "no perturbation table none.csv"),
        ("cell-key max_deviation=2", "needs max_deviation and either variance"),
        ("random-rounding", "lacks parameter 'base'"),
    ):
        result = run("import", "rounded.csv", "--law", law, "-o", "release.nc")
        assert (result.status, len(result.err.splitlines())) == (2, 1)
        assert words in result.err, result.err
