"""Reading noisy measurement files: everything that is published arrives, at its place and with its law."""

import json
import shutil
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import bayesdp as bdp
from bayesdp.datasets import read_nmf, synthetic_spine, write_synthetic_nmf
from bayesdp.datasets.nmf import layout, products, sigma_squared
from bayesdp.datasets.nmf.histograms import DHC_PERSON, PL94_PERSON, PL94_UNIT
from bayesdp.datasets.nmf.products import PRODUCTS
from bayesdp.datasets.nmf.writer import histogram_sums
from bayesdp.hierarchies.released import target_of
from bayesdp.hierarchies.structure import structure_of
from tests.datasets import nmf_files
from tests.datasets.nmf_files import VERMONT, file_of, minimal, reasons, rewrite, row, split_state, truth_of, write_rows

ALLOCATION = nmf_files.SHARED / "das2020_pl94_us_person_noise_allocation.json"
LEVELS = ["State", "County", "Tract"]


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    truth = split_state()
    return write_synthetic_nmf(tmp_path_factory.mktemp("state"), truth, rng=1).parent, truth


def table_of(found, truth):
    """The true table of what was read."""
    leaves = found.release.frame.labels[0]
    return np.stack([np.sum([own for code, own in truth.items() if code.startswith(leaf)], axis=0) for leaf in leaves])


def test_histograms_have_the_shapes_of_the_files():
    assert (PL94_PERSON.shape, PL94_UNIT.shape, DHC_PERSON.shape) == ((8, 2, 2, 63), (2,), (42, 2, 116, 2, 63))
    race = PL94_PERSON.axis("cenrace").labels
    assert race[:7] == ("white", "black", "aian", "asian", "nhopi", "sor", "white-black")
    assert race[62] == "white-black-aian-asian-nhopi-sor"
    assert PL94_PERSON.axis("hhgq").binning("hhinstlevels").members == ((0,), (1, 2, 3, 4), (5, 6, 7))
    sizes = {"age_18_64_116": 3, "age_10_groups": 10, "age_38_groups": 38, "age_40_groups": 40}
    assert {name: len(DHC_PERSON.axis("age").binning(name).members) for name in sizes} == sizes
    sizes = {"relgq_4_groups": 4, "popSehsdTargetsRelship": 19, "relship_and_eight_level_GQ": 25, "gq_constr_groups": 6}
    for name, size in sizes.items():
        own = DHC_PERSON.axis("relgq").binning(name)
        assert (len(own.members), sorted(i for group in own.members for i in group)) == (size, list(range(42)))


ANSWERS = [
    ("pl94-person", "total", 1), ("pl94-person", "hhgq", 8), ("pl94-person", "hhinstlevels", 3),
    ("pl94-person", "votingage * hispanic * cenrace", 252), ("pl94-person", "detailed", 2016), ("pl94-unit", "detailed", 2),
    ("dhc-person", "hispanic * sex", 4), ("dhc-person", "age_38_groups * sex", 76),
    ("dhc-person", "gq_constr_groups * age_10_groups", 60), ("dhc-person", "popSehsdTargetsRelship", 19),
    ("dhc-person", "relgq * age_40_groups * hispanic * cenrace * sex", 423_360), ("dhc-person", "detailed", 1_227_744),
]  # fmt: skip


def test_queries_have_as_many_answers_as_in_the_files():
    for product, query, cells in ANSWERS:
        own = PRODUCTS[product]
        assert query in own.queries
        assert np.prod([len(cut.members) for cut in own.histogram.binned(own.histogram.named(query))]) == cells


# Variances of the notes on the format, to the digits that are printed there.
PRINTED = {
    "US": (None, 1215, 2430, 485.9, 485.9, 2430, 142.9, 19.66),
    "State": (1.209, 760.4, 760.4, 380.2, 380.2, 760.4, 134.2, 19.84),
    "County": (4.702, 1470, 1470, 524.9, 524.9, 1470, 145.5, 19.49),
    "Tract": (6.110, 1197, 1915, 4.953, 478.7, 1915, 142.9, 19.86),
    "Block_Group": (3.069, 1744, 1744, 4.960, 581.5, 1744, 218, 4.063),
    "Block": (7963, 4424, 7963, 1896, 1896, 7963, 560.8, 10.09),
}
COLUMNS = (
    "total", "cenrace", "hispanic", "hispanic * cenrace", "votingage * cenrace", "votingage * hispanic",
    "votingage * hispanic * cenrace", "detailed",
)  # fmt: skip


