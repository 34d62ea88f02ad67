"""Checks of arguments, and a few other small functions that many stand on, by example."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from bayesdp import _text, _validate
from bayesdp.invariants import Invariants
from bayesdp.mechanisms.base import laplace_scale, one_statement
from bayesdp.mechanisms.real import grid_for
from bayesdp.noise.lattice.laws import l2_log_sum
from bayesdp.privacy.gaussian import mills
from bayesdp.queries import Totals


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (_validate.positive_real, [0.25, 3], [0, -1.0, np.inf, np.nan]),
        (_validate.nonnegative_real, [0, 0.5], [-1e-9, np.inf, np.nan]),
        (_validate.positive_integer, [4, np.int64(4)], [0, -1]),
        (_validate.nonnegative_integer, [0, 4], [-1]),
        (_validate.probability, [0.95], [0, 1, 1.5]),
    ],
)
def test_numbers_in_a_range(check, good, bad):
    for value in good:
        assert check(value, "given") == value
    for value in bad:
        with pytest.raises(ValueError, match=r"^given must"):
            check(value, "given")
    for value in (True, "4", None):
        with pytest.raises(TypeError, match=r"^given must be"):
            check(value, "given")


def test_one_of_a_few_strings():
    assert _validate.choice("l1", ("l1", "l2"), "norm") == "l1"
    with pytest.raises(ValueError, match=r"norm must be one of 'l1', 'l2', got 'l3'"):
        _validate.choice("l3", ("l1", "l2"), "norm")


def test_arrays_of_whole_numbers():
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


def test_totals_beyond_int64():
    assert _validate.exact_total(np.full(4096, 2**52)) == 2**64
    assert _validate.exact_total(np.full(4096, -(2**52))) == -(2**64)


def test_generators():
    assert _validate.random_generator(7).random() == np.random.default_rng(7).random()
    assert _validate.random_generator(None) is None
    own = np.random.default_rng(1)
    assert _validate.random_generator(own) is own


def test_words_of_messages():
    assert _validate.both_lists(unknown=["x"], missing=[]) == "unknown: 'x'"
    assert _validate.no_table(["total = -3"]) == ("no nonnegative integer table satisfies the exact values: total = -3")
    assert _validate.no_table(["a"] * 14, complete=False).endswith(
        "; ... (2 more) (together with the other exact values)"
    )


def test_json_with_nothing_that_is_none():
    assert _text.dumps({"sigma": 5.0}, "law") == '{"sigma": 5.0}'
    with pytest.raises(ValueError, match="law is not valid JSON: NaN is not a number that JSON knows"):
        _text.loads('{"sigma": NaN}', "law")
    assert np.isnan(_text.loads('{"sigma": NaN}', "law", constants=True)["sigma"])


def test_scales_and_statements_of_mechanisms():
    assert Fraction(laplace_scale(1.0, 0.3)) * Fraction(0.3) >= 1
    assert grid_for(3.0) == 2.0**-19
    stated = {"rho": None, "epsilon": 1.0, "delta": 1e-6}
    assert one_statement(stated, (("rho",), ("epsilon", "delta"))) == {"epsilon": 1.0, "delta": 1e-6}


def test_known_numbers():
    assert mills(0.0) == pytest.approx(np.sqrt(np.pi / 2))
    # Two cells with a known sum: z = (k, -k), and exp(-k**2) is summed over all whole k.
    numbers = np.arange(-30.0, 31.0)
    both = Invariants(Totals({"county": ["Alpha", "Beta"]}))
    assert l2_log_sum(both, 1.0) == pytest.approx(np.log(np.exp(-(numbers**2)).sum()))
