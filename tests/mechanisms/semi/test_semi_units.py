"""Semi-DP for queries with real coefficients: exact multiples of a unit, losses and posteriors by enumeration, files."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.invariants import Invariants
from bayesdp.mechanisms import SemiGaussian, SemiKNorm, SemiNorm, stated
from bayesdp.queries import LinearQuery, Margins, Query
from tests.mechanisms.semi.test_semi_queries import changes_by_pairs, tables_of

TABLE = {"sex": ["F", "M"], "income": [0.5, 1.2, 2.0]}
"""Income in thousands, with one decimal."""
INCOME = np.tile([0.5, 1.2, 2.0], 2)
BY_SEX = Margins(TABLE, ["sex"])
OF_WOMEN = np.repeat([1.0, 0.0], 3)
SUMS = LinearQuery.of_values(TABLE, [INCOME, INCOME * OF_WOMEN], ["income", "income of women"])
COUNTS = np.array([[2, 0, 1], [0, 1, 1]])


def test_coefficients_are_the_decimals_that_they_print_as() -> None:
    assert SUMS.unit == Fraction(1, 10)
    assert SUMS.matrix.toarray().tolist() == [[5, 12, 20] * 2, [5, 12, 20, 0, 0, 0]]
    assert SUMS.apply(COUNTS).tolist() == [62, 30]
    assert SUMS.in_unit(SUMS.apply(COUNTS)).tolist() == [6.2, 3.0]  # the sum of floats is 6.199999999999999 or so
    for matrix in (INCOME.astype(np.float32), [Decimal(str(x)) for x in INCOME], [Fraction(str(x)) for x in INCOME]):
        other = LinearQuery.of_values(TABLE, matrix, ["income"])
        assert other.unit == Fraction(1, 10)
        assert other.matrix.toarray().tolist() == [[5, 12, 20] * 2]
    whole = LinearQuery.of_values(TABLE, INCOME * 20, ["income"], unit=1)
    assert whole == LinearQuery(TABLE, [[10, 24, 40] * 2], ["income"])
    assert "unit" not in whole.describe()["parts"][0]
    finer = LinearQuery.of_values(TABLE, INCOME, ["income"], unit=0.05)
    assert finer.unit == Fraction(1, 20)
    assert finer.matrix.toarray().tolist() == [[10, 24, 40] * 2]
    assert Query.from_description(SUMS.describe(), SUMS.frame) == SUMS
    stack = SUMS + BY_SEX
    assert stack.unit is None
    assert stack.in_unit([62, 30, 3, 2]).tolist() == pytest.approx([6.2, 3.0, 3.0, 2.0])
    labelled = xr.DataArray(COUNTS, dims=list(TABLE), coords=TABLE)
    assert SUMS.in_unit(SUMS.apply(labelled)).sel(answer="income").item() == 6.2
    third = LinearQuery.of_values(TABLE, [[Fraction(1, 3)] * 6], ["share"])
    assert Query.from_description(third.describe(), third.frame).unit == Fraction(1, 3)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"unit": 0.2}, ValueError, r"whole multiples of the unit 0\.2, but the entry of income and .*0\.5.* is 0\.5"),
        ({"unit": 0.0}, ValueError, "unit must be greater than 0"),
        ({"unit": "0.1"}, TypeError, "unit must be a real number"),
        ({"matrix": [[np.nan] * 6]}, ValueError, r"the entry of income and .* must be finite"),
        ({"matrix": [[True] * 6]}, TypeError, r"the entry of income and .* must be a real number"),
        ({"matrix": [[0.1] * 5]}, ValueError, r"matrix must have shape \(1, 6\)"),
        ({"matrix": [[1e-9, 1e9, 0, 0, 0, 0]]}, ValueError, r"below 2\*\*53, but the entry of income and"),
        ({"names": "income"}, TypeError, "names must be a sequence"),
    ],
)
def test_bad_coefficients(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        LinearQuery.of_values(**{"frame": TABLE, "matrix": [INCOME], "names": ["income"], **arguments})


@pytest.mark.parametrize("text", ["1", "0", "2/4", "1/0", "-1/2", "0.1", 3, "1/" + "9" * 99, " 1/2"])
def test_a_file_states_a_unit_in_one_way(text: Any) -> None:
    description = SUMS.describe()
    description["parts"][0]["unit"] = text
    with pytest.raises(ValueError, match="unit of a query"):
        Query.from_description(description, SUMS.frame)


def made(kind: str, **more: Any) -> Any:
    own = {"query": SUMS, **more}
    if kind == "gaussian":
        return SemiGaussian(BY_SEX, 0.8, **own)
    if kind == "k-norm":
        return SemiKNorm(BY_SEX, 0.8, **own)
    return SemiNorm(BY_SEX, 0.8, kind, **own)


KINDS = ["gaussian", "k-norm", "l2"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_of_all_pairs_and_files(kind: str, tmp_path: Path) -> None:
    mechanism = made(kind)
    found = np.array(sorted(changes_by_pairs(SUMS, Invariants(BY_SEX), mechanism.adjacency)))
    if kind == "gaussian":
        assert np.linalg.norm(found, axis=1).max() / mechanism.sigma == pytest.approx(0.8, rel=1e-12)
        # In thousands: the same as by real arithmetic.
        real = np.linalg.norm(found * 0.1, axis=1).max() / 0.8
        assert float(mechanism.query.unit) * mechanism.sigma == pytest.approx(real, rel=1e-12)
    else:
        relations, law = mechanism.answer_invariants, mechanism.law
        far = 30 * found
        worst = max(
            abs(law.logp(y, 0 * x, relations) - law.logp(y, x, relations)) for x, y in zip(found, far, strict=True)
        )
        assert worst == pytest.approx(0.8, rel=1e-7)
    assert "counted in units of 0.1" in str(mechanism.guarantee).replace("\n    ", " ")
    release = mechanism.release(COUNTS, rng=5)
    [own] = release.measurements
    assert "in units of 0.1" in repr(own)
    assert np.array_equal(own.in_unit.values, own.values / 10)
    release.to_netcdf(tmp_path / "release.nc")
    again = bdp.Release.from_netcdf(tmp_path / "release.nc")
    assert again == release
    assert again.measurements[0].query.unit == Fraction(1, 10)
    assert type(mechanism).from_description(release.mechanism, release.frame) == mechanism
    stated.check_stated(again)
    assert np.isfinite(mechanism.logp(own.values, COUNTS))


@pytest.mark.parametrize("kind", ["gaussian", "l2"])
def test_the_posterior_is_that_of_the_enumeration_in_real_numbers(kind: str) -> None:
    mechanism = made(kind)
    release = mechanism.release(COUNTS, rng=7)
    rows = [tables_of(3, int(total)) for total in COUNTS.sum(axis=1)]
    fiber = np.array([np.concatenate([one, two]) for one in rows[0] for two in rows[1]])
    real = np.column_stack([INCOME, INCOME * OF_WOMEN])
    gaps = release.measurements[0].in_unit.values - fiber @ real
    # Scales by real arithmetic, from all pairs of tables of as many records as may change.
    found = 0.1 * np.array(sorted(changes_by_pairs(SUMS, Invariants(BY_SEX), mechanism.adjacency)))
    if kind == "gaussian":
        weight = -0.5 * np.sum(gaps**2, axis=1) * (0.8 / np.linalg.norm(found, axis=1).max()) ** 2
    else:
        weight = -0.8 * np.linalg.norm(gaps, axis=1) / np.linalg.norm(found, axis=1).max()
    rates = np.array([0.5, 1.0, 2.0] * 2)
    prior = np.sum(
        fiber * np.log(rates) - np.array([[np.log(np.arange(1, k + 1)).sum() for k in row] for row in fiber]), axis=1
    )
    share = np.exp(weight + prior - np.max(weight + prior))
    share /= share.sum()
    with pm.Model(coords=release.coords):
        bdp.observe(release, bdp.ConfidentialCounts("x", pm.Poisson.dist(rates.reshape(2, 3)), dims=release.dims))
        drawn = bdp.sample(2500, tune=200, chains=2, cores=1, random_seed=2, quiet=True, progressbar=False)
    income = (np.asarray(drawn.posterior["x"]).reshape(50, -1, 6) @ INCOME).mean(axis=1)
    error = income.std(ddof=1) / np.sqrt(50)
    # 4.5 standard errors by batch means: false alarm below 1e-4.
    assert abs(income.mean() - share @ fiber @ INCOME) < 4.5 * error + 1e-9
    assert error < 0.05


def test_one_scale_of_noise_needs_one_unit() -> None:
    with pytest.raises(ValueError, match=r"one unit.* but its parts have the units 0\.1, 1"):
        made("gaussian", query=SUMS + BY_SEX)


@pytest.mark.parametrize("kind", ["gaussian", "l2"])
def test_published_answers_map_through_the_query(kind: str) -> None:
    counts = np.array([[1, 0, 0], [0, 0, 0]])  # one woman: only she can change
    known = [bdp.Exact(BY_SEX, counts.sum(axis=1))]
    mechanism = made(kind, published=known, adjacency=2)
    found = np.array([[a - b] * 2 for a in (5, 12, 20) for b in (5, 12, 20)])
    assert mechanism.sensitivity == pytest.approx(np.linalg.norm(found, axis=1).max())
    assert mechanism.sensitivity < made(kind, adjacency=2).sensitivity
    release = mechanism.release(counts, rng=1)
    assert type(mechanism).from_description(release.mechanism, release.frame) == mechanism
    stated.check_stated(release)
    with pytest.raises(ValueError, match="published answers"):
        mechanism.release(COUNTS, rng=1)
    of_men = LinearQuery(TABLE, [[0, 0, 0, 1, 2, 3]], ["men"])
    with pytest.raises(ValueError, match="differ in an answer of the query"):
        made(kind, query=of_men, published=known, adjacency=2)


def test_a_hull_of_published_differences_needs_all_dimensions() -> None:
    counts = np.array([[1, 0, 0], [0, 0, 0]])
    with pytest.raises(ValueError, match="published leaves differences in 1 of the 2 dimensions"):
        made("k-norm", published=[bdp.Exact(BY_SEX, counts.sum(axis=1))], adjacency=2)
