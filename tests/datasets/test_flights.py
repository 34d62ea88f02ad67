from __future__ import annotations

import numpy as np

from bayesdp import Invariants, Margins, datasets


def test_totals_of_the_source():
    # The five most frequent destinations as tutorials of the R package print them (`count(flights, dest, sort = TRUE)`).
    by_destination = datasets.flights().sum(["carrier", "hour"]).to_series()
    known = {"ORD": 17_283, "ATL": 17_215, "LAX": 16_174, "BOS": 15_508, "MCO": 14_082}
    assert by_destination.nlargest(5).to_dict() == known


def test_size():
    table = datasets.flights()
    assert int(table.sum()) == 215_429
    assert int((table > 0).sum()) == 1_025
    assert int(table.sel(carrier="OO").sum()) == 7


def test_labels_are_in_order_and_nothing_is_all_empty_but_the_night():
    table = datasets.flights()
    for dim in table.dims:
        assert table[dim].values.tolist() == sorted(table[dim].values.tolist())
    assert table["hour"].values.tolist() == [f"{hour:02d}" for hour in range(24)]
    assert (table.sum(["hour", "destination"]) > 0).all()
    assert (table.sum(["hour", "carrier"]) > 0).all()
    by_hour = table.sum(["carrier", "destination"])
    assert by_hour["hour"].values[by_hour.values == 0].tolist() == ["00", "01", "02", "03", "04"]


def test_the_two_families_of_totals_of_the_paper_have_rank_740():
    table = datasets.flights()
    invariants = Invariants(Margins(table, ["hour", "destination"], ["carrier", "destination"]))
    assert invariants.frame.size == 6720
    assert invariants.rank == (24 + 14 - 1) * 20 == 740
    unit = np.zeros(table.shape)
    unit[3, 4, 5] = 1.0
    kept = invariants.project(unit)[3, 4, 5]
    np.testing.assert_allclose(kept, (1 - 1 / 14) * (1 - 1 / 24), rtol=1e-12)
