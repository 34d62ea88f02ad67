"""Totals among the labels of a file: refused, unless declared; and how often honest categories are."""

import csv
import os
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.cli import main
from bayesdp.tables import read_office_csv, read_table, read_table_totals, totals

LAW = bdp.noise.DiscreteGaussian(sigma=3.0)


def write(path, table, rows, columns, dims=("Geo", "kind"), *, wide=False):
    lines = [
        [*dims, "n"],
        *([row, column, table[i, j]] for i, row in enumerate(rows) for j, column in enumerate(columns)),
    ]
    if wide:
        lines = [[dims[0], *columns], *([row, *own] for row, own in zip(rows, table.tolist(), strict=True))]
    path.write_text("".join(",".join(map(str, line)) + "\n" for line in lines), encoding="utf-8")
    return path


def with_totals(cells, law=LAW, seed=1):
    whole = np.block([[cells, cells.sum(1, keepdims=True)], [cells.sum(0, keepdims=True), cells.sum()]])
    return law.draw(np.random.default_rng(seed), whole.shape, location=whole)


ROWS, COLUMNS = [f"a{i}" for i in range(30)], [f"k{i}" for i in range(6)]
NAMES = [*ROWS, "Total"], [*COLUMNS, "Total"]
CELLS = np.random.default_rng(7).poisson(20.0, (30, 6))


@pytest.mark.parametrize(("word", "wide"), [("Total", False), ("Total", True), ("合計", False), ("Total people", True)])
def test_a_label_that_says_total_is_refused_and_the_proposal_works(tmp_path, word, wide):
    noisy = with_totals(CELLS)
    path = write(tmp_path / "t.csv", noisy, [*ROWS, word], [*COLUMNS, word], wide=wide)
    form = {"dims": ["Geo", "kind"]}
    said = (
        rf"Geo='{word}' looks like a sum over 'Geo', kind='{word}'.*--total '?Geo={word}'? --total '?kind={word}'?[)]"
    )
    with pytest.raises(ValueError, match=said):
        read_table(path, **form)
    declared = {"Geo": word, "kind": [word]}
    np.testing.assert_array_equal(read_table(path, totals=declared, **form), noisy[:-1, :-1])
    by_row, by_column, total = (values for _, values in read_table_totals(path, declared, **form))
    np.testing.assert_array_equal(by_row, noisy[:-1, -1])
    np.testing.assert_array_equal(by_column, noisy[-1, :-1])
    assert total.item() == noisy[-1, -1]
    layout = "wide" if wide else "long"
    assert read_table(path, totals={"Geo": [], "kind": []}, layout=layout, **form).shape == (31, 7)


