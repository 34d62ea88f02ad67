"""Queries against plain sums and dense matrices; near the limits of int64 right by Python's integers, or refused."""

import json
import pickle
import re

import numpy as np
import pytest
import scipy.sparse as sp
import xarray as xr

from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.measurements.consistency.exact import _of_table
from bayesdp.queries import CellNames, Identity, LinearQuery, Margins, Query, Totals, cell_list
from tests.refusals import refused

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


def test_margins_and_totals_are_the_sums_that_they_say_with_names_and_coordinates(rng):
    x = rng.integers(0, 50, size=FRAME.shape)
    by_state = np.stack([x[[0, 2]].sum(axis=(0, 1)), x[[1, 3]].sum(axis=(0, 1))])
    crossed = np.stack([by_state[:, 0], by_state[:, 1:].sum(axis=1)], axis=1)
    both = np.concatenate([x.sum(axis=(1, 2)), x.sum(axis=0).ravel()])
    said = {"identity": x, "order given": x.sum(axis=1), "grand total": x.sum(), "group": by_state.sum(axis=1)}
    for name, expected in (said | {"crossed groups": crossed, "two margins": both}).items():
        np.testing.assert_array_equal(QUERIES[name].apply(x), expected, err_msg=name)
    assert QUERIES["order given"].dims == ("county", "year")
    assert QUERIES["order given"].names[1] == "county=Alpha, year=2000"
    assert QUERIES["grand total"].names == ["total"]
    assert QUERIES["grand total"].answer_frame is None
    assert QUERIES["crossed groups"].coords == {"state": ["x", "y"], "decade": ["old", "new"]}
    assert QUERIES["stack"].coords == {"answer": ["total", "a", "b", "c", "education=Low", "education=High"]}
    assert QUERIES["stack"].answer_name(3) == "c"
    assert [query.is_identity for query in QUERIES.values()] == [True] + [False] * 9


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_apply_and_adjoint_agree_with_the_matrix_also_of_a_query_from_its_description(query, rng):
    matrix = query.matrix.toarray()
    assert matrix.shape == (query.rows, FRAME.size) == (len(query.names), 24)
    assert query.rows == int(np.prod(query.shape))
    x, y = rng.normal(size=(2, 5, *FRAME.shape)), rng.normal(size=(5, *query.shape))
    np.testing.assert_allclose(query.apply(x).reshape(2, 5, -1), x.reshape(2, 5, -1) @ matrix.T, atol=1e-12)
    np.testing.assert_allclose(query.adjoint(y).reshape(5, -1), y.reshape(5, -1) @ matrix, atol=1e-12)
    again = Query.from_description(json.loads(json.dumps(query.describe())), FRAME)
    assert (again, hash(again), again.names) == (query, hash(query), query.names)
    assert pickle.loads(pickle.dumps(query)) == query
    assert (again.matrix != query.matrix).nnz == 0
    assert [own for own in QUERIES.values() if own == query] == [query]


def test_labelled_tables_pass_chain_and_draw_through(rng):
    coords = {"chain": [0, 1], **{dim: LABELS[dim] for dim in FRAME.dims}}
    dims = ["chain", "county", "education", "draw", "year"]
    x = xr.DataArray(rng.integers(0, 9, size=(2, 4, 2, 3, 3)), coords, dims, name="x")
    values = x.transpose("chain", "draw", "county", "education", "year").values
    for query in QUERIES.values():
        answers = query.apply(x.sel(county=["Delta", "Alpha", "Gamma", "Beta"]))
        assert (answers.dims, answers.name) == (("chain", "draw", *query.dims), "x")
        np.testing.assert_array_equal(answers.values, query.apply(values))
        assert {dim: answers.coords[dim].values.tolist() for dim in query.coords} == query.coords


def test_a_linear_query_takes_sparse_matrices_adds_duplicates_and_drops_zeros_and_answers_are_aligned():
    doubled = sp.coo_array(([1, 2, 0], ([0, 0, 1], [3, 3, 5])), shape=(2, 24))
    query = LinearQuery(FRAME, doubled, ["a", "b"])
    assert query.matrix.toarray()[0, 3] == 3
    assert query.matrix.nnz == 1
    assert LinearQuery(FRAME, np.ones(24), ["all"]).apply(np.ones(FRAME.shape)) == 24
    query = Margins(FRAME, ["county"])
    answers = xr.DataArray([4, 3, 2, 1], dims=["county"], coords={"county": ["Delta", "Gamma", "Beta", "Alpha"]})
    assert query.align(answers, "values").tolist() == [1, 2, 3, 4]
    assert Totals(FRAME).align(135, "values") == 135


