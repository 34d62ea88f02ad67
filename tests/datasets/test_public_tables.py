"""Tables and releases that come with the package: what was published, read by its reader, and what is known of its law."""

import csv
from importlib.resources import files

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp import Invariants, Margins, Totals, datasets
from bayesdp.datasets import morocco_communes
from tests.datasets.nmf_files import SHARED

ABS, NZ = SHARED / "abs2016_working_population", SHARED / "statsnz2013"
needs_files = pytest.mark.skipif(not SHARED.is_dir(), reason="no shared data; BAYESDP_SHARED_DATA names its folder")
ALL = [
    (datasets.delinquent_children, ("county", "education"), (4, 4)),
    (datasets.berkeley_admissions, ("sex", "admission", "department"), (2, 2, 6)),
    (datasets.midwest_counties, ("county", "race"), (437, 5)),
    (datasets.illinois_counties, ("county",), (102,)),
    (datasets.flights, ("carrier", "hour", "destination"), (14, 24, 20)),
    (datasets.morocco_communes, ("commune",), (1503,)),
]


@pytest.mark.parametrize(("load", "dims", "shape"), ALL)
def test_tables_are_labelled_counts_with_provenance(load, dims, shape):
    table = load()
    assert (table.dims, table.shape, table.dtype) == (dims, shape, np.int64)
    assert (table >= 0).all()
    assert tuple(len(set(table[dim].values.tolist())) for dim in dims) == shape
    assert all(table.attrs[attribute] for attribute in ("title", "source", "licence"))
    assert table.name
    table[...] = -1
    table.attrs.clear()
    assert (load() >= 0).all()  # every call gives a table of its own
    assert load().attrs["source"]


def test_delinquent_children_margins_and_berkeley_departments():
    # Working Paper 22, Table 4.
    table = datasets.delinquent_children()
    assert table.sum("education").values.tolist() == [20, 55, 25, 35]
    assert table.sum("county").values.tolist() == [50, 35, 30, 20]
    assert table.sel(county="Beta", education="Very High") == 15
    # Applicants and the percentage admitted, as the paradox is usually told (Freedman, Pisani and Purves).
    table = datasets.berkeley_admissions()
    assert table.sum("department").values.tolist() == [[1198, 1493], [557, 1278]]
    applicants = table.sum("admission")
    percent = (100 * table.sel(admission="admitted") / applicants).round()
    assert applicants.values.tolist() == [[825, 560, 325, 417, 191, 373], [108, 25, 593, 375, 393, 341]]
    assert percent.values.tolist() == [[62, 63, 37, 33, 28, 6], [82, 68, 34, 35, 24, 7]]


def test_midwest_state_totals_and_the_part_of_illinois():
    # Resident populations of the 1990 Census, known independently of the county file.
    table = datasets.midwest_counties()
    states = table.sum("race").groupby("state")
    assert dict(zip(states.groups, states.sum().values.tolist(), strict=True)) == {
        "IL": 11_430_602, "IN": 5_544_159, "MI": 9_295_297, "OH": 10_847_115, "WI": 4_891_769,
    }  # fmt: skip
    counties = {name: len(own) for name, own in states.groups.items()}
    assert counties == {"IL": 102, "IN": 92, "MI": 83, "OH": 88, "WI": 72}
    adams = [label for label in table["county"].values.tolist() if label.endswith(": ADAMS")]
    assert adams == ["IL: ADAMS", "IN: ADAMS", "OH: ADAMS", "WI: ADAMS"]
    assert (table.sel(county="IL: ADAMS").sum(), table.sel(county="WI: ADAMS")["state"]) == (66_090, "WI")
    assert table["race"].values.tolist() == ["white", "black", "american_indian", "asian", "other"]
    illinois = datasets.illinois_counties()
    assert (illinois.sum(), set(illinois["state"].values.tolist())) == (11_430_602, {"IL"})
    assert illinois.sel(county="IL: COOK") == 5_105_067
    assert "race" not in illinois.coords


