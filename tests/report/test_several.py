"""A page about several releases, several tables and further likelihoods: each of them is on it, and every sentence is true."""

import html
import re

import numpy as np
import pymc as pm
import pytensor
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp import plots
from bayesdp.posterior import Posterior, PosteriorModel
from bayesdp.report.page import page as painted
from tests.plots.trees import unpainted as page

pytestmark = pytest.mark.system

# Labels that hold what joins names, markup, and letters that are written from right to left.
PEOPLE = {"age, years": ["0, 1", "2, 3"], "ward": ["<b>", "قسم"]}
DEATHS = {"county": ["Alpha", "Beta", "Gamma"]}
NOISY, AGAIN, BY_AGE = np.array([[40, 61], [33, 92]]), np.array([[38, 62], [31, 93]]), np.array([102, 117])


def noisy(query, values, sigma):
    return bdp.Measured(query, values, bdp.noise.DiscreteGaussian(sigma=sigma))


ONE = bdp.Release.from_published(PEOPLE, [noisy(bdp.Identity(PEOPLE), NOISY, 3.0)])
SECOND = [noisy(bdp.Margins(PEOPLE, ["age, years"]), BY_AGE, 2.0), noisy(bdp.Identity(PEOPLE), AGAIN, 5.0)]
TWO = bdp.Release.from_published(PEOPLE, SECOND, [bdp.Exact(bdp.Totals(PEOPLE), 220)])
DIED = bdp.Release.from_published(
    DEATHS, [noisy(bdp.Identity(DEATHS), [6, 0, 9], 1.5)], [bdp.Exact(bdp.Totals(DEATHS), 14)]
)


@pytest.fixture(scope="module")
def posterior():
    with pm.Model(coords={**ONE.coords, **DIED.coords}) as model:
        people = bdp.ConfidentialCounts("people", pm.Poisson.dist(50.0), dims=ONE.dims)
        bdp.observe(ONE, people)
        rate = pm.Gamma("rate", 2.0, 0.5)
        died = bdp.ConfidentialCounts("died", pm.Poisson.dist(rate), dims="county")
        bdp.observe(DIED, died)
        bdp.observe(TWO, people)
        pm.Normal("survey", rate, 1.0, observed=np.array([4.0, 5.0]))
        pm.Potential("pull", -((rate - 5.0) ** 2))
        with pytensor.config.change_flags(mode="FAST_COMPILE"):  # by Python: compilation takes longer
            tree = bdp.sample(draws=61, tune=30, chains=2, cores=1, random_seed=1, progressbar=False, quiet=True)
        # Without the Potential, of which PyMC warns; the draws are compared with nothing here.
        with pytest.warns(UserWarning, match="Potentials"):
            bdp.inference.add_prior_predictive(tree, model, draws=20, random_seed=1)
    tree.attrs["prior"] = f"ours: rates that scatter\nrate ~ Gamma(2, 0.5)\n\n{tree.attrs['prior']}"
    return tree


@pytest.fixture(scope="module")
def text(posterior):
    return painted(posterior)


def _words(text, section):
    own = text.split(f'<section id="{section}"')[1].split("</section>")[0]
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", own)))


def _made_up(release, counts):
    draws = xr.DataArray(counts, dims=("chain", "draw", "county"), coords=DEATHS)
    return xr.DataTree.from_dict({"posterior": xr.Dataset({"x": draws}), "release": release.to_dataset()})


def test_every_release_is_read_with_its_table_numbers_that_were_replaced_are_of_none_and_truth_is_by_name(posterior):
    people, died = PosteriorModel.checked(posterior).published_tables()
    assert (people.name, died.name) == ("people", "died")
    assert (people.releases, died.releases) == ((ONE, TWO), (DIED,))
    assert people.observed == ("noisy", "noisy_3", "noisy_4")  # noisy_2 was observed in between, of the other table
    assert died.observed == ("noisy_2",)
    assert [title for title, _ in people.published_cells] == ["release 1", "release 2"]
    assert people.fixed(bdp.Totals(PEOPLE)).all()  # the total is exact in the second release
    found = PosteriorModel(posterior)
    assert (found.likelihoods, found.replaced, found.potentials) == (["survey"], [], ["pull"])
    with pytest.raises(ValueError, match="var must be a table of the posterior, people, died; got 'x'"):
        Posterior.of(posterior, "x")
    own = posterior.copy()
    del own["release_2"]  # what `annotate` leaves out after pm.set_data
    told = _words(page(own), "methods")
    assert "The numbers of noisy_3, noisy_4, exact_2 are not those of any release in the file" in told
    assert "likelihoods of its author: survey." in told
    del own["release"]
    assert [fit.name for fit in PosteriorModel.checked(own).published_tables()] == ["died"]
    for truth, message in (
        (NOISY, "truth must say which of the tables people, died it is"),
        ({"x": NOISY}, "truth must be about tables of the posterior, people, died; got x"),
    ):
        with pytest.raises(ValueError, match=message):
            page(posterior, truth=truth)
    assert "contains the confidential table" in page(posterior, truth={"died": [5, 1, 8]})


