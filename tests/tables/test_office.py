"""Files as statistical offices publish them: what is read where it was declared, against numbers typed by hand."""

from functools import partial

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.queries import Identity, Margins, Totals
from bayesdp.tables import STATUSES, OfficeTable, read_office_csv

SYMBOLS = {"..": "suppressed", "x": "suppressed", "-": "zero", "<5": "below_threshold"}
SYMBOLS |= {"n/a": "not_applicable", "": "not_published"}
LONG = "area,sex,count\n01001,F,12\n01001,M,..\n01002,F,-\n01002,M,7\n"
FRAME = {"area": ["01001", "01002"], "sex": ["F", "M"]}
LAW = bdp.noise.DiscreteLaplace(b=1.5)


def read_text(path, text, written="utf-8", /, **declared):
    path.write_bytes(text if isinstance(text, bytes) else text.encode(written))
    return read_office_csv(path, **declared)


@pytest.fixture
def read(tmp_path):
    return partial(read_text, tmp_path / "office.csv")


def with_last(field, text=LONG):
    return text.replace("M,7\n", f"M,{field}\n")


def test_a_long_file_with_symbols_and_a_wide_file_are_the_same_table(read):
    [table] = read(LONG, symbols=SYMBOLS)
    assert table.query == Identity(FRAME)
    assert table.values.dtype == np.float64
    np.testing.assert_array_equal(table.values, [[12, np.nan], [0, 7]])
    assert table.status.values.tolist() == [["published", "suppressed"], ["zero", "published"]]
    assert table.labelled.sel(area="01002", sex="M").item() == 7
    assert table.mask("suppressed", "zero").values.tolist() == [[False, True], [True, False]]
    assert repr(table) == "<OfficeTable: 4 answers by area × sex: 2 published, 1 suppressed, 1 zero>"
    for first in ("area", ""):
        [wide] = read(f"{first},F,M\n01001,12,..\n01002,-,7\n", layout="wide", dims=["area", "sex"], symbols=SYMBOLS)
        assert wide == table


