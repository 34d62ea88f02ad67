"""Laws that leave gaps between the true answers of a published one: chains begin at possible tables, and record no other."""

import re
from contextlib import nullcontext
from itertools import combinations, product

import numpy as np
import pymc as pm
import pytest

import bayesdp as bdp
from bayesdp.fibers import Fiber, LogMassWindows, NoiseTerm
from bayesdp.fibers.windows import Gaps
from bayesdp.inference import FiberGibbs
from tests.inference.oracle import counts_model, noisy_cells
from tests.noise.perturbed.records import log_by_records, ten_five_rule

GAPPED = bdp.noise.CellKey(max_deviation=3, variance=(0, 3, 4, 4, 3, 4), not_smaller_than=3)
# The same probabilities, each number perturbed on its own: the office's numbers are not those of this law with keys.
ON_THEIR_OWN = bdp.noise.TransitionTable(range(-3, 4), GAPPED.transitions.mass)
TWO_OFF = bdp.noise.TransitionTable.by_count({0: {0: 1.0}, 1: {-1: 0.5, 2: 0.5}, 2: {-2: 0.5, 2: 0.5}}, period=1)
SQUARE = {"a": list("pqr"), "b": list("uvwx")}
# Tables are made so that few of them or none are left.
FILTERS = (
    "ignore::bayesdp.measurements.consistency.PostProcessedWarning",
    "ignore:the published numbers are not compatible",
)
pytestmark = [pytest.mark.filterwarnings(own) for own in FILTERS]


def released(frame, truth, law, rng, exact=()):
    """All margins of a table, each perturbed on its own."""
    dims = list(frame)
    queries = [bdp.Identity(frame), *(bdp.Margins(frame, [dim]) for dim in dims), bdp.Totals(frame)]
    published = [bdp.Measured(q, law.draw(rng, q.shape, location=q.apply(truth)), law) for q in queries]
    return bdp.Release.from_published(frame, published, exact, adding_up="warn")


def impossible(release, table):
    """How many published answers cannot have come from a table, by their laws and by the records that others are about."""
    met, first = 0, {}
    for own in release.measurements:
        met += int(np.isneginf(own.law.log_each(own.values, own.query.apply(table))).sum())
        for row in range(own.query.rows if own.law.same_cell_same_value else 0):
            cells = own.query.matrix[[row]].indices
            held = frozenset(cells[table.reshape(-1)[cells] > 0].tolist())
            met += bool(held) and own.values.flat[row] != first.setdefault(held, own.values.flat[row])
    return met


def step_of(release, rate=6.0):
    model = counts_model(release, pm.NegativeBinomial.dist(mu=rate, alpha=0.8))
    return model, FiberGibbs(model=model)


def points(release, seed=3, draws=20, made=None, **start):
    """Where a chain begins, and its draws."""
    model, step = made or step_of(release)
    step.setup_chain(np.random.default_rng(seed), 5, 5)
    point = model.initial_point() | start
    step.tables[0].begin(point, step.rng)
    return [step.tables[0].value.copy(), *((point := step.step(point)[0])["x"] for _ in range(draws))]


def assert_possible(release, *, chains=3, draws=10, **start):
    made = step_of(release)
    for seed in range(chains):
        assert not any(impossible(release, table) for table in points(release, seed, draws, made, **start))


@pytest.mark.parametrize("mean", [1.5, 6.0])
@pytest.mark.parametrize("law", [GAPPED, TWO_OFF, bdp.noise.RandomRounding(3), ten_five_rule()], ids=str)
def test_every_start_and_draw_is_possible_and_where_totals_are_exact(law, mean):
    rng = np.random.default_rng(1)
    truth = rng.poisson(mean, (3, 4))
    assert_possible(released(SQUARE, truth, law, rng), chains=2)
    if law is GAPPED:
        exact = [bdp.Exact(bdp.Margins(SQUARE, ["a"]), truth.sum(axis=1))]
        assert_possible(released(SQUARE, truth, law, rng, exact=exact), chains=2)


def test_precise_noise_does_not_push_a_chain_into_a_gap():
    """Every sum is 4 apart from the next: one between two of them would gain 2e6 in log-likelihood by a cell in its gap."""
    frame = {"a": ["p", "q", "r"]}
    cells = bdp.Measured(bdp.Identity(frame), [40, 40, 40], TWO_OFF)
    total = bdp.Measured(bdp.Totals(frame), 124.0, bdp.noise.Gaussian(sigma=0.001))
    found = np.array(points(bdp.Release.from_published(frame, [cells, total]))[1:])
    assert np.isin(found, [38, 42]).all()
    assert np.isin(found.sum(axis=1), (122, 126)).all()


