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
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import scipy.linalg

from bayesdp import _validate
from bayesdp.privacy.shapes import spanning

__all__ = ["private_error_bound"]

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


def _of_one_bit(epsilon: float, delta: float, most: int) -> float:
    """The largest error, over numbers of steps up to `most`, of an unknown bit times the number of steps."""
    steps = np.arange(1.0, min(most, 1_000_000) + 1)
    loss = steps * epsilon
    small = np.exp(-loss)  # exp(x) / (1 + exp(x))**2 without overflow
    # Of k neighbours in a row: delta (exp(k epsilon) - 1) / (exp(epsilon) - 1), at most 1.
    with np.errstate(over="ignore"):
        group = np.minimum(1.0, delta * np.expm1(np.minimum(loss, 700.0)) / np.expm1(epsilon)) if delta else 0.0 * loss
    return float(np.max((1.0 - group) * steps**2 * small / (1.0 + small) ** 2))
