"""Files of offices that are not as declared: each error names line, column and cell, and a declaration that works."""

import re
from ast import literal_eval
from functools import partial

import pytest

from bayesdp.tables import read_office_csv
from tests.tables.test_office import LONG, read_text, with_last

LONG = LONG.replace("..", "3").replace("-", "4")


@pytest.fixture
def read(tmp_path):
    return partial(read_text, tmp_path / "office.csv")


last = partial(with_last, text=LONG)


def remedy_of(message, name):
    """What a message proposes for an argument, as Python reads it."""
    *_, found = re.findall(rf"\b{name}=('(?:[^'\\]|\\.)*'|\{{.*?\}}|\[.*?\]|\d+)", message)
    return {name: literal_eval(found)}


UNDECLARED = [
    (last("x"), {}, r"line 5, column 'count': 'x' at area=01002, sex=M is no number, and no symbol", "symbols"),
    (last(""), {}, r"line 5, column 'count': the field at area=01002, sex=M is empty", "symbols"),
    (last(".."), {"symbols": {"x": "suppressed"}}, r"'\.\.' at area=01002, sex=M is no number", "symbols"),
    (last("<5"), {}, r"is a limit.*'below_threshold'", "symbols"),
    (last('"1,234"'), {}, r"'1,234' at .* say what ',' is: thousands=',' if it means 1234, or decimal=','", "thousands"),
    (last("1.234"), {}, r"thousands='\.' if it means 1234", "thousands"),
    (last("1.5"), {}, "is a fraction", "decimal"),
    (last("1 234"), {}, "declare its separators", "thousands"),
    (last("1\u00a0234"), {}, r"declare its separators: thousands='\\xa0'", "thousands"),
    (last("12r"), {}, "'r' is the mark of a footnote", "footnotes"),
    (last("12*r"), {"footnotes": ["r"]}, r"footnotes=\['r', '\*", "footnotes"),
    (last("7").replace(",", ";"), {}, "the header is one column, 'area;sex;count'; declare delimiter=';'", "delimiter"),
    (last("7").replace(",", "\t"), {}, r"declare delimiter='\\t'", "delimiter"),
    ("Title\n\n" + LONG, {}, "the header is one column, 'Title', but lines below it have more", "skip_rows"),
    (LONG + "Source: us\n\nnote\n", {}, r"line 6: 1 fields, but the header has 3.*note below", "footer"),
    (LONG + "Total,F,16\nTotal,M,10\n", {}, "area='Total' looks like a sum over 'area'", "totals"),
    (LONG.replace("01002,M,7\n", ""), {}, "1 of the 4 cells are missing, for example area=01002, sex=M", "missing"),
    (last(" 7"), {}, "line 5, column 'count': ' 7' has blanks around it; remove them, or, in a table, declare strip=True", None),
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
    (last('"12,34"'), {"thousands": ","}, "separators of thousands stand before three digits"),
    (last('"1,234.567"'), {"thousands": [",", "."]}, "'1,234.567' at .* is no number"),
    (last("12%"), {}, "is a percentage, which is no count"),
    (last("\u22125"), {}, "begins with a sign that is no hyphen"),
    (last("1e5"), {}, "'1e5' at .* is no number"),
    (last("\u0661"), {}, "is no number, and no symbol"),
    (last("1234567890123456"), {}, "more than 15 digits"),
    (last("9" * 5000), {}, r"9'\.\.\. at area=01002, sex=M is too long"),
    (LONG + "01001,F,12\n", {}, "line 6, column 'count': area=01001, sex=F is there already, in line 2"),
    (LONG + "T,F,1\nAll,F,1\nT,M,1\n", {"totals": {"area": ["T", "All"]}},
     "line 7, column 'count': area=All, sex=F is there already, in line 6, column 'count' as area=T, sex=F"),
    (LONG + "T,F,1\n", {"totals": {"area": "T"}}, "1 of the 2 answers summed over 'area' are missing, for example sex=M"),
    (LONG + "01003,F,1,2\n", {}, "line 6: 4 fields, but the header has 3; .*double quotes"),
    (LONG + "01003,F\n", {}, "line 6: 2 fields, but the header has 3; each line must have all fields"),
    (LONG + ",F,3\n", {}, "line 6: the label of 'area' is empty"),
    ("area,area,count\nA,B,1\n", {}, "line 1: the header names 'area' 2 times, in columns 1, 2"),
    ("area,count,n\nA,1,2\n", {}, "'count', 'n' could all be the column of values; name it: value="),
    ("area,people\nA,1\n", {}, "none of 'area', 'people' is known to be the column of values"),
    (",".join(f"c{i}" for i in range(65)) + ",n\n" + "A," * 65 + "1\n", {}, "there are 65 dimensions, 'c0', 'c1', 'c2', .* ignore"),
    ("".join(f"c{i}," for i in range(63)) + "n\n" + "A," * 63 + "1\n" + "B," * 63 + "1\n", {},
     "have 9223372036854775808 combinations"),
    (LONG, {"value": "sex", "flags": "sex"}, "value is 'sex', which is the column of flags"),
    (LONG, {"value": "people"}, "there is no column 'people'; columns are 'area', 'sex', 'count'"),
    (LONG, {"dims": ["area"]}, "dims are 'area', but the columns of labels are 'area', 'sex'"),
    (LONG, {"ignore": ["who"]}, "there is no column 'who'"),
    (LONG, {"groups": {"sex": "county"}}, "group 'sex' belongs to 'county', which is no column of labels; 'area' are"),
    (LONG, {"totals": {"county": "T"}}, "totals names 'county', and dimensions are 'area', 'sex'"),
    (LONG, {"totals": {"area": "T"}}, "totals says that 'T' is a label of 'area', which has '01001', '01002'"),
    (LONG, {"totals": {"sex": ["F", "M"]}}, "'sex' has no label besides its totals"),
    (LONG, {"layout": "wide"}, "the dimension whose labels are in the header"),
    ("area,F,,M\nA,1,2,3\n", {"layout": "wide", "dims": ["area", "sex"]}, "column 3 has values and no label in the header"),
    ("area,F,F\nA,1,2\n", {"layout": "wide", "dims": ["area", "sex"]}, "names 'F' 2 times, in columns 2, 3"),
    ("area,F,M\nA,1,2\nA,3,4\n", {"layout": "wide", "dims": ["area", "sex"]},
     "line 3, column 'F': .* is there already, in line 2"),
    ("area,F,M\nA,1,2\n", {"layout": "wide", "dims": ["area", "sex"], "value": ["F"]}, r"leave them out: ignore=\['M'\]"),
    ("area,F,M\nA,1,2\n", {"layout": "wide", "dims": ["area", "sex"], "value": ["X"]}, "value names 'X'"),
    ("area,F,M\nA,1,2\n", {"layout": "wide", "dims": ["area", "sex"], "flags": "M"}, "flags is for long files"),
    ("area\nA\n", {}, "the header is one column, 'area'; a table needs labels and values"),
    ("area,count\n", {}, "there is no line below the header"),
    ("", {}, "the file has no line|leaves nothing"),
    (LONG, {"skip_rows": 9}, "skip_rows=9 leaves nothing of the 5 lines"),
    (LONG, {"footer": 9}, "the file has no line with text besides those left out"),
    ('area,count\n"A,1\n', {}, "line 2: it is not a CSV file there"),
    (LONG, {"delimiter": ":"}, "delimiter must be one of"),
    (LONG, {"encoding": "rot13"}, "encoding must be one of"),
    (LONG, {"skip_rows": -1}, "skip_rows must be"),
    (LONG, {"missing": "published"}, "missing must be"),
    (LONG, {"layout": "auto"}, "layout must be"),
    (LONG, {"decimal": ";"}, "decimal must be"),
    (LONG, {"decimal": ",", "thousands": ","}, "thousands and decimal are both ','"),
    (LONG, {"thousands": "x"}, "thousands must be one of"),
    (LONG, {"footnotes": ["1"]}, "footnotes: '1' cannot be told from the end of a number"),
    (LONG, {"footnotes": [",a"], "thousands": ","}, "footnotes: ',a' cannot be told"),
    (LONG, {"footnotes": [" "]}, "footnotes must be marks without blanks"),
    (LONG, {"symbols": {"c": "confidential"}}, r"symbols: 'c' must mean one of 'suppressed' \(.*got 'confidential'"),
    (LONG, {"symbols": {"c": False}}, "symbols: 'c' must mean one of"),
    (LONG, {"symbols": {"c ": "zero"}}, "symbols: 'c ' has blanks around it"),
]  # fmt: skip


def test_what_is_wrong_is_said(read):
    for text, declared, told in WRONG:
        with pytest.raises(ValueError, match=told):
            read(text, **declared)


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


def test_arguments_of_a_wrong_type_and_no_such_file(read, tmp_path):
    for declared, told in WRONG_TYPES:
        with pytest.raises(TypeError, match=told):
            read(LONG, **declared)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_office_csv(tmp_path / "none.csv")


def test_what_others_wrote_is_shown_escaped(read):
    with pytest.raises(ValueError, match="no symbol that was declared") as error:
        read("area,count\nA\x1b[31m,\x1b[2Jx\n")
    assert "\x1b" not in str(error.value)
    assert r"\x1b[2Jx" in str(error.value)
