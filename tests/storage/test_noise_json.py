"""A release as one CSV file with noise.json: what is written is what is read, and what is wrong is named by its place."""

import copy
import csv
import json
from contextlib import nullcontext

import fastjsonschema
import jsonschema
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bayesdp as bdp
from bayesdp import Exact, Identity, LinearQuery, Margins, Measured, Release, Totals
from bayesdp.measurements.consistency import PostProcessedWarning
from bayesdp.storage.noise_json import noise_json_schema
from bayesdp.tables import csv_label, label_of_csv, read_table
from tests.nasty import LABELS, obeyed
from tests.storage.examples import lattice, several, write_columns

TABLE = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
CSV = "county,education,noisy,total\nAlpha,Low,12,\nAlpha,High,,\nBeta,Low,-3,\nBeta,High,7,\n*,,,30\n"
NOISY = {"column": "noisy", "query": {"kind": "cells"}, "law": {"law": "discrete-gaussian", "sigma": 5.0}}
NOISY["not_published"] = [{"by": {"county": "Alpha", "education": "High"}}]
COUNTIES = {"name": "county", "labels": ["Alpha", "Beta"], "total": "*"}
SIDECAR = {
    "noise_json": 1,
    "table": {"dimensions": [COUNTIES, {"name": "education", "labels": ["Low", "High"]}]},
    "measured": [NOISY],
    "exact": [{"column": "total", "query": {"kind": "total"}}],
}


@pytest.fixture
def files(tmp_path):
    """Writes a CSV file and its noise.json, and reads them."""

    def read(csv=CSV, **changes):
        (tmp_path / "DATA.csv").write_text(csv)
        (tmp_path / "DATA.noise.json").write_text(json.dumps({**SIDECAR, **changes}))
        return Release.from_csv(tmp_path / "DATA.csv")

    return read


def test_files_written_by_hand_and_numbers_that_were_rounded(files):
    """The oracle is typed. Cells, margins of a group and the total may stand in one column, each under its own law, in any order."""
    law, missing = bdp.noise.DiscreteGaussian(5.0), [("Alpha", "High")]
    cells = Measured(Identity(TABLE), [[12, np.nan], [-3, 7]], law, unmeasured=missing)
    expected = Release.from_published(TABLE, [cells], [Exact(Totals(TABLE), 30)])
    assert files() == expected
    assert files(measured=[{**NOISY, "not_published": "blank"}]) == expected
    csv = "state,county,n\nIL,a,4\nIL,b,5\n,c,6\nIL,,10\nIN,,7\n,,15\n"
    states = {"name": "state", "dimension": "county", "labels": ["IL", "IL", "IN"]}
    table = {"dimensions": [{"name": "county", "labels": ["a", "b", "c"]}], "groups": [states]}
    sums = {"kind": "stack", "parts": [{"kind": "margin", "by": ["state"]}, {"kind": "total"}]}
    asked = ({"kind": "cells"}, 2), (sums, 1)
    measured = [{"column": "n", "query": own, "law": {"law": "discrete-laplace", "b": b}} for own, b in asked]
    release = files(csv, table=table, measured=measured, exact=[])
    assert [own.values.tolist() for own in release.measurements] == [[4, 5, 6], [10, 7, 15]]
    assert [own.law for own in release.measurements] == [bdp.noise.DiscreteLaplace(2), bdp.noise.DiscreteLaplace(1)]
    assert release.measurements[1].query.names == ["state=IL", "state=IN", "total"]
    with pytest.raises(ValueError, match=r"line 4, column 'state': state of county=c is 'IN', got 'IL'"):
        files(csv.replace(",c,", "IL,c,"), table=table, measured=measured, exact=[])
    table = {"dimensions": [{"name": name, "labels": ["x", "y"]} for name in "abc"]}
    measured = [{"column": "n", "query": {"kind": "margin", "by": ["c", "a"]}, "law": {"law": "laplace", "b": 1}}]
    release = files("c,a,n\nx,x,0\nx,y,1\ny,x,2\ny,y,3\n", table=table, measured=measured, exact=[])
    assert release.measurements[0].query == Margins({name: ["x", "y"] for name in "abc"}, ["a", "c"])
    assert release.measurements[0].values.tolist() == [[0, 2], [1, 3]]
    labels = [f"a{i}" for i in range(60)]
    csv = "area,n\n" + "".join(f"{label},{5 * (i % 7)}\n" for i, label in enumerate(labels))
    table = {"dimensions": [{"name": "area", "labels": labels}]}
    measured = [{"column": "n", "query": {"kind": "cells"}, "law": {"law": "discrete-gaussian", "sigma": 20}}]
    with pytest.warns(PostProcessedWarning):
        files(csv, table=table, measured=measured, exact=[])