def test_the_noise_allocation_gives_the_printed_variances_and_uses_up_the_loss():
    for level, printed in PRINTED.items():
        found = [sigma_squared(level, query) for query in COLUMNS]
        assert [own and float(f"{float(own):.4g}") for own in found] == [*printed]
        assert len({sigma_squared(level, own) for own in ("votingage", "hhinstlevels", "hhgq", "hispanic")}) == 1
    losses = [sigma_squared(level, query) for level in products.LEVELS for query in products.QUERIES]
    assert sum(1 / own for own in losses if own is not None) == products.RHO


@pytest.mark.skipif(not ALLOCATION.is_file(), reason="no noise allocation; BAYESDP_SHARED_DATA names its folder")
def test_the_noise_allocation_is_that_of_the_published_settings():
    stated = json.loads(ALLOCATION.read_text())
    for level, own in stated["query_prop"].items():
        for query, share in own.items():
            whole = Fraction(stated["rho"]) * Fraction(stated["geolevel_prop"][level])
            assert sigma_squared(level, query) == (share and 1 / (whole * Fraction(share)))


def test_the_minimal_file_and_limits_that_another_geounit_does_not_state(tmp_path):
    found = read_nmf(minimal(tmp_path / "one"), "50001")
    release = found.release
    assert release.frame.shape == (1, 8, 2, 2, 63)
    total, hhgq, detailed = release.measurements
    assert (total.values.item(), float(total.law.sigma), float(detailed.law.sigma)) == (4270, 10.0, 2.0)
    assert hhgq.values.reshape(-1).tolist() == nmf_files.KINDS
    assert detailed.values.reshape(-1).tolist() == nmf_files.DETAILED
    signs = {part.sign: part for part in release.exact}
    assert signs[">="].values.reshape(-1).tolist() == [0, 5, 0, 20, 0, 0, 0, 0]
    assert signs["<="].values.reshape(-1).tolist() == [6000] * 8
    fixed = release.fiber.system.fixed.reshape(release.frame.shape)
    assert fixed[0, 3, 0].all()
    assert (fixed.sum(), found.codes.ordinary(VERMONT)) == (126, "50001")
    other = "050100022"  # a second county, with no limits
    given = "hhgq_dpq", ("hhgq", "*", "*", "*"), [8, 1, 1, 1], nmf_files.KINDS, 100.0
    write_rows(file_of(tmp_path, "County"), [row(own, *given) for own in (VERMONT, other)])
    write_rows(file_of(tmp_path, "County", "Constraint"), nmf_files.limits())
    release = read_nmf(tmp_path, "50", levels=["County"]).release
    counties = {part.sign: part.values.reshape(2, 8) for part in reversed(release.exact)}
    assert (counties[">="][1].tolist(), counties["<="][0].tolist()) == ([0] * 8, [6000] * 8)
    assert counties["<="][1].min() > 10**10  # more than there are people


def test_answers_without_noise_are_the_truth(tmp_path):
    # With next to no noise every answer of every query equals the truth exactly, recodes and both branches among them.
    truth = split_state(3)
    root = write_synthetic_nmf(tmp_path, truth, variance=0.02, rng=2).parent
    found = read_nmf(root, "US")
    table = table_of(found, truth)
    for part in found.release.measurements:
        assert np.array_equal(part.values, part.query.apply(table)), part.name
    assert found.release.fiber.contains(table)
    assert len(found.release.measurements) == 6 * 11 - 1
    assert not found.unused