def test_flights_and_the_two_families_of_totals_of_the_paper():
    # The five most frequent destinations as tutorials of the R package print them (`count(flights, dest, sort = TRUE)`).
    table = datasets.flights()
    known = {"ORD": 17_283, "ATL": 17_215, "LAX": 16_174, "BOS": 15_508, "MCO": 14_082}
    assert table.sum(["carrier", "hour"]).to_series().nlargest(5).to_dict() == known
    assert (int(table.sum()), int((table > 0).sum()), int(table.sel(carrier="OO").sum())) == (215_429, 1_025, 7)
    for dim in table.dims:
        assert table[dim].values.tolist() == sorted(table[dim].values.tolist())
    assert table["hour"].values.tolist() == [f"{hour:02d}" for hour in range(24)]
    assert (table.sum(["hour", "destination"]) > 0).all()
    assert (table.sum(["hour", "carrier"]) > 0).all()
    by_hour = table.sum(["carrier", "destination"])
    assert by_hour["hour"].values[by_hour.values == 0].tolist() == ["00", "01", "02", "03", "04"]
    # The two families of totals of the paper have rank 740.
    invariants = Invariants(Margins(table, ["hour", "destination"], ["carrier", "destination"]))
    assert invariants.frame.size == 6720
    assert invariants.rank == (24 + 14 - 1) * 20 == 740
    unit = np.zeros(table.shape)
    unit[3, 4, 5] = 1.0
    np.testing.assert_allclose(invariants.project(unit)[3, 4, 5], (1 - 1 / 14) * (1 - 1 / 24), rtol=1e-12)


CASABLANCA = "Casablanca: Casablanca"
PREFECTURES = {  # of arrondissements of Casablanca: the only units whose communes do not add up to them
    "Casablanca-Anfa": 344_165, "Al-Fida-Mers-Sultan": 224_072, "Aïn-Sebaâ-Hay Mohammadi": 364_835, "Hay-Hassani": 537_509,
    "Aïn-Chock": 374_707, "Sidi Bernoussi": 706_362, "Ben M'sick": 207_252, "Moulay Rachid": 457_033,
}  # fmt: skip


def _sums(table, by):
    return {str(name): int(table.values[table[by].values == name].sum()) for name in np.unique(table[by].values)}


def test_figures_of_the_census_of_morocco_and_groups_of_its_codes():
    # The legal population of the Kingdom as the census of 2024 announced it: 36,828,330 in 9,275,038 households, 12 regions.
    persons, households = morocco_communes(), morocco_communes("households")
    assert (int(persons.sum()), int(households.sum())) == (36_828_330, 9_275_038)
    assert persons.dtype == households.dtype == np.int64
    assert [len(set(persons[own].values)) for own in ("province", "region", "code")] == [75, 12, 1503]
    assert int(persons.min()) == 277
    assert persons["commune"].equals(households["commune"])
    assert "Haut-Commissariat au Plan" in persons.attrs["source"]
    assert "CC BY 4.0" in persons.attrs["licence"]
    with pytest.raises(ValueError, match="of must be"):
        morocco_communes("dwellings")
    table = persons
    mechouar = table.sel(commune="Casablanca: Méchouar de Casablanca")
    assert _sums(table, "province")["Casablanca"] == sum(PREFECTURES.values()) + int(mechouar) == 3_218_036
    assert Totals(table, by="province").rows == 75
    codes = table["code"].values
    for by, length in (("province", 6), ("region", 2)):
        pairs = {(name, code[:length]) for name, code in zip(table[by].values, codes, strict=True)}
        assert len(pairs) == len(set(table[by].values)) == len({code for _, code in pairs})


