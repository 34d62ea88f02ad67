"""Which PyMC distribution a noise law has: filled by what makes the distributions, asked by what puts them into models."""

from __future__ import annotations

from typing import Any

from bayesdp.noise.base import NoiseLaw

__all__ = ["distribution_of", "register_distribution"]

_DISTRIBUTIONS: dict[type[NoiseLaw], Any] = {}


def register_distribution(law_type: type[NoiseLaw], distribution: Any) -> None:
    """Say which distribution a law has."""
    _DISTRIBUTIONS[law_type] = distribution


def distribution_of(law_type: type[NoiseLaw]) -> Any:
    """The PyMC distribution of a noise law.

    Parameters
    ----------
    law_type : type of NoiseLaw

    Returns
    -------
    type of pymc.Distribution

    Raises
    ------
    NotImplementedError
        If none was registered.

    Examples
    --------
    >>> from bayesdp import distributions, noise
    >>> distribution_of(noise.DiscreteLaplace) is distributions.DiscreteLaplace
    True
    """
    if law_type not in _DISTRIBUTIONS:
        raise NotImplementedError(
            f"no PyMC distribution is registered for the noise law {law_type.name!r}; those of independent values are made by "
            "bayesdp.distributions.scalar_distribution and bounded_distribution"
        )
    return _DISTRIBUTIONS[law_type]