def test_several_columns_of_labels_before_a_header_of_labels(read):
    text = "area,age,note,F,M\nA,young,x,1,2\nA,old,y,3,4\nB,young,z,5,6\nB,old,,7,8\n"
    [table] = read(text, layout="wide", dims=["area", "age", "sex"], ignore=["note"])
    assert table.values.tolist() == [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
    assert table.values.dtype == np.int64
    assert table.query.dims == ("area", "age", "sex")
    [same] = read(text, layout="wide", dims=["area", "age", "sex"], value=["M", "F"], ignore=["note"])
    assert same.labelled.sel(area="B", age="young", sex="F").item() == 5


def test_each_symbol_means_what_was_declared(read):
    """Also a dash for the published number zero."""
    for symbol in SYMBOLS.keys() - {"-"}:
        [table] = read(with_last(symbol), symbols=SYMBOLS)
        assert table.status.values[1, 1] == SYMBOLS[symbol]
        assert np.isnan(table.values[1, 1])
    [table] = read(with_last("-"), symbols={"..": "suppressed", "-": 0}, dims=["sex", "area"])
    np.testing.assert_array_equal(table.values, [[12, 0], [np.nan, 0]])
    assert table.status.values.tolist() == [["published", "published"], ["suppressed", "published"]]


def test_separators_that_were_declared(read):
    for field, declared, number in (
        ("1.234.567", {"thousands": "."}, 1234567),
        ("1.234", {"decimal": "."}, 1.234),
        ('"1,234"', {"decimal": ","}, 1.234),
        ('"1.234,5"', {"thousands": ".", "decimal": ","}, 1234.5),
        ("1\u202f234\u202f567", {"thousands": ["\u00a0", "\u202f"]}, 1234567),
        ("1'234", {"thousands": "'"}, 1234),
        ("-1234", {"thousands": ","}, -1234),
        ("007", {}, 7),
        ("123456789012345", {}, 123456789012345),
    ):
        [table] = read(with_last(field).replace("..", "1").replace("-\n", "0\n"), **declared)
        assert table.values[1, 1] == number
        assert table.values.dtype == np.array(number).dtype


def test_marks_of_footnotes_are_kept_in_the_notes_and_a_symbol_is_no_mark(read):
    """A field that is a symbol as a whole is that, also where a mark has the same letter; and flags may have a column."""
    text = with_last("1 234 r(1)").replace("12\n", "12*\n").replace("..", "..*")
    [table] = read(text, symbols=SYMBOLS, thousands=" ", footnotes=["*", "r", "(1)"])
    np.testing.assert_array_equal(table.values, [[12, np.nan], [0, 1234]])
    first = {"area=01001, sex=F": ("*",), "area=01001, sex=M": ("*",)}
    assert dict(table.notes) == {**first, "area=01002, sex=M": ("r", "(1)")}
    assert "footnotes '*', 'r', '(1)'" in repr(table)
    [table] = read(with_last("r"), symbols={**SYMBOLS, "r": "suppressed"}, footnotes=["r"])
    assert table.status.values[1, 1] == "suppressed"
    assert not table.notes
    text = "GEO,VALUE,STATUS\nA,,x\nB,12,\nC,13,r\n"
    [table] = read(text, flags="STATUS", symbols={"x": "suppressed"}, footnotes=["r"])
    np.testing.assert_array_equal(table.values, [np.nan, 12, 13])
    assert dict(table.notes) == {"GEO=C": ("r",)}


def test_lines_columns_blanks_and_ends_of_lines_around_the_table(read):
    text = "Population;;;\n\n;;;\narea;count;;\nA;1;;\n\nB;2;;\n;;;\nSource: us;;;\n\n(1) A note; with a sign\n\n"
    [table] = read(text, delimiter=";", skip_rows=3, footer=2)
    assert table.labelled.to_series().to_dict() == {"A": 1, "B": 2}
    [table] = read('area\tcount\r\n"A\tB"\t3\r\n', delimiter="\t")
    assert table.query.coords == {"area": ["A\tB"]}
    assert read(LONG.replace(",", " , "), symbols=SYMBOLS, strip=True) == read(LONG, symbols=SYMBOLS)


def test_encodings(read):
    codecs = {"utf-8-sig": "utf-8", "cp1252": "windows-1252", "utf-16": "utf-16", "utf-16-le": "UTF-16LE"}
    for written, declared in codecs.items():
        [table] = read("Fläche,count\nKöln,3\n", written, encoding=declared)
        assert table.query.coords == {"Fläche": ["Köln"]}


MARGINS = LONG + "01001,Total,20\n01002,Total,8\nTotal,F,x\nTotal,M,16\nTotal,Total,29\n"


def test_margins_are_tables_of_their_own(read):
    cells, areas, sexes, total = read(MARGINS, symbols=SYMBOLS, totals={"area": "Total", "sex": ["Total"]})
    assert cells == read(LONG, symbols=SYMBOLS)[0]
    assert [own.query for own in (areas, sexes, total)] == [
        Margins(FRAME, ["area"]),
        Margins(FRAME, ["sex"]),
        Totals(FRAME),
    ]
    assert areas.values.tolist() == [20, 8]
    np.testing.assert_array_equal(sexes.values, [np.nan, 16])
    assert (total.values.item(), total.status.item()) == (29, "published")
    assert {own.query.frame for own in (areas, sexes, total)} == {cells.query.frame}


def test_margins_only_categories_called_all_and_groups(read):
    areas, sexes = read("area,sex,n\nA,T,3\nB,T,4\nT,F,5\nT,M,2\n", totals={"area": "T", "sex": "T"})
    assert areas.query == Margins({"area": ["A", "B"], "sex": ["F", "M"]}, ["area"])
    assert sexes.labelled.sel(sex="F").item() == 5
    [table] = read("age,count\nAll,3\nyoung,1\n", totals={"age": []})
    assert table.values.tolist() == [3, 1]
    text = "area,region,count\nA,N,1\nB,N,2\nTotal,,3\n"
    cells, total = read(text, groups={"region": "area"}, totals={"area": "Total"})
    assert cells.query.frame.group("region") == ("area", ("N", "N"))
    assert total.values.item() == 3


def test_missing_lines_have_the_declared_status(read):
    for status in [*STATUSES][1:]:
        [table] = read("area,sex,count\nA,F,12\nA,M,3\nB,F,4\n", missing=status)
        assert table.status.values[1, 1] == status
        np.testing.assert_equal(table.values[1, 1], 0 if status == "zero" else np.nan)


def test_measured_and_exact_parts_of_one_release(read):
    tables = read(MARGINS, symbols=SYMBOLS, totals={"area": "Total", "sex": "Total"})
    measured = [own.measured(LAW) for own in tables]
    zeros = tables[0].exact_zeros()
    assert (zeros.query.names, zeros.values.tolist()) == (["area=01002, sex=F"], [0])
    assert measured[0].unmeasured.tolist() == [[False, True], [True, False]]
    assert measured[0].values.tolist() == [[12, 0], [0, 7]]
    assert [own.law for own in measured] == [LAW] * 4
    release = bdp.Release.from_published(FRAME, measured=measured, exact=[zeros])
    assert release.fiber.bounds()[1].tolist()[1][0] == 0
    assert tables[1].exact_zeros() is None
    margin = read("area,sex,n\nA,F,1\nA,M,2\nT,F,-\nT,M,-\n", symbols=SYMBOLS, totals={"area": "T"})[1]
    assert margin.exact_zeros().query == Margins({"area": ["A"], "sex": ["F", "M"]}, ["sex"])


def test_under_a_threshold_is_not_the_same_as_unmeasured(read):
    [table] = read(with_last("<5"), symbols=SYMBOLS)
    stated = table.measured(LAW, unmeasured=["suppressed", "zero", "below_threshold"])
    assert stated.unmeasured.sum() == 3
    [empty] = read("area,count\nA,x\nB,x\n", symbols=SYMBOLS)
    with pytest.raises(ValueError, match="no answer of the table has a published number"):
        empty.measured(LAW)
    with pytest.raises(ValueError, match=r"area=01002, sex=M has no number under the law \(below_threshold"):
        table.measured(LAW)
    for unmeasured, message in (
        (("zero",), r"under the law \(suppressed.*unmeasured=\('zero', 'suppressed'\)"),
        (["hidden"], "status must be"),
        ("zero", "unmeasured must be a list"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            table.measured(LAW, unmeasured=unmeasured)


def test_a_table_is_checked_frozen_and_compared():
    query, codes = Identity(FRAME), np.zeros((2, 2), np.int8)
    good = OfficeTable(query, np.ones((2, 2)), codes)
    assert good == OfficeTable(query, np.ones((2, 2)), codes)
    assert good != OfficeTable(query, np.ones((2, 2), np.int64), codes)
    assert good != OfficeTable(query, np.ones((2, 2)), codes, {"area=01001, sex=F": ("r",)})
    with pytest.raises(ValueError, match="read-only"):
        good.values[0, 0] = 3
    for values, code, message in (
        (np.ones(4), 0, "shape of the query"),
        (np.ones((2, 2)), 1, "NaN elsewhere; at area=01001, sex=F"),
        (np.ones((2, 2)), 3, "must be 0 where codes are zero"),
        (np.full((2, 2), np.nan), 6, "codes must be from 0 to 5"),
    ):
        with pytest.raises(ValueError, match=message):
            OfficeTable(query, values, np.full((2, 2), code, np.int8))


def test_a_large_file_keeps_every_number(read):
    """9,600 lines with separators, in a shuffled order: each number is where its labels say."""
    areas, ages = 800, 12
    order = np.random.default_rng(20).permutation(areas * ages)
    numbers = (order * 7919) % 100_003
    lines = [f'{i // ages:05d},{i % ages},"{n:,}"\n' for i, n in zip(order.tolist(), numbers.tolist(), strict=True)]
    [table] = read("area,age,count\n" + "".join(lines), thousands=",")
    expected = (np.arange(areas * ages) * 7919) % 100_003
    by_label = table.labelled.sortby("area").sel(age=[str(age) for age in range(ages)])
    assert by_label.values.reshape(-1).tolist() == expected.tolist()
