"""One table in several files of an office: columns in different files, levels of areas by codes, and what may be wrong with them."""

import re
from functools import partial

import pytest

import bayesdp as bdp
from bayesdp.tables import read_office_csv

WIDE = {"layout": "wide", "dims": ["SA3"], "header": "(?P<sex>[MFP])_(?P<age>.+)", "totals": {"sex": "P", "age": "Tot"}}
FILES = {
    "a.csv": "SA3,M_15_19,M_20,M_Tot,F_15_19\n10101,1,2,3,4\n10102,5,6,10,8\n10201,9,10,19,12\n",
    "b.csv": "SA3,F_20,F_Tot,P_15_19,P_20,P_Tot\n10201,1,2,3,4,5\n10101,6,7,8,9,10\n10102,11,12,13,14,15\n",
    "large.csv": "SA4,M_15_19,M_20,M_Tot,F_15_19,F_20,F_Tot,P_15_19,P_20,P_Tot\n"
    "101,1,2,3,4,5,6,7,8,9\n102,11,12,13,14,15,16,17,18,19\n",
    "c.csv": "SA3,M_20\n10101,2\n",
    "all.csv": "AUS,M_15_19,M_20,M_Tot,F_15_19,F_20,F_Tot,P_15_19,P_20,P_Tot\n036,21,22,23,24,25,26,27,28,29\n",
}


@pytest.fixture
def read(tmp_path):
    def reading(files=("a.csv", "b.csv"), levels=(("SA4", "large.csv"),), changed=None, **declared):
        for name, text in {**FILES, **(changed or {})}.items():
            (tmp_path / name).write_text(text, encoding="utf-8")
        above = {name: tmp_path / own for name, own in levels}
        return read_office_csv([tmp_path / own for own in files], levels=above, **{**WIDE, **declared})

    return reading


def test_columns_of_two_files_are_one_table_codes_nest_and_lines_are_chosen(read):
    tables = read()
    below = (("sex", "age"), ("sex",), ("age",), ())
    assert [own.query.dims for own in tables] == [(level, *rest) for level in ("SA3", "SA4") for rest in below]
    frame = tables[0].query.frame
    assert frame.labels == (("10101", "10102", "10201"), ("M", "F"), ("15_19", "20"))
    assert frame.groups == (("SA4", "SA3", ("101", "101", "102")),)
    assert all(own.query.frame == frame for own in tables)
    assert tables[0].values.tolist() == [[[1, 2], [4, 6]], [[5, 6], [8, 11]], [[9, 10], [12, 1]]]
    assert tables[1].values.tolist() == [[3, 7], [10, 12], [19, 2]]
    assert tables[3].values.tolist() == [10, 15, 5]
    assert tables[4].values.tolist() == [[[1, 2], [4, 5]], [[11, 12], [14, 15]]]
    assert tables[6].labelled.sel(SA4="102", age="20") == 18
    # The margins are those of the cells: the query of an SA4 adds up its SA3.
    answers = tables[7].query.matrix @ tables[0].values.reshape(-1)
    assert answers.tolist() == [tables[0].values[:2].sum(), tables[0].values[2].sum()]
    tables = read(lines={"SA3": "101.*", "SA4": "101"})
    assert tables[0].query.frame.labels[0] == ("10101", "10102")
    assert tables[4].values.tolist() == [[[1, 2], [4, 5]]]


