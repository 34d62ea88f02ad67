"""Normal forms against their definitions, in exact arithmetic."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import fmpz_mat
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesdp.invariants import Invariants
from bayesdp.moves.basis import integer_kernel, kernel_basis
from bayesdp.queries import Margins, Totals
from tests.lattices.oracles import CASES, GENERAL, labels
from tests.moves.normal_forms import gram_determinant, hermite_form, log_covolume, smith_form


def determinant(matrix) -> int:
    return int(fmpz_mat(matrix.tolist()).det())


def same_lattice(a, b) -> bool:
    """Whether the rows span the same integer vectors: their Hermite forms without zero rows are the same."""
    forms = [[row for row in hermite_form(m).echelon.tolist() if any(row)] for m in (a, b)]
    return forms[0] == forms[1]


@st.composite
def matrices(draw):
    """Integer matrices, some of whose rows are sums of others."""
    rows, cells = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    entry = st.integers(-6, 6)
    matrix = draw(st.lists(st.lists(entry, min_size=cells, max_size=cells), min_size=rows, max_size=rows))
    array = np.array(matrix, dtype=np.int64)
    weights = np.array(draw(st.lists(st.lists(st.integers(-2, 2), min_size=rows, max_size=rows), max_size=3)))
    return np.concatenate([array, weights.reshape(-1, rows).astype(np.int64) @ array])


@settings(max_examples=150, deadline=None, derandomize=True)
@given(matrices())
def test_smith_form(matrix):
    form = smith_form(matrix)
    assert (form.left @ matrix.astype(object) @ form.right == form.diagonal).all()
    assert abs(determinant(form.left)) == abs(determinant(form.right)) == 1
    off = form.diagonal.copy()
    np.fill_diagonal(off, 0)
    assert not off.any()
    factors = [int(v) for v in np.diagonal(form.diagonal)]
    assert all(f > 0 for f in factors[: len(form.factors)])
    assert not any(factors[len(form.factors) :])
    assert all(b % a == 0 for a, b in zip(form.factors, form.factors[1:], strict=False))
    # flint's own form has no transforms
    assert factors == [abs(int(v)) for v in np.diagonal(np.array(fmpz_mat(matrix.tolist()).snf().tolist()))]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(matrices())
def test_the_last_columns_of_v_span_the_integer_kernel(matrix):
    kernel, reduced = smith_form(matrix).kernel, integer_kernel(matrix)
    assert kernel.shape == reduced.shape
    assert not (matrix.astype(object) @ kernel.T).any()
    if len(reduced):
        assert same_lattice(kernel, reduced)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(matrices())
def test_hermite_form(matrix):
    form = hermite_form(matrix)
    assert (form.left @ matrix.astype(object) == form.echelon).all()
    assert abs(determinant(form.left)) == 1
    last = -1
    for i, row in enumerate(form.echelon):
        entries = np.flatnonzero(row)
        pivot = int(entries[0]) if len(entries) else len(row)
        assert pivot > last or pivot == len(row)
        last = pivot
        if pivot < len(row):
            assert row[pivot] > 0
            assert all(0 <= form.echelon[k, pivot] < row[pivot] for k in range(i))


def test_the_bottom_rows_of_v_are_no_kernel():
    # Proposition 8 as printed: with fixed margins of a 2 x 3 table its vectors change the margins.
    margins = Invariants(Margins(labels(2, 3), ["a"], ["b"])).matrix.toarray()
    form = smith_form(margins)
    assert len(form.factors) == 4 < len(margins)
    assert not (margins.astype(object) @ form.kernel.T).any()
    assert (margins.astype(object) @ form.right[4:].T).any()


@pytest.mark.parametrize(("r", "c"), [(2, 2), (3, 4), (4, 4)])
def test_volume_of_tables_with_fixed_margins(r, c):
    basis = kernel_basis(Invariants(Margins(labels(r, c), ["a"], ["b"]))).toarray()
    assert gram_determinant(basis) == r ** (c - 1) * c ** (r - 1)


def test_volume_of_a_fixed_sum_that_no_float_holds():
    basis = kernel_basis(Invariants(Totals({"county": range(150)}))).toarray()
    assert gram_determinant(basis) == 150
    assert gram_determinant(1000 * basis) == 150 * 10 ** (6 * 149)
    assert log_covolume(1000 * basis) == pytest.approx(0.5 * math.log(150) + 149 * math.log(1000), rel=1e-14)


def test_volume_is_that_of_the_rows_divided_by_the_invariant_factors():
    # The lattice orthogonal to primitive vectors has their volume; the Smith factors measure what is not primitive.
    matrix = GENERAL.matrix.toarray() * np.array([[3], [2]])
    form = smith_form(matrix)
    assert gram_determinant(matrix) == gram_determinant(integer_kernel(matrix)) * math.prod(form.factors) ** 2
    assert math.prod(form.factors) == 6


@pytest.mark.parametrize("case", CASES)
def test_volume_does_not_depend_on_the_basis(case):
    invariants = CASES[case][0]
    matrix = invariants.matrix.toarray()
    volume = gram_determinant(kernel_basis(invariants).toarray())
    assert volume == gram_determinant(smith_form(matrix).kernel) == gram_determinant(integer_kernel(matrix))


def test_wrong_arguments():
    with pytest.raises(TypeError, match="integers, got float64"):
        smith_form([[1.0, 2.0]])
    with pytest.raises(TypeError, match=r"got 0\.5 at \(0, 1\)"):
        smith_form(np.array([[1, 0.5]], dtype=object))
    with pytest.raises(ValueError, match=r"shape \(2,\)"):
        hermite_form([1, 2])
    with pytest.raises(ValueError, match="at most 400"):
        smith_form(np.ones((1, 401), dtype=int))
    with pytest.raises(ValueError, match="linearly independent"):
        log_covolume([[1, 1], [2, 2]])
