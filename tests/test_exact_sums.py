"""Exact sums near the limits of int64: right, by Python's integers as the oracle, or refused; never wrapped."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from bayesdp.consistency.exact import _of_table
from bayesdp.invariants import Invariants
from bayesdp.queries import Identity, LinearQuery, Margins, Query, Totals

SIZES = (3, 4, 5)
CELLS = 60
LABELS: dict[str, Any] = {
    "state": [f"s{i}" for i in range(SIZES[0])],
    "age": [f"a{i}" for i in range(SIZES[1])],
    "sex": [f"x{i}" for i in range(SIZES[2])],
    "region": ("state", ["N", "N", "S"]),
}
LARGEST = 2**63
CASES = 300


def _random_query(rng: np.random.Generator) -> Query:
    kind = rng.integers(6)
    if kind == 0:
        return Identity(LABELS)
    if kind == 1:
        return Margins(LABELS, ["state"], ["age", "sex"])
    if kind == 2:
        return Totals(LABELS)
    if kind == 3:
        return Totals(LABELS, by="region")
    largest = 2 ** int(rng.integers(1, 53))
    matrix = rng.integers(-largest, largest, size=(4, CELLS)) * (rng.random((4, CELLS)) < rng.choice([0.05, 0.5, 1.0]))
    linear = LinearQuery(LABELS, matrix, ["a", "b", "c", "d"])
    return linear if kind == 4 else linear + Totals(LABELS, by="region")


def _case(seed: int) -> tuple[Query, np.ndarray]:
    """A query, and two tables whose sums may be on either side of the limit."""
    rng = np.random.default_rng(seed)
    query, bits = _random_query(rng), int(rng.integers(1, 64))
    low = 0 if rng.random() < 0.5 else -(2**bits)
    return query, rng.integers(low, 2**bits - 1, size=(2, *SIZES), endpoint=True, dtype=np.int64)


def _exact(query: Query, values: np.ndarray) -> tuple[list[int], list[int]]:
    """The answers of all tables in Python's integers, and the sums of their absolute terms."""
    matrix = query.matrix.toarray().tolist()
    tables = values.reshape(-1, CELLS).tolist()
    terms = [[w * v for w, v in zip(row, table, strict=True) if w] for table in tables for row in matrix]
    return [sum(own) for own in terms], [sum(map(abs, own)) for own in terms]


def test_answers_near_the_limits_are_those_of_python_or_refused() -> None:
    beyond = 0
    for seed in range(CASES):
        query, values = _case(seed)
        answers, sizes = _exact(query, values)
        beyond += max(sizes) >= LARGEST
        refused = ""
        try:
            found = np.asarray(query.apply(values)).reshape(-1)
        except ValueError as error:
            refused = str(error)
        if refused:
            assert max(sizes) >= LARGEST * (1 - 2e-6), seed  # refused at most so much too early, for rounding
            assert not re.search(r"\d{4}", refused), refused  # no value is told
        else:
            assert found.dtype == np.int64
            assert found.tolist() == answers, seed
    assert CASES // 5 < beyond < 4 * CASES // 5


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
def test_the_limit_itself(weights: list[int], count: int, refused: bool) -> None:
    query = LinearQuery({"cell": range(len(weights))}, [weights], ["total"])
    counts = np.full(len(weights), count)
    if refused:
        with pytest.raises(ValueError, match="the terms of total add up to about"):
            query.apply(counts)
    else:
        assert query.apply(counts).tolist() == [sum(weights) * count]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "uint32", "uint64"])
def test_narrow_and_unsigned_integers_are_added_up_in_64_bits(dtype: str) -> None:
    """``np.add.reduceat`` adds in the width of its input: 200 + 200 came out as 144 in uint8, True + True as True."""
    largest = 1 if dtype == "bool" else min(int(np.iinfo(dtype).max), 2**62 // 100)
    values = np.full(SIZES, largest, dtype=dtype)
    for query in (Totals(LABELS, by="region"), Totals(LABELS), LinearQuery(LABELS, np.ones((1, CELLS)), ["all"])):
        found = np.asarray(query.apply(values))
        assert found.dtype == np.int64
        assert found.reshape(-1).tolist() == _exact(query, values.astype(np.int64))[0]
    with pytest.raises(ValueError, match=r"smaller than 2\*\*63"):
        Totals({"cell": ["a", "b"]}).apply(np.array([2**63, 1], dtype=np.uint64))


def test_weights_of_one_place_are_added_up_exactly_or_refused() -> None:
    labels = {"cell": ["a", "b"]}

    def repeated(weight: int, times: int) -> LinearQuery:
        entries = (np.full(times, weight), (np.zeros(times, dtype=int), np.zeros(times, dtype=int)))
        return LinearQuery(labels, sp.coo_array(entries, shape=(1, 2)), ["row"])

    assert repeated(2**50, 7).matrix.toarray().tolist() == [[7 * 2**50, 0]]
    for weight, times in ((2**52, 2), (2**52, 4096)):  # the second comes to 0 in 64 bits
        with pytest.raises(ValueError, match=r"add up to less than 2\*\*53"):
            repeated(weight, times)
        plain = {"rows": [0] * times, "cells": [0] * times, "entries": [weight] * times, "names": ["row"]}
        with pytest.raises(ValueError, match=r"add up to less than 2\*\*53"):
            Query.from_description({"parts": [plain]}, repeated(1, 1).frame)


def test_the_transposed_map_is_that_of_python_or_refused() -> None:
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


def test_relations_whose_weights_no_int64_holds_are_refused() -> None:
    # Three answers of a plane: their one relation has the 2x2 minors as weights, some 2**104.
    frame = {"cell": ["a", "b", "c"]}
    weights = np.random.default_rng(1).integers(2**51, 2**52, size=(3, 3))
    query = LinearQuery(frame, weights, ["p", "q", "r"])
    with pytest.raises(ValueError, match=r"whole-number weights are 2\*\*53 or more"):
        Invariants(Totals(frame)).through(query)
    small = LinearQuery(frame, weights % 1000, ["p", "q", "r"])
    [relation] = Invariants(Totals(frame)).through(small).matrix.toarray()
    moves = np.array([[1, -1, 0], [0, 1, -1]])
    assert not (relation @ (weights % 1000) @ moves.T).any()


def test_exact_values_of_a_query_whose_weights_multiply_beyond_int64_are_refused() -> None:
    frame = {"cell": ["a", "b"]}
    query = LinearQuery(frame, [[2**40, 1], [1, 2**40]], ["p", "q"])
    part = LinearQuery(query.answer_frame or {"answer": ["p", "q"]}, [[2**40, 2**40]], ["both"]).parts[0]
    with pytest.raises(ValueError, match=r"both.* are 2\*\*53 or more"):
        _of_table(part, query)
