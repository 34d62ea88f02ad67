"""How many chains and draws ``pm.sample`` will make of its arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pymc.sampling.parallel import _cpu_count  # what ``pm.sample`` counts cores with

_DRAWS = _TUNE = 1000
_CORES = 4


def planned(args: Sequence[Any], given: Mapping[str, Any]) -> tuple[int, int, int]:
    """Chains, draws of each, and draws before them, with PyMC's defaults.

    Parameters
    ----------
    args, given
        Arguments of ``pm.sample``.

    Examples
    --------
    >>> planned([500], {"chains": 2})
    (2, 500, 1000)
    """
    draws = args[0] if args else given.get("draws", _DRAWS)
    cores, chains, tune = given.get("cores"), given.get("chains"), given.get("tune")
    if chains is None:
        chains = max(2, min(_CORES, _cpu_count()) if cores is None else cores)
    return int(chains), int(draws), _TUNE if tune is None else int(tune)
