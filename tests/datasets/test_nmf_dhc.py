"""The demographic and housing characteristics file: 1,227,744 cells a geounit, of which as few are made as the queries need."""

import numpy as np
import pytest

from bayesdp.datasets import code_query, read_nmf, write_synthetic_nmf
from bayesdp.datasets.nmf.histograms import DHC_PERSON
from bayesdp.datasets.nmf.writer import histogram_sums
from tests.datasets.nmf_files import rewrite, row, write_rows

COUNTIES = ("05010001", "05010003")
AXES = DHC_PERSON.names
QUERIES = (
    "hispanic * sex", "age_38_groups * sex", "sex * relgq_4_groups", "gq_constr_groups * age_10_groups", "popSehsdTargetsRelship",
)  # fmt: skip


@pytest.fixture(scope="module")
def truth():
    rng = np.random.default_rng(4)
    found = {code: np.zeros(DHC_PERSON.shape, dtype=np.int64) for code in COUNTIES}
    for table in found.values():
        np.add.at(table, tuple(rng.integers(0, n, 3000) for n in DHC_PERSON.shape), 1)
    return found


@pytest.fixture(scope="module")
def root(tmp_path_factory, truth):
    folder = tmp_path_factory.mktemp("dhc")
    given = {"level": "County", "variance": 0.02, "queries": QUERIES, "rng": 1}
    return write_synthetic_nmf(folder, truth, "dhc-person", **given).parent


def cells(truth, **cut):
    bins = [axis.binning(cut.get(axis.name, "*")) for axis in DHC_PERSON.axes]
    shape = [len(own.members) for own in bins if len(own.members) > 1]
    return np.stack([histogram_sums(truth[code], bins).reshape(shape) for code in COUNTIES])


def test_cells_are_as_coarse_as_the_queries_allow(root, truth):
    found = read_nmf(root, "50", ["hispanic * sex", "age_38_groups * sex"], "dhc-person")
    frame = found.release.frame
    assert (frame.dims, frame.shape) == (("county", "sex", "age", "hispanic"), (2, 2, 38, 2))
    table = cells(truth, sex="sex", age="age_38_groups", hispanic="hispanic")
    assert len(found.release.measurements) == 2 * 2  # at counties and the state
    for part in found.release.measurements:
        assert np.array_equal(part.values, part.query.apply(table)), part.name
    # The exact redistricting table by age and origin, as far as the cells have them.
    exact = [part.query.dims for part in found.release.exact if part.query.rows > 1 and part.sign == "="]
    assert next(dims for dims in exact if "county" in dims) == ("county", "votingage", "hispanic")
    assert found.release.fiber.contains(table)
    assert any("used as sums by" in own.reason and "votingage" in own.reason for own in found.unused)
    by_sex = [sum(own[:, sex, 65:67].sum() for own in truth.values()) for sex in (0, 1)]
    assert code_query(frame, "P12_020N", "P12_044N").apply(table).tolist() == by_sex
    found = read_nmf(root, "50001", ["sex * relgq_4_groups", "gq_constr_groups * age_10_groups"], "dhc-person")
    assert found.release.frame.shape == (1, 42, 2, 10)
    table = cells(truth, relgq="detailed", sex="sex", age="age_10_groups")[:1]
    for part in found.release.measurements:
        assert np.array_equal(part.values, part.query.apply(table)), part.name
    assert found.release.measurements[1].query.dims == ("county", "gq_constr_groups", "age")


def test_the_full_histogram_is_refused_with_the_way_out(root):
    with pytest.raises(NotImplementedError, match=r"2 geounits of .* County in 50 by 1,227,744 cells .* coarser cells"):
        read_nmf(root, "50", product="dhc-person", max_cells=2_000_000)
    coarser = {"age": "*", "cenrace": "*", "relgq": "popSehsdTargetsRelship"}
    found = read_nmf(root, "50", product="dhc-person", cells=coarser)
    assert found.release.frame.shape == (2, 19, 2, 2)
    names = {part.name.split("_", 1)[1] for part in found.release.measurements}
    assert names == {"hispanic_by_sex", "popSehsdTargetsRelship"}
    for words in ("it is by 'relgq_4_groups', and the table cuts by", "'age_38_groups', and the table sums over 'age'"):
        assert any(words in own.reason for own in found.unused)


def test_partitions_by_county_zeros_of_ages_and_limits_of_group_quarters(truth, tmp_path):
    # Ages of a spouse (value 2) below 15 are 0; facilities of each kind limit the persons in group quarters.
    folder = tmp_path / "US_DHCP_PROD/County.parquet"
    for code, spelled in (("05010001", "County=1001"), ("05010003", "County=003")):
        names = ("*", "sex", "age_38_groups", "*", "*")
        values = histogram_sums(truth[code], DHC_PERSON.binned(names))
        noisy = row(code, "age_38_groups * sex_dpq", names, list(values.shape), values.reshape(-1), 4.0, axes=AXES)
        write_rows(folder / "DPQuery/State=50" / spelled / "part-0.parquet", [noisy])
        young, levels = ("relgq2", "*", "age_lessthan15", "*", "*"), ("gqlevels", "*", "*", "*", "*")
        rows = [
            row(code, "relgq2_lessthan15_con", young, [1] * 5, [0], sign="=", axes=AXES),
            row(code, "hhgq_total_ub_con", levels, [25, 1, 1, 1, 1], [9] + [0] * 24, sign="<=", axes=AXES),
        ]
        write_rows(folder / "Constraint/State=50" / spelled / "part-0.parquet", rows)
    (folder / "DPQuery/State=50/County=003/part-0.parquet").write_bytes(b"not to be opened")
    coarser = {"cenrace": "*", "hispanic": "*", "age": "age_38_groups"}
    found = read_nmf(tmp_path, "50001", product="dhc-person", cells=coarser)
    fixed = found.release.fiber.system.fixed.reshape(found.release.frame.shape)[0]
    expected = np.zeros((42, 2, 38), dtype=bool)
    expected[2, :, :15] = True
    expected[18:] = True
    assert np.array_equal(fixed, expected)
    with pytest.raises(ValueError, match=r"County=003/part-0\.parquet"):
        read_nmf(tmp_path, "50003", product="dhc-person")
    # A selection that is known by the name of the constraint only.
    names, file = ["spouse", "gqlevels"], folder / "Constraint/State=50/County=1001/part-0.parquet"
    rewrite(file, lambda table: table.set_column(table.column_names.index("relgq"), "relgq", [names]))
    assert read_nmf(tmp_path, "50001", product="dhc-person", cells=coarser).release == found.release
