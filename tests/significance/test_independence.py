"""Independence of rows and columns: p-values against enumeration of tables and noise, size, power, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy.special import gammaln

import bayesdp as bdp
from bayesdp.noise.base import NoiseLaw
from bayesdp.significance import independence_test_from_releases, odds_ratio_test_from_release
from bayesdp.significance.independence import _noise, _null

TABLE = xr.DataArray([[9, 2, 1], [3, 4, 6]], dims=("a", "b"), coords={"a": ["x", "y"], "b": ["u", "v", "w"]})
EXACT = [bdp.Exact(bdp.Margins(TABLE, ["a"]), TABLE.sum("b")), bdp.Exact(bdp.Margins(TABLE, ["b"]), TABLE.sum("a"))]
INVARIANTS = bdp.Invariants(bdp.Margins(TABLE, ["a"], ["b"]))


def released(
    values: np.ndarray, law: NoiseLaw, exact: list[bdp.Exact] = EXACT, frame: xr.DataArray = TABLE
) -> bdp.Release:
    return bdp.Release(bdp.Frame.of(frame), (bdp.Measured(bdp.Identity(frame), values, law),), tuple(exact))


def fiber() -> tuple[np.ndarray, np.ndarray]:
    """All tables with these margins, and their probabilities under independence."""
    tables = bdp.fibers.enumerate_fiber(released(TABLE.values, bdp.noise.LatticeLaplace(0.2)).fiber)
    logs = -gammaln(tables + 1.0).sum(axis=(1, 2))
    mass = np.exp(logs - logs.max())
    return tables, mass / mass.sum()


def test_expectation_and_covariance_of_the_null() -> None:
    tables, mass = fiber()
    expected, basis, spread = _null(TABLE.values.sum(axis=1), TABLE.values.sum(axis=0))
    np.testing.assert_allclose(np.tensordot(mass, tables, 1), expected, rtol=1e-10)
    along = (tables - expected).reshape(len(tables), -1) @ basis
    np.testing.assert_allclose(along.T @ (along * mass[:, None]), spread, atol=1e-10)
    np.testing.assert_allclose(basis.T @ basis, np.eye(2), atol=1e-12)


def test_p_value_against_all_tables_and_all_noise() -> None:
    """Every table of the fiber and every step of the lattice within 1e-9 of all mass; the statistic's matrix is found again."""
    epsilon, reach = 0.25, 26
    result = independence_test_from_releases(
        released(TABLE.values, bdp.noise.LatticeLaplace(epsilon)), draws=20_000, rng=4
    )
    tables, mass = fiber()
    expected, basis, spread = _null(TABLE.values.sum(axis=1), TABLE.values.sum(axis=0))
    steps = np.arange(-reach, reach + 1)
    i, j = (own.reshape(-1) for own in np.meshgrid(steps, steps))
    moves = np.stack([i, j, -i - j, -i, -j, i + j], axis=1)
    noise = np.exp(-epsilon * np.abs(moves).sum(axis=1))
    assert noise[(np.abs(i) == reach) | (np.abs(j) == reach)].sum() < 1e-4 * noise.sum()
    noise /= noise.sum()
    along = moves @ basis
    covariance = along.T @ (along * noise[:, None])
    inverse = np.linalg.inv(spread + covariance)

    def statistic(rows: np.ndarray) -> np.ndarray:
        return np.asarray(np.einsum("ti,ij,tj->t", rows, inverse, rows))

    observed = statistic((TABLE.values - expected).reshape(1, -1) @ basis)[0]
    assert result.statistic == pytest.approx(observed, rel=0.15)  # their covariance is from 2,000 draws
    exact = sum(
        m * float(noise @ (statistic(((own - expected).reshape(-1) @ basis) + along) >= observed * (1 - 1e-9)))
        for own, m in zip(tables, mass, strict=True)
    )
    # Six standard errors of 20,000 draws and 0.01 for the statistic's matrix; the seed is fixed.
    assert result.pvalue == pytest.approx(exact, abs=0.01 + 6 * np.sqrt(exact * (1 - exact) / 20_000))


