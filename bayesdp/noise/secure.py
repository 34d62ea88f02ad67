"""Independent integer noise for releases: by OpenDP where it is installed, else by exact fractions.

Both take the scale as the fraction that the float is, and use integers only from the operating system's entropy to the
noise. OpenDP is Rust code that others have reviewed; it comes with the extra ``secure``.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np

from bayesdp._validate import choice
from bayesdp.lattices.coins import exact_fraction, system_bits
from bayesdp.lattices.rational import draw_discrete_gaussian, draw_discrete_laplace
from bayesdp.noise._rng import count_of
from bayesdp.noise.base import Ints
from bayesdp.noise.independent.discrete_gaussian import DiscreteGaussian
from bayesdp.noise.independent.discrete_laplace import DiscreteLaplace

__all__ = ["ENGINES", "draw_independent", "engine_for", "statement"]

ENGINES = ("auto", "opendp", "integers")
"""``auto`` is OpenDP where it is installed, else our own integers."""

_LARGEST = 2**53


def engine_for(engine: str = "auto") -> str:
    """Say what would draw: ``opendp`` or ``integers``.

    Raises
    ------
    ImportError
        If OpenDP is asked for and not installed.
    """
    choice(engine, ENGINES, "engine")
    installed = engine != "integers" and find_spec("opendp") is not None
    if engine == "opendp" and not installed:
        raise ImportError("engine='opendp' needs the extra 'secure': pip install 'bayesdp[secure]'")
    return "opendp" if installed else "integers"


def statement(engine: str = "auto", *, extra: bool = True) -> str:
    """Say in a guarantee what draws the noise; `extra` adds that OpenDP could, where it is not what does."""
    if engine_for(engine) == "opendp":
        return (
            f"The noise is drawn by OpenDP {version('opendp')}, with integer arithmetic only, from the operating system's "
            "entropy: there is no rounding."
        )
    instead = " (the extra 'secure' uses OpenDP instead)" if extra else ""
    return (
        "The noise is drawn with integer arithmetic only, from the operating system's entropy, by the algorithms of Canonne, "
        f"Kamath and Steinke (2020): there is no rounding. Nobody outside has vetted this implementation{instead}, and how "
        "long it runs depends on the noise."
    )


def draw_independent(law: DiscreteLaplace | DiscreteGaussian, size: int, engine: str = "auto") -> Ints:
    """Draw independent noise of one scale around zero, with integer arithmetic only.

    Parameters
    ----------
    law : DiscreteLaplace or DiscreteGaussian
        With one scale for all.
    size : int
        How many numbers.
    engine : {"auto", "opendp", "integers"}

    Returns
    -------
    int64 array, shape (size,)

    Raises
    ------
    TypeError
        If the law is another one, or has several scales.
    ImportError
        If OpenDP is asked for and not installed.
    OverflowError
        If noise comes out that is too large to be added to a count exactly.

    Examples
    --------
    >>> draw_independent(DiscreteGaussian(sigma=3.0), 5, engine="integers").shape
    (5,)
    """
    known: Any = law
    if not isinstance(known, DiscreteLaplace | DiscreteGaussian):
        raise TypeError(f"law must be a DiscreteLaplace or a DiscreteGaussian, got {law!r}")
    scale = known.b if isinstance(known, DiscreteLaplace) else known.sigma
    if not isinstance(scale, float):
        raise TypeError(f"law must have one scale for all answers, got {law}")
    count = count_of(size)
    draw = _by_opendp if engine_for(engine) == "opendp" else _by_integers
    found = draw(law, scale, count)
    if any(abs(value) >= _LARGEST for value in found):
        raise OverflowError(f"noise of 2**53 or more was drawn, and cannot be added to a count exactly; law {law}")
    return np.array(found, dtype=np.int64)


def _by_integers(law: DiscreteLaplace | DiscreteGaussian, scale: float, count: int) -> list[int]:
    exact = exact_fraction(scale)
    if isinstance(law, DiscreteLaplace):
        return [draw_discrete_laplace(system_bits, exact) for _ in range(count)]
    return [draw_discrete_gaussian(system_bits, exact**2) for _ in range(count)]


def _by_opendp(law: DiscreteLaplace | DiscreteGaussian, scale: float, count: int) -> list[int]:
    if not count:
        return []
    dp: Any = import_module("opendp.prelude")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    if isinstance(law, DiscreteLaplace):
        return _with_contrib(lambda: dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=scale)([0] * count))
    return _with_contrib(lambda: dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=scale)([0] * count))


def _with_contrib(draw: Callable[[], list[int]]) -> list[int]:
    """Call OpenDP with the feature that its constructors ask for, and leave its switches as they were."""
    switches: Any = import_module("opendp.mod")
    before = "contrib" in switches.GLOBAL_FEATURES
    switches.enable_features("contrib")
    try:
        return draw()
    finally:
        if not before:
            switches.disable_features("contrib")
