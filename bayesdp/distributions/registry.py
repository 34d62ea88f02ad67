"""Which PyMC distribution a noise law has: filled by what makes the distributions, asked by what puts them into models."""

from __future__ import annotations

from typing import Any

from bayesdp.noise.base import NoiseLaw

_DISTRIBUTIONS: dict[type[NoiseLaw], Any] = {}


def register_distribution(law_type: type[NoiseLaw], distribution: Any) -> None:
    """Make a PyMC distribution that of a noise law, so that `bayesdp.observe` finds it.

    Parameters
    ----------
    law_type : type
        A `NoiseLaw`; a later distribution takes the place of an earlier one.
    distribution : type
        A PyMC distribution; called with a name, ``mu``, the parameters of the law by their names
        (`NoiseLaw.model_parameters`), for noise that is not independent ``invariants``, and ``observed`` and ``dims``.
        Where the Op of its random variable has ``law_type`` too, the posterior kernel asks the law for its form.
    """
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
        If none is registered.

    Examples
    --------
    >>> from bayesdp import distributions, noise
    >>> distribution_of(noise.DiscreteLaplace) is distributions.DiscreteLaplace
    True
    """
    if law_type not in _DISTRIBUTIONS:
        raise NotImplementedError(
            f"no PyMC distribution is registered for the noise law {law_type.name!r}, so that a model cannot have it: "
            "bayesdp.distributions.register_distribution does that"
        )
    return _DISTRIBUTIONS[law_type]
