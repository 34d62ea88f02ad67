"""Independent integer noise for releases: by OpenDP where it is installed, else by exact fractions.

Both take the scale as the fraction that the float is, and use integers only from the operating system's entropy to the
noise. OpenDP is Rust code that others have reviewed; it comes with the extra ``secure``.
"""

from __future__ import annotations

from fractions import Fraction
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np

from bayesdp._arrays import Ints
from bayesdp._validate import choice, instance, nonnegative_integer
from bayesdp.lattices.secure import draw_discrete_gaussian, draw_discrete_laplace, system_bits
from bayesdp.noise.base import NoiseLaw
from bayesdp.privacy.caveats import IntegersOnly

ENGINES = ("auto", "opendp", "integers")
"""``auto`` is OpenDP where it is installed, else our own integers."""

_LARGEST = 2**53


def engine_for(engine: str = "auto") -> str:
    """Say what would draw: ``opendp`` or ``integers``."""
    choice(engine, ENGINES, "engine")
    installed = engine != "integers" and find_spec("opendp") is not None
    if engine == "opendp" and not installed:
        raise ImportError("engine='opendp' needs the extra 'secure': pip install 'bayesdp[secure]'")
    return "opendp" if installed else "integers"


def statement(engine: str = "auto", *, extra: bool = True) -> IntegersOnly:
    """Say in a guarantee what draws the noise; `extra` adds that OpenDP could, where it is not what does."""
    return IntegersOnly(version("opendp") if engine_for(engine) == "opendp" else "", extra)


def draw_independent(law: NoiseLaw, size: int, engine: str = "auto") -> Ints:
    """Draw independent noise of one scale around zero, with integer arithmetic only, by a law that has `draw_by_integers`.

    TypeError if the law has no such sampler, or several scales; OverflowError for noise too large to be added to a count exactly.
    """
    instance(law, NoiseLaw, "law must be a noise law such as DiscreteLaplace(b=2.0)", quoted=True)
    if law.independent and any(isinstance(value, np.ndarray) for value in law.model_parameters().values()):
        raise TypeError(f"law must have one scale for all answers, got {law}")
    found = law.draw_by_integers(nonnegative_integer(size, "size"), engine_for(engine))
    if any(abs(value) >= _LARGEST for value in found):
        raise OverflowError(f"noise of 2**53 or more was drawn, and cannot be added to a count exactly; law {law}")
    return np.array(found, dtype=np.int64)


def laplace_by_integers(b: float, size: int, engine: str) -> list[int]:
    """Discrete Laplace noise of one scale around zero, by ``opendp`` or by our own ``integers``."""
    if engine == "opendp":
        return _by_opendp("make_laplace", "l1_distance", "i64", b, size)
    exact = Fraction(b)
    return [draw_discrete_laplace(system_bits, exact) for _ in range(size)]


def gaussian_by_integers(sigma: float, size: int, engine: str) -> list[int]:
    """Discrete Gaussian noise of one scale around zero, by ``opendp`` or by our own ``integers``."""
    if engine == "opendp":
        return _by_opendp("make_gaussian", "l2_distance", "f64", sigma, size)
    exact = Fraction(sigma)
    return [draw_discrete_gaussian(system_bits, exact**2) for _ in range(size)]


def _by_opendp(maker: str, metric: str, measured_in: str, scale: float, size: int) -> list[int]:
    """Noise by OpenDP, called with the feature that its constructors ask for; its switches are left as they were."""
    if not size:
        return []
    dp: Any = import_module("opendp.prelude")
    switches: Any = import_module("opendp.mod")
    domain, distance = dp.vector_domain(dp.atom_domain(T="i64")), getattr(dp, metric)(T=measured_in)
    before = "contrib" in switches.GLOBAL_FEATURES
    switches.enable_features("contrib")
    try:
        drawn: list[int] = getattr(dp.m, maker)(domain, distance, scale=scale)([0] * size)
        return drawn
    finally:
        if not before:
            switches.disable_features("contrib")
