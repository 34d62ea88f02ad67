"""Files of Wikimedia's page views: rows at their places, the law of their day, and what a missing row says."""

import math

import numpy as np
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.datasets import WIKIMEDIA_TERMS, WikimediaTerms, read_wikimedia
from bayesdp.noise import DiscreteGaussian, DiscreteLaplace
from tests.refusals import refused

# As the files are: country, code, project, page id, title, item, noisy views; no header.
ROWS = (
    "France\tFR\ten.wikipedia\t20408\tMarie_Curie\tQ7186\t126\n"
    "France\tFR\tfr.wikipedia\t2015\tMarie_Curie\tQ7186\t2901\n"
    "Germany\tDE\ten.wikipedia\t20408\tMarie_Curie\tQ7186\t211\n"
    "Germany\tDE\ten.wikipedia\t736\tAlbert_Einstein\tQ937\t95\n"
    'India\tIN\ten.wikipedia\t61\t"Weird_Al"_Yankovic\tQ2639\t700\n'
)
PAGES = ["Marie_Curie", "Albert_Einstein"]
WITH_HEADER = "country\tcountry_code\tproject\tpage_id\tpage_title\tprivate_count\nFrance\tFR\ten.wikipedia\t\tMarie_Curie\t4000\n"


@pytest.fixture
def read(tmp_path):
    """Read a text as the file of a day."""

    def call(text=ROWS, day="2023-03-01", **given):
        path = tmp_path / f"{day}.tsv"
        path.write_text(text, encoding="utf-8")
        return read_wikimedia(path, **({"project": "en.wikipedia", "pages": PAGES} | given))

    return call


def one(country, code, views):
    return f"{country}\t{code}\ten.wikipedia\t1\tA\tQ1\t{views}\n"


def test_rows_land_where_they_belong(read):
    views = read()
    assert views.published["country"].values.tolist() == ["DE", "FR"]
    np.testing.assert_array_equal(views.published, [[211.0, 95.0], [126.0, np.nan]])
    assert views.terms[0].threshold == 90
    assert not views.at_threshold
    assert "3 of 4 published" in repr(views)
    release = views.release()
    assert (release.frame.labels, release.exact) == ((("DE", "FR"), tuple(PAGES)), ())
    (measured,) = release.measurements
    assert (measured.query.rows, int(measured.unmeasured.sum())) == (4, 1)
    views = read(pages=[61, 736], countries=["IN", "DE", "LU"])
    np.testing.assert_array_equal(views.published, [[700, np.nan], [np.nan, 95], [np.nan, np.nan]])
    assert read(pages=['"Weird_Al"_Yankovic']).published.values.tolist() == [[700.0]]
    views = read(WITH_HEADER, "2016-1-2", pages=["Marie_Curie"])  # and without items
    assert (views.published.item(), views.terms) == (4000, (WikimediaTerms(DiscreteLaplace(b=300.0), 3500),))
    # A row at the threshold shows that equal ones are published.
    assert read(one("France", "FR", 90), pages=["A"]).at_threshold


def test_laws_by_day_as_documented(read):
    gaussian = DiscreteGaussian(sigma=math.sqrt(10 / 0.03))
    for date, law, threshold in (
        ("2015-07-01", DiscreteLaplace(b=300.0), 3500),
        ("2017-02-08", DiscreteLaplace(b=300.0), 3500),
        ("2017-02-09", DiscreteLaplace(b=30.0), 450),
        ("2023-02-05", DiscreteLaplace(b=30.0), 450),
        ("2023-02-06", gaussian, 90),
        ("2023-06-19", DiscreteLaplace(b=30.0), 450),  # made later
        ("2026-01-01", gaussian, 90),
    ):
        terms = WikimediaTerms(law, threshold)
        assert read(one("France", "FR", 4000), "file", pages=["A"], date=date).terms == (terms,)
        assert WikimediaTerms.on(date, "AU") == terms


