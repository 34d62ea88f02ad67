"""Queries against plain sums and dense matrices."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import xarray as xr

from bayesdp.frames import Frame
from bayesdp.queries import CellNames, Identity, LinearQuery, Margins, Query, Totals, cell_list

LABELS = {
    "county": ["Alpha", "Beta", "Gamma", "Delta"],
    "education": ["Low", "High"],
    "year": [1990, 2000, 2010],
    "state": ("county", ["x", "y", "x", "y"]),
    "decade": ("year", ["old", "new", "new"]),
}
FRAME = Frame.of(LABELS)
WEIGHTS = np.random.default_rng(5).integers(-2, 3, size=(3, 24))

QUERIES = {
    "identity": Identity(FRAME),
    "one margin": Margins(FRAME, ["county"]),
    "order given": Margins(FRAME, ["year", "county"]),
    "two margins": Margins(FRAME, ["county"], ["education", "year"]),
    "group in a margin": Margins(FRAME, ["state", "year"]),
    "grand total": Totals(FRAME),
    "group": Totals(FRAME, by="state"),
    "crossed groups": Totals(FRAME, by=["decade", "state"]),
    "linear": LinearQuery(FRAME, WEIGHTS, ["a", "b", "c"]),
    "stack": Totals(FRAME) + LinearQuery(FRAME, WEIGHTS, ["a", "b", "c"]) + Margins(FRAME, ["education"]),
}


def test_margins_and_totals_are_the_sums_that_they_say(rng):
    x = rng.integers(0, 50, size=FRAME.shape)
    by_state = np.stack([x[[0, 2]].sum(axis=(0, 1)), x[[1, 3]].sum(axis=(0, 1))])
    crossed = np.stack([by_state[:, 0], by_state[:, 1:].sum(axis=1)], axis=1)
    both = np.concatenate([x.sum(axis=(1, 2)), x.sum(axis=0).ravel()])
    said = {"identity": x, "order given": x.sum(axis=1), "grand total": x.sum(), "group": by_state.sum(axis=1)}
    for name, expected in (said | {"crossed groups": crossed, "two margins": both}).items():
        np.testing.assert_array_equal(QUERIES[name].apply(x), expected, err_msg=name)


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_apply_and_adjoint_agree_with_the_matrix(query, rng):
    matrix = query.matrix.toarray()
    assert matrix.shape == (query.rows, FRAME.size) == (len(query.names), 24)
    assert query.rows == int(np.prod(query.shape))
    x, y = rng.normal(size=(2, 5, *FRAME.shape)), rng.normal(size=(5, *query.shape))
    np.testing.assert_allclose(query.apply(x).reshape(2, 5, -1), x.reshape(2, 5, -1) @ matrix.T, atol=1e-12)
    np.testing.assert_allclose(query.adjoint(y).reshape(5, -1), y.reshape(5, -1) @ matrix, atol=1e-12)


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_labelled_tables_pass_chain_and_draw_through(query, rng):
    x = xr.DataArray(
        rng.integers(0, 9, size=(2, 4, 2, 3, 3)),
        dims=["chain", "county", "education", "draw", "year"],
        coords={"chain": [0, 1], "county": LABELS["county"], "education": LABELS["education"], "year": LABELS["year"]},
        name="x",
    )
    answers = query.apply(x.sel(county=["Delta", "Alpha", "Gamma", "Beta"]))
    assert answers.dims == ("chain", "draw", *query.dims)
    assert answers.name == "x"
    expected = query.apply(x.transpose("chain", "draw", "county", "education", "year").values)
    np.testing.assert_array_equal(answers.values, expected)
    for dim, own in query.coords.items():
        assert answers.coords[dim].values.tolist() == own


def test_names_and_coordinates_of_answers():
    assert QUERIES["order given"].dims == ("county", "year")
    assert QUERIES["order given"].names[1] == "county=Alpha, year=2000"
    assert QUERIES["grand total"].names == ["total"]
    assert QUERIES["grand total"].answer_frame is None
    assert QUERIES["crossed groups"].coords == {"state": ["x", "y"], "decade": ["old", "new"]}
    assert QUERIES["stack"].coords == {"answer": ["total", "a", "b", "c", "education=Low", "education=High"]}
    assert QUERIES["stack"].answer_name(3) == "c"
    assert [query.is_identity for query in QUERIES.values()] == [True] + [False] * 9


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_a_description_is_plain_data_and_comes_back(query):
    again = Query.from_description(json.loads(json.dumps(query.describe())), FRAME)
    assert again == query
    assert hash(again) == hash(query)
    assert again.names == query.names
    assert pickle.loads(pickle.dumps(query)) == query
    assert (again.matrix != query.matrix).nnz == 0
    assert [own for own in QUERIES.values() if own == query] == [query]


def test_a_linear_query_takes_sparse_matrices_adds_duplicates_and_drops_zeros():
    doubled = sp.coo_array(([1, 2, 0], ([0, 0, 1], [3, 3, 5])), shape=(2, 24))
    query = LinearQuery(FRAME, doubled, ["a", "b"])
    assert query.matrix.toarray()[0, 3] == 3
    assert query.matrix.nnz == 1
    assert LinearQuery(FRAME, np.ones(24), ["all"]).apply(np.ones(FRAME.shape)) == 24


def test_answers_are_aligned_by_label():
    query = Margins(FRAME, ["county"])
    answers = xr.DataArray([4, 3, 2, 1], dims=["county"], coords={"county": ["Delta", "Gamma", "Beta", "Alpha"]})
    assert query.align(answers, "values").tolist() == [1, 2, 3, 4]
    assert Totals(FRAME).align(135, "values") == 135


COUNTY, FEW = Margins(FRAME, ["county"]), xr.DataArray(np.zeros((4, 2)), dims=["county", "education"])


def described(**part):
    return lambda: Query.from_description({"parts": [part]}, FRAME)


def listed(rows, cells, entries):
    return described(rows=rows, cells=cells, entries=entries, names=["a"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Margins(FRAME), "at least one list of dimensions"),
        (lambda: Margins(FRAME, ["place"]), "'place' is neither a dimension"),
        (lambda: Margins(FRAME, ["county", "county"]), "dims names a dimension twice: 'county', 'county'"),
        (lambda: Margins(FRAME, ["county", "state"]), "'county' and 'state' both belong to dimension 'county'"),
        (lambda: Margins(FRAME, ["county"], ["county"]), "the same margin is asked for twice"),
        (lambda: Margins(FRAME, [3]), "dims must be names of dimensions or group labels, got 3"),
        (lambda: Totals(FRAME, by="region"), "'region' is neither a dimension"),
        (lambda: LinearQuery(FRAME, np.ones((1, 3)), ["a"]), r"shape \(1, 24\): .* got \(1, 3\)"),
        (lambda: LinearQuery(FRAME, np.ones((2, 24)), ["a", "a"]), "names of the rows must be distinct"),
        (lambda: LinearQuery(FRAME, np.ones((1, 24)), "a"), "names must be a sequence of strings"),
        (lambda: LinearQuery(FRAME, np.ones((1, 24)), [1]), "names must be strings, got 1"),
        (lambda: LinearQuery(FRAME, np.full((1, 24), 0.5), ["a"]), r"whole numbers, but entry \(0, 0\) is 0.5"),
        (lambda: LinearQuery(FRAME, np.full((1, 24), np.nan), ["a"]), "must be finite"),
        (lambda: Identity(FRAME) + Identity({"a": [1]}), "when they are about the same table"),
        (lambda: Query(FRAME, Identity({"a": [1]}).parts), "about the same table"),
        (lambda: Query.from_description({"parts": 3}, FRAME), "one key 'parts'"),
        (lambda: Query.from_description({"parts": [], "code": "x"}, FRAME), "one key 'parts', a list; got 'code', 'parts'"),
        (described(mean=["county"]), "unknown kind of query part with the keys 'mean'"),
        (described(sum=["place"]), "'place' is neither"),
        (listed([0], [24], [1]), "1 rows and 24 cells"),
        (listed([0, 0], [1], [1]), "lists of one length"),
        (listed([0], [1], [1.5]), "entries must hold whole numbers"),
        (lambda: COUNTY.apply(np.zeros((4, 2))), r"values must have shape \(..., \(4, 2, 3\)\), got \(4, 2\)"),
        (lambda: COUNTY.apply(FEW), "values lack the dimensions 'year'"),
        (lambda: COUNTY.apply(FEW.expand_dims(year=3, axis=2)), "labels of 'county' do not match"),
        (lambda: Totals(FRAME).align([1, 2], "values"), r"values must be a single number \(a grand total\), got shape \(2,\)"),
        (lambda: cell_list(FRAME, [0, 0]), "distinct"),
        (lambda: cell_list(FRAME, [24]), "from 0 to 23"),
        (lambda: cell_list(FRAME, []), "from 0 to 23"),
        (lambda: cell_list({"a": ["x, b=1", "x"], "b": ["1", "1, b=1"]}, [0, 3]), "labels of this table make some alike"),
    ],
)  # fmt: skip
def test_bad_queries_are_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_lists_of_cells_name_them_when_asked():
    frame = Frame.of({"county": ["Alpha", "Beta"], "age": [1, 2, 3]})
    query = cell_list(frame, [4, 0])
    assert isinstance(query.parts[0].names, CellNames)
    names = ["county=Beta, age=2", "county=Alpha, age=1"]
    assert query.names == names == [query.answer_name(0), query.answer_name(1)]
    assert list(query.parts[0].names[1:]) == names[1:]
    table = np.arange(6).reshape(2, 3)
    assert query.apply(table).tolist() == [4, 0]
    written = LinearQuery(frame, [[0, 0, 0, 0, 1, 0], [1, 0, 0, 0, 0, 0]], names)
    assert query == written
    assert written == query
    assert hash(query) == hash(written)
    assert query != cell_list(frame, [4, 1])
    assert Query.from_description(query.describe(), frame) == query
    assert pickle.loads(pickle.dumps(query)) == query
