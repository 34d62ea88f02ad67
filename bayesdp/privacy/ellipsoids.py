"""Which shape Gaussian noise should have, given the differences that it has to hide.

Neighbouring tables change the answers by vectors ``v_j`` or ``-v_j``. Gaussian noise of covariance ``s**2 Sigma`` tells two
neighbours apart as well as a normal variable of mean ``sqrt(v^T Sigma^-1 v) / s`` and variance 1: if no
``v_j^T Sigma^-1 v_j`` exceeds 1, the mechanism is exactly mu-GDP with ``mu = 1 / s`` (Dong, Roth and Su, 2022). Geometrically:
the ellipsoid ``{x : x^T Sigma^-1 x <= 1}`` has to contain the vectors. The expected squared error is ``s**2 tr(Sigma)``.

- `enclosing_ellipsoid`: the ellipsoid of least volume;
- `base_decomposition`: the near-optimal shape of Nikolov, Talwar and Zhang, from ellipsoids of least volume;
- `bayesdp.privacy.factorization`: the ellipsoid of least trace, hence the least error that any Gaussian noise can have.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.linalg

from bayesdp.privacy._design import LogDeterminant
from bayesdp.privacy.shapes import Floats, just_containing, read_only, solved, spanning

__all__ = ["BaseDecomposition", "EnclosingEllipsoid", "base_decomposition", "enclosing_ellipsoid"]

_TIE = 1e-6
"""Axes of an ellipsoid that differ by less than this share are equal: rounding would decide which is the larger."""


@dataclass(frozen=True, eq=False)
class EnclosingEllipsoid:
    """The ellipsoid ``{x : x^T covariance^-1 x <= 1}`` of least volume around vectors and their negatives.

    Attributes
    ----------
    covariance : numpy.ndarray, shape (n, n)
        Every vector is within the ellipsoid, and one is on its boundary.
    gap : float
        ``det(covariance) ** (1 / n)`` is at most ``1 + gap`` times the least possible.
    iterations : int
    """

    covariance: Floats
    gap: float
    iterations: int


@dataclass(frozen=True, eq=False)
class BaseDecomposition:
    """Orthogonal blocks of directions, with noise of one scale in each.

    Attributes
    ----------
    covariance : numpy.ndarray, shape (n, n)
        Proportional to ``sum_i radii_i**2 U_i U_i^T``, scaled so that every vector is within the ellipsoid and one is on its
        boundary.
    blocks : tuple of numpy.ndarray, shapes (n, n_i)
        Orthonormal columns ``U_i``, from the short axes to the long ones; together a basis.
    radii : tuple of float
        ``max_j ||U_i^T v_j||_2``.
    gap : float
        Largest of the gaps of the ellipsoids it is made of.
    iterations : int
        Of all of them.
    """

    covariance: Floats
    blocks: tuple[Floats, ...]
    radii: tuple[float, ...]
    gap: float
    iterations: int


def enclosing_ellipsoid(
    vectors: npt.ArrayLike, *, tolerance: float = 1e-3, max_iterations: int = 2000
) -> EnclosingEllipsoid:
    """Find the ellipsoid of least volume, centred at 0, around vectors and their negatives.

    By the dual, a D-optimal design: maximise ``log det S`` over weights, ``S = sum w_j v_j v_j^T``; then ``n S`` is the
    ellipsoid (Kiefer and Wolfowitz, 1960; Titterington, 1975).

    Parameters
    ----------
    vectors : array_like, shape (m, n)
        One of each pair v, -v; at most 20,000 vectors in at most 300 dimensions, and they must span the space.
    tolerance : float
        Largest gap accepted.
    max_iterations : int
        Multiplicative and Newton steps in all.

    Returns
    -------
    EnclosingEllipsoid

    Raises
    ------
    TypeError, ValueError
        If the vectors are not finite numbers, too many, or do not span the space, or the gap is not reached.

    Examples
    --------
    >>> enclosing_ellipsoid([[3.0, 0.0], [0.0, 1.0]]).covariance.round(9)
    array([[9., 0.],
           [0., 1.]])
    """
    array = spanning(vectors)
    # The optimum moves with the coordinates, so solve where the vectors are round.
    root = _root(array)
    white = np.asarray(scipy.linalg.solve_triangular(root, array.T, lower=True).T)
    design = solved(white, LogDeterminant(), tolerance, max_iterations)
    covariance = just_containing(root @ _sum(white, design.weights) @ root.T, array)
    return EnclosingEllipsoid(read_only(covariance), max(design.excess, 0.0), design.iterations)


def base_decomposition(
    vectors: npt.ArrayLike, *, tolerance: float = 1e-3, max_iterations: int = 2000
) -> BaseDecomposition:
    """Find the noise shape of the correlated Gaussian mechanism of Nikolov, Talwar and Zhang.

    The shorter half of the axes of the ellipsoid of least volume is a block of directions; the vectors, projected onto
    the longer half, are decomposed in the same way. Block i gets noise of variance ``k r_i**2``, with k the number of
    blocks and ``r_i`` the length of the longest projected vector. Axes as long as the longest of the shorter half join it,
    so that rounding decides nothing; a ball is one block. At the end the whole is scaled to contain the vectors tightly:
    k is enough and often more than enough.

    Parameters
    ----------
    vectors, tolerance, max_iterations
        As in `enclosing_ellipsoid`; the tolerance is for each ellipsoid.

    Returns
    -------
    BaseDecomposition

    Raises
    ------
    TypeError, ValueError
        As in `enclosing_ellipsoid`.

    References
    ----------
    Nikolov, Talwar and Zhang (2013), The Geometry of Differential Privacy: the Sparse and Approximate Cases, STOC.

    Examples
    --------
    >>> found = base_decomposition([[3.0, 0.0], [0.0, 1.0]])
    >>> [block.shape[1] for block in found.blocks], [round(radius, 6) for radius in found.radii]
    ([1, 1], [1.0, 3.0])
    """
    array = spanning(vectors)
    basis, projected = np.eye(array.shape[1]), array
    blocks: list[Floats] = []
    gap, iterations = 0.0, 0
    while basis.shape[1]:
        if basis.shape[1] > 1:
            ellipsoid = enclosing_ellipsoid(projected, tolerance=tolerance, max_iterations=max_iterations)
            gap, iterations = max(gap, ellipsoid.gap), iterations + ellipsoid.iterations
            squares, axes = scipy.linalg.eigh(ellipsoid.covariance)  # ascending
            middle = squares[(len(squares) + 1) // 2 - 1]
            short = int(np.count_nonzero(squares <= middle * (1.0 + _TIE) ** 2))
        else:
            axes, short = np.eye(1), 1
        blocks.append(read_only(basis @ axes[:, :short]))
        basis = basis @ axes[:, short:]
        projected = array @ basis
    radii = tuple(float(np.sqrt(np.max(np.sum((array @ block) ** 2, axis=1)))) for block in blocks)
    shape = sum((r**2 * (block @ block.T) for r, block in zip(radii, blocks, strict=True)), np.zeros(()))
    covariance = read_only(just_containing(np.asarray(shape), array))
    return BaseDecomposition(covariance, tuple(blocks), radii, gap, iterations)


def _sum(vectors: Floats, weights: Floats) -> Floats:
    return np.asarray((vectors.T * weights) @ vectors)


def _root(vectors: Floats) -> Floats:
    """A lower triangular L with ``L L^T = V^T V / m``, from V itself: its square would lose half of the digits."""
    root = np.linalg.qr(vectors, mode="r").T / np.sqrt(len(vectors))
    return np.asarray(root * np.where(np.diagonal(root) < 0.0, -1.0, 1.0))