COUNTY, FEW = Margins(FRAME, ["county"]), xr.DataArray(np.zeros((4, 2)), dims=["county", "education"])


def described(**part):
    return lambda: Query.from_description({"parts": [part]}, FRAME)


test_bad_queries_are_refused = refused(
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
    (described(rows=[0], cells=[24], entries=[1], names=["a"]), "1 rows and 24 cells"),
    (described(rows=[0, 0], cells=[1], entries=[1], names=["a"]), "lists of one length"),
    (described(rows=[0], cells=[1], entries=[1.5], names=["a"]), "entries must hold whole numbers"),
    (lambda: COUNTY.apply(np.zeros((4, 2))), r"values must have shape \(..., \(4, 2, 3\)\), got \(4, 2\)"),
    (lambda: COUNTY.apply(FEW), "values lack the dimensions 'year'"),
    (lambda: COUNTY.apply(FEW.expand_dims(year=3, axis=2)), "labels of 'county' do not match"),
    (lambda: Totals(FRAME).align([1, 2], "values"), r"values must be a single number \(a grand total\), got shape \(2,\)"),
    (lambda: cell_list(FRAME, [0, 0]), "distinct"),
    (lambda: cell_list(FRAME, [24]), "from 0 to 23"),
    (lambda: cell_list(FRAME, []), "from 0 to 23"),
    (lambda: cell_list({"a": ["x, b=1", "x"], "b": ["1", "1, b=1"]}, [0, 3]), "labels of this table make some alike"),
)  # fmt: skip


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
    assert query == written == query
    assert hash(query) == hash(written)
    assert query != cell_list(frame, [4, 1])
    assert Query.from_description(query.describe(), frame) == query
    assert pickle.loads(pickle.dumps(query)) == query


SIZES, CELLS, LARGEST = (3, 4, 5), 60, 2**63
PLACES = {"state": range(3), "age": range(4), "sex": range(5), "region": ("state", ["N", "N", "S"])}
REGIONS = Totals(PLACES, by="region")


def _random_query(rng):
    kind = rng.integers(6)
    if kind < 4:
        return (Identity(PLACES), Margins(PLACES, ["state"], ["age", "sex"]), Totals(PLACES), REGIONS)[kind]
    largest = 2 ** int(rng.integers(1, 53))
    matrix = rng.integers(-largest, largest, size=(4, CELLS)) * (rng.random((4, CELLS)) < rng.choice([0.05, 0.5, 1.0]))
    linear = LinearQuery(PLACES, matrix, ["a", "b", "c", "d"])
    return linear if kind == 4 else linear + REGIONS


def _exact(query, values):
    """The answers of all tables in Python's integers, and the sums of their absolute terms."""
    matrix = query.matrix.toarray().tolist()
    tables = values.reshape(-1, CELLS).tolist()
    terms = [[w * v for w, v in zip(row, table, strict=True) if w] for table in tables for row in matrix]
    return [sum(own) for own in terms], [sum(map(abs, own)) for own in terms]


def test_answers_and_the_transposed_map_near_the_limits_are_those_of_python_or_refused():
    beyond = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        query, bits = _random_query(rng), int(rng.integers(1, 64))
        low = 0 if rng.random() < 0.5 else -(2**bits)
        values = rng.integers(low, 2**bits - 1, size=(2, *SIZES), endpoint=True, dtype=np.int64)
        answers, sizes = _exact(query, values)
        beyond += max(sizes) >= LARGEST
        try:
            found = np.asarray(query.apply(values)).reshape(-1)
        except ValueError as error:
            told = str(error)
            assert max(sizes) >= LARGEST * (1 - 2e-6), seed  # refused at most so much too early, for rounding
            assert not re.search(r"\d{4}", told), told  # no value is told
        else:
            assert found.dtype == np.int64
            assert found.tolist() == answers, seed
    assert 40 < beyond < 160
    refused = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        query, bits = _random_query(rng), int(rng.integers(1, 63))
        answers = rng.integers(-(2**bits), 2**bits, size=query.shape, dtype=np.int64)
        columns, flat = query.matrix.toarray().T.tolist(), answers.reshape(-1).tolist()
        terms = [[w * v for w, v in zip(column, flat, strict=True)] for column in columns]
        try:
            found = query.adjoint(answers)
        except ValueError:
            # The parts of a stack are bounded one by one, each by its largest cell.
            assert max(sum(map(abs, own)) for own in terms) * len(query.parts) >= LARGEST * (1 - 2e-6), seed
            refused += 1
        else:
            assert found.reshape(-1).tolist() == [sum(own) for own in terms], seed
    assert 5 < refused < 95


