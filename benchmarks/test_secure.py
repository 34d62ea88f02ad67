"""Noise with integers only: our own against OpenDP, and with a fixed total against rejection on OpenDP's noise."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from bayesdp.invariants import Invariants
from bayesdp.lattices.secure import draw_secure
from bayesdp.noise import DiscreteGaussian, DiscreteLaplace
from bayesdp.noise.secure import draw_independent
from bayesdp.queries import Totals

EPSILON = 0.192
HAS_OPENDP = importlib.util.find_spec("opendp") is not None
NEEDS_OPENDP = pytest.mark.skipif(not HAS_OPENDP, reason="needs the extra 'secure'")
ENGINES = ["integers", pytest.param("opendp", marks=NEEDS_OPENDP)]
_RATES: dict[str, float] = {}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("law", [DiscreteLaplace(4.0), DiscreteGaussian(4.0)], ids=str)
@pytest.mark.benchmark(group="independent noise with integers only")
def test_independent(benchmark, enter, law, engine):
    benchmark.pedantic(draw_independent, args=(law, 5000, engine), rounds=5, warmup_rounds=1)
    enter(f"{law}, {engine}", 5000 / benchmark.stats.stats.min, "numbers a second")


@pytest.mark.parametrize(("cells", "size"), [(102, 40), (3143, 2)])
@pytest.mark.parametrize(("law", "scale"), [("l1", EPSILON), ("gaussian", 4.0)])
@pytest.mark.benchmark(group="fixed total with integers only")
def test_fixed_total(benchmark, enter, law, scale, cells, size):
    invariants = Invariants(Totals({"county": range(cells)}))
    benchmark.pedantic(draw_secure, args=(invariants, law, scale, size), rounds=3, warmup_rounds=1)
    rate = _RATES[f"{law} {cells}"] = size / benchmark.stats.stats.min
    enter(f"fixed total over {cells} cells, {law}, integers only", rate, "draws a second")


@NEEDS_OPENDP
@pytest.mark.benchmark(group="fixed total with integers only")
def test_fixed_total_from_opendp(benchmark, enter):
    """What one could do with OpenDP alone: independent noise until its sum is zero; the tries are counted, not waited for."""
    law = DiscreteLaplace(1.0 / EPSILON)

    def tries() -> np.ndarray:
        return draw_independent(law, 100 * 102, "opendp").reshape(100, 102)

    benchmark.pedantic(tries, rounds=5, warmup_rounds=1)
    kept = 0.00539  # tanh(epsilon / 2)**d times the Legendre polynomial P_(d-1)(coth epsilon)
    rate = kept * 100 / benchmark.stats.stats.min
    enter("fixed total over 102 cells, l1, rejection on OpenDP's noise", rate, "draws a second")
    enter("the same, integers only against it", _RATES["l1 102"] / rate, "times")