def test_a_state_is_a_hierarchy_with_the_noise_of_the_allocation_and_the_total_of_two_geounits(state):
    root, truth = state
    whole = read_nmf(root, "30", levels=LEVELS, totals={"30": int(sum(own.sum() for own in truth.values()))})
    assert len(whole.release.measurements) == 33
    for part in whole.release.measurements:
        level, query = part.name.split("_", 1)
        stated = sigma_squared(level.capitalize(), query.replace("_by_", " * "))
        assert float(part.law.sigma) == pytest.approx(float(stated) ** 0.5, rel=1e-6)
    [total] = [part for part in whole.release.exact if part.sign == "=" and part.query.rows == 1]
    assert whole.release.fiber.contains(table_of(whole, truth))
    assert {part.sign for part in whole.release.exact} == {"=", ">=", "<="}
    assert total.values.item() == sum(own.sum() for own in truth.values())
    assert set(whole.release.frame.group("state")[1]) == {"030", "130"}
    assert set(whole.release.frame.group("state_fips")[1]) == {"30"}
    release = whole.release
    structure = structure_of(target_of(release, "poisson"))
    assert structure.levels == ("tract", "county", "state", "all")
    assert structure.frame.dims[structure.axis] == "tract"
    assert structure.free.sum() == (release.fiber.system.upper > 0).sum()


def test_a_part_of_the_queries_and_cells_and_those_that_the_user_states(state):
    root, truth = state
    found = read_nmf(root, "30001", queries=["cenrace * hispanic", "total_dpq"], levels=["County", "Tract"])
    assert found.release.frame.dims == ("tract", "hispanic", "cenrace")
    names = [part.name for part in found.release.measurements]
    assert names == ["county_total", "county_hispanic_by_cenrace", "tract_total", "tract_hispanic_by_cenrace"]
    table = table_of(found, truth).sum(axis=(1, 2))
    assert found.release.fiber.contains(table)
    said = reasons(found)
    assert "queries that were not asked for: cenrace_dpq, detailed_dpq" in said["Tract"]
    assert "coarsely" in said["Tract, nurse_nva_0_con"]
    assert "other parts" in said["State"]
    found = read_nmf(root, "30", levels=["State"], cells={"cenrace": "*", "hhgq": "hhinstlevels"})
    assert found.release.frame.shape == (2, 3, 2, 2)
    bins = [PL94_PERSON.axis("hhgq").binning("hhinstlevels")]
    table = np.stack([histogram_sums(own.sum(axis=3), bins) for own in table_of(found, truth)])
    assert found.release.fiber.contains(table)
    for part in found.release.measurements:
        assert (np.abs(part.values - part.query.apply(table)) / part.law.sigma).max() < 9
    assert any("it is by 'cenrace', and the table sums over 'cenrace'" in own.reason for own in found.unused)


@pytest.mark.parametrize("spelled", ["State=44", "State=044"])
def test_only_partitions_of_the_state_are_opened(tmp_path, spelled):
    truth = truth_of([*synthetic_spine("44", counties=1, blocks=2), *synthetic_spine("50", counties=1, blocks=2)])
    root = write_synthetic_nmf(tmp_path, truth, queries=["total"], constraints=False, rng=3).parent
    for file in root.rglob("State=50/*.parquet"):
        file.write_bytes(b"not to be opened")
    for folder in sorted(root.rglob("State=44")):
        folder.rename(folder.with_name(spelled))
    assert read_nmf(root, "44001", ["total"], levels=["County", "Block"]).release.frame.dims == ("block",)
    with pytest.raises(ValueError, match=r"State=50/part-0\.parquet: no readable parquet file, it may be cut short"):
        read_nmf(root, "50", levels=["County"])


def set_column(table, name, values):
    return table.set_column(table.column_names.index(name), name, values)


def narrow(table, kind, lowest, highest):
    """Whole numbers of another width, where they fit into it."""
    ends = pc.min_max(pc.list_flatten(table["value"])).as_py()
    fits = ends["min"] >= lowest and ends["max"] <= highest
    return set_column(table, "value", pc.cast(table["value"], pa.list_(kind))) if fits else table


def of_other_types(table):
    """In another order, with a column more, double precision, encoded keys, and 64 bits."""
    table = table.take(pa.array(np.random.default_rng(0).permutation(table.num_rows)))
    table = table.append_column("plb", pa.array([1.0] * len(table))).select(["plb", *table.column_names[::-1]])
    table = set_column(table, "variance", pc.cast(table["variance"], pa.float64()))
    return narrow(set_column(table, "geocode", table["geocode"].dictionary_encode()), pa.int64(), -(2**63), 2**63)


