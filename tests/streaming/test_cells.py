import arviz as az
import numpy as np
import pytest
import scipy.sparse as sp

import bayesdp as bdp
from bayesdp.hierarchies.structure import levels_of, tree_of
from bayesdp.streaming import cells as streamed
from tests.refusals import refused
from tests.streaming.cases import FRAME


def _streamed(draws, *, counts=5, bins=64, batches=32, planned=None, shares=(0.1, 0.5, 0.9)):
    """Draws of each chain, shape (draws, leaves, cells), of which all cells but the first can move."""
    where = np.arange(1, np.prod(draws[0].shape[1:]))
    planned = len(draws[0]) if planned is None else planned
    length, _ = streamed.batching(planned, batches)
    kept = []
    for chain in draws:
        own = streamed.new_summary(where, planned, counts, bins, batches)
        for i, table in enumerate(chain):
            streamed.take(table, i, length, own)
        kept.append(own)
    return streamed.pooled(kept, [len(chain) for chain in draws], length, shares)


def _alike(rng, chains, draws, cells, phi):
    """Counts whose neighbours are alike, with autocorrelations of about phi**lag."""
    noise = rng.normal(size=(draws + 200, chains, cells))
    for i in range(1, len(noise)):
        noise[i] = phi * noise[i - 1] + np.sqrt(1 - phi**2) * noise[i]
    return np.maximum(np.rint(60 + 8 * noise[200:]), 0).astype(np.int64).transpose(1, 0, 2)[:, :, None, :]


def test_summaries_are_those_of_the_draws_of_chains_of_any_length_and_quantiles_have_at_least_their_share():
    rng = np.random.default_rng(1)
    alike = np.floor(np.exp(rng.normal(1.0, 1.0, size=(3, 500, 4, 6)))).astype(np.int64)
    alike[..., 3] += 10**8
    unlike = [rng.poisson(level, size=(number, 2, 3)) for level, number in ((3.0, 320), (9.0, 500))]
    for draws, planned in ((alike, None), (unlike, 640)):
        found, own = _streamed(draws, planned=planned), [chain.reshape(len(chain), -1)[:, 1:] for chain in draws]
        flat = np.concatenate(own)
        np.testing.assert_allclose(found.mean, flat.mean(axis=0), rtol=1e-13)
        np.testing.assert_allclose(found.sd, flat.std(axis=0, ddof=1), rtol=1e-10)
        np.testing.assert_allclose(found.chain_mean, [chain.mean(axis=0) for chain in own], rtol=1e-13)
        np.testing.assert_allclose(found.chain_sd, [chain.std(axis=0, ddof=1) for chain in own], rtol=1e-10)
        np.testing.assert_allclose(found.probability, [(flat == value).mean(axis=0) for value in range(6)], rtol=1e-6)
        exact = np.quantile(flat, [0.1, 0.5, 0.9], axis=0, method="inverted_cdf")
        assert (np.abs(found.quantile - exact) < found.width).all()
        assert (found.width == 1).any()
        assert (found.quantile == exact)[:, found.width == 1].all()
    # Of the counts 0 .. 99 the smallest with a share of 0.07 (which times 100 is above 7 in floating point), 0.555 and 1.
    draws = np.repeat(np.arange(100), 2).reshape(1, 100, 1, 2)
    assert _streamed(draws, bins=128, shares=(0.07, 0.555, 1.0)).quantile[:, 0].tolist() == [6, 55, 99]


def test_effective_sizes_are_those_of_their_definition_and_what_cells_that_never_moved_have():
    """16 batches of 20 draws of three chains; of each chain alone, at most 4 times the batches less one."""
    draws = _alike(np.random.default_rng(7), 3, 320, 30, 0.8)
    found = _streamed(draws, batches=16)
    own = draws[:, :, 0, 1:].astype(float)
    means = own.reshape(3, 16, 20, 29).mean(axis=2)
    within = own.var(axis=1, ddof=1)
    together = 960 * within.mean(axis=0) / (20 * means.reshape(48, 29).var(axis=0, ddof=1))
    np.testing.assert_allclose(found.ess, together, rtol=1e-5)
    alone = 320 * within / (20 * means.var(axis=1, ddof=1))
    np.testing.assert_allclose(found.chain_ess, np.minimum(alone, 60.0), rtol=1e-5)
    assert (found.chain_ess == 60.0).any()
    assert (found.chain_ess < 60.0).any()
    draws = np.zeros((2, 64, 1, 4), dtype=np.int64)
    draws[:, :, 0, 1] = 9
    draws[1, :, 0, 2] = 3
    draws[:, ::2, 0, 3] = 1
    found = _streamed(draws)
    assert np.isnan([found.ess[0], found.rhat[0]]).all()
    assert np.isinf(found.rhat[1])
    assert found.rhat[2] < 1.01
    assert found.ess[2] == pytest.approx(128 * np.log10(128))  # batches whose means are equal: the limit


