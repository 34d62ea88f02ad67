"""Small helpers: texts that are printed, files of JSON and CSV, numbers that are checked, seeds."""

import csv
import io
import json
import sys
import unicodedata
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bayesdp as bdp
from bayesdp import _text, _validate, mechanisms, significance
from bayesdp._text import aligned, csv_label, json_escaped, label_of_csv, printable, printable_lines, width
from bayesdp.invariants import Invariants
from bayesdp.lattices import sample_noise
from bayesdp.lattices.polytopes import SymmetricHull, sample_hull
from bayesdp.mechanisms.base import laplace_scale, one_statement
from bayesdp.mechanisms.real import grid_for
from bayesdp.noise import NoiseLaw
from bayesdp.noise.lattice.laws import l2_log_sum
from bayesdp.papers import bounded_statistics, covariance_cone
from bayesdp.privacy import approximate_dp, mean_sensitivity
from bayesdp.privacy.gaussian import mills
from bayesdp.queries import Margins, Totals
from tests.nasty import COMPUTED, FOREIGN, LABELS, OBEYED, obeyed

TEXTS = st.text(st.one_of(st.characters(), st.sampled_from("=+-@'\\\"\n\r\t,;\x1b\u202e\ud800ntxuU0123abc")))
"""With surrogates, and with more of what matters."""


def test_printable_escapes_every_character_that_a_terminal_obeys():
    # All of the first planes' letters and signs, every 13th of the rest, and the invisible tags.
    for code in (
        *range(0x3400),
        *range(0x3400, sys.maxunicode + 1, 13),
        *range(0xD7F0, 0xE010),
        *range(0xE0000, 0xE0080),
    ):
        own = chr(code)
        shown = printable(own)
        if unicodedata.category(own) in ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp"):
            assert shown.isascii(), hex(code)
            assert shown.isprintable(), hex(code)
            assert shown == repr(own)[1:-1], hex(code)  # as Python writes it
        else:
            assert shown in (own, f"\\u{code:04x}"), hex(code)
    assert [printable(own) for own in (*FOREIGN, 3, 2.5, None)] == [*FOREIGN, "3", "2.5", "None"]
    assert [len(printable(label).splitlines()) for label in OBEYED] == [1] * len(OBEYED)


@given(TEXTS)
def test_printable_twice_is_once_and_lines_are_those_of_the_text(text):
    assert printable(printable(text)) == printable(text)
    assert printable_lines(printable_lines(text)) == printable_lines(text)
    assert printable_lines(text).split("\n") == [printable_lines(own) for own in text.split("\n")]
    assert not obeyed(printable_lines(text), "\n\t")


@given(st.recursive(TEXTS, lambda own: st.lists(own) | st.dictionaries(TEXTS, own), max_leaves=5))
def test_escaped_json_is_the_same_data_without_what_a_terminal_obeys(data):
    for indent in (None, 1):
        text = json_escaped(json.dumps(data, ensure_ascii=False, indent=indent))
        assert json.loads(text) == data
        assert not obeyed(text)


@given(st.lists(TEXTS, min_size=1))
def test_labels_go_through_the_csv_module(texts):
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerow([csv_label(text) for text in texts])
    assert file.getvalue().count("\n") == 1
    [row] = csv.reader(io.StringIO(file.getvalue()))
    assert [label_of_csv(cell) for cell in row] == texts
    assert not obeyed(file.getvalue())


def test_columns_of_a_terminal_and_formulas_are_text_in_csv_where_most_labels_stay():
    widths = {"Beta": 4, "東京": 4, "ｶﾞ": 2, "e\u0301": 1, "القاهرة": 7, "\uff21": 2}
    for text, columns in widths.items():
        assert width(text) == columns
        assert width(aligned(text, 10)) == width(aligned(text, 10, right=True)) == 10
        assert aligned(text, 1) == text
    for prefix in ("=", "+", "-", "@", "\t=", "\r=", " =", "\uff1d", "\uff0b", "\uff0d", "\uff20"):
        assert csv_label(f"{prefix}cmd|' /C calc'!A0")[0] == "'", prefix
    assert {csv_label(label)[0] for label in COMPUTED[:-1]} == {"'"}
    assert [csv_label(own) for own in (-5, -2.5, 1990)] == ["-5", "-2.5", "1990"]
    assert [csv_label(own) for own in (*FOREIGN, "a=b-c")] == [*FOREIGN, "a=b-c"]
    assert len({csv_label(label) for label in LABELS}) == len(LABELS)
    for cell in ("'\\", "'\\q", "'\\x1", "'a\\u12"):  # not written so
        with pytest.raises(ValueError, match="begins no escape"):
            label_of_csv(cell)