def test_linear_queries_groups_and_notes_travel_and_a_query_that_asks_twice_is_refused(tmp_path):
    """The answer is by state and year, whatever the order of the columns: the numbers are typed."""
    release = lattice()
    release.to_csv(tmp_path / "a.csv", noise=tmp_path / "b.json")
    again = Release.from_csv(tmp_path / "a.csv", noise=tmp_path / "b.json")
    assert (again.guarantee, again.mechanism, again.simulated) == (release.guarantee, release.mechanism, True)
    plain = json.loads((tmp_path / "b.json").read_text())
    assert plain["measured"][0]["invariants"]["kind"] == "stack"
    assert Release.from_csv(tmp_path / "a.csv", noise=plain) == release
    assumed = Exact(Totals(TABLE), 40, "<=", assumption="suppressed because it was small")
    Release.from_published(TABLE, exact=[assumed]).to_csv(tmp_path / "DATA.csv")
    assert Release.from_csv(tmp_path / "DATA.csv").exact == (assumed,)
    table = {"answer": ["yes", "no"], "measured_0": [1, 2]}
    query = LinearQuery.of_values(table, [[0.5, 1.5, 0.0, 2.0]], ["income"])
    noisy = Measured(query, [7], bdp.noise.DiscreteGaussian(3.0))
    release = Release.from_published(table, [noisy], [Exact(Totals(table), 9)])
    release.to_csv(tmp_path / "DATA.csv", overwrite=True)
    header = (tmp_path / "DATA.csv").read_text().splitlines()[0]
    assert header == "answer,measured_0,answer_,measured_0_,exact_0"
    assert Release.from_csv(tmp_path / "DATA.csv") == release
    table = {"county": ["a", "b", "c"], "state": ("county", ["IL", "IL", "IN"]), "year": [1990, 2000]}
    by_state = Margins(table, ["state", "year"])
    release = Release.from_published(table, [Measured(by_state, [[1, 2], [3, 4]], bdp.noise.DiscreteLaplace(2.0))])
    release.to_csv(tmp_path / "DATA.csv", overwrite=True)
    lines = (tmp_path / "DATA.csv").read_text().splitlines()
    assert lines == ["county,year,state,measured_0", ",1990,IL,1", ",2000,IL,2", ",1990,IN,3", ",2000,IN,4"]
    assert Release.from_csv(tmp_path / "DATA.csv") == release
    twice = Totals(TABLE) + Totals(TABLE)
    release = Release.from_published(TABLE, [Measured(twice, np.array([3, 4]), bdp.noise.Laplace(2.0))])
    with pytest.raises(ValueError, match="asks twice for the same sum"):
        release.to_csv(tmp_path / "none.csv")
    assert not list(tmp_path.glob("none*"))


def test_a_noise_json_that_is_there_stays_and_two_files_that_do_not_belong_together_are_refused(tmp_path):
    path, sidecar = tmp_path / "DATA.csv", tmp_path / "DATA.noise.json"
    several().to_csv(path)
    before = sidecar.read_bytes()
    path.unlink()
    with pytest.raises(FileExistsError):
        lattice().to_csv(path)
    assert not path.exists()
    assert sidecar.read_bytes() == before
    with pytest.raises(ValueError, match="noise must be another file"):
        lattice().to_csv(path, noise=path)
    lattice().to_csv(path, overwrite=True)
    path.write_text(path.read_text().replace("16", "17"))
    with pytest.raises(ValueError, match=r"not the file that .*DATA\.noise\.json is about.*\$\.data\.sha256"):
        Release.from_csv(path)
    sidecar.unlink()
    with pytest.raises(FileNotFoundError, match=r"no file .*DATA\.noise\.json.*name it with noise="):
        Release.from_csv(path)
    with pytest.raises(FileNotFoundError, match=r"no file .*none\.csv"):
        Release.from_csv(tmp_path / "none.csv")


