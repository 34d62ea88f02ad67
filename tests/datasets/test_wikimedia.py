from __future__ import annotations

import math

import numpy as np
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.datasets import WIKIMEDIA_TERMS, WikimediaTerms, read_wikimedia
from bayesdp.noise import DiscreteGaussian, DiscreteLaplace

# As the files are: country, code, project, page id, title, item, noisy views; no header.
ROWS = (
    "France\tFR\ten.wikipedia\t20408\tMarie_Curie\tQ7186\t126\n"
    "France\tFR\tfr.wikipedia\t2015\tMarie_Curie\tQ7186\t2901\n"
    "Germany\tDE\ten.wikipedia\t20408\tMarie_Curie\tQ7186\t211\n"
    "Germany\tDE\ten.wikipedia\t736\tAlbert_Einstein\tQ937\t95\n"
    'India\tIN\ten.wikipedia\t61\t"Weird_Al"_Yankovic\tQ2639\t700\n'
)
PAGES = ["Marie_Curie", "Albert_Einstein"]


@pytest.fixture
def day(tmp_path):
    path = tmp_path / "2023-03-01.tsv"
    path.write_text(ROWS, encoding="utf-8")
    return path


def test_rows_land_where_they_belong(day):
    views = read_wikimedia(day, project="en.wikipedia", pages=PAGES)
    assert views.published["country"].values.tolist() == ["DE", "FR"]
    np.testing.assert_array_equal(views.published.sel(country="FR"), [126.0, np.nan])
    np.testing.assert_array_equal(views.published.sel(country="DE"), [211.0, 95.0])
    assert views.terms[0].threshold == 90
    assert not views.at_threshold
    assert "3 of 4 published" in repr(views)


def test_pages_by_id_and_a_title_with_quotes(day):
    views = read_wikimedia(day, project="en.wikipedia", pages=[61, 736], countries=["IN", "DE", "LU"])
    np.testing.assert_array_equal(views.published, [[700, np.nan], [np.nan, 95], [np.nan, np.nan]])
    same = read_wikimedia(day, project="en.wikipedia", pages=['"Weird_Al"_Yankovic'])
    assert same.published.values.tolist() == [[700.0]]


def test_files_without_items_and_with_a_header(tmp_path):
    path = tmp_path / "2016-1-2.tsv"
    path.write_text(
        "country\tcountry_code\tproject\tpage_id\tpage_title\tprivate_count\nFrance\tFR\ten.wikipedia\t\tMarie_Curie\t4000\n"
    )
    views = read_wikimedia(path, project="en.wikipedia", pages=["Marie_Curie"])
    assert views.published.item() == 4000
    assert views.terms[0].law == DiscreteLaplace(b=300.0)
    assert views.terms[0].threshold == 3500


@pytest.mark.parametrize(
    ("date", "law", "threshold"),
    [
        ("2015-07-01", DiscreteLaplace(b=300.0), 3500),
        ("2017-02-08", DiscreteLaplace(b=300.0), 3500),
        ("2017-02-09", DiscreteLaplace(b=30.0), 450),
        ("2023-02-05", DiscreteLaplace(b=30.0), 450),
        ("2023-02-06", DiscreteGaussian(sigma=math.sqrt(10 / 0.03)), 90),
        ("2023-06-19", DiscreteLaplace(b=30.0), 450),
        ("2026-01-01", DiscreteGaussian(sigma=math.sqrt(10 / 0.03)), 90),
    ],
)
def test_laws_by_day_as_documented(tmp_path, date, law, threshold):
    path = tmp_path / "file.tsv"
    path.write_text("France\tFR\ten.wikipedia\t1\tA\tQ1\t4000\n")
    views = read_wikimedia(path, project="en.wikipedia", pages=["A"], date=date)
    assert views.terms == (WikimediaTerms(law, threshold),)


