"""The extended Gaussian mechanism: the sensitivity that is left within the noise space sets the scale."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from bayesdp.mechanisms.subspace.gaussian import IsotropicGaussian
from bayesdp.privacy import projected_sensitivity


@dataclass(frozen=True)
class ExtendedGaussian(IsotropicGaussian):
    """Publish answers with normal noise of scale sigma on the space that the invariants leave free.

    The same law as that of `ProjectedGaussian`, with a scale that is at most as large: it protects ``Q^T W x``, the
    answers projected onto the noise space, whose sensitivity is at most that of the answers ``W x``. What the invariants
    say about the answers is published exactly in any case.

    Parameters
    ----------
    invariants : Query, iterable of Query, or Invariants
        What is published exactly.
    rho : float, optional
        zCDP loss for neighbouring tables.
    epsilon, delta : float, optional
        The same by approximate differential privacy.
    mu : float, optional
        The same by Gaussian differential privacy.
    query : Query, optional
        What the noise is added to; the cells themselves if left out.
    neighbours : {"substitution", "add-remove"}
        Neighbouring tables: one record changes its cell, or one record comes or goes.
    calibration : {"analytic", "lemma 3.4"}
        As in `ProjectedGaussian`.

    Raises
    ------
    TypeError, ValueError
        As in `ProjectedGaussian`.

    See Also
    --------
    CorrelatedGaussian : noise of a shape of its own, for general queries.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Algorithm 1 and Corollary 3.6.

    Examples
    --------
    >>> from bayesdp.mechanisms import ProjectedGaussian
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
    >>> both = Margins(table, ["county"], ["education"])
    >>> print(f"{ExtendedGaussian(both, mu=0.5).sigma:.4f} {ProjectedGaussian(both, mu=0.5).sigma:.4f}")
    2.3094 2.8284
    """

    name = "extended-gaussian"

    @cached_property
    def sensitivity(self) -> float:
        """The largest l2 distance between the projected answers of neighbouring tables, in counts."""
        return projected_sensitivity(self.released_query, self.invariants, "l2", self.neighbours)