def test_a_wide_file_with_totals_is_known_as_one_and_one_message_has_all_that_is_to_be_written(tmp_path, capsys):
    noisy = with_totals(CELLS)
    path = write(tmp_path / "t.csv", noisy, *NAMES, wide=True)
    command = ["import", str(path), "--law", "discrete-gaussian sigma=3", "-o", str(tmp_path / "r.nc")]
    assert main(command) == 2
    dims, sums = "--dims Geo,NAME", "--total Geo=Total --total NAME=Total"
    proposed = f"({dims}); and declare the totals: totals={{'Geo': 'Total', 'NAME': 'Total'}} ({sums})"
    assert proposed in capsys.readouterr().err
    assert main([*command, *f"{dims} {sums}".replace("NAME", "sex").split()]) == 0
    shapes = [own.query.shape for own in bdp.Release.from_netcdf(tmp_path / "r.nc").measurements]
    assert shapes == [(30, 6), (30,), (6,), ()]
    # Two columns of labels, the first one repeated; and long files of which nothing says that they are wide.
    path.write_text("state,county,Low,High,Total\nX,Alpha,15,1,16\nX,Beta,20,10,30\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"\(--dims state,county,NAME\); .* \(--total NAME=Total\)"):
        read_table(path)
    table = read_table(path, dims=["state", "county", "sex"], totals={"sex": "Total"})
    assert table.values.tolist() == [[[15, 1], [20, 10]]]
    for text in ("county,fips,region,total\na,17001,1,50\nb,17003,3,40\n", "year,age,total\n1,1,5\n1,2,5\n2,1,5\n"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match="cells are missing"):
            read_table(path)
        with pytest.raises(ValueError, match="the columns of labels are"):
            read_table(path, dims=["age", "sex"])


def test_a_netcdf_table_with_totals_is_told_to_leave_them_out(tmp_path):
    labels = {"county": ["a", "b", "Total"], "sex": ["F", "M"]}
    table = xr.DataArray([[5, 6], [7, 8], [12, 14]], coords=labels, name="n")
    table.to_netcdf(tmp_path / "t.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match="read from CSV files only: leave them out of a netCDF file") as refused:
        read_table(tmp_path / "t.nc")
    assert "totals={'county': 'Total'}" not in str(refused.value)
    assert read_table(tmp_path / "t.nc", totals={"county": []}).shape == (3, 2)
    table.drop_sel(county="Total").to_netcdf(tmp_path / "u.nc", engine="h5netcdf")
    assert read_table(tmp_path / "u.nc").values.tolist() == [[5, 6], [7, 8]]


def test_words_for_totals_and_honest_words():
    words = ["TOTAL", "Toplam", "Σύνολο", "Összesen", "_T", "Insgesamt"]
    honest = ["All other causes", "Alltagshilfe", "Summer", "Person", "Tothill", "1", "P"]
    assert [own for own in words + honest if totals.looks_like_total(own)] == words


def test_import_takes_declared_totals_as_measurements_and_matches_those_of_a_further_file_by_label(tmp_path, capsys):
    noisy = with_totals(CELLS)
    path = write(tmp_path / "t.csv", noisy, *NAMES)
    command = ["import", str(path), "--law", "discrete-gaussian sigma=3", "-o", str(tmp_path / "r.nc")]
    assert main(command) == 2
    assert (
        "declare them: totals={'Geo': 'Total', 'kind': 'Total'} (--total Geo=Total --total kind=Total)"
        in capsys.readouterr().err
    )
    assert main([*command, "--total", "Geo=Total", "--total", "kind=Total"]) == 0
    release = bdp.Release.from_netcdf(tmp_path / "r.nc")
    assert [own.query.shape for own in release.measurements] == [(30, 6), (30,), (6,), ()]
    assert release.measurements[3].values.item() == noisy[-1, -1]
    assert all(own.law == LAW for own in release.measurements)
    assert main([*command, "--force", "--total", "Geo=", "--total", "kind="]) == 0
    assert bdp.Release.from_netcdf(tmp_path / "r.nc").frame.shape == (31, 7)
    assert main([*command, "--force", "--total", "Geo=Totl", "--total", "kind=Total"]) == 2
    assert "did you mean 'Total'?" in capsys.readouterr().err
    again = with_totals(CELLS, seed=2)
    one = write(tmp_path / "one.csv", noisy, *NAMES, wide=True)
    other = write(tmp_path / "other.csv", again[::-1], NAMES[0][::-1], NAMES[1], wide=True)
    law = ["--law", "discrete-gaussian sigma=3"]
    declared = ["--dims", "Geo,kind", "--total", "Geo=Total", "--total", "kind=Total"]
    command = ["import", str(one), *law, "--noisy", str(other), *law, *declared, "-o", str(tmp_path / "s.nc")]
    assert main(command) == 0
    parts = bdp.Release.from_netcdf(tmp_path / "s.nc").measurements
    np.testing.assert_array_equal(parts[4].values, again[:-1, :-1])
    np.testing.assert_array_equal(parts[5].values, again[:-1, -1])


def test_a_confidential_table_has_exact_totals_or_none(tmp_path, capsys):
    exact = np.block([[CELLS, CELLS.sum(1, keepdims=True)], [CELLS.sum(0), CELLS.sum()]])
    path = write(tmp_path / "t.csv", exact, *NAMES)
    command = ["release", str(path), "--mechanism", "lattice-laplace", "--epsilon", "1", "--invariant", "total"]
    command += ["--seed", "1", "-o", str(tmp_path / "r.nc")]
    assert main(command) == 2
    assert "(--total Geo=Total --total kind=Total)" in capsys.readouterr().err
    command += ["--total", "Geo=Total", "--total", "kind=Total"]
    assert main(command) == 0, capsys.readouterr().err
    assert bdp.Release.from_netcdf(tmp_path / "r.nc").frame.shape == (30, 6)
    exact[3, -1] += 1
    write(path, exact, *NAMES)
    assert main([*command, "--force"]) == 2
    assert "are not all sums of the cells" in capsys.readouterr().err


def test_a_sum_without_a_name_is_refused_but_not_equal_labels_nor_tiny_tables(tmp_path):
    cells = np.random.default_rng(3).poisson(300.0, (30, 4)) * [1, 2, 3, 4]
    whole = np.c_[cells, cells.sum(1)]
    noisy = LAW.draw(np.random.default_rng(1), whole.shape, location=whole)
    path = write(tmp_path / "t.csv", noisy, ROWS, [*COLUMNS[:4], "people"])
    for read in (read_table, read_office_csv):
        with pytest.raises(ValueError, match=r"kind='people' is as large as all others .*--total kind=people"):
            read(path)
        read(path, totals={"kind": []})
        read(path, totals={"kind": "people"})
    halves = np.random.default_rng(1).poisson(5000.0, 40)
    for table in ([halves, halves], [halves, halves, 0 * halves], [[3], [1], [2]], [[300, 20], [100, 5], [200, 15]]):
        assert totals.labels_of_sums(np.stack(table)) == {}  # of two labels either could be the other's total


def test_totals_beside_groups_and_other_totals(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("county,state,n\nAlpha,X,5\nBeta,Y,7\nTotal,,12\n")
    table = read_table(path, groups={"state": "county"}, totals={"county": "Total"})
    assert table.coords["state"].values.tolist() == ["X", "Y"]
    path.write_text("county,n\nAlpha,5\nBeta,7\nTotal north,12\nTotal,12\n")
    with pytest.raises(ValueError, match="'Total north' of 'county' look like sums, too"):
        read_table(path, totals={"county": "Total"})


@pytest.mark.parametrize("law", [None, LAW, bdp.noise.RandomRounding(3), bdp.noise.ConventionalRounding(10)])
def test_how_often_a_category_is_as_near_to_the_others(law):
    """The worst case: half of each entry has the label. By the bound, a chance below 5 % has probability below 5 %."""
    rng = np.random.default_rng(11)
    runs, below = 300, 0
    for _ in range(runs):
        mean, entries = rng.choice([5.0, 40.0, 900.0]), int(rng.choice([1, 3, 9]))
        x = rng.poisson(mean * np.array([[2.0], [1.2], [0.8]]), (3, entries))
        y = x if law is None else law.draw(rng, x.shape, location=x)
        base = {"random-rounding": 3, "conventional-rounding": 10}.get("" if law is None else law.name, 0)
        below += totals._chance(y[0].astype(float), y[1:].sum(0).astype(float), 4 * base) < 0.05
    assert below <= runs * 0.05 + 4 * np.sqrt(runs * 0.05 * 0.95)


# Totals in files that offices have published, where they are there.
SHARED = Path(os.environ.get("BAYESDP_SHARED_DATA", Path(__file__).parents[3] / "shared/data"))
STATS_NZ = SHARED / "statsnz2013/age_sex_by_electorate.csv"
ABS = SHARED / "abs2016_working_population/2016Census_W01A_AUS_SA4.csv"


@pytest.mark.skipif(not STATS_NZ.is_file(), reason="no file of Stats NZ; BAYESDP_SHARED_DATA names its folder")
def test_stats_nz_age_by_sex(tmp_path):
    """Rounded to base 3, totals on their own: by the words, and with other words by the numbers."""
    one, lines = tmp_path / "t.csv", []
    with STATS_NZ.open(encoding="utf-8") as text:
        for own in csv.DictReader(text):
            area, age, sex = own["row_header2"], own["row_header3"].split(",")[0], own["col_header2"]
            left_out = {"Total", "Area"} & {*area.split()} or age in ("Median age", "18 Years And Over")
            if own["dimensions"] == "By general electorate" and own["value"] and not left_out:
                lines.append(f'"{area}","{age}",{sex},{float(own["value"]):.0f}\n')
    one.write_text("area,age,sex,n\n" + "".join(lines))
    with pytest.raises(ValueError, match="looks like a sum"):
        read_table(one)
    table = read_table(one, totals={"age": "Total people", "sex": "Total people"})
    assert dict(table.sizes) == {"area": 64, "age": 18, "sex": 2}
    one.write_text(one.read_text().replace("Total people", "Katoa"))
    with pytest.raises(ValueError, match="age='Katoa' is as large as all others"):
        read_table(one)
    with pytest.raises(ValueError, match="sex='Katoa' is as large as all others"):
        read_table(one, totals={"age": "Katoa"})


@pytest.mark.skipif(not ABS.is_file(), reason="no file of the ABS; BAYESDP_SHARED_DATA names its folder")
def test_abs_working_population(tmp_path):
    """Cell keys, each number perturbed by itself: M, F and P, with ages and work statuses that end in Tot."""
    with ABS.open(encoding="utf-8") as text:
        rows = list(csv.DictReader(text))
    code, *columns = rows[0]
    path, lines = tmp_path / "t.csv", []
    for column in columns:
        sex, age = (place := column.removesuffix("_NS").rpartition("_")[0]).split("_", 1)
        lines += [f"{row[code]},{sex},{age},{column[len(place) + 1 :]},{row[column]}\n" for row in rows if sex in "MF"]
    path.write_text("area,sex,age,status,n\n" + "".join(lines))
    with pytest.raises(ValueError, match=r"age='Tot' looks like a sum over 'age'.*--total age=Tot"):
        read_table(path)
    cells = read_table(path, totals={"age": "Tot", "status": "Tot"})
    assert cells.shape[1:] == (2, 13, 4)
    path.write_text(path.read_text().replace("Tot", "x"))
    with pytest.raises(ValueError, match="'x' is as large as all others"):
        read_table(path)
