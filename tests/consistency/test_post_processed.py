"""Numbers that were clipped, rounded or made consistent: bounds against exact probabilities, and what is said of them.

The bounds are compared with the exact probability of the same event for many true tables, by sums over the laws' masses.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import stats

import bayesdp as bdp
from bayesdp.consistency import FALSE_ALARMS, PostProcessedWarning, signs_of_post_processing
from bayesdp.consistency.differences import agreeing, answers_of, differences_of
from bayesdp.consistency.post_processed import BASES, multiples, near_zero, published_of
from bayesdp.measurements import Exact, Measured
from bayesdp.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, LatticeLaplace, ProjectedGaussian
from bayesdp.queries import Identity, LinearQuery, Margins, Totals

INTEGER = [DiscreteLaplace(0.7), DiscreteGaussian(0.6), DiscreteGaussian(5.0)]
GRID = {"county": ["p", "q", "r"], "age": ["low", "mid", "high"]}


def line(n: int) -> dict[str, list[str]]:
    return {"county": [f"c{i}" for i in range(n)]}


def measured(values, law, **kwargs) -> Measured:
    return Measured(Identity(line(len(values))), values, law, **kwargs)


def answers(values, law, **kwargs):
    return published_of([measured(values, law, **kwargs)])[0]


def mass(law, k):
    return np.exp(law.log_mass(np.asarray(k, dtype=float)))


class TestNearZero:
    @pytest.mark.parametrize("law", INTEGER, ids=str)
    @pytest.mark.parametrize("n", [12, 400])
    def test_the_bound_holds_for_every_true_count(self, law, n):
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

    def test_the_bound_holds_for_mixed_tables_and_scales(self):
        # Two thirds of the cells far from zero, in one window or another; the exact law by convolution.
        law = DiscreteGaussian(sigma=np.repeat([2.0, 7.0], 30))
        values = np.full(60, 500)
        values[:9] = 0
        bound = near_zero(answers(values, law))[0][0]
        for x in ((0, 0), (3, 20), (5, 10), (8, 30), (0, 40), (4, 0)):
            zeros = np.ones(1)
            for own, sigma in zip(x, (2.0, 7.0), strict=True):
                a = mass(DiscreteGaussian(sigma), -own)
                keep = 1 - float(DiscreteGaussian(sigma).cdf(-1, own))
                for _ in range(30):
                    zeros = np.convolve(zeros, [keep - a, a])
            assert zeros[9:].sum() <= bound * (1 + 1e-9)

    def test_geometric_noise_has_the_conditional_probability(self):
        # Given that a number is zero or negative it is zero with probability 1 - q, whatever the count.
        law = DiscreteLaplace(4.0)
        values = np.full(200, 400)
        values[:10] = 0
        bound = near_zero(answers(values, law))[0][0]
        exact = (1 - np.exp(-0.25)) ** 10
        assert exact <= bound < 30 * exact  # intervals of x and a grid of s cost a little

    def test_real_noise_published_to_a_grid(self):
        # To one decimal, clipped: exact zeros and small numbers.
        law, grid = Laplace(3.0), 0.1
        values = np.append(np.full(40, 99.9), np.zeros(5))
        for bound, top in zip([b for b, _ in near_zero(answers(values, law))], (0.0, 3.0), strict=True):
            for x in range(40):
                a = float(law.cdf(top + grid / 2, x) - law.cdf(-grid / 2, x))
                c = float(law.cdf(-grid / 2, x))
                exact = (1 - c) ** 45 * stats.binom.sf(4, 45, min(a / (1 - c), 1.0))
                assert exact <= bound * (1 + 1e-9)

    def test_a_negative_number_or_none_near_zero_ends_it(self):
        law = DiscreteLaplace(4.0)
        assert near_zero(answers([0] * 50 + [-1], law)) == []
        assert near_zero(answers([50, 60], law)) == []
        assert near_zero(answers([0.0, np.nan], law, unmeasured=["county=c1"]))[0][1].startswith("none of the 1 noisy")

    def test_differences_of_counts_may_be_negative_or_zero(self):
        # A contrast is no count: its true value may be anything, and many zeros are no sign.
        frame = line(60)
        contrast = LinearQuery(
            frame, np.eye(60, dtype=int) - np.roll(np.eye(60, dtype=int), 1, axis=1), frame["county"]
        )
        assert near_zero(published_of([Measured(contrast, np.zeros(60, dtype=int), DiscreteLaplace(1.0))])[0]) == []


class TestMultiples:
    @pytest.mark.parametrize("law", INTEGER, ids=str)
    def test_the_likeliest_residue_is_zero(self, law):
        k = np.arange(-int(45 * law.scale) - 2000, int(45 * law.scale) + 2001)
        own = mass(law, k)
        for base in (2, 3, 5, 10, 100):
            shares = np.bincount(k % base, own, minlength=base)
            found = {words.split()[-1]: bound for bound, words in multiples(answers([base * 1000], law))}
            assert found[str(base)] == pytest.approx(shares[0], rel=1e-9)
            assert shares.max() <= shares[0] * (1 + 1e-12)

    @pytest.mark.parametrize("law", [Laplace(3.0), Gaussian(3.0)], ids=str)
    def test_real_noise_within_half_the_grid(self, law):
        for base in (0.5, 10.0):
            found = multiples(answers([base], law))
            [bound] = [b for b, words in found if words.split(",")[0].endswith(f"are multiples of {base:g}")]
            centres = base * np.arange(-400, 401)
            for x in np.linspace(0, base, 21):
                inside = law.cdf(centres + base / 20, x) - law.cdf(centres - base / 20, x)
                assert inside.sum() <= bound

    def test_several_numbers_multiply(self):
        one = {w.split()[-1]: b for b, w in multiples(answers([10], DiscreteGaussian(3.0)))}
        four = {w.split()[-1]: b for b, w in multiples(answers([10, -20, 0, 50], DiscreteGaussian(3.0)))}
        assert four["10"] == pytest.approx(one["10"] ** 4)
        assert "20" not in four
        assert multiples(answers([10, 7], DiscreteGaussian(3.0))) == []


class TestAddingUp:
    def compare(self, measurements, exact=()):
        groups, _ = differences_of(answers_of(measurements, exact)[0])
        return len(groups), agreeing(groups)

    def test_the_bound_holds_for_noisy_rows_and_cells(self):
        # Exactly: the difference of a row's noise and the sum of its cells' is zero, by convolution; three rows.
        cells, rows = DiscreteGaussian(2.0), DiscreteLaplace(1.5)
        table = np.arange(9).reshape(3, 3)
        one = Measured(Identity(GRID), table, cells)
        compared, [(bound, words)] = self.compare([one, Measured(Margins(GRID, ["county"]), table.sum(axis=1), rows)])
        k = np.arange(-80, 81)
        sums = np.convolve(np.convolve(mass(cells, k), mass(cells, k)), mass(cells, k))
        exact = np.convolve(sums, mass(rows, k))[320] ** 3
        assert compared == 1
        assert bound == pytest.approx(exact, rel=1e-9)
        assert "9 answers by county × age and 3 answers by county agree exactly on all 3 sums" in words

    def test_exact_sums_and_gaps(self):
        table = np.array([[1.0, 2, 3], [4, 5, 6], [7, 8, np.nan]])
        law = DiscreteLaplace(5.0)
        noisy = Measured(Identity(GRID), table, law, unmeasured=[("r", "high")])
        exact = Exact(Margins(GRID, ["county"]), [6, 15, 99])
        compared, [(bound, words)] = self.compare([noisy], [exact])
        assert compared == 1  # the row with a gap says nothing; the others add up
        k = np.arange(-200, 201)
        assert bound == pytest.approx(
            np.convolve(np.convolve(mass(law, k), mass(law, k)), mass(law, k))[600] ** 2, rel=1e-9
        )
        assert "all 2 sums" in words
        assert self.compare([noisy], [Exact(Margins(GRID, ["county"]), [6, 16, 99])])[1] == []

    def test_crossing_margins_agree_on_their_total_only(self):
        rows = Measured(Margins(GRID, ["county"]), [5, 6, 7], DiscreteLaplace(5.0))
        columns = Measured(Margins(GRID, ["age"]), [1, 2, 15], DiscreteGaussian(9.0))
        compared, [(bound, _)] = self.compare([rows, columns])
        assert compared == 1
        k, law = np.arange(-200, 201), mass(DiscreteLaplace(5.0), np.arange(-200, 201))
        noise = np.convolve(np.convolve(law, law), law)
        for _ in range(3):
            noise = np.convolve(noise, mass(DiscreteGaussian(9.0), k))
        assert bound == pytest.approx(noise[1200], rel=1e-9)

    def test_real_numbers_add_up_within_their_grid(self):
        # Real noise agrees with probability 0: within three steps of the grid that its law is worked out on.
        law = Laplace(4.0)
        noisy = Measured(Identity(GRID), np.full((3, 3), 2.25), law)
        rows = Measured(Margins(GRID, ["county"]), [6.75, 6.75, 6.75], Laplace(0.5))
        [(bound, _)] = self.compare([noisy, rows])[1]
        step = 0.125  # a power of two, of about a 64th of the largest standard deviation
        u = np.arange(-2000, 2001) * 0.05
        three = np.exp(-np.abs(u) / 4.0) * 0.05 / 8.0
        density = np.convolve(np.convolve(three, three), three).max() / 0.05
        assert (2 * step * density) ** 3 < bound < (6 * step * density) ** 3


def draw(law, rng, x):
    found = law.draw(rng, x.shape, location=x)
    return found if law.integer else np.round(found, 2)


class TestWarnings:
    def test_no_false_alarm_in_many_releases(self):
        # 200 releases, 1e-6 each: a false alarm in one of 5000 runs with other seeds.
        rng = np.random.default_rng(5)
        frame = {"county": [f"c{i}" for i in range(20)], "age": ["low", "mid", "high"]}
        laws = [DiscreteLaplace(1.0), DiscreteLaplace(8.0), DiscreteGaussian(3.0), Laplace(2.0), Gaussian(6.0)]
        for k in range(200):
            law = laws[k % 5]
            x = rng.poisson(rng.choice([0.0, 0.5, 2.0, 10.0, 60.0]), size=(20, 3)) * rng.choice([1, 5])
            parts = [Measured(Identity(frame), draw(law, rng, x), law)]
            if k % 2:
                parts.append(Measured(Margins(frame, ["county"]), draw(law, rng, x.sum(axis=1)), law))
            assert signs_of_post_processing(parts, [Exact(Totals(frame), int(x.sum()))]) is None

    @pytest.mark.parametrize("law", [DiscreteGaussian(5.0), Laplace(4.0)], ids=str)
    @pytest.mark.parametrize(
        ("change", "evidence"),
        [
            (lambda y: np.maximum(y, 0), "is negative and"),
            (np.abs, "is negative and"),
            (lambda y: 5 * np.round(y / 5), "multiples of 5"),
        ],
        ids=["clipped", "without their signs", "rounded to fives"],
    )
    def test_a_changed_table_is_named(self, law, change, evidence):
        rng = np.random.default_rng(8)
        x = rng.poisson(3.0, size=80)
        noisy = draw(law, rng, x)
        assert signs_of_post_processing([measured(noisy, law)]) is None
        told = signs_of_post_processing([measured(change(noisy), law)])
        assert told is not None
        assert evidence in told
        for words in ("80 noisy numbers", "probability at most", "whatever the true table", "below 1e-06"):
            assert words in told

    def test_whole_numbers_under_real_noise_are_rounded(self):
        # A third of the scale: told. To a tenth of a count: the law hardly differs, not told.
        rng = np.random.default_rng(9)
        noisy = Laplace(3.0).draw(rng, (16,), location=20.0)
        told = signs_of_post_processing([measured(np.round(noisy), Laplace(3.0))])
        assert "multiples of 1, and real noise gives no whole numbers, as discrete-laplace does" in told
        assert signs_of_post_processing([measured(np.round(noisy, 1), Laplace(3.0))]) is None
        assert signs_of_post_processing([measured(np.round(noisy * 100), Laplace(300.0))]) is None

    def test_sums_that_were_made_consistent(self):
        rng = np.random.default_rng(10)
        frame = {"county": [f"c{i}" for i in range(8)], "age": ["low", "mid", "high"]}
        law = DiscreteGaussian(4.0)
        x = rng.poisson(30.0, size=(8, 3))
        noisy = draw(law, rng, x)
        rows = Margins(frame, ["county"])
        fine = [Measured(Identity(frame), noisy, law), Measured(rows, draw(law, rng, x.sum(axis=1)), law)]
        assert signs_of_post_processing(fine, [Exact(rows, x.sum(axis=1))]) is None
        told = signs_of_post_processing([fine[0], Measured(rows, noisy.sum(axis=1), law)])
        assert "agree exactly on all 8 sums" in told
        told = signs_of_post_processing([fine[0]], [Exact(rows, noisy.sum(axis=1))])
        assert "exact sums by county agree exactly on all 8 sums" in told
        stacked = Measured(Identity(frame) + rows, np.append(noisy, noisy.sum(axis=1)), law)
        assert "agree exactly on all 8 sums" in signs_of_post_processing([stacked])

    def test_laws_that_keep_exact_totals_are_left_to_their_own_check(self):
        # A clipped table under such a law breaks its totals, and is refused.
        frame = line(60)
        values = np.zeros(60)
        for law in (LatticeLaplace(0.5), ProjectedGaussian(3.0)):
            assert signs_of_post_processing([Measured(Identity(frame), values, law)]) is None

    def test_a_release_warns_once_and_says_what_was_said(self):
        noisy = np.maximum(DiscreteGaussian(5.0).draw(np.random.default_rng(1), (60,), location=2.0), 0)
        with pytest.warns(PostProcessedWarning, match="23 are exactly 0") as caught:
            release = bdp.Release.from_published(line(60), measured=[measured(noisy, DiscreteGaussian(5.0))])
        assert len(caught) == 1
        assert caught[0].filename == __file__  # whoever published it is pointed at
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            again = bdp.Release.from_dataset(release.to_dataset())  # it has been said
        assert again == release
        with pytest.raises(ValueError, match="postprocessing is 'clipped at zero'"):
            measured(noisy, DiscreteGaussian(5.0), postprocessing="clipped at zero")

    def test_the_rate_is_shared_among_all_signs_looked_for(self):
        # All even: just below and just above the level of one sign in 2 + 14.
        law = DiscreteGaussian(5.0)
        share = multiples(answers([2], law))[0][0]
        n = int(np.ceil(np.log(FALSE_ALARMS / (2 + len(BASES))) / np.log(share)))
        values = np.append(np.full(n, 202), -202)
        assert signs_of_post_processing([measured(values[1:], law)]) is not None
        assert signs_of_post_processing([measured(values[2:], law)]) is None
