"""Pictures and the page of a calibration show what the verdict says."""

import json

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from bayesdp.calibration.study import verdict_of
from bayesdp.calibration.verdict import band
from bayesdp.plots import calibration_dispersion, calibration_ranks
from bayesdp.report import calibration_report


def result(narrow=1.0, n=60, failed=0):
    """Ranks of normal posteriors whose errors are `narrow` times as large as stated in one of two quantities."""
    errors = np.array([[1.0], [narrow]]) * np.random.default_rng(3).standard_normal((2, n))
    tree = xr.DataTree()
    for group, values in (("prior_sbc", stats.norm.cdf(errors)), ("dispersion_sbc", stats.chi2.cdf(errors**2, 1))):
        named = zip(("rate", "x[<Alpha>]"), values, strict=True)
        tree[group] = xr.DataTree(xr.Dataset({name: (("chain", "draw"), [own]) for name, own in named}))
    tree["verdict"] = xr.DataTree(xr.Dataset(attrs={"false_alarm": 0.01, "simulations": n, "failed": failed}))
    verdict = verdict_of(tree)
    tree["verdict"].attrs |= {"message": str(verdict), "calibrated": int(verdict.calibrated)}
    numbers = {"ess": 300.0, "seconds": 0.2, "divergences": 0}
    tree["fits"] = xr.DataTree(xr.Dataset({key: ("simulation", np.full(n, own)) for key, own in numbers.items()}))
    said = np.array([f"RuntimeError: <b>{k}</b>" for k in range(failed)], dtype=object).astype(str)
    failures = xr.Dataset({"error": ("simulation", said)}, coords={"simulation": np.arange(failed)})
    tree["failures"] = xr.DataTree(failures)
    tree.attrs |= {"seed": "5", "model_reused": "True", "identity": ""}
    tree.attrs |= {"sampler": json.dumps({"draws": 400}), "versions": json.dumps({"pymc": "6"})}
    return tree


def test_lines_are_the_ranks_bands_those_of_the_test_and_what_is_rejected_comes_first():
    tree = result()
    axes = calibration_ranks(tree).axes[0]
    name = axes.get_title(loc="left")
    x, y = axes.get_lines()[-1].get_data()
    ranks = np.sort(tree["prior_sbc"][name.replace(" ✗", "")].values.reshape(-1))
    for point in (0.1, 0.5, 0.83):  # share of ranks up to a point, less the point
        last = np.flatnonzero(np.asarray(x) <= point)[-1]
        assert y[last] + x[last] == pytest.approx(np.mean(ranks <= point))
    points, lower, upper = band(60, 0.05)
    inner = axes.collections[1].get_paths()[0].vertices  # the second one drawn: 95% for one
    for z, low, high in zip(points, lower / 60 - points, upper / 60 - points, strict=True):
        heights = inner[np.isclose(inner[:, 0], z)][:, 1]
        assert heights.min() == pytest.approx(low)
        assert heights.max() == pytest.approx(high)
    tree = result(1.8)
    for most, titles in ((2, ["x[<Alpha>] ✗", "rate"]), (1, ["x[<Alpha>] ✗"])):
        figure = calibration_ranks(tree, quantities=most)
        assert [axes.get_title(loc="left") for axes in figure.axes] == titles
    axes = calibration_dispersion(tree).axes[0]
    ratios = {q.name: q.ratio for q in verdict_of(tree).quantities}
    assert [label.get_text() for label in axes.get_yticklabels()] == ["x[<Alpha>]", "rate"]
    points = [line for line in axes.get_lines() if line.get_marker() in ("o", "X")]
    assert [line.get_marker() for line in points] == ["X", "o"]
    assert [float(line.get_xdata()[0]) for line in points] == pytest.approx([ratios["x[<Alpha>]"], ratios["rate"]])
    thick = next(line for line in axes.get_lines() if line.get_linewidth() == 5.0)
    expected = np.sqrt(stats.chi2.ppf([0.025, 0.975], 60) / 60)
    assert np.asarray(thick.get_xdata()) == pytest.approx(expected)


def test_the_page(tmp_path):
    path = calibration_report(result(1.8, failed=2), tmp_path / "sbc.html", title="A <model>")
    page = path.read_text("utf-8")
    for words in (
        *("A &lt;model&gt;", "Not calibrated.", "2 of 62 simulations failed", "x[&lt;Alpha&gt;]", ">rejected</td>"),
        *("RuntimeError: &lt;b&gt;1&lt;/b&gt;", "would be noticed with probability", "compiled once for all releases"),
    ):
        assert words in page, words
    assert "<b>1</b>" not in page
    assert "No sign of miscalibration." in calibration_report(result(), tmp_path / "fine.html").read_text("utf-8")
    with pytest.raises(FileExistsError):
        calibration_report(result(), path)
    for function, *more in [calibration_ranks], [calibration_dispersion], [calibration_report, tmp_path / "no.html"]:
        with pytest.raises(TypeError, match="must be what bayesdp"):
            function(xr.DataTree(), *more)
    with pytest.raises(ValueError, match="quantities"):
        calibration_ranks(result(), quantities=0)
