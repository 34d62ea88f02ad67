"""Gaussian noise of least squared error: the ellipsoid of least trace around the differences that it has to hide."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesdp.privacy._design import RootTrace
from bayesdp.privacy.shapes import Floats, just_containing, read_only, solved, spanning

__all__ = ["Factorization", "optimal_factorization"]


@dataclass(frozen=True, eq=False)
class Factorization:
    """The covariance of least trace whose ellipsoid contains all vectors.

    Attributes
    ----------
    covariance : numpy.ndarray, shape (n, n)
        Every vector is within the ellipsoid, and one is on its boundary.
    error : float
        Trace of the covariance: the expected squared error of 1-GDP noise.
    bound : float
        No covariance whose ellipsoid contains all vectors has a trace below this.
    gap : float
        ``error / bound - 1``.
    iterations : int
    """

    covariance: Floats
    error: float
    bound: float
    gap: float
    iterations: int


def optimal_factorization(
    vectors: npt.ArrayLike, *, tolerance: float = 1e-3, max_iterations: int = 2000
) -> Factorization:
    """Find the covariance of least trace whose ellipsoid contains the vectors: Gaussian noise of least squared error.

    Minimise ``tr Sigma`` subject to ``v_j^T Sigma^-1 v_j <= 1``. The dual is to maximise ``(tr S^(1/2))**2`` over weights,
    ``S = sum w_j v_j v_j^T``; then ``Sigma = tr(S^(1/2)) S^(1/2)``. (Lagrangian in ``X = Sigma^-1``: the least of
    ``tr X^-1 + sum_j l_j (v_j^T X v_j - 1)`` is at ``X^-2 = S(l)``, of value ``2 tr S(l)^(1/2) - sum_j l_j``; then choose the
    sum of l.) This is the factorization mechanism, whose noise may have any shape, optimised for the total squared error
    (Li et al., 2010; Edmonds, Nikolov and Ullman, 2020).

    Parameters
    ----------
    vectors, max_iterations
        As in `enclosing_ellipsoid`.
    tolerance : float
        Largest relative gap accepted between the trace and its lower bound.

    Returns
    -------
    Factorization

    Raises
    ------
    TypeError, ValueError
        As in `enclosing_ellipsoid`.

    References
    ----------
    Edmonds, Nikolov and Ullman (2020), The Power of Factorization Mechanisms in Local and Central Differential Privacy,
    STOC.

    Examples
    --------
    A box of half sides 3 and 1: the noise has variances 12 and 4, of total ``(3 + 1)**2``.

    >>> found = optimal_factorization([[3.0, 1.0], [3.0, -1.0]])
    >>> print(f"{found.error:.3f}", found.covariance.round(9).tolist())
    16.000 [[12.0, 0.0], [0.0, 4.0]]
    """
    array = spanning(vectors)
    design = solved(array / np.sqrt(np.mean(np.sum(array**2, axis=1))), RootTrace(), tolerance, max_iterations)
    # The roots of the eigenvalues of S are singular values, which have twice as many digits.
    triangle = np.linalg.qr(np.sqrt(design.weights)[:, None] * array, mode="r")
    _, roots, rows = np.linalg.svd(triangle)
    bound = float(roots.sum()) ** 2
    covariance = just_containing((rows.T * (roots * roots.sum())) @ rows, array)
    error = float(np.trace(covariance))
    return Factorization(read_only(covariance), error, bound, max(error / bound - 1.0, 0.0), design.iterations)