@pytest.mark.parametrize("of", ["population", "households"])
def test_which_published_totals_add_up_and_which_do_not(of):
    text = files("bayesdp.datasets").joinpath("morocco_2024.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
    levels = ("region", "province")
    regions, provinces = ({row["name"]: int(row[of]) for row in rows if row["level"] == level} for level in levels)
    communes = morocco_communes(of)
    assert (len(provinces), _sums(communes, "region")) == (83, regions)
    found = _sums(communes, "province")
    wrong = {name for name, total in provinces.items() if found.get(name) != total}
    assert wrong == set(PREFECTURES) == set(provinces) - set(found)
    assert sum(provinces[name] for name in wrong) == int(communes.sel(commune=CASABLANCA))
    assert sum(provinces.values()) == int(communes.sum()) + int(communes.sel(commune=CASABLANCA))


def test_the_working_population_has_every_margin_of_three_levels_and_those_that_are_chosen():
    release = datasets.working_population()
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
    law = bdp.noise.CellKey(max_deviation=3, variance_at_most=3.0)
    release = datasets.working_population(law, levels=["SA4"], within="701")
    assert (release.frame.labels[0], release.measurements[0].law.variance_at_most) == (("701",), 3.0)
    for given, error, message in (
        ({"levels": ["SA3", "STE"], "within": "70"}, ValueError, "begins with no codes of STE|no line is left"),
        ({"within": ["7", "x.*"]}, ValueError, "levels and within must name one or more, in digits"),
        ({"levels": ["SA5"]}, ValueError, "levels must be"),
        ({"levels": ["SA2"]}, FileNotFoundError, "W01A_AUS_SA2"),
    ):
        with pytest.raises(error, match=message):
            datasets.working_population(**given)


@needs_files
def test_the_extract_of_the_abs_is_what_the_office_published():
    for path in sorted(files("bayesdp.datasets").joinpath("abs_2016").iterdir(), key=str):
        whole = (ABS / path.name).read_text(encoding="ascii").splitlines()
        kept = [whole[0], *(own for own in whole[1:] if own[0] in "78")]
        assert path.read_text(encoding="ascii").splitlines() == kept
    assert datasets.working_population(folder=ABS) == datasets.working_population()


@pytest.mark.slow
@needs_files
def test_the_country_down_to_sa2_is_read():
    """The codes of 1,042 areas nest; a state of which no area is there is named."""
    release = datasets.working_population(levels=["SA2", "SA3", "SA4", "STE"], within=["1", "2"], folder=ABS)
    assert release.frame.shape == (1_042, 2, 13, 4)
    assert [len(set(own)) for _, _, own in release.frame.groups][-1] == 2
    told = "no SA2_MAINCODE_2016 of .* begins with STE_CODE_2016='3': areas of a level are missing"
    with pytest.raises(ValueError, match=told):
        datasets.working_population(levels=["SA2", "STE"], within=["1", "3"], folder=ABS)


def test_electorates_of_stats_nz():
    release = datasets.statsnz_age_by_sex()
    assert [own.query.dims for own in release.measurements][1] == ("row_header2", "row_header3")
    assert all((np.asarray(own.values) % 3 == 0).all() for own in release.measurements)
    assert int(release.measurements[-1].values) == 4_242_048
    maori = datasets.statsnz_age_by_sex("Māori", bdp.noise.RandomRounding(3))
    assert maori.frame.shape == (7, 18, 2)
    assert "Waiariki" in maori.frame.labels[0]
    for own in (release, maori):
        cells, rows = own.measurements[0].labelled, own.measurements[1].labelled
        assert abs(cells.sum("col_header2") - rows).max() <= 6
        assert bdp.check_law(own).pvalue > 1e-4
    with pytest.raises(ValueError, match="electorates must be"):
        datasets.statsnz_age_by_sex("Maori")


@needs_files
def test_the_extract_of_stats_nz_has_every_line():
    with (NZ / "age_sex_by_electorate.csv").open(encoding="utf-8") as text:
        whole = list(csv.DictReader(text))
    path = files("bayesdp.datasets").joinpath("statsnz_2013/age_sex_by_electorate.csv")
    shipped = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    assert shipped == [{name: own[name] for name in shipped[0]} for own in whole]