def test_a_level_may_be_the_whole_and_totals_may_have_labels_that_differ_from_area_to_area(read, tmp_path):
    tables = read(levels=[("SA4", "large.csv"), ("AUS", "all.csv")], totals={**WIDE["totals"], "AUS": "036"})
    assert [own.query.dims for own in tables[8:]] == [("sex", "age"), ("sex",), ("age",), ()]
    assert tables[8].values.tolist() == [[21, 22], [24, 25]]
    assert tables[11].values.item() == 29
    with pytest.raises(ValueError, match=r"totals says that AUS has one label, '36'; it has '036'"):
        read(levels=[("AUS", "all.csv")], totals={**WIDE["totals"], "AUS": "36"})
    path = tmp_path / "nz.csv"
    path.write_text('area,age,n\nx,0-4,3\nx,5-9,6\n"x","Total people, x",9\ny,0-4,0\ny,5-9,3\ny,"Total people, y",6\n')
    cells, areas = read_office_csv(path, totals={"age": re.compile("Total people, .*")})
    assert cells.labelled.sel(area="y").values.tolist() == [0, 3]
    assert areas.values.tolist() == [9, 6]
    with pytest.raises(ValueError, match=r"no label of 'age' matches totals=\{'age': 'Sum .*'\}"):
        read_office_csv(path, totals={"age": re.compile("Sum .*")})


ROWS = "10101,Alice Springs,1,2\n10201,Barkly,3,4\n"
NAMED = {"a.csv": f"SA3,name,M_15,F_15\n{ROWS}", "b.csv": f"SA3,name,M_20,F_20\n{ROWS}"}
BAD = [
    ({"large.csv": FILES["large.csv"].replace("\n102,", "\n103,")}, {},
     r"a.csv and .*: SA3=10201 begins with no codes of SA4 in .*large.csv \('101', '103'\); codes nest"),
    ({"large.csv": FILES["large.csv"] + "103,1,2,3,4,5,6,7,8,9\n"}, {},
     r"large.csv: no SA3 of .* begins with SA4='103': areas of a level are missing"),
    ({"large.csv": FILES["large.csv"] + "10,1,2,3,4,5,6,7,8,9\n"}, {},
     r"SA3=10101 begins with 2 codes of SA4 in .*large.csv \('101', '10'\); codes nest"),
    ({"b.csv": FILES["b.csv"].replace("10102,11,12,13,14,15\n", "")}, {},
     r"a.csv and .*b.csv: \d of the 12 cells are missing, for example SA3=10102, sex=F, age=20"),
    ({"b.csv": FILES["b.csv"] + "10202,1,1,1,1,1\n"}, {}, r"are missing, for example SA3=10202, sex=M, age=15_19"),
    ({"b.csv": FILES["b.csv"].replace("F_20", "M_20")}, {},
     r"b.csv, line 3, column 'M_20': SA3=10101, sex=M, age=20 is there already, in .*a.csv, line 2, column 'M_20'"),
    ({"large.csv": FILES["large.csv"].replace("_15_19", "_15_24")}, {},
     r"large.csv: of 'age' '15_24' are here only, elsewhere are '15_19', '20'"),
    ({"large.csv": FILES["large.csv"].replace("SA4", "STE")}, {}, r"large.csv: there is no column 'SA4'"),
    ({"a.csv": FILES["a.csv"].replace("M_20", "M20")}, {},
     r"finds no labels in the name of the column 'M20'; widen it, or leave the column out: ignore=\['M20'\]"),
    (NAMED | {"b.csv": NAMED["b.csv"].replace("Springs", "Spring")},
     {"groups": {"name": "SA3"}, "totals": {}, "levels": ()},
     r"b.csv, line 2: SA3=10101 has name=Alice Spring, but name=Alice Springs in .*a.csv, line 2; a group label must follow"),
    ({"a.csv": FILES["a.csv"].replace("1,2,3,4", "1,np,3,4")}, {},
     r"a.csv, line 2, column 'M_20': 'np' at SA3=10101, sex=M, age=20 is no number"),
    ({"large.csv": FILES["large.csv"].replace("101,1,", "101,..,")}, {},
     r"large.csv, line 2, column 'M_15_19': '\.\.' at SA4=101, sex=M, age=15_19 is no number"),
    ({}, {"lines": {"SA3": "9.*"}}, r"a.csv: no line is left where lines=\{'SA3': '9\.\*'\} matches"),
    ({}, {"lines": {"sheet": "1"}}, r"there is no column 'sheet'; columns are"),
    ({}, {"ignore": ["state"]}, r"there is no column 'state'"),
    ({}, {"header": "(?P<sex>[MFP]"}, "header must be a regular expression, such as .*missing"),
    ({}, {"header": "[MFP]_.*"}, "must have a named group"),
    ({}, {"layout": "long"}, "header is for wide files"),
    ({"b.csv": "SA3,state,M_20\n10101,1,2\n"}, {"dims": None, "layout": "long", "header": None, "levels": (), "value": "M_20",
      "files": ("b.csv", "c.csv"), "totals": {}},
     r"c.csv: dims are \('SA3',\), those of .*b.csv are \('SA3', 'state'\)"),
    ({}, {"files": ()}, "path must name a file, or several, got none"),
]  # fmt: skip


