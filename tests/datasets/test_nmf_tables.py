"""Published tables: every cell counts exactly once at each depth, and codes mean what the published tables print."""

import numpy as np
import pytest

from bayesdp.datasets import code_query, published_codes
from bayesdp.datasets.nmf.products import TABLES
from bayesdp.frames import Frame
from tests.refusals import refused


def frame_of(name, **cut):
    """Two leaves by the whole histogram of a table, or by coarser cells."""
    axes = TABLES[name].product.histogram.axes
    cuts = {axis.name: axis.binning(cut.get(axis.name, "detailed")) for axis in axes}
    return Frame.of({"tract": ["a", "b"]} | {axis: own.labels for axis, own in cuts.items() if len(own.members) > 1})


P12 = dict.fromkeys(("relgq", "hispanic", "cenrace"), "*")


@pytest.mark.parametrize("name", TABLES)
def test_lines_are_the_sums_of_those_below_them_and_the_first_is_the_universe(name):
    frame = frame_of(name, **(P12 if name == "P12" else {}))
    matrix = code_query(frame, name).matrix.toarray()
    depths = [line.depth for line in TABLES[name].lines]
    ends = []  # lines without any below them
    for i, depth in enumerate(depths):
        last = next((j for j in range(i + 1, len(depths)) if depths[j] <= depth), len(depths))
        below = [j for j in range(i + 1, last) if depths[j] == depth + 1]
        ends += [] if below else [i]
        assert matrix[i].any()
        assert not below or np.array_equal(matrix[below].sum(axis=0), matrix[i]), TABLES[name].lines[i].code
    assert matrix.max() == 1
    assert np.array_equal(matrix[ends].sum(axis=0), matrix[0])  # each cell of the universe exactly once
    expected = np.ones(frame.shape, dtype=int)
    if name in ("P3", "P4", "P5"):
        expected[(slice(None), 0) if name == "P5" else (slice(None), slice(None), 0)] = 0
    assert np.array_equal(matrix[0].reshape(frame.shape), expected)


PRINTED = {
    "P1_002N": "Population of one race", "P1_003N": "White alone", "P1_008N": "Some Other Race alone",
    "P1_009N": "Population of two or more races", "P1_010N": "Population of two races",
    "P1_025N": "Native Hawaiian and Other Pacific Islander; Some Other Race", "P1_026N": "Population of three races",
    "P1_047N": "Population of four races", "P1_063N": "Population of five races", "P1_070N": "Population of six races",
    "P2_002N": "Hispanic or Latino", "P2_003N": "Not Hispanic or Latino", "P2_005N": "White alone",
    "P2_006N": "Black or African American alone", "P2_011N": "Population of two or more races",
    "P3_004N": "Black or African American alone", "P4_072N": "Population of six races",
    "P5_005N": "Nursing facilities/skilled-nursing facilities", "P5_008N": "College/university student housing",
    "H1_002N": "Occupied", "H1_003N": "Vacant", "P12_002N": "Male", "P12_003N": "Male, under 5 years",
    "P12_006N": "Male, 15 to 17 years", "P12_007N": "Male, 18 and 19 years", "P12_008N": "Male, 20 years",
    "P12_010N": "Male, 22 to 24 years", "P12_018N": "Male, 60 and 61 years", "P12_019N": "Male, 62 to 64 years",
    "P12_020N": "Male, 65 and 66 years", "P12_025N": "Male, 85 years and over", "P12_026N": "Female",
    "P12_044N": "Female, 65 and 66 years", "P12_049N": "Female, 85 years and over",
}  # fmt: skip


def test_codes_have_the_printed_labels_and_tables_their_lines():
    assert {code: published_codes(code).loc[code, "label"] for code in PRINTED} == PRINTED
    sizes = {"P1": 71, "P2": 73, "P3": 71, "P4": 73, "P5": 10, "H1": 3, "P12": 49}
    assert {name: len(own.lines) for name, own in TABLES.items()} == sizes


def test_codes_of_tables_agree_with_one_another_and_ages_of_p12():
    frame = frame_of("P1")
    table = np.random.default_rng(1).poisson(2.0, frame.shape)

    def answer(code):
        return code_query(frame, code).apply(table).item()

    assert answer("P1_001N") == answer("P2_001N") == table.sum()
    assert (answer("P1_003N"), answer("P2_005N")) == (table[..., 0].sum(), table[..., 0, 0].sum())
    assert (answer("P4_005N"), answer("P5_001N")) == (table[:, :, 1, 0, 0].sum(), table[:, 1:].sum())
    assert answer("P3_001N") == answer("P4_001N") == table[:, :, 1].sum()
    by = code_query(frame, "P1_003N", "P5_001N", by="tract")
    with pytest.raises(ValueError, match="by must be a level of geography, 'tract' or a group of it"):
        code_query({"tract": ["a"], "h1": ["vacant", "occupied"], "g": ("h1", ["x", "x"])}, "H1", by="g")
    assert by.names == ["tract=a, P1_003N", "tract=a, P5_001N", "tract=b, P1_003N", "tract=b, P5_001N"]
    assert by.apply(table).tolist() == [part for own in table for part in (own[..., 0].sum(), own[1:].sum())]
    frame = frame_of("P12", **P12)
    table = np.random.default_rng(1).poisson(2.0, frame.shape)
    male = table[:, 0]
    assert code_query(frame, "P12_020N").apply(table).item() == male[:, 65:67].sum()
    assert code_query(frame, "P12_025N").apply(table).item() == male[:, 85:].sum()
    assert code_query(frame, "P12_049N").apply(table).item() == table[:, 1, 85:].sum()
    # 20 to 24 are one group in the noisy query of 38 groups: 43 of the 49 lines are sums of its cells.
    coarse = frame_of("P12", **P12, age="age_38_groups")
    fine = {f"P12_0{i}N" for i in ("08", "09", "10", "32", "33", "34")}
    for code in sorted(fine):
        with pytest.raises(ValueError, match=f"{code} .* is no sum of the cells: .* 'age' of the table is cut by"):
            code_query(coarse, code)
    assert code_query(coarse, *(line.code for line in TABLES["P12"].lines if line.code not in fine)).rows == 43


P1 = frame_of("P1")
test_codes_and_tables_that_are_not_right_are_refused = refused(
    ((P1, "P9"), "'P9' is no published table or code that is known here; known are P1_001N to P1_071N", ValueError),
    ((P1, "P1_072N"), "'P1_072N' is no published table", ValueError),
    ((P1, "P1_3N"), "no published table", ValueError),
    ((P1, "P1", "H1"), "are sums of different histograms", ValueError),
    ((P1, "P1", "P1_003N"), "the same code is asked for twice: 'P1_003N'", ValueError),
    ((P1,), "name at least one published table", ValueError),
    (({"tract": ["a"], "h1": ["empty", "full"]}, "H1"), "labels of 'h1' are those of no binning", ValueError),
    ((frame_of("P5", hhgq="*"), "P5_003N"), "P5_003N .* no sum of the cells: .* 'hhgq' .* is not there", ValueError),
    of=lambda given: code_query(*given),
)