def test_the_gaussian_scale_has_the_documented_rho():
    # Ten views of one device change ten counts by one each: rho = 10 / (2 sigma^2), hand-typed in reverse.
    assert WIKIMEDIA_TERMS["gaussian-lower"].law.sigma == pytest.approx(18.2574, abs=1e-4)
    # 1.96 sigma of the other tiers, as they were reported to be in the documentation: 176.5 and 352.5 views.
    assert 1.96 * WIKIMEDIA_TERMS["gaussian-medium"].law.sigma == pytest.approx(176.5, abs=0.1)
    assert 1.96 * WIKIMEDIA_TERMS["gaussian-higher"].law.sigma == pytest.approx(352.5, abs=0.1)


def test_the_united_states_of_2023_and_countries_of_other_risk(tmp_path):
    path = tmp_path / "2023-09-19.tsv"
    path.write_text("United States\tUS\ten.wikipedia\t1\tA\tQ1\t500\nFrance\tFR\ten.wikipedia\t1\tA\tQ1\t100\n")
    views = read_wikimedia(path, project="en.wikipedia", pages=["A"])
    assert views.terms == (WIKIMEDIA_TERMS["gaussian-lower"], WIKIMEDIA_TERMS["laplace-30"])
    parts = views.measured()
    assert [part.values.tolist() for part in parts] == [[100], [500]]
    assert [part.query.names for part in parts] == [["country=FR, page=A"], ["country=US, page=A"]]
    path.write_text("United States\tUS\ten.wikipedia\t1\tA\tQ1\t120\n")
    with pytest.raises(ValueError, match=r"line 1: United States \(US\), A has 120 views.*terms=\{'US'"):
        read_wikimedia(path, project="en.wikipedia", pages=["A"])
    assert (
        read_wikimedia(path, project="en.wikipedia", pages=["A"], terms={"US": "gaussian-lower"}).terms[0].threshold
        == 90
    )
    path = tmp_path / "2025-01-01.tsv"
    path.write_text("Egypt\tEG\ten.wikipedia\t1\tA\tQ1\t1200\n")
    with pytest.raises(ValueError, match=r"terms of 'Egypt' \(EG\) must be stated"):
        read_wikimedia(path, project="en.wikipedia", pages=["A"])
    assert (
        read_wikimedia(path, project="en.wikipedia", pages=["A"], terms={"*": "gaussian-higher"}).terms[0].threshold
        == 1000
    )
    own = WikimediaTerms(DiscreteGaussian(sigma=10.0), 90)
    assert read_wikimedia(path, project="en.wikipedia", pages=["A"], terms={"EG": own}).terms[0].law.sigma == 10.0


def test_a_row_at_the_threshold_shows_that_equal_ones_are_published(tmp_path):
    path = tmp_path / "2023-03-01.tsv"
    path.write_text("France\tFR\ten.wikipedia\t1\tA\tQ1\t90\n")
    assert read_wikimedia(path, project="en.wikipedia", pages=["A"]).at_threshold