def with_less(table):
    """Without shapes, axes and signs, and with 16 bits."""
    left = [name for name in table.column_names if name not in ("query_shape", "hhgq", "cenrace", "sign")]
    return narrow(table.select(left), pa.int16(), -(2**15), 2**15 - 1)


def with_two_signs(table):
    """Equalities written in two ways, and numbers without a sign."""
    if "sign" in table.column_names:
        table = set_column(table, "sign", pc.replace_substring_regex(table["sign"], "^=$", "=="))
    return narrow(table, pa.uint32(), 0, 2**31)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    truth = truth_of(synthetic_spine("50", counties=1, tracts=2, blocks=1))
    folder = write_synthetic_nmf(tmp_path_factory.mktemp("plain"), truth, rng=3)
    return folder, read_nmf(folder, "50001", levels=LEVELS[1:]).release


@pytest.mark.parametrize("drift", [of_other_types, with_less, with_two_signs])
def test_schemas_that_drift_change_nothing(tmp_path, plain, drift):
    folder, before = plain
    for level in LEVELS[1:]:
        for file in shutil.copytree(folder / f"{level}.parquet", tmp_path / f"{level}.parquet").rglob("*.parquet"):
            rewrite(file, drift)
    after = read_nmf(tmp_path, "50001", levels=LEVELS[1:]).release
    assert sorted(map(repr, after.exact)) == sorted(map(repr, before.exact))
    first, second = ({part.name: part for part in own.measurements} for own in (before, after))
    assert first.keys() == second.keys()
    for name, part in first.items():
        assert np.array_equal(part.values, second[name].values)
        assert part.law.sigma == pytest.approx(second[name].law.sigma)


def test_variances_that_differ_between_geounits_and_queries_that_some_lack(tmp_path):
    truth = truth_of(synthetic_spine("50", counties=1, tracts=3, blocks=1))
    root = write_synthetic_nmf(tmp_path, truth, queries=["total", "hispanic"], rng=3).parent
    codes = sorted({code[:-18] for code in truth})

    def change(table):
        spread = [9.0 if line["geocode"] == codes[1] else line["variance"] for line in table.to_pylist()]
        table = set_column(table, "variance", pa.array(spread, pa.float32()))
        lacks = pc.and_(pc.equal(table["geocode"], codes[2]), pc.equal(table["query_name"], "total_dpq"))
        return table.filter(pc.invert(lacks))

    rewrite(file_of(root), change)
    found = read_nmf(root, "50", ["total", "hispanic"], levels=["Tract"])
    total, hispanic = found.release.measurements
    assert (total.unmeasured.tolist(), np.asarray(total.law.sigma)[1]) == ([False, False, True], 3.0)
    assert np.asarray(hispanic.law.sigma)[1].tolist() == [3.0, 3.0]
    assert np.asarray(hispanic.law.sigma)[0, 0] == pytest.approx(float(sigma_squared("Tract", "hispanic")) ** 0.5)
    assert any("1 of 3 geounits have no such measurement" in own.reason for own in found.unused)
    assert np.isfinite(bdp.gls(found.release).mean(bdp.Totals(found.release.frame, "tract"))).all()


def test_memory_goes_with_what_is_read_and_not_with_the_file(tmp_path, monkeypatch):
    """1,000 rows of 2,016 numbers, 16 MB as they are read, of which a county has 10 here and there."""
    # In this process, where Arrow's memory is counted.
    monkeypatch.setattr(layout, "_guarded", lambda read, files: read())
    blocks = np.random.default_rng(0).permutation(synthetic_spine("50", counties=100, blocks=10)).tolist()
    values = np.random.default_rng(1).integers(0, 2**40, (1000, 2016))
    given = "detailed_dpq", ("detailed",) * 4, [8, 2, 2, 63]
    rows = [row(block, *given, own, 10.0) for block, own in zip(blocks, values, strict=True)]
    write_rows(file_of(tmp_path, "Block"), rows, pa.int64())
    usual = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(pool)
    try:
        release = read_nmf(tmp_path, "50042").release
    finally:
        pa.set_memory_pool(usual)
    order = [blocks.index(block) for block in release.frame.labels[0]]
    assert np.array_equal(release.measurements[0].values.reshape(10, -1), values[order])
    assert pool.max_memory() < 8e6
