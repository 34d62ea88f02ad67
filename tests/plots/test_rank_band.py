"""The band of rank plots: exact for independent draws, seldom left by chains that agree, and left by one that does not."""

from itertools import combinations

import numpy as np
import pytest
import xarray as xr

from bayesdp import plots
from bayesdp.frames import Frame
from bayesdp.plots.rank import LEVEL, POINTS, _compared, _fractional, effective_draws, leaving_probability, limit
from bayesdp.plots.style import cell_labels, together
from tests.plots.trees import tree


@pytest.mark.parametrize(("n", "chains", "width"), [(4, 2, 1.6), (3, 3, 1.7)])
def test_the_probability_is_that_of_enumeration(n, chains, width):
    total = n * chains
    grid = np.unique(np.rint(np.arange(1, POINTS + 1) / (POINTS + 1) * total).astype(int))
    grid = grid[(grid > 0) & (grid < total)]
    subsets = list(combinations(range(total), n))
    counts = np.array([[sum(place < k for place in mine) for k in grid] for mine in subsets])
    # The variance of the hypergeometric law, from its textbook formula.
    sd = np.sqrt(grid * (n / total) * (1 - n / total) * (total - grid) / (total - 1))
    left = (np.abs(counts - n * grid / total) > width * sd + 1e-9).any(axis=1).sum()
    assert 0 < left < len(subsets)
    assert leaving_probability(n, chains, width) == pytest.approx(left / len(subsets), abs=1e-12)


def test_the_limit_has_its_level_large_counts_a_logarithmic_axis_and_no_label_is_lost_or_split():
    for chains, shared in ((2, 0.05), (4, 0.05 / 4)):
        width = limit(200, chains, 0.05)
        assert leaving_probability(200, chains, width) <= shared
        assert leaving_probability(200, chains, width - 0.1) > shared
    own = tree()
    own["prior_predictive"] = xr.DataTree(own["prior_predictive"].to_dataset() * 40)
    figure = plots.prior_predictive(own)
    assert figure.axes[0].get_xscale() == "symlog"
    assert len(figure.axes[0].get_xticks()) > 2
    frame = Frame.of({"d": ["a, b=c", "Neoplasms, malignant, of the bronchus and lung"], "age": ["0, 1", "2, 3"]})
    assert cell_labels(frame, [0, 3]) == ["a, b=c · 0, 1", "Neoplasms, malignant, of t… · 2, 3"]
    assert len(together(["x" * 80, "y" * 80, "z" * 80])) <= 34
    assert together(["x" * 80, "y"]).endswith(" · y")


def _chains(rng, chains, n, rho):
    own = rng.normal(size=(chains, n))
    for i in range(1, n):
        own[:, i] = rho * own[:, i - 1] + np.sqrt(1 - rho**2) * own[:, i]
    return own


def _left(rng, draws):
    return bool(_compared(_fractional(draws, rng), LEVEL)[3].any())


@pytest.mark.parametrize(("chains", "rho", "counts"), [(2, 0.8, False), (4, 0.5, True)])
def test_chains_that_agree_seldom_leave_the_band(chains, rho, counts):
    rng, found = np.random.default_rng(3), 0
    for _ in range(30):
        draws = _chains(rng, chains, 300, rho)
        found += _left(rng, np.round(2.0 * draws) if counts else draws)
    # Binomial(30, 0.05) is above 7 with probability 1e-4.
    assert found <= 7


def test_disagreement_does_not_widen_the_band_and_a_shifted_chain_is_seen_in_the_picture_of_two():
    rng = np.random.default_rng(5)
    draws = _chains(rng, 2, 400, 0.0)
    assert effective_draws(_fractional(draws + np.array([[0.0], [3.0]]), rng)) > 250
    assert _left(rng, np.stack([draws[0], np.full(400, 9.0)]))  # one is stuck
    own = tree(draws=400, prior=False)
    assert not any("✗" in axes.get_title(loc="left") for axes in plots.ranks(own).axes)
    rate = own["posterior"]["rate"].copy()
    rate[0] += 1.0
    own["posterior"] = xr.DataTree(own["posterior"].to_dataset().assign(rate=rate))
    (panel,) = [axes for axes in plots.ranks(own).axes if axes.get_title(loc="left").startswith("rate")]
    assert "✗" in panel.get_title(loc="left")
    told = [own.get_text() for own in panel.get_legend().get_texts()]
    assert told == [f"chain {c}: leaves the band" for c in (0, 1)]
