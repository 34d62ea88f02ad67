"""Pictures and the page of a calibration show what the verdict says."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from bayesdp.calibration.study import verdict_of
from bayesdp.calibration.verdict import band
from bayesdp.plots import calibration_dispersion, calibration_ranks
from bayesdp.report import calibration_report


def result(narrow: float = 1.0, n: int = 120, failed: int = 0) -> xr.DataTree:
    """Ranks of normal posteriors whose errors are `narrow` times as large as stated in one of two quantities."""
    rng = np.random.default_rng(3)
    good, bad = rng.standard_normal((2, n))
    ranks = {"rate": stats.norm.cdf(good), "x[<Alpha>]": stats.norm.cdf(narrow * bad)}
    squares = {"rate": stats.chi2.cdf(good**2, 1), "x[<Alpha>]": stats.chi2.cdf((narrow * bad) ** 2, 1)}
    tree = xr.DataTree()
    for group, values in (("prior_sbc", ranks), ("dispersion_sbc", squares)):
        tree[group] = xr.DataTree(xr.Dataset({name: (("chain", "draw"), [v]) for name, v in values.items()}))
    tree["verdict"] = xr.DataTree(xr.Dataset(attrs={"false_alarm": 0.01, "simulations": n, "failed": failed}))
    verdict = verdict_of(tree)
    tree["verdict"].attrs |= {"message": str(verdict), "calibrated": int(verdict.calibrated)}
    numbers = {
        key: ("simulation", np.full(n, value))
        for key, value in {"ess": 300.0, "seconds": 0.2, "divergences": 0}.items()
    }
    tree["fits"] = xr.DataTree(xr.Dataset(numbers))
    errors = np.array([f"RuntimeError: <b>{k}</b>" for k in range(failed)], dtype=object).astype(str)
    tree["failures"] = xr.DataTree(
        xr.Dataset({"error": ("simulation", errors)}, coords={"simulation": np.arange(failed)})
    )
    tree.attrs |= {
        "seed": "5",
        "sampler": json.dumps({"draws": 400}),
        "versions": json.dumps({"pymc": "6"}),
        "model_reused": "True",
        "identity": "",
    }
    return tree


def test_lines_are_the_ranks_and_bands_those_of_the_test():
    tree = result()
    axes = calibration_ranks(tree).axes[0]
    name = axes.get_title(loc="left")
    x, y = axes.get_lines()[-1].get_data()
    ranks = np.sort(tree["prior_sbc"][name.replace(" ✗", "")].values.reshape(-1))
    for point in (0.1, 0.5, 0.83):  # share of ranks up to a point, less the point
        last = np.flatnonzero(np.asarray(x) <= point)[-1]
        assert y[last] + x[last] == pytest.approx(np.mean(ranks <= point))
    points, lower, upper = band(120, 0.05)
    inner = axes.collections[1].get_paths()[0].vertices  # the second one drawn: 95% for one
    for z, low, high in zip(points, lower / 120 - points, upper / 120 - points, strict=True):
        heights = inner[np.isclose(inner[:, 0], z)][:, 1]
        assert heights.min() == pytest.approx(low)
        assert heights.max() == pytest.approx(high)


def test_what_is_rejected_is_marked_and_comes_first():
    figure = calibration_ranks(result(1.6))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["x[<Alpha>] ✗", "rate"]
    assert [axes.get_title(loc="left") for axes in calibration_ranks(result(1.6), quantities=1).axes] == [
        "x[<Alpha>] ✗"
    ]


def test_ratios_and_limits():
    tree = result(1.6)
    axes = calibration_dispersion(tree).axes[0]
    verdict = {q.name: q for q in verdict_of(tree).quantities}
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["x[<Alpha>]", "rate"]
    points = [line for line in axes.get_lines() if line.get_marker() in ("o", "X")]
    assert [line.get_marker() for line in points] == ["X", "o"]
    assert [float(line.get_xdata()[0]) for line in points] == [pytest.approx(verdict[name].ratio) for name in labels]
    thick = next(line for line in axes.get_lines() if line.get_linewidth() == 5.0)
    expected = np.sqrt(stats.chi2.ppf([0.025, 0.975], 120) / 120)
    assert np.asarray(thick.get_xdata()) == pytest.approx(expected)


def test_the_page(tmp_path):
    path = calibration_report(result(1.6, failed=2), tmp_path / "sbc.html", title="A <model>")
    page = path.read_text("utf-8")
    for words in (
        "A &lt;model&gt;",
        "Not calibrated.",
        "2 of 122 simulations failed",
        "simulation 1: RuntimeError: &lt;b&gt;1&lt;/b&gt;",
        "x[&lt;Alpha&gt;]",
        ">rejected</td>",
        "would be noticed with probability",
        "compiled once for all releases",
    ):
        assert words in page, words
    assert "<b>1</b>" not in page
    assert "No sign of miscalibration." in calibration_report(result(), tmp_path / "fine.html").read_text("utf-8")
    with pytest.raises(FileExistsError):
        calibration_report(result(), path)


def test_something_else_is_refused(tmp_path):
    for function in (calibration_ranks, calibration_dispersion):
        with pytest.raises(TypeError, match="must be what bayesdp"):
            function(xr.DataTree())
    with pytest.raises(ValueError, match="quantities"):
        calibration_ranks(result(), quantities=0)
    with pytest.raises(TypeError, match="must be what bayesdp"):
        calibration_report(xr.DataTree(), tmp_path / "a.html")
