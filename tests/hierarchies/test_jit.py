"""How moves are compiled: with a version of Numba that does not know the private option, and that arrays cannot be made without it."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from numba.core import caching
from numba.core.errors import NumbaError
from numba.core.options import DefaultOptions

from bayesdp import _numba as jit


def _source(x, y):
    for i in range(len(x)):
        x[i] += y
    return x[0]


def _array(n):
    return np.zeros(n).sum()


def _known(without: bool, monkeypatch):
    """The module as another version of Numba would have it; nothing is read from a cache or written there."""
    if without:
        monkeypatch.delattr(DefaultOptions, "_nrt")
    locator = caching._SourceFileBackedLocatorMixin  # which the module changes when it is imported
    monkeypatch.setattr(locator, "get_source_stamp", locator.get_source_stamp)
    spec = importlib.util.spec_from_file_location("jit_again", jit.__file__)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    for options in (made._MOVES, made._INSIDE):
        options["cache"] = False
    return made


@pytest.mark.parametrize("without", [False, True])
def test_moves_compile_with_and_without_it(without, monkeypatch):
    """Without it a sweep takes three times as long; what makes arrays is refused with it, rather than wrong."""
    assert jit._MOVES["_nrt"] is False  # whoever raises the version of Numba should hear of it
    made = _known(without, monkeypatch)
    assert ("_nrt" in made._MOVES, "_nrt" in made._INSIDE) == (not without, not without)
    part = made.inside(_source)

    def whole(x, y):
        return part(x, y) + 1.0

    table = np.arange(3.0)
    assert made.compiled(whole)(table, 2.0) == 3.0
    np.testing.assert_array_equal(table, [2.0, 3.0, 4.0])
    if not without:
        with pytest.raises(NumbaError, match="zeros"):
            made.compiled(_array)(3)