def _with(path, value):
    """The sidecar with one entry changed; None removes it."""
    changed = holder = copy.deepcopy(SIDECAR)
    *lead, last = [int(step) if step.isdigit() else step for step in path.split("/")]
    for key in lead:
        holder = holder[key]
    holder[last] = value
    if value is None:
        del holder[last]
    return changed


WRONG = [
    ("noise_json", 2, r"\$\.noise_json is 2, and this bayesdp reads version 1 only; upgrade"),
    ("noise_json", None, r"\$ lacks 'noise_json'"),
    ("measured/0/scale", 5, r"\$\.measured\[0\] must not contain \{'scale'\} properties"),
    ("measured/0/law/law", "gauss", r"\$\.measured\[0\]\.law: unknown noise law 'gauss'; known"),
    ("measured/0/law/sigma", None, r"\$\.measured\[0\]\.law: .*lacks parameter 'sigma'"),
    ("measured/0/law/b", 5, r"\$\.measured\[0\]\.law: .*no parameter 'b'; it takes"),
    ("measured/0/law", "laplace", r"\$\.measured\[0\]\.law must be object"),
    ("measured/0/query/kind", "table", r"\$\.measured\[0\]\.query\.kind must be one of \['cells'"),
    ("measured/0/query", {"kind": "margin"}, r"\$\.measured\[0\]\.query must contain \['by'\] properties"),
    ("measured/0/query", {"kind": "margin", "by": ["age"]}, r"\$\.measured\[0\]\.query\.by: 'age' is neither"),
    ("measured/0/query/by", ["county"], r"\$\.measured\[0\]\.query\.by must not be there"),
    ("exact/0/query", {"kind": "linear", "answers": [{"name": "a", "terms": [{"cell": ["Alpha", "Middle"], "weight": 1}]}]},
     r"\$\.exact\[0\]\.query\.answers\[0\]\.terms\[0\]\.cell: 'Middle' is no label of 'education'"),
    ("exact/0/query", {"kind": "linear", "answers": [{"name": "a", "terms": []}]},
     r"\$\.exact\[0\]\.query has linear combinations, and \$\.data\.answer_column"),
    ("measured/0/column", "noise", r"\$\.measured\[0\]\.column: there is no column 'noise' in DATA\.csv; its columns are"),
    ("table/dimensions/0/column", "County", r"\$\.table\.dimensions\[0\]\.column: there is no column 'County'"),
    ("measured/0/column", "county", r"\$: the columns 'county' are said"),
    ("exact", [], r"\$ says nothing of the columns 'total' of DATA\.csv"),
    ("table/dimensions/1/labels", ["Low", "Top"], r"line 3, column 'education': 'High' is no label of 'education'"),
    ("table/dimensions/1/labels", ["Low", "Low"], r"\$\.table: labels of 'education' must be distinct"),
    ("table/dimensions/0/labels", ["Alpha", "Beta", "Gamma"], r"has lines for 'county=Gamma, education=Low'"),
    ("table/dimensions/0/labels/1", True, r"\$\.table\.dimensions\[0\]\.labels\[1\] must be"),
    ("table/dimensions/1/labels", ["1", 1], r"DATA\.noise\.json: \$\.table: labels of 'education' differ only by type"),
    ("measured/0/not_published", None, r"line 3, column 'noisy': county=Alpha, education=High has no value, and"),
    ("measured/0/not_published/0/by/education", "Low", r"column 'noisy': county=Alpha, education=(High|Low)"),
    ("measured/0/not_published/0/by", {"county": "Alpha"}, r"\$\.measured\[0\]\.not_published\[0\] is no answer"),
    ("measured/0/postprocessing", "clipped at zero", r"\$\.measured\[0\]: postprocessing is 'clipped at zero'"),
    ("exact/0/sign", "<", r"\$\.exact\[0\]\.sign must be one of \['=', '>=', '<='\]"),
    ("guarantee", {"epsilon": 1}, r"\$\.guarantee: "),
    ("measured/0/invariants", {"kind": "total"}, r"\$\.measured\[0\]: noise of the law"),
    ("data", {"sha256": "0"}, r"\$\.data\.sha256 must match pattern"),
]  # fmt: skip