def test_the_methods_paragraph_names_everything(text):
    told = _words(text, "methods")
    assert "counts people (age, years (2) × ward (2), 4 cells) was inferred from 2 releases together." in told
    first, second = told.split("Release 2 of people is")
    assert "noise law discrete-gaussian sigma=3. Published exactly: nothing." in first
    second, deaths = second.split("The confidential table of counts died")
    assert "2 answers by age, years, noise law discrete-gaussian sigma=2" in second
    assert "noise law discrete-gaussian sigma=5. Published exactly: grand total." in second
    for words in (
        "noise law discrete-gaussian sigma=1.5. Published exactly: grand total.",
        "further data, with the likelihoods of its author: survey.", "(Potentials): pull.", "2 chains of 61 draws",
        "p(θ, x | y, t, z) ∝ p(θ) p(x | θ) 1{A x = t, x ≥ 0} p(y | x) p(z | θ, x) exp(v(θ, x))",
        "the other parameters by NUTS", "Prior: ours: rates that scatter",
    ):  # fmt: skip
        assert words in deaths


def test_a_model_without_parameters_or_noise_claims_neither():
    own = bdp.Release.from_published(DEATHS, [], [bdp.Exact(bdp.Totals(DEATHS), 14, sign="<=")])
    told = _words(page(_made_up(own, np.full((2, 9, 3), 4) - np.arange(9)[:, None] % 3)), "methods")
    assert "from a release without noise" in told
    assert "Published with noise: nothing. Published exactly: grand total, as upper bounds." in told
    joint = "p(x | t) ∝ p(x) 1{x agrees with t, x ≥ 0}, with the exact values t"
    assert f"The joint posterior of the counts x is {joint}" in told
    assert not re.search("NUTS|θ", told)
    query = bdp.LinearQuery(DEATHS, [[1, 2, 0]], names=["total"])  # a total that is no total keeps its name
    own = bdp.Release.from_published(DEATHS, [], [bdp.Exact(query, [5]), bdp.Exact(bdp.Totals(DEATHS), 4)])
    told = re.sub(r"\s+:", ":", _words(page(_made_up(own, np.full((2, 9, 3), [1, 2, 1]))), "release"))
    assert "total: 5" in told.replace("Grand total: 4", "")
    assert "Grand total: 5" not in told


def test_the_result_comes_first(posterior, text):
    main = text[text.index("<main>") :]
    assert main.startswith('<main><section id="headline"')
    assert main.index("<nav") < main.index('<section id="release"') < main.index('<section id="convergence"')
    told = _words(text, "headline")
    assert "What are the confidential counts of the 4 cells by age, years × ward in the table people?" in told
    mean = posterior["posterior"]["people"].mean(("chain", "draw")).values
    low, high = np.quantile(posterior["posterior"]["people"].values[..., 0, 1], [0.025, 0.975], method="inverted_cdf")
    assert f"0, 1 · قسم : {mean[0, 1]:,.1f} (posterior mean), interval {low:.0f} to {high:.0f}" in told
    assert "in the table died?" in told
    assert "&lt;bdi&gt;" not in text
    # The question can be asked.
    told = _words(page(posterior, question="How many die?", headline="rate"), "headline")
    rate = posterior["posterior"]["rate"].values
    low, high = np.quantile(rate, [0.025, 0.975], method="inverted_cdf")
    assert f"How many die? rate : {rate.mean():.3g} (posterior mean), interval {low:.3g} to {high:.3g}" in told
    asked = _words(page(posterior, headline=bdp.Margins(PEOPLE, ["ward"])), "headline")
    assert f"{posterior['posterior']['people'].sum('age, years').mean(('chain', 'draw'))[1]:.1f}" in asked
    for wrong in ("rat", bdp.Totals({"state": ["A", "B"]})):
        with pytest.raises(ValueError, match="headline must be"):
            page(posterior, headline=wrong)


def test_each_table_has_its_numbers_and_its_files(text, posterior):
    names = re.findall(r'download="([^"]+)"', text)
    assert len(set(names)) == len(names)
    assert {"people-cells.csv", "died-cells.csv", "parameters.csv"} <= set(names)
    anchors = re.findall(r'<section id="([^"]+)"', text)
    assert len(set(anchors)) == len(anchors)
    told = _words(text, "results")
    assert "Published (noisy; release 1) Published (noisy; release 2)" in told
    assert "0, 1 <b> 40 38 " in told
    assert "Each guarantee is of one release alone." in _words(text, "release")
    plain = html.unescape(text)
    assert plain.count("rate ~ Gamma(2, 0.5)") == plain.count("ExactAnswers(people)") == 1  # the prior is there once
    assert "release 2: Grand total: 220" in re.sub(r"\s+:", ":", _words(text, "release"))


def test_pictures_are_of_the_table_and_the_release_that_were_asked_for(posterior):
    figure = plots.prior_predictive(posterior, measurement=2)
    labels = [re.sub("[\u2068\u2069]", "", own.get_text()) for own in figure.axes[0].get_yticklabels()]
    assert labels == [f"{age} · {ward}" for age in ("0, 1", "2, 3") for ward in ("<b>", "قسم")]
    (segments,) = [own.get_segments() for own in figure.axes[0].collections]
    draws = posterior["prior_predictive"]["noisy_4"].values.reshape(-1, 4)
    ends = np.quantile(draws, [0.025, 0.975], axis=0, method="inverted_cdf")
    np.testing.assert_allclose([[own[0][0], own[1][0]] for own in segments], ends.T)
    lines = {own.get_label(): own.get_xdata() for own in plots.intervals(posterior).axes[0].get_lines()}
    np.testing.assert_array_equal(lines["published (noisy; release 1)"], NOISY.reshape(-1))
    np.testing.assert_array_equal(lines["published (noisy; release 2)"], AGAIN.reshape(-1))
    assert len(plots.intervals(posterior, var="died").axes[0].get_yticklabels()) == 3
    with pytest.raises(ValueError, match="measurement must be from 0 to 2, got 3"):
        plots.noise_law(posterior, measurement=3)
