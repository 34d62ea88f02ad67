from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pytest

from bayesdp.consistency import PostProcessedWarning, made_consistent
from bayesdp.measurements import Exact, Measured
from bayesdp.noise import DiscreteGaussian, DiscreteLaplace, Laplace, LatticeLaplace
from bayesdp.queries import Identity, Margins, Totals
from bayesdp.release import Release

AREAS = 12
TABLE = {"area": [f"a{i}" for i in range(AREAS)], "sex": ["f", "m"]}
ROWS = Margins(TABLE, ["area"])
LAW = DiscreteGaussian(sigma=5.0)


def noisy(law=LAW, seed=1):
    return law.draw(np.random.default_rng(seed), (AREAS, 2), location=30)


def test_a_table_that_was_made_consistent_is_refused_with_the_way_out():
    values = noisy()
    parts = [Measured(Identity(TABLE), values, LAW), Measured(ROWS, values.sum(axis=1), LAW)]
    with pytest.raises(
        ValueError, match=r"agree exactly on all 12 sums.*before.*noisy measurement files.*adding_up='warn'"
    ):
        Release.from_published(TABLE, parts)
    with pytest.warns(PostProcessedWarning, match="agree exactly on all 12 sums"):
        release = Release.from_published(TABLE, parts, adding_up="warn")
    assert len(release.measurements) == 2
    assert Release.from_dataset(release.to_dataset()) == release  # what was accepted once can be read again
    with pytest.raises(ValueError, match="adding_up must be one of"):
        Release.from_published(TABLE, parts, adding_up="ignore")


def cells_and_rows(values, rows=None, law=LAW, table=TABLE):
    rows = np.asarray(values).sum(axis=1) if rows is None else rows
    return [Measured(Identity(table), values, law), Measured(Margins(table, ["area"]), rows, law)]


def test_exact_totals_that_noisy_cells_add_up_to():
    cells, _ = cells_and_rows(noisy())
    with pytest.raises(ValueError, match="24 answers by area × sex and exact sums by area"):
        Release.from_published(TABLE, [cells], [Exact(ROWS, noisy().sum(axis=1))])


def test_one_total_that_differs_is_noise():
    totals = noisy().sum(axis=1)
    totals[3] += 1
    parts = cells_and_rows(noisy(), totals)
    assert made_consistent(parts) is None
    Release.from_published(TABLE, parts)


def test_small_tables_and_little_noise_are_not_refused():
    few = {"area": [f"a{i}" for i in range(9)], "sex": ["f", "m"]}
    parts = cells_and_rows(noisy()[:9], table=few)
    assert made_consistent(parts) is None  # nine sums: warned about, as chance does not explain them
    with pytest.warns(PostProcessedWarning, match="all 9 sums"):
        Release.from_published(few, parts)
    # Noise that is nearly always zero: P(0) = 0.9993 by hand, so that 12 sums agree nearly always.
    little = DiscreteLaplace(b=1 / 8)
    assert made_consistent(cells_and_rows(noisy(little), law=little)) is None


def test_laws_that_keep_totals_add_up_by_themselves():
    values = np.full((AREAS, 2), 30)
    release = Release.from_published(
        TABLE, [Measured(Identity(TABLE), values, LatticeLaplace(0.5))], [Exact(ROWS, np.full(AREAS, 60))]
    )
    assert made_consistent(release.measurements, release.exact) is None
    total = [Measured(Identity(TABLE), noisy(), LAW)]
    Release.from_published(TABLE, total, [Exact(Totals(TABLE), int(noisy().sum()))])  # one sum is none of ten


def test_real_numbers_add_up_within_their_rounding():
    law = Laplace(3.0)
    values = law.draw(np.random.default_rng(3), (AREAS, 2), location=30.0)
    assert "12 sums" in made_consistent(cells_and_rows(values, law=law))
    other = law.draw(np.random.default_rng(4), (AREAS,), location=60.0)
    assert made_consistent(cells_and_rows(values, other, law)) is None


def test_the_chance_is_a_bound_against_enumeration():
    """Two cells and their total: P(total agrees) by a sum over all noises."""
    at = np.arange(-40, 41)

    def chance(law):
        mass = np.exp(law.log_mass(at.astype(float)))
        pairs = ((i, j) for i, j in product(range(81), repeat=2) if 0 <= i + j - 40 < 81)
        return sum(mass[i] * mass[j] * mass[i + j - 40] for i, j in pairs)

    law, wide, sevens = DiscreteLaplace(b=0.1), DiscreteLaplace(b=2.0), np.full((AREAS, 2), 7)
    assert made_consistent(cells_and_rows(sevens, law=law)) is None
    assert chance(law) ** AREAS > 0.01
    assert f"chance at most {chance(wide) ** AREAS:.0e}" in made_consistent(cells_and_rows(sevens, law=wide))


def test_no_false_alarm_in_many_releases():
    # 300 releases that follow their law: the stated rate is one in a million each, so 3e-4 for one alarm among them.
    rng = np.random.default_rng(6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(300):
            x = rng.poisson(1.0, size=(AREAS, 2))
            law = DiscreteGaussian(sigma=float(rng.choice([0.4, 1.0, 3.0])))
            rows = law.draw(rng, (AREAS,), location=x.sum(axis=1))
            assert made_consistent(cells_and_rows(law.draw(rng, (AREAS, 2), location=x), rows, law)) is None
