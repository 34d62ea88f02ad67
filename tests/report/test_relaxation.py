"""A posterior of continuous counts on the page, in pictures and on the command line: called what it is, and not rounded."""

import json
import re

import numpy as np
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.cli import main
from bayesdp.plots.rank import worst_mixed
from bayesdp.posterior import Posterior
from bayesdp.storage.posteriors import counts_name
from tests.plots.trees import EDUCATION, relaxation, tree
from tests.plots.trees import unpainted as page


@pytest.fixture(scope="module")
def posterior():
    """Real tables of the fiber of `trees`: averages of two whole ones, with rounding errors in the exact margin."""
    own = tree(prior=False)
    x = own["posterior"]["x"].astype(float)
    mixed = 0.3 * x + 0.7 * x.copy(data=x.values[:, ::-1])
    noise = 1e-14 * np.random.default_rng(1).standard_normal(mixed.shape)
    coordinates = xr.DataArray(np.random.default_rng(2).normal(size=(2, 100, 9)), dims=("chain", "draw", "free"))
    variables = {"x": mixed * (1 + noise), "x_coordinates": coordinates, "rate": own["posterior"]["rate"]}
    own["posterior"] = xr.DataTree(xr.Dataset(variables))
    own["relaxation"] = xr.DataTree(relaxation("x"))
    return own


def test_the_page_says_so_wherever_it_matters(posterior):
    text = re.sub(r"\s+", " ", re.sub(r"data:[^\"]*", "", page(posterior, prob=0.9)))
    results, errors, methods = (
        text.split(f'<section id="{own}"')[1].split("</section>")[0] for own in ("results", "errors", "methods")
    )
    assert "<strong>Continuous relaxation.</strong>" in text[: text.index("<main>")]
    assert "(continuous relaxation): ends of intervals are not rounded" in results
    assert "Counts: a continuous relaxation." in errors
    assert "This is a continuous relaxation: x runs over the real tables" in methods
    assert "sampled together by NUTS, as real numbers, and not rounded" in methods
    assert "exact-conditional steps" not in methods
    fit, x = Posterior.of(posterior), posterior["posterior"]["x"].values
    lower, upper = np.quantile(x[..., 0, 0], [0.05, 0.95], method="inverted_cdf")
    assert f"{lower:.2f} to {upper:.2f}" in text
    assert lower != round(lower)
    raw = x.sum(axis=2).reshape(-1, 3)
    assert np.ptp(raw[:, 0]) > 0
    margin = fit.answers(bdp.Margins(fit.release.frame, ["education"]))
    np.testing.assert_array_equal(margin, np.broadcast_to([23.0, 25.0, 0.0], raw.shape))
    assert "23 to 23" in text
    np.testing.assert_array_equal(fit.answers(fit.cells)[:, 0], x[..., 0, 0].ravel())


def test_rank_plots_show_neither_coordinates_nor_what_is_exact_and_the_command_line_says_so(
    posterior, tmp_path, capsys
):
    titles = [label for label, _ in worst_mixed(Posterior.of(posterior), 50)[0]]
    assert len(titles) == 8 + 1  # free cells and the rate
    assert not any("coordinates" in title or EDUCATION[2] in title for title in titles)
    shown = [text.get_text() for text in bdp.plots.heatmaps(posterior).axes[0].texts]
    assert shown.count("= 0") == 4
    file = str(tmp_path / "posterior.nc")
    posterior.to_netcdf(file, engine="h5netcdf")
    main(["summary", file])
    assert "real numbers stand for whole ones and are not rounded" in capsys.readouterr().out
    main(["summary", file, "--format", "json", "--query", "margins:education"])
    found = json.loads(capsys.readouterr().out)
    assert found["counts"] == "continuous relaxation"
    assert [found["rows"][0][own] for own in ("mean", "sd", "lower", "upper")] == [23.0, 0.0, 23.0, 23.0]


def test_real_numbers_without_a_declaration_are_refused_and_there_is_one_table_of_each_kind(posterior):
    silent, other, both = (posterior.copy(deep=True) for _ in range(3))
    del silent["relaxation"]
    other["relaxation"].attrs["variable"] = "people"
    for own in (silent, other):
        with pytest.raises(ValueError, match=r"real numbers without such a declaration in x$"):
            Posterior.of(own)
    whole = tree()["posterior"]["x"].rename("people")
    both["posterior"] = xr.DataTree(both["posterior"].to_dataset().assign(people=whole))
    both["relaxation_x"] = both["relaxation"]
    del both["relaxation"]
    dims = ("county", "education")
    assert counts_name(both, dims) == "x"  # what the group fiber says
    assert counts_name(both, dims, "people") == "people"
    both["fiber"].attrs["variable"] = "people"
    assert not Posterior.of(both).relaxed
    with pytest.raises(ValueError, match="there is no 'rate' among them"):
        counts_name(both, dims, "rate")
