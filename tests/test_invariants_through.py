"""Relations between the answers of a query, against dense linear algebra."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.linalg

from bayesdp.invariants import Invariants
from bayesdp.queries import Identity, LinearQuery, Margins, Totals

TABLE = {"a": list("pqrs"), "b": list("xyz"), "g": ("a", list("uuvv")), "h": ("b", list("mmn"))}
MATRIX = np.random.default_rng(0).integers(-2, 3, (5, 12))
QUERIES = {
    "margin a": Margins(TABLE, ["a"]),
    "margin b": Margins(TABLE, ["b"]),
    "groups of a": Margins(TABLE, ["g"]),
    "total": Totals(TABLE),
    "groups of b": Totals(TABLE, "h"),
    "groups of a by b": Margins(TABLE, ["g", "b"]),
    "a by groups of b": Margins(TABLE, ["a", "h"]),
    "cells": Identity(TABLE),
    "both margins": Margins(TABLE, ["a"], ["b"]),
    "cells and a margin": Identity(TABLE) + Margins(TABLE, ["a"]),
    "matrix": LinearQuery(TABLE, MATRIX, list("12345")),
}


def _null(matrix):
    return scipy.linalg.null_space(matrix.toarray().astype(float)) if matrix.shape[0] else np.eye(matrix.shape[1])


@pytest.mark.parametrize(("exact", "asked"), list(product([*QUERIES, "nothing"], QUERIES)))
def test_noise_of_a_query_lives_on_the_image_of_the_null_space(exact, asked):
    invariants = Invariants(None, TABLE) if exact == "nothing" else Invariants(QUERIES[exact])
    query = QUERIES[asked]
    relations = invariants.through(query)
    image = scipy.linalg.orth(query.matrix.toarray() @ _null(invariants.matrix), rcond=1e-10)
    if np.max(np.abs(query.matrix.toarray() @ _null(invariants.matrix)), initial=0.0) < 1e-10:
        image = image[:, :0]
    assert relations.dimension == image.shape[1]
    assert relations.frame.size == query.rows
    basis = relations.from_coordinates(np.eye(relations.dimension)).reshape(relations.dimension, query.rows)
    np.testing.assert_allclose(basis.T @ basis, image @ image.T, atol=1e-9)
    np.testing.assert_allclose(basis @ basis.T, np.eye(relations.dimension), atol=1e-9)


def test_sums_stay_sums_and_keep_their_labels():
    relations = Invariants(QUERIES["groups of a"]).through(QUERIES["a by groups of b"])
    assert relations.coordinate_rule == "helmert-1"
    assert relations.query.names == ["g=u", "g=v"]


def test_coordinates_of_general_invariants_are_those_of_gram_and_schmidt():
    invariants = Invariants(LinearQuery({"cell": list("abcd")}, [[1, 2, 0, -1], [0, 1, 1, 3]], ["one", "two"]))
    assert invariants.coordinate_rule == "echelon-1"
    first = np.array([2.0, -1.0, 1.0, 0.0])  # 1 in the first free cell, 0 in the other
    second = np.array([7.0, -3.0, 0.0, 1.0])
    one = first / np.linalg.norm(first)
    two = second - (second @ one) * one
    basis = invariants.from_coordinates(np.eye(2))
    np.testing.assert_allclose(basis, [one, two / np.linalg.norm(two)], atol=1e-12)


def test_what_cannot_be_done_is_said():
    wide = {"cell": [f"c{i}" for i in range(2100)]}
    stacked = Identity(wide) + Totals(wide)
    with pytest.raises(NotImplementedError, match="at most 2000 answers"):
        Invariants(Totals(wide)).through(stacked)
    with pytest.raises(ValueError, match="about the table of the invariants"):
        Invariants(Totals(wide)).through(Totals(TABLE))