def test_a_start_in_a_gap_that_a_user_gives_is_replaced_and_gaps_that_leave_no_table_are_named():
    """Cells of 7 and 7 came from 5 or 9 each, and so their sum is 10, 14 or 18."""
    frame = {"a": ["p", "q"]}
    assert np.isneginf(GAPPED.log_each(4, 4))
    assert_possible(noisy_cells(frame, [4, 4], GAPPED, bdp.Exact(bdp.Totals(frame), 8)), x=np.array([4, 4]))
    words = r"no table is left for x.*leave gaps.*a=[pq] is \d, which cannot lead to the published 7"
    with pytest.raises(ValueError, match=words):
        step_of(noisy_cells(frame, [7, 7], TWO_OFF, bdp.Exact(bdp.Totals(frame), 12)))


def drawn_parts(law, rng, frame, case):
    """Each answer on its own, about a table with no zeros; or those of sparse tables, by keys. Some numbers are shifted."""
    if law is TWO_OFF:
        law = (GAPPED, TWO_OFF)[case % 2]
        queries = [bdp.Identity(frame), bdp.Margins(frame, ["a"]), bdp.Totals(frame)]
        truth = rng.integers(1, 8, (2, 2))
        drawn = [law.draw(rng, q.shape, location=q.apply(truth)) + rng.integers(-1, 2, q.shape) for q in queries]
        return [bdp.Measured(q, np.maximum(y, 3), law) for q, y in zip(queries, drawn, strict=True)]
    queries = [bdp.Identity(frame), bdp.Margins(frame, ["a"], ["b"]), bdp.Totals(frame)]
    drawn = law.draw_answers(rng, queries, rng.binomial(2, 0.35, (2, 2)))
    shift = [rng.integers(0, 5, q.shape) * (case % 2 == 0) for q in queries]
    return [bdp.Measured(q, y + s, law) for q, y, s in zip(queries, drawn, shift, strict=True)]


@pytest.mark.parametrize("law", [TWO_OFF, bdp.noise.CellKey(max_deviation=2, variance=1.0)], ids=str)
def test_found_exactly_when_there_is_one(law):
    """Against enumeration: random perturbed tables, possible or not."""
    rng = np.random.default_rng(4)
    frame = bdp.Frame.of({"a": ["p", "q"], "b": ["u", "v"]})
    tables = np.array(list(product(range(12 if law is TWO_OFF else 9), repeat=4))).reshape(-1, 2, 2)
    found = []
    for case in range(36):
        parts = drawn_parts(law, rng, frame, case)
        if law.same_cell_same_value:
            possible = np.isfinite(log_by_records(law, parts, tables)).any()
        else:
            logs = [own.law.log_each(own.values, own.query.apply(tables)).reshape(len(tables), -1) for own in parts]
            possible = np.isfinite(np.concatenate(logs, axis=1)).all(axis=1).any()
        release = bdp.Release.from_published(frame, parts, adding_up="warn")
        with (
            nullcontext()
            if possible
            else pytest.raises(ValueError, match=r"no table is left for x|same records as|cannot lead to")
        ):
            assert_possible(release, chains=1, draws=3)
        found.append(possible)
    assert 6 < sum(found) < 30


def test_numbers_that_records_do_not_allow_are_named_and_windows_without_ends_have_gaps_too():
    """At least five of exactly five are in one cell, so that the total is about the same people."""
    frame = bdp.Frame.of({"a": ["p", "q"]})
    law = bdp.noise.CellKey(max_deviation=1, variance=0.5)
    parts = [bdp.Measured(bdp.Identity(frame), [5, 0], law), bdp.Measured(bdp.Totals(frame), 6, law)]
    most = bdp.Exact(bdp.LinearQuery(frame, [[1, 0]], ["p"]), [5], sign=">=")
    release = bdp.Release.from_published(frame, parts, [bdp.Exact(bdp.Totals(frame), 5), most])
    with pytest.raises(ValueError, match=r"total is about the same records as a=p, .* but 6 and 5 were published"):
        step_of(release)
    one, ends = np.ones(1), np.array([-1.0])
    windows = LogMassWindows(np.array([3]), np.array([0]), np.array([3]), np.array([0.0, -np.inf, 0.0]), ends, ends)
    frame = bdp.Frame.of({"a": ["p"]})
    gaps = Gaps.of([NoiseTerm(bdp.Identity(frame), 4.0 * one, "windows", one, one > 0, windows=windows)])
    assert [gaps.met(np.array([x])).size for x in (0, 3, 4, 5, 90)] == [0, 0, 1, 0, 0]
    assert Fiber.of([], frame).find_point([4.0], gaps) in (3, 5)