@pytest.mark.parametrize(("number", "shift", "atol"), [(640, 0, 0.0), (640, 3, 0.0), (1000, 0, 5e-3), (640, 40, 0.0)])
def test_rhat_is_arvizs_and_near_it_where_batches_leave_a_few_draws_out(number, shift, atol):
    draws = _alike(np.random.default_rng(2), 2, number, 40, 0.5)
    draws[1] += shift
    found = _streamed(draws)
    theirs = [float(az.rhat(draws[:, :, 0, c], method="split")) for c in range(1, 40)]
    np.testing.assert_allclose(found.rhat, theirs, rtol=0.0 if atol else 1e-5, atol=atol)
    assert shift < 40 or (found.ess < 20).all()  # chains that disagree


@pytest.mark.parametrize(("phi", "low", "high"), [(0.0, 0.97, 1.10), (0.7, 0.97, 1.10), (0.9, 1.1, 1.35)])
def test_effective_sizes_beside_arvizs(phi, low, high):
    """Standard error 18% a cell; the median of 200 is right to 2% but for batches that are too short: phi = 0.9 has an
    autocorrelation time of 19 draws, batches have 50, so that the size is about 1 / (1 - 0.19) times too large."""
    draws = _alike(np.random.default_rng(4), 2, 1600, 201, phi)
    found = _streamed(draws)
    theirs = np.array([float(az.ess(draws[:, :, 0, c], method="mean")) for c in range(1, 201)])
    ratio = found.ess / theirs
    assert low < np.median(ratio) < high
    assert (np.abs(np.log(ratio / np.median(ratio))) < 0.8).all()
    assert np.log(ratio).std() < 0.30


def test_memory_of_a_cell_is_as_stated_and_more_draws_of_one_count_than_two_bytes_hold():
    for draws in (40, 1_000, 65_535):
        kept = streamed.new_summary(np.arange(100), draws, 15, 64, 32)
        own = sum(array.nbytes for name, array in kept._asdict().items() if name != "where")
        assert own == 100 * streamed.bytes_per_cell(draws, 15, 64, 32)
    assert [streamed.bytes_per_cell(draws, 15, 64, 32) for draws in (65_535, 65_536, 10**9)] == [324, 488, 488]
    kept = streamed.new_summary(np.zeros(1, dtype=np.int64), 70_000, 1, 8, 8)
    kept.small[:], kept.bins[0, 0] = [[65_535, 0]], 65_535
    streamed.take(np.zeros((1, 1), dtype=np.int64), 65_535, 10_000, kept)
    assert (int(kept.small[0, 0]), int(kept.bins.sum())) == (65_536, 65_536)


SHARES = np.array([0.01, 0.025, 0.25, 0.5, 0.9, 0.975, 1.0])


def _filled(values, bins):
    own, grid = np.zeros(bins, dtype=np.uint16), np.zeros(2, dtype=np.int64)
    for x in values:
        streamed.add_to(own, grid, int(x))
    return own, grid


def _quantiles(chains, bins):
    """Quantiles of all chains, the width of their bins, and each chain's own bins."""
    filled = [_filled(values, bins) for values in chains]
    quantile, width = np.zeros((len(SHARES), 1), dtype=np.int64), np.zeros(1, dtype=np.int64)
    ranks = np.maximum(1.0, np.ceil(SHARES * sum(map(len, chains)) - 1e-6))
    own, grids = (np.stack(each)[:, None] for each in zip(*filled, strict=True))
    streamed.pooled_quantiles(own, grids, ranks, quantile, width)
    return quantile[:, 0], int(width[0]), filled


STREAMS = {
    "small counts": lambda rng: rng.poisson(2.0, 400),
    "far from 0, narrow": lambda rng: 10**9 + rng.integers(0, 30, 400),
    "falling and rising": lambda rng: np.concatenate([np.arange(200, 0, -1), np.arange(400)]),
    "two modes": lambda rng: np.where(rng.random(400) < 0.3, 0, 5_000 + rng.integers(0, 9, 400)),
    "heavy": lambda rng: np.floor(np.exp(rng.normal(3.0, 3.0, 400))).astype(int),
    "near the largest count": lambda rng: 2**53 - rng.integers(0, 2**40, 400),
    "one value": lambda rng: np.full(10, 7),
    "large, then 0": lambda rng: np.array([2**52, 0, 1, 2, 3]),
}


