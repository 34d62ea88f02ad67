"""Numbers that were clipped, rounded or made consistent: bounds against exact probabilities for many true tables, and words."""

from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats

from bayesdp import noise as N
from bayesdp.measurements import Exact, Measured
from bayesdp.measurements.consistency import FALSE_ALARMS, PostProcessedWarning, made_consistent, post_processed
from bayesdp.measurements.consistency.differences import agreeing, answers_of, differences_of
from bayesdp.measurements.consistency.post_processed import (
    BASES,
    multiples,
    near_zero,
    published_of,
    signs_of_post_processing,
)
from bayesdp.queries import Identity, LinearQuery, Margins, Totals
from bayesdp.release import Release
from tests.noise.perturbed.records import ten_five_rule

INTEGER = [N.DiscreteLaplace(0.7), N.DiscreteGaussian(0.6), N.DiscreteGaussian(5.0)]
GRID = {"county": ["p", "q", "r"], "age": ["low", "mid", "high"]}
K = np.arange(-200, 201)


def line(n):
    return {"county": [f"c{i}" for i in range(n)]}


def measured(values, law, **kwargs):
    return Measured(Identity(line(len(values))), values, law, **kwargs)


def answers(values, law, **kwargs):
    return published_of([measured(values, law, **kwargs)])[0]


def mass(law, k=K):
    return np.exp(law.log_mass(np.asarray(k, dtype=float)))


def convolved(*masses):
    found = np.ones(1)
    for own in masses:
        found = np.convolve(found, own)
    return found


