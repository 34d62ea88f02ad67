"""Pictures of trade-off functions: the lines are the functions."""

from __future__ import annotations

import numpy as np
import pytest

from bayesdp.plots import tradeoffs
from bayesdp.privacy import approximate_dp, gaussian_dp, tensor_product


def test_lines_are_the_functions() -> None:
    curves = {
        "pure": approximate_dp(1.0),
        "both $": tensor_product(approximate_dp(0.5), approximate_dp(0.2)),
    }
    axes = tradeoffs(curves).axes[0]
    lines = axes.get_lines()[1:]
    assert [line.get_label() for line in lines] == ["pure", "both \\$"]
    for line, f in zip(lines, curves.values(), strict=True):
        x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        assert (x[0], x[-1]) == (0.0, 1.0)
        np.testing.assert_array_equal(y, f(x))
    kink = np.asarray(lines[0].get_xdata(), dtype=np.float64) - 1.0 / (1.0 + np.e)
    assert np.min(np.abs(kink)) < 1e-15  # it is drawn
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("type I error", "smallest type II error")


def test_bad_arguments_are_named() -> None:
    with pytest.raises(TypeError, match="curves must be a mapping"):
        tradeoffs([gaussian_dp(1.0)])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one"):
        tradeoffs({})
    with pytest.raises(TypeError, match=r"curves\['a'\] must be a trade-off function"):
        tradeoffs({"a": 1.0})  # type: ignore[dict-item]