@pytest.mark.parametrize("bins", [8, 9, 64])
@pytest.mark.parametrize("name", STREAMS)
def test_quantiles_are_right_to_the_stated_width(name, bins):
    values = STREAMS[name](np.random.default_rng(1))
    found, width, [(own, grid)] = _quantiles([values], bins)
    spread = int(np.ptp(values))
    assert (own.sum(), width) == (len(values), 1 << grid[1])
    assert width == 1 if spread < bins - 1 else width < 2 * spread / (bins - 1)
    assert (np.abs(found - np.quantile(values, SHARES, method="inverted_cdf")) < width).all()
    assert (found >= 0).all()


@pytest.mark.parametrize("bins", [8, 64])
def test_chains_pool_with_bins_of_different_widths_and_exactly_where_all_are_narrow(bins):
    rng = np.random.default_rng(2)
    wide = [rng.poisson(5.0, 300), 100 + 50 * rng.poisson(3.0, 500), rng.integers(3, 6, 100)]
    narrow = [np.arange(bins // 2), 10**6 + np.arange(bins - 2)]
    for chains in (wide, narrow):
        found, width, _ = _quantiles(chains, bins)
        exact = np.quantile(np.concatenate(chains), SHARES, method="inverted_cdf")
        assert (np.abs(found - exact) < width).all()
        assert (width == 1) == (chains is narrow)
    for last, width in ((1064, 0), (1065, 1)):  # bins follow a drift as long as all values fit
        assert _filled(np.r_[1000, np.arange(1000, last)], 64)[1][1] == width


QUERIES = {
    "identity": bdp.Identity(FRAME),
    "tract by age": bdp.Margins(FRAME, ["tract", "age"]),
    "county by race": bdp.Margins(FRAME, ["county", "race"]),
    "stack": bdp.Margins(FRAME, ["county"], ["age", "race"]) + bdp.Totals(FRAME),
    "weights": bdp.LinearQuery(FRAME, sp.csr_array(np.arange(24).reshape(2, 12) % 5 - 2), ["u", "v"]),
    "weights and sums": bdp.Margins(FRAME, ["age"]) + bdp.LinearQuery(FRAME, 7 * np.eye(3, 12, dtype=int), list("abc")),
}


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("name", QUERIES)
def test_answers_are_those_of_the_query(name, axis):
    query = QUERIES[name]
    parts = bdp.Margins(FRAME, ["county"]).parts if axis == 1 else ()
    tree = tree_of(FRAME, axis, levels_of(FRAME, axis, parts))
    recorder, answers = streamed.Recorder(query, tree), np.zeros((3, query.rows), dtype=np.int64)
    tables = np.random.default_rng(1).poisson(2.0, size=(3, *FRAME.shape))
    tables[2] *= 1 + 10**12
    for draw, table in enumerate(tables):
        counts = np.ascontiguousarray(tree.leaves_by_cells(table.reshape(-1)))
        recorder.take(counts, answers[draw], streamed.occupied(counts))
    np.testing.assert_array_equal(answers, query.apply(tables).reshape(3, query.rows))


RACE, OTHER = bdp.Margins(FRAME, ["race"]), {"tract": ["t1", "t2", "t4"], "age": ["young", "old"]}
TAKEN = "that of a hyperparameter or the summaries"
test_names_of_records_that_are_refused = refused(
    ("race", "record must be queries"),
    (["race"], "record must hold queries"),
    ([bdp.Totals(OTHER)], "about a table with the dimensions 'tract', 'age', not about the release's"),
    *(({own: RACE}, f"the name '{own}' is {TAKEN}") for own in ("spread", "cells", "draw")),
    ({"": RACE}, "not empty"),
    ([RACE, RACE], "two queries are called 'by_race'"),
    ({"race": RACE, "by_race": RACE}, "two queries are called 'by_race'"),
    of=lambda record: streamed.named_queries(record, FRAME, ["spread"]),
)


def test_names_of_records():
    stacked = [bdp.Totals(FRAME), QUERIES["stack"]]
    labels = {"race": RACE, "county": RACE}  # of a dimension and a group, which no variable can share
    for record, names in (
        (stacked, ["total", "answers"]), (RACE, ["by_race"]), ({"x": RACE}, ["x"]), (labels, ["by_race", "by_county"]),
    ):  # fmt: skip
        assert list(streamed.named_queries(record, FRAME, ())) == names
