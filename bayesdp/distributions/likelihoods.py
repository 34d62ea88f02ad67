"""The observed variable of a measurement: noise of a law around what was asked of the counts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import singledispatch
from typing import Any

from bayesdp.distributions.registry import distribution_of
from bayesdp.invariants import Invariants
from bayesdp.noise.base import NoiseLaw


@singledispatch
def add_likelihood(
    law: NoiseLaw, name: str, mu: Any, parameters: Mapping[str, Any], *, invariants: Invariants | None, **data: Any
) -> None:
    """Add the observed variable of one measurement to the current model; laws with more than one way register theirs.

    Parameters
    ----------
    law : NoiseLaw
    name : str
    mu : tensor variable
        Answers that the noise was added to.
    parameters : mapping
        Those of the law (`NoiseLaw.model_parameters`), of the shape of the answers that were published.
    invariants : Invariants or None
        What the noise leaves as it is, in terms of the answers; None for independent noise.
    **data
        ``observed``, the noisy answers, and ``dims``.

    Raises
    ------
    NotImplementedError
        If no PyMC distribution is known for the law.
    """
    kept = {} if invariants is None else {"invariants": invariants}
    distribution_of(type(law))(name, mu=mu, **parameters, **kept, **data)