def test_numbers_in_a_range_arrays_of_whole_numbers_and_totals_beyond_int64():
    for check, good, bad in (
        (_validate.positive_real, [0.25, 3], [0, -1.0, np.inf, np.nan]),
        (_validate.nonnegative_real, [0, 0.5], [-1e-9, np.inf, np.nan]),
        (_validate.positive_integer, [4, np.int64(4)], [0, -1]),
        (_validate.nonnegative_integer, [0, 4], [-1]),
        (_validate.probability, [0.95], [0, 1, 1.5]),
    ):
        assert [check(value, "given") for value in good] == good
        for value in bad:
            with pytest.raises(ValueError, match=r"^given must"):
                check(value, "given")
        for value in (True, "4", None):
            with pytest.raises(TypeError, match=r"^given must be"):
                check(value, "given")
    with pytest.raises(ValueError, match=r"norm must be one of 'l1', 'l2', got 'l3'"):
        _validate.choice("l3", ("l1", "l2"), "norm")
    found = _validate.integer_array([3.0, 4.0], "table", minimum=0)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, [3, 4])
    for bad, said in (([3.5], "0 is 3.5"), ([1, -2], "1 is -2"), ([2.0**53], "0 is"), ([np.nan], "0 is nan")):
        with pytest.raises(ValueError, match=rf"^table must .*{said}"):
            _validate.integer_array(bad, "table", minimum=0)
    with pytest.raises(ValueError, match=r"0 is no whole number$"):
        _validate.integer_array([3.5], "table", confidential=True)
    with pytest.raises(TypeError, match="dtype bool"):
        _validate.integer_array([True], "table")
    values = np.random.default_rng(1).integers(-(2**52), 2**52, 1000)
    for own in (np.full(4096, 2**52), np.full(4096, -(2**52)), values):
        assert _validate.exact_total(own) == sum(own.tolist())
    assert _text.dumps({"sigma": 5.0}, "law") == '{"sigma": 5.0}'
    with pytest.raises(ValueError, match="law is not valid JSON: NaN is not a number that JSON knows"):
        _text.loads('{"sigma": NaN}', "law")
    assert np.isnan(_text.loads('{"sigma": NaN}', "law", constants=True)["sigma"])


def test_scales_and_statements_of_mechanisms():
    assert Fraction(laplace_scale(1.0, 0.3)) * Fraction(0.3) >= 1
    assert grid_for(3.0) == 2.0**-19
    assert mills(0.0) == pytest.approx(np.sqrt(np.pi / 2))
    # Two cells with a known sum: z = (k, -k), and exp(-k**2) is summed over all whole k.
    both = Invariants(Totals({"county": ["Alpha", "Beta"]}))
    assert l2_log_sum(both, 1.0) == pytest.approx(np.log(np.exp(-(np.arange(-30.0, 31.0) ** 2)).sum()))
    stated = {"rho": None, "epsilon": 1.0, "delta": 1e-6}
    assert one_statement(stated, (("rho",), ("epsilon", "delta"))) == {"epsilon": 1.0, "delta": 1e-6}


TABLE = {"row": ["a", "b"], "column": ["c", "d"]}
COUNTS = np.array([[6, 3], [2, 9]])
BOTH = Margins(TABLE, ["row"], ["column"])
EXTENDED, K_NORM = bdp.ExtendedLaplace(Totals(TABLE), epsilon=0.5), bdp.KNorm(Totals(TABLE), epsilon=0.5)
STATISTIC = mechanisms.BoundaryInflatedLaplace(1.0, mean_sensitivity(50, (0.0, 1.0)), (0.0, 1.0))
SHARES = bounded_statistics.RescaledProportions(1.0, 60, ["a", "b", "c"])
INDEPENDENCE = significance.independence_test_from_releases
PUBLISHED = bdp.LatticeLaplace(BOTH, epsilon=0.25).release(COUNTS, rng=1)