def test_the_united_states_of_2023_countries_of_other_risk_and_the_scales_of_the_documentation(read):
    day = {"day": "2023-09-19", "pages": ["A"]}
    views = read(one("United States", "US", 500) + one("France", "FR", 100), **day)
    assert views.terms == (WIKIMEDIA_TERMS["gaussian-lower"], WIKIMEDIA_TERMS["laplace-30"])
    parts = views.measured()
    assert [part.values.tolist() for part in parts] == [[100], [500]]
    assert [part.query.names for part in parts] == [["country=FR, page=A"], ["country=US, page=A"]]
    few = one("United States", "US", 120)
    with pytest.raises(ValueError, match=r"line 1: United States \(US\), A has 120 views.*terms=\{'US'"):
        read(few, **day)
    assert read(few, **day, terms={"US": "gaussian-lower"}).terms[0].threshold == 90
    egypt, day = one("Egypt", "EG", 1200), {"day": "2025-01-01", "pages": ["A"]}
    with pytest.raises(ValueError, match=r"terms of 'Egypt' \(EG\) must be stated"):
        read(egypt, **day)
    assert read(egypt, **day, terms={"*": "gaussian-higher"}).terms[0].threshold == 1000
    own = WikimediaTerms(DiscreteGaussian(sigma=10.0), 90)
    assert read(egypt, **day, terms={"EG": own}).terms == (own,)
    # Ten views of one device change ten counts by one each: rho = 10 / (2 sigma^2), hand-typed in reverse.
    assert WIKIMEDIA_TERMS["gaussian-lower"].law.sigma == pytest.approx(18.2574, abs=1e-4)
    # 1.96 sigma of each tier, as reported in the documentation: 35.7, 176.5 and 352.5 views.
    for tier, error in (("lower", 35.7), ("medium", 176.5), ("higher", 352.5)):
        assert 1.96 * WIKIMEDIA_TERMS[f"gaussian-{tier}"].law.sigma == pytest.approx(error, abs=0.1)


def changed(old, new):
    return {"text": ROWS.replace(old, new, 1)}


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (changed("126", "12.5"), ValueError, r"line 1: views must be a whole number of at least 0, got '12\.5'"),
        (changed("126", "-3"), ValueError, "line 1: views must be"),
        (changed("126", "89"), ValueError, r"line 1: France \(FR\), Marie_Curie has 89 views"),
        (changed("\tQ937", ""), ValueError, "line 4: 6 fields, but the first line has 7"),
        (
            changed("736\tAlbert_Einstein\tQ937\t95", "20408\tMarie_Curie\tQ7186\t95"),
            ValueError,
            "line 4: .*there twice",
        ),
        (
            changed("India\tIN", "India\tDE"),
            ValueError,
            "line 5: the code 'DE' is that of India here and of Germany before",
        ),
        (changed(ROWS, ""), ValueError, "the file is empty"),
        (changed(ROWS, "a,b,c\n"), ValueError, "seven fields between tabs"),
        ({"pages": "Marie_Curie"}, TypeError, "pages must be a list, got 'Marie_Curie'"),
        ({"pages": ["Marie_Curie", 3]}, TypeError, "titles, or of page ids"),
        ({"pages": ["A", "A"]}, ValueError, "pages must be different"),
        ({"pages": ["Marie Curie"]}, ValueError, "titles have underscores"),
        ({"date": "2023-02-30"}, ValueError, "date must be a day"),
        ({"date": "2014-01-01"}, ValueError, "2015-07-01 or later"),
        ({"day": "views"}, ValueError, "date must be stated"),
        ({"terms": {"FR": "gauss"}}, ValueError, "terms of 'FR' must be one of"),
        ({"terms": {"XX": "laplace-30"}}, ValueError, "terms are stated for 'XX'"),
    ],
)
def test_files_and_arguments_that_are_not_right_are_refused(read, given, error, message):
    with pytest.raises(error, match=message):
        read(**given)


test_terms_and_files_that_are_not_there_are_refused = refused(
    (lambda: WikimediaTerms(bdp.noise.Gaussian(sigma=10.0), 90), "independent whole numbers"),
    (lambda: WikimediaTerms.on("yesterday", "AU"), "Invalid isoformat"),
    (lambda: WikimediaTerms.on("2024-03-01", "EG"), "terms of 'EG'"),
    (lambda: read_wikimedia("absent.tsv", project="en", pages=PAGES, date="2023-03-01"), "absent", FileNotFoundError),
)


def test_candidates_have_to_be_stated_and_contribute_their_probability(read):
    views = read()
    with pytest.raises(TypeError, match=r"candidates must be True .*the file does not say which"):
        views.censored(candidates=None)
    with pytest.raises(ValueError, match="candidates leaves out DE, Marie_Curie, which was published"):
        views.censored(candidates=np.zeros((2, 2), dtype=bool))
    (measured,) = views.censored(candidates=True)
    # DE, FR by Marie_Curie, Albert_Einstein; FR's Einstein is missing.
    location = np.array([[200.0, 100.0], [120.0, 95.0]])
    inner = views.terms[0].law
    below = np.log(np.sum(np.exp(inner.log_mass(np.arange(-400, 91) - 95.0))))  # the noisy number is at most 90
    by_hand = sum(float(inner.log_mass(np.array([y - m]))[0]) for y, m in ((211, 200), (95, 100), (126, 120))) + below
    assert measured.law.logp(measured.values, location) == pytest.approx(by_hand, rel=1e-10)
    labels = {"country": ["DE", "FR"], "page": PAGES}
    possible = xr.DataArray([[True, True], [True, False]], coords=labels, dims=list(labels))
    (unknown,) = views.censored(candidates=possible)
    np.testing.assert_array_equal(unknown.unmeasured, [[False, False], [False, True]])
