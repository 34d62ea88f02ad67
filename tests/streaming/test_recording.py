import numpy as np
import pytest
import scipy.sparse as sp

import bayesdp as bdp
from bayesdp.hierarchies.structure import levels_of, tree_of
from bayesdp.streaming.cells import Recorder, named_queries, occupied
from tests.streaming.cases import FRAME

QUERIES = {
    "identity": bdp.Identity(FRAME),
    "total": bdp.Totals(FRAME),
    "race": bdp.Margins(FRAME, ["race"]),
    "tract by age": bdp.Margins(FRAME, ["tract", "age"]),
    "county by race": bdp.Margins(FRAME, ["county", "race"]),
    "stack": bdp.Margins(FRAME, ["county"], ["age", "race"]) + bdp.Totals(FRAME),
    "weights": bdp.LinearQuery(FRAME, sp.csr_array(np.arange(24).reshape(2, 12) % 5 - 2), ["u", "v"]),
    "weights and sums": bdp.Margins(FRAME, ["age"])
    + bdp.LinearQuery(FRAME, sp.csr_array(np.eye(12, dtype=int)[:3] * 7), list("abc")),
}


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("name", QUERIES)
def test_answers_are_those_of_the_query(name, axis):
    query = QUERIES[name]
    parts = bdp.Margins(FRAME, ["county"]).parts if axis == 1 else ()
    tree = tree_of(FRAME, axis, levels_of(FRAME, axis, parts))
    recorder, answers = Recorder(query, tree), np.zeros((3, query.rows), dtype=np.int64)
    tables = (
        np.random.default_rng(1).poisson(2.0, size=(3, *FRAME.shape))
        * (1 + 10**12 * (np.arange(3) == 2))[:, None, None, None]
    )
    for draw, table in enumerate(tables):
        counts = np.ascontiguousarray(tree.leaves_by_cells(table.reshape(-1)))
        recorder.take(counts, answers[draw], occupied(counts))
    np.testing.assert_array_equal(answers, query.apply(tables).reshape(3, query.rows))


def test_names():
    found = named_queries([QUERIES["total"], QUERIES["county by race"], QUERIES["stack"]], FRAME, ())
    assert list(found) == ["total", "by_county_race", "answers"]
    assert list(named_queries(QUERIES["race"], FRAME, ())) == ["by_race"]
    assert list(named_queries({"x": QUERIES["identity"]}, FRAME, ())) == ["x"]


OTHER = {"tract": ["t1", "t2", "t4"], "age": ["young", "old"]}


@pytest.mark.parametrize(
    ("record", "error", "message"),
    [
        ("race", TypeError, "record must be queries"),
        (7, TypeError, "record must be queries"),
        (["race"], TypeError, "record must hold queries"),
        (
            [bdp.Totals(OTHER)],
            ValueError,
            "is about a table with the dimensions 'tract', 'age', not about the release's",
        ),
        ({"race": QUERIES["race"]}, ValueError, "the name 'race' is that of a dimension"),
        ({"county": QUERIES["race"]}, ValueError, "the name 'county' is that of a dimension"),
        (
            {"spread": QUERIES["race"]},
            ValueError,
            "the name 'spread' is that of a dimension, a group label, a hyperparameter or the summaries",
        ),
        ({"": QUERIES["race"]}, TypeError, "not empty"),
        ([QUERIES["race"], QUERIES["race"]], ValueError, "two queries are called 'by_race'"),
    ],
)
def test_what_is_no_record(record, error, message):
    with pytest.raises(error, match=message):
        named_queries(record, FRAME, ["spread"])
