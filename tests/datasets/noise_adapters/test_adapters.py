"""noise.json from the metadata of other libraries: numbers typed from their documentation, and OpenDP itself where it is installed."""

import json
from enum import Enum

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.datasets import noise_json_of_opendp, noise_json_of_pipelinedp, noise_json_of_tumult
from bayesdp.queries import Identity, LinearQuery, Margins, Totals
from bayesdp.release import Release
from tests.comparison.chi_square import chi_square_pvalue
from tests.refusals import refused

TABLE = {"county": ["Alpha", "Beta"], "year": ["1990", "2000"]}
CELLS = Identity(TABLE)


def laws(made):
    return [own["law"] for own in made["measured"]]


def record(mechanism="GEOMETRIC", value=2, **more):
    """Of Tumult Analytics."""
    return {"noise_mechanism": mechanism, "noise_parameter": value, **more}


# As tmlt.analytics._noise_info has it.
_NoiseMechanism = Enum("_NoiseMechanism", ["LAPLACE", "GEOMETRIC", "DISCRETE_GAUSSIAN", "EXPONENTIAL", "GAUSSIAN"])


@pytest.mark.parametrize("written", [lambda own: own, lambda own: own.name, str])
def test_tumult_states_alpha_b_and_squares_of_sigma(written):
    stated = {"GEOMETRIC": 9.5, "DISCRETE_GAUSSIAN": 44.89, "LAPLACE": 2, "GAUSSIAN": 0.25}
    records = [record(written(_NoiseMechanism[kind]), own) for kind, own in stated.items()]
    columns = {"a": CELLS, "b": Margins(TABLE, ["county"]), "c": Totals(TABLE), "d": Margins(TABLE, ["year"])}
    made = noise_json_of_tumult(records, columns)
    assert laws(made) == [
        {"law": "discrete-laplace", "b": 9.5},
        {"law": "discrete-gaussian", "sigma": pytest.approx(6.7)},
        {"law": "laplace", "b": 2.0},
        {"law": "gaussian", "sigma": 0.5},
    ]
    assert [own["column"] for own in made["measured"]] == list("abcd")
    assert made["measured"][1]["query"] == {"kind": "margin", "by": ["county"]}
    assert made["notes"][0].startswith("Noise as stated by Tumult Analytics")


TWO = [record()] * 2
test_tumult_what_is_not_mapped = refused(
    (([record("EXPONENTIAL")], {"a": CELLS}), r"noise_info\[0\]: EXPONENTIAL is the mechanism of a quantile", NotImplementedError),
    (([record("STAIRCASE")], {"a": CELLS}), "'STAIRCASE' is not mapped; mapped are GEOMETRIC", NotImplementedError),
    (([record(value=0)], {"a": CELLS}), r"\[0\]\['noise_parameter'\] is 0: no noise was added, so the column is exact", ValueError),
    (([record(value=float("inf"))], {"a": CELLS}), "must be a finite number greater than 0, got inf", ValueError),
    (([record(value="2")], {"a": CELLS}), "must be a positive real number", TypeError),
    (([record(scale=1)], {"a": CELLS}), r"\[0\] must have the keys 'noise_mechanism', 'noise_parameter'", ValueError),
    (([record()], {"a": CELLS, "b": CELLS}), "noise_info has 1 records, and columns has 2", ValueError),
    ((TWO, {"a": "cells", "b": CELLS}), r"columns\['a'\] must be a query such as Identity\(table\), got str", TypeError),
    ((TWO, [CELLS]), "columns must map the name", TypeError),
    (([], {}), "columns must name at least one", ValueError),
    ((TWO, {"a": CELLS, "b": Totals({"d": [1]})}), r"columns\['b'\] is about another table than 'a'", ValueError),
    of=lambda given: noise_json_of_tumult(*given),
)  # fmt: skip


