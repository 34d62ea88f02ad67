"""Bases of the integer null space are bases of all of it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from flint import fmpz_mat

from bayesdp.invariants import Invariants
from bayesdp.lattices import integer_kernel, kernel_basis
from bayesdp.moves.basis import bounded_kernel
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.lattices.oracles import BLOCKS, GENERAL, LOOSE, eliminated, labels, one_way, two_way_margins

NESTED = {"county": range(6), "state": ("county", list("xxyyyx")), "sex": ["m", "f", "n"]}
INVARIANTS = [
    one_way(2, 3),
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
    basis = kernel_basis(invariants).toarray()
    rank = len(eliminated(invariants.matrix.toarray())[1])
    assert basis.shape == (invariants.frame.size - rank, invariants.frame.size)
    assert not np.any(invariants.matrix @ basis.T)
    assert_basis_of_all(basis.astype(int))


def assert_basis_of_all(basis):
    """Invariant factors all one: every integer vector in the span of the rows is an integer combination of them."""
    if len(basis):
        smith = fmpz_mat(basis.tolist()).snf()
        assert [smith[i, i] for i in range(len(basis))] == [1] * len(basis)


def test_integer_kernel_of_random_matrices(make_rng):
    """Of every size, with rows of zeros and redundant rows among them."""
    for seed in range(150):
        rng = make_rng(seed)
        rows, cells = rng.integers(1, 5), rng.integers(1, 8)
        matrix = rng.integers(-6, 7, size=(rows, cells))
        matrix = np.concatenate([matrix, rng.integers(-2, 3, size=(rng.integers(0, 4), rows)) @ matrix])
        basis = integer_kernel(matrix)
        assert basis.shape == (cells - len(eliminated(matrix)[1]), cells)
        assert not np.any(matrix @ basis.T)
        assert_basis_of_all(basis)


def test_the_search_by_all_vectors() -> None:
    rng = np.random.default_rng(1)
    for _ in range(40):
        matrix = rng.integers(-2, 3, size=(int(rng.integers(0, 3)), 4))
        for balanced, radius in ((True, 2), (False, 3)):
            found = bounded_kernel(sp.csr_array(matrix.astype(np.int64)), radius, balanced=balanced)
            expected = set()
            for z in product(range(-radius, radius + 1), repeat=4):
                fits = sum(z) == 0 if balanced else True
                size = 2 * radius if balanced else radius
                if any(z) and fits and sum(map(abs, z)) <= size and not np.any(matrix @ np.array(z)):
                    expected.add(z)
            own = {tuple(z) for z in found.tolist()}
            assert own == {z for z in expected if next(v for v in z if v) > 0}
            assert len(own) == len(found)
            assert found.tolist() == sorted(found.tolist())


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: integer_kernel(np.ones((1, 2001), dtype=np.int64)), "2001 free cells are more than 2000"),
        (lambda: bounded_kernel(ones(200), 4, balanced=True), "choices of up to 4 of 200 cells"),
        (lambda: bounded_kernel(ones(200), 2, balanced=True), "pairs of choices"),
        (lambda: bounded_kernel(ones(5), 1, balanced=True, most=10), "more than 2 differences"),
    ],
)
def test_sizes_that_cannot_be_listed(ask, message) -> None:
    with pytest.raises(ValueError, match=message):
        ask()


def ones(cells: int) -> sp.csr_array:
    return sp.csr_array(np.ones((1, cells), dtype=np.int64))