def test_what_is_wrong_between_files_is_named(read, tmp_path):
    for changed, declared, told in BAD:
        with pytest.raises(ValueError, match=told):
            read(changed=changed, **declared)
    for lines, told in (("1", "lines must be a mapping"), ({"SA3": 7}, "lines of 'SA3' must be a regular expression")):
        with pytest.raises(TypeError, match=told):
            read(lines=lines)
    with pytest.raises(TypeError, match="levels must be a mapping"):
        read_office_csv(tmp_path / "a.csv", levels=["b.csv"])


def test_names_of_areas_are_groups_when_files_agree(read):
    named = partial(read, levels=(), groups={"name": "SA3"}, totals={})
    [cells] = named(changed=NAMED)
    assert cells.query.frame.groups == (("name", "SA3", ("Alice Springs", "Barkly")),)
    # One file without names takes them from the other.
    bare = NAMED | {"b.csv": "SA3,M_20,F_20\n10101,1,2\n10201,3,4\n"}
    assert named(changed=bare) == (cells,)
    bare["a.csv"] = "SA3,name,M_15,F_15\n10201,Barkly,3,4\n"
    with pytest.raises(ValueError, match=r"SA3='10101' have no 'name' in the files that have this column"):
        named(changed=bare, missing="not_published")


def test_what_offices_write_for_hidden_numbers_is_declared_once_for_all_files(read):
    for symbol in ("..", "np", "*"):
        changed = {"b.csv": FILES["b.csv"].replace("\n10101,6,", f"\n10101,{symbol},")}
        changed["large.csv"] = FILES["large.csv"].replace("102,11", f"102,{symbol}")
        with pytest.raises(ValueError, match=r"b.csv, line 3, column 'F_20': .* at SA3=10101, sex=F, age=20"):
            read(changed=changed)
        tables = read(changed=changed, symbols={symbol: "suppressed"})
        hidden = [tables[0].mask("suppressed"), tables[4].mask("suppressed")]
        assert [int(own.sum()) for own in hidden] == [1, 1]
        assert bool(hidden[0].sel(SA3="10101", sex="F", age="20"))
        assert bool(hidden[1].sel(SA4="102", sex="M", age="15_19"))
        measured = tables[4].measured(bdp.noise.CellKey(max_deviation=3, variance=2.0))
        assert int(measured.unmeasured.sum()) == 1


def test_a_cell_above_its_total_is_named(tmp_path):
    """The cell may be off by 3 (2, rounded), the total likewise: 6 (4) apart is possible, 12 is not, whatever is hidden beside it."""

    def release(cell, law):
        path = tmp_path / "t.csv"
        path.write_text(f"area,sex,n\np,M,{cell}\np,F,np\np,P,60\nq,M,9\nq,F,6\nq,P,15\n")
        cells, areas = read_office_csv(path, symbols={"np": "suppressed"}, totals={"sex": "P"})
        return bdp.Release.from_published(cells.query.frame, [cells.measured(law), areas.measured(law)])

    key = bdp.noise.CellKey(max_deviation=3, variance_at_most=9.0, not_smaller_than=3)
    for law, within in ((key, 66), (bdp.noise.RandomRounding(3), 63)):
        assert len(release(within, law).measurements) == 2
        with pytest.raises(ValueError, match=r"contradict each other by .* area=p 72 and 60 \(impossible\)"):
            release(72, law)
