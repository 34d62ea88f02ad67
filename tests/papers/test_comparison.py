"""The partial order of guarantees: cases decided by hand, and the order's own axioms on all pairs of a list."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bayesdp.invariants import Invariants
from bayesdp.papers.semi_dp import compare
from bayesdp.privacy import SemiGuarantee, approximate_dp, composition_first, gaussian_dp, semi_first, tradeoff
from bayesdp.queries import Margins, Totals

TABLE = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
TOTAL, COUNTY = Invariants(Totals(TABLE)), Invariants(Margins(TABLE, ["county"]))
EDUCATION, BOTH = Invariants(Margins(TABLE, ["education"])), Invariants(Margins(TABLE, ["county"], ["education"]))
F, G = approximate_dp(1.0), gaussian_dp(1.0)


def guarantee(f: object = F, a: int = 1, t: Invariants | None = None, n: str = "substitution") -> SemiGuarantee:
    return SemiGuarantee(f, a, t, n)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("first", "second", "answer", "why"),
    [
        (guarantee(), guarantee(), "equal", "equal up to"),
        (guarantee(approximate_dp(0.5)), guarantee(), "stronger", "larger"),
        (guarantee(gaussian_dp(2.0)), guarantee(G), "weaker", "mu = 2 and 1"),
        (guarantee(t=COUNTY), guarantee(), "weaker", "more invariants"),
        (guarantee(t=TOTAL), guarantee(t=BOTH), "stronger", "fewer invariants"),
        # Substitution keeps the number of records anyway.
        (guarantee(), guarantee(t=TOTAL), "equal", "same invariants"),
        (guarantee(gaussian_dp(1.0)), guarantee(gaussian_dp(0.5), t=TOTAL), "weaker", "same invariants"),
        (guarantee(n="add-remove"), guarantee(n="add-remove", t=TOTAL), "stronger", "fewer invariants"),
        (guarantee(t=COUNTY), guarantee(t=EDUCATION), "not comparable", "each keeps an invariant"),
        (guarantee(a=2), guarantee(), "stronger", "reaches further"),
        (guarantee(F.group(2), 2), guarantee(), "not comparable", "smaller"),
        (guarantee(F), guarantee(G), "not comparable", "cross"),
        (guarantee(a=2, n="add-remove"), guarantee(), "stronger", "reaches further"),
        (guarantee(a=1, n="add-remove"), guarantee(), "not comparable", "neither distance"),
        (guarantee(a=2, n="add-remove", t=TOTAL), guarantee(t=TOTAL), "equal", "equally far"),
        (guarantee(a=2, t=COUNTY), guarantee(a=5, n="add-remove", t=COUNTY), "equal", "equally far"),
        # With the same number of records tables are an even number of additions and removals apart.
        (guarantee(a=2, n="add-remove", t=TOTAL), guarantee(a=3, n="add-remove", t=TOTAL), "equal", "equally far"),
        (guarantee(a=2, n="add-remove", t=BOTH), guarantee(a=3, n="add-remove", t=BOTH), "equal", "equally far"),
        (guarantee(a=3, n="add-remove", t=TOTAL), guarantee(a=4, n="add-remove", t=TOTAL), "weaker", "less far"),
        (guarantee(a=2, n="add-remove"), guarantee(a=3, n="add-remove"), "weaker", "less far"),
        # All pairs of the second are among those of the first, which is also about tables with other totals.
        (guarantee(a=2, n="add-remove"), guarantee(a=3, n="add-remove", t=TOTAL), "stronger", "equally far"),
    ],
)
def test_cases_by_hand(first: SemiGuarantee, second: SemiGuarantee, answer: str, why: str) -> None:
    found = compare(first, second)
    assert found.answer == answer
    assert why in str(found)
    turned = {"stronger": "weaker", "weaker": "stronger"}
    assert compare(second, first).answer == turned.get(answer, answer)


def test_example_6_and_proposition_15() -> None:
    # (D_t, A_a, f^a) is weaker than group privacy (D, A_a, f^a), which is what f-DP gives.
    semi, group = guarantee(F.group(2), 2, COUNTY), guarantee().group(2)
    assert group.tradeoff == F.group(2)
    assert compare(semi, group).answer == "weaker"


def test_proposition_21() -> None:
    factors = [approximate_dp(0.5)] * 2
    first, late = (SemiGuarantee(own(factors, 2), 2, COUNTY) for own in (semi_first, composition_first))
    assert compare(first, late).answer == "stronger"


def test_it_is_a_partial_order() -> None:
    curves = [F, G, approximate_dp(0.5, 0.01), tradeoff([0.6, 0.4], [0.4, 0.6]), gaussian_dp(0.5)]
    listed = [guarantee(f, a, t) for f, a, t in itertools.product(curves, (1, 2), (None, TOTAL, COUNTY, EDUCATION))]
    above = {
        (i, j): compare(a, b).answer in ("stronger", "equal")
        for (i, a), (j, b) in itertools.product(enumerate(listed[::3]), repeat=2)
    }
    size = len(listed[::3])
    for i, j, k in itertools.product(range(size), repeat=3):
        if above[i, j] and above[j, k]:
            assert above[i, k]
    assert all(above[i, i] for i in range(size))


def test_smooth_curves_are_compared_where_they_are_closest() -> None:
    # G_mu against f_{epsilon, delta(epsilon)}, which touches it at two points and lies below it elsewhere.
    from bayesdp.privacy import gaussian_delta

    below = approximate_dp(0.7, gaussian_delta(0.7, 1.0))
    assert compare(guarantee(G), guarantee(below)).answer == "stronger"
    nearly = approximate_dp(0.7, gaussian_delta(0.7, 1.0) - 1e-7)
    found = compare(guarantee(G), guarantee(nearly))
    assert found.answer == "not comparable"
    assert "cross" in str(found)
    assert compare(guarantee(G), guarantee(nearly), tolerance=1e-6).answer == "stronger"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: compare(guarantee(), F), TypeError, "second must be a SemiGuarantee"),  # type: ignore[arg-type]
        (lambda: guarantee("f"), TypeError, "tradeoff must be a trade-off function"),
        (lambda: guarantee(a=0), ValueError, "adjacency must be"),
        (lambda: guarantee(n="swap"), ValueError, "neighbours"),
        (lambda: SemiGuarantee(F, 1, TABLE), TypeError, "invariants must be an Invariants or None"),  # type: ignore[arg-type]
        (
            lambda: compare(guarantee(t=TOTAL), guarantee(t=Invariants(Totals({"x": ["a", "b"]})))),
            ValueError,
            "one table",
        ),
    ],
)
def test_bad_arguments_are_named(call: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()  # type: ignore[operator]


def test_groups_need_a_way_from_table_to_table() -> None:
    # With both margins of a 2x2 table no two different tables are one record apart: f of adjacency 1 is about nothing.
    for own in (guarantee(t=BOTH), guarantee(t=COUNTY), guarantee(n="add-remove", t=TOTAL)):
        with pytest.raises(ValueError, match=r"group\(2\) needs a guarantee without invariants"):
            own.group(2)
        assert own.group(1) == own
    assert guarantee(t=TOTAL).group(2) == guarantee(F.group(2), 2, TOTAL)
    assert guarantee(n="add-remove").group(3).adjacency == 3


@pytest.mark.parametrize("t", [None, TOTAL, COUNTY, BOTH])
def test_the_order_of_distances_is_that_of_the_pairs_of_tables(t: Invariants | None) -> None:
    """Every pair of tables of up to four records: contained just where `compare` says so, for those with the total fixed."""
    tables = [x for x in itertools.product(range(4), repeat=4) if sum(x) <= 4]
    kept = np.zeros((1, 4)) if t is None else t.matrix.toarray()
    answers = [tuple((kept @ x).tolist()) for x in tables]
    distances = {
        sum(abs(a - b) for a, b in zip(x, y, strict=True))
        for (x, p), (y, q) in itertools.combinations(zip(tables, answers, strict=True), 2)
        if p == q
    }
    assert (t is None) == any(d % 2 for d in distances)
    for a, b in itertools.product(range(1, 7), repeat=2):
        answer = compare(guarantee(a=a, n="add-remove", t=t), guarantee(a=b, n="add-remove", t=t)).answer
        same = {d for d in distances if d <= a} == {d for d in distances if d <= b}
        if t is not BOTH:  # of one 2x2 table all distances are multiples of 4, which `compare` does not look at
            assert (answer == "equal") == same
        elif answer == "equal":
            assert same
