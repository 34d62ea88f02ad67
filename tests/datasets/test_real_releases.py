"""The extracts of the ABS and of Stats NZ: what the office published, read by the office reader, and what is known of its law."""

import csv
import os
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

import bayesdp as bdp

SHARED = Path(os.environ.get("BAYESDP_SHARED_DATA", Path(__file__).parents[3] / "shared/data"))
ABS, NZ = SHARED / "abs2016_working_population", SHARED / "statsnz2013"
needs_files = pytest.mark.skipif(not SHARED.is_dir(), reason="no shared data; BAYESDP_SHARED_DATA names its folder")


def test_the_working_population_has_every_margin_of_three_levels():
    release = bdp.datasets.working_population()
    levels = [f"{x}_CODE_2016" for x in ("SA3", "SA4", "STE") for _ in range(8)]
    assert [own.query.dims[0] for own in release.measurements] == levels
    assert sum(own.values.size for own in release.measurements) == 210 * (23 + 7 + 2)
    assert release.frame.shape == (23, 2, 13, 4)
    by_name = {own.query.dims: own.labelled for own in release.measurements}
    # As the files say: line 70101 of W01A, first column; P_Tot_Tot of W01B.
    assert by_name["SA3_CODE_2016", "sex", "age", "status"].values[0, 0, 0].tolist() == [223, 225, 19, 17]
    assert int(by_name["STE_CODE_2016",].sel(STE_CODE_2016="8")) == 227_468
    assert not any(own.unmeasured.any() for own in release.measurements)
    # No 1 or 2 is published, and deviations of sums are those of the assumed law: 3 numbers, each within 3.
    numbers = np.concatenate([np.asarray(own.values).reshape(-1) for own in release.measurements])
    assert not np.isin(numbers, (1, 2)).any()
    off = by_name["SA3_CODE_2016", "sex", "age"].sum("sex") - by_name["SA3_CODE_2016", "age"]
    assert abs(off).max() <= 9
    assert 0.5 < float((off != 0).mean()) < 1


def test_levels_and_places_of_the_working_population_are_chosen():
    law = bdp.noise.CellKey(max_deviation=3, variance_at_most=3.0)
    release = bdp.datasets.working_population(law, levels=["SA4"], within="701")
    assert release.frame.labels[0] == ("701",)
    assert release.measurements[0].law.variance_at_most == 3.0
    for given, error, message in (
        ({"levels": ["SA3", "STE"], "within": "70"}, ValueError, "begins with no codes of STE|no line is left"),
        ({"within": ["7", "x.*"]}, ValueError, "levels and within must name one or more, in digits"),
        ({"levels": ["SA5"]}, ValueError, "levels must be"),
        ({"levels": ["SA2"]}, FileNotFoundError, "W01A_AUS_SA2"),
    ):
        with pytest.raises(error, match=message):
            bdp.datasets.working_population(**given)


@needs_files
def test_the_extract_of_the_abs_is_what_the_office_published():
    for path in sorted(files("bayesdp.datasets").joinpath("abs_2016").iterdir(), key=str):
        whole = (ABS / path.name).read_text(encoding="ascii").splitlines()
        kept = [whole[0], *(own for own in whole[1:] if own[0] in "78")]
        assert path.read_text(encoding="ascii").splitlines() == kept
    assert bdp.datasets.working_population(folder=ABS) == bdp.datasets.working_population()


@pytest.mark.slow
@needs_files
def test_the_country_down_to_sa2_is_read():
    """The codes of 1,042 areas nest; a state of which no area is there is named."""
    release = bdp.datasets.working_population(levels=["SA2", "SA3", "SA4", "STE"], within=["1", "2"], folder=ABS)
    assert release.frame.shape == (1_042, 2, 13, 4)
    assert [len(set(own)) for _, _, own in release.frame.groups][-1] == 2
    told = "no SA2_MAINCODE_2016 of .* begins with STE_CODE_2016='3': areas of a level are missing"
    with pytest.raises(ValueError, match=told):
        bdp.datasets.working_population(levels=["SA2", "STE"], within=["1", "3"], folder=ABS)


def test_electorates_of_stats_nz():
    release = bdp.datasets.statsnz_age_by_sex()
    assert [own.query.dims for own in release.measurements][1] == ("row_header2", "row_header3")
    assert all((np.asarray(own.values) % 3 == 0).all() for own in release.measurements)
    assert int(release.measurements[-1].values) == 4_242_048
    maori = bdp.datasets.statsnz_age_by_sex("Māori", bdp.noise.RandomRounding(3))
    assert maori.frame.shape == (7, 18, 2)
    assert "Waiariki" in maori.frame.labels[0]
    for own in (release, maori):
        cells, rows = own.measurements[0].labelled, own.measurements[1].labelled
        assert abs(cells.sum("col_header2") - rows).max() <= 6
        assert bdp.check_law(own).pvalue > 1e-4
    with pytest.raises(ValueError, match="electorates must be"):
        bdp.datasets.statsnz_age_by_sex("Maori")


@needs_files
def test_the_extract_of_stats_nz_has_every_line():
    with (NZ / "age_sex_by_electorate.csv").open(encoding="utf-8") as text:
        whole = list(csv.DictReader(text))
    path = files("bayesdp.datasets").joinpath("statsnz_2013/age_sex_by_electorate.csv")
    shipped = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    assert shipped == [{name: own[name] for name in shipped[0]} for own in whole]
