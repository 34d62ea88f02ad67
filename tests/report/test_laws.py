"""The section on the noise law: where laws were compared, and where a law is of a kind that is often secret."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

import pandas as pd
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.noise import DiscreteGaussian
from bayesdp.report.page import page
from bayesdp.report.published import law_tables
from tests.plots.trees import FRAME, release, tree
from tests.registering import only_here


@dataclass(frozen=True, eq=False, init=False)
class KeyedInReport(DiscreteGaussian):
    """Noise that belongs to the records of a cell."""

    name = "keyed-in-report"
    same_cell_same_value = True


registered = only_here(KeyedInReport)


def compared(converged: bool = True) -> bdp.LawComparison:
    names = ["V = 1", "V < 9"]
    rows = [
        ("x", "area=a", names[0], 9.0, 1.0, 7.0, 11.0, 900.0, 1.0),
        ("x", "area=a", names[1], 10.5, 2.0, 6.0, 14.0, 900.0, 1.0),
    ]
    table = pd.DataFrame(rows, columns="part label law mean sd lower upper ess_bulk rhat".split()).set_index(
        ["part", "label", "law"]
    )
    verdict = xr.DataTree.from_dict({"diagnostics": xr.Dataset(attrs={"converged": int(converged)})})
    return bdp.LawComparison(
        {own: DiscreteGaussian(sigma=2.0) for own in names}, table, 0.95, dict.fromkeys(names, verdict)
    )


def test_the_section_says_that_there_is_no_single_number() -> None:
    told = page(tree(), laws=compared())
    assert '<section id="laws"' in told
    assert "2 laws were compared, and the result is no single number" in told
    assert "V &lt; 9" in told
    assert "Chains do not agree" not in told
    assert "Under V = 1, V &lt; 9" in page(tree(), laws=compared(converged=False))
    assert 'id="laws"' not in page(tree())


def test_its_tables_have_the_numbers() -> None:
    spread, rows = law_tables(compared())
    [own] = csv.DictReader(io.StringIO(spread.to_csv()))
    assert (own["Quantity"], float(own["spread"]), float(own["spread_in_sd"])) == ("x: area=a", 1.5, 1.5)
    assert (float(own["lower"]), float(own["upper"])) == (6.0, 14.0)
    assert [row["Law"] for row in csv.DictReader(io.StringIO(rows.to_csv()))] == ["V = 1", "V < 9"]


def test_a_law_that_is_often_secret_gets_a_word_of_advice() -> None:
    cells = bdp.Measured(bdp.Identity(FRAME), release().values.values, KeyedInReport(sigma=2.0))
    told = page(tree(bdp.Release(release().frame, (cells,), release().exact)))
    assert "The numbers above hold if keyed-in-report sigma=2 is the law" in told
    assert "bayesdp.compare_laws" in told


def test_what_is_no_comparison_is_refused() -> None:
    with pytest.raises(TypeError, match=r"laws must be what bayesdp\.compare_laws gave, got dict"):
        page(tree(), laws={})
