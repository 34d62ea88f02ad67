import csv
from importlib.resources import files

import numpy as np
import pytest

from bayesdp import Invariants, Margins, Totals, datasets
from bayesdp.datasets import morocco_communes

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


def test_delinquent_children_margins():
    # Working Paper 22, Table 4.
    table = datasets.delinquent_children()
    assert table.sum("education").values.tolist() == [20, 55, 25, 35]
    assert table.sum("county").values.tolist() == [50, 35, 30, 20]
    assert table.sel(county="Beta", education="Very High") == 15


def test_berkeley_departments():
    # Applicants and the percentage admitted, as the paradox is usually told (Freedman, Pisani and Purves).
    table = datasets.berkeley_admissions()
    assert table.sum("department").values.tolist() == [[1198, 1493], [557, 1278]]
    applicants = table.sum("admission")
    percent = (100 * table.sel(admission="admitted") / applicants).round()
    assert applicants.sel(sex="men").values.tolist() == [825, 560, 325, 417, 191, 373]
    assert applicants.sel(sex="women").values.tolist() == [108, 25, 593, 375, 393, 341]
    assert percent.sel(sex="men").values.tolist() == [62, 63, 37, 33, 28, 6]
    assert percent.sel(sex="women").values.tolist() == [82, 68, 34, 35, 24, 7]


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
    assert table.sel(county="IL: ADAMS").sum() == 66_090
    assert table.sel(county="WI: ADAMS")["state"] == "WI"
    assert table["race"].values.tolist() == ["white", "black", "american_indian", "asian", "other"]
    illinois = datasets.illinois_counties()
    assert illinois.sum() == 11_430_602
    assert set(illinois["state"].values.tolist()) == {"IL"}
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


def test_figures_of_the_census_of_morocco():
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


@pytest.mark.parametrize("of", ["population", "households"])
def test_which_published_totals_add_up_and_which_do_not(of):
    text = files("bayesdp.datasets").joinpath("morocco_2024.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
    levels = ("region", "province")
    regions, provinces = ({row["name"]: int(row[of]) for row in rows if row["level"] == level} for level in levels)
    communes = morocco_communes(of)
    assert len(provinces) == 83
    assert _sums(communes, "region") == regions
    found = _sums(communes, "province")
    wrong = {name for name, total in provinces.items() if found.get(name) != total}
    assert wrong == set(PREFECTURES) == set(provinces) - set(found)
    assert sum(provinces[name] for name in wrong) == int(communes.sel(commune=CASABLANCA))
    assert sum(provinces.values()) == int(communes.sum()) + int(communes.sel(commune=CASABLANCA))


def test_groups_are_those_of_the_codes_and_serve_queries():
    table = morocco_communes()
    mechouar = table.sel(commune="Casablanca: Méchouar de Casablanca")
    assert _sums(table, "province")["Casablanca"] == sum(PREFECTURES.values()) + int(mechouar) == 3_218_036
    totals = Totals(table, by="province")
    assert totals.rows == 75
    codes = table["code"].values
    for by, length in (("province", 6), ("region", 2)):
        pairs = {(name, code[:length]) for name, code in zip(table[by].values, codes, strict=True)}
        assert len(pairs) == len(set(table[by].values)) == len({code for _, code in pairs})