@pytest.mark.parametrize(
    ("weights", "count", "refused"),
    [
        ([1] * 4, 2**61, True),
        ([1] * 4, 2**61 - 2**43, False),  # sums a millionth below 2**63 are exact, sums just below are refused
        ([2**31, 2**31], 2**32, True),  # these published an exact 0, which is 2**64 in 64 bits
        ([2**29, 2**29], 2**32, False),
        ([1] * 4096, 2**52, True),
        ([1] * 1024, 2**52, False),
    ],
    ids=lambda own: str(own)[:20],
)
def test_the_limit_itself(weights, count, refused):
    query = LinearQuery({"cell": range(len(weights))}, [weights], ["total"])
    counts = np.full(len(weights), count)
    if refused:
        with pytest.raises(ValueError, match="the terms of total add up to about"):
            query.apply(counts)
    else:
        assert query.apply(counts).tolist() == [sum(weights) * count]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "uint32", "uint64"])
def test_narrow_and_unsigned_integers_are_added_up_in_64_bits(dtype):
    """``np.add.reduceat`` adds in the width of its input: 200 + 200 came out as 144 in uint8, True + True as True."""
    largest = 1 if dtype == "bool" else min(int(np.iinfo(dtype).max), 2**62 // 100)
    values = np.full(SIZES, largest, dtype=dtype)
    for query in (REGIONS, Totals(PLACES), LinearQuery(PLACES, np.ones((1, CELLS)), ["all"])):
        found = np.asarray(query.apply(values))
        assert found.dtype == np.int64
        assert found.reshape(-1).tolist() == _exact(query, values.astype(np.int64))[0]
    with pytest.raises(ValueError, match=r"smaller than 2\*\*63"):
        Totals({"cell": ["a", "b"]}).apply(np.array([2**63, 1], dtype=np.uint64))


def test_weights_are_added_up_exactly_or_refused_also_those_of_relations_that_no_int64_holds():
    def repeated(weight, times):
        entries = (np.full(times, weight), (np.zeros(times, dtype=int), np.zeros(times, dtype=int)))
        return LinearQuery({"cell": ["a", "b"]}, sp.coo_array(entries, shape=(1, 2)), ["row"])

    assert repeated(2**50, 7).matrix.toarray().tolist() == [[7 * 2**50, 0]]
    for weight, times in ((2**52, 2), (2**52, 4096)):  # the second comes to 0 in 64 bits
        with pytest.raises(ValueError, match=r"add up to less than 2\*\*53"):
            repeated(weight, times)
        plain = {"rows": [0] * times, "cells": [0] * times, "entries": [weight] * times, "names": ["row"]}
        with pytest.raises(ValueError, match=r"add up to less than 2\*\*53"):
            Query.from_description({"parts": [plain]}, repeated(1, 1).frame)
    frame = {"cell": ["a", "b", "c"]}
    weights = np.random.default_rng(1).integers(2**51, 2**52, size=(3, 3))
    query = LinearQuery(frame, weights, ["p", "q", "r"])
    with pytest.raises(ValueError, match=r"whole-number weights are 2\*\*53 or more"):
        Invariants(Totals(frame)).through(query)
    small = LinearQuery(frame, weights % 1000, ["p", "q", "r"])
    [relation] = Invariants(Totals(frame)).through(small).matrix.toarray()
    moves = np.array([[1, -1, 0], [0, 1, -1]])
    assert not (relation @ (weights % 1000) @ moves.T).any()
    frame = {"cell": ["a", "b"]}
    query = LinearQuery(frame, [[2**40, 1], [1, 2**40]], ["p", "q"])
    part = LinearQuery(query.answer_frame or {"answer": ["p", "q"]}, [[2**40, 2**40]], ["both"]).parts[0]
    with pytest.raises(ValueError, match=r"both.* are 2\*\*53 or more"):
        _of_table(part, query)
