"""What a mechanism that is f-DP for any two neighbours promises once exact answers are published beside it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy.typing as npt

from bayesdp._validate import integer_array
from bayesdp.fibers import Fiber
from bayesdp.fibers.fiber import ExactAnswers
from bayesdp.privacy.comparison import SemiGuarantee
from bayesdp.privacy.tradeoffs.base import TradeOff
from bayesdp.privacy.tradeoffs.laws import approximate_dp
from bayesdp.sensitivities.differences import Features, record_distance
from bayesdp.sensitivities.semi_adjacent import SemiAdjacency, semi_adjacency


def full_characterization(
    tradeoff: TradeOff,
    table: npt.ArrayLike,
    other: npt.ArrayLike,
    neighbours: str = "substitution",
    *,
    exact: Fiber | Iterable[ExactAnswers] | None = None,
) -> TradeOff:
    """How well an f-DP mechanism hides which of two tables it was given (Proposition 11): at least ``f`` as often as they are apart.

    A mechanism that is f-DP for tables one record apart has ``T(M(x), M(x')) >= f^{o d(x, x')}`` for tables d(x, x') records
    apart. The steps between them need not keep the exact answers, so that these do not enter the bound; they say
    which pairs are still in question.

    Parameters
    ----------
    tradeoff : TradeOff
        f, for one record in the sense of `neighbours`.
    table, other : array_like of int, equal shapes
        Two tables that could be the confidential one. The bound is printed from them: use hypothetical ones.
    neighbours : {"substitution", "add-remove"}
        The metric.
    exact : Fiber, or iterable of Exact, optional
        If given, both tables must have these answers.

    Returns
    -------
    TradeOff
        ``1 - alpha`` for equal tables.

    Raises
    ------
    TypeError, ValueError
        If an argument is not one of those above, the totals differ under substitution (no number of steps leads from one table to
        the other), or a table has other answers than `exact`.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Proposition 11.

    Examples
    --------
    >>> from bayesdp.privacy import gaussian_dp
    >>> full_characterization(gaussian_dp(0.5), [[2, 0], [0, 1]], [[1, 1], [1, 0]])
    GaussianTradeOff(mu=1.0)
    """
    _checked(tradeoff)
    distance = record_distance(table, other, neighbours)
    if exact is not None:
        fiber = _fiber(exact)
        for own, name in ((table, "table"), (other, "other")):
            if not fiber.contains(integer_array(own, name)):
                raise ValueError(f"{name} does not have the answers of exact: Proposition 11 is about tables that have")
    if distance is None:
        raise ValueError(
            "no number of substitutions leads from table to other, because their totals differ; neighbours='add-remove' is the "
            "metric for an unknown number of records"
        )
    return tradeoff.group(distance) if distance else approximate_dp(0.0)


def semi_guarantee(
    tradeoff: TradeOff, exact: Fiber | Iterable[ExactAnswers], convention: str = "worst", *, limit: int = 1000
) -> SemiGuarantee:
    """What an f-DP mechanism promises together with exact answers t (Proposition 15): ``f^{o a(t)}`` for tables a(t) records apart.

    Where only an upper bound of the semi-adjacent parameter is known, that is used in its place: more pairs, a larger loss,
    and still true.

    Parameters
    ----------
    tradeoff : TradeOff
        f, for one substituted record.
    exact : Fiber, or iterable of Exact
    convention : {"worst", "infimum"}
    limit : int
        See `semi_adjacency`.

    Returns
    -------
    SemiGuarantee

    Raises
    ------
    TypeError, ValueError
        If an argument is not one of those above, no upper bound is known, or nothing is left to protect (a(t) = 0).

    Examples
    --------
    >>> from bayesdp.measurements import Exact
    >>> from bayesdp.privacy import gaussian_dp
    >>> from bayesdp.queries import Margins
    >>> table = {"sex": ["F", "M"], "admitted": ["no", "yes"]}
    >>> margins = [Exact(Margins(table, ["sex"]), [4, 5]), Exact(Margins(table, ["admitted"]), [3, 6])]
    >>> found = semi_guarantee(gaussian_dp(0.5), margins)
    >>> found.tradeoff, found.adjacency
    (GaussianTradeOff(mu=1.5), 3)
    """
    _checked(tradeoff)
    fiber = _fiber(exact)
    return _guarantee(tradeoff, fiber, semi_adjacency(fiber, convention, limit=limit))


def margin_guarantee(
    tradeoff: TradeOff, exact: Fiber | Iterable[ExactAnswers], convention: str = "worst"
) -> SemiGuarantee:
    """What an f-DP mechanism promises together with one-way margins of p features (Corollary 18): ``f^{o (p + 1)}``.

    For tables a(t) records apart, where a(t) is at most p + 1 (Theorem 16). `semi_guarantee` states ``f^{o a(t)}``
    for the same tables, which is never less; the corollary needs no knowledge of the counts for its loss.

    Parameters
    ----------
    tradeoff : TradeOff
        f, for one substituted record.
    exact : Fiber, or iterable of Exact
        One-way margins: sums over features of a record that share no dimension (Remark 17).
    convention : {"worst", "infimum"}
        Of a(t).

    Returns
    -------
    SemiGuarantee

    Raises
    ------
    TypeError, ValueError
        If an argument is not one of those above, the answers are not one-way margins, or nothing is left to protect (a(t) = 0).

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Corollary 18.

    Examples
    --------
    >>> from bayesdp.measurements import Exact
    >>> from bayesdp.privacy import gaussian_dp
    >>> from bayesdp.queries import Margins
    >>> table = {"sex": ["F", "M"], "admitted": ["no", "yes"]}
    >>> margins = Exact(Margins(table, ["sex"], ["admitted"]), Margins(table, ["sex"], ["admitted"]).apply([[5, 5], [5, 5]]))
    >>> for state in (margin_guarantee, semi_guarantee):
    ...     print(state(gaussian_dp(0.5), [margins]).tradeoff, state(gaussian_dp(0.5), [margins]).adjacency)
    GaussianTradeOff(mu=1.5) 2
    GaussianTradeOff(mu=1.0) 2
    """
    _checked(tradeoff)
    fiber = _fiber(exact)
    features = Features.of(fiber)
    if features is None:
        raise ValueError(
            "exact must be one-way margins, that is sums over features that share no dimension; for other exact answers use "
            "semi_guarantee"
        )
    return _guarantee(tradeoff, fiber, semi_adjacency(fiber, convention), len(features.margins) + 1)


def _guarantee(tradeoff: TradeOff, fiber: Fiber, found: SemiAdjacency, steps: int | None = None) -> SemiGuarantee:
    if found.upper is None:
        raise ValueError(f"exact has no known semi-adjacent parameter, nor an upper bound of it: {found.reason}")
    if not found.upper:
        raise ValueError(
            "exact leaves every record one possible cell (a(t) = 0), so that there is nothing left to protect"
        )
    return SemiGuarantee(tradeoff.group(steps or found.upper), found.upper, fiber.invariants)


def _fiber(exact: Fiber | Iterable[ExactAnswers]) -> Fiber:
    return exact if isinstance(exact, Fiber) else Fiber.of(exact)


def _checked(tradeoff: TradeOff) -> None:
    if not isinstance(tradeoff, TradeOff):
        raise TypeError(f"tradeoff must be a trade-off function, got {type(tradeoff).__name__}")
