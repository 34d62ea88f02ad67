"""Canonical noise of any symmetric trade-off function, as a law of releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bayesdp.noise.independent.standard import StandardLaw
from bayesdp.privacy.canonical import CanonicalNoise
from bayesdp.privacy.tradeoffs import TradeOff
from bayesdp.privacy.tradeoffs.description import describe_tradeoff, tradeoff_from_description


@dataclass(frozen=True, eq=False)
class Canonical(StandardLaw):
    """Independent canonical noise of each answer: two answers that differ by one are as hard to tell apart as f says, at every level.

    For (epsilon, delta) that is `Tulap`, for mu-GDP normal noise of standard deviation ``1 / mu``: those laws are faster. This one
    is for any other symmetric f.

    ========  ====================================================================
    Support   real numbers; within a bounded distance of the answer if f(0) < 1
    Mean      the answer
    Variance  by quadrature
    ========  ====================================================================

    Parameters
    ----------
    tradeoff : TradeOff, or its description
        Symmetric, and other than ``1 - alpha``.

    Raises
    ------
    TypeError, ValueError
        If there is no canonical noise for it.
    NotImplementedError
        If files cannot name it, see `bayesdp.privacy.describe_tradeoff`.

    See Also
    --------
    bayesdp.distributions.CanonicalNoise : the same law as a PyMC distribution.
    bayesdp.mechanisms.SemiCanonical : the mechanism that adds this noise under invariants.

    References
    ----------
    Awan and Vadhan (2023), Canonical Noise Distributions and Private Hypothesis Tests; Cho and Awan, Definition 35 and Lemma 36.

    Examples
    --------
    >>> from bayesdp.privacy import tradeoff
    >>> law = Canonical(tradeoff([0.75, 0.25], [0.25, 0.75]))
    >>> print(f"{law.logp([10.3], [10]):.6f}")
    -0.693147
    >>> bool(abs(law.draw(1, shape=(3,))).max() < 5)
    True
    """

    tradeoff: TradeOff

    name = "canonical"

    def __post_init__(self) -> None:
        given: Any = self.tradeoff
        tradeoff = tradeoff_from_description(given) if isinstance(given, Mapping) else given
        describe_tradeoff(tradeoff)  # raises if files cannot name it
        tradeoff.canonical_noise()  # raises if there is none
        object.__setattr__(self, "tradeoff", tradeoff)

    @property
    def standard(self) -> CanonicalNoise:
        """The law around zero."""
        return self.tradeoff.canonical_noise()

    def describe(self) -> dict[str, Any]:
        """Describe the law, see `NoiseLaw.describe`."""
        return {"law": self.name, "tradeoff": describe_tradeoff(self.tradeoff)}
