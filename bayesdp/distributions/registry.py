"""Which PyMC distribution a noise law has."""

from __future__ import annotations

from typing import Any

from bayesdp.noise.base import NoiseLaw

__all__ = ["distribution_of", "register_distribution"]

_DISTRIBUTIONS: dict[type[NoiseLaw], Any] = {}


def register_distribution(law_type: type[NoiseLaw], distribution: Any) -> None:
    """Say that a law has this distribution; a later one takes its place."""
    _DISTRIBUTIONS[law_type] = distribution


def distribution_of(law_type: type[NoiseLaw]) -> Any:
    """The PyMC distribution of a noise law.

    Parameters
    ----------
    law_type : type
        A `bayesdp.noise.NoiseLaw`.

    Returns
    -------
    type
        A subclass of `pymc.Distribution`.

    Raises
    ------
    NotImplementedError
        If the law has none.

    Examples
    --------
    >>> from bayesdp import noise
    >>> distribution_of(noise.ProjectedGaussian).__name__
    'ProjectedGaussian'
    """
    if law_type not in _DISTRIBUTIONS:
        raise NotImplementedError(f"no PyMC distribution is registered for the noise law {law_type.name!r}")
    return _DISTRIBUTIONS[law_type]
