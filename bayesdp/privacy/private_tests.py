"""Whether a test is differentially private: Lemma 34."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesdp._validate import positive_integer
from bayesdp.fibers import Fiber
from bayesdp.privacy.tradeoffs.base import TradeOff
from bayesdp.sensitivities.differences import conforming_pairs

type Ints = npt.NDArray[np.int64]

_ROUNDING = 1e-12


@dataclass(frozen=True)
class PrivateTest:
    """Lemma 34 in numbers. Made by `private_test`.

    Attributes
    ----------
    excess : float
        The largest ``phi(X) - (1 - f(phi(X')))`` of the pairs: above 0 if the test is not private. ``-inf`` where there is no pair.
    pair : tuple of two int64 arrays, each ``(*table)``, or None
        The X and X' at which it is that large.
    pairs : int
        How many ordered pairs were compared.
    """

    excess: float
    pair: tuple[Ints, Ints] | None
    pairs: int

    @property
    def private(self) -> bool:
        """Whether the test is f-DP for these pairs, up to rounding errors of 1e-12."""
        return self.excess <= _ROUNDING


def private_test(
    test: Callable[[Ints], float],
    tradeoff: TradeOff,
    fiber: Fiber,
    adjacency: int,
    neighbours: str = "substitution",
    *,
    limit: int = 2000,
) -> PrivateTest:
    """Whether publishing the outcome of a test is ``(D_t, A_a, f)``-DP (Lemma 34).

    A test rejects a table X with probability phi(X). Its outcome is private just if ``phi(X) <= 1 - f(phi(X'))`` for all X and X'
    that are adjacent, in both orders. f is written here as a function of the type I error; in the paper, as
    one of its complement.

    Parameters
    ----------
    test : callable
        Table, an int64 array of shape ``(*table)``, to the probability of rejection.
    tradeoff : TradeOff
        f. Adjacency is mutual, so that a trade-off function that is not symmetric promises ``max(f, f^-1)``, and that is what is asked
        for: the lemma as printed is right for symmetric f only.
    fiber : Fiber
        Tables that share the exact answers; without exact answers, none are shared.
    adjacency : int
        a: pairs of tables up to so many records apart are adjacent.
    neighbours : {"substitution", "add-remove"}
    limit : int
        Largest number of tables.

    Returns
    -------
    PrivateTest

    Raises
    ------
    TypeError, ValueError
        If an argument is not one of those above, the fiber is infinite or has more than `limit` tables, or the test
        returns no probability.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Lemma 34; Awan and Vadhan (2023), Lemma 4.1.

    Examples
    --------
    A test on 2 x 2 tables with given margins that always rejects at x11 = 3 is no private one; randomised response is.

    >>> from bayesdp.measurements import Exact
    >>> from bayesdp.privacy import approximate_dp
    >>> from bayesdp.queries import Margins
    >>> margins = Margins({"group": ["a", "b"], "success": ["yes", "no"]}, ["group"], ["success"])
    >>> fiber = Fiber.of([Exact(margins, margins.apply([[2, 1], [1, 2]]))])
    >>> private_test(lambda x: float(x[0, 0] == 3), approximate_dp(1.0), fiber, 3).private
    False
    >>> private_test(lambda x: 0.7 if x[0, 0] == 3 else 0.3, approximate_dp(1.0), fiber, 3).private
    True
    """
    if not callable(test):
        raise TypeError(f"test must be a function of a table, got {type(test).__name__}")
    if not isinstance(tradeoff, TradeOff):
        raise TypeError(f"tradeoff must be a trade-off function, got {type(tradeoff).__name__}")
    positive_integer(adjacency, "adjacency")
    f = tradeoff.symmetrised()
    pairs = conforming_pairs(fiber, adjacency, neighbours, limit=limit)
    phi: dict[bytes, float] = {}

    def rejects(table: Ints) -> float:
        key = table.tobytes()
        if key not in phi:
            value = float(test(table))
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"test must return a probability between 0 and 1, got {value!r}")
            phi[key] = value
        return phi[key]

    best, worst = -np.inf, None
    for x, y in pairs:
        for one, two in ((x, y), (y, x)):
            excess = rejects(one) - float(f.power(rejects(two)))
            if excess > best:
                best, worst = excess, (one, two)
    return PrivateTest(float(best), worst, 2 * len(pairs))
