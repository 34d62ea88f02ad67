"""Totals among the labels of a file: refused, unless declared; and how often honest categories are."""

import csv

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.cli import main
from bayesdp.tables import read_office_csv, read_table, read_table_totals, totals

LAW = bdp.noise.DiscreteGaussian(sigma=3.0)


def write(path, table, rows, columns, dims=("Geo", "kind"), *, wide=False):
    with path.open("w", encoding="utf-8", newline="") as text:
        out = csv.writer(text)
        if wide:
            out.writerow([dims[0], *columns])
            out.writerows([row, *own] for row, own in zip(rows, table.tolist(), strict=True))
        else:
            out.writerow([*dims, "n"])
            out.writerows([row, column, table[i, j]] for i, row in enumerate(rows) for j, column in enumerate(columns))
    return path


def with_totals(cells, law=LAW, seed=1):
    whole = np.block([[cells, cells.sum(1, keepdims=True)], [cells.sum(0, keepdims=True), cells.sum()]])
    return law.draw(np.random.default_rng(seed), whole.shape, location=whole)


ROWS, COLUMNS = [f"a{i}" for i in range(30)], [f"k{i}" for i in range(6)]
CELLS = np.random.default_rng(7).poisson(20.0, (30, 6))


@pytest.mark.parametrize(("word", "wide"), [("Total", False), ("Total", True), ("合計", False), ("Total people", True)])
def test_a_label_that_says_total_is_refused_and_the_proposal_works(tmp_path, word, wide):
    noisy = with_totals(CELLS)
    path = write(tmp_path / "t.csv", noisy, [*ROWS, word], [*COLUMNS, word], wide=wide)
    form = {"dims": ["Geo", "kind"]}
    said = rf"Geo='{word}' looks like a sum over 'Geo'.*--total '?Geo={word}'?[)]"
    if wide and word == "Total":  # it could be the column of values
        said = f"if this is a wide table with totals in the column '{word}', say so: --total kind={word}"
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


def test_words_for_totals_and_honest_words():
    words = ["TOTAL", "Toplam", "Σύνολο", "Összesen", "_T", "Insgesamt"]
    honest = ["All other causes", "Alltagshilfe", "Summer", "Person", "Tothill", "1", "P"]
    assert [own for own in words + honest if totals.looks_like_total(own)] == words


def test_import_takes_declared_totals_as_measurements_of_their_own(tmp_path, capsys):
    noisy = with_totals(CELLS)
    path = write(tmp_path / "t.csv", noisy, [*ROWS, "Total"], [*COLUMNS, "Total"])
    command = ["import", str(path), "--law", "discrete-gaussian sigma=3", "-o", str(tmp_path / "r.nc")]
    assert main(command) == 2
    assert "declare it: totals={'Geo': 'Total'} (--total Geo=Total)" in capsys.readouterr().err
    assert main([*command, "--total", "Geo=Total", "--total", "kind=Total"]) == 0
    release = bdp.Release.from_netcdf(tmp_path / "r.nc")
    assert [own.query.shape for own in release.measurements] == [(30, 6), (30,), (6,), ()]
    assert release.measurements[3].values.item() == noisy[-1, -1]
    assert all(own.law == LAW for own in release.measurements)
    assert main([*command, "--force", "--total", "Geo=", "--total", "kind="]) == 0
    assert bdp.Release.from_netcdf(tmp_path / "r.nc").frame.shape == (31, 7)
    assert main([*command, "--force", "--total", "Geo=Totl", "--total", "kind=Total"]) == 2
    assert "did you mean 'Total'?" in capsys.readouterr().err


def test_a_further_wide_file_with_totals_is_matched_by_label(tmp_path):
    noisy, again = with_totals(CELLS), with_totals(CELLS, seed=2)
    names = ([*ROWS, "Total"], [*COLUMNS, "Total"])
    one = write(tmp_path / "one.csv", noisy, *names, wide=True)
    order = np.r_[30, np.arange(30)[::-1]]
    other = write(tmp_path / "other.csv", again[order], [names[0][i] for i in order], names[1], wide=True)
    law = ["--law", "discrete-gaussian sigma=3"]
    declared = ["--dims", "Geo,kind", "--total", "Geo=Total", "--total", "kind=Total"]
    command = ["import", str(one), *law, "--noisy", str(other), *law, *declared, "-o", str(tmp_path / "r.nc")]
    assert main(command) == 0
    parts = bdp.Release.from_netcdf(tmp_path / "r.nc").measurements
    np.testing.assert_array_equal(parts[4].values, again[:-1, :-1])
    np.testing.assert_array_equal(parts[5].values, again[:-1, -1])


def test_a_confidential_table_has_exact_totals_or_none(tmp_path, capsys):
    exact = np.block([[CELLS, CELLS.sum(1, keepdims=True)], [CELLS.sum(0), CELLS.sum()]])
    names = [*ROWS, "Total"], [*COLUMNS, "Total"]
    path = write(tmp_path / "t.csv", exact, *names)
    command = ["release", str(path), "--mechanism", "lattice-laplace", "--epsilon", "1", "--invariant", "total"]
    command += ["--seed", "1", "-o", str(tmp_path / "r.nc")]
    assert main(command) == 2
    assert "(--total Geo=Total)" in capsys.readouterr().err
    command += ["--total", "Geo=Total", "--total", "kind=Total"]
    assert main(command) == 0, capsys.readouterr().err
    assert bdp.Release.from_netcdf(tmp_path / "r.nc").frame.shape == (30, 6)
    exact[3, -1] += 1
    write(tmp_path / "t.csv", exact, *names)
    assert main([*command, "--force"]) == 2
    assert "are not all sums of the cells" in capsys.readouterr().err


def test_a_sum_without_a_name_is_refused(tmp_path):
    cells = np.random.default_rng(3).poisson(300.0, (30, 4)) * [1, 2, 3, 4]
    whole = np.c_[cells, cells.sum(1)]
    noisy = LAW.draw(np.random.default_rng(1), whole.shape, location=whole)
    path = write(tmp_path / "t.csv", noisy, ROWS, [*COLUMNS[:4], "people"])
    for read in (read_table, read_office_csv):
        with pytest.raises(
            ValueError, match=r"kind='people' is as large as all others of 'kind' .*--total kind=people"
        ):
            read(path)
        read(path, totals={"kind": []})
        read(path, totals={"kind": "people"})


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


def test_equal_labels_and_tiny_tables_are_categories():
    halves = np.random.default_rng(1).poisson(5000.0, 40)
    assert totals.labels_of_sums(np.stack([halves, halves])) == {}  # two labels: either could be the other's total
    assert totals.labels_of_sums(np.stack([halves, halves, 0 * halves])) == {}
    assert totals.labels_of_sums([[3], [1], [2]]) == {}
    assert totals.labels_of_sums([[300, 20], [100, 5], [200, 15]]) == {}
