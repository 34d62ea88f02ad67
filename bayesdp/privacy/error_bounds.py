"""The least error that any private mechanism can have, whatever its noise: a lower bound, with its constant.

Two tables differ by k moves of one record along v. A mechanism that is (epsilon, delta)-private cannot tell them apart better than
randomised response that flips with odds ``exp(k epsilon)`` and gives the truth away with probability ``delta_k`` (Kairouz, Oh and
Viswanath, 2015; group privacy). Whoever has to say, from its output, by which of 0 and ``k v`` the answers were moved, each being
as likely, has at least the expected squared error ``(1 - delta_k) k**2 |v|**2 exp(k epsilon) / (1 + exp(k epsilon))**2``.

For moves ``v_1, ..., v_m`` that can be made or not independently of one another, take the orthonormal directions ``q_j`` of Gram and
Schmidt. Given all other moves, move j shifts the answers along ``q_j`` by ``k <v_j, q_j>``, and so the errors along all
directions add up (Assouad's argument). No mechanism has a smaller worst expected squared error than

``(largest over k of (1 - delta_k) k**2 exp(k epsilon) / (1 + exp(k epsilon))**2) * sum_j <v_j, q_j>**2``,

on tables with enough records for all the moves.

Least Gaussian noise is within a stated factor of this bound, whatever the answers and the invariants (Theorem 3.11 of Gao, Gong
and Yu states such a factor without its constant). Let the moves v_i differ in d dimensions, let p be weights of them that add up to
1, and ``l_1 >= .. >= l_d`` the eigenvalues of ``M = sum_i p_i v_i v_i^T``.

* The longest remainder of a move after j directions is at least the mean of all remainders, ``tr(Q M)`` for the projection Q
  onto the other d - j dimensions, and so at least ``l_(j+1) + .. + l_d`` (Ky Fan). So the squares of the pivots,
  ``G = sum_j <v_j, q_j>**2`` where each move is the one with the longest remainder, are at least ``sum_i i l_i``.
* The least Gaussian noise has the error ``sigma**2 max_p (sum_i sqrt(l_i))**2`` (duality, `optimal_factorization`). By Cauchy
  and Schwarz ``(sum_i sqrt(l_i))**2 <= (1 + 1/2 + .. + 1/d) sum_i i l_i``, at most ``(1 + log d) G``.

So its error is at most ``sigma**2 / c * (1 + 1/2 + .. + 1/d)`` times that of any mechanism, with c the first factor of the bound
above: one logarithm of the dimension, where the theorem has two.

The mechanism of the theorem itself (`base_decomposition`) is within ``4 K**2 sigma**2 / c``, with ``K = 1 + floor(log2 d)``.

* A step of it has n dimensions left and the ellipsoid of least volume around the moves in these, of axes ``a_1 <= .. <= a_n``. By
  duality the ``a_i**2 / n`` are eigenvalues of an M as above, projected. Those of M are no smaller (Cauchy interlacing).
* The block takes s axes, at least half of them and none longer than the middle one a (of rank n/2, rounded up). So its moves are not
  longer than a, ``s r**2 <= s a**2``. At least ``h = floor(n/2) + 1`` axes are not shorter than a, so that
  ``G >= sum_i i l_i >= h (h + 1) / 2 * a**2 / n``, and ``s r**2 <= 2 s n / (h (h + 1)) * G``: below 4 G where s is half of n.
* k blocks with radii r_i need at most ``k sum_i s_i r_i**2``, and k is at most K. Blocks that take more than half leave fewer:
  ``k sum_i 2 s_i n_i / (h_i (h_i + 1))`` is at most ``3.06 K**2`` for all sizes of blocks up to 300 dimensions, by enumeration. The
  rest up to 4 is more than ties (1e-6) and gaps of the ellipsoids (1e-3) can add.

In the form of the theorem: ``sigma**2 / c <= 5 log(1/delta)`` for epsilon up to 1 and delta up to epsilon / 1000. For
``s = sqrt(2 log(1/delta)) / epsilon`` the tail ``P(Z > epsilon s - 1 / (2 s))``, which bounds the delta of normal noise of scale s, is
at most ``exp(epsilon / 2) / 2 * delta``: below delta, so that ``sigma <= s``. Some k has ``k epsilon`` between 1.93 and 2.93, where
``x**2 exp(x) / (1 + exp(x))**2`` is at least 0.411, and ``delta_k <= 18 delta / epsilon``: so ``c epsilon**2 >= 0.403``.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import scipy.linalg

from bayesdp import _validate
from bayesdp.privacy.factorization import MAX_DIMENSION, spanning
from bayesdp.privacy.gaussian import gaussian_sigma

_STEPS = 4.0
"""``x**2 exp(x) / (1 + exp(x))**2`` is largest at x = 2.4; more steps than up to here cannot help."""


def private_error_bound(vectors: npt.ArrayLike, epsilon: float, delta: float = 0.0) -> float:
    """Bound from below the expected total squared error of every (epsilon, delta)-private mechanism, for its worst table.

    Parameters
    ----------
    vectors : array_like, shape (m, n)
        Differences of neighbours in coordinates, one of each pair v, -v; they span the space.
    epsilon : float
        Loss for neighbouring tables.
    delta : float
        0 for pure differential privacy.

    Returns
    -------
    float
        In squared units of the vectors. It holds for mechanisms that are biased, too, and for noise that depends on the table,
        as long as tables with several records for each move are among those that are protected.

    Raises
    ------
    TypeError, ValueError
        If the vectors are not finite numbers or do not span the space, or a parameter is not valid.

    References
    ----------
    Kairouz, Oh and Viswanath (2015), The Composition Theorem for Differential Privacy; Yu (1997), Assouad, Fano, and Le Cam.

    Examples
    --------
    A single count: the Laplace mechanism has the error 2 / epsilon**2, and no other less than about a fifth of it.

    >>> print(f"{private_error_bound([[1.0]], 0.01) * 0.01**2:.4f}")
    0.4392
    """
    array = spanning(vectors)
    rate = _validate.positive_real(epsilon, "epsilon")
    chance = _validate.nonnegative_real(delta, "delta")
    if chance >= 1.0:
        raise ValueError(f"delta must be less than 1, got {chance!r}")
    # Pivots take the vector that is longest in what is left; any order gives a bound.
    triangle = scipy.linalg.qr(array.T, mode="r", pivoting=True)[0]
    most = max(1, math.ceil(_STEPS / rate))
    return _of_one_bit(rate, chance, most) * float(np.sum(np.diagonal(triangle) ** 2))


def gaussian_error_factor(dimension: int, epsilon: float, delta: float, *, method: str = "factorization") -> float:
    """How many times the least possible error correlated Gaussian noise has at most, for any answers and invariants.

    The least possible error is that of every (epsilon, delta)-private mechanism on its worst table (see `private_error_bound`). For
    one set of answers the ratio of the error of the noise and `private_error_bound` is smaller, and never above this factor (but
    for the relative gap of 1e-6, or 1e-3, to which the least Gaussian noise is found).

    Parameters
    ----------
    dimension : int
        Dimensions that the invariants leave free, ``n - n_c`` in the paper.
    epsilon, delta : float
        Loss for neighbouring tables; delta greater than zero.
    method : {"factorization", "ellipsoid"}
        That of `CorrelatedGaussian`: the least Gaussian noise, or the mechanism of the theorem.

    Returns
    -------
    float
        ``sigma**2 / c`` times ``1 + 1/2 + .. + 1/dimension``, or ``4 (1 + floor(log2 dimension))**2`` for the theorem's mechanism:
        sigma the scale of normal noise for a difference of 1, c the bound for one answer of sensitivity 1. The proofs are in
        the docstring of this module.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not valid, or the method is "ellipsoid" and there are more than 300 dimensions.

    References
    ----------
    Gao, Gong and Yu (2022), Theorem 3.11; Nikolov, Talwar and Zhang (2013); Edmonds, Nikolov and Ullman (2020).

    Examples
    --------
    >>> print(f"{gaussian_error_factor(1, 0.01, 1e-9):.0f} {gaussian_error_factor(100, 0.01, 1e-9):.0f}")
    48 248
    >>> print(f"{gaussian_error_factor(100, 0.01, 1e-9, method='ellipsoid'):.0f}")
    9381
    """
    size = _validate.positive_integer(dimension, "dimension")
    one = gaussian_sigma(epsilon, delta) ** 2 / private_error_bound([[1.0]], epsilon, delta)
    if _validate.choice(method, ("factorization", "ellipsoid"), "method") == "factorization":
        return one * float(np.sum(1.0 / np.arange(1.0, size + 1.0)))
    if size > MAX_DIMENSION:
        raise ValueError(
            f"dimension must be at most {MAX_DIMENSION} with method='ellipsoid', the most that the mechanism takes, got {size}"
        )
    return one * 4.0 * size.bit_length() ** 2  # bit_length is 1 + floor(log2), exactly


def _of_one_bit(epsilon: float, delta: float, most: int) -> float:
    """The largest error, over numbers of steps up to `most`, of an unknown bit times the number of steps."""
    steps = np.arange(1.0, min(most, 1_000_000) + 1)
    loss = steps * epsilon
    small = np.exp(-loss)  # exp(x) / (1 + exp(x))**2 without overflow
    # Of k neighbours in a row: delta (exp(k epsilon) - 1) / (exp(epsilon) - 1), at most 1.
    with np.errstate(over="ignore"):
        group = np.minimum(1.0, delta * np.expm1(np.minimum(loss, 700.0)) / np.expm1(epsilon)) if delta else 0.0 * loss
    return float(np.max((1.0 - group) * steps**2 * small / (1.0 + small) ** 2))
