"""Linear estimates against least squares in rational numbers, with noise of sizes from 1e-9 to 1e3 and redundant exact answers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from flint import fmpq, fmpq_mat

import bayesdp as bdp
from bayesdp.hierarchies import linear
from bayesdp.hierarchies.structure import NoStructure
from bayesdp.noise import DiscreteGaussian, Gaussian
from bayesdp.queries import Query, SumPart

TWO = bdp.Frame.of({"leaf": ["a", "b"], "k": ["x", "y"]})


def _rational(value):
    own = Fraction(float(value))
    return fmpq(own.numerator, own.denominator)


def _column(values):
    return fmpq_mat(len(values), 1, [_rational(value) for value in values])


def _matrix(rows, columns):
    return fmpq_mat(len(rows), columns, [fmpq(int(v)) for row in rows for v in row])


def least_squares(release, queries):
    """Means and standard errors of answers without any rounding until the end; None where a cell is open."""
    n = release.frame.size
    equal = [own for own in release.exact if own.sign == "="]
    rows = [row for own in equal for row in own.query.matrix.toarray()]
    totals = [value for own in equal for value in own.values.reshape(-1)]
    echelon, rank = _matrix([[*row, value] for row, value in zip(rows, totals, strict=True)], n + 1).rref()
    pivots = [next(j for j in range(n + 1) if echelon[i, j] != 0) for i in range(rank)]
    free = [j for j in range(n) if j not in pivots]
    start, left = fmpq_mat(n, 1), fmpq_mat(n, len(free))
    for i, p in enumerate(pivots):
        start[p, 0] = echelon[i, n]
    for c, j in enumerate(free):
        left[j, c] = 1
        for i, p in enumerate(pivots):
            left[p, c] = -echelon[i, j]
    noisy, answers, precision = [], [], []
    for own in release.measurements:
        noisy += list(own.query.matrix.toarray())
        answers += own.values.reshape(-1).tolist()
        variance = np.broadcast_to(own.law.variance(own.query.shape), own.query.shape).reshape(-1)
        precision += [1 / _rational(value) for value in variance]
    matrix = _matrix(noisy, n)
    seen, off = matrix * left, _column(answers) - matrix * start
    entries = [precision[i] * seen[i, c] for i in range(len(noisy)) for c in range(len(free))]
    weighted = fmpq_mat(len(noisy), len(free), entries)
    inner = seen.transpose() * weighted
    if free and inner.det() == 0:
        return None
    inverse = inner.inv() if free else inner
    cells = start + left * (inverse * (weighted.transpose() * off))
    found = []
    for query in queries:
        asked = _matrix(query.matrix.toarray(), n)
        mean, spread = asked * cells, asked * left
        variance = spread * inverse * spread.transpose()
        exact = [[own[i, i * k] for i in range(query.rows)] for own, k in ((mean, 0), (variance, 1))]
        mean, variance = (np.array([float(Fraction(int(v.p), int(v.q))) for v in own]) for own in exact)
        found.append((mean, np.sqrt(variance)))
    return found


def random_release(seed):
    """Sums of a small hierarchy, noisy and exact ones without regard to each other, weights now and then; and what to ask."""
    rng = np.random.default_rng([31, seed])
    leaves, kinds = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    table = {"leaf": [f"t{i}" for i in range(leaves)]}
    table["county"] = ("leaf", sorted(f"c{i}" for i in rng.integers(0, 2, leaves)))
    levels = {"leaf": ["leaf", "county", None], "k": ["k", "group", None], "sex": ["sex", None]}
    if kinds > 1:
        table |= {"k": [f"k{i}" for i in range(kinds)], "group": ("k", ["g0", *["g1"] * (kinds - 1)])}
    if rng.random() < 0.25:
        table["sex"] = ["f", "m"]
    frame = bdp.Frame.of(table)

    def sums():
        keep = [levels[dim][rng.integers(len(levels[dim]))] for dim in frame.dims]
        return Query(frame, (SumPart(frame, tuple(name for name in keep if name)),))

    truth = rng.poisson(10 ** rng.uniform(0, 2), frame.shape)
    queries = [sums() for _ in range(rng.integers(1, 5))]
    queries += [bdp.Identity(frame)] if rng.random() < 0.9 else []
    queries += [bdp.LinearQuery(frame, rng.integers(-2, 3, (2, frame.size)), ["p", "q"])] if rng.random() < 0.2 else []
    measured = []
    for query in queries:
        each = rng.random() < 0.1
        law = Gaussian(sigma=10 ** rng.uniform(-9, 3, query.shape if each and query.shape else None))
        measured.append(bdp.Measured(query, query.apply(truth) + law.draw(rng, query.shape), law))
    exact = [own for own in (sums() for _ in range(rng.integers(0, 3))) if not own.is_identity]
    stated = [bdp.Exact(own, own.apply(truth)) for own in exact]
    release = bdp.Release.from_published(frame, measured, stated, adding_up="warn")
    return release, [bdp.Identity(frame), sums(), sums(), bdp.Totals(frame)]


def agrees(estimate, queries, expected):
    for query, (mean, sd) in zip(queries, expected, strict=True):
        found = estimate.sd(query).reshape(-1)
        assert (found[sd == 0.0] == 0.0).all()
        np.testing.assert_allclose(found, sd, rtol=1e-6, atol=0)
        # As near as binary64 numbers of this size can be, and a ten-thousandth of a standard error.
        off = np.abs(estimate.mean(query).reshape(-1) - mean)
        assert (off <= 1e-4 * sd + 1e-13 * (1.0 + np.abs(mean))).all(), (off / sd).max()


def _no_tree(*_):
    raise NoStructure("not now")


@pytest.mark.parametrize(
    ("first", "last", "fewest"), [(0, 150, 25), pytest.param(150, 1000, 140, marks=pytest.mark.slow)]
)
def test_rational_least_squares(monkeypatch, first, last, fewest):
    """By both solvers: that of small tables always, that of trees wherever it does not refuse; `fewest` times it does not."""
    trees = 0
    for seed in range(first, last):
        release, queries = random_release(seed)
        expected = least_squares(release, queries)
        if expected is None:
            with pytest.raises(ValueError, match="does not follow from what is published"):
                bdp.gls(release)
            continue
        agrees(bdp.gls(release), queries, expected)
        with monkeypatch.context() as patch:
            patch.setattr(linear, "tree_form", _no_tree)
            agrees(bdp.gls(release), queries, expected)
        with monkeypatch.context() as patch:
            patch.setattr(linear, "MOST_CELLS", 0)
            try:
                tree = bdp.gls(release)
            except (ValueError, NotImplementedError):
                continue  # no tree, or noise that differs too much for one; `fewest` have an answer
            agrees(tree, queries, expected)
            trees += 1
    assert trees >= fewest


def _redundant(law, total=57):
    cells = [bdp.Measured(bdp.Identity(TWO), [[30, 17], [9, 5]], DiscreteGaussian(sigma=1.0))]
    more = [bdp.Measured(bdp.Totals(TWO), total, law), bdp.Measured(bdp.Margins(TWO, ["k"]), [40, 20], Gaussian(5.0))]
    return bdp.Release.from_published(TWO, [*cells, *more], [bdp.Exact(bdp.Margins(TWO, ["leaf"]), [43, 14])])


@pytest.mark.parametrize("law", [*map(DiscreteGaussian, (0.11, 3.0)), *map(Gaussian, (1e-8, 50.0))], ids=str)
def test_a_noisy_total_that_exact_ones_determine_says_nothing(law):
    release, queries = _redundant(law), [bdp.Identity(TWO), bdp.Margins(TWO, ["k"]), bdp.Totals(TWO)]
    estimate = bdp.gls(release)
    agrees(estimate, queries, least_squares(_redundant(Gaussian(1.0)), queries))
    assert estimate.ignored == ("1 noisy answers that exact ones determine",)


@pytest.mark.parametrize("most_cells", [linear.MOST_CELLS, 0])
def test_a_noisy_answer_that_contradicts_exact_ones_is_named(monkeypatch, most_cells):
    monkeypatch.setattr(linear, "MOST_CELLS", most_cells)
    bdp.gls(_redundant(DiscreteGaussian(2.0), 65))  # 4 standard deviations: once in 16,000 releases
    named = r"the noisy answer total is \d\d\S*, and exact answers say that it is 57: noise"
    for law, total in ((DiscreteGaussian(2.0), 71), (DiscreteGaussian(0.12), 58), (Gaussian(1e-8), 57.001)):
        with pytest.raises(ValueError, match=named):
            bdp.gls(_redundant(law, total))


def test_what_rounding_would_spoil_is_refused_and_named(monkeypatch):
    near = bdp.LinearQuery({"cell": ["a", "b"]}, [[10**5, 10**5 + 1], [10**5 + 1, 10**5 + 2]], ["near", "nearer"])
    release = bdp.Release.from_published(near.frame, [bdp.Measured(near, [1.0, 2.0], Gaussian(1.0))])
    with pytest.raises(ValueError, match=r"rounding errors grow by a factor of .* some of near\S*; near"):
        bdp.gls(release)
    monkeypatch.setattr(linear, "MOST_CELLS", 3)
    cells = bdp.Measured(bdp.Identity(TWO), [[30, 17], [9, 5]], Gaussian(1e3))
    kinds = bdp.Measured(bdp.Margins(TWO, ["k"]), [40, 20], Gaussian(1e-3))
    named = r"the noise of k=x \(sd 0.001\) is too small beside the largest \(sd 1e\+03\)"
    with pytest.raises(NotImplementedError, match=named):
        bdp.gls(bdp.Release.from_published(TWO, [cells, kinds]))