def test_a_published_file_with_it_becomes_a_release(tmp_path):
    """The release is written down by hand."""
    path = tmp_path / "counts.csv"
    path.write_text(
        "county,year,answer,count,gap\nAlpha,1990,,3,\nAlpha,2000,,-1,\nBeta,1990,,8,\nBeta,2000,,0,\n,,change,,-7\n"
    )
    change = LinearQuery(TABLE, [[-1, 1, -1, 1]], ["change"])
    records = [record("GEOMETRIC", 4), record("DISCRETE_GAUSSIAN", 4)]
    made = noise_json_of_tumult(records, {"count": CELLS, "gap": change})
    cells = bdp.Measured(CELLS, [[3, -1], [8, 0]], bdp.noise.DiscreteLaplace(4.0))
    expected = Release.from_published(TABLE, [cells, bdp.Measured(change, [-7], bdp.noise.DiscreteGaussian(2.0))])
    assert Release.from_csv(path, noise=made) == expected
    (tmp_path / "counts.noise.json").write_text(json.dumps(made))
    assert Release.from_csv(path) == expected


def measurement(function="make_laplace", kind="i32", vector=True, **arguments):
    """What opendp.mod.serialize writes, of version 0.16."""
    own = {"bounds": None, "nan": None, "T": kind}
    domain = {"__function__": "atom_domain", "__module__": "domains", "__kwargs__": own}
    if vector:
        of = {"atom_domain": domain, "size": None}
        domain = {"__function__": "vector_domain", "__module__": "domains", "__kwargs__": of}
    arguments = {"input_domain": domain, "scale": 4.0, "k": None, **arguments}
    return {"__function__": function, "__module__": "measurements", "__kwargs__": arguments, "__version__": "0.16.0"}


def test_opendp_scales():
    for stated, law in (
        (measurement(), {"law": "discrete-laplace", "b": 4.0}),
        (measurement(kind="i64", vector=False), {"law": "discrete-laplace", "b": 4.0}),
        (measurement(kind="f64"), {"law": "laplace", "b": 4.0}),
        (measurement("make_gaussian"), {"law": "discrete-gaussian", "sigma": 4.0}),
        (measurement("make_gaussian", "f64"), {"law": "gaussian", "sigma": 4.0}),
        (measurement("make_geometric", bounds=None), {"law": "discrete-laplace", "b": 4.0}),
    ):
        for own in (stated, json.dumps(stated)):
            assert laws(noise_json_of_opendp({"n": own}, {"n": CELLS})) == [law]
    with pytest.raises(ValueError, match="measurements must have one measurement for each of the columns 'n', got 'm'"):
        noise_json_of_opendp({"m": measurement()}, {"n": CELLS})


test_opendp_what_is_not_mapped = refused(
    (measurement("make_geometric", bounds={"__tuple__": [0, 10]}), "with bounds noisy counts stop at them", NotImplementedError),
    (measurement(k=-3), r"with k the noise is a multiple of 2\*\*k", NotImplementedError),
    (measurement(kind="u32"), "numbers of type 'u32' are not mapped; mapped are 'i32', 'i64', 'f64'", NotImplementedError),
    (measurement(kind="i8"), "numbers of type 'i8' are not mapped", NotImplementedError),
    (measurement(kind="f32"), "numbers of type 'f32' are not mapped", NotImplementedError),
    (measurement("make_laplace_threshold"), "'make_laplace_threshold' is not mapped", NotImplementedError),
    (measurement(input_domain=None), r"measurements\['n'\]\.input_domain is missing", NotImplementedError),
    ({"__function__": "make_chain_pm", "__kwargs__": {}}, "'make_chain_pm' is not mapped", NotImplementedError),
    ({"column": "len", "distribution": "Integer Laplace", "scale": 2.0}, "is a row of summarize", NotImplementedError),
    ({"scale": 2.0}, r"measurements\['n'\] is nothing that opendp\.mod\.serialize writes", ValueError),
    ("make_laplace", r"measurements\['n'\] is not valid JSON", ValueError),
    (measurement(scale=0.0), r"measurements\['n'\]\.scale is 0: no noise was added", ValueError),
    (measurement(scale=None), r"measurements\['n'\]\.scale must be a positive real number", TypeError),
    (measurement("make_geometric", "f64"), "make_geometric is about integers", ValueError),
    of=lambda stated: noise_json_of_opendp({"n": stated}, {"n": CELLS}),
)  # fmt: skip