@pytest.mark.parametrize(
    "law", [bdp.noise.LatticeLaplace(0.3), bdp.noise.ProjectedGaussian(2.0), bdp.noise.DiscreteLaplace(2.0)], ids=str
)
def test_size_is_at_most_alpha_and_power_is_above(law: NoiseLaw) -> None:
    """200 tables under independence, and 40 with a strong association; at alpha 0.1 the bound is four standard errors."""
    rng = np.random.default_rng(12)
    tables, mass = fiber()
    strong = mass * np.exp(2.0 * (tables[:, 0, 0] - tables[:, 0, 2]))
    for weights, runs in ((mass, 200), (strong / strong.sum(), 40)):
        p = []
        for k in rng.choice(len(tables), runs, p=weights):
            values = tables[k] + law.draw(rng, (2, 3), None, INVARIANTS)
            p.append(independence_test_from_releases(released(values, law), draws=99, rng=rng).pvalue)
        share = np.mean(np.array(p) <= 0.1)
        error = np.sqrt(0.09 / runs)
        if runs == 200:
            assert share < 0.1 + 4 * error
            assert share > 0.1 - 4 * error  # and it is not wasteful
        else:
            assert share > 0.1 + 4 * error


def test_two_by_two_is_near_the_two_sided_test() -> None:
    table = xr.DataArray([[12, 30], [25, 17]], dims=("a", "b"), coords={"a": [1, 2], "b": [1, 2]})
    exact = [bdp.Exact(bdp.Margins(table, ["a"]), table.sum("b")), bdp.Exact(bdp.Margins(table, ["b"]), table.sum("a"))]
    release = released(table.values, bdp.noise.ProjectedGaussian(2.0), exact, table)
    found = independence_test_from_releases(release, draws=20_000, rng=1)
    # The null is nearly symmetric: the p-value of |d| and twice the smaller one are nearly one.
    assert found.pvalue == pytest.approx(odds_ratio_test_from_release(release, "two-sided").pvalue, abs=0.003)
    assert found.degrees == 1


def test_tables_as_far_off_as_the_released_one_count() -> None:
    """Without noise to speak of, as Fisher's test: 34 of 70 tables are [[3, 1], [1, 3]], its mirror image, or further off; 2 further.

    So 0.486 within five standard errors of 4,000 draws. And the least p-value is 1 / (1 + draws).
    """
    labels = {"a": ["u", "v"], "b": ["x", "y"]}
    for counts, draws, expected, error in (
        ([[3, 1], [1, 3]], 4000, 34 / 70, 5 * np.sqrt(0.25 / 4000)),
        ([[40, 0], [0, 40]], 99, 0.01, 1e-12),
    ):
        table = xr.DataArray(counts, dims=("a", "b"), coords=labels)
        exact = [bdp.Exact(bdp.Margins(table, [dim]), table.sum([d for d in labels if d != dim])) for dim in labels]
        release = released(table.values, bdp.noise.LatticeLaplace(50.0), exact, table)
        assert independence_test_from_releases(release, draws=draws, rng=1).pvalue == pytest.approx(expected, abs=error)


def test_several_releases_are_combined_by_precision() -> None:
    """A precise release and a noisy one: near the p-value of the precise one alone. Two equal ones: near half the variance."""
    rng = np.random.default_rng(3)
    precise, rough = bdp.noise.ProjectedGaussian(1.0), bdp.noise.ProjectedGaussian(60.0)
    one = released(TABLE.values + precise.draw(rng, (2, 3), None, INVARIANTS), precise)
    two = released(TABLE.values + rough.draw(rng, (2, 3), None, INVARIANTS), rough)
    alone = independence_test_from_releases(one, draws=4000, rng=5)
    both = independence_test_from_releases([one, two], draws=4000, rng=5)
    assert both.pvalue == pytest.approx(alone.pvalue, abs=0.03)
    assert both.statistic == pytest.approx(alone.statistic, rel=0.1)
    with pytest.raises(ValueError, match="counted twice"):
        independence_test_from_releases([one, one])


