"""Hierarchies all of whose numbers were perturbed by little: the moves against enumeration, by the laws themselves."""

import warnings

import numpy as np
import pytest
from scipy import stats

import bayesdp as bdp
from bayesdp.hierarchies.priors import FixedNegativeBinomial
from bayesdp.streaming.perturbed import WalledTree, has_walls, perturbed_target
from tests.comparison.enumeration import probabilities
from tests.streaming.test_journal import FILE, killed

MEAN, SHAPE = 4.0, 1.5
SWEEPS, BATCHES, FAR = 15_000, 25, 6.5
"""FAR: standard errors from 25 batches (24 degrees of freedom). By chance one comparison in a million is beyond, of some 600."""

SMALL = {1: {-1: 0.2, 0: 0.4, 1: 0.3, 2: 0.1}, 2: {-2: 0.1, -1: 0.2, 0: 0.4, 1: 0.2, 2: 0.1}}
WALLS = bdp.noise.TransitionTable.by_count({0: {0: 1.0}, **SMALL, 3: dict.fromkeys(range(-2, 3), 0.2)}, period=1)
"""Deviations of at most 2, zeros are kept; all alike from 3 on, so that some answers have log-masses and others do not."""


def released(frame, dims, law, seed):
    """What is published of a table by this law: the margins of these dimensions."""
    rng, frame = np.random.default_rng(seed), bdp.Frame.of(frame)
    truth = rng.negative_binomial(SHAPE, SHAPE / (SHAPE + MEAN), frame.shape)
    queries = [bdp.Margins(frame, own) if own else bdp.Totals(frame) for own in dims]
    published = [bdp.Measured(q, law.draw(rng, q.shape, location=q.apply(truth)), law) for q in queries]
    return bdp.Release.from_published(frame, published, adding_up="warn")


AREAS = {"area": ["a", "b", "c"], "region": ("area", ["n", "n", "s"])}
ALL = [[*place, *own] for place in (["area"], ["region"], []) for own in (["sex", "age"], ["sex"], ["age"], [])]
TWO, ONE = AREAS | {"sex": ["f", "m"], "age": ["y", "o"]}, AREAS | {"sex": ["f", "m"]}
AGES = AREAS | {"age": ["0", "5", "65"], "old": ("age", ["y", "y", "o"])}
FIVE = [["area", "sex"], ["area"], ["region", "sex"], ["region"], []]
SIX = [["area", "age"], ["area", "old"], ["region", "old"], ["region", "age"], ["region"], []]
CASES = {
    "all margins": ("negbin", TWO, ALL, WALLS, 7),
    "flat prior": ("flat", TWO, ALL, WALLS, 1),
    "a level without answers": ("poisson", TWO, ALL[:8], WALLS, 5),
    "gaps": ("negbin", ONE, FIVE, bdp.noise.RandomRounding(3), 3),
    "groups of ages": ("negbin", AGES, SIX, WALLS, 6),
}


def posterior(family, release):
    """All possible tables, flat, and their probabilities."""
    matrix = np.concatenate([own.query.matrix.toarray() for own in release.measurements])
    numbers = np.concatenate([own.values.reshape(-1) for own in release.measurements])
    last = matrix.shape[1] - 1 - matrix[:, ::-1].argmax(axis=1)  # the cell with which an answer is known
    tables, weight = np.zeros((1, 0), dtype=np.int64), np.zeros(1)
    for cell in range(matrix.shape[1]):
        tables = np.concatenate([np.repeat(tables, 40, axis=0), np.tile(np.arange(40), len(tables))[:, None]], axis=1)
        weight = np.repeat(weight, 40)
        for row in np.flatnonzero(last == cell):
            own = release.measurements[0].law.log_each(numbers[row], tables @ matrix[row, : cell + 1])
            tables, weight = tables[np.isfinite(own)], (weight + own)[np.isfinite(own)]
    if family == "negbin":
        weight = weight + stats.nbinom.logpmf(tables, SHAPE, SHAPE / (SHAPE + MEAN)).sum(axis=1)
    elif family == "poisson":
        weight = weight + stats.poisson.logpmf(tables, MEAN).sum(axis=1)
    return tables, probabilities(weight)


def tree_of(family, release):
    target, structure = perturbed_target(release, family, "area")
    assert has_walls(target, structure, smallest=0)
    tree = WalledTree(target, structure, np.random.default_rng(5))
    weight = {"negbin": np.log(MEAN / (SHAPE + MEAN)), "poisson": np.log(MEAN), "flat": 0.0}[family]
    tree.set_cells(np.full((1, 1), weight), np.full((1, 1), SHAPE))
    tree.begin_apart(np.random.default_rng(6))
    return tree


