"""The page of laws by country and agency: who is on it, that it is linked, and its lines on tables that offices published."""

import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayesdp.noise import DiscreteGaussian, RandomRounding, UnknownPerturbation, law_names

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/how-to/by-agency.md").read_text(encoding="utf-8")
SHARED = Path(os.environ.get("BAYESDP_SHARED_DATA", ROOT.parent / "shared/data"))
ELECTORATES = SHARED / "statsnz2013/age_sex_by_electorate.csv"
PROFILE = SHARED / "abs2016_working_population/2016Census_W01A_AUS_SA3.csv"


def test_each_country_has_a_section_with_what_is_known_what_is_assumed_and_the_source():
    sections = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
    countries = {"Australia", "Canada", "New Zealand", "United Kingdom", "Germany", "Norway", "United States", "Israel"}
    assert countries <= set(sections)
    for country in countries:
        assert all(word in sections[country] for word in ("Known:", "Source:")), country
        if country != "Israel":  # no law, no line
            assert "Assumed:" in sections[country], country
    table = PAGE.split("## Australia")[0]
    assert all(f"| {country} " in table for country in countries)
    for agency in (
        "ABS",
        "Statistics Canada",
        "Stats NZ",
        "ONS",
        "NRS",
        "NISRA",
        "HESA",
        "Destatis",
        "Census Bureau",
        "Detailed DHC-A",
        "American Community Survey (ACS)",
        "Wikimedia",
    ):
        assert agency in PAGE
    for name in re.findall(r"--law '([a-z-]+)", PAGE):
        assert name in law_names().split(", ")


def test_the_noise_of_the_detailed_dhc_a_is_what_its_settings_say():
    """Variances by the privacy loss of one group, and the threshold of counties by the quantile that the program takes."""
    for rho, told in ((2.134, 2.34), (0.159, 31.45), (0.008, 625.0)):
        law = DiscreteGaussian(rho=0.9 * rho / 9, sensitivity=1.0)
        assert law.variance(()).item() == pytest.approx(told, abs=0.01)
        assert f"{rho}: {told}" in PAGE
    noise = DiscreteGaussian(variance=31.45)
    held_back = int(np.argmax(noise.cdf(np.arange(100.0)) >= 0.9999))  # and all that is no larger
    assert f"below={held_back + 1})" in PAGE


def test_the_guide_and_the_index_lead_to_it():
    for page in ("perturbed-tables.md", "index.md"):
        assert "](by-agency.md)" in (ROOT / "docs/how-to" / page).read_text(encoding="utf-8")
    assert "how-to/by-agency" in (ROOT / "docs/pages/laws.py").read_text(encoding="utf-8")


@pytest.mark.skipif(not ELECTORATES.is_file(), reason="BAYESDP_SHARED_DATA names no folder with electorates")
def test_the_line_of_new_zealand_on_its_electorates():
    """All counts can have been rounded so; women and men less people differ as three deviations do (total variation below .02)."""
    table = pd.read_csv(ELECTORATES)
    counts = table[~table["row_header3"].str.contains("edian", na=False)]
    wide = counts.pivot_table(
        index=["sheet", "row_header2", "row_header3"], columns="col_header2", values="value"
    ).dropna()
    law = RandomRounding(3)
    assert law.refusals(counts["value"].dropna().to_numpy()) == {}
    off = (wide["Male"] + wide["Female"] - wide["Total people"]).to_numpy()
    assert len(off) > 1000
    # A count of remainder 0, 1 or 2 moves by these; remainders of women and men are taken as equally likely.
    deviations = np.array([[0, 0, 1, 0, 0], [0, 2 / 3, 0, 0, 1 / 3], [1 / 3, 0, 0, 2 / 3, 0]])  # from -2 to 2
    expected = np.zeros(7 * 2 + 1)
    for m in range(3):
        for f in range(3):
            both = np.convolve(np.convolve(deviations[m], deviations[f]), deviations[(m + f) % 3][::-1])
            expected[1:-1] += both / 9
    seen = np.array([np.mean(off == d) for d in range(-7, 8)])
    assert 0.5 * np.abs(seen - expected).sum() < 0.02


@pytest.mark.skipif(not PROFILE.is_file(), reason="BAYESDP_SHARED_DATA names no folder with the working population")
def test_the_line_of_australia_on_its_working_population():
    """No number is refused; no 1 or 2 is there; women and men less people differ by at most three deviations of 3."""
    table = pd.read_csv(PROFILE)
    numbers = table.drop(columns=table.columns[0]).select_dtypes("number")
    law = UnknownPerturbation(3, small=6, not_smaller_than=3, prior="max-entropy")
    assert law.refusals(numbers.to_numpy().astype(np.int64)) == {}
    assert not np.isin(numbers.to_numpy(), [1, 2]).any()
    people = [name for name in numbers if name.startswith("P_") and {"M_" + name[2:], "F_" + name[2:]} <= set(numbers)]
    assert len(people) > 10
    off = [numbers["M_" + name[2:]] + numbers["F_" + name[2:]] - numbers[name] for name in people]
    assert 5 < np.abs(off).max() <= 9