def test_empty_rows_and_determined_tables() -> None:
    table = xr.DataArray(
        [[9, 2, 1], [3, 4, 6], [0, 0, 0]], dims=("a", "b"), coords={"a": list("xyz"), "b": list("uvw")}
    )
    exact = [bdp.Exact(bdp.Margins(table, ["a"]), table.sum("b")), bdp.Exact(bdp.Margins(table, ["b"]), table.sum("a"))]
    found = independence_test_from_releases(
        released(table.values, bdp.noise.ProjectedGaussian(1.0), exact, table), draws=199, rng=1
    )
    assert found.degrees == 2
    zero = table * 0
    exact = [bdp.Exact(bdp.Margins(table, ["a"]), zero.sum("b")), bdp.Exact(bdp.Margins(table, ["b"]), zero.sum("a"))]
    none = independence_test_from_releases(
        released(zero.values, bdp.noise.ProjectedGaussian(1.0), exact, table), draws=199
    )
    assert (none.pvalue, none.degrees) == (1.0, 0)
    assert "no test" in none.claim
    assert "at least 0.005" in found.claim


def test_noise_is_drawn_under_the_invariants_of_its_own_release() -> None:
    """A release that keeps the rows only, beside one that keeps both margins: its noise changes the columns.

    4,000 draws of six cells with the closed variance of the law: each within five standard errors.
    """
    law, rows = bdp.noise.ProjectedGaussian(2.0), bdp.Invariants(bdp.Margins(TABLE, ["a"]))
    part = bdp.Measured(bdp.Identity(TABLE), TABLE.values + 0.0, law, invariants=rows)
    joint = bdp.Release(bdp.Frame.of(TABLE), (part,), tuple(EXACT))
    [noise] = _noise(joint, 4000, np.random.default_rng(2))
    np.testing.assert_allclose(noise.sum(axis=2), 0.0, atol=1e-9)
    variance = law.variance((2, 3), rows)
    assert variance is not None
    assert np.all(np.abs(noise.var(axis=0) / variance - 1.0) < 5 * np.sqrt(2 / 4000))


def test_what_cannot_be_tested_is_refused() -> None:
    law = bdp.noise.LatticeLaplace(0.2)
    some = bdp.Measured(
        bdp.Identity(TABLE), np.where(TABLE == 9, np.nan, TABLE), bdp.noise.DiscreteLaplace(1.0), unmeasured=TABLE == 9
    )
    four = bdp.Exact(bdp.LinearQuery(TABLE, np.eye(6, dtype=int)[:4], list("pqrs")), [9, 2, 1, 3])  # also rank 4
    wide = xr.DataArray(np.ones((8, 8), dtype=int), dims=("a", "b"), coords={"a": range(8), "b": range(8)})
    both = [bdp.Exact(bdp.Margins(wide, [dim]), np.full(8, 8)) for dim in ("a", "b")]
    good = released(TABLE.values, law)
    rows = bdp.Release(
        bdp.Frame.of(TABLE),
        (bdp.Measured(bdp.Margins(TABLE, ["a"]), [12, 13], bdp.noise.DiscreteLaplace(1.0)),),
        tuple(EXACT),
    )
    cases: list[tuple[Any, type[Exception], str]] = [
        (
            released(TABLE.values, bdp.noise.DiscreteLaplace(1.0), EXACT[:1]),
            ValueError,
            "leaves 4 dimensions free, and margins leave 2",
        ),
        (rows, ValueError, "noisy measurements of all cells"),
        (
            released(TABLE.values, bdp.noise.BoundaryInflatedDiscreteLaplace(2.0, (0.0, 50.0))),
            NotImplementedError,
            "depends on the confidential cells",
        ),
        (bdp.Release(bdp.Frame.of(TABLE), (some,), tuple(EXACT)), ValueError, "noisy measurements of all cells"),
        (
            released(TABLE.values, law, [*EXACT, bdp.Exact(bdp.Identity(TABLE), TABLE.values + 1, "<=")]),
            ValueError,
            "leaves 2 dimensions free and has bounds",
        ),
        (released(TABLE.values, bdp.noise.DiscreteLaplace(1.0), [four]), ValueError, "both margins .* and no more"),
        (released(wide.values, bdp.noise.LatticeLaplace(5.0, "l2"), both, wide), NotImplementedError, "by a chain"),
        ([], ValueError, "at least one release"),
        (bdp.Release.from_published(TABLE, [], EXACT), ValueError, "have none"),
    ]
    for given, error, message in cases:
        with pytest.raises(error, match=message):
            independence_test_from_releases(given, draws=99)
    with pytest.raises(ValueError, match="at least 99"):
        independence_test_from_releases(good, draws=20)