def test_what_is_wrong_is_named_by_its_place_and_two_libraries_agree_on_the_schema(tmp_path):
    (tmp_path / "DATA.csv").write_text(CSV)
    described = [(json.dumps(_with(path, value)).encode(), message) for path, value, message in WRONG]
    for content, told in ((b"{", "not valid JSON"), (b"{\xff}", "utf-8")):
        described.append((content, rf"DATA\.noise\.json: .*{told}"))
    for content, message in described:
        (tmp_path / "DATA.noise.json").write_bytes(content)
        with pytest.raises(ValueError, match=message):
            Release.from_csv(tmp_path / "DATA.csv")
    schema = noise_json_schema()
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    fast = fastjsonschema.compile(schema, use_default=False)
    refuses = pytest.raises(fastjsonschema.JsonSchemaValueException)
    assert validator.is_valid(SIDECAR)
    for changed in (_with(path, value) for path, value, _ in WRONG):
        with nullcontext() if validator.is_valid(changed) else refuses:
            fast(changed)


LINES = [
    ("-3", "many", r"line 4, column 'noisy': 'many' at county=Beta, education=Low is not a number"),
    ("-3", "nan", r"line 4, column 'noisy': 'nan' at county=Beta, education=Low is not a number"),
    ("-3", "-3,1", r"line 4: 5 fields, but the header has 4"),
    ("-3", "-3.5", r"\$\.measured\[0\]: values must be whole numbers .* county=Beta, education=Low is -3\.5"),
    ("Beta,Low", "Beta,Middle", r"line 4, column 'education': 'Middle' is no label"),
    ("Beta,Low", "Beta,High", r"line 5: county=Beta, education=High is there already, in line 4"),
    ("*,,,30", "*,,5,30", r"line 6, column 'noisy': no query of that .* the grand total, but there is '5'"),
    ("*,,,30\n", "*,,,30\nBeta,,,\n", r"line 7: .* no query that asks for county=Beta"),
    ("*,,,30", "*,,,", r"line 6, column 'total': the grand total has no value; what is exact needs one"),
    ("*,,,30", "*,,,-1", r"\$\.exact\[0\]: .*a sum of counts is at least 0"),
]  # fmt: skip


def test_what_is_wrong_in_the_table_is_named_by_its_line(files):
    for old, new, message in LINES:
        with pytest.raises(ValueError, match=message):
            files(CSV.replace(old, new))
    message = r"line 2, column 'noisy': .* is said to be a number of .*\[0\] and of .*\[1\]"
    with pytest.raises(ValueError, match=message):
        files(measured=[NOISY, {**NOISY, "name": "again"}])
    table = {"dimensions": [{"name": f"d{i}", "labels": list(range(300))} for i in range(6)]}
    with pytest.raises(ValueError, match=r"\$\.table: the table has 729000000000000 cells, more than the limit"):
        files(table=table)


# Labels: neutral for spreadsheets, exact when read back.
TEXTS = st.text(st.sampled_from("=+-@'\\\"\n\r\t,; \x1b\u202enxu0a"), min_size=1)


def of_labels(dim, labels):
    frame = {dim: labels, "@g": (dim, [f"={i % 2}" for i in range(len(labels))])}
    counts = np.arange(len(labels))
    line = LinearQuery(frame, [[1, *[0] * (len(labels) - 1)]], ["-one\x1b"])
    groups = Totals(frame, "@g") + line
    numbers = {Identity(frame): counts - 2, groups: groups.apply(counts - 2) + 1}
    measured = [Measured(query, own, bdp.noise.DiscreteGaussian(2.0)) for query, own in numbers.items()]
    return Release.from_published(frame, measured, [Exact(Totals(frame), int(counts.sum()))])


