"""Independent noise for releases, by either engine."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from bayesdp.noise import DiscreteGaussian, DiscreteLaplace, LatticeGaussian, secure
from bayesdp.noise.secure import draw_independent, engine_for, statement
from tests.lattices.secure.test_rational import fits

HAS_OPENDP = importlib.util.find_spec("opendp") is not None
ENGINES = [
    "integers",
    pytest.param("opendp", marks=pytest.mark.skipif(not HAS_OPENDP, reason="needs the extra 'secure'")),
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("law", [DiscreteLaplace(2.5), DiscreteGaussian(1.7)], ids=str)
def test_law(law, engine):
    # Entropy of the operating system has no seed: one run in ten thousand fails by chance.
    draws = draw_independent(law, 10_000, engine)
    assert draws.dtype == np.int64
    assert fits(draws.tolist(), law.log_mass)
    assert draw_independent(law, 0, engine).shape == (0,)


@pytest.mark.parametrize("engine", ENGINES)
def test_says_what_it_uses(engine):
    assert engine_for(engine) == engine
    assert ("OpenDP" in statement(engine).split(":")[0]) == (engine == "opendp")
    assert ("Nobody outside has vetted" in statement(engine)) == (engine == "integers")
    assert "no rounding" in statement(engine)


def test_without_opendp_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(secure, "find_spec", lambda name: None)
    assert engine_for() == "integers"
    with pytest.raises(ImportError, match=r"needs the extra 'secure': pip install 'bayesdp\[secure\]'"):
        draw_independent(DiscreteLaplace(2.5), 3, "opendp")


@pytest.mark.skipif(not HAS_OPENDP, reason="needs the extra 'secure'")
def test_switches_of_opendp_are_left_alone():
    from opendp import mod

    mod.disable_features("contrib")
    draw_independent(DiscreteLaplace(2.5), 3, "opendp")
    assert "contrib" not in mod.GLOBAL_FEATURES


def test_bad_arguments():
    with pytest.raises(TypeError, match="law must be a DiscreteLaplace or a DiscreteGaussian"):
        draw_independent(LatticeGaussian(1.0), 3)
    with pytest.raises(TypeError, match="one scale for all answers"):
        draw_independent(DiscreteLaplace([1.0, 2.0]), 2)
    with pytest.raises(ValueError, match="engine must be"):
        draw_independent(DiscreteLaplace(1.0), 3, "numpy")
