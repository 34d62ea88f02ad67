"""The page: its numbers are those of NumPy, its labels are text, and it needs nothing from anywhere."""

import base64
import csv
import io
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.privacy import Guarantee, pure_pairs
from bayesdp.report import report
from bayesdp.report.html import element, items
from bayesdp.report.page import page as painted
from bayesdp.report.reliability import prior_distance, same_as_prior
from bayesdp.report.tables import Column, Table
from tests.plots.trees import COUNTY, FRAME, TRUTH, release, tree
from tests.plots.trees import unpainted as page


class _Reader(HTMLParser):
    """Checks that elements are nested properly; collects tables, links and what the page would load."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.text, self.open, self.rows, self.attributes, self.tags = text, [], [], [], set()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in ("meta", "br", "img"):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and ("td" in self.open or "th" in self.open):
            self.rows[-1][-1] += data


POSTERIOR = tree()


@pytest.fixture(scope="module")
def reader():
    return _Reader(painted(POSTERIOR, prob=0.9, truth=TRUTH))


def _csv(reader, name):
    sources = [value for tag, key, value in reader.attributes if tag == "a" and key in ("href", "download")]
    link = sources[sources.index(name) - 1]
    return list(csv.DictReader(io.StringIO(base64.b64decode(link.partition("base64,")[2]).decode(), newline="")))


def test_numbers_of_the_cells_and_totals_are_those_of_numpy(reader):
    draws = POSTERIOR["posterior"]["x"].values.reshape(-1, 12)
    lower, upper = np.quantile(draws, [0.05, 0.95], axis=0, method="inverted_cdf")
    rows = _csv(reader, "cells.csv")
    assert [row["county"] for row in rows] == [county for county in COUNTY for _ in range(3)]
    expected = {"mean": draws.mean(axis=0), "sd": draws.std(axis=0), "eti90_lower": lower, "eti90_upper": upper}
    for name, numbers in (expected | {"truth": TRUTH.reshape(-1)}).items():
        np.testing.assert_allclose([float(row[name]) for row in rows], numbers)
    mean, sd = f"{draws[:, 0].mean():.1f}", f"{draws[:, 0].std():.2f}"
    published = release().values.values[0, 0]
    assert ["Alpha", "Low", f"{published}", "5", mean, sd, f"{lower[0]:.0f} to {upper[0]:.0f}", ""] in reader.rows
    # Totals, exact and free.
    assert ["Low", "23", "21", "23", "23.0", "0.00", "23 to 23"] in reader.rows
    draws = POSTERIOR["posterior"]["x"].values.sum(axis=-1).reshape(-1, 4)
    rows = _csv(reader, "totals-2.csv")
    assert [row["county"] for row in rows] == COUNTY
    np.testing.assert_allclose([float(row["mean"]) for row in rows], draws.mean(axis=0))
    assert ["grand total", "50", "48", "48.0", "0.00", "48 to 48"] in reader.rows


def test_intervals_hold_a_truth_at_their_ends():
    rows = bdp.summary(POSTERIOR, prob=0.9).loc["x"]
    for end in ("eti90_lower", "eti90_upper"):
        truth = rows[end].fillna(rows["exact"]).to_numpy(dtype=int).reshape(TRUTH.shape)
        assert "The truth is known here: 8 of the 8 intervals" in page(POSTERIOR, prob=0.9, truth=truth)


def test_determined_cells_are_marked_and_warned_of_and_labels_are_text(reader):
    text = reader.text
    assert "4 cells have no protection" in text
    assert "Counts: whole numbers, as they are. No approximation." in text
    assert "exact-conditional steps" in text
    assert "elaxation" not in text
    assert "90% equal-tailed interval" in text
    assert "95% equal-tailed" not in text
    marked = [row for row in reader.rows if row and row[-1].startswith("determined")]
    assert [row[:2] for row in marked] == [[county, "None"] for county in COUNTY]
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert not [name for _, name, _ in reader.attributes if name.startswith("on")]
    assert "bayesdp fit &lt;a&gt; &amp; b" in text
    assert "&lt;b&gt;Poisson&lt;/b&gt;" in text


def test_page_is_self_contained_and_sections_are_in_order(reader):
    for _, name, value in reader.attributes:
        if name in ("src", "href"):
            assert value.startswith(("data:", "#"))
    assert not re.search(r"@import|url\(", reader.text)
    assert reader.tags.isdisjoint({"script", "link", "iframe", "object"})
    assert ("meta", "name", "viewport") in reader.attributes
    assert "@media print" in reader.text
    pictures = [v for tag, name, v in reader.attributes if (tag, name) == ("img", "src")]
    for source in pictures:
        inside = base64.b64decode(source.partition("base64,")[2]).decode()
        assert "<svg" in inside
        assert "<script" not in inside
    texts = [v for tag, name, v in reader.attributes if (tag, name) == ("img", "alt")]
    assert len(texts) == len(pictures) == 5
    assert all(texts)
    anchors = re.findall(r'<section id="(\w+)"', reader.text)
    names = "headline release results parameters noise prior sensitivity convergence errors methods provenance"
    assert anchors == names.split()
    assert all(f'href="#{anchor}"' in reader.text for anchor in anchors[1:])


def test_guarantee_and_simulation():
    own = Guarantee("pure", {"epsilon": 0.25}, "l1", pure_pairs(0.25, "l1", ["substitution"]), simulated=True)
    told = page(tree(release(guarantee=own, simulated=True), prior=False))
    assert "Simulated release." in told
    assert "epsilon = 0.5" in told
    assert "does not say which mechanism" not in told
    told = page(tree(prior=False))
    for words in ("does not say which mechanism", "does not describe its prior", "no prior draws"):
        assert words in told
    for words in ("Simulated release.", "contains the confidential table"):
        assert words not in told


def test_too_little_to_judge_is_a_calm_banner_and_bad_chains_a_red_one():
    own = tree(chains=1, prior=False)
    told = page(own)
    assert '<p class="banner warn"><strong>Too little to judge convergence.</strong>' in told
    assert "NOT" not in told.replace("NOTE", "")
    assert "No rank plots" in told
    message = "NOT converged, as far as can be told: R-hat up to 1.2."
    own["diagnostics"].attrs |= {"verdict": "not converged", "converged": 0, "message": message}
    assert '<p class="banner bad"><strong>Do not report these numbers.' in page(own)
    del own["diagnostics"]
    assert "Convergence was not assessed." in page(own)


def test_cells_that_no_number_involves_are_listed_and_the_methods_paragraph_names_a_plain_law():
    noisy, law = TRUTH + np.where(np.arange(12).reshape(4, 3) == 1, np.nan, 0.0), bdp.noise.DiscreteGaussian(sigma=2.0)
    measured = bdp.Measured(bdp.Identity(FRAME), noisy, law, unmeasured=[("Alpha", "High")])
    exact = bdp.Exact(bdp.Margins(FRAME, ["education"]), TRUTH.sum(axis=0))
    told = page(tree(bdp.Release.from_published(FRAME, [measured], [exact])))
    assert "No noisy number was published that involves 1 free cell." in told
    assert "1 answer was not published." in told
    for law, words in (
        (bdp.noise.Laplace(epsilon=0.5, sensitivity=2.0), "laplace b=4"),
        (bdp.noise.Gaussian(2.5), "gaussian sigma=2.5"),
    ):
        assert f"noise law {words}. Published exactly" in page(tree(release(law=law)))


def test_distance_of_prior_and_posterior_and_long_tables_are_folded_and_complete_in_the_csv():
    rng = np.random.default_rng(2)
    prior = rng.normal(size=(500, 3))
    posterior = np.stack([rng.normal(size=400), rng.normal(0, 0.1, 400), rng.normal(9, 1, 400)], axis=1)
    distance = prior_distance(prior, posterior)
    # With 500 and 400 draws of one law the distance exceeds 0.14 with probability 3e-4.
    assert distance[0] < 0.14
    assert distance[1] == pytest.approx(0.45, abs=0.1)
    assert distance[2] == 1.0
    ratio = posterior.std(axis=0) / prior.std(axis=0)
    assert same_as_prior(distance, ratio, np.zeros(3, dtype=bool)).tolist() == [True, False, False]
    table = Table("Many", [Column("n", list(range(1500)))], "n.csv")
    told = _Reader(table.to_html())
    assert [row[0] for row in told.rows if row[0] != "n"] == [str(n) for n in range(1000)]
    assert "details" in told.tags
    assert len(table.to_csv().splitlines()) == 1501
    assert element("img", alt='"><script>') == '<img alt="&quot;&gt;&lt;script&gt;">'
    assert items(["<"] * 20, what="cells").count("<li>&lt;</li>") == 20


def test_a_file_is_written_once_unless_told_otherwise_and_never_for_bad_arguments(tmp_path):
    path = tmp_path / "report.html"
    for options, message in (({"prob": 1.5}, "prob"), ({"truth": TRUTH[:2]}, "truth")):
        with pytest.raises(ValueError, match=message):
            report(POSTERIOR, path, **options)
    assert list(tmp_path.iterdir()) == []
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="exists already"):
        report(POSTERIOR, path)
    assert path.read_text() == "mine"
    assert report(POSTERIOR, path, title="A <b> title", overwrite=True) == path
    assert "<title>A &lt;b&gt; title</title>" in path.read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == [path]
