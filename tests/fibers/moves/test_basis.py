"""Bases of the integer null space are bases of all of it."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from flint import fmpz_mat

from bayesdp.fibers.moves.basis import bounded_kernel
from bayesdp.invariants import Invariants
from bayesdp.lattices import integer_kernel, kernel_basis
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.lattices.oracles import BLOCKS, GENERAL, LOOSE, eliminated, labels, one_way, two_way_margins
from tests.refusals import refused

NESTED = {"county": range(6), "state": ("county", list("xxyyyx")), "sex": ["m", "f", "n"]}
INVARIANTS = [
    one_way(4, 4),
    one_way(2, 3, 2),
    two_way_margins(3, 3, 3),
    two_way_margins(2, 3, 4),
    Invariants(Margins(labels(2, 3, 2), ["a", "b"], ["b", "c"])),
    Invariants([Totals(NESTED, by=["state", "sex"]), Margins(NESTED, ["county"])]),
    Invariants([Totals(NESTED, by="state"), Totals(NESTED)]),
    Invariants(Totals(labels(7))),
    Invariants(None, labels(3)),
    BLOCKS,
    GENERAL,
    LOOSE,
    Invariants(LinearQuery(labels(3), [[2, 4, 6]], ["even"])),
]


@pytest.mark.parametrize("invariants", INVARIANTS, ids=repr)
def test_kernel_basis_generates_every_integer_vector_of_the_null_space(invariants):
    assert_basis(kernel_basis(invariants).toarray().astype(int), invariants.matrix.toarray())


def assert_basis(basis, matrix):
    """Invariant factors all one: every integer vector in the span of the rows is an integer combination of them."""
    cells = matrix.shape[1]
    assert basis.shape == (cells - len(eliminated(matrix)[1]), cells)
    assert not np.any(matrix @ basis.T)
    if len(basis):
        smith = fmpz_mat(basis.tolist()).snf()
        assert [smith[i, i] for i in range(len(basis))] == [1] * len(basis)


def test_integer_kernel_of_random_matrices(make_rng):
    """Of every size, with rows of zeros and redundant rows among them."""
    for seed in range(100):
        rng = make_rng(seed)
        rows, cells = rng.integers(1, 5), rng.integers(1, 8)
        matrix = rng.integers(-6, 7, size=(rows, cells))
        matrix = np.concatenate([matrix, rng.integers(-2, 3, size=(rng.integers(0, 4), rows)) @ matrix])
        assert_basis(integer_kernel(matrix), matrix)


def test_the_search_by_all_vectors():
    rng = np.random.default_rng(1)
    for _ in range(40):
        matrix = rng.integers(-2, 3, size=(int(rng.integers(0, 3)), 4))
        for balanced, radius in ((True, 2), (False, 3)):
            found = bounded_kernel(sp.csr_array(matrix.astype(np.int64)), radius, balanced=balanced)
            expected = []
            for z in product(range(-radius, radius + 1), repeat=4):  # in order
                fits = sum(z) == 0 if balanced else True
                size = 2 * radius if balanced else radius
                if fits and sum(map(abs, z)) <= size and next((v for v in z if v), 0) > 0 and not np.any(matrix @ z):
                    expected.append(list(z))
            assert found.tolist() == expected


def ones(cells):
    return sp.csr_array(np.ones((1, cells), dtype=np.int64))


test_sizes_that_cannot_be_listed = refused(
    (lambda: integer_kernel(np.ones((1, 2001), dtype=np.int64)), "2001 free cells are more than 2000"),
    (lambda: bounded_kernel(ones(200), 4, balanced=True), "choices of up to 4 of 200 cells"),
    (lambda: bounded_kernel(ones(200), 2, balanced=True), "pairs of choices"),
    (lambda: bounded_kernel(ones(5), 1, balanced=True, most=10), "more than 2 differences"),
)
