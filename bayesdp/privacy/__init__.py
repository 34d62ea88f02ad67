"""Privacy accounting without PyMC: conversions between definitions of privacy, and guarantees.

- zCDP of Gaussian noise and its conversion: `gaussian_rho`, `rho_to_epsilon`, ...
- the exact Gaussian mechanism: `gaussian_delta`, `gaussian_epsilon`, `gaussian_sigma`, `gaussian_mu`;
- the exact discrete Gaussian: `discrete_gaussian_delta`, `discrete_gaussian_epsilon`;
- the paper's Lemma 3.4, where it holds: `lemma_3_4_sigma`;
- sensitivities of linear queries, with and without invariants: `query_sensitivity`, `projected_sensitivity`,
  `neighbour_differences`; these know tables, and are imported when first used, so that the arithmetic starts in a moment;
- shapes of Gaussian noise: `enclosing_ellipsoid`, `base_decomposition`, `optimal_factorization`;
- what a mechanism protects: `Guarantee`, with rows `PairLoss` for pairs of neighbouring tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayesdp.privacy.discrete_gaussian import discrete_gaussian_delta, discrete_gaussian_epsilon
from bayesdp.privacy.ellipsoids import (
    BaseDecomposition,
    EnclosingEllipsoid,
    Factorization,
    base_decomposition,
    enclosing_ellipsoid,
    optimal_factorization,
)
from bayesdp.privacy.gaussian import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    gaussian_sigma,
    gaussian_sigma_for_mu,
)
from bayesdp.privacy.guarantee import (
    EXACT_SAMPLER,
    FLOATING_POINT_CAVEAT,
    Guarantee,
    gibbs_sampler,
    hit_and_run_sampler,
)
from bayesdp.privacy.lemma import lemma_3_4_sigma
from bayesdp.privacy.pairs import DIFFERENCES, Difference, PairLoss, gaussian_pairs, pure_pairs
from bayesdp.privacy.zcdp import (
    gaussian_rho,
    gaussian_sigma_for_rho,
    rho_to_delta,
    rho_to_epsilon,
    rho_within,
)

if TYPE_CHECKING:
    from bayesdp.privacy.sensitivity import neighbour_differences, projected_sensitivity, query_sensitivity

__all__ = [
    "DIFFERENCES",
    "EXACT_SAMPLER",
    "FLOATING_POINT_CAVEAT",
    "BaseDecomposition",
    "Difference",
    "EnclosingEllipsoid",
    "Factorization",
    "Guarantee",
    "PairLoss",
    "base_decomposition",
    "discrete_gaussian_delta",
    "discrete_gaussian_epsilon",
    "enclosing_ellipsoid",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "gaussian_pairs",
    "gaussian_rho",
    "gaussian_sigma",
    "gaussian_sigma_for_mu",
    "gaussian_sigma_for_rho",
    "gibbs_sampler",
    "hit_and_run_sampler",
    "lemma_3_4_sigma",
    "neighbour_differences",
    "optimal_factorization",
    "projected_sensitivity",
    "pure_pairs",
    "query_sensitivity",
    "rho_to_delta",
    "rho_to_epsilon",
    "rho_within",
]

_TABLES = frozenset({"neighbour_differences", "projected_sensitivity", "query_sensitivity"})
"""Public names of `bayesdp.privacy.sensitivity`, which needs tables, queries and invariants."""

# Hidden from type checkers, which read the import above.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a sensitivity when it is first asked for."""
        if name in _TABLES:
            from bayesdp.privacy import sensitivity

            return getattr(sensitivity, name)
        raise AttributeError(f"module 'bayesdp.privacy' has no attribute {name!r}; it offers {', '.join(__all__)}")
