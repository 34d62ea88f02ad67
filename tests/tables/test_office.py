"""Files as statistical offices publish them: what is read where it was declared, against numbers typed by hand, and errors."""

import re
from ast import literal_eval
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


def test_long_files_with_symbols_and_wide_files_are_the_same_table_with_several_columns_as_well(read):
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
    text = "area,age,note,F,M\nA,young,x,1,2\nA,old,y,3,4\nB,young,z,5,6\nB,old,,7,8\n"
    [table] = read(text, layout="wide", dims=["area", "age", "sex"], ignore=["note"])
    assert table.values.tolist() == [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
    assert table.values.dtype == np.int64
    assert table.query.dims == ("area", "age", "sex")
    [same] = read(text, layout="wide", dims=["area", "age", "sex"], value=["M", "F"], ignore=["note"])
    assert same.labelled.sel(area="B", age="young", sex="F").item() == 5


def test_symbols_and_statuses_of_missing_lines_mean_what_was_declared(read):
    """Also a dash for the published number zero."""
    for symbol in SYMBOLS.keys() - {"-"}:
        [table] = read(with_last(symbol), symbols=SYMBOLS)
        assert table.status.values[1, 1] == SYMBOLS[symbol]
        assert np.isnan(table.values[1, 1])
    [table] = read(with_last("-"), symbols={"..": "suppressed", "-": 0}, dims=["sex", "area"])
    np.testing.assert_array_equal(table.values, [[12, 0], [np.nan, 0]])
    assert table.status.values.tolist() == [["published", "published"], ["suppressed", "published"]]
    for status in [*STATUSES][1:]:
        [table] = read("area,sex,count\nA,F,12\nA,M,3\nB,F,4\n", missing=status)
        assert table.status.values[1, 1] == status
        np.testing.assert_equal(table.values[1, 1], 0 if status == "zero" else np.nan)


def test_separators_that_were_declared_and_every_number_of_a_large_file(read):
    """9,600 lines with separators, in a shuffled order: each number is where its labels say."""
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
    areas, ages = 800, 12
    order = np.random.default_rng(20).permutation(areas * ages)
    numbers = (order * 7919) % 100_003
    lines = [f'{i // ages:05d},{i % ages},"{n:,}"\n' for i, n in zip(order.tolist(), numbers.tolist(), strict=True)]
    [table] = read("area,age,count\n" + "".join(lines), thousands=",")
    expected = (np.arange(areas * ages) * 7919) % 100_003
    by_label = table.labelled.sortby("area").sel(age=[str(age) for age in range(ages)])
    assert by_label.values.reshape(-1).tolist() == expected.tolist()


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


def test_lines_columns_blanks_encodings_and_ends_of_lines_around_the_table(read):
    text = "Population;;;\n\n;;;\narea;count;;\nA;1;;\n\nB;2;;\n;;;\nSource: us;;;\n\n(1) A note; with a sign\n\n"
    [table] = read(text, delimiter=";", skip_rows=3, footer=2)
    assert table.labelled.to_series().to_dict() == {"A": 1, "B": 2}
    [table] = read('area\tcount\r\n"A\tB"\t3\r\n', delimiter="\t")
    assert table.query.coords == {"area": ["A\tB"]}
    assert read(LONG.replace(",", " , "), symbols=SYMBOLS, strip=True) == read(LONG, symbols=SYMBOLS)
    codecs = {"utf-8-sig": "utf-8", "cp1252": "windows-1252", "utf-16": "utf-16", "utf-16-le": "UTF-16LE"}
    for written, declared in codecs.items():
        [table] = read("Fläche,count\nKöln,3\n", written, encoding=declared)
        assert table.query.coords == {"Fläche": ["Köln"]}


MARGINS = LONG + "01001,Total,20\n01002,Total,8\nTotal,F,x\nTotal,M,16\nTotal,Total,29\n"


def test_margins_are_tables_of_their_own(read):
    cells, areas, sexes, total = read(MARGINS, symbols=SYMBOLS, totals={"area": "Total", "sex": ["Total"]})
    assert cells == read(LONG, symbols=SYMBOLS)[0]
    margins = [Margins(FRAME, [dim]) for dim in FRAME]
    assert [own.query for own in (areas, sexes, total)] == [*margins, Totals(FRAME)]
    assert areas.values.tolist() == [20, 8]
    np.testing.assert_array_equal(sexes.values, [np.nan, 16])
    assert (total.values.item(), total.status.item()) == (29, "published")
    assert {own.query.frame for own in (areas, sexes, total)} == {cells.query.frame}
    areas, sexes = read("area,sex,n\nA,T,3\nB,T,4\nT,F,5\nT,M,2\n", totals={"area": "T", "sex": "T"})
    assert areas.query == Margins({"area": ["A", "B"], "sex": ["F", "M"]}, ["area"])
    assert sexes.labelled.sel(sex="F").item() == 5
    [table] = read("age,count\nAll,3\nyoung,1\n", totals={"age": []})
    assert table.values.tolist() == [3, 1]
    text = "area,region,count\nA,N,1\nB,N,2\nTotal,,3\n"
    cells, total = read(text, groups={"region": "area"}, totals={"area": "Total"})
    assert cells.query.frame.group("region") == ("area", ("N", "N"))
    assert total.values.item() == 3


def test_measured_and_exact_parts_of_one_release_and_what_has_no_number_under_the_law(read):
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


# What is not as declared: each error names line, column and cell, and a declaration that works.
COUNTS = LONG.replace("..", "3").replace("-", "4")
in_counts = partial(with_last, text=COUNTS)


def remedy_of(message, name):
    """What a message proposes for an argument, as Python reads it."""
    *_, found = re.findall(rf"\b{name}=('(?:[^'\\]|\\.)*'|\{{.*?\}}|\[.*?\]|\d+)", message)
    return {name: literal_eval(found)}


UNDECLARED = [
    (in_counts("x"), {}, r"line 5, column 'count': 'x' at area=01002, sex=M is no number, and no symbol", "symbols"),
    (in_counts(""), {}, r"line 5, column 'count': the field at area=01002, sex=M is empty", "symbols"),
    (in_counts(".."), {"symbols": {"x": "suppressed"}}, r"'\.\.' at area=01002, sex=M is no number", "symbols"),
    (in_counts("<5"), {}, r"is a limit.*'below_threshold'", "symbols"),
    (in_counts('"1,234"'), {}, r"'1,234' at .* say what ',' is: thousands=',' if it means 1234, or decimal=','", "thousands"),
    (in_counts("1.234"), {}, r"thousands='\.' if it means 1234", "thousands"),
    (in_counts("1.5"), {}, "is a fraction", "decimal"),
    (in_counts("1 234"), {}, "declare its separators", "thousands"),
    (in_counts("1\u00a0234"), {}, r"declare its separators: thousands='\\xa0'", "thousands"),
    (in_counts("12r"), {}, "'r' is the mark of a footnote", "footnotes"),
    (in_counts("12*r"), {"footnotes": ["r"]}, r"footnotes=\['r', '\*", "footnotes"),
    (in_counts("7").replace(",", ";"), {}, "the header is one column, 'area;sex;count'; declare delimiter=';'", "delimiter"),
    (in_counts("7").replace(",", "\t"), {}, r"declare delimiter='\\t'", "delimiter"),
    ("Title\n\n" + COUNTS, {}, "the header is one column, 'Title', but lines below it have more", "skip_rows"),
    (COUNTS + "Source: us\n\nnote\n", {}, r"line 6: 1 fields, but the header has 3.*note below", "footer"),
    (COUNTS + "Total,F,16\nTotal,M,10\n", {}, "area='Total' looks like a sum over 'area'", "totals"),
    (COUNTS.replace("01002,M,7\n", ""), {}, "1 of the 4 cells are missing, for example area=01002, sex=M", "missing"),
    (in_counts(" 7"), {}, "line 5, column 'count': ' 7' has blanks around it; remove them, or, in a table, declare strip=True", None),
    ("Gebiet,n\nKöln,3\n".encode("cp1252"), {}, "line 2, byte 10: 0xf6 is no text in 'utf-8'", "encoding"),
    ("Gebiet,n\nKöln,3\n".encode("utf-16"), {}, "byte 0: 0xff is no text in 'utf-8'", "encoding"),
    ("Gebiet,n\nKoln,3\n".encode("utf-16-le"), {}, "line 1: there is a null character", "encoding"),
    ("Gebiet,n\nKöln,3\n".encode("utf-8-sig"), {"encoding": "cp1252"}, "begins with the mark of UTF-8", "encoding"),
]  # fmt: skip


def test_what_was_not_declared_is_named_and_the_proposal_works(read):
    for text, declared, told, proposes in UNDECLARED:
        with pytest.raises(ValueError, match=told) as error:
            read(text, **declared)
        if proposes is not None:
            assert read(text, **{**declared, **remedy_of(str(error.value), proposes)})


WRONG = [
    ("area,sex,count\n01001,F,x\n01001,M,c\n01002,F,..\n01002,M,x\n", {},
     r"'x' at area=01001, sex=F .* \(not declared either: 'c', '\.\.'\)"),
    ("one,two,three,count\n" + "".join(f"a{i},b{i},c{i},1\n" for i in range(1000)), {"missing": "not_published"},
     r"999999000 of the 1000000000 cells are missing.*hardly those of one table"),  # refused before they are made
    (in_counts('"12,34"'), {"thousands": ","}, "separators of thousands stand before three digits"),
    (in_counts('"1,234.567"'), {"thousands": [",", "."]}, "'1,234.567' at .* is no number"),
    (in_counts("12%"), {}, "is a percentage, which is no count"),
    (in_counts("\u22125"), {}, "begins with a sign that is no hyphen"),
    (in_counts("1e5"), {}, "'1e5' at .* is no number"),
    (in_counts("\u0661"), {}, "is no number, and no symbol"),
    (in_counts("1234567890123456"), {}, "more than 15 digits"),
    (in_counts("9" * 5000), {}, r"9'\.\.\. at area=01002, sex=M is too long"),
    (COUNTS + "01001,F,12\n", {}, "line 6, column 'count': area=01001, sex=F is there already, in line 2"),
    (COUNTS + "T,F,1\nAll,F,1\nT,M,1\n", {"totals": {"area": ["T", "All"]}},
     "line 7, column 'count': area=All, sex=F is there already, in line 6, column 'count' as area=T, sex=F"),
    (COUNTS + "T,F,1\n", {"totals": {"area": "T"}}, "1 of the 2 answers summed over 'area' are missing, for example sex=M"),
    (COUNTS + "01003,F,1,2\n", {}, "line 6: 4 fields, but the header has 3; .*double quotes"),
    (COUNTS + "01003,F\n", {}, "line 6: 2 fields, but the header has 3; each line must have all fields"),
    (COUNTS + ",F,3\n", {}, "line 6: the label of 'area' is empty"),
    ("area,area,count\nA,B,1\n", {}, "line 1: the header names 'area' 2 times, in columns 1, 2"),
    ("area,count,n\nA,1,2\n", {}, "'count', 'n' could all be the column of values; name it: value="),
    ("area,people\nA,1\n", {}, "none of 'area', 'people' is known to be the column of values"),
    (",".join(f"c{i}" for i in range(65)) + ",n\n" + "A," * 65 + "1\n", {}, "there are 65 dimensions, 'c0', 'c1', 'c2', .* ignore"),
    ("".join(f"c{i}," for i in range(63)) + "n\n" + "A," * 63 + "1\n" + "B," * 63 + "1\n", {},
     "have 9223372036854775808 combinations"),
    (COUNTS, {"value": "sex", "flags": "sex"}, "value is 'sex', which is the column of flags"),
    (COUNTS, {"value": "people"}, "there is no column 'people'; columns are 'area', 'sex', 'count'"),
    (COUNTS, {"dims": ["area"]}, "dims are 'area', but the columns of labels are 'area', 'sex'"),
    (COUNTS, {"ignore": ["who"]}, "there is no column 'who'"),
    (COUNTS, {"groups": {"sex": "county"}}, "group 'sex' belongs to 'county', which is no column of labels; 'area' are"),
    (COUNTS, {"totals": {"county": "T"}}, "totals names 'county', and dimensions are 'area', 'sex'"),
    (COUNTS, {"totals": {"area": "T"}}, "totals says that 'T' is a label of 'area', which has '01001', '01002'"),
    (COUNTS, {"totals": {"sex": ["F", "M"]}}, "'sex' has no label besides its totals"),
    (COUNTS, {"layout": "wide"}, "the dimension whose labels are in the header"),
    ("area,F,,M\nA,1,2,3\n", {"layout": "wide", "dims": ["area", "sex"]}, "column 3 has values and no label in the header"),
    ("area,F,F\nA,1,2\n", {"layout": "wide", "dims": ["area", "sex"]}, "names 'F' 2 times, in columns 2, 3"),
    ("area,F,M\nA,1,2\nA,3,4\n", {"layout": "wide", "dims": ["area", "sex"]},
     "line 3, column 'F': .* is there already, in line 2"),
    ("area,F,M\nA,1,2\n", {"layout": "wide", "dims": ["area", "sex"], "value": ["F"]}, r"leave them out: ignore=\['M'\]"),
    ("area,F,M\nA,1,2\n", {"layout": "wide", "dims": ["area", "sex"], "value": ["X"]}, "value names 'X'"),
    ("area,F,M\nA,1,2\n", {"layout": "wide", "dims": ["area", "sex"], "flags": "M"}, "flags is for long files"),
    ("area\nA\n", {}, "the header is one column, 'area'; a table needs labels and values"),
    ("area,count\n", {}, "there is no line below the header"),
    ("area,m,f,total\n", {}, "there is no line below the header"),
    ("", {}, "the file has no line|leaves nothing"),
    (COUNTS, {"skip_rows": 9}, "skip_rows=9 leaves nothing of the 5 lines"),
    (COUNTS, {"footer": 9}, "the file has no line with text besides those left out"),
    ('area,count\n"A,1\n', {}, "line 2: it is not a CSV file there"),
    (COUNTS, {"delimiter": ":"}, "delimiter must be one of"),
    (COUNTS, {"encoding": "rot13"}, "encoding must be one of"),
    (COUNTS, {"skip_rows": -1}, "skip_rows must be"),
    (COUNTS, {"missing": "published"}, "missing must be"),
    (COUNTS, {"layout": "auto"}, "layout must be"),
    (COUNTS, {"decimal": ";"}, "decimal must be"),
    (COUNTS, {"decimal": ",", "thousands": ","}, "thousands and decimal are both ','"),
    (COUNTS, {"thousands": "x"}, "thousands must be one of"),
    (COUNTS, {"footnotes": ["1"]}, "footnotes: '1' cannot be told from the end of a number"),
    (COUNTS, {"footnotes": [",a"], "thousands": ","}, "footnotes: ',a' cannot be told"),
    (COUNTS, {"footnotes": [" "]}, "footnotes must be marks without blanks"),
    (COUNTS, {"symbols": {"c": "confidential"}}, r"symbols: 'c' must mean one of 'suppressed' \(.*got 'confidential'"),
    (COUNTS, {"symbols": {"c": False}}, "symbols: 'c' must mean one of"),
    (COUNTS, {"symbols": {"c ": "zero"}}, "symbols: 'c ' has blanks around it"),
]  # fmt: skip


def test_what_is_wrong_is_said_and_shown_escaped_as_are_arguments_of_a_wrong_type(read, tmp_path):
    for text, declared, told in WRONG:
        with pytest.raises(ValueError, match=told):
            read(text, **declared)
    with pytest.raises(ValueError, match="no symbol that was declared") as error:
        read("area,count\nA\x1b[31m,\x1b[2Jx\n")
    assert "\x1b" not in str(error.value)
    assert r"\x1b[2Jx" in str(error.value)
    for declared, told in WRONG_TYPES:
        with pytest.raises(TypeError, match=told):
            read(COUNTS, **declared)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_office_csv(tmp_path / "none.csv")


WRONG_TYPES = [
    ({"dims": "area"}, "dims must be a list"),
    ({"ignore": "area"}, "ignore must be a list"),
    ({"footnotes": "r"}, "footnotes must be a list"),
    ({"footnotes": 1}, "footnotes must be a list"),
    ({"thousands": 1}, "thousands must be a separator"),
    ({"groups": "sex"}, "groups must be a mapping"),
    ({"totals": {"sex": 1}}, "totals of 'sex' must be a list"),
    ({"symbols": "x"}, "symbols must be a mapping"),
    ({"symbols": {1: "zero"}}, "symbols must be texts"),
    ({"totals": "Total"}, "totals must be a mapping"),
    ({"value": ["count"]}, "value must be the name of one column.*layout='wide'"),
    ({"encoding": None}, "encoding must be a name"),
    ({"skip_rows": "1"}, "skip_rows must be"),
    ({"strip": 1}, "strip must be"),
    ({"layout": "wide", "dims": ["area", "sex"], "value": "count"}, "value must be a list of columns in a wide file"),
]
