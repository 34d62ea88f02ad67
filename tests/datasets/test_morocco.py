from __future__ import annotations

import csv
from importlib.resources import files

import numpy as np
import pytest

from bayesdp import Totals
from bayesdp.datasets import morocco_communes

CASABLANCA = "Casablanca: Casablanca"
PREFECTURES = {  # of arrondissements of Casablanca: the only units whose communes do not add up to them
    "Casablanca-Anfa": 344_165,
    "Al-Fida-Mers-Sultan": 224_072,
    "Aïn-Sebaâ-Hay Mohammadi": 364_835,
    "Hay-Hassani": 537_509,
    "Aïn-Chock": 374_707,
    "Sidi Bernoussi": 706_362,
    "Ben M'sick": 207_252,
    "Moulay Rachid": 457_033,
}


def _sums(table, by):
    return dict(zip(table[by].values.tolist(), [0] * table.size, strict=True)) | {
        str(name): int(table.values[table[by].values == name].sum()) for name in np.unique(table[by].values)
    }


def test_figures_of_the_census():
    # The legal population of the Kingdom as the census of 2024 announced it: 36,828,330 in 9,275,038 households, 12 regions.
    persons, households = morocco_communes(), morocco_communes("households")
    assert persons.dtype == households.dtype == np.int64
    assert int(persons.sum()) == 36_828_330
    assert int(households.sum()) == 9_275_038
    assert len(set(persons["province"].values)) == 75
    assert len(set(persons["region"].values)) == 12
    assert len(set(persons["code"].values)) == 1503
    assert int(persons.min()) == 277
    assert persons["commune"].equals(households["commune"])


@pytest.mark.parametrize("of", ["population", "households"])
def test_which_published_totals_add_up_and_which_do_not(of):
    text = files("bayesdp.datasets").joinpath("morocco_2024.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
    regions, provinces = (
        {row["name"]: int(row[of]) for row in rows if row["level"] == level} for level in ("region", "province")
    )
    communes = morocco_communes(of)
    assert len(provinces) == 83
    assert _sums(communes, "region") == regions
    found = _sums(communes, "province")
    wrong = {name for name, total in provinces.items() if found.get(name) != total}
    assert wrong == set(PREFECTURES) == set(provinces) - set(found)
    assert sum(provinces[name] for name in wrong) == int(communes.sel(commune=CASABLANCA))
    assert sum(provinces.values()) == int(communes.sum()) + int(communes.sel(commune=CASABLANCA))


def test_the_prefectures_of_casablanca():
    table = morocco_communes()
    mechouar = table.sel(commune="Casablanca: Méchouar de Casablanca")
    assert _sums(table, "province")["Casablanca"] == sum(PREFECTURES.values()) + int(mechouar) == 3_218_036


def test_groups_are_those_of_the_codes_and_serve_queries():
    table = morocco_communes()
    totals = Totals(table, by="province")
    assert totals.rows == 75
    codes = table["code"].values
    for by, length in (("province", 6), ("region", 2)):
        pairs = {(name, code[:length]) for name, code in zip(table[by].values, codes, strict=True)}
        assert len(pairs) == len(set(table[by].values)) == len({code for _, code in pairs})


def test_what_there_is_not_is_refused():
    with pytest.raises(ValueError, match="of must be"):
        morocco_communes("dwellings")


def test_attribution():
    table = morocco_communes()
    assert "Haut-Commissariat au Plan" in table.attrs["source"]
    assert "CC BY 4.0" in table.attrs["licence"]
