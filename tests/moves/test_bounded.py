"""The complete search for short integer vectors against all vectors."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from bayesdp.moves.basis import bounded_kernel


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


def test_no_rows_and_no_vectors() -> None:
    free = bounded_kernel(sp.csr_array((0, 2), dtype=np.int64), 1, balanced=False)
    assert free.tolist() == [[0, 1], [1, 0]]
    stuck = bounded_kernel(sp.csr_array(np.eye(3, dtype=np.int64)), 2, balanced=False)
    assert stuck.shape == (0, 3)


def test_sizes_that_cannot_be_listed() -> None:
    with pytest.raises(ValueError, match="choices of up to 4 of 200 cells"):
        bounded_kernel(sp.csr_array(np.ones((1, 200), dtype=np.int64)), 4, balanced=True)
    with pytest.raises(ValueError, match="pairs of choices"):
        bounded_kernel(sp.csr_array(np.ones((1, 200), dtype=np.int64)), 2, balanced=True)
    with pytest.raises(ValueError, match="more than 2 differences"):
        bounded_kernel(sp.csr_array(np.ones((1, 5), dtype=np.int64)), 1, balanced=True, most=10)