def test_the_published_rows_are_a_release(day):
    release = read_wikimedia(day, project="en.wikipedia", pages=PAGES).release()
    assert release.frame.labels == (("DE", "FR"), tuple(PAGES))
    assert release.exact == ()
    (measured,) = release.measurements
    assert measured.query.rows == 4
    assert int(measured.unmeasured.sum()) == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("126", "12.5", r"line 1: views must be a whole number of at least 0, got '12\.5'"),
        ("126", "-3", "line 1: views must be"),
        ("126", "89", r"line 1: France \(FR\), Marie_Curie has 89 views"),
        ("\tQ937", "", "line 4: 6 fields, but the first line has 7"),
        ("736\tAlbert_Einstein\tQ937\t95", "20408\tMarie_Curie\tQ7186\t95", "line 4: .*there twice"),
        ("India\tIN", "India\tDE", "line 5: the code 'DE' is that of India here and of Germany before"),
        (ROWS, "", "the file is empty"),
        (ROWS, "a,b,c\n", "seven fields between tabs"),
    ],
)
def test_files_that_are_not_right_are_refused(tmp_path, old, new, message):
    path = tmp_path / "2023-03-01.tsv"
    path.write_text(ROWS.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_wikimedia(path, project="en.wikipedia", pages=PAGES)


def test_arguments_that_are_not_right(day, tmp_path):
    def read(**given):
        return read_wikimedia(day, **({"project": "en.wikipedia", "pages": PAGES} | given))

    with pytest.raises(TypeError, match="pages must be a list, got 'Marie_Curie'"):
        read(pages="Marie_Curie")
    with pytest.raises(TypeError, match="titles, or of page ids"):
        read(pages=["Marie_Curie", 3])
    with pytest.raises(ValueError, match="pages must be different"):
        read(pages=["A", "A"])
    with pytest.raises(ValueError, match="titles have underscores"):
        read(pages=["Marie Curie"])
    with pytest.raises(ValueError, match="date must be a day"):
        read(date="2023-02-30")
    with pytest.raises(ValueError, match="2015-07-01 or later"):
        read(date="2014-01-01")
    with pytest.raises(ValueError, match="terms of 'FR' must be one of"):
        read(terms={"FR": "gauss"})
    with pytest.raises(ValueError, match="terms are stated for 'XX'"):
        read(terms={"XX": "laplace-30"})
    with pytest.raises(ValueError, match="independent whole numbers"):
        WikimediaTerms(bdp.noise.Gaussian(sigma=10.0), 90)
    other = tmp_path / "views.tsv"
    other.write_text(ROWS)
    with pytest.raises(ValueError, match="date must be stated"):
        read_wikimedia(other, project="en.wikipedia", pages=PAGES)
    with pytest.raises(FileNotFoundError):
        read_wikimedia(tmp_path / "absent.tsv", project="en.wikipedia", pages=PAGES, date="2023-03-01")


def test_candidates_have_to_be_stated(day):
    views = read_wikimedia(day, project="en.wikipedia", pages=PAGES)
    with pytest.raises(TypeError, match=r"candidates must be True .*the file does not say which"):
        views.censored(candidates=None)
    with pytest.raises(ValueError, match="candidates leaves out DE, Marie_Curie, which was published"):
        views.censored(candidates=np.zeros((2, 2), dtype=bool))


def test_missing_candidates_contribute_their_probability(day):
    views = read_wikimedia(day, project="en.wikipedia", pages=PAGES)
    (measured,) = views.censored(candidates=True)
    law = measured.law
    location = np.array(
        [[200.0, 100.0], [120.0, 95.0]]
    )  # DE, FR by Marie_Curie, Albert_Einstein; FR's Einstein is missing
    inner = views.terms[0].law
    below = np.log(np.sum(np.exp(inner.log_mass(np.arange(-400, 91) - 95.0))))  # the noisy number is at most 90
    by_hand = sum(float(inner.log_mass(np.array([y - m]))[0]) for y, m in ((211, 200), (95, 100), (126, 120))) + below
    assert law.logp(measured.values, location) == pytest.approx(by_hand, rel=1e-10)
    mask = xr.DataArray(
        [[True, True], [True, False]], coords={"country": ["DE", "FR"], "page": PAGES}, dims=("country", "page")
    )
    (unknown,) = views.censored(candidates=mask)
    np.testing.assert_array_equal(unknown.unmeasured, [[False, False], [False, True]])


def test_terms_of_a_country_on_a_day():
    assert WikimediaTerms.on("2023-02-05", "AU") == WIKIMEDIA_TERMS["laplace-30"]
    assert WikimediaTerms.on("2023-02-06", "AU") == WIKIMEDIA_TERMS["gaussian-lower"]
    assert WikimediaTerms.on("2023-06-19", "AU") == WIKIMEDIA_TERMS["laplace-30"]  # made later
    sigma = WIKIMEDIA_TERMS["gaussian-lower"].law.sigma
    assert 10 / (2 * sigma**2) == pytest.approx(0.015)
    assert 1.96 * sigma == pytest.approx(35.7, abs=0.1)  # the README's error at 95 %
    with pytest.raises(ValueError, match="terms of 'EG'"):
        WikimediaTerms.on("2024-03-01", "EG")
    with pytest.raises(ValueError, match="Invalid isoformat"):
        WikimediaTerms.on("yesterday", "AU")