@pytest.mark.parametrize("name", CASES)
def test_cells_and_sums_have_the_probabilities_of_enumeration(name):
    family, *case = CASES[name]
    release = released(*case)
    tables, exact = posterior(family, release)
    assert 20 < len(tables) < 500_000, len(tables)
    tree = tree_of(family, release)
    draws = np.empty((SWEEPS, tables.shape[1]), dtype=np.int64)
    for draw in draws:
        tree.sweep()
        draw[:] = tree.structure.in_frame(tree.table)
    # Every table that comes is possible, and all possible ones come.
    codes = np.random.default_rng(7).integers(1, 2**40, tables.shape[1])
    seen = np.unique(draws @ codes)
    assert np.isin(seen, tables @ codes).all()
    assert np.isin((tables @ codes)[exact > 100.0 / SWEEPS], seen).all()
    sums = np.concatenate([own.query.matrix.toarray() for own in release.measurements]).T
    several = np.random.default_rng(8).integers(0, 2, (8, tables.shape[1])).T
    for row in np.concatenate([sums, several], axis=1).T:
        answers, drawn = tables @ row, draws @ row
        for value in np.unique(answers):
            expected = exact[answers == value].sum()
            means = (drawn == value).reshape(BATCHES, -1).mean(axis=1)
            error = max(means.std(ddof=1) / np.sqrt(BATCHES), np.sqrt(expected * max(0.0, 1.0 - expected) / SWEEPS))
            assert abs(means.mean() - expected) < FAR * error + 1e-12, (row, value)
    # Answers are kept up to date.
    rows, published = tree.walls.rows[:, 0].copy(), tree.walls.rows[:, 1] < 2**30
    tree.load(tree.table.copy())
    assert np.array_equal(rows[published], tree.walls.rows[published, 0])
    assert published.sum() == sum(own.values.size for own in release.measurements)


def test_releases_for_which_these_moves_are_not():
    release = released(*CASES["all margins"][1:])
    total = bdp.Exact(bdp.Totals(TWO), int(release.measurements[-1].values))
    # So small a table has ways through walls as well.
    assert not has_walls(*perturbed_target(release, "negbin", "area"))
    for measured, exact in ((release.measurements[1:], []), (release.measurements[:-1], [total])):
        other = bdp.Release.from_published(TWO, measured, exact, adding_up="warn")
        assert not has_walls(*perturbed_target(other, "negbin", "area"), smallest=0)
    cells = bdp.Measured(bdp.Identity(ONE), np.full((3, 2), 5), bdp.noise.UnknownPerturbation(2))
    with pytest.raises(NotImplementedError, match="laws that are known"):
        fitted(bdp.Release.from_published(ONE, [cells]))
    published = list(released(*CASES["flat prior"][1:]).measurements)
    published[-1] = bdp.Measured(published[-1].query, published[-1].values + 60, WALLS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the numbers contradict one another
        impossible = bdp.Release.from_published(TWO, published, adding_up="warn")
        with pytest.raises(ValueError, match="no table"):
            tree_of("flat", impossible)


LAW = bdp.noise.RandomRounding(3)


def fitted(release, **more):
    asked = {"draws": 2_000, "tune": 200, "thin": 2, "chains": 2, "random_seed": 4, "quiet": True, **more}
    return bdp.fit_hierarchy(release, FixedNegativeBinomial(MEAN, SHAPE), record=bdp.Margins(ONE, ["region"]), **asked)


@pytest.mark.parametrize("law", [LAW, bdp.noise.ConventionalRounding(5)], ids=str)
def test_probabilities_of_every_cell_are_those_of_enumeration(law):
    release = released(ONE, FIVE, law, 3)
    tables, exact = posterior("negbin", release)
    tree = fitted(release)
    found, ess = tree["cells"]["probability"], tree["cells"]["ess"].fillna(1.0).values
    assert found.dims == ("value", "area", "sex")
    for value in range(16):
        expected = ((tables == value) * exact[:, None]).sum(axis=0).reshape(3, 2)
        error = np.sqrt(expected * (1.0 - expected) / ess)
        assert np.all(np.abs(found.sel(value=value).values - expected) <= 5.0 * error + 1e-12)
    draws = tree["posterior"]["by_region"].sel(region="n")
    error = float(draws.std()) / np.sqrt(float(tree["diagnostics"]["by_region_ess_bulk"][0]))
    assert abs(float(draws.mean()) - exact @ tables[:, :4].sum(axis=1)) < 5.0 * error


def test_a_run_that_was_stopped_ends_as_if_it_had_not_been(tmp_path):
    """Among the draws of its first chain, and once more when it has ended."""
    release = released(ONE, FIVE, LAW, 3)
    asked = {"draws": 300, "thin": 1, "tune": 50}
    whole = fitted(release, **asked)
    killed(120, lambda: fitted(release, journal=tmp_path / "journal", cores=1, **asked))
    with np.load(tmp_path / "journal" / FILE.format(0)) as state:
        assert 50 < int(state["done"]) < 350
    for _ in range(2):
        again = fitted(release, journal=tmp_path / "journal", resume=True, **asked)
        for name in ("posterior", "cells"):
            assert whole[name].to_dataset().identical(again[name].to_dataset())
