"""A release as one CSV file with noise.json: what is written is what is read, and what is wrong is named by its place."""

import copy
import json
from contextlib import nullcontext

import fastjsonschema
import jsonschema
import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.consistency import PostProcessedWarning
from bayesdp.measurements import Exact, Measured
from bayesdp.queries import Identity, LinearQuery, Margins, Totals
from bayesdp.release import Release
from bayesdp.storage.noise_json import noise_json_schema
from tests.storage.examples import lattice, several

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


def test_a_file_written_by_hand(files):
    """The oracle is typed: what the two files say is this release."""
    law, missing = bdp.noise.DiscreteGaussian(5.0), [("Alpha", "High")]
    cells = Measured(Identity(TABLE), [[12, np.nan], [-3, 7]], law, unmeasured=missing)
    expected = Release.from_published(TABLE, [cells], [Exact(Totals(TABLE), 30)])
    assert files() == expected
    assert files(measured=[{**NOISY, "not_published": "blank"}]) == expected


def test_one_column_with_cells_margins_and_groups(files):
    """Cells, margins of a group and the total stand in one column, each under its own law."""
    csv = "state,county,n\nIL,a,4\nIL,b,5\n,c,6\nIL,,10\nIN,,7\n,,15\n"
    table = {
        "dimensions": [{"name": "county", "labels": ["a", "b", "c"]}],
        "groups": [{"name": "state", "dimension": "county", "labels": ["IL", "IL", "IN"]}],
    }
    sums = {"kind": "stack", "parts": [{"kind": "margin", "by": ["state"]}, {"kind": "total"}]}
    measured = [
        {"column": "n", "query": {"kind": "cells"}, "law": {"law": "discrete-laplace", "b": 2}},
        {"column": "n", "query": sums, "law": {"law": "discrete-laplace", "b": 1}},
    ]
    release = files(csv, table=table, measured=measured, exact=[])
    assert [own.values.tolist() for own in release.measurements] == [[4, 5, 6], [10, 7, 15]]
    assert [own.law for own in release.measurements] == [bdp.noise.DiscreteLaplace(2), bdp.noise.DiscreteLaplace(1)]
    assert release.measurements[1].query.names == ["state=IL", "state=IN", "total"]
    with pytest.raises(ValueError, match=r"line 4, column 'state': state of county=c is 'IN', got 'IL'"):
        files(csv.replace(",c,", "IL,c,"), table=table, measured=measured, exact=[])


def test_margins_of_three_dimensions_by_hand(files):
    """Every kept set has lines of its own, whatever the order in which `by` names it."""
    table = {"dimensions": [{"name": name, "labels": ["x", "y"]} for name in "abc"]}
    measured = [{"column": "n", "query": {"kind": "margin", "by": ["c", "a"]}, "law": {"law": "laplace", "b": 1}}]
    release = files("c,a,n\nx,x,0\nx,y,1\ny,x,2\ny,y,3\n", table=table, measured=measured, exact=[])
    assert release.measurements[0].query == Margins({name: ["x", "y"] for name in "abc"}, ["a", "c"])
    assert release.measurements[0].values.tolist() == [[0, 2], [1, 3]]


def test_guarantee_mechanism_and_notes_travel(tmp_path):
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


def test_a_linear_query_with_a_unit_and_a_dimension_called_answer(tmp_path):
    table = {"answer": ["yes", "no"], "measured_0": [1, 2]}
    query = LinearQuery.of_values(table, [[0.5, 1.5, 0.0, 2.0]], ["income"])
    noisy = Measured(query, [7], bdp.noise.DiscreteGaussian(3.0))
    release = Release.from_published(table, [noisy], [Exact(Totals(table), 9)])
    release.to_csv(tmp_path / "DATA.csv")
    header = (tmp_path / "DATA.csv").read_text().splitlines()[0]
    assert header == "answer,measured_0,answer_,measured_0_,exact_0"
    assert Release.from_csv(tmp_path / "DATA.csv") == release


def test_a_query_that_one_csv_file_does_not_keep(tmp_path):
    twice = Totals(TABLE) + Totals(TABLE)
    release = Release.from_published(TABLE, [Measured(twice, np.array([3, 4]), bdp.noise.Laplace(2.0))])
    with pytest.raises(ValueError, match="asks twice for the same sum"):
        release.to_csv(tmp_path / "DATA.csv")
    assert list(tmp_path.iterdir()) == []


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


def test_what_is_wrong_is_named_by_its_place(tmp_path):
    (tmp_path / "DATA.csv").write_text(CSV)
    described = [(json.dumps(_with(path, value)).encode(), message) for path, value, message in WRONG]
    for content, told in ((b"{", "not valid JSON"), (b"{\xff}", "utf-8")):
        described.append((content, rf"DATA\.noise\.json: .*{told}"))
    for content, message in described:
        (tmp_path / "DATA.noise.json").write_bytes(content)
        with pytest.raises(ValueError, match=message):
            Release.from_csv(tmp_path / "DATA.csv")


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


def test_a_field_cannot_be_two_numbers(files):
    message = r"line 2, column 'noisy': .* is said to be a number of .*\[0\] and of .*\[1\]"
    with pytest.raises(ValueError, match=message):
        files(measured=[NOISY, {**NOISY, "name": "again"}])


def test_numbers_that_were_rounded_are_warned_of(files):
    """A sidecar of somebody else may state a law that its numbers do not follow."""
    labels = [f"a{i}" for i in range(60)]
    csv = "area,n\n" + "".join(f"{label},{5 * (i % 7)}\n" for i, label in enumerate(labels))
    table = {"dimensions": [{"name": "area", "labels": labels}]}
    measured = [{"column": "n", "query": {"kind": "cells"}, "law": {"law": "discrete-gaussian", "sigma": 20}}]
    with pytest.warns(PostProcessedWarning):
        files(csv, table=table, measured=measured, exact=[])


def test_the_size_of_a_table_is_checked_before_it_is_made(files):
    labels = list(range(300))
    table = {"dimensions": [{"name": f"d{i}", "labels": labels} for i in range(6)]}
    with pytest.raises(ValueError, match=r"\$\.table: the table has 729000000000000 cells, more than the limit"):
        files(table=table)


def test_the_schema_is_a_schema_and_two_libraries_agree_on_it():
    schema = noise_json_schema()
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    fast = fastjsonschema.compile(schema, use_default=False)
    refuses = pytest.raises(fastjsonschema.JsonSchemaValueException)
    assert validator.is_valid(SIDECAR)
    for changed in (_with(path, value) for path, value, _ in WRONG):
        with nullcontext() if validator.is_valid(changed) else refuses:
            fast(changed)


def test_a_group_of_the_first_dimension_beside_the_second(tmp_path):
    """The answer is by state and year, whatever the order of the columns: the numbers are typed."""
    table = {"county": ["a", "b", "c"], "state": ("county", ["IL", "IL", "IN"]), "year": [1990, 2000]}
    by_state = Margins(table, ["state", "year"])
    release = Release.from_published(table, [Measured(by_state, [[1, 2], [3, 4]], bdp.noise.DiscreteLaplace(2.0))])
    release.to_csv(tmp_path / "DATA.csv")
    lines = (tmp_path / "DATA.csv").read_text().splitlines()
    assert lines == ["county,year,state,measured_0", ",1990,IL,1", ",2000,IL,2", ",1990,IN,3", ",2000,IN,4"]
    assert Release.from_csv(tmp_path / "DATA.csv") == release
