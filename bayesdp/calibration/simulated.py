"""What a simulator gives back: the truth, and what was released of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Simulated:
    """A truth drawn from the prior, and a release of it.

    Attributes
    ----------
    truth : mapping
        Values of the model's variables by name: parameters and the confidential table.
    release : object
        What ``build_model`` gets: a `bayesdp.Release`, or what another mechanism released.

    Raises
    ------
    TypeError, ValueError
        If the truth is not a mapping from names to finite numbers.

    Examples
    --------
    >>> Simulated({"rate": 2.0, "x": [1, 3]}, release=None).truth["x"]
    array([1, 3])
    """

    truth: Mapping[str, npt.NDArray[Any]]
    release: Any

    def __post_init__(self) -> None:
        given: Any = self.truth
        if not isinstance(given, Mapping) or not given:
            raise TypeError(f"truth must be a mapping from names of variables to values, got {given!r}")
        values = {}
        for name, value in given.items():
            if not isinstance(name, str):
                raise TypeError(f"truth must have names of variables as keys, got {name!r}")
            array = np.asarray(value)
            if array.dtype.kind not in "iufb" or not np.all(np.isfinite(array)):
                raise ValueError(f"truth[{name!r}] must hold finite numbers, got {value!r}")
            values[name] = array
        object.__setattr__(self, "truth", values)


type Simulate = Callable[[np.random.Generator], Simulated | tuple[Mapping[str, Any], Any]]
"""Draws parameters and a table from the prior and releases the table, all with the generator it gets."""


def simulated(simulate: Simulate, rng: np.random.Generator) -> Simulated:
    """Run a simulator, and accept a pair ``(truth, release)`` as well.

    Examples
    --------
    >>> simulated(lambda rng: ({"p": rng.random()}, None), np.random.default_rng(1)).truth["p"]
    array(0.51182162)
    """
    result: Any = simulate(rng)
    if isinstance(result, Simulated):
        return result
    if isinstance(result, tuple) and len(result) == 2:
        return Simulated(*result)
    raise TypeError(f"simulate must give back Simulated(truth, release) or that pair, got {type(result).__name__}")