@pytest.mark.system
@pytest.mark.parametrize("law", [ON_THEIR_OWN, GAPPED])
def test_the_working_population_of_a_state(law):
    """210 published numbers an area; 116 of 2,310 have gaps, and the table within reach that is nearest is in 29 of them."""
    release = bdp.datasets.working_population(law, levels=("SA3",), within="7")
    assert release.frame.shape == (11, 2, 13, 4)
    assert_possible(release, chains=2, draws=5)


def test_regions_of_one_area_share_its_keys():
    """Real tables. Two of four regions are one area: 420 of 840 numbers of regions are published twice, and equal."""
    release = bdp.datasets.working_population(GAPPED, levels=("SA3", "SA4"), within="7")
    with pytest.warns(
        bdp.measurements.consistency.CountedOnceWarning, match=r"208 of the 416 answers by SA4.*2 of the 4 answers"
    ):
        assert_possible(release, chains=1, draws=3)
    *parts, total = release.measurements
    numbers = total.values + np.array([0, 0, 0, 3])  # all persons of the region 799
    with pytest.raises(ValueError, match="799"):
        bdp.Release.from_published(release.frame, [*parts, bdp.Measured(total.query, numbers, GAPPED)])


def test_chains_begin_apart_and_with_a_seed_at_the_same_tables_again():
    """Of the cells that may move, those of two chains differ in half or more at the first table, and are within the laws there."""
    rng = np.random.default_rng(5)
    frame = {"a": list("pqr"), "b": list("uvwxyz"), "c": list("st")}
    release = released(frame, rng.poisson(12, (3, 6, 2)), ON_THEIR_OWN, rng)
    made = step_of(release)
    tables = [points(release, seed, 0, made)[0] for seed in range(4)]
    assert not any(impossible(release, table) for table in tables)
    assert all(np.mean(one != other) >= 0.5 for one, other in combinations(tables, 2))
    # Steps that were made anew begin at the same first table: it is found by random moves, but not by those of the chain's seed.
    release = released(SQUARE, rng.poisson(6.0, (3, 4)), GAPPED, rng)
    np.testing.assert_array_equal(points(release), points(release))
    np.testing.assert_array_equal(*(step_of(release)[1].tables[0]._first_table() for _ in range(2)))


@pytest.mark.filterwarnings("ignore::bayesdp.measurements.consistency.CountedOnceWarning")
def test_starts_where_answers_share_records_take_few_steps(monkeypatch):
    """Of 61 such starts the longest took 1,037 steps. Where the price of different numbers did not rise, 17 took more than 1,500."""
    release = bdp.datasets.working_population(
        bdp.noise.UnknownPerturbation(3, not_smaller_than=3, prior="max-entropy"), within="7"
    )
    chain = step_of(release, rate=60.0)[1].tables[0].lines
    monkeypatch.setattr("bayesdp.fibers.chain.LONGEST_START", 1_500)
    for seed in range(8):
        chain.reseed(np.random.default_rng(seed))
        assert chain.disperse()


def test_a_search_that_is_stopped_names_what_stays_forbidden(monkeypatch):
    """As above, but the program has no time to find out. Of the answers the total of the margin is within the laws soon."""
    frame = {"a": [f"a{i}" for i in range(6)]}
    cells = bdp.Measured(bdp.Identity(frame), np.full(6, 7), TWO_OFF)
    total = bdp.Exact(bdp.Totals(frame), 40)  # 30, 34, .., 54 are possible
    rounded = bdp.Measured(bdp.Totals(frame), 40, bdp.noise.ConventionalRounding(5))
    monkeypatch.setattr("bayesdp.fibers.fiber.LONGEST", 0.0)
    with pytest.raises(ValueError, match=r"no first table of x.*in 0 s.*initvals") as error:
        step_of(bdp.Release.from_published(frame, [cells, rounded], [total]))
    assert re.search(r"forbade longest in a search by moves: (a=a\d \(published 7\)(; )?){3};", str(error.value))