def released(mechanism):
    return lambda rng: mechanism.release(COUNTS, rng=rng).values


DOORS = {
    "lattice noise": lambda rng: bdp.LatticeLaplace(BOTH, epsilon=0.25).noise(rng, size=20),
    "lattice release": released(bdp.LatticeLaplace(BOTH, epsilon=0.25)),
    "subspace release": released(EXTENDED),
    "K-norm release": released(K_NORM),
    "one of several releases": released(mechanisms.PublishedChoice([EXTENDED, K_NORM], [0.5, 0.5])),
    "Semi-DP release": released(bdp.SemiGaussian(BOTH, mu=0.5)),
    "Semi-DP integers": released(mechanisms.SemiLatticeLaplace(Totals(TABLE), epsilon=0.5)),
    "independent release": released(mechanisms.DiscreteLaplace(bdp.Identity(TABLE), epsilon=0.1)),
    "bounded statistic": lambda rng: STATISTIC.release(0.4, rng=rng).values,
    "proportions": lambda rng: SHARES.release([10, 20, 30], rng=rng).shares,
    "sample_noise": lambda rng: sample_noise(Invariants(Totals(TABLE)), "l1", 0.2, rng, size=20),
    "sample_hull": lambda rng: sample_hull(SymmetricHull([[1, 1], [1, -1]]), 0.5, rng, 20),
    "canonical noise": lambda rng: approximate_dp(1.0).canonical_noise().rvs(20, rng=rng),
    "a law": lambda rng: NoiseLaw.from_description({"law": "discrete-laplace", "b": 5.0}).draw(rng, (20,)),
    "p-value": lambda rng: significance.odds_ratio_test_from_release(PUBLISHED, rng=rng).uniform,
    "p-value of several": lambda rng: significance.odds_ratio_test_from_releases([PUBLISHED], rng=rng).uniform,
    "p-value of strata": lambda rng: significance.common_odds_ratio_test({"all": PUBLISHED}, rng=rng).uniform,
    "p-value by simulation": lambda rng: INDEPENDENCE(PUBLISHED, draws=999, rng=rng).statistic,
}


@pytest.mark.parametrize("draw", DOORS.values(), ids=DOORS)
def test_an_integer_seeds_a_generator(draw):
    seeded = np.asarray(draw(5))
    np.testing.assert_array_equal(seeded, draw(np.random.default_rng(5)))
    np.testing.assert_array_equal(seeded, draw(np.int64(5)))
    assert not np.array_equal(seeded, draw(6)) or not np.array_equal(seeded, draw(7))
    assert np.asarray(draw(None)).shape == seeded.shape
    for wrong in (5.0, True, "5"):
        with pytest.raises(TypeError, match=r"rng must be an integer seed, a numpy\.random\.Generator or None, got"):
            draw(wrong)
    with pytest.raises(ValueError, match="rng must be a seed of at least 0"):
        draw(-1)


def test_several_draws_of_one_seed_differ():
    """A seed that was asked for at each draw would publish the same noise several times: differences without noise."""
    assert PUBLISHED.guarantee.simulated
    own = bounded_statistics.RescaledProportions, 2.0, 60, ["a", "b", "c"]
    several = bounded_statistics.MultipleSynthesis.split(*own, parts=5)
    assert len({release.shares.tobytes() for release in several.release([10, 20, 30], rng=1)}) == 5
    bounds = [(0.0, 1.0), (0.0, 1.0)]
    matrix = covariance_cone.CovarianceMatrix(50.0, 1000, bounds).release([[0.08, 0.03], [0.03, 0.08]], rng=1).matrix
    assert abs(matrix[0, 0] - matrix[1, 1]) > 1e-9