@pytest.mark.parametrize("law", INTEGER, ids=str)
@pytest.mark.parametrize("n", [12, 400])
def test_near_zero_the_bound_holds_for_every_true_count(law, n):
    # n counts of the same x: the numbers of zeros and of negatives are multinomial, P = sum of binomial terms.
    window = int(np.floor(law.scale))
    far = int(12 * law.scale) + 3
    for near in (1, 3, 8, 12):
        values = np.full(n, 10 * far)
        values[:near] = 0
        bounds = [bound for bound, _ in near_zero(answers(values, law))]
        for bound, top in zip(bounds, (0, window), strict=True):
            for x in range(0, far, max(1, far // 60)):
                a = mass(law, np.arange(0, top + 1) - x).sum()
                c = float(law.cdf(-1, x))
                # None negative, and at least `near` in the window.
                exact = (1 - c) ** n * stats.binom.sf(near - 1, n, min(a / (1 - c), 1.0))
                assert exact <= bound * (1 + 1e-9), (near, top, x)


def test_near_zero_the_bound_holds_for_mixed_tables_and_scales_geometric_and_real_noise():
    # Two thirds of the cells far from zero, in one window or another; the exact law by convolution.
    law = N.DiscreteGaussian(sigma=np.repeat([2.0, 7.0], 30))
    bound = near_zero(answers(np.repeat([0, 500], [9, 51]), law))[0][0]
    for x in ((0, 0), (3, 20), (5, 10), (8, 30), (0, 40), (4, 0)):
        each = []
        for own, sigma in zip(x, (2.0, 7.0), strict=True):
            a = mass(N.DiscreteGaussian(sigma), -own)
            each += 30 * [[1 - float(N.DiscreteGaussian(sigma).cdf(-1, own)) - a, a]]
        assert convolved(*each)[9:].sum() <= bound * (1 + 1e-9)
    # Given that a number is zero or negative it is zero with probability 1 - q, whatever the count.
    bound = near_zero(answers(np.repeat([0, 400], [10, 190]), N.DiscreteLaplace(4.0)))[0][0]
    exact = (1 - np.exp(-0.25)) ** 10
    assert exact <= bound < 30 * exact  # intervals of x and a grid of s cost a little
    # To one decimal, clipped: exact zeros and small numbers.
    law, grid = N.Laplace(3.0), 0.1
    values = np.append(np.full(40, 99.9), np.zeros(5))
    for bound, top in zip([b for b, _ in near_zero(answers(values, law))], (0.0, 3.0), strict=True):
        for x in range(40):
            a = float(law.cdf(top + grid / 2, x) - law.cdf(-grid / 2, x))
            c = float(law.cdf(-grid / 2, x))
            assert (1 - c) ** 45 * stats.binom.sf(4, 45, min(a / (1 - c), 1.0)) <= bound * (1 + 1e-9)


def test_near_zero_says_nothing_of_a_negative_number_none_near_zero_and_differences_of_counts():
    law, frame = N.DiscreteLaplace(4.0), line(60)
    assert near_zero(answers([0] * 50 + [-1], law)) == []
    assert near_zero(answers([50, 60], law)) == []
    assert near_zero(answers([0.0, np.nan], law, unmeasured=["county=c1"]))[0][1].startswith("none of the 1 noisy")
    # A contrast is no count: its true value may be anything, and many zeros are no sign.
    unit = np.eye(60, dtype=int)
    contrast = LinearQuery(frame, unit - np.roll(unit, 1, axis=1), frame["county"])
    assert near_zero(published_of([Measured(contrast, np.zeros(60, dtype=int), N.DiscreteLaplace(1.0))])[0]) == []


@pytest.mark.parametrize("law", INTEGER, ids=str)
def test_multiples_the_likeliest_residue_is_zero(law):
    k = np.arange(-int(45 * law.scale) - 2000, int(45 * law.scale) + 2001)
    for base in (2, 3, 5, 10, 100):
        shares = np.bincount(k % base, mass(law, k), minlength=base)
        found = {words.split()[-1]: bound for bound, words in multiples(answers([base * 1000], law))}
        assert found[str(base)] == pytest.approx(shares[0], rel=1e-9)
        assert shares.max() <= shares[0] * (1 + 1e-12)


def test_multiples_of_real_noise_are_within_half_the_grid_and_several_numbers_multiply():
    for law, base in product((N.Laplace(3.0), N.Gaussian(3.0)), (0.5, 10.0)):
        found = multiples(answers([base], law))
        [bound] = [b for b, words in found if words.split(",")[0].endswith(f"are multiples of {base:g}")]
        centres = base * np.arange(-400, 401)
        for x in np.linspace(0, base, 21):
            assert (law.cdf(centres + base / 20, x) - law.cdf(centres - base / 20, x)).sum() <= bound
    values = [10], [10, -20, 0, 50]
    one, four = ({w.split()[-1]: b for b, w in multiples(answers(own, N.DiscreteGaussian(3.0)))} for own in values)
    assert four["10"] == pytest.approx(one["10"] ** 4)
    assert "20" not in four
    assert multiples(answers([10, 7], N.DiscreteGaussian(3.0))) == []


def compare(measurements, exact=()):
    groups, _ = differences_of(answers_of(measurements, exact)[0])
    return len(groups), agreeing(groups)


BY_COUNTY = Margins(GRID, ["county"])


def test_adding_up_the_chance_of_rows_cells_margins_and_exact_sums_is_that_of_convolution():
    # The difference of a row's noise and the sum of its cells' is zero; three rows.
    cells, rows = N.DiscreteGaussian(2.0), N.DiscreteLaplace(1.5)
    table = np.arange(9).reshape(3, 3)
    one = Measured(Identity(GRID), table, cells)
    compared, [(bound, words)] = compare([one, Measured(BY_COUNTY, table.sum(axis=1), rows)])
    assert compared == 1
    assert bound == pytest.approx(convolved(*3 * [mass(cells)], mass(rows))[800] ** 3, rel=1e-9)
    assert "9 answers by county × age and 3 answers by county agree exactly on all 3 sums" in words
    # Exact sums, where the row with a gap says nothing.
    law = N.DiscreteLaplace(5.0)
    gap = np.where(table == 8, np.nan, table + 1.0)
    noisy = Measured(Identity(GRID), gap, law, unmeasured=[("r", "high")])
    compared, [(bound, words)] = compare([noisy], [Exact(BY_COUNTY, [6, 15, 99])])
    assert compared == 1
    assert bound == pytest.approx(convolved(*3 * [mass(law)])[600] ** 2, rel=1e-9)
    assert "all 2 sums" in words
    assert compare([noisy], [Exact(BY_COUNTY, [6, 16, 99])])[1] == []
    # Margins that cross agree on their total only.
    rows = Measured(BY_COUNTY, [5, 6, 7], law)
    compared, [(bound, _)] = compare([rows, Measured(Margins(GRID, ["age"]), [1, 2, 15], N.DiscreteGaussian(9.0))])
    assert compared == 1
    both = convolved(*3 * [mass(law)], *3 * [mass(N.DiscreteGaussian(9.0))])
    assert bound == pytest.approx(both[1200], rel=1e-9)
    # Real noise agrees with probability 0: within three steps of the grid that its law is worked out on.
    noisy = Measured(Identity(GRID), np.full((3, 3), 2.25), N.Laplace(4.0))
    [(bound, _)] = compare([noisy, Measured(BY_COUNTY, [6.75, 6.75, 6.75], N.Laplace(0.5))])[1]
    step = 0.125  # a power of two, of about a 64th of the largest standard deviation
    one = np.exp(-np.abs(np.arange(-2000, 2001) * 0.05) / 4.0) * 0.05 / 8.0
    density = convolved(one, one, one).max() / 0.05
    assert (2 * step * density) ** 3 < bound < (6 * step * density) ** 3


def draw(law, rng, x):
    found = law.draw(rng, x.shape, location=x)
    return found if law.integer else np.round(found, 2)


def test_no_false_alarm_in_many_releases():
    # 100 releases, 1e-6 each: a false alarm in one of 10,000 runs with other seeds.
    rng = np.random.default_rng(5)
    frame = {"county": [f"c{i}" for i in range(20)], "age": ["low", "mid", "high"]}
    laws = [N.DiscreteLaplace(1.0), N.DiscreteLaplace(8.0), N.DiscreteGaussian(3.0), N.Laplace(2.0), N.Gaussian(6.0)]
    for k in range(100):
        law = laws[k % 5]
        x = rng.poisson(rng.choice([0.0, 0.5, 2.0, 10.0, 60.0]), size=(20, 3)) * rng.choice([1, 5])
        parts = [Measured(Identity(frame), draw(law, rng, x), law)]
        if k % 2:
            parts.append(Measured(Margins(frame, ["county"]), draw(law, rng, x.sum(axis=1)), law))
        assert signs_of_post_processing(parts, [Exact(Totals(frame), int(x.sum()))]) is None


@pytest.mark.parametrize("law", [N.DiscreteGaussian(5.0), N.Laplace(4.0)], ids=str)
def test_a_table_clipped_without_signs_or_rounded_to_fives_is_named(law):
    rng = np.random.default_rng(8)
    noisy = draw(law, rng, rng.poisson(3.0, size=80))
    assert signs_of_post_processing([measured(noisy, law)]) is None
    clipped, rounded = np.maximum(noisy, 0), 5 * np.round(noisy / 5)
    every = "80 noisy numbers", "probability at most", "whatever the true table", "below 1e-06"
    for changed, words in (
        (clipped, "is negative and"),
        (np.abs(noisy), "is negative and"),
        (rounded, "multiples of 5"),
    ):
        told = signs_of_post_processing([measured(changed, law)])
        assert not [own for own in (words, *every) if own not in told]


def test_whole_numbers_under_real_noise_are_rounded():
    # A third of the scale: told. To a tenth of a count: the law hardly differs, not told.
    noisy = N.Laplace(3.0).draw(np.random.default_rng(9), (16,), location=20.0)
    told = signs_of_post_processing([measured(np.round(noisy), N.Laplace(3.0))])
    assert "multiples of 1, and real noise gives no whole numbers, as discrete-laplace does" in told
    assert signs_of_post_processing([measured(np.round(noisy, 1), N.Laplace(3.0))]) is None
    assert signs_of_post_processing([measured(np.round(noisy * 100), N.Laplace(300.0))]) is None


def test_sums_that_were_made_consistent_are_told_but_not_of_laws_that_keep_them():
    rng, law = np.random.default_rng(10), N.DiscreteGaussian(4.0)
    frame = {"county": [f"c{i}" for i in range(8)], "age": ["low", "mid", "high"]}
    x = rng.poisson(30.0, size=(8, 3))
    noisy, rows = draw(law, rng, x), Margins(frame, ["county"])
    fine = [Measured(Identity(frame), noisy, law), Measured(rows, draw(law, rng, x.sum(axis=1)), law)]
    assert signs_of_post_processing(fine, [Exact(rows, x.sum(axis=1))]) is None
    told = signs_of_post_processing([fine[0], Measured(rows, noisy.sum(axis=1), law)])
    assert "agree exactly on all 8 sums" in told
    told = signs_of_post_processing([fine[0]], [Exact(rows, noisy.sum(axis=1))])
    assert "exact sums by county agree exactly on all 8 sums" in told
    stacked = Measured(Identity(frame) + rows, np.append(noisy, noisy.sum(axis=1)), law)
    assert "agree exactly on all 8 sums" in signs_of_post_processing([stacked])
    for keeps in (N.LatticeLaplace(0.5), N.ProjectedGaussian(3.0)):  # a clipped table breaks its totals, and is refused
        assert signs_of_post_processing([measured(np.zeros(60), keeps)]) is None


def test_a_release_warns_once_and_the_rate_is_shared_among_all_signs_looked_for():
    noisy = np.maximum(N.DiscreteGaussian(5.0).draw(np.random.default_rng(1), (60,), location=2.0), 0)
    with pytest.warns(PostProcessedWarning, match="23 are exactly 0") as caught:
        release = Release.from_published(line(60), measured=[measured(noisy, N.DiscreteGaussian(5.0))])
    assert [own.filename for own in caught] == [__file__]  # whoever published it is pointed at
    assert Release.from_dataset(release.to_dataset()) == release  # it has been said
    with pytest.raises(ValueError, match="postprocessing is 'clipped at zero'"):
        measured(noisy, N.DiscreteGaussian(5.0), postprocessing="clipped at zero")
    # All even: just below and just above the level of one sign in 2 + 14.
    law = N.DiscreteGaussian(5.0)
    share = multiples(answers([2], law))[0][0]
    n = int(np.ceil(np.log(FALSE_ALARMS / (2 + len(BASES))) / np.log(share)))
    values = np.append(np.full(n, 202), -202)
    assert signs_of_post_processing([measured(values[1:], law)]) is not None
    assert signs_of_post_processing([measured(values[2:], law)]) is None


AREAS = 12
TABLE = {"area": [f"a{i}" for i in range(AREAS)], "sex": ["f", "m"]}
ROWS = Margins(TABLE, ["area"])
LAW = N.DiscreteGaussian(sigma=5.0)
NOISY = LAW.draw(np.random.default_rng(1), (AREAS, 2), location=30)


def cells_and_rows(values, rows=None, law=LAW, table=TABLE):
    rows = np.asarray(values).sum(axis=1) if rows is None else rows
    return [Measured(Identity(table), values, law), Measured(Margins(table, ["area"]), rows, law)]


def test_a_table_that_was_made_consistent_is_refused_with_the_way_out_but_no_small_one():
    parts = cells_and_rows(NOISY)
    words = r"agree exactly on all 12 sums.*before.*noisy measurement files.*adding_up='warn'"
    with pytest.raises(ValueError, match=words):
        Release.from_published(TABLE, parts)
    with pytest.warns(PostProcessedWarning, match="agree exactly on all 12 sums"):
        release = Release.from_published(TABLE, parts, adding_up="warn")
    assert len(release.measurements) == 2
    assert Release.from_dataset(release.to_dataset()) == release  # what was accepted once can be read again
    with pytest.raises(ValueError, match="adding_up must be one of"):
        Release.from_published(TABLE, parts, adding_up="ignore")
    with pytest.raises(ValueError, match="24 answers by area × sex and exact sums by area"):
        Release.from_published(TABLE, parts[:1], [Exact(ROWS, NOISY.sum(axis=1))])
    parts = cells_and_rows(NOISY, NOISY.sum(axis=1) + (np.arange(AREAS) == 3))
    assert made_consistent(parts) is None
    Release.from_published(TABLE, parts)
    few = {"area": [f"a{i}" for i in range(9)], "sex": ["f", "m"]}
    parts = cells_and_rows(NOISY[:9], table=few)
    assert made_consistent(parts) is None  # nine sums: warned about, as chance does not explain them
    with pytest.warns(PostProcessedWarning, match="all 9 sums"):
        Release.from_published(few, parts)
    # Noise that is nearly always zero: P(0) = 0.9993 by hand, so that 12 sums agree nearly always.
    little = N.DiscreteLaplace(b=1 / 8)
    values = little.draw(np.random.default_rng(1), (AREAS, 2), location=30)
    assert made_consistent(cells_and_rows(values, law=little)) is None
    keeps = Measured(Identity(TABLE), np.full((AREAS, 2), 30), N.LatticeLaplace(0.5))
    release = Release.from_published(TABLE, [keeps], [Exact(ROWS, np.full(AREAS, 60))])
    assert made_consistent(release.measurements, release.exact) is None
    Release.from_published(TABLE, cells_and_rows(NOISY)[:1], [Exact(Totals(TABLE), int(NOISY.sum()))])  # one of ten
    law = N.Laplace(3.0)
    values = law.draw(np.random.default_rng(3), (AREAS, 2), location=30.0)
    assert "12 sums" in made_consistent(cells_and_rows(values, law=law))
    other = law.draw(np.random.default_rng(4), (AREAS,), location=60.0)
    assert made_consistent(cells_and_rows(values, other, law)) is None


def test_the_chance_of_adding_up_is_a_bound_against_enumeration():
    def chance(law):
        p = mass(law, np.arange(-40, 41))
        pairs = ((i, j) for i, j in product(range(81), repeat=2) if 0 <= i + j - 40 < 81)
        return sum(p[i] * p[j] * p[i + j - 40] for i, j in pairs)

    law, wide, sevens = N.DiscreteLaplace(b=0.1), N.DiscreteLaplace(b=2.0), np.full((AREAS, 2), 7)
    assert made_consistent(cells_and_rows(sevens, law=law)) is None
    assert chance(law) ** AREAS > 0.01
    assert f"chance at most {chance(wide) ** AREAS:.0e}" in made_consistent(cells_and_rows(sevens, law=wide))


@pytest.mark.filterwarnings("ignore::bayesdp.measurements.consistency.PostProcessedWarning")
def test_no_table_that_follows_its_law_is_taken_for_a_consistent_one():
    # 150 releases: the stated rate is one in a million each, so 1.5e-4 for one alarm among them.
    rng = np.random.default_rng(6)
    for _ in range(150):
        x = rng.poisson(1.0, size=(AREAS, 2))
        law = N.DiscreteGaussian(sigma=float(rng.choice([0.4, 1.0, 3.0])))
        rows = law.draw(rng, (AREAS,), location=x.sum(axis=1))
        assert made_consistent(cells_and_rows(law.draw(rng, (AREAS, 2), location=x), rows, law)) is None


SIX, FOUR = {"a": list("abcdef"), "b": list("uvwxyz")}, {"a": ["p", "q"], "b": ["u", "v"]}
GAPPED = N.CellKey(max_deviation=3, variance=(0, 3, 4, 4, 3, 4), not_smaller_than=3)
KEYS = N.CellKey(max_deviation=2, variance=1.0)
THREES = N.RandomRounding(3)
LAWS = [THREES, N.ConventionalRounding(5), KEYS, GAPPED, ten_five_rule()]


def queries(frame):
    kept = [list(own) for n in reversed(range(len(frame))) for own in combinations(frame, n)]
    return [Identity(frame), *(Margins(frame, own) if own else Totals(frame) for own in kept)]


def consistent(frame, truth, law, rng):
    values = law.draw(rng, truth.shape, location=truth)
    return [Measured(query, query.apply(values), law) for query in queries(frame)]


def test_a_consistent_perturbed_table_is_refused():
    for law in LAWS:
        rng = np.random.default_rng(1)
        parts = consistent(SIX, rng.poisson(40, (6, 6)), law, rng)
        assert "perturbed answers by a × b add up exactly to" in made_consistent(parts), law
    with pytest.raises(ValueError, match=r"by a × b add up exactly to .*\(chance at most .*adding_up='warn'"):
        Release.from_published(SIX, parts)
    with pytest.warns(PostProcessedWarning, match="add up exactly to .* under the stated law"):
        release = Release.from_published(SIX, parts, adding_up="warn")
    assert Release.from_dataset(release.to_dataset()) == release


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_honest_perturbed_tables_are_taken(law):
    """They add up by chance at most in 1 of 1,100, and mostly in 1 of 1e5: all laws and means together below 6e-3."""
    rng, asked = np.random.default_rng(2), queries(SIX)
    for mean in (0.3, 3.0, 40.0):
        for truth in (rng.poisson(mean, (6, 6)), rng.poisson(rng.gamma(0.3, mean / 0.3, (6, 6)))):
            drawn = law.draw_answers(rng, asked, truth)
            assert made_consistent([Measured(*own, law) for own in zip(asked, drawn, strict=True)]) is None


@pytest.mark.parametrize("law", [THREES, KEYS, GAPPED], ids=str)
def test_the_chance_of_perturbed_numbers_is_that_of_an_enumeration(law):
    """Two by two cells with both margins and the total: all true counts that may be, weighed by p(y | x)."""
    values = np.array([[15, 30], [0, 45]])
    parts, sets = [Measured(query, query.apply(values), law) for query in queries(FOUR)], []
    for part in parts:
        known = np.ones(part.query.rows, dtype=bool)
        sets.append(post_processed._counts(part.query.parts[0], part.values.reshape(-1), known, law))
    totals = post_processed._totals(sets, 0)
    weights = [np.exp(law.log_each(y, np.arange(60))) if y else np.eye(60)[0] for y in values.reshape(-1)]
    alone, together = np.zeros(3), 0.0
    for counts in product(*(np.flatnonzero(own) for own in weights)):
        p = np.prod([own[x] / own.sum() for own, x in zip(weights, counts, strict=True)])
        each = np.ones(3)
        for place, part in enumerate(parts[1:]):
            masses = np.exp(law.log_each(part.values, part.query.apply(np.reshape(counts, (2, 2))))).reshape(-1)
            # The second row and the first column have one cell that is not 0: the same people, and so the same number.
            certain = law.same_cell_same_value and place < 2
            each[place] = masses[place] if certain else masses.prod()
        alone += p * each
        together += p * each.prod()
    found = [post_processed._alone(sets[0], total) for total in totals]
    np.testing.assert_allclose(found, alone, rtol=1e-9)
    bound = post_processed._chance(sets[0], totals, 1.001 * float(np.prod(found)))
    assert 0.98 * together <= bound <= 1.15 * together + 1e-3


def test_the_same_people_empty_tables_and_few_multiples_are_no_contradiction():
    """Forty areas with one sex only: cell and total have one key, and are equal by the mechanism, not by chance."""
    frame, rng = {"area": [f"a{i}" for i in range(40)], "sex": ["f", "m"]}, np.random.default_rng(3)
    truth = np.column_stack([rng.poisson(30, 40), np.zeros(40, dtype=int)])
    for law, refused in ((KEYS, False), (N.ConventionalRounding(5), False), (N.RandomRounding(5), True)):
        told = made_consistent(cells_and_rows(law.draw(rng, truth.shape, location=truth), law=law, table=frame))
        assert (told is not None) is refused, law
    truth[:10, 1] = 7  # ten of them with both
    told = made_consistent(cells_and_rows(KEYS.draw(rng, truth.shape, location=truth), law=KEYS, table=frame))
    assert told is not None
    assert made_consistent(consistent(SIX, np.zeros((6, 6), dtype=int), THREES, rng)) is None
    assert made_consistent(consistent(FOUR, rng.poisson(40, (2, 2)), THREES, rng)) is None


def test_some_sums_of_a_large_table_and_exact_totals_add_up_and_unpublished_cells_are_left_out():
    frame, rng = {"area": [f"a{i}" for i in range(30)], "sex": ["f", "m"]}, np.random.default_rng(5)
    truth = rng.poisson(50, (30, 2))
    values = THREES.draw(rng, truth.shape, location=truth)
    parts = cells_and_rows(values, law=THREES, table=frame)
    told = made_consistent([*parts, Measured(Totals(frame), values.sum() + 3, THREES)])
    assert "by area × sex add up exactly to perturbed answers by area (" in told
    exact, right = (Exact(Margins(frame, ["area"]), own.sum(axis=1)) for own in (values, truth))
    assert "add up exactly to exact answers by area" in made_consistent(parts[:1], [exact])
    assert made_consistent(parts[:1], [right]) is None
    rng = np.random.default_rng(7)
    cells, *margins = consistent(SIX, rng.poisson(40, (6, 6)), KEYS, rng)[:3]
    for hidden, told in ((np.eye(6, dtype=bool), False), (np.arange(36).reshape(6, 6) == 0, True)):
        some = Measured(cells.query, np.where(hidden, np.nan, cells.values), KEYS, unmeasured=hidden)
        assert (
            made_consistent([some, *margins]) is not None
        ) is told  # with one hidden, five rows and columns are left