def test_opendp_itself_draws_that_noise():
    """20,000 draws against the law that is stated for them; chi-squared at a false-alarm rate of 1e-7 each, of two."""
    dp = pytest.importorskip("opendp.prelude")
    from opendp.mod import serialize

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i32")), dp.l1_distance(T="i32")
    euclidean = dp.vector_domain(dp.atom_domain(T="i32")), dp.l2_distance(T="f64")
    for made in (dp.m.make_laplace(*space, scale=1.7), dp.m.make_gaussian(*euclidean, scale=1.7)):
        stated = noise_json_of_opendp({"n": serialize(made)}, {"n": CELLS})
        law = bdp.noise.NoiseLaw.from_description(laws(stated)[0])
        noise = np.array(made([0] * 20_000))
        ends = np.arange(-5, 6)
        mass = np.exp([law.logp(np.array([own]), np.zeros(1)) for own in ends])
        counts = np.array([np.count_nonzero(noise == own) for own in ends])
        found, expected = (np.append(own, 20_000 - own.sum()) for own in (counts, 20_000 * mass))
        assert chi_square_pvalue(found, expected) > 1e-7
    counted = (dp.vector_domain(dp.atom_domain(T="i32")), dp.symmetric_distance()) >> dp.t.then_count()
    made = noise_json_of_opendp({"n": serialize(counted >> dp.m.then_laplace(scale=2.0))}, {"n": Totals(TABLE)})
    assert laws(made) == [{"law": "discrete-laplace", "b": 2.0}]


REPORT = """\
DPEngine method: aggregate
AggregateParams:
 metrics=['COUNT', 'PRIVACY_ID_COUNT']
 noise_kind=laplace
 Partition selection: public partitions
Computation graph:
 1. Public partition selection: dropped non public partitions
 2. Cross-partition contribution bounding: for each privacy_id randomly select max(actual_partition_contributed, 5) partitions
 3. Adding empty partitions for public partitions that are missing in data
 4. Computed DP count with
     Laplace mechanism:  parameter=12.5  eps=2.0  l1_sensitivity=25.0
 5. Computed DP privacy_id_count with
     Gaussian mechanism:  parameter=5.25  eps=1.0  delta=1e-05  l2_sensitivity=1.4142135623730951
"""


def test_pipelinedp_states_b_and_the_standard_deviation():
    made = noise_json_of_pipelinedp(REPORT, {"privacy_id_count": CELLS, "count": CELLS})
    assert laws(made) == [{"law": "gaussian", "sigma": 5.25}, {"law": "laplace", "b": 12.5}]
    assert made["notes"][0].startswith("Noise as stated by PipelineDP")
    with pytest.raises(TypeError, match="report must be the text of a report, got list"):
        noise_json_of_pipelinedp([REPORT], {"count": CELLS})


PRIVATE = ("Public partition selection: dropped", "Private Partition selection: using Truncated Geometric;")
test_pipelinedp_what_is_not_mapped = refused(
    ((PRIVATE, "count"), "partitions were selected privately: which rows are there depends on the counts", NotImplementedError),
    ((("ublic partition", "artition"), "count"), "does not say that the partitions are public", NotImplementedError),
    ((("", ""), "mean"), "the metrics 'mean' are not mapped; mapped are 'count', 'privacy_id_count'", NotImplementedError),
    ((("DP count", "DP sum"), "count"), "must have one stage 'Computed DP count', got 0", ValueError),
    ((("Laplace mechanism:", "(eps=0.5 delta=0)"), "count"), r"one 'Laplace mechanism:  parameter=\.\.\.', got 0", ValueError),
    ((("12.5", "many"), "count"), "the parameter of 'count' is no number: 'many'", ValueError),
    ((("12.5", "nan"), "count"), "the parameter of 'count' must be a finite number greater than 0", ValueError),
    of=lambda given: noise_json_of_pipelinedp(REPORT.replace(*given[0]) if any(given[0]) else REPORT, {given[1]: CELLS}),
)  # fmt: skip