@pytest.mark.parametrize("dim", ["county", "=dim\n"])
def test_cells_are_neutral_and_come_back(dim, tmp_path):
    made = of_labels(dim, [*LABELS, -3, -2])
    made.to_csv(tmp_path / "made.csv")
    assert Release.from_csv(tmp_path / "made.csv") == made
    for path in tmp_path.iterdir():
        assert obeyed(path.read_text(encoding="utf-8")) == set(), path
    text = (tmp_path / "made.csv").read_text(encoding="utf-8")
    header, *rows = csv.reader(text.splitlines())
    assert not [cell for row in [header, *rows] for cell in row if cell.startswith(("=", "+", "@", "\t", "\r"))]
    cells = rows[: len(LABELS) + 2]
    assert label_of_csv(header[0]) == dim
    assert [label_of_csv(row[0]) for row in cells[:-2]] == LABELS
    assert [row[0] for row in cells[-2:]] == ["-3", "-2"]  # numbers are no formulas
    assert cells[0][header.index("measured_0")] == "-2"  # nor are noisy values below zero


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(labels=st.lists(TEXTS, min_size=2, max_size=5, unique=True))
def test_every_label_that_is_written_is_read(labels, tmp_path):
    made = of_labels("county", [*labels])
    if any(csv_label(label) != csv_label(label).strip() for label in labels):
        with pytest.raises(ValueError, match="blanks around them"):
            made.to_csv(tmp_path / "made.csv", overwrite=True)
    else:
        made.to_csv(tmp_path / "made.csv", overwrite=True)
        assert Release.from_csv(tmp_path / "made.csv") == made


def test_labels_that_are_not_written_so_are_refused(tmp_path):
    frame, path = {"county": ["=a", "b"]}, tmp_path / "made.csv"
    measured = [Measured(Identity(frame), [-2, -1], bdp.noise.DiscreteGaussian(2.0))]
    write_columns(Release.from_published(frame, measured), path)
    for text, message in (
        ("county,measured_0\n=a,-2\nc,-1\n", "'=a' is no label of 'county'"),
        ("county,measured_0\n'=a,-2\n=a,-2\nb,-1\n", "'=a' is no label of 'county'"),
        ("county,measured_0\n'=a,-2\n", "has lines for 'county=b', which are missing"),
        ("county,measured_0\n'=a,-2\n'=a,-2\nb,-1\n", "county='=a is there already"),
        ("'county,measured_0\n'=a,-2\nb,-1\n", "there is no column 'county'"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            Release.from_csv(path)


def test_what_text_does_not_keep_is_refused_before_anything_is_written(tmp_path):
    """Half a character in either kind of file."""
    half, kept = of_labels("county", ["a", "\ud800"]), "which one CSV file does not keep; use to_netcdf"
    for write, message in (
        (half.to_csv, "surrogates not allowed"),
        (half.to_netcdf, "surrogates not allowed"),
        *((of_labels("county", own).to_csv, kept) for own in ([1, "1"], ["", "a"], ["a ", "b"], ["\u3000a", "b"])),
    ):
        with pytest.raises(ValueError, match=message):
            write(tmp_path / "made")
        assert not list(tmp_path.iterdir())


def test_what_looks_like_something_else_is_kept_and_tables_of_agencies_are_taken_as_they_stand(tmp_path):
    frame = {"=a": ["x", "y"], "b\n": ["=p", "q"]}
    margins = Release.from_published(frame, exact=[Exact(Margins(frame, ["=a"], ["b\n"]), [1, 2, 2, 1])])
    for made in (of_labels("county", [-1, "-1"]), margins):
        made.to_csv(tmp_path / "made.csv", overwrite=True)
        assert Release.from_csv(tmp_path / "made.csv") == made
    made = of_labels("county", [*LABELS])  # netCDF has labels as they are
    made.to_netcdf(tmp_path / "release.nc")
    assert Release.from_netcdf(tmp_path / "release.nc") == made
    path = tmp_path / "table.csv"
    path.write_text("county,count\n'=a,1\n=a,2\n'b,3\n", encoding="utf-8")
    assert read_table(path).coords["county"].values.tolist() == ["'=a", "=a", "'b"]
    path.write_bytes(b"\0,count\nAlpha,14\n")
    with pytest.raises(ValueError, match=r"table\.csv, line 1: there is a null character"):
        read_table(path)
